/* compile/pack_greedy: items placed one after another, each in a gap between those that are there; several orders, the best
 * kept. */
#ifndef DCT_COMPILE_PACK_GREEDY_H
#define DCT_COMPILE_PACK_GREEDY_H

#include "compile/pack_problem.h"

/* The best placement so far, filled in and replaced by lower ones. height UINT64_MAX: none yet. */
typedef struct dct_placement {
    uint64_t height;
    uint64_t *offsets; /* [n] */
} dct_placement;

typedef struct dct_greedy dct_greedy;

/* NULL when the arena is exhausted. */
dct_greedy *dct_greedy_new(const dct_problem *problem, dct_arena *arena);

/* Tries orders until one reaches `enough`, the work allowed is done, or the effort ends; where *best is none yet, at least one to
 * its end, however late it is. DCT_USAGE when fixed items overlap. */
dct_status dct_greedy_portfolio(dct_greedy *g, uint64_t enough, dct_effort *effort, dct_placement *best,
                                dct_err *err) DCT_MUST_CHECK;

#endif
