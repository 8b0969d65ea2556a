/* onnx/read: the file as a record: which fields of ONNX's messages matter. The others are skipped without being read.
 *
 *      ModelProto ─► GraphProto ─► NodeProto ─► AttributeProto ─► TensorProto, GraphProto (a body)
 *                        │
 *                        ├───────► TensorProto (weights)
 *                        └───────► ValueInfoProto (inputs, outputs) ─► TypeProto ─► TensorShapeProto
 *
 * A function reads one field of a message; `into` is the record that it fills. A value exists from the first time that its name
 * is met, since the fields of a graph may stand in any order. A body has names of its own: those that it does not define itself
 * turn out to be the outer graph's when it has been read, and are replaced by these when everything has. order.c sees to it that
 * each value is defined before it is used.
 */
#include <string.h>

#include "base/name_index.h"
#include "onnx/order.h"
#include "onnx/wire.h"

enum { MAX_DEPTH = 8 }; /* of bodies in bodies */

/* A graph, or the body that is being read. */
typedef struct scope {
    struct scope *outer;
    dct_list nodes, outputs, values; /* values: numbers of those whose names were met here */
    dct_name_index index;            /* of `values` by name */
    uint32_t depth;
} scope;

typedef struct reader {
    dct_wire w; /* first: fields find the reader by it */
    scope *scope;
    dct_list values; /* of dct_onnx_value */
    dct_list means;  /* a value: the one of the outer graph that its name means, itself when it is no such name */
    dct_onnx_graph g;
    bool has_graph;
} reader;

static reader *reader_of(dct_wire *w) { return (reader *)(void *)w; }

/* ---- values ---- */

static uint32_t *find_slot(const reader *r, const scope *c, dct_str name) {
    return dct_name_index_slot(&c->index, r->values.items, sizeof(dct_onnx_value), name);
}

/* Room for one name more; twice that, so that the table is seldom made anew. The seed is an address, which no file can know. */
static bool grow_index(reader *r, scope *c) {
    uint32_t n = c->values.n + 1;
    if (n <= c->index.size / 2) return true;
    if (!dct_name_index_init(&c->index, 2 * n, dct_hash_mix((uint64_t)(uintptr_t)r), r->w.arena))
        return dct_wire_fail_memory(&r->w);
    const uint32_t *ids = c->values.items;
    const dct_onnx_value *values = r->values.items;
    for (uint32_t i = 0; i < c->values.n; i++) *find_slot(r, c, values[ids[i]].name) = ids[i] + 1;
    return true;
}

/* The number of the value of that name in a scope, which is made when it is new; DCT_ONNX_NONE for "". */
static bool find_in(reader *r, scope *c, dct_str name, uint32_t *out) {
    *out = DCT_ONNX_NONE;
    if (name.len == 0) return true;
    if (!grow_index(r, c)) return false;
    uint32_t *slot = find_slot(r, c, name);
    if (*slot == 0) {
        dct_onnx_value *value = dct_list_add(&r->w, &r->values, sizeof *value);
        uint32_t *means = value != NULL ? dct_list_add(&r->w, &r->means, sizeof *means) : NULL;
        uint32_t *id = means != NULL ? dct_list_add(&r->w, &c->values, sizeof *id) : NULL;
        if (id == NULL) return false;
        value->name = name;
        *id = *means = r->values.n - 1;
        *slot = r->values.n;
    }
    *out = *slot - 1;
    return true;
}

static bool find_value(reader *r, dct_str name, uint32_t *out) { return find_in(r, r->scope, name, out); }

static dct_onnx_value *value_at(const reader *r, uint32_t id) { return (dct_onnx_value *)r->values.items + id; }

static bool fail_twice(dct_wire *w, dct_str name) { return dct_wire_fail(w, "'%s' is defined twice", dct_onnx_quote(name).text); }

static bool read_weight(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire) {
    reader *r = reader_of(w);
    dct_onnx_tensor tensor;
    dct_str name;
    uint32_t id;
    if (!dct_wire_tensor(w, s, wire, &name, &tensor) || !find_value(r, name, &id)) return false;
    if (id == DCT_ONNX_NONE) return dct_wire_fail(w, "a weight has no name");
    dct_onnx_value *value = value_at(r, id);
    if (value->source != DCT_ONNX_UNDEFINED && value->source != DCT_ONNX_INPUT) return fail_twice(w, name);
    value->source = DCT_ONNX_WEIGHT; /* in older files every weight is an input as well */
    value->tensor = tensor;
    return true;
}

/* ---- inputs and outputs ---- */

typedef struct shape_parts {
    dct_str name;
    int64_t type;
    bool has_rank;
    dct_list dims; /* of dimension */
} shape_parts;

typedef struct dimension {
    dct_str name;
    int64_t size;
} dimension;

static bool read_dim_field(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    dimension *d = into;
    if (tag == 1) return dct_wire_number(w, s, wire, &d->size);
    if (tag == 2) return dct_wire_text(w, s, wire, &d->name);
    return dct_wire_skip(w, s, wire);
}

static bool read_shape_field(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    shape_parts *p = into;
    if (tag != 1) return dct_wire_skip(w, s, wire);
    if (p->dims.n == DCT_ONNX_MAX_DIMS)
        return dct_wire_fail(w, "an input or output has more than %d dimensions", DCT_ONNX_MAX_DIMS);
    dimension *d = dct_list_add(w, &p->dims, sizeof *d);
    if (d == NULL) return false;
    d->size = DCT_ONNX_OPEN;
    return dct_wire_message(w, s, wire, read_dim_field, d);
}

static bool read_tensor_type_field(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    shape_parts *p = into;
    if (tag == 1) return dct_wire_number(w, s, wire, &p->type);
    if (tag != 2) return dct_wire_skip(w, s, wire);
    p->has_rank = true;
    return dct_wire_message(w, s, wire, read_shape_field, p);
}

static bool read_type_field(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    return tag == 1 ? dct_wire_message(w, s, wire, read_tensor_type_field, into) : dct_wire_skip(w, s, wire);
}

static bool read_info_field(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    shape_parts *p = into;
    if (tag == 1) return dct_wire_text(w, s, wire, &p->name);
    if (tag == 2) return dct_wire_message(w, s, wire, read_type_field, p);
    return dct_wire_skip(w, s, wire);
}

static bool set_input(dct_wire *w, const shape_parts *p, dct_onnx_value *value) {
    const dimension *dims = p->dims.items;
    dct_str *names = dct_arena_array(w->arena, p->dims.n, sizeof *names);
    if (names == NULL) return dct_wire_fail_memory(w);
    value->source = reader_of(w)->scope->depth == 0 ? DCT_ONNX_INPUT : DCT_ONNX_PARAMETER;
    value->has_rank = p->has_rank;
    value->dim_names = names;
    value->tensor = (dct_onnx_tensor){.n_dims = p->dims.n};
    if (p->type > 0 && p->type < UINT32_MAX) value->tensor.type = (uint32_t)p->type;
    for (uint32_t i = 0; i < p->dims.n; i++) {
        names[i] = dims[i].name;
        value->tensor.dims[i] = dims[i].size < 0 ? DCT_ONNX_OPEN : dims[i].size; /* some exporters write -1 for it */
    }
    return true;
}

static bool read_input(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire) {
    shape_parts parts = {0};
    uint32_t id;
    if (!dct_wire_message(w, s, wire, read_info_field, &parts) || !find_value(reader_of(w), parts.name, &id)) return false;
    if (id == DCT_ONNX_NONE) return dct_wire_fail(w, "an input has no name");
    dct_onnx_value *value = value_at(reader_of(w), id);
    if (value->source == DCT_ONNX_WEIGHT) return true;
    return value->source == DCT_ONNX_UNDEFINED ? set_input(w, &parts, value) : fail_twice(w, parts.name);
}

static bool read_output(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire) {
    shape_parts parts = {0};
    uint32_t id;
    if (!dct_wire_message(w, s, wire, read_info_field, &parts) || !find_value(reader_of(w), parts.name, &id)) return false;
    if (id == DCT_ONNX_NONE) return dct_wire_fail(w, "an output has no name");
    scope *c = reader_of(w)->scope;
    if (c->depth == 0) value_at(reader_of(w), id)->is_output = true;
    uint32_t *kept = dct_list_add(w, &c->outputs, sizeof *kept);
    if (kept == NULL) return false;
    *kept = id;
    return true;
}

/* ---- nodes ---- */

typedef struct node_parts {
    dct_onnx_node node;
    dct_list in, out, attrs;
} node_parts;

typedef struct attr_parts {
    dct_onnx_attr attr;
    dct_list items;
} attr_parts;

static bool read_body(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, const dct_onnx_body **out);

static bool read_attr_field(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    attr_parts *p = into;
    dct_str ignored;
    switch (tag) {
    case 1: return dct_wire_text(w, s, wire, &p->attr.name);
    case 2: return dct_wire_float(w, s, wire, &p->attr.f);
    case 3: return dct_wire_number(w, s, wire, &p->attr.i);
    case 4: return dct_wire_text(w, s, wire, &p->attr.s);
    case 5: return dct_wire_tensor(w, s, wire, &ignored, &p->attr.tensor);
    case 6: return read_body(w, s, wire, &p->attr.body);
    case 7: return dct_wire_items(w, s, wire, DCT_WIRE_FLOATS, DCT_ONNX_MAX_ITEMS, &p->items);
    case 8: return dct_wire_items(w, s, wire, DCT_WIRE_VARINTS, DCT_ONNX_MAX_ITEMS, &p->items);
    default: return dct_wire_skip(w, s, wire);
    }
}

static bool read_attr(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, dct_list *attrs) {
    attr_parts parts = {0};
    if (!dct_wire_message(w, s, wire, read_attr_field, &parts)) return false;
    parts.attr.is_long = parts.items.n > DCT_ONNX_MAX_ITEMS;
    parts.attr.items = parts.items.items;
    parts.attr.n_items = parts.attr.is_long ? 0 : parts.items.n;
    dct_onnx_attr *kept = dct_list_add(w, attrs, sizeof *kept);
    if (kept == NULL) return false;
    *kept = parts.attr;
    return true;
}

static bool read_value_name(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, dct_list *ids) {
    dct_str name;
    uint32_t id;
    if (!dct_wire_text(w, s, wire, &name) || !find_value(reader_of(w), name, &id)) return false;
    uint32_t *kept = dct_list_add(w, ids, sizeof *kept);
    if (kept == NULL) return false;
    *kept = id;
    return true;
}

static bool read_node_field(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    node_parts *p = into;
    switch (tag) {
    case 1: return read_value_name(w, s, wire, &p->in);
    case 2: return read_value_name(w, s, wire, &p->out);
    case 3: return dct_wire_text(w, s, wire, &p->node.name);
    case 4: return dct_wire_text(w, s, wire, &p->node.op);
    case 5: return read_attr(w, s, wire, &p->attrs);
    case 7: return dct_wire_text(w, s, wire, &p->node.domain);
    default: return dct_wire_skip(w, s, wire);
    }
}

/* The number that the graph's next node will have: what is read now is it, or lies in its bodies. */
static uint32_t number_of_node(const reader *r) {
    const scope *c = r->scope;
    while (c->outer != NULL) c = c->outer;
    return c->nodes.n;
}

static bool read_node(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire) {
    reader *r = reader_of(w);
    node_parts parts = {0};
    if (!dct_wire_message(w, s, wire, read_node_field, &parts)) return false;
    uint32_t number = number_of_node(r);
    dct_onnx_node *node = dct_list_add(w, &r->scope->nodes, sizeof *node);
    if (node == NULL) return false;
    *node = parts.node;
    node->in = parts.in.items;
    node->n_in = node->n_needs = parts.in.n;
    node->out = parts.out.items;
    node->n_out = parts.out.n;
    node->attrs = parts.attrs.items;
    node->n_attrs = parts.attrs.n;
    if (dct_str_eq_z(node->domain, "ai.onnx")) node->domain.len = 0;
    for (uint32_t k = 0; k < node->n_out; k++) {
        if (node->out[k] == DCT_ONNX_NONE) continue;
        dct_onnx_value *value = value_at(r, node->out[k]);
        if (value->source != DCT_ONNX_UNDEFINED) return fail_twice(w, value->name);
        value->source = DCT_ONNX_NODE;
        value->node = number;
    }
    return true;
}

/* ---- graphs ---- */

static bool read_graph_field(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    dct_str *name = into;
    switch (tag) {
    case 1: return read_node(w, s, wire);
    case 2: return dct_wire_text(w, s, wire, name);
    case 5: return read_weight(w, s, wire);
    case 11: return read_input(w, s, wire);
    case 12: return read_output(w, s, wire);
    case 15: return dct_wire_fail(w, "sparse weights are not supported");
    default: return dct_wire_skip(w, s, wire);
    }
}

/* Names that a body has not defined mean those of the graph that it lies in. */
static bool look_outside(reader *r, const scope *c) {
    const uint32_t *ids = c->values.items;
    for (uint32_t i = 0; i < c->values.n; i++) {
        uint32_t outer;
        if (value_at(r, ids[i])->source != DCT_ONNX_UNDEFINED) continue;
        if (!find_in(r, c->outer, value_at(r, ids[i])->name, &outer)) return false;
        ((uint32_t *)r->means.items)[ids[i]] = outer;
    }
    return true;
}

static bool read_body(dct_wire *w, pb_istream_t *s, pb_wire_type_t wire, const dct_onnx_body **out) {
    reader *r = reader_of(w);
    scope c = {.outer = r->scope, .depth = r->scope->depth + 1};
    dct_str name;
    if (c.depth > MAX_DEPTH) return dct_wire_fail(w, "bodies in bodies, deeper than %d", MAX_DEPTH);
    r->scope = &c;
    bool done = dct_wire_message(w, s, wire, read_graph_field, &name) && look_outside(r, &c);
    r->scope = c.outer;
    if (!done) return false;
    dct_onnx_body *body = dct_arena_alloc(w->arena, sizeof *body);
    if (body == NULL) return dct_wire_fail_memory(w);
    *body = (dct_onnx_body){c.nodes.items, c.outputs.items, c.nodes.n, c.outputs.n};
    *out = body;
    return true;
}

/* ---- what names mean ---- */

static void link_values(const reader *r, uint32_t *ids, uint32_t n) {
    const uint32_t *means = r->means.items;
    for (uint32_t i = 0; i < n; i++) {
        while (ids[i] != DCT_ONNX_NONE && means[ids[i]] != ids[i]) ids[i] = means[ids[i]]; /* a step out each time */
    }
}

/* What bodies read, and how much that is; `out` may be NULL. */
static uint64_t list_needs(const dct_onnx_node *node, uint32_t *out) {
    uint64_t n = 0;
    for (uint32_t a = 0; a < node->n_attrs; a++) {
        const dct_onnx_body *body = node->attrs[a].body;
        for (uint32_t i = 0; body != NULL && i < body->n_nodes; i++) {
            const dct_onnx_node *inner = &body->nodes[i];
            for (uint32_t k = 0; k < inner->n_needs; k++, n++)
                if (out != NULL) out[n] = inner->in[k];
        }
        for (uint32_t k = 0; body != NULL && k < body->n_outputs; k++, n++)
            if (out != NULL) out[n] = body->outputs[k];
    }
    return n;
}

/* From the inside out: a node needs what the nodes in its bodies need. */
static bool link_nodes(reader *r, dct_onnx_node *nodes, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        dct_onnx_node *node = &nodes[i];
        link_values(r, node->in, node->n_in);
        for (uint32_t a = 0; a < node->n_attrs; a++) {
            const dct_onnx_body *body = node->attrs[a].body;
            if (body == NULL) continue;
            link_values(r, body->outputs, body->n_outputs);
            if (!link_nodes(r, body->nodes, body->n_nodes)) return false;
        }
        uint64_t n_needs = node->n_in + list_needs(node, NULL);
        if (n_needs == node->n_in) continue;
        if (n_needs > UINT32_MAX) return dct_wire_fail(&r->w, "bodies read more values than can be counted");
        uint32_t *in = dct_arena_grow(r->w.arena, node->in, node->n_in, n_needs, sizeof *in);
        if (in == NULL) return dct_wire_fail_memory(&r->w);
        list_needs(node, in + node->n_in);
        node->in = in;
        node->n_needs = (uint32_t)n_needs;
    }
    return true;
}

/* ---- the model ---- */

typedef struct opset {
    dct_str domain;
    int64_t version;
} opset;

static bool read_opset_field(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    opset *o = into;
    if (tag == 1) return dct_wire_text(w, s, wire, &o->domain);
    if (tag == 2) return dct_wire_number(w, s, wire, &o->version);
    return dct_wire_skip(w, s, wire);
}

static bool read_model_field(dct_wire *w, pb_istream_t *s, uint32_t tag, pb_wire_type_t wire, void *into) {
    reader *r = into;
    opset o = {0};
    switch (tag) {
    case 2: return dct_wire_text(w, s, wire, &r->g.producer);
    case 7:
        if (r->has_graph) return dct_wire_fail(w, "two graphs");
        r->has_graph = true;
        return dct_wire_message(w, s, wire, read_graph_field, &r->g.name);
    case 8:
        if (!dct_wire_message(w, s, wire, read_opset_field, &o)) return false;
        if (o.domain.len == 0 || dct_str_eq_z(o.domain, "ai.onnx")) r->g.opset = o.version;
        return true;
    default: return dct_wire_skip(w, s, wire);
    }
}

static dct_status read_model(reader *r, uint64_t n, dct_onnx_graph *out) {
    scope c = {.outer = NULL};
    r->scope = &c;
    r->g.opset = 1;
    dct_status status = dct_wire_read(&r->w, n, read_model_field, r);
    if (status != DCT_OK) return status;
    if (c.nodes.n == 0) return dct_fail(r->w.err, DCT_BAD_FILE, "no ONNX file: it has no graph with nodes");
    if (!link_nodes(r, c.nodes.items, c.nodes.n)) return r->w.status;
    r->g.values = r->values.items;
    r->g.n_values = r->values.n;
    r->g.nodes = c.nodes.items;
    r->g.n_nodes = c.nodes.n;
    status = dct_onnx_sort(&r->g, r->w.arena, r->w.err);
    if (status == DCT_OK) *out = r->g;
    return status;
}

dct_status dct_onnx_open_bytes(const void *bytes, uint64_t n, dct_arena *arena, dct_onnx_graph *out, dct_err *err) {
    reader r = {.w = {.arena = arena, .err = err, .buffer = (uint8_t *)(uintptr_t)bytes, .buffer_n = n}};
    return read_model(&r, n, out);
}

dct_status dct_onnx_open(const char *path, dct_arena *arena, dct_onnx_graph *out, dct_err *err) {
    dct_file file;
    dct_status status = dct_file_open(&file, path, err);
    if (status != DCT_OK) return status;
    reader r = {.w = {.arena = arena, .err = err, .file = &file}};
    status = read_model(&r, file.bytes, out);
    dct_file_close(&file);
    return status;
}

bool dct_onnx_is_supported(void) { return true; }
