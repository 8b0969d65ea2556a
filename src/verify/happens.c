/* What is ordered before what, and whether that is enough for every value to be read after it was written.
 *
 * Workers walk the steps in their order but wait only where a step says so. Step t is complete before step s starts when s
 * waits for t, or when both are steps of one and the same worker and t stands earlier, or through a third step. A step of
 * several workers is never ordered by their walks: one of them may still be in t while another has begun s.
 *
 * Inside a step, op 0 is complete before op 1 starts, and so on: one worker runs the tail.
 */
#include "base/bits.h"
#include "verify/checker.h"

bool dct_happens_before(const dct_facts *f, dct_op_id a, dct_op_id b) {
    if (f->is_chain) return f->number[a] < f->number[b];
    if (*f->questions_left == 0) return false;
    --*f->questions_left;
    uint32_t sa = f->step_of[a], sb = f->step_of[b];
    if (sa == sb) return f->rank_of[a] < f->rank_of[b];
    return dct_bit_is_set(&f->before[(uint64_t)sb * f->n_words], sa);
}

dct_life dct_life_of(const dct_facts *f, dct_value_id v) {
    dct_life life = {UINT32_MAX, 0};
    for (uint32_t i = f->access_begin[v]; i < f->access_begin[v + 1]; i++) {
        uint32_t at = f->number[f->accesses[i].op];
        if (at < life.first) life.first = at;
        if (at > life.last) life.last = at;
    }
    return life;
}

bool dct_all_before(const dct_facts *f, dct_value_id x, dct_value_id y, dct_op_id except) {
    for (uint32_t i = f->access_begin[x]; i < f->access_begin[x + 1]; i++) {
        if (f->accesses[i].op == except) continue;
        for (uint32_t j = f->access_begin[y]; j < f->access_begin[y + 1]; j++) {
            if (!dct_happens_before(f, f->accesses[i].op, f->accesses[j].op)) return false;
        }
    }
    return true;
}

/* Step t, and all that is complete before it, is complete before step s. */
static void put_before(dct_facts *f, uint32_t t, uint32_t s) {
    uint64_t *row = &f->before[(uint64_t)s * f->n_words];
    const uint64_t *earlier = &f->before[(uint64_t)t * f->n_words];
    for (uint32_t w = 0; w <= t / 64; w++) row[w] |= earlier[w];
    dct_bit_set(row, t);
}

/* Whatever is before s has a lower number: one pass upward closes the relation. Of the earlier steps of a single worker it is
 * enough to take over the latest, which took over the others. */
static dct_status derive_before(dct_checker *c, dct_facts *f) {
    const dct_phase *phase = f->phase;
    uint32_t *latest = dct_arena_array(c->arena, c->plan->bounds.threads, sizeof *latest); /* a worker: its last step alone */
    f->n_words = (uint32_t)dct_bit_words(phase->n_steps);
    f->before = dct_arena_array(c->arena, (uint64_t)phase->n_steps * f->n_words, sizeof *f->before);
    if (f->before == NULL || latest == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    for (uint32_t w = 0; w < c->plan->bounds.threads; w++) latest[w] = DCT_NONE;
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        const dct_step *step = &phase->steps[s];
        for (uint32_t i = 0; i < step->n_waits; i++) put_before(f, phase->waits[step->wait_begin + i], s);
        if (step->n_workers != 1) continue;
        if (latest[step->worker_first] != DCT_NONE) put_before(f, latest[step->worker_first], s);
        latest[step->worker_first] = s;
    }
    return DCT_OK;
}

static dct_status number_ops(dct_checker *c, dct_facts *f) {
    const dct_phase *phase = f->phase;
    f->number = dct_arena_array(c->arena, f->graph->n_ops, sizeof *f->number);
    if (f->number == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    uint32_t next = 0;
    bool chain = true;
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        if (s > 0 && !dct_bit_is_set(&f->before[(uint64_t)s * f->n_words], s - 1)) chain = false;
        for (uint32_t i = 0; i < phase->steps[s].n_ops; i++) f->number[phase->steps[s].ops[i]] = next++;
    }
    f->is_chain = chain;
    return DCT_OK;
}

static dct_status check_accesses(dct_checker *c, const dct_facts *f, dct_value_id v, dct_op_id a, dct_op_id b) {
    if (a == b || dct_happens_before(f, a, b)) return DCT_OK;
    return dct_refuse(c, DCT_DEFECT_STEP_ORDER,
                      "%s: '%s': op %u (%s, step %u) need not be complete when op %u (%s, step %u) starts", f->phase->name,
                      f->graph->values[v].name, a, dct_op_info_of(f->graph->ops[a].kind)->name, f->step_of[a], b,
                      dct_op_info_of(f->graph->ops[b].kind)->name, f->step_of[b]);
}

/* Of two accesses of one value, in the graph's order, one of which writes, the first must be over before the second starts:
 * its making before its readings, its readings before it is overwritten, a cache's rows stored before attention reads them. Order
 * is transitive, so each access is held against the write before it and, when it writes, against the readings since. */
static dct_status check_value(dct_checker *c, const dct_facts *f, dct_value_id v) {
    if (f->graph->values[v].format == DCT_FMT_BYTES)
        return DCT_OK;                   /* scratch carries nothing from op to op; sharing is memory.c's */
    uint32_t since = f->access_begin[v]; /* the last write, or the first access */
    dct_status status = DCT_OK;
    for (uint32_t i = since; i < f->access_begin[v + 1]; i++) {
        dct_access at = f->accesses[i];
        if (f->accesses[since].writes) status = check_accesses(c, f, v, f->accesses[since].op, at.op);
        for (uint32_t j = since; at.writes && j < i && status == DCT_OK; j++)
            status = check_accesses(c, f, v, f->accesses[j].op, at.op);
        if (status != DCT_OK) return status;
        if (at.writes) since = i;
    }
    return DCT_OK;
}

dct_status dct_check_order(dct_checker *c, dct_facts *f) {
    dct_status status = derive_before(c, f);
    if (status == DCT_OK) status = number_ops(c, f);
    for (dct_value_id v = 0; v < f->graph->n_values && status == DCT_OK; v++) status = check_value(c, f, v);
    return status;
}
