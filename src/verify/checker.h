/* verify/checker: what the parts of the verifier share. One file a question:
 *
 *   structure.c    ids in range, sizes from shapes, aliases, graph rules; every op in exactly one step; workers, waits
 *   happens.c      what is ordered before what, derived from the steps; every read after its write
 *   ranges.c       ranges in order of offset; those of a packing in order of time
 *   memory.c       where values lie; no two that may be live together share a byte
 *   overlap.c      what phases that may run at the same time write is apart from all that the other touches
 *   storage.c      weights, caches and tables: sizes, places, and agreement with file and bounds
 *   envelope.c     bounds, items, regions, M_max
 *   certificate.c  load, height, optimality, counted again
 *   family.c       the smaller members of a family, in the envelope of the largest
 *   graph_match.c  the plan's graph is the model's graph
 *   group.c        regions of several plans in one reservation
 *   packing.c      a packing by itself, of neither plan nor graph: verify/packing.h
 *
 * Those of one plan return DCT_OK or the first defect, through dct_refuse. A plan file is as large as its writer likes (plan_io
 * has limits), so nothing here goes over pairs of a plan's things but where it says what bounds them: questions of order asked of
 * steps that do not form a chain are counted, and a plan that needs too many is refused.
 */
#ifndef DCT_VERIFY_CHECKER_H
#define DCT_VERIFY_CHECKER_H

#include "verify/ranges.h"
#include "verify/verify.h"

typedef struct dct_checker {
    const dct_plan *plan;
    dct_arena *arena; /* the work */
    dct_defect defect;
    dct_err *err;
} dct_checker;

/* Notes the defect and what it is about; DCT_BAD_FILE. */
dct_status dct_refuse(dct_checker *c, dct_defect defect, const char *format, ...) DCT_PRINTF(3, 4);

/* One op touching one value. */
typedef struct dct_access {
    dct_op_id op;
    bool writes;
} dct_access;

/* What is derived of a phase before anything is judged about its memory. */
typedef struct dct_facts {
    const dct_phase *phase;
    const dct_graph *graph;
    uint32_t *step_of, *rank_of; /* an op's step, and its place in the step */
    dct_value_id *root;          /* the value whose bytes a value has; itself when not in place */
    uint32_t *access_begin;      /* [n_values + 1] into accesses; those of a value in the graph's order of ops */
    dct_access *accesses;
    uint32_t n_words;            /* of a row of `before` */
    uint64_t *before;            /* bit matrix: row s holds the steps that are complete before step s starts */
    bool is_chain;               /* every step is after the one before it: ops are in one order, `number` */
    uint32_t *number;            /* an op's place when the steps are walked one after another */
    uint64_t *questions_left;    /* of order; none is answered with yes when they are used up */
} dct_facts;

enum { DCT_MAX_QUESTIONS = 1 << 30 };

/* True when op a is complete before op b starts, whatever the workers do. */
bool dct_happens_before(const dct_facts *f, dct_op_id a, dct_op_id b);

/* True when every access of x happens before every access of y. `except` (or DCT_NONE) is an op whose access of x is forgiven. */
bool dct_all_before(const dct_facts *f, dct_value_id x, dct_value_id y, dct_op_id except);

static inline bool dct_ranges_meet(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
}

/* The first and last op, by number, that touch a value; first > last when none does. */
typedef struct dct_life {
    uint32_t first, last;
} dct_life;
dct_life dct_life_of(const dct_facts *f, dct_value_id v);

/* True when offset + bytes stays within size; no sum can overflow. */
static inline bool dct_range_within(uint64_t offset, uint64_t bytes, uint64_t size) {
    return bytes <= size && offset <= size - bytes;
}

/* The same things of the model: all but where they lie and, for weights and caches, the bytes that follow from the rest. */
bool dct_same_float(float a, float b); /* bit for bit */
bool dct_same_weight(const dct_weight *a, const dct_weight *b);
bool dct_same_cache(const dct_cache *a, const dct_cache *b);
bool dct_same_table(const dct_rope_table *a, const dct_rope_table *b);

dct_status dct_check_structure(dct_checker *c, const dct_phase *phase, dct_facts *f) DCT_MUST_CHECK;
dct_status dct_check_order(dct_checker *c, dct_facts *f) DCT_MUST_CHECK;
dct_status dct_check_memory(dct_checker *c, const dct_facts *f) DCT_MUST_CHECK;
dct_status dct_check_persistent(dct_checker *c, const dct_facts *facts) DCT_MUST_CHECK; /* facts: of each phase */
dct_status dct_check_overlap(dct_checker *c) DCT_MUST_CHECK;
dct_status dct_check_storage(dct_checker *c) DCT_MUST_CHECK;
dct_status dct_check_lists(dct_checker *c, const dct_graph *g, const char *whose) DCT_MUST_CHECK;
dct_status dct_check_model(dct_checker *c, const dct_model *model, const dct_hparams *hp) DCT_MUST_CHECK;
dct_status dct_check_family(dct_checker *c) DCT_MUST_CHECK;
dct_status dct_check_bounds(dct_checker *c) DCT_MUST_CHECK;
dct_status dct_check_envelope(dct_checker *c) DCT_MUST_CHECK;
dct_status dct_check_certificate(dct_checker *c, const dct_facts *f) DCT_MUST_CHECK;
dct_status dct_check_graph_match(dct_checker *c, const dct_phase *phase, const dct_graph *traced) DCT_MUST_CHECK;

#endif
