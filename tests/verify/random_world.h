/* Random graphs on random schedules, as plans: placed by dct_pack, otherwise made without compile/. What is ordered and who
 * conflicts is worked out here, apart from compile/ and verify/. One op a step, of the same number. */
#ifndef TESTS_RANDOM_WORLD_H
#define TESTS_RANDOM_WORLD_H

#include "verify_support.h"

#include "kernels/layout.h"

enum { MAX_OPS = 40, MAX_VALUES = 200, MAX_WAITS = 512, PACK_NODES = 1000 };

static uint64_t lot;
static uint32_t draw(uint32_t n) { /* xorshift64*: the same on every machine */
    lot ^= lot >> 12;
    lot ^= lot << 25;
    lot ^= lot >> 27;
    return (uint32_t)((lot * UINT64_C(0x2545f4914f6cdd1d)) >> 40) % n;
}

typedef struct world {
    dct_arena arena;
    dct_plan plan;
    uint64_t before[MAX_OPS];    /* an op: bit a, op a is complete before it starts */
    uint64_t touches[MAX_VALUES]; /* a root value: the ops that read or write its bytes */
} world;

static dct_phase *phase_of(world *w) { return &w->plan.phases[0]; }

/* ---- a graph ---- */

static dct_value_id matrix(dct_graph *g, uint32_t rows, uint32_t cols) {
    dct_weight w = {.type = DCT_TYPE_F32, .n_rows = rows, .n_cols = cols};
    snprintf(w.tensor, sizeof w.tensor, "w%u_%u", rows, cols);
    assert_true(dct_layout_bytes(DCT_TYPE_F32, rows, cols, &w.bytes));
    return dct_graph_weight(g, &w);
}

static void make_graph(world *w) {
    dct_graph *g = &phase_of(w)->graph;
    dct_graph_init(g, &w->arena, 1);
    g->ids = dct_graph_input_i32(g, "ids", 1, 1);
    g->pos = dct_graph_input_i32(g, "pos", 1, 4);
    static const uint32_t widths[] = {16, 48, 160, 400};
    dct_value_id made[MAX_OPS];
    uint32_t n = 0;
    made[n++] = dct_trace_embed(g, g->ids, matrix(g, 8, 48), 1.0f, "x");
    while (n < 6 + draw(MAX_OPS - 8)) {
        dct_value_id a = made[n > 6 && draw(3) != 0 ? n - 1 - draw(6) : draw(n)], b = made[draw(n)];
        char name[24];
        uint32_t cols = g->values[a].cols, kind = draw(3);
        snprintf(name, sizeof name, "v%u", n);
        if (kind == 0 && g->values[b].cols == cols) made[n++] = dct_trace_add(g, a, b, -1, name);
        else if (kind == 1) made[n++] = dct_trace_softcap(g, a, 30.0f, name);
        else made[n++] = dct_trace_linear(g, a, matrix(g, widths[draw(4)], cols), DCT_NONE, -1, name);
    }
    dct_value_id out = dct_trace_linear(g, made[n - 1], matrix(g, 32, g->values[made[n - 1]].cols), DCT_NONE, -1, "logits");
    dct_graph_output(g, out);
    assert_int_equal(g->status, DCT_OK);
}

static dct_value_id root_of(const dct_graph *g, dct_value_id v) {
    while (g->values[v].alias_of != DCT_NONE) v = g->values[v].alias_of;
    return v;
}

/* ---- a schedule, and order by brute force ---- */

static uint64_t bit_of(uint32_t i) { return UINT64_C(1) << i; }
static bool is_before(const world *w, dct_op_id a, dct_op_id b) { return (w->before[b] & bit_of(a)) != 0; }

/* What is complete before step b, once that is known of the steps with lower numbers: what it waits for, what ran earlier on the
 * same worker alone, and what is before those. */
static void find_row(world *w, uint32_t b) {
    const dct_phase *phase = phase_of(w);
    const dct_step *step = &phase->steps[b];
    uint64_t row = 0;
    for (uint32_t i = 0; i < step->n_waits; i++) {
        uint32_t a = phase->waits[step->wait_begin + i];
        row |= bit_of(a) | w->before[a];
    }
    for (uint32_t a = 0; a < b; a++) {
        bool alone = phase->steps[a].n_workers == 1 && step->n_workers == 1;
        if (alone && phase->steps[a].worker_first == step->worker_first) row |= bit_of(a) | w->before[a];
    }
    w->before[b] = row;
}

static void wait_for(world *w, uint32_t step, uint32_t on) {
    dct_phase *phase = phase_of(w);
    assert_true(phase->n_waits < MAX_WAITS);
    phase->waits[phase->n_waits++] = on;
    phase->steps[step].n_waits++;
    find_row(w, step);
}

/* Takes a wait out of the list. */
static inline void drop_wait(dct_phase *phase, uint32_t at) {
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        dct_step *step = &phase->steps[s];
        if (at >= step->wait_begin && at < step->wait_begin + step->n_waits) step->n_waits--;
        else if (step->wait_begin > at) step->wait_begin--;
    }
    phase->n_waits--;
    memmove(phase->waits + at, phase->waits + at + 1, (phase->n_waits - at) * sizeof *phase->waits);
}

/* Scratch of op k, which it need not have but may. */
static dct_value_id make_scratch(world *w, dct_op_id k) {
    char name[24];
    snprintf(name, sizeof name, "scratch%u", k);
    return dct_graph_value(&phase_of(w)->graph, name, -1, DCT_KIND_INTERMEDIATE, DCT_FMT_BYTES, w->plan.bounds.threads,
                           64 * (1 + draw(4)));
}

/* Each op runs on one worker or on several, waits for what it reads, and now and then for some other. */
static inline void make_schedule(world *w) {
    dct_phase *phase = phase_of(w);
    const dct_graph *g = &phase->graph;
    uint32_t threads = w->plan.bounds.threads;
    phase->n_steps = g->n_ops;
    phase->steps = dct_arena_array(&w->arena, g->n_ops, sizeof *phase->steps);
    phase->waits = dct_arena_array(&w->arena, MAX_WAITS, sizeof *phase->waits);
    phase->scratch = dct_arena_array(&w->arena, g->n_ops, sizeof *phase->scratch);
    assert_true(phase->steps != NULL && phase->waits != NULL && phase->scratch != NULL);
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        dct_step *step = &phase->steps[k];
        bool many = draw(4) == 0;
        *step = (dct_step){.n_ops = 1, .ops = {k}, .n_workers = many ? 2 + draw(threads - 1) : 1, .wait_begin = phase->n_waits};
        step->worker_first = draw(threads - step->n_workers + 1);
        phase->scratch[k] = draw(4) == 0 ? make_scratch(w, k) : DCT_NONE;
        find_row(w, k);
        for (uint32_t i = 0; i < g->ops[k].n_in; i++) {
            dct_op_id p = g->values[g->ops[k].in[i]].producer;
            if (p != DCT_NONE && !is_before(w, p, k)) wait_for(w, k, p);
        }
        uint32_t other = draw(k + 1);
        if (draw(4) == 0 && other < k && !is_before(w, other, k)) wait_for(w, k, other);
    }
}

/* ---- in place ---- */

static inline bool op_reads(const dct_op *op, dct_value_id v) {
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->in[i] == v) return true;
    }
    return false;
}

/* Whether op k's result could take the bytes of its input as far as the graph tells: nobody reads the input later. */
static inline bool may_alias(const dct_graph *g, dct_op_id k) {
    int inplace = dct_op_info_of(g->ops[k].kind)->inplace;
    if (inplace < 0 || g->values[g->ops[k].in[inplace]].kind != DCT_KIND_INTERMEDIATE) return false;
    for (dct_op_id j = k + 1; j < g->n_ops; j++) {
        if (op_reads(&g->ops[j], g->ops[k].in[inplace])) return false;
    }
    return g->ops[k].kind != DCT_OP_ADD || g->ops[k].in[0] != g->ops[k].in[1];
}

/* Whether all others that touch value v are over before op k starts. */
static inline bool is_only_mine(const world *w, dct_op_id k, dct_value_id v) {
    const dct_graph *g = &w->plan.phases[0].graph;
    for (dct_op_id j = 0; j < g->n_ops; j++) {
        if (j != k && (op_reads(&g->ops[j], v) || g->values[v].producer == j) && !is_before(w, j, k)) return false;
    }
    return true;
}

static inline void make_aliases(world *w) {
    dct_graph *g = &phase_of(w)->graph;
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        if (!may_alias(g, k) || draw(2) != 0) continue;
        dct_value_id in = g->ops[k].in[dct_op_info_of(g->ops[k].kind)->inplace];
        if (is_only_mine(w, k, in)) g->values[g->ops[k].out[0]].alias_of = in;
    }
}

/* ---- who conflicts, by brute force ---- */

static void find_touches(world *w) {
    const dct_graph *g = &phase_of(w)->graph;
    memset(w->touches, 0, sizeof w->touches);
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        for (uint32_t i = 0; i < g->ops[k].n_in; i++) w->touches[root_of(g, g->ops[k].in[i])] |= bit_of(k);
        for (uint32_t i = 0; i < g->ops[k].n_out; i++) w->touches[root_of(g, g->ops[k].out[i])] |= bit_of(k);
        if (phase_of(w)->scratch[k] != DCT_NONE) w->touches[phase_of(w)->scratch[k]] |= bit_of(k);
    }
}

static bool is_over_before(const world *w, dct_value_id x, dct_value_id y) {
    for (uint64_t left = w->touches[y]; left != 0; left &= left - 1) {
        uint32_t b = 0;
        while ((left & bit_of(b)) == 0) b++;
        if ((w->touches[x] & ~w->before[b]) != 0) return false;
    }
    return true;
}

static bool conflict(const world *w, dct_value_id x, dct_value_id y) {
    return !is_over_before(w, x, y) && !is_over_before(w, y, x);
}

static bool is_buffer(const dct_graph *g, dct_value_id v) {
    dct_value_id out = root_of(g, g->logits);
    return g->values[v].kind == DCT_KIND_INTERMEDIATE && root_of(g, v) == v && v != out;
}

/* ---- a plan ---- */

/* Every buffer with its life in op numbers. Returns how many. */
static uint32_t find_items(const world *w, dct_pack_item *items, dct_value_id *value) {
    const dct_graph *g = &w->plan.phases[0].graph;
    uint32_t n = 0;
    for (dct_value_id v = 0; v < g->n_values; v++) {
        if (!is_buffer(g, v)) continue;
        dct_pack_item item = {.size = g->values[v].bytes, .align = 64, .begin = UINT32_MAX};
        for (dct_op_id k = 0; k < g->n_ops; k++) {
            if ((w->touches[v] & bit_of(k)) == 0) continue;
            if (item.begin == UINT32_MAX) item.begin = k;
            item.end = k + 1;
        }
        value[n] = v;
        items[n++] = item;
    }
    return n;
}

enum { CONFLICT_WORDS = MAX_VALUES * MAX_VALUES / 64 + 1 };

static void set_conflict(uint64_t *bits, uint32_t n, uint32_t x, uint32_t y) {
    uint64_t bit = (uint64_t)x * n + y;
    bits[bit / 64] |= UINT64_C(1) << (bit % 64);
}

/* Places what find_items found, and states the certificate. */
static void pack_items(world *w, dct_pack_item *items, const dct_value_id *value, uint32_t n, const uint64_t *conflicts) {
    dct_phase *phase = phase_of(w);
    const dct_graph *g = &phase->graph;
    dct_pack_result result;
    dct_err err = {0};
    if (dct_pack(items, n, conflicts, &(dct_pack_params){.nodes = PACK_NODES}, &w->arena, &result, &err) != DCT_OK)
        fail_msg("%s", err.message);
    phase->places = dct_arena_array(&w->arena, g->n_values, sizeof *phase->places);
    phase->cert = (dct_certificate){.load_bytes = result.load, .height_bytes = result.height, .op = result.at,
                                    .optimal = result.load == result.height};
    phase->cert.values = dct_arena_array(&w->arena, n, sizeof *phase->cert.values);
    assert_true(phase->places != NULL && phase->cert.values != NULL);
    phase->n_buffers = 0;
    for (uint32_t i = 0; i < n; i++) {
        phase->places[value[i]] = (dct_place){DCT_REGION_ARENA, items[i].offset};
        if (items[i].begin <= result.at && result.at < items[i].end) phase->cert.values[phase->cert.n_values++] = value[i];
        bool is_new = true;
        for (uint32_t j = 0; j < i; j++)
            is_new = is_new && (items[j].offset != items[i].offset || items[j].size != items[i].size);
        phase->n_buffers += is_new;
    }
}

/* index_order: as if order of ops were order in time, which planners for one thread take for granted. */
static void pack(world *w, bool index_order) {
    dct_pack_item items[MAX_VALUES];
    dct_value_id value[MAX_VALUES];
    uint64_t bits[CONFLICT_WORDS] = {0};
    uint32_t n = find_items(w, items, value);
    for (uint32_t x = 0; x < n; x++) {
        for (uint32_t y = 0; y < n; y++) {
            if (x == y || conflict(w, value[x], value[y])) set_conflict(bits, n, x, y);
        }
    }
    pack_items(w, items, value, n, index_order ? NULL : bits);
}

static void add_region(dct_plan *plan, dct_region region, uint64_t bytes) {
    bytes = (bytes + 4095) / 4096 * 4096;
    plan->region_bytes[region] = bytes;
    plan->reserve_bytes += bytes;
    if (bytes != 0) {
        plan->items[plan->n_items] = (dct_item){.region = region, .bytes = bytes};
        snprintf(plan->items[plan->n_items++].name, sizeof plan->items->name, "%s", dct_region_name(region));
    }
}

/* The persistent region: an item for each of the inputs and the output, and what is left of the page. */
static void add_ends(dct_plan *plan, const dct_phase *phase) {
    const dct_graph *g = &phase->graph;
    const struct {
        const char *name;
        dct_value_id id;
    } ends[] = {{DCT_ITEM_IDS, g->ids}, {DCT_ITEM_POS, g->pos}, {DCT_ITEM_LOGITS, root_of(g, g->logits)}};
    uint64_t at = 0, bytes;
    for (int i = 0; i <= 3; i++, at += bytes) {
        bytes = i < 3 ? g->values[ends[i].id].bytes : 4096 - at;
        plan->items[plan->n_items] = (dct_item){.region = DCT_REGION_PERSISTENT, .offset = at, .bytes = bytes};
        snprintf(plan->items[plan->n_items++].name, sizeof plan->items->name, "%s", i < 3 ? ends[i].name : "page rounding");
    }
    plan->region_bytes[DCT_REGION_PERSISTENT] = 4096;
    plan->reserve_bytes += 4096;
}

/* Packs, and puts together what else a plan has. */
static void make_plan(world *w, bool index_order) {
    dct_plan *plan = &w->plan;
    dct_phase *phase = phase_of(w);
    dct_graph *g = &phase->graph;
    plan->n_phases = 1;
    phase->kind = DCT_PHASE_DECODE;
    phase->rows = 1;
    strcpy(phase->name, dct_phase_name(phase->kind));
    plan->items = dct_arena_array(&w->arena, DCT_REGION_COUNT + 3, sizeof *plan->items);
    plan->weights = dct_arena_array(&w->arena, g->n_weights, sizeof *plan->weights);
    assert_true(plan->items != NULL && plan->weights != NULL);
    plan->n_weights = g->n_weights;
    uint64_t at = 0;
    for (uint32_t i = 0; i < g->n_weights; i++) {
        plan->weights[i] = (dct_plan_weight){g->weights[i], at};
        at += g->weights[i].bytes;
    }
    pack(w, index_order);
    dct_value_id out = root_of(g, g->logits);
    for (dct_value_id v = 0; v < g->n_values; v++) {
        if (g->values[v].kind == DCT_KIND_WEIGHT)
            phase->places[v] = (dct_place){DCT_REGION_WEIGHTS, plan->weights[g->values[v].ref].offset};
    }
    phase->places[g->ids] = (dct_place){DCT_REGION_PERSISTENT, 0};
    phase->places[g->pos] = (dct_place){DCT_REGION_PERSISTENT, 64};
    phase->places[out] = (dct_place){DCT_REGION_PERSISTENT, 128};
    for (dct_value_id v = 0; v < g->n_values; v++) phase->places[v] = phase->places[root_of(g, v)];
    add_region(plan, DCT_REGION_WEIGHTS, at);
    add_region(plan, DCT_REGION_KV, 0);
    add_ends(plan, phase);
    add_region(plan, DCT_REGION_ARENA, phase->cert.height_bytes);
    add_region(plan, DCT_REGION_RUNTIME, 4096);
    plan->m_max_bytes = plan->reserve_bytes;
    at = 0;
    for (int i = 0; i < DCT_REGION_COUNT; i++) {
        plan->region_offset[dct_region_order[i]] = at;
        at += plan->region_bytes[dct_region_order[i]];
    }
}

static void begin_world(world *w, uint64_t number, uint32_t threads) {
    memset(w, 0, sizeof *w);
    lot = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    dct_arena_init(&w->arena, 0);
    w->plan.bounds = (dct_bounds){.n_ctx = 16, .n_input = 8, .n_output = 8, .ubatch = 1, .slots = 1, .threads = threads,
                                  .type_k = DCT_TYPE_F16, .type_v = DCT_TYPE_F16};
}

static inline void make_world(world *w, uint64_t number, uint32_t threads) {
    begin_world(w, number, threads);
    make_graph(w);
    make_schedule(w);
    make_aliases(w);
    find_touches(w);
    assert_true(phase_of(w)->graph.n_ops <= MAX_OPS && phase_of(w)->graph.n_values <= MAX_VALUES);
}

static dct_defect verify(world *w, dct_err *err) {
    dct_defect defect;
    w->plan.phases[1] = w->plan.phases[0]; /* a plan has both phases; one graph will do for the two */
    w->plan.phases[1].kind = DCT_PHASE_PREFILL;
    strcpy(w->plan.phases[1].name, dct_phase_name(DCT_PHASE_PREFILL));
    w->plan.n_phases = 2;
    dct_status status = dct_verify_alone(&w->plan, &defect, err);
    assert_int_equal(status == DCT_OK, defect == DCT_DEFECT_NONE);
    return defect;
}

#endif
