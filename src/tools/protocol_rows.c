/* tools/protocol_rows: what the calls of one system say: cells, and figures over them. */
#include "tools/protocol.h"

enum { MAX_CELLS = DCT_PROTOCOL_RUNS * DCT_PROTOCOL_PROMPTS };

static bool is_of(const dct_call *c, const dct_row_key *key) {
    const dct_session_key *s = &key->session;
    return c->key.system == s->system && c->key.stress == s->stress && (s->run == 0 || s->run == c->key.run) &&
           (key->category == DCT_PROTOCOL_CATEGORIES || key->category == dct_protocol_category_of(c->prompt));
}

static uint32_t cell_of(const dct_call *c) { return (c->key.run - 1) * DCT_PROTOCOL_PROMPTS + c->prompt; }

/* Latencies by cell: a counting sort. Cells without calls are left out. */
typedef struct cells {
    dct_sample *cell;
    uint32_t *number;    /* of each */
    uint32_t n, n_calls;
} cells;

static dct_status gather(const dct_protocol *p, const dct_row_key *key, dct_arena *work, cells *out, dct_err *err) {
    uint32_t *counts = dct_arena_array(work, MAX_CELLS, sizeof *counts), *at = dct_arena_array(work, MAX_CELLS, sizeof *at);
    *out = (cells){.cell = dct_arena_array(work, MAX_CELLS, sizeof *out->cell),
                   .number = dct_arena_array(work, MAX_CELLS, sizeof *out->number)};
    double *x = dct_arena_array(work, p->n_calls, sizeof *x);
    if (counts == NULL || at == NULL || out->cell == NULL || out->number == NULL || x == NULL)
        return dct_fail_memory(err, work, "the figures");
    for (uint32_t i = 0; i < p->n_calls; i++)
        if (is_of(&p->calls[i], key)) counts[cell_of(&p->calls[i])]++;
    for (uint32_t c = 0; c < MAX_CELLS; c++) {
        if (counts[c] == 0) continue;
        at[c] = out->n_calls;
        out->number[out->n] = c;
        out->cell[out->n++] = (dct_sample){x + out->n_calls, counts[c]};
        out->n_calls += counts[c];
    }
    for (uint32_t i = 0; i < p->n_calls; i++)
        if (is_of(&p->calls[i], key)) x[at[cell_of(&p->calls[i])]++] = p->calls[i].latency_ms;
    return DCT_OK;
}

static void add_call(dct_row *row, const dct_call *c) {
    row->n_calls++;
    row->tokens_per_s += c->n_predicted * 1000.0 / c->latency_ms; /* a sum until all are added */
    if (row->n_prompt_low == 0 || c->n_prompt < row->n_prompt_low) row->n_prompt_low = c->n_prompt;
    if (c->n_prompt > row->n_prompt_high) row->n_prompt_high = c->n_prompt;
    if (c->peak_rss > row->peak_rss) row->peak_rss = c->peak_rss;
    if (c->vm_hwm > row->vm_hwm) row->vm_hwm = c->vm_hwm;
}

static void summarise(const dct_protocol *p, const dct_row_key *key, const cells *all, dct_row *row) {
    *row = (dct_row){.n_cells = all->n, .n_spread = dct_stats_spread_cells(all->cell, all->n)};
    if (all->n == 0) return;
    for (uint32_t i = 0; i < p->n_calls; i++)
        if (is_of(&p->calls[i], key)) add_call(row, &p->calls[i]);
    row->tokens_per_s /= row->n_calls;
    for (uint32_t i = 0; i < all->n; i++) {
        row->mean_ms += dct_stats_mean(all->cell[i].x, all->cell[i].n) / all->n;
        if (row->n_spread > 0) row->sigma_ms += dct_stats_sigma(all->cell[i].x, all->cell[i].n) / row->n_spread;
    }
    row->cv = dct_stats_mean_cv(all->cell, all->n);
    dct_stats_bootstrap_mean(all->cell, all->n, p->seed, &row->mean_interval);
    dct_stats_bootstrap_cv(all->cell, all->n, p->seed, &row->cv_interval);
}

dct_status dct_protocol_row(const dct_protocol *p, const dct_row_key *key, dct_row *row, dct_err *err) {
    dct_arena work;
    cells all;
    dct_arena_init(&work, 0);
    dct_status status = gather(p, key, &work, &all, err);
    if (status == DCT_OK) summarise(p, key, &all, row);
    dct_arena_deinit(&work);
    return status;
}

static double mean_of_means(const cells *all) {
    double sum = 0;
    for (uint32_t i = 0; i < all->n; i++) sum += dct_stats_mean(all->cell[i].x, all->cell[i].n);
    return sum / all->n;
}

static bool has_number(const cells *all, uint32_t number) {
    for (uint32_t i = 0; i < all->n; i++)
        if (all->number[i] == number) return true;
    return false;
}

/* Cells that `other` has not are dropped. */
static void keep_common(cells *all, const cells *other) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        if (!has_number(other, all->number[i])) continue;
        all->number[n] = all->number[i];
        all->cell[n++] = all->cell[i];
    }
    all->n = n;
}

static void compare(const cells *a, const cells *b, uint64_t seed, dct_comparison *out) {
    if (a->n == 0) return;
    out->known = true;
    out->latency = mean_of_means(a) / mean_of_means(b);
    double cv_b = dct_stats_mean_cv(b->cell, b->n);
    out->cv_known = cv_b > 0 && dct_stats_spread_cells(a->cell, a->n) > 0;
    if (!out->cv_known) return;
    out->cv = dct_stats_mean_cv(a->cell, a->n) / cv_b;
    dct_stats_bootstrap_cv_ratio(a->cell, a->n, b->cell, b->n, seed, &out->cv_interval);
}

dct_status dct_protocol_compare(const dct_protocol *p, const dct_row_key *ours, const dct_row_key *theirs, dct_comparison *out,
                                dct_err *err) {
    dct_arena work;
    cells a, b;
    *out = (dct_comparison){.known = false};
    dct_arena_init(&work, 0);
    dct_status status = gather(p, ours, &work, &a, err);
    if (status == DCT_OK) status = gather(p, theirs, &work, &b, err);
    if (status == DCT_OK) {
        keep_common(&a, &b);
        keep_common(&b, &a);
        compare(&a, &b, p->seed, out);
    }
    dct_arena_deinit(&work);
    return status;
}

uint32_t dct_protocol_runs(const dct_protocol *p) {
    uint32_t runs = 0;
    for (uint32_t i = 0; i < p->n_calls; i++)
        if (p->calls[i].key.run > runs) runs = p->calls[i].key.run;
    return runs;
}
