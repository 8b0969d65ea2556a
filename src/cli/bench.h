/* cli/bench: the parts of the verb `bench`.
 *
 *   bench.c          which sessions the flags ask for; each runs in a process of its own
 *   bench_list.c     "1,2,8-64*2": numbers and words of a flag
 *   bench_session.c  one session: plan, open, seal, time its tests
 *   bench_stats.c    what the times say
 *   bench_print.c    rows as md, csv, json, jsonl
 *
 * A setup is what a plan is made for; its tests share the session. A process can be sealed once and its peak of memory never
 * falls, so a session is a child of the process that reads the flags and measures the machine: a child's VmHWM is its session's.
 */
#ifndef DCT_CLI_BENCH_H
#define DCT_CLI_BENCH_H

#include "cli/cli.h"
#include "tools/tools.h"

enum { BENCH_MAX_VALUES = 16, BENCH_MAX_TESTS = 64, BENCH_MAX_REPETITIONS = 100, BENCH_MAX_TOKENS = 1 << 20 };

/* ---- lists ---- */

typedef struct bench_numbers {
    uint32_t value[BENCH_MAX_VALUES];
    uint32_t n;
} bench_numbers;

typedef struct bench_words {
    char text[BENCH_MAX_VALUES][8];
    uint32_t n;
} bench_words;

/* Appends what a flag lists; false when it is malformed, too long, or a number is not in [least, most]. */
bool bench_parse_numbers(const cli_list *list, uint32_t least, uint32_t most, bench_numbers *out);
bool bench_parse_words(const cli_list *list, bench_words *out);
bool bench_parse_pair(const char *text, uint32_t most, uint32_t *first, uint32_t *second); /* "512,128" */
bool bench_parse_mask(const char *text, uint64_t *mask);                                   /* "0x3", "ff" */

/* ---- tests ---- */

typedef struct bench_test {
    uint32_t n_prompt, n_gen; /* a prompt, then an answer; either may be 0 */
    bool steady;              /* the answer's tokens all stand at the same position */
} bench_test;

typedef struct bench_tests {
    bench_test test[BENCH_MAX_TESTS];
    uint32_t n;
} bench_tests;

typedef struct bench_setup {
    const char *model;
    uint32_t ubatch, threads, depth; /* 0 for the plan's default, but for depth */
    const char *type_k, *type_v;
} bench_setup;

/* ---- results ---- */

/* Times of one test. Steps are generated tokens; without any, what is said of them is NAN. */
typedef struct bench_times {
    double ns[BENCH_MAX_REPETITIONS], ts[BENCH_MAX_REPETITIONS]; /* of each repetition: nanoseconds, tokens a second */
    uint32_t n;
    double mean_ns, stddev_ns, mean_ts, stddev_ts, median_ns;
    double p50_ms, p95_ms, p99_ms, max_ms, cv;
} bench_times;

/* Fills all but ns and n, which are given; `tokens` in each repetition. Sorts the steps. */
void bench_summarise(bench_times *times, uint32_t tokens, double *step_ms, uint32_t n_steps);

typedef enum bench_format { BENCH_MD, BENCH_CSV, BENCH_JSON, BENCH_JSONL } bench_format;

/* What a session prints its rows with. */
typedef struct bench_sheet {
    bench_format format;
    bool show_ubatch, show_type_k, show_type_v; /* columns of the table: values that were asked for */
    bool first;                                 /* no row was printed yet */
    char cpu_name[128];
} bench_sheet;

/* One row. */
typedef struct bench_result {
    const bench_setup *setup;
    const bench_test *test;
    const dctms_model_info *model;
    const dctms_plan_info *plan;
    const dct_roofline *roofline; /* NULL: not measured */
    bench_times times;
    double waits_per_token;       /* NAN without steps */
    dctms_memory memory;
    char began[32];               /* UTC */
} bench_result;

void bench_print_begin(const bench_sheet *sheet);
void bench_print_row(bench_sheet *sheet, const bench_result *result);
void bench_print_end(const bench_sheet *sheet, const dct_roofline *rooflines, uint32_t n);
void bench_print_cut(const bench_sheet *sheet); /* instead, when a setup failed: what stands there is whole */

/* ---- a session ---- */

typedef struct bench_job {
    const cli_options *options;
    const cli_modes *modes;
    const bench_tests *tests;
    bench_setup setup;
    const dct_roofline *roofline;
    bench_sheet *sheet;
} bench_job;

/* Both return the exit code. One compiles the job's plan, so that what does not fit is told before anything is measured; the
 * other opens its session, seals the process and prints a row a test. */
int bench_plan(const bench_job *job);
int bench_session(const bench_job *job);

#endif
