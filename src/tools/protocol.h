/* tools/protocol: the paper's experiment (its §3.6) beside the running of it: prompts, records, statistics, tables, charts.
 *
 *   protocol_prompts.c   the workload
 *   protocol_calls.c     records of calls in a file that only grows
 *   protocol_stats.c     mean, sigma, order, coefficient of variation, bootstrap
 *   protocol_rows.c      what the calls of one system say, of all runs or of one
 *   protocol_tables.c    tables in the paper's form
 *   protocol_charts.c    latency a call; RSS against M_max
 *   protocol_json.c      what the tables show, for programs
 *
 * A call is one prompt answered from an empty timeline. A cell is one prompt in one run: its repetitions do the same work, so
 * that what differs between them is noise. CV is taken in each cell and then averaged.
 */
#ifndef DCT_TOOLS_PROTOCOL_H
#define DCT_TOOLS_PROTOCOL_H

#include "base/arena.h"
#include "base/safe_text.h"
#include "base/status.h"

enum {
    DCT_PROTOCOL_CATEGORIES = 5,
    DCT_PROTOCOL_PER_CATEGORY = 10,
    DCT_PROTOCOL_PROMPTS = DCT_PROTOCOL_CATEGORIES * DCT_PROTOCOL_PER_CATEGORY,
    DCT_PROTOCOL_RUNS = 100,
    DCT_PROTOCOL_REPETITIONS = 1000
};

/* Prompts are numbered through all categories. */
const char *dct_protocol_category(uint32_t category);
const char *dct_protocol_prompt(uint32_t prompt);
static inline uint32_t dct_protocol_category_of(uint32_t prompt) { return prompt / DCT_PROTOCOL_PER_CATEGORY; }

/* ---- records ---- */

typedef enum dct_system { DCT_PLANNED, DCT_DYNAMIC, DCT_LLAMA_CPP, DCT_SYSTEMS } dct_system;
typedef enum dct_stress { DCT_STRESS_NONE, DCT_STRESS_CPU, DCT_STRESS_MEMORY, DCT_STRESS_IO, DCT_STRESSES } dct_stress;
const char *dct_system_name(dct_system system);
const char *dct_stress_name(dct_stress stress);
bool dct_system_of_name(const char *name, dct_system *out);
bool dct_stress_of_name(const char *name, dct_stress *out);

/* One system under one condition in one run, in a process of its own. */
typedef struct dct_session_key {
    uint32_t run; /* from 1 */
    dct_stress stress;
    dct_system system;
} dct_session_key;

typedef struct dct_call {
    dct_session_key key;
    uint32_t prompt, repetition; /* the repetition from 1 */
    uint32_t n_prompt, n_predicted;
    double latency_ms;           /* from the text to the last token */
    uint64_t peak_rss, vm_hwm;   /* bytes: the largest sample of the call; the most the process ever had, after it */
} dct_call;

/* Records are lines of CSV behind a heading. The file is opened for appending, and each record is one write. What could not be
 * written whole is taken back, and a line that was cut off is removed when the file is opened again. Failures name the file and
 * the call. One process at a time may have it open. path NULL: a file without a name. */
typedef struct dct_calls_file {
    int fd;
    dct_shown_path name;
} dct_calls_file;
dct_status dct_calls_open(dct_calls_file *file, const char *path, dct_err *err) DCT_MUST_CHECK;
void dct_calls_close(dct_calls_file *file);
dct_status dct_calls_append(const dct_calls_file *file, const dct_call *call, dct_err *err) DCT_MUST_CHECK;
dct_status dct_calls_load(const dct_calls_file *file, dct_arena *arena, dct_call **calls, uint32_t *n,
                          dct_err *err) DCT_MUST_CHECK;

/* The 10 ms series of a call: a line for each sample that differs from the one before it, and for the last. */
typedef struct dct_rss_sample {
    double ms; /* since the call began */
    uint64_t bytes;
} dct_rss_sample;
dct_status dct_rss_open(dct_calls_file *file, const char *path, dct_err *err) DCT_MUST_CHECK;
dct_status dct_rss_append(const dct_calls_file *file, const dct_call *call, const dct_rss_sample *samples, uint32_t n,
                          dct_err *err) DCT_MUST_CHECK;

typedef struct dct_rss_record {
    dct_session_key key;
    uint32_t prompt, repetition;
    dct_rss_sample sample;
} dct_rss_record;
dct_status dct_rss_load(const dct_calls_file *file, dct_arena *arena, dct_rss_record **records, uint32_t *n,
                        dct_err *err) DCT_MUST_CHECK;
/* Removes the series at the end whose call is not among the calls: a run was cut off between its two records, or within the
 * first, and will be made again. */
dct_status dct_rss_drop_unfinished(const dct_calls_file *file, const dct_calls_file *calls, dct_err *err) DCT_MUST_CHECK;

/* ---- statistics ---- */

typedef struct dct_sample {
    const double *x;
    uint32_t n;
} dct_sample;

typedef struct dct_spread {
    double low, high;
} dct_spread;

double dct_stats_mean(const double *x, uint32_t n);
double dct_stats_sigma(const double *x, uint32_t n); /* of a sample: over n - 1; 0 for one value */

/* Ascending, in place: a heapsort of our own, since the C library's may ask for memory and the process may be sealed. */
void dct_stats_sort(double *x, uint32_t n);

/* How many cells have two values or more: one value says nothing of its spread. */
uint32_t dct_stats_spread_cells(const dct_sample *cells, uint32_t n);

/* The mean of the coefficients of variation of those cells; 0 when there is none. */
double dct_stats_mean_cv(const dct_sample *cells, uint32_t n);

/* 95 % intervals by the percentile bootstrap: the values of each cell are drawn anew with replacement, the cells stay. `a` and
 * `b` are drawn independently. The same seed gives the same interval. */
void dct_stats_bootstrap_mean(const dct_sample *cells, uint32_t n, uint64_t seed, dct_spread *out);
void dct_stats_bootstrap_cv(const dct_sample *cells, uint32_t n, uint64_t seed, dct_spread *out);
void dct_stats_bootstrap_cv_ratio(const dct_sample *a, uint32_t n_a, const dct_sample *b, uint32_t n_b, uint64_t seed,
                                  dct_spread *out); /* mean CV of a over that of b */

/* ---- rows ---- */

/* Which calls: run 0 is all runs, category DCT_PROTOCOL_CATEGORIES all prompts. */
typedef struct dct_row_key {
    dct_session_key session;
    uint32_t category;
} dct_row_key;

typedef struct dct_row {
    uint32_t n_calls, n_cells;          /* 0: nothing was measured */
    uint32_t n_spread;                  /* cells of two calls or more; 0: sigma, cv and its interval say nothing */
    uint32_t n_prompt_low, n_prompt_high; /* tokens */
    double mean_ms, sigma_ms, cv;       /* means over the cells; the last two over those of a spread */
    dct_spread mean_interval, cv_interval;
    double tokens_per_s;                /* generated, over the whole latency; the mean of the calls */
    uint64_t peak_rss, vm_hwm;          /* the largest */
} dct_row;

/* Over the cells that were measured of both. */
typedef struct dct_comparison {
    bool known, cv_known; /* there are such cells; both CV are known and the baseline's is not 0 */
    double latency, cv;   /* ours over theirs */
    dct_spread cv_interval;
} dct_comparison;

/* The calls of an experiment and what the tables say beside them. */
typedef struct dct_protocol {
    const char *model, *label; /* its path; architecture and type */
    uint32_t n_input, n_output, ubatch, threads, repetitions;
    const char *cache_types, *kernels, *peer; /* peer: what the other system is, or NULL */
    uint32_t logical_tensors, physical_buffers;
    uint64_t m_max, weights, kv, persistent, intermediate, runtime;
    uint64_t available;
    const char *available_source, *limit; /* limit: of the memory cgroup that sessions ran in, or NULL */
    uint64_t seed;
    const dct_call *calls;
    uint32_t n_calls;
    const dct_rss_record *rss;
    uint32_t n_rss;
} dct_protocol;

dct_status dct_protocol_row(const dct_protocol *p, const dct_row_key *key, dct_row *row, dct_err *err) DCT_MUST_CHECK;
dct_status dct_protocol_compare(const dct_protocol *p, const dct_row_key *ours, const dct_row_key *theirs, dct_comparison *out,
                                dct_err *err) DCT_MUST_CHECK;
uint32_t dct_protocol_runs(const dct_protocol *p); /* the largest number of a run */

/* ---- reports ---- */

typedef void dct_protocol_write_fn(void *ctx, const char *text, size_t n);
dct_status dct_protocol_tables(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx, dct_err *err) DCT_MUST_CHECK;
dct_status dct_protocol_json(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx, dct_err *err) DCT_MUST_CHECK;
dct_status dct_protocol_csv(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx, dct_err *err) DCT_MUST_CHECK;
void dct_protocol_latency_svg(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx);
void dct_protocol_memory_svg(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx);

#endif
