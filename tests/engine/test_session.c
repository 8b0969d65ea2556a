/* A session's promises: bounds with both numbers, answers that end where they should, no malloc after it is open, and nothing left behind
 * when memory runs out while opening. malloc and mmap are replaced by counting ones here (not under sanitizers, which have their own). */
#include "engine_support.h"
#include "support/emulated.h"
#include "support/gguf_build.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char f16[] = MODELS "tiny-vl-f16.gguf";

/* ---- counting ---- */

static _Atomic uint64_t n_mallocs, n_maps, fail_map_at, intrude_at;
static _Atomic int64_t mapped_bytes;
static void *intruder;

/* More than what lies between neighbours: the system places it below all that is there, as if another thread had mapped it. */
enum { INTRUDER_BYTES = 512 * 1024 * 1024 };

#ifndef DCT_SANITIZED
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n) { n_mallocs++; return __libc_malloc(n); }
void *calloc(size_t n, size_t size) { n_mallocs++; return __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { n_mallocs++; return __libc_realloc(p, n); }

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    if (++n_maps == fail_map_at) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (n_maps == intrude_at)
        intruder = (void *)syscall(SYS_mmap, NULL, INTRUDER_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *p = (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
    if (p != MAP_FAILED) mapped_bytes += (int64_t)((n + 4095) / 4096 * 4096);
    return p;
}

int munmap(void *at, size_t n) {
    mapped_bytes -= (int64_t)((n + 4095) / 4096 * 4096);
    return (int)syscall(SYS_munmap, at, n);
}
#endif

static uint32_t open_files(void) {
    uint32_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d != NULL && readdir(d) != NULL) n++;
    if (d != NULL) closedir(d);
    return n;
}

/* ---- a session and what it says ---- */

static opened open_small(uint32_t n_ctx, int32_t n_output) {
    dctms_plan_params pp = plan_params(n_ctx, n_output, 32, 2);
    return open_all(f16, &pp, DCTMS_ALLOC_PLANNED);
}

static dctms_gen_params greedy(void) {
    dctms_gen_params gp = dctms_gen_default_params();
    gp.temperature = 0;
    return gp;
}

typedef struct heard {
    char text[4096];
    size_t n, calls, stop_after;
} heard;

static bool hear(void *ctx, dctms_token token, const char *text, size_t n) {
    (void)token;
    heard *h = ctx;
    assert_true(h->n + n < sizeof h->text);
    memcpy(h->text + h->n, text, n);
    h->n += n;
    h->text[h->n] = '\0';
    return ++h->calls != h->stop_after;
}

static void ask(dctms_session *s, const char *question) {
    dctms_chat_message m = {"user", question};
    CHECK(dctms_session_rewind(s, 0, &check_err));
    CHECK(dctms_session_chat(s, &m, 1, &check_err));
}

static dctms_result answer(dctms_session *s, const dctms_gen_params *gp, heard *h) {
    dctms_result r;
    memset(h, 0, offsetof(heard, stop_after));
    CHECK(dctms_session_generate(s, gp, hear, h, &r, &check_err));
    return r;
}

/* ---- bounds ---- */

static void a_prompt_of_n_plus_1_is_refused(void **state) {
    (void)state;
    opened o = open_small(80, 16);
    dctms_token tokens[65] = {0};
    dctms_error err;
    assert_int_equal(dctms_session_eval(o.session, tokens, 65, &err), DCTMS_BOUND);
    assert_string_equal(err.message, "the prompt has 65 tokens, the bound is 64 (a context of 80 less 16 of output)");
    assert_int_equal(dctms_session_n_tokens(o.session), 0);
    CHECK(dctms_session_eval(o.session, tokens, 64, &check_err));
    for (uint32_t i = 0; i < 16; i++) CHECK(dctms_session_step(o.session, 0, &check_err));
    assert_int_equal(dctms_session_step(o.session, 0, &err), DCTMS_BOUND);
    assert_string_equal(err.message, "the timeline would have 81 tokens, the bound is 80");
    close_all(o);
}

static void text_that_cannot_fit_is_refused_before_it_is_tokenized(void **state) {
    (void)state;
    opened o = open_small(80, 16);
    dctms_error err;
    size_t n = 1 << 20;
    char *text = malloc(n + 1);
    memset(text, 'a', n);
    text[n] = '\0';
    assert_int_equal(dctms_session_prompt(o.session, text, n, true, &err), DCTMS_BOUND);
    assert_non_null(strstr(err.message, "at least"));
    assert_non_null(strstr(err.message, "the bound is 64"));
    dctms_chat_message m = {"user", text};
    assert_int_equal(dctms_session_chat(o.session, &m, 1, &err), DCTMS_BOUND);
    assert_non_null(strstr(err.message, "at least"));
    text[300] = '\0'; /* fits the buffer, not the bound */
    ask(o.session, "Hello");
    uint32_t before = dctms_session_n_tokens(o.session);
    assert_int_equal(dctms_session_chat(o.session, &m, 1, &err), DCTMS_BOUND);
    assert_int_equal(dctms_session_n_tokens(o.session), before);
    free(text);
    close_all(o);
}

static void unknown_tokens_are_refused(void **state) {
    (void)state;
    opened o = open_small(80, 16);
    dctms_error err;
    dctms_token token = dctms_session_n_vocab(o.session);
    assert_int_equal(dctms_session_eval(o.session, &token, 1, &err), DCTMS_USAGE);
    assert_int_equal(dctms_session_step(o.session, UINT32_MAX, &err), DCTMS_USAGE);
    dctms_gen_params gp = greedy();
    assert_int_equal(dctms_session_generate(o.session, &gp, NULL, NULL, NULL, &err), DCTMS_USAGE); /* nothing to begin with */
    close_all(o);
}

static void senseless_bounds_are_refused(void **state) {
    (void)state;
    dctms_model *model;
    dctms_plan *plan = NULL;
    dctms_error err;
    CHECK(dctms_model_open(f16, &model, &check_err));
    static const struct { uint32_t n_ctx; int32_t n_output; const char *type; } bad[] = {{64, 64, ""}, {64, 65, ""}, {64, -2, ""}, {1, 0, ""}, {64, 8, "q4_0"}, {64, 8, "x"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dctms_plan_params pp = plan_params(bad[i].n_ctx, bad[i].n_output, 0, 1);
        strcpy(pp.type_k, bad[i].type);
        assert_int_equal(dctms_plan_compile(model, &pp, &plan, &err), DCTMS_USAGE);
    }
    dctms_plan_params pp = plan_params(100, -1, 0, 1);
    CHECK(dctms_plan_compile(model, &pp, &plan, &check_err));
    dctms_plan_info info;
    dctms_plan_get_info(plan, &info);
    assert_int_equal(info.n_output, 50);
    assert_int_equal(info.ubatch, 50);
    assert_int_equal(info.m_max_bytes, info.weights_bytes + info.kv_bytes + info.persistent_bytes + info.intermediate_bytes + info.runtime_bytes);
    dctms_plan_free(plan);
    dctms_model_free(model);
}

/* ---- answers ---- */

static void ignoring_the_end_gives_exactly_m(void **state) {
    (void)state;
    opened o = open_small(128, 40);
    heard h = {.stop_after = 0};
    dctms_gen_params gp = greedy();
    gp.ignore_eos = true;
    ask(o.session, "What colour is the sky?");
    dctms_result r = answer(o.session, &gp, &h);
    assert_int_equal(r.n_predicted, 40);
    assert_int_equal(r.finish, DCTMS_FINISH_LENGTH);
    dctms_error err;
    gp.n_predict = 41;
    assert_int_equal(dctms_session_generate(o.session, &gp, NULL, NULL, NULL, &err), DCTMS_BOUND);
    assert_non_null(strstr(err.message, "41"));
    close_all(o);
}

static void stop_strings_are_never_delivered(void **state) {
    (void)state;
    opened o = open_small(128, 40);
    heard h = {.stop_after = 0};
    dctms_gen_params gp = greedy();
    static const struct { const char *stop, *text; } cases[] = {
        {"sky is", "The "}, {"b", "The sky is "}, {" is blue.", "The sky"}, {"e", "Th"}, {".", "The sky is blue"}, {"blue.x", "The sky is blue."}, {"The sky is blue.", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *stops[] = {"never seen", cases[i].stop};
        gp.stop = stops;
        gp.n_stop = 2;
        ask(o.session, "What colour is the sky?");
        dctms_result r = answer(o.session, &gp, &h);
        assert_string_equal(h.text, cases[i].text);
        size_t n;
        const char *whole = dctms_session_text(o.session, &n);
        assert_int_equal(n, h.n);
        assert_memory_equal(whole, h.text, n);
        assert_int_equal(r.finish, strcmp(cases[i].stop, "blue.x") == 0 ? DCTMS_FINISH_STOP : DCTMS_FINISH_WORD);
    }
    close_all(o);
}

static void seeds_reproduce_and_differ(void **state) {
    (void)state;
    opened o = open_small(128, 40);
    heard a = {.stop_after = 0}, b = {.stop_after = 0};
    dctms_gen_params gp = dctms_gen_default_params();
    gp.temperature = 3;
    gp.top_k = 0;
    gp.top_p = 1;
    gp.min_p = 0;
    gp.seed = 7;
    ask(o.session, "Tell me a story about a cat.");
    answer(o.session, &gp, &a);
    ask(o.session, "Tell me a story about a cat.");
    answer(o.session, &gp, &b);
    assert_string_equal(a.text, b.text);
    gp.seed = 8;
    ask(o.session, "Tell me a story about a cat.");
    answer(o.session, &gp, &b);
    assert_string_not_equal(a.text, b.text);
    close_all(o);
}

static void bias_forbids_and_forces(void **state) {
    (void)state;
    opened o = open_small(128, 40);
    heard h = {.stop_after = 0};
    dctms_gen_params gp = greedy();
    ask(o.session, "What colour is the sky?");
    answer(o.session, &gp, &h);
    uint32_t n;
    dctms_token first = dctms_session_generated(o.session, &n)[0];
    dctms_logit_bias bias[] = {{first, -1000}};
    gp.bias = bias;
    gp.n_bias = 1;
    ask(o.session, "What colour is the sky?");
    answer(o.session, &gp, &h);
    assert_int_not_equal(dctms_session_generated(o.session, &n)[0], first);
    bias[0] = (dctms_logit_bias){77, 1000};
    gp.n_predict = 3;
    ask(o.session, "What colour is the sky?");
    answer(o.session, &gp, &h);
    assert_int_equal(dctms_session_generated(o.session, &n)[2], 77);
    close_all(o);
}

/* An answer in two parts is the answer in one: the last token of the first part is evaluated when the second begins. */
static void generation_continues(void **state) {
    (void)state;
    opened o = open_small(128, 40);
    heard whole = {.stop_after = 0}, part = {.stop_after = 0};
    dctms_gen_params gp = greedy();
    ask(o.session, "What colour is the sky?");
    answer(o.session, &gp, &whole);
    ask(o.session, "What colour is the sky?");
    gp.n_predict = 2;
    dctms_result r = answer(o.session, &gp, &part);
    assert_int_equal(r.finish, DCTMS_FINISH_LENGTH);
    assert_int_equal(r.n_predicted, 2);
    char text[256];
    strcpy(text, part.text);
    gp.n_predict = 0;
    answer(o.session, &gp, &part);
    strcat(text, part.text);
    assert_string_equal(text, whole.text);
    close_all(o);
}

static void callers_can_stop(void **state) {
    (void)state;
    opened o = open_small(128, 40);
    heard h = {.stop_after = 2};
    dctms_gen_params gp = greedy();
    ask(o.session, "What colour is the sky?");
    dctms_result r = answer(o.session, &gp, &h);
    assert_int_equal(r.finish, DCTMS_FINISH_INTERRUPTED);
    assert_int_equal(h.calls, 2);
    ask(o.session, "What colour is the sky?");
    dctms_session_interrupt(o.session);
    h.stop_after = 0;
    r = answer(o.session, &gp, &h);
    assert_int_equal(r.finish, DCTMS_FINISH_INTERRUPTED);
    assert_int_equal(r.n_predicted, 0);
    close_all(o);
}

/* The second turn evaluates only what is new, and answers as if nothing had been kept. */
static void a_chat_keeps_its_prefix(void **state) {
    (void)state;
    opened o = open_small(256, 40);
    heard h = {.stop_after = 0}, again = {.stop_after = 0};
    dctms_gen_params gp = greedy();
    dctms_chat_message turns[3] = {{"user", "What is the capital of Spain?"}, {"assistant", ""}, {"user", "What sound does a cow make?"}};
    CHECK(dctms_session_chat(o.session, turns, 1, &check_err));
    answer(o.session, &gp, &h);
    char first[4096];
    strcpy(first, h.text);
    turns[1].content = first;
    CHECK(dctms_session_chat(o.session, turns, 3, &check_err));
    uint32_t n = dctms_session_n_tokens(o.session);
    dctms_result r = answer(o.session, &gp, &h);
    assert_true(r.n_prompt < n - 15);
    CHECK(dctms_session_rewind(o.session, 0, &check_err));
    CHECK(dctms_session_chat(o.session, turns, 3, &check_err));
    r = answer(o.session, &gp, &again);
    assert_int_equal(r.n_prompt, n);
    assert_string_equal(h.text, again.text);
    close_all(o);
}

/* A file may want an end behind each text; where an answer follows there is none. */
static void an_answer_follows_no_end(void **state) {
    (void)state;
    static const char path[] = DCT_BINARY_DIR "/test_session.eos.gguf";
    uint32_t n_tokens[2][2];
    char answers[2][4096];
    for (int adds = 0; adds <= 1; adds++) {
        gguf_tiny tiny = gguf_tiny_default("qwen2", DCT_TYPE_Q8_0);
        gguf_build b;
        gguf_build_tiny(&b, &tiny);
        gguf_build_bool(&b, "tokenizer.ggml.add_eos_token", adds != 0);
        gguf_build_save(&b, path);
        gguf_build_free(&b);
        dctms_plan_params pp = plan_params(64, 16, 8, 1);
        opened o = open_all(path, &pp, DCTMS_ALLOC_PLANNED);
        dctms_gen_params gp = greedy();
        heard h = {.stop_after = 0};
        gp.ignore_eos = true;
        CHECK(dctms_session_prompt(o.session, "abc", 3, false, &check_err));
        n_tokens[adds][0] = dctms_session_n_tokens(o.session);
        answer(o.session, &gp, &h);
        strcpy(answers[adds], h.text);
        CHECK(dctms_session_set_chat_template(o.session, "chatml", &check_err));
        ask(o.session, "abc");
        n_tokens[adds][1] = dctms_session_n_tokens(o.session);
        close_all(o);
    }
    assert_int_equal(n_tokens[1][0], n_tokens[0][0]);
    assert_int_equal(n_tokens[1][1], n_tokens[0][1]);
    assert_string_equal(answers[1], answers[0]);
    remove(path);
}

/* ---- memory ---- */

static void nothing_is_allocated_after_open(void **state) {
    (void)state;
#ifdef DCT_SANITIZED
    skip();
#endif
    opened o = open_small(256, 40);
    heard h = {.stop_after = 0};
    dctms_gen_params gp = dctms_gen_default_params();
    dctms_chat_message m = {"user", "Tell me a story about a cat."};
    dctms_memory memory;
    dctms_session_mark_ready(o.session);
    uint64_t mallocs = n_mallocs, maps = n_maps;
    assert_true(mallocs > 0 && maps > 0); /* opening took some, so they are counted */
    CHECK(dctms_session_chat(o.session, &m, 1, &check_err));
    answer(o.session, &gp, &h);
    CHECK(dctms_session_prompt(o.session, "again", 5, false, &check_err));
    dctms_session_memory(o.session, &memory);
    assert_int_equal(n_mallocs - mallocs, 0);
    assert_int_equal(n_maps - maps, 0);
    assert_int_equal(memory.maj_faults, 0);
    close_all(o);
}

static void memory_that_runs_out_leaves_nothing_open(void **state) {
    (void)state;
#ifdef DCT_SANITIZED
    skip();
#endif
    const uint64_t step = emulated("every fifth mapping is refused, not each") ? 5 : 1;
    uint32_t files = open_files();
    bool opened_once = false;
    uint64_t n_refused = 0;
    for (uint64_t k = 1; !opened_once && k < 500; k += step) {
        opened o = {0};
        dctms_error err = {0};
        dctms_plan_params pp = plan_params(128, 32, 32, 2);
        int64_t before = mapped_bytes;
        n_maps = 0;
        fail_map_at = k;
        dctms_status status = dctms_model_open(f16, &o.model, &err);
        if (status == DCTMS_OK) status = dctms_plan_compile(o.model, &pp, &o.plan, &err);
        if (status == DCTMS_OK) status = dctms_session_open(o.model, o.plan, NULL, &o.session, &err);
        fail_map_at = 0;
        opened_once = n_maps < k;
        n_refused += status != DCTMS_OK;
        if (opened_once) assert_int_equal(status, DCTMS_OK);
        else if (status != DCTMS_OK) assert_true(err.message[0] != '\0');
        close_all(o);
        if (mapped_bytes != before) fail_msg("map %llu refused: %lld bytes stay mapped", (unsigned long long)k, (long long)(mapped_bytes - before));
        assert_int_equal(open_files(), files);
    }
    assert_true(opened_once);
    assert_true(n_refused >= 5); /* the replaced mmap is the one that is used */
}

/* Neither a plan's file nor what is traced is at fault when the system has no memory. */
static void memory_that_runs_out_is_nobodys_mistake(void **state) {
    (void)state;
#ifdef DCT_SANITIZED
    skip();
#endif
    static const char path[] = DCT_BINARY_DIR "/test_session.memory.plan";
    opened o = open_small(128, 40);
    CHECK(dctms_plan_save(o.plan, path, &check_err));
    dctms_error err;
    uint32_t n_refused = 0;
    for (uint64_t k = 1;; k++) {
        dctms_plan *plan = NULL;
        n_maps = 0;
        fail_map_at = k;
        dctms_status status = dctms_plan_load(path, &plan, &err);
        fail_map_at = 0;
        dctms_plan_free(plan);
        if (n_maps < k) break;
        assert_int_equal(status, DCTMS_SYSTEM);
        n_refused++;
    }
    assert_true(n_refused >= 3); /* handle, file, plan */
    for (uint32_t n = 64; n <= 1024; n *= 2) { /* the list of values is full when the positions come */
        dctms_graph *g;
        dctms_value x = DCTMS_NO_VALUE;
        CHECK(dctms_graph_new("full", 8, &g, &check_err));
        for (uint32_t i = 0; i < n; i++) x = dctms_graph_input(g, "x", 16, 1);
        n_maps = 0;
        fail_map_at = 1;
        dctms_graph_rope(g, x, 16, 16, 1e4f, false, "turned");
        fail_map_at = 0;
        assert_int_equal(dctms_graph_status(g, &err), n_maps > 0 ? DCTMS_SYSTEM : DCTMS_OK);
        n_refused += n_maps > 0;
        dctms_graph_free(g);
    }
    assert_true(n_refused >= 4);
    remove(path);
    close_all(o);
}

/* Between any two mappings of an opening another thread of the host may take whatever addresses are free. */
static void what_others_map_meanwhile_is_not_in_the_way(void **state) {
    (void)state;
#ifdef DCT_SANITIZED
    skip();
#endif
    const uint64_t step = emulated("another maps before every fifth mapping, not before each") ? 5 : 1;
    bool opened_before = false;
    for (uint64_t k = 1; !opened_before && k < 500; k += step) {
        int64_t before = mapped_bytes;
        n_maps = 0;
        intrude_at = k;
        opened o = open_small(128, 32);
        opened_before = n_maps < k;
        intrude_at = 0;
        assert_true(opened_before || intruder != MAP_FAILED);
        if (!opened_before) syscall(SYS_munmap, intruder, INTRUDER_BYTES);
        dctms_token token = 1;
        CHECK(dctms_session_eval(o.session, &token, 1, &check_err));
        close_all(o);
        assert_int_equal(mapped_bytes, before);
    }
    assert_true(opened_before);
}

/* What is held beside the reservation has an allowance in M_max; it is checked when the process is meant and not else. */
static void a_process_that_holds_more_than_its_allowance_is_refused(void **state) {
    (void)state;
    if (emulated("what a process holds: the emulator's memory is counted")) return;
#ifdef DCT_SANITIZED
    skip();
#endif
    size_t n = 24 << 20;
    dctms_plan_params pp = plan_params(128, 32, 32, 2);
    dctms_session_params sp = dctms_session_default_params();
    sp.whole_process = true;
    for (int is_too_much = 0; is_too_much < 2; is_too_much++) {
        int64_t before = mapped_bytes;
        char *held = is_too_much ? mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
        if (held != NULL) memset(held, 1, n);
        opened o = {0};
        dctms_error err = {0};
        CHECK(dctms_model_open(f16, &o.model, &check_err));
        CHECK(dctms_plan_compile(o.model, &pp, &o.plan, &check_err));
        dctms_status status = dctms_session_open(o.model, o.plan, &sp, &o.session, &err);
        if (is_too_much) {
            assert_int_equal(status, DCTMS_NO_FIT);
            double has, allowed;
            assert_int_equal(sscanf(err.message, "program, libraries, heap and stack take %lf MiB, M_max has room for %lf", &has, &allowed), 2);
            assert_true(has >= 24 && has > allowed && allowed > 1);
        } else if (status != DCTMS_OK) {
            fail_msg("%s", err.message);
        }
        close_all(o);
        if (held != NULL) munmap(held, n);
        assert_true(mapped_bytes == before);
    }
}

/* A conversation kept in planned memory is the same conversation; there is room for the longest that can fit, and steps leave it alone. */
static void a_conversation_may_lie_in_planned_memory(void **state) {
    (void)state;
    opened o = open_small(128, 16);
    static const char text[] = "A prompt that came from a file.";
    uint32_t n_vocab = dctms_session_n_vocab(o.session);
    float *logits = malloc(n_vocab * sizeof *logits);
    CHECK(dctms_session_prompt(o.session, text, sizeof text - 1, true, &check_err));
    memcpy(logits, dctms_session_logits(o.session), n_vocab * sizeof *logits);
    CHECK(dctms_session_rewind(o.session, 0, &check_err));
    dctms_conversation room = dctms_session_conversation(o.session);
    assert_int_equal(room.n_messages, 112 + 2);
    assert_true(room.n_text >= 112 * 4 + room.n_messages);
    memset(room.text, 'x', room.n_text); /* all of it is ours */
    memset(room.messages, 0, room.n_messages * sizeof *room.messages);
    memcpy(room.text, text, sizeof text - 1);
    CHECK(dctms_session_prompt(o.session, room.text, sizeof text - 1, true, &check_err));
    assert_memory_equal(dctms_session_logits(o.session), logits, n_vocab * sizeof *logits);
    assert_memory_equal(room.text, text, sizeof text - 1);
    for (size_t i = sizeof text - 1; i < room.n_text; i++) assert_int_equal(room.text[i], 'x');
    free(logits);
    close_all(o);
}

/* What is longer than the room is longer than the bound, and said so in tokens. */
static void a_text_too_long_is_measured_in_tokens(void **state) {
    (void)state;
    opened o = open_small(128, 16);
    dctms_error err;
    size_t longest = dctms_session_conversation(o.session).n_text - dctms_session_conversation(o.session).n_messages;
    CHECK(dctms_session_check_length(o.session, longest, &check_err));
    assert_int_equal(dctms_session_check_length(o.session, longest + 1, &err), DCTMS_BOUND);
    assert_string_equal(err.message, "the prompt has at least 113 tokens, the bound is 112 (a context of 128 less 16 of output)");
    close_all(o);
}

/* Calls of a progress callback: from 0, never back, to the end, in each stage. */
typedef struct progress_seen {
    uint64_t n, last, total;
    bool began_at_0, went_back;
} progress_seen;

static void see_progress(void *ctx, uint64_t done, uint64_t total) {
    progress_seen *p = ctx;
    if (p->n++ == 0) p->began_at_0 = done == 0;
    p->went_back = p->went_back || done < p->last || (p->total != 0 && total != p->total);
    p->last = done;
    p->total = total;
}

static void progress_is_seen_from_the_start(void **state) {
    (void)state;
    for (int alloc = DCTMS_ALLOC_PLANNED; alloc <= DCTMS_ALLOC_DYNAMIC; alloc++) {
        dctms_plan_params pp = plan_params(128, 16, 32, 1); /* one worker shows all that it does */
        dctms_session_params sp = dctms_session_default_params();
        progress_seen seen = {0};
        opened o = {0};
        sp.alloc = (dctms_alloc)alloc;
        sp.progress = see_progress;
        sp.progress_ctx = &seen;
        CHECK(dctms_model_open(f16, &o.model, &check_err));
        CHECK(dctms_plan_compile(o.model, &pp, &o.plan, &check_err));
        CHECK(dctms_session_open(o.model, o.plan, &sp, &o.session, &check_err));
        dctms_plan_info info;
        dctms_plan_get_info(o.plan, &info);
        assert_true(seen.began_at_0 && !seen.went_back);
        assert_true(seen.total > info.weights_bytes + info.weights_bytes / 2); /* populated and loaded */
        assert_int_equal(seen.last, seen.total);
        assert_true(seen.n > 20);
        close_all(o);
    }
}

/* An interruption stops what comes next, unless it is taken back. */
static void an_interruption_can_be_forgotten(void **state) {
    (void)state;
    opened o = open_small(256, 16);
    dctms_error err;
    dctms_token tokens[100];
    for (uint32_t i = 0; i < 100; i++) tokens[i] = i + 300;
    dctms_session_interrupt(o.session);
    assert_int_equal(dctms_session_eval(o.session, tokens, 100, &err), DCTMS_INTERRUPTED);
    CHECK(dctms_session_rewind(o.session, 0, &check_err));
    dctms_session_interrupt(o.session);
    dctms_session_clear_interrupt(o.session);
    CHECK(dctms_session_eval(o.session, tokens, 100, &check_err));
    assert_int_equal(dctms_session_n_tokens(o.session), 100);
    close_all(o);
}

/* Logits of the middle of a prompt are none to begin an answer with: not before something more is evaluated. */
static void a_stopped_prompt_has_no_logits(void **state) {
    (void)state;
    opened o = open_small(256, 16);
    dctms_gen_params gp = greedy();
    heard h = {.stop_after = 0};
    dctms_error err;
    dctms_token tokens[100];
    for (uint32_t i = 0; i < 100; i++) tokens[i] = i + 300;
    dctms_session_interrupt(o.session);
    assert_int_equal(dctms_session_eval(o.session, tokens, 100, &err), DCTMS_INTERRUPTED);
    const uint32_t n = dctms_session_n_tokens(o.session);
    assert_in_range(n, 1, 99);
    assert_null(dctms_session_logits(o.session));
    assert_int_equal(dctms_session_generate(o.session, &gp, hear, &h, NULL, &err), DCTMS_USAGE);
    assert_int_equal(h.calls, 0);
    assert_int_equal(dctms_session_n_tokens(o.session), n);
    CHECK(dctms_session_eval(o.session, tokens + n, 100 - n, &check_err));
    assert_non_null(dctms_session_logits(o.session));
    answer(o.session, &gp, &h);
    close_all(o);
}

/* An answer is told with what was evaluated for it: not the rest of a prompt that was stopped, nor what was on the timeline before
 * it began anew. */
static void a_stopped_prompt_counts_what_it_evaluated(void **state) {
    (void)state;
    opened o = open_small(256, 16);
    dctms_gen_params gp = greedy();
    heard h = {.stop_after = 0};
    dctms_error err;
    dctms_token tokens[100];
    for (uint32_t i = 0; i < 100; i++) tokens[i] = i + 300;
    gp.n_predict = 1;
    gp.ignore_eos = true;
    for (int anew = 0; anew < 2; anew++) {
        CHECK(dctms_session_rewind(o.session, 0, &check_err));
        dctms_session_interrupt(o.session);
        assert_int_equal(dctms_session_eval(o.session, tokens, 100, &err), DCTMS_INTERRUPTED);
        uint32_t n = dctms_session_n_tokens(o.session);
        assert_true(n > 0 && n < 100);
        if (anew) {
            CHECK(dctms_session_rewind(o.session, 0, &check_err));
            n = 0;
        }
        CHECK(dctms_session_eval(o.session, tokens, 7, &check_err));
        n += 7;
        dctms_result r = answer(o.session, &gp, &h);
        assert_int_equal(r.n_prompt, n);
        assert_int_equal(r.n_predicted, 1);
        CHECK(dctms_session_eval(o.session, tokens, 5, &check_err)); /* the answer's token is not the prompt's */
        assert_int_equal(answer(o.session, &gp, &h).n_prompt, 5);
    }
    close_all(o);
}

/* A model file that another process replaces, cuts or writes to while it is loaded: replaced by name is no harm, the others are refused. */
typedef enum harm { HARM_REPLACED, HARM_CUT, HARM_WRITTEN, HARM_COUNT } harm;

typedef struct harm_done {
    harm how;
    bool done;
} harm_done;

#define HARMED DCT_BINARY_DIR "/test_session.harmed.gguf"

static void do_harm(void *ctx, uint64_t done, uint64_t total) {
    harm_done *h = ctx;
    if (h->done || done < total / 2) return;
    h->done = true;
    if (h->how == HARM_CUT) assert_int_equal(truncate(HARMED, 1000000), 0);
    if (h->how == HARM_REPLACED) assert_int_equal(unlink(HARMED), 0);
    if (h->how == HARM_CUT) return;
    FILE *f = fopen(HARMED, h->how == HARM_WRITTEN ? "r+b" : "wb");
    assert_non_null(f);
    fseek(f, -100, SEEK_END);
    fputs("other weights", f);
    fclose(f);
}

static void copy_model(const char *to) {
    char piece[16 * 1024];
    FILE *in = fopen(f16, "rb"), *out = fopen(to, "wb");
    assert_true(in != NULL && out != NULL);
    for (size_t n; (n = fread(piece, 1, sizeof piece, in)) > 0;) assert_int_equal(fwrite(piece, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static void a_file_that_changes_while_it_is_loaded_is_refused(void **state) {
    (void)state;
    for (harm how = 0; how < HARM_COUNT; how++) {
        dctms_plan_params pp = plan_params(128, 16, 32, 1); /* a second worker could load all between two of our sights */
        dctms_session_params sp = dctms_session_default_params();
        harm_done h = {.how = how};
        opened o = {0};
        dctms_error err;
        sp.progress = do_harm;
        sp.progress_ctx = &h;
        copy_model(HARMED);
        usleep(20000); /* a tick of the clock that stamps files */
        CHECK(dctms_model_open(HARMED, &o.model, &check_err));
        CHECK(dctms_plan_compile(o.model, &pp, &o.plan, &check_err));
        dctms_status status = dctms_session_open(o.model, o.plan, &sp, &o.session, &err);
        assert_true(h.done);
        assert_int_equal(status, how == HARM_REPLACED ? DCTMS_OK : DCTMS_BAD_FILE);
        if (status != DCTMS_OK) assert_int_equal(strncmp(err.message, HARMED ": ", sizeof HARMED + 1), 0);
        close_all(o);
        unlink(HARMED);
    }
}

static void handles_are_freed_in_any_order(void **state) {
    (void)state;
    opened o = open_small(128, 40);
    heard h = {.stop_after = 0};
    dctms_gen_params gp = greedy();
    dctms_plan_free(o.plan);
    dctms_model_free(o.model);
    ask(o.session, "What colour is the sky?");
    answer(o.session, &gp, &h);
    assert_string_equal(h.text, "The sky is blue.");
    dctms_session_free(o.session);
}

static void a_dropped_header_is_not_used(void **state) {
    (void)state;
    opened o = open_small(128, 40);
    dctms_error err;
    dctms_session *second;
    dctms_model_info info;
    assert_int_equal(dctms_session_open(o.model, o.plan, NULL, &second, &err), DCTMS_USAGE);
    assert_int_equal(dctms_model_get_info(o.model, &info, &err), DCTMS_USAGE);
    close_all(o);
}

static void a_plan_of_another_model_is_refused(void **state) {
    (void)state;
    opened o = open_small(128, 40);
    dctms_model *draft;
    dctms_session *s = NULL;
    dctms_error err;
    char defect[32];
    CHECK(dctms_model_open(MODELS "tiny-draft-f16.gguf", &draft, &check_err));
    assert_int_equal(dctms_session_open(draft, o.plan, NULL, &s, &err), DCTMS_BAD_FILE);
    assert_null(s);
    assert_int_equal(dctms_plan_verify(o.plan, draft, defect, &err), DCTMS_BAD_FILE);
    assert_string_equal(defect, "MODEL_MISMATCH");
    dctms_model_free(draft);
    close_all(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_of_n_plus_1_is_refused),
        cmocka_unit_test(text_that_cannot_fit_is_refused_before_it_is_tokenized),
        cmocka_unit_test(unknown_tokens_are_refused),
        cmocka_unit_test(senseless_bounds_are_refused),
        cmocka_unit_test(ignoring_the_end_gives_exactly_m),
        cmocka_unit_test(stop_strings_are_never_delivered),
        cmocka_unit_test(seeds_reproduce_and_differ),
        cmocka_unit_test(bias_forbids_and_forces),
        cmocka_unit_test(generation_continues),
        cmocka_unit_test(callers_can_stop),
        cmocka_unit_test(a_chat_keeps_its_prefix),
        cmocka_unit_test(an_answer_follows_no_end),
        cmocka_unit_test(nothing_is_allocated_after_open),
        cmocka_unit_test(memory_that_runs_out_leaves_nothing_open),
        cmocka_unit_test(memory_that_runs_out_is_nobodys_mistake),
        cmocka_unit_test(what_others_map_meanwhile_is_not_in_the_way),
        cmocka_unit_test(a_process_that_holds_more_than_its_allowance_is_refused),
        cmocka_unit_test(a_conversation_may_lie_in_planned_memory),
        cmocka_unit_test(a_text_too_long_is_measured_in_tokens),
        cmocka_unit_test(progress_is_seen_from_the_start),
        cmocka_unit_test(an_interruption_can_be_forgotten),
        cmocka_unit_test(a_stopped_prompt_has_no_logits),
        cmocka_unit_test(a_stopped_prompt_counts_what_it_evaluated),
        cmocka_unit_test(a_file_that_changes_while_it_is_loaded_is_refused),
        cmocka_unit_test(handles_are_freed_in_any_order),
        cmocka_unit_test(a_dropped_header_is_not_used),
        cmocka_unit_test(a_plan_of_another_model_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
