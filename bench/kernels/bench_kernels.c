/* bench_kernels: what the products reach on this machine, beside what its memory gives in the same run.
 *
 *     bench_kernels [rows of the prefill product, default 512]
 *
 * Each type: a decode product (one row) in GB/s of packed weights read, over a matrix far larger than any cache, and a
 * prefill product in GMAC/s; each on one thread and on two, which share the tiles by halves. The best of several turns is
 * printed. Numbers mean something only while nothing else runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "kernels/kernel.h"

enum { MAX_THREADS = 2, TURNS = 8, STACK_BYTES = 256 * 1024 };
static const uint32_t K = 8960, PREFILL_M = 1024; /* rows of activations must not lie a power of two apart */
static const uint64_t WEIGHT_BYTES = 256u << 20;

static _Alignas(64) char stacks[MAX_THREADS][STACK_BYTES];
static volatile uint64_t sink;

typedef uint64_t words __attribute__((vector_size(16)));
typedef struct line { words w[4]; } line;

/* A piece of work of one thread: part i of n. */
typedef struct job {
    void (*run)(const struct job *job);
    const dct_linear_args *args;
    const dct_kernels *table;
    const line *lines;
    uint64_t n_lines;
    uint32_t part, n_parts;
} job;

static void product_job(const job *j) {
    uint32_t n_tiles = (j->args->m + 15) / 16;
    j->table->linear[j->args->type](j->args, n_tiles * j->part / j->n_parts, n_tiles * (j->part + 1) / j->n_parts);
}

static void read_job(const job *j) {
    uint64_t begin = j->n_lines / j->n_parts * j->part, end = j->n_lines / j->n_parts * (j->part + 1);
    words a = {0}, b = {0};
    for (uint64_t i = begin; i < end; i++) {
        a ^= j->lines[i].w[0] ^ j->lines[i].w[1];
        b ^= j->lines[i].w[2] ^ j->lines[i].w[3];
    }
    sink = a[0] ^ b[1];
}

static void job_main(void *arg) {
    const job *j = arg;
    j->run(j);
}

/* Seconds of the best turn on n threads; negative when a thread could not start. */
static double time_jobs(const job *model, uint32_t n) {
    double best = 1e30;
    for (int turn = 0; turn < TURNS; turn++) {
        job jobs[MAX_THREADS];
        dct_thread threads[MAX_THREADS];
        uint64_t begin = dct_os_now_ns();
        for (uint32_t i = 0; i < n; i++) {
            jobs[i] = *model;
            jobs[i].part = i;
            jobs[i].n_parts = n;
            if (i > 0 && dct_thread_start(&threads[i], job_main, &jobs[i], stacks[i], STACK_BYTES, NULL) != DCT_OK) return -1;
        }
        job_main(&jobs[0]);
        for (uint32_t i = 1; i < n; i++) dct_thread_join(threads[i]);
        double seconds = (double)(dct_os_now_ns() - begin) * 1e-9;
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* Decode: as many rows of weights as make WEIGHT_BYTES. Prefill does not wait for memory, so few rows of weights will do. */
static void bench_type(const dct_kernels *table, dct_dtype type, uint64_t tile_bytes, const void *w, const void *x, float *y, uint32_t n) {
    const uint32_t n_tiles = (uint32_t)(WEIGHT_BYTES / tile_bytes);
    dct_linear_args a = {.type = type, .m = n_tiles * 16, .k = K, .w = w, .x = x, .n = 1, .y = y};
    a.x_stride = dct_dtype_is_float(type) ? (uint64_t)K * 4 : dct_q8_row_bytes(K);
    job j = {.run = product_job, .args = &a, .table = table};
    printf("%-8s", dct_dtype_name(type));
    for (uint32_t i = 1; i <= MAX_THREADS; i++) printf(" %10.1f", (double)(n_tiles * tile_bytes) / time_jobs(&j, i) * 1e-9);
    a.m = a.m < PREFILL_M ? a.m : PREFILL_M;
    a.n = n;
    a.y_stride = a.m;
    for (uint32_t i = 1; i <= MAX_THREADS; i++) printf(" %10.1f", (double)a.m * K * n / time_jobs(&j, i) * 1e-9);
    printf("\n");
}

int main(int argc, char **argv) {
    const uint32_t rows = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 512;
    const uint64_t x_bytes = (uint64_t)rows * K * 4, y_bytes = (uint64_t)(rows + 256) * PREFILL_M * 4;
    const dct_kernels *table = dct_kernels_best();
    void *w = dct_os_map(WEIGHT_BYTES), *x = dct_os_map(x_bytes), *y = dct_os_map(y_bytes);
    if (rows == 0 || w == NULL || x == NULL || y == NULL) {
        fprintf(stderr, "bench_kernels: no memory for %u rows\n", rows);
        return 1;
    }
    dct_os_want_huge_pages(w, WEIGHT_BYTES);
    dct_os_want_huge_pages(x, x_bytes);
    memset(w, 0x21, WEIGHT_BYTES); /* codes and scales of no interest, but finite and normal in every type */
    memset(x, 0x21, x_bytes);
    memset(y, 0, y_bytes);
    job j = {.run = read_job, .lines = w, .n_lines = WEIGHT_BYTES / sizeof(line)};
    double one = time_jobs(&j, 1), two = time_jobs(&j, 2);
    printf("%s; plain reads: %.1f GB/s on one thread, %.1f on two\n", table->name, (double)WEIGHT_BYTES / one * 1e-9, (double)WEIGHT_BYTES / two * 1e-9);
    printf("%-8s %21s %21s\n%-8s %10s %10s %10s %10s\n", "", "decode, GB/s", "prefill, GMAC/s", "type", "1 thread", "2", "1 thread", "2");
    for (int type = 0; type < DCT_TYPE_COUNT; type++) {
        uint64_t tile_bytes = 0;
        if (dct_layout_tile_bytes((dct_dtype)type, K, &tile_bytes)) bench_type(table, (dct_dtype)type, tile_bytes, w, x, y, rows);
    }
    return 0;
}
