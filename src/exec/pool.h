/* exec/pool: the workers, as exec.c sees them. */
#ifndef DCT_EXEC_POOL_H
#define DCT_EXEC_POOL_H

#include "exec/exec.h"
#include "exec/gate.h"
#include "exec/seat.h"

/* What every worker is asked to do: fn(job, worker). Copied by each worker, so it lives as long as the worker needs it. A worker
 * that comes late reads what ctx points to when the job is done already: that lives until dct_pool_stop, and what changes there
 * from one job to the next is read only between a claim and its finish. */
typedef struct dct_job dct_job;
struct dct_job {
    void (*fn)(const dct_job *job, uint32_t worker);
    void *ctx;
    uint32_t arg[4];
};

/* Hands the job to workers 1.. and returns; the caller does its own part as worker 0. A worker that is late skips jobs that
 * were replaced meanwhile. */
void dct_pool_post(dct_pool *pool, const dct_job *job);

/* The thread that asks for work is worker 0, from before it does its part until all is done. */
void dct_pool_enter(dct_pool *pool);
void dct_pool_leave(dct_pool *pool);

/* Where a worker says that it begins to take pieces, and that it has finished the last (exec/seat.h). */
dct_seat *dct_pool_seat(dct_pool *pool, uint32_t index);

/* Worker `me` waits until the run of a gate is complete: spins, looks whether a worker was stopped meanwhile, then sleeps. */
void dct_pool_wait(dct_pool *pool, uint32_t me, dct_gate *gate, uint32_t run);

#endif
