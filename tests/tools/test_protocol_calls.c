/* Records of protocol: what is written is read back, a file that was cut off anywhere opens with the lines that are whole, and a line
 * that is not ours is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/protocol.h"

#define PATH DCT_BINARY_DIR "/test_protocol_calls.csv"
#define HEADING "run,stress,system,prompt,repetition,n_prompt,n_predicted,latency_ms,peak_rss_bytes,vm_hwm_bytes\n"
#define CHECK(call)                                   \
    do {                                              \
        dct_status status_ = (call);                  \
        if (status_ != DCT_OK) fail_msg("%s", err.message); \
    } while (0)

static dct_err err;

static const dct_call samples[] = {
    {{1, DCT_STRESS_NONE, DCT_PLANNED}, 0, 1, 40, 256, 1234.567891, 1048576, 2097152},
    {{100, DCT_STRESS_IO, DCT_LLAMA_CPP}, 49, 1000, 1020, 1, 0.001, 0, UINT64_MAX},
    {{2, DCT_STRESS_MEMORY, DCT_DYNAMIC}, 10, 7, 115, 256, 99999999.5, 1, 1},
};
enum { N_SAMPLES = sizeof samples / sizeof *samples };

static void write_file(const char *text, size_t n) {
    FILE *f = fopen(PATH, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static size_t read_file(char *text, size_t size) {
    FILE *f = fopen(PATH, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, size, f);
    fclose(f);
    return n;
}

static void expect_same(const dct_call *a, const dct_call *b) {
    assert_true(a->key.run == b->key.run && a->key.stress == b->key.stress && a->key.system == b->key.system);
    assert_true(a->prompt == b->prompt && a->repetition == b->repetition);
    assert_true(a->n_prompt == b->n_prompt && a->n_predicted == b->n_predicted);
    assert_true(a->latency_ms > b->latency_ms - 1e-6 && a->latency_ms < b->latency_ms + 1e-6);
    assert_true(a->peak_rss == b->peak_rss && a->vm_hwm == b->vm_hwm);
}

static void append_samples(const char *path, dct_calls_file *file) {
    CHECK(dct_calls_open(file, path, &err));
    for (int i = 0; i < N_SAMPLES; i++) CHECK(dct_calls_append(file, &samples[i], &err));
}

static void expect_calls(const dct_calls_file *file, uint32_t n_wanted) {
    dct_arena arena;
    dct_call *calls;
    uint32_t n;
    dct_arena_init(&arena, 0);
    CHECK(dct_calls_load(file, &arena, &calls, &n, &err));
    assert_int_equal(n, n_wanted);
    for (uint32_t i = 0; i < n; i++) expect_same(&calls[i], &samples[i]);
    dct_arena_deinit(&arena);
}

static void calls_are_read_back(void **state) {
    (void)state;
    dct_calls_file file;
    append_samples(NULL, &file); /* without a name */
    expect_calls(&file, N_SAMPLES);
    dct_calls_close(&file);
    unlink(PATH);
    append_samples(PATH, &file);
    dct_calls_close(&file);
    CHECK(dct_calls_open(&file, PATH, &err)); /* opened again it goes on */
    expect_calls(&file, N_SAMPLES);
    dct_calls_file second;
    assert_int_equal(dct_calls_open(&second, PATH, &err), DCT_SYSTEM); /* one process writes */
    assert_non_null(strstr(err.message, "another process is writing it"));
    dct_calls_close(&file);
}

/* Cut within the heading it is not ours, but for the empty file; behind it, every whole line counts, and writing goes on. */
static void every_cut_leaves_whole_lines(void **state) {
    (void)state;
    static char whole[4096], after[4096];
    dct_calls_file file;
    unlink(PATH);
    append_samples(PATH, &file);
    dct_calls_close(&file);
    size_t n = read_file(whole, sizeof whole), n_heading = strlen(HEADING);
    for (size_t cut = 0; cut <= n; cut++) {
        uint32_t n_lines = 0;
        for (size_t i = n_heading; i < cut; i++) n_lines += whole[i] == '\n';
        write_file(whole, cut);
        CHECK(dct_calls_open(&file, PATH, &err)); /* a heading that is cut off is a torn line like another */
        expect_calls(&file, n_lines);
        for (uint32_t i = n_lines; i < N_SAMPLES; i++) CHECK(dct_calls_append(&file, &samples[i], &err));
        dct_calls_close(&file);
        assert_int_equal(read_file(after, sizeof after), n);
        assert_memory_equal(after, whole, n);
    }
}

static void foreign_lines_are_refused(void **state) {
    (void)state;
    static const char *const lines[] = {
        "", "1", "0,none,planned,0,1,40,4,1.5,1,1", "101,none,planned,0,1,40,4,1.5,1,1", "1,noise,planned,0,1,40,4,1.5,1,1",
        "1,none,plan,0,1,40,4,1.5,1,1", "1,none,planned,50,1,40,4,1.5,1,1", "1,none,planned,0,0,40,4,1.5,1,1",
        "1,none,planned,0,1001,40,4,1.5,1,1", "1,none,planned,0,1,0,4,1.5,1,1", "1,none,planned,0,1,40,0,1.5,1,1",
        "1,none,planned,0,1,40,4,0,1,1", "1,none,planned,0,1,40,4,-1,1,1", "1,none,planned,0,1,40,4,nan,1,1",
        "1,none,planned,0,1,40,4,1e300,1,1", "1,none,planned,0,1,40,4,1.5,1", "1,none,planned,0,1,40,4,1.5,1,1,",
        "1,none,planned,0,1,40,4,1.5,1,x", "1,none,planned,0,1,40,4,1.5,1,18446744073709551616", "1,none,planned,0,1,+40,4,1.5,1,1",
        "1,none,planned,0,1,4294967296,4,1.5,1,1", " 1,none,planned,0,1,40,4,1.5,1,1",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[512];
        dct_calls_file file;
        dct_arena arena;
        dct_call *calls;
        uint32_t n;
        dct_arena_init(&arena, 0);
        snprintf(text, sizeof text, HEADING "1,none,planned,0,1,40,4,1.5,1,1\n%s\n", lines[i]);
        write_file(text, strlen(text));
        CHECK(dct_calls_open(&file, PATH, &err));
        if (dct_calls_load(&file, &arena, &calls, &n, &err) != DCT_BAD_FILE) fail_msg("'%s' was taken", lines[i]);
        assert_int_equal(err.offset, strlen(HEADING) + strlen("1,none,planned,0,1,40,4,1.5,1,1\n"));
        assert_non_null(strstr(err.message, "test_protocol_calls.csv: this is no record"));
        dct_calls_close(&file);
        dct_arena_deinit(&arena);
    }
    static const char hole[] = HEADING "\0,none,planned,0,1,40,4,1.5,1,1\n";
    dct_calls_file file;
    dct_arena arena;
    dct_call *calls;
    uint32_t n;
    dct_arena_init(&arena, 0);
    write_file(hole, sizeof hole - 1); /* a NUL ends no file */
    CHECK(dct_calls_open(&file, PATH, &err));
    assert_int_equal(dct_calls_load(&file, &arena, &calls, &n, &err), DCT_BAD_FILE);
    dct_calls_close(&file);
    dct_arena_deinit(&arena);
    static char junk[2048];
    memset(junk, 'x', sizeof junk);
    write_file(junk, sizeof junk);
    assert_int_equal(dct_calls_open(&file, PATH, &err), DCT_BAD_FILE);
    char kept[sizeof junk + 1]; /* a file that is not ours is left alone */
    assert_int_equal(read_file(kept, sizeof kept), sizeof junk);
    assert_memory_equal(kept, junk, sizeof junk);
}

/* A sample that says nothing new is left out, but for the last. */
static void series_keep_what_changes(void **state) {
    (void)state;
    const dct_rss_sample series[] = {{0, 10}, {10, 10}, {20, 10}, {30, 12}, {40, 12}, {50, 12}};
    static const double wanted_ms[] = {0, 30, 50};
    dct_calls_file file;
    dct_arena arena;
    dct_rss_record *records;
    uint32_t n;
    dct_arena_init(&arena, 0);
    CHECK(dct_rss_open(&file, NULL, &err));
    CHECK(dct_rss_append(&file, &samples[1], series, 6, &err));
    CHECK(dct_rss_append(&file, &samples[0], series, 0, &err));
    CHECK(dct_rss_load(&file, &arena, &records, &n, &err));
    assert_int_equal(n, 3);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(records[i].sample.ms == wanted_ms[i] && records[i].sample.bytes == (i == 0 ? 10 : 12));
        assert_true(records[i].key.run == 100 && records[i].key.system == DCT_LLAMA_CPP && records[i].prompt == 49);
    }
    dct_calls_close(&file);
    dct_arena_deinit(&arena);
}

/* The file of series is as it was, but for what stood behind the first n bytes. */
static void expect_after_drop(const dct_calls_file *rss, const dct_calls_file *calls, const char *wanted, size_t n) {
    static char text[4096];
    CHECK(dct_rss_drop_unfinished(rss, calls, &err));
    assert_int_equal(read_file(text, sizeof text), n);
    assert_memory_equal(text, wanted, n);
}

/* The series at the end goes, whole, when its call is not there; its neighbour, which differs in the repetition alone, stays,
 * as does everything else. */
static void a_series_without_its_call_goes(void **state) {
    (void)state;
    static const dct_rss_sample series[] = {{0, 10}, {10, 12}, {20, 11}};
    static char whole[4096];
    dct_calls_file calls, rss;
    dct_call unfinished = samples[1];
    unfinished.repetition--;
    unlink(PATH);
    CHECK(dct_calls_open(&calls, NULL, &err));
    CHECK(dct_rss_open(&rss, PATH, &err));
    size_t n = read_file(whole, sizeof whole);
    expect_after_drop(&rss, &calls, whole, n); /* the heading alone */
    CHECK(dct_rss_append(&rss, &samples[0], series, 3, &err));
    expect_after_drop(&rss, &calls, whole, n); /* and nothing else is left of it */
    for (int i = 0; i < 2; i++) {
        CHECK(dct_rss_append(&rss, &samples[i], series, 3, &err));
        CHECK(dct_calls_append(&calls, &samples[i], &err));
    }
    n = read_file(whole, sizeof whole);
    expect_after_drop(&rss, &calls, whole, n);
    for (uint32_t n_samples = 1; n_samples <= 3; n_samples += 2) {
        CHECK(dct_rss_append(&rss, &unfinished, series, n_samples, &err));
        expect_after_drop(&rss, &calls, whole, n);
    }
    CHECK(dct_rss_append(&rss, &unfinished, series, 3, &err)); /* made again */
    CHECK(dct_calls_append(&calls, &unfinished, &err));
    n = read_file(whole, sizeof whole);
    expect_after_drop(&rss, &calls, whole, n);
    dct_calls_close(&calls);
    dct_calls_close(&rss);
}

/* Fills a file up to its limit with calls or series, and says how many are in it whole. */
static uint32_t fill(bool is_series, rlim_t limit) {
    static dct_rss_sample series[200]; /* more than is written at once */
    dct_calls_file file;
    struct rlimit was;
    uint32_t n = 0;
    for (uint32_t i = 0; i < 200; i++) series[i] = (dct_rss_sample){i, i};
    unlink(PATH);
    if (is_series) CHECK(dct_rss_open(&file, PATH, &err));
    else CHECK(dct_calls_open(&file, PATH, &err));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, was.rlim_max}), 0);
    dct_status status;
    while ((status = is_series ? dct_rss_append(&file, &samples[0], series, 200, &err)
                               : dct_calls_append(&file, &samples[0], &err)) == DCT_OK) n++;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(status, DCT_SYSTEM);
    dct_calls_close(&file);
    return n;
}

/* A full disk: the file and the call are named, and what was there before stays, whole. */
static void what_cannot_be_written_is_named(void **state) {
    (void)state;
    static char text[65536];
    dct_calls_file file;
    dct_arena arena;
    dct_call *calls;
    dct_rss_record *records;
    uint32_t n;
    signal(SIGXFSZ, SIG_IGN);
    dct_arena_init(&arena, 0);
    uint32_t wanted = fill(false, 1000);
    assert_true(wanted > 5);
    assert_non_null(strstr(err.message, "test_protocol_calls.csv: the call of run 1, stress none, planned, prompt 0, repetition 1 "
                                        "cannot be written: File too large"));
    size_t n_text = read_file(text, sizeof text);
    assert_int_equal(text[n_text - 1], '\n');
    CHECK(dct_calls_open(&file, PATH, &err));
    CHECK(dct_calls_load(&file, &arena, &calls, &n, &err));
    assert_int_equal(n, wanted);
    dct_calls_close(&file);
    wanted = fill(true, 28500); /* of the fifth series a part would fit */
    assert_int_equal(wanted, 4);
    assert_non_null(strstr(err.message, "test_protocol_calls.csv: memory during the call of run 1, stress none, planned, "));
    CHECK(dct_rss_open(&file, PATH, &err));
    CHECK(dct_rss_load(&file, &arena, &records, &n, &err));
    assert_int_equal(n, 200 * wanted);
    dct_calls_close(&file);
    dct_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_read_back),
        cmocka_unit_test(every_cut_leaves_whole_lines),
        cmocka_unit_test(foreign_lines_are_refused),
        cmocka_unit_test(series_keep_what_changes),
        cmocka_unit_test(a_series_without_its_call_goes),
        cmocka_unit_test(what_cannot_be_written_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
