/* verify/verify: whether a plan may run. Shares no code with compile/.
 *
 * It derives everything again from the plan's graphs and schedules and compares with fresh traces of the model. The executor
 * takes only what dct_verify returns.
 */
#ifndef DCT_VERIFY_VERIFY_H
#define DCT_VERIFY_VERIFY_H

#include "model/hparams.h"
#include "plan/group.h"

#define DCT_DEFECT_LIST(X)                                                                                    \
    X(NONE, "no defect")                                                                                      \
    X(MODEL_MISMATCH, "the plan was made for another model")                                                  \
    X(GRAPH_MISMATCH, "an op of the plan does not come from the model's graph")                               \
    X(GRAPH_MALFORMED, "an op has wrong inputs, outputs or shapes")                                           \
    X(OP_MISSING, "an op of the model's graph is missing from the plan, or runs twice")                       \
    X(STEP_ORDER, "an op may read a value before it is written")                                              \
    X(WAIT_INVALID, "a wait names a step that is not earlier")                                                \
    X(WORKERS_INVALID, "a step names workers that do not exist")                                              \
    X(OVERLAP, "two values that may be live together share bytes")                                            \
    X(ALIAS_INVALID, "an in-place value is not allowed or its source is still read")                          \
    X(ALIGNMENT, "an offset is not aligned")                                                                  \
    X(OUT_OF_REGION, "a value does not lie inside its region")                                                \
    X(SIZE_WRONG, "a value has not the size its shape needs")                                                 \
    X(SCRATCH_WRONG, "an op's scratch is missing or too small")                                               \
    X(WEIGHT_WRONG, "a weight disagrees with the file or overlaps another")                                   \
    X(KV_WRONG, "a cache disagrees with the bounds or overlaps another")                                      \
    X(ITEMS_WRONG, "the items of a region are too small, overlap or do not add up to it")                     \
    X(ENVELOPE_WRONG, "the envelope does not cover its regions")                                              \
    X(CERTIFICATE_WRONG, "load, height or optimality is misstated")                                           \
    X(BOUNDS_WRONG, "the bounds make no sense or disagree with the phases")                                   \
    X(FAMILY_WRONG, "a smaller member of the family cannot run in its envelope")

typedef enum dct_defect {
#define DCT_DEFECT_ENUM(name, text) DCT_DEFECT_##name,
    DCT_DEFECT_LIST(DCT_DEFECT_ENUM)
#undef DCT_DEFECT_ENUM
    DCT_DEFECT_COUNT
} dct_defect;

const char *dct_defect_name(dct_defect defect); /* "OVERLAP" */
const char *dct_defect_text(dct_defect defect);

/* A plan that passed. Only dct_verify makes one; only exec/ and engine/ take it. */
typedef struct dct_checked_plan dct_checked_plan;
const dct_plan *dct_checked_plan_get(const dct_checked_plan *checked);

/* `traced[i]` is a fresh, unfused trace for plan->phases[i] made with the plan's bounds. model and hp are those of the file that
 * will run. Of a family, this is the largest member; each smaller one is a plan to be verified as well. On a defect:
 * DCT_BAD_FILE, *defect says which, err says where. The result lies in `keep`, all else in `work`, which may be the same or be
 * dropped at once. */
dct_status dct_verify(const dct_plan *plan, const dct_model *model, const dct_hparams *hp, const dct_graph *traced,
                      uint32_t n_traced, dct_arena *work, dct_arena *keep, dct_checked_plan **out, dct_defect *defect,
                      dct_err *err) DCT_MUST_CHECK;

/* Plans that passed one by one, in one reservation: each region has its piece, none shares bytes that it must not, M_max covers
 * all. DCT_BAD_FILE says what does not. */
dct_status dct_verify_group(const dct_group *group, dct_err *err) DCT_MUST_CHECK;

/* A plan file on its own, with all of its family, one after another, without the model: all but the comparisons with model and
 * trace. */
dct_status dct_verify_alone(const dct_plan *plan, dct_defect *defect, dct_err *err) DCT_MUST_CHECK;

#endif
