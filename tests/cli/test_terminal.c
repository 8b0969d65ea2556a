/* A chat at a terminal: a pseudo-terminal of 40 columns is standard input and standard error, a pipe takes the answers. */
#define WORK DCT_BINARY_DIR "/test_terminal."

#include "cli/command_support.h"
#include "support/emulated.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <termios.h>

static const char *terminal = "xterm", *last_line = "page faults after ready 0"; /* what a chat that ended has said */
static int kept = -1; /* the terminal's own end: what it was given stays when the command has ended */

/* A process whose `in` and `err` are the terminal's other end; what it prints goes there too, or to a pipe. */
static child start_at(const char *line, bool prints_there) {
    char store[512], *argv[MAX_ARGS] = {(char *)(uintptr_t)COMMAND};
    int n = 1, out[2], master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 && (errno == ENOENT || errno == ENODEV)) { /* a root directory without /dev/pts */
        print_message("skipped: no pseudo-terminals here\n");
        skip();
    }
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0 && pipe2(out, O_CLOEXEC) == 0);
    struct winsize size = {.ws_row = 20, .ws_col = 40};
    assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
    if (prints_there) kept = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    snprintf(store, sizeof store, "%s", line);
    for (char *word = strtok(store, " "); word != NULL; word = strtok(NULL, " "))
        argv[n++] = strcmp(word, "$M") == 0 ? (char *)(uintptr_t)MODEL : word;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!prints_there) setsid(); /* the end of a session takes with it what its terminal has not shown */
        int slave = open(ptsname(master), O_RDWR); /* the session's terminal */
        dup2(slave, 0);
        dup2(prints_there ? slave : out[1], 1);
        dup2(slave, 2);
        setenv("TERM", terminal, 1);
        execv(COMMAND, argv);
        _exit(99);
    }
    close(out[1]);
    child c = {.pid = pid, .in = dup(master), .out = out[0], .err = master};
    for (int i = 0; i < 2; i++) c.text[i] = calloc(1, OUT_BYTES);
    return c;
}

static child start_at_terminal(const char *line) {
    child c = start_at(line, false);
    take_until(&c, 1, "> \x1b[K");
    return c;
}

static void put_away(child *c) {
    waitpid(c->pid, NULL, 0);
    close(c->in);
    close(c->out);
    close(c->err);
    drop(c);
}

#define CHAT "run $M -c 512 -n 4 --temp 0 --ignore-eos"
#define GIVEN "\r\n\x1b[?2004l" /* behind a message that was given */
#define READY "\x1b[?2004h\r> \x1b[K"

/* Types, and waits for what the terminal then shows. */
static void type(child *c, const char *keys, const char *shown) {
    c->n[1] = 0;
    memset(c->text[1], 0, OUT_BYTES);
    say(c, keys);
    take_until(c, 1, shown);
}

/* Ends the chat, which has given its terminal back and obtained no memory for all that. */
static void end(child *c, const char *says) {
    int status;
    struct termios now;
    type(c, "\x15/exit\r", last_line);
    assert_non_null(strstr(c->text[1], "mallocs after ready 0"));
    assert_non_null(strstr(c->text[1], says));
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(tcgetattr(c->in, &now), 0);
    assert_int_equal(now.c_lflag & (ICANON | ECHO), ICANON | ECHO);
    put_away(c);
}

static void keys_edit_a_message(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"helo\x1b[Dl\r", "> hello" GIVEN},
        {"xhello\x01\x1b[3~\x1b[F!\r", "> hello!" GIVEN},
        {"one two\x17three\r", "> one three" GIVEN},
        {"gone\x15here\x02\x02\x0b\r", "> he" GIVEN},
        {"\xc3\xa4\xe4\xb8\xad\x7f\x7fok\r", "> ok" GIVEN}, /* characters of two and three bytes go whole */
        {"e\xcc\x81x\x1b[D\x7fy\r", "> yx" GIVEN},           /* a mark goes with its letter */
        {"\x1b[1;5Cw\x1b[17~\x1bOHv\r", "> vw" GIVEN},
        {"a\x1b\rb\r", "> a\r\nb" GIVEN},
        {"a\\\rb\r", "> a\r\nb" GIVEN},
        {"\"\"\"\ra\r\rb\r\"\"\"\r", "> \"\"\"\r\na\r\n\r\nb\r\n\"\"\"" GIVEN},
        {"\x1b[200~one\rtwo\x1b[201~ three\r", "> one\r\ntwo three" GIVEN},
    };
    enum { N = sizeof cases / sizeof *cases };
    child c = start_at_terminal(CHAT);
    for (size_t i = 0; i < N; i++) {
        type(&c, cases[i][0], cases[i][1]);
        take_until(&c, 1, READY);
    }
    end(&c, "");
}

/* Ctrl-C over a text that was begun forgets it, in the midst of quotes too; over none it ends the chat. */
static void an_interrupt_forgets_what_was_typed(void **state) {
    (void)state;
    child c = start_at_terminal(CHAT);
    type(&c, "half a line", "> half a line\x1b[K"); /* the terminal drops with ^C what was not read yet */
    type(&c, "\x03", "^C\r\n\r> \x1b[K");
    type(&c, "\"\"\"\rone", "one\x1b[K");
    type(&c, "\x03", "^C\r\n\r> \x1b[K");
    type(&c, "hello\r", "> hello" GIVEN);
    take_until(&c, 1, READY);
    type(&c, "\x03", last_line);
    int status;
    assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 130);
    put_away(&c);
}

static void earlier_messages_come_back(void **state) {
    (void)state;
    child c = start_at_terminal(CHAT " -sys Be-brief");
    type(&c, "one\r", READY);
    type(&c, "two\r", READY);
    type(&c, "\x1b[A\x1b[A\x1b[B!\r", "> two!" GIVEN);
    take_until(&c, 1, READY);
    type(&c, "\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\r", "> one" GIVEN);
    take_until(&c, 1, READY);
    type(&c, "\x1b[A\x1b[Bnew\r", "> new" GIVEN);
    take_until(&c, 1, READY);
    end(&c, "");
}

/* 6,000 bytes, more than a terminal's own editor takes, are as many tokens as from a pipe; a row shows their end. */
static void nothing_is_cut(void **state) {
    (void)state;
    enum { N = 6000, PART = 500 }; /* a pseudo-terminal holds no more than 4,095 bytes */
    static char text[N + 2], part[PART + 1], wanted[16];
    for (int i = 0; i < N; i++) text[i] = " the"[i % 4];
    text[N] = '\n';
    child c = start("run $M -c 8192 -n 4 --temp 0 -cnv");
    say(&c, text);
    expect_code(&c, "chat, from a pipe", 0);
    snprintf(wanted, sizeof wanted, "%.12s", strstr(c.text[1], " ms / ") + 6);
    drop(&c);
    c = start_at_terminal("run $M -c 8192 -n 4 --temp 0");
    for (int i = 0; i < N; i += PART) {
        memcpy(part, text + i, PART);
        type(&c, part, "the the\x1b[K\r\x1b[38C");
    }
    type(&c, "\r", READY);
    end(&c, wanted);
}

/* Help is broken into lines between words; a column of its own would leave it none. */
static void help_fits_the_terminal(void **state) {
    (void)state;
    child c = start_at("run --help", true);
    take_until(&c, 1, "--concurrent\r\n      several models, any of which may\r\n      run at any time\r\n");
    assert_non_null(strstr(c.text[1], "  -c, --ctx-size N\r\n      context: input and output together\r\n      (default, and 0: at most 4096)\r\n"));
    close(kept);
    put_away(&c);
}

/* A terminal that only prints gets no keys to move in it. */
static void a_dumb_terminal_is_printed_to(void **state) {
    (void)state;
    terminal = "dumb";
    child c = start_at("run $M -c 512 -n 4 --temp 0 -q", false);
    terminal = "xterm";
    take_until(&c, 1, "\r\n> ");
    assert_null(strchr(c.text[1], 27));
    say(&c, "Hello\n");
    take_until(&c, 0, "\n");
    say(&c, "\x04");
    put_away(&c);
}

static void a_text_is_asked_for(void **state) {
    (void)state;
    child c = start_at("tokenize $M --ids", false);
    take_until(&c, 1, "Ctrl-D behind its last line ends it\r\n");
    say(&c, "Hello\n\x04");
    take_until(&c, 0, "\n");
    assert_string_equal(c.text[0], "1409 198\n");
    put_away(&c);
}

/* Lines that are one message are so from a pipe as well. */
static void lines_go_on_in_a_pipe(void **state) {
    (void)state;
    static const char *const texts[] = {"one\\\ntwo\n", "\"\"\"\none\ntwo\n\"\"\"\n", "\"\"\"one\ntwo\"\"\"\n",
                                        "\"\"\"one\\\ntwo\"\"\"\n"}; /* between quotes a backslash is one */
    enum { N_TEXTS = sizeof texts / sizeof *texts };
    char wanted[16] = "", got[16];
    for (size_t i = 0; i < N_TEXTS; i++) {
        child c = start(CHAT " -cnv");
        say(&c, texts[i]);
        expect_code(&c, texts[i], 0);
        snprintf(got, sizeof got, "%.12s", strstr(c.text[1], " ms / ") + 6);
        if (i == 0) strcpy(wanted, got);
        assert_int_equal(strcmp(got, wanted) == 0, i + 1 < N_TEXTS);
        assert_int_equal(count_of(c.text[0], "\n"), 1);
        drop(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_edit_a_message), cmocka_unit_test(an_interrupt_forgets_what_was_typed),
        cmocka_unit_test(earlier_messages_come_back),
        cmocka_unit_test(nothing_is_cut),
        cmocka_unit_test(lines_go_on_in_a_pipe),
        cmocka_unit_test(help_fits_the_terminal),
        cmocka_unit_test(a_dumb_terminal_is_printed_to),
        cmocka_unit_test(a_text_is_asked_for),
    };
    if (emulated("faults of a chat: they are the emulator's")) last_line = "not sealed";
#ifdef DCT_SANITIZED
    last_line = "not sealed"; /* faults and memory are the sanitizer's as well */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
