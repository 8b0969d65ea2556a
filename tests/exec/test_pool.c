/* The pool and its gates: every piece once, by somebody; late workers claim nothing; idle costs nothing. Workers are more than
 * processors, and pieces sleep at random, so that workers are late all the time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/hash.h"
#include "exec/exec.h"
#include "exec/gate.h"

enum { MAX_WORKERS = 8 };

typedef struct team {
    void *memory, *stacks;
    dct_pool *pool;
} team;

static team start(uint32_t n_workers) {
    team t;
    dct_err err;
    t.memory = aligned_alloc(64, dct_pool_bytes(n_workers));
    t.stacks = aligned_alloc(4096, (size_t)MAX_WORKERS * DCT_WORKER_STACK);
    assert_int_equal(dct_pool_start(t.memory, n_workers, t.stacks, DCT_WORKER_STACK, &t.pool, &err), DCT_OK);
    assert_int_equal(dct_pool_workers(t.pool), n_workers);
    return t;
}

static void stop(team t) {
    dct_pool_stop(t.pool);
    free(t.memory);
    free(t.stacks);
}

static void nap(uint32_t seed) {
    uint64_t r = dct_hash_mix(seed);
    if (r % 64 != 0) return;
    struct timespec ts = {0, (long)(r >> 8) % 200000};
    nanosleep(&ts, NULL);
}

typedef struct count_work {
    uint32_t salt, *hits; /* plain memory: each piece has its own, and the owner reads it after the run */
    uint32_t n_workers;
    _Atomic uint32_t bad_workers;
} count_work;

static void count_piece(void *ctx, uint32_t piece, uint32_t worker) {
    count_work *w = ctx;
    if (worker >= w->n_workers) atomic_fetch_add(&w->bad_workers, 1);
    nap(w->salt * 7919 + piece);
    w->hits[piece]++;
}

static void every_piece_runs_once(void **state) {
    (void)state;
    for (uint32_t n_workers = 1; n_workers <= MAX_WORKERS; n_workers++) {
        team t = start(n_workers);
        for (uint32_t run = 0; run < 1500; run++) {
            uint32_t n_pieces = run % 23, hits[32] = {0};
            count_work w = {run, hits, n_workers, 0};
            dct_pool_run(t.pool, count_piece, &w, n_pieces);
            for (uint32_t i = 0; i < 32; i++) assert_int_equal(hits[i], i < n_pieces);
            assert_int_equal(atomic_load(&w.bad_workers), 0);
        }
        stop(t);
    }
}

static void an_old_claim_fails(void **state) {
    (void)state;
    dct_gate gate;
    memset(&gate, 0, sizeof gate);
    uint32_t piece = 99;
    assert_true(dct_gate_claim(&gate, 1, 2, &piece));
    assert_int_equal(piece, 0);
    assert_true(dct_gate_claim(&gate, 1, 2, &piece));
    assert_int_equal(piece, 1);
    assert_false(dct_gate_claim(&gate, 1, 2, &piece)); /* none left */
    assert_false(dct_gate_finish(&gate, 2));
    assert_false(dct_gate_is_closed(&gate, 1));
    assert_true(dct_gate_finish(&gate, 2));
    dct_gate_close(&gate, 1);
    assert_true(dct_gate_is_closed(&gate, 1));
    assert_true(dct_gate_claim(&gate, 2, 5, &piece)); /* the next run begins at 0 */
    assert_int_equal(piece, 0);
    assert_false(dct_gate_claim(&gate, 1, 5, &piece)); /* a worker of run 1 comes late */
    assert_true(dct_gate_claim(&gate, 2, 5, &piece));
    assert_int_equal(piece, 1);
}

static void run_numbers_wrap(void **state) {
    (void)state;
    dct_gate gate;
    memset(&gate, 0, sizeof gate);
    uint32_t piece;
    atomic_store(&gate.next, (uint64_t)UINT32_MAX << 32 | 3);
    atomic_store(&gate.complete, UINT32_MAX);
    assert_false(dct_gate_is_closed(&gate, 0));
    assert_true(dct_gate_claim(&gate, 0, 1, &piece));
    assert_int_equal(piece, 0);
    assert_false(dct_gate_claim(&gate, UINT32_MAX, 9, &piece));
}

/* Processor time of all threads. */
static double cpu_seconds(void) {
    struct timespec used;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static void idle_workers_sleep(void **state) {
    (void)state;
    team t = start(4);
    uint32_t hits[4] = {0};
    count_work w = {1, hits, 4, 0};
    dct_pool_run(t.pool, count_piece, &w, 4);
    struct timespec half = {0, 300000000};
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    double before = cpu_seconds();
    nanosleep(&half, NULL);
    assert_true(cpu_seconds() - before < 0.01);
    stop(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_runs_once),
        cmocka_unit_test(an_old_claim_fails),
        cmocka_unit_test(run_numbers_wrap),
        cmocka_unit_test(idle_workers_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
