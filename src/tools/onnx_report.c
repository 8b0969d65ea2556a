#include "tools/onnx_report.h"

#include <inttypes.h>
#include <string.h>

#include "base/safe_text.h"
#include "base/utf8.h"
#include "tools/pack_svg.h"

static void put_shape(const dct_text *t, const dct_onnx_tensor *tensor, const char *between) {
    for (uint32_t i = 0; i < tensor->n_dims; i++) dct_text_put(t, "%s%" PRId64, i > 0 ? between : "", tensor->dims[i]);
}

/* ---- the table ---- */

static void put_value(const dct_text *t, const char *what, const dct_onnx_value *value) {
    dct_text_put(t, "%-14s %s  %s ", what, dct_onnx_quote(value->name).text, dct_onnx_type_name(value->tensor.type));
    if (value->tensor.n_dims == 0) dct_text_put(t, "scalar");
    put_shape(t, &value->tensor, "x");
    dct_text_put(t, "\n");
}

static void put_ends(const dct_onnx_graph *g, const dct_text *t) {
    for (uint32_t v = 0; v < g->n_values; v++)
        if (g->values[v].source == DCT_ONNX_INPUT) put_value(t, "input", &g->values[v]);
    for (uint32_t v = 0; v < g->n_values; v++)
        if (g->values[v].is_output) put_value(t, "output", &g->values[v]);
}

static void put_region(const dct_onnx_report *r, dct_onnx_region region, const dct_text *t) {
    uint64_t bytes = r->m->region_bytes[region];
    dct_text_put(t, "%-14s %16" PRIu64 "  %10.2f MiB  %" PRIu32 " values", dct_onnx_region_name(region), bytes, dct_mib(bytes),
                 r->m->region_values[region]);
    if (region == DCT_ONNX_ARENA) dct_text_put(t, " in %" PRIu32 " buffers", r->m->n_items);
    dct_text_put(t, "\n");
}

/* ", optimal" and why that is sure, or how far it may be from it. */
static void put_proof(const dct_pack_result *p, const dct_text *t) {
    if (p->height == p->load) dct_text_put(t, ": optimal\n");
    else if (p->optimal) dct_text_put(t, ": optimal (proven by search)\n");
    else dct_text_put(t, ": at least %" PRIu64 "\n", p->bound);
}

/* Whether the item holds bytes at the step where the load is. */
static bool is_of_load(const dct_onnx_memory *m, const dct_pack_item *item) {
    return item->size > 0 && item->begin <= m->packed.at && m->packed.at < item->end;
}

static void put_certificate(const dct_onnx_memory *m, const dct_text *t) {
    const dct_pack_result *p = &m->packed;
    dct_text_put(t, "load           %16" PRIu64 "\nheight         %16" PRIu64, p->load, p->height);
    put_proof(p, t);
    if (m->n_items == 0) return;
    const dct_onnx_node *node = &m->g->nodes[m->steps[p->at]];
    dct_text_put(t, "the load is reached at step %" PRIu32 ", %s '%s', by\n", p->at, dct_onnx_quote(node->op).text,
                 dct_onnx_quote(node->name).text);
    for (uint32_t i = 0; i < m->n_items; i++) {
        const dct_pack_item *item = &m->items[i];
        if (!is_of_load(m, item)) continue;
        dct_text_put(t, "  %16" PRIu64 "  %s\n", item->size, dct_onnx_quote(m->g->values[m->item_values[i]].name).text);
    }
}

static void put_steps(const dct_onnx_memory *m, const dct_text *t) {
    dct_text_put(t, "\nsteps\n");
    for (uint32_t i = 0; i < m->n_steps; i++) {
        const dct_onnx_node *node = &m->g->nodes[m->steps[i]];
        dct_text_put(t, "%5" PRIu32 "  %s '%s'\n", i, dct_onnx_quote(node->op).text, dct_onnx_quote(node->name).text);
    }
}

static void put_places(const dct_onnx_memory *m, const dct_text *t) {
    dct_text_put(t, "\nvalues of the arena: bytes, offset, first and last step\n");
    for (uint32_t v = 0; v < m->g->n_values; v++) {
        const dct_onnx_place *p = &m->places[v], *root = &m->places[p->root];
        if (p->region != DCT_ONNX_ARENA) continue;
        dct_text_put(t, "%12" PRIu64 " %12" PRIu64 " %6" PRIu32 " %6" PRIu32 "  %s", p->bytes, root->offset, p->first, p->last,
                     dct_onnx_quote(m->g->values[v].name).text);
        const char *how = p->in_place ? "over" : "a view of";
        if (p->root != v) dct_text_put(t, "  %s %s", how, dct_onnx_quote(m->g->values[p->root].name).text);
        dct_text_put(t, "\n");
    }
}

/* Which order of steps this is, and what the file's own would need. */
static void put_order(const dct_onnx_memory *m, const dct_text *t) {
    const char *proof = m->order_proven ? ": no order has less load" : "";
    if (!m->is_reordered) dct_text_put(t, "order of steps: the file's%s\n", proof);
    else dct_text_put(t, "order of steps: not the file's, whose load is %" PRIu64 " and height %" PRIu64 "%s\n", m->file_load,
                      m->file_height, proof);
}

void dct_onnx_put_table(const dct_onnx_report *r, bool with_values, const dct_text *t) {
    const dct_onnx_memory *m = r->m;
    dct_safe_text path;
    dct_text_put(t, "%s: graph '%s', opset %" PRId64 ", %" PRIu32 " nodes, %" PRIu32 " steps, %.1f ms\n",
                 dct_safe(r->path, &path), dct_onnx_quote(m->g->name).text, m->g->opset, m->g->n_nodes, m->n_steps, r->ms);
    put_ends(m->g, t);
    for (int region = DCT_ONNX_WEIGHTS; region < DCT_ONNX_REGIONS; region++) put_region(r, (dct_onnx_region)region, t);
    dct_text_put(t, "%-14s %16" PRIu64 "  %10.2f MiB  without what its executor needs for itself\n", "M_max", r->m_max_bytes,
                 dct_mib(r->m_max_bytes));
    put_certificate(m, t);
    put_order(m, t);
    if (!with_values) return;
    put_steps(m, t);
    put_places(m, t);
}

/* ---- JSON ---- */

/* Quoted; what is no UTF-8 becomes U+FFFD. */
static void put_string(const dct_text *t, dct_str text) {
    dct_text_put(t, "\"");
    for (size_t at = 0; at < text.len;) {
        uint32_t c;
        size_t n = dct_utf8_next(text.ptr + at, text.len - at, &c);
        if (n == 0) dct_text_put(t, "\\ufffd");
        else if (c < 0x20 || c == 0x7f) dct_text_put(t, "\\u%04x", c);
        else if (c == '"' || c == '\\') dct_text_put(t, "\\%c", (char)c);
        else dct_text_put(t, "%.*s", (int)n, text.ptr + at);
        at += n > 0 ? n : 1;
    }
    dct_text_put(t, "\"");
}

static void put_ids(const dct_text *t, const char *key, const uint32_t *ids, uint32_t n) {
    bool any = false;
    dct_text_put(t, ", \"%s\": [", key);
    for (uint32_t k = 0; k < n; k++) {
        if (ids[k] == DCT_ONNX_NONE) continue;
        dct_text_put(t, "%s%" PRIu32, any ? ", " : "", ids[k]);
        any = true;
    }
    dct_text_put(t, "]");
}

static void put_json_steps(const dct_onnx_memory *m, const dct_text *t) {
    dct_text_put(t, ",\n \"steps\": [");
    for (uint32_t i = 0; i < m->n_steps; i++) {
        const dct_onnx_node *node = &m->g->nodes[m->steps[i]];
        dct_text_put(t, "%s\n  {\"node\": %" PRIu32 ", \"op\": ", i > 0 ? "," : "", m->steps[i]);
        put_string(t, node->op);
        dct_text_put(t, ", \"name\": ");
        put_string(t, node->name);
        put_ids(t, "reads", node->in, node->n_in);
        put_ids(t, "writes", node->out, node->n_out);
        dct_text_put(t, "}");
    }
    dct_text_put(t, "]");
}

static void put_json_value(const dct_onnx_memory *m, uint32_t v, const dct_text *t) {
    const dct_onnx_value *value = &m->g->values[v];
    const dct_onnx_place *p = &m->places[v];
    dct_text_put(t, "{\"id\": %" PRIu32 ", \"name\": ", v);
    put_string(t, value->name);
    dct_text_put(t, ", \"type\": \"%s\", \"shape\": [", dct_onnx_type_name(value->tensor.type));
    put_shape(t, &value->tensor, ", ");
    dct_text_put(t, "], \"bytes\": %" PRIu64 ", \"region\": \"%s\", \"is_input\": %s, \"is_output\": %s", p->bytes,
                 dct_onnx_region_name(p->region), value->source == DCT_ONNX_INPUT ? "true" : "false",
                 value->is_output ? "true" : "false");
    if (p->root != v) dct_text_put(t, ", \"%s\": %" PRIu32, p->in_place ? "over" : "view_of", p->root);
    else if (p->region == DCT_ONNX_ARENA) dct_text_put(t, ", \"offset\": %" PRIu64, p->offset);
    if (p->first <= p->last) dct_text_put(t, ", \"first\": %" PRIu32 ", \"last\": %" PRIu32, p->first, p->last);
    dct_text_put(t, "}");
}

static void put_json_values(const dct_onnx_memory *m, const dct_text *t) {
    bool any = false;
    dct_text_put(t, ",\n \"values\": [");
    for (uint32_t v = 0; v < m->g->n_values; v++) {
        if (m->places[v].region == DCT_ONNX_NOWHERE) continue;
        dct_text_put(t, any ? ",\n  " : "\n  ");
        put_json_value(m, v, t);
        any = true;
    }
    dct_text_put(t, "]");
}

static void put_json_certificate(const dct_onnx_memory *m, const dct_text *t) {
    bool any = false;
    dct_text_put(t, ",\n \"certificate\": {\"step\": %" PRIu32 ", \"values\": [", m->packed.at);
    for (uint32_t i = 0; i < m->n_items; i++) {
        if (!is_of_load(m, &m->items[i])) continue;
        dct_text_put(t, "%s%" PRIu32, any ? ", " : "", m->item_values[i]);
        any = true;
    }
    dct_text_put(t, "]}");
}

void dct_onnx_put_json(const dct_onnx_report *r, const dct_text *t) {
    const dct_onnx_memory *m = r->m;
    const dct_pack_result *p = &m->packed;
    dct_text_put(t, "{\"model\": {\"path\": ");
    put_string(t, (dct_str){r->path, strlen(r->path)});
    dct_text_put(t, ", \"graph\": ");
    put_string(t, m->g->name);
    dct_text_put(t, ", \"producer\": ");
    put_string(t, m->g->producer);
    dct_text_put(t, ", \"opset\": %" PRId64 ", \"nodes\": %" PRIu32 "}", m->g->opset, m->g->n_nodes);
    dct_text_put(t, ",\n \"envelope\": {\"m_max_bytes\": %" PRIu64 ", \"includes_executor\": false", r->m_max_bytes);
    for (int region = DCT_ONNX_WEIGHTS; region < DCT_ONNX_REGIONS; region++)
        dct_text_put(t, ", \"%s_bytes\": %" PRIu64, dct_onnx_region_name((dct_onnx_region)region), m->region_bytes[region]);
    dct_text_put(t,
                 "},\n \"order\": {\"is_the_files\": %s, \"proven\": %s, \"file_load_bytes\": %" PRIu64
                 ", \"file_height_bytes\": %" PRIu64,
                 m->is_reordered ? "false" : "true", m->order_proven ? "true" : "false", m->file_load, m->file_height);
    dct_text_put(t,
                 "},\n \"compile\": {\"logical_tensors\": %" PRIu32 ", \"physical_buffers\": %" PRIu32
                 ", \"load_bytes\": %" PRIu64 ", \"height_bytes\": %" PRIu64 ", \"bound_bytes\": %" PRIu64
                 ", \"optimal\": %s, \"compile_ms\": %.3f}",
                 m->region_values[DCT_ONNX_ARENA], m->n_items, p->load, p->height, p->bound, p->optimal ? "true" : "false",
                 r->ms);
    put_json_certificate(m, t);
    put_json_steps(m, t);
    put_json_values(m, t);
    dct_text_put(t, "}\n");
}

/* ---- the picture ---- */

static dct_str item_name(const void *memory, uint32_t item) {
    const dct_onnx_memory *m = memory;
    return m->g->values[m->item_values[item]].name;
}

dct_status dct_onnx_draw(const dct_onnx_memory *m, const char *path, dct_arena *arena, dct_err *err) {
    const dct_pack_result *r = &m->packed;
    const dct_pack_picture picture = {.items = m->items, .n = m->n_items, .name = item_name, .ctx = m,
                                      .load = r->load, .height = r->height, .optimal = r->optimal,
                                      .lines = &r->load, .n_lines = 1};
    return dct_pack_draw(&picture, path, arena, err);
}
