/* What is refused before it begins: 3 for a budget or a memory that is too small, 2 for a plan that is not the model's or not whole, 5
 * for limits of the system. Each is one line, and none reads a weight first: the kernel's count of bytes read stays under what the
 * weights alone have, and weights that any evaluation would refuse are never seen.
 */
#define WORK DCT_BINARY_DIR "/test_refusals."

#include "cli/command_support.h"
#include "support/emulated.h"

static uint64_t header_bytes; /* more than what a refusal reads, less than the weights */

static int make_files(void **state) {
    (void)state;
    struct stat st;
    begin_files();
    make_nan_model("nan.gguf");
    make_model("other.gguf", "tokenizer.chat_template", "tokenizer.chat_wemplate");
    make_texts();
    assert_int_equal(stat(MODEL, &st), 0);
    header_bytes = (uint64_t)st.st_size / 2;
    return 0;
}

/* The child's refusal under a limit: code 5 and words of its message. */
static void check_limit(int resource, rlim_t value, const char *line, const char *words) {
    limit.resource = resource;
    limit.value = value;
    child c = start(line);
    limit.value = 0;
    expect_code(&c, line, 5);
    if (strstr(c.text[1], words) == NULL) fail_msg("dctms %s: stderr is '%s'", line, c.text[1]);
    if (is_there(part_of("limited", c.pid)) || is_there("limited")) fail_msg("dctms %s: left a file", line);
    drop(&c);
}

/* 5: what the system's limits forbid; each is named, and nothing crashes or stays half written. */
static void limits_are_reported(void **state) {
    (void)state;
    if (emulated("skipped: an emulator does not pass on limits of stack and memory")) skip();
#ifdef DCT_SANITIZED
    skip();
#endif
    static const char *const sessions[] = {"run $M -q -p hi -c 128 -n 4 -t 1", "score $M -f $Wfew.txt -t 1",
                                           "bench $M -p 8 -n 4 -r 1 --no-roofline -t 1"};
    static const rlim_t stacks[] = {32, 64, 128, 256, 512, 640};
    for (size_t i = 0; i < sizeof sessions / sizeof *sessions; i++)
        for (size_t k = 0; k < sizeof stacks / sizeof *stacks; k++)
            check_limit(RLIMIT_STACK, stacks[k] * 1024, sessions[i], "dctms: the stack may not grow enough: RLIMIT_STACK is ");
    check_limit(RLIMIT_FSIZE, 50 * 1024, "synth tiny-llama -o $Wlimited", "dctms: cannot write " WORK "limited: File too large");
    check_limit(RLIMIT_FSIZE, 20 * 1024, "score $M -f $Wfew.txt --save-logits $Wlimited",
                "dctms: cannot write " WORK "limited: File too large");
    check_limit(RLIMIT_AS, 20 << 20, "run $M -q -p hi -c 8192 -n 4 -t 1 --force", ": RLIMIT_AS is 20.0 MiB, ");
}

/* ---- budgets ---- */

/* The context that a budget leaves: it fits, a token more does not; and a budget with room takes nothing away. */
static void a_budget_takes_context_when_asked(void **state) {
    (void)state;
#ifdef DCT_SANITIZED
    print_message("skipped: a session's own record is larger with a sanitizer, and the budget is in bytes\n");
    skip();
#endif
    char line[256];
    json_t *root = json_of("plan $M -c 2048 -n 64 -t 2 --memory-budget 18M --budget-ctx 200 --json");
    long long ctx = int_of(json_object_get(root, "bounds"), "ctx");
    assert_in_range(ctx, 201, 2047);
    assert_int_equal(int_of(json_object_get(root, "bounds"), "max_output"), 64);
    assert_in_range(int_of(json_object_get(root, "envelope"), "m_max_bytes"), 1, 18 << 20);
    json_decref(root);
    for (int more = 0; more <= 1; more++) {
        snprintf(line, sizeof line, "plan $M -c %lld -n 64 -t 2 --memory-budget 18M", ctx + more);
        child c = start(line);
        expect_code(&c, line, more ? 3 : 0);
        drop(&c);
    }
    root = json_of("plan $M -c 2048 -n 64 -t 2 --memory-budget 100M --budget-ctx 200 --json");
    assert_int_equal(int_of(json_object_get(root, "bounds"), "ctx"), 2048);
    json_decref(root);
}

/* The terms of a refusal are those of the plan that is the least, and add up to it. */
static void a_refusal_says_what_each_term_costs(void **state) {
    (void)state;
    const char *line = "plan $M -c 512 -n 64 -t 2 --memory-budget 1M";
    static const char *const terms[] = {" weights ", " kv ", " persistent ", " intermediate ", " runtime "};
    child c = start(line);
    double sum = 0;
    expect_code(&c, line, 3);
    for (size_t i = 0; i < 5; i++) sum += number_after(strstr(c.text[1], ": weights "), terms[i]);
    double least = number_after(c.text[1], " bytes (");
    assert_true(least > 1 && sum > least - 0.05 && sum < least + 0.05);
    long long bytes = (long long)number_after(c.text[1], "needs at least ");
    drop(&c);
    for (int less = 0; less <= 1; less++) {
        char again[256];
        snprintf(again, sizeof again, "plan $M -c 512 -n 64 -t 2 --memory-budget %lld", bytes - less);
        c = start(again);
        expect_code(&c, again, less ? 3 : 0);
        drop(&c);
    }
}

/* ---- memory smaller than M_max ---- */

static const char small_run[] = "run $Wnan.gguf -c 256 -n 4 -t 2 -ub 1 -p hi"; /* its weights would be refused, if they were read */

static long long m_max_of(const char *line) {
    json_t *root = json_of(line);
    long long m_max = int_of(json_object_get(root, "envelope"), "m_max_bytes");
    json_decref(root);
    return m_max;
}

/* Refused with one line, before a weight was read. */
static void expect_refusal(const char *line, int code, const char *words) {
    child c = start(line);
    expect_code(&c, line, code);
    if (strncmp(c.text[1], "dctms: ", 7) != 0 || strstr(c.text[1], words) == NULL) fail_msg("dctms %s: stderr is '%s'", line, c.text[1]);
    assert_int_equal(count_of(c.text[1], "\n"), 1);
    if (c.n_read > header_bytes) fail_msg("dctms %s: %llu bytes were read", line, (unsigned long long)c.n_read);
    drop(&c);
}

/* It began: the weights are read and refused. */
static void expect_start(const char *line) {
    child c = start(line);
    expect_code(&c, line, 2);
    if (strstr(c.text[1], "not finite") == NULL) fail_msg("dctms %s: stderr is '%s'", line, c.text[1]);
    if (c.n_read != 0 && c.n_read <= header_bytes) fail_msg("dctms %s: only %llu bytes were read", line, (unsigned long long)c.n_read);
    drop(&c);
}

static void check_rlimit(int resource, long long m_max, const char *source) {
    limit.resource = resource;
    limit.value = (rlim_t)m_max;
    expect_start(small_run);
    limit.value--;
    expect_refusal(small_run, 3, source);
    limit.value = 0;
}

static bool write_number(const char *directory, const char *file, long long value) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, file);
    FILE *f = fopen(path, "w");
    bool done = f != NULL && fprintf(f, "%lld", value) > 0;
    return f != NULL && fclose(f) == 0 && done;
}

/* A group of our own where the machine lets one be made: at M_max in whole pages it runs, a page below it is refused. */
static void check_group(long long m_max) {
    static const char *const ways[][3] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "(cgroup v1 memory.limit_in_bytes (/dctms-test-"},
                                          {"/sys/fs/cgroup", "memory.max", "(cgroup v2 memory.max (/dctms-test-"}};
    long long pages = (m_max + 4095) / 4096 * 4096;
    for (size_t i = 0; i < 2; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/dctms-test-%d", ways[i][0], (int)getpid());
        if (access(ways[i][0], W_OK) != 0 || mkdir(path, 0755) != 0) continue;
        if (write_number(path, ways[i][1], pages)) {
            group = path;
            expect_start(small_run);
            assert_true(write_number(path, ways[i][1], pages - 4096));
            expect_refusal(small_run, 3, ways[i][2]);
            group = NULL;
            rmdir(path);
            return;
        }
        rmdir(path);
    }
    print_message("skipped: no control group for memory can be made here\n");
}

static void memory_below_m_max_is_refused(void **state) {
    (void)state;
    if (emulated("skipped: an emulator does not pass on limits of memory")) skip();
#ifdef DCT_SANITIZED
    skip();
#endif
    long long m_max = m_max_of("plan $M -c 256 -n 4 -t 2 -ub 1 --json"); /* the same header, but for its name */
    char line[256];
    check_rlimit(RLIMIT_AS, m_max, "are available (RLIMIT_AS (ulimit -v))");
    check_rlimit(RLIMIT_DATA, m_max, "are available (RLIMIT_DATA (ulimit -d))");
    check_group(m_max);
    limit.resource = RLIMIT_AS;
    limit.value = (rlim_t)m_max - 1;
    snprintf(line, sizeof line, "%s --force", small_run);
    child c = start(line); /* not refused by us: by the system, or not at all */
    limit.value = 0;
    int code = finish(&c);
    assert_true(code == 5 || code == 2);
    drop(&c);
    snprintf(line, sizeof line, "%s --memory-budget %lld", small_run, m_max);
    expect_start(line);
    snprintf(line, sizeof line, "%s --memory-budget %lld", small_run, m_max - 1);
    expect_refusal(line, 3, "needs at least ");
}

/* ---- plans that are not the model's, or not whole ---- */

static const char planned_run[] = "run $Wnan.gguf --plan $Wplan -p hi";

static void make_plan(const char *model, const char *bounds) {
    char line[256];
    snprintf(line, sizeof line, "plan %s %s -n 4 -t 2 -o $Wplan", model, bounds);
    child c = start(line);
    expect_code(&c, line, 0);
    drop(&c);
}

/* The plan with one byte changed, or cut off at `n`. */
static void spoil_plan(const char *plan, size_t n, size_t at, char to) {
    char *bytes = malloc(n + 1);
    memcpy(bytes, plan, n);
    if (at < n) bytes[at] = to;
    write_whole("plan", bytes, n);
    free(bytes);
}

static void spoil_plan_of(const char *bounds) {
    size_t n;
    make_plan("$Wnan.gguf", bounds);
    expect_start(planned_run);
    char *plan = read_whole(WORK "plan", &n);
    spoil_plan(plan, n, 8, 99);
    expect_refusal(planned_run, 2, ": plan file: version 99, this program reads version ");
    spoil_plan(plan, n, n - 1, (char)~plan[n - 1]);
    expect_refusal(planned_run, 2, WORK "plan: ");
    spoil_plan(plan, n, 0, 'X');
    expect_refusal(planned_run, 2, "not a plan file");
    const size_t cuts[] = {0, 1, 8, 12, 31, 32, 100, n / 2, n - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        spoil_plan(plan, cuts[i], SIZE_MAX, 0);
        expect_refusal(planned_run, 2, WORK "plan: ");
        expect_refusal("verify $Wplan", 2, WORK "plan: ");
        if (cuts[i] >= 8) expect_refusal("plan $Wplan --svg $Wsvg --html $Whtml", 2, WORK "plan: ");
        expect_refusal("plan --diff $Wplan $Wplan", 2, cuts[i] < 8 ? ": " : WORK "plan: ");
    }
    for (size_t at = 16; at < n; at += n / 24) {
        spoil_plan(plan, n, at, (char)~plan[at]);
        expect_refusal(planned_run, 2, WORK "plan: plan file: ");
        expect_refusal("verify $Wplan", 2, WORK "plan: plan file: ");
        expect_refusal("plan $Wplan --svg $Wsvg --html $Whtml", 2, WORK "plan: plan file: ");
    }
    assert_int_equal(access(WORK "svg", F_OK), -1);
    assert_int_equal(access(WORK "html", F_OK), -1);
    free(plan);
}

static void plans_that_do_not_fit_the_model_are_refused(void **state) {
    (void)state;
    spoil_plan_of("-c 256 -ub 1");
    spoil_plan_of("--ctx-steps 64:4,128:2,256:1");
    make_plan("$Wother.gguf", "-c 256 -ub 1"); /* of the same shape; its header differs in one letter */
    expect_refusal(planned_run, 2, "the plan was made for another model");
    expect_refusal("verify $Wplan $Wnan.gguf", 2, "MODEL_MISMATCH");
}

/* ---- memory that cannot be pinned ---- */

static void a_lock_that_fails_names_the_limit(void **state) {
    (void)state;
#ifdef DCT_SANITIZED
    skip(); /* which makes mlock do nothing */
#endif
    char line[256], words[256];
    json_t *root = json_of("plan $M -c 256 -n 4 -t 2 -ub 1 --json");
    rlim_t values[] = {65536, (rlim_t)int_of(json_object_get(root, "envelope"), "weights_bytes") + 65536}; /* some of it, or none */
    json_decref(root);
    snprintf(line, sizeof line, "%s --mlock", small_run);
    for (size_t i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "cannot lock memory: RLIMIT_MEMLOCK is %llu bytes, ", (unsigned long long)values[i]);
        limit.resource = RLIMIT_MEMLOCK;
        limit.value = values[i];
        expect_refusal(line, 5, words);
    }
    limit.value = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_reported),
        cmocka_unit_test(a_budget_takes_context_when_asked),
        cmocka_unit_test(a_refusal_says_what_each_term_costs),
        cmocka_unit_test(memory_below_m_max_is_refused),
        cmocka_unit_test(plans_that_do_not_fit_the_model_are_refused),
        cmocka_unit_test(a_lock_that_fails_names_the_limit),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
