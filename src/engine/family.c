/* engine/family: a model with several contexts, compiled as one plan and run as one session.
 *
 * The smaller members lie in the envelope of the largest (plan/plan.h shows how), so a session changes from one to another by
 * moving its caches, and everything else, from tokens to samplers, is the session's and stays. Results do not depend on the
 * chunk, so the answers are those of the largest member alone.
 */
#include <string.h>

#include "base/size.h"
#include "engine/engine.h"
#include "kernels/kernel.h"

/* ---- compile ---- */

/* A plan without steps is a family of one. */
static uint32_t n_members(const dct_request *r) { return r->params.n_ctx_steps > 0 ? r->params.n_ctx_steps : 1; }

/* What all members have in common is `bounds`, the largest's. M is a bound of the whole family; a smaller member has what is left
 * of its context beside a prompt. */
static dct_bounds bounds_of_step(const dct_bounds *bounds, const dctms_ctx_step *step) {
    dct_bounds b = *bounds;
    b.n_ctx = step->n_ctx;
    b.n_output = bounds->n_output < step->n_ctx / 2 ? bounds->n_output : step->n_ctx / 2;
    b.n_input = b.n_ctx - b.n_output;
    b.ubatch = step->ubatch < b.n_ctx ? step->ubatch : b.n_ctx;
    b.table_ctx = bounds->n_ctx;
    return b;
}

/* All members with these bounds, the largest last. The smaller ones have what their graphs need and nothing else. */
static dct_status compile_members(const dctms_model *m, const dct_request *r, const dct_bounds *bounds, dct_arena *work,
                                  dct_plan **out, dct_err *err) {
    uint32_t n_smaller = n_members(r) - 1;
    dct_plan *smaller = dct_arena_array(work, n_smaller, sizeof *smaller);
    if (smaller == NULL) return dct_fail_memory(err, work, "a family of plans");
    for (uint32_t i = 0; i < n_smaller; i++) {
        dct_compile_params c = {.model = &m->model, .hp = &m->hp, .profile = &r->profile,
                                .pack_nodes = r->params.pack_nodes, .bounds = bounds[i]};
        dct_plan *member;
        dct_status status = dct_compile(&c, work, &member, err);
        if (status != DCT_OK) return status;
        smaller[i] = *member;
    }
    return dct_compile_bounds(m, r, &bounds[n_smaller], smaller, n_smaller, work, out, err);
}

/* Of the members whose chunks can be smaller, the one whose caches and intermediates take most, of equals the first; DCT_NONE
 * when there is none. */
static uint32_t largest_member(const dct_plan *plan) {
    uint32_t at = DCT_NONE;
    uint64_t most = 0;
    for (uint32_t i = 0; i < dct_plan_n_members(plan); i++) {
        const dct_plan *member = dct_plan_member(plan, i);
        uint64_t bytes = member->region_bytes[DCT_REGION_KV] + dct_plan_arena_height(member);
        if (member->bounds.ubatch == 1 || bytes <= most) continue;
        at = i;
        most = bytes;
    }
    return at;
}

/* ---- budgets ---- */

/* Makes chunks smaller until the family keeps to the budget: that of the member that takes most, again and again. What a session
 * needs beside its graphs depends on the chunk too, so it is measured anew each time. */
static dct_status fit_chunks(const dctms_model *m, const dct_request *r, dct_bounds *bounds, dct_err *err) {
    dct_need least = {.bytes = UINT64_MAX};
    for (;;) {
        dct_arena trial;
        dct_plan *plan;
        dct_need now = {0};
        uint32_t at = DCT_NONE;
        dct_arena_init(&trial, 0);
        dct_status status = compile_members(m, r, bounds, &trial, &plan, err);
        if (status == DCT_OK) {
            now = dct_need_of(plan);
            at = largest_member(plan);
        }
        dct_arena_deinit(&trial);
        if (status != DCT_OK || now.bytes <= r->params.memory_budget) return status;
        if (now.bytes < least.bytes) least = now;
        if (at == DCT_NONE) return dct_fail_budget(&least, r->params.memory_budget, err);
        bounds[at].ubatch = dct_pow2_under(bounds[at].ubatch);
    }
}

dct_status dct_family_compile(const dctms_model *m, const dct_request *r, const dct_bounds *bounds, dct_arena *work,
                              dct_plan **out, dct_err *err) {
    dct_bounds each[DCTMS_MAX_CTX_STEPS];
    const uint32_t n = n_members(r);
    _Static_assert((int)DCTMS_MAX_CTX_STEPS == (int)DCT_MAX_MEMBERS, "a step is a member");
    for (uint32_t i = 0; i + 1 < n; i++) each[i] = bounds_of_step(bounds, &r->params.ctx_steps[i]);
    each[n - 1] = *bounds;
    dct_status status = r->params.memory_budget != 0 ? fit_chunks(m, r, each, err) : DCT_OK;
    return status == DCT_OK ? compile_members(m, r, each, work, out, err) : status;
}

/* ---- run ---- */

dct_bases dct_member_bases(const dctms_session *s, uint32_t member) {
    dct_bases bases = s->bases;
    if (member < s->plan->n_smaller) /* its arena follows its caches */
        bases.of[DCT_REGION_ARENA] = bases.of[DCT_REGION_KV] + s->plan->smaller[member].region_bytes[DCT_REGION_KV];
    return bases;
}

/* The cache after the one at `last` on the way down from the end, or up from the begin; DCT_NONE after the last one. */
static uint32_t next_cache(const dct_plan *plan, bool downwards, uint32_t last) {
    uint32_t next = DCT_NONE;
    for (uint32_t i = 0; i < plan->n_caches; i++) {
        uint64_t at = plan->caches[i].offset;
        if (last != DCT_NONE && (downwards ? at >= plan->caches[last].offset : at <= plan->caches[last].offset)) continue;
        if (next == DCT_NONE || (downwards ? at > plan->caches[next].offset : at < plan->caches[next].offset)) next = i;
    }
    return next;
}

/* On the way to a larger member every cache goes to where it is or further back (verify/family.c), so the last one goes first and
 * none is written over before it was moved; on the way to a smaller one the first does. */
static void move_caches(dctms_session *s, const dct_plan *from, const dct_plan *to) {
    bool to_larger = to->bounds.n_ctx > from->bounds.n_ctx;
    char *base = s->bases.of[DCT_REGION_KV];
    for (uint32_t i = DCT_NONE; (i = next_cache(from, to_larger, i)) != DCT_NONE;) {
        const dct_plan_cache *a = &from->caches[i], *b = &to->caches[i];
        dct_kv_move(a->c.type, a->c.n_head_kv, a->c.head_dim, s->n_past, base + a->offset, a->c.n_ctx, base + b->offset,
                    b->c.n_ctx);
    }
}

void dct_session_settle(dctms_session *s) {
    uint32_t member = 0;
    while (member < s->plan->n_smaller && dct_plan_member(s->plan, member)->bounds.n_ctx <= s->n_past) member++;
    if (s->dynamic != NULL) member = s->plan->n_smaller; /* whose caches grow as they must */
    if (member == s->member) return;
    move_caches(s, dct_plan_member(s->plan, s->member), dct_plan_member(s->plan, member));
    s->member = member;
}
