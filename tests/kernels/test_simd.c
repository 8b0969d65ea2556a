/* Every entry of every vector table against the scalar table, bit for bit: ragged shapes, sub-ranges, in-place forms, and
 * values at their limits, where a saturating or re-ordered sum would show. Outputs lie in buffers full of a pattern, and the
 * whole buffers are compared, so a write outside shows too. What the processor lacks is named and skipped.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/size.h"
#include "kernels/kernel.h"

/* ---- values ---- */

static uint64_t seed = 1;

static uint32_t next(void) { /* splitmix64 */
    uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(z >> 32);
}
static uint32_t below(uint32_t n) { return next() % n; }
static float unit(void) { return (float)(int32_t)next() * 0x1p-31f; } /* -1..1 */

/* Kinds of values: each row of a test takes one. */
enum { USUAL, ZEROS, AT_LIMIT, TINY, LARGE, MIXED, N_KINDS };

static float value(int kind) {
    switch (kind) {
    case ZEROS: return below(2) ? 0.0f : -0.0f;
    case AT_LIMIT: return below(2) ? 3.0f : -3.0f;
    case TINY: return unit() * 0x1p-130f;
    case LARGE: return unit() * 0x1p60f;
    case MIXED: return below(8) == 0 ? unit() * 1000 : unit() * 0.01f;
    default: return unit();
    }
}

static void fill(float *x, uint64_t n, int kind) {
    for (uint64_t i = 0; i < n; i++) x[i] = value(kind);
}

static void *new_bytes(uint64_t n) {
    void *p = aligned_alloc(64, dct_round_up(n + 64, 64));
    assert_non_null(p);
    memset(p, 0xa5, dct_round_up(n + 64, 64));
    return p;
}
static float *new_floats(uint64_t n) { return new_bytes(n * sizeof(float)); }

/* ---- the tables ---- */

static const dct_kernels *scalar(void) { return dct_kernels_of(DCT_ISA_SCALAR); }

typedef void check_fn(const dct_kernels *ref, const dct_kernels *simd);

static void for_each_isa(check_fn *check) {
    static const char *const names[DCT_ISA_COUNT] = {"scalar", "avx2", "avx2-vnni", "avx512", "avx512-vnni", "neon", "neon-dotprod"};
    for (int isa = DCT_ISA_SCALAR + 1; isa < DCT_ISA_COUNT; isa++) {
        const dct_kernels *simd = dct_kernels_of((dct_isa)isa);
        if (simd == NULL) {
            print_message("skipped: %s is not in this build or processor\n", names[isa]);
            continue;
        }
        seed = 1;
        check(scalar(), simd);
    }
}

static void expect_same(const void *a, const void *b, uint64_t bytes, const char *what, const char *isa) {
    const uint8_t *x = a, *y = b;
    if (memcmp(a, b, bytes) == 0) return;
    uint64_t i = 0;
    while (x[i] == y[i]) i++;
    i &= ~(uint64_t)3;
    uint32_t u, v;
    memcpy(&u, x + i, 4);
    memcpy(&v, y + i, 4);
    fail_msg("%s, %s: word %llu is %08x (%g), scalar %08x (%g)", isa, what, (unsigned long long)i / 4, v,
             (double)dct_f32_of_bits(v), u, (double)dct_f32_of_bits(u));
}

/* ---- weights ---- */

/* Offsets of the f16 fields of a block, -1 when there are fewer than two. */
static void half_fields(dct_dtype type, int at[2]) {
    at[0] = 0, at[1] = -1;
    switch (type) {
    case DCT_TYPE_Q4_1: case DCT_TYPE_Q5_1: case DCT_TYPE_Q4_K: case DCT_TYPE_Q5_K: at[1] = 2; break;
    case DCT_TYPE_Q2_K: at[0] = 80, at[1] = 82; break;
    case DCT_TYPE_Q3_K: at[0] = 108; break;
    case DCT_TYPE_Q6_K: at[0] = 208; break;
    case DCT_TYPE_MXFP4: at[0] = -1; break;
    default: break;
    }
}

static uint16_t some_half(int kind) {
    if (kind == ZEROS) return (uint16_t)(below(2) << 15);
    if (kind == TINY) return (uint16_t)(below(2) << 15 | below(0x400)); /* subnormal */
    if (kind == LARGE) return (uint16_t)(below(2) << 15 | (0x7800 + below(0x400)));
    return dct_f16_of_f32(unit());
}

/* Scale and bias of an MLX group, which end at `end`. */
static void affine_scales(const dct_affine *a, int kind, uint8_t *end) {
    uint32_t width = dct_dtype_block_bytes(a->scale);
    for (uint32_t i = 1; i <= 2; i++) {
        float x = value(kind);
        uint16_t h = a->scale == DCT_TYPE_F16 ? some_half(kind) : dct_bf16_of_f32(x);
        memcpy(end - i * width, a->scale == DCT_TYPE_F32 ? (const void *)&x : (const void *)&h, width);
    }
}

/* A row as a file has it: random bits, at the limits all ones or all zeros, with finite scales. */
static void random_row(dct_dtype type, uint32_t k, int kind, uint8_t *row) {
    uint32_t block = dct_dtype_block_bytes(type), n = k / dct_dtype_block_elems(type);
    int at[2];
    half_fields(type, at);
    for (uint32_t i = 0; i < n; i++, row += block) {
        if (type == DCT_TYPE_F32) {
            float v = value(kind);
            memcpy(row, &v, 4);
            continue;
        }
        if (dct_dtype_is_float(type)) {
            uint16_t h = type == DCT_TYPE_F16 ? some_half(kind) : dct_bf16_of_f32(value(kind));
            memcpy(row, &h, 2);
            continue;
        }
        for (uint32_t j = 0; j < block; j++) row[j] = kind == AT_LIMIT ? (i % 2 ? 0xff : 0x00) : (uint8_t)next();
        if (dct_dtype_affine(type) != NULL) {
            affine_scales(dct_dtype_affine(type), kind, row + block);
            continue;
        }
        for (int f = 0; f < 2; f++) {
            uint16_t h = some_half(kind);
            if (at[f] >= 0) memcpy(row + at[f], &h, 2);
        }
        if (type == DCT_TYPE_MXFP4) row[0] = (uint8_t)(kind == TINY ? below(3) : kind == LARGE ? 160 + below(8) : 120 + below(8));
    }
}

static void *random_weights(dct_dtype type, uint32_t m, uint32_t k, int kind) {
    uint64_t tile_bytes = 0, row_bytes = 0, bytes = 0;
    assert_true(dct_layout_tile_bytes(type, k, &tile_bytes) && dct_dtype_row_bytes(type, k, &row_bytes) && dct_layout_bytes(type, m, k, &bytes));
    uint8_t *w = new_bytes(bytes), *rows = new_bytes(16 * row_bytes);
    for (uint32_t r = 0; r < m; r += 16) {
        uint32_t n = m - r < 16 ? m - r : 16;
        for (uint32_t i = 0; i < n; i++) random_row(type, k, kind == MIXED ? (int)below(MIXED) : kind, rows + i * row_bytes);
        dct_layout_pack_tile(type, k, rows, n, w + r / 16 * tile_bytes);
    }
    free(rows);
    return w;
}

/* ---- products ---- */

enum { PLAIN, WITH_BIAS, WITH_RESIDUAL, IN_PLACE, N_FORMS };

static void *random_activations(dct_dtype type, uint32_t k, uint32_t n, uint64_t *stride, int kind) {
    bool is_float = dct_dtype_is_float(type);
    *stride = is_float ? dct_round_up((uint64_t)k * 4, 64) + 64 : dct_q8_row_bytes(k) + 64;
    uint8_t *x = new_bytes(n * *stride);
    float *row = new_floats(k);
    for (uint32_t t = 0; t < n; t++) {
        fill(row, k, kind == MIXED && below(2) ? AT_LIMIT : kind);
        if (is_float) memcpy(x + t * *stride, row, (uint64_t)k * 4);
        else scalar()->quant_q8(row, k, x + t * *stride);
    }
    free(row);
    return x;
}

static void check_product(const dct_kernels *ref, const dct_kernels *simd, dct_dtype type, uint32_t m, uint32_t k, uint32_t n, int kind) {
    int form = (int)below(N_FORMS);
    uint32_t n_tiles = (m + 15) / 16, begin = below(n_tiles), end = begin + 1 + below(n_tiles - begin);
    if (below(2)) begin = 0, end = n_tiles;
    dct_linear_args a = {.type = type, .m = m, .k = k, .n = n, .y_stride = m + below(3) * 7};
    uint64_t y_bytes = n * a.y_stride * sizeof(float);
    float *bias = new_floats(m), *residual = new_floats(n * a.y_stride), *y[2] = {new_floats(n * a.y_stride), new_floats(n * a.y_stride)};
    fill(bias, m, USUAL);
    fill(residual, n * a.y_stride, USUAL);
    a.w = random_weights(type, m, k, kind);
    a.x = random_activations(type, k, n, &a.x_stride, kind == LARGE ? USUAL : kind);
    a.bias = form == WITH_BIAS || form == IN_PLACE ? bias : NULL;
    for (int i = 0; i < 2; i++) {
        if (form == IN_PLACE) memcpy(y[i], residual, y_bytes);
        a.y = y[i];
        a.residual = form == WITH_RESIDUAL ? residual : form == IN_PLACE ? y[i] : NULL;
        (i == 0 ? ref : simd)->linear[type](&a, begin, end);
    }
    char what[128];
    snprintf(what, sizeof what, "%s m %u k %u n %u kind %d form %d tiles %u..%u", dct_dtype_name(type), m, k, n, kind, form, begin, end);
    expect_same(y[0], y[1], y_bytes + 64, what, simd->name);
    free((void *)(uintptr_t)a.w), free((void *)(uintptr_t)a.x), free(bias), free(residual), free(y[0]), free(y[1]);
}

static void check_products(const dct_kernels *ref, const dct_kernels *simd) {
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        uint32_t block = dct_dtype_block_elems((dct_dtype)type);
        for (uint32_t n = 1; n <= (dct_dtype_affine((dct_dtype)type) != NULL ? 11u : 40u); n++) {
            uint32_t k = block * (1 + below(block == 1 ? 100 : block == 32 ? 9 : 4));
            check_product(ref, simd, (dct_dtype)type, 1 + below(70), k, n, (int)(n % N_KINDS));
        }
        for (int kind = 0; kind < N_KINDS; kind++) check_product(ref, simd, (dct_dtype)type, 48, block == 1 ? 320 : 1280, 8, kind);
        if (type < DCT_TYPE_GGUF_COUNT) check_product(ref, simd, (dct_dtype)type, 33, block == 1 ? 4001 : 32768, 50, USUAL); /* more than one block of rows */
    }
}

/* Weights that end at a page nobody may touch, whose loads ahead of what is computed must not pass the end of any range of tiles. */
static void check_stream(const dct_kernels *ref, const dct_kernels *simd, dct_dtype type, uint32_t k) {
    enum { TILES = 4, M = TILES * 16 };
    uint64_t bytes = 0, stride, page = (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(dct_layout_bytes(type, M, k, &bytes));
    const uint64_t room = dct_round_up(bytes, page);
    char *range = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(range != MAP_FAILED);
    assert_int_equal(mprotect(range + room, page, PROT_NONE), 0);
    void *w = random_weights(type, M, k, USUAL), *x = random_activations(type, k, 1, &stride, USUAL);
    memcpy(range + room - bytes, w, bytes);
    dct_linear_args a = {.type = type, .m = M, .k = k, .n = 1, .w = range + room - bytes, .x = x, .x_stride = stride, .y_stride = M};
    float want[M], got[M];
    a.y = want;
    ref->linear[type](&a, 0, TILES);
    a.y = got;
    for (uint32_t begin = 0; begin < TILES; begin++) {
        for (uint32_t end = begin + 1; end <= TILES; end++) {
            memset(got, 0xa5, sizeof got);
            simd->linear[type](&a, begin, end);
            expect_same(want + begin * 16, got + begin * 16, (end - begin) * 16 * sizeof *got, dct_dtype_name(type), simd->name);
        }
    }
    free(w), free(x), munmap(range, room + page);
}

static void check_streams(const dct_kernels *ref, const dct_kernels *simd) {
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        const uint32_t block = dct_dtype_block_elems((dct_dtype)type);
        check_stream(ref, simd, (dct_dtype)type, block == 1 ? 2003 : block == 32 ? 3008 : block * 7); /* many bursts and a part */
        check_stream(ref, simd, (dct_dtype)type, block);
    }
}

static void products(void **state) {
    (void)state;
    for_each_isa(check_products);
}

static void streams(void **state) {
    (void)state;
    for_each_isa(check_streams);
}

/* ---- rows ---- */

static const uint32_t lengths[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 64, 100, 896, 1001};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths, MOST = 4096 };

static void check_quant(const dct_kernels *ref, const dct_kernels *simd) {
    float *x = new_floats(MOST);
    for (int kind = 0; kind < N_KINDS; kind++) {
        for (uint32_t k = 32; k <= 1024; k += k < 128 ? 32 : 224) {
            void *a = new_bytes(dct_q8_row_bytes(k)), *b = new_bytes(dct_q8_row_bytes(k));
            fill(x, k, kind);
            if (kind == MIXED) x[5] = 0x1p-101f, x[37 % k] = 127.5f, x[38 % k] = 63.5f; /* below the least amax; ties */
            ref->quant_q8(x, k, a);
            simd->quant_q8(x, k, b);
            expect_same(a, b, dct_q8_row_bytes(k) + 64, "quant_q8", simd->name);
            free(a), free(b);
        }
    }
    free(x);
}

/* What is not finite is not lost wherever it stands, or damaged weights would go unseen: the scale of its block is NaN. */
static void check_damage(const dct_kernels *ref, const dct_kernels *simd) {
    enum { K = 96 };
    static const float damage[] = {NAN, -NAN, INFINITY, -INFINITY};
    const dct_kernels *tables[] = {ref, simd};
    float *x = new_floats(K);
    void *row = new_bytes(dct_q8_row_bytes(K));
    for (uint32_t i = 0; i < 16 * K; i++) {
        const uint32_t at = i / 16;
        fill(x, K, MIXED);
        x[at] = damage[i % 4];
        if (i % 8 >= 4) x[at ^ 1] = NAN; /* in company */
        tables[i % 16 / 8]->quant_q8(x, K, row);
        for (uint32_t b = 0; b < K / 32; b++) {
            if (isnan(dct_q8_scales(row, K)[b]) != (b == at / 32))
                fail_msg("quant_q8, %s: %g at %u", tables[i % 16 / 8]->name, (double)damage[i % 4], at);
        }
    }
    free(row);
    free(x);
}

/* Runs `call` with the scalar and the vector table on equal copies of `in`, and compares everything it may write. */
#define COMPARE(what, call) \
    do { \
        const dct_kernels *table = ref; \
        float *out = out_a; \
        memcpy(out_a, init, MOST * sizeof(float)); \
        memcpy(out_b, init, MOST * sizeof(float)); \
        call; \
        table = simd, out = out_b; \
        call; \
        expect_same(out_a, out_b, MOST * sizeof(float), what, simd->name); \
    } while (0)

static void check_rows(const dct_kernels *ref, const dct_kernels *simd) {
    float *init = new_floats(MOST), *x = new_floats(MOST), *w = new_floats(MOST), *out_a = new_floats(MOST), *out_b = new_floats(MOST);
    for (int kind = 0; kind < N_KINDS; kind++) {
        for (int i = 0; i < N_LENGTHS; i++) {
            uint32_t n = lengths[i], groups = 1 + below(3);
            fill(init, MOST, kind);
            fill(x, MOST, kind);
            fill(w, MOST, USUAL);
            COMPARE("rms_norm", table->rms_norm(x, w, n, groups, 1e-6f, out));
            COMPARE("rms_norm in place", table->rms_norm(out, w, n, groups, 1e-6f, out));
            COMPARE("silu", table->glu(DCT_ACT_SILU, x, w, n, out));
            COMPARE("silu in place", table->glu(DCT_ACT_SILU, out, w, n, out));
            COMPARE("gelu", table->glu(DCT_ACT_GELU_TANH, x, w, n, out));
            COMPARE("sigmoid", table->glu(DCT_ACT_SIGMOID, x, w, n, out));
            COMPARE("mul", table->mul(x, w, n, out));
            COMPARE("layer_norm", table->layer_norm(x, w, x, n, 1e-5f, out));
            COMPARE("layer_norm in place", table->layer_norm(out, w, x, n, 1e-5f, out));
            COMPARE("mix", table->mix(x, w, n < 8 ? 1 : 3, n < 8 ? n : n / 3, out));
            COMPARE("add", table->add(x, w, n, out));
            COMPARE("add in place", table->add(out, w, n, out));
            COMPARE("softcap", table->softcap(x, n, 30.0f, out));
        }
    }
    free(init), free(x), free(w), free(out_a), free(out_b);
}

/* Arguments of exp from far below to far above its range, through the activations. */
static void check_exp(const dct_kernels *ref, const dct_kernels *simd) {
    float *init = new_floats(MOST), *x = new_floats(MOST), *w = new_floats(MOST), *out_a = new_floats(MOST), *out_b = new_floats(MOST);
    for (uint32_t i = 0; i < MOST; i++) {
        x[i] = ((float)i - MOST / 2) * 0.0625f;
        w[i] = 1.0f;
    }
    fill(init, MOST, USUAL);
    COMPARE("silu, wide", table->glu(DCT_ACT_SILU, x, w, MOST, out));
    COMPARE("gelu, wide", table->glu(DCT_ACT_GELU_TANH, x, w, MOST, out));
    COMPARE("softcap, wide", table->softcap(x, MOST, 50.0f, out));
    for (uint32_t i = 0; i < MOST; i++) x[i] = ((float)i - MOST / 2) * 0.0005f; /* both branches of tanh */
    COMPARE("softcap, narrow", table->softcap(x, MOST, 1.0f, out));
    free(init), free(x), free(w), free(out_a), free(out_b);
}

static void check_rope(const dct_kernels *ref, const dct_kernels *simd) {
    static const struct { uint32_t head_dim, n_rot; int32_t sections[4]; } shapes[] = {
        {64, 64, {8, 12, 12, 0}}, {128, 128, {16, 24, 24, 0}}, {80, 80, {10, 15, 15, 0}}, {96, 72, {36, 0, 0, 0}}, {128, 96, {16, 16, 8, 0}}, {6, 4, {1, 1, 0, 0}},
    };
    enum { ROWS = 3, HEADS = 2, CTX = 50 };
    float *init = new_floats(MOST), *table_f = new_floats(CTX * 128), *out_a = new_floats(MOST), *out_b = new_floats(MOST);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (uint32_t style = 0; style < 3; style++) {
            int32_t pos[ROWS][4];
            for (int t = 0; t < ROWS; t++) {
                for (int j = 0; j < 4; j++) pos[t][j] = (int32_t)below(CTX);
            }
            fill(init, MOST, USUAL);
            fill(table_f, CTX * 128, USUAL);
            dct_rope_args a = {.stride = HEADS * shapes[i].head_dim + 5, .n = ROWS, .n_head = HEADS, .head_dim = shapes[i].head_dim};
            a.n_rot = shapes[i].n_rot;
            a.table = table_f;
            a.pos = &pos[0][0];
            a.style = style;
            memcpy(a.sections, shapes[i].sections, sizeof a.sections);
            COMPARE("rope", (a.x = out, table->rope(&a)));
        }
    }
    free(init), free(table_f), free(out_a), free(out_b);
}

/* Rows that lie over two tiles, of every type. */
static void check_embed(const dct_kernels *ref, const dct_kernels *simd) {
    float *init = new_floats(MOST), *out_a = new_floats(MOST), *out_b = new_floats(MOST);
    fill(init, MOST, USUAL);
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        uint32_t block = dct_dtype_block_elems((dct_dtype)type), k = block * (block == 1 ? 37 : 3);
        void *w = random_weights((dct_dtype)type, 20, k, MIXED);
        for (uint32_t row = 0; row < 20; row++) COMPARE("embed", table->embed((dct_dtype)type, k, w, row, row % 2 ? 1.0f : 33.94f, out));
        free(w);
    }
    free(init), free(out_a), free(out_b);
}

static void check_all_rows(const dct_kernels *ref, const dct_kernels *simd) {
    check_quant(ref, simd);
    check_damage(ref, simd);
    check_rows(ref, simd);
    check_exp(ref, simd);
    check_rope(ref, simd);
    check_embed(ref, simd);
}

static void rows(void **state) {
    (void)state;
    for_each_isa(check_all_rows);
}

/* ---- caches and attention ---- */

static const dct_dtype kv_types[] = {DCT_TYPE_F32, DCT_TYPE_F16, DCT_TYPE_BF16, DCT_TYPE_Q8_0};

static uint64_t cache_bytes(dct_dtype type, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx) {
    uint64_t bytes = 0;
    assert_true(dct_kv_bytes(type, n_head_kv, head_dim, n_ctx, &bytes));
    return bytes;
}

static void check_stores(const dct_kernels *ref, const dct_kernels *simd) {
    enum { HEADS = 2, CTX = 40 };
    for (int type = 0; type < 4; type++) {
        for (uint32_t dim = 32; dim <= 128; dim += kv_types[type] == DCT_TYPE_Q8_0 ? 32 : 20) {
            uint64_t bytes = cache_bytes(kv_types[type], HEADS, dim, CTX);
            void *a = new_bytes(bytes), *b = new_bytes(bytes);
            float *x = new_floats(HEADS * dim);
            for (uint32_t pos = 0; pos < CTX; pos++) {
                fill(x, HEADS * dim, (int)(pos % N_KINDS)); /* LARGE becomes infinity in f16 */
                ref->store_k(kv_types[type], x, HEADS, dim, CTX, pos, a);
                simd->store_k(kv_types[type], x, HEADS, dim, CTX, pos, b);
            }
            expect_same(a, b, bytes + 64, "store_k", simd->name);
            for (uint32_t pos = 0; pos < CTX; pos++) {
                fill(x, HEADS * dim, (int)(pos % N_KINDS));
                ref->store_v(kv_types[type], x, HEADS, dim, CTX, pos, a);
                simd->store_v(kv_types[type], x, HEADS, dim, CTX, pos, b);
            }
            expect_same(a, b, bytes + 64, "store_v", simd->name);
            free(a), free(b), free(x);
        }
    }
}

typedef struct attn_shape {
    uint32_t n_head, n_head_kv, dk, dv, n_ctx, pos0, n, window;
    float softcap;
} attn_shape;

static const attn_shape attn_shapes[] = {
    {1, 1, 64, 64, 16, 0, 1, 0, 0},            /* one position */
    {12, 2, 128, 128, 100, 37, 4, 0, 0},       /* six heads a group: a batch of six */
    {14, 2, 64, 64, 1100, 1020, 4, 0, 0},      /* seven; rows on both sides of a part's border */
    {3, 1, 96, 80, 2100, 2040, 9, 0, 0},       /* ragged elements, three parts, more rows than a batch */
    {8, 4, 256, 256, 300, 250, 2, 0, 50.0f},   /* softcap */
    {4, 1, 32, 32, 1300, 1021, 7, 9, 0},       /* a window that leaves a part within a batch */
    {4, 2, 64, 64, 2200, 2100, 3, 1090, 0},    /* a window over three parts */
    {2, 2, 40, 24, 70, 0, 33, 5, 20.0f},       /* from the beginning, ragged */
    {2, 1, 64, 64, 64, 1, 1, 1, 0},            /* a window of one */
};

/* Positions that no row sees hold what an empty cache might: NaN, so that touching them shows. */
static void fill_caches(const dct_attn_args *a, uint32_t n_pos, void *k, void *v) {
    float *x = new_floats((uint64_t)a->n_head_kv * (a->dk > a->dv ? a->dk : a->dv));
    memset(k, 0xff, cache_bytes(a->type_k, a->n_head_kv, a->dk, a->n_ctx));
    memset(v, 0xff, cache_bytes(a->type_v, a->n_head_kv, a->dv, a->n_ctx));
    for (uint32_t pos = 0; pos < n_pos; pos++) {
        fill(x, (uint64_t)a->n_head_kv * a->dk, USUAL);
        scalar()->store_k(a->type_k, x, a->n_head_kv, a->dk, a->n_ctx, pos, k);
        fill(x, (uint64_t)a->n_head_kv * a->dv, USUAL);
        scalar()->store_v(a->type_v, x, a->n_head_kv, a->dv, a->n_ctx, pos, v);
    }
    free(x);
}

static void check_attn_shape(const dct_kernels *ref, const dct_kernels *simd, const attn_shape *s, dct_dtype type_k, dct_dtype type_v) {
    dct_attn_args a = {.type_k = type_k, .type_v = type_v, .n_head = s->n_head, .n_head_kv = s->n_head_kv, .dk = s->dk, .dv = s->dv};
    a.n_ctx = s->n_ctx, a.pos0 = s->pos0, a.window = s->window, a.softcap = s->softcap;
    a.scale = 1.0f / (s->softcap != 0 ? 1.5f : 8.0f);
    a.q_stride = s->n_head * s->dk + 3;
    a.out_stride = s->n_head * s->dv + 5;
    a.n_part = (s->pos0 + s->n + DCT_PART_POSITIONS - 1) / DCT_PART_POSITIONS;
    const uint64_t out_floats = s->n * a.out_stride, part_floats = (uint64_t)s->n * s->n_head * a.n_part * (s->dv + 2);
    float *q = new_floats(s->n * a.q_stride), *out[3], *parts[2];
    void *k = new_bytes(cache_bytes(type_k, s->n_head_kv, s->dk, s->n_ctx)), *v = new_bytes(cache_bytes(type_v, s->n_head_kv, s->dv, s->n_ctx));
    for (int i = 0; i < 3; i++) out[i] = new_floats(out_floats);
    for (int i = 0; i < 2; i++) parts[i] = new_floats(part_floats);
    a.scratch = new_bytes(dct_attn_scratch_bytes(s->dv));
    fill(q, s->n * a.q_stride, USUAL);
    fill_caches(&a, s->pos0 + s->n, k, v);
    a.q = q, a.k = k, a.v = v;
    for (int i = 0; i < 2; i++) {
        const dct_kernels *table = i == 0 ? ref : simd;
        a.out = out[i], a.parts = parts[i];
        for (uint32_t h = 0; h < s->n_head_kv; h++) {
            for (uint32_t t = 0; t < s->n; t += DCT_ATTN_ROWS) table->attn(&a, h, t, t + DCT_ATTN_ROWS < s->n ? t + DCT_ATTN_ROWS : s->n);
            for (uint32_t t = 0; t < s->n; t++) {
                for (uint32_t j = 0; j < a.n_part; j++) table->attn_part(&a, h, t, j);
            }
        }
    }
    a.out = out[2];
    for (uint32_t t = 0; t < s->n; t++) {
        simd->attn_merge(&a, t, 0, 1);
        simd->attn_merge(&a, t, 1, s->n_head);
    }
    char what[128];
    snprintf(what, sizeof what, "%s/%s dk %u dv %u pos0 %u n %u window %u", dct_dtype_name(type_k), dct_dtype_name(type_v), s->dk, s->dv, s->pos0, s->n, s->window);
    expect_same(out[0], out[1], out_floats * 4 + 64, what, simd->name);
    expect_same(parts[0], parts[1], part_floats * 4 + 64, what, simd->name);
    expect_same(out[0], out[2], out_floats * 4 + 64, what, simd->name); /* the split form gives the bits of the whole */
    for (int i = 0; i < 3; i++) free(out[i]);
    free(parts[0]), free(parts[1]), free(q), free(k), free(v), free(a.scratch);
}

static void check_attention(const dct_kernels *ref, const dct_kernels *simd) {
    for (size_t i = 0; i < sizeof attn_shapes / sizeof *attn_shapes; i++) {
        const attn_shape *s = &attn_shapes[i];
        bool whole_blocks = s->dk % 32 == 0 && s->dv % 32 == 0; /* Q8_0 needs them */
        for (int kt = 0; kt < 4; kt++) {
            for (int vt = 0; vt < 4; vt++) {
                if (kt != vt && (i + (size_t)kt + (size_t)vt) % 3 != 0) continue; /* mixed pairs now and then */
                if ((kt == 3 || vt == 3) && !whole_blocks) continue;
                check_attn_shape(ref, simd, s, kv_types[kt], kv_types[vt]);
            }
        }
    }
}

static void caches(void **state) {
    (void)state;
    for_each_isa(check_stores);
}

static void attention(void **state) {
    (void)state;
    for_each_isa(check_attention);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products), cmocka_unit_test(streams),
        cmocka_unit_test(rows),
        cmocka_unit_test(caches),
        cmocka_unit_test(attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
