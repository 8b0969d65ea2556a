/* exec/ops: how each op is cut into pieces and what a piece does, through the kernel table.
 *
 * A cut depends on the op, the rows and position of the run and the number of workers, so that every worker of a run sees
 * the same pieces. No result depends on it: a piece owns whole output elements, and every element is summed inside one
 * kernel call. Cuts:
 *
 *   products            ranges of tiles, several pieces a worker for one row; a few tiles and all rows in prefill
 *   row by row          embed, norms, quant, rope: ranges of rows
 *   caches              ranges of rows that lie in one block of 16 positions, so pieces share no line of a block
 *   attention           (rows, KV head); its parts (row, KV head, part of 1,024 positions that any row sees)
 *   experts             (expert, a few tiles): the rows that are routed to it, none for most
 *   elementwise         ranges of elements: rows lie close together
 */
#include <string.h>

#include "base/size.h"
#include "exec/exec.h"
#include "kernels/kv.h"

enum {
    PIECES_A_WORKER = 8,   /* so that a worker that lost its core holds the step up by little */
    LEAST_A_WORKER = 2,    /* of a product on one row, however small */
    PIECE_BYTES = 1 << 18, /* of its weights, about, so that beginning to read costs little beside it */
    PREFILL_TILES = 4,     /* a piece of a product on many rows: its tiles stay in the cache while rows pass */
    LINE_FLOATS = 16,      /* floats in a cache line */
    MIN_LINES = 256,       /* of an elementwise piece */
    MAX_LINES = 1 << 20,   /* so that kernels can count its elements */
    EXPECT_BYTES = 4096    /* of weights asked for while a worker waits */
};

typedef struct range { uint32_t begin, end; } range;

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Part `piece` of n things cut into n_pieces of nearly equal size. */
static range cut(uint32_t n, uint32_t n_pieces, uint32_t piece) {
    return (range){(uint32_t)((uint64_t)n * piece / n_pieces), (uint32_t)((uint64_t)n * (piece + 1) / n_pieces)};
}

/* Pieces for n things when one piece should hold at least `least`. */
static uint32_t pieces_of(const dct_op_run *run, uint64_t n, uint32_t least) {
    uint32_t wanted = PIECES_A_WORKER * run->n_workers;
    uint64_t most = n / least;
    if (most == 0) return 1;
    return most < wanted ? (uint32_t)most : wanted;
}

/* The piece for claim number `turn` of a product on one row. Claims of W workers alternate while all keep pace; dealing pieces
 * from W parts in turn lets each read on where it left off, which the processor's prefetcher rewards. */
static uint32_t dealt(const dct_op_run *run, uint32_t turn) {
    if (run->n != 1) return turn;
    uint32_t part = turn % run->n_workers, each = run->n_pieces / run->n_workers, longer = run->n_pieces % run->n_workers;
    return part * each + min_u32(part, longer) + turn / run->n_workers;
}

static const dct_value *value_in(const dct_op_run *run, uint32_t i) { return &run->graph->values[run->op->in[i]]; }
static const dct_value *value_out(const dct_op_run *run, uint32_t i) { return &run->graph->values[run->op->out[i]]; }
static bool has_in(const dct_op_run *run, uint32_t i) { return i < run->op->n_in && run->op->in[i] != DCT_NONE; }

/* Rows of an op in this run: values behind LAST_ROW have one, whatever the run's n. */
static uint32_t rows_of(const dct_op_run *run, const dct_value *v) { return dct_value_rows(v, run->n); }

static float *row_f32(void *base, const dct_value *v, uint32_t row) { return (float *)base + (uint64_t)row * v->cols; }

static const dct_weight *weight_in(const dct_op_run *run, uint32_t i) { return &run->graph->weights[value_in(run, i)->ref]; }
static const dct_cache *cache_in(const dct_op_run *run, uint32_t i) { return &run->graph->caches[value_in(run, i)->ref]; }

/* ---- products ---- */

static uint32_t tiles_of(const dct_weight *w) { return (uint32_t)dct_div_up(w->n_rows, DCT_TILE_ROWS); }

static uint64_t tile_bytes(const dct_weight *w) {
    uint64_t bytes = 0;
    return dct_layout_tile_bytes(w->type, w->n_cols, &bytes) ? bytes : 0;
}

enum { MULTI = 3 };

/* The tiles of a product's weights, its inputs 1 to MULTI, are numbered through; where those of input `at` begin. */
static uint32_t first_tile(const dct_op_run *run, uint32_t at) {
    uint32_t n = 0;
    for (uint32_t i = 1; i < at; i++)
        if (has_in(run, i)) n += tiles_of(weight_in(run, i));
    return n;
}

static uint32_t multi_tiles(const dct_op_run *run) { return first_tile(run, 1 + MULTI); }

/* Tiles of all the weights that the product reads side by side. */
static uint32_t product_tiles(const dct_op_run *run) {
    return run->op->kind == DCT_OP_LINEAR_MULTI ? multi_tiles(run) : tiles_of(weight_in(run, 1));
}

/* Bytes of all the weights that the product reads. */
static uint64_t product_bytes(const dct_op_run *run) {
    uint32_t n_weights = run->op->kind == DCT_OP_LINEAR_MULTI ? MULTI : run->op->kind == DCT_OP_LINEAR_GLU ? 2 : 1;
    uint64_t bytes = 0;
    for (uint32_t i = 1; i <= n_weights; i++) {
        if (has_in(run, i)) bytes += tiles_of(weight_in(run, i)) * tile_bytes(weight_in(run, i));
    }
    return bytes;
}

/* Pieces a worker, of which there are as many for each so that all end together. */
static uint32_t pieces_a_worker(const dct_op_run *run) {
    if (rows_of(run, value_in(run, 0)) > 1) return PIECES_A_WORKER;
    uint64_t n = product_bytes(run) / PIECE_BYTES / run->n_workers;
    return n < LEAST_A_WORKER ? LEAST_A_WORKER : n < PIECES_A_WORKER ? (uint32_t)n : PIECES_A_WORKER;
}

static uint32_t product_pieces(const dct_op_run *run) {
    const uint32_t n_tiles = product_tiles(run), rows = rows_of(run, value_in(run, 0));
    const uint32_t by_workers = min_u32(n_tiles, pieces_a_worker(run) * run->n_workers);
    if (run->op->kind == DCT_OP_LINEAR_GLU) {
        uint32_t by_scratch = (uint32_t)dct_div_up(n_tiles, dct_glu_tiles(value_in(run, 0)->rows));
        return rows == 1 && by_workers > by_scratch ? by_workers : by_scratch;
    }
    uint32_t by_size = rows == 1 ? 1 : (uint32_t)dct_div_up(n_tiles, PREFILL_TILES);
    return by_size > by_workers ? by_size : by_workers;
}

/* Where a product goes: row 0, output row `first_row` of it; y_stride in floats. residual is laid as y, or NULL. */
typedef struct output {
    float *y;
    uint64_t y_stride;
    uint32_t first_row;
    const float *residual;
} output;

static void linear_tiles(const dct_op_run *run, uint32_t weight, range tiles, const float *bias, output to) {
    const dct_weight *w = weight_in(run, weight);
    const dct_value *x = value_in(run, 0);
    dct_linear_args args = {
        .type = w->type, .m = w->n_rows, .k = w->n_cols, .w = run->in[weight],
        .x = run->in[0], .x_stride = dct_value_row_bytes(x), .n = rows_of(run, x),
        .y = to.y, .y_stride = to.y_stride, .first_row = to.first_row, .bias = bias, .residual = to.residual,
    };
    run->kernels->linear[w->type](&args, tiles.begin, tiles.end);
}

static void linear_piece(const dct_op_run *run, uint32_t piece, uint32_t bias_at, const float *residual) {
    uint32_t n_tiles = tiles_of(weight_in(run, 1));
    const float *bias = has_in(run, bias_at) ? run->in[bias_at] : NULL;
    linear_tiles(run, 1, cut(n_tiles, run->n_pieces, dealt(run, piece)), bias,
                 (output){run->out[0], value_out(run, 0)->cols, 0, residual});
}

/* A piece may take the end of one weight and the beginning of the next. */
static void multi_piece(const dct_op_run *run, uint32_t piece) {
    range want = cut(multi_tiles(run), run->n_pieces, dealt(run, piece));
    for (uint32_t i = 0; i < MULTI; i++) {
        if (!has_in(run, 1 + i)) continue;
        uint32_t first = first_tile(run, 1 + i), n = tiles_of(weight_in(run, 1 + i));
        uint32_t begin = want.begin > first ? want.begin - first : 0, end = want.end > first ? min_u32(want.end - first, n) : 0;
        const float *bias = has_in(run, 1 + MULTI + i) ? run->in[1 + MULTI + i] : NULL;
        if (begin < end)
            linear_tiles(run, 1 + i, (range){begin, end}, bias, (output){run->out[i], value_out(run, i)->cols, 0, NULL});
    }
}

/* Gate and up go to the scratch, which holds the rows of these tiles alone, and from there to the output. */
static void linear_glu_piece(const dct_op_run *run, uint32_t piece) {
    const dct_weight *w = weight_in(run, 1);
    uint32_t n = rows_of(run, value_in(run, 0));
    range tiles = cut(tiles_of(w), run->n_pieces, dealt(run, piece));
    uint32_t width = (tiles.end - tiles.begin) * DCT_TILE_ROWS, first = tiles.begin * DCT_TILE_ROWS;
    uint32_t m = min_u32(w->n_rows - first, width);
    float *gate = run->scratch, *up = gate + (uint64_t)n * width;
    linear_tiles(run, 1, tiles, NULL, (output){gate, width, first, NULL});
    linear_tiles(run, 2, tiles, NULL, (output){up, width, first, NULL});
    for (uint32_t t = 0; t < n; t++)
        run->kernels->glu(run->op->p.act, gate + (uint64_t)t * width, up + (uint64_t)t * width, m,
                          row_f32(run->out[0], value_out(run, 0), t) + first);
}

/* Where tile number `tile` of these begins. */
static const char *product_tile(const dct_op_run *run, uint32_t tile) {
    uint32_t at = 1;
    if (run->op->kind == DCT_OP_LINEAR_MULTI)
        for (uint32_t i = 2; i <= MULTI; i++)
            if (has_in(run, i) && first_tile(run, i) <= tile) at = i;
    return (const char *)run->in[at] + (tile - first_tile(run, at)) * tile_bytes(weight_in(run, at));
}

void dct_op_expect(const dct_op_run *run, uint32_t worker) {
    switch (run->op->kind) {
    case DCT_OP_LINEAR: case DCT_OP_LINEAR_ADD: case DCT_OP_LINEAR_MULTI: case DCT_OP_LINEAR_GLU: break;
    default: return;
    }
    if (run->n != 1 || worker >= run->n_pieces) return;
    const char *at = product_tile(run, cut(product_tiles(run), run->n_pieces, dealt(run, worker)).begin);
    for (uint32_t line = 0; line < EXPECT_BYTES; line += 64) __builtin_prefetch(at + line);
}

/* ---- row by row ---- */

static void embed_row(const dct_op_run *run, uint32_t t) {
    const dct_weight *w = weight_in(run, 1);
    const int32_t *ids = run->in[0];
    run->kernels->embed(w->type, w->n_cols, run->in[1], (uint32_t)ids[t], run->op->p.scale,
                        row_f32(run->out[0], value_out(run, 0), t));
}

static void norm_to(const dct_op_run *run, uint32_t t, float *to) {
    const dct_value *x = value_in(run, 0);
    uint32_t group = run->op->p.group;
    run->kernels->rms_norm(row_f32(run->in[0], x, t), run->in[1], group, x->cols / group, run->op->p.eps, to);
}

static void quant_from(const dct_op_run *run, const float *from, uint32_t t) {
    const dct_value *q = value_out(run, 0);
    run->kernels->quant_q8(from, q->cols, (char *)run->out[0] + t * dct_value_row_bytes(q));
}

static void norm_row(const dct_op_run *run, uint32_t t) { norm_to(run, t, row_f32(run->out[0], value_out(run, 0), t)); }

static void quant_row(const dct_op_run *run, uint32_t t) { quant_from(run, row_f32(run->in[0], value_in(run, 0), t), t); }

static void norm_quant_row(const dct_op_run *run, uint32_t t) {
    norm_to(run, t, run->scratch);
    quant_from(run, run->scratch, t);
}

static void rotate_row(const dct_op_run *run, float *x, uint64_t stride, uint32_t n_head, const void *table, const void *pos,
                       uint32_t t) {
    const dct_op_params *p = &run->op->p;
    dct_rope_args args = {
        .x = x, .stride = stride, .n = 1, .n_head = n_head, .head_dim = p->head_dim, .n_rot = p->n_rot,
        .table = table, .pos = (const int32_t *)pos + 4 * t, .style = p->rope_style,
        .sections = {p->sections[0], p->sections[1], p->sections[2], p->sections[3]},
    };
    run->kernels->rope(&args);
}

static void rope_row(const dct_op_run *run, uint32_t t) {
    const dct_value *x = value_in(run, 0);
    float *from = row_f32(run->in[0], x, t), *to = row_f32(run->out[0], x, t);
    if (to != from) memcpy(to, from, x->cols * sizeof(float));
    rotate_row(run, to, x->cols, run->op->p.n_head, run->in[1], run->in[2], t);
}

static void store_row(const dct_op_run *run, uint32_t k, uint32_t v, uint32_t k_cache, uint32_t v_cache, uint32_t t) {
    const dct_cache *kc = cache_in(run, k_cache), *vc = cache_in(run, v_cache);
    uint32_t pos = run->pos0 + t;
    run->kernels->store_k(kc->type, row_f32(run->in[k], value_in(run, k), t), kc->n_head_kv, kc->head_dim, kc->n_ctx, pos,
                          run->in[k_cache]);
    run->kernels->store_v(vc->type, row_f32(run->in[v], value_in(run, v), t), vc->n_head_kv, vc->head_dim, vc->n_ctx, pos,
                          run->in[v_cache]);
}

static void kv_store_row(const dct_op_run *run, uint32_t t) { store_row(run, 0, 1, 2, 3, t); }

/* in: q, k, v, table, pos, K cache, V cache, wq, wk. q is changed in place, k in its own bytes. */
static void rope_kv_row(const dct_op_run *run, uint32_t t) {
    const dct_op_params *p = &run->op->p;
    float *from = row_f32(run->in[0], value_in(run, 0), t), *q = row_f32(run->out[0], value_in(run, 0), t),
          *k = row_f32(run->in[1], value_in(run, 1), t);
    if (q != from) memcpy(q, from, value_in(run, 0)->cols * sizeof(float));
    if (has_in(run, 7)) run->kernels->rms_norm(q, run->in[7], p->head_dim, p->n_head, p->eps, q);
    if (has_in(run, 8)) run->kernels->rms_norm(k, run->in[8], p->head_dim, p->n_head_kv, p->eps, k);
    rotate_row(run, q, value_in(run, 0)->cols, p->n_head, run->in[3], run->in[4], t);
    rotate_row(run, k, value_in(run, 1)->cols, p->n_head_kv, run->in[3], run->in[4], t);
    store_row(run, 1, 2, 5, 6, t);
}

static void layer_norm_row(const dct_op_run *run, uint32_t t) {
    const dct_value *x = value_in(run, 0);
    run->kernels->layer_norm(row_f32(run->in[0], x, t), run->in[1], run->in[2], x->cols, run->op->p.eps,
                             row_f32(run->out[0], x, t));
}

static void window_row(const dct_op_run *run, uint32_t t) {
    const dct_op_params *p = &run->op->p;
    const dct_value *x = value_in(run, 0);
    float *to = row_f32(run->out[0], value_out(run, 0), t);
    int64_t n_rows = rows_of(run, x), first = (int64_t)t * p->stride - p->pad;
    for (int64_t from = first; from < first + p->width; from++, to += x->cols) {
        if (from < 0 || from >= n_rows) memset(to, 0, x->cols * sizeof *to);
        else memcpy(to, row_f32(run->in[0], x, (uint32_t)from), x->cols * sizeof *to);
    }
}

static void route_row(const dct_op_run *run, uint32_t t) {
    const dct_op_params *p = &run->op->p;
    run->kernels->route(row_f32(run->in[0], value_in(run, 0), t), p->n_expert, p->n_used, p->renorm,
                        (int32_t *)run->out[0] + (uint64_t)t * p->n_used, row_f32(run->out[1], value_out(run, 1), t));
}

static void mix_row(const dct_op_run *run, uint32_t t) {
    const dct_value *x = value_in(run, 0), *w = value_in(run, 1);
    run->kernels->mix(row_f32(run->in[0], x, t * w->cols), row_f32(run->in[1], w, t), w->cols, x->cols,
                      row_f32(run->out[0], value_out(run, 0), t));
}

/* The value whose rows are dealt out: that of the result, for ops that turn rows into fewer. */
static const dct_value *rows_dealt(const dct_op_run *run) {
    return run->op->kind == DCT_OP_WINDOW || run->op->kind == DCT_OP_MIX ? value_out(run, 0) : value_in(run, 0);
}

static uint32_t row_pieces(const dct_op_run *run) { return pieces_of(run, rows_of(run, rows_dealt(run)), 1); }

static void each_row(const dct_op_run *run, uint32_t piece, void (*row)(const dct_op_run *, uint32_t)) {
    range rows = cut(rows_of(run, rows_dealt(run)), run->n_pieces, piece);
    for (uint32_t t = rows.begin; t < rows.end; t++) row(run, t);
}

/* ---- into the caches ---- */

static uint32_t block_pieces(const dct_op_run *run) {
    return (run->pos0 + run->n - 1) / DCT_KV_BLOCK - run->pos0 / DCT_KV_BLOCK + 1;
}

static void each_row_of_block(const dct_op_run *run, uint32_t piece, void (*row)(const dct_op_run *, uint32_t)) {
    uint32_t block = run->pos0 / DCT_KV_BLOCK + piece, begin = block * DCT_KV_BLOCK, end = begin + DCT_KV_BLOCK;
    begin = begin > run->pos0 ? begin - run->pos0 : 0;
    end = min_u32(end - run->pos0, run->n);
    for (uint32_t t = begin; t < end; t++) row(run, t);
}

/* K and V of a run's own rows: blocks of 16 of them. */
static uint32_t kv_rows_pieces(const dct_op_run *run) {
    return (uint32_t)dct_div_up(rows_of(run, value_in(run, 0)), DCT_KV_BLOCK);
}

static void kv_rows_piece(const dct_op_run *run, uint32_t piece) {
    const dct_op_params *p = &run->op->p;
    uint32_t begin = piece * DCT_KV_BLOCK, end = min_u32(begin + DCT_KV_BLOCK, rows_of(run, value_in(run, 0)));
    uint32_t positions = value_out(run, 0)->rows;
    for (uint32_t t = begin; t < end; t++) {
        run->kernels->store_k(DCT_TYPE_F32, row_f32(run->in[0], value_in(run, 0), t), p->n_head_kv, p->head_dim, positions, t,
                              run->out[0]);
        run->kernels->store_v(DCT_TYPE_F32, row_f32(run->in[1], value_in(run, 1), t), p->n_head_kv, p->head_dim_v, positions, t,
                              run->out[1]);
    }
}

/* ---- attention ---- */

static dct_attn_args attn_args(const dct_op_run *run) {
    const dct_op_params *p = &run->op->p;
    const dct_cache *kc = cache_in(run, 1), *vc = cache_in(run, 2);
    return (dct_attn_args){
        .q = run->in[0],
        .q_stride = value_in(run, 0)->cols,
        .k = run->in[1],
        .v = run->in[2],
        .type_k = kc->type,
        .type_v = vc->type,
        .n_head = p->n_head,
        .n_head_kv = p->n_head_kv,
        .dk = p->head_dim,
        .dv = p->head_dim_v,
        .n_ctx = kc->n_ctx,
        .pos0 = run->pos0,
        .window = p->window,
        .scale = p->scale,
        .softcap = p->softcap,
        .n_part = p->n_part,
        .scratch = run->scratch,
    };
}

static uint32_t attn_row_groups(const dct_op_run *run) {
    return (uint32_t)dct_div_up(rows_of(run, value_in(run, 0)), DCT_ATTN_ROWS);
}

/* Late rows first: they see the most and should not be what the others wait for. */
static void attn_piece(const dct_op_run *run, uint32_t piece) {
    dct_attn_args args = attn_args(run);
    args.out = run->out[0];
    args.out_stride = value_out(run, 0)->cols;
    uint32_t begin = (attn_row_groups(run) - 1 - piece / args.n_head_kv) * DCT_ATTN_ROWS;
    run->kernels->attn(&args, piece % args.n_head_kv, begin, min_u32(begin + DCT_ATTN_ROWS, run->n));
}

static void attn_rows_piece(const dct_op_run *run, uint32_t piece) {
    const dct_op_params *p = &run->op->p;
    const dct_value *q = value_in(run, 0), *k = value_in(run, 1);
    dct_attn_args args = {
        .q = run->in[0], .q_stride = q->cols, .k = run->in[1], .v = run->in[2], .type_k = DCT_TYPE_F32, .type_v = DCT_TYPE_F32,
        .n_head = p->n_head, .n_head_kv = p->n_head_kv, .dk = p->head_dim, .dv = p->head_dim_v, .n_ctx = k->rows,
        .n_seen = p->causal ? 0 : rows_of(run, k), .scale = p->scale, .out = run->out[0], .out_stride = value_out(run, 0)->cols,
        .scratch = run->scratch,
    };
    uint32_t begin = piece / p->n_head_kv * DCT_ATTN_ROWS;
    run->kernels->attn(&args, piece % p->n_head_kv, begin, min_u32(begin + DCT_ATTN_ROWS, rows_of(run, q)));
}

/* Parts that any row of the run sees: the first row looks back furthest, the last row stands last. */
static range parts_seen(const dct_op_run *run) {
    uint32_t window = run->op->p.window, first = 0;
    if (window != 0 && run->pos0 >= window) first = run->pos0 - window + 1;
    return (range){first / DCT_PART_POSITIONS, (run->pos0 + run->n - 1) / DCT_PART_POSITIONS + 1};
}

/* The merge looks at every part and skips those with l = 0; parts that no piece computes are given that. */
static void clear_unseen(const dct_attn_args *args, range seen, uint32_t kv_head, uint32_t t) {
    uint32_t group = args->n_head / args->n_head_kv, part_floats = args->dv + 2;
    for (uint32_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
        float *parts = args->parts + ((uint64_t)t * args->n_head + head) * args->n_part * part_floats;
        for (uint32_t j = 0; j < args->n_part; j++)
            if (j < seen.begin || j >= seen.end) parts[(uint64_t)j * part_floats + 1] = 0;
    }
}

static void attn_part_piece(const dct_op_run *run, uint32_t piece) {
    dct_attn_args args = attn_args(run);
    args.parts = run->out[0];
    range seen = parts_seen(run);
    uint32_t n_parts = seen.end - seen.begin, row_head = piece / n_parts, kv_head = row_head % args.n_head_kv,
             t = row_head / args.n_head_kv;
    if (piece % n_parts == 0) clear_unseen(&args, seen, kv_head, t);
    run->kernels->attn_part(&args, kv_head, t, seen.begin + piece % n_parts);
}

/* (row, a range of heads): one row has work for several workers. */
static uint32_t merge_splits(const dct_op_run *run) { return run->n == 1 ? min_u32(run->n_workers, run->op->p.n_head) : 1; }

static void attn_merge_piece(const dct_op_run *run, uint32_t piece) {
    const dct_op_params *p = &run->op->p;
    dct_attn_args args = {
        .n_head = p->n_head,
        .n_head_kv = p->n_head_kv,
        .dk = p->head_dim,
        .dv = p->head_dim_v,
        .pos0 = run->pos0,
        .window = p->window,
        .out = run->out[0],
        .out_stride = value_out(run, 0)->cols,
        .parts = run->in[0],
        .n_part = p->n_part,
    };
    uint32_t splits = merge_splits(run);
    range heads = cut(p->n_head, splits, piece % splits);
    run->kernels->attn_merge(&args, piece / splits, heads.begin, heads.end);
}

/* ---- experts ---- */

/* Pieces of one expert. */
static uint32_t expert_cuts(const dct_op_run *run) {
    return (uint32_t)dct_div_up(value_out(run, 0)->cols / DCT_TILE_ROWS, PREFILL_TILES);
}

/* A few tiles of one expert, times every row that chose it; its weights are read when one did. */
static void experts_piece(const dct_op_run *run, uint32_t piece) {
    const dct_op_params *p = &run->op->p;
    const dct_weight *w = weight_in(run, 2);
    const dct_value *x = value_in(run, 0), *ids = value_in(run, 1);
    uint32_t cuts = expert_cuts(run), m = value_out(run, 0)->cols, n_tiles = m / DCT_TILE_ROWS;
    int32_t expert = (int32_t)(piece / cuts);
    range tiles = cut(n_tiles, cuts, piece % cuts);
    const int32_t *chosen = run->in[1];
    const uint64_t n_slots = (uint64_t)rows_of(run, ids) * p->n_used, matrix_bytes = n_tiles * tile_bytes(w);
    bool is_row_a_slot = x->row_mul != ids->row_mul;
    for (uint64_t slot = 0; slot < n_slots; slot++) {
        if (chosen[slot] != expert) continue;
        uint64_t row = is_row_a_slot ? slot : slot / p->n_used;
        dct_linear_args args = {
            .type = w->type, .m = m, .k = w->n_cols, .w = (const char *)run->in[2] + (uint64_t)expert * matrix_bytes,
            .x = (const char *)run->in[0] + row * dct_value_row_bytes(x), .x_stride = dct_value_row_bytes(x), .n = 1,
            .y = (float *)run->out[0] + slot * m, .y_stride = m,
        };
        run->kernels->linear[w->type](&args, tiles.begin, tiles.end);
    }
}

/* ---- elementwise ---- */

/* An activation alone is a gated one of 1: the product with 1 is exact. */
static void activate(const dct_op_run *run, const float *x, uint32_t n, float *out) {
    enum { RUN = 256 };
    float ones[RUN];
    for (uint32_t i = 0; i < RUN; i++) ones[i] = 1.0f;
    for (uint32_t i = 0; i < n; i += RUN) run->kernels->glu(run->op->p.act, x + i, ones, min_u32(n - i, RUN), out + i);
}

/* Rows times columns may pass 32 bits. */
static uint64_t element_count(const dct_op_run *run) {
    const dct_value *x = value_in(run, 0);
    return (uint64_t)rows_of(run, x) * x->cols;
}

/* Whole lines, so that pieces begin aligned and share none. */
static uint64_t element_lines(const dct_op_run *run) { return dct_div_up(element_count(run), LINE_FLOATS); }

static uint32_t element_pieces(const dct_op_run *run) {
    uint32_t by_workers = pieces_of(run, element_lines(run), MIN_LINES),
             by_size = (uint32_t)dct_div_up(element_lines(run), MAX_LINES);
    return by_size > by_workers ? by_size : by_workers;
}

/* Pieces of equal size, the first `rest` a line longer, so that no product of large numbers is needed. */
static void element_piece(const dct_op_run *run, uint32_t piece) {
    uint64_t n_lines = element_lines(run), n_pieces = run->n_pieces, each = n_lines / n_pieces, rest = n_lines % n_pieces;
    uint64_t line = piece * each + (piece < rest ? piece : rest), begin = line * LINE_FLOATS;
    uint64_t end = (line + each + (piece < rest)) * LINE_FLOATS;
    if (end > element_count(run)) end = element_count(run);
    uint32_t n = (uint32_t)(end - begin);
    const float *a = (const float *)run->in[0] + begin, *b = has_in(run, 1) ? (const float *)run->in[1] + begin : NULL;
    float *out = (float *)run->out[0] + begin;
    if (run->op->kind == DCT_OP_ADD) run->kernels->add(a, b, n, out);
    else if (run->op->kind == DCT_OP_MUL) run->kernels->mul(a, b, n, out);
    else if (run->op->kind == DCT_OP_ACT) activate(run, a, n, out);
    else if (run->op->kind == DCT_OP_GLU) run->kernels->glu(run->op->p.act, a, b, n, out);
    else run->kernels->softcap(a, n, run->op->p.softcap, out);
}

/* ---- the two questions ---- */

static uint32_t pieces(const dct_op_run *run) {
    switch (run->op->kind) {
    case DCT_OP_EMBED: case DCT_OP_RMS_NORM: case DCT_OP_QUANT: case DCT_OP_ROPE: case DCT_OP_NORM_QUANT:
    case DCT_OP_LAYER_NORM: case DCT_OP_WINDOW: case DCT_OP_ROUTE: case DCT_OP_MIX: return row_pieces(run);
    case DCT_OP_KV_STORE: case DCT_OP_ROPE_KV: return block_pieces(run);
    case DCT_OP_LINEAR: case DCT_OP_LINEAR_ADD: case DCT_OP_LINEAR_MULTI: case DCT_OP_LINEAR_GLU: return product_pieces(run);
    case DCT_OP_ATTN: case DCT_OP_ATTN_ROWS: return attn_row_groups(run) * run->op->p.n_head_kv;
    case DCT_OP_ATTN_PART: return run->n * run->op->p.n_head_kv * (parts_seen(run).end - parts_seen(run).begin);
    case DCT_OP_ATTN_MERGE: return run->n * merge_splits(run);
    case DCT_OP_KV_ROWS: return kv_rows_pieces(run);
    case DCT_OP_EXPERTS: return run->op->p.n_expert * expert_cuts(run);
    case DCT_OP_ADD: case DCT_OP_MUL: case DCT_OP_GLU: case DCT_OP_ACT: case DCT_OP_SOFTCAP: return element_pieces(run);
    case DCT_OP_LAST_ROW: case DCT_OP_COUNT: break;
    }
    return 1;
}

void dct_op_cut(dct_op_run *run) { run->n_pieces = pieces(run); }

void dct_op_piece(const dct_op_run *run, uint32_t piece) {
    switch (run->op->kind) {
    case DCT_OP_EMBED: each_row(run, piece, embed_row); break;
    case DCT_OP_RMS_NORM: each_row(run, piece, norm_row); break;
    case DCT_OP_QUANT: each_row(run, piece, quant_row); break;
    case DCT_OP_NORM_QUANT: each_row(run, piece, norm_quant_row); break;
    case DCT_OP_ROPE: each_row(run, piece, rope_row); break;
    case DCT_OP_KV_STORE: each_row_of_block(run, piece, kv_store_row); break;
    case DCT_OP_ROPE_KV: each_row_of_block(run, piece, rope_kv_row); break;
    case DCT_OP_LINEAR: linear_piece(run, piece, 2, NULL); break;
    case DCT_OP_LINEAR_ADD: linear_piece(run, piece, 3, run->in[2]); break;
    case DCT_OP_LINEAR_MULTI: multi_piece(run, piece); break;
    case DCT_OP_LINEAR_GLU: linear_glu_piece(run, piece); break;
    case DCT_OP_ATTN: attn_piece(run, piece); break;
    case DCT_OP_ATTN_PART: attn_part_piece(run, piece); break;
    case DCT_OP_ATTN_MERGE: attn_merge_piece(run, piece); break;
    case DCT_OP_LAYER_NORM: each_row(run, piece, layer_norm_row); break;
    case DCT_OP_WINDOW: each_row(run, piece, window_row); break;
    case DCT_OP_KV_ROWS: kv_rows_piece(run, piece); break;
    case DCT_OP_ATTN_ROWS: attn_rows_piece(run, piece); break;
    case DCT_OP_ROUTE: each_row(run, piece, route_row); break;
    case DCT_OP_EXPERTS: experts_piece(run, piece); break;
    case DCT_OP_MIX: each_row(run, piece, mix_row); break;
    case DCT_OP_ADD: case DCT_OP_MUL: case DCT_OP_GLU: case DCT_OP_ACT: case DCT_OP_SOFTCAP: element_piece(run, piece); break;
    case DCT_OP_LAST_ROW: {
        const dct_value *x = value_in(run, 0);
        memcpy(run->out[0], row_f32(run->in[0], x, run->n - 1), x->cols * sizeof(float));
        break;
    }
    case DCT_OP_COUNT: break;
    }
}
