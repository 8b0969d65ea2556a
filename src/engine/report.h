/* engine/report: what plan and inspect print as JSON or text, through a callback.
 *
 * DCT_SYSTEM or DCT_NO_FIT when memory runs out. Pieces may have gone out by then: what came is the begin of a report, no more.
 * Whatever else is refused is refused before the first piece.
 */
#ifndef DCT_ENGINE_REPORT_H
#define DCT_ENGINE_REPORT_H

#include "compile/concurrency.h"
#include "model/model.h"
#include "plan/group.h"

/* Facts of this host and run that stand beside a plan and not in its file. */
typedef struct dct_report_facts {
    const char *model_path;
    uint64_t hw_bytes, available_bytes;
    const char *available_source;
    double compile_ms;
    uint64_t staging_bytes; /* of loading */
    const dct_profile *profile; /* the plan's, when it is at hand: its hash tells; NULL: it is not */
} dct_report_facts;

/* One JSON object with the names of DESIGN §6 (jansson). DCT_BAD_FILE for a plan without phases. */
dct_status dct_report_plan_json(const dct_plan *plan, const dct_report_facts *facts, dct_text_fn *out, void *ctx,
                                dct_err *err) DCT_MUST_CHECK;

/* {same, differences: [{section, context, phase, name, before, after, count}]}: what dct_plan_compare finds; a side that is not
 * there is null, and so is the context of what is about the plan itself. */
dct_status dct_report_diff_json(const dct_plan *a, const dct_plan *b, dct_arena *work, dct_text_fn *out, void *ctx,
                                dct_err *err) DCT_MUST_CHECK;

/* Several plans in one reservation: {"mode", "models": [their envelopes], "envelope": {...}}. paths: a model each, "" if
 * unknown. */
dct_status dct_report_group_json(const dct_group *group, const char *const *paths, const dct_report_facts *facts,
                                 dct_text_fn *out, void *ctx, dct_err *err) DCT_MUST_CHECK;

/* The paper's Table 1 for this plan: logical tensors, physical buffers, reduction, the clique that proves it, envelope terms.
 * DCT_USAGE for a graph of one's own. */
dct_status dct_report_paper(const dct_plan *plan, const dct_report_facts *facts, dct_text_fn *out, void *ctx,
                            dct_err *err) DCT_MUST_CHECK;

/* The maximal sets of operations that may run at the same time, phase by phase, with what that could win: as text. `traced` are
 * the graphs of the phases before fusion. A smaller member of a family comes after the largest, under its context. */
dct_status dct_report_concurrency(const dct_plan *plan, const dct_graph *traced, const dct_profile *profile, dct_arena *work,
                                  dct_text_fn *out, void *ctx, dct_err *err) DCT_MUST_CHECK;

/* What a model file holds. `all` also lists long arrays (tokens, merges) and is otherwise cut to a few elements. */
dct_status dct_report_inspect(const dct_model *model, bool json, bool all, dct_text_fn *out, void *ctx,
                              dct_err *err) DCT_MUST_CHECK;

#endif
