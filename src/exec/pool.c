/* exec/pool: worker threads that wait for jobs.
 *
 * A job is published under a sequence number: odd while it is being written, even when it stands. A worker copies the job
 * and looks at the number again; when it moved, it copies again, so a worker always acts on one whole job (Boehm, "Can
 * seqlocks get along with programming language memory models?", 2012). Nobody waits for a worker to take a job: jobs
 * hand out their work in pieces through gates, and a worker that comes late finds nothing to claim.
 */
#include "exec/pool.h"

#include <string.h>

#include "base/size.h"

enum {
    SPIN_NS = 40000,
    LOOKS = 25,           /* for workers that were stopped, before sleeping: half a millisecond */
    LOOK_NS = SPIN_NS / 2 /* before each */
};

typedef struct worker {
    dct_seat seat;
    dct_pool *pool;
    uint32_t index;
    dct_thread thread;
} worker;

struct dct_pool {
    alignas(64) _Atomic uint32_t sequence; /* futex word */
    _Atomic uint32_t sleepers;             /* workers asleep on `sequence` */
    _Atomic uintptr_t fn, ctx;             /* the published job */
    _Atomic uint32_t arg[4];
    dct_gate gate;                         /* of dct_pool_run */
    uint32_t run;                          /* number of the last dct_pool_run */
    void (*work_fn)(void *ctx, uint32_t piece, uint32_t worker);
    void *work_ctx;
    uint32_t n_workers;
    uint64_t spin_ns;
    worker workers[];                      /* [0] is the caller, which has no thread */
};

uint64_t dct_pool_bytes(uint32_t n_workers) {
    return dct_round_up(sizeof(dct_pool) + (uint64_t)n_workers * sizeof(worker), 64);
}

uint32_t dct_pool_workers(const dct_pool *pool) { return pool->n_workers; }
dct_seat *dct_pool_seat(dct_pool *pool, uint32_t index) { return &pool->workers[index].seat; }
void dct_pool_enter(dct_pool *pool) { dct_seat_take(&pool->workers[0].seat); }
void dct_pool_leave(dct_pool *pool) { dct_seat_leave(&pool->workers[0].seat); }

/* A job without a function ends the workers. Stores are release and loads acquire, so that the two looks at the sequence
 * stay on their sides of the copy. */
void dct_pool_post(dct_pool *pool, const dct_job *job) {
    uint32_t sequence = atomic_load_explicit(&pool->sequence, memory_order_relaxed);
    atomic_store_explicit(&pool->sequence, sequence + 1, memory_order_relaxed);
    atomic_store_explicit(&pool->fn, (uintptr_t)job->fn, memory_order_release);
    atomic_store_explicit(&pool->ctx, (uintptr_t)job->ctx, memory_order_release);
    for (uint32_t i = 0; i < 4; i++) atomic_store_explicit(&pool->arg[i], job->arg[i], memory_order_release);
    atomic_store(&pool->sequence, sequence + 2);
    if (atomic_load(&pool->sleepers) != 0) dct_os_wake_word(&pool->sequence);
}

/* False when the job changed during the copy. */
static bool copy_job(dct_pool *pool, uint32_t sequence, dct_job *job) {
    job->fn = (void (*)(const dct_job *, uint32_t))atomic_load_explicit(&pool->fn, memory_order_acquire);
    job->ctx = (void *)atomic_load_explicit(&pool->ctx, memory_order_acquire);
    for (uint32_t i = 0; i < 4; i++) job->arg[i] = atomic_load_explicit(&pool->arg[i], memory_order_acquire);
    return atomic_load_explicit(&pool->sequence, memory_order_relaxed) == sequence;
}

/* Waits for a whole job newer than the one numbered `last`; returns its number. */
static uint32_t next_job(dct_pool *pool, uint32_t last, dct_job *job) {
    for (;;) {
        uint32_t sequence = atomic_load_explicit(&pool->sequence, memory_order_acquire);
        if (sequence != last && sequence % 2 == 0 && copy_job(pool, sequence, job)) return sequence;
        if (sequence != last) {
            dct_cpu_relax();
            continue;
        }
        dct_spin_while(&pool->sequence, last, pool->spin_ns);
        if (atomic_load_explicit(&pool->sequence, memory_order_relaxed) != last) continue;
        atomic_fetch_add(&pool->sleepers, 1);
        if (atomic_load(&pool->sequence) == last) dct_os_wait_word(&pool->sequence, last);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
}

static bool help_others(dct_pool *pool, uint32_t me) {
    bool stopped_here = false;
    for (uint32_t i = 0; i < pool->n_workers; i++) {
        if (i != me && dct_seat_help(&pool->workers[me].seat, &pool->workers[i].seat)) stopped_here = true;
    }
    return stopped_here;
}

void dct_pool_wait(dct_pool *pool, uint32_t me, dct_gate *gate, uint32_t run) {
    if (pool->spin_ns == 0) {
        if (!dct_gate_spin(gate, run, 0)) dct_gate_sleep(gate, run);
        return;
    }
    bool stopped_here = false;
    for (uint32_t i = 0; i < LOOKS && !stopped_here; i++) {
        if (dct_gate_spin(gate, run, LOOK_NS)) return;
        stopped_here = help_others(pool, me);
    }
    dct_gate_sleep(gate, run);
}

static void worker_main(void *arg) {
    worker *self = arg;
    dct_seat_take(&self->seat);
    uint32_t last = 0;
    for (;;) {
        dct_job job;
        last = next_job(self->pool, last, &job);
        if (job.fn == NULL) return;
        job.fn(&job, self->index);
    }
}

dct_status dct_pool_start(void *memory, uint32_t n_workers, void *stacks, size_t stack_bytes, dct_pool **out, dct_err *err) {
    dct_pool *pool = memory;
    memset(pool, 0, (size_t)dct_pool_bytes(n_workers));
    pool->n_workers = 1;
    /* With more workers than processors a spinning one only keeps a working one from running. */
    pool->spin_ns = n_workers <= dct_os_usable_cpus(NULL, NULL, 0) ? SPIN_NS : 0;
    for (uint32_t i = 1; i < n_workers; i++) {
        worker *w = &pool->workers[i];
        w->pool = pool;
        w->index = i;
        void *stack = (char *)stacks + (i - 1) * stack_bytes;
        dct_status status = dct_thread_start(&w->thread, worker_main, w, stack, stack_bytes, err);
        if (status != DCT_OK) {
            dct_pool_stop(pool);
            return status;
        }
        pool->n_workers = i + 1;
    }
    *out = pool;
    return DCT_OK;
}

void dct_pool_stop(dct_pool *pool) {
    dct_job end = {0};
    dct_pool_post(pool, &end);
    for (uint32_t i = 1; i < pool->n_workers; i++) dct_thread_join(pool->workers[i].thread);
    pool->n_workers = 1;
}

/* arg: run number, pieces. What dct_pool_run asks for stands in the pool and is read only between a claim and its finish, while
 * the run cannot end. */
static void take_pieces(const dct_job *job, uint32_t worker_index) {
    dct_pool *pool = job->ctx;
    uint32_t run = job->arg[0], n_pieces = job->arg[1], piece;
    dct_seat_hold(&pool->workers[worker_index].seat);
    while (dct_gate_claim(&pool->gate, run, n_pieces, &piece)) {
        pool->work_fn(pool->work_ctx, piece, worker_index);
        if (dct_gate_finish(&pool->gate, n_pieces)) dct_gate_close(&pool->gate, run);
    }
    dct_seat_release(&pool->workers[worker_index].seat);
}

void dct_pool_run(dct_pool *pool, void (*fn)(void *ctx, uint32_t piece, uint32_t worker), void *ctx, uint32_t n_pieces) {
    if (n_pieces == 0) return;
    pool->work_fn = fn;
    pool->work_ctx = ctx;
    dct_job job = {take_pieces, pool, {++pool->run, n_pieces}};
    dct_pool_enter(pool);
    dct_pool_post(pool, &job);
    take_pieces(&job, 0);
    dct_pool_wait(pool, 0, &pool->gate, pool->run);
    dct_pool_leave(pool);
}
