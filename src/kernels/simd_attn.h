/* kernels/simd_attn: attention over the caches of kernel.h, for any instruction set of simd16_*.h.
 *
 * Up to six queries of one KV head (heads of its group, and rows) go through a part of 1,024 positions together:
 *
 *     scores   K is stored by blocks of 16 positions, so a lane is a position and a score is one chain of fma over d;
 *              queries and blocks side by side hide its latency, and a block is converted to f32 once for all queries
 *     weights  e = exp(s - m) of the positions that a query sees, 0 for the others
 *     values   a lane is an element d of V; positions that all the queries see go together, those before and after singly
 *
 * then each query folds the part into what it has. A position that a query does not see never enters its sums, whatever
 * the cache holds there.
 */
#ifndef DCT_KERNELS_SIMD_ATTN_H
#define DCT_KERNELS_SIMD_ATTN_H

#include <math.h>
#include <string.h>

#include "kernels/kv.h"
#include "kernels/simd.h"
#include "kernels/simd_math.h"

enum { N_QUERIES = DCT_SIMD_QUERIES };

/* A head's cache: K or V. */
typedef struct cache_head {
    dct_dtype type;
    const char *values;
    const uint16_t *scales; /* Q8_0 */
    uint32_t dim;
} cache_head;

typedef struct query {
    const float *q;      /* [dk] */
    uint32_t begin, end; /* positions seen */
    float *scores;       /* [1024], of the part at hand; then the weights */
    float m, l, *a;      /* a[dv rounded up to 16]: the part at hand */
    float total_m, total_l, *total_a;
    bool has_total;
    uint32_t part_begin, part_end; /* positions seen of the part at hand; begin >= end: none */
} query;

static cache_head head_of(dct_dtype type, const void *cache, uint32_t dim, uint32_t n_ctx, uint32_t kv_head) {
    const char *values = (const char *)cache + kv_head * dct_kv_head_bytes(type, dim, n_ctx);
    return (cache_head){type, values, (const uint16_t *)(values + dct_kv_code_bytes(dim, n_ctx)), dim};
}

/* The first n of sixteen values at index `at`, as numbers; Q8_0 without its scale. */
V_INLINE v16f load_values(dct_dtype type, const char *values, uint64_t at, uint32_t n) {
    switch (type) {
    case DCT_TYPE_F16:
        return n == 16 ? v16f_load_f16((const uint16_t *)values + at) : v16f_load_f16_n((const uint16_t *)values + at, n);
    case DCT_TYPE_BF16:
        return n == 16 ? v16f_load_bf16((const uint16_t *)values + at) : v16f_load_bf16_n((const uint16_t *)values + at, n);
    case DCT_TYPE_Q8_0:
        return n == 16 ? v16f_load_i8((const int8_t *)values + at) : v16f_load_i8_n((const int8_t *)values + at, n);
    default: return n == 16 ? v16f_load((const float *)values + at) : v16f_load_n((const float *)values + at, n);
    }
}

/* Positions that are asked for ahead of those at hand: measured, docs/PERFORMANCE.md. */
enum { K_AHEAD = 64, V_AHEAD = 24 };

/* Asks for the line of which value `at`, the first of sixteen, is the first; other values are another's to ask for. It may lie
 * behind the end of the cache. */
V_INLINE void ask_for(dct_dtype type, const char *values, uint64_t at) {
    const uint64_t begin = at * (type == DCT_TYPE_Q8_0 ? 1 : type == DCT_TYPE_F32 ? 4 : 2);
    if (begin % 64 == 0) __builtin_prefetch((const void *)((uintptr_t)values + begin));
}

/* ---- scores ---- */

/* q . k of n_blocks blocks from position p0 for n queries, into their scores. */
V_INLINE void dots(dct_dtype type, uint32_t n, uint32_t n_blocks, const cache_head *k, uint32_t p0, const query *queries) {
    v16f s[N_QUERIES][V_ATTN_BLOCKS], scale[V_ATTN_BLOCKS], column[V_ATTN_BLOCKS];
#pragma GCC unroll 6
    for (uint32_t i = 0; i < n; i++) {
#pragma GCC unroll 4
        for (uint32_t b = 0; b < n_blocks; b++) s[i][b] = v16f_zero();
    }
    for (uint32_t d0 = 0; d0 < k->dim; d0 += 32) {
        uint32_t d_end = k->dim - d0 < 32 ? k->dim : d0 + 32;
        if (type == DCT_TYPE_Q8_0) {
#pragma GCC unroll 4
            for (uint32_t b = 0; b < n_blocks; b++) scale[b] = v16f_load_f16(k->scales + dct_k_scale_at(k->dim, p0 + 16 * b, d0));
        }
        for (uint32_t d = d0; d < d_end; d++) {
#pragma GCC unroll 4
            for (uint32_t b = 0; b < n_blocks; b++) {
                if (n_blocks == V_ATTN_BLOCKS) ask_for(type, k->values, dct_k_at(k->dim, p0 + 16 * b + K_AHEAD, d));
                column[b] = load_values(type, k->values, dct_k_at(k->dim, p0 + 16 * b, d), 16);
                if (type == DCT_TYPE_Q8_0) column[b] = v16f_mul(scale[b], column[b]);
            }
#pragma GCC unroll 6
            for (uint32_t i = 0; i < n; i++) {
                v16f q = v16f_set1(queries[i].q[d]);
#pragma GCC unroll 4
                for (uint32_t b = 0; b < n_blocks; b++) s[i][b] = v16f_fma(q, column[b], s[i][b]);
            }
        }
    }
#pragma GCC unroll 6
    for (uint32_t i = 0; i < n; i++) {
#pragma GCC unroll 4
        for (uint32_t b = 0; b < n_blocks; b++) v16f_store(queries[i].scores + p0 % DCT_PART_POSITIONS + 16 * b, s[i][b]);
    }
}

V_INLINE void dots_of_range(dct_dtype type, uint32_t n, const cache_head *k, uint32_t begin, uint32_t end, const query *queries) {
    uint32_t p0 = begin & ~(uint32_t)15;
    for (; p0 + 16 * V_ATTN_BLOCKS <= end; p0 += 16 * V_ATTN_BLOCKS) dots(type, n, V_ATTN_BLOCKS, k, p0, queries);
    for (; p0 < end; p0 += 16) dots(type, n, 1, k, p0, queries);
}

V_INLINE void scores_of_type(dct_dtype type, uint32_t n, const cache_head *k, uint32_t begin, uint32_t end,
                             const query *queries) {
    for (; n >= 6; n -= 6, queries += 6) dots_of_range(type, 6, k, begin, end, queries);
    for (; n >= 4; n -= 4, queries += 4) dots_of_range(type, 4, k, begin, end, queries);
    for (; n >= 2; n -= 2, queries += 2) dots_of_range(type, 2, k, begin, end, queries);
    if (n == 1) dots_of_range(type, 1, k, begin, end, queries);
}

static void scores(uint32_t n, const cache_head *k, uint32_t begin, uint32_t end, const query *queries) {
    switch (k->type) {
    case DCT_TYPE_F16: scores_of_type(DCT_TYPE_F16, n, k, begin, end, queries); break;
    case DCT_TYPE_BF16: scores_of_type(DCT_TYPE_BF16, n, k, begin, end, queries); break;
    case DCT_TYPE_Q8_0: scores_of_type(DCT_TYPE_Q8_0, n, k, begin, end, queries); break;
    default: scores_of_type(DCT_TYPE_F32, n, k, begin, end, queries); break;
    }
}

/* ---- weights ---- */

/* Of the sixteen positions from p0, which a query sees: lanes [first, last). */
typedef struct lanes { uint32_t first, last; } lanes;

static lanes lanes_seen(const query *q, uint32_t p0) {
    return (lanes){q->part_begin > p0 ? q->part_begin - p0 : 0, q->part_end - p0 < 16 ? q->part_end - p0 : 16};
}

/* Scales and caps the dots, finds the greatest, and turns them into weights and their sum. */
static void weigh(query *q, float scale, float cap) {
    const uint32_t first = q->part_begin & ~(uint32_t)15;
    v16f most = v16f_set1(-INFINITY), sum = v16f_zero();
    for (uint32_t p0 = first; p0 < q->part_end; p0 += 16) {
        lanes seen = lanes_seen(q, p0);
        float *s = q->scores + p0 % DCT_PART_POSITIONS;
        v16f x = v16f_mul(v16f_load(s), v16f_set1(scale));
        if (cap != 0) x = v16f_softcap(x, cap);
        v16f_store(s, x);
        most = v16f_max(v16f_keep(x, seen.first, seen.last, v16f_set1(-INFINITY)), most);
    }
    q->m = v16f_hmax(most);
    for (uint32_t p0 = first; p0 < q->part_end; p0 += 16) {
        lanes seen = lanes_seen(q, p0);
        float *s = q->scores + p0 % DCT_PART_POSITIONS;
        v16f e = v16f_exp(v16f_sub(v16f_load(s), v16f_set1(q->m)));
        e = v16f_keep(e, seen.first, seen.last, v16f_zero());
        v16f_store(s, e);
        sum = v16f_add(sum, e);
    }
    q->l = v16f_tree(sum);
}

/* ---- values ---- */

/* Adds the weighted values of positions [begin, end), elements d..d+16*n_chunks-1 (width of them when fewer than 16), to the
 * accumulators of n queries. */
V_INLINE void add_chunks(dct_dtype type, uint32_t n, uint32_t n_chunks, uint32_t width, const cache_head *v, uint32_t d,
                         uint32_t begin, uint32_t end, const query *const queries[]) {
    v16f acc[N_QUERIES][V_ATTN_CHUNKS], value[V_ATTN_CHUNKS];
    const float *weights[N_QUERIES];
#pragma GCC unroll 6
    for (uint32_t i = 0; i < n; i++) {
        weights[i] = queries[i]->scores + begin % DCT_PART_POSITIONS;
#pragma GCC unroll 4
        for (uint32_t c = 0; c < n_chunks; c++) acc[i][c] = v16f_load(queries[i]->a + d + 16 * c);
    }
    for (uint32_t p = begin; p < end; p++) {
#pragma GCC unroll 4
        for (uint32_t c = 0; c < n_chunks; c++) {
            ask_for(type, v->values, dct_v_at(v->dim, p + V_AHEAD, d + 16 * c));
            value[c] = load_values(type, v->values, dct_v_at(v->dim, p, d + 16 * c), width);
            if (type == DCT_TYPE_Q8_0) {
                uint16_t scale = v->scales[dct_v_scale_at(v->dim, p, d + 16 * c)];
                value[c] = v16f_mul(v16f_set1(dct_f32_of_f16(scale)), value[c]);
            }
        }
#pragma GCC unroll 6
        for (uint32_t i = 0; i < n; i++) {
            v16f e = v16f_set1(weights[i][p - begin]);
#pragma GCC unroll 4
            for (uint32_t c = 0; c < n_chunks; c++) acc[i][c] = v16f_fma(e, value[c], acc[i][c]);
        }
    }
#pragma GCC unroll 6
    for (uint32_t i = 0; i < n; i++) {
#pragma GCC unroll 4
        for (uint32_t c = 0; c < n_chunks; c++) v16f_store(queries[i]->a + d + 16 * c, acc[i][c]);
    }
}

V_INLINE void add_rows(dct_dtype type, uint32_t n, const cache_head *v, uint32_t begin, uint32_t end,
                       const query *const queries[]) {
    const uint32_t wide = 16 * V_ATTN_CHUNKS;
    uint32_t d = 0;
    for (; d + wide <= v->dim; d += wide) add_chunks(type, n, V_ATTN_CHUNKS, 16, v, d, begin, end, queries);
    for (; d + 16 <= v->dim; d += 16) add_chunks(type, n, 1, 16, v, d, begin, end, queries);
    if (d < v->dim) add_chunks(type, n, 1, v->dim - d, v, d, begin, end, queries);
}

V_INLINE void values_of_type(dct_dtype type, uint32_t n, const cache_head *v, uint32_t begin, uint32_t end,
                             const query *const queries[]) {
    for (; n >= 6; n -= 6, queries += 6) add_rows(type, 6, v, begin, end, queries);
    for (; n >= 4; n -= 4, queries += 4) add_rows(type, 4, v, begin, end, queries);
    for (; n >= 2; n -= 2, queries += 2) add_rows(type, 2, v, begin, end, queries);
    if (n == 1) add_rows(type, 1, v, begin, end, queries);
}

static void values(uint32_t n, const cache_head *v, uint32_t begin, uint32_t end, const query *const queries[]) {
    if (begin >= end) return;
    switch (v->type) {
    case DCT_TYPE_F16: values_of_type(DCT_TYPE_F16, n, v, begin, end, queries); break;
    case DCT_TYPE_BF16: values_of_type(DCT_TYPE_BF16, n, v, begin, end, queries); break;
    case DCT_TYPE_Q8_0: values_of_type(DCT_TYPE_Q8_0, n, v, begin, end, queries); break;
    default: values_of_type(DCT_TYPE_F32, n, v, begin, end, queries); break;
    }
}

/* ---- a part ---- */

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* The values of positions that all queries see, and for each query those before and after. */
static void add_values(uint32_t n, const cache_head *v, const query *const queries[]) {
    uint32_t begin = 0, end = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        begin = larger(begin, queries[i]->part_begin);
        end = smaller(end, queries[i]->part_end);
    }
    end = larger(begin, end);
    for (uint32_t i = 0; i < n; i++) values(1, v, queries[i]->part_begin, smaller(begin, queries[i]->part_end), queries + i);
    values(n, v, begin, end, queries);
    for (uint32_t i = 0; i < n; i++) values(1, v, end, queries[i]->part_end, queries + i);
}

/* Fills m, l and a of each query for a part; queries that see nothing of it get -infinity, 0 and 0. */
static void run_part(const dct_attn_args *args, const cache_head *k, const cache_head *v, uint32_t part, uint32_t n,
                     query *queries) {
    const uint32_t part_begin = part * DCT_PART_POSITIONS, part_end = part_begin + DCT_PART_POSITIONS;
    const query *seeing[N_QUERIES];
    uint32_t n_seeing = 0, begin = UINT32_MAX, end = 0;
    for (uint32_t i = 0; i < n; i++) {
        query *q = &queries[i];
        q->part_begin = larger(q->begin, part_begin);
        q->part_end = smaller(q->end, part_end);
        q->m = -INFINITY;
        q->l = 0;
        memset(q->a, 0, ((uint64_t)v->dim + 15) / 16 * 16 * sizeof *q->a);
        if (q->part_begin >= q->part_end) continue;
        begin = smaller(begin, q->part_begin);
        end = larger(end, q->part_end);
        seeing[n_seeing++] = q;
    }
    if (n_seeing == 0) return;
    scores(n, k, begin, end, queries);
    for (uint32_t i = 0; i < n; i++) {
        if (queries[i].part_begin < queries[i].part_end) weigh(&queries[i], args->scale, args->softcap);
    }
    add_values(n_seeing, v, seeing);
}

/* ---- folding ---- */

/* total = total and next; dv elements. */
static void fold(float *total_m, float *total_l, float *total_a, float m, float l, const float *a, uint32_t dv) {
    float most = m > *total_m ? m : *total_m;
    float c = dct_exp(*total_m - most), cj = dct_exp(m - most);
    *total_l = fmaf(l, cj, *total_l * c);
    *total_m = most;
    for (uint32_t d = 0; d < dv; d += 16) {
        uint32_t n = smaller(dv - d, 16);
        v16f sum = v16f_mul(v16f_load_n(total_a + d, n), v16f_set1(c));
        v16f_store_n(total_a + d, v16f_fma(v16f_load_n(a + d, n), v16f_set1(cj), sum), n);
    }
}

static void divide(const float *a, float l, uint32_t dv, float *out) {
    for (uint32_t d = 0; d < dv; d += 16) {
        uint32_t n = smaller(dv - d, 16);
        v16f_store_n(out + d, v16f_div(v16f_load_n(a + d, n), v16f_set1(l)), n);
    }
}

static void take_part(query *q, uint32_t dv) {
    if (q->part_begin >= q->part_end) return;
    if (q->has_total) {
        fold(&q->total_m, &q->total_l, q->total_a, q->m, q->l, q->a, dv);
        return;
    }
    float *a = q->total_a;
    q->total_a = q->a;
    q->a = a;
    q->total_m = q->m;
    q->total_l = q->l;
    q->has_total = true;
}

/* ---- whole attention ---- */

/* Query i of a batch: its place in scratch, and what it sees. */
static query query_of(const dct_attn_args *args, uint32_t head, uint32_t t, uint32_t i) {
    const uint64_t dv = ((uint64_t)args->dv + 15) / 16 * 16;
    const uint32_t pos = args->pos0 + t;
    float *scratch = (float *)args->scratch + i * (DCT_PART_POSITIONS + 2 * dv);
    query q = {.q = args->q + t * args->q_stride + (uint64_t)head * args->dk};
    q.end = args->n_seen != 0 ? args->n_seen : pos + 1;
    q.begin = args->window != 0 && pos + 1 > args->window ? pos + 1 - args->window : 0;
    q.scores = scratch;
    q.a = scratch + DCT_PART_POSITIONS;
    q.total_a = q.a + dv;
    return q;
}

static void attn_batch(const dct_attn_args *args, const cache_head *k, const cache_head *v, uint32_t n, query *queries) {
    uint32_t begin = UINT32_MAX, end = 0;
    for (uint32_t i = 0; i < n; i++) {
        begin = smaller(begin, queries[i].begin);
        end = larger(end, queries[i].end);
    }
    for (uint32_t part = begin / DCT_PART_POSITIONS; part * DCT_PART_POSITIONS < end; part++) {
        run_part(args, k, v, part, n, queries);
        for (uint32_t i = 0; i < n; i++) take_part(&queries[i], args->dv);
    }
}

/* The queries of a KV head are numbered row by row, the heads of its group within a row. */
static void attn(const dct_attn_args *args, uint32_t kv_head, uint32_t t_begin, uint32_t t_end) {
    const uint32_t group = args->n_head / args->n_head_kv, n_all = (t_end - t_begin) * group;
    const cache_head k = head_of(args->type_k, args->k, args->dk, args->n_ctx, kv_head);
    const cache_head v = head_of(args->type_v, args->v, args->dv, args->n_ctx, kv_head);
    for (uint32_t first = 0; first < n_all; first += N_QUERIES) {
        query queries[N_QUERIES];
        uint32_t n = smaller(n_all - first, N_QUERIES);
        for (uint32_t i = 0; i < n; i++) {
            queries[i] = query_of(args, kv_head * group + (first + i) % group, t_begin + (first + i) / group, i);
        }
        attn_batch(args, &k, &v, n, queries);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t head = kv_head * group + (first + i) % group, t = t_begin + (first + i) / group;
            divide(queries[i].total_a, queries[i].total_l, args->dv,
                   args->out + t * args->out_stride + (uint64_t)head * args->dv);
        }
    }
}

/* ---- attention by parts ---- */

static float *part_at(const dct_attn_args *args, uint32_t t, uint32_t head, uint32_t part) {
    return args->parts + (((uint64_t)t * args->n_head + head) * args->n_part + part) * (args->dv + 2);
}

static void attn_part(const dct_attn_args *args, uint32_t kv_head, uint32_t t, uint32_t part) {
    const uint32_t group = args->n_head / args->n_head_kv;
    const cache_head k = head_of(args->type_k, args->k, args->dk, args->n_ctx, kv_head);
    const cache_head v = head_of(args->type_v, args->v, args->dv, args->n_ctx, kv_head);
    for (uint32_t first = 0; first < group; first += N_QUERIES) {
        query queries[N_QUERIES];
        uint32_t n = smaller(group - first, N_QUERIES), head = kv_head * group + first;
        for (uint32_t i = 0; i < n; i++) queries[i] = query_of(args, head + i, t, i);
        run_part(args, &k, &v, part, n, queries);
        for (uint32_t i = 0; i < n; i++) {
            float *kept = part_at(args, t, head + i, part);
            kept[0] = queries[i].m;
            kept[1] = queries[i].l;
            memcpy(kept + 2, queries[i].a, args->dv * sizeof *kept);
        }
    }
}

static void merge_head(const dct_attn_args *args, uint32_t t, uint32_t head) {
    float *out = args->out + t * args->out_stride + (uint64_t)head * args->dv, m = 0, l = 0;
    for (uint32_t j = 0; j < args->n_part; j++) {
        const float *kept = part_at(args, t, head, j);
        if (kept[1] == 0) continue;
        if (l == 0) {
            m = kept[0];
            l = kept[1];
            memcpy(out, kept + 2, args->dv * sizeof *out);
        } else {
            fold(&m, &l, out, kept[0], kept[1], kept + 2, args->dv);
        }
    }
    divide(out, l, args->dv, out);
}

static void attn_merge(const dct_attn_args *args, uint32_t t, uint32_t head_begin, uint32_t head_end) {
    for (uint32_t head = head_begin; head < head_end; head++) merge_head(args, t, head);
}

static void fill_attn(dct_kernels *table) {
    table->attn = attn;
    table->attn_part = attn_part;
    table->attn_merge = attn_merge;
}

#endif
