/* The command as users meet it: argv in; exit code, stdout and stderr out. Each case starts the built `dctms` as a process of its own.
 *
 *   table of cases     code, the first words of stderr, something that stdout holds
 *   JSON               keys and types are the contract of DESIGN §6; regions and items add up
 *   the run line       no malloc, no page fault after ready, and VmHWM within M_max, whatever the mode
 *   limits             each is named, and nothing crashes or stays half written
 *   signals            129, 130 and 143 from every place where the command can be, and a chat that survives Ctrl-C
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND DCT_BINARY_DIR "/dctms"
#define MODEL DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-f16.gguf"
#define WORK DCT_BINARY_DIR "/test_command."

enum { MAX_ARGS = 160, OUT_BYTES = 1 << 20, TIMEOUT_MS = 60000 };

/* ---- a process ---- */

typedef struct child {
    pid_t pid;
    int in, out, err; /* our ends */
    char *text[2];    /* stdout, stderr so far */
    size_t n[2];
} child;

/* A limit of the next process that is started; none when its value is 0. */
static struct {
    int resource;
    rlim_t value;
} limit;

static const char *group;  /* control group of the next process; NULL: ours */
static bool nobody_reads; /* stdout of the next process */

/* Into the group by its file; false when that cannot be. */
static bool enter_group(const char *directory) {
    char path[512], pid[32];
    snprintf(path, sizeof path, "%s/cgroup.procs", directory);
    int fd = open(path, O_WRONLY | O_CLOEXEC), n = snprintf(pid, sizeof pid, "%d", (int)getpid());
    bool done = fd >= 0 && write(fd, pid, (size_t)n) == n;
    if (fd >= 0) close(fd);
    return done;
}

/* `line` is cut at blanks; $M stands for the model's path, $W for the beginning of a path to write to, $0 for an empty word. */
static child start(const char *line) {
    static char store[8192];
    char *argv[MAX_ARGS] = {(char *)(uintptr_t)COMMAND};
    int n = 1, in[2], out[2], err[2];
    snprintf(store, sizeof store, "%s", line);
    for (char *word = strtok(store, " "); word != NULL && n < MAX_ARGS - 1; word = strtok(NULL, " ")) {
        static char paths[MAX_ARGS][512];
        if (strncmp(word, "$M", 2) == 0) snprintf(paths[n], sizeof paths[n], "%s%s", MODEL, word + 2);
        else if (strncmp(word, "$W", 2) == 0) snprintf(paths[n], sizeof paths[n], "%s%s", WORK, word + 2);
        else snprintf(paths[n], sizeof paths[n], "%s", strcmp(word, "$0") == 0 ? "" : word);
        argv[n] = paths[n];
        n++;
    }
    assert_true(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    if (nobody_reads) close(out[0]);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (group != NULL && !enter_group(group)) _exit(98);
        if (limit.value != 0) setrlimit(limit.resource, &(struct rlimit){limit.value, limit.value});
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        execv(COMMAND, argv);
        _exit(99);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    child c = {.pid = pid, .in = in[1], .out = nobody_reads ? -1 : out[0], .err = err[0]};
    for (int i = 0; i < 2; i++) c.text[i] = calloc(1, OUT_BYTES);
    return c;
}

static void say(child *c, const char *text) { assert_int_equal(write(c->in, text, strlen(text)), (ssize_t)strlen(text)); }

/* Takes what the child writes until stream `which` holds `wanted`, or until both ended when that is NULL. */
static void take_until(child *c, int which, const char *wanted) {
    while (wanted == NULL || strstr(c->text[which], wanted) == NULL) {
        struct pollfd p[2] = {{c->out, POLLIN, 0}, {c->err, POLLIN, 0}};
        if (c->out < 0 && c->err < 0) {
            if (wanted != NULL) fail_msg("ended without '%s': %s%s", wanted, c->text[0], c->text[1]);
            return;
        }
        if (poll(p, 2, TIMEOUT_MS) <= 0) {
            kill(c->pid, SIGKILL);
            fail_msg("hangs: %s%s", c->text[0], c->text[1]);
        }
        for (int i = 0; i < 2; i++) {
            int *fd = i == 0 ? &c->out : &c->err;
            if (*fd < 0 || p[i].revents == 0) continue;
            ssize_t got = read(*fd, c->text[i] + c->n[i], OUT_BYTES - 1 - c->n[i]);
            if (got > 0) c->n[i] += (size_t)got;
            if (got > 0) continue;
            close(*fd);
            *fd = -1;
        }
    }
}

/* The exit code; 1000 + the signal when one killed it. */
static int finish(child *c) {
    int status;
    if (c->in >= 0) close(c->in);
    c->in = -1;
    take_until(c, 0, NULL);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void drop(child *c) {
    free(c->text[0]);
    free(c->text[1]);
}

static void expect_code(child *c, const char *line, int wanted) {
    int code = finish(c);
    if (code != wanted) fail_msg("dctms %s: exit code %d, expected %d\n%s%s", line, code, wanted, c->text[0], c->text[1]);
}

static uint32_t count_of(const char *text, const char *part) {
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
    return n;
}

/* ---- files ---- */

static char *read_whole(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    struct stat st;
    assert_int_equal(fstat(fileno(f), &st), 0);
    char *bytes = malloc((size_t)st.st_size);
    assert_int_equal(fread(bytes, 1, (size_t)st.st_size, f), st.st_size);
    fclose(f);
    *n = (size_t)st.st_size;
    return bytes;
}

static void write_whole(const char *name, const char *bytes, size_t n) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", WORK, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void replace_all(char *bytes, size_t n, const char *from, const char *to) {
    size_t len = strlen(from);
    assert_int_equal(len, strlen(to));
    for (size_t i = 0; i + len <= n; i++)
        if (memcmp(bytes + i, from, len) == 0) memcpy(bytes + i, to, len);
}

static int remove_files(void **state) {
    (void)state;
    static const char *const names[] = {"cut.gguf", "short.gguf", "plain.gguf", "foreign.gguf", "big.txt", "long.txt", "few.txt", "line.txt",
                                        "alien.gguf", "mute.gguf", "nan.gguf", "cut.logits", "last.gguf", "limited", "logits", "plan", "svg", "html"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s%s", WORK, names[i]);
        unlink(path);
    }
    return 0;
}

/* Models that differ from the tiny one in a few bytes of the header, and texts. */
static int make_files(void **state) {
    remove_files(state); /* what an earlier run that was cut off may have left */
    size_t n;
    char *bytes = read_whole(MODEL, &n);
    write_whole("cut.gguf", bytes, n / 2);
    write_whole("short.gguf", bytes, 100);
    write_whole("last.gguf", bytes, n - 1);
    char *other = malloc(n);
    memcpy(other, bytes, n);
    replace_all(other, n, "tokenizer.chat_template", "tokenizer.chat_wemplate");
    write_whole("plain.gguf", other, n);
    memcpy(other, bytes, n);
    size_t at = 0;
    while (memcmp(other + at, "tokenizer.chat_template", 23) != 0) at++;
    uint64_t n_template;
    memcpy(&n_template, other + at + 27, sizeof n_template); /* key, type, length */
    replace_all(other + at + 35, n_template, "im_start", "qq_start");
    replace_all(other + at + 35, n_template, "im_end", "qq_end");
    write_whole("foreign.gguf", other, n);
    memcpy(other, bytes, n);
    replace_all(other, n, "qwen2vl", "qwen9vl");
    write_whole("alien.gguf", other, n);
    memcpy(other, bytes, n);
    replace_all(other, n, "tokenizer.ggml.tokens", "tokenizer.ggml.wokens");
    write_whole("mute.gguf", other, n);
    memcpy(other, bytes, n);
    memset(other + n / 10 * 9, 0xff, n - n / 10 * 9); /* the last layer is NaN */
    write_whole("nan.gguf", other, n);
    free(other);
    free(bytes);
    char head[20] = "DCTLOGIT";
    memcpy(head + 8, (uint32_t[2]){10, 1536}, 8);
    write_whole("cut.logits", head, sizeof head);
    char *text = malloc(200000);
    memset(text, 'a', 200000);
    write_whole("big.txt", text, 200000);
    for (size_t i = 0; i < 200000; i++) text[i] = (char)(i % 2 == 0 ? 'a' + i / 2 % 26 : ' ');
    write_whole("long.txt", text, 7000);
    write_whole("few.txt", "0123456789", 10);
    write_whole("line.txt", "0123456789\n", 11);
    free(text);
    unsetenv("DCTMS_ISA");
    unsetenv("LLAMA_ARG_CTX_SIZE");
    unsetenv("LLAMA_ARG_THREADS");
    return 0;
}

/* ---- the table ---- */

typedef struct command_case {
    const char *line, *input; /* input: standard input */
    int code;
    const char *err, *out;    /* stderr begins with, stdout holds; NULL: nothing at all */
} command_case;

static const command_case cases[] = {
    /* 0 */
    {"--help", "", 0, NULL, "Exit codes"},
    {"--version", "", 0, NULL, "dctms "},
    {"run --help", "", 0, NULL, "--seal HOW"},
    {"plan $M -c 256 -n 16", "", 0, NULL, "M_max"},
    {"plan $M -c 256 -n 16 -o $Wplan --svg $Wsvg --html $Whtml", "", 0, NULL, "M_max"},
    {"plan $M -c 256 -n 16 --concurrency", "", 0, NULL, "linear blk.*.q | linear blk.*.k | linear blk.*.v\n"},
    {"plan --diff $Wplan $M -c 256 -n 16", "", 0, NULL, "the same plan, byte for byte"},
    {"plan --diff $Wplan $M -c 512 -n 16", "", 0, NULL, "            256 ->            512           +256  ctx\n"},
    {"plan --diff $Wplan $M -c 512 -n 16 --json", "", 0, NULL, "\"differences\": ["},
    {"verify $Wplan", "", 0, NULL, "verified (alone"},
    {"verify $Wplan $M", "", 0, NULL, "verified\n"},
    {"run $M --plan $Wplan -p hello --temp 0 -q", "", 0, NULL, "\n"},
    {"inspect $M", "", 0, NULL, "qwen2vl"},
    {"plan $M $Wplain.gguf --exclusive -c 256 -n 16", "", 0, NULL, "together"},
    {"plan $M $Wplain.gguf --concurrent -c 256 -n 16 --json", "", 0, NULL, "\"mode\": \"concurrent\""},
    {"plan $M $M --exclusive -c 256 -n 16 --memory-budget 1M", "", 3, "dctms: needs ", NULL},
    {"plan $M $M -c 256", "", 1, "dctms: several models: say --exclusive", NULL},
    {"plan $M $M -c 256 --exclusive --concurrent", "", 1, "dctms: several models: say --exclusive", NULL},
    {"plan $M --exclusive", "", 1, "dctms: --exclusive and --concurrent are about several models", NULL},
    {"plan $M $M --exclusive -o $Wnew", "", 1, "dctms: several models are shown as a table", NULL},
    {"plan $M $Wshort.gguf --exclusive", "", 2, "dctms: ", NULL},
    {"run $M $Wplain.gguf --exclusive -c 256 -n 4 --temp 0 -q -p hello", "", 0, NULL, "\n"},
    {"run $M $M --concurrent -c 256 -n 4 --temp 0 --json -p hello", "", 0, NULL, "\"mallocs_after_ready\": 0"},
    {"run $M $Wcut.gguf --exclusive -c 256 -p hello", "", 2, "dctms: ", NULL},
    {"run $M $M --exclusive", "hello", 1, "dctms: several models answer one prompt", NULL},
    {"tokenize $M -p hello --ids", "", 0, NULL, "\n"},
    {"score $M -f $Wfew.txt", "", 0, "M_max ", "perplexity"},
    {"score $M -f -", "0123456789", 0, "M_max ", "tokens 10,"},
    {"score $M -f $Wfew.txt --save-logits $Wlogits", "", 0, "M_max ", "tokens 10,"},
    {"score $M -f $Wline.txt --kl $Wlogits", "", 0, "M_max ", "mean 0.00000000, max 0.00000000; same top token 10 of 10"}, /* but for a newline the same */
    {"tokenize $M -f $Wline.txt --ids", "", 0, NULL, " 24 198\n"},
    {"plan $M -c 2048", "", 0, NULL, "fits     yes"},
    {"plan $M -c 2049", "", 0, "warning: a context of 2049 tokens, the model was trained for 2048", "fits     yes"},
    {"run $M -c 2049 -n 2 -p hello --temp 0 -q", "", 0, NULL, "\n"},
    {"run $M -c 2049 -n 2 -p hello --temp 0", "", 0, "warning: a context of 2049 tokens", "\n"},
    {"run $M -c 256 -n 4 --temp 0 -q", "hello", 0, NULL, "\n"}, /* the prompt from standard input */
    {"run $Wplain.gguf -c 256 -n 4 --temp 0 -q -p hello", "", 0, NULL, "\n"}, /* no template: completed as it stands */
    {"run $Wforeign.gguf -c 256 -n 4 --temp 0 -q -p hello -no-cnv", "", 0, NULL, "\n"},
    {"run $Wforeign.gguf -c 256 -n 4 --temp 0 -q -p hello --chat-template chatml", "", 0, NULL, "\n"},
    {"run $M -c 256 -n 4 --temp 0 -q -p hello --alloc dynamic", "", 0, NULL, "\n"},
    /* 1 */
    {"", "", 1, NULL, "dctms run"},
    {"fly", "", 1, "dctms: unknown verb 'fly'", NULL},
    {"run --fly", "", 1, "dctms: --fly: no such flag", NULL},
    {"run -c", "", 1, "dctms: -c needs a value", NULL},
    {"run -c ten", "", 1, "dctms: --ctx-size: 'ten'", NULL},
    {"run $M -p x -c 16 -n 16", "", 1, "dctms: a context of 16 tokens leaves no room", NULL},
    {"run $M -p x --alloc bogus", "", 1, "dctms: --alloc: 'bogus'", NULL},
    {"run $M -p x --seal onn", "", 1, "dctms: --seal: 'onn'", NULL},
    {"run $M -p x --alloc dynamic --seal on", "", 1, "dctms: --alloc dynamic", NULL},
    {"run $M -ngl 99 -p x", "", 1, "dctms: -ngl 99", NULL},
    {"run $M -ctk q4_0 -p x", "", 1, "dctms: 'q4_0' is no type", NULL},
    {"run $M -cnv --json", "", 1, "dctms: --json shows one answer", NULL},
    {"run $M -c 256 -n 4 -p x --chat-template zz", "", 1, "dctms: unknown chat template zz; name one of chatml", NULL},
    {"run $Wforeign.gguf -c 256 -n 4 -p x", "", 1, "dctms: the file's chat template is not one we know; name one of", NULL},
    {"run $Wplain.gguf -c 256 -n 4 -cnv", "", 1, "dctms: the file has no chat template; name one of", NULL},
    {"run $Wplain.gguf -c 256 -n 4 -cnv -p x", "", 1, "dctms: the file has no chat template; name one of", NULL},
    {"score $M", "", 1, "dctms: score needs a text", NULL},
    {"score $M -f $Wfew.txt --seal onn", "", 1, "dctms: --seal: 'onn'", NULL},
    {"plan $M --phase decoding", "", 1, "dctms: --phase: 'decoding' is neither prefill nor decode", NULL},
    {"plan $M --concurrency --json", "", 1, "dctms: --concurrency prints instead of the plan", NULL},
    {"plan --diff $Wplan $M --emit docker", "", 1, "dctms: --diff goes with --json and with bounds only", NULL},
    {"plan --diff $Wplan", "", 1, "dctms: usage: dctms plan --diff A B", NULL},
    {"plan --diff $Wplan $M --svg $Wsvg", "", 1, "dctms: --diff goes with --json and with bounds only", NULL},
    {"plan --diff $Wplan /nonexistent", "", 2, "dctms: /nonexistent", NULL},
    {"plan $M --phase decoding --svg $Wsvg", "", 1, "dctms: --phase: 'decoding' is neither prefill nor decode", NULL},
    {"run $M -p x -f $Wfew.txt", "", 1, "dctms: one prompt: -p TEXT or -f FILE", NULL},
    {"tokenize $M -p x -f $Wfew.txt", "", 1, "dctms: one text: -p TEXT or -f FILE", NULL},
    {"run $M -p x -c 64 -n 0", "", 1, "dctms: --n-predict: '0' is neither a number from 1 nor -1", NULL},
    {"run $M -p x --plan $Wplan -n -5", "", 1, "dctms: --n-predict: '-5' is neither", NULL},
    {"plan $0", "", 1, "dctms: the model's name is empty", NULL},
    {"run -m $0 -p x", "", 1, "dctms: the model's name is empty", NULL},
    {"verify $0", "", 1, "dctms: a file's name is empty", NULL},
    {"plan $M -ctk $0", "", 1, "dctms: --cache-type-k: '' is not a value", NULL},
    {"run $M -p x --chat-template=", "", 1, "dctms: --chat-template: '' is not a value", NULL},
    {"run $M -p x -r $0", "", 1, "dctms: --reverse-prompt: '' is not a value", NULL},
    {"run $Wcut.gguf -p x -l 1536+1", "", 1, "dctms: --logit-bias: there is no token 1536, the vocabulary has 1536", NULL}, /* seen before the weights */
    {"plan $M --budget-ctx 256", "", 1, "dctms: a least context of 256 tokens says what a budget may take", NULL},
    {"plan $M -c 200 --memory-budget 17M --budget-ctx 256", "", 1, "dctms: a least context of 256 tokens is more than the context of 200", NULL},
    {"plan $M -n 64 --memory-budget 17M --budget-ctx 64", "", 1, "dctms: a context of 64 tokens leaves no room", NULL},
    {"run $M --plan $Wplan -p x --budget-ctx 64", "", 1, "dctms: --plan has its bounds", NULL},
    {"pack $Wfew.txt --seconds -1", "", 1, "dctms: --seconds -1", NULL},
    /* 2 */
    {"run $Wnan.gguf -c 64 -n 4 -p x", "", 2, "dctms: " WORK "nan.gguf: the logits are not finite at token ", NULL},
    {"run $Wnan.gguf -c 64 -n 4 -p x --alloc dynamic", "", 2, "dctms: " WORK "nan.gguf: the logits are not finite at token ", NULL},
    {"score $Wnan.gguf -f $Wfew.txt", "", 2, "dctms: " WORK "nan.gguf: the logits are not finite at token ", NULL},
    {"plan $Wnowhere", "", 2, "dctms: " WORK "nowhere: ", NULL},
    {"plan $Wshort.gguf", "", 2, "dctms: " WORK "short.gguf: ", NULL},
    {"run $Wcut.gguf -p x", "", 2, "dctms: " WORK "cut.gguf: the weights are cut off in tensor '", NULL},
    {"run $Wlast.gguf -p x", "", 2, "dctms: " WORK "last.gguf: the weights are cut off in tensor 'output_norm.weight' (bytes 5569504 to 5570528): the file has 5570527 bytes, 5570528 are needed", NULL},
    {"score $Wcut.gguf -f $Wfew.txt", "", 2, "dctms: " WORK "cut.gguf: ", NULL},
    {"plan $Wbig.txt", "", 2, "dctms: " WORK "big.txt: not a GGUF file", NULL},
    {"inspect $Wbig.txt", "", 2, "dctms: " WORK "big.txt: not a GGUF file", NULL},
    {"tokenize $Wbig.txt -p x", "", 2, "dctms: " WORK "big.txt: not a GGUF file", NULL},
    {"bench $Wbig.txt", "", 2, "dctms: " WORK "big.txt: not a GGUF file", NULL},
    {"plan $Walien.gguf", "", 2, "dctms: " WORK "alien.gguf: unsupported architecture", NULL},
    {"tokenize $Wmute.gguf -p x", "", 2, "dctms: " WORK "mute.gguf: ", NULL},
    {"plan $Wmute.gguf", "", 2, "dctms: " WORK "mute.gguf: ", NULL},
    {"verify $Wbig.txt", "", 2, "dctms: " WORK "big.txt: not a plan file", NULL},
    {"verify $Wplan $Wplain.gguf", "", 2, "dctms: " WORK "plan: MODEL_MISMATCH: the plan was made for another model (", NULL},
    {"run $Wplain.gguf -p x --plan $Wplan", "", 2, "dctms: " WORK "plan: the plan was made for another model", NULL},
    {"run $M -p x --plan $Wbig.txt", "", 2, "dctms: " WORK "big.txt: not a plan file", NULL},
    {"run $M -f $Wnowhere", "", 2, "dctms: " WORK "nowhere: ", NULL},
    {"run $M -f /", "", 2, "dctms: /: ", NULL},
    {"score $M -f $Wnowhere", "", 2, "dctms: " WORK "nowhere: ", NULL},
    {"score $M -f $Wfew.txt --kl $Wbig.txt", "", 2, "dctms: " WORK "big.txt: no file of saved logits", NULL},
    {"score $M -f $Wfew.txt --kl $Wshort.gguf", "", 2, "dctms: " WORK "short.gguf: ", NULL},
    {"score $M -f $Wfew.txt --kl $Wcut.logits", "", 2, "dctms: " WORK "cut.logits: the file is cut off: it has 20 bytes, 61456 are needed", NULL},
    {"pack $Wbig.txt", "", 2, "dctms: " WORK "big.txt: ", NULL},
    /* 3 */
    {"plan $M --memory-budget 1M", "", 3, "dctms: ", NULL},
    {"run $M -p x --memory-budget 1M", "", 3, "dctms: ", NULL},
    {"plan $M --memory-budget 0", "", 3, "dctms: needs at least ", NULL},
    {"plan $M --memory-budget 1M --budget-ctx 256", "", 3, "dctms: needs at least ", NULL},
    {"plan $M -c 2048 -n 64 --memory-budget 17M", "", 3, "dctms: needs at least ", NULL},
    {"run $M -p x --memory-budget 0K", "", 3, "dctms: needs at least ", NULL},
    /* 4 */
    {"run $M -c 2 -n 1 -no-cnv -q -p how-are-you-and-how-is-everybody-over-there-in-Spain", "", 4, "dctms: the prompt has 33 tokens, the bound is 1", NULL},
    {"run $M -c 2 -n 1 -q -p how-are-you-and-how-is-everybody-over-there-in-Spain", "", 4, "dctms: the prompt has 41 tokens, the bound is 1", NULL},
    {"run $M -c 64 -n 16 --temp 0 -no-cnv -f $Wlong.txt", "", 4, "dctms: the prompt has at least 438 tokens, the bound is 48", NULL},
    {"run $M -c 64 -n 16 --temp 0 -f $Wlong.txt", "", 4, "dctms: the prompt has at least 438 tokens, the bound is 48", NULL},
    {"run $M -c 2048 -n 16 --temp 0 -no-cnv -q -f $Wlong.txt", "", 4, "dctms: the prompt has 3903 tokens, the bound is 2032", NULL},
    {"run $M -c 4096 -n 16 --temp 0 -q -f $Wbig.txt", "", 4, "dctms: the prompt has at least 12500 tokens, the bound is 4080", NULL},
};

static void check_case(const command_case *k) {
    child c = start(k->line);
    signal(SIGPIPE, SIG_IGN);
    (void)!write(c.in, k->input, strlen(k->input));
    expect_code(&c, k->line, k->code);
    if (k->err == NULL ? c.n[1] != 0 : strncmp(c.text[1], k->err, strlen(k->err)) != 0) fail_msg("dctms %s: stderr is '%s'", k->line, c.text[1]);
    if (k->out == NULL ? c.n[0] != 0 : strstr(c.text[0], k->out) == NULL) fail_msg("dctms %s: stdout is '%s'", k->line, c.text[0]);
    drop(&c);
}

static void every_command_answers_as_stated(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

/* ---- lists that are full ---- */

static void refuse_one_more(const char *flag, const char *value, int most, const char *message) {
    char line[4096];
    int n = snprintf(line, sizeof line, "run $M -c 64 -n 2 -q --temp 0 -p x");
    for (int i = 0; i < most; i++) n += snprintf(line + n, sizeof line - (size_t)n, " %s %s", flag, value);
    child c = start(line);
    expect_code(&c, line, 0);
    drop(&c);
    snprintf(line + n, sizeof line - (size_t)n, " %s %s", flag, value);
    c = start(line);
    expect_code(&c, line, 1);
    assert_string_equal(c.text[1], message);
    drop(&c);
}

static void a_full_list_says_how_many(void **state) {
    (void)state;
    refuse_one_more("-l", "7+0", 64, "dctms: --logit-bias: at most 64 may be given\n");
    refuse_one_more("-r", "zebra", 16, "dctms: --reverse-prompt: at most 16 may be given\n");
}

/* ---- outputs ---- */

/* An output that is an input under any name is refused, and the input is as it was. */
static void no_output_destroys_an_input(void **state) {
    (void)state;
    static const char *const lines[] = {
        "plan $Wmine -o $Wmine", "plan $Wmine --svg $Wsymbolic", "plan $Wsymbolic -o $Wmine", "plan $Wmine -o $Whard", "plan -m $Wmine -o $Wmine",
        "plan $M -o $Wnew --svg $Wnew", "plan $M -o $Wnew --svg " DCT_BINARY_DIR "/./test_command.new", "plan $M -o -", "plan $M --svg -",
        "plan $Wmine --html $Whard", "plan $M --svg $Wnew --html $Wnew",
        "plan $Wpart-00001-of-00002.gguf -o $Wpart-00002-of-00002.gguf",
        "score $Wmine -f $Wfew.txt --save-logits $Wmine", "score $M -f $Wmine --save-logits $Whard", "score $M --ids-file $Wmine --save-logits $Wmine",
        "score $M -f $Wfew.txt --kl $Wmine --save-logits $Wsymbolic", "pack $Wmine -o $Wmine", "pack $Wmine --svg $Whard",
        "pack $Wfew.txt -o $Wnew --svg $Wnew", "synth tiny-qwen2 -o -",
    };
    static const char *const names[] = {"mine", "symbolic", "hard", "new", "part-00001-of-00002.gguf", "part-00002-of-00002.gguf"};
    size_t n_before, n_after;
    char *before = read_whole(MODEL, &n_before);
    write_whole("mine", before, n_before);
    write_whole("part-00001-of-00002.gguf", before, n_before);
    write_whole("part-00002-of-00002.gguf", before, n_before);
    unlink(WORK "symbolic");
    unlink(WORK "hard");
    assert_true(symlink(WORK "mine", WORK "symbolic") == 0 && link(WORK "mine", WORK "hard") == 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        child c = start(lines[i]);
        expect_code(&c, lines[i], 1);
        assert_int_equal(count_of(c.text[1], "\n"), 1);
        drop(&c);
        for (size_t k = 0; k < 2; k++) {
            char *after = read_whole(k == 0 ? WORK "mine" : WORK "part-00002-of-00002.gguf", &n_after);
            if (n_after != n_before || memcmp(before, after, n_before) != 0) fail_msg("dctms %s: the input is gone", lines[i]);
            free(after);
        }
        assert_int_not_equal(access(WORK "new", F_OK), 0);
    }
    child c = start("plan $M -c 64 -n 4 -o /dev/null --svg /dev/null"); /* which nothing destroys */
    expect_code(&c, "two outputs that are a device", 0);
    drop(&c);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s%s", WORK, names[i]);
        unlink(path);
    }
    free(before);
}

/* 5: what cannot be written. */
static void a_full_disk_is_reported(void **state) {
    (void)state;
    int code = system(COMMAND " --help >/dev/full 2>/dev/null");
    assert_int_equal(WEXITSTATUS(code), 5);
}

static bool is_there(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", WORK, name);
    return access(path, F_OK) == 0;
}

/* The name under which a child builds a file. */
static const char *part_of(const char *name, pid_t pid) {
    static char part[128];
    snprintf(part, sizeof part, "%s.part%ld", name, (long)pid);
    return part;
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

/* 141: a reader that has gone ends any verb the same way, and without a word. */
static void a_closed_pipe_ends_quietly(void **state) {
    (void)state;
    static const char *const lines[] = {"plan $M", "inspect $M", "run $M -p hi -c 128 -n 4 -q", "score $M -f $Wfew.txt",
                                        "bench $M -p 8,16 -n 4 -r 1 --no-roofline", "--help"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        nobody_reads = true;
        child c = start(lines[i]);
        nobody_reads = false;
        expect_code(&c, lines[i], 141);
        if (strstr(c.text[1], "dctms:") != NULL) fail_msg("dctms %s: stderr is '%s'", lines[i], c.text[1]);
        drop(&c);
    }
}

/* ---- JSON ---- */

static json_t *json_of(const char *line) {
    child c = start(line);
    json_error_t why;
    expect_code(&c, line, 0);
    json_t *root = json_loads(c.text[0], 0, &why);
    if (root == NULL) fail_msg("dctms %s: line %d: %s\n%s", line, why.line, why.text, c.text[0]);
    drop(&c);
    return root;
}

/* "s:name" a string, i an integer, r any number, b a boolean, a an array, o an object; exactly these. */
static void expect_keys(const json_t *object, const char *spec) {
    char copy[1024];
    size_t n = 0;
    assert_true(json_is_object(object));
    snprintf(copy, sizeof copy, "%s", spec);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "), n++) {
        const json_t *v = json_object_get(object, word + 2);
        if (v == NULL) fail_msg("no key '%s'", word + 2);
        bool fits = word[0] == 's' ? json_is_string(v) : word[0] == 'i' ? json_is_integer(v) : word[0] == 'r' ? json_is_number(v) :
                    word[0] == 'b' ? json_is_boolean(v) : word[0] == 'a' ? json_is_array(v) : json_is_object(v);
        if (!fits) fail_msg("'%s' has another type", word + 2);
    }
    assert_int_equal(json_object_size(object), n);
}

static json_int_t int_of(const json_t *object, const char *key) { return json_integer_value(json_object_get(object, key)); }

static void a_run_in_json(void **state) {
    (void)state;
    json_t *root = json_of("run $M -c 256 -n 12 -p hello --temp 0 --ignore-eos --json");
    expect_keys(root, "s:text a:tokens s:finish_reason o:timings o:memory");
    expect_keys(json_object_get(root, "timings"), "i:prompt_n r:prompt_ms r:prompt_per_second i:predicted_n r:predicted_ms r:predicted_per_second");
    const json_t *memory = json_object_get(root, "memory");
    expect_keys(memory, "i:m_max_bytes i:vm_hwm_bytes i:rss_anon_bytes i:mallocs_after_ready i:minflt_after_ready i:majflt_after_ready b:sealed");
    assert_int_equal(json_array_size(json_object_get(root, "tokens")), 12);
    assert_int_equal(int_of(json_object_get(root, "timings"), "predicted_n"), 12);
    assert_string_equal(json_string_value(json_object_get(root, "finish_reason")), "length");
#ifndef DCT_SANITIZED
    assert_int_equal(int_of(memory, "mallocs_after_ready"), 0);
    assert_int_equal(int_of(memory, "minflt_after_ready") + int_of(memory, "majflt_after_ready"), 0);
    assert_in_range(int_of(memory, "vm_hwm_bytes"), 1, int_of(memory, "m_max_bytes"));
#endif
    json_decref(root);
}

static void a_plan_adds_up(void **state) {
    (void)state;
    static const char *const regions[] = {"weights", "kv", "persistent", "intermediate", "runtime"};
    json_t *root = json_of("plan $M -c 512 -n 64 -t 2 --json");
    expect_keys(root, "o:model o:bounds o:envelope o:compile a:phases o:schedule");
    expect_keys(json_object_get(root, "bounds"), "i:ctx i:max_input i:max_output i:ubatch i:slots i:threads s:type_k s:type_v i:image_max_tokens s:logits");
    const json_t *e = json_object_get(root, "envelope");
    expect_keys(e, "i:m_max_bytes i:weights_bytes i:kv_bytes i:persistent_bytes i:intermediate_bytes i:runtime_bytes i:m_hw_bytes i:m_free_bytes b:fits s:source o:loading a:items");
    json_int_t total = 0;
    for (size_t r = 0; r < 5; r++) {
        char key[64];
        json_int_t sum = 0;
        size_t i;
        json_t *item;
        snprintf(key, sizeof key, "%s_bytes", regions[r]);
        json_array_foreach(json_object_get(e, "items"), i, item)
            if (strcmp(json_string_value(json_object_get(item, "region")), regions[r]) == 0) sum += int_of(item, "bytes");
        if (sum != int_of(e, key)) fail_msg("the items of %s are %lld bytes, the region has %lld", regions[r], (long long)sum, (long long)int_of(e, key));
        total += sum;
    }
    assert_int_equal(total, int_of(e, "m_max_bytes"));
    json_decref(root);
}

/* ---- numbers in what is printed ---- */

static double number_after(const char *text, const char *key) {
    const char *at = strstr(text, key);
    return at == NULL ? -1 : strtod(at + strlen(key), NULL);
}

/* ---- budgets ---- */

/* The context that a budget leaves: it fits, a step more does not; and a budget with room takes nothing away. */
static void a_budget_takes_context_when_asked(void **state) {
    (void)state;
    char line[256];
    json_t *root = json_of("plan $M -c 2048 -n 64 -t 2 --memory-budget 18M --budget-ctx 200 --json");
    long long ctx = int_of(json_object_get(root, "bounds"), "ctx");
    assert_in_range(ctx, 201, 2047);
    assert_int_equal((ctx - 200) % 64, 0);
    assert_int_equal(int_of(json_object_get(root, "bounds"), "max_output"), 64);
    assert_in_range(int_of(json_object_get(root, "envelope"), "m_max_bytes"), 1, 18 << 20);
    json_decref(root);
    for (int more = 0; more <= 1; more++) {
        snprintf(line, sizeof line, "plan $M -c %lld -n 64 -t 2 --memory-budget 18M", ctx + 64 * more);
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

/* 2 is the refusal of the weights: it began. */
static void expect_start(const char *line, int code, const char *words) {
    child c = start(line);
    expect_code(&c, line, code);
    if (strstr(c.text[1], words) == NULL) fail_msg("dctms %s: stderr is '%s'", line, c.text[1]);
    if (code == 3) assert_int_equal(count_of(c.text[1], "\n"), 1);
    drop(&c);
}

static void check_rlimit(int resource, long long m_max, const char *source) {
    limit.resource = resource;
    limit.value = (rlim_t)m_max;
    expect_start(small_run, 2, "not finite");
    limit.value--;
    expect_start(small_run, 3, source);
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
            expect_start(small_run, 2, "not finite");
            assert_true(write_number(path, ways[i][1], pages - 4096));
            expect_start(small_run, 3, ways[i][2]);
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
    expect_start(line, 2, "not finite");
    snprintf(line, sizeof line, "%s --memory-budget %lld", small_run, m_max - 1);
    expect_start(line, 3, "dctms: needs at least ");
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
    };
#ifdef DCT_SANITIZED
    print_message("skipped: a sanitizer's own memory is counted with the process\n");
    return;
#endif
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char line[512];
        snprintf(line, sizeof line, "run $M -c 256 -n 24 --ignore-eos -p hello %s", modes[i]);
        check_run_line(line, "");
    }
    check_run_line("run $M -c 2048 -n 24 --ignore-eos --temp 0 -no-cnv -f $Wfew.txt", "");
    check_run_line("run $M -c 512 -n 24 --temp 0 -cnv", "hello\nwho are you\n/clear\nhello again\n/exit\n");
    check_run_line("run $Wplain.gguf -c 256 -n 24 -p hello", "");
    check_run_line("score $M -f $Wfew.txt", "");
    check_run_line("score $M -f $Wfew.txt --kl $Wlogits --seal kill", "");
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
    size_t n = 20000;
    char *line = malloc(n + 2);
    for (size_t i = 0; i < n; i++) line[i] = " the"[i % 4];
    strcpy(line + n, "\n");
    child c = start("run $M -c 8192 -n 4 --temp 0 -cnv -q");
    say(&c, line);
    take_until(&c, 1, "\n> \n> ");
    say(&c, "/exit\n");
    expect_code(&c, "chat, a line of 20,000 bytes", 0);
    assert_null(strstr(c.text[1], "dctms: "));
    drop(&c);
    c = start("run $M -c 256 -n 4 --temp 0 -cnv");
    say(&c, line);
    say(&c, "hello\n/exit\n");
    expect_code(&c, "chat, a line too long", 0);
    assert_non_null(strstr(c.text[1], "dctms: the prompt has at least 1250 tokens, the bound is 252; /clear"));
    assert_int_equal(count_of(c.text[0], "\n"), 1);
    drop(&c);
    free(line);
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

/* ---- signals ---- */

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

/* Whatever ends it, a file that is being written does not stay; a signal that was ignored before goes on being so. */
static void signals_leave_no_file(void **state) {
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        child c = start("synth qwen2.5-1.5b --type Q8_0 -t 1 -o $Wlimited");
        for (int k = 0; k < 5000 && !is_there(part_of("limited", c.pid)); k++) pause_ms(2);
        assert_true(is_there(part_of("limited", c.pid)));
        kill(c.pid, numbers[i]);
        expect_code(&c, "synth, in its data", 1000 + numbers[i]);
        assert_false(is_there(part_of("limited", c.pid)));
        assert_false(is_there("limited"));
        drop(&c);
    }
    signal(SIGHUP, SIG_IGN);
    child c = start("run $M -c 128 -n 4 -q");
    signal(SIGHUP, SIG_DFL);
    pause_ms(300);
    kill(c.pid, SIGHUP);
    say(&c, "hello");
    expect_code(&c, "run, with SIGHUP ignored", 0);
    drop(&c);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_answers_as_stated),
        cmocka_unit_test(a_full_list_says_how_many),
        cmocka_unit_test(no_output_destroys_an_input),
        cmocka_unit_test(a_full_disk_is_reported),
        cmocka_unit_test(limits_are_reported),
        cmocka_unit_test(a_closed_pipe_ends_quietly),
        cmocka_unit_test(a_run_in_json),
        cmocka_unit_test(a_plan_adds_up),
        cmocka_unit_test(a_budget_takes_context_when_asked),
        cmocka_unit_test(a_refusal_says_what_each_term_costs),
        cmocka_unit_test(memory_below_m_max_is_refused),
        cmocka_unit_test(nothing_is_obtained_after_ready),
        cmocka_unit_test(a_prompt_comes_by_any_way),
        cmocka_unit_test(a_silent_pipe_can_be_left),
        cmocka_unit_test(a_chat_knows_its_commands),
        cmocka_unit_test(a_chat_is_timed_as_a_whole),
        cmocka_unit_test(a_chat_takes_long_lines),
        cmocka_unit_test(a_long_life_takes_no_memory),
        cmocka_unit_test(signals_end_a_run),
        cmocka_unit_test(signals_leave_no_file),
        cmocka_unit_test(signals_end_a_chat),
        cmocka_unit_test(a_chat_survives_ctrl_c),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
