/* protocol as its users meet it: on the built-in model, with few and short calls.
 *
 *   refusals    each malformed flag, a prompt that is too long, another experiment's directory
 *   records     a line for each call, in order, with what it must hold; VmHWM within M_max
 *   resuming    what stands in the records is not measured again, a torn line is dropped, more can be asked for later
 *   tables      the sections, and the figures of the plan; the same in JSON and CSV; what the charts hold
 *   llama.cpp   a program that prints what llama-bench prints
 *   neighbours  none outlives the command, even when that is killed
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
#include <jansson.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/emulated.h"

#define COMMAND DCT_BINARY_DIR "/dctms"
#define MODEL DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-f16.gguf"
#define WORK DCT_BINARY_DIR "/test_protocol."
#define SMALL "protocol '" MODEL "' --categories P1,P2 -n 4 -c 512 -t 1 "

enum { TEXT_BYTES = 1 << 18 };
static char out[TEXT_BYTES], err[TEXT_BYTES], file[TEXT_BYTES];

static void read_file(const char *path, char *text) {
    FILE *f = fopen(path, "r");
    if (f == NULL) fail_msg("%s is not there", path);
    size_t n = fread(text, 1, TEXT_BYTES - 1, f);
    text[n] = '\0';
    fclose(f);
}

static void write_file(const char *path, const char *text, size_t n) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int run(const char *args) {
    char line[2048];
    snprintf(line, sizeof line, "'%s' %s >'%sout' 2>'%serr'", COMMAND, args, WORK, WORK);
    int status = system(line);
    read_file(WORK "out", out);
    read_file(WORK "err", err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static void run_well(const char *args) {
    if (run(args) != 0) fail_msg("dctms %s: %s", args, err);
}

static void remove_directory(const char *name) {
    char line[512];
    snprintf(line, sizeof line, "rm -rf '%s%s'", WORK, name);
    assert_int_equal(system(line), 0);
}

static uint32_t count_lines(const char *text) {
    uint32_t n = 0;
    for (; *text != '\0'; text++) n += *text == '\n';
    return n;
}

/* Where line i begins. */
static char *line_at(char *text, uint32_t i) {
    for (; i > 0; i--) {
        text = strchr(text, '\n');
        assert_non_null(text);
        text++;
    }
    return text;
}

static void expect_text(const char *text, const char *part) {
    if (strstr(text, part) == NULL) fail_msg("no '%s' in\n%s", part, text);
}

/* ---- refusals ---- */

static void malformed_flags_are_refused(void **state) {
    (void)state;
    static const struct { const char *args, *says; int code; } cases[] = {
        {"--categories P6", "--categories: 'P6'", 1}, {"--categories P1,", "--categories: 'P1,'", 1},
        {"--categories P1,P1", "--categories: 'P1,P1'", 1}, {"--categories p1", "--categories: 'p1'", 1},
        {"--systems planed", "--systems: 'planed'", 1}, {"--systems planned,planned", "--systems: ", 1},
        {"--systems llama.cpp", "the system llama.cpp needs", 1}, {"--llama-bench /nowhere", "--llama-bench /nowhere: ", 1},
        {"--llama-bench /", "--llama-bench /: a directory", 1},
        {"--systems llama.cpp --llama-bench /bin/true -n 1", "-n 1: llama-bench", 1}, {"--stress memory --stress-memory 1000K", "--stress memory: 0.98 MiB", 3},
        {"--stress disk", "--stress: 'disk'", 1}, {"--stress ,cpu", "--stress: ',cpu'", 1}, {"-r 0", "-r: 1 to", 1},
        {"-r 1001", "-r: 1 to", 1}, {"--runs 0", "--runs: 1 to", 1}, {"--runs 101", "--runs: 1 to", 1},
        {"--prompts 0", "--prompts: 1 to", 1}, {"--prompts 11", "--prompts: 1 to", 1}, {"x.gguf", "protocol takes one model", 1},
        {"-ctk q4_0", "'q4_0' is no type", 1}, {"-c 64 -n 32", "prompt 1 of P1 (short factual) has 40 tokens, N is 32; -c 72 would", 4},
        {"--seal off", "--seal: no such flag", 1}, {"-m '" MODEL ".none'", "protocol takes one model", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char args[1024], wanted[256];
        snprintf(args, sizeof args, "protocol '%s' %s", MODEL, cases[i].args);
        snprintf(wanted, sizeof wanted, "dctms: %s", cases[i].says);
        int code = run(args);
        if (code != cases[i].code || strncmp(err, wanted, strlen(wanted)) != 0)
            fail_msg("dctms %s: exit code %d, '%s'", args, code, err);
        assert_string_equal(out, "");
    }
    assert_int_equal(run("protocol '" MODEL ".none'"), 2);
}

/* ---- records ---- */

typedef struct call {
    unsigned run, prompt, repetition, n_prompt, n_predicted;
    char stress[16], system[16];
    double ms;
    unsigned long long peak, hwm;
} call;

static call call_of(char *text, uint32_t i) {
    call c;
    int n = sscanf(line_at(text, i + 1), "%u,%15[^,],%15[^,],%u,%u,%u,%u,%lf,%llu,%llu\n", &c.run, c.stress, c.system, &c.prompt,
                   &c.repetition, &c.n_prompt, &c.n_predicted, &c.ms, &c.peak, &c.hwm);
    assert_int_equal(n, 10);
    return c;
}

static unsigned long long planned_bytes(void) {
    run_well("plan '" MODEL "' -n 4 -c 512 -t 1 --json");
    const char *at = strstr(out, "\"m_max_bytes\": ");
    assert_non_null(at);
    return strtoull(at + strlen("\"m_max_bytes\": "), NULL, 10);
}

static void every_call_is_a_record(void **state) {
    (void)state;
    unsigned long long m_max = planned_bytes();
    assert_true(m_max > 0);
#ifdef DCT_SANITIZED
    bool has_figures = false; /* a sanitizer's memory is its own */
#else
    bool has_figures = !emulated("memory of a call: it is the emulator's");
#endif
    remove_directory("records");
    run_well(SMALL "-r 2 --runs 2 --output '" WORK "records'");
    read_file(WORK "records/calls.csv", file);
    assert_int_equal(count_lines(file), 1 + 16);
    for (uint32_t i = 0; i < 16; i++) { /* runs, then systems, which change places; rounds, then prompts */
        call c = call_of(file, i);
        bool planned = (i / 4 % 2 == 0) == (i < 8);
        assert_int_equal(c.run, i / 8 + 1);
        assert_string_equal(c.stress, "none");
        assert_string_equal(c.system, planned ? "planned" : "dynamic");
        assert_int_equal(c.prompt, i % 2 * 10);
        assert_int_equal(c.repetition, i / 2 % 2 + 1);
        assert_int_equal(c.n_prompt, i % 2 == 0 ? 40 : 115);
        assert_int_equal(c.n_predicted, 4);
        assert_true(c.ms > 0 && c.peak > 0 && c.peak <= c.hwm);
        if (planned && has_figures) assert_in_range(c.hwm, m_max / 2, m_max);
    }
    read_file(WORK "records/rss.csv", file);
    assert_true(count_lines(file) >= 1 + 16 * 2); /* where a call begins, and where it ends */
}

/* ---- resuming ---- */

static void a_run_goes_on_where_it_was_cut_off(void **state) {
    (void)state;
    static char before[TEXT_BYTES];
    remove_directory("resumed");
    run_well(SMALL "-r 2 --output '" WORK "resumed'");
    read_file(WORK "resumed/calls.csv", before);
    assert_int_equal(count_lines(before), 1 + 8);
    size_t n_kept = (size_t)(line_at(before, 4) - before);
    write_file(WORK "resumed/calls.csv", before, n_kept + 9); /* three calls, and the beginning of the fourth */
    run_well(SMALL "-r 2 --output '" WORK "resumed'");
    expect_text(err, "run 1, stress none, planned: 1 calls made, 4 of 8 in all\n");
    read_file(WORK "resumed/calls.csv", file);
    assert_int_equal(count_lines(file), 1 + 8);
    assert_memory_equal(file, before, n_kept);
    call fourth = call_of(file, 3);
    assert_int_equal(fourth.prompt, 10);
    assert_int_equal(fourth.repetition, 2);
    /* Nothing is left to do. */
    run_well(SMALL "-r 2 --output '" WORK "resumed'");
    assert_string_equal(err, "");
    read_file(WORK "resumed/calls.csv", before);
    assert_string_equal(before, file);
    /* One repetition more, and one condition more. */
    run_well(SMALL "-r 3 --stress none,cpu --output '" WORK "resumed'");
    read_file(WORK "resumed/calls.csv", file);
    assert_int_equal(count_lines(file), 1 + 8 + 4 + 12);
    assert_memory_equal(file, before, strlen(before));
}

/* A disk that is full ends it with the name of the file and of the call; with room again it goes on behind what was written. */
static void a_full_disk_is_told(void **state) {
    (void)state;
    char line[2048];
    remove_directory("full");
    snprintf(line, sizeof line, "ulimit -f 2; '%s' %s >'%sout' 2>'%serr'", COMMAND, SMALL "-r 8 --output '" WORK "full'", WORK, WORK);
    int status = system(line);
    read_file(WORK "err", err);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 5) fail_msg("%d: %s", status, err);
    expect_text(err, "full/rss.csv: memory during the call of run 1, stress none, planned, prompt ");
    expect_text(err, " cannot be written: File too large\n");
    static char before[TEXT_BYTES];
    read_file(WORK "full/calls.csv", before);
    uint32_t n_calls = count_lines(before) - 1;
    assert_in_range(n_calls, 1, 31);
    run_well(SMALL "-r 8 --output '" WORK "full'");
    read_file(WORK "full/calls.csv", file);
    assert_int_equal(count_lines(file), 1 + 32);
    assert_memory_equal(file, before, strlen(before));
    remove_directory("full");
}

static void foreign_records_are_refused(void **state) {
    (void)state;
    remove_directory("foreign");
    run_well(SMALL "-r 1 --output '" WORK "foreign'");
    assert_int_equal(run("protocol '" MODEL "' --categories P1,P2 -n 5 -c 512 -t 1 -r 1 --output '" WORK "foreign'"), 1);
    expect_text(err, "settings.json is of an experiment with other settings");
    assert_int_equal(run(SMALL "-r 1 --stress memory --stress-memory 2M --output '" WORK "foreign'"), 1); /* another neighbour */
    expect_text(err, "settings.json is of an experiment with other settings");
    static const char *const heads[] = {"run,stress\n", "run,stress,system,prompt,repetition,n_prompt,n_predicted,latency_ms,"
                                                         "peak_rss_bytes,vm_hwm_bytes\n1,none,planned,0,1,40,4,x,1,1\n"};
    for (size_t i = 0; i < 2; i++) {
        write_file(WORK "foreign/calls.csv", heads[i], strlen(heads[i]));
        assert_int_equal(run(SMALL "-r 1 --output '" WORK "foreign'"), 2);
        expect_text(err, i == 0 ? "the first line is not our heading" : "this is no record");
    }
    remove_directory("foreign/settings.json");
    assert_int_equal(mkfifo(WORK "foreign/settings.json", 0600), 0); /* nobody waits for a writer */
    assert_int_equal(run(SMALL "-r 1 --output '" WORK "foreign'"), 2);
    expect_text(err, "settings.json: not a regular file");
    remove_directory("foreign/settings.json");
    static const char letter[] = "Dear all,\nwhat stands here is not yours";
    write_file(WORK "foreign/calls.csv", letter, strlen(letter));
    assert_int_equal(run(SMALL "-r 1 --output '" WORK "foreign'"), 2);
    read_file(WORK "foreign/calls.csv", file);
    assert_string_equal(file, letter);
    assert_int_equal(run(SMALL "-r 1 --output '" WORK "foreign/calls.csv'"), 5);
}

/* What is said to a stream that is closed goes nowhere; not into a file that took its number. */
static void records_are_no_stream(void **state) {
    (void)state;
    static const char *const closed[] = {"2>&-", "<&- 2>&-"};
    for (size_t i = 0; i < 2; i++) {
        char line[1024];
        remove_directory("closed");
        snprintf(line, sizeof line, "'%s' %s >'%sout' %s", COMMAND, SMALL "-r 1 --output '" WORK "closed'", WORK, closed[i]);
        assert_int_equal(system(line), 0);
        read_file(WORK "closed/calls.csv", file);
        assert_int_equal(count_lines(file), 1 + 4);
    }
    int status = system("'" COMMAND "' --version >&- 2>&-");
    assert_int_equal(WEXITSTATUS(status), 5);
    remove_directory("closed");
}

/* ---- tables ---- */

static void tables_have_the_papers_form(void **state) {
    (void)state;
    remove_directory("tables");
    run_well(SMALL "-r 2 --runs 2 --output '" WORK "tables'");
    static const char *const parts[] = {
        "N = 508, M = 4, chunks of 508, 1 threads, KV f16/f16", "| logical tensors | 64 |\n| physical buffers | 5 |\n| reduction | 92.19 % |",
        "\n## Runs\n", "| none | 1 | planned | 4 | ", "| none | 2 | dynamic | 4 | ", "| none | all | planned | 8 | ",
        "| none | P1 short factual | 40 to 40 | planned | 4 | ", "| none | P2 multi-step reasoning | 115 to 115 | dynamic | 4 | ",
        "\n| dynamic | none | ",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) expect_text(out, parts[i]);
    assert_null(strstr(out, "P3"));
    assert_null(strstr(out, "llama.cpp"));
    read_file(WORK "tables/report.md", file);
    assert_string_equal(file, out);
    run_well(SMALL "-r 1 --systems planned"); /* without a directory nothing is left behind, and nothing is compared */
    assert_null(strstr(out, "| dynamic | none |"));
}

static uint32_t count_of(const char *text, const char *part) {
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
    return n;
}

static const json_t *row_of(const json_t *rows, const char *run, const char *category, const char *system) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strcmp(json_string_value(json_object_get(row, "run")), run) == 0 &&
            strcmp(json_string_value(json_object_get(row, "category")), category) == 0 &&
            strcmp(json_string_value(json_object_get(row, "system")), system) == 0) return row;
    }
    fail_msg("no row of run %s, %s, %s", run, category, system);
    return NULL;
}

/* The mean is worked out again from the records; every row of the JSON is a line of the CSV. */
static void programs_get_the_same_figures(void **state) {
    (void)state;
    json_error_t why;
    remove_directory("json");
    run_well(SMALL "-r 3 --output '" WORK "json'");
    json_t *root = json_load_file(WORK "json/summary.json", 0, &why);
    if (root == NULL) fail_msg("line %d: %s", why.line, why.text);
    const json_t *rows = json_object_get(root, "rows");
    assert_int_equal(json_integer_value(json_object_get(root, "logical_tensors")), 64);
    assert_int_equal(json_array_size(rows), 2 * 3 * 2); /* all and one run; all and two categories; systems */
    assert_int_equal(json_array_size(json_object_get(root, "comparisons")), 1);
    read_file(WORK "json/calls.csv", file);
    double sum = 0;
    for (uint32_t i = 0; i < 12; i++) {
        call c = call_of(file, i);
        if (c.prompt == 10 && strcmp(c.system, "dynamic") == 0) sum += c.ms;
    }
    const json_t *row = row_of(rows, "all", "P2", "dynamic");
    assert_int_equal(json_integer_value(json_object_get(row, "calls")), 3);
    assert_int_equal(json_integer_value(json_object_get(row, "cells")), 1);
    double mean = json_real_value(json_object_get(row, "mean_ms")), cv = json_real_value(json_object_get(row, "cv"));
    assert_true(mean > sum / 3 - 1e-4 && mean < sum / 3 + 1e-4);
    assert_true(json_real_value(json_object_get(row, "cv_low")) <= cv);
    read_file(WORK "json/summary.csv", file);
    assert_int_equal(count_lines(file), 1 + json_array_size(rows));
    json_decref(root);
}

/* A point for each call, beside the legend's; a line for each system. */
static void charts_show_every_call(void **state) {
    (void)state;
    remove_directory("charts");
    run_well(SMALL "-r 2 --stress none,cpu --output '" WORK "charts'");
    read_file(WORK "charts/latency.svg", file);
    assert_int_equal(count_of(file, "<circle "), 2 + 2 * 2 * 2 * 2);
    assert_int_equal(count_of(file, "P2 multi-step reasoning"), 2);
    assert_int_equal(count_of(file, "</svg>\n"), 1);
    read_file(WORK "charts/memory.svg", file);
    assert_int_equal(count_of(file, "<polyline "), 2 * 2);
    assert_int_equal(count_of(file, ">M_max "), 2);
    assert_int_equal(count_of(file, "stress: cpu"), 1);
    remove_directory("charts");
    run_well("protocol '" MODEL "' -n 4 -c 512 -t 1 -r 1 --systems planned --categories P3 --output '" WORK "charts'");
    read_file(WORK "charts/latency.svg", file);
    assert_int_equal(count_of(file, ">P3 "), 1);
    assert_int_equal(count_of(file, ">P1 "), 0);
}

/* ---- llama.cpp ---- */

/* Prints for every -pg what llama-bench does, with a time that tells the test; the first two are the warm-up. */
static const char stand_in[] =
    "#!/bin/sh\n"
    "n=0\n"
    "while [ $# -gt 0 ]; do\n"
    "  if [ \"$1\" = -pg ]; then\n"
    "    n=$((n + 1))\n"
    "    echo \"{\\\"n_prompt\\\": ${2%,*}, \\\"n_gen\\\": ${2#*,}, \\\"samples_ns\\\": [ ${n}000000 ],\\\"samples_ts\\\": [ 1 ]}\"\n"
    "  fi\n"
    "  shift\n"
    "done\n";

static void a_line_of_the_peer_is_a_call(void **state) {
    (void)state;
    write_file(WORK "peer", stand_in, sizeof stand_in - 1);
    assert_int_equal(chmod(WORK "peer", 0755), 0);
    remove_directory("llama");
    run_well(SMALL "-r 2 --systems planned,llama.cpp --llama-bench '" WORK "peer' --output '" WORK "llama'");
    read_file(WORK "llama/calls.csv", file);
    assert_int_equal(count_lines(file), 1 + 8);
    for (uint32_t i = 0; i < 4; i++) {
        call ours = call_of(file, i), theirs = call_of(file, 4 + i);
        assert_string_equal(theirs.system, "llama.cpp");
        assert_int_equal(theirs.prompt, ours.prompt);
        assert_int_equal(theirs.n_prompt, ours.n_prompt);
        assert_int_equal(theirs.n_predicted, ours.n_predicted);
        assert_true(theirs.ms == i + 2);
    }
    expect_text(out, "| llama.cpp | none | ");
    write_file(WORK "peer", "#!/bin/sh\nexit 3\n", 17);
    assert_int_equal(run(SMALL "-r 1 --systems llama.cpp --llama-bench '" WORK "peer'"), 5); /* its codes are not ours */
    expect_text(err, "llama.cpp ended with code 3 after 0 of 2 calls");
    write_file(WORK "peer", "#!/bin/sh\nexit 139\n", 19); /* as a shell says of a crash */
    assert_int_equal(run(SMALL "-r 1 --systems llama.cpp --llama-bench '" WORK "peer'"), 5);
    expect_text(err, "llama.cpp ended with code 139 after 0 of 2 calls");
    write_file(WORK "peer", "#!/bin/sh\nexit 0\n", 17);
    assert_int_equal(run(SMALL "-r 1 --systems llama.cpp --llama-bench '" WORK "peer'"), 5);
    expect_text(err, "llama.cpp ended with code 0 after 0 of 2 calls");
}

/* ---- neighbours ---- */

static void each_neighbour_serves(void **state) {
    (void)state;
    run_well(SMALL "-r 1 --systems planned --stress cpu,memory,io --stress-memory 40M");
    expect_text(out, "| cpu | all | planned | 2 | ");
    expect_text(out, "| memory | all | planned | 2 | ");
    expect_text(out, "| io | all | planned | 2 | ");
}

/* Inside a limit above M_max it runs, and the report says so; a session that the limit cannot hold is refused before it loads. */
static void a_memory_cgroup_limits_sessions(void **state) {
    (void)state;
    int code = run(SMALL "-r 1 --systems planned --stress none,memory --memory-limit 128M");
    if (code == 5 && strstr(err, "no memory cgroup can be made here: ") != NULL) {
        print_message("%s", err);
        skip();
    }
    if (code != 0) fail_msg("exit code %d: %s", code, err);
    expect_text(out, "in a memory cgroup of 128.0 MiB; N = 508");
    expect_text(out, "MiB (--memory-limit)");
    expect_text(out, "| memory | all | planned | 2 | ");
    assert_int_equal(run(SMALL "-r 1 --systems planned --memory-limit 8M"), 3);
}

static bool is_alive(long pid) {
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "r");
    if (f == NULL) return false;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    fclose(f);
    return state != 'Z' && state != 'X';
}

/* The children of a process, as many as there are. */
static int children_of(pid_t pid, long children[8]) {
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid, (long)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL) return 0;
    while (n < 8 && fscanf(f, "%ld", &children[n]) == 1) n++;
    fclose(f);
    return n;
}

static void pause_ms(long ms) { nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL); }

static void end_and_look(int signal_number) {
    if (access("/proc/thread-self/children", R_OK) != 0) skip(); /* a system that does not name children */
    pid_t pid = fork();
    if (pid == 0) {
        if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL) _exit(98);
        execl(COMMAND, COMMAND, "protocol", MODEL, "-n", "200", "-c", "2048", "-r", "1000", "--stress", "cpu", (char *)NULL);
        _exit(99);
    }
    long children[8];
    int n = 0, status;
    for (int i = 0; i < 3000 && n < 2; i++) { /* the session and the neighbour */
        pause_ms(10);
        n = children_of(pid, children);
    }
    assert_int_equal(kill(pid, signal_number), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(n, 2);
    for (int i = 0; i < 3000 && (is_alive(children[0]) || is_alive(children[1])); i++) pause_ms(10);
    assert_false(is_alive(children[0]));
    assert_false(is_alive(children[1]));
}

static void nothing_outlives_the_command(void **state) {
    (void)state;
    end_and_look(SIGKILL);
    end_and_look(SIGTERM);
}

int main(void) {
    unsetenv("DCTMS_ISA");
    unsetenv("LLAMA_ARG_MODEL");
    unsetenv("LLAMA_ARG_THREADS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_flags_are_refused),
        cmocka_unit_test(every_call_is_a_record),
        cmocka_unit_test(a_run_goes_on_where_it_was_cut_off),
        cmocka_unit_test(a_full_disk_is_told),
        cmocka_unit_test(foreign_records_are_refused),
        cmocka_unit_test(records_are_no_stream),
        cmocka_unit_test(tables_have_the_papers_form),
        cmocka_unit_test(programs_get_the_same_figures),
        cmocka_unit_test(charts_show_every_call),
        cmocka_unit_test(a_line_of_the_peer_is_a_call),
        cmocka_unit_test(each_neighbour_serves),
        cmocka_unit_test(a_memory_cgroup_limits_sessions),
        cmocka_unit_test(nothing_outlives_the_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
