/* tools/onnx_plan: an ONNX file, and the sizes of its open dimensions, to its memory. Nothing is run. */
#include "base/os.h"
#include "base/size.h"
#include "tools/onnx_report.h"
#include "tools/tools.h"

/* A hostile file of a few bytes a node can ask for much: what graphs of whole models need is a tenth of this. */
#define ARENA_BYTES (UINT64_C(2) << 30)

static dct_status bind(const dct_onnx_params *params, dct_onnx_graph *g, dct_arena *arena, dct_err *err) {
    dct_status status = DCT_OK;
    for (uint32_t i = 0; status == DCT_OK && i < params->n_inputs; i++) status = dct_onnx_bind_input(g, params->inputs[i], err);
    for (uint32_t i = 0; status == DCT_OK && i < params->n_dims; i++) status = dct_onnx_bind_dim(g, params->dims[i], err);
    if (status == DCT_OK) status = dct_onnx_check_bound(g, err);
    for (uint32_t i = 0; status == DCT_OK && i < params->n_values; i++)
        status = dct_onnx_bind_value(g, params->values[i], arena, err);
    return status;
}

/* A line a node. */
static void name_unshaped(const dct_onnx_params *params, const dct_onnx_graph *g) {
    const dct_text t = {params->complain, params->complain_ctx};
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const dct_onnx_node *node = &g->nodes[i];
        if (node->why == NULL) continue;
        dct_text_put(&t, "node %u, %s%s%s '%s': %s\n", i, dct_onnx_quote(node->domain).text, node->domain.len > 0 ? "." : "",
                     dct_onnx_quote(node->op).text, dct_onnx_quote(node->name).text, node->why);
    }
}

static dct_status shape(const dct_onnx_params *params, dct_onnx_graph *g, dct_arena *arena, dct_err *err) {
    uint32_t n_unshaped;
    dct_status status = dct_onnx_shape(g, arena, &n_unshaped, err);
    if (status != DCT_OK || n_unshaped == 0) return status;
    name_unshaped(params, g);
    return dct_fail(err, DCT_BAD_FILE, "%u of %u nodes cannot be shaped", n_unshaped, g->n_nodes);
}

static dct_status report(const dct_onnx_params *params, const dct_onnx_memory *m, uint64_t begun, dct_arena *arena,
                         dct_err *err) {
    const dct_text t = {params->write, params->ctx};
    dct_onnx_report r = {.path = params->path, .m = m, .ms = (double)(dct_os_now_ns() - begun) / 1e6};
    for (int region = DCT_ONNX_WEIGHTS; region < DCT_ONNX_REGIONS; region++) {
        if (!dct_add_u64(r.m_max_bytes, m->region_bytes[region], &r.m_max_bytes))
            return dct_fail(err, DCT_NO_FIT, "the values have more bytes than can be counted");
    }
    if (params->svg != NULL) {
        dct_status status = dct_onnx_draw(m, params->svg, arena, err);
        if (status != DCT_OK) return status;
    }
    if (params->json) dct_onnx_put_json(&r, &t);
    else dct_onnx_put_table(&r, params->with_values, &t);
    return DCT_OK;
}

dct_status dct_onnx_plan(const dct_onnx_params *params, dct_err *err) {
    dct_arena arena;
    dct_onnx_graph g;
    dct_onnx_memory m;
    dct_arena_init(&arena, ARENA_BYTES);
    uint64_t begun = dct_os_now_ns();
    dct_status status = dct_onnx_open(params->path, &arena, &g, err);
    if (status == DCT_OK) status = bind(params, &g, &arena, err);
    if (status == DCT_OK) status = shape(params, &g, &arena, err);
    if (status == DCT_OK) status = dct_onnx_place_values(&g, params->nodes, params->keep_order, &arena, &m, err);
    if (status == DCT_OK) status = report(params, &m, begun, &arena, err);
    if (err != NULL && status == DCT_BAD_FILE) dct_err_name_file(err, params->path);
    dct_arena_deinit(&arena);
    return status;
}
