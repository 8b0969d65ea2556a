/* After ready: no malloc, no page fault, VmHWM within M_max, whatever the mode and however long it goes on.
 */
#define WORK DCT_BINARY_DIR "/test_ready."

#include "cli/command_support.h"
#include "support/emulated.h"

static int make_files(void **state) {
    (void)state;
    begin_files();
    make_texts();
    make_model("plain.gguf", "tokenizer.chat_template", "tokenizer.chat_wemplate");
    return 0;
}

/* ---- the run line ---- */

static void check_run_line(const char *line, const char *input) {
    child c = start(line);
    say(&c, input);
    expect_code(&c, line, 0);
    const char *err = c.text[1];
    double most = number_after(err, "M_max "), seen = number_after(err, "observed ");
    if (strstr(err, "mallocs after ready 0 \xc2\xb7 page faults after ready 0") == NULL) fail_msg("dctms %s: %s", line, err);
    if (!(seen > 0 && seen <= most)) fail_msg("dctms %s: observed %.2f of %.2f MiB", line, seen, most);
    drop(&c);
}

static void nothing_is_obtained_after_ready(void **state) {
    (void)state;
    static const char *const modes[] = {
        "--temp 0", "--temp 0.8 --seed 7", "--repeat-penalty 1.3 --presence-penalty 0.2 --frequency-penalty 0.1 --repeat-last-n -1 -l 13+2 -l 15-inf",
        "--temp 0 -r zebra -r e", "--temp 0 -ctk q8_0 -ctv q8_0", "--temp 0 -t 1", "--temp 0 -t 2", "--temp 0 -t 3", "--temp 0 -ub 1",
        "--temp 0 -no-cnv", "--temp 0 -sys terse", "--temp 0 --seal kill", "--temp 0 --seal off", "--temp 0 --logits all -ub 4",
        "--temp 0 --ctx-steps 16:8,32:4,256:2", "--temp 0 --ctx-steps 16:8,32:4,256:2 --seal kill -no-cnv",
    };
    if (emulated("skipped: the emulator's memory and faults are counted with the process")) skip();
#ifdef DCT_SANITIZED
    print_message("skipped: a sanitizer's own memory is counted with the process\n");
    return;
#endif
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char line[512];
        snprintf(line, sizeof line, "run $M -c 256 -n 24 --ignore-eos -p hello %s", modes[i]);
        check_run_line(line, "");
    }
    check_run_line("run $M --ctx-steps 64:32,128:16,2048:8 -n 200 --ignore-eos --temp 0 -p hello", "");
    check_run_line("run $M -c 2048 -n 24 --ignore-eos --temp 0 -no-cnv -f $Wfew.txt", "");
    check_run_line("run $M -c 512 -n 24 --temp 0 -cnv", "hello\nwho are you\n/clear\nhello again\n/exit\n");
    check_run_line("run $Wplain.gguf -c 256 -n 24 -p hello", "");
    check_run_line("run $M $Wplain.gguf --exclusive --ctx-steps 8:4,16:4,256:2 -n 64 --ignore-eos --temp 0 -p hello", "");
    check_run_line("score $M -f $Wfew.txt --save-logits $Wlogits", "");
    check_run_line("score $M -f $Wlong.txt -c 512", "");
    check_run_line("score $M -f $Wfew.txt --kl $Wlogits --seal kill", "");
}

/* RssAnon + VmSwap of a process, in KiB. */
static double anonymous_kib(pid_t pid) {
    char path[64], text[8192] = "";
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    double anon = number_after(text, "\nRssAnon:"), swap = number_after(text, "\nVmSwap:");
    assert_true(anon > 0 && swap >= 0);
    return anon + swap;
}

/* 1,000 prompts and 5,000 tokens later the process holds what it held before the first. */
static void a_long_life_takes_no_memory(void **state) {
    (void)state;
    if (emulated("skipped: the emulator's memory is counted with the process")) skip();
#ifdef DCT_SANITIZED
    skip();
#endif
    enum { PROMPTS = 1000, TOKENS = 5 };
    const char *line = "run $M -c 256 -n 5 --temp 0.9 -cnv --ignore-eos --seal kill";
    char *prompts = malloc(PROMPTS * 80);
    size_t n = 0;
    for (int i = 1; i < PROMPTS; i++) /* lengths differ, and every third question begins a conversation */
        n += (size_t)sprintf(prompts + n, "%sWhat is %d %.*s\n", i % 3 == 0 ? "/clear\n" : "", i * 7919 % 10007, i % 31, "times the number of sand grains");
    sprintf(prompts + n, "/end\n");
    child c = start(line);
    take_until(&c, 1, "\n> ");
    double before = anonymous_kib(c.pid);
    say(&c, "hello\n");
    take_until(&c, 1, "\n> \n> ");
    assert_true(anonymous_kib(c.pid) == before);
    say(&c, prompts);
    take_until(&c, 1, "dctms: /end: no such command");
    assert_true(anonymous_kib(c.pid) == before);
    say(&c, "/exit\n");
    expect_code(&c, line, 0);
    assert_int_equal((int)number_after(strstr(c.text[1], "\n       eval time"), " ms / "), PROMPTS * TOKENS);
    assert_non_null(strstr(c.text[1], "mallocs after ready 0 ")); /* faults: the kernel may move pages of any process that lives long */
    drop(&c);
    free(prompts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_obtained_after_ready),
        cmocka_unit_test(a_long_life_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
