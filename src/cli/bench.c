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

static void print_row(bench_context *c, const bench_test *t, const bench_stats *s, const dctms_memory *m) {
    char test[48], size[32], label[96];
    snprintf(test, sizeof test, t->n_prompt > 0 ? "pp%u" : "tg%u", t->n_prompt > 0 ? t->n_prompt : t->n_gen);
    if (c->o->depth > 0) snprintf(test + strlen(test), sizeof test - strlen(test), " @ d%u", c->o->depth);
    snprintf(label, sizeof label, "%s %s", c->model.arch, c->model.type_name);
    if (strcmp(c->format, "md") == 0) {
        if (c->first) {
            cli_print("| model | size | params | backend | threads | test | t/s | p50 ms | p99 ms | M_max MiB | observed MiB |\n");
            cli_print("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
        }
        snprintf(size, sizeof size, "%.2f MiB", cli_mib(c->model.tensor_bytes));
        cli_print("| %s | %s | %.2f M | %s | %u | %s | %.2f ± %.2f | %.2f | %.2f | %.2f | %.2f |\n", label, size, (double)c->model.n_params * 1e-6,
                  dctms_kernels_name(), c->plan.threads, test, s->mean_ts, s->stddev_ts, s->p50_ms, s->p99_ms, cli_mib(m->m_max_bytes), cli_mib(m->vm_hwm_bytes));
    } else if (strcmp(c->format, "csv") == 0) {
        if (c->first) cli_print("model_filename,model_type,model_size,model_n_params,backends,n_ubatch,n_threads,type_k,type_v,n_prompt,n_gen,n_depth,avg_ns,stddev_ns,avg_ts,stddev_ts,p50_ms,p95_ms,p99_ms,max_ms,cv,m_max_bytes,vm_hwm_bytes\n");
        cli_print("\"%s\",\"%s\",%llu,%llu,%s,%u,%u,%s,%s,%u,%u,%u,%.0f,%.0f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.5f,%llu,%llu\n", cli_model_path(c->o), label,
                  (unsigned long long)c->model.tensor_bytes, (unsigned long long)c->model.n_params, dctms_kernels_name(), c->plan.ubatch, c->plan.threads,
                  c->o->type_k ? c->o->type_k : "f16", c->o->type_v ? c->o->type_v : "f16", t->n_prompt, t->n_gen, c->o->depth, s->mean_ns, s->stddev_ns,
                  s->mean_ts, s->stddev_ts, s->p50_ms, s->p95_ms, s->p99_ms, s->max_ms, s->cv, (unsigned long long)m->m_max_bytes, (unsigned long long)m->vm_hwm_bytes);
    } else {
        bool list = strcmp(c->format, "json") == 0;
        cli_print("%s{\"model_type\": \"%s\", \"model_size\": %llu, \"model_n_params\": %llu, \"backends\": \"%s\", \"n_ubatch\": %u, \"n_threads\": %u, "
                  "\"type_k\": \"%s\", \"type_v\": \"%s\", \"n_prompt\": %u, \"n_gen\": %u, \"n_depth\": %u, \"avg_ns\": %.0f, \"stddev_ns\": %.0f, "
                  "\"avg_ts\": %.4f, \"stddev_ts\": %.4f, \"p50_ms\": %.4f, \"p95_ms\": %.4f, \"p99_ms\": %.4f, \"max_ms\": %.4f, \"cv\": %.5f, "
                  "\"m_max_bytes\": %llu, \"vm_hwm_bytes\": %llu}%s",
                  list ? (c->first ? "[\n  " : ",\n  ") : "", label, (unsigned long long)c->model.tensor_bytes, (unsigned long long)c->model.n_params,
                  dctms_kernels_name(), c->plan.ubatch, c->plan.threads, c->o->type_k ? c->o->type_k : "f16", c->o->type_v ? c->o->type_v : "f16", t->n_prompt,
                  t->n_gen, c->o->depth, s->mean_ns, s->stddev_ns, s->mean_ts, s->stddev_ts, s->p50_ms, s->p95_ms, s->p99_ms, s->max_ms, s->cv,
                  (unsigned long long)m->m_max_bytes, (unsigned long long)m->vm_hwm_bytes, list ? "" : "\n");
    }
    c->first = false;
    cli_flush();
}

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

int cli_bench(const cli_options *o) {
    bench_test tests[MAX_TESTS];
    uint32_t n_tests = 0;
    bench_context c = {.o = o, .format = o->bench_format != NULL ? o->bench_format : "md", .first = true};
    if (strcmp(c.format, "md") != 0 && strcmp(c.format, "csv") != 0 && strcmp(c.format, "json") != 0 && strcmp(c.format, "jsonl") != 0) {
        return cli_usage("-o: '%s' is none of md, csv, json, jsonl", c.format);
    }
    if (!parse_list(o->bench_prompt != NULL ? o->bench_prompt : "512", true, tests, &n_tests)) return cli_usage("-p: a list of numbers is expected");
    if (!parse_list(o->bench_gen != NULL ? o->bench_gen : "128", false, tests, &n_tests)) return cli_usage("-n: a list of numbers is expected");
    if (o->repetitions < 1 || o->repetitions > MAX_REPETITIONS) return cli_usage("-r: 1 to %d", MAX_REPETITIONS);
    dctms_plan_params pp;
    if (!cli_plan_params(o, &pp)) return DCT_USAGE;
    if (o->depth > MAX_PROMPT) return cli_usage("-d: at most %d", MAX_PROMPT);
    step_ms = dct_os_map(MAX_STEPS * sizeof *step_ms);
    uint32_t longest = o->depth > 0 ? o->depth : 1, longest_gen = 1;
    for (uint32_t i = 0; i < n_tests; i++) {
        longest = tests[i].n_prompt > longest ? tests[i].n_prompt : longest;
        longest_gen = tests[i].n_gen > longest_gen ? tests[i].n_gen : longest_gen;
    }
    prompt = dct_os_map(longest * sizeof *prompt);
    if (step_ms == NULL || prompt == NULL) return cli_usage("no memory for the times");
    pp.n_output = (int32_t)longest_gen;
    if (pp.n_ctx == 0) pp.n_ctx = o->depth + longest + longest_gen;
    if (pp.n_ctx < o->depth + longest + longest_gen) return cli_usage("-c %u is too small: depth, prompt and generation need %u", pp.n_ctx, o->depth + longest + longest_gen);

    dctms_error err;
    dctms_model *model;
    dctms_plan *plan = NULL;
    dctms_session *session = NULL;
    if (dctms_model_open(cli_model_path(o), &model, &err) != DCTMS_OK) return cli_fail(&err);
    dctms_session_params sp = dctms_session_default_params();
    sp.force = o->force;
    sp.mlock = o->mlock;
    sp.alloc = o->alloc != NULL && strcmp(o->alloc, "dynamic") == 0 ? DCTMS_ALLOC_DYNAMIC : DCTMS_ALLOC_PLANNED;
    sp.progress = cli_progress;
    sp.progress_ctx = (void *)(uintptr_t) "loading";
    int code;
    if (dctms_model_get_info(model, &c.model, &err) != DCTMS_OK || dctms_plan_compile(model, &pp, &plan, &err) != DCTMS_OK ||
        dctms_plan_get_info(plan, &c.plan) != DCTMS_OK || dctms_session_open(model, plan, &sp, &session, &err) != DCTMS_OK) {
        code = cli_fail(&err);
    } else if ((o->seal == NULL || strcmp(o->seal, "off") != 0) && sp.alloc == DCTMS_ALLOC_PLANNED && dctms_seal(false, NULL, &err) != DCTMS_OK) {
        code = cli_fail(&err);
    } else {
        code = run_tests(session, &c, tests, n_tests);
    }
    dctms_session_free(session);
    dctms_plan_free(plan);
    dctms_model_free(model);
    return code;
}
