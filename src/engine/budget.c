/* engine/budget: the longest context that a budget has room for, and what is said when there is none.
 *
 * With one chunk a longer context takes more, but for one place: where the caches or the arena become as large as what loading
 * needs, loading is done there and has no bytes of its own any more. So for each chunk there are two stretches, and in each of
 * them halving finds the longest context that fits.
 */
#include "base/size.h"
#include "engine/engine.h"
#include "plan/plan_text.h"

dct_need dct_need_of(const dct_plan *plan) {
    uint64_t offset, bytes;
    dct_need n = {.bytes = plan->m_max_bytes, .n_ctx = plan->bounds.n_ctx, .ubatch = plan->bounds.ubatch};
    for (int r = 0; r < DCT_REGION_COUNT; r++) n.terms[r] = dct_plan_region_bytes(plan, (dct_region)r);
    n.has_staging = dct_plan_find_item(plan, DCT_REGION_RUNTIME, DCT_ITEM_STAGING, &offset, &bytes);
    return n;
}

dct_status dct_fail_budget(const dct_need *least, uint64_t budget, dct_err *err) {
    return dct_fail(err, DCT_NO_FIT,
                    "needs at least %llu bytes (%.2f MiB) with ctx %u and ubatch %u: weights %.2f, kv %.2f, persistent %.2f, "
                    "intermediate %.2f, runtime %.2f MiB; the budget is %llu bytes (%.2f MiB)",
                    (unsigned long long)least->bytes, dct_mib(least->bytes), least->n_ctx, least->ubatch,
                    dct_mib(least->terms[DCT_REGION_WEIGHTS]), dct_mib(least->terms[DCT_REGION_KV]),
                    dct_mib(least->terms[DCT_REGION_PERSISTENT]), dct_mib(least->terms[DCT_REGION_ARENA]),
                    dct_mib(least->terms[DCT_REGION_RUNTIME]), (unsigned long long)budget, dct_mib(budget));
}

typedef struct search {
    const dctms_model *model;
    dct_request request; /* without a budget; its chunk is the one that is looked at */
    uint64_t budget;
    dct_need least;      /* of all plans that were made */
    dct_err *err;
} search;

static dct_status measure(search *s, uint32_t n_ctx, dct_need *out) {
    dct_bounds bounds;
    dct_arena work;
    dct_plan *plan;
    s->request.params.n_ctx = n_ctx;
    dct_arena_init(&work, 0);
    dct_status status = dct_choose_bounds(s->model, &s->request.params, &bounds, s->err);
    if (status == DCT_OK) status = dct_family_compile(s->model, &s->request, &bounds, &work, &plan, s->err);
    if (status == DCT_OK) {
        *out = dct_need_of(plan);
        if (out->bytes < s->least.bytes) s->least = *out;
    }
    dct_arena_deinit(&work);
    return status;
}

/* The first context above `low` for which loading has no bytes of its own; at `low` it has, at *high it has not. */
static dct_status find_step(search *s, uint32_t low, uint32_t *high, dct_need *at) {
    dct_status status = DCT_OK;
    while (status == DCT_OK && *high - low > 1) {
        dct_need now;
        const uint32_t middle = low + (*high - low) / 2;
        status = measure(s, middle, &now);
        if (status != DCT_OK) return status;
        if (now.has_staging) {
            low = middle;
        } else {
            *high = middle;
            *at = now;
        }
    }
    return status;
}

/* The longest context from `low`, which fits, to below `high`. */
static dct_status find_longest(search *s, uint32_t low, uint32_t high, uint32_t *n_ctx) {
    dct_status status = DCT_OK;
    while (status == DCT_OK && high - low > 1) {
        dct_need now;
        const uint32_t middle = low + (high - low) / 2;
        status = measure(s, middle, &now);
        if (status == DCT_OK && now.bytes <= s->budget) low = middle;
        else high = middle;
    }
    *n_ctx = low;
    return status;
}

/* The longest context from `low` to below `high` that fits with this chunk; 0: none does. At `high` none does with any. */
static dct_status fit_with_chunk(search *s, uint32_t low, uint32_t high, uint32_t *n_ctx) {
    dct_need at_low, at_high;
    *n_ctx = 0;
    dct_status status = measure(s, low, &at_low);
    if (status == DCT_OK && at_low.has_staging) status = measure(s, high, &at_high);
    if (status != DCT_OK) return status;
    if (at_low.has_staging && !at_high.has_staging) {
        uint32_t step = high;
        status = find_step(s, low, &step, &at_high);
        if (status != DCT_OK) return status;
        if (at_high.bytes <= s->budget) return find_longest(s, step, high, n_ctx);
        high = step;
    }
    return at_low.bytes <= s->budget ? find_longest(s, low, high, n_ctx) : DCT_OK;
}

dct_status dct_fit_context(const dctms_model *m, const dct_request *r, const dct_bounds *too_much, uint32_t *n_ctx,
                           dct_err *err) {
    search s = {.model = m, .request = *r, .budget = r->params.memory_budget, .least = {.bytes = UINT64_MAX}, .err = err};
    s.request.params.memory_budget = s.request.params.budget_ctx = 0;
    uint32_t chunks[33], n = 0, low = r->params.budget_ctx;
    *n_ctx = 0;
    chunks[n++] = too_much->ubatch;
    for (; chunks[n - 1] > 1; n++) chunks[n] = dct_pow2_under(chunks[n - 1]);
    while (n > 0 && low < too_much->n_ctx) { /* the smallest chunk first: with it the longest contexts fit, nearly always */
        uint32_t fits;
        s.request.params.ubatch = chunks[--n];
        dct_status status = fit_with_chunk(&s, low, too_much->n_ctx, &fits);
        if (status != DCT_OK) return status;
        if (fits == 0) continue;
        *n_ctx = fits;
        low = fits + 1; /* longer ones alone are of interest */
    }
    return *n_ctx != 0 ? DCT_OK : dct_fail_budget(&s.least, r->params.memory_budget, err);
}
