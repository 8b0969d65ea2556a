/* onnx/shape: the table of operators, and the walk over the nodes. Adding an operator is a row here, and a rule where none of
 * those that there are fits.
 */
#include <stdio.h>
#include <string.h>

#include "onnx/shape.h"

typedef struct op_row {
    const char *name;
    dct_shape_rule *rule;
    int code;
    dct_onnx_storage storage;
} op_row;

#define OWN DCT_ONNX_OWN
#define VIEW DCT_ONNX_VIEW
#define EACH DCT_ONNX_ELEMENTWISE

static const op_row ops[] = {
    /* one element from one */
    {"Abs", dct_rule_same, DCT_DO_ABS, EACH}, {"Neg", dct_rule_same, DCT_DO_NEG, EACH},
    {"Floor", dct_rule_same, DCT_DO_FLOOR, EACH}, {"Ceil", dct_rule_same, DCT_DO_CEIL, EACH},
    {"Round", dct_rule_same, DCT_DO_ROUND, EACH}, {"Sqrt", dct_rule_same, DCT_DO_SQRT, EACH},
    {"Not", dct_rule_same, DCT_DO_NOT, EACH},
    {"Relu", dct_rule_same, 0, EACH}, {"LeakyRelu", dct_rule_same, 0, EACH}, {"PRelu", dct_rule_same, 0, EACH},
    {"Elu", dct_rule_same, 0, EACH}, {"Selu", dct_rule_same, 0, EACH}, {"Celu", dct_rule_same, 0, EACH},
    {"ThresholdedRelu", dct_rule_same, 0, EACH}, {"Sigmoid", dct_rule_same, 0, EACH}, {"HardSigmoid", dct_rule_same, 0, EACH},
    {"HardSwish", dct_rule_same, 0, EACH}, {"Swish", dct_rule_same, 0, EACH}, {"Mish", dct_rule_same, 0, EACH},
    {"Gelu", dct_rule_same, 0, EACH}, {"FastGelu", dct_rule_same, 0, EACH}, {"QuickGelu", dct_rule_same, 0, EACH},
    {"BiasGelu", dct_rule_same, 0, EACH}, {"Tanh", dct_rule_same, 0, EACH}, {"Softplus", dct_rule_same, 0, EACH},
    {"Softsign", dct_rule_same, 0, EACH}, {"Shrink", dct_rule_same, 0, EACH}, {"Erf", dct_rule_same, 0, EACH},
    {"Exp", dct_rule_same, 0, EACH}, {"Log", dct_rule_same, 0, EACH}, {"Reciprocal", dct_rule_same, 0, EACH},
    {"Sign", dct_rule_same, 0, EACH}, {"Sin", dct_rule_same, 0, EACH}, {"Cos", dct_rule_same, 0, EACH},
    {"Tan", dct_rule_same, 0, EACH}, {"Asin", dct_rule_same, 0, EACH}, {"Acos", dct_rule_same, 0, EACH},
    {"Atan", dct_rule_same, 0, EACH}, {"Sinh", dct_rule_same, 0, EACH}, {"Cosh", dct_rule_same, 0, EACH},
    {"Asinh", dct_rule_same, 0, EACH}, {"Acosh", dct_rule_same, 0, EACH}, {"Atanh", dct_rule_same, 0, EACH},
    {"Clip", dct_rule_same, 0, EACH}, {"BitwiseNot", dct_rule_same, 0, EACH}, {"QLinearSigmoid", dct_rule_same, 0, EACH},
    {"QLinearLeakyRelu", dct_rule_same, 0, EACH}, {"BatchNormalization", dct_rule_same, 0, EACH},
    {"IsNaN", dct_rule_to_bool, 0, OWN}, {"IsInf", dct_rule_to_bool, 0, OWN}, {"Cast", dct_rule_cast, 0, EACH},
    {"CastLike", dct_rule_cast, 0, EACH},
    /* one element from several */
    {"Add", dct_rule_arithmetic, DCT_DO_ADD, EACH}, {"Sub", dct_rule_arithmetic, DCT_DO_SUB, EACH},
    {"Mul", dct_rule_arithmetic, DCT_DO_MUL, EACH}, {"Div", dct_rule_arithmetic, DCT_DO_DIV, EACH},
    {"Mod", dct_rule_arithmetic, DCT_DO_MOD, EACH}, {"Pow", dct_rule_arithmetic, DCT_DO_POW, EACH},
    {"Min", dct_rule_arithmetic, DCT_DO_MIN, EACH}, {"Max", dct_rule_arithmetic, DCT_DO_MAX, EACH},
    {"Sum", dct_rule_arithmetic, DCT_DO_ADD, EACH}, {"Mean", dct_rule_arithmetic, 0, EACH},
    {"And", dct_rule_arithmetic, DCT_DO_AND, EACH}, {"Or", dct_rule_arithmetic, DCT_DO_OR, EACH},
    {"Xor", dct_rule_arithmetic, DCT_DO_XOR, EACH}, {"BitShift", dct_rule_arithmetic, 0, EACH},
    {"BitwiseAnd", dct_rule_arithmetic, 0, EACH}, {"BitwiseOr", dct_rule_arithmetic, 0, EACH},
    {"BitwiseXor", dct_rule_arithmetic, 0, EACH}, {"Equal", dct_rule_compare, DCT_DO_EQUAL, OWN},
    {"Less", dct_rule_compare, DCT_DO_LESS, OWN}, {"LessOrEqual", dct_rule_compare, DCT_DO_LESS_EQUAL, OWN},
    {"Greater", dct_rule_compare, DCT_DO_GREATER, OWN}, {"GreaterOrEqual", dct_rule_compare, DCT_DO_GREATER_EQUAL, OWN},
    {"Where", dct_rule_where, 0, EACH}, {"QLinearAdd", dct_rule_quantized_binary, 0, EACH},
    {"QLinearMul", dct_rule_quantized_binary, 0, EACH}, {"QuantizeLinear", dct_rule_quantize, 0, OWN},
    {"DequantizeLinear", dct_rule_dequantize, 0, OWN}, {"DynamicQuantizeLinear", dct_rule_dynamic_quantize, 0, OWN},
    /* of the input's shape, but not element by element */
    {"Softmax", dct_rule_same, 0, OWN}, {"LogSoftmax", dct_rule_same, 0, OWN}, {"Hardmax", dct_rule_same, 0, OWN},
    {"InstanceNormalization", dct_rule_same, 0, OWN}, {"GroupNormalization", dct_rule_same, 0, OWN},
    {"LpNormalization", dct_rule_same, 0, OWN}, {"LRN", dct_rule_same, 0, OWN},
    {"MeanVarianceNormalization", dct_rule_same, 0, OWN}, {"LayerNormalization", dct_rule_layer_norm, 0, OWN},
    {"RMSNormalization", dct_rule_layer_norm, 0, OWN}, {"SimplifiedLayerNormalization", dct_rule_layer_norm, 0, OWN},
    {"SkipLayerNormalization", dct_rule_skip_norm, 0, OWN}, {"SkipSimplifiedLayerNormalization", dct_rule_skip_norm, 0, OWN},
    {"RotaryEmbedding", dct_rule_same, 0, OWN},
    {"CumSum", dct_rule_same, 0, OWN}, {"Trilu", dct_rule_same, 0, OWN}, {"ReverseSequence", dct_rule_same, 0, OWN},
    {"ScatterND", dct_rule_same, 0, OWN}, {"ScatterElements", dct_rule_same, 0, OWN}, {"Scatter", dct_rule_same, 0, OWN},
    {"RandomNormalLike", dct_rule_same, 0, OWN}, {"RandomUniformLike", dct_rule_same, 0, OWN},
    /* constants, and what shapes say */
    {"Constant", dct_rule_constant, 0, OWN}, {"ConstantOfShape", dct_rule_constant_of_shape, 0, OWN},
    {"RandomNormal", dct_rule_random, 0, OWN}, {"RandomUniform", dct_rule_random, 0, OWN}, {"Range", dct_rule_range, 0, OWN},
    {"Shape", dct_rule_shape, 0, OWN}, {"Size", dct_rule_size, 0, OWN},
    /* moves */
    {"Identity", dct_rule_same, DCT_DO_COPY, VIEW}, {"Dropout", dct_rule_dropout, 0, VIEW},
    {"Reshape", dct_rule_reshape, 0, VIEW}, {"Flatten", dct_rule_flatten, 0, VIEW}, {"Squeeze", dct_rule_squeeze, 0, VIEW},
    {"Unsqueeze", dct_rule_unsqueeze, 0, VIEW}, {"Transpose", dct_rule_transpose, 0, OWN},
    {"Concat", dct_rule_concat, 0, OWN}, {"Split", dct_rule_split, 0, OWN}, {"Slice", dct_rule_slice, 0, OWN},
    {"Pad", dct_rule_pad, 0, OWN}, {"Expand", dct_rule_expand, 0, OWN}, {"Tile", dct_rule_tile, 0, OWN},
    {"DepthToSpace", dct_rule_depth_to_space, 0, OWN}, {"SpaceToDepth", dct_rule_space_to_depth, 0, OWN},
    /* picks and reductions */
    {"Gather", dct_rule_gather, 0, OWN}, {"GatherElements", dct_rule_gather_elements, 0, OWN},
    {"GatherND", dct_rule_gather_nd, 0, OWN}, {"OneHot", dct_rule_one_hot, 0, OWN}, {"NonZero", dct_rule_nonzero, 0, OWN},
    {"ReduceSum", dct_rule_reduce, DCT_DO_ADD, OWN}, {"ReduceProd", dct_rule_reduce, DCT_DO_MUL, OWN},
    {"ReduceMax", dct_rule_reduce, DCT_DO_MAX, OWN}, {"ReduceMin", dct_rule_reduce, DCT_DO_MIN, OWN},
    {"ReduceMean", dct_rule_reduce, 0, OWN}, {"ReduceL1", dct_rule_reduce, 0, OWN}, {"ReduceL2", dct_rule_reduce, 0, OWN},
    {"ReduceSumSquare", dct_rule_reduce, 0, OWN}, {"ReduceLogSum", dct_rule_reduce, 0, OWN},
    {"ReduceLogSumExp", dct_rule_reduce, 0, OWN}, {"ArgMax", dct_rule_arg, 0, OWN}, {"ArgMin", dct_rule_arg, 0, OWN},
    {"TopK", dct_rule_top_k, 0, OWN},
    /* products, windows, recurrences; the code is the number of the second operand, or what the sums are kept in */
    {"MatMul", dct_rule_matmul, 1, OWN}, {"MatMulInteger", dct_rule_matmul, 1, OWN}, {"QLinearMatMul", dct_rule_matmul, 3, OWN},
    {"FusedMatMul", dct_rule_matmul, 1, OWN}, {"MatMulNBits", dct_rule_matmul_packed, 0, OWN},
    {"Gemm", dct_rule_gemm, 0, OWN}, {"Einsum", dct_rule_einsum, 0, OWN}, {"Conv", dct_rule_conv, 1, OWN},
    {"FusedConv", dct_rule_conv, 1, OWN}, {"ConvInteger", dct_rule_conv, 1, OWN}, {"QLinearConv", dct_rule_conv, 3, OWN},
    {"ConvTranspose", dct_rule_conv_transpose, 0, OWN}, {"MaxPool", dct_rule_pool, 0, OWN},
    {"AveragePool", dct_rule_pool, 0, OWN}, {"LpPool", dct_rule_pool, 0, OWN}, {"QLinearAveragePool", dct_rule_pool, 0, OWN},
    {"GlobalAveragePool", dct_rule_global_pool, 0, OWN}, {"GlobalMaxPool", dct_rule_global_pool, 0, OWN},
    {"GlobalLpPool", dct_rule_global_pool, 0, OWN}, {"QLinearGlobalAveragePool", dct_rule_global_pool, 0, OWN},
    {"GridSample", dct_rule_grid_sample, 0, OWN}, {"Resize", dct_rule_resize, 0, OWN}, {"Upsample", dct_rule_resize, 0, OWN},
    {"LSTM", dct_rule_recurrent, 4, OWN}, {"GRU", dct_rule_recurrent, 3, OWN}, {"RNN", dct_rule_recurrent, 1, OWN},
};

static const op_row *find_op(const dct_onnx_node *node) {
    bool known_domain = node->domain.len == 0 || dct_str_eq_z(node->domain, "com.microsoft");
    for (size_t i = 0; known_domain && i < sizeof ops / sizeof *ops; i++) {
        if (dct_str_eq_z(node->op, ops[i].name)) return &ops[i];
    }
    return NULL;
}

/* ---- what a rule may ask ---- */

const dct_onnx_tensor *dct_in(const dct_shaping *s, uint32_t k) {
    if (k >= s->node->n_in || s->node->in[k] == DCT_ONNX_NONE) return NULL;
    return &s->g->values[s->node->in[k]].tensor;
}

bool dct_cannot(dct_shaping *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
    return false;
}

bool dct_need_in(dct_shaping *s, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        if (dct_in(s, k) == NULL) return dct_cannot(s, "input %u is missing", k);
    }
    return true;
}

bool dct_need_dims(dct_shaping *s, uint32_t k, uint32_t least) {
    const dct_onnx_tensor *in = dct_in(s, k);
    if (in == NULL) return dct_cannot(s, "input %u is missing", k);
    return in->n_dims >= least || dct_cannot(s, "input %u has %u dimensions, at least %u are needed", k, in->n_dims, least);
}

static const dct_onnx_attr *find_attr(const dct_onnx_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        if (dct_str_eq_z(node->attrs[i].name, name)) return &node->attrs[i];
    }
    return NULL;
}

const dct_onnx_attr *dct_attr(const dct_shaping *s, const char *name) { return find_attr(s->node, name); }

int64_t dct_attr_int(const dct_shaping *s, const char *name, int64_t otherwise) {
    const dct_onnx_attr *attr = dct_attr(s, name);
    return attr != NULL ? attr->i : otherwise;
}

bool dct_attr_is(const dct_shaping *s, const char *name, const char *text) {
    const dct_onnx_attr *attr = dct_attr(s, name);
    return attr != NULL && dct_str_eq_z(attr->s, text);
}

bool dct_ints(dct_shaping *s, uint32_t k, const char *name, const dct_onnx_item **items, uint32_t *n) {
    const dct_onnx_tensor *in = dct_in(s, k);
    const dct_onnx_attr *attr = name != NULL ? dct_attr(s, name) : NULL;
    uint64_t count;
    *items = NULL;
    *n = 0;
    if (in == NULL) {
        if (attr == NULL) return true;
        *items = attr->items;
        *n = attr->n_items;
        return true;
    }
    if (in->items == NULL || dct_onnx_is_float(in->type) || !dct_onnx_count(in, &count))
        return dct_cannot(s, "the elements of input %u are not known before it runs", k);
    *items = in->items;
    *n = (uint32_t)count;
    return true;
}

bool dct_axis(dct_shaping *s, int64_t axis, uint32_t n_dims, uint32_t *out) {
    *out = 0;
    if (axis < -(int64_t)n_dims || axis >= (int64_t)n_dims)
        return dct_cannot(s, "axis %lld of %u dimensions", (long long)axis, n_dims);
    *out = (uint32_t)(axis < 0 ? axis + n_dims : axis);
    return true;
}

bool dct_axes(dct_shaping *s, const dct_onnx_item *items, uint32_t n, uint32_t n_dims, bool is_in[DCT_ONNX_MAX_DIMS]) {
    for (uint32_t i = 0; i < DCT_ONNX_MAX_DIMS; i++) is_in[i] = false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t axis;
        if (!dct_axis(s, items[i].i, n_dims, &axis)) return false;
        if (is_in[axis]) return dct_cannot(s, "axis %u is named twice", axis);
        is_in[axis] = true;
    }
    return true;
}

bool dct_need_axes(dct_shaping *s, const dct_onnx_item **axes, uint32_t *n) {
    return dct_need_in(s, 1) && dct_ints(s, 1, "axes", axes, n);
}

/* ---- what it answers ---- */

bool dct_set(dct_shaping *s, uint32_t k, const dct_onnx_tensor *t) {
    uint64_t bytes;
    if (k >= s->node->n_out || s->node->out[k] == DCT_ONNX_NONE) return true;
    if (!dct_onnx_bytes(t, &bytes)) {
        if (dct_onnx_type_bits(t->type) == 0) return dct_cannot(s, "its output is of type %s", dct_onnx_type_name(t->type));
        return dct_cannot(s, "its output has more bytes than there can be");
    }
    dct_onnx_value *out = &s->g->values[s->node->out[k]];
    out->tensor = *t;
    out->is_shaped = true;
    return true;
}

bool dct_set_like(dct_shaping *s, uint32_t k, uint32_t type, const dct_onnx_tensor *shape) {
    dct_onnx_tensor t = *shape;
    t.type = type;
    t.items = NULL;
    return dct_set(s, k, &t);
}

bool dct_add_dim(dct_shaping *s, dct_onnx_tensor *t, int64_t size) {
    if (t->n_dims == DCT_ONNX_MAX_DIMS) return dct_cannot(s, "its output has more than %d dimensions", DCT_ONNX_MAX_DIMS);
    if (size < 0) return dct_cannot(s, "dimension %u of its output would be %lld", t->n_dims, (long long)size);
    t->dims[t->n_dims++] = size;
    return true;
}

bool dct_add_dims(dct_shaping *s, dct_onnx_tensor *t, const int64_t *sizes, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (!dct_add_dim(s, t, sizes[i])) return false;
    }
    return true;
}

bool dct_add_listed(dct_shaping *s, dct_onnx_tensor *t, const dct_onnx_item *sizes, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (!dct_add_dim(s, t, sizes[i].i)) return false;
    }
    return true;
}

bool dct_broadcast(dct_shaping *s, dct_onnx_tensor *t, const dct_onnx_tensor *other) {
    dct_onnx_tensor wide = t->n_dims >= other->n_dims ? *t : *other;
    const dct_onnx_tensor *narrow = t->n_dims >= other->n_dims ? other : t;
    uint32_t shift = wide.n_dims - narrow->n_dims;
    for (uint32_t i = 0; i < narrow->n_dims; i++) {
        int64_t a = wide.dims[shift + i], b = narrow->dims[i];
        if (a != b && a != 1 && b != 1)
            return dct_cannot(s, "%lld and %lld do not broadcast", (long long)a, (long long)b);
        if (a == 1) wide.dims[shift + i] = b;
    }
    t->n_dims = wide.n_dims;
    memcpy(t->dims, wide.dims, sizeof wide.dims);
    return true;
}

/* ---- a node ---- */

/* Whether every input has its shape: else a node before this one has not been shaped, and that one says why. */
static bool inputs_are_shaped(const dct_onnx_graph *g, const dct_onnx_node *node) {
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (node->in[k] != DCT_ONNX_NONE && !g->values[node->in[k]].is_shaped) return false;
    }
    return true;
}

static bool outputs_are_shaped(dct_shaping *s) {
    for (uint32_t k = 0; k < s->node->n_out; k++) {
        if (s->node->out[k] != DCT_ONNX_NONE && !s->g->values[s->node->out[k]].is_shaped)
            return dct_cannot(s, "there is no rule for its output %u", k);
    }
    return true;
}

/* ---- branches ---- */

/* Whether the condition of an If is known, and what it is. */
static bool condition(const dct_onnx_graph *g, const dct_onnx_node *node, bool *holds) {
    if (node->n_in != 1 || node->in[0] == DCT_ONNX_NONE) return false;
    const dct_onnx_tensor *t = &g->values[node->in[0]].tensor;
    uint64_t n;
    if (t->items == NULL || t->type != DCT_ONNX_BOOL || !dct_onnx_count(t, &n) || n != 1) return false;
    *holds = t->items[0].i != 0;
    return true;
}

static const dct_onnx_body *branch(const dct_onnx_node *node, const char *name) {
    const dct_onnx_attr *attr = find_attr(node, name);
    return attr != NULL ? attr->body : NULL;
}

/* ---- the walk ---- */

typedef struct walker {
    dct_onnx_graph *g;
    dct_arena *arena;
    dct_onnx_node *flat; /* the nodes that are left when branches are chosen */
    uint32_t n_flat, n_unshaped;
} walker;

/* Nodes in all bodies, and one more for each output of a body: what the flat list may come to. */
static uint64_t count_nodes(const dct_onnx_node *nodes, uint32_t n) {
    uint64_t count = n;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t a = 0; a < nodes[i].n_attrs; a++) {
            const dct_onnx_body *body = nodes[i].attrs[a].body;
            if (body != NULL) count += count_nodes(body->nodes, body->n_nodes) + body->n_outputs;
        }
    }
    return count;
}

static bool note_unshaped(walker *w, dct_onnx_node *node, const char *why) {
    node->why = dct_arena_strndup(w->arena, why, strlen(why));
    w->n_unshaped++;
    return node->why != NULL;
}

static bool has_body(const dct_onnx_node *node) {
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        if (node->attrs[i].body != NULL) return true;
    }
    return false;
}

static bool has_long_list(const dct_onnx_node *node) {
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        if (node->attrs[i].is_long) return true;
    }
    return false;
}

/* The input of the graph that alone decides an If, where --value can say what is in it: back from the condition along what is not
 * known, not far, as this only makes a message better. NULL: none was found. */
static const dct_onnx_value *find_decider(const walker *w, const dct_onnx_node *node) {
    uint32_t at = node->n_in == 1 ? node->in[0] : DCT_ONNX_NONE;
    for (uint32_t steps = 0; at != DCT_ONNX_NONE && steps < 64; steps++) {
        const dct_onnx_value *value = &w->g->values[at];
        uint64_t n;
        bool is_small = dct_onnx_count(&value->tensor, &n) && n <= DCT_ONNX_MAX_ITEMS;
        if (value->source == DCT_ONNX_INPUT) return is_small && !dct_onnx_is_float(value->tensor.type) ? value : NULL;
        if (value->source != DCT_ONNX_NODE || value->node >= w->n_flat) return NULL;
        const dct_onnx_node *from = &w->flat[value->node];
        uint32_t n_unknown = 0;
        for (uint32_t k = 0; k < from->n_in; k++) {
            if (from->in[k] == DCT_ONNX_NONE || w->g->values[from->in[k]].tensor.items != NULL) continue;
            at = from->in[k];
            n_unknown++;
        }
        if (n_unknown != 1) return NULL;
    }
    return NULL;
}

static bool note_undecided(walker *w, dct_onnx_node *node) {
    const dct_onnx_value *decider = find_decider(w, node);
    if (decider == NULL) return note_unshaped(w, node, "which branch it takes is known only when it runs");
    char why[80 + 2 * sizeof(dct_onnx_quoted)];
    dct_onnx_quoted name = dct_onnx_quote(decider->name);
    snprintf(why, sizeof why, "which branch it takes hangs on what is in the input '%s': --value %s=N says it", name.text,
             name.text);
    return note_unshaped(w, node, why);
}

/* False when there was no memory. */
static bool shape_node(walker *w, const dct_onnx_node *original) {
    dct_onnx_node *node = &w->flat[w->n_flat++];
    *node = *original;
    node->why = NULL;
    for (uint32_t k = 0; k < node->n_out; k++) {
        if (node->out[k] != DCT_ONNX_NONE) w->g->values[node->out[k]].node = w->n_flat - 1;
    }
    const op_row *op = find_op(node);
    if (op == NULL && dct_str_eq_z(node->op, "If")) return note_undecided(w, node);
    if (op == NULL && has_body(node)) return note_unshaped(w, node, "how often its body runs is known only when it does");
    if (op == NULL) return note_unshaped(w, node, "there is no rule for it");
    if (has_long_list(node)) return note_unshaped(w, node, "an attribute has more than 1024 numbers");
    if (!inputs_are_shaped(w->g, node)) /* a node that has been named says why, but in a body in disorder */
        return w->n_unshaped > 0 || note_unshaped(w, node, "it reads what is defined behind it");
    dct_shaping s = {.g = w->g, .node = node, .code = op->code, .arena = w->arena};
    const bool has_statistics = op->storage == DCT_ONNX_ELEMENTWISE && node->n_out > 1; /* which read all of it first */
    node->storage = has_statistics ? DCT_ONNX_OWN : op->storage;
    if (op->rule(&s) && outputs_are_shaped(&s) && !s.no_memory) return true;
    return !s.no_memory && note_unshaped(w, node, s.why);
}

static bool walk(walker *w, const dct_onnx_node *nodes, uint32_t n);

/* The nodes of the branch that is taken, and its outputs as those of the If. */
static bool take_branch(walker *w, const dct_onnx_node *node, const dct_onnx_body *body) {
    if (!walk(w, body->nodes, body->n_nodes)) return false;
    for (uint32_t k = 0; k < node->n_out; k++) {
        dct_onnx_node link = {.op = DCT_STR("Identity"), .name = node->name, .n_in = 1, .n_needs = 1, .n_out = 1};
        link.in = &body->outputs[k];
        link.out = &node->out[k];
        if (!shape_node(w, &link)) return false;
    }
    return true;
}

static bool walk(walker *w, const dct_onnx_node *nodes, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const dct_onnx_node *node = &nodes[i];
        bool holds, is_if = node->domain.len == 0 && dct_str_eq_z(node->op, "If") && condition(w->g, node, &holds);
        const dct_onnx_body *body = is_if ? branch(node, holds ? "then_branch" : "else_branch") : NULL;
        bool is_taken = body != NULL && body->n_outputs == node->n_out;
        if (!(is_taken ? take_branch(w, node, body) : shape_node(w, node))) return false;
    }
    return true;
}

dct_status dct_onnx_shape(dct_onnx_graph *g, dct_arena *arena, uint32_t *n_unshaped, dct_err *err) {
    walker w = {.g = g, .arena = arena};
    uint64_t most = count_nodes(g->nodes, g->n_nodes);
    w.flat = most < UINT32_MAX ? dct_arena_array(arena, most, sizeof *w.flat) : NULL;
    for (uint32_t v = 0; v < g->n_values; v++) {
        dct_onnx_value *value = &g->values[v]; /* a weight of texts has no bytes that could be planned: who reads it fails */
        value->is_shaped = value->source == DCT_ONNX_INPUT || value->source == DCT_ONNX_WEIGHT;
    }
    if (w.flat == NULL || !walk(&w, g->nodes, g->n_nodes)) return dct_fail_memory(err, arena, "shapes");
    g->nodes = w.flat;
    g->n_nodes = w.n_flat;
    *n_unshaped = w.n_unshaped;
    return DCT_OK;
}
