/* compile/concurrency: which operations may run at the same time, and what that could win at most. For people: the schedule is
 * made by schedule.c. */
#ifndef DCT_COMPILE_CONCURRENCY_H
#define DCT_COMPILE_CONCURRENCY_H

#include "compile/compile.h"

/* A maximal set: no path of the graph leads from one of its ops to another, and every other op has a path from or to one. */
typedef struct dct_op_set {
    uint32_t n;
    dct_op_id *ops; /* ascending */
} dct_op_set;

typedef struct dct_op_sets {
    uint32_t n;        /* of two ops and more */
    dct_op_set *sets;  /* in order of their ops */
    uint32_t n_alone;  /* ops that every other op comes before or after */
    bool is_complete;  /* false: there are more than were asked for */
} dct_op_sets;

/* The maximal sets of a graph, no more than `most` of them: there can be exponentially many. */
dct_status dct_op_sets_find(const dct_graph *g, uint32_t most, dct_arena *arena, dct_op_sets *out, dct_err *err) DCT_MUST_CHECK;

/* Whether an op is bandwidth-bound: moving its bytes takes longer than its arithmetic, on all workers. The paper's schedule runs
 * no two such ops at the same time. */
bool dct_op_is_bandwidth_bound(const dct_graph *g, const dct_op *op, const dct_bounds *bounds, const dct_profile *profile);

/* What a chunk of a prompt and tokens for other prompts could win by running at the same time. Times are what the steps of the
 * plan are estimated to take; how much a worker gets is between what one worker and all reach in the profile.
 *
 *   n_tokens     as many as one worker makes while the others do the chunk, at least one
 *   sequential   the chunk, then the tokens, each on all workers
 *   corun        the tokens on one worker beside the chunk on the others, until one side ends; then the other on all
 *   fused        the tokens' rows ride in the chunk, whose weights are read anyway; only their attention comes on top
 *   gain_max     the most that running side by side can ever win, when both sides end at once: what the others have of the rate
 *                of products, and what one worker has of the bandwidth. 1 when there is one worker */
typedef struct dct_baselines {
    uint32_t n_tokens;
    double sequential_us, corun_us, fused_us, gain_max;
} dct_baselines;
dct_baselines dct_baselines_of(const dct_plan *plan, const dct_profile *profile);

#endif
