/* kernels/ref_attn: attention over absolute positions in scalar code: partials of 1,024 positions, and their folding.
 *
 * One query head of one row at a time. A partial is (m, l, a[dv]): the greatest score, the sum of exp(s - m), and the sum
 * of values weighted by it. Whole attention is the fold of the partials in order, so it has the bits of attn_part followed
 * by attn_merge.
 */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "kernels/kv.h"
#include "kernels/math.h"
#include "kernels/ref.h"
#include "kernels/simd.h"

/* Scalar scratch: the scores of a part, and the accumulator of the part that is folded next. The fold happens in `out`. */
uint64_t dct_attn_scratch_bytes(uint32_t dv) {
    uint64_t scalar = dct_round_up((DCT_PART_POSITIONS + (uint64_t)dv) * sizeof(float), 64);
    uint64_t vector = dct_simd_attn_scratch_bytes(dv);
    return scalar > vector ? scalar : vector;
}

/* One query head at one row: what it reads, and the positions it sees. */
typedef struct query {
    const dct_attn_args *args;
    const float *q;
    const char *k, *v;     /* the caches of its KV head */
    uint32_t begin, end;   /* positions seen: [begin, end) */
    float *scores;         /* [1024] */
} query;

typedef struct partial {
    float m, l;
    float *a; /* [dv] */
} partial;

static query query_of(const dct_attn_args *args, uint32_t head, uint32_t t) {
    uint32_t kv_head = head / (args->n_head / args->n_head_kv), pos = args->pos0 + t;
    query q = {.args = args, .q = args->q + t * args->q_stride + (uint64_t)head * args->dk, .scores = args->scratch};
    q.end = args->n_seen != 0 ? args->n_seen : pos + 1;
    q.k = (const char *)args->k + kv_head * dct_kv_head_bytes(args->type_k, args->dk, args->n_ctx);
    q.v = (const char *)args->v + kv_head * dct_kv_head_bytes(args->type_v, args->dv, args->n_ctx);
    q.begin = args->window != 0 && pos + 1 > args->window ? pos + 1 - args->window : 0;
    return q;
}

static float *out_of(const dct_attn_args *args, uint32_t head, uint32_t t) {
    return args->out + t * args->out_stride + (uint64_t)head * args->dv;
}

static float half_value(dct_dtype type, uint16_t bits) {
    return type == DCT_TYPE_F16 ? dct_f32_of_f16(bits) : dct_f32_of_bf16(bits);
}

/* Sixteen neighbours of a cache as f32: element `at` and the next fifteen; Q8_0 without its scale. */
static void load16(dct_dtype type, const char *head, uint64_t at, float out[16]) {
    for (int i = 0; i < 16; i++) {
        if (type == DCT_TYPE_F32) out[i] = ((const float *)head)[at + i];
        else if (type == DCT_TYPE_Q8_0) out[i] = (float)((const int8_t *)head)[at + i];
        else out[i] = half_value(type, ((const uint16_t *)head)[at + i]);
    }
}

/* ---- scores ---- */

/* q . k of the sixteen positions of the block that begins at p0. */
static void dots(const query *q, uint32_t p0, float s[16]) {
    const dct_attn_args *args = q->args;
    const uint16_t *scales = (const uint16_t *)(q->k + dct_kv_code_bytes(args->dk, args->n_ctx));
    memset(s, 0, 16 * sizeof *s);
    for (uint32_t d = 0; d < args->dk; d++) {
        float k[16];
        load16(args->type_k, q->k, dct_k_at(args->dk, p0, d), k);
        if (args->type_k == DCT_TYPE_Q8_0) {
            const uint16_t *scale = scales + dct_k_scale_at(args->dk, p0, d);
            for (int i = 0; i < 16; i++) k[i] = dct_f32_of_f16(scale[i]) * k[i];
        }
        for (int i = 0; i < 16; i++) s[i] = fmaf(q->q[d], k[i], s[i]);
    }
}

/* Scores of [begin, end), which lie in one part; returns the greatest. */
static float score(const query *q, uint32_t begin, uint32_t end) {
    const dct_attn_args *args = q->args;
    float m = -INFINITY;
    for (uint32_t p0 = begin & ~(uint32_t)15; p0 < end; p0 += 16) {
        float s[16];
        dots(q, p0, s);
        for (uint32_t p = p0 < begin ? begin : p0; p < end && p < p0 + 16; p++) {
            float x = s[p - p0] * args->scale;
            if (args->softcap != 0) x = dct_softcap(x, args->softcap);
            q->scores[p % DCT_PART_POSITIONS] = x;
            m = x > m ? x : m;
        }
    }
    return m;
}

/* ---- values ---- */

static void add_value(const query *q, uint32_t p, float e, float *a) {
    const dct_attn_args *args = q->args;
    uint32_t dv = args->dv;
    if (args->type_v == DCT_TYPE_Q8_0) {
        const int8_t *codes = (const int8_t *)q->v;
        const uint16_t *scales = (const uint16_t *)(q->v + dct_kv_code_bytes(dv, args->n_ctx));
        for (uint32_t d = 0; d < dv; d++) {
            float v = dct_f32_of_f16(scales[dct_v_scale_at(dv, p, d)]) * (float)codes[dct_v_at(dv, p, d)];
            a[d] = fmaf(e, v, a[d]);
        }
    } else if (args->type_v == DCT_TYPE_F32) {
        const float *v = (const float *)q->v + dct_v_at(dv, p, 0);
        for (uint32_t d = 0; d < dv; d++) a[d] = fmaf(e, v[d], a[d]);
    } else {
        const uint16_t *v = (const uint16_t *)q->v + dct_v_at(dv, p, 0);
        for (uint32_t d = 0; d < dv; d++) a[d] = fmaf(e, half_value(args->type_v, v[d]), a[d]);
    }
}

/* The partial of part `part`, which the query sees something of or not. */
static void run_part(const query *q, uint32_t part, partial *out) {
    uint32_t part_begin = part * DCT_PART_POSITIONS, part_end = part_begin + DCT_PART_POSITIONS;
    uint32_t begin = q->begin > part_begin ? q->begin : part_begin, end = q->end < part_end ? q->end : part_end;
    float sums[16] = {0};
    memset(out->a, 0, q->args->dv * sizeof *out->a);
    out->m = -INFINITY;
    out->l = 0;
    if (begin >= end) return;
    out->m = score(q, begin, end);
    for (uint32_t p = begin; p < end; p++) {
        float e = dct_exp(q->scores[p % DCT_PART_POSITIONS] - out->m);
        sums[p % 16] += e;
        add_value(q, p, e, out->a);
    }
    out->l = dct_tree16(sums);
}

/* ---- folding ---- */

static void fold(partial *total, const partial *next, uint32_t dv) {
    float m = next->m > total->m ? next->m : total->m;
    float c = dct_exp(total->m - m), cj = dct_exp(next->m - m);
    total->l = fmaf(next->l, cj, total->l * c);
    for (uint32_t d = 0; d < dv; d++) total->a[d] = fmaf(next->a[d], cj, total->a[d] * c);
    total->m = m;
}

static void divide(partial *total, uint32_t dv) {
    for (uint32_t d = 0; d < dv; d++) total->a[d] = total->a[d] / total->l;
}

static void attend(const dct_attn_args *args, uint32_t head, uint32_t t) {
    query q = query_of(args, head, t);
    partial total = {.a = out_of(args, head, t)}, next = {.a = q.scores + DCT_PART_POSITIONS};
    uint32_t part = q.begin / DCT_PART_POSITIONS;
    run_part(&q, part, &total);
    while (++part * DCT_PART_POSITIONS < q.end) {
        run_part(&q, part, &next);
        fold(&total, &next, args->dv);
    }
    divide(&total, args->dv);
}

void dct_ref_attn(const dct_attn_args *args, uint32_t kv_head, uint32_t t_begin, uint32_t t_end) {
    uint32_t group = args->n_head / args->n_head_kv;
    for (uint32_t t = t_begin; t < t_end; t++) {
        for (uint32_t head = kv_head * group; head < (kv_head + 1) * group; head++) attend(args, head, t);
    }
}

/* Where partial j of a row and head is kept: m, l, a[dv]. */
static float *part_at(const dct_attn_args *args, uint32_t t, uint32_t head, uint32_t part) {
    return args->parts + (((uint64_t)t * args->n_head + head) * args->n_part + part) * (args->dv + 2);
}

void dct_ref_attn_part(const dct_attn_args *args, uint32_t kv_head, uint32_t t, uint32_t part) {
    uint32_t group = args->n_head / args->n_head_kv;
    for (uint32_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
        query q = query_of(args, head, t);
        float *kept = part_at(args, t, head, part);
        partial p = {.a = kept + 2};
        run_part(&q, part, &p);
        kept[0] = p.m;
        kept[1] = p.l;
    }
}

static void merge(const dct_attn_args *args, uint32_t head, uint32_t t) {
    partial total = {.a = out_of(args, head, t)};
    for (uint32_t j = 0; j < args->n_part; j++) {
        float *kept = part_at(args, t, head, j);
        partial next = {kept[0], kept[1], kept + 2};
        if (next.l == 0) continue;
        if (total.l == 0) {
            total.m = next.m;
            total.l = next.l;
            memcpy(total.a, next.a, args->dv * sizeof *total.a);
        } else {
            fold(&total, &next, args->dv);
        }
    }
    divide(&total, args->dv);
}

void dct_ref_attn_merge(const dct_attn_args *args, uint32_t t, uint32_t head_begin, uint32_t head_end) {
    for (uint32_t head = head_begin; head < head_end; head++) merge(args, head, t);
}
