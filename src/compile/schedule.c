/* compile/schedule: steps, waits, and the time they should take.
 *
 * A step is one op split over all workers, with up to three cheap ops behind it that the last worker to finish runs alone. With
 * few rows (decode) the row-wise ops are such tails, which gives five steps and five waits a layer:
 *
 *      [linear_multi, rope_kv] [attn_part, attn_merge, quant] [linear_add, norm_quant] [linear_glu, quant]
 *      [linear_add, norm_quant]
 *
 * With many rows every op is a step, cut by rows.
 *
 * A step waits for the steps that its ops depend on: through a value or cache that one of two ops writes (in the bytes where it
 * really lies), and, as the paper's first constraint asks, when both are bandwidth-bound. Walking candidates from the latest to
 * the earliest, a wait that an earlier wait implies is left out: the least set of waits that gives the same order.
 */
#include <string.h>

#include "base/bits.h"
#include "compile/concurrency.h"
#include "compile/passes.h"

typedef struct cost {
    double bytes, macs;
} cost;

/* The experts that are chosen at most, of all that the weight has. */
static double share_used(const dct_graph *g, const dct_op *op) {
    double choices = (double)g->values[op->in[1]].rows * op->p.n_used;
    return (choices < op->p.n_expert ? choices : op->p.n_expert) / op->p.n_expert;
}

/* Bytes that the op moves and multiply-accumulates that it does, with caches filled to `context` positions. */
static cost cost_of(const dct_graph *g, const dct_op *op, uint32_t context) {
    cost c = {0, 0};
    for (uint32_t k = 0; k < op->n_in; k++) {
        if (op->in[k] == DCT_NONE) continue;
        const dct_value *v = &g->values[op->in[k]];
        bool attends = op->kind == DCT_OP_ATTN || op->kind == DCT_OP_ATTN_PART;
        if (v->kind == DCT_KIND_KV)
            c.bytes += attends ? (double)v->bytes * context / v->rows : 0; /* a store writes what its inputs hold */
        else if (v->kind == DCT_KIND_PERSISTENT || op->kind == DCT_OP_EMBED) continue;             /* few rows of many */
        else c.bytes += (double)v->bytes * (op->kind == DCT_OP_EXPERTS && k == 2 ? share_used(g, op) : 1);
        if (v->format == DCT_FMT_WEIGHT && op->kind == DCT_OP_EXPERTS)
            c.macs += (double)v->rows / op->p.n_expert * v->cols * g->values[op->out[0]].rows;
        else if (v->format == DCT_FMT_WEIGHT) c.macs += (double)v->rows * v->cols * g->values[op->in[0]].rows;
        if (v->format == DCT_FMT_KV_ROWS)
            c.macs += (double)v->rows * v->cols * op->p.n_head / op->p.n_head_kv * g->values[op->in[0]].rows;
        if (v->kind == DCT_KIND_KV && attends)
            c.macs += (double)context * op->p.n_head * v->cols / (op->p.n_head_kv > 0 ? op->p.n_head_kv : 1) *
                      g->values[op->in[0]].rows;
    }
    for (uint32_t k = 0; k < op->n_out; k++) {
        if (op->out[k] == DCT_NONE) continue;
        c.bytes += (double)g->values[op->out[k]].bytes;
        c.macs += (double)g->values[op->out[k]].bytes / sizeof(float);
    }
    return c;
}

static double seconds(cost c, cost per_second) {
    double moving = c.bytes / per_second.bytes, counting = c.macs / per_second.macs;
    return moving > counting ? moving : counting;
}

/* What all workers reach together. */
static cost rates_of(const dct_bounds *bounds, const dct_profile *p) {
    if (bounds->threads == 1) return (cost){p->bytes_per_s_one, p->macs_per_s_one};
    return (cost){p->bytes_per_s_all, p->macs_per_s_all};
}

static bool is_bandwidth_bound(cost c, cost rates) { return c.bytes / rates.bytes > c.macs / rates.macs; }

bool dct_op_is_bandwidth_bound(const dct_graph *g, const dct_op *op, const dct_bounds *bounds, const dct_profile *p) {
    return is_bandwidth_bound(cost_of(g, op, bounds->n_ctx / 2), rates_of(bounds, p));
}

static dct_status make_steps(const dct_graph *g, const dct_bounds *bounds, dct_arena *arena, dct_schedule *s, dct_err *err) {
    s->steps = dct_arena_array(arena, g->n_ops, sizeof *s->steps);
    s->step_of = dct_arena_array(arena, g->n_ops, sizeof *s->step_of);
    if (s->steps == NULL || s->step_of == NULL) return dct_fail_memory(err, arena, "the steps");
    for (dct_op_id i = 0; i < g->n_ops; i++) {
        dct_step *step = s->n_steps > 0 ? &s->steps[s->n_steps - 1] : NULL;
        bool tail = step != NULL && g->rows <= DCT_SMALL_ROWS && dct_op_info_of(g->ops[i].kind)->row_wise &&
                    step->n_ops < DCT_STEP_MAX_OPS;
        if (!tail) {
            step = &s->steps[s->n_steps++];
            step->worker_first = 0;
            step->n_workers = bounds->threads;
        }
        step->ops[step->n_ops++] = i;
        s->step_of[i] = s->n_steps - 1;
    }
    return DCT_OK;
}

/* Who touched the bytes of a value since they were last written. */
typedef struct touch {
    uint32_t step, next; /* a list of readers */
} touch;

typedef struct hazards {
    const dct_graph *g;
    uint32_t *writer;  /* a root value: the step that wrote it last */
    uint32_t *readers; /* a root value: first of its list */
    touch *touches;
    uint32_t n_touches;
    uint8_t *need;     /* a step: the one at hand must come after it */
} hazards;

static void need_step(hazards *h, uint32_t step, uint32_t now) {
    if (step != DCT_NONE && step != now) h->need[step] = 1;
}

static void touch_read(hazards *h, dct_value_id root, uint32_t now) {
    need_step(h, h->writer[root], now);
    h->touches[h->n_touches] = (touch){now, h->readers[root]};
    h->readers[root] = h->n_touches++;
}

static void touch_write(hazards *h, dct_value_id root, uint32_t now) {
    need_step(h, h->writer[root], now);
    for (uint32_t r = h->readers[root]; r != DCT_NONE; r = h->touches[r].next) need_step(h, h->touches[r].step, now);
    h->writer[root] = now;
    h->readers[root] = DCT_NONE;
}

/* Marks what step `now` depends on, and records what it touches. */
static void touch_step(hazards *h, const dct_step *step, uint32_t now) {
    for (uint32_t i = 0; i < step->n_ops; i++) {
        const dct_op *op = &h->g->ops[step->ops[i]];
        for (uint32_t k = 0; k < op->n_in; k++) {
            if (op->in[k] != DCT_NONE) touch_read(h, dct_alias_root(h->g, op->in[k]), now);
        }
        for (uint32_t k = 0; k < op->n_in; k++) {
            if (op->in[k] != DCT_NONE && dct_op_writes_input(op->kind, k)) touch_write(h, dct_alias_root(h->g, op->in[k]), now);
        }
        for (uint32_t k = 0; k < op->n_out; k++) {
            if (op->out[k] != DCT_NONE) touch_write(h, dct_alias_root(h->g, op->out[k]), now);
        }
    }
}

static bool is_before(const dct_schedule *s, uint32_t first, uint32_t second) {
    return dct_bit_is_set(&s->before[(uint64_t)second * s->words], first);
}

static void set_before(dct_schedule *s, uint32_t first, uint32_t second) {
    uint64_t *row = &s->before[(uint64_t)second * s->words];
    const uint64_t *inherited = &s->before[(uint64_t)first * s->words];
    for (uint32_t w = 0; w <= first / 64; w++) row[w] |= inherited[w];
    dct_bit_set(row, first);
}

static dct_status push_wait(dct_schedule *s, uint32_t step, uint32_t *cap, dct_arena *arena, dct_err *err) {
    if (s->n_waits == *cap) {
        uint32_t grown_cap = *cap * 2 + 64;
        uint32_t *grown = dct_arena_grow(arena, s->waits, s->n_waits, grown_cap, sizeof *grown);
        if (grown == NULL) return dct_fail_memory(err, arena, "the waits");
        s->waits = grown;
        *cap = grown_cap;
    }
    s->waits[s->n_waits++] = step;
    return DCT_OK;
}

/* One worker walks its steps in order; of several, one may still be in a step while another has begun the next. */
static bool walks_on(const dct_step *earlier, const dct_step *step) {
    return earlier->n_workers == 1 && step->n_workers == 1 && earlier->worker_first == step->worker_first;
}

static dct_status make_waits(const dct_graph *g, const bool *bandwidth_bound, bool chain, dct_arena *arena, dct_schedule *s,
                             dct_err *err) {
    hazards h = {.g = g};
    uint32_t cap = 0;
    s->words = (uint32_t)dct_bit_words(s->n_steps);
    s->before = dct_arena_array(arena, (uint64_t)s->n_steps * s->words, sizeof *s->before);
    h.writer = dct_arena_array(arena, g->n_values, sizeof *h.writer);
    h.readers = dct_arena_array(arena, g->n_values, sizeof *h.readers);
    h.touches = dct_arena_array(arena, (uint64_t)g->n_ops * DCT_OP_MAX_IN, sizeof *h.touches);
    h.need = dct_arena_array(arena, s->n_steps, sizeof *h.need);
    if (s->before == NULL || h.writer == NULL || h.readers == NULL || h.touches == NULL || h.need == NULL)
        return dct_fail_memory(err, arena, "the waits");
    for (dct_value_id v = 0; v < g->n_values; v++) h.writer[v] = h.readers[v] = DCT_NONE;
    s->chain = true;
    for (uint32_t t = 0; t < s->n_steps; t++) {
        dct_step *step = &s->steps[t];
        memset(h.need, 0, t);
        touch_step(&h, step, t);
        step->wait_begin = s->n_waits;
        if (t > 0 && walks_on(&s->steps[t - 1], step)) set_before(s, t - 1, t);
        for (uint32_t e = t; e > 0; e--) {
            uint32_t earlier = e - 1;
            bool wanted = h.need[earlier] || (bandwidth_bound[earlier] && bandwidth_bound[t]) || (chain && earlier == t - 1);
            if (!wanted || is_before(s, earlier, t)) continue;
            set_before(s, earlier, t);
            dct_status status = push_wait(s, earlier, &cap, arena, err);
            if (status != DCT_OK) return status;
        }
        step->n_waits = s->n_waits - step->wait_begin;
        if (t > 0 && !is_before(s, t - 1, t)) s->chain = false;
    }
    return DCT_OK;
}

/* Estimates every step and says which are bandwidth-bound. The roofline takes each byte and each product of the phase once, on
 * all workers. */
static void estimate(const dct_graph *g, const dct_bounds *bounds, const dct_profile *p, dct_schedule *s, bool *bandwidth_bound) {
    const cost all = rates_of(bounds, p), one = {p->bytes_per_s_one, p->macs_per_s_one};
    cost sum = {0, 0};
    for (uint32_t t = 0; t < s->n_steps; t++) {
        dct_step *step = &s->steps[t];
        double time = 0;
        for (uint32_t i = 0; i < step->n_ops; i++) {
            cost c = cost_of(g, &g->ops[step->ops[i]], bounds->n_ctx / 2);
            sum.bytes += c.bytes;
            sum.macs += c.macs;
            if (i == 0) bandwidth_bound[t] = is_bandwidth_bound(c, all);
            time += seconds(c, i == 0 ? all : one);
        }
        step->est_us = (float)(time * 1e6);
    }
    s->roofline_us = seconds(sum, all) * 1e6;
}

dct_status dct_schedule_make(const dct_graph *g, const dct_bounds *bounds, const dct_profile *profile, bool chain,
                             dct_arena *arena, dct_schedule *out, dct_err *err) {
    dct_schedule s = {0};
    dct_status status = make_steps(g, bounds, arena, &s, err);
    if (status != DCT_OK) return status;
    bool *bandwidth_bound = dct_arena_array(arena, s.n_steps, sizeof *bandwidth_bound);
    if (bandwidth_bound == NULL) return dct_fail_memory(err, arena, "the schedule");
    estimate(g, bounds, profile, &s, bandwidth_bound);
    status = make_waits(g, bandwidth_bound, chain, arena, &s, err);
    if (status != DCT_OK) return status;
    for (uint32_t t = 0; t < s.n_steps; t++) {
        s.steps[t].est_us += (float)(s.steps[t].n_waits > 0 ? profile->wait_us : 0);
        s.est_us += (double)s.steps[t].est_us;
    }
    *out = s;
    return DCT_OK;
}

bool dct_schedule_before(const dct_schedule *s, dct_op_id a, dct_op_id b) {
    uint32_t step_a = s->step_of[a], step_b = s->step_of[b];
    return step_a == step_b ? a < b : is_before(s, step_a, step_b);
}
