/* The tokenizer on long texts: linear time, on a small stack, whatever the text repeats. */
#include <pthread.h>
#include <time.h>

#include "support/emulated.h"
#include "vocab_make.h"

typedef struct long_run {
    const test_vocab *v;
    const char *text;
    size_t n;
    void *scratch;
    dct_token *ids;
    uint64_t n_ids;
    double seconds;
} long_run;

static void *encode_long(void *arg) {
    long_run *run = arg;
    dct_err err = {0};
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    if (dct_tokenizer_encode(run->v->t, run->text, run->n, false, true, run->scratch, run->ids, run->n + 1, &run->n_ids, &err) != DCT_OK)
        run->n_ids = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    run->seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    return NULL;
}

/* Encodes on a stack of 64 KiB. */
static void run_on_small_stack(long_run *run) {
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
#ifdef DCT_SANITIZED
    pthread_attr_setstacksize(&attr, 1 << 20); /* sanitizers want more than we do */
#else
    pthread_attr_setstacksize(&attr, 64 << 10);
#endif
    assert_int_equal(pthread_create(&thread, &attr, encode_long, run), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    assert_int_not_equal(run->n_ids, 0);
}

/* Ten times the text takes at most forty times as long (ten, a logarithm, and what caches do), not a hundred. */
static void check_linear(const test_vocab *v, const char *unit, size_t n) {
    size_t n_unit = strlen(unit);
    char *text = malloc(n);
    for (size_t i = 0; i < n; i++) text[i] = unit[i % n_unit];
    n -= n % n_unit;
    long_run run = {v, text, n / 10 / n_unit * n_unit, malloc(dct_tokenizer_scratch_bytes(n)), malloc((n + 1) * sizeof(dct_token)), 0, 0};
    run_on_small_stack(&run);
    double short_seconds = run.seconds;
    run.n = n;
    run_on_small_stack(&run);
    if (run.seconds > 40 * short_seconds + 0.5)
        fail_msg("'%s': %.3f s, and ten times as much (%zu bytes) %.3f s", unit, short_seconds, n, run.seconds);
    free(run.ids);
    free(run.scratch);
    free(text);
}

static void test_long_texts(void **state) {
    (void)state;
    static const char *const units[] = {"A", " ", "\n", "中"}, *const others[] = {"'", "<", "a b\n", "1", "\xff"};
    const size_t part = emulated("a tenth of the long texts") ? 10 : 1, long_text = (10u << 20) / part, shorter_text = (2u << 20) / part;
    made_vocab m;
    gguf_build b;
    made_spm(&m);
    for (size_t i = 2; i <= 16; i *= 2) made_token(&m, &"▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁"[3 * (16 - i)], 1, -(float)i);
    for (size_t i = 1; i <= 16; i *= 2) made_token(&m, &"AAAAAAAAAAAAAAAA"[16 - i], 1, -(float)i);
    made_write(&m, &b, true, NULL);
    test_vocab spm = made_open_good(&b), bpe;
    dct_err err = {0};
    if (test_vocab_open(&bpe, DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-f16.gguf", &err) != DCT_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        check_linear(&bpe, units[i], long_text);
        check_linear(&spm, units[i], long_text);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        check_linear(&bpe, others[i], shorter_text);
        check_linear(&spm, others[i], shorter_text);
    }
    test_vocab_free(&bpe);
    /* one long word that merges all the way, and each of the cuts */
    static const char *const cuts[] = {"qwen2", "llama-bpe", "gpt-2", "smollm", "deepseek-llm", "default"};
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        made_bpe(&m);
        for (size_t i = 1; i <= 8; i *= 2) made_merge(&m, &"AAAAAAAA"[8 - i], &"AAAAAAAA"[8 - i]);
        made_write(&m, &b, false, cuts[c]);
        bpe = made_open_good(&b);
        check_linear(&bpe, "A", shorter_text);
        check_linear(&bpe, c % 2 != 0 ? " " : "1", shorter_text);
        check_linear(&bpe, c % 2 != 0 ? "中" : "\n", shorter_text);
        test_vocab_free(&bpe);
    }
    test_vocab_free(&spm);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_long_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
