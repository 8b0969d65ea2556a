/* plan/plan_diff: what differs between two plans, for people and for reports.
 *
 * Numbers are compared one by one under the names that `plan --json` gives them; items by region and name; phases by kind; the
 * values of a phase's arena by name, the first of a name with the first. A model has many layers, so what happens to a value in
 * the same way in several of them is told once, with `*` for the layer. Plans may be unverified: names and counts are all that
 * is relied on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/safe_text.h"
#include "plan/plan_text.h"

typedef struct comparison {
    dct_difference_fn *found;
    void *ctx;
    dct_arena *arena;
    const char *section, *phase; /* of what is compared now */
    uint32_t context;
} comparison;

static dct_difference difference_of(const comparison *c, const char *name, bool had, bool has) {
    return (dct_difference){.section = c->section, .context = c->context, .phase = c->phase, .name = name, .count = 1, .had = had,
                            .has = has};
}

static void compare_numbers(const comparison *c, const char *name, uint64_t before, uint64_t after) {
    if (before == after) return;
    dct_difference d = difference_of(c, name, true, true);
    d.before = before;
    d.after = after;
    c->found(c->ctx, &d);
}

static void compare_texts(const comparison *c, const char *name, const char *before, const char *after) {
    if (strcmp(before, after) == 0) return;
    dct_difference d = difference_of(c, name, true, true);
    d.text_before = before;
    d.text_after = after;
    c->found(c->ctx, &d);
}

/* A number that only one of the plans has. */
static void tell_number(const comparison *c, const char *name, bool has, uint64_t number) {
    dct_difference d = difference_of(c, name, !has, has);
    if (has) d.after = number;
    else d.before = number;
    c->found(c->ctx, &d);
}

/* ---- the plan as a whole ---- */

static void compare_models(comparison *c, const dct_plan *a, const dct_plan *b) {
    char print_a[24], print_b[24];
    c->section = "model";
    snprintf(print_a, sizeof print_a, "%016" PRIx64, a->fingerprint);
    snprintf(print_b, sizeof print_b, "%016" PRIx64, b->fingerprint);
    compare_texts(c, "arch", a->arch, b->arch);
    compare_texts(c, "name", a->model_name, b->model_name);
    compare_texts(c, "fingerprint", print_a, print_b);
    compare_numbers(c, "n_params", a->n_params, b->n_params);
    compare_numbers(c, "file_bytes", a->file_bytes, b->file_bytes);
}

static void compare_bounds(comparison *c, const dct_bounds *a, const dct_bounds *b) {
    char type_a[16], type_b[16];
    c->section = "bounds";
    compare_numbers(c, "ctx", a->n_ctx, b->n_ctx);
    compare_numbers(c, "max_input", a->n_input, b->n_input);
    compare_numbers(c, "max_output", a->n_output, b->n_output);
    compare_numbers(c, "ubatch", a->ubatch, b->ubatch);
    compare_numbers(c, "slots", a->slots, b->slots);
    compare_numbers(c, "threads", a->threads, b->threads);
    compare_texts(c, "type_k", dct_type_flag(a->type_k, type_a), dct_type_flag(b->type_k, type_b));
    compare_texts(c, "type_v", dct_type_flag(a->type_v, type_a), dct_type_flag(b->type_v, type_b));
    compare_numbers(c, "table_ctx", a->table_ctx, b->table_ctx);
    compare_texts(c, "logits", dct_logits_name(a->logits), dct_logits_name(b->logits));
    compare_texts(c, "overlap", a->overlap ? "yes" : "no", b->overlap ? "yes" : "no");
}

static void compare_envelopes(comparison *c, const dct_plan *a, const dct_plan *b) {
    static const char *const names[DCT_REGION_COUNT] = {"weights_bytes", "kv_bytes", "persistent_bytes", "intermediate_bytes",
                                                        "runtime_bytes"};
    c->section = "envelope";
    compare_numbers(c, "m_max_bytes", a->m_max_bytes, b->m_max_bytes);
    for (int i = 0; i < DCT_REGION_COUNT; i++) {
        compare_numbers(c, names[i], dct_plan_region_bytes(a, (dct_region)i), dct_plan_region_bytes(b, (dct_region)i));
    }
}

/* The item of b that an item of a is, or NULL. */
static const dct_item *same_item(const dct_plan *b, const dct_item *item) {
    return dct_plan_item(b, item->region, item->name, item->outside);
}

static void compare_items(comparison *c, const dct_plan *a, const dct_plan *b) {
    char name[80];
    c->section = "items";
    for (const dct_item *i = a->items; i < a->items + a->n_items; i++) {
        const dct_item *other = same_item(b, i);
        snprintf(name, sizeof name, "%s: %s", dct_region_name(i->region), i->name);
        if (other == NULL) tell_number(c, name, false, i->bytes);
        else compare_numbers(c, name, i->bytes, other->bytes);
    }
    for (const dct_item *i = b->items; i < b->items + b->n_items; i++) {
        snprintf(name, sizeof name, "%s: %s", dct_region_name(i->region), i->name);
        if (same_item(a, i) == NULL) tell_number(c, name, true, i->bytes);
    }
}

static void compare_schedules(comparison *c, const dct_plan *a, const dct_plan *b) {
    c->section = "schedule";
    compare_numbers(c, "est_us_per_token", dct_thousandths(a->est_ms_per_token), dct_thousandths(b->est_ms_per_token));
    compare_numbers(c, "roofline_us_per_token", dct_thousandths(a->roofline_ms_per_token),
                    dct_thousandths(b->roofline_ms_per_token));
}

/* ---- values ---- */

/* A value of the arena as it is looked for: "blk.7.q" is `q` of layer 7. */
typedef struct named {
    const char *base;
    uint32_t layer; /* DCT_NONE: the name has none */
    dct_value_id id;
    const dct_value *value;
} named;

static named name_of(const dct_graph *g, dct_value_id id) {
    named n = {.id = id, .value = &g->values[id]};
    n.base = dct_name_base(n.value->name, &n.layer);
    return n;
}

static int order(const named *a, const named *b) {
    int by_base = strcmp(a->base, b->base);
    if (by_base != 0) return by_base;
    return a->layer != b->layer ? (a->layer < b->layer ? -1 : 1) : 0;
}

/* Merges two sorted runs; of equals, the left first. */
static void merge(const named *left, uint32_t n_left, const named *right, uint32_t n_right, named *out) {
    while (n_left > 0 || n_right > 0) {
        bool take_left = n_right == 0 || (n_left > 0 && order(left, right) <= 0);
        *out++ = take_left ? *left++ : *right++;
        if (take_left) n_left--;
        else n_right--;
    }
}

/* Sorts by runs of doubled length, so that equals stay in the order of their ids. Returns where the result is. */
static named *sort(named *list, named *room, uint32_t n) {
    for (uint32_t run = 1; run < n; run *= 2) {
        for (uint32_t at = 0; at < n; at += 2 * run) {
            uint32_t n_left = run < n - at ? run : n - at, rest = n - at - n_left;
            merge(list + at, n_left, list + at + n_left, run < rest ? run : rest, room + at);
        }
        named *swap = list;
        list = room;
        room = swap;
    }
    return list;
}

static named *arena_values(const dct_graph *g, dct_arena *arena, uint32_t *n) {
    named *list = dct_arena_array(arena, g->n_values, sizeof *list), *room = dct_arena_array(arena, g->n_values, sizeof *room);
    if (list == NULL || room == NULL) return NULL;
    *n = 0;
    for (dct_value_id v = 0; v < g->n_values; v++) {
        if (g->values[v].kind == DCT_KIND_INTERMEDIATE) list[(*n)++] = name_of(g, v);
    }
    return sort(list, room, *n);
}

/* What happened to a value: gone, new, or other bytes or another shape. */
typedef struct change {
    const named *before, *after; /* NULL: not there */
} change;

static bool has_changed(const change *c) {
    if (c->before == NULL || c->after == NULL) return true;
    const dct_value *a = c->before->value, *b = c->after->value;
    return a->bytes != b->bytes || a->rows != b->rows || a->cols != b->cols || a->format != b->format;
}

static bool same_value(const named *a, const named *b) {
    if (a == NULL || b == NULL) return a == b;
    return a->value->bytes == b->value->bytes && a->value->rows == b->value->rows && a->value->cols == b->value->cols &&
           a->value->format == b->value->format;
}

/* Whether two layers of a value changed in the same way. */
static bool same_change(const change *x, const change *y) {
    const named *nx = x->before != NULL ? x->before : x->after, *ny = y->before != NULL ? y->before : y->after;
    return nx->layer != DCT_NONE && ny->layer != DCT_NONE && strcmp(nx->base, ny->base) == 0 &&
           same_value(x->before, y->before) && same_value(x->after, y->after);
}

static const char *shape_of(const named *n, char out[48]) {
    snprintf(out, 48, "%u x %u, format %d", n->value->rows, n->value->cols, (int)n->value->format);
    return out;
}

static void tell_change(const comparison *c, const change *x, uint32_t count) {
    const named *any = x->before != NULL ? x->before : x->after;
    char name[DCT_NAME_BYTES + 8], shape_a[48], shape_b[48];
    if (count > 1) snprintf(name, sizeof name, "blk.*.%s", any->base);
    else snprintf(name, sizeof name, "%s", any->value->name);
    dct_difference d = difference_of(c, name, x->before != NULL, x->after != NULL);
    d.count = count;
    if (d.had && d.has && x->before->value->bytes == x->after->value->bytes) {
        d.text_before = shape_of(x->before, shape_a);
        d.text_after = shape_of(x->after, shape_b);
    }
    d.before = d.had ? x->before->value->bytes : 0;
    d.after = d.has ? x->after->value->bytes : 0;
    c->found(c->ctx, &d);
}

/* The next pair in the order of names; one side of it is NULL where only one plan has the name. */
static change next_pair(const named **a, const named *a_end, const named **b, const named *b_end) {
    int which = *a == a_end ? 1 : *b == b_end ? -1 : order(*a, *b);
    change c = {which <= 0 ? *a : NULL, which >= 0 ? *b : NULL};
    *a += which <= 0;
    *b += which >= 0;
    return c;
}

static dct_status compare_values(comparison *c, const dct_graph *ga, const dct_graph *gb, dct_err *err) {
    uint32_t n_a, n_b;
    const named *a = arena_values(ga, c->arena, &n_a), *b = a != NULL ? arena_values(gb, c->arena, &n_b) : NULL;
    if (a == NULL || b == NULL) return dct_fail_memory(err, c->arena, "the difference of plans");
    const named *a_end = a + n_a, *b_end = b + n_b;
    change told = {NULL, NULL}; /* and `count` that are like it: not told yet */
    uint32_t count = 0;
    c->section = "values";
    while (a < a_end || b < b_end) {
        change now = next_pair(&a, a_end, &b, b_end);
        if (!has_changed(&now)) continue;
        if (count > 0 && same_change(&told, &now)) {
            count++;
            continue;
        }
        if (count > 0) tell_change(c, &told, count);
        told = now;
        count = 1;
    }
    if (count > 0) tell_change(c, &told, count);
    return DCT_OK;
}

/* ---- phases ---- */

static dct_status compare_phase(comparison *c, const dct_phase *a, const dct_phase *b, dct_err *err) {
    c->section = "phase";
    compare_numbers(c, "rows", a->rows, b->rows);
    compare_numbers(c, "values", dct_plan_count_values(a), dct_plan_count_values(b));
    compare_numbers(c, "buffers", a->n_buffers, b->n_buffers);
    compare_numbers(c, "load_bytes", a->cert.load_bytes, b->cert.load_bytes);
    compare_numbers(c, "height_bytes", a->cert.height_bytes, b->cert.height_bytes);
    compare_texts(c, "optimal", a->cert.optimal ? "yes" : "no", b->cert.optimal ? "yes" : "no");
    compare_numbers(c, "steps", a->n_steps, b->n_steps);
    compare_numbers(c, "waits", a->n_waits, b->n_waits);
    return compare_values(c, &a->graph, &b->graph, err);
}

static dct_status compare_phases(comparison *c, const dct_plan *a, const dct_plan *b, dct_err *err) {
    static const dct_phase_kind kinds[] = {DCT_PHASE_PREFILL, DCT_PHASE_DECODE, DCT_PHASE_GRAPH};
    dct_status status = DCT_OK;
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds && status == DCT_OK; i++) {
        const dct_phase *pa = dct_plan_phase(a, kinds[i]), *pb = dct_plan_phase(b, kinds[i]);
        if (pa == NULL && pb == NULL) continue;
        c->phase = pa != NULL ? pa->name : pb->name;
        c->section = "phase";
        if (pa == NULL || pb == NULL) tell_number(c, "height_bytes", pb != NULL, (pa != NULL ? pa : pb)->cert.height_bytes);
        else status = compare_phase(c, pa, pb, err);
    }
    return status;
}

/* ---- families ---- */

/* What a member has of the envelope while it runs. */
static uint64_t bytes_of(const dct_plan *member) {
    return member->region_bytes[DCT_REGION_KV] + dct_plan_arena_height(member);
}

static dct_status compare_members(comparison *c, const dct_plan *a, const dct_plan *b, dct_err *err) {
    c->context = b->bounds.n_ctx;
    compare_bounds(c, &a->bounds, &b->bounds);
    c->section = "envelope";
    compare_numbers(c, "kv_bytes", a->region_bytes[DCT_REGION_KV], b->region_bytes[DCT_REGION_KV]);
    compare_numbers(c, "height_bytes", dct_plan_arena_height(a), dct_plan_arena_height(b));
    compare_schedules(c, a, b);
    dct_status status = compare_phases(c, a, b, err);
    c->context = 0;
    c->phase = "";
    return status;
}

static const dct_plan *smaller_of_context(const dct_plan *plan, uint32_t n_ctx) {
    for (uint32_t i = 0; i < plan->n_smaller; i++)
        if (plan->smaller[i].bounds.n_ctx == n_ctx) return &plan->smaller[i];
    return NULL;
}

/* Whose number of members differs: each of a's with b's of the same context. */
static dct_status compare_unequal(comparison *c, const dct_plan *a, const dct_plan *b, dct_err *err) {
    char name[32];
    c->section = "family";
    compare_numbers(c, "members", dct_plan_n_members(a), dct_plan_n_members(b));
    for (int side = 0; side < 2; side++) {
        const dct_plan *from = side == 0 ? a : b, *other = side == 0 ? b : a;
        for (uint32_t i = 0; i < from->n_smaller; i++) {
            snprintf(name, sizeof name, "context %u", from->smaller[i].bounds.n_ctx);
            if (smaller_of_context(other, from->smaller[i].bounds.n_ctx) == NULL)
                tell_number(c, name, side == 1, bytes_of(&from->smaller[i]));
        }
    }
    dct_status status = DCT_OK;
    for (uint32_t i = 0; i < a->n_smaller && status == DCT_OK; i++) {
        const dct_plan *same = smaller_of_context(b, a->smaller[i].bounds.n_ctx);
        if (same != NULL) status = compare_members(c, &a->smaller[i], same, err);
    }
    return status;
}

static dct_status compare_families(comparison *c, const dct_plan *a, const dct_plan *b, dct_err *err) {
    if (a->n_smaller != b->n_smaller) return compare_unequal(c, a, b, err);
    dct_status status = DCT_OK;
    for (uint32_t i = 0; i < a->n_smaller && status == DCT_OK; i++)
        status = compare_members(c, &a->smaller[i], &b->smaller[i], err);
    return status;
}

dct_status dct_plan_compare(const dct_plan *a, const dct_plan *b, dct_arena *arena, dct_difference_fn *found, void *ctx,
                            dct_err *err) {
    comparison c = {.found = found, .ctx = ctx, .arena = arena, .section = "", .phase = ""};
    compare_models(&c, a, b);
    compare_bounds(&c, &a->bounds, &b->bounds);
    compare_envelopes(&c, a, b);
    compare_items(&c, a, b);
    compare_schedules(&c, a, b);
    dct_status status = compare_phases(&c, a, b, err);
    c.phase = "";
    return status == DCT_OK ? compare_families(&c, a, b, err) : status;
}

/* ---- for people ---- */

typedef struct listing {
    dct_text t;
    uint32_t n;
    const char *section, *phase; /* of the line before */
    uint32_t context;
} listing;

static void put_side(const dct_text *t, bool is_there, const char *text, uint64_t number) {
    dct_safe_text safe;
    if (!is_there) dct_text_put(t, "%15s", "-");
    else if (text != NULL) dct_text_put(t, "%15s", dct_safe(text, &safe));
    else dct_text_put(t, "%15" PRIu64, number);
}

static void put_difference(void *ctx, const dct_difference *d) {
    listing *l = ctx;
    dct_safe_text name, phase;
    bool same = l->context == d->context && strcmp(l->section, d->section) == 0 && strcmp(l->phase, d->phase) == 0;
    if (l->n++ == 0 || !same) {
        dct_text_put(&l->t, "\n");
        if (d->context != 0) dct_text_put(&l->t, "context %u: ", d->context);
        dct_text_put(&l->t, "%s%s%s\n", d->section, d->phase[0] != '\0' ? " " : "", dct_safe(d->phase, &phase));
    }
    l->section = d->section;
    l->phase = d->phase;
    l->context = d->context;
    put_side(&l->t, d->had, d->text_before, d->before);
    dct_text_put(&l->t, " ->");
    put_side(&l->t, d->has, d->text_after, d->after);
    if (d->text_before == NULL) dct_text_put(&l->t, "%+15" PRId64, (int64_t)(d->after - d->before)); /* sizes are below 2^63 */
    else dct_text_put(&l->t, "%15s", "");
    dct_text_put(&l->t, "  %s", dct_safe(d->name, &name));
    if (d->count > 1) dct_text_put(&l->t, ", %u alike", d->count);
    dct_text_put(&l->t, "\n");
}

dct_status dct_plan_dump_diff(const dct_plan *a, const dct_plan *b, dct_arena *arena, dct_text_fn *out, void *ctx, dct_err *err) {
    listing l = {{out, ctx}, 0, "", "", 0};
    dct_status status = dct_plan_compare(a, b, arena, put_difference, &l, err);
    if (status != DCT_OK) return status;
    bool same;
    status = dct_plan_is_same(a, b, arena, &same, err);
    if (status != DCT_OK) return status;
    if (same) dct_text_put(&l.t, "the same plan, byte for byte\n");
    else if (l.n == 0) dct_text_put(&l.t, "sizes, steps and waits are the same; places or the order of ops differ\n");
    return DCT_OK;
}

dct_status dct_plan_is_same(const dct_plan *a, const dct_plan *b, dct_arena *arena, bool *same, dct_err *err) {
    const dct_plan *plans[2] = {a, b};
    void *bytes[2];
    uint64_t n[2];
    for (int i = 0; i < 2; i++) {
        dct_status status = dct_plan_save(plans[i], NULL, 0, &n[i], err);
        if (status != DCT_OK) return status;
        bytes[i] = dct_arena_alloc(arena, n[i]);
        if (bytes[i] == NULL) return dct_fail_memory(err, arena, "the difference of plans");
        status = dct_plan_save(plans[i], bytes[i], n[i], &n[i], err);
        if (status != DCT_OK) return status;
    }
    *same = n[0] == n[1] && memcmp(bytes[0], bytes[1], n[0]) == 0;
    return DCT_OK;
}
