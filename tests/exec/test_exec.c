/* The walk over steps, on graphs made by hand whose kernels are slow at random. The verifier is not needed here: this file stands in
 * for it with a plan of its own. */
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

enum { MAX_WORKERS = 8, ROWS = 24, COLS = 64, LAYERS = 6, N_STEPS = 1 + 3 * LAYERS };

struct dct_checked_plan { const dct_plan *plan; };
const dct_plan *dct_checked_plan_get(const dct_checked_plan *checked) { return checked->plan; }

/* ---- slow kernels with results that show a missed or early piece ---- */

static _Atomic uint32_t n_calls;

static void nap(void) {
    uint64_t r = dct_hash_mix(atomic_fetch_add(&n_calls, 1));
    if (r % 97 != 0) return;
    nanosleep(&(struct timespec){0, (long)(r >> 8) % 100000}, NULL);
}

static void slow_norm(const float *x, const float *w, uint32_t group, uint32_t n_groups, float eps, float *y) {
    (void)eps;
    nap();
    for (uint32_t i = 0; i < group * n_groups; i++) y[i] = x[i] * w[i % group] + 1;
}

static void slow_add(const float *a, const float *b, uint32_t n, float *out) {
    nap();
    for (uint32_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

static void slow_softcap(const float *x, uint32_t n, float cap, float *out) {
    nap();
    for (uint32_t i = 0; i < n; i++) out[i] = x[i] - cap;
}

static const dct_kernels slow_kernels = {.name = "slow", .rms_norm = slow_norm, .add = slow_add, .softcap = slow_softcap};

/* ---- a plan: a chain of norm (+ add as tail), softcap, add; places and waits by hand ---- */

typedef struct world {
    dct_arena arena;
    dct_plan plan;
    dct_checked_plan checked;
    char *base;
    dct_bases bases;
    dct_value_id first, last;
    uint32_t n_workers;
    void *pool_memory, *stacks, *exec_memory;
    dct_pool *pool;
    dct_exec *exec;
} world;

static dct_op op2(dct_op_kind kind, dct_value_id a, dct_value_id b, dct_value_id out) {
    dct_op op;
    memset(&op, 0, sizeof op);
    op.kind = kind;
    op.n_in = b == DCT_NONE ? 1 : 2;
    op.n_out = 1;
    op.in[0] = a;
    op.in[1] = b;
    op.out[0] = out;
    op.p.group = COLS;
    op.p.softcap = 0.25f;
    return op;
}

static dct_value_id value(dct_graph *g, const char *name) {
    return dct_graph_value(g, name, -1, DCT_KIND_INTERMEDIATE, DCT_FMT_F32, ROWS, COLS);
}

static void add_step(dct_phase *p, uint32_t first_worker, uint32_t n_workers, dct_op_id op, uint32_t n_ops, int32_t wait_a, int32_t wait_b) {
    dct_step *s = &p->steps[p->n_steps++];
    s->n_ops = n_ops;
    for (uint32_t i = 0; i < n_ops; i++) s->ops[i] = op + i;
    s->worker_first = first_worker;
    s->n_workers = n_workers;
    s->wait_begin = p->n_waits;
    if (wait_a >= 0) p->waits[p->n_waits++] = (uint32_t)wait_a;
    if (wait_b >= 0) p->waits[p->n_waits++] = (uint32_t)wait_b;
    s->n_waits = p->n_waits - s->wait_begin;
}

/* Each layer: y = norm(x), then (tail) z = y + x; on other workers meanwhile u = x - cap; then x' = z + u. The side step runs on the last
 * worker alone. */
static void build(world *w, uint32_t n_workers) {
    memset(w, 0, sizeof *w);
    dct_arena_init(&w->arena, 0);
    w->n_workers = n_workers;
    w->plan.bounds.threads = n_workers;
    w->plan.n_phases = 1;
    dct_phase *p = &w->plan.phases[0];
    p->kind = DCT_PHASE_DECODE;
    p->rows = ROWS;
    dct_graph *g = &p->graph;
    dct_graph_init(g, &w->arena, ROWS);
    p->steps = dct_arena_array(&w->arena, N_STEPS, sizeof *p->steps);
    p->waits = dct_arena_array(&w->arena, 2 * N_STEPS, sizeof *p->waits);
    dct_value_id weight = dct_graph_value(g, "w", -1, DCT_KIND_INTERMEDIATE, DCT_FMT_F32, 1, COLS), x = value(g, "x");
    w->first = x;
    int32_t before = -1;
    for (uint32_t i = 0; i < LAYERS; i++) {
        dct_value_id y = value(g, "y"), z = value(g, "z"), u = value(g, "u"), next = value(g, "next");
        dct_op ops[] = {op2(DCT_OP_RMS_NORM, x, weight, y), op2(DCT_OP_ADD, y, x, z), op2(DCT_OP_SOFTCAP, x, DCT_NONE, u), op2(DCT_OP_ADD, z, u, next)};
        dct_op_id first = g->n_ops;
        for (uint32_t k = 0; k < 4; k++) dct_graph_op(g, &ops[k]);
        int32_t step = (int32_t)p->n_steps;
        add_step(p, 0, n_workers, first, 2, before, -1);
        add_step(p, n_workers - 1, 1, first + 2, 1, before, -1);
        add_step(p, 0, n_workers, first + 3, 1, step, step + 1);
        before = step + 2;
        x = next;
    }
    w->last = x;
    assert_int_equal(g->status, DCT_OK);
    p->places = dct_arena_array(&w->arena, g->n_values, sizeof *p->places);
    p->scratch = dct_arena_array(&w->arena, g->n_ops, sizeof *p->scratch);
    uint64_t offset = 0;
    for (uint32_t v = 0; v < g->n_values; v++) {
        p->places[v] = (dct_place){DCT_REGION_ARENA, offset};
        offset += g->values[v].bytes;
    }
    for (uint32_t i = 0; i < g->n_ops; i++) p->scratch[i] = DCT_NONE;
    w->base = aligned_alloc(64, offset);
    w->checked.plan = &w->plan;

    dct_err err;
    w->pool_memory = aligned_alloc(64, dct_pool_bytes(n_workers));
    w->stacks = aligned_alloc(4096, (size_t)MAX_WORKERS * DCT_WORKER_STACK);
    assert_int_equal(dct_pool_start(w->pool_memory, n_workers, w->stacks, DCT_WORKER_STACK, &w->pool, &err), DCT_OK);
    w->exec_memory = aligned_alloc(64, dct_exec_bytes(&w->plan));
    w->bases.of[DCT_REGION_ARENA] = w->base;
    assert_int_equal(dct_exec_init(w->exec_memory, &w->checked, &w->bases, &slow_kernels, w->pool, &w->exec, &err), DCT_OK);
    float *weights = dct_exec_value(w->exec, DCT_PHASE_DECODE, weight);
    for (uint32_t c = 0; c < COLS; c++) weights[c] = 0.5f;
}

static void drop(world *w) {
    dct_pool_stop(w->pool);
    free(w->exec_memory);
    free(w->pool_memory);
    free(w->stacks);
    free(w->base);
    dct_arena_deinit(&w->arena);
}

static float expected(float x) {
    for (uint32_t i = 0; i < LAYERS; i++) {
        float y = x * 0.5f + 1, z = y + x, u = x - 0.25f;
        x = z + u;
    }
    return x;
}

static void results_do_not_depend_on_workers(void **state) {
    (void)state;
    for (uint32_t n_workers = 1; n_workers <= MAX_WORKERS; n_workers++) {
        world w;
        build(&w, n_workers);
        for (uint32_t run = 0; run < 400; run++) {
            uint32_t n = 1 + run % ROWS;
            float *x = dct_exec_value(w.exec, DCT_PHASE_DECODE, w.first), *y = dct_exec_value(w.exec, DCT_PHASE_DECODE, w.last);
            for (uint32_t i = 0; i < n * COLS; i++) x[i] = (float)((run + i) % 11);
            memset(y, 0xff, ROWS * COLS * sizeof *y);
            dct_exec_run(w.exec, DCT_PHASE_DECODE, n, 0);
            for (uint32_t i = 0; i < n * COLS; i++) assert_true(y[i] == expected((float)((run + i) % 11)));
        }
        assert_int_equal(dct_exec_waits(w.exec), 400 * w.plan.phases[0].n_waits);
        drop(&w);
    }
}

static void a_pool_of_another_size_is_refused(void **state) {
    (void)state;
    world w;
    build(&w, 2);
    dct_err err;
    dct_exec *exec = NULL;
    w.plan.bounds.threads = 3;
    assert_int_equal(dct_exec_init(w.exec_memory, &w.checked, &w.bases, &slow_kernels, w.pool, &exec, &err), DCT_BUG);
    assert_null(exec);
    drop(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_do_not_depend_on_workers),
        cmocka_unit_test(a_pool_of_another_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
