/* exec/pool: the workers, as exec.c sees them. */
#ifndef DCT_EXEC_POOL_H
#define DCT_EXEC_POOL_H

#include "exec/exec.h"
#include "exec/gate.h"

/* What every worker is asked to do: fn(job, worker). Copied by each worker, so it lives as long as the worker needs it;
 * what ctx points to is touched only after a claim succeeded. */
typedef struct dct_job dct_job;
struct dct_job {
    void (*fn)(const dct_job *job, uint32_t worker);
    void *ctx;
    uint32_t arg[4];
};

/* Hands the job to workers 1.. and returns; the caller does its own part as worker 0. A worker that is late skips jobs that
 * were replaced meanwhile. */
void dct_pool_post(dct_pool *pool, const dct_job *job);

uint64_t dct_pool_spin_ns(const dct_pool *pool);

#endif
