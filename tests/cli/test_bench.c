/* bench as users of llama-bench meet it: lists of flags, names of tests, four formats, and what each figure must agree with.
 *
 *   refusals     each malformed flag, by the first words of its line
 *   order        which rows lists make, and in which order
 *   json, jsonl  one list of fields; csv has the same, md shows a part of them
 *   figures      waits as planned, work as the weights say, percentiles in order, each session within its own envelope
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/emulated.h"

#define COMMAND DCT_BINARY_DIR "/dctms"
#define MODEL DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-f16.gguf"
#define OTHER DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-q8_0.gguf"
#define ERRORS DCT_BINARY_DIR "/test_bench.stderr"

enum { OUT_BYTES = 1 << 18 };
static char out[OUT_BYTES], err[4096];

static void read_all(FILE *f, char *text, size_t size) {
    size_t n = fread(text, 1, size - 1, f);
    text[n] = '\0';
}

static long long data_limit_kib; /* RLIMIT_DATA of the next command; 0: none */

/* Runs `dctms ARGS` and keeps what it wrote; the exit code. */
static int run(const char *args) {
    char line[2048], limit[64] = "";
    if (data_limit_kib != 0) snprintf(limit, sizeof limit, "ulimit -d %lld; ", data_limit_kib);
    snprintf(line, sizeof line, "%s'%s' %s 2>'%s'", limit, COMMAND, args, ERRORS);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    read_all(pipe, out, sizeof out);
    int status = pclose(pipe);
    FILE *errors = fopen(ERRORS, "r");
    assert_non_null(errors);
    read_all(errors, err, sizeof err);
    fclose(errors);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static void run_well(const char *args) {
    if (run(args) != 0) fail_msg("dctms %s: %s", args, err);
}

static json_t *json_of(const char *args) {
    json_error_t why;
    run_well(args);
    json_t *root = json_loads(out, 0, &why);
    if (root == NULL) fail_msg("dctms %s: line %d: %s\n%s", args, why.line, why.text, out);
    return root;
}

static const json_t *row_of(const json_t *root, size_t i) { return json_array_get(root, i); }
static json_int_t int_of(const json_t *row, const char *key) { return json_integer_value(json_object_get(row, key)); }
static double number_of(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }
static bool is_null(const json_t *row, const char *key) { return json_is_null(json_object_get(row, key)); }

/* ---- refusals ---- */

static void malformed_flags_are_refused(void **state) {
    (void)state;
    static const struct { const char *args, *says; } cases[] = {
        {"-o xml", "-o: 'xml'"}, {"-o sql", "-o: 'sql'"}, {"-p 0 -n 0", "-p and -n leave nothing"},
        {"-p x", "-p: a list"}, {"-p 8,", "-p: a list"}, {"-p ,8", "-p: a list"}, {"-p ''", "-p: a list"},
        {"-p 8-4", "-p: a list"}, {"-p 8-16+0", "-p: a list"}, {"-p 1-8*1", "-p: a list"}, {"-p 0-8*2", "-p: a list"},
        {"-p 1-99", "-p: a list"}, {"-p 8x", "-p: a list"}, {"-p 4294967304", "-p: a list"}, {"-p -8", "-p: a list"},
        {"-n 1.5", "-n: a list"}, {"-d 1,,2", "-d: a list"}, {"-t 0", "-t: a list"}, {"-ub 0", "-ub: a list"},
        {"--steady x", "--steady: a list"}, {"-pg 8", "-pg: two numbers"}, {"-pg 8,4,2", "-pg: two numbers"},
        {"-pg ,4", "-pg: two numbers"}, {"-ctk f16,", "-ctk: a list"}, {"-ctv f16,longer_than_any", "-ctv: a list"},
        {"-ctk q4_0", "'q4_0' is no type"}, {"-r 0", "-r: 1 to"}, {"-r 101", "-r: 1 to"}, {"-C 0", "-C: '0'"},
        {"-C 0x", "-C: '0x'"}, {"-C 3,5", "-C: '3,5'"}, {"-C -1", "-C: '-1'"}, {"-C 1ffffffffffffffff", "-C: '1f"},
        {"-c 10 -p 8 -n 4", "-c 10 is too small: depth, prompt and generation need 12"},
        {"-m " MODEL, "models are named by -m or by position"}, {"--alloc bogus", "--alloc: 'bogus'"},
        {"--seal onn", "--seal: 'onn'"}, {"--alloc dynamic --seal on", "--alloc dynamic"}, {"-ngl 99", "-ngl 99"},
        {"--prio 2", "--prio 2: use nice"}, {"-oe md", "-oe: -o FORMAT"}, {"--fly", "--fly: no such flag"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char args[1024], wanted[256];
        snprintf(args, sizeof args, "bench '%s' --no-roofline %s", MODEL, cases[i].args);
        snprintf(wanted, sizeof wanted, "dctms: %s", cases[i].says);
        int code = run(args);
        if (code != 1 || strncmp(err, wanted, strlen(wanted)) != 0) fail_msg("dctms %s: exit code %d, '%s'", args, code, err);
        assert_string_equal(out, "");
    }
    assert_int_equal(run("bench --no-roofline '" MODEL ".none'"), 2);
    if (sysconf(_SC_NPROCESSORS_CONF) < 64) assert_int_equal(run("bench --no-roofline -C 8000000000000000"), 5);
}

/* ---- order ---- */

typedef struct wanted_row { const char *model; json_int_t threads, depth, prompt, gen, steady; const char *type_k; } wanted_row;

static void lists_are_multiplied_out(void **state) {
    (void)state;
    static const wanted_row wanted[] = {
        {MODEL, 1, 0, 8, 0, 0, "f16"}, {MODEL, 1, 0, 0, 4, 0, "f16"}, {MODEL, 1, 0, 8, 2, 0, "f16"}, {MODEL, 1, 0, 0, 3, 1, "f16"},
        {MODEL, 1, 5, 8, 0, 0, "f16"}, {MODEL, 1, 5, 0, 4, 0, "f16"}, {MODEL, 1, 5, 8, 2, 0, "f16"}, {MODEL, 1, 5, 0, 3, 1, "f16"},
        {MODEL, 2, 0, 8, 0, 0, "f16"}, {MODEL, 2, 0, 0, 4, 0, "f16"}, {MODEL, 2, 0, 8, 2, 0, "f16"}, {MODEL, 2, 0, 0, 3, 1, "f16"},
        {MODEL, 2, 5, 8, 0, 0, "f16"}, {MODEL, 2, 5, 0, 4, 0, "f16"}, {MODEL, 2, 5, 8, 2, 0, "f16"}, {MODEL, 2, 5, 0, 3, 1, "f16"},
    };
    json_t *root = json_of("bench -m '" MODEL "' -p 8 -n 4 -pg 8,2 --steady 3 -t 1,2 -d 0,5 -r 1 --no-roofline -o json");
    assert_int_equal(json_array_size(root), sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const json_t *row = row_of(root, i);
        assert_string_equal(json_string_value(json_object_get(row, "model_filename")), wanted[i].model);
        assert_string_equal(json_string_value(json_object_get(row, "type_k")), wanted[i].type_k);
        assert_int_equal(int_of(row, "n_threads"), wanted[i].threads);
        assert_int_equal(int_of(row, "n_depth"), wanted[i].depth);
        assert_int_equal(int_of(row, "n_prompt"), wanted[i].prompt);
        assert_int_equal(int_of(row, "n_gen"), wanted[i].gen);
        assert_int_equal(int_of(row, "steady"), wanted[i].steady);
    }
    json_decref(root);
}

static void ranges_repeats_and_models(void **state) {
    (void)state;
    static const json_int_t prompts[] = {3, 4, 8, 16, 20, 24, 7};
    json_t *root = json_of("bench -p 3,4-16*2 -p 20-26+4,7 -n 0 -r 1 --no-roofline --no-warmup -ub 4,16 -ctk f32 -ctk q8_0 "
                           "-m '" MODEL "' -m '" OTHER "' -o json");
    size_t n = sizeof prompts / sizeof *prompts;
    assert_int_equal(json_array_size(root), 2 * 2 * 2 * n);
    for (size_t i = 0; i < json_array_size(root); i++) { /* models, then chunk sizes, then types, then prompts */
        const json_t *row = row_of(root, i);
        assert_int_equal(int_of(row, "n_prompt"), prompts[i % n]);
        assert_string_equal(json_string_value(json_object_get(row, "type_k")), i / n % 2 == 0 ? "f32" : "q8_0");
        assert_int_equal(int_of(row, "n_ubatch"), i / n / 2 % 2 == 0 ? 4 : 16);
        assert_string_equal(json_string_value(json_object_get(row, "model_filename")), i / n / 4 == 0 ? MODEL : OTHER);
    }
    json_decref(root);
}

/* Two chunks that are longer than the prompt do the same work in the same memory, and each has the row that was asked for. A budget
 * that leaves less is told. */
static void a_row_has_the_chunk_that_was_asked_for(void **state) {
    (void)state;
    json_t *root = json_of("bench '" MODEL "' -p 64 -n 0 -ub 4,128,256 -r 1 --no-roofline --no-warmup -o json");
    static const json_int_t chunks[] = {4, 128, 256};
    assert_int_equal(json_array_size(root), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(int_of(row_of(root, i), "n_ubatch"), chunks[i]);
        assert_int_equal(int_of(row_of(root, i), "n_batch"), chunks[i]);
    }
    json_int_t least = int_of(row_of(root, 0), "m_max_bytes");
    assert_int_equal(int_of(row_of(root, 1), "m_max_bytes"), int_of(row_of(root, 2), "m_max_bytes"));
    assert_true(least < int_of(row_of(root, 1), "m_max_bytes"));
    json_decref(root);
    char line[512];
    snprintf(line, sizeof line, "bench '" MODEL "' -p 64 -n 0 -ub 128 --memory-budget %lld -r 1 --no-roofline --no-warmup -o json",
             (long long)least);
    root = json_of(line);
    assert_in_range(int_of(row_of(root, 0), "n_ubatch"), 4, 32);
    json_decref(root);
}

static const char small_setup[] = "bench '" MODEL "' -p 8 -n 0 -ub 1 -r 1 --no-roofline --no-warmup -o json";

static long long m_max_of_small_setup(void) {
    json_t *root = json_of(small_setup);
    long long m_max = int_of(row_of(root, 0), "m_max_bytes");
    json_decref(root);
    return m_max;
}

/* The first depth fits the budget, the other two do not: each of them says what it needs, and nothing is measured. */
static void what_does_not_fit_is_told_before_anything_is_measured(void **state) {
    (void)state;
    char line[512];
    snprintf(line, sizeof line, "%s -d 0,1000,2000 --memory-budget %lld", small_setup, m_max_of_small_setup());
    assert_int_equal(run(line), 3);
    assert_string_equal(out, "");
    const char *first = strstr(err, "with ctx 1009"), *second = strstr(err, "with ctx 2009");
    if (first == NULL || second == NULL || strstr(err, "with ctx 9 ") != NULL) fail_msg("stderr is '%s'", err);
}

/* What is refused only when its session opens: the rows before it are a whole JSON text. */
static void rows_before_a_refusal_are_whole(void **state) {
    (void)state;
    if (emulated("skipped: an emulator does not pass on limits of memory")) skip();
#ifdef DCT_SANITIZED
    skip();
#endif
    char line[512];
    snprintf(line, sizeof line, "%s -d 0,3000", small_setup);
    data_limit_kib = m_max_of_small_setup() / 1024 + 4096; /* the second setup needs 5 MiB more than the first */
    int code = run(line);
    data_limit_kib = 0;
    if (code != 3) fail_msg("code %d, stderr is '%s'", code, err);
    json_t *root = json_loads(out, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_array_size(root), 1);
    json_decref(root);
}

/* A flag takes the place of its variable; alone, the variable counts. */
static void variables_come_second(void **state) {
    (void)state;
    setenv("LLAMA_ARG_THREADS", "3", 1);
    json_t *root = json_of("bench '" MODEL "' -p 0 -n 2 -r 1 --no-roofline -o json");
    assert_int_equal(int_of(row_of(root, 0), "n_threads"), 3);
    json_decref(root);
    root = json_of("bench '" MODEL "' -p 0 -n 2 -r 1 --no-roofline -o json -t 1");
    assert_int_equal(json_array_size(root), 1);
    assert_int_equal(int_of(row_of(root, 0), "n_threads"), 1);
    json_decref(root);
    unsetenv("LLAMA_ARG_THREADS");
    root = json_of("bench '" MODEL "' -p 0 -n 2 -r 1 --no-roofline -o json -C 0x1"); /* one processor: one worker */
    assert_int_equal(int_of(row_of(root, 0), "n_threads"), 1);
    json_decref(root);
}

/* ---- formats ---- */

static const char keys[] =
    "build_commit cpu_info backends model_filename model_type model_size model_n_params n_batch n_ubatch n_threads type_k type_v "
    "n_prompt n_gen n_depth test_time avg_ns stddev_ns avg_ts stddev_ts steady p50_ms p95_ms p99_ms max_ms cv waits_per_token "
    "weight_bytes_per_token macs_per_prompt read_bytes_per_s_one read_bytes_per_s_all read_bytes_per_s_median int8_macs_per_s_one int8_macs_per_s_all "
    "int8_macs_per_s_median of_peak m_max_bytes vm_hwm_bytes";

/* The object has these keys and the two lists of samples, and no other; *n receives how many keys there are. */
static void expect_keys(const json_t *object, size_t *n) {
    char copy[sizeof keys];
    *n = 0;
    memcpy(copy, keys, sizeof keys);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "), (*n)++)
        if (json_object_get(object, word) == NULL) fail_msg("no key '%s'", word);
    assert_int_equal(json_object_size(object), *n + 2);
    assert_true(json_is_array(json_object_get(object, "samples_ns")) && json_is_array(json_object_get(object, "samples_ts")));
}

static void json_has_the_fields(void **state) {
    (void)state;
    size_t n;
    json_t *root = json_of("bench '" MODEL "' -p 8 -n 4 -r 3 --no-roofline -o json");
    assert_int_equal(json_array_size(root), 2);
    for (size_t i = 0; i < 2; i++) {
        expect_keys(row_of(root, i), &n);
        assert_int_equal(json_array_size(json_object_get(row_of(root, i), "samples_ns")), 3);
        double sum = 0;
        for (size_t k = 0; k < 3; k++) sum += json_number_value(json_array_get(json_object_get(row_of(root, i), "samples_ts"), k));
        assert_true(sum / 3 > number_of(row_of(root, i), "avg_ts") * 0.9999 && sum / 3 < number_of(row_of(root, i), "avg_ts") * 1.0001);
    }
    json_decref(root);
}

static void jsonl_is_an_object_a_line(void **state) {
    (void)state;
    size_t n, n_lines = 0;
    run_well("bench '" MODEL "' -p 8 -n 4 -t 1,2 -r 1 --no-roofline -o jsonl");
    for (char *line = out, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, n_lines++) {
        *end = '\0';
        json_t *row = json_loads(line, 0, NULL);
        assert_non_null(row);
        expect_keys(row, &n);
        json_decref(row);
    }
    assert_int_equal(n_lines, 4);
}

static size_t count(const char *text, const char *end, const char *what) {
    size_t n = 0;
    for (const char *at = strstr(text, what); at != NULL && at < end; at = strstr(at + strlen(what), what)) n++;
    return n;
}

/* The head is the list of keys; every value stands in quotes; what there is not is empty. */
static void csv_has_the_same_fields(void **state) {
    (void)state;
    run_well("bench '" MODEL "' -p 8 -n 4 -d 0,2 -r 1 --no-roofline -o csv");
    char head[sizeof keys];
    memcpy(head, keys, sizeof keys);
    for (char *p = head; *p != '\0'; p++) *p = *p == ' ' ? ',' : *p;
    char *end = strchr(out, '\n');
    assert_non_null(end);
    assert_int_equal((size_t)(end - out), strlen(head));
    assert_memory_equal(out, head, strlen(head));
    size_t n_commas = count(head, head + strlen(head), ","), n_rows = 0;
    for (const char *row = end + 1; *row != '\0'; row = end + 1, n_rows++) {
        end = strchr(row, '\n');
        assert_int_equal(count(row, end, "\",\""), n_commas);
        assert_int_equal(row[0] == '"' && end[-1] == '"', true);
        bool prompt = n_rows % 2 == 0; /* four figures of a token, its spread, its waits, its bytes */
        const char *none = strstr(row, "\"0\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",");
        assert_int_equal(none != NULL && none < end, prompt);
    }
    assert_int_equal(n_rows, 4);
}

static void md_is_a_table(void **state) {
    (void)state;
    run_well("bench '" MODEL "' -p 8 -n 4 -pg 8,4 --steady 6 -d 0,2 -r 1 -t 2");
    static const char *const tests[] = {"pp8", "tg4", "pp8+tg4", "steady6", "pp8 @ d2", "tg4 @ d2", "pp8+tg4 @ d2", "steady6 @ d2"};
    const char *line = out;
    for (size_t i = 0; i < 2 + 8; i++) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        assert_int_equal(count(line, end, "|"), 17);
        char cell[64];
        if (i >= 2) snprintf(cell, sizeof cell, "| %15s | ", tests[i - 2]);
        else snprintf(cell, sizeof cell, i == 0 ? "| model  " : "| -----");
        const char *at = strstr(line, cell);
        if (at == NULL || at > end) fail_msg("no '%s' in %.*s", cell, (int)(end - line), line);
        line = end + 1;
    }
    assert_int_equal(strncmp(line, "\nroofline: read ", 16), 0);
    assert_non_null(strstr(line, " GMAC/s with 1 worker, "));
    assert_non_null(strstr(line, "\nbuild: dctms "));
    run_well("bench '" MODEL "' -p 8 -n 0 -ub 4,8 -ctk f32 -r 1 --no-roofline -C 1 -fa on -b 512 -mmp 0 --poll 0");
    assert_int_equal(count(out, strchr(out, '\n'), "|"), 19);
    assert_non_null(strstr(out, "| n_ubatch | type_k | "));
    assert_null(strstr(out, "roofline"));
}

/* ---- figures ---- */

static void figures_agree_with_the_plan(void **state) {
    (void)state;
    json_t *plan = json_of("plan '" MODEL "' -c 64 -n 16 -t 2 --json");
    json_int_t waits = int_of(json_object_get(plan, "schedule"), "waits_per_token");
    json_decref(plan);
    json_t *root = json_of("bench '" MODEL "' -p 8,16 -n 16 --steady 30 -c 64 -d 1 -r 2 -t 2 -o json");
    assert_int_equal(json_array_size(root), 4);
    double macs[2];
    for (size_t i = 0; i < 2; i++) { /* the median of two is the smaller */
        const json_t *row = row_of(root, i);
        macs[i] = number_of(row, "macs_per_prompt");
        assert_true(is_null(row, "p50_ms") && is_null(row, "p99_ms") && is_null(row, "cv"));
        assert_true(is_null(row, "waits_per_token") && is_null(row, "weight_bytes_per_token"));
        double share = macs[i] * 1e9 / (number_of(row, "avg_ns") - number_of(row, "stddev_ns") / sqrt(2)) / number_of(row, "int8_macs_per_s_median");
        assert_true(share > 0 && number_of(row, "of_peak") > share * 0.99 - 1e-4 && number_of(row, "of_peak") < share * 1.01 + 1e-4);
    }
    for (size_t i = 2; i < 4; i++) {
        const json_t *row = row_of(root, i);
        double bytes = number_of(row, "weight_bytes_per_token");
        assert_true(number_of(row, "waits_per_token") == (double)waits);
        assert_true(number_of(row, "p50_ms") > 0 && number_of(row, "p50_ms") <= number_of(row, "p95_ms"));
        assert_true(number_of(row, "p95_ms") <= number_of(row, "p99_ms") && number_of(row, "p99_ms") <= number_of(row, "max_ms"));
        assert_true(number_of(row, "cv") > 0 && is_null(row, "macs_per_prompt"));
        /* F16: two bytes a weight. A chunk applies the head to one row, and all else to each. */
        double of_row = (macs[1] - macs[0]) / 8, of_run = macs[0] - 8 * of_row;
        assert_true(of_run > 0 && of_row + of_run == bytes / 2 && bytes <= number_of(row, "model_size"));
        double share = bytes * 1e3 / number_of(row, "p50_ms") / number_of(row, "read_bytes_per_s_median");
        assert_true(number_of(row, "of_peak") > share * 0.99 - 1e-4 && number_of(row, "of_peak") < share * 1.01 + 1e-4);
    }
    json_decref(root);
}

/* A deep session, then a shallow one: the peak of the first is not the second's, nor is the buffer that the machine was measured with. */
static void every_session_has_its_own_envelope(void **state) {
    (void)state;
    if (emulated("skipped: the emulator's memory is counted with the process")) skip();
#ifdef DCT_SANITIZED
    print_message("skipped: a sanitizer's own memory is counted with the process\n");
    return;
#endif
    json_t *root = json_of("bench '" MODEL "' -p 8 -n 4 -d 4000,0 -r 1 -t 1,2 -o json");
    assert_int_equal(json_array_size(root), 8);
    for (size_t i = 0; i < 8; i++) assert_in_range(int_of(row_of(root, i), "vm_hwm_bytes"), 1, int_of(row_of(root, i), "m_max_bytes"));
    assert_true(int_of(row_of(root, 2), "m_max_bytes") < int_of(row_of(root, 0), "vm_hwm_bytes"));
    json_decref(root);
}

static void dynamic_allocation_can_be_compared(void **state) {
    (void)state;
    json_t *root = json_of("bench '" MODEL "' -p 8 -n 4 -r 1 --alloc dynamic --no-roofline -o json");
    assert_int_equal(json_array_size(root), 2);
    assert_true(is_null(row_of(root, 1), "waits_per_token") && is_null(row_of(root, 1), "of_peak"));
    json_decref(root);
}

int main(void) {
    unsetenv("DCTMS_ISA");
    unsetenv("LLAMA_ARG_MODEL");
    unsetenv("LLAMA_ARG_THREADS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_flags_are_refused),
        cmocka_unit_test(lists_are_multiplied_out),
        cmocka_unit_test(ranges_repeats_and_models),
        cmocka_unit_test(a_row_has_the_chunk_that_was_asked_for),
        cmocka_unit_test(what_does_not_fit_is_told_before_anything_is_measured),
        cmocka_unit_test(rows_before_a_refusal_are_whole), cmocka_unit_test(variables_come_second),
        cmocka_unit_test(json_has_the_fields),
        cmocka_unit_test(jsonl_is_an_object_a_line),
        cmocka_unit_test(csv_has_the_same_fields),
        cmocka_unit_test(md_is_a_table),
        cmocka_unit_test(figures_agree_with_the_plan),
        cmocka_unit_test(every_session_has_its_own_envelope),
        cmocka_unit_test(dynamic_allocation_can_be_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
