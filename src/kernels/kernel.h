/* kernels/kernel: the arithmetic, as a table of functions filled once from what the processor has.
 *
 * The scalar functions (ref_*.c) are the definition; AVX2, AVX-512 and NEON files must give the same bits for every shape
 * (DESIGN §5). That works because every sum has one stated order:
 *
 * linear, quantised W   acc = 0; for each group g of the row, ascending (G = 16 or 32 columns):
 *                           acc = fma(ws*as, (float)isum, acc)           isum = exact integer dot of codes and activations
 *                           if the type has minima: acc = fma(-wm, as*(float)asum, acc)
 *                       ws, wm: the group's scale and minimum as f32 (d*sc rounds once, exactly representable); as: the scale
 *                       of the activation block of 32 that holds the group; asum: the sum of the group's activations. ws*as
 *                       and as*asum round. Zero points and tables are inside the integers, so they cost no rounding. A group
 *                       of 64 or 128 columns (MLX) is two or four of 32 with the same scale and minimum.
 * linear, float W       four partial sums p[j] = fma(w[k], x[k], p[j]) over k = j mod 4 ascending; (p0+p1)+(p2+p3)
 *     then y = acc; y = y + bias; y = residual + y; each step rounds.
 * rms_norm              sixteen partial sums s[k mod 16] = fma(x,x,s); tree16; y = (x * (1/sqrt(sum/n + eps))) * w
 * layer_norm            mean and variance from sixteen partial sums each, s[k mod 16] = s + x, then fma(d,d,s) with d = x - mean;
 *                       y = fma(d * (1/sqrt(variance + eps)), w, b)
 * mix                   y = w[0]*x[0]; y = fma(w[j], x[j], y) over j = 1.. ascending
 * route                 e = exp(s - max s); each over the sum of all, added in order; the largest first, ties to the lower number
 * tree16                s[i] += s[i+8]; s[i] += s[i+4]; s[i] += s[i+2]; s[0] + s[1]
 * softmax, attention    see dct_attn below
 * exp and its kin       dct_exp (math.h of this folder), the same operations everywhere
 *
 * Kernels never allocate, never fail, and touch nothing but their arguments. Pointers are 64-byte aligned unless said.
 */
#ifndef DCT_KERNELS_KERNEL_H
#define DCT_KERNELS_KERNEL_H

#include "kernels/layout.h"

typedef enum dct_act { DCT_ACT_SILU, DCT_ACT_GELU_TANH, DCT_ACT_SIGMOID } dct_act;
typedef enum dct_rope_style {
    DCT_ROPE_NORM, DCT_ROPE_NEOX, DCT_ROPE_MROPE
} dct_rope_style; /* pairs (2i,2i+1) | (i,i+n/2) | NEOX with sections */

/* ---- quantised activations: a row of k (a multiple of 32) ----
 *   int8 codes[k] | f32 scales[k/32] | i16 sums[k/16], the whole padded to 64 bytes. Block of 32: amax = max |x|;
 *   scale = amax/127; inverse = amax >= DCT_Q8_TINY ? 127/amax : 0 (127/amax must not overflow); code =
 *   round-half-even(x * inverse); sums are of 16 codes each. scale is NaN when an x is not finite,
 *   and then the codes and sums of that block are unspecified. */
#define DCT_Q8_TINY 0x1p-100f
static inline uint64_t dct_q8_row_bytes(uint64_t k) { return (k + k / 32 * 4 + k / 16 * 2 + 63) & ~(uint64_t)63; }
static inline const int8_t *dct_q8_codes(const void *row) { return row; }
static inline const float *dct_q8_scales(const void *row, uint64_t k) { return (const float *)((const char *)row + k); }
static inline const int16_t *dct_q8_sums(const void *row, uint64_t k) {
    return (const int16_t *)((const char *)row + k + k / 32 * 4);
}

/* ---- KV caches: F32, F16, BF16 or Q8_0; n_ctx is rounded up to 16 ----
 *   K of a head: blocks of 16 positions, element-major: [n_ctx/16][head_dim][16]
 *       Q8_0: codes int8 [n_ctx/16][head_dim][16], after all codes of the head: f16 scales [n_ctx/16][head_dim/32][16]
 *   V of a head: rows [n_ctx][head_dim];   Q8_0: codes int8 [n_ctx][head_dim], then f16 scales [n_ctx][head_dim/32]
 *   Q8_0 needs head_dim % 32 == 0; a block of 32 elements of one position: d = amax/127, code = round-half-even(x * inverse)
 *   with the inverse of activations above, stored scale f16(d). Heads follow one another; each head's part is a multiple of 64
 *   bytes. */
uint64_t dct_kv_head_bytes(dct_dtype type, uint32_t head_dim, uint32_t n_ctx); /* of a cache whose size is known to fit */

/* Bytes of a whole cache; false when they do not fit in 64 bits. */
bool dct_kv_bytes(dct_dtype type, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx, uint64_t *out) DCT_MUST_CHECK;

/* Moves the first n positions of all heads to where a cache for to_ctx positions has them. The caches may overlap: the one for
 * more positions begins where the other does, or later. */
void dct_kv_move(dct_dtype type, uint32_t n_head_kv, uint32_t head_dim, uint32_t n, const char *from, uint32_t from_ctx, char *to,
                 uint32_t to_ctx);

/* A product for tiles [tile_begin, tile_end) of W[m, k] and n rows. x: q8 rows (quantised W) or f32 rows (float W), row t at
 * x + t*x_stride BYTES. Output row r goes to y[t*y_stride + r - first_row], f32, y_stride in FLOATS; only r < m is written.
 * bias f32[m] or NULL; residual: NULL, or f32 laid as y (may be y itself). */
typedef struct dct_linear_args {
    dct_dtype type;
    uint32_t m, k;
    const void *w;
    const void *x;
    uint64_t x_stride;
    uint32_t n;
    float *y;
    uint64_t y_stride;
    uint32_t first_row;  /* y begins here: at most 16 * tile_begin */
    const float *bias;
    const float *residual;
} dct_linear_args;

enum { DCT_PART_POSITIONS = 1024 };

/* Attention of the query heads of ONE KV head over absolute positions, for rows t_begin <= t < t_end. Row t stands at position
 * pos0 + t and sees positions p with max(0, pos0+t-window+1) <= p <= pos0+t (window 0: from 0). For each part j of 1,024
 * positions that holds any of them, over just the positions it sees:
 *     s[p] = fma over d = 0..dk-1 ascending of (q[d], k[p][d]); s = s*scale; with softcap: s = cap * tanh(s/cap)
 *            (Q8_0 K: k[p][d] = f32(scale) * (float)code, rounded once, then as above)
 *     m = max s; e[p] = exp(s[p] - m); l = tree16 of sixteen sums over p mod 16 ascending
 *     a[d] = fma over p ascending of (e[p], v[p][d])        (Q8_0 V likewise)
 * and the parts are folded in order: first part as it is; then M = max(m, mj); c = exp(m-M); cj = exp(mj-M);
 * l = fma(lj, cj, l*c); a = fma(aj, cj, a*c); m = M. At the end out = a / l. */
typedef struct dct_attn_args {
    const float *q;      /* [row][n_head*dk], q_stride floats a row */
    uint64_t q_stride;
    const void *k, *v;   /* the whole caches of the layer */
    dct_dtype type_k, type_v;
    uint32_t n_head, n_head_kv, dk, dv, n_ctx;
    uint32_t pos0, window;
    uint32_t n_seen;     /* attn: 0, or every row sees positions 0..n_seen-1 whatever its own */
    float scale, softcap;
    float *out;          /* attn: [row][n_head*dv], out_stride floats a row */
    uint64_t out_stride;
    float *parts;        /* attn_part, attn_merge: [row][head][n_part][dv + 2] = (m, l, a[dv]) */
    uint32_t n_part;
    void *scratch;       /* dct_attn_scratch_bytes; private to the worker */
} dct_attn_args;

enum { DCT_ATTN_ROWS = 4 }; /* rows that attn may handle together; also the rows a piece has */

/* Scratch of attn and attn_part for one worker, for values of dv elements: the largest over the instruction sets. */
uint64_t dct_attn_scratch_bytes(uint32_t dv);

typedef struct dct_rope_args {
    float *x;            /* [row][n_head*head_dim], in place, stride floats a row */
    uint64_t stride;
    uint32_t n, n_head, head_dim, n_rot;
    const float *table;  /* [n_ctx][n_rot]: (cos, sin) pairs */
    const int32_t *pos;  /* [row][4]: t, h, w, 0 */
    dct_rope_style style;
    int32_t sections[4];
} dct_rope_args;

/* M-RoPE: pair i takes position stream t for i < s0, h for the next s1, w for the next s2, then t. NORM rotates (2i, 2i+1),
 * NEOX and MROPE (i, i + n_rot/2): a' = fma(a, cos, -(b*sin)); b' = fma(a, sin, b*cos). */

typedef struct dct_kernels {
    const char *name; /* "scalar", "avx2", "avx512", ... */
    void (*linear[DCT_TYPE_COUNT])(const dct_linear_args *args, uint32_t tile_begin, uint32_t tile_end);
    void (*quant_q8)(const float *x, uint32_t k, void *row);
    /* w[group]; y may be x */
    void (*rms_norm)(const float *x, const float *w, uint32_t group, uint32_t n_groups, float eps, float *y);
    void (*rope)(const dct_rope_args *args);
    void (*glu)(dct_act act, const float *gate, const float *up, uint32_t n, float *out); /* out may be gate */
    void (*add)(const float *a, const float *b, uint32_t n, float *out);
    void (*mul)(const float *a, const float *b, uint32_t n, float *out);
    void (*layer_norm)(const float *x, const float *w, const float *b, uint32_t n, float eps, float *y); /* y may be x */
    void (*mix)(const float *x, const float *w, uint32_t n_rows, uint32_t n, float *out); /* x[n_rows][n], w[n_rows] */
    /* Scores that are not numbers count as the least: whatever the scores, ids are different and below n. */
    void (*route)(const float *scores, uint32_t n, uint32_t n_used, bool renorm, int32_t *ids, float *weights);
    void (*softcap)(const float *x, uint32_t n, float cap, float *out);
    /* Row `row` of packed W as f32, times scale (scale 1 leaves the bits alone). */
    void (*embed)(dct_dtype type, uint32_t k, const void *w, uint32_t row, float scale, float *out);
    /* One position of every head: x is [n_head_kv*head_dim]. */
    void (*store_k)(dct_dtype type, const float *x, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx, uint32_t pos,
                    void *cache);
    void (*store_v)(dct_dtype type, const float *x, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx, uint32_t pos,
                    void *cache);
    void (*attn)(const dct_attn_args *args, uint32_t kv_head, uint32_t t_begin, uint32_t t_end);
    /* Partial j of row t, all query heads of kv_head. When row t sees no position of the part: m = -inf, l = 0, a = 0. */
    void (*attn_part)(const dct_attn_args *args, uint32_t kv_head, uint32_t t, uint32_t part);
    /* Folds the parts of row t, query heads [head_begin, head_end), into out; parts with l = 0 are skipped. */
    void (*attn_merge)(const dct_attn_args *args, uint32_t t, uint32_t head_begin, uint32_t head_end);
} dct_kernels;

typedef enum dct_isa {
    DCT_ISA_SCALAR,
    DCT_ISA_AVX2, DCT_ISA_AVX2_VNNI, DCT_ISA_AVX512, DCT_ISA_AVX512_VNNI,
    DCT_ISA_NEON, DCT_ISA_NEON_DOT,
    DCT_ISA_COUNT
} dct_isa;

/* The best this processor runs. Environment DCTMS_ISA=scalar|avx2|avx512|neon... lowers it (tests, bug reports). */
const dct_kernels *dct_kernels_best(void);

/* One instruction set's table, NULL when this build or processor lacks it. Entries an instruction set has no code for are the
 * scalar ones. */
const dct_kernels *dct_kernels_of(dct_isa isa);

/* Fills a rotary table [n_ctx][n_rot] from per-pair frequencies: freq[n_rot/2] in f64 (radians a position), and the
 * magnitude `mscale`. Own sin and cos: same bits on every machine. */
void dct_rope_fill(float *table, uint32_t n_ctx, uint32_t n_rot, const double *freq, double mscale);

/* base^exponent, natural exp, log, sine and cosine in f64 with the same bits on every machine (tables, sampler). */
double dct_pow64(double base, double exponent);
double dct_exp64(double x);
double dct_log64(double x);

#endif
