/* What is ordered before what, and whether that is enough for every value to be read after it was written.
 *
 * Workers walk the steps in their order but wait only where a step says so. Step t is complete before step s starts when s
 * waits for t, or when both are steps of one and the same worker and t stands earlier, or through a third step. A step of
 * several workers is never ordered by their walks: one of them may still be in t while another has begun s.
 *
 * Inside a step, op 0 is complete before op 1 starts, and so on: one worker runs the tail.
 */
#include "verify/checker.h"

static bool bit(const uint64_t *row, uint32_t i) { return (row[i / 64] >> (i % 64)) & 1; }

bool dct_happens_before(const dct_facts *f, dct_op_id a, dct_op_id b) {
    uint32_t sa = f->step_of[a], sb = f->step_of[b];
    if (sa == sb) return f->rank_of[a] < f->rank_of[b];
    return bit(&f->before[(uint64_t)sb * f->n_words], sa);
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

/* Steps are numbered so that whatever is before s has a lower number: one pass upward closes the relation. */
static dct_status derive_before(dct_checker *c, dct_facts *f) {
    const dct_phase *phase = f->phase;
    f->n_words = (phase->n_steps + 63) / 64;
    f->before = dct_arena_array(c->arena, (uint64_t)phase->n_steps * f->n_words, sizeof *f->before);
    if (f->before == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        const dct_step *step = &phase->steps[s];
        uint64_t *row = &f->before[(uint64_t)s * f->n_words];
        for (uint32_t t = 0; t < s; t++) {
            const dct_step *earlier = &phase->steps[t];
            bool ordered = step->n_workers == 1 && earlier->n_workers == 1 && step->worker_first == earlier->worker_first;
            for (uint32_t i = 0; i < step->n_waits && !ordered; i++) ordered = phase->waits[step->wait_begin + i] == t;
            if (!ordered) continue;
            row[t / 64] |= UINT64_C(1) << (t % 64);
            for (uint32_t w = 0; w < f->n_words; w++) row[w] |= f->before[(uint64_t)t * f->n_words + w];
        }
    }
    return DCT_OK;
}

/* Of two accesses of one value, in the graph's order, one of which writes, the first must be over before the second starts:
 * its making before its readings, its readings before it is overwritten, a cache's rows stored before attention reads them. */
static dct_status check_value(dct_checker *c, const dct_facts *f, dct_value_id v) {
    const dct_value *value = &f->graph->values[v];
    if (value->format == DCT_FMT_BYTES) return DCT_OK; /* scratch carries nothing from op to op; sharing is memory.c's */
    for (uint32_t i = f->access_begin[v]; i < f->access_begin[v + 1]; i++) {
        for (uint32_t j = i + 1; j < f->access_begin[v + 1]; j++) {
            dct_access a = f->accesses[i], b = f->accesses[j];
            if (a.op == b.op || !(a.writes || b.writes) || dct_happens_before(f, a.op, b.op)) continue;
            return dct_refuse(c, DCT_DEFECT_STEP_ORDER, "%s: '%s': op %u (%s, step %u) need not be complete when op %u (%s, step %u) starts",
                              f->phase->name, value->name, a.op, dct_op_info_of(f->graph->ops[a.op].kind)->name, f->step_of[a.op], b.op,
                              dct_op_info_of(f->graph->ops[b.op].kind)->name, f->step_of[b.op]);
        }
    }
    return DCT_OK;
}

dct_status dct_check_order(dct_checker *c, dct_facts *f) {
    dct_status status = derive_before(c, f);
    for (dct_value_id v = 0; v < f->graph->n_values && status == DCT_OK; v++) status = check_value(c, f, v);
    return status;
}
