/* Prompts by any way, and chats: their commands, their lines, their report.
 */
#define WORK DCT_BINARY_DIR "/test_answers."

#include "cli/command_support.h"
#include "support/emulated.h"

static int make_files(void **state) {
    (void)state;
    begin_files();
    make_texts();
    return 0;
}

/* ---- texts ---- */

/* One text by five ways: the answer is the same, and so is the count of tokens. */
static void a_prompt_comes_by_any_way(void **state) {
    (void)state;
    static const char *const ways[] = {"-p 0123456789", "-f $Wfew.txt", "-f $Wline.txt", "-f -", "-f $Wpipe"};
    char wanted[64] = "", line[256];
    unlink(WORK "pipe");
    assert_int_equal(mkfifo(WORK "pipe", 0600), 0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(line, sizeof line, "run $M -c 256 -n 8 --temp 0 --ignore-eos %s", ways[i]);
        child c = start(line);
        if (i == 3) say(&c, "0123456789\n");
        if (i == 4) {
            int pipe = open(WORK "pipe", O_WRONLY); /* waits for the reader */
            assert_int_equal(write(pipe, "01234", 5), 5);
            usleep(50000);
            assert_int_equal(write(pipe, "56789\n", 6), 6);
            close(pipe);
        }
        expect_code(&c, line, 0);
        const char *n_tokens = strstr(c.text[1], " ms / ");
        assert_non_null(n_tokens);
        char got[64];
        snprintf(got, sizeof got, "%.8s %.40s", n_tokens + 6, c.text[0]);
        if (i == 0) strcpy(wanted, got);
        if (strcmp(got, wanted) != 0) fail_msg("dctms %s: '%s', not '%s'", line, got, wanted);
        drop(&c);
    }
    unlink(WORK "pipe");
}

static void a_chat_knows_its_commands(void **state) {
    (void)state;
    child c = start("run $M -c 512 -n 4 --temp 0 -cnv");
    say(&c, "/help\n/foo\n/foo bar\n/clear \n /foo\n/usr/bin\n/exit\nnever\n");
    expect_code(&c, "chat, commands", 0);
    assert_int_equal(count_of(c.text[1], "  /exit "), 1);
    assert_int_equal(count_of(c.text[1], "no such command"), 2);
    assert_non_null(strstr(c.text[1], "dctms: /foo bar: no such command"));
    assert_int_equal(count_of(c.text[0], "\n"), 2); /* two answers */
    drop(&c);
}

/* One report for all turns; none where there was nothing to time. */
static void a_chat_is_timed_as_a_whole(void **state) {
    (void)state;
    const char *line = "run $M -c 512 -n 4 --temp 0 -cnv --ignore-eos";
    child c = start(line);
    say(&c, "hello\nhello\nhello\n");
    expect_code(&c, line, 0);
    assert_int_equal((int)number_after(strstr(c.text[1], "\n       eval time"), " ms / "), 12);
    drop(&c);
    c = start(line);
    expect_code(&c, line, 0);
    assert_null(strstr(c.text[1], "eval time"));
    assert_non_null(strstr(c.text[1], "M_max "));
    drop(&c);
}

/* Lines as long as the bound allows, and longer ones: never cut, refused in tokens, and the chat goes on. */
static void a_chat_takes_long_lines(void **state) {
    (void)state;
    size_t n = emulated("a line of 8,000 bytes, not of 20,000") ? 8000 : 20000;
    char *line = malloc(n + 2), wanted[128];
    for (size_t i = 0; i < n; i++) line[i] = " the"[i % 4];
    strcpy(line + n, "\n");
    child c = start("run $M -c 8192 -n 4 --temp 0 -cnv -q");
    say(&c, line);
    take_until(&c, 1, "\n> \n> ");
    say(&c, "/exit\n");
    expect_code(&c, "chat, a long line", 0);
    assert_null(strstr(c.text[1], "dctms: "));
    drop(&c);
    c = start("run $M -c 256 -n 4 --temp 0 -cnv");
    say(&c, line);
    say(&c, "hello\n/exit\n");
    expect_code(&c, "chat, a line too long", 0);
    snprintf(wanted, sizeof wanted, "dctms: the prompt has at least %zu tokens, the bound is 252 (a context of 256 less 4 of output); /clear", n / 16);
    assert_non_null(strstr(c.text[1], wanted));
    assert_int_equal(count_of(c.text[0], "\n"), 1);
    drop(&c);
    free(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_comes_by_any_way),
        cmocka_unit_test(a_chat_knows_its_commands),
        cmocka_unit_test(a_chat_is_timed_as_a_whole),
        cmocka_unit_test(a_chat_takes_long_lines),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
