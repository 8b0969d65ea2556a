/* bench: prompt and generation speed in the shape of llama-bench: pp512, tg128.
 *
 * Each test is run once to warm up, then `-r` times from the same depth; tokens are a fixed pseudo-random sequence.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/os.h"
#include "cli/cli.h"

enum { MAX_TESTS = 16, MAX_REPETITIONS = 100, MAX_STEPS = 65536, MAX_PROMPT = 1 << 20 };

typedef struct bench_test {
    uint32_t n_prompt, n_gen;
} bench_test;

typedef struct bench_stats {
    double mean_ts, stddev_ts, mean_ns, stddev_ns, p50_ms, p95_ms, p99_ms, max_ms, cv;
} bench_stats;

/* Mapped when the verb starts, so that other verbs do not carry it: per-token times of the repetitions of one test, in order; the prompt. */
static float *step_ms;
static dctms_token *prompt;

/* "512,1024" to tests; false when malformed. */
static bool parse_list(const char *text, bool is_prompt, bench_test *tests, uint32_t *n) {
    while (*text != '\0') {
        char *end;
        unsigned long v = strtoul(text, &end, 10);
        if (end == text || v > MAX_PROMPT || (*end != ',' && *end != '\0')) return false;
        if (v > 0) {
            if (*n == MAX_TESTS) return false;
            tests[(*n)++] = is_prompt ? (bench_test){(uint32_t)v, 0} : (bench_test){0, (uint32_t)v};
        }
        text = *end == ',' ? end + 1 : end;
    }
    return true;
}

static dctms_token token_at(uint32_t i, uint32_t n_vocab) { return (dctms_token)(dct_hash_mix(i + 1) % n_vocab); }

/* One repetition; the timeline is at `depth` before and after. */
static dctms_status run_once(dctms_session *session, const bench_test *t, uint32_t depth, float *steps, double *ns, dctms_error *err) {
    uint32_t n_vocab = dctms_session_n_vocab(session);
    for (uint32_t i = 0; i < t->n_prompt; i++) prompt[i] = token_at(i, n_vocab);
    uint64_t begin = dct_os_now_ns();
    dctms_status status = t->n_prompt > 0 ? dctms_session_eval(session, prompt, t->n_prompt, err) : DCTMS_OK;
    uint64_t last = begin;
    for (uint32_t i = 0; status == DCTMS_OK && i < t->n_gen; i++) {
        status = dctms_session_step(session, token_at(depth + i, n_vocab), err);
        uint64_t now = dct_os_now_ns();
        if (steps != NULL) steps[i] = (float)((double)(now - last) * 1e-6);
        last = now;
    }
    *ns = (double)(dct_os_now_ns() - begin);
    return status == DCTMS_OK ? dctms_session_rewind(session, depth, err) : status;
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double mean_of(const double *x, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i];
    return sum / n;
}

static double stddev_of(const double *x, uint32_t n, double mean) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(sum / (n - 1)) : 0;
}

static void summarise(const double *ns, uint32_t reps, uint32_t tokens, uint32_t n_steps, bench_stats *out) {
    double ts[MAX_REPETITIONS];
    for (uint32_t i = 0; i < reps; i++) ts[i] = tokens * 1e9 / ns[i];
    out->mean_ns = mean_of(ns, reps);
    out->stddev_ns = stddev_of(ns, reps, out->mean_ns);
    out->mean_ts = mean_of(ts, reps);
    out->stddev_ts = stddev_of(ts, reps, out->mean_ts);
    if (n_steps == 0) return;
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n_steps; i++) sum += step_ms[i];
    double mean = sum / n_steps;
    for (uint32_t i = 0; i < n_steps; i++) squares += (step_ms[i] - mean) * (step_ms[i] - mean);
    out->cv = mean > 0 ? sqrt(squares / n_steps) / mean : 0;
    qsort(step_ms, n_steps, sizeof *step_ms, by_value); /* after the last measured step */
    out->p50_ms = step_ms[n_steps / 2];
    out->p95_ms = step_ms[(uint64_t)n_steps * 95 / 100];
    out->p99_ms = step_ms[(uint64_t)n_steps * 99 / 100];
    out->max_ms = step_ms[n_steps - 1];
}

/* What every row of the output repeats. */
typedef struct bench_context {
    const cli_options *o;
    dctms_model_info model;
    dctms_plan_info plan;
    const char *format;
    bool first;
} bench_context;

/* ---- output: one list of named values for all formats ---- */

typedef struct field {
    const char *name;
    const char *text; /* NULL: a number */
    double number;
    int digits;       /* after the point */
} field;

enum { N_FIELDS = 23 };

static const char *cache_type(const char *given) { return given != NULL ? given : "f16"; }

/* Counts below 2^53 are exact. */
static void fill_fields(const bench_context *c, const bench_test *t, const bench_stats *s, const dctms_memory *m, const char *label, field out[N_FIELDS]) {
    const field all[N_FIELDS] = {
        {"model_filename", cli_model_path(c->o), 0, 0},
        {"model_type", label, 0, 0},
        {"model_size", NULL, (double)c->model.tensor_bytes, 0},
        {"model_n_params", NULL, (double)c->model.n_params, 0},
        {"backends", dctms_kernels_name(), 0, 0},
        {"n_ubatch", NULL, c->plan.ubatch, 0},
        {"n_threads", NULL, c->plan.threads, 0},
        {"type_k", cache_type(c->o->type_k), 0, 0},
        {"type_v", cache_type(c->o->type_v), 0, 0},
        {"n_prompt", NULL, t->n_prompt, 0},
        {"n_gen", NULL, t->n_gen, 0},
        {"n_depth", NULL, c->o->depth, 0},
        {"avg_ns", NULL, s->mean_ns, 0},
        {"stddev_ns", NULL, s->stddev_ns, 0},
        {"avg_ts", NULL, s->mean_ts, 4},
        {"stddev_ts", NULL, s->stddev_ts, 4},
        {"p50_ms", NULL, s->p50_ms, 4},
        {"p95_ms", NULL, s->p95_ms, 4},
        {"p99_ms", NULL, s->p99_ms, 4},
        {"max_ms", NULL, s->max_ms, 4},
        {"cv", NULL, s->cv, 5},
        {"m_max_bytes", NULL, (double)m->m_max_bytes, 0},
        {"vm_hwm_bytes", NULL, (double)m->vm_hwm_bytes, 0},
    };
    memcpy(out, all, sizeof all);
}

static const field *field_of(const field *fields, const char *name) {
    while (strcmp(fields->name, name) != 0) fields++;
    return fields;
}

static void print_json_row(const field *fields) {
    for (uint32_t i = 0; i < N_FIELDS; i++) {
        cli_print("%s\"%s\": ", i == 0 ? "{" : ", ", fields[i].name);
        if (fields[i].text != NULL) cli_print_json_string(fields[i].text, strlen(fields[i].text));
        else cli_print("%.*f", fields[i].digits, fields[i].number);
    }
    cli_print("}");
}

/* Quotes inside a text are doubled. */
static void print_csv_text(const char *text) {
    cli_print("\"");
    for (; *text != '\0'; text++) cli_print(*text == '"' ? "\"\"" : "%c", *text);
    cli_print("\"");
}

static void print_csv_row(const field *fields, bool first) {
    for (uint32_t i = 0; first && i < N_FIELDS; i++) cli_print("%s%s", fields[i].name, i + 1 < N_FIELDS ? "," : "\n");
    for (uint32_t i = 0; i < N_FIELDS; i++) {
        if (i > 0) cli_print(",");
        if (fields[i].text != NULL) print_csv_text(fields[i].text);
        else cli_print("%.*f", fields[i].digits, fields[i].number);
    }
    cli_print("\n");
}

/* A column of the table shows a field over `unit`; `spread` is the field behind a plus-minus. */
typedef struct column {
    const char *title, *name, *spread;
    double unit;
    const char *suffix;
    int digits;
} column;

#define MIB 1048576.0
static const column columns[] = {
    {"model", "model_type", NULL, 1, "", 0}, {"size", "model_size", NULL, MIB, " MiB", 2},  {"params", "model_n_params", NULL, 1e6, " M", 2},
    {"backend", "backends", NULL, 1, "", 0}, {"threads", "n_threads", NULL, 1, "", 0},      {"test", NULL, NULL, 1, "", 0},
    {"t/s", "avg_ts", "stddev_ts", 1, "", 2}, {"p50 ms", "p50_ms", NULL, 1, "", 2},         {"p99 ms", "p99_ms", NULL, 1, "", 2},
    {"M_max MiB", "m_max_bytes", NULL, MIB, "", 2}, {"observed MiB", "vm_hwm_bytes", NULL, MIB, "", 2},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static void print_md_head(const field *fields) {
    for (uint32_t i = 0; i < N_COLUMNS; i++) cli_print("| %s ", columns[i].title);
    cli_print("|\n");
    for (uint32_t i = 0; i < N_COLUMNS; i++) cli_print(columns[i].name != NULL && field_of(fields, columns[i].name)->text != NULL ? "| --- " : "| ---: ");
    cli_print("|\n");
}

static void print_md_row(const field *fields, const char *test) {
    for (uint32_t i = 0; i < N_COLUMNS; i++) {
        const column *c = &columns[i];
        const field *f = c->name != NULL ? field_of(fields, c->name) : NULL;
        if (f == NULL) cli_print("| %s ", test);
        else if (f->text != NULL) cli_print("| %s ", f->text);
        else if (c->spread != NULL) cli_print("| %.*f ± %.*f ", c->digits, f->number, c->digits, field_of(fields, c->spread)->number);
        else cli_print("| %.*f%s ", c->digits, f->number / c->unit, c->suffix);
    }
    cli_print("|\n");
}

static void print_row(bench_context *c, const bench_test *t, const bench_stats *s, const dctms_memory *m) {
    char test[48], label[96];
    int n = snprintf(test, sizeof test, t->n_prompt > 0 ? "pp%u" : "tg%u", t->n_prompt > 0 ? t->n_prompt : t->n_gen);
    if (c->o->depth > 0) snprintf(test + n, sizeof test - (size_t)n, " @ d%u", c->o->depth);
    snprintf(label, sizeof label, "%s %s", c->model.arch, c->model.type_name);
    field fields[N_FIELDS];
    fill_fields(c, t, s, m, label, fields);
    if (strcmp(c->format, "md") == 0) {
        if (c->first) print_md_head(fields);
        print_md_row(fields, test);
    } else if (strcmp(c->format, "csv") == 0) {
        print_csv_row(fields, c->first);
    } else if (strcmp(c->format, "json") == 0) {
        cli_print(c->first ? "[\n  " : ",\n  ");
        print_json_row(fields);
    } else {
        print_json_row(fields);
        cli_print("\n");
    }
    c->first = false;
    cli_flush();
}

/* ---- the verb ---- */

static int run_tests(dctms_session *session, bench_context *c, const bench_test *tests, uint32_t n_tests) {
    const cli_options *o = c->o;
    dctms_error err;
    double ns[MAX_REPETITIONS], ignored;
    bench_test fill = {.n_prompt = o->depth};
    for (uint32_t k = 0; k < n_tests; k++) {
        const bench_test *t = &tests[k];
        if (dctms_session_rewind(session, 0, &err) != DCTMS_OK) return cli_fail(&err);
        if (o->depth > 0 && run_once(session, &fill, o->depth, NULL, &ignored, &err) != DCTMS_OK) return cli_fail(&err);
        if (run_once(session, t, o->depth, NULL, &ignored, &err) != DCTMS_OK) return cli_fail(&err);
        uint32_t n_steps = 0;
        for (uint32_t r = 0; r < o->repetitions; r++) {
            bool keep = n_steps + t->n_gen <= MAX_STEPS;
            if (run_once(session, t, o->depth, keep ? step_ms + n_steps : NULL, &ns[r], &err) != DCTMS_OK) return cli_fail(&err);
            if (keep) n_steps += t->n_gen;
        }
        bench_stats stats = {0};
        dctms_memory memory;
        summarise(ns, o->repetitions, t->n_prompt + t->n_gen, n_steps, &stats);
        dctms_session_memory(session, &memory);
        print_row(c, t, &stats, &memory);
    }
    if (strcmp(c->format, "json") == 0 && !c->first) cli_print("\n]\n");
    return 0;
}

/* Bounds that hold the deepest test; false after printing a usage error. */
static bool bench_bounds(const cli_options *o, const bench_test *tests, uint32_t n_tests, dctms_plan_params *pp, uint32_t *longest) {
    if (!cli_plan_params(o, pp)) return false;
    uint32_t longest_gen = 1;
    *longest = o->depth > 0 ? o->depth : 1;
    for (uint32_t i = 0; i < n_tests; i++) {
        *longest = tests[i].n_prompt > *longest ? tests[i].n_prompt : *longest;
        longest_gen = tests[i].n_gen > longest_gen ? tests[i].n_gen : longest_gen;
    }
    uint32_t need = o->depth + *longest + longest_gen;
    pp->n_output = (int32_t)longest_gen;
    if (pp->n_ctx == 0) pp->n_ctx = need;
    if (pp->n_ctx >= need) return true;
    cli_usage("-c %u is too small: depth, prompt and generation need %u", pp->n_ctx, need);
    return false;
}

int cli_bench(const cli_options *o) {
    bench_test tests[MAX_TESTS];
    uint32_t n_tests = 0, longest;
    bench_context c = {.o = o, .format = o->bench_format != NULL ? o->bench_format : "md", .first = true};
    if (strcmp(c.format, "md") != 0 && strcmp(c.format, "csv") != 0 && strcmp(c.format, "json") != 0 && strcmp(c.format, "jsonl") != 0) {
        return cli_usage("-o: '%s' is none of md, csv, json, jsonl", c.format);
    }
    if (o->n_args > (o->model == NULL ? 1u : 0u)) return cli_usage("bench takes one model");
    if (!parse_list(o->bench_prompt != NULL ? o->bench_prompt : "512", true, tests, &n_tests)) return cli_usage("-p: a list of numbers is expected");
    if (!parse_list(o->bench_gen != NULL ? o->bench_gen : "128", false, tests, &n_tests)) return cli_usage("-n: a list of numbers is expected");
    if (n_tests == 0) return cli_usage("-p and -n leave nothing to measure");
    if (o->repetitions < 1 || o->repetitions > MAX_REPETITIONS) return cli_usage("-r: 1 to %d", MAX_REPETITIONS);
    if (o->depth > MAX_PROMPT) return cli_usage("-d: at most %d", MAX_PROMPT);
    cli_modes modes;
    dctms_plan_params pp;
    if (!cli_parse_modes(o, &modes) || !bench_bounds(o, tests, n_tests, &pp, &longest)) return DCT_USAGE;
    step_ms = dct_os_map(MAX_STEPS * sizeof *step_ms);
    prompt = dct_os_map(longest * sizeof *prompt);
    if (step_ms == NULL || prompt == NULL) return cli_no_memory("the times");

    dctms_error err;
    dctms_model *model;
    dctms_plan *plan = NULL;
    dctms_session *session = NULL;
    bool enforced;
    if (dctms_model_open(cli_model_path(o), &model, &err) != DCTMS_OK) return cli_fail(&err);
    int code;
    if (dctms_model_get_info(model, &c.model, &err) != DCTMS_OK || dctms_plan_compile(model, &pp, &plan, &err) != DCTMS_OK ||
        dctms_session_open(model, plan, &modes.session, &session, &err) != DCTMS_OK) {
        code = cli_fail(&err);
        goto done;
    }
    dctms_plan_get_info(plan, &c.plan);
    code = cli_seal(&modes, &enforced);
    if (code == 0) code = run_tests(session, &c, tests, n_tests);
done:
    dctms_session_free(session);
    dctms_plan_free(plan);
    dctms_model_free(model);
    return code;
}
