/* Random graphs on random schedules: what dct_pack places with the conflicts that this file works out by brute force, the
 * verifier accepts; and when a value is moved or a wait removed at random, both agree on whether that did harm. */
#include "verify_support.h"

#include "kernels/layout.h"

enum { MAX_OPS = 40, MAX_VALUES = 160, THREADS = 3 };

static uint64_t seed;
static uint32_t draw(uint32_t n) { /* xorshift64*: the same on every machine */
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return (uint32_t)((seed * UINT64_C(0x2545f4914f6cdd1d)) >> 40) % n;
}

typedef struct world {
    dct_arena arena;
    dct_plan plan;
    bool before[MAX_OPS][MAX_OPS]; /* op a is complete before op b starts */
    bool touches[MAX_OPS][MAX_VALUES];
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
        uint32_t cols = g->values[a].cols, kind = draw(3);
        if (kind == 0 && g->values[b].cols == cols) made[n++] = dct_trace_add(g, a, b, -1, "sum");
        else if (kind == 1) made[n++] = dct_trace_softcap(g, a, 30.0f, "cap");
        else made[n++] = dct_trace_linear(g, a, matrix(g, widths[draw(4)], cols), DCT_NONE, -1, "y");
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

/* The closure of waits and of the order on single workers, from nothing but the steps; one op a step, same numbers. */
static void find_order(world *w) {
    const dct_phase *phase = phase_of(w);
    uint32_t n = phase->n_steps;
    memset(w->before, 0, sizeof w->before);
    for (uint32_t b = 0; b < n; b++) {
        for (uint32_t i = 0; i < phase->steps[b].n_waits; i++) w->before[phase->waits[phase->steps[b].wait_begin + i]][b] = true;
        for (uint32_t a = 0; a < b; a++) {
            bool alone = phase->steps[a].n_workers == 1 && phase->steps[b].n_workers == 1;
            if (alone && phase->steps[a].worker_first == phase->steps[b].worker_first) w->before[a][b] = true;
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t a = 0; a < n; a++) {
            for (uint32_t b = 0; b < n; b++) w->before[a][b] = w->before[a][b] || (w->before[a][k] && w->before[k][b]);
        }
    }
}

static void make_schedule(world *w) {
    dct_phase *phase = phase_of(w);
    const dct_graph *g = &phase->graph;
    phase->n_steps = g->n_ops;
    phase->steps = dct_arena_array(&w->arena, g->n_ops, sizeof *phase->steps);
    phase->waits = dct_arena_array(&w->arena, (uint64_t)g->n_ops * 4, sizeof *phase->waits);
    phase->scratch = dct_arena_array(&w->arena, g->n_ops, sizeof *phase->scratch);
    assert_true(phase->steps != NULL && phase->waits != NULL && phase->scratch != NULL);
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        dct_step *step = &phase->steps[k];
        uint32_t many = draw(4) == 0;
        *step = (dct_step){.n_ops = 1, .ops = {k}, .n_workers = many ? 2 + draw(2) : 1, .wait_begin = phase->n_waits};
        step->worker_first = draw(THREADS - step->n_workers + 1);
        phase->scratch[k] = DCT_NONE;
        for (uint32_t i = 0; i < g->ops[k].n_in; i++) {
            dct_op_id p = g->values[g->ops[k].in[i]].producer;
            phase->n_steps = k + 1;
            find_order(w);
            if (p != DCT_NONE && !w->before[p][k]) phase->waits[phase->n_waits++] = p, step->n_waits++;
        }
    }
    find_order(w);
}

/* ---- in place ---- */

static bool op_reads(const dct_op *op, dct_value_id v) {
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->in[i] == v) return true;
    }
    return false;
}

/* Whether op k's result could take the bytes of its input as far as the graph tells: nobody reads the input later. */
static bool may_alias(const dct_graph *g, dct_op_id k) {
    int inplace = dct_op_info_of(g->ops[k].kind)->inplace;
    if (inplace < 0 || g->values[g->ops[k].in[inplace]].kind != DCT_KIND_INTERMEDIATE) return false;
    for (dct_op_id j = k + 1; j < g->n_ops; j++) {
        if (op_reads(&g->ops[j], g->ops[k].in[inplace])) return false;
    }
    return g->ops[k].kind != DCT_OP_ADD || g->ops[k].in[0] != g->ops[k].in[1];
}

/* Whether all others that touch value v are over before op k starts. */
static bool is_only_mine(const world *w, dct_op_id k, dct_value_id v) {
    const dct_graph *g = &w->plan.phases[0].graph;
    for (dct_op_id j = 0; j < g->n_ops; j++) {
        if (j != k && (op_reads(&g->ops[j], v) || g->values[v].producer == j) && !w->before[j][k]) return false;
    }
    return true;
}

static void make_aliases(world *w) {
    dct_graph *g = &phase_of(w)->graph;
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        if (!may_alias(g, k) || draw(2) != 0) continue;
        dct_value_id in = g->ops[k].in[dct_op_info_of(g->ops[k].kind)->inplace];
        if (is_only_mine(w, k, in)) g->values[g->ops[k].out[0]].alias_of = in;
    }
}

static bool any_alias_harmed(const world *w) {
    const dct_graph *g = &w->plan.phases[0].graph;
    for (dct_value_id v = 0; v < g->n_values; v++) {
        if (g->values[v].alias_of != DCT_NONE && !is_only_mine(w, g->values[v].producer, g->values[v].alias_of)) return true;
    }
    return false;
}

/* ---- who conflicts, by brute force ---- */

static void find_touches(world *w) {
    const dct_graph *g = &phase_of(w)->graph;
    memset(w->touches, 0, sizeof w->touches);
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        for (uint32_t i = 0; i < g->ops[k].n_in; i++) w->touches[k][root_of(g, g->ops[k].in[i])] = true;
        for (uint32_t i = 0; i < g->ops[k].n_out; i++) w->touches[k][root_of(g, g->ops[k].out[i])] = true;
    }
}

static bool is_over_before(const world *w, uint32_t n_ops, dct_value_id x, dct_value_id y) {
    for (uint32_t a = 0; a < n_ops; a++) {
        for (uint32_t b = 0; b < n_ops; b++) {
            if (w->touches[a][x] && w->touches[b][y] && !w->before[a][b]) return false;
        }
    }
    return true;
}

static bool conflict(const world *w, uint32_t n_ops, dct_value_id x, dct_value_id y) {
    return !is_over_before(w, n_ops, x, y) && !is_over_before(w, n_ops, y, x);
}

static bool is_buffer(const dct_graph *g, dct_value_id v) {
    dct_value_id out = root_of(g, g->logits);
    return g->values[v].kind == DCT_KIND_INTERMEDIATE && root_of(g, v) == v && v != out;
}

static bool any_overlap(world *w) {
    const dct_phase *phase = phase_of(w);
    const dct_graph *g = &phase->graph;
    for (dct_value_id x = 0; x < g->n_values; x++) {
        for (dct_value_id y = x + 1; y < g->n_values; y++) {
            if (!is_buffer(g, x) || !is_buffer(g, y) || !conflict(w, g->n_ops, x, y)) continue;
            uint64_t a = phase->places[x].offset, b = phase->places[y].offset;
            if (a < b + g->values[y].bytes && b < a + g->values[x].bytes) return true;
        }
    }
    return false;
}

static bool reads_before_write(world *w) {
    const dct_graph *g = &phase_of(w)->graph;
    for (dct_op_id k = 0; k < g->n_ops; k++) {
        for (uint32_t i = 0; i < g->ops[k].n_in; i++) {
            dct_op_id p = g->values[g->ops[k].in[i]].producer;
            if (p != DCT_NONE && !w->before[p][k]) return true;
        }
    }
    return false;
}

/* ---- a plan ---- */

static void pack(world *w) {
    dct_phase *phase = phase_of(w);
    const dct_graph *g = &phase->graph;
    dct_pack_item items[MAX_VALUES];
    dct_value_id value[MAX_VALUES];
    uint32_t n = 0;
    for (dct_value_id v = 0; v < g->n_values; v++) {
        if (!is_buffer(g, v)) continue;
        dct_pack_item item = {.size = g->values[v].bytes, .align = 64, .begin = UINT32_MAX};
        for (dct_op_id k = 0; k < g->n_ops; k++) {
            if (!w->touches[k][v]) continue;
            if (item.begin == UINT32_MAX) item.begin = k;
            item.end = k + 1;
        }
        value[n] = v;
        items[n++] = item;
    }
    uint64_t bits[MAX_VALUES * MAX_VALUES / 64 + 1] = {0};
    for (uint32_t x = 0; x < n; x++) {
        for (uint32_t y = 0; y < n; y++) {
            uint64_t bit = (uint64_t)x * n + y;
            if (x == y || conflict(w, g->n_ops, value[x], value[y])) bits[bit / 64] |= UINT64_C(1) << (bit % 64);
        }
    }
    dct_pack_result result;
    assert_int_equal(dct_pack(items, n, bits, &(dct_pack_params){.nodes = 1000}, &w->arena, &result, NULL), DCT_OK);
    phase->places = dct_arena_array(&w->arena, g->n_values, sizeof *phase->places);
    phase->cert.values = dct_arena_array(&w->arena, n, sizeof *phase->cert.values);
    assert_true(phase->places != NULL && phase->cert.values != NULL);
    phase->cert.load_bytes = result.load;
    phase->cert.height_bytes = result.height;
    phase->cert.optimal = result.load == result.height;
    phase->cert.op = result.at;
    for (uint32_t i = 0; i < n; i++) {
        phase->places[value[i]] = (dct_place){DCT_REGION_ARENA, items[i].offset};
        if (items[i].begin <= result.at && result.at < items[i].end) phase->cert.values[phase->cert.n_values++] = value[i];
        bool is_new = true;
        for (uint32_t j = 0; j < i; j++)
            is_new = is_new && (items[j].offset != items[i].offset || items[j].size != items[i].size);
        phase->n_buffers += is_new;
    }
}

static void add_region(dct_plan *plan, dct_region region, uint64_t bytes) {
    bytes = (bytes + 4095) / 4096 * 4096;
    plan->region_offset[region] = plan->reserve_bytes;
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
    plan->region_offset[DCT_REGION_PERSISTENT] = plan->reserve_bytes;
    plan->region_bytes[DCT_REGION_PERSISTENT] = 4096;
    plan->reserve_bytes += 4096;
}

static void make_plan(world *w) {
    dct_plan *plan = &w->plan;
    dct_phase *phase = phase_of(w);
    dct_graph *g = &phase->graph;
    plan->bounds = (dct_bounds){.n_ctx = 16,
                                .n_input = 8,
                                .n_output = 8,
                                .ubatch = 1,
                                .slots = 1,
                                .threads = THREADS,
                                .type_k = DCT_TYPE_F16,
                                .type_v = DCT_TYPE_F16};
    plan->n_phases = 1;
    phase->kind = DCT_PHASE_DECODE;
    phase->rows = 1;
    strcpy(phase->name, "random");
    plan->items = dct_arena_array(&w->arena, DCT_REGION_COUNT + 3, sizeof *plan->items);
    plan->weights = dct_arena_array(&w->arena, g->n_weights, sizeof *plan->weights);
    assert_true(plan->items != NULL && plan->weights != NULL);
    plan->n_weights = g->n_weights;
    uint64_t at = 0;
    for (uint32_t i = 0; i < g->n_weights; i++) {
        plan->weights[i] = (dct_plan_weight){g->weights[i], at};
        at += g->weights[i].bytes;
    }
    pack(w);
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
}

static void make_world(world *w, uint64_t number) {
    memset(w, 0, sizeof *w);
    seed = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    dct_arena_init(&w->arena, 0);
    make_graph(w);
    assert_true(phase_of(w)->graph.n_ops <= MAX_OPS && phase_of(w)->graph.n_values <= MAX_VALUES);
    make_schedule(w);
    make_aliases(w);
    find_touches(w);
    make_plan(w);
}

static dct_defect verify(world *w) {
    dct_defect defect;
    dct_err err = {0};
    w->plan.phases[1] = w->plan.phases[0]; /* a plan has both phases; one graph will do for the two */
    w->plan.phases[1].kind = DCT_PHASE_PREFILL;
    w->plan.n_phases = 2;
    dct_status status = dct_verify_alone(&w->plan, &w->arena, &defect, &err);
    assert_int_equal(status == DCT_OK, defect == DCT_DEFECT_NONE);
    return defect;
}

enum { WORLDS = 300 };

static void test_packed_plans_pass(void **state) {
    (void)state;
    for (uint64_t i = 0; i < WORLDS; i++) {
        world w;
        make_world(&w, i);
        dct_defect defect = verify(&w);
        if (defect != DCT_DEFECT_NONE) fail_msg("world %u: %s", (unsigned)i, dct_defect_name(defect));
        dct_arena_deinit(&w.arena);
    }
}

static void test_moved_values(void **state) {
    (void)state;
    uint32_t harmed = 0, harmless = 0;
    for (uint64_t i = 0; i < WORLDS; i++) {
        world w;
        make_world(&w, i);
        dct_phase *phase = phase_of(&w);
        dct_graph *g = &phase->graph;
        dct_value_id v = draw(g->n_values);
        while (!is_buffer(g, v)) v = draw(g->n_values);
        uint64_t room = w.plan.region_bytes[DCT_REGION_ARENA] - g->values[v].bytes;
        uint64_t to = (uint64_t)draw((uint32_t)(room / 64) + 1) * 64;
        for (dct_value_id u = 0; u < g->n_values; u++) {
            if (root_of(g, u) == v) phase->places[u].offset = to;
        }
        bool harm = any_overlap(&w);
        dct_defect defect = verify(&w);
        if (harm) assert_int_equal(defect, DCT_DEFECT_OVERLAP);
        else assert_true(defect == DCT_DEFECT_NONE || defect == DCT_DEFECT_CERTIFICATE_WRONG);
        harmed += harm;
        harmless += !harm;
        dct_arena_deinit(&w.arena);
    }
    assert_true(harmed > WORLDS / 20 && harmless > WORLDS / 20); /* both answers were asked for */
}

static void test_removed_waits(void **state) {
    (void)state;
    uint32_t harmed = 0;
    for (uint64_t i = 0; i < WORLDS; i++) {
        world w;
        make_world(&w, i);
        dct_phase *phase = phase_of(&w);
        if (phase->n_waits > 0) {
            uint32_t at = draw(phase->n_waits);
            for (uint32_t s = 0; s < phase->n_steps; s++) {
                dct_step *step = &phase->steps[s];
                if (at >= step->wait_begin && at < step->wait_begin + step->n_waits) step->n_waits--;
                else if (step->wait_begin > at) step->wait_begin--;
            }
            phase->n_waits--;
            memmove(phase->waits + at, phase->waits + at + 1, (phase->n_waits - at) * sizeof *phase->waits);
            find_order(&w);
            dct_defect defect = verify(&w);
            if (reads_before_write(&w)) assert_int_equal(defect, DCT_DEFECT_STEP_ORDER);
            else if (any_overlap(&w) && any_alias_harmed(&w))
                assert_true(defect == DCT_DEFECT_OVERLAP || defect == DCT_DEFECT_ALIAS_INVALID);
            else if (any_overlap(&w)) assert_int_equal(defect, DCT_DEFECT_OVERLAP);
            else if (any_alias_harmed(&w)) assert_int_equal(defect, DCT_DEFECT_ALIAS_INVALID);
            else assert_true(defect == DCT_DEFECT_NONE || defect == DCT_DEFECT_CERTIFICATE_WRONG);
            harmed += defect == DCT_DEFECT_STEP_ORDER || defect == DCT_DEFECT_OVERLAP;
        }
        dct_arena_deinit(&w.arena);
    }
    assert_true(harmed > WORLDS / 4);
}

/* A result put in place although another worker may still read what it overwrites. */
static void test_unsafe_aliases(void **state) {
    (void)state;
    uint32_t n = 0;
    for (uint64_t i = 0; i < WORLDS; i++) {
        world w;
        make_world(&w, i);
        dct_phase *phase = phase_of(&w);
        dct_graph *g = &phase->graph;
        for (dct_op_id k = 0; k < g->n_ops; k++) {
            if (!may_alias(g, k)) continue;
            dct_value_id out = g->ops[k].out[0], in = g->ops[k].in[dct_op_info_of(g->ops[k].kind)->inplace];
            if (!is_buffer(g, out) || root_of(g, in) != in || is_only_mine(&w, k, in)) continue;
            g->values[out].alias_of = in;
            for (dct_value_id v = 0; v < g->n_values; v++) phase->places[v] = phase->places[root_of(g, v)];
            find_touches(&w);
            dct_defect defect = verify(&w);
            assert_true(defect == DCT_DEFECT_ALIAS_INVALID || (any_overlap(&w) && defect == DCT_DEFECT_OVERLAP));
            n += defect == DCT_DEFECT_ALIAS_INVALID;
            break;
        }
        dct_arena_deinit(&w.arena);
    }
    assert_true(n > WORLDS / 20);
}

/* A load that is too small is a true lower bound all the same; but it is not the load, whether the steps form a chain or not. */
static void test_understated_loads(void **state) {
    (void)state;
    uint32_t n = 0;
    for (uint64_t i = 0; i < WORLDS; i++) {
        world w;
        make_world(&w, i);
        dct_certificate *cert = &phase_of(&w)->cert;
        if (cert->n_values > 1) {
            cert->load_bytes -= phase_of(&w)->graph.values[cert->values[--cert->n_values]].bytes;
            cert->optimal = false;
            assert_int_equal(verify(&w), DCT_DEFECT_CERTIFICATE_WRONG);
            n++;
        }
        dct_arena_deinit(&w.arena);
    }
    assert_true(n > WORLDS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_plans_pass), cmocka_unit_test(test_moved_values), cmocka_unit_test(test_removed_waits),
        cmocka_unit_test(test_unsafe_aliases), cmocka_unit_test(test_understated_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
