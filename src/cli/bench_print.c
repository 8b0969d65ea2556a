/* Rows of bench: one list of named fields for all formats. Names are llama-bench's where it has the field; what it does not know
 * stands behind.
 *
 *   of_peak    of tokens generated, packed weights read a second over the read rate of all workers; of a prompt, products'
 *              multiply-accumulates a second over the int8 rate. Medians on both sides, of tokens or repetitions and of the
 *              passes measured before: what a neighbour takes, it takes of both. A test that does both has none.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"

typedef struct field {
    const char *name;
    const char *text; /* NULL: a number, and NAN where there is none */
    double number;
    int digits;       /* after the point */
} field;

enum { N_FIELDS = 40 };
typedef struct fields {
    field at[N_FIELDS];
    uint32_t n;
} fields;

static void add_text(fields *f, const char *name, const char *text) { f->at[f->n++] = (field){.name = name, .text = text}; }
static void add_number(fields *f, const char *name, double number, int digits) {
    f->at[f->n++] = (field){.name = name, .number = number, .digits = digits};
}

/* Exact below 2^53. */
static void add_count(fields *f, const char *name, uint64_t count) { add_number(f, name, (double)count, 0); }

/* ---- figures ---- */

/* Multiply-accumulates of products for a prompt. */
static double prompt_macs(const bench_result *r) {
    uint32_t n = r->test->n_prompt, n_chunks = (n + r->plan->ubatch - 1) / r->plan->ubatch;
    return (double)n * (double)r->plan->prompt_row_macs + (double)n_chunks * (double)r->plan->prompt_run_macs;
}

static double of_peak(const bench_result *r) {
    const bench_test *t = r->test;
    const dct_roofline *roof = r->roofline;
    if (roof == NULL || (t->n_prompt > 0) == (t->n_gen > 0)) return (double)NAN;
    if (t->n_gen > 0) return (double)r->plan->step_weight_bytes * 1e3 / r->times.p50_ms / roof->bytes_per_s_median;
    return prompt_macs(r) * 1e9 / r->times.median_ns / roof->macs_per_s_median;
}

static void name_test(const bench_result *r, char *name, size_t size) {
    const bench_test *t = r->test;
    int n;
    if (t->steady) n = snprintf(name, size, "steady%u", t->n_gen);
    else if (t->n_gen == 0) n = snprintf(name, size, "pp%u", t->n_prompt);
    else if (t->n_prompt == 0) n = snprintf(name, size, "tg%u", t->n_gen);
    else n = snprintf(name, size, "pp%u+tg%u", t->n_prompt, t->n_gen);
    if (r->setup->depth > 0) snprintf(name + n, size - (size_t)n, " @ d%u", r->setup->depth);
}

/* The chunk as it was asked for, by which whoever asked finds his row: a shorter prompt is one smaller chunk, and llama-bench too
 * says what was asked. Where a budget left less than the prompt, that is the chunk. */
static uint32_t chunk_of(const bench_result *r) {
    bool is_whole = r->plan->ubatch == r->plan->n_input;
    return is_whole && r->setup->ubatch != 0 ? r->setup->ubatch : r->plan->ubatch;
}

static void fill_peer_fields(fields *f, const bench_sheet *sheet, const bench_result *r, const char *label) {
    add_text(f, "build_commit", dctms_version());
    add_text(f, "cpu_info", sheet->cpu_name);
    add_text(f, "backends", dctms_kernels_name());
    add_text(f, "model_filename", r->setup->model);
    add_text(f, "model_type", label);
    add_count(f, "model_size", r->model->tensor_bytes);
    add_count(f, "model_n_params", r->model->n_params);
    add_count(f, "n_batch", chunk_of(r)); /* a batch is a chunk */
    add_count(f, "n_ubatch", chunk_of(r));
    add_count(f, "n_threads", r->plan->threads);
    add_text(f, "type_k", cli_cache_type(r->setup->type_k));
    add_text(f, "type_v", cli_cache_type(r->setup->type_v));
    add_count(f, "n_prompt", r->test->n_prompt);
    add_count(f, "n_gen", r->test->n_gen);
    add_count(f, "n_depth", r->setup->depth);
    add_text(f, "test_time", r->began);
    add_number(f, "avg_ns", r->times.mean_ns, 0);
    add_number(f, "stddev_ns", r->times.stddev_ns, 0);
    add_number(f, "avg_ts", r->times.mean_ts, 4);
    add_number(f, "stddev_ts", r->times.stddev_ts, 4);
}

static void fill_own_fields(fields *f, const bench_result *r) {
    const dct_roofline *roof = r->roofline;
    const double none = (double)NAN;
    add_count(f, "steady", r->test->steady ? 1 : 0);
    add_number(f, "p50_ms", r->times.p50_ms, 4);
    add_number(f, "p95_ms", r->times.p95_ms, 4);
    add_number(f, "p99_ms", r->times.p99_ms, 4);
    add_number(f, "max_ms", r->times.max_ms, 4);
    add_number(f, "cv", r->times.cv, 5);
    add_number(f, "waits_per_token", r->waits_per_token, 1);
    add_number(f, "weight_bytes_per_token", r->test->n_gen > 0 ? (double)r->plan->step_weight_bytes : none, 0);
    add_number(f, "macs_per_prompt", r->test->n_prompt > 0 ? prompt_macs(r) : none, 0);
    add_number(f, "read_bytes_per_s_one", roof != NULL ? roof->bytes_per_s_one : none, 0);
    add_number(f, "read_bytes_per_s_all", roof != NULL ? roof->bytes_per_s_all : none, 0);
    add_number(f, "read_bytes_per_s_median", roof != NULL ? roof->bytes_per_s_median : none, 0);
    add_number(f, "int8_macs_per_s_one", roof != NULL ? roof->macs_per_s_one : none, 0);
    add_number(f, "int8_macs_per_s_all", roof != NULL ? roof->macs_per_s_all : none, 0);
    add_number(f, "int8_macs_per_s_median", roof != NULL ? roof->macs_per_s_median : none, 0);
    add_number(f, "of_peak", of_peak(r), 4);
    add_count(f, "m_max_bytes", r->memory.m_max_bytes);
    add_count(f, "vm_hwm_bytes", r->memory.vm_hwm_bytes);
}

static const field *field_of(const fields *f, const char *name) {
    const field *at = f->at;
    while (strcmp(at->name, name) != 0) at++;
    return at;
}

/* ---- json, jsonl ---- */

static void print_samples(const char *name, const double *x, uint32_t n, int digits) {
    cli_print(", \"%s\": [", name);
    for (uint32_t i = 0; i < n; i++) cli_print("%s%.*f", i == 0 ? "" : ", ", digits, x[i]);
    cli_print("]");
}

static void print_json_row(const fields *f, const bench_times *times) {
    for (uint32_t i = 0; i < f->n; i++) {
        const field *at = &f->at[i];
        cli_print("%s\"%s\": ", i == 0 ? "{" : ", ", at->name);
        if (at->text != NULL) cli_print_json_string(at->text, strlen(at->text));
        else if (isnan(at->number)) cli_print("null");
        else cli_print("%.*f", at->digits, at->number);
    }
    print_samples("samples_ns", times->ns, times->n, 0);
    print_samples("samples_ts", times->ts, times->n, 4);
    cli_print("}");
}

/* ---- csv ---- */

/* Quotes inside a text are doubled. */
static void print_csv_text(const char *text) {
    for (; *text != '\0'; text++) cli_print(*text == '"' ? "\"\"" : "%c", *text);
}

static void print_csv_row(const fields *f, bool first) {
    for (uint32_t i = 0; first && i < f->n; i++) cli_print("%s%s", f->at[i].name, i + 1 < f->n ? "," : "\n");
    for (uint32_t i = 0; i < f->n; i++) {
        const field *at = &f->at[i];
        cli_print(i == 0 ? "\"" : ",\"");
        if (at->text != NULL) print_csv_text(at->text);
        else if (!isnan(at->number)) cli_print("%.*f", at->digits, at->number);
        cli_print("\"");
    }
    cli_print("\n");
}

/* ---- md ---- */

/* A column of the table shows a field over `unit`; `spread` is the field behind a plus-minus. */
typedef struct column {
    const char *title, *name, *spread;
    double unit;
    const char *suffix;
    int digits, width; /* a negative width: to the left */
} column;

#define MIB 1048576.0
static const column columns[] = {
    {"model", "model_type", NULL, 1, "", 0, -24},
    {"size", "model_size", NULL, MIB, " MiB", 2, 11},
    {"params", "model_n_params", NULL, 1e6, " M", 2, 10},
    {"backend", "backends", NULL, 1, "", 0, -11},
    {"threads", "n_threads", NULL, 1, "", 0, 7},
    {"n_ubatch", "n_ubatch", NULL, 1, "", 0, 8},
    {"type_k", "type_k", NULL, 1, "", 0, 6},
    {"type_v", "type_v", NULL, 1, "", 0, 6},
    {"test", NULL, NULL, 1, "", 0, 15},
    {"t/s", "avg_ts", "stddev_ts", 1, "", 2, 18},
    {"p50 ms", "p50_ms", NULL, 1, "", 2, 7},
    {"p95 ms", "p95_ms", NULL, 1, "", 2, 7},
    {"p99 ms", "p99_ms", NULL, 1, "", 2, 7},
    {"max ms", "max_ms", NULL, 1, "", 2, 7},
    {"cv", "cv", NULL, 1, "", 3, 5},
    {"waits", "waits_per_token", NULL, 1, "", 0, 5},
    {"of peak", "of_peak", NULL, 0.01, " %", 1, 7},
    {"M_max MiB", "m_max_bytes", NULL, MIB, "", 2, 9},
    {"observed MiB", "vm_hwm_bytes", NULL, MIB, "", 2, 12},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static bool is_shown(const bench_sheet *sheet, const column *c) {
    if (strcmp(c->title, "n_ubatch") == 0) return sheet->show_ubatch;
    if (strcmp(c->title, "type_k") == 0) return sheet->show_type_k;
    if (strcmp(c->title, "type_v") == 0) return sheet->show_type_v;
    return true;
}

static void print_cell(const column *c, const char *text) { cli_print("| %*s ", c->width, text); }

static void print_md_head(const bench_sheet *sheet) {
    for (const column *c = columns; c < columns + N_COLUMNS; c++)
        if (is_shown(sheet, c)) print_cell(c, c->title);
    cli_print("|\n");
    for (const column *c = columns; c < columns + N_COLUMNS; c++) {
        if (!is_shown(sheet, c)) continue;
        static const char dashes[] = "------------------------";
        int n = c->width < 0 ? -c->width : c->width - 1;
        cli_print("| %.*s%s ", n, dashes, c->width < 0 ? "" : ":");
    }
    cli_print("|\n");
}

static void print_spread(char *text, size_t size, int digits, double mean, double spread) {
    snprintf(text, size, "%.*f ± %.*f", digits, mean, digits, spread);
}

static void print_md_row(const bench_sheet *sheet, const fields *f, const char *test) {
    for (const column *c = columns; c < columns + N_COLUMNS; c++) {
        char text[64] = "";
        if (!is_shown(sheet, c)) continue;
        const field *at = c->name != NULL ? field_of(f, c->name) : NULL;
        if (at == NULL) snprintf(text, sizeof text, "%s", test);
        else if (at->text != NULL) snprintf(text, sizeof text, "%s", at->text);
        else if (c->spread != NULL) print_spread(text, sizeof text, c->digits, at->number, field_of(f, c->spread)->number);
        else if (!isnan(at->number)) snprintf(text, sizeof text, "%.*f%s", c->digits, at->number / c->unit, c->suffix);
        print_cell(c, text);
    }
    cli_print("|\n");
}

/* ---- what the verb calls ---- */

void bench_print_row(bench_sheet *sheet, const bench_result *r) {
    char test[64], label[96];
    fields f = {.n = 0};
    name_test(r, test, sizeof test);
    snprintf(label, sizeof label, "%s %s", r->model->arch, r->model->type_name);
    fill_peer_fields(&f, sheet, r, label);
    fill_own_fields(&f, r);
    switch (sheet->format) {
    case BENCH_MD:
        if (sheet->first) print_md_head(sheet);
        print_md_row(sheet, &f, test);
        break;
    case BENCH_CSV: print_csv_row(&f, sheet->first); break;
    case BENCH_JSON:
        cli_print(sheet->first ? "\n  " : ",\n  ");
        print_json_row(&f, &r->times);
        break;
    case BENCH_JSONL:
        print_json_row(&f, &r->times);
        cli_print("\n");
        break;
    }
    sheet->first = false;
}

static void print_roofline(const dct_roofline *roof) {
    const uint32_t n = roof->n_workers;
    if (n == 1) {
        cli_print("roofline, 1 worker: read %.1f GB/s (%.1f in a median pass); int8 %.1f GMAC/s (%.1f)\n",
                  roof->bytes_per_s_all * 1e-9, roof->bytes_per_s_median * 1e-9, roof->macs_per_s_all * 1e-9,
                  roof->macs_per_s_median * 1e-9);
        return;
    }
    cli_print("roofline: read %.1f GB/s with 1 worker, %.1f with %u (%.1f in a median pass); ", roof->bytes_per_s_one * 1e-9,
              roof->bytes_per_s_all * 1e-9, n, roof->bytes_per_s_median * 1e-9);
    cli_print("int8 %.1f GMAC/s with 1 worker, %.1f with %u (%.1f)\n", roof->macs_per_s_one * 1e-9, roof->macs_per_s_all * 1e-9,
              n, roof->macs_per_s_median * 1e-9);
}

void bench_print_begin(const bench_sheet *sheet) {
    if (sheet->format == BENCH_JSON) cli_print("[");
}

void bench_print_cut(const bench_sheet *sheet) {
    if (sheet->format == BENCH_JSON) cli_print("\n]\n");
}

void bench_print_end(const bench_sheet *sheet, const dct_roofline *rooflines, uint32_t n) {
    bench_print_cut(sheet);
    if (sheet->format != BENCH_MD) return;
    cli_print("\n");
    for (uint32_t i = 0; i < n; i++) print_roofline(&rooflines[i]);
    cli_print("build: dctms %s (%s)\n", dctms_version(), dctms_kernels_name());
}
