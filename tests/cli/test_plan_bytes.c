/* The same header, bounds and cost profile give the same plan file, byte for byte: whatever the processors that the process may
 * use, the instruction set, the locale, where the system puts things in memory, and from which folder it is called. A profile
 * that calibrate wrote is taken, told of, and changes the file. */
#define WORK DCT_BINARY_DIR "/test_plan_bytes."

#include "cli/command_support.h"

#include <sched.h>
#include <sys/personality.h>

#define PROFILE                                                                                                                  \
    "dctms cost profile 1\nworkers 1 bytes_per_s 9000000000 macs_per_s 50000000000 wait_ns 40\n"                                 \
    "workers 2 bytes_per_s 16000000000 macs_per_s 90000000000 wait_ns 900\n"

static int make_files(void **state) {
    (void)state;
    begin_files();
    write_whole("profile", PROFILE, strlen(PROFILE));
    write_whole("falling", PROFILE "workers 3 bytes_per_s 1 macs_per_s 90000000000 wait_ns 900\n",
                strlen(PROFILE "workers 3 bytes_per_s 1 macs_per_s 90000000000 wait_ns 900\n"));
    return 0;
}

static char *plan_bytes(const char *flags, size_t *n) {
    char line[512];
    snprintf(line, sizeof line, "plan $M -c 256 -n 16 -t 2 -o $Wplan %s", flags);
    child c = start(line);
    expect_code(&c, line, 0);
    drop(&c);
    return read_whole(WORK "plan", n);
}

static void expect_same(const char *flags, const char *bytes, size_t n, const char *when) {
    size_t n_again;
    char *again = plan_bytes(flags, &n_again);
    if (n_again != n || memcmp(again, bytes, n) != 0) fail_msg("another plan file %s", when);
    free(again);
}

static void expect_same_on_one_processor(const char *flags, const char *bytes, size_t n) {
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    expect_same(flags, bytes, n, "with one processor");
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void expect_same_everywhere(const char *flags) {
    size_t n;
    char *bytes = plan_bytes(flags, &n);
    expect_same(flags, bytes, n, "when made again");
    expect_same_on_one_processor(flags, bytes, n);
    static const char *const sets[] = {"scalar", "avx2", "avx512", "neon"}; /* what the processor has not is not taken */
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        setenv("DCTMS_ISA", sets[i], 1);
        expect_same(flags, bytes, n, sets[i]);
    }
    unsetenv("DCTMS_ISA");
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    expect_same(flags, bytes, n, "in another locale");
    unsetenv("LC_ALL");
    int before = personality(0xffffffff);
    if (before >= 0 && personality((unsigned long)before | ADDR_NO_RANDOMIZE) >= 0) {
        expect_same(flags, bytes, n, "without address space layout randomisation");
        personality((unsigned long)before);
    }
    free(bytes);
}

static void the_same_plan_everywhere(void **state) {
    (void)state;
    expect_same_everywhere("");
    expect_same_everywhere("--cost-profile $Wprofile");
}

static void a_profile_is_taken(void **state) {
    (void)state;
    size_t n, n_other;
    char *bytes = plan_bytes("", &n), *other = plan_bytes("--cost-profile $Wprofile", &n_other);
    assert_true(n != n_other || memcmp(bytes, other, n) != 0);
    free(bytes);
    free(other);
    json_t *root = json_of("plan $M -c 256 -n 16 -t 2 --cost-profile $Wprofile --json");
    const json_t *schedule = json_object_get(root, "schedule");
    double g_max = json_real_value(json_object_get(schedule, "g_max"));
    assert_true(g_max > 5.0 / 9 + 9.0 / 16 - 1e-6 && g_max < 5.0 / 9 + 9.0 / 16 + 1e-6); /* 1/alpha + beta of two workers */
    json_decref(root);
}

static void refused(const char *line, int code, const char *words) {
    child c = start(line);
    expect_code(&c, line, code);
    if (strstr(c.text[1], words) == NULL) fail_msg("dctms %s: %s", line, c.text[1]);
    drop(&c);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    refused("plan $M -c 256 --cost-profile $Wfalling", 2, "line 4 of the cost profile makes no sense");
    refused("plan $M -c 256 --cost-profile $M", 2, "too long for a cost profile");
    refused("plan $M -c 256 --cost-profile $Wplan", 2, "");
    refused("plan $M -c 256 --cost-profile /nonexistent", 2, "/nonexistent");
    refused("plan $M -c 256 --cost-profile $Wprofile -o $Wprofile", 1, "profile");
    refused("plan $M -c 256 --cost-profile $Wprofile --emit systemd", 1, "--emit with --cost-profile");
    refused("calibrate $M", 1, "usage: dctms calibrate");
    refused("calibrate -t 65", 1, "1 to 64 can be measured");
}

/* An output that cannot be written is told before anything is measured or worked out, and printed. */
static void an_output_is_tried_first(void **state) {
    (void)state;
    static const char *const lines[] = {"calibrate -t 1 -o $Wprofile/x", "plan $M -c 64 --svg $Wprofile/x", "pack $Wnone.csv --output $Wprofile/x"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        child c = start(lines[i]);
        expect_code(&c, lines[i], 5);
        if (c.n[0] != 0 || strstr(c.text[1], "cannot write ") == NULL) fail_msg("dctms %s: %s%s", lines[i], c.text[0], c.text[1]);
        drop(&c);
    }
}

/* A second measurement that cannot be written whole leaves the first, and nothing beside it. */
static void keeps_what_was_measured(void) {
    size_t n, n_now;
    char *bytes = read_whole(WORK "measured", &n);
    limit.resource = RLIMIT_FSIZE;
    limit.value = 16;
    child c = start("calibrate -t 1 -o $Wmeasured");
    limit.value = 0;
    expect_code(&c, "calibrate", 5);
    assert_non_null(strstr(c.text[1], "cannot write "));
    drop(&c);
    char *now = read_whole(WORK "measured", &n_now);
    assert_int_equal(n, n_now);
    assert_memory_equal(bytes, now, n);
    free(bytes);
    free(now);
    glob_t left;
    assert_int_equal(glob(WORK "measured*", 0, NULL, &left), 0);
    assert_int_equal(left.gl_pathc, 1);
    globfree(&left);
}

/* What calibrate writes is what it prints and what plan reads. */
static void calibrate_writes_a_profile(void **state) {
    (void)state;
    child c = start("calibrate -t 2 -o $Wmeasured");
    expect_code(&c, "calibrate", 0);
    size_t n;
    char *bytes = read_whole(WORK "measured", &n);
    assert_int_equal(n, strlen(c.text[0]));
    assert_memory_equal(bytes, c.text[0], n);
    assert_non_null(strstr(c.text[0], "\nworkers 2 bytes_per_s "));
    drop(&c);
    free(bytes);
    bytes = plan_bytes("--cost-profile $Wmeasured", &n);
    free(bytes);
    keeps_what_was_measured();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_plan_everywhere),
        cmocka_unit_test(a_profile_is_taken),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(an_output_is_tried_first),
        cmocka_unit_test(calibrate_writes_a_profile),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
