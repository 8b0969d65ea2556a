/* engine/load: weights from the file into the reservation, once, in the layout that the kernels read.
 *
 * A piece of work is a run of tiles of one weight: its rows are read into the worker's own staging, at most a few megabytes,
 * and packed from there into place. Vectors are widened to f32. Nothing here allocates; the staging is planned, over the
 * caches and intermediates that are not used yet.
 */
#include <string.h>

#include "base/size.h"
#include "engine/engine.h"

enum { PIECE_BYTES = 512 * 1024 };

/* Bytes of a file's row of this weight. Sizes were checked when the file was opened and the graph was traced. */
static uint64_t row_bytes(const dct_weight *w) {
    uint64_t bytes = 0;
    return dct_dtype_row_bytes(w->type, w->n_cols, &bytes) ? bytes : 0;
}

/* Rows of one piece: whole tiles, at least one. A vector is one row. Rows of no bytes are those of a plan not verified yet. */
static uint32_t rows_a_piece(const dct_weight *w) {
    if (w->is_vector) return 1;
    uint64_t tile = row_bytes(w) * DCT_TILE_ROWS;
    return (uint32_t)(tile == 0 || tile >= PIECE_BYTES ? 1 : PIECE_BYTES / tile) * DCT_TILE_ROWS;
}

static uint32_t pieces_of_weight(const dct_weight *w) { return (uint32_t)dct_div_up(w->n_rows, rows_a_piece(w)); }

/* Of one worker. */
static uint64_t piece_bytes(const dct_weight *w) { return dct_round_up(row_bytes(w) * rows_a_piece(w), 4096); }

/* Factors and frequencies of a rotary table pass through the staging as well. */
static uint64_t table_bytes(const dct_rope_table *t) { return dct_round_up((uint64_t)t->n_rot * 8, 4096); }

uint64_t dct_load_staging_bytes(const dct_graph *g, uint32_t n_workers) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < g->n_weights; i++) {
        uint64_t bytes = piece_bytes(&g->weights[i]) * n_workers;
        if (bytes > most) most = bytes;
    }
    for (uint32_t i = 0; i < g->n_tables; i++) {
        uint64_t bytes = table_bytes(&g->tables[i]);
        if (bytes > most) most = bytes;
    }
    return most;
}

uint64_t dct_load_bytes(const dct_plan *plan) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++) bytes += plan->weights[i].w.n_rows * row_bytes(&plan->weights[i].w);
    return bytes;
}

void dct_progress_add(dct_progress *p, uint64_t bytes, uint32_t worker) {
    uint64_t done = atomic_fetch_add(&p->done, bytes) + bytes;
    if (worker == 0 && p->show != NULL) p->show(p->ctx, done, p->total);
}

/* ---- before the header is dropped: where everything lies ---- */

static dct_status find_tensor(const dct_model *model, const char *name, dct_arena *arena, dct_tensor *out, dct_err *err) {
    const dct_tensor *t = dct_model_find_tensor(model, name);
    if (t == NULL) return dct_fail(err, DCT_BAD_FILE, "tensor '%s' is missing", name);
    *out = *t;
    out->name = (dct_str){name, strlen(name)}; /* the header's copy will be gone */
    if (t->form != DCT_FORM_COMPUTED) return DCT_OK;
    void *values = dct_arena_alloc(arena, t->bytes);
    if (values == NULL) return dct_fail_memory(err, arena, "the list of weights");
    out->values = memcpy(values, t->values, t->bytes);
    return DCT_OK;
}

dct_status dct_load_find(dct_loader *l, dct_arena *arena, dct_err *err) {
    l->tensors = dct_arena_array(arena, l->plan->n_weights, sizeof *l->tensors);
    l->factors = dct_arena_array(arena, l->plan->n_tables, sizeof *l->factors);
    if (l->tensors == NULL || l->factors == NULL) return dct_fail_memory(err, arena, "the list of weights");
    for (uint32_t i = 0; i < l->plan->n_weights; i++) {
        dct_status status = find_tensor(l->model, l->plan->weights[i].w.tensor, arena, &l->tensors[i], err);
        if (status != DCT_OK) return status;
    }
    for (uint32_t i = 0; i < l->plan->n_tables; i++) {
        const char *name = l->plan->tables[i].t.factors_tensor;
        dct_status status = name[0] == '\0' ? DCT_OK : find_tensor(l->model, name, arena, &l->factors[i], err);
        if (status != DCT_OK) return status;
    }
    return DCT_OK;
}

/* ---- weights ---- */

/* What the workers share. The first failure is kept; pieces that come later do nothing. */
typedef struct load_run {
    const dct_loader *loader;
    uint64_t staging_a_worker;
    _Atomic int failed;
    dct_err err;             /* written by who set `failed` */
} load_run;

/* Weight of a piece of the whole load; *piece becomes its number in that weight. */
static uint32_t weight_of_piece(const dct_plan *plan, uint32_t *piece) {
    uint32_t i = 0;
    for (; *piece >= pieces_of_weight(&plan->weights[i].w); i++) *piece -= pieces_of_weight(&plan->weights[i].w);
    return i;
}

static dct_status load_rows(const dct_loader *l, const dct_plan_weight *pw, const dct_tensor *tensor, uint32_t piece,
                            char *staging, uint64_t *n_read, dct_err *err) {
    const dct_weight *w = &pw->w;
    char *to = l->bases->of[DCT_REGION_WEIGHTS] + pw->offset;
    uint32_t step = rows_a_piece(w), first = piece * step, n = w->n_rows - first < step ? w->n_rows - first : step;
    uint64_t bytes = row_bytes(w);
    *n_read = n * bytes;
    dct_status status = dct_model_read_tensor(l->model, tensor, ((uint64_t)w->row_begin + first) * bytes, staging, n * bytes,
                                              err);
    if (status != DCT_OK) return status;
    if (w->is_vector) {
        dct_dequant_row(w->type, w->n_cols, staging, (float *)to);
        return DCT_OK;
    }
    uint64_t tile_bytes;
    if (!dct_layout_tile_bytes(w->type, w->n_cols, &tile_bytes))
        return dct_fail(err, DCT_BUG, "weight '%s' has no packed form", w->tensor);
    for (uint32_t r = 0; r < n; r += DCT_TILE_ROWS)
        dct_layout_pack_tile(w->type, w->n_cols, staging + r * bytes, n - r < DCT_TILE_ROWS ? n - r : DCT_TILE_ROWS,
                             to + (first + r) / DCT_TILE_ROWS * tile_bytes);
    return DCT_OK;
}

static void load_piece(void *ctx, uint32_t piece, uint32_t worker) {
    load_run *run = ctx;
    const dct_loader *l = run->loader;
    if (atomic_load(&run->failed) != 0) return;
    uint32_t i = weight_of_piece(l->plan, &piece);
    uint64_t n_read = 0;
    dct_err err = {0};
    if (load_rows(l, &l->plan->weights[i], &l->tensors[i], piece, l->staging + worker * run->staging_a_worker, &n_read, &err) !=
        DCT_OK) {
        int none = 0;
        if (atomic_compare_exchange_strong(&run->failed, &none, 1)) run->err = err;
        return;
    }
    dct_progress_add(l->progress, n_read, worker);
}

static dct_status load_weights(dct_loader *l, dct_err *err) {
    load_run run = {.loader = l, .staging_a_worker = l->staging_bytes / dct_pool_workers(l->pool)};
    uint32_t n_pieces = 0;
    for (uint32_t i = 0; i < l->plan->n_weights; i++) {
        const dct_weight *w = &l->plan->weights[i].w;
        if (piece_bytes(w) > run.staging_a_worker) return dct_fail(err, DCT_BUG, "the staging is too small for '%s'", w->tensor);
        n_pieces += pieces_of_weight(w);
    }
    dct_pool_run(l->pool, load_piece, &run, n_pieces);
    if (atomic_load(&run.failed) == 0) return DCT_OK;
    *err = run.err;
    return run.err.code;
}

/* ---- rotary tables ---- */

/* Factors and frequencies lie in the staging meanwhile. */
static dct_status fill_table(const dct_loader *l, uint32_t i, dct_err *err) {
    const dct_rope_table *t = &l->plan->tables[i].t;
    uint32_t n = t->n_rot / 2;
    double *freq = (double *)l->staging;
    float *factors = NULL;
    if (table_bytes(t) > l->staging_bytes) return dct_fail(err, DCT_BUG, "no room for %u frequencies", n);
    if (t->factors_tensor[0] != '\0') {
        factors = (float *)(freq + n);
        char *raw = (char *)(factors + n);
        dct_status status = dct_model_read_tensor(l->model, &l->factors[i], 0, raw,
                                                  l->factors[i].bytes < n * sizeof(float) ? l->factors[i].bytes
                                                                                          : n * sizeof(float),
                                                  err);
        if (status != DCT_OK) return status;
        dct_dequant_row(l->factors[i].type, n, raw, factors);
    }
    double mscale;
    dct_rope_frequencies(t, factors, freq, &mscale);
    dct_rope_fill((float *)(l->bases->of[DCT_REGION_PERSISTENT] + l->plan->tables[i].offset), t->n_ctx, t->n_rot, freq, mscale);
    return DCT_OK;
}

dct_status dct_load_all(dct_loader *l, dct_err *err) {
    dct_status status = l->skip_weights ? DCT_OK : load_weights(l, err);
    for (uint32_t i = 0; status == DCT_OK && i < l->plan->n_tables; i++) status = fill_table(l, i, err);
    return status == DCT_OK ? dct_model_check_unchanged(l->model, err) : status;
}
