/* onnx/graph: element types, sizes, names for messages, and the sizes that a caller gives to open dimensions of inputs. */
#include <stdio.h>
#include <string.h>

#include "base/safe_text.h"
#include "base/size.h"
#include "onnx/onnx.h"

#define MAX_COUNT (UINT64_C(1) << 48)

static const struct {
    const char *name;
    uint32_t bits;
} types[] = {
    {"?", 0},         {"float32", 32},   {"uint8", 8},        {"int8", 8},        {"uint16", 16},        {"int16", 16},
    {"int32", 32},    {"int64", 64},     {"string", 0},       {"bool", 8},        {"float16", 16},       {"float64", 64},
    {"uint32", 32},   {"uint64", 64},    {"complex64", 64},   {"complex128", 128}, {"bfloat16", 16},     {"float8e4m3fn", 8},
    {"float8e4m3fnuz", 8}, {"float8e5m2", 8}, {"float8e5m2fnuz", 8}, {"uint4", 4}, {"int4", 4},          {"float4e2m1", 4},
};
enum { N_TYPES = sizeof types / sizeof *types };

uint32_t dct_onnx_type_bits(uint32_t type) { return type < N_TYPES ? types[type].bits : 0; }
const char *dct_onnx_type_name(uint32_t type) { return types[type < N_TYPES ? type : 0].name; }

bool dct_onnx_is_float(uint32_t type) {
    return type == DCT_ONNX_F32 || type == DCT_ONNX_F16 || type == DCT_ONNX_F64 || type == DCT_ONNX_BF16;
}

/* A dimension of 0 does not excuse the others: products over some of them are taken as well. */
bool dct_onnx_count(const dct_onnx_tensor *t, uint64_t *n) {
    uint64_t product = 1;
    bool is_empty = false;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        if (t->dims[i] == 0) is_empty = true;
        else if (t->dims[i] < 0 || !dct_mul_u64(product, (uint64_t)t->dims[i], &product) || product > MAX_COUNT) return false;
    }
    *n = is_empty ? 0 : product;
    return true;
}

bool dct_onnx_bytes(const dct_onnx_tensor *t, uint64_t *bytes) {
    uint64_t n, bits = dct_onnx_type_bits(t->type);
    if (bits == 0 || !dct_onnx_count(t, &n) || !dct_mul_u64(n, bits, &n) || n / 8 > MAX_COUNT) return false;
    *bytes = dct_div_up(n, 8);
    return true;
}

bool dct_onnx_same_size(const dct_onnx_tensor *a, const dct_onnx_tensor *b) {
    uint64_t n_a, n_b;
    return dct_onnx_count(a, &n_a) && dct_onnx_count(b, &n_b) && n_a == n_b &&
           dct_onnx_type_bits(a->type) == dct_onnx_type_bits(b->type);
}

dct_onnx_quoted dct_onnx_quote(dct_str name) {
    dct_onnx_quoted q = {""};
    size_t used = 0;
    for (size_t at = 0; at < name.len;) {
        char shown[DCT_SAFE_CHAR_BYTES];
        at += dct_safe_char(name.ptr + at, name.len - at, shown);
        size_t n = strlen(shown);
        if (used + n + sizeof "..." > sizeof q.text) {
            memcpy(q.text + used, "...", sizeof "...");
            break;
        }
        memcpy(q.text + used, shown, n + 1);
        used += n;
    }
    return q;
}

/* ---- open dimensions ---- */

/* NAME=VALUE. */
static bool cut_at_equals(const char *text, dct_str *name, const char **value) {
    const char *equals = strrchr(text, '=');
    if (equals == NULL || equals == text || equals[1] == '\0') return false;
    *name = (dct_str){text, (size_t)(equals - text)};
    *value = equals + 1;
    return true;
}

/* A whole number at *text, which then stands behind it. */
static bool take_size(const char **text, int64_t *out) {
    uint64_t v = 0;
    const char *at = *text;
    for (; *at >= '0' && *at <= '9' && v <= MAX_COUNT; at++) v = 10 * v + (uint64_t)(*at - '0');
    if (at == *text || v > MAX_COUNT) return false;
    *text = at;
    *out = (int64_t)v;
    return true;
}

/* Every dimension of that name gets the size. False when one has another. */
static bool bind_name(dct_onnx_graph *g, dct_str name, int64_t size, uint32_t *n_found) {
    for (uint32_t v = 0; v < g->n_values; v++) {
        dct_onnx_value *value = &g->values[v];
        if (value->source != DCT_ONNX_INPUT) continue;
        for (uint32_t i = 0; i < value->tensor.n_dims; i++) {
            if (value->dim_names == NULL || !dct_str_eq(value->dim_names[i], name)) continue;
            if (value->tensor.dims[i] >= 0 && value->tensor.dims[i] != size) return false;
            value->tensor.dims[i] = size;
            ++*n_found;
        }
    }
    return true;
}

dct_status dct_onnx_bind_dim(dct_onnx_graph *g, const char *text, dct_err *err) {
    dct_str name;
    const char *value;
    int64_t size;
    uint32_t n_found = 0;
    if (!cut_at_equals(text, &name, &value) || !take_size(&value, &size) || *value != '\0')
        return dct_fail(err, DCT_USAGE, "dimension '%.100s': NAME=N is expected", text);
    dct_onnx_quoted shown = dct_onnx_quote(name);
    if (!bind_name(g, name, size, &n_found))
        return dct_fail(err, DCT_USAGE, "dimension '%s' has another size already than %lld", shown.text, (long long)size);
    if (n_found == 0) return dct_fail(err, DCT_USAGE, "no input has a dimension named '%s'", shown.text);
    return DCT_OK;
}

static dct_onnx_value *find_input(const dct_onnx_graph *g, dct_str name) {
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->values[v].source == DCT_ONNX_INPUT && dct_str_eq(g->values[v].name, name)) return &g->values[v];
    }
    return NULL;
}

/* "1x3x224x224"; "scalar" is no dimension at all. */
static bool parse_shape(const char *text, dct_onnx_tensor *t) {
    t->n_dims = 0;
    if (strcmp(text, "scalar") == 0) return true;
    for (;;) {
        if (t->n_dims == DCT_ONNX_MAX_DIMS || !take_size(&text, &t->dims[t->n_dims++])) return false;
        if (*text == '\0') return true;
        if (*text++ != 'x') return false;
    }
}

dct_status dct_onnx_bind_input(dct_onnx_graph *g, const char *text, dct_err *err) {
    dct_str name;
    const char *value;
    dct_onnx_tensor given;
    uint32_t n_found = 0;
    if (!cut_at_equals(text, &name, &value) || !parse_shape(value, &given))
        return dct_fail(err, DCT_USAGE, "input '%.100s': NAME=1x3x224x224 is expected", text);
    dct_onnx_quoted shown = dct_onnx_quote(name);
    dct_onnx_value *input = find_input(g, name);
    if (input == NULL) return dct_fail(err, DCT_USAGE, "the model has no input '%s'", shown.text);
    dct_onnx_tensor *t = &input->tensor;
    if (input->has_rank && t->n_dims != given.n_dims)
        return dct_fail(err, DCT_USAGE, "input '%s' has %u dimensions, not %u", shown.text, t->n_dims, given.n_dims);
    if (!input->has_rank) input->dim_names = NULL; /* a list of none */
    for (uint32_t i = 0; i < given.n_dims; i++) {
        if (input->has_rank && t->dims[i] >= 0 && t->dims[i] != given.dims[i])
            return dct_fail(err, DCT_USAGE, "input '%s': dimension %u is %lld, not %lld", shown.text, i, (long long)t->dims[i],
                            (long long)given.dims[i]);
        bool has_name = input->dim_names != NULL && input->dim_names[i].len > 0;
        if (has_name && !bind_name(g, input->dim_names[i], given.dims[i], &n_found))
            return dct_fail(err, DCT_USAGE, "input '%s': dimension '%s' has another size already than %lld", shown.text,
                            dct_onnx_quote(input->dim_names[i]).text, (long long)given.dims[i]);
        t->dims[i] = given.dims[i];
    }
    input->has_rank = true;
    t->n_dims = given.n_dims;
    return DCT_OK;
}

dct_status dct_onnx_bind_value(dct_onnx_graph *g, const char *text, dct_arena *arena, dct_err *err) {
    dct_str name;
    const char *value;
    int64_t number;
    uint64_t n;
    if (!cut_at_equals(text, &name, &value) || !take_size(&value, &number) || *value != '\0')
        return dct_fail(err, DCT_USAGE, "value '%.100s': NAME=N is expected", text);
    dct_onnx_quoted shown = dct_onnx_quote(name);
    dct_onnx_value *input = find_input(g, name);
    if (input == NULL) return dct_fail(err, DCT_USAGE, "the model has no input '%s'", shown.text);
    dct_onnx_tensor *t = &input->tensor;
    if (!dct_onnx_count(t, &n) || n > DCT_ONNX_MAX_ITEMS)
        return dct_fail(err, DCT_USAGE, "input '%s' has more than %d elements", shown.text, DCT_ONNX_MAX_ITEMS);
    dct_onnx_item *items = dct_arena_array(arena, n, sizeof *items);
    if (items == NULL) return dct_fail_memory(err, arena, "an input's value");
    for (uint64_t i = 0; i < n; i++) {
        if (dct_onnx_is_float(t->type)) items[i].f = (double)number;
        else items[i].i = number;
    }
    t->items = items;
    return DCT_OK;
}

/* One more open dimension in the message. */
static void add_open(char *text, size_t size, const dct_onnx_value *input, uint32_t dim, bool again) {
    size_t used = strlen(text);
    if (used + 1 >= size) return;
    dct_str name = input->dim_names[dim];
    snprintf(text + used, size - used, "%s%u%s%s%s of '%s'", again ? ", " : "", dim, name.len > 0 ? " '" : "",
             dct_onnx_quote(name).text, name.len > 0 ? "'" : "", dct_onnx_quote(input->name).text);
}

dct_status dct_onnx_check_bound(const dct_onnx_graph *g, dct_err *err) {
    char open[240] = "";
    uint32_t n_open = 0;
    for (uint32_t v = 0; v < g->n_values; v++) {
        const dct_onnx_value *value = &g->values[v];
        dct_onnx_quoted name = dct_onnx_quote(value->name);
        bool is_open = false;
        uint64_t bytes;
        if (value->source != DCT_ONNX_INPUT) continue;
        if (dct_onnx_type_bits(value->tensor.type) == 0) {
            return dct_fail(err, DCT_BAD_FILE, "input '%s' is no tensor of numbers (type %s)", name.text,
                            dct_onnx_type_name(value->tensor.type));
        }
        if (!value->has_rank)
            return dct_fail(err, DCT_USAGE, "the file says no shape for input '%s': give --input NAME=SHAPE", name.text);
        for (uint32_t i = 0; i < value->tensor.n_dims; i++) {
            if (value->tensor.dims[i] < 0) add_open(open, sizeof open, value, i, n_open++ > 0);
            is_open = is_open || value->tensor.dims[i] < 0;
        }
        if (!is_open && !dct_onnx_bytes(&value->tensor, &bytes))
            return dct_fail(err, DCT_USAGE, "input '%s' has more bytes than there can be", name.text);
    }
    if (n_open == 0) return DCT_OK;
    return dct_fail(err, DCT_USAGE, "%u dimension%s open: %s; give --dim NAME=N or --input NAME=SHAPE", n_open,
                    n_open == 1 ? " is" : "s are", open);
}
