/* tools/protocol_tables: the tables of the paper: what compiling gave (its Table 1), each run and all of them (Tables 2 and
 * 3), each prompt category (Appendix C), and the comparison that they are read for. Markdown, so that they go into a
 * document as they are.
 */
#include <stdio.h>
#include <string.h>

#include "plan/plan_text.h"
#include "tools/protocol.h"

typedef struct sheet {
    const dct_protocol *p;
    dct_text t;
    dct_status status; /* of the first failure; what follows is not written */
    dct_err *err;
} sheet;

/* ---- compilation ---- */

static void put_bounds(const sheet *s) {
    const dct_protocol *p = s->p;
    dct_text_put(&s->t, "%.300s\n%s, %s; N = %u, M = %u, chunks of %u, %u threads, KV %s; kernels %s\n", p->model, p->label,
                 p->limit != NULL ? p->limit : "no limit of memory", p->n_input, p->n_output, p->ubatch, p->threads,
                 p->cache_types, p->kernels);
    if (p->peer != NULL) dct_text_put(&s->t, "llama.cpp: %.300s\n", p->peer);
}

static void put_compilation(const sheet *s) {
    const dct_protocol *p = s->p;
    double reduction = p->logical_tensors > 0 ? 100.0 * (1 - (double)p->physical_buffers / p->logical_tensors) : 0;
    const struct { const char *name; uint64_t bytes; } terms[] = {
        {"M_weights", p->weights},           {"M_KV", p->kv},           {"M_persistent", p->persistent},
        {"M_intermediate", p->intermediate}, {"M_runtime", p->runtime}, {"M_max", p->m_max},
    };
    dct_text_put(&s->t, "\n## Compilation\n\n| | |\n|---|---:|\n");
    dct_text_put(&s->t, "| logical tensors | %u |\n| physical buffers | %u |\n| reduction | %.2f %% |\n", p->logical_tensors,
                 p->physical_buffers, reduction);
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        dct_text_put(&s->t, "| %s | %.2f MiB |\n", terms[i].name, dct_mib(terms[i].bytes));
    dct_text_put(&s->t, "| M_free | %.2f MiB (%s) |\n", dct_mib(p->available) - dct_mib(p->m_max), p->available_source);
}

/* ---- rows ---- */

/* False when nothing was measured, or when something failed. */
static bool find_row(sheet *s, const dct_row_key *key, dct_row *row) {
    if (s->status == DCT_OK) s->status = dct_protocol_row(s->p, key, row, s->err);
    return s->status == DCT_OK && row->n_calls > 0;
}

static void put_figures(const sheet *s, const dct_row *r) {
    dct_text_put(&s->t, "%u | %.1f | ", r->n_calls, r->mean_ms);
    if (r->n_spread == 0) dct_text_put(&s->t, " | ");
    else dct_text_put(&s->t, "%.1f | %.4f (%.4f to %.4f)", r->sigma_ms, r->cv, r->cv_interval.low, r->cv_interval.high);
    dct_text_put(&s->t, " | %.2f |", r->tokens_per_s);
}

static void put_run(sheet *s, dct_stress stress, uint32_t run, dct_system system) {
    dct_row r;
    if (!find_row(s, &(dct_row_key){{run, stress, system}, DCT_PROTOCOL_CATEGORIES}, &r)) return;
    char name[16] = "all";
    if (run != 0) snprintf(name, sizeof name, "%u", run);
    dct_text_put(&s->t, "| %s | %s | %s | ", dct_stress_name(stress), name, dct_system_name(system));
    put_figures(s, &r);
    dct_text_put(&s->t, " %.1f | %.1f | %.3f |\n", dct_mib(r.peak_rss), dct_mib(r.vm_hwm),
                 (double)r.vm_hwm / (double)s->p->m_max);
}

static void put_runs(sheet *s) {
    uint32_t n_runs = dct_protocol_runs(s->p);
    dct_text_put(&s->t, "\n## Runs\n\n| stress | run | system | calls | mean ms | sigma ms | CV (95 %% interval) | tokens/s | "
                        "peak RSS MiB | VmHWM MiB | of M_max |\n|---|---|---|---:|---:|---:|---|---:|---:|---:|---:|\n");
    for (int stress = 0; stress < DCT_STRESSES; stress++) {
        for (uint32_t run = 1; run <= n_runs + 1; run++) { /* all of them stand last */
            for (int system = 0; system < DCT_SYSTEMS; system++)
                put_run(s, (dct_stress)stress, run <= n_runs ? run : 0, (dct_system)system);
        }
    }
}

static void put_category(sheet *s, dct_stress stress, uint32_t category, dct_system system) {
    dct_row r;
    if (!find_row(s, &(dct_row_key){{0, stress, system}, category}, &r)) return;
    dct_text_put(&s->t, "| %s | P%u %s | %u to %u | %s | ", dct_stress_name(stress), category + 1,
                 dct_protocol_category(category), r.n_prompt_low, r.n_prompt_high, dct_system_name(system));
    put_figures(s, &r);
    dct_text_put(&s->t, "\n");
}

static void put_categories(sheet *s) {
    dct_text_put(&s->t, "\n## Prompts, all runs\n\n| stress | prompts | tokens | system | calls | mean ms | sigma ms | "
                        "CV (95 %% interval) | tokens/s |\n|---|---|---|---|---:|---:|---:|---|---:|\n");
    for (int stress = 0; stress < DCT_STRESSES; stress++) {
        for (uint32_t category = 0; category < DCT_PROTOCOL_CATEGORIES; category++) {
            for (int system = 0; system < DCT_SYSTEMS; system++)
                put_category(s, (dct_stress)stress, category, (dct_system)system);
        }
    }
}

/* ---- comparison ---- */

static double lower_by(double ratio) { return 100 * (1 - ratio); }

static void put_compared(const sheet *s, dct_system theirs, dct_stress stress, const dct_comparison *c) {
    dct_text_put(&s->t, "| %s | %s | %.3f | ", dct_system_name(theirs), dct_stress_name(stress), c->latency);
    if (c->cv_known)
        dct_text_put(&s->t, "%.1f %% (%.1f to %.1f)", lower_by(c->cv), lower_by(c->cv_interval.high),
                     lower_by(c->cv_interval.low));
    dct_text_put(&s->t, " |\n");
}

/* Against one system: a line for each condition, and the mean of the conditions. */
static void put_against(sheet *s, dct_system theirs) {
    double sum_latency = 0, sum_cv = 0;
    uint32_t n = 0, n_cv = 0;
    for (int stress = 0; stress < DCT_STRESSES && s->status == DCT_OK; stress++) {
        dct_row_key a = {{0, (dct_stress)stress, DCT_PLANNED}, DCT_PROTOCOL_CATEGORIES}, b = a;
        dct_comparison c;
        b.session.system = theirs;
        s->status = dct_protocol_compare(s->p, &a, &b, &c, s->err);
        if (s->status != DCT_OK || !c.known) continue;
        sum_latency += c.latency;
        sum_cv += c.cv;
        n++;
        n_cv += c.cv_known;
        put_compared(s, theirs, (dct_stress)stress, &c);
    }
    if (n < 2) return;
    dct_text_put(&s->t, "| %s | mean of %u | %.3f | ", dct_system_name(theirs), n, sum_latency / n);
    if (n_cv == n) dct_text_put(&s->t, "%.1f %%", lower_by(sum_cv / n));
    dct_text_put(&s->t, " |\n");
}

static void put_comparison(sheet *s) {
    dct_text_put(&s->t, "\n## planned against the others\n\n| against | stress | mean latency, ours over theirs | "
                        "CV lower by (95 %% interval) |\n|---|---|---:|---|\n");
    for (int system = DCT_PLANNED + 1; system < DCT_SYSTEMS; system++) put_against(s, (dct_system)system);
}

dct_status dct_protocol_tables(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx, dct_err *err) {
    sheet s = {.p = p, .t = {write, ctx}, .err = err};
    put_bounds(&s);
    put_compilation(&s);
    put_runs(&s);
    put_categories(&s);
    put_comparison(&s);
    return s.status;
}
