#include "support/oracle_math.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/layout.h"

void *oracle_alloc(size_t n, size_t item_bytes) {
    void *out = calloc(n == 0 ? 1 : n, item_bytes);
    if (out == NULL) {
        fprintf(stderr, "oracle: no memory for %zu x %zu bytes\n", n, item_bytes);
        abort();
    }
    return out;
}

static const dct_tensor *tensor_of(const dct_model *model, const dct_weight *w, dct_err *err) {
    const dct_tensor *tensor = dct_model_find_tensor(model, w->tensor);
    if (tensor == NULL) dct_fail(err, DCT_BUG, "oracle: no tensor '%s'", w->tensor);
    return tensor;
}

/* Rows [begin, begin + n) of the weight, read from the file and de-quantised. `raw` holds n rows as the file has them. */
static dct_status read_rows(const dct_model *model, const dct_weight *w, const dct_tensor *tensor, uint32_t begin, uint32_t n, uint8_t *raw, float *out,
                            dct_err *err) {
    uint64_t row_bytes;
    if (!dct_dtype_row_bytes(w->type, w->n_cols, &row_bytes)) return dct_fail(err, DCT_BUG, "oracle: rows of '%s'", w->tensor);
    dct_status status = dct_model_read_tensor(model, tensor, ((uint64_t)w->row_begin + begin) * row_bytes, raw, n * row_bytes, err);
    if (status != DCT_OK) return status;
    for (uint32_t r = 0; r < n; r++) dct_dequant_row(w->type, w->n_cols, raw + r * row_bytes, out + (size_t)r * w->n_cols);
    return DCT_OK;
}

dct_status oracle_weight_row(const dct_model *model, const dct_weight *w, uint32_t r, float *out, dct_err *err) {
    const dct_tensor *tensor = tensor_of(model, w, err);
    if (tensor == NULL) return DCT_BUG;
    uint8_t *raw = oracle_alloc((size_t)w->n_cols + 256, 4);
    dct_status status = read_rows(model, w, tensor, r, 1, raw, out, err);
    free(raw);
    return status;
}

/* ---- products ---- */

typedef float lanes __attribute__((vector_size(32)));
enum { LANES = 8, FOLD = 512, CHUNK_ROWS = 16, GROUP = 4 };

/* y[i] = w[i] . x for four rows of w that lie k apart. Eight f32 sums a row, folded into f64 every FOLD columns, so that
 * the sum of many columns keeps its digits. */
static void dot4(const float *w, const float *x, uint32_t k, float y[GROUP]) {
    double total[GROUP] = {0};
    for (uint32_t from = 0; from < k; from += FOLD) {
        uint32_t upto = k - from < FOLD ? k : from + FOLD, c = from;
        lanes acc[GROUP] = {{0}};
        for (; c + LANES <= upto; c += LANES) {
            lanes xv, wv;
            memcpy(&xv, x + c, sizeof xv);
            for (int i = 0; i < GROUP; i++) {
                memcpy(&wv, w + (size_t)i * k + c, sizeof wv);
                acc[i] += wv * xv;
            }
        }
        for (int i = 0; i < GROUP; i++) {
            for (int l = 0; l < LANES; l++) total[i] += (double)acc[i][l];
            for (uint32_t rest = c; rest < upto; rest++) total[i] += (double)w[(size_t)i * k + rest] * (double)x[rest];
        }
    }
    for (int i = 0; i < GROUP; i++) y[i] = (float)total[i];
}

static float dot1(const float *w, const float *x, uint32_t k) {
    double total = 0;
    for (uint32_t c = 0; c < k; c++) total += (double)w[c] * (double)x[c];
    return (float)total;
}

typedef struct product {
    const dct_model *model;
    const dct_weight *w;
    const dct_tensor *tensor;
    const float *x;
    uint32_t n;
    float *y;
    atomic_uint next; /* first row that nobody took */
} product;

typedef struct helper {
    product *p;
    dct_status status;
    dct_err err;
} helper;

/* One worker: takes chunks of weight rows until none is left. */
static void *multiply(void *arg) {
    helper *self = arg;
    product *p = self->p;
    uint32_t k = p->w->n_cols, m = p->w->n_rows;
    uint8_t *raw = oracle_alloc((size_t)CHUNK_ROWS * ((size_t)k + 256), 4);
    float *rows = oracle_alloc((size_t)CHUNK_ROWS * k, sizeof(float));
    for (;;) {
        uint32_t begin = atomic_fetch_add(&p->next, CHUNK_ROWS);
        if (begin >= m) break;
        uint32_t count = m - begin < CHUNK_ROWS ? m - begin : CHUNK_ROWS;
        self->status = read_rows(p->model, p->w, p->tensor, begin, count, raw, rows, &self->err);
        if (self->status != DCT_OK) break;
        for (uint32_t t = 0; t < p->n; t++) {
            const float *x = p->x + (size_t)t * k;
            float *y = p->y + (size_t)t * m + begin;
            uint32_t r = 0;
            for (; r + GROUP <= count; r += GROUP) dot4(rows + (size_t)r * k, x, k, y + r);
            for (; r < count; r++) y[r] = dot1(rows + (size_t)r * k, x, k);
        }
    }
    free(rows);
    free(raw);
    return NULL;
}

enum { MAX_THREADS = 8 };

static uint32_t n_threads_for(uint64_t work) {
    if (work < 1u << 20) return 1;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (uint32_t)n;
}

dct_status oracle_product(const dct_model *model, const dct_weight *w, const float *x, uint32_t n, float *y, dct_err *err) {
    product p = {.model = model, .w = w, .tensor = tensor_of(model, w, err), .x = x, .n = n, .y = y};
    if (p.tensor == NULL) return DCT_BUG;
    helper helpers[MAX_THREADS] = {{0}};
    pthread_t threads[MAX_THREADS];
    uint32_t wanted = n_threads_for((uint64_t)w->n_rows * w->n_cols), started = 1;
    for (uint32_t i = 0; i < wanted; i++) helpers[i].p = &p;
    while (started < wanted && pthread_create(&threads[started], NULL, multiply, &helpers[started]) == 0) started++;
    multiply(&helpers[0]);
    for (uint32_t i = 1; i < started; i++) pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < started; i++) {
        if (helpers[i].status == DCT_OK) continue;
        *err = helpers[i].err;
        return helpers[i].status;
    }
    return DCT_OK;
}

/* ---- rotation ---- */

static const double two_pi = 6.283185307179586476925286766559;

/* Where YaRN's ramp stands for a pair: 1 keeps the trained frequency, 0 stretches it. */
static double yarn_keep(const dct_rope_table *table, double pair) {
    double ends[2] = {(double)table->beta_fast, (double)table->beta_slow}, at[2];
    for (int i = 0; i < 2; i++) at[i] = table->n_rot * log(table->orig_ctx / (ends[i] * two_pi)) / (2 * log((double)table->base));
    double low = fmax(0, floor(at[0])), high = fmin(table->n_rot - 1.0, ceil(at[1]));
    double ramp = (pair - low) / fmax(0.001, high - low);
    return (1 - fmin(1, fmax(0, ramp))) * (double)table->ext_factor;
}

dct_status oracle_frequencies(const dct_model *model, const dct_rope_table *table, double *freq, double *mscale, dct_err *err) {
    uint32_t n = table->n_rot / 2;
    float *divisors = oracle_alloc(n, sizeof(float));
    dct_status status = DCT_OK;
    if (table->factors_tensor[0] != '\0') {
        dct_weight w = {.type = DCT_TYPE_F32, .n_rows = 1, .n_cols = n, .is_vector = true};
        snprintf(w.tensor, sizeof w.tensor, "%s", table->factors_tensor);
        const dct_tensor *tensor = tensor_of(model, &w, err);
        if (tensor != NULL) w.type = tensor->type;
        status = tensor == NULL ? DCT_BUG : oracle_weight_row(model, &w, 0, divisors, err);
    } else {
        for (uint32_t i = 0; i < n; i++) divisors[i] = 1;
    }
    bool stretched = table->scaling == DCT_ROPE_LINEAR || table->scaling == DCT_ROPE_YARN;
    for (uint32_t i = 0; i < n; i++) {
        double trained = pow((double)table->base, -2.0 * i / table->n_rot) / (double)divisors[i];
        double keep = table->scaling == DCT_ROPE_YARN && table->ext_factor != 0 ? yarn_keep(table, i) : 0;
        freq[i] = stretched ? trained / (double)table->factor * (1 - keep) + trained * keep : trained;
    }
    *mscale = (double)table->attn_factor;
    if (table->scaling == DCT_ROPE_YARN && table->ext_factor != 0) *mscale *= 1 + 0.1 * log((double)table->factor);
    free(divisors);
    return status;
}

/* Which of the four position streams turns pair i. */
static int32_t position_of(const dct_op_params *p, const int32_t position[4], uint32_t pair) {
    if (p->rope_style != DCT_ROPE_MROPE) return position[0];
    int64_t h = p->sections[0], w = h + p->sections[1], end = w + p->sections[2];
    return position[pair < h ? 0 : pair < w ? 1 : pair < end ? 2 : 0];
}

void oracle_rotate(float *x, const dct_op_params *p, const double *freq, double mscale, const int32_t position[4]) {
    for (uint32_t i = 0; i < p->n_rot / 2; i++) {
        double angle = position_of(p, position, i) * freq[i];
        double c = cos(angle) * mscale, s = sin(angle) * mscale;
        uint32_t first = p->rope_style == DCT_ROPE_NORM ? 2 * i : i;
        uint32_t second = p->rope_style == DCT_ROPE_NORM ? 2 * i + 1 : i + p->n_rot / 2;
        for (uint32_t head = 0; head < p->n_head; head++) {
            float *a = x + (size_t)head * p->head_dim + first, *b = x + (size_t)head * p->head_dim + second;
            double before = (double)*a;
            *a = (float)(before * c - (double)*b * s);
            *b = (float)(before * s + (double)*b * c);
        }
    }
}
