/* A good plan, one thing damaged, exactly one answer. Each row of the table below damages a fresh plan of a tiny model. */
#include "verify_support.h"

#include "base/size.h"

/* ---- finding things in a plan ---- */

static dct_phase *prefill(bench *b) { return &b->plan->phases[b->plan->phases[0].kind == DCT_PHASE_PREFILL ? 0 : 1]; }
static dct_phase *decode(bench *b) { return &b->plan->phases[b->plan->phases[0].kind == DCT_PHASE_DECODE ? 0 : 1]; }

static dct_op *find_op(dct_phase *phase, dct_op_kind kind) {
    for (dct_op_id k = 0; k < phase->graph.n_ops; k++) {
        if (phase->graph.ops[k].kind == kind) return &phase->graph.ops[k];
    }
    fail_msg("%s has no %s", phase->name, dct_op_info_of(kind)->name);
    return NULL;
}

static dct_op_id id_of(const dct_phase *phase, const dct_op *op) { return (dct_op_id)(op - phase->graph.ops); }

/* The step whose first op has this kind. */
static uint32_t step_of(dct_phase *phase, dct_op_kind kind) {
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        if (phase->graph.ops[phase->steps[s].ops[0]].kind == kind) return s;
    }
    fail_msg("%s has no step of %s", phase->name, dct_op_info_of(kind)->name);
    return 0;
}

static dct_value_id find_alias(dct_phase *phase) {
    for (dct_value_id v = 0; v < phase->graph.n_values; v++) {
        if (phase->graph.values[v].alias_of != DCT_NONE) return v;
    }
    fail_msg("%s has no value in place", phase->name);
    return 0;
}

static dct_value *table_value(dct_phase *phase, dct_value_id *id) {
    for (*id = 0; *id < phase->graph.n_values; (*id)++) {
        dct_value *v = &phase->graph.values[*id];
        if (v->kind == DCT_KIND_PERSISTENT && v->ref != DCT_NONE) return v;
    }
    fail_msg("no table");
    return NULL;
}

static uint32_t matrix_weight(const dct_plan *plan) {
    uint32_t i = 0;
    while (plan->weights[i].w.is_vector) i++;
    return i;
}

static dct_item *item_named(bench *b, dct_region region, const char *name) {
    for (uint32_t i = 0; i < b->plan->n_items; i++) {
        if (b->plan->items[i].region == region && strcmp(b->plan->items[i].name, name) == 0) return &b->plan->items[i];
    }
    fail_msg("no item '%s'", name);
    return NULL;
}

/* Removes entry `at` of the waits, which belongs to some step. */
static void remove_wait(dct_phase *phase, uint32_t at) {
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        dct_step *step = &phase->steps[s];
        if (at >= step->wait_begin && at < step->wait_begin + step->n_waits) step->n_waits--;
        else if (step->wait_begin > at) step->wait_begin--;
    }
    phase->n_waits--;
    for (uint32_t i = at; i < phase->n_waits; i++) phase->waits[i] = phase->waits[i + 1];
}

/* ---- the damages ---- */

static void other_fingerprint(bench *b) { b->plan->fingerprint ^= 1; }
static void other_arch(bench *b) { b->plan->arch[0] ^= 1; }
static void other_params_count(bench *b) { b->plan->n_params++; }
static void other_tensor_bytes(bench *b) { b->plan->tensor_bytes -= 32; }

static void other_eps(bench *b) { find_op(decode(b), DCT_OP_NORM_QUANT)->p.eps *= 2; }
static void other_scale(bench *b) { find_op(prefill(b), DCT_OP_ATTN)->p.scale *= 1.0000002f; }
static void other_window(bench *b) { find_op(prefill(b), DCT_OP_ATTN)->p.window = 7; }
static void other_act(bench *b) { find_op(decode(b), DCT_OP_LINEAR_GLU)->p.act = DCT_ACT_GELU_TANH; }
static void other_rope_style(bench *b) { find_op(decode(b), DCT_OP_ROPE_KV)->p.rope_style = DCT_ROPE_MROPE; }
static void gate_and_up_swapped(bench *b) {
    dct_op *op = find_op(decode(b), DCT_OP_LINEAR_GLU);
    dct_value_id gate = op->in[1];
    op->in[1] = op->in[2];
    op->in[2] = gate;
}
static void norm_of_another_layer(bench *b) {
    dct_phase *phase = decode(b);
    dct_op *first = find_op(phase, DCT_OP_NORM_QUANT), *last = NULL;
    for (dct_op_id k = 0; k < phase->graph.n_ops; k++) {
        if (phase->graph.ops[k].kind == DCT_OP_NORM_QUANT) last = &phase->graph.ops[k];
    }
    first->in[1] = last->in[1];
}
static void other_rope_base(bench *b) {
    b->plan->tables[0].t.base *= 2;
    for (uint32_t i = 0; i < b->plan->n_phases; i++) b->plan->phases[i].graph.tables[0].base = b->plan->tables[0].t.base;
}
static void other_output(bench *b) { /* the trace says something else is the output */
    dct_graph *g = &b->traced[0];
    g->logits = g->ops[0].out[0];
}

static void unknown_kind(bench *b) { decode(b)->graph.ops[1].kind = (dct_op_kind)77; }
static void value_out_of_range(bench *b) { decode(b)->graph.ops[1].in[0] = decode(b)->graph.n_values; }
static void too_many_inputs(bench *b) { decode(b)->graph.ops[1].n_in = 10; }
static void missing_input(bench *b) { find_op(decode(b), DCT_OP_LINEAR_GLU)->n_in = 2; }
static void wrong_heads(bench *b) { find_op(prefill(b), DCT_OP_ATTN)->p.n_head = 2; }
static void wrong_format(bench *b) { find_op(decode(b), DCT_OP_LINEAR_MULTI)->in[0] = find_op(decode(b), DCT_OP_EMBED)->out[0]; }
static void weight_ref_out_of_range(bench *b) {
    dct_graph *g = &decode(b)->graph;
    g->values[find_op(decode(b), DCT_OP_EMBED)->in[1]].ref = g->n_weights;
}

static void op_runs_twice(bench *b) { decode(b)->steps[2].ops[0] = decode(b)->steps[1].ops[0]; }
static void op_in_no_step(bench *b) {
    dct_phase *phase = decode(b);
    uint32_t s = 0;
    while (phase->steps[s].n_ops < 2) s++;
    phase->steps[s].n_ops--;
}
static void op_out_of_range(bench *b) { decode(b)->steps[1].ops[0] = decode(b)->graph.n_ops; }
static void empty_step(bench *b) { decode(b)->steps[1].n_ops = 0; }
static void product_done_twice(bench *b) { /* V from the weights of K */
    dct_op *op = find_op(decode(b), DCT_OP_LINEAR_MULTI);
    op->in[3] = op->in[2];
}
static void model_has_one_more(bench *b) {
    dct_graph *g = &b->traced[1];
    g->logits = dct_trace_softcap(g, g->logits, 30.0f, "capped");
}

static void steps_swapped(bench *b) {
    dct_phase *phase = decode(b);
    uint32_t s = step_of(phase, DCT_OP_LINEAR_GLU);
    dct_op_id k = phase->steps[s].ops[0];
    phase->steps[s].ops[0] = phase->steps[s + 1].ops[0];
    phase->steps[s + 1].ops[0] = k;
}
static void tail_swapped(bench *b) {
    dct_phase *phase = decode(b);
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        dct_step *step = &phase->steps[s];
        if (step->n_ops < 2) continue;
        dct_op_id k = step->ops[0];
        step->ops[0] = step->ops[1];
        step->ops[1] = k;
        return;
    }
    fail_msg("no step has a tail");
}
static void wait_removed(bench *b) { remove_wait(decode(b), decode(b)->n_waits / 2); }
static void attention_before_store(bench *b) { /* the wait of attention is turned to the step before the store */
    dct_phase *phase = prefill(b);
    dct_step *step = &phase->steps[step_of(phase, DCT_OP_ATTN)];
    for (uint32_t i = 0; i < step->n_waits; i++) phase->waits[step->wait_begin + i] = 0;
}

static void wait_for_itself(bench *b) { decode(b)->waits[decode(b)->steps[3].wait_begin] = 3; }
static void wait_for_later(bench *b) { decode(b)->waits[decode(b)->steps[3].wait_begin] = decode(b)->n_steps - 1; }
static void wait_out_of_list(bench *b) { decode(b)->steps[3].wait_begin = decode(b)->n_waits; }
static void waits_overlap(bench *b) { decode(b)->steps[decode(b)->n_steps - 1].wait_begin--; } /* the last entry is nobody's */
static void wait_unused(bench *b) { decode(b)->steps[decode(b)->n_steps - 1].n_waits--; }

/* A byte goes from one item of state to the one before. */
static void item_unaligned(bench *b) {
    for (uint32_t i = 0; i + 1 < b->plan->n_items; i++) {
        dct_item *item = &b->plan->items[i];
        if (item->region != DCT_REGION_PERSISTENT || item[1].region != item->region || item[1].bytes == 0) continue;
        item[0].bytes++;
        item[1].offset++;
        item[1].bytes--;
        return;
    }
}

static void no_workers(bench *b) { decode(b)->steps[1].n_workers = 0; }
static void too_many_workers(bench *b) { decode(b)->steps[1].n_workers = b->plan->bounds.threads + 1; }
static void worker_beyond(bench *b) { decode(b)->steps[1].worker_first = b->plan->bounds.threads; }
static void worker_wraps(bench *b) { decode(b)->steps[1].worker_first = UINT32_MAX; }

/* Moves a value to another's bytes, and those that lie in its bytes with it. */
static void move(dct_phase *phase, dct_value_id v, uint64_t offset) {
    uint64_t from = phase->places[v].offset;
    for (dct_value_id u = 0; u < phase->graph.n_values; u++) {
        dct_value_id root = u;
        while (phase->graph.values[root].alias_of != DCT_NONE) root = phase->graph.values[root].alias_of;
        if (root == v && phase->places[u].offset == from) phase->places[u].offset = offset;
    }
}
static dct_value_id root_of(const dct_phase *phase, dct_value_id v) {
    while (phase->graph.values[v].alias_of != DCT_NONE) v = phase->graph.values[v].alias_of;
    return v;
}

static void output_over_input(bench *b) {
    dct_phase *phase = decode(b);
    dct_op *op = find_op(phase, DCT_OP_LINEAR_GLU);
    move(phase, root_of(phase, op->out[0]), phase->places[op->in[0]].offset);
}
static void two_outputs_share(bench *b) {
    dct_phase *phase = decode(b);
    dct_op *op = find_op(phase, DCT_OP_LINEAR_MULTI);
    move(phase, root_of(phase, op->out[1]), phase->places[op->out[2]].offset);
}
static void scratch_over_output(bench *b) {
    dct_phase *phase = decode(b);
    dct_op *op = find_op(phase, DCT_OP_LINEAR_GLU);
    phase->places[phase->scratch[id_of(phase, op)]].offset = phase->places[op->out[0]].offset;
}
static void over_residual(bench *b) {
    dct_phase *phase = prefill(b);
    dct_op *op = find_op(phase, DCT_OP_LINEAR_ADD);
    move(phase, root_of(phase, find_op(phase, DCT_OP_LINEAR_GLU)->out[0]), phase->places[op->in[2]].offset);
}
static void ids_over_pos(bench *b) { decode(b)->places[decode(b)->graph.ids].offset = decode(b)->places[decode(b)->graph.pos].offset; }
static void phases_mix_roles(bench *b) {
    dct_phase *p = prefill(b), *d = decode(b);
    uint64_t ids = p->places[p->graph.ids].offset; /* decode's positions over prefill's ids, decode's ids aside */
    d->places[d->graph.ids].offset = d->places[d->graph.pos].offset;
    d->places[d->graph.pos].offset = ids;
}
static void ids_over_table(bench *b) {
    for (uint32_t i = 0; i < 2; i++) b->plan->phases[i].places[b->plan->phases[i].graph.ids].offset = b->plan->tables[0].offset;
}
static void table_elsewhere(bench *b) {
    dct_value_id t;
    table_value(decode(b), &t);
    decode(b)->places[t].offset += 64;
}

static void alias_not_allowed(bench *b) {
    dct_phase *phase = decode(b);
    dct_op *op = find_op(phase, DCT_OP_NORM_QUANT);
    phase->graph.values[op->out[0]].alias_of = op->in[0];
}
static void alias_elsewhere(bench *b) { decode(b)->places[find_alias(decode(b))].offset += 64; }
static void alias_read_later(bench *b) { /* a later norm reads the residual from before it was added to */
    dct_phase *phase = decode(b);
    dct_op *add = find_op(phase, DCT_OP_LINEAR_ADD);
    for (dct_op_id k = id_of(phase, add) + 1; k < phase->graph.n_ops; k++) {
        if (phase->graph.ops[k].kind != DCT_OP_NORM_QUANT) continue;
        phase->graph.ops[k].in[0] = add->in[2];
        return;
    }
}

static void residual_is_factor(bench *b) { /* the product reads what the sum overwrites */
    dct_op *op = find_op(decode(b), DCT_OP_LINEAR_ADD);
    op->in[0] = op->in[2];
}
static void query_is_key(bench *b) { find_op(decode(b), DCT_OP_ROPE_KV)->in[1] = find_op(decode(b), DCT_OP_ROPE_KV)->in[0]; }
static void value_is_key(bench *b) { find_op(prefill(b), DCT_OP_ROPE_KV)->in[2] = find_op(prefill(b), DCT_OP_ROPE_KV)->in[1]; }
static void key_read_later(bench *b) { /* k is rotated in its own bytes; an op behind still wants it */
    dct_phase *phase = decode(b);
    dct_op *rope = find_op(phase, DCT_OP_ROPE_KV);
    phase->graph.ops[id_of(phase, rope) + 1].in[0] = rope->in[1];
}

static void value_unaligned(bench *b) { decode(b)->places[find_op(decode(b), DCT_OP_NORM_QUANT)->out[0]].offset += 4; }
static void weight_unaligned(bench *b) { b->plan->weights[0].offset += 32; }
static void cache_unaligned(bench *b) { b->plan->caches[1].offset += 16; }

static void value_beyond(bench *b) { decode(b)->places[find_op(decode(b), DCT_OP_NORM_QUANT)->out[0]].offset = b->plan->region_bytes[DCT_REGION_ARENA]; }
static void value_wraps(bench *b) { decode(b)->places[find_op(decode(b), DCT_OP_NORM_QUANT)->out[0]].offset = UINT64_MAX - 63; }
static void value_in_kv(bench *b) { decode(b)->places[find_op(decode(b), DCT_OP_NORM_QUANT)->out[0]].region = DCT_REGION_KV; }
static void logits_in_arena(bench *b) { decode(b)->places[decode(b)->graph.logits].region = DCT_REGION_ARENA; }
static void weight_beyond(bench *b) { b->plan->weights[0].offset = b->plan->region_bytes[DCT_REGION_WEIGHTS]; }
static void cache_beyond(bench *b) { b->plan->caches[0].offset = b->plan->region_bytes[DCT_REGION_KV] - 64; }

static void value_too_small(bench *b) { decode(b)->graph.values[find_op(decode(b), DCT_OP_LINEAR_GLU)->out[0]].bytes -= 64; }
static void value_too_large(bench *b) { decode(b)->graph.values[find_op(decode(b), DCT_OP_LINEAR_GLU)->out[0]].bytes += 64; }
static void table_too_small(bench *b) { b->plan->tables[0].bytes -= 64; }

static void no_scratch(bench *b) { decode(b)->scratch[id_of(decode(b), find_op(decode(b), DCT_OP_LINEAR_GLU))] = DCT_NONE; }
static void scratch_for_one_worker(bench *b) {
    dct_phase *phase = decode(b);
    dct_value *v = &phase->graph.values[phase->scratch[id_of(phase, find_op(phase, DCT_OP_LINEAR_GLU))]];
    v->bytes /= v->rows;
    v->rows = 1;
}
static dct_value *glu_scratch(bench *b) {
    dct_phase *phase = decode(b);
    return &phase->graph.values[phase->scratch[id_of(phase, find_op(phase, DCT_OP_LINEAR_GLU))]];
}
static void scratch_one_long_row(bench *b) { /* bytes enough, but the second worker's row begins behind them */
    dct_value *v = glu_scratch(b);
    v->cols *= v->rows;
    v->rows = 1;
}
static void scratch_rows_of_a_byte(bench *b) { /* all workers in one line */
    dct_value *v = glu_scratch(b);
    v->rows *= v->cols;
    v->cols = 1;
}
static void scratch_unaligned(bench *b) { /* the second worker's row begins inside a line */
    dct_value *v = glu_scratch(b);
    v->cols += 4;
    v->bytes = dct_round_up((uint64_t)v->cols * v->rows, 64);
}
static void scratch_is_a_value(bench *b) {
    dct_phase *phase = decode(b);
    phase->scratch[id_of(phase, find_op(phase, DCT_OP_LINEAR_GLU))] = find_op(phase, DCT_OP_EMBED)->out[0];
}
static void scratch_out_of_range(bench *b) { decode(b)->scratch[1] = decode(b)->graph.n_values; }

static void weights_share(bench *b) { b->plan->weights[2].offset = b->plan->weights[1].offset; }
static void weight_bytes(bench *b) { b->plan->weights[matrix_weight(b->plan)].w.bytes -= 64; }
static void weight_type(bench *b) { b->plan->weights[matrix_weight(b->plan)].w.type = DCT_TYPE_Q8_0; }
static void weight_name(bench *b) { b->plan->weights[0].w.tensor[0] ^= 1; }
static void weight_rows(bench *b) { b->plan->weights[matrix_weight(b->plan)].w.row_begin += 16; }
static void weight_place(bench *b) { /* a graph that reads another weight's bytes of the same size */
    dct_phase *phase = decode(b);
    dct_op *op = find_op(phase, DCT_OP_LINEAR_GLU);
    phase->places[op->in[1]].offset = phase->places[op->in[2]].offset;
}

static uint32_t vector_weight(const dct_plan *plan) {
    uint32_t i = 0;
    while (!plan->weights[i].w.is_vector) i++;
    return i;
}
/* The graphs say of weights what the plan's list says. */
static void share_lists(bench *b) {
    dct_err err = {0};
    if (dct_plan_share_lists(b->plan, &b->arena, &err) != DCT_OK) fail_msg("%s", err.message);
}
/* One more in the rounding behind the others: in all lists, and no op reads it. */
static void add_weight(bench *b, dct_weight w) {
    dct_plan *plan = b->plan;
    const dct_item *rounding = item_named(b, DCT_REGION_WEIGHTS, "page rounding");
    dct_plan_weight *weights = dct_arena_array(&b->arena, plan->n_weights + 1, sizeof *weights);
    assert_non_null(weights);
    assert_true(rounding->bytes >= w.bytes);
    memcpy(weights, plan->weights, plan->n_weights * sizeof *weights);
    weights[plan->n_weights++] = (dct_plan_weight){w, rounding->offset};
    plan->weights = weights;
    share_lists(b);
}
static void weight_of_part_of_a_block(bench *b) {
    dct_weight w = {.tensor = "output_norm.weight", .type = DCT_TYPE_Q4_K, .n_rows = 1, .n_cols = 1, .is_vector = true, .bytes = 64};
    add_weight(b, w);
}
static void weight_of_row_1(bench *b) { /* a vector has no row but the first */
    b->plan->weights[vector_weight(b->plan)].w.row_begin = 1;
    share_lists(b);
}
static void weight_nobody_reads(bench *b) { add_weight(b, b->plan->weights[vector_weight(b->plan)].w); }

static void caches_share(bench *b) { b->plan->caches[1].offset = b->plan->caches[0].offset; }
static void cache_context(bench *b) { b->plan->caches[0].c.n_ctx -= 16; }
static void cache_type(bench *b) { b->plan->caches[0].c.type = DCT_TYPE_F32; }
static void cache_bytes(bench *b) { b->plan->caches[0].c.bytes -= 64; }
static void cache_twice(bench *b) { b->plan->caches[2].c.layer = b->plan->caches[0].c.layer; }

static dct_item *item_in(bench *b, dct_region region) {
    for (uint32_t i = 0; i < b->plan->n_items; i++) {
        if (b->plan->items[i].region == region) return &b->plan->items[i];
    }
    fail_msg("no item");
    return NULL;
}
static void item_too_large(bench *b) { item_in(b, DCT_REGION_ARENA)->bytes += 64; }
static void item_too_small(bench *b) { item_in(b, DCT_REGION_PERSISTENT)->bytes -= 64; }
static void item_overlaps(bench *b) { item_in(b, DCT_REGION_PERSISTENT)[1].offset -= 64; }
static void item_missing(bench *b) { b->plan->n_items--; b->plan->items[b->plan->n_items - 1] = b->plan->items[b->plan->n_items]; }
static void items_unsorted(bench *b) {
    dct_item first = b->plan->items[0];
    b->plan->items[0] = b->plan->items[b->plan->n_items - 1];
    b->plan->items[b->plan->n_items - 1] = first;
}
static void item_names_less(bench *b) { /* the logits reach over the end of their item */
    dct_item *ids = NULL;
    for (uint32_t i = 0; i < b->plan->n_items; i++) {
        dct_item *item = &b->plan->items[i];
        if (item->region == DCT_REGION_PERSISTENT && item->offset == prefill(b)->places[prefill(b)->graph.logits].offset) ids = item;
    }
    assert_non_null(ids);
    ids->bytes -= 64;
    ids[1].offset -= 64;
    ids[1].bytes += 64;
}

static void move_persistent(bench *b, uint64_t from, uint64_t to) { /* in all phases */
    for (uint32_t i = 0; i < b->plan->n_phases; i++) {
        const dct_phase *phase = &b->plan->phases[i];
        for (dct_value_id v = 0; v < phase->graph.n_values; v++) {
            if (phase->places[v].region == DCT_REGION_PERSISTENT && phase->places[v].offset == from) phase->places[v].offset = to;
        }
    }
}
static void ids_in_sampler(bench *b) {
    move_persistent(b, prefill(b)->places[prefill(b)->graph.ids].offset, item_named(b, DCT_REGION_PERSISTENT, "sampler")->offset);
}
static void pos_in_sampler(bench *b) {
    move_persistent(b, prefill(b)->places[prefill(b)->graph.pos].offset, item_named(b, DCT_REGION_PERSISTENT, "sampler")->offset);
}
static void logits_item_renamed(bench *b) { strcpy(item_named(b, DCT_REGION_PERSISTENT, DCT_ITEM_LOGITS)->name, "timeline"); }
static void table_item_is_sampler(bench *b) { /* the engine would bind the sampler's state over the table */
    dct_item *table = item_named(b, DCT_REGION_PERSISTENT, "rotary table 0"), *sampler = item_named(b, DCT_REGION_PERSISTENT, "sampler");
    strcpy(sampler->name, table->name);
    strcpy(table->name, "sampler");
}
static void two_of_a_name(bench *b) { strcpy(item_named(b, DCT_REGION_PERSISTENT, "page rounding")->name, "sampler"); }
static void outside_in_kv(bench *b) { /* counted everywhere, but no part of the caches */
    dct_plan *plan = b->plan;
    dct_item *items = dct_arena_array(&b->arena, plan->n_items + 1, sizeof *items);
    assert_non_null(items);
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_items; i++) {
        if (plan->items[i].region == DCT_REGION_PERSISTENT && n == i) items[n++] = (dct_item){.region = DCT_REGION_KV, .name = "aside", .bytes = 4096, .outside = true};
        items[n++] = plan->items[i];
    }
    plan->items = items;
    plan->n_items = n;
    plan->outside_bytes += 4096;
    plan->m_max_bytes += 4096;
}

static void m_max_less(bench *b) { b->plan->m_max_bytes--; }
static void reserve_less(bench *b) { b->plan->reserve_bytes -= 4096; b->plan->m_max_bytes -= 4096; }
static void region_shifted(bench *b) { b->plan->region_offset[DCT_REGION_ARENA] -= 4096; }
static void region_not_pages(bench *b) { b->plan->region_bytes[DCT_REGION_RUNTIME] += 64; b->plan->reserve_bytes += 64; b->plan->m_max_bytes += 64; }
static void outside_less(bench *b) { b->plan->outside_bytes -= 4096; b->plan->m_max_bytes -= 4096; }
static void beyond_63_bits(bench *b) { /* an outside item of more than any memory; every sum holds */
    for (uint32_t i = 0; i < b->plan->n_items; i++) {
        if (!b->plan->items[i].outside) continue;
        b->plan->items[i].bytes += UINT64_C(1) << 63;
        break;
    }
    b->plan->outside_bytes += UINT64_C(1) << 63;
    b->plan->m_max_bytes += UINT64_C(1) << 63;
}

static void load_less(bench *b) { decode(b)->cert.load_bytes -= 64; }
static void load_understated(bench *b) { /* a witness that is true, of an op that does not reach the load */
    dct_phase *phase = decode(b);
    dct_certificate *cert = &phase->cert;
    cert->op = 0;
    cert->n_values = 1;
    cert->values[0] = root_of(phase, phase->graph.ops[0].out[0]);
    cert->load_bytes = phase->graph.values[cert->values[0]].bytes;
    cert->optimal = false;
}
static void height_less(bench *b) { decode(b)->cert.height_bytes -= 64; }
static void optimal_flipped(bench *b) { decode(b)->cert.optimal = !decode(b)->cert.optimal; }
static void witness_short(bench *b) { decode(b)->cert.n_values--; }
static void witness_twice(bench *b) { decode(b)->cert.values[0] = decode(b)->cert.values[1]; }
static void witness_out_of_range(bench *b) { decode(b)->cert.values[0] = decode(b)->graph.n_values; }
static void load_elsewhere(bench *b) { decode(b)->cert.op = decode(b)->graph.n_ops - 1; }
static void load_nowhere(bench *b) { decode(b)->cert.op = decode(b)->graph.n_ops; }
static void buffers_less(bench *b) { decode(b)->n_buffers--; }

static void context_more(bench *b) { b->plan->bounds.n_ctx++; }
static void no_threads(bench *b) { b->plan->bounds.threads = 0; }
static void no_output(bench *b) { b->plan->bounds.n_output = 0; b->plan->bounds.n_input = b->plan->bounds.n_ctx; }
static void cache_type_none(bench *b) { b->plan->bounds.type_k = DCT_TYPE_Q4_0; }
static void names_exchanged(bench *b) {
    dct_phase *first = prefill(b), *second = decode(b);
    strcpy(first->name, dct_phase_name(DCT_PHASE_DECODE));
    strcpy(second->name, dct_phase_name(DCT_PHASE_PREFILL));
}
static void name_is_no_text(bench *b) { strcpy(decode(b)->name, "\xff"); }
static void rows_less(bench *b) { prefill(b)->rows--; }
static void ubatch_more(bench *b) { b->plan->bounds.ubatch *= 2; }
static void two_of_a_kind(bench *b) { b->plan->phases[1].kind = b->plan->phases[0].kind; b->plan->bounds.ubatch = b->plan->bounds.slots = 1; b->plan->phases[0].rows = b->plan->phases[0].graph.rows = 1; }
static void no_phases(bench *b) { b->plan->n_phases = 0; }
static void only_one_phase(bench *b) { b->plan->n_phases = 1; }
static void only_decode(bench *b) {
    b->plan->phases[0] = *decode(b);
    b->plan->n_phases = 1;
}
static void logits_none(bench *b) { b->plan->bounds.logits = DCT_LOGITS_NONE; }
static void no_logits(bench *b) { decode(b)->graph.logits = DCT_NONE; }

static dct_plan *member(bench *b) { return &b->plan->smaller[0]; }
static void member_of_another_model(bench *b) { member(b)->fingerprint ^= 1; }
static void member_has_members(bench *b) { member(b)->n_smaller = 1; }
static void members_swapped(bench *b) {
    dct_plan first = *member(b);
    *member(b) = member(b)[1];
    member(b)[1] = first;
}
static void member_as_large(bench *b) { member(b)[1].bounds.n_ctx = b->plan->bounds.n_ctx; }
static void member_other_threads(bench *b) { member(b)->bounds.threads++; }
static void member_other_cache_type(bench *b) { member(b)->bounds.type_v = DCT_TYPE_F32; }
static void member_short_tables(bench *b) { member(b)->bounds.table_ctx = 0; }
static void member_other_weight(bench *b) { member(b)->weights[1].w.row_begin += 16; }
static void member_weight_elsewhere(bench *b) { member(b)->weights[1].offset += 64; }
static void member_table_elsewhere(bench *b) { member(b)->tables[0].offset += 64; }
static void member_other_table(bench *b) { member(b)->tables[0].t.n_ctx -= 16; }
static void member_kv_beyond(bench *b) { member(b)->region_bytes[DCT_REGION_KV] = b->plan->region_bytes[DCT_REGION_KV] + 4096; }
static void member_arena_beyond(bench *b) {
    uint64_t room = b->plan->region_bytes[DCT_REGION_KV] + b->plan->region_bytes[DCT_REGION_ARENA];
    member(b)->region_bytes[DCT_REGION_ARENA] = room - member(b)->region_bytes[DCT_REGION_KV] + 4096;
}
static void member_inputs_beyond(bench *b) { member(b)->region_bytes[DCT_REGION_PERSISTENT] = b->plan->region_bytes[DCT_REGION_PERSISTENT] + 4096; }
static void member_inputs_in_sampler(bench *b) { member(b)->region_bytes[DCT_REGION_PERSISTENT] = item_named(b, DCT_REGION_PERSISTENT, "sampler")->offset + 64; }
static void member_has_runtime(bench *b) { member(b)->region_bytes[DCT_REGION_RUNTIME] = 4096; }
static void member_cache_later(bench *b) { member(b)->caches[1].offset = member(b)[1].caches[1].offset + 64; }
static void member_caches_fewer(bench *b) { member(b)[1].n_caches--; }
static void member_caches_exchanged(bench *b) { member(b)[1].caches[0].c.is_k = !member(b)[1].caches[0].c.is_k; }
static void members_too_many(bench *b) { b->plan->n_smaller = DCT_PLAN_MAX_SMALLER + 1; }

static const struct damage {
    const char *name;
    void (*apply)(bench *b);
    dct_defect want;
} damages[] = {
#define ROW(defect, name) {#name, name, DCT_DEFECT_##defect}
    ROW(MODEL_MISMATCH, other_fingerprint), ROW(MODEL_MISMATCH, other_arch), ROW(MODEL_MISMATCH, other_params_count), ROW(MODEL_MISMATCH, other_tensor_bytes),
    ROW(GRAPH_MISMATCH, other_eps), ROW(GRAPH_MISMATCH, other_scale), ROW(GRAPH_MISMATCH, other_window), ROW(GRAPH_MISMATCH, other_act),
    ROW(GRAPH_MISMATCH, other_rope_style), ROW(GRAPH_MISMATCH, gate_and_up_swapped), ROW(GRAPH_MISMATCH, norm_of_another_layer),
    ROW(GRAPH_MISMATCH, other_rope_base), ROW(GRAPH_MISMATCH, other_output),
    ROW(GRAPH_MALFORMED, unknown_kind), ROW(GRAPH_MALFORMED, value_out_of_range), ROW(GRAPH_MALFORMED, too_many_inputs), ROW(GRAPH_MALFORMED, missing_input),
    ROW(GRAPH_MALFORMED, wrong_heads), ROW(GRAPH_MALFORMED, wrong_format), ROW(GRAPH_MALFORMED, weight_ref_out_of_range),
    ROW(OP_MISSING, op_runs_twice), ROW(OP_MISSING, op_in_no_step), ROW(OP_MISSING, op_out_of_range), ROW(OP_MISSING, empty_step),
    ROW(OP_MISSING, product_done_twice), ROW(OP_MISSING, model_has_one_more),
    ROW(STEP_ORDER, steps_swapped), ROW(STEP_ORDER, tail_swapped), ROW(STEP_ORDER, wait_removed), ROW(STEP_ORDER, attention_before_store),
    ROW(WAIT_INVALID, wait_for_itself), ROW(WAIT_INVALID, wait_for_later), ROW(WAIT_INVALID, wait_out_of_list), ROW(WAIT_INVALID, wait_unused),
    ROW(WAIT_INVALID, waits_overlap),
    ROW(WORKERS_INVALID, no_workers), ROW(WORKERS_INVALID, too_many_workers), ROW(WORKERS_INVALID, worker_beyond), ROW(WORKERS_INVALID, worker_wraps),
    ROW(OVERLAP, output_over_input), ROW(OVERLAP, two_outputs_share), ROW(OVERLAP, scratch_over_output), ROW(OVERLAP, over_residual),
    ROW(OVERLAP, table_elsewhere),
    ROW(ALIAS_INVALID, alias_not_allowed), ROW(ALIAS_INVALID, alias_elsewhere), ROW(ALIAS_INVALID, alias_read_later),
    ROW(ALIAS_INVALID, residual_is_factor), ROW(ALIAS_INVALID, query_is_key), ROW(ALIAS_INVALID, value_is_key), ROW(ALIAS_INVALID, key_read_later),
    ROW(ALIGNMENT, value_unaligned), ROW(ALIGNMENT, weight_unaligned), ROW(ALIGNMENT, cache_unaligned), ROW(ALIGNMENT, item_unaligned),
    ROW(OUT_OF_REGION, value_beyond), ROW(OUT_OF_REGION, value_wraps), ROW(OUT_OF_REGION, value_in_kv), ROW(OUT_OF_REGION, logits_in_arena),
    ROW(OUT_OF_REGION, weight_beyond), ROW(OUT_OF_REGION, cache_beyond),
    ROW(SIZE_WRONG, value_too_small), ROW(SIZE_WRONG, value_too_large), ROW(SIZE_WRONG, table_too_small),
    ROW(SCRATCH_WRONG, no_scratch), ROW(SCRATCH_WRONG, scratch_for_one_worker), ROW(SCRATCH_WRONG, scratch_one_long_row), ROW(SCRATCH_WRONG, scratch_rows_of_a_byte),
    ROW(SCRATCH_WRONG, scratch_unaligned), ROW(SCRATCH_WRONG, scratch_is_a_value), ROW(SCRATCH_WRONG, scratch_out_of_range),
    ROW(WEIGHT_WRONG, weights_share), ROW(WEIGHT_WRONG, weight_bytes), ROW(WEIGHT_WRONG, weight_type), ROW(WEIGHT_WRONG, weight_name),
    ROW(WEIGHT_WRONG, weight_rows), ROW(WEIGHT_WRONG, weight_place),
    ROW(WEIGHT_WRONG, weight_of_part_of_a_block), ROW(WEIGHT_WRONG, weight_of_row_1), ROW(WEIGHT_WRONG, weight_nobody_reads),
    ROW(KV_WRONG, caches_share), ROW(KV_WRONG, cache_context), ROW(KV_WRONG, cache_type), ROW(KV_WRONG, cache_bytes), ROW(KV_WRONG, cache_twice),
    ROW(ITEMS_WRONG, item_too_large), ROW(ITEMS_WRONG, item_too_small), ROW(ITEMS_WRONG, item_overlaps), ROW(ITEMS_WRONG, item_missing),
    ROW(ITEMS_WRONG, items_unsorted), ROW(ITEMS_WRONG, item_names_less), ROW(ITEMS_WRONG, ids_in_sampler), ROW(ITEMS_WRONG, pos_in_sampler),
    ROW(ITEMS_WRONG, logits_item_renamed), ROW(ITEMS_WRONG, table_item_is_sampler), ROW(ITEMS_WRONG, two_of_a_name), ROW(ITEMS_WRONG, outside_in_kv),
    ROW(ITEMS_WRONG, phases_mix_roles), ROW(ITEMS_WRONG, ids_over_pos), ROW(ITEMS_WRONG, ids_over_table),
    ROW(ENVELOPE_WRONG, m_max_less), ROW(ENVELOPE_WRONG, reserve_less), ROW(ENVELOPE_WRONG, region_shifted), ROW(ENVELOPE_WRONG, region_not_pages),
    ROW(ENVELOPE_WRONG, outside_less), ROW(ENVELOPE_WRONG, beyond_63_bits),
    ROW(CERTIFICATE_WRONG, load_less), ROW(CERTIFICATE_WRONG, load_understated), ROW(CERTIFICATE_WRONG, height_less), ROW(CERTIFICATE_WRONG, optimal_flipped), ROW(CERTIFICATE_WRONG, witness_short),
    ROW(CERTIFICATE_WRONG, witness_twice), ROW(CERTIFICATE_WRONG, witness_out_of_range), ROW(CERTIFICATE_WRONG, buffers_less),
    ROW(CERTIFICATE_WRONG, load_elsewhere), ROW(CERTIFICATE_WRONG, load_nowhere),
    ROW(BOUNDS_WRONG, context_more), ROW(BOUNDS_WRONG, no_threads), ROW(BOUNDS_WRONG, no_output), ROW(BOUNDS_WRONG, cache_type_none),
    ROW(BOUNDS_WRONG, names_exchanged), ROW(BOUNDS_WRONG, name_is_no_text),
    ROW(BOUNDS_WRONG, rows_less), ROW(BOUNDS_WRONG, ubatch_more), ROW(BOUNDS_WRONG, two_of_a_kind), ROW(BOUNDS_WRONG, no_phases),
    ROW(BOUNDS_WRONG, only_one_phase), ROW(BOUNDS_WRONG, only_decode), ROW(BOUNDS_WRONG, logits_none), ROW(BOUNDS_WRONG, no_logits),
    ROW(FAMILY_WRONG, member_of_another_model), ROW(FAMILY_WRONG, member_has_members), ROW(FAMILY_WRONG, members_swapped), ROW(FAMILY_WRONG, member_as_large),
    ROW(FAMILY_WRONG, member_other_threads), ROW(FAMILY_WRONG, member_other_cache_type), ROW(FAMILY_WRONG, member_short_tables), ROW(FAMILY_WRONG, member_other_weight),
    ROW(FAMILY_WRONG, member_weight_elsewhere), ROW(FAMILY_WRONG, member_table_elsewhere), ROW(FAMILY_WRONG, member_other_table), ROW(FAMILY_WRONG, member_kv_beyond),
    ROW(FAMILY_WRONG, member_arena_beyond), ROW(FAMILY_WRONG, member_inputs_beyond), ROW(FAMILY_WRONG, member_inputs_in_sampler), ROW(FAMILY_WRONG, member_has_runtime),
    ROW(FAMILY_WRONG, member_cache_later), ROW(FAMILY_WRONG, member_caches_fewer), ROW(FAMILY_WRONG, member_caches_exchanged), ROW(FAMILY_WRONG, members_too_many),
#undef ROW
};
enum { N_DAMAGES = sizeof damages / sizeof *damages };

static void open_tiny_family(bench *b, uint32_t n_smaller) {
    gguf_tiny tiny = gguf_tiny_default("llama", DCT_TYPE_Q4_0);
    dct_bounds bounds = small_bounds(2);
    bench_open_family(b, &tiny, &bounds, n_smaller);
}

static void open_tiny(bench *b) { open_tiny_family(b, 0); }

static void test_damages(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < N_DAMAGES; i++) {
        bench b;
        dct_err err;
        open_tiny_family(&b, damages[i].want == DCT_DEFECT_FAMILY_WRONG ? 2 : 0);
        damages[i].apply(&b);
        dct_defect got = bench_verify(&b, &err);
        if (got != damages[i].want) {
            print_message("%s: expected %s, got %s (%s)\n", damages[i].name, dct_defect_name(damages[i].want), dct_defect_name(got), err.message);
            wrong++;
        }
        bench_close(&b);
    }
    assert_int_equal(wrong, 0);
}

/* Every defect that can be named is provoked by some row. */
static void test_every_defect(void **state) {
    (void)state;
    for (int d = DCT_DEFECT_NONE + 1; d < DCT_DEFECT_COUNT; d++) {
        bool provoked = false;
        for (int i = 0; i < N_DAMAGES; i++) provoked = provoked || damages[i].want == (dct_defect)d;
        if (!provoked) fail_msg("no row provokes %s", dct_defect_name((dct_defect)d));
    }
}

/* Without the model, by what they are. That a good one is none of the model's does not show then. */
static void test_weights_alone(void **state) {
    (void)state;
    static const struct {
        void (*apply)(bench *b);
        dct_defect want;
    } cases[] = {{weight_of_part_of_a_block, DCT_DEFECT_WEIGHT_WRONG}, {weight_of_row_1, DCT_DEFECT_WEIGHT_WRONG},
                 {weight_nobody_reads, DCT_DEFECT_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench b;
        dct_err err = {0};
        dct_defect got = DCT_DEFECT_COUNT;
        open_tiny(&b);
        cases[i].apply(&b);
        dct_status status = dct_verify_alone(b.plan, &got, &err);
        if (got != cases[i].want) fail_msg("case %zu: %s (%s)", i, dct_defect_name(got), err.message);
        assert_int_equal(status, got == DCT_DEFECT_NONE ? DCT_OK : DCT_BAD_FILE);
        bench_close(&b);
    }
}

/* The compiler makes no wait too many, so each one that is taken away must be missed. */
static void test_every_wait_counts(void **state) {
    (void)state;
    for (uint32_t phase = 0; phase < 2; phase++) {
        for (uint32_t at = 0, n = 1; at < n; at++) {
            bench b;
            dct_err err;
            open_tiny(&b);
            n = b.plan->phases[phase].n_waits;
            remove_wait(&b.plan->phases[phase], at);
            dct_defect got = bench_verify(&b, &err);
            if (got != DCT_DEFECT_STEP_ORDER && got != DCT_DEFECT_OVERLAP && got != DCT_DEFECT_ALIAS_INVALID) {
                fail_msg("%s without wait %u: %s", b.plan->phases[phase].name, at, dct_defect_name(got));
            }
            bench_close(&b);
        }
    }
}

/* A plan made for another model of the same family, and then one that also claims the right fingerprint. */
static void test_other_model(void **state) {
    (void)state;
    bench ours, theirs;
    dct_err err;
    open_tiny(&ours);
    gguf_tiny tiny = gguf_tiny_default("llama", DCT_TYPE_Q4_0);
    tiny.n_layer = 3;
    dct_bounds bounds = small_bounds(2);
    bench_open(&theirs, &tiny, &bounds);
    dct_plan *plan = theirs.plan;
    theirs.plan = ours.plan;
    assert_int_equal(bench_verify(&theirs, &err), DCT_DEFECT_MODEL_MISMATCH);
    ours.plan->fingerprint = plan->fingerprint;
    ours.plan->n_params = plan->n_params;
    ours.plan->tensor_bytes = plan->tensor_bytes;
    assert_int_equal(bench_verify(&theirs, &err), DCT_DEFECT_WEIGHT_WRONG); /* theirs has a layer more */
    theirs.plan = plan;
    bench_close(&theirs);
    bench_close(&ours);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damages), cmocka_unit_test(test_every_defect), cmocka_unit_test(test_every_wait_counts), cmocka_unit_test(test_other_model),
        cmocka_unit_test(test_weights_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
