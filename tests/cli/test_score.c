/* score in windows: a text that is longer than the context scores as the second halves of its windows do, each evaluated alone. */
#define WORK DCT_BINARY_DIR "/test_score."

#include "cli/command_support.h"
#include "support/emulated.h"

#include <math.h>
#include <unistd.h>

enum { MAX_IDS = 8192, HEAD = 16 };

static uint32_t window = 1024;

/* with.gguf begins a text with a token of its own. */
static int make_files(void **state) {
    (void)state;
    static const char key[] = "tokenizer.ggml.add_bos_token";
    begin_files();
    make_texts();
    if (emulated("windows of 100 tokens, not of 1,024")) {
        window = 100;
        if (truncate(WORK "long.txt", 700) != 0) fail();
    }
    size_t n;
    char *bytes = read_whole(MODEL, &n), *at = memmem(bytes, n, key, strlen(key));
    assert_non_null(at);
    at[strlen(key) + 4] = 1; /* behind the type */
    write_whole("with.gguf", bytes, n);
    free(bytes);
    return 0;
}

/* Prints what a line prints; the caller's to free. */
static char *said(const char *line) {
    child c = start(line);
    expect_code(&c, line, 0);
    char *text = strdup(c.text[0]);
    drop(&c);
    return text;
}

static uint32_t read_ids(const char *model, uint32_t *ids) {
    char line[256];
    uint32_t n = 0;
    snprintf(line, sizeof line, "tokenize %s -f $Wlong.txt --ids --special", model);
    char *text = said(line);
    for (char *word = strtok(text, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        assert_true(n < MAX_IDS);
        ids[n++] = (uint32_t)strtoul(word, NULL, 10);
    }
    free(text);
    return n;
}

static void write_ids(const uint32_t *ids, uint32_t n) {
    static char text[MAX_IDS * 8];
    size_t used = 0;
    for (uint32_t i = 0; i < n; i++) used += (size_t)snprintf(text + used, sizeof text - used, "%u ", ids[i]);
    write_whole("ids", text, used);
}

/* The second half of a window by itself, from its logits. */
static double second_half(const char *model, const uint32_t *ids) {
    char line[256];
    size_t n_bytes;
    uint32_t head[4];
    double sum = 0;
    write_ids(ids, window);
    snprintf(line, sizeof line, "score %s --ids-file $Wids --save-logits $Wlogits", model);
    free(said(line));
    char *bytes = read_whole(WORK "logits", &n_bytes);
    memcpy(head, bytes, sizeof head);
    assert_int_equal(head[2], window);
    float *row = malloc(head[3] * sizeof *row);
    for (uint32_t i = window / 2; i + 1 < window; i++) {
        double all = 0;
        memcpy(row, bytes + HEAD + (size_t)i * head[3] * sizeof *row, head[3] * sizeof *row);
        for (uint32_t k = 0; k < head[3]; k++) all += exp(row[k] - row[ids[i + 1]]);
        sum += log(all);
    }
    free(row);
    free(bytes);
    return sum;
}

static void check_windows(const char *model, bool has_begin) {
    static uint32_t ids[MAX_IDS];
    char line[256], wanted[256];
    uint32_t n = read_ids(model, ids), n_windows = n / window, n_scored = n_windows * (window - window / 2 - 1), begin = ids[0];
    double sum = 0;
    assert_true(n_windows > 1 && n % window > 0);
    snprintf(line, sizeof line, "score %s -f $Wlong.txt -c %u", model, window);
    char *whole = said(line);
    write_ids(ids, n);
    snprintf(line, sizeof line, "score %s --ids-file $Wids -c %u -ub 70", model, window);
    char *of_ids = said(line);
    assert_string_equal(whole, of_ids);
    for (uint32_t i = 0; i < n_windows; i++) {
        if (has_begin) ids[i * window] = begin;
        sum += second_half(model, ids + i * window);
    }
    snprintf(wanted, sizeof wanted, "tokens %u, %u windows of %u, the second half of each scored: %u tokens, mean nll ", n, n_windows,
             window, n_scored);
    if (strncmp(whole, wanted, strlen(wanted)) != 0) fail_msg("'%s', not '%s'", whole, wanted);
    double mean = strtod(whole + strlen(wanted), NULL);
    if (fabs(mean - sum / n_scored) > 1e-5) fail_msg("%f, not %f", mean, sum / n_scored);
    free(whole);
    free(of_ids);
}

static void windows_score_as_their_second_halves(void **state) {
    (void)state;
    check_windows("$M", false);
    check_windows("$Wwith.gguf", true);
}

/* Logits are kept and compared of whole texts; and a window has a half that can be scored. */
static void what_windows_cannot_do_is_refused(void **state) {
    (void)state;
    static const char *const lines[] = {"score $M -f $Wlong.txt -c 64 --save-logits $Wx", "score $M -f $Wlong.txt -c 3"};
    for (size_t i = 0; i < 2; i++) {
        child c = start(lines[i]);
        expect_code(&c, lines[i], 4);
        if (c.n[0] != 0 || strstr(c.text[1], "without -c the context is as long as the text") == NULL) fail_msg("%s", c.text[1]);
        drop(&c);
    }
    assert_false(is_there("x"));
    free(said("score $M -f $Wlong.txt -c 4"));
}

/* The ids wait in a file: one that cannot be made is told before anything is opened. */
static void a_file_for_the_ids_is_needed(void **state) {
    (void)state;
    setenv("TMPDIR", WORK "none", 1);
    child c = start("score $M -f $Wlong.txt -c 64");
    unsetenv("TMPDIR");
    expect_code(&c, "score", 5);
    if (c.n[0] != 0 || strstr(c.text[1], "dctms: cannot write " WORK "none/dctms-") != c.text[1]) fail_msg("%s", c.text[1]);
    drop(&c);
}

static void refuse_ids(const char *text, size_t n, const char *says) {
    write_whole("ids", text, n);
    child c = start("score $M --ids-file $Wids");
    expect_code(&c, says, 1);
    if (strstr(c.text[1], says) == NULL) fail_msg("%s", c.text[1]);
    drop(&c);
}

/* An id is an index into a row of logits. */
static void ids_are_tokens_that_there_are(void **state) {
    (void)state;
    static const char nul[] = "1 2 3\0 4 5", last[] = "1 2 1536", far[] = "1 2 4000000000", huge[] = "1 99999999999999999999 2";
    refuse_ids(nul, sizeof nul - 1, "byte 5: not a list of token ids");
    refuse_ids(last, sizeof last - 1, "byte 4: '1536' is no token, there are 1536");
    refuse_ids(far, sizeof far - 1, "byte 4: '4000000000' is no token");
    refuse_ids(huge, sizeof huge - 1, "is no token");
    refuse_ids("1 -1 2", 6, "byte 2: not a list of token ids");
    write_whole("ids", "1 2 1535", 8);
    free(said("score $M --ids-file $Wids"));
}

/* A vocabulary that has no token for a space spells it in three. */
static void a_text_may_have_more_tokens_than_bytes(void **state) {
    (void)state;
    static const char space[] = "\3\0\0\0\0\0\0\0\342\226\201";
    size_t n;
    char text[401];
    free(said("synth tiny-gemma3 --type Q8_0 -o $Wspm.gguf"));
    char *bytes = read_whole(WORK "spm.gguf", &n), *at = memmem(bytes, n, space, sizeof space - 1);
    assert_non_null(at);
    memcpy(at + 8, "\1\2\3", 3);
    write_whole("spm.gguf", bytes, n);
    free(bytes);
    memset(text, ' ', 400);
    text[400] = 'x';
    write_whole("spaces", text, sizeof text);
    char *ids = said("tokenize $Wspm.gguf -f $Wspaces --ids"), *scores = said("score $Wspm.gguf -f $Wspaces");
    unsigned n_ids = 1;
    for (const char *blank = ids; (blank = strchr(blank, ' ')) != NULL; blank++) n_ids++;
    if (n_ids < 2 * sizeof text) fail_msg("%u tokens", n_ids);
    unsigned n_scored = (unsigned)strtoul(scores + strlen("tokens "), NULL, 10); /* which have a beginning besides */
    if (n_scored != n_ids && n_scored != n_ids + 1) fail_msg("%s", scores);
    free(ids);
    free(scores);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_score_as_their_second_halves),
        cmocka_unit_test(what_windows_cannot_do_is_refused),
        cmocka_unit_test(a_file_for_the_ids_is_needed),
        cmocka_unit_test(ids_are_tokens_that_there_are),
        cmocka_unit_test(a_text_may_have_more_tokens_than_bytes),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
