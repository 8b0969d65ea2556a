/* A simulator of one phase of a plan: it runs the steps in any order that waits and workers allow, and watches every line of
 * memory. It knows the executor's contract (plan/plan.h, dct_step) and nothing of lifetimes or of what happens before what.
 *
 * A step may begin when the steps that it waits for are complete and, if one worker runs it, when all earlier steps that the same
 * worker runs alone are. An op has a begin, from which on its results are half written, and an end, at which they are complete;
 * up to its end all that it reads and all that it wrote must stay as it was. Between the two, any other step may do anything that it
 * may do at all: the executor's pieces and its workers' walk through the steps can give no interleaving that is not among these.
 *
 * Each line of 64 bytes holds the mark of who wrote it last, even when half written. Whoever finds another mark than it must has
 * been hurt: the value is noted, and those whose bytes it took in place.
 */
#ifndef TESTS_SIMULATOR_H
#define TESTS_SIMULATOR_H

#include <stdlib.h>

#include "plan/plan.h"

enum { SIM_LINE = 64, SIM_WRITES = DCT_OP_MAX_IN + DCT_OP_MAX_OUT + 1 };

/* A value that an op touches, and the mark that it must find or leave there. */
typedef struct sim_touch {
    dct_value_id value;
    uint32_t mark;
} sim_touch;

typedef struct sim_op {
    uint32_t n_reads, n_writes;
    sim_touch reads[DCT_OP_MAX_IN], writes[SIM_WRITES];
} sim_op;

typedef struct simulator {
    const dct_phase *phase;
    sim_op *ops;
    uint32_t *lines[DCT_REGION_COUNT]; /* marks; 0: as before the run */
    uint64_t n_lines[DCT_REGION_COUNT];
    uint32_t *alone_before;            /* a step of one worker: that worker's last such step before it, or DCT_NONE */
    uint32_t *at;                      /* a step: half ops done; its op at / 2 has begun when it is odd */
    bool *hurt;                        /* a value: somebody found it overwritten, over all runs */
    uint32_t n_hurt;                   /* how often, over all runs */
} simulator;

static inline void *sim_alloc(uint64_t n, size_t size) {
    void *memory = calloc(n + 1, size);
    if (memory == NULL) abort();
    return memory;
}

/* Weights and caches have regions of their own, in which nothing is packed; what they hold is not followed. */
static inline bool sim_follows(const simulator *s, dct_value_id v) {
    dct_region region = s->phase->places[v].region;
    return region == DCT_REGION_ARENA || region == DCT_REGION_PERSISTENT;
}

/* Which mark each op must find, from the order of the graph: the last write to a value before the op. */
static inline void sim_list_touches(simulator *s) {
    const dct_graph *g = &s->phase->graph;
    uint32_t *mark = sim_alloc(g->n_values, sizeof *mark), next = 1; /* odd: complete */
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        const dct_op *op = &g->ops[k];
        sim_op *o = &s->ops[k];
        for (uint32_t i = 0; i < op->n_in; i++) {
            dct_value_id v = op->in[i];
            if (v == DCT_NONE || !sim_follows(s, v)) continue;
            o->reads[o->n_reads++] = (sim_touch){v, mark[v]};
            if (dct_op_writes_input(op->kind, i)) o->writes[o->n_writes++] = (sim_touch){v, mark[v] = next += 2};
        }
        for (uint32_t i = 0; i < op->n_out; i++) {
            dct_value_id v = op->out[i];
            if (v != DCT_NONE && sim_follows(s, v)) o->writes[o->n_writes++] = (sim_touch){v, mark[v] = next += 2};
        }
        if (s->phase->scratch[k] != DCT_NONE) o->writes[o->n_writes++] = (sim_touch){s->phase->scratch[k], next += 2};
    }
    free(mark);
}

static inline void sim_open(simulator *s, const dct_phase *phase, const uint64_t region_bytes[DCT_REGION_COUNT],
                            uint32_t workers) {
    *s = (simulator){.phase = phase};
    s->ops = sim_alloc(phase->graph.n_ops, sizeof *s->ops);
    s->alone_before = sim_alloc(phase->n_steps, sizeof *s->alone_before);
    s->at = sim_alloc(phase->n_steps, sizeof *s->at);
    s->hurt = sim_alloc(phase->graph.n_values, sizeof *s->hurt);
    for (int r = DCT_REGION_PERSISTENT; r <= DCT_REGION_ARENA; r++) {
        s->n_lines[r] = region_bytes[r] / SIM_LINE;
        s->lines[r] = sim_alloc(s->n_lines[r], sizeof **s->lines);
    }
    uint32_t *last = sim_alloc(workers, sizeof *last);
    for (uint32_t w = 0; w < workers; w++) last[w] = DCT_NONE;
    for (uint32_t t = 0; t < phase->n_steps; t++) {
        const dct_step *step = &phase->steps[t];
        s->alone_before[t] = step->n_workers == 1 ? last[step->worker_first] : DCT_NONE;
        if (step->n_workers == 1) last[step->worker_first] = t;
    }
    free(last);
    sim_list_touches(s);
}

static inline void sim_close(simulator *s) {
    for (int r = 0; r < DCT_REGION_COUNT; r++) free(s->lines[r]);
    free(s->ops);
    free(s->alone_before);
    free(s->at);
    free(s->hurt);
}

static inline void sim_restart(simulator *s) {
    for (int r = 0; r < DCT_REGION_COUNT; r++) {
        for (uint64_t i = 0; i < s->n_lines[r]; i++) s->lines[r][i] = 0;
    }
    for (uint32_t t = 0; t < s->phase->n_steps; t++) s->at[t] = 0;
}

static inline uint32_t *sim_lines_of(const simulator *s, dct_value_id v, uint64_t *n) {
    dct_place place = s->phase->places[v];
    *n = s->phase->graph.values[v].bytes / SIM_LINE;
    return s->lines[place.region] + place.offset / SIM_LINE;
}

static inline void sim_write(simulator *s, sim_touch t) {
    uint64_t n;
    uint32_t *lines = sim_lines_of(s, t.value, &n);
    for (uint64_t i = 0; i < n; i++) lines[i] = t.mark;
}

static inline void sim_expect(simulator *s, sim_touch t) {
    uint64_t n;
    const uint32_t *lines = sim_lines_of(s, t.value, &n);
    for (uint64_t i = 0; i < n; i++) {
        if (lines[i] == t.mark) continue;
        for (dct_value_id v = t.value; v != DCT_NONE; v = s->phase->graph.values[v].alias_of) s->hurt[v] = true;
        s->n_hurt++;
        return;
    }
}

/* Whether op overwrites the bytes of value v itself: its input as it goes, or its result in place of it. */
static inline bool sim_overwrites(const simulator *s, const sim_op *op, dct_value_id v) {
    const dct_graph *g = &s->phase->graph;
    for (uint32_t i = 0; i < op->n_writes; i++) {
        dct_value_id w = op->writes[i].value;
        if (w == v || g->values[w].alias_of == v) return true;
    }
    return false;
}

static inline sim_touch sim_half(sim_touch t) { return (sim_touch){t.value, t.mark - 1}; }

static inline void sim_op_begins(simulator *s, const sim_op *op) {
    for (uint32_t i = 0; i < op->n_reads; i++) sim_expect(s, op->reads[i]);
    for (uint32_t i = 0; i < op->n_writes; i++) sim_write(s, sim_half(op->writes[i]));
}

static inline void sim_op_ends(simulator *s, const sim_op *op) {
    for (uint32_t i = 0; i < op->n_reads; i++) {
        if (!sim_overwrites(s, op, op->reads[i].value)) sim_expect(s, op->reads[i]);
    }
    for (uint32_t i = 0; i < op->n_writes; i++) {
        sim_expect(s, sim_half(op->writes[i]));
        sim_write(s, op->writes[i]);
    }
}

static inline bool sim_is_done(const simulator *s, uint32_t t) { return s->at[t] == 2 * s->phase->steps[t].n_ops; }

static inline bool sim_may_move(const simulator *s, uint32_t t) {
    const dct_step *step = &s->phase->steps[t];
    if (s->at[t] > 0) return !sim_is_done(s, t);
    for (uint32_t i = 0; i < step->n_waits; i++) {
        if (!sim_is_done(s, s->phase->waits[step->wait_begin + i])) return false;
    }
    return s->alone_before[t] == DCT_NONE || sim_is_done(s, s->alone_before[t]);
}

/* Half an op of step t, which may move. */
static inline void sim_move(simulator *s, uint32_t t) {
    const sim_op *op = &s->ops[s->phase->steps[t].ops[s->at[t] / 2]];
    if (s->at[t] % 2 == 0) sim_op_begins(s, op);
    else sim_op_ends(s, op);
    s->at[t]++;
}

/* Every step runs to its end as soon as it may, in order of number, but for step `held`, which stops where it stands. */
static inline void sim_run_others(simulator *s, uint32_t held) {
    for (uint32_t t = 0; t < s->phase->n_steps; t++) {
        while (t != held && sim_may_move(s, t)) sim_move(s, t);
    }
}

/* The run that is worst for op `rank` of step t: it begins as early as it can, and ends after all that need not wait for it. */
static inline void sim_run_held(simulator *s, uint32_t t, uint32_t rank) {
    sim_restart(s);
    for (uint32_t earlier = 0; earlier < t; earlier++) {
        while (sim_may_move(s, earlier)) sim_move(s, earlier);
    }
    while (s->at[t] <= 2 * rank && sim_may_move(s, t)) sim_move(s, t);
    sim_run_others(s, t);
    sim_run_others(s, DCT_NONE);
}

static inline void sim_run_each_held(simulator *s) {
    for (uint32_t t = 0; t < s->phase->n_steps; t++) {
        for (uint32_t rank = 0; rank < s->phase->steps[t].n_ops; rank++) sim_run_held(s, t, rank);
    }
}

/* In order, nothing at the same time: what one thread would do. */
static inline void sim_run_in_order(simulator *s) {
    sim_restart(s);
    sim_run_others(s, DCT_NONE);
}

/* Whoever may move does, by lot. */
static inline void sim_run_random(simulator *s, uint32_t (*draw_below)(uint32_t)) {
    uint32_t *movable = sim_alloc(s->phase->n_steps, sizeof *movable), n;
    sim_restart(s);
    for (;;) {
        n = 0;
        for (uint32_t t = 0; t < s->phase->n_steps; t++) {
            if (sim_may_move(s, t)) movable[n++] = t;
        }
        if (n == 0) break;
        sim_move(s, movable[draw_below(n)]);
    }
    free(movable);
}

#endif
