/* The command on processors of x86-64 that have less than this one, under an emulator: no instruction that is not there, and the
 * same answer. A machine that has everything cannot show what another one dies of.
 */
#define WORK DCT_BINARY_DIR "/test_processors."

#include "cli/command_support.h"
#include "support/emulated.h"

#if defined(__x86_64__) && !defined(DCT_SANITIZED)
static bool has_emulator(void) {
    const char *path = getenv("PATH");
    char copy[4096], file[4200];
    snprintf(copy, sizeof copy, "%s", path != NULL ? path : "");
    for (char *place = strtok(copy, ":"); place != NULL; place = strtok(NULL, ":")) {
        snprintf(file, sizeof file, "%s/qemu-x86_64", place);
        if (access(file, X_OK) == 0) return true;
    }
    print_message("skipped: qemu-x86_64 is not installed (Debian: apt install qemu-user)\n");
    return false;
}

/* What the command writes to standard output on `cpu`; here when that is NULL. Freed by the caller. */
static char *answer_on(const char *cpu, const char *flags) {
    char line[512], command[1024];
    snprintf(line, sizeof line, "%s run -m %s %s", COMMAND, MODEL, flags);
    if (cpu != NULL) snprintf(command, sizeof command, "exec env DCTMS_EMULATED=1 qemu-x86_64 -cpu %s %s </dev/null 2>%serr", cpu, line, WORK);
    else snprintf(command, sizeof command, "exec %s </dev/null 2>%serr", line, WORK);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    char *text = calloc(1, OUT_BYTES);
    size_t n = fread(text, 1, OUT_BYTES - 1, out);
    text[n] = '\0';
    int status = pclose(out);
    if (status != 0) {
        size_t n_err;
        char *err = read_whole(WORK "err", &n_err);
        fail_msg("%s: status %d: %.*s", command, status, (int)n_err, err);
    }
    return text;
}

/* Nehalem has no AVX, Haswell no AVX-512; what an emulator lacks of a processor it says, and goes on without. */
static void less_gives_the_same_answer(void **state) {
    (void)state;
    static const char *const cpus[] = {"Nehalem", "Haswell", "max"};
    static const char *const flags[] = {
        "--force --seal off -t 2 -c 96 -n 8 --ignore-eos --temp 0 --no-display-prompt -no-cnv -p hello",
        "--force --seal off -t 1 -c 96 -n 8 --ignore-eos --temp 0 --no-display-prompt -no-cnv -p hello -ctk q8_0 -ctv q8_0",
    };
    if (!has_emulator()) skip();
    for (size_t f = 0; f < 2; f++) {
        char *wanted = answer_on(NULL, flags[f]);
        assert_true(strlen(wanted) > 8);
        for (size_t i = 0; i < 3; i++) {
            char *found = answer_on(cpus[i], flags[f]);
            assert_string_equal(found, wanted);
            free(found);
        }
        free(wanted);
    }
    remove(WORK "err");
}
#else
static void less_gives_the_same_answer(void **state) {
    (void)state;
    print_message("skipped: for processors of x86-64, without a sanitizer\n");
    skip();
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(less_gives_the_same_answer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
