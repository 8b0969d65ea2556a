/* The list of checks, in the order in which each may rely on those above it. */
#include "verify/verify.h"

#include <stdio.h>
#include <string.h>

#include "verify/checker.h"

struct dct_checked_plan {
    const dct_plan *plan;
};

static const struct {
    const char *name, *text;
} defects[DCT_DEFECT_COUNT] = {
#define DCT_DEFECT_ROW(name, text) {#name, text},
    DCT_DEFECT_LIST(DCT_DEFECT_ROW)
#undef DCT_DEFECT_ROW
};

const char *dct_defect_name(dct_defect defect) { return defects[defect].name; }
const char *dct_defect_text(dct_defect defect) { return defects[defect].text; }

const dct_plan *dct_checked_plan_get(const dct_checked_plan *checked) { return checked->plan; }

dct_status dct_refuse(dct_checker *c, dct_defect defect, const char *format, ...) {
    char where[300];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(where, sizeof where, format, args);
    va_end(args);
    if (n < 0) where[0] = '\0';
    c->defect = defect;
    return dct_fail(c->err, DCT_BAD_FILE, "%s: %s", dct_defect_name(defect), where);
}

/* One phase without its model, and without its certificate. */
static dct_status check_phase(dct_checker *c, const dct_phase *phase, dct_facts *facts) {
    uint64_t questions = DCT_MAX_QUESTIONS;
    dct_status status = dct_check_structure(c, phase, facts);
    facts->questions_left = &questions;
    if (status == DCT_OK) status = dct_check_order(c, facts);
    if (status == DCT_OK) status = dct_check_memory(c, facts);
    if (questions == 0 && status != DCT_NO_FIT && status != DCT_SYSTEM)
        status = dct_refuse(c, DCT_DEFECT_STEP_ORDER, "%s: its steps leave open too much to be checked", phase->name);
    facts->questions_left = NULL; /* certificates ask none */
    return status;
}

static dct_status check_alone(dct_checker *c) {
    dct_facts facts[DCT_PLAN_MAX_PHASES];
    dct_status status = dct_check_bounds(c);
    if (status == DCT_OK) status = dct_check_envelope(c);
    if (status == DCT_OK) status = dct_check_storage(c);
    for (uint32_t i = 0; i < c->plan->n_phases && status == DCT_OK; i++) status = check_phase(c, &c->plan->phases[i], &facts[i]);
    if (status == DCT_OK) status = dct_check_persistent(c, facts);
    if (status == DCT_OK) status = dct_check_overlap(c);
    for (uint32_t i = 0; i < c->plan->n_phases && status == DCT_OK; i++) status = dct_check_certificate(c, &facts[i]);
    if (status == DCT_OK) status = dct_check_family(c);
    return status;
}

dct_status dct_verify_alone(const dct_plan *plan, dct_defect *defect, dct_err *err) {
    dct_status status = DCT_OK;
    for (uint32_t i = 0; i < dct_plan_n_members(plan) && status == DCT_OK; i++) {
        dct_arena work;
        dct_arena_init(&work, 0);
        dct_checker c = {dct_plan_member(plan, i), &work, DCT_DEFECT_NONE, err};
        status = check_alone(&c);
        dct_arena_deinit(&work);
        *defect = c.defect;
    }
    return status;
}

static dct_status check_with_model(dct_checker *c, const dct_model *model, const dct_hparams *hp, const dct_graph *traced,
                                   uint32_t n_traced) {
    dct_status status = dct_check_model(c, model, hp);
    if (status == DCT_OK) status = check_alone(c);
    if (status == DCT_OK && n_traced != c->plan->n_phases) {
        return dct_fail(c->err, DCT_BUG, "%u traces for a plan of %u phases", n_traced, c->plan->n_phases);
    }
    for (uint32_t i = 0; i < n_traced && status == DCT_OK; i++) {
        status = dct_check_lists(c, &traced[i], "the model");
        if (status == DCT_OK) status = dct_check_graph_match(c, &c->plan->phases[i], &traced[i]);
    }
    return status;
}

dct_status dct_verify(const dct_plan *plan, const dct_model *model, const dct_hparams *hp, const dct_graph *traced,
                      uint32_t n_traced, dct_arena *work, dct_arena *keep, dct_checked_plan **out, dct_defect *defect,
                      dct_err *err) {
    dct_checker c = {plan, work, DCT_DEFECT_NONE, err};
    dct_status status = check_with_model(&c, model, hp, traced, n_traced);
    *defect = c.defect;
    if (status != DCT_OK) return status;
    dct_checked_plan *checked = dct_arena_alloc(keep, sizeof *checked);
    if (checked == NULL) return dct_fail_memory(err, keep, "a checked plan");
    checked->plan = plan;
    *out = checked;
    return DCT_OK;
}
