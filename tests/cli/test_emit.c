/* plan --emit: files that their schedulers can read, with M_max as the limit, and a command that is the plan's own.
 *
 * Each file is read back by check_emit.py (python3; YAML by its module of that name), units by systemd-analyze as well; what is not
 * installed is skipped by name. The command that was read is then run: it must find the M_max of the plan.
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND DCT_BINARY_DIR "/dctms"
#define MODEL DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-f16.gguf"
#define CHECK_EMIT DCT_SOURCE_DIR "/tests/cli/check_emit.py"
#define PLACE DCT_BINARY_DIR "/test_emit.place"

/* Everything that one of the formats takes for something else. */
#define ODD_DIRECTORY PLACE "/a b ${x} $(y) %n %{z} \"q\" \\ 'k' #h: \303\251"
#define ODD_MODEL ODD_DIRECTORY "/m$$.gguf"
#define PROMPT PLACE "/prompt one.txt"

enum { TEXT_BYTES = 64 * 1024, MAX_WORDS = 40, NOT_INSTALLED = 77, LIMIT_PAGE = 4096, MIB = 1024 * 1024 };

/* ---- processes ---- */

/* Runs words[0] found in PATH; what it writes to stdout (and stderr) is in `out`. Returns the exit code. */
static int run(const char *const *words, char *out) {
    int ends[2], status;
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        execvp(words[0], (char *const *)(uintptr_t)words);
        _exit(NOT_INSTALLED);
    }
    close(ends[1]);
    for (ssize_t got; n < TEXT_BYTES - 1 && (got = read(ends[0], out + n, TEXT_BYTES - 1 - n)) > 0;) n += (size_t)got;
    out[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define RUN(out, ...) run((const char *const[]){__VA_ARGS__, NULL}, out)

static void save(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int make_place(void **state) {
    (void)state;
    static char out[TEXT_BYTES];
    (void)RUN(out, "rm", "-rf", PLACE); /* what an earlier run that was cut off may have left */
    if (mkdir(PLACE, 0755) != 0 || mkdir(ODD_DIRECTORY, 0755) != 0) return -1;
    save(PROMPT, "Hello");
    unsetenv("LLAMA_ARG_CTX_SIZE");
    unsetenv("LLAMA_ARG_THREADS");
    return RUN(out, "cp", MODEL, ODD_MODEL);
}

static int drop_place(void **state) {
    (void)state;
    static char out[TEXT_BYTES];
    return RUN(out, "rm", "-rf", PLACE);
}

/* ---- one file ---- */

static unsigned long long m_max_in(const char *json) {
    const char *at = strstr(json, "\"m_max_bytes\": ");
    if (at == NULL) fail_msg("no M_max in: %s", json);
    return strtoull(at + 15, NULL, 10);
}

/* What check_emit.py found. */
typedef struct found {
    unsigned long long memory, lock;
    bool capability;
    const char *words[MAX_WORDS];
    uint32_t n_words, n_seen;
} found;

static void take_line(char *line, found *f) {
    if (strncmp(line, "memory ", 7) == 0) f->memory = strtoull(line + 7, NULL, 10);
    else if (strcmp(line, "lock capability") == 0) f->capability = true;
    else if (strncmp(line, "lock ", 5) == 0) f->lock = strtoull(line + 5, NULL, 10);
    else if (strncmp(line, "word ", 5) == 0 && f->n_words < MAX_WORDS - 2) f->words[f->n_words++] = line + 5;
    else if (strcmp(line, "see " ODD_DIRECTORY) == 0 || strcmp(line, "see " PROMPT) == 0) f->n_seen++;
    else fail_msg("check_emit.py says '%s'", line);
}

static const char *format;
static char listing[TEXT_BYTES]; /* the words point into it */

static bool read_back(bool locks, found *f) {
    char emitted[TEXT_BYTES], path[512];
    int code = locks ? RUN(emitted, COMMAND, "plan", ODD_MODEL, "-c", "200", "-n", "8", "-ub", "16", "-t", "2", "-ctk", "q8_0", "--logits", "all", "-f",
                           PROMPT, "--emit", format, "--mlock")
                     : RUN(emitted, COMMAND, "plan", ODD_MODEL, "-c", "200", "-n", "8", "-ub", "16", "-t", "2", "-ctk", "q8_0", "--logits", "all", "-f",
                           PROMPT, "--emit", format);
    if (code != 0) fail_msg("--emit %s: code %d: %s", format, code, emitted);
    snprintf(path, sizeof path, "%s/dctms-%s.service", PLACE, format); /* the suffix that systemd-analyze wants */
    save(path, emitted);
    code = RUN(listing, "python3", CHECK_EMIT, format, path);
    if (code == NOT_INSTALLED) return false;
    if (code != 0) fail_msg("%s: %s\n%s", format, listing, emitted);
    memset(f, 0, sizeof *f);
    for (char *line = strtok(listing, "\n"); line != NULL; line = strtok(NULL, "\n")) take_line(line, f);
    if (strcmp(format, "systemd") != 0) return true;
    code = RUN(emitted, "systemd-analyze", "verify", path);
    if (code == NOT_INSTALLED) print_message("skipped: systemd-analyze is not installed\n");
    else if (code != 0 || emitted[0] != '\0') fail_msg("systemd-analyze verify: code %d: %s", code, emitted);
    return true;
}

/* The words are run as they stand, without --mlock where that may not be, and with --json to see what they plan. */
static void run_words(found *f, unsigned long long m_max) {
    static char out[TEXT_BYTES];
    uint32_t n = f->n_words;
    assert_string_equal(f->words[2], ODD_MODEL);
    f->words[0] = COMMAND;
    f->words[n++] = "--json";
    f->words[n] = NULL;
    int code = run(f->words, out);
    if (code != 0) fail_msg("the command of %s: code %d: %s", format, code, out);
    assert_true(m_max_in(out) == m_max);
}

static void check_format(const char *name) {
    static char json[TEXT_BYTES];
    found f;
    format = name;
    assert_int_equal(RUN(json, COMMAND, "plan", ODD_MODEL, "-c", "200", "-n", "8", "-ub", "16", "-t", "2", "-ctk", "q8_0", "--logits", "all", "--json"), 0);
    unsigned long long m_max = m_max_in(json), step = strcmp(name, "nomad") == 0 ? MIB : LIMIT_PAGE;
    for (int locks = 0; locks <= 1; locks++) {
        if (!read_back(locks, &f)) {
            print_message("skipped: %s: python3, or its module yaml, is not installed\n", name);
            skip();
        }
        assert_true(f.memory >= m_max && f.memory < m_max + step && f.memory % step == 0);
        if (!locks) assert_true(f.lock == 0 && !f.capability);
        else assert_true(f.capability == (strcmp(name, "kubernetes") == 0) && (f.capability || f.lock >= m_max));
        assert_int_equal(f.n_seen, strcmp(name, "systemd") == 0 ? 0 : 2);
        bool has_lock = false;
        for (uint32_t i = 0; i < f.n_words; i++) has_lock = has_lock || strcmp(f.words[i], "--mlock") == 0;
        assert_int_equal(has_lock, locks);
        if (!locks) run_words(&f, m_max); /* locking needs a right that a test may lack */
    }
}

static void a_unit(void **state) { (void)state; check_format("systemd"); }
static void a_compose_file(void **state) { (void)state; check_format("docker"); }
static void a_pod(void **state) { (void)state; check_format("kubernetes"); }
static void a_job(void **state) { (void)state; check_format("nomad"); }

/* Where files are links, as in the caches of Hugging Face, the name is the link's, which says what the target's does not. */
static void a_link_keeps_its_name(void **state) {
    (void)state;
    char out[TEXT_BYTES];
    assert_int_equal(mkdir(PLACE "/snapshot", 0755), 0);
    assert_int_equal(symlink(ODD_MODEL, PLACE "/snapshot/named.gguf"), 0);
    assert_int_equal(RUN(out, COMMAND, "plan", PLACE "/snapshot/named.gguf", "--emit", "systemd"), 0);
    assert_non_null(strstr(out, "/snapshot/named.gguf"));
    assert_int_equal(RUN(out, COMMAND, "plan", PLACE "/snapshot/named.gguf", "--emit", "docker"), 1);
    assert_non_null(strstr(out, "/snapshot/named.gguf is a link out of its directory"));
}

/* Any file that is read, not only the one that is named; which one, is said. */
static void every_file_of_the_model_counts(void **state) {
    (void)state;
    char out[TEXT_BYTES];
    assert_int_equal(RUN(out, COMMAND, "synth", "qwen2.5-0.5b", "--type", "hf-bf16", "--header", "-o", PLACE "/dir"), 0);
    assert_int_equal(symlink("/etc/hostname", PLACE "/dir/notes.txt"), 0); /* not read */
    assert_int_equal(RUN(out, COMMAND, "plan", PLACE "/dir", "--emit", "docker"), 0);
    assert_int_equal(rename(PLACE "/dir/model.safetensors", PLACE "/blob"), 0);
    assert_int_equal(symlink("../blob", PLACE "/dir/model.safetensors"), 0);
    assert_int_equal(RUN(out, COMMAND, "plan", PLACE "/dir", "--emit", "docker"), 1);
    assert_non_null(strstr(out, "/dir/model.safetensors is a link out of its directory"));
    assert_int_equal(RUN(out, COMMAND, "plan", PLACE "/dir", "--emit", "systemd"), 0);
    assert_int_equal(rename(PLACE "/blob", PLACE "/dir/model.safetensors"), 0);
    assert_int_equal(RUN(out, COMMAND, "plan", PLACE "/dir", "--emit", "docker"), 0);
    assert_int_equal(symlink("/etc/hostname", PLACE "/dir/chat_template.jinja"), 0);
    assert_int_equal(RUN(out, COMMAND, "plan", PLACE "/dir", "--emit", "docker"), 1);
    assert_non_null(strstr(out, "/dir/chat_template.jinja is a link out of its directory"));
}

static void what_cannot_be_written_is_refused(void **state) {
    (void)state;
    char out[TEXT_BYTES];
    assert_int_equal(RUN(out, COMMAND, "plan", MODEL, "--emit", "cron"), 1);
    assert_non_null(strstr(out, "'cron' is none of systemd, docker, kubernetes, nomad"));
    assert_int_equal(RUN(out, COMMAND, "plan", MODEL, "--emit", "docker", "--json"), 1);
    assert_int_equal(RUN(out, COMMAND, "plan", MODEL, "--emit", "docker", "--nodes", "5"), 1);
    assert_int_equal(RUN(out, COMMAND, "plan", MODEL, "--emit", "docker", "-f", "prompt.txt"), 1);
    assert_int_equal(RUN(out, COMMAND, "plan", MODEL, "--emit", "docker", "-f", "/a\nb"), 1);
    assert_non_null(strstr(out, "characters that are no text"));
    assert_int_equal(RUN(out, COMMAND, "plan", MODEL, "--emit", "docker", "-f", "/a\xff"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit),
        cmocka_unit_test(a_compose_file),
        cmocka_unit_test(a_pod),
        cmocka_unit_test(a_job),
        cmocka_unit_test(a_link_keeps_its_name),
        cmocka_unit_test(every_file_of_the_model_counts),
        cmocka_unit_test(what_cannot_be_written_is_refused),
    };
    return cmocka_run_group_tests(tests, make_place, drop_place);
}
