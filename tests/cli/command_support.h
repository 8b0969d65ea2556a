/* What the tests of the command share: the built `dctms` as a process of its own, with what it writes, its exit code and its limits;
 * models and texts for it to read; numbers in what it prints.
 *
 * Each test that includes this defines WORK, the beginning of the paths of its files, which are removed in the end.
 */
#ifndef TESTS_CLI_COMMAND_SUPPORT_H
#define TESTS_CLI_COMMAND_SUPPORT_H

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
#include <glob.h>
#include <jansson.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND DCT_BINARY_DIR "/dctms"
#define MODEL DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-f16.gguf"

enum { MAX_ARGS = 160, OUT_BYTES = 1 << 20, TIMEOUT_MS = 60000 };

/* ---- a process ---- */

typedef struct child {
    pid_t pid;
    int in, out, err; /* our ends */
    char *text[2];    /* stdout, stderr so far */
    size_t n[2];
    uint64_t n_read; /* by the end, from files and pipes */
} child;

/* A limit of the next process that is started; none when its value is 0. */
static struct {
    int resource;
    rlim_t value;
} limit;

static const char *group;  /* control group of the next process; NULL: ours */
static bool nobody_reads; /* stdout of the next process */

/* Into the group by its file; false when that cannot be. */
static inline bool enter_group(const char *directory) {
    char path[512], pid[32];
    snprintf(path, sizeof path, "%s/cgroup.procs", directory);
    int fd = open(path, O_WRONLY | O_CLOEXEC), n = snprintf(pid, sizeof pid, "%d", (int)getpid());
    bool done = fd >= 0 && write(fd, pid, (size_t)n) == n;
    if (fd >= 0) close(fd);
    return done;
}

/* Root may lock whatever the limit says; that right goes as well. */
static inline void set_limit(void) {
    if (limit.resource == RLIMIT_MEMLOCK) prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0);
    setrlimit(limit.resource, &(struct rlimit){limit.value, limit.value});
}

/* `line` is cut at blanks; $M stands for the model's path, $W for the beginning of a path to write to, $0 for an empty word. */
static inline child start(const char *line) {
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
        setpgid(0, 0); /* with all that it starts */
        if (group != NULL && !enter_group(group)) _exit(98);
        if (limit.value != 0) set_limit();
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

static inline void say(child *c, const char *text) { assert_int_equal(write(c->in, text, strlen(text)), (ssize_t)strlen(text)); }

/* Takes what the child writes until stream `which` holds `wanted`, or until both ended when that is NULL. */
static inline void take_until(child *c, int which, const char *wanted) {
    while (wanted == NULL || strstr(c->text[which], wanted) == NULL) {
        struct pollfd p[2] = {{c->out, POLLIN, 0}, {c->err, POLLIN, 0}};
        if (c->out < 0 && c->err < 0) {
            if (wanted != NULL) fail_msg("ended without '%s': %s%s", wanted, c->text[0], c->text[1]);
            return;
        }
        if (poll(p, 2, getenv("DCTMS_EMULATED") != NULL ? 10 * TIMEOUT_MS : TIMEOUT_MS) <= 0) {
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

/* What the process has taken by read and its kin in all its life, by the kernel's count; 0 where it keeps none. */
static inline uint64_t bytes_read_by(pid_t pid) {
    char path[64];
    siginfo_t ended;
    unsigned long long bytes = 0;
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    snprintf(path, sizeof path, "/proc/%d/io", (int)pid);
    FILE *f = getenv("DCTMS_EMULATED") == NULL ? fopen(path, "r") : NULL; /* an emulator reads for itself */
    if (f == NULL) return 0;
    if (fscanf(f, "rchar: %llu", &bytes) != 1) bytes = 0;
    fclose(f);
    return bytes;
}

/* The exit code; 1000 + the signal when one killed it. */
static inline int finish(child *c) {
    int status;
    if (c->in >= 0) close(c->in);
    c->in = -1;
    take_until(c, 0, NULL);
    c->n_read = bytes_read_by(c->pid);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static inline void drop(child *c) {
    free(c->text[0]);
    free(c->text[1]);
}

static inline void expect_code(child *c, const char *line, int wanted) {
    int code = finish(c);
    if (code != wanted) fail_msg("dctms %s: exit code %d, expected %d\n%s%s", line, code, wanted, c->text[0], c->text[1]);
}

static inline uint32_t count_of(const char *text, const char *part) {
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
    return n;
}

/* ---- files ---- */

static inline char *read_whole(const char *path, size_t *n) {
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

static inline void write_whole(const char *name, const char *bytes, size_t n) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", WORK, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static inline void replace_all(char *bytes, size_t n, const char *from, const char *to) {
    size_t len = strlen(from);
    assert_int_equal(len, strlen(to));
    for (size_t i = 0; i + len <= n; i++)
        if (memcmp(bytes + i, from, len) == 0) memcpy(bytes + i, to, len);
}

static inline bool is_there(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", WORK, name);
    return access(path, F_OK) == 0;
}

/* The name under which a child builds a file. */
static inline const char *part_of(const char *name, pid_t pid) {
    static char part[128];
    snprintf(part, sizeof part, "%s.part%ld", name, (long)pid);
    return part;
}

/* The tiny model with one text of its header replaced by another as long. */
static inline void make_model(const char *name, const char *from, const char *to) {
    size_t n;
    char *bytes = read_whole(MODEL, &n);
    replace_all(bytes, n, from, to);
    write_whole(name, bytes, n);
    free(bytes);
}

/* The tiny model with a last layer of NaN: whoever evaluates it refuses it, so a refusal of another kind came before. */
static inline void make_nan_model(const char *name) {
    size_t n;
    char *bytes = read_whole(MODEL, &n);
    memset(bytes + n / 10 * 9, 0xff, n - n / 10 * 9);
    write_whole(name, bytes, n);
    free(bytes);
}

/* few.txt and line.txt hold ten digits, the latter with a newline; long.txt has 7,000 bytes of about 3,900 tokens. */
static inline void make_texts(void) {
    char text[7000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i % 2 == 0 ? 'a' + i / 2 % 26 : ' ');
    write_whole("long.txt", text, sizeof text);
    write_whole("few.txt", "0123456789", 10);
    write_whole("line.txt", "0123456789\n", 11);
}

static inline int remove_files(void **state) {
    (void)state;
    glob_t all;
    if (glob(WORK "*", 0, NULL, &all) != 0) return 0;
    for (size_t i = 0; i < all.gl_pathc; i++) unlink(all.gl_pathv[i]);
    globfree(&all);
    return 0;
}

/* What an earlier run that was cut off may have left goes, and so does what the environment would say. */
static inline void begin_files(void) {
    remove_files(NULL);
    unsetenv("DCTMS_ISA");
    unsetenv("LLAMA_ARG_CTX_SIZE");
    unsetenv("LLAMA_ARG_THREADS");
}

/* ---- what is printed ---- */

static inline json_t *json_of(const char *line) {
    child c = start(line);
    json_error_t why;
    expect_code(&c, line, 0);
    json_t *root = json_loads(c.text[0], 0, &why);
    if (root == NULL) fail_msg("dctms %s: line %d: %s\n%s", line, why.line, why.text, c.text[0]);
    drop(&c);
    return root;
}

static inline json_int_t int_of(const json_t *object, const char *key) { return json_integer_value(json_object_get(object, key)); }

static inline double number_after(const char *text, const char *key) {
    const char *at = strstr(text, key);
    return at == NULL ? -1 : strtod(at + strlen(key), NULL);
}

#endif
