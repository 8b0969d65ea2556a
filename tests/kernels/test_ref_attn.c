/* Attention in scalar code against plain f64 softmax, over shapes, windows, caps and types of caches; and the promises of
 * kernel.h that hold with ==: whole attention is attn_part and attn_merge, and rows are independent of how they are cut. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hash.h"
#include "kernel_data.h"
#include "kernels/kernel.h"

static const dct_kernels *ref(void) { return dct_kernels_of(DCT_ISA_SCALAR); }

static void *lines(uint64_t bytes) {
    bytes = (bytes + 63) / 64 * 64 + 64;
    void *p = aligned_alloc(64, bytes);
    assert_non_null(p);
    memset(p, 0xFF, bytes); /* NaN: positions that were never stored must not matter */
    return p;
}

typedef struct shape {
    dct_dtype type_k, type_v;
    uint32_t n_head, n_head_kv, dk, dv, n_ctx, pos0, n, window;
    float softcap;
} shape;

/* Caches filled up to the last row's position, and what they hold as f32. */
typedef struct problem {
    shape s;
    float *q, *k, *v;      /* [n][n_head*dk], [position][n_head_kv*dk], [position][n_head_kv*dv] */
    float *out, *parts;
    void *cache_k, *cache_v, *scratch;
    dct_attn_args args;
} problem;

/* x as the cache gives it back, by the formats and not by the kernels. */
static void as_stored(dct_dtype type, float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 32) {
        uint32_t end = n - i < 32 ? n : i + 32;
        float amax = 0;
        for (uint32_t j = i; j < end; j++) amax = fmaxf(amax, fabsf(x[j]));
        for (uint32_t j = i; j < end; j++) {
            if (type == DCT_TYPE_F16) x[j] = dct_f32_of_f16(dct_f16_of_f32(x[j]));
            if (type == DCT_TYPE_BF16) x[j] = dct_f32_of_bf16(dct_bf16_of_f32(x[j]));
            if (type == DCT_TYPE_Q8_0) x[j] = rintf(x[j] * (127 / amax)) * dct_f32_of_f16(dct_f16_of_f32(amax / 127));
        }
    }
}

static uint64_t cache_bytes(dct_dtype type, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx) {
    uint64_t bytes = 0;
    assert_true(dct_kv_bytes(type, n_head_kv, head_dim, n_ctx, &bytes));
    return bytes;
}

static problem problem_of(shape s) {
    rng g = {s.pos0 + s.n_head * 100 + s.dk};
    uint32_t n_pos = s.pos0 + s.n, row_k = s.n_head_kv * s.dk, row_v = s.n_head_kv * s.dv;
    problem p = {.s = s};
    p.q = lines((uint64_t)s.n * s.n_head * s.dk * 4);
    p.k = lines((uint64_t)n_pos * row_k * 4);
    p.v = lines((uint64_t)n_pos * row_v * 4);
    p.out = lines((uint64_t)s.n * s.n_head * s.dv * 4);
    uint32_t n_part = (s.n_ctx + DCT_PART_POSITIONS - 1) / DCT_PART_POSITIONS;
    p.parts = lines((uint64_t)s.n * s.n_head * n_part * (s.dv + 2) * 4);
    p.cache_k = lines(cache_bytes(s.type_k, s.n_head_kv, s.dk, s.n_ctx));
    p.cache_v = lines(cache_bytes(s.type_v, s.n_head_kv, s.dv, s.n_ctx));
    p.scratch = lines(dct_attn_scratch_bytes(s.dv));
    rng_floats(&g, p.q, (uint64_t)s.n * s.n_head * s.dk);
    rng_floats(&g, p.k, (uint64_t)n_pos * row_k);
    rng_floats(&g, p.v, (uint64_t)n_pos * row_v);
    for (uint32_t pos = 0; pos < n_pos; pos++) {
        ref()->store_k(s.type_k, p.k + (uint64_t)pos * row_k, s.n_head_kv, s.dk, s.n_ctx, pos, p.cache_k);
        ref()->store_v(s.type_v, p.v + (uint64_t)pos * row_v, s.n_head_kv, s.dv, s.n_ctx, pos, p.cache_v);
        for (uint32_t h = 0; h < s.n_head_kv; h++) {
            as_stored(s.type_k, p.k + (uint64_t)pos * row_k + h * s.dk, s.dk);
            as_stored(s.type_v, p.v + (uint64_t)pos * row_v + h * s.dv, s.dv);
        }
    }
    p.args = (dct_attn_args){.q = p.q, .q_stride = s.n_head * s.dk, .k = p.cache_k, .v = p.cache_v, .type_k = s.type_k, .type_v = s.type_v,
                             .n_head = s.n_head, .n_head_kv = s.n_head_kv, .dk = s.dk, .dv = s.dv, .n_ctx = s.n_ctx, .pos0 = s.pos0,
                             .window = s.window, .scale = 2 / sqrtf((float)s.dk), .softcap = s.softcap, .out = p.out,
                             .out_stride = s.n_head * s.dv, .parts = p.parts, .n_part = n_part, .scratch = p.scratch};
    return p;
}

static void problem_free(problem *p) {
    void *all[] = {p->q, p->k, p->v, p->out, p->parts, p->cache_k, p->cache_v, p->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* ---- the oracle ---- */

static double score(const problem *p, uint32_t t, uint32_t head, uint32_t pos) {
    const shape *s = &p->s;
    uint32_t kv_head = head / (s->n_head / s->n_head_kv);
    const float *q = p->q + ((uint64_t)t * s->n_head + head) * s->dk, *k = p->k + ((uint64_t)pos * s->n_head_kv + kv_head) * s->dk;
    double dot = 0;
    for (uint32_t d = 0; d < s->dk; d++) dot += (double)q[d] * k[d];
    dot *= p->args.scale;
    return s->softcap != 0 ? s->softcap * tanh(dot / s->softcap) : dot;
}

/* All of row t, one head, in f64; values are within 1, and so is what they average to. */
static void check_head(const problem *p, uint32_t t, uint32_t head, double tolerance) {
    const shape *s = &p->s;
    uint32_t end = s->pos0 + t + 1, begin = s->window != 0 && end > s->window ? end - s->window : 0;
    uint32_t kv_head = head / (s->n_head / s->n_head_kv);
    double sum = 0, *want = calloc(s->dv, sizeof *want);
    for (uint32_t pos = begin; pos < end; pos++) {
        double e = exp(score(p, t, head, pos));
        const float *v = p->v + ((uint64_t)pos * s->n_head_kv + kv_head) * s->dv;
        sum += e;
        for (uint32_t d = 0; d < s->dv; d++) want[d] += e * v[d];
    }
    const float *got = p->out + ((uint64_t)t * s->n_head + head) * s->dv;
    for (uint32_t d = 0; d < s->dv; d++) assert_true(fabs(got[d] - want[d] / sum) <= tolerance);
    free(want);
}

/* Weights have the error of a dot of dk terms, twice; a part adds up to 1,024 values in one sum, whose errors are random in
 * sign: a quarter of the worst case is generous. */
static void check_all(const problem *p) {
    double tolerance = (2.0 * p->s.dk + DCT_PART_POSITIONS / 4 + 64) * 0x1p-24;
    for (uint32_t t = 0; t < p->s.n; t++) {
        for (uint32_t head = 0; head < p->s.n_head; head++) check_head(p, t, head, tolerance);
    }
}

static void run(problem *p) {
    for (uint32_t h = 0; h < p->s.n_head_kv; h++) ref()->attn(&p->args, h, 0, p->s.n);
}

/* Parts in reverse and heads in two pieces, which must not matter. */
static void run_in_parts(problem *p) {
    const shape *s = &p->s;
    for (uint32_t t = 0; t < s->n; t++) {
        for (uint32_t part = p->args.n_part; part-- > 0;) {
            for (uint32_t h = 0; h < s->n_head_kv; h++) ref()->attn_part(&p->args, h, t, part);
        }
        ref()->attn_merge(&p->args, t, 0, 1);
        ref()->attn_merge(&p->args, t, 1, s->n_head);
    }
}

static void check_shape(shape s) {
    problem p = problem_of(s);
    uint64_t out_bytes = (uint64_t)s.n * s.n_head * s.dv * 4;
    run(&p);
    check_all(&p);
    float *whole = p.out;
    p.args.out = p.out = lines(out_bytes);
    run_in_parts(&p);
    assert_memory_equal(p.out, whole, out_bytes);
    memset(p.out, 0xFF, out_bytes);
    for (uint32_t t = 0; t < s.n; t++) { /* each row as a chunk of its own */
        dct_attn_args one = p.args;
        one.q = p.q + (uint64_t)t * one.q_stride;
        one.out = p.out + (uint64_t)t * one.out_stride;
        one.pos0 = s.pos0 + t;
        for (uint32_t h = 0; h < s.n_head_kv; h++) ref()->attn(&one, h, 0, 1);
    }
    assert_memory_equal(p.out, whole, out_bytes);
    free(whole);
    problem_free(&p);
}

static const dct_dtype kv_types[] = {DCT_TYPE_F32, DCT_TYPE_F16, DCT_TYPE_BF16, DCT_TYPE_Q8_0};

static void test_types(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) check_shape((shape){kv_types[i], kv_types[j], 6, 2, 64, 32, 61, 17, 4, 0, 0});
    }
}

static void test_shapes(void **state) {
    (void)state;
    check_shape((shape){DCT_TYPE_F32, DCT_TYPE_F32, 2, 2, 20, 12, 16, 0, 1, 0, 0});
    check_shape((shape){DCT_TYPE_F16, DCT_TYPE_F16, 7, 1, 80, 80, 100, 30, 9, 0, 0});
    check_shape((shape){DCT_TYPE_F16, DCT_TYPE_F32, 4, 4, 8, 72, 33, 31, 2, 0, 0});
}

static void test_windows_and_softcap(void **state) {
    (void)state;
    static const uint32_t windows[] = {1, 5, 16, 50, 1000};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        check_shape((shape){DCT_TYPE_F32, DCT_TYPE_F16, 4, 2, 32, 32, 80, 40, 20, windows[i], i % 2 == 0 ? 0 : 3.0f});
    }
    check_shape((shape){DCT_TYPE_Q8_0, DCT_TYPE_Q8_0, 4, 2, 32, 32, 80, 40, 20, 0, 1.5f});
}

/* Rows on both sides of the bounds of parts; windows that begin within a part, at its bound, and skip the first ones. */
static void test_parts(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        check_shape((shape){kv_types[i], kv_types[3 - i], 4, 2, 32, 32, 2100, 1022, 4, 0, 0});
        check_shape((shape){kv_types[i], kv_types[i], 2, 1, 32, 32, 2100, 2046, 4, 0, 0});
    }
    check_shape((shape){DCT_TYPE_F16, DCT_TYPE_F16, 2, 1, 32, 32, 4096, 2046, 4, 1024, 0});
    check_shape((shape){DCT_TYPE_F16, DCT_TYPE_F16, 2, 1, 32, 32, 4096, 3071, 3, 100, 20});
}

/* A part that the row sees nothing of is (-inf, 0, 0). */
static void test_empty_part(void **state) {
    (void)state;
    problem p = problem_of((shape){DCT_TYPE_F32, DCT_TYPE_F32, 2, 1, 32, 32, 2100, 1500, 1, 100, 0});
    uint32_t stride = p.s.dv + 2;
    for (uint32_t part = 0; part < 3; part++) ref()->attn_part(&p.args, 0, 0, part);
    for (uint32_t part = 0; part < 3; part++) {
        const float *kept = p.parts + part * stride;
        assert_true(part == 1 ? kept[1] >= 1 : kept[0] == -INFINITY && kept[1] == 0);
        for (uint32_t d = 0; part != 1 && d < p.s.dv; d++) assert_true(kept[2 + d] == 0);
    }
    problem_free(&p);
}

/* Scores far apart and all far below zero: the maximum is taken off first. */
static void test_large_scores(void **state) {
    (void)state;
    problem p = problem_of((shape){DCT_TYPE_F32, DCT_TYPE_F32, 1, 1, 32, 32, 64, 40, 1, 0, 0});
    for (uint32_t d = 0; d < 32; d++) p.q[d] *= 100;
    run(&p);
    for (uint32_t d = 0; d < 32; d++) assert_true(isfinite(p.out[d]) && fabsf(p.out[d]) <= 1);
    check_head(&p, 0, 0, 1e-3); /* scores of hundreds carry errors of their own ulp into the weights */
    problem_free(&p);
}

/* One number: equal on every processor and compiler. */
static void test_same_bits(void **state) {
    (void)state;
    uint64_t hash = DCT_HASH_SEED;
    for (int i = 0; i < 4; i++) {
        problem p = problem_of((shape){kv_types[i], kv_types[i], 4, 2, 64, 32, 1100, 1000, 40, 0, i % 2 == 0 ? 0 : 5.0f});
        run(&p);
        hash = dct_hash_bytes(hash, p.out, (uint64_t)p.s.n * p.s.n_head * p.s.dv * 4);
        problem_free(&p);
    }
    assert_int_equal(hash, UINT64_C(0x794000088e86dbaa));
}

static void test_kv_bytes(void **state) {
    (void)state;
    assert_int_equal(dct_kv_head_bytes(DCT_TYPE_F16, 128, 4096), 4096 * 256);
    assert_int_equal(dct_kv_head_bytes(DCT_TYPE_F16, 3, 1), 128); /* 16 positions, 96 bytes */
    assert_int_equal(dct_kv_head_bytes(DCT_TYPE_F32, 64, 17), 32 * 256);
    assert_int_equal(dct_kv_head_bytes(DCT_TYPE_Q8_0, 64, 100), 112 * (64 + 4));
    assert_int_equal(cache_bytes(DCT_TYPE_BF16, 3, 64, 16), 3 * 16 * 128);
    uint64_t bytes = 7; /* sizes that wrap, in each product, are refused and leave the result alone */
    assert_false(dct_kv_bytes(DCT_TYPE_F16, 1, UINT32_MAX, UINT32_MAX, &bytes));
    assert_false(dct_kv_bytes(DCT_TYPE_F32, 1, 1u << 31, 1u << 31, &bytes));
    assert_false(dct_kv_bytes(DCT_TYPE_F16, 1u << 16, 1u << 24, 1u << 24, &bytes));
    assert_int_equal(bytes, 7);
    assert_true(dct_attn_scratch_bytes(128) >= (DCT_PART_POSITIONS + 128) * sizeof(float));
    assert_int_equal(dct_attn_scratch_bytes(80) % 64, 0);
}

/* One stored position touches its own elements alone, where kernel.h draws them. */
static void test_store_places(void **state) {
    (void)state;
    enum { DIM = 32, CTX = 48, HEADS = 2, POS = 21 };
    float x[HEADS * DIM];
    for (int i = 0; i < HEADS * DIM; i++) x[i] = (float)(i % DIM) - 8; /* 23 is the greatest of a block */
    uint64_t head = dct_kv_head_bytes(DCT_TYPE_Q8_0, DIM, CTX);
    uint8_t *k = lines(HEADS * head), *v = lines(HEADS * head);
    ref()->store_k(DCT_TYPE_Q8_0, x, HEADS, DIM, CTX, POS, k);
    ref()->store_v(DCT_TYPE_Q8_0, x, HEADS, DIM, CTX, POS, v);
    uint16_t scale = dct_f16_of_f32(23.0f / 127);
    for (int h = 0; h < HEADS; h++, k += head, v += head) {
        for (int d = 0; d < DIM; d++) {
            int8_t code = (int8_t)rintf(x[d] * (127.0f / 23));
            assert_int_equal((int8_t)k[(POS / 16 * DIM + d) * 16 + POS % 16], code);
            assert_int_equal((int8_t)v[POS * DIM + d], code);
        }
        assert_memory_equal(k + CTX * DIM + 2 * (POS / 16 * 16 + POS % 16), &scale, 2);
        assert_memory_equal(v + CTX * DIM + 2 * POS, &scale, 2);
        uint32_t touched = 0;
        for (uint64_t i = 0; i < head; i++) touched += (k[i] != 0xFF) + (v[i] != 0xFF);
        assert_true(touched <= 2 * (DIM + 2));
    }
    free(k - HEADS * head);
    free(v - HEADS * head);
}

/* A cache that grows in place, then shrinks: its positions are those of one that never moved, and nothing before it is touched. */
static void caches_move_over_themselves(void **state) {
    (void)state;
    static const dct_dtype types[] = {DCT_TYPE_F32, DCT_TYPE_F16, DCT_TYPE_BF16, DCT_TYPE_Q8_0};
    static const uint32_t contexts[] = {32, 48, 64, 496};
    enum { HEADS = 3, DIM = 64, N = 29, SHIFT = 64, BEFORE = 64 };
    float x[HEADS * DIM];
    rng g = {1};
    for (size_t k = 0; k < 4; k++) {
        for (int is_k = 0; is_k < 2; is_k++) {
            char *before = lines(BEFORE + SHIFT + cache_bytes(types[k], HEADS, DIM, 496)), *moved = before + BEFORE, *still[4];
            memset(before, 0x5a, BEFORE);
            for (size_t c = 0; c < 4; c++) still[c] = lines(cache_bytes(types[k], HEADS, DIM, contexts[c]));
            for (uint32_t pos = 0; pos < N; pos++) {
                rng_floats(&g, x, HEADS * DIM);
                for (size_t c = 0; c < 4; c++) (is_k ? ref()->store_k : ref()->store_v)(types[k], x, HEADS, DIM, contexts[c], pos, still[c]);
            }
            memcpy(moved, still[0], cache_bytes(types[k], HEADS, DIM, 32));
            static const struct {
                size_t from, to;
                uint32_t shift_from, shift_to;
            } moves[] = {{0, 1, 0, 0}, {1, 2, 0, SHIFT}, {2, 3, SHIFT, SHIFT}, {3, 0, SHIFT, 0}, {0, 3, 0, SHIFT}, {3, 2, SHIFT, 0}};
            for (size_t m = 0; m < sizeof moves / sizeof *moves; m++) {
                uint32_t n_ctx = contexts[moves[m].to];
                char *to = moved + moves[m].shift_to;
                dct_kv_move(types[k], HEADS, DIM, N, moved + moves[m].shift_from, contexts[moves[m].from], to, n_ctx);
                for (int i = 0; i < BEFORE; i++) assert_int_equal(before[i], 0x5a);
                for (uint32_t head = 0; head < HEADS; head++) {
                    uint64_t at = head * dct_kv_head_bytes(types[k], DIM, n_ctx), block = types[k] == DCT_TYPE_Q8_0 ? 1 : dct_dtype_block_bytes(types[k]);
                    assert_memory_equal(to + at, still[moves[m].to] + at, 32 * DIM * block); /* N rounded up to whole blocks */
                    if (types[k] != DCT_TYPE_Q8_0) continue;
                    at += (uint64_t)n_ctx * DIM;
                    assert_memory_equal(to + at, still[moves[m].to] + at, 32 * DIM / 32 * 2);
                }
            }
            for (size_t c = 0; c < 4; c++) free(still[c]);
            free(before);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),        cmocka_unit_test(test_shapes),   cmocka_unit_test(test_windows_and_softcap),
        cmocka_unit_test(test_parts),        cmocka_unit_test(test_empty_part), cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_kv_bytes),     cmocka_unit_test(test_store_places),
        cmocka_unit_test(test_same_bits),    cmocka_unit_test(caches_move_over_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
