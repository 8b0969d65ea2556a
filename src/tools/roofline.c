/* tools/roofline: what the machine could do at most, measured by loops that do nothing else.
 *
 * Reads: a buffer far larger than the caches, in huge pages where there are any, in pieces that the workers claim as they claim
 * the pieces of a step; a piece is read as several streams side by side, without prefetch (docs/PERFORMANCE.md says why). Dots:
 * byte_dots.h. A ceiling is the best of many passes, what the machine gives when nobody disturbs it; their median is what it
 * gave.
 */
#include <stdlib.h>

#include "base/os.h"
#include "compile/compile.h"
#include "exec/exec.h"
#include "tools/byte_dots.h"
#include "tools/tools.h"

#define HUGE_BYTES ((uint64_t)2 << 20)
enum { STREAMS = 4, PIECES_A_WORKER = 8, ROUNDS = 1 << 14 };
static const uint64_t PIECE_BYTES = STREAMS * HUGE_BYTES, MOST_BYTES = (uint64_t)512 << 20;
static const uint64_t LEAST_NS = 250 * 1000 * 1000;
enum { LEAST_PASSES = 3, KEPT_PASSES = 512 };

typedef uint64_t words __attribute__((vector_size(16)));
typedef struct line { words w[4]; } line;

typedef struct field {
    const char *buffer;
    dct_byte_dots dots;
    _Atomic uint64_t sink; /* takes what was read, so that none of it is left out */
} field;

static words fold(const line *at) { return at->w[0] ^ at->w[1] ^ at->w[2] ^ at->w[3]; }

static void read_piece(void *ctx, uint32_t piece, uint32_t worker) {
    (void)worker;
    field *f = ctx;
    const line *at = (const line *)(const void *)(f->buffer + piece * PIECE_BYTES);
    const uint64_t n = HUGE_BYTES / sizeof(line);
    words a = {0}, b = {0}, c = {0}, d = {0};
    for (uint64_t i = 0; i < n; i++) {
        a ^= fold(&at[i]);
        b ^= fold(&at[i + n]);
        c ^= fold(&at[i + 2 * n]);
        d ^= fold(&at[i + 3 * n]);
    }
    a ^= b ^ c ^ d;
    atomic_fetch_add_explicit(&f->sink, a[0] ^ a[1], memory_order_relaxed);
}

static void dot_piece(void *ctx, uint32_t piece, uint32_t worker) {
    (void)piece, (void)worker;
    ((const field *)ctx)->dots.run(ROUNDS);
}

static void empty_piece(void *ctx, uint32_t piece, uint32_t worker) { (void)ctx, (void)piece, (void)worker; }

typedef struct seconds { double best, median; } seconds;

static int by_length(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Of passes over n_pieces; the median is that of the last KEPT_PASSES. */
static seconds time_passes(dct_pool *pool, void (*fn)(void *, uint32_t, uint32_t), field *f, uint32_t n_pieces) {
    uint64_t took[KEPT_PASSES], best = UINT64_MAX, begin = dct_os_now_ns();
    size_t n = 0;
    for (; n < LEAST_PASSES || dct_os_now_ns() - begin < LEAST_NS; n++) {
        const uint64_t start = dct_os_now_ns();
        dct_pool_run(pool, fn, f, n_pieces);
        uint64_t ns = dct_os_now_ns() - start;
        ns = ns > 0 ? ns : 1;
        best = ns < best ? ns : best;
        took[n % KEPT_PASSES] = ns;
    }
    n = n < KEPT_PASSES ? n : KEPT_PASSES;
    qsort(took, n, sizeof *took, by_length);
    return (seconds){(double)best * 1e-9, (double)took[n / 2] * 1e-9};
}

/* What n_workers reach. */
typedef struct reached {
    double bytes_per_s, macs_per_s, bytes_per_s_median, macs_per_s_median, wait_s;
} reached;

/* A quarter of what could be had at most, so that measuring never drives anybody out of memory. */
static uint64_t buffer_bytes(void) {
    dct_mem_available have;
    dct_os_mem_available(NULL, &have);
    uint64_t bytes = have.available_bytes / 4 < MOST_BYTES ? have.available_bytes / 4 : MOST_BYTES;
    return bytes < PIECE_BYTES ? PIECE_BYTES : bytes / PIECE_BYTES * PIECE_BYTES;
}

/* What is measured with, for up to n_workers. */
typedef struct ground {
    field f;
    char *buffer, *control;
    uint64_t bytes, control_bytes;
} ground;

static void close_ground(ground *g) {
    dct_os_unmap(g->buffer, g->bytes);
    dct_os_unmap(g->control, g->control_bytes);
}

static dct_status open_ground(ground *g, uint32_t n_workers, uint32_t most, dct_err *err) {
    if (n_workers == 0 || n_workers > most)
        return dct_fail(err, DCT_USAGE, "%u workers: 1 to %u can be measured", n_workers, most);
    *g = (ground){.bytes = buffer_bytes()};
    g->control_bytes = dct_pool_bytes(n_workers) + (uint64_t)(n_workers - 1) * DCT_WORKER_STACK;
    g->buffer = dct_os_map_huge(g->bytes);
    g->control = dct_os_map(g->control_bytes);
    dct_status status = DCT_OK;
    if (g->buffer == NULL || g->control == NULL)
        status = dct_fail(err, DCT_SYSTEM, "no memory to measure the machine with: %llu bytes",
                          (unsigned long long)(g->bytes + g->control_bytes));
    if (status == DCT_OK) status = dct_os_populate(g->buffer, g->bytes, err);
    if (status != DCT_OK) {
        close_ground(g);
        return status;
    }
    g->f.buffer = g->buffer;
    g->f.dots = dct_byte_dots_of(dct_kernels_best());
    return DCT_OK;
}

static dct_status measure(ground *g, uint32_t n_workers, reached *out, dct_err *err) {
    dct_pool *pool;
    char *stacks = g->control + dct_pool_bytes(n_workers);
    dct_status status = dct_pool_start(g->control, n_workers, stacks, DCT_WORKER_STACK, &pool, err);
    if (status != DCT_OK) return status;
    const uint32_t n_pieces = (uint32_t)(g->bytes / PIECE_BYTES), n_dots = n_workers * PIECES_A_WORKER;
    const double bytes = (double)(n_pieces * PIECE_BYTES), macs = (double)n_dots * ROUNDS * g->f.dots.macs_per_round;
    const seconds read = time_passes(pool, read_piece, &g->f, n_pieces), dot = time_passes(pool, dot_piece, &g->f, n_dots);
    *out = (reached){bytes / read.best, macs / dot.best, bytes / read.median, macs / dot.median,
                     time_passes(pool, empty_piece, &g->f, n_workers).best};
    dct_pool_stop(pool);
    return DCT_OK;
}

dct_status dct_roofline_measure(uint32_t n_workers, dct_roofline *out, dct_err *err) {
    ground g;
    reached one = {0}, all = {0};
    dct_status status = open_ground(&g, n_workers, DCT_ROOFLINE_WORKERS, err);
    if (status != DCT_OK) return status;
    status = measure(&g, 1, &one, err);
    if (status == DCT_OK) status = measure(&g, n_workers, &all, err);
    close_ground(&g);
    if (status != DCT_OK) return status;
    *out = (dct_roofline){
        .n_workers = n_workers, .bytes_per_s_one = one.bytes_per_s, .bytes_per_s_all = all.bytes_per_s,
        .bytes_per_s_median = all.bytes_per_s_median, .macs_per_s_one = one.macs_per_s, .macs_per_s_all = all.macs_per_s,
        .macs_per_s_median = all.macs_per_s_median, .wait_s_all = all.wait_s,
    };
    return DCT_OK;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* What fewer workers reach, more reach as well: one of them may rest. */
dct_status dct_calibrate(uint32_t n_workers, void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
                         void (*write)(void *ctx, const char *text, size_t n), void *ctx, dct_err *err) {
    dct_rates rates[DCT_CALIBRATE_WORKERS];
    ground g;
    dct_status status = open_ground(&g, n_workers, DCT_CALIBRATE_WORKERS, err);
    if (status != DCT_OK) return status;
    for (uint32_t i = 0; i < n_workers && status == DCT_OK; i++) {
        reached all = {0};
        if (progress != NULL) progress(progress_ctx, i, n_workers);
        status = measure(&g, i + 1, &all, err);
        const dct_rates fewer = i > 0 ? rates[i - 1] : (dct_rates){.bytes_per_s = 1, .macs_per_s = 1};
        rates[i] = (dct_rates){.bytes_per_s = larger((uint64_t)all.bytes_per_s, fewer.bytes_per_s),
                               .macs_per_s = larger((uint64_t)all.macs_per_s, fewer.macs_per_s),
                               .wait_ns = (uint64_t)(all.wait_s * 1e9)};
    }
    close_ground(&g);
    if (status != DCT_OK) return status;
    if (progress != NULL) progress(progress_ctx, n_workers, n_workers);
    dct_profile_write(rates, n_workers, write, ctx);
    return DCT_OK;
}
