/* Signals: 129, 130 and 143 from every place where the command can be, no file left behind, and a chat that survives Ctrl-C.
 */
#define WORK DCT_BINARY_DIR "/test_signals."

#include "cli/command_support.h"

static int make_files(void **state) {
    (void)state;
    begin_files();
    make_texts();
    return 0;
}

static void pause_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

/* A long prompt, a row at a time, by the slowest kernels. */
static void signal_in_prompt(int number, int code) {
    setenv("DCTMS_ISA", "scalar", 1);
    child c = start("run $M -c 8192 -n 16 -ub 1 -t 1 -no-cnv -f $Wlong.txt");
    unsetenv("DCTMS_ISA");
    take_until(&c, 1, "sampling:");
    pause_ms(100);
    kill(c.pid, number);
    expect_code(&c, "run, in its prompt", code);
    assert_non_null(strstr(c.text[1], "dctms: interrupted with "));
    drop(&c);
}

static void signal_in_answer(int number, int code) {
    child c = start("run $M -c 8192 -n 8000 --ignore-eos --temp 0 -p hello");
    take_until(&c, 0, " ");
    kill(c.pid, number);
    expect_code(&c, "run, in its answer", code);
    assert_non_null(strstr(c.text[1], "eval time"));
    drop(&c);
}

static void signals_end_a_run(void **state) {
    (void)state;
    signal_in_prompt(SIGHUP, 129);
    signal_in_answer(SIGHUP, 129);
    signal_in_prompt(SIGINT, 130);
    signal_in_prompt(SIGTERM, 143);
    signal_in_answer(SIGINT, 130);
    signal_in_answer(SIGTERM, 143);
}

/* Whether the process has a file open that it is writing: a part beside its place, or one without a name. */
static bool writes_file(pid_t pid) {
    char pattern[64], to[512];
    bool found = false;
    glob_t all;
    snprintf(pattern, sizeof pattern, "/proc/%d/fd/*", (int)pid);
    if (glob(pattern, 0, NULL, &all) != 0) return false;
    for (size_t i = 0; i < all.gl_pathc; i++) {
        ssize_t n = readlink(all.gl_pathv[i], to, sizeof to - 1);
        to[n > 0 ? n : 0] = '\0';
        found |= strncmp(to, WORK, strlen(WORK)) == 0 || strncmp(to, DCT_BINARY_DIR "/#", strlen(DCT_BINARY_DIR "/#")) == 0;
    }
    globfree(&all);
    return found;
}

static child start_synth(void) {
    child c = start("synth qwen2.5-1.5b --type Q8_0 -t 1 -o $Wlimited");
    for (int k = 0; k < 5000 && !writes_file(c.pid); k++) pause_ms(2);
    assert_true(writes_file(c.pid));
    return c;
}

static void expect_no_file(const child *c) {
    assert_false(is_there(part_of("limited", c->pid)));
    assert_false(is_there("limited"));
}

/* Whatever ends it, a file that is being written does not stay; a signal that was ignored before goes on being so. */
static void signals_leave_no_file(void **state) {
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        child c = start_synth();
        kill(c.pid, numbers[i]);
        expect_code(&c, "synth, in its data", 1000 + numbers[i]);
        expect_no_file(&c);
        drop(&c);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        signal(numbers[i], SIG_IGN);
        child c = start("run $M -c 128 -n 4 -q");
        signal(numbers[i], SIG_DFL);
        pause_ms(300);
        kill(c.pid, numbers[i]);
        say(&c, "hello");
        expect_code(&c, "run, with the signal ignored", 0);
        drop(&c);
    }
}

static const char chat_line[] = "run $M -c 8192 -n 8000 --ignore-eos --temp 0 -cnv";

static void chat_ends_at_its_prompt(int number, int code) {
    child c = start(chat_line);
    take_until(&c, 1, "\n> ");
    pause_ms(50);
    kill(c.pid, number);
    expect_code(&c, "chat, at its prompt", code);
    drop(&c);
}

/* Whether the process has a handler for a signal. */
static bool catches(pid_t pid, int number) {
    char path[64], line[256];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL && sscanf(line, "SigCgt: %llx", &caught) != 1) {}
    if (f != NULL) fclose(f);
    return (caught >> (number - 1) & 1) != 0;
}

/* A pipe that says nothing can be waited for no longer. A signal that comes while the model is still being loaded ends the process by itself. */
static void a_silent_pipe_can_be_left(void **state) {
    (void)state;
    child c = start("run $M -c 256 -n 8 --temp 0");
    for (int k = 0; k < 5000 && !catches(c.pid, SIGTERM); k++) usleep(2000); /* however slow its start */
    usleep(300000);
    kill(c.pid, SIGTERM);
    int in = c.in;
    c.in = -1;
    int code = finish(&c);
    if (code != 143 && code != 1000 + SIGTERM) fail_msg("run, waiting for a prompt: exit code %d\n%s", code, c.text[1]);
    close(in);
    drop(&c);
}

static void signals_end_a_chat(void **state) {
    (void)state;
    chat_ends_at_its_prompt(SIGINT, 130);
    chat_ends_at_its_prompt(SIGTERM, 143);
    chat_ends_at_its_prompt(SIGHUP, 129);
    child c = start(chat_line);
    say(&c, "hello\n");
    take_until(&c, 0, " ");
    kill(c.pid, SIGTERM);
    expect_code(&c, "chat, in an answer", 143);
    assert_non_null(strstr(c.text[1], "eval time"));
    drop(&c);
}

/* Ctrl-C stops the answer, or the evaluation of the question; the chat goes on. */
static void a_chat_survives_ctrl_c(void **state) {
    (void)state;
    child c = start(chat_line);
    say(&c, "hello\n");
    take_until(&c, 0, " ");
    kill(c.pid, SIGINT);
    take_until(&c, 1, "\n> \n> ");
    say(&c, "/exit\n");
    expect_code(&c, "chat, Ctrl-C in an answer", 0);
    drop(&c);

    char *question = malloc(6002);
    for (size_t i = 0; i < 6000; i++) question[i] = (char)(i % 2 == 0 ? 'a' + i / 2 % 26 : ' ');
    strcpy(question + 6000, "\n");
    setenv("DCTMS_ISA", "scalar", 1);
    c = start("run $M -c 8192 -n 16 -ub 1 -t 1 --temp 0 -cnv");
    unsetenv("DCTMS_ISA");
    take_until(&c, 1, "\n> ");
    say(&c, question);
    pause_ms(200);
    kill(c.pid, SIGINT);
    take_until(&c, 1, "interrupted with ");
    say(&c, "/exit\n");
    expect_code(&c, "chat, Ctrl-C in a prompt", 0);
    drop(&c);
    free(question);
}

/* ---- SIGKILL ---- */

/* Whether a process of the child's group is alive. */
static bool group_lives(const child *c) { return kill(-c->pid, 0) == 0 || errno != ESRCH; }

static void expect_empty(const char *directory) {
    char pattern[512];
    glob_t all;
    snprintf(pattern, sizeof pattern, "%s/*", directory);
    int found = glob(pattern, GLOB_PERIOD, NULL, &all);
    for (size_t i = 0; found == 0 && i < all.gl_pathc; i++) {
        const char *name = strrchr(all.gl_pathv[i], '/') + 1;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) fail_msg("left behind: %s", all.gl_pathv[i]);
    }
    if (found == 0) globfree(&all);
}

/* Memory that has a name, and would outlive its process. */
static void expect_no_shared_memory(pid_t pid) {
    static const char *const names[] = {"/dev/shm", "/SYSV", "memfd:"};
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        for (size_t i = 0; i < 3; i++)
            if (strstr(line, names[i]) != NULL) fail_msg("mapped: %s", line);
    fclose(f);
}

static void kill_leaves_nothing(const char *line, int stream, const char *sign) {
    char directory[] = WORK "tmp";
    assert_true(mkdir(directory, 0700) == 0 || errno == EEXIST);
    setenv("TMPDIR", directory, 1);
    child c = start(line);
    unsetenv("TMPDIR");
    take_until(&c, stream, sign);
    expect_no_shared_memory(c.pid);
    kill(c.pid, SIGKILL);
    expect_code(&c, line, 1000 + SIGKILL);
    for (int i = 0; i < 5000 && group_lives(&c); i++) pause_ms(2); /* the kernel ends children when it has ended the parent */
    if (group_lives(&c)) fail_msg("dctms %s: a process stays", line);
    expect_empty(directory);
    rmdir(directory);
    drop(&c);
}

/* Nobody can tidy up after SIGKILL, so there is nothing to be tidied: no shared memory, no file, no process. */
static void sigkill_leaves_nothing(void **state) {
    (void)state;
    kill_leaves_nothing("run $M -c 8192 -n 8000 -t 3 --ignore-eos --temp 0 -p hello", 0, " ");
    kill_leaves_nothing("run $M -c 8192 -n 8000 -cnv", 1, "\n> ");
    kill_leaves_nothing("protocol $M -c 256 -n 32 --categories P1 --runs 50 -r 2 --stress io", 1, " calls made");
    child c = start_synth();
    bool has_name = is_there(part_of("limited", c.pid)); /* on a file system that cannot do without */
    kill(c.pid, SIGKILL);
    expect_code(&c, "synth, in its data", 1000 + SIGKILL);
    if (!has_name) expect_no_file(&c);
    drop(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_end_a_run),
        cmocka_unit_test(signals_leave_no_file),
        cmocka_unit_test(a_silent_pipe_can_be_left),
        cmocka_unit_test(sigkill_leaves_nothing),
        cmocka_unit_test(signals_end_a_chat),
        cmocka_unit_test(a_chat_survives_ctrl_c),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
