/* exec/exec: runs a checked plan. A loop over steps: no allocation, no decision, no knowledge of models.
 *
 * exec/pool holds the workers. The caller's thread is worker 0. Waiting workers spin briefly, then sleep on a futex; a
 * process that does nothing costs nothing.
 *
 * How a step is run by the workers: its gate (exec/gate.h) holds the number of the run and the next piece; a worker claims a
 * piece by compare-and-swap, which fails once the run moved on, so a worker that was descheduled for a long time can never
 * run a piece of an old run. Nobody waits for such a worker: dct_exec_run returns when the last step is complete.
 */
#ifndef DCT_EXEC_EXEC_H
#define DCT_EXEC_EXEC_H

#include "kernels/kernel.h"
#include "verify/verify.h"

typedef struct dct_pool dct_pool;
typedef struct dct_exec dct_exec;

/* Bytes of control state for a pool / an executor, to be planned as a runtime item. */
uint64_t dct_pool_bytes(uint32_t n_workers);
uint64_t dct_exec_bytes(const dct_plan *plan);

/* Starts n_workers - 1 threads on stacks in `stacks` (stack_bytes each). `memory` holds the pool. */
dct_status dct_pool_start(void *memory, uint32_t n_workers, void *stacks, size_t stack_bytes, dct_pool **out,
                          dct_err *err) DCT_MUST_CHECK;
void dct_pool_stop(dct_pool *pool);
uint32_t dct_pool_workers(const dct_pool *pool);

/* Loading and other work outside plans: fn(ctx, piece, worker) for every piece in [0, n_pieces), claimed by the workers. */
void dct_pool_run(dct_pool *pool, void (*fn)(void *ctx, uint32_t piece, uint32_t worker), void *ctx, uint32_t n_pieces);

/* `kernels` is the table to use. Memory and plan live until the pool was stopped: a worker that is late still reads them. */
dct_status dct_exec_init(void *memory, const dct_checked_plan *plan, const dct_bases *bases, const dct_kernels *kernels,
                         dct_pool *pool, dct_exec **out, dct_err *err) DCT_MUST_CHECK;

/* Runs one phase on n rows (1..rows) standing at positions pos0..pos0+n-1 of the caches. Inputs (ids, pos) must be in their
 * places. Returns when every step is complete. */
void dct_exec_run(dct_exec *exec, dct_phase_kind phase, uint32_t n, uint32_t pos0);

/* Where a value lies. */
void *dct_exec_value(dct_exec *exec, dct_phase_kind phase, dct_value_id id);

/* Waits passed since the start (the plan's count, per run of a phase). */
uint64_t dct_exec_waits(const dct_exec *exec);

/* ---- one op alone: what steps are made of; the dynamic mode uses it as well ---- */
typedef struct dct_op_run {
    const dct_graph *graph;
    const dct_op *op;
    void *in[DCT_OP_MAX_IN], *out[DCT_OP_MAX_OUT]; /* addresses; NULL for absent */
    void *scratch;                                  /* of this worker */
    uint32_t n, pos0, n_workers;
    uint32_t n_pieces;                              /* set by dct_op_cut */
    const dct_kernels *kernels;
} dct_op_run;

/* Sets the number of pieces of a run that is ready but for its scratch; then each of them is computed once, in any order. */
void dct_op_cut(dct_op_run *run);
void dct_op_piece(const dct_op_run *run, uint32_t piece);

/* Called before the op's inputs are there: asks memory for the first weights that worker `worker` of the step likely reads. */
void dct_op_expect(const dct_op_run *run, uint32_t worker);

#endif
