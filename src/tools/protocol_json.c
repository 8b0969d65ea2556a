/* tools/protocol_json: what the tables show, for programs: one JSON object, and rows of CSV. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "plan/plan_text.h"
#include "tools/protocol.h"

/* One list of fields for both: names, and a row's values in the same order. */
static const char *const names[] = {
    "stress",   "run", "category", "system",  "calls",        "cells",          "mean_ms",     "mean_ms_low", "mean_ms_high",
    "sigma_ms", "cv",  "cv_low",   "cv_high", "tokens_per_s", "peak_rss_bytes", "vm_hwm_bytes"};
enum { N_NAMES = sizeof names / sizeof *names, FIRST_NUMBER = 4, FIRST_SPREAD = 9, N_SPREAD = 4, VALUE_BYTES = 32 };

typedef struct values {
    char text[N_NAMES][VALUE_BYTES];
} values;

static void fill(const dct_row_key *key, const dct_row *r, values *v) {
    const double numbers[] = {r->mean_ms,           r->mean_interval.low, r->mean_interval.high, r->sigma_ms, r->cv,
                              r->cv_interval.low,   r->cv_interval.high,  r->tokens_per_s};
    const uint64_t bytes[] = {r->peak_rss, r->vm_hwm};
    uint32_t n = 0;
    snprintf(v->text[n++], VALUE_BYTES, "%s", dct_stress_name(key->session.stress));
    if (key->session.run == 0) snprintf(v->text[n++], VALUE_BYTES, "all");
    else snprintf(v->text[n++], VALUE_BYTES, "%u", key->session.run);
    if (key->category == DCT_PROTOCOL_CATEGORIES) snprintf(v->text[n++], VALUE_BYTES, "all");
    else snprintf(v->text[n++], VALUE_BYTES, "P%u", key->category + 1);
    snprintf(v->text[n++], VALUE_BYTES, "%s", dct_system_name(key->session.system));
    snprintf(v->text[n++], VALUE_BYTES, "%u", r->n_calls);
    snprintf(v->text[n++], VALUE_BYTES, "%u", r->n_cells);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) snprintf(v->text[n++], VALUE_BYTES, "%.6f", numbers[i]);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) snprintf(v->text[n++], VALUE_BYTES, "%" PRIu64, bytes[i]);
    for (uint32_t i = 0; r->n_spread == 0 && i < N_SPREAD; i++) v->text[FIRST_SPREAD + i][0] = '\0'; /* sigma_ms to cv_high */
}

static void put_json(const dct_text *t, const values *v, bool first) {
    dct_text_put(t, first ? "\n  {" : ",\n  {");
    for (uint32_t i = 0; i < N_NAMES; i++) {
        const char *quote = i < FIRST_NUMBER ? "\"" : "";
        const char *text = v->text[i][0] != '\0' ? v->text[i] : "null";
        dct_text_put(t, "%s\"%s\": %s%s%s", i == 0 ? "" : ", ", names[i], quote, text, quote);
    }
    dct_text_put(t, "}");
}

static void put_csv(const dct_text *t, const values *v) {
    for (uint32_t i = 0; i < N_NAMES; i++) dct_text_put(t, "%s%s", v->text[i], i + 1 < N_NAMES ? "," : "\n");
}

/* Every row there is: runs and all of them, categories and all prompts. */
static dct_status put_rows(const dct_protocol *p, const dct_text *t, bool json, dct_err *err) {
    enum { CATEGORIES = DCT_PROTOCOL_CATEGORIES + 1 };
    const uint32_t n_runs = dct_protocol_runs(p) + 1;
    bool first = true;
    for (uint32_t i = 0; i < DCT_STRESSES * n_runs * CATEGORIES * DCT_SYSTEMS; i++) {
        uint32_t category = i / DCT_SYSTEMS % CATEGORIES, run = i / DCT_SYSTEMS / CATEGORIES % n_runs;
        uint32_t stress = i / DCT_SYSTEMS / CATEGORIES / n_runs;
        const dct_row_key key = {{run, (dct_stress)stress, (dct_system)(i % DCT_SYSTEMS)}, category};
        dct_row row;
        values v;
        dct_status status = dct_protocol_row(p, &key, &row, err);
        if (status != DCT_OK) return status;
        if (row.n_calls == 0) continue;
        fill(&key, &row, &v);
        if (json) put_json(t, &v, first);
        else put_csv(t, &v);
        first = false;
    }
    return DCT_OK;
}

/* A bound may be infinite, where a baseline never differed; JSON has no number for that, nor for what is not known. */
static void put_ratio(const dct_text *t, const char *name, bool known, double ratio) {
    if (known && isfinite(ratio)) dct_text_put(t, ", \"%s\": %.6f", name, ratio);
    else dct_text_put(t, ", \"%s\": null", name);
}

/* Against each other system, under each condition. */
static dct_status put_comparisons(const dct_protocol *p, const dct_text *t, dct_err *err) {
    bool first = true;
    for (uint32_t i = 0; i < (DCT_SYSTEMS - 1) * DCT_STRESSES; i++) {
        const dct_stress stress = (dct_stress)(i % DCT_STRESSES);
        const dct_system theirs = (dct_system)(DCT_PLANNED + 1 + i / DCT_STRESSES);
        const dct_row_key a = {{0, stress, DCT_PLANNED}, DCT_PROTOCOL_CATEGORIES};
        const dct_row_key b = {{0, stress, theirs}, DCT_PROTOCOL_CATEGORIES};
        dct_comparison c;
        dct_status status = dct_protocol_compare(p, &a, &b, &c, err);
        if (status != DCT_OK) return status;
        if (!c.known) continue;
        dct_text_put(t, "%s\n  {\"against\": \"%s\", \"stress\": \"%s\", \"latency_ratio\": %.6f", first ? "" : ",",
                     dct_system_name(theirs), dct_stress_name(stress), c.latency);
        put_ratio(t, "cv_ratio", c.cv_known, c.cv);
        put_ratio(t, "cv_ratio_low", c.cv_known, c.cv_interval.low);
        put_ratio(t, "cv_ratio_high", c.cv_known, c.cv_interval.high);
        dct_text_put(t, "}");
        first = false;
    }
    return DCT_OK;
}

dct_status dct_protocol_json(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx, dct_err *err) {
    const dct_text t = {write, ctx};
    dct_text_put(&t, "{\"model\": \"%s\", \"n_input\": %u, \"n_output\": %u, \"ubatch\": %u, \"threads\": %u, ", p->label,
                 p->n_input, p->n_output, p->ubatch, p->threads);
    dct_text_put(&t, "\"logical_tensors\": %u, \"physical_buffers\": %u, \"seed\": %" PRIu64 ", ", p->logical_tensors,
                 p->physical_buffers, p->seed);
    dct_text_put(&t, "\"m_max_bytes\": %" PRIu64 ", \"weights_bytes\": %" PRIu64 ", \"kv_bytes\": %" PRIu64
                     ", \"persistent_bytes\": %" PRIu64 ", \"intermediate_bytes\": %" PRIu64 ", \"runtime_bytes\": %" PRIu64
                     ",\n\"rows\": [", p->m_max, p->weights, p->kv, p->persistent, p->intermediate, p->runtime);
    dct_status status = put_rows(p, &t, true, err);
    if (status != DCT_OK) return status;
    dct_text_put(&t, "],\n\"comparisons\": [");
    status = put_comparisons(p, &t, err);
    if (status == DCT_OK) dct_text_put(&t, "]}\n");
    return status;
}

dct_status dct_protocol_csv(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx, dct_err *err) {
    const dct_text t = {write, ctx};
    for (uint32_t i = 0; i < N_NAMES; i++) dct_text_put(&t, "%s%s", names[i], i + 1 < N_NAMES ? "," : "\n");
    return put_rows(p, &t, false, err);
}
