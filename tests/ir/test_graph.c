/* Graphs: what the builder finds again, and that dct_graph_check refuses every kind of damage, naming the op. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/graph.h"
#include "kernels/kernel.h"

enum { R = 4, WIDTH = 64, VOCAB = 96, CTX = 1040, HEADS = 2, DIM = 32 };

typedef struct fixture {
    dct_arena arena;
    dct_graph g;
    dct_op_params p;
} fixture;

static dct_value_id matrix(dct_graph *g, const char *name, dct_dtype type, uint32_t m, uint32_t k) {
    dct_weight w = {.type = type, .n_rows = m, .n_cols = k};
    snprintf(w.tensor, sizeof w.tensor, "%s", name);
    assert_true(dct_layout_bytes(type, m, k, &w.bytes));
    return dct_graph_weight(g, &w);
}

static dct_value_id vector(dct_graph *g, const char *name, uint32_t n) {
    dct_weight w = {.type = DCT_TYPE_F32, .n_rows = 1, .n_cols = n, .is_vector = true, .bytes = (n * 4 + 63) / 64 * 64};
    snprintf(w.tensor, sizeof w.tensor, "%s", name);
    return dct_graph_weight(g, &w);
}

static dct_value_id cache(dct_graph *g, bool is_k) {
    dct_cache c = {.is_k = is_k, .n_head_kv = HEADS, .head_dim = DIM, .n_ctx = CTX, .type = DCT_TYPE_F16};
    assert_true(dct_kv_bytes(c.type, c.n_head_kv, c.head_dim, c.n_ctx, &c.bytes));
    return dct_graph_cache(g, &c);
}

/* One layer of attention, a tied head: every logical op but GLU and LAST_ROW. */
static void trace(fixture *f, bool split) {
    dct_arena_init(&f->arena, 0);
    dct_graph *g = &f->g;
    dct_graph_init(g, &f->arena, R);
    g->ids = dct_graph_input_i32(g, "ids", R, 1);
    g->pos = dct_graph_input_i32(g, "pos", R, 4);
    f->p = (dct_op_params){.scale = 0.5f, .n_head = HEADS, .n_head_kv = HEADS, .head_dim = DIM, .head_dim_v = DIM, .n_rot = DIM, .n_part = 2};
    dct_rope_table rope = {.n_rot = DIM, .n_ctx = CTX, .base = 10000, .factor = 1};
    dct_value_id embd = matrix(g, "token_embd.weight", DCT_TYPE_Q4_0, VOCAB, WIDTH);
    dct_value_id x = dct_trace_embed(g, g->ids, embd, 1, "embed");
    dct_value_id h = dct_trace_rms_norm(g, x, vector(g, "norm", WIDTH), 1e-6f, 0, "norm");
    dct_value_id q = dct_trace_linear(g, h, matrix(g, "wq", DCT_TYPE_Q4_0, WIDTH, WIDTH), vector(g, "bq", WIDTH), 0, "q");
    dct_value_id k = dct_trace_linear(g, h, matrix(g, "wk", DCT_TYPE_Q4_0, WIDTH, WIDTH), DCT_NONE, 0, "k");
    dct_value_id v = dct_trace_linear(g, h, matrix(g, "wv", DCT_TYPE_F16, WIDTH, WIDTH), DCT_NONE, 0, "v");
    dct_value_id table = dct_graph_table(g, &rope);
    q = dct_trace_rope(g, q, table, &f->p, 0, "q_rope");
    k = dct_trace_rope(g, k, table, &f->p, 0, "k_rope");
    dct_value_id kc = cache(g, true), vc = cache(g, false);
    dct_trace_kv_store(g, k, v, kc, vc, &f->p, 0);
    dct_value_id a = dct_trace_attn(g, q, kc, vc, &f->p, split, 0, "attn");
    x = dct_trace_add(g, x, a, 0, "out");
    dct_value_id logits = dct_trace_linear(g, x, matrix(g, "token_embd.weight", DCT_TYPE_Q4_0, VOCAB, WIDTH), DCT_NONE, -1, "uncapped");
    dct_graph_output(g, dct_trace_softcap(g, logits, 30, "logits"));
}

static void drop(fixture *f) { dct_arena_deinit(&f->arena); }

static dct_op *op_of(fixture *f, dct_op_kind kind) {
    for (dct_op_id i = 0; i < f->g.n_ops; i++) {
        if (f->g.ops[i].kind == kind) return &f->g.ops[i];
    }
    fail_msg("no op %s", dct_op_info_of(kind)->name);
    return NULL;
}

static dct_value *value_of(fixture *f, const char *name) {
    for (dct_value_id i = 0; i < f->g.n_values; i++) {
        if (strcmp(f->g.values[i].name, name) == 0) return &f->g.values[i];
    }
    fail_msg("no value %s", name);
    return NULL;
}

static dct_value_id id_of(fixture *f, const char *name) { return (dct_value_id)(value_of(f, name) - f->g.values); }

static void good_graphs_pass(void **state) {
    (void)state;
    for (int split = 0; split < 2; split++) {
        fixture f;
        dct_err err;
        trace(&f, split);
        if (dct_graph_check(&f.g, &err) != DCT_OK) fail_msg("%s", err.message);
        drop(&f);
    }
}

static void equal_things_are_found_again(void **state) {
    (void)state;
    fixture f;
    trace(&f, false);
    dct_graph *g = &f.g;
    uint32_t n_weights = g->n_weights, n_values = g->n_values;
    assert_int_equal(n_weights, 6); /* the embedding is the head */
    assert_int_equal(matrix(g, "wq", DCT_TYPE_Q4_0, WIDTH, WIDTH), id_of(&f, "wq"));
    dct_weight part = g->weights[value_of(&f, "wq")->ref];
    part.row_begin = 16;
    assert_int_equal(dct_graph_weight(g, &part), n_values); /* other rows of a tensor are another weight */
    dct_rope_table rope = g->tables[0];
    assert_int_equal(dct_graph_table(g, &rope), id_of(&f, "rope_table"));
    rope.base = 1e6f;
    assert_int_not_equal(dct_graph_table(g, &rope), id_of(&f, "rope_table"));
    drop(&f);
}

/* Quantised weights share one QUANT an input, float weights read the input itself. */
static void inputs_are_quantised_once(void **state) {
    (void)state;
    fixture f;
    trace(&f, false);
    uint32_t n_quant = 0;
    for (dct_op_id i = 0; i < f.g.n_ops; i++) n_quant += f.g.ops[i].kind == DCT_OP_QUANT;
    assert_int_equal(n_quant, 2);
    assert_string_equal(f.g.values[f.g.ops[value_of(&f, "blk.0.q")->producer].in[0]].name, "blk.0.norm.q8");
    assert_int_equal(f.g.ops[value_of(&f, "blk.0.q")->producer].in[0], f.g.ops[value_of(&f, "blk.0.k")->producer].in[0]);
    assert_string_equal(f.g.values[f.g.ops[value_of(&f, "blk.0.v")->producer].in[0]].name, "blk.0.norm");
    drop(&f);
}

static void bytes_are_rounded_to_lines(void **state) {
    (void)state;
    fixture f;
    trace(&f, true);
    assert_int_equal(value_of(&f, "ids")->bytes, 64); /* 4 rows of 4 */
    assert_int_equal(value_of(&f, "blk.0.norm.q8")->bytes, R * dct_q8_row_bytes(WIDTH));
    assert_int_equal(value_of(&f, "blk.0.attn_parts")->bytes, R * HEADS * 2 * (DIM + 2) * 4);
    assert_int_equal(dct_op_scratch_bytes(&f.g, op_of(&f, DCT_OP_ATTN_PART)), dct_attn_scratch_bytes(DIM));
    assert_int_equal(dct_op_scratch_bytes(&f.g, op_of(&f, DCT_OP_LINEAR)), 0);
    drop(&f);
}

/* ---- damage ---- */

static void too_few_inputs(fixture *f) { op_of(f, DCT_OP_ADD)->n_in = 1; }
static void too_many_inputs(fixture *f) { op_of(f, DCT_OP_ADD)->n_in = 1000; }
static void too_many_outputs(fixture *f) { op_of(f, DCT_OP_ADD)->n_out = 1000; }
static void unknown_kind(fixture *f) { op_of(f, DCT_OP_ADD)->kind = (dct_op_kind)99; }
static void input_out_of_range(fixture *f) { op_of(f, DCT_OP_ADD)->in[0] = f->g.n_values; }
static void absent_input(fixture *f) { op_of(f, DCT_OP_ADD)->in[1] = DCT_NONE; }
static void absent_output(fixture *f) { op_of(f, DCT_OP_ADD)->out[0] = DCT_NONE; }
static void read_before_defined(fixture *f) { op_of(f, DCT_OP_RMS_NORM)->in[0] = id_of(f, "blk.0.out"); }
static void produced_twice(fixture *f) { op_of(f, DCT_OP_ADD)->out[0] = id_of(f, "embed"); }
static void output_is_an_input(fixture *f) { op_of(f, DCT_OP_EMBED)->out[0] = f->g.ids; }
static void wrong_format(fixture *f) { op_of(f, DCT_OP_LINEAR)->in[0] = id_of(f, "blk.0.norm"); }
static void wrong_weight(fixture *f) { f->g.ops[value_of(f, "blk.0.k")->producer].in[1] = id_of(f, "token_embd.weight"); }
static void wrong_bias(fixture *f) { op_of(f, DCT_OP_LINEAR)->in[2] = id_of(f, "embed"); }
static void wrong_group(fixture *f) { op_of(f, DCT_OP_RMS_NORM)->p.group = 0; }
static void swapped_caches(fixture *f) {
    dct_op *op = op_of(f, DCT_OP_ATTN);
    dct_value_id k = op->in[1];
    op->in[1] = op->in[2];
    op->in[2] = k;
}
static void wrong_heads(fixture *f) { op_of(f, DCT_OP_ATTN)->p.n_head_kv = 0; }
static void wrong_rotation(fixture *f) { op_of(f, DCT_OP_ROPE)->p.n_rot = DIM / 2; }
static void no_cap(fixture *f) { op_of(f, DCT_OP_SOFTCAP)->p.softcap = 0; }
static void attends_before_store(fixture *f) {
    dct_op *store = op_of(f, DCT_OP_KV_STORE), *attn = op_of(f, DCT_OP_ATTN), swap = *store;
    *store = *attn;
    *attn = swap;
    f->g.values[store->out[0]].producer = (dct_op_id)(store - f->g.ops);
}
static void alias_not_allowed(fixture *f) { value_of(f, "blk.0.q")->alias_of = id_of(f, "blk.0.norm.q8"); }
static void alias_read_later(fixture *f) { value_of(f, "blk.0.norm")->alias_of = id_of(f, "embed"); }
static void alias_of_input(fixture *f) { value_of(f, "ids")->alias_of = id_of(f, "embed"); }
static void wrong_bytes(fixture *f) { value_of(f, "blk.0.out")->bytes -= 64; }
static void weight_out_of_range(fixture *f) { value_of(f, "wq")->ref = 77; }
static void weight_of_no_type(fixture *f) { f->g.weights[1].type = (dct_dtype)99; }
static void name_without_end(fixture *f) { memset(value_of(f, "wq")->name, 'x', DCT_NAME_BYTES); }
static void logits_are_no_output(fixture *f) { f->g.logits = id_of(f, "embed"); }
static void producer_denies(fixture *f) { value_of(f, "blk.0.k")->producer = 0; }

static void damage_is_named(void **state) {
    (void)state;
    static const struct {
        void (*break_it)(fixture *f);
        const char *says;
    } cases[] = {
        {too_few_inputs, "(add, layer 0): 1 inputs"}, {too_many_inputs, "1000 inputs"}, {too_many_outputs, "1000 outputs"}, {unknown_kind, "unknown kind 99"},
        {input_out_of_range, "input 0 is value"}, {absent_input, "input 1 is absent"}, {absent_output, "output 0 is absent"},
        {read_before_defined, "'blk.0.out' is read before it is defined"}, {produced_twice, "'embed' is produced elsewhere"},
        {output_is_an_input, "'ids' is not a value that ops make"}, {wrong_format, "'blk.0.norm' has format"}, {wrong_weight, "[4, 64], expected [4, 96]"},
        {wrong_bias, "'embed' is [4, 64], expected [1, 64]"}, {wrong_group, "groups of 0"}, {swapped_caches, "wrong one of K and V"}, {wrong_heads, "do not share"},
        {wrong_rotation, "for 32 elements, expected 16"}, {no_cap, "cap 0"}, {attends_before_store, "before its rows are stored"},
        {alias_not_allowed, "may not lie in the bytes"}, {alias_read_later, "'embed' is read by op"}, {alias_of_input, "'ids' has producer"},
        {wrong_bytes, "'blk.0.out' of [4, 64] cannot have 960 bytes"}, {weight_out_of_range, "is weight 77 of 6"}, {weight_of_no_type, "weight 1 has no valid name or type"},
        {name_without_end, "has no valid name"}, {logits_are_no_output, "the output of the graph"}, {producer_denies, "'blk.0.k' is produced elsewhere"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        dct_err err = {0};
        trace(&f, false);
        cases[i].break_it(&f);
        dct_status status = dct_graph_check(&f.g, &err);
        if (status != DCT_BUG || strstr(err.message, cases[i].says) == NULL) fail_msg("case %zu: status %d, '%s' (expected '%s')", i, (int)status, err.message, cases[i].says);
        drop(&f);
    }
}

/* An ADD that nobody reads `a` after may take its bytes. */
static void legal_aliases_pass(void **state) {
    (void)state;
    fixture f;
    dct_err err;
    trace(&f, false);
    value_of(&f, "blk.0.out")->alias_of = id_of(&f, "embed");
    value_of(&f, "logits")->alias_of = id_of(&f, "uncapped");
    value_of(&f, "blk.0.q_rope")->alias_of = id_of(&f, "blk.0.q");
    if (dct_graph_check(&f.g, &err) != DCT_OK) fail_msg("%s", err.message);
    drop(&f);
}

/* ---- fused ops ---- */

static dct_op_id add_op(dct_graph *g, dct_op_kind kind, uint32_t n_in, const dct_value_id *in, uint32_t n_out, const dct_value_id *out, const dct_op_params *p) {
    dct_op op = {.kind = kind, .n_in = n_in, .n_out = n_out, .p = *p};
    memcpy(op.in, in, n_in * sizeof *in);
    memcpy(op.out, out, n_out * sizeof *out);
    return dct_graph_op(g, &op);
}

static dct_value_id result(dct_graph *g, const char *name, dct_format format, uint32_t cols) {
    return dct_graph_value(g, name, -1, DCT_KIND_INTERMEDIATE, format, R, cols);
}

/* One of each fused op, on the values of the fixture. */
static void append_fused(fixture *f) {
    dct_graph *g = &f->g;
    dct_op_params p = f->p;
    p.group = WIDTH;
    dct_value_id x = id_of(f, "blk.0.out"), wq = id_of(f, "wq"), wk = id_of(f, "wk"), none = DCT_NONE, norm = id_of(f, "norm");
    dct_value_id h = result(g, "h", DCT_FMT_Q8, WIDTH), q = result(g, "fq", DCT_FMT_F32, WIDTH), k = result(g, "fk", DCT_FMT_F32, WIDTH);
    dct_value_id v = result(g, "fv", DCT_FMT_F32, WIDTH), rotated = result(g, "rotated", DCT_FMT_F32, WIDTH);
    dct_value_id sum = result(g, "sum", DCT_FMT_F32, WIDTH), glu = result(g, "glu", DCT_FMT_F32, WIDTH);
    add_op(g, DCT_OP_NORM_QUANT, 2, (dct_value_id[]){x, norm}, 1, &h, &p);
    add_op(g, DCT_OP_LINEAR_MULTI, 7, (dct_value_id[]){h, wq, wk, wq, id_of(f, "bq"), none, none}, 3, (dct_value_id[]){q, k, v}, &p);
    add_op(g, DCT_OP_ROPE_KV, 7, (dct_value_id[]){q, k, v, id_of(f, "rope_table"), g->pos, id_of(f, "blk.0.cache_k"), id_of(f, "blk.0.cache_v")}, 1, &rotated, &p);
    add_op(g, DCT_OP_LINEAR_ADD, 3, (dct_value_id[]){h, wq, x}, 1, &sum, &p);
    add_op(g, DCT_OP_LINEAR_GLU, 3, (dct_value_id[]){h, wq, wk}, 1, &glu, &p);
    g->values[sum].alias_of = x;
    g->values[rotated].alias_of = q;
}

static void fused_ops_pass(void **state) {
    (void)state;
    fixture f;
    dct_err err;
    trace(&f, false);
    append_fused(&f);
    if (dct_graph_check(&f.g, &err) != DCT_OK) fail_msg("%s", err.message);
    assert_int_equal(dct_op_scratch_bytes(&f.g, op_of(&f, DCT_OP_LINEAR_GLU)), 2 * R * 16 * 8 * 4);
    assert_int_equal(dct_op_scratch_bytes(&f.g, op_of(&f, DCT_OP_NORM_QUANT)), WIDTH * 4);
    for (uint32_t i = 0; i < 7; i++) assert_int_equal(dct_op_writes_input(DCT_OP_ROPE_KV, i), i == 1 || i == 5 || i == 6);
    drop(&f);
}

static void fused_residual_wrong(fixture *f) { op_of(f, DCT_OP_LINEAR_ADD)->in[2] = f->g.pos; }
static void fused_output_missing(fixture *f) { op_of(f, DCT_OP_LINEAR_MULTI)->out[1] = DCT_NONE; }
static void fused_k_read_later(fixture *f) { op_of(f, DCT_OP_LINEAR_ADD)->in[2] = id_of(f, "fk"); }
static void fused_factor_is_residual(fixture *f) { /* a float weight, so that the two have one format */
    dct_op *op = op_of(f, DCT_OP_LINEAR_ADD);
    op->in[0] = op->in[2];
    op->in[1] = id_of(f, "wv");
}
static void fused_query_is_key(fixture *f) { op_of(f, DCT_OP_ROPE_KV)->in[1] = id_of(f, "fq"); }
static void fused_value_is_key(fixture *f) { op_of(f, DCT_OP_ROPE_KV)->in[2] = id_of(f, "fk"); }
static void fused_alias_wrong(fixture *f) { value_of(f, "glu")->alias_of = id_of(f, "fv"); }

static void fused_damage_is_named(void **state) {
    (void)state;
    static const struct {
        void (*break_it)(fixture *f);
        const char *says;
    } cases[] = {{fused_residual_wrong, "linear_add"}, {fused_output_missing, "output 1 is absent"}, {fused_k_read_later, "'fk' is read by op"}, {fused_alias_wrong, "'glu' may not lie"},
                 {fused_factor_is_residual, "overwrites 'blk.0.out', which is another of its inputs"}, {fused_query_is_key, "overwrites 'fq', which is another"},
                 {fused_value_is_key, "overwrites 'fk', which is another"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        dct_err err = {0};
        trace(&f, false);
        append_fused(&f);
        cases[i].break_it(&f);
        if (dct_graph_check(&f.g, &err) != DCT_BUG || strstr(err.message, cases[i].says) == NULL) fail_msg("case %zu: '%s'", i, err.message);
        drop(&f);
    }
}

/* Ops that work on the run's rows by its n and pos0, given the one row that LAST_ROW leaves. */
static void rows_are_those_of_the_phase(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        fixture f;
        dct_err err = {0};
        trace(&f, false);
        dct_graph *g = &f.g;
        dct_value_id kc = id_of(&f, "blk.0.cache_k"), vc = id_of(&f, "blk.0.cache_v"), one = dct_trace_last_row(g, id_of(&f, "blk.0.out"), "one");
        if (i == 0) dct_trace_kv_store(g, one, one, kc, vc, &f.p, 0);
        if (i == 1 || i == 2) dct_trace_attn(g, one, kc, vc, &f.p, i == 2, 0, "late");
        if (i == 3) dct_trace_last_row(g, one, "again");
        if (i == 4) g->values[g->ids].rows = R - 1, g->values[g->ids].bytes = 64;
        if (i == 5) g->values[g->pos].rows = R + 1, g->values[g->pos].bytes = 128;
        const char *says = i < 4 ? "'one' has 1 rows, the phase has 4" : "for each of 4 rows";
        if (dct_graph_check(g, &err) != DCT_BUG || strstr(err.message, says) == NULL) fail_msg("case %d: '%s'", i, err.message);
        drop(&f);
    }
}

/* Memory that runs out at any point is one failure at the end, never a crash. */
static void memory_failures_stick(void **state) {
    (void)state;
    dct_arena arena;
    for (uint64_t k = 1; k < 6; k++) {
        dct_graph g;
        dct_err err;
        dct_arena_init(&arena, 0);
        arena.fail_at = k;
        dct_graph_init(&g, &arena, R);
        g.ids = dct_graph_input_i32(&g, "ids", R, 1);
        g.pos = dct_graph_input_i32(&g, "pos", R, 4);
        dct_value_id x = dct_trace_embed(&g, g.ids, matrix(&g, "embd", DCT_TYPE_F16, VOCAB, WIDTH), 1, "x");
        dct_rope_table rope = {.n_rot = DIM, .n_ctx = CTX};
        dct_value_id table = dct_graph_table(&g, &rope), kc = cache(&g, true);
        bool failed = g.status != DCT_OK;
        assert_true(failed && (x == DCT_NONE || table == DCT_NONE || kc == DCT_NONE));
        assert_int_equal(dct_graph_check(&g, &err), DCT_NO_FIT);
        dct_arena_deinit(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_graphs_pass),       cmocka_unit_test(equal_things_are_found_again), cmocka_unit_test(inputs_are_quantised_once),
        cmocka_unit_test(bytes_are_rounded_to_lines), cmocka_unit_test(damage_is_named),          cmocka_unit_test(legal_aliases_pass),
        cmocka_unit_test(fused_ops_pass),         cmocka_unit_test(fused_damage_is_named),        cmocka_unit_test(memory_failures_stick),
        cmocka_unit_test(rows_are_those_of_the_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
