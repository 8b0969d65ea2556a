/* The seal, hole by hole, in the command as it is: a library that misbehaves (hole.c) is loaded into `dctms run`, and tries after the
 * seal to obtain memory in one way. With --seal on it is refused, or counted where it was planned, and the answer is the same; with
 * --seal kill the command says which call it was and ends with 70; with --seal off it gets what it wants, and the command says that
 * nothing stood in its way. tests/base/test_seal.c tries every system call.
 */
#define WORK DCT_BINARY_DIR "/test_holes."

#include "cli/command_support.h"
#include "support/emulated.h"

enum { KILLED = 70 };

/* What the hole says, and the calls of malloc that the command counts. On: the errno of the refusal. Kill: the call that is named. */
static const struct hole {
    const char *name, *on, *kill;
    uint32_t mallocs;
} holes[] = {
    {"malloc", "obtained", NULL, 1},      /* of the planned library heap: counted, not refused */
    {"heap", "ENOMEM", NULL, 1},          /* more than that heap has */
    {"private", "ENOMEM", "mmap", 0},     {"shared", "ENOMEM", "mmap", 0},
    {"file", "ENOMEM", "mmap", 0},        {"worker", "ENOMEM", "mmap", 1},
    {"thread", "EAGAIN", "mmap", 0},      {"fork", "EAGAIN", "clone", 0},
};
enum { N_HOLES = sizeof holes / sizeof *holes };

static char answer[256]; /* of a command that nobody disturbs */

static child run_with(const char *hole, const char *how, int code) {
    char line[256];
    snprintf(line, sizeof line, "run $M -c 64 -n 8 -t 2 --temp 0 --ignore-eos -p hello --seal %s", how);
    setenv("LD_PRELOAD", DCT_BINARY_DIR "/libdctms_hole.so", 1);
    setenv("DCT_HOLE", hole, 1);
    child c = start(line);
    unsetenv("LD_PRELOAD");
    unsetenv("DCT_HOLE");
    int got = finish(&c);
    if (got != code) fail_msg("hole %s, --seal %s: exit code %d, expected %d\n%s", hole, how, got, code, c.text[1]);
    return c;
}

static void expect_text(const child *c, const char *hole, const char *how, const char *words) {
    if (strstr(c->text[1], words) == NULL) fail_msg("hole %s, --seal %s: no '%s' in\n%s", hole, how, words, c->text[1]);
}

static void expect_said(const child *c, const char *hole, const char *how, const char *what) {
    char line[128];
    snprintf(line, sizeof line, "hole: %s: %s\n", hole, what);
    expect_text(c, hole, how, line);
}

static int can_seal(void **state) {
    child c = start("run $M -c 64 -n 8 -t 2 --temp 0 --ignore-eos -p hello");
    assert_int_equal(finish(&c), 0);
    *state = strstr(c.text[1], "seal: a promise only") == NULL ? answer : NULL;
    snprintf(answer, sizeof answer, "%s", c.text[0]);
    drop(&c);
    return 0;
}

#ifdef DCT_SANITIZED
enum { CAN_LOAD = 0 }; /* a sanitizer's own library must come first */
#else
enum { CAN_LOAD = 1 };
#endif

static void skip_without_seal(void **state) {
    if (!CAN_LOAD || *state == NULL || emulated("skipped: no system call filter here")) skip();
}

static void sealed_the_hole_is_refused_or_counted(void **state) {
    skip_without_seal(state);
    for (size_t i = 0; i < N_HOLES; i++) {
        const struct hole *h = &holes[i];
        char count[64];
        child c = run_with(h->name, "on", 0);
        expect_said(&c, h->name, "on", h->on);
        snprintf(count, sizeof count, "mallocs after ready %u ", h->mallocs);
        expect_text(&c, h->name, "on", count);
        double most = number_after(c.text[1], "M_max "), seen = number_after(c.text[1], "observed ");
        if (!(seen > 0 && seen <= most)) fail_msg("hole %s: observed %.2f of %.2f MiB", h->name, seen, most);
        assert_null(strstr(c.text[1], "not sealed"));
        assert_string_equal(c.text[0], answer);
        drop(&c);
    }
}

static void with_kill_the_command_names_the_call(void **state) {
    skip_without_seal(state);
    for (size_t i = 0; i < N_HOLES; i++) {
        const struct hole *h = &holes[i];
        if (h->kill == NULL) {
            child c = run_with(h->name, "kill", 0);
            expect_said(&c, h->name, "kill", h->on);
            drop(&c);
            continue;
        }
        char line[128];
        child c = run_with(h->name, "kill", KILLED);
        snprintf(line, sizeof line, "dctms: the seal stopped %s, which obtains memory\n", h->kill);
        expect_text(&c, h->name, "kill", line);
        assert_null(strstr(c.text[1], "hole: ")); /* it did not live to say anything */
        drop(&c);
    }
}

/* A stack that grows asks nobody. What is planned of it is there, and no more. */
static void a_stack_that_grows_ends_the_command(void **state) {
    static const char *const ways[] = {"on", "kill"};
    skip_without_seal(state);
    for (size_t i = 0; i < 2; i++) {
        child c = run_with("stack", ways[i], KILLED);
        expect_text(&c, "stack", ways[i], "dctms: the main stack has reached its planned size, and the process is sealed\n");
        drop(&c);
    }
}

/* A worker's stack does not grow: it is planned, and nothing but its size keeps it from what lies below. */
static void a_workers_stack_has_room(void **state) {
    static const char *const sets[] = {"scalar", "avx2", "avx512"}; /* what the processor does not have falls to what it has */
    skip_without_seal(state);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        setenv("DCTMS_ISA", sets[i], 1);
        child c = run_with("depth", "on", 0);
        unsetenv("DCTMS_ISA");
        expect_text(&c, "depth", "on", "hole: depth: 1 stacks of 262144 bytes, used ");
        double used = number_after(c.text[1], " bytes, used ");
        print_message("%s: a worker's stack is used to %.0f of 262144 bytes\n", sets[i], used);
        assert_in_range(used, 1024, 262144 / 4);
        drop(&c);
    }
}

static void unsealed_all_of_it_passes_and_is_said(void **state) {
    (void)state;
    if (!CAN_LOAD || emulated("skipped: the emulator loads no library for us")) skip();
    for (size_t i = 0; i <= N_HOLES; i++) {
        const char *name = i < N_HOLES ? holes[i].name : "stack";
        bool is_heap = strcmp(name, "heap") == 0; /* whose size is no matter of the seal */
        child c = run_with(name, "off", 0);
        expect_said(&c, name, "off", is_heap ? "ENOMEM" : "obtained");
        expect_text(&c, name, "off", "seal: off; memory is not enforced, whoever asks for it gets it\n");
        expect_text(&c, name, "off", " \xc2\xb7 not sealed\n");
        bool took_much = strcmp(name, "private") == 0 || strcmp(name, "shared") == 0 || strcmp(name, "worker") == 0;
        if (took_much) expect_text(&c, name, "off", " MiB more than M_max\n");
        assert_string_equal(c.text[0], answer);
        drop(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealed_the_hole_is_refused_or_counted),
        cmocka_unit_test(with_kill_the_command_names_the_call),
        cmocka_unit_test(a_stack_that_grows_ends_the_command),
        cmocka_unit_test(a_workers_stack_has_room),
        cmocka_unit_test(unsealed_all_of_it_passes_and_is_said),
    };
    begin_files();
    return cmocka_run_group_tests(tests, can_seal, remove_files);
}
