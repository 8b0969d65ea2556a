/* compile/passes: what the passes hand to one another. Each takes the result of the one before; none keeps state. */
#ifndef DCT_COMPILE_PASSES_H
#define DCT_COMPILE_PASSES_H

#include "compile/compile.h"

enum { DCT_SMALL_ROWS = 4 }; /* phases of at most so many rows run row-wise ops as tails */

/* fuse: a traced graph as a new one in which chains of ops are single ops (ops.def, "what the compiler makes of them"). */
dct_status dct_fuse(const dct_graph *traced, dct_arena *arena, dct_graph *out, dct_err *err) DCT_MUST_CHECK;

/* order: puts the ops of *g into an order of less load than the trace's, if there is one, and sets the in-place aliases that the
 * order allows. */
dct_status dct_order(dct_graph *g, uint32_t threads, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

/* Bytes of scratch of an op for all workers, each worker's part on a line of its own; 0 when it needs none. */
uint64_t dct_scratch_all(const dct_graph *g, const dct_op *op, uint32_t threads);

/* The value whose bytes v takes in the end. */
dct_value_id dct_alias_root(const dct_graph *g, dct_value_id v);

/* Whether v takes the bytes of the logits, which are persistent: these, and what they are made of in place. */
bool dct_lies_in_logits(const dct_graph *g, dct_value_id v);

/* schedule: steps and waits of a phase, and what they order. */
typedef struct dct_schedule {
    uint32_t n_steps, n_waits;
    dct_step *steps;
    uint32_t *waits;
    uint32_t *step_of;  /* an op */
    uint64_t *before;   /* bit s of row t: step s is complete before step t starts; rows of `words` words */
    uint32_t words;
    bool chain;         /* every step is after the one before it */
    double est_us, roofline_us; /* of one run of the phase, caches half full */
} dct_schedule;

/* `chain`: adds waits until every step follows the one before it, for the phases whose memory needs that. */
dct_status dct_schedule_make(const dct_graph *g, const dct_bounds *bounds, const dct_profile *profile, bool chain,
                             dct_arena *arena, dct_schedule *out, dct_err *err) DCT_MUST_CHECK;

/* Whether every access of op a is over before op b starts. */
bool dct_schedule_before(const dct_schedule *s, dct_op_id a, dct_op_id b);

/* lifetime: what must lie in the arena and how long. An item a value that is no alias; scratch values are added to the graph
 * here. */
typedef struct dct_lifetimes {
    uint32_t n;
    dct_value_id *values;  /* an item */
    dct_pack_item *items;  /* begin, end: op numbers */
    uint64_t *conflict;    /* NULL: the intervals say it all (the schedule is a chain) */
    dct_value_id *scratch; /* an op */
} dct_lifetimes;
dct_status dct_lifetimes_find(dct_graph *g, const dct_schedule *s, uint32_t threads, dct_arena *arena, dct_lifetimes *out,
                              dct_err *err) DCT_MUST_CHECK;

/* envelope: regions, places, items and their sum. Phases are complete but for the places of values outside the arena. */
dct_status dct_envelope(dct_plan *plan, const dct_compile_params *params, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

#endif
