/* plan/plan_io: a plan as bytes, and back.
 *
 *   0   8   "DCTMPLAN"
 *   8   4   version
 *   12  4   0
 *   16  8   hash of everything from byte 24 on
 *   24  8   bytes of the whole file
 *   32      the body: every field of dct_plan in the order of the functions below, little-endian; those of its family follow
 *
 * One routine a struct goes both ways, so writing and reading cannot drift apart: `field` functions write when the cursor has a
 * writer and read otherwise. A plan file is untrusted: counts are held against the bytes that are left before anything is
 * allocated, ids against the count of what they name, offsets against their region, texts must end inside their field. What the
 * numbers mean is the verifier's business. The first defect sticks in the cursor; the rest of the walk does nothing.
 */
#include <float.h>
#include <string.h>

#include "base/hash.h"
#include "base/reader.h"
#include "base/size.h"
#include "model/hparams.h"
#include "plan/plan.h"

enum { HEADER_BYTES = 32, HASH_AT = 16, HASHED_FROM = 24 };

/* What a plan may hold at most, several times what the largest model needs a layer; so no file makes the verifier work for long.
 */
enum {
    MAX_WEIGHTS = 32 * DCT_MAX_LAYERS,
    MAX_CACHES = 2 * DCT_MAX_LAYERS,
    MAX_TABLES = 64,
    MAX_ITEMS = 2 * DCT_MAX_LAYERS, /* a layer of weights is one */
    MAX_VALUES = 64 * DCT_MAX_LAYERS,
    MAX_OPS = 32 * DCT_MAX_LAYERS,
    MAX_WAITS = 4 * MAX_OPS
};

static const char MAGIC[8] = {'D', 'C', 'T', 'M', 'P', 'L', 'A', 'N'};

typedef struct cursor {
    dct_writer *w;     /* NULL when reading */
    dct_reader *r;
    dct_arena *arena;  /* reading: where the plan goes */
    dct_err *err;
    dct_status status;
} cursor;

/* ---- fields ---- */

static bool reading(const cursor *c) { return c->w == NULL; }

static void defect(cursor *c, const char *what) {
    if (c->status != DCT_OK) return;
    if (reading(c)) c->status = dct_fail_at(c->err, DCT_BAD_FILE, dct_reader_offset(c->r), "plan file: %s", what);
    else c->status = dct_fail(c->err, DCT_BUG, "a plan that cannot be written: %s", what);
}

static void field_u8(cursor *c, uint8_t *v, const char *what) {
    if (c->status != DCT_OK) return;
    if (c->w != NULL) dct_write_u8(c->w, *v);
    else if (!dct_read_u8(c->r, v)) defect(c, what);
}

static void field_u32(cursor *c, uint32_t *v, const char *what) {
    if (c->status != DCT_OK) return;
    if (c->w != NULL) dct_write_u32(c->w, *v);
    else if (!dct_read_u32(c->r, v)) defect(c, what);
}

static void field_u64(cursor *c, uint64_t *v, const char *what) {
    if (c->status != DCT_OK) return;
    if (c->w != NULL) dct_write_u64(c->w, *v);
    else if (!dct_read_u64(c->r, v)) defect(c, what);
}

static void field_i32(cursor *c, int32_t *v, const char *what) {
    uint32_t bits = (uint32_t)*v;
    field_u32(c, &bits, what);
    *v = (int32_t)bits;
}

static void field_f32(cursor *c, float *v, const char *what) {
    uint32_t bits;
    memcpy(&bits, v, sizeof bits);
    field_u32(c, &bits, what);
    memcpy(v, &bits, sizeof bits);
}

static void field_f64(cursor *c, double *v, const char *what) {
    uint64_t bits;
    memcpy(&bits, v, sizeof bits);
    field_u64(c, &bits, what);
    memcpy(v, &bits, sizeof bits);
    if (!(*v >= 0 && *v <= DBL_MAX)) defect(c, what); /* times, and what they come from */
}

static void field_bool(cursor *c, bool *v, const char *what) {
    uint8_t byte = *v ? 1 : 0;
    field_u8(c, &byte, what);
    if (c->status == DCT_OK && byte > 1) defect(c, what);
    *v = byte == 1;
}

/* A number under `end`. */
static void field_below(cursor *c, uint32_t *v, uint32_t end, const char *what) {
    field_u32(c, v, what);
    if (c->status == DCT_OK && *v >= end) defect(c, what);
}

/* An id under `end`, or DCT_NONE. */
static void field_id(cursor *c, uint32_t *v, uint32_t end, const char *what) {
    field_u32(c, v, what);
    if (c->status == DCT_OK && *v != DCT_NONE && *v >= end) defect(c, what);
}

/* A text in an array of `cap` chars: its length, its bytes; neither longer than the array nor with a NUL inside. */
static void field_text(cursor *c, char *text, uint32_t cap, const char *what) {
    uint32_t n = c->w != NULL ? (uint32_t)strlen(text) : 0;
    field_below(c, &n, cap, what);
    if (c->status != DCT_OK) return;
    if (c->w != NULL) {
        dct_write_bytes(c->w, text, n);
        return;
    }
    const void *bytes;
    if (!dct_read_bytes(c->r, n, &bytes) || memchr(bytes, '\0', n) != NULL) {
        defect(c, what);
        return;
    }
    memcpy(text, bytes, n);
    text[n] = '\0';
}

/* The count of an array, `most` or less, and, when reading, its room; `file_bytes` is the least that an element takes in the
 * file. NULL after a defect. */
static void *field_array(cursor *c, void *items, uint32_t *n, uint32_t most, uint64_t item_bytes, uint64_t file_bytes,
                         const char *what) {
    field_below(c, n, most + 1, what);
    if (c->status != DCT_OK || !reading(c)) return items;
    if (*n > dct_reader_left(c->r) / file_bytes) {
        defect(c, what);
        *n = 0;
        return NULL;
    }
    void *room = dct_arena_array(c->arena, *n, item_bytes);
    if (room == NULL) {
        c->status = dct_fail_memory(c->err, c->arena, "a plan");
        *n = 0;
    }
    return room;
}

/* The same where a graph of one's own may have more than a plan holds. */
static void *field_list(cursor *c, void *items, uint32_t *n, uint32_t most, uint64_t item_bytes, uint64_t file_bytes,
                        const char *what) {
    if (c->status == DCT_OK && !reading(c) && *n > most)
        c->status = dct_fail(c->err, DCT_NO_FIT, "a plan holds %u at most, not %u: %s", most, *n, what);
    return field_array(c, items, n, most, item_bytes, file_bytes, what);
}

/* A number of an enum: what it is after the walk. */
static uint32_t field_enum(cursor *c, uint32_t number, uint32_t end, const char *what) {
    field_below(c, &number, end, what);
    return number;
}

/* ---- structs, in the order of plan.h and graph.h ---- */

static void walk_bounds(cursor *c, dct_bounds *b) {
    field_u32(c, &b->n_ctx, "bounds.ctx");
    field_u32(c, &b->n_input, "bounds.max_input");
    field_u32(c, &b->n_output, "bounds.max_output");
    field_u32(c, &b->ubatch, "bounds.ubatch");
    field_u32(c, &b->slots, "bounds.slots");
    field_u32(c, &b->threads, "bounds.threads");
    b->type_k = (dct_dtype)field_enum(c, b->type_k, DCT_TYPE_COUNT, "bounds.type_k");
    b->type_v = (dct_dtype)field_enum(c, b->type_v, DCT_TYPE_COUNT, "bounds.type_v");
    enum { N_MODES = DCT_LOGITS_NONE + 1 }; /* two numbers in one field: without overlap it is as it was before there was any */
    uint32_t modes = field_enum(c, b->logits + (b->overlap ? N_MODES : 0), 2 * N_MODES, "bounds.logits");
    b->logits = (dct_logits_mode)(modes % N_MODES);
    b->overlap = modes >= N_MODES;
    field_u32(c, &b->table_ctx, "bounds.table_ctx");
}

static void walk_weight(cursor *c, dct_plan_weight *p) {
    dct_weight *w = &p->w;
    field_text(c, w->tensor, sizeof w->tensor, "a weight's name");
    w->type = (dct_dtype)field_enum(c, w->type, DCT_TYPE_COUNT, "a weight's type");
    field_u32(c, &w->row_begin, "a weight's rows");
    field_u32(c, &w->n_rows, "a weight's rows");
    field_u32(c, &w->n_cols, "a weight's columns");
    field_bool(c, &w->is_vector, "a weight's form");
    field_u64(c, &w->bytes, "a weight's bytes");
    field_u64(c, &p->offset, "a weight's offset");
}

static void walk_cache(cursor *c, dct_plan_cache *p) {
    field_below(c, &p->c.layer, DCT_MAX_LAYERS, "a cache's layer");
    field_bool(c, &p->c.is_k, "a cache's form");
    field_u32(c, &p->c.n_head_kv, "a cache's heads");
    field_u32(c, &p->c.head_dim, "a cache's head size");
    field_u32(c, &p->c.n_ctx, "a cache's positions");
    p->c.type = (dct_dtype)field_enum(c, p->c.type, DCT_TYPE_COUNT, "a cache's type");
    field_u64(c, &p->c.bytes, "a cache's bytes");
    field_u64(c, &p->offset, "a cache's offset");
}

static void walk_table(cursor *c, dct_plan_table *p) {
    dct_rope_table *t = &p->t;
    field_u32(c, &t->n_rot, "a table's width");
    field_u32(c, &t->n_ctx, "a table's positions");
    field_f32(c, &t->base, "a table's base");
    field_f32(c, &t->factor, "a table's factor");
    field_below(c, &t->scaling, DCT_ROPE_LONGROPE + 1, "a table's scaling");
    field_u32(c, &t->orig_ctx, "a table's context");
    field_f32(c, &t->attn_factor, "a table's factors");
    field_f32(c, &t->ext_factor, "a table's factors");
    field_f32(c, &t->beta_fast, "a table's factors");
    field_f32(c, &t->beta_slow, "a table's factors");
    field_text(c, t->factors_tensor, sizeof t->factors_tensor, "a table's tensor");
    field_u64(c, &p->offset, "a table's offset");
    field_u64(c, &p->bytes, "a table's bytes");
}

static void walk_item(cursor *c, dct_item *item) {
    item->region = (dct_region)field_enum(c, item->region, DCT_REGION_COUNT, "an item's region");
    field_text(c, item->name, sizeof item->name, "an item's name");
    field_u64(c, &item->bytes, "an item's bytes");
    field_bool(c, &item->outside, "an item's place");
    field_u64(c, &item->offset, "an item's offset");
}

/* How many of what a value of this kind names by `ref`. */
static uint32_t referable(const dct_plan *plan, dct_kind kind) {
    switch (kind) {
    case DCT_KIND_WEIGHT: return plan->n_weights;
    case DCT_KIND_KV: return plan->n_caches;
    case DCT_KIND_PERSISTENT: return plan->n_tables;
    default: return 0;
    }
}

/* An alias names a value with a lower id, so following aliases ends. */
static void walk_value(cursor *c, const dct_plan *plan, dct_value *v, dct_value_id id) {
    field_text(c, v->name, sizeof v->name, "a value's name");
    v->kind = (dct_kind)field_enum(c, v->kind, DCT_KIND_OUTPUT + 1, "a value's kind");
    v->format = (dct_format)field_enum(c, v->format, DCT_FMT_BYTES + 1, "a value's format");
    field_u32(c, &v->rows, "a value's rows");
    field_u32(c, &v->cols, "a value's columns");
    field_u32(c, &v->row_mul, "a value's rows");
    field_u32(c, &v->row_div, "a value's rows");
    field_u64(c, &v->bytes, "a value's bytes");
    field_u32(c, &v->producer, "a value's producer"); /* held against the ops once they are counted */
    field_id(c, &v->alias_of, id, "a value's alias");
    field_id(c, &v->ref, referable(plan, v->kind), "a value's reference");
    if (c->status == DCT_OK && (v->kind == DCT_KIND_WEIGHT || v->kind == DCT_KIND_KV) && v->ref == DCT_NONE)
        defect(c, "a value's reference");
    field_i32(c, &v->layer, "a value's layer");
}

static void walk_op_params(cursor *c, dct_op_params *p) {
    field_f32(c, &p->scale, "an op's scale");
    field_f32(c, &p->eps, "an op's eps");
    field_f32(c, &p->softcap, "an op's cap");
    uint32_t *numbers[] = {&p->group, &p->n_head, &p->n_head_kv, &p->head_dim, &p->head_dim_v, &p->n_rot, &p->window, &p->n_part,
                           &p->width, &p->stride, &p->pad,       &p->n_expert, &p->n_used};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) field_u32(c, numbers[i], "an op's parameters");
    field_bool(c, &p->causal, "an op's parameters");
    field_bool(c, &p->renorm, "an op's parameters");
    p->act = (dct_act)field_enum(c, p->act, DCT_ACT_SIGMOID + 1, "an op's activation");
    p->rope_style = (dct_rope_style)field_enum(c, p->rope_style, DCT_ROPE_MROPE + 1, "an op's rotation");
    for (int i = 0; i < 4; i++) field_i32(c, &p->sections[i], "an op's sections");
}

static void walk_op(cursor *c, dct_op *op, uint32_t n_values) {
    op->kind = (dct_op_kind)field_enum(c, op->kind, DCT_OP_COUNT, "an op's kind");
    field_below(c, &op->n_in, DCT_OP_MAX_IN + 1, "an op's inputs");
    field_below(c, &op->n_out, DCT_OP_MAX_OUT + 1, "an op's outputs");
    for (uint32_t i = 0; i < DCT_OP_MAX_IN; i++) field_id(c, &op->in[i], n_values, "an op's inputs");
    for (uint32_t i = 0; i < DCT_OP_MAX_OUT; i++) field_id(c, &op->out[i], n_values, "an op's outputs");
    walk_op_params(c, &op->p);
    field_i32(c, &op->layer, "an op's layer");
}

enum { VALUE_FILE_BYTES = 52, OP_FILE_BYTES = 150 }; /* at least */

static void walk_graph(cursor *c, const dct_plan *plan, dct_graph *g) {
    field_u32(c, &g->rows, "a graph's rows");
    g->values = field_list(c, g->values, &g->n_values, MAX_VALUES, sizeof *g->values, VALUE_FILE_BYTES, "a graph's values");
    for (uint32_t i = 0; i < g->n_values && c->status == DCT_OK; i++) walk_value(c, plan, &g->values[i], i);
    g->ops = field_list(c, g->ops, &g->n_ops, MAX_OPS, sizeof *g->ops, OP_FILE_BYTES, "a graph's ops");
    for (uint32_t i = 0; i < g->n_ops && c->status == DCT_OK; i++) walk_op(c, &g->ops[i], g->n_values);
    for (uint32_t i = 0; i < g->n_values && c->status == DCT_OK; i++) {
        if (g->values[i].producer != DCT_NONE && g->values[i].producer >= g->n_ops) defect(c, "a value's producer");
    }
    field_id(c, &g->ids, g->n_values, "a graph's inputs");
    field_id(c, &g->pos, g->n_values, "a graph's inputs");
    field_id(c, &g->logits, g->n_values, "a graph's output");
}

static void walk_step(cursor *c, const dct_phase *phase, dct_step *step) {
    field_below(c, &step->n_ops, DCT_STEP_MAX_OPS + 1, "a step's ops");
    for (uint32_t i = 0; i < step->n_ops && c->status == DCT_OK; i++)
        field_below(c, &step->ops[i], phase->graph.n_ops, "a step's ops");
    field_u32(c, &step->worker_first, "a step's workers");
    field_u32(c, &step->n_workers, "a step's workers");
    field_u32(c, &step->wait_begin, "a step's waits");
    field_u32(c, &step->n_waits, "a step's waits");
    field_f32(c, &step->est_us, "a step's time");
    if (!(step->est_us >= 0 && step->est_us <= FLT_MAX)) defect(c, "a step's time");
}

static void check_steps(cursor *c, const dct_phase *phase) {
    for (uint32_t i = 0; i < phase->n_steps && c->status == DCT_OK; i++) {
        const dct_step *step = &phase->steps[i];
        if (step->n_ops == 0) defect(c, "a step without ops");
        else if (step->wait_begin > phase->n_waits || step->n_waits > phase->n_waits - step->wait_begin)
            defect(c, "a step's waits");
    }
}

static void walk_certificate(cursor *c, const dct_phase *phase, dct_certificate *cert) {
    field_u64(c, &cert->load_bytes, "a certificate's load");
    field_u64(c, &cert->height_bytes, "a certificate's height");
    field_bool(c, &cert->optimal, "a certificate's claim");
    field_below(c, &cert->op, phase->graph.n_ops, "a certificate's op");
    cert->values = field_array(c, cert->values, &cert->n_values, phase->graph.n_values, sizeof *cert->values, sizeof(uint32_t),
                               "a certificate's values");
    for (uint32_t i = 0; i < cert->n_values && c->status == DCT_OK; i++)
        field_below(c, &cert->values[i], phase->graph.n_values, "a certificate's values");
    field_u64(c, &cert->nodes, "a certificate's nodes");
}

static void walk_place(cursor *c, const dct_plan *plan, dct_place *place) {
    place->region = (dct_region)field_enum(c, place->region, DCT_REGION_COUNT, "a value's region");
    field_u64(c, &place->offset, "a value's offset");
    if (c->status == DCT_OK && reading(c) && place->offset > plan->region_bytes[place->region]) defect(c, "a value's offset");
}

static void walk_phase(cursor *c, const dct_plan *plan, dct_phase *phase) {
    field_text(c, phase->name, sizeof phase->name, "a phase's name");
    phase->kind = (dct_phase_kind)field_enum(c, phase->kind, DCT_PHASE_GRAPH + 1, "a phase's kind");
    field_u32(c, &phase->rows, "a phase's rows");
    walk_graph(c, plan, &phase->graph);
    uint32_t n_places = phase->graph.n_values, n_scratch = phase->graph.n_ops;
    phase->places = field_array(c, phase->places, &n_places, phase->graph.n_values, sizeof *phase->places, 12,
                                "a phase's places");
    if (c->status == DCT_OK && n_places != phase->graph.n_values) defect(c, "a phase's places");
    for (uint32_t i = 0; i < n_places && c->status == DCT_OK; i++) walk_place(c, plan, &phase->places[i]);
    phase->steps = field_array(c, phase->steps, &phase->n_steps, phase->graph.n_ops, sizeof *phase->steps, 28, "a phase's steps");
    for (uint32_t i = 0; i < phase->n_steps && c->status == DCT_OK; i++) walk_step(c, phase, &phase->steps[i]);
    phase->waits = field_list(c, phase->waits, &phase->n_waits, MAX_WAITS, sizeof *phase->waits, 4, "a phase's waits");
    for (uint32_t i = 0; i < phase->n_waits && c->status == DCT_OK; i++)
        field_below(c, &phase->waits[i], phase->n_steps, "a phase's waits");
    check_steps(c, phase);
    phase->scratch = field_array(c, phase->scratch, &n_scratch, phase->graph.n_ops, sizeof *phase->scratch, 4,
                                 "a phase's scratch");
    if (c->status == DCT_OK && n_scratch != phase->graph.n_ops) defect(c, "a phase's scratch");
    for (uint32_t i = 0; i < n_scratch && c->status == DCT_OK; i++)
        field_id(c, &phase->scratch[i], phase->graph.n_values, "a phase's scratch");
    field_u32(c, &phase->n_buffers, "a phase's buffers");
    walk_certificate(c, phase, &phase->cert);
}

/* The reservation is its regions, one after another, none past its end. */
static void check_regions(cursor *c, const dct_plan *plan) {
    for (uint32_t i = 0; i < DCT_REGION_COUNT && c->status == DCT_OK; i++) {
        if (plan->region_offset[i] > plan->reserve_bytes || plan->region_bytes[i] > plan->reserve_bytes - plan->region_offset[i])
            defect(c, "a region");
    }
}

/* Regions come before places, and what values refer to before values, so that each is there when it is needed for a check. */
static void walk_plan(cursor *c, dct_plan *p) {
    field_text(c, p->arch, sizeof p->arch, "arch");
    field_text(c, p->model_name, sizeof p->model_name, "model_name");
    uint64_t *facts[] = {&p->fingerprint, &p->file_bytes, &p->tensor_bytes, &p->n_params, &p->profile_hash};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) field_u64(c, facts[i], "the model's facts");
    walk_bounds(c, &p->bounds);
    for (uint32_t i = 0; i < DCT_REGION_COUNT; i++) {
        field_u64(c, &p->region_offset[i], "a region");
        field_u64(c, &p->region_bytes[i], "a region");
    }
    uint64_t *sums[] = {&p->reserve_bytes, &p->outside_bytes, &p->m_max_bytes};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) field_u64(c, sums[i], "the envelope");
    check_regions(c, p);
    p->weights = field_list(c, p->weights, &p->n_weights, MAX_WEIGHTS, sizeof *p->weights, 37, "the weights");
    for (uint32_t i = 0; i < p->n_weights && c->status == DCT_OK; i++) walk_weight(c, &p->weights[i]);
    p->caches = field_list(c, p->caches, &p->n_caches, MAX_CACHES, sizeof *p->caches, 37, "the caches");
    for (uint32_t i = 0; i < p->n_caches && c->status == DCT_OK; i++) walk_cache(c, &p->caches[i]);
    p->tables = field_list(c, p->tables, &p->n_tables, MAX_TABLES, sizeof *p->tables, 60, "the tables");
    for (uint32_t i = 0; i < p->n_tables && c->status == DCT_OK; i++) walk_table(c, &p->tables[i]);
    p->items = field_list(c, p->items, &p->n_items, MAX_ITEMS, sizeof *p->items, 25, "the items");
    for (uint32_t i = 0; i < p->n_items && c->status == DCT_OK; i++) walk_item(c, &p->items[i]);
    field_below(c, &p->n_phases, DCT_PLAN_MAX_PHASES + 1, "the phases");
    for (uint32_t i = 0; i < p->n_phases && c->status == DCT_OK; i++) walk_phase(c, p, &p->phases[i]);
    field_u32(c, &p->paper_tensors, "the paper's counts");
    field_u32(c, &p->paper_buffers, "the paper's counts");
    field_u32(c, &p->paper_clique, "the paper's counts");
    field_f64(c, &p->est_ms_per_token, "the estimates");
    field_f64(c, &p->roofline_ms_per_token, "the estimates");
}

/* The plan, then the smaller members of its family, which have no families themselves. */
static void walk_family(cursor *c, dct_plan *p) {
    enum { PLAN_FILE_BYTES = 300 }; /* at least */
    walk_plan(c, p);
    p->smaller = field_array(c, p->smaller, &p->n_smaller, DCT_PLAN_MAX_SMALLER, sizeof *p->smaller, PLAN_FILE_BYTES,
                             "the smaller members");
    for (uint32_t i = 0; i < p->n_smaller && c->status == DCT_OK; i++) walk_plan(c, &p->smaller[i]);
}

/* ---- save ---- */

static void write_header(dct_writer *w, uint64_t hash, uint64_t bytes) {
    dct_write_bytes(w, MAGIC, sizeof MAGIC);
    dct_write_u32(w, DCT_PLAN_VERSION);
    dct_write_u32(w, 0);
    dct_write_u64(w, hash);
    dct_write_u64(w, bytes);
}

dct_status dct_plan_save(const dct_plan *plan, void *out, uint64_t cap, uint64_t *bytes, dct_err *err) {
    dct_plan copy = *plan; /* the walk takes a plan that it may fill; it changes nothing when it writes */
    dct_writer count = {.size = UINT64_MAX};
    write_header(&count, 0, 0);
    cursor measure = {.w = &count, .err = err};
    walk_family(&measure, &copy);
    if (measure.status != DCT_OK) return measure.status;
    *bytes = count.pos;
    if (out == NULL) return DCT_OK;
    if (cap < count.pos)
        return dct_fail(err, DCT_USAGE, "a plan of %llu bytes does not fit in %llu", (unsigned long long)count.pos,
                        (unsigned long long)cap);
    dct_writer w = {.bytes = out, .size = count.pos};
    write_header(&w, 0, count.pos);
    walk_family(&(cursor){.w = &w, .err = err}, &copy); /* what could be measured can be written */
    uint64_t hash = dct_hash_mix(dct_hash_bytes(DCT_HASH_SEED, (const uint8_t *)out + HASHED_FROM, count.pos - HASHED_FROM));
    dct_writer head = {.bytes = out, .size = HEADER_BYTES};
    write_header(&head, hash, count.pos);
    return DCT_OK;
}

/* ---- load ---- */

static dct_status read_header(dct_reader *r, const uint8_t *bytes, uint64_t n, dct_err *err) {
    const void *magic;
    uint32_t version, zero;
    uint64_t hash, size;
    if (!dct_read_bytes(r, sizeof MAGIC, &magic) || memcmp(magic, MAGIC, sizeof MAGIC) != 0)
        return dct_fail_at(err, DCT_BAD_FILE, 0, "not a plan file");
    if (!dct_read_u32(r, &version) || !dct_read_u32(r, &zero) || !dct_read_u64(r, &hash) || !dct_read_u64(r, &size)) {
        return dct_fail_at(err, DCT_BAD_FILE, n, "plan file: cut off in its header");
    }
    if (version != DCT_PLAN_VERSION)
        return dct_fail_at(err, DCT_BAD_FILE, 8, "plan file: version %u, this program reads version %d", version,
                           DCT_PLAN_VERSION);
    if (zero != 0) return dct_fail_at(err, DCT_BAD_FILE, 12, "plan file: reserved bytes are not 0");
    if (size != n)
        return dct_fail_at(err, DCT_BAD_FILE, 24, "plan file: %llu bytes, its header says %llu", (unsigned long long)n,
                           (unsigned long long)size);
    uint64_t found = dct_hash_mix(dct_hash_bytes(DCT_HASH_SEED, bytes + HASHED_FROM, n - HASHED_FROM));
    if (found != hash) return dct_fail_at(err, DCT_BAD_FILE, HASH_AT, "plan file: damaged (its hash differs)");
    return DCT_OK;
}

dct_status dct_plan_load(const void *bytes, uint64_t n, dct_arena *arena, dct_plan **out, dct_err *err) {
    dct_reader r = dct_reader_of(bytes, n);
    dct_status status = read_header(&r, bytes, n, err);
    if (status != DCT_OK) return status;
    dct_plan *plan = dct_arena_alloc(arena, sizeof *plan);
    if (plan == NULL) return dct_fail_memory(err, arena, "a plan");
    cursor c = {.r = &r, .arena = arena, .err = err};
    walk_family(&c, plan);
    if (c.status == DCT_OK && dct_reader_left(&r) != 0) defect(&c, "bytes after its end");
    if (c.status != DCT_OK) return c.status;
    status = dct_plan_share_lists(plan, arena, err);
    for (uint32_t i = 0; i < plan->n_smaller && status == DCT_OK; i++)
        status = dct_plan_share_lists(&plan->smaller[i], arena, err);
    if (status != DCT_OK) return status;
    *out = plan;
    return DCT_OK;
}
