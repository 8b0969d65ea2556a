#include "tools/onnx_memory.h"

#include "base/size.h"
#include "plan/plan.h"
#include "verify/packing.h"

const char *dct_onnx_region_name(dct_onnx_region region) {
    static const char *const names[] = {"none", "weights", "constants", "persistent", "intermediate"};
    return names[region];
}

/* ---- steps ---- */

static bool is_constant(const dct_onnx_node *node) { return node->domain.len == 0 && dct_str_eq_z(node->op, "Constant"); }

/* A node whose outputs are all known before anything runs is no step. */
static bool runs(const dct_onnx_graph *g, const dct_onnx_node *node) {
    if (is_constant(node)) return false;
    for (uint32_t k = 0; k < node->n_out; k++) {
        if (node->out[k] != DCT_ONNX_NONE && g->values[node->out[k]].tensor.items == NULL) return true;
    }
    return false;
}

static dct_status find_steps(dct_onnx_memory *m, dct_arena *arena, dct_err *err) {
    m->steps = dct_arena_array(arena, m->g->n_nodes, sizeof *m->steps);
    if (m->steps == NULL) return dct_fail_memory(err, arena, "steps");
    for (uint32_t i = 0; i < m->g->n_nodes; i++) {
        if (runs(m->g, &m->g->nodes[i])) m->steps[m->n_steps++] = i;
    }
    return DCT_OK;
}

/* ---- lifetimes ---- */

/* Where a value lies that no step writes; what nobody reads lies nowhere, but an input, which the caller brings. */
static dct_onnx_region region_at_start(const dct_onnx_graph *g, const dct_onnx_value *value) {
    if (value->source == DCT_ONNX_INPUT) return DCT_ONNX_PERSISTENT;
    bool is_weight = value->source == DCT_ONNX_WEIGHT || is_constant(&g->nodes[value->node]);
    return is_weight ? DCT_ONNX_WEIGHTS : DCT_ONNX_CONSTANTS;
}

/* Its own bytes, and the steps that touch it; outputs of the graph stay to the end. first > last: no step does. */
static void find_own_lives(dct_onnx_memory *m) {
    const dct_onnx_graph *g = m->g;
    for (uint32_t v = 0; v < g->n_values; v++) {
        uint64_t bytes = 0;
        if (!g->values[v].is_shaped || !dct_onnx_bytes(&g->values[v].tensor, &bytes)) bytes = 0;
        m->places[v] = (dct_onnx_place){.root = v, .first = UINT32_MAX, .bytes = dct_round_up(bytes, DCT_PLAN_ALIGN)};
    }
    for (uint32_t t = 0; t < m->n_steps; t++) {
        const dct_onnx_node *node = &g->nodes[m->steps[t]];
        for (uint32_t k = 0; k < node->n_in + node->n_out; k++) {
            uint32_t v = k < node->n_in ? node->in[k] : node->out[k - node->n_in];
            if (v == DCT_ONNX_NONE) continue;
            if (m->places[v].first == UINT32_MAX) m->places[v].first = t;
            m->places[v].last = t;
        }
    }
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->values[v].is_output) m->places[v].last = m->n_steps; /* and behind the last step */
        if (g->values[v].is_output && m->places[v].first == UINT32_MAX) m->places[v].first = 0; /* no step writes it */
    }
}

/* ---- whose bytes ---- */

static void share(dct_onnx_memory *m, uint32_t v, uint32_t with, bool in_place) {
    uint32_t root = m->places[with].root;
    m->places[v].root = root;
    m->places[v].in_place = in_place;
    if (m->places[v].last > m->places[root].last) m->places[root].last = m->places[v].last;
}

/* Whether the step that writes `out` may do so over input `in`: as many elements as wide, in the arena, and nothing that lies
 * there is touched afterwards. Lives of roots hold for all that share them up to this step; what will be a view later is read
 * later. */
static bool gives_way(const dct_onnx_memory *m, uint32_t in, uint32_t out, uint32_t t) {
    const dct_onnx_place *root = &m->places[m->places[in].root];
    const dct_onnx_tensor *a = &m->g->values[in].tensor, *b = &m->g->values[out].tensor;
    return root->region == DCT_ONNX_ARENA && root->last == t && dct_onnx_same_size(a, b);
}

static void place_output(dct_onnx_memory *m, const dct_onnx_node *node, uint32_t k, uint32_t t) {
    uint32_t v = node->out[k];
    m->places[v].region = DCT_ONNX_ARENA;
    if (k > 0 || node->storage == DCT_ONNX_OWN) return;
    if (node->storage == DCT_ONNX_VIEW) {
        share(m, v, node->in[0], false);
        return;
    }
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == DCT_ONNX_NONE || !gives_way(m, node->in[i], v, t)) continue;
        share(m, v, node->in[i], true);
        return;
    }
}

/* In the order of steps; values that no step writes first. */
static void place_values(dct_onnx_memory *m) {
    const dct_onnx_graph *g = m->g;
    for (uint32_t v = 0; v < g->n_values; v++) {
        const dct_onnx_value *value = &g->values[v];
        dct_onnx_place *p = &m->places[v];
        if (!value->is_shaped) continue; /* of a branch that is not taken */
        if (value->source == DCT_ONNX_NODE && runs(g, &g->nodes[value->node])) continue;
        if (p->first <= p->last || value->source == DCT_ONNX_INPUT) p->region = region_at_start(g, value);
        if (value->source == DCT_ONNX_INPUT) p->first = 0;
    }
    for (uint32_t t = 0; t < m->n_steps; t++) {
        const dct_onnx_node *node = &g->nodes[m->steps[t]];
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] != DCT_ONNX_NONE) place_output(m, node, k, t);
        }
    }
    for (uint32_t v = 0; v < g->n_values; v++) { /* what the caller takes lies where intermediates do not come */
        dct_onnx_place *root = &m->places[m->places[v].root];
        if (g->values[v].is_output && root->region == DCT_ONNX_ARENA) root->region = DCT_ONNX_PERSISTENT;
    }
    for (uint32_t v = 0; v < g->n_values; v++) m->places[v].region = m->places[m->places[v].root].region;
}

/* ---- packing ---- */

static dct_status collect(dct_onnx_memory *m, dct_arena *arena, dct_err *err) {
    uint32_t n = m->g->n_values;
    m->items = dct_arena_array(arena, n, sizeof *m->items);
    m->item_values = dct_arena_array(arena, n, sizeof *m->item_values);
    if (m->items == NULL || m->item_values == NULL) return dct_fail_memory(err, arena, "the packing problem");
    for (uint32_t v = 0; v < n; v++) {
        const dct_onnx_place *p = &m->places[v];
        m->region_values[p->region]++;
        if (p->root != v) continue;
        if (p->region != DCT_ONNX_ARENA) {
            if (!dct_add_u64(m->region_bytes[p->region], p->bytes, &m->region_bytes[p->region]))
                return dct_fail(err, DCT_NO_FIT, "the values have more bytes than can be counted");
            continue;
        }
        m->item_values[m->n_items] = v;
        m->items[m->n_items++] =
            (dct_pack_item){.size = p->bytes, .align = DCT_PLAN_ALIGN, .begin = p->first, .end = p->last + 1};
    }
    return DCT_OK;
}

static dct_status verify(const dct_onnx_memory *m, dct_arena *arena, dct_err *err) {
    uint64_t height;
    dct_packed *list = dct_arena_array(arena, m->n_items, sizeof *list);
    if (list == NULL) return dct_fail_memory(err, arena, "the check of a packing");
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_items; i++) {
        const dct_pack_item *item = &m->items[i];
        if (item->offset % DCT_PLAN_ALIGN != 0) return dct_fail(err, DCT_BUG, "item %u is not aligned", i);
        if (item->size > 0) list[n++] = (dct_packed){item->offset, item->offset + item->size, item->begin, item->end, i};
    }
    dct_status status = dct_verify_packing(list, n, arena, &height, err);
    if (status == DCT_OK && height != m->packed.height) status = dct_fail(err, DCT_BUG, "the height of the packing is misstated");
    return status;
}

/* m has its steps. */
static dct_status place_in_order(dct_onnx_memory *m, uint64_t nodes, dct_arena *arena, dct_err *err) {
    m->places = dct_arena_array(arena, m->g->n_values, sizeof *m->places);
    if (m->places == NULL) return dct_fail_memory(err, arena, "places");
    find_own_lives(m);
    place_values(m);
    dct_status status = collect(m, arena, err);
    const dct_pack_params params = {.nodes = nodes};
    if (status == DCT_OK) status = dct_pack(m->items, m->n_items, NULL, &params, arena, &m->packed, err);
    if (status == DCT_USAGE) status = dct_fail(err, DCT_NO_FIT, "the values have more bytes than can be packed");
    if (status == DCT_OK) status = verify(m, arena, err);
    if (status != DCT_OK) return status;
    for (uint32_t i = 0; i < m->n_items; i++) m->places[m->item_values[i]].offset = m->items[i].offset;
    m->region_bytes[DCT_ONNX_ARENA] = m->packed.height;
    return DCT_OK;
}

/* Whether the search counted what the packer did. */
static dct_status expect_load(const dct_onnx_memory *m, uint64_t load, bool exact, dct_err *err) {
    if (!exact || m->packed.load == load) return DCT_OK;
    return dct_fail(err, DCT_BUG, "the search for an order counts another load than the packer");
}

dct_status dct_onnx_place_values(const dct_onnx_graph *g, uint64_t nodes, bool keep_order, dct_arena *arena, dct_onnx_memory *out,
                                 dct_err *err) {
    dct_onnx_memory file = {.g = g};
    dct_order_result found;
    bool exact;
    dct_status status = find_steps(&file, arena, err);
    if (status == DCT_OK) status = place_in_order(&file, nodes, arena, err);
    if (status != DCT_OK) return status;
    file.file_load = file.packed.load;
    file.file_height = file.packed.height;
    *out = file;
    if (keep_order) return DCT_OK;
    dct_onnx_memory other = {.g = g, .n_steps = file.n_steps, .file_load = file.file_load, .file_height = file.file_height,
                             .is_reordered = true};
    other.steps = dct_arena_array(arena, file.n_steps, sizeof *other.steps);
    if (other.steps == NULL) return dct_fail_memory(err, arena, "steps");
    status = dct_onnx_order(g, file.steps, file.n_steps, arena, other.steps, &found, &exact, err);
    if (status == DCT_OK) status = expect_load(&file, found.given_load, exact, err);
    if (status != DCT_OK) return status;
    out->order_proven = exact && found.proven && found.load == found.given_load;
    if (found.load == found.given_load) return DCT_OK;
    status = place_in_order(&other, nodes, arena, err);
    if (status == DCT_OK) status = expect_load(&other, found.load, exact, err);
    if (status != DCT_OK || other.packed.height >= file.packed.height) return status;
    other.order_proven = exact && found.proven;
    *out = other;
    return DCT_OK;
}
