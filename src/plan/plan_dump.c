/* plan/plan_dump: a plan for people. The table is what `dctms plan` prints; the text is everything, for reading and for diffs.
 * Names come from model and plan files: each is printed as dct_safe shows it. */
#include <inttypes.h>
#include <stdio.h>

#include "base/safe_text.h"
#include "plan/plan_draw.h"

/* ---- the table ---- */

static void put_heading(const dct_text *t, const dct_plan *plan) {
    const dct_bounds *b = &plan->bounds;
    char type_k[16], type_v[16];
    dct_safe_text arch, name;
    dct_text_put(t, "model    %s '%s', %" PRIu64 " parameters, tensors %" PRIu64 " bytes (%.2f MiB)\n",
                 dct_safe(plan->arch, &arch), dct_safe(plan->model_name, &name), plan->n_params, plan->tensor_bytes,
                 dct_mib(plan->tensor_bytes));
    if (dct_plan_is_graph(plan)) {
        dct_text_put(t, "bounds   runs of 1 to %u rows, threads %u\n\n", b->n_input, b->threads);
        return;
    }
    dct_text_put(t, "bounds   ctx %u = %u in + %u out, ubatch %u, slots %u, threads %u, KV %s/%s%s\n\n", b->n_ctx, b->n_input,
                 b->n_output, b->ubatch, b->slots, b->threads, dct_type_flag(b->type_k, type_k),
                 dct_type_flag(b->type_v, type_v), b->overlap ? ", decode may overlap" : "");
}

enum { COLUMN = 14 };

/* Negative when it does not fit. M_max is below 2^63 (compile/envelope, verify). */
static int64_t headroom(const dct_plan *plan, const dct_plan_room *room) {
    return (int64_t)room->available_bytes - (int64_t)plan->m_max_bytes;
}

static void put_envelope(const dct_text *t, const dct_plan *plan, const dct_plan_room *room) {
    dct_text_put(t, "%-5s", "");
    for (int i = 0; i < DCT_REGION_COUNT; i++) dct_text_put(t, "%*s", COLUMN, dct_region_name((dct_region)i));
    dct_text_put(t, "%*s", COLUMN + 2, "total (M_max)");
    if (room != NULL) dct_text_put(t, "%*s%*s", COLUMN, "available", COLUMN, "headroom");

    dct_text_put(t, "\n%-5s", "bytes");
    for (int i = 0; i < DCT_REGION_COUNT; i++) dct_text_put(t, "%*" PRIu64, COLUMN, dct_plan_region_bytes(plan, (dct_region)i));
    dct_text_put(t, "%*" PRIu64, COLUMN + 2, plan->m_max_bytes);
    if (room != NULL) dct_text_put(t, "%*" PRIu64 "%*" PRId64, COLUMN, room->available_bytes, COLUMN, headroom(plan, room));

    dct_text_put(t, "\n%-5s", "MiB");
    for (int i = 0; i < DCT_REGION_COUNT; i++)
        dct_text_put(t, "%*.2f", COLUMN, dct_mib(dct_plan_region_bytes(plan, (dct_region)i)));
    dct_text_put(t, "%*.2f", COLUMN + 2, dct_mib(plan->m_max_bytes));
    if (room != NULL)
        dct_text_put(t, "%*.2f%*.2f", COLUMN, dct_mib(room->available_bytes), COLUMN, (double)headroom(plan, room) / 1048576);
    dct_text_put(t, "\n\n");
}

static void put_fits(const dct_text *t, const dct_plan *plan, const dct_plan_room *room) {
    bool fits = headroom(plan, room) >= 0;
    double missing = dct_mib(plan->m_max_bytes) - dct_mib(room->available_bytes);
    dct_text_put(t, "fits     %s: needs %.2f MiB, %.2f MiB are available (%s)", fits ? "yes" : "no", dct_mib(plan->m_max_bytes),
                 dct_mib(room->available_bytes), room->source);
    if (!fits) dct_text_put(t, "; %.2f MiB are missing", missing);
    dct_text_put(t, "\n");
}

/* Sums by what pages are, for people who know a process by RssAnon and RssFile; and where the load has its own bytes. */
static void put_memory(const dct_text *t, const dct_plan *plan, uint64_t staging_bytes) {
    uint64_t sums[3] = {0, 0, 0};
    dct_place place;
    for (uint32_t i = 0; i < plan->n_items; i++) sums[dct_item_backing(&plan->items[i])] += plan->items[i].bytes;
    dct_text_put(t, "memory   %.2f MiB anonymous, of which --mlock pins %.2f MiB; %.2f MiB of files; %.2f MiB the kernel's\n",
                 dct_mib(sums[DCT_BACKING_ANONYMOUS]), dct_mib(plan->reserve_bytes), dct_mib(sums[DCT_BACKING_FILE]),
                 dct_mib(sums[DCT_BACKING_KERNEL]));
    if (staging_bytes == 0 || !dct_plan_staging(plan, staging_bytes, &place)) return;
    dct_text_put(t, "loading  %.2f MiB of staging, in %s: its peak is M_max as well\n", dct_mib(staging_bytes),
                 dct_region_name(place.region));
}

/* The phases of a plan; `context` is 0 where there is only one. */
static void put_phase_rows(const dct_text *t, const dct_plan *plan, uint32_t context) {
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        const dct_phase *p = &plan->phases[i];
        dct_safe_text name;
        if (context != 0) dct_text_put(t, "%-9u", context);
        dct_text_put(t, "%-9s%6u%8u%9u%14" PRIu64 "%14" PRIu64 "%9s%7u%7u\n", dct_safe(p->name, &name), p->rows,
                     dct_plan_count_values(p), p->n_buffers, p->cert.load_bytes, p->cert.height_bytes,
                     p->cert.optimal ? "yes" : "no", p->n_steps, p->n_waits);
    }
    if (!plan->bounds.overlap) return;
    uint64_t load = dct_plan_arena_load(plan), height = dct_plan_arena_height(plan);
    if (context != 0) dct_text_put(t, "%-9u", context);
    dct_text_put(t, "%-32s%14" PRIu64 "%14" PRIu64 "%9s\n", "together", load, height, height == load ? "yes" : "no");
}

static void put_phases(const dct_text *t, const dct_plan *plan) {
    bool is_family = plan->n_smaller > 0;
    dct_text_put(t, "%s%-9s%6s%8s%9s%14s%14s%9s%7s%7s\n", is_family ? "context  " : "", "phase", "rows", "values", "buffers",
                 "load bytes", "height bytes", "optimal", "steps", "waits");
    for (uint32_t i = 0; i < dct_plan_n_members(plan); i++) {
        const dct_plan *member = dct_plan_member(plan, i);
        put_phase_rows(t, member, is_family ? member->bounds.n_ctx : 0);
    }
}

/* Of the largest member, in a family. */
static void put_schedule(const dct_text *t, const dct_plan *plan) {
    const bool is_graph = dct_plan_is_graph(plan);
    dct_text_put(t, "\nschedule %u workers, estimated %.2f ms a %s, roofline %.2f ms (x %.2f)\n", plan->bounds.threads,
                 plan->est_ms_per_token, is_graph ? "run of all rows" : "token with the context half full",
                 plan->roofline_ms_per_token,
                 plan->roofline_ms_per_token > 0 ? plan->est_ms_per_token / plan->roofline_ms_per_token : 1);
    if (is_graph) return;
    dct_text_put(t, "paper    %u logical tensors in %u buffers (proven: %u meet at one step)\n", plan->paper_tensors,
                 plan->paper_buffers, plan->paper_clique);
}

/* Each member's part of the envelope that they have in turns: caches and intermediates. */
static void put_family(const dct_text *t, const dct_plan *plan) {
    if (plan->n_smaller == 0) return;
    dct_text_put(t, "%-9s%7s%14s%14s%14s\n", "context", "ubatch", "kv MiB", "interm. MiB", "together MiB");
    for (uint32_t i = 0; i < dct_plan_n_members(plan); i++) {
        const dct_plan *member = dct_plan_member(plan, i);
        double kv = dct_mib(member->region_bytes[DCT_REGION_KV]), arena = dct_mib(dct_plan_arena_height(member));
        dct_text_put(t, "%-9u%7u%14.2f%14.2f%14.2f\n", member->bounds.n_ctx, member->bounds.ubatch, kv, arena, kv + arena);
    }
    double kv = dct_mib(plan->region_bytes[DCT_REGION_KV]), arena = dct_mib(plan->region_bytes[DCT_REGION_ARENA]);
    dct_text_put(t, "%-16s%14.2f%14.2f%14.2f   one context at a time\n\n", "in the envelope", kv, arena, kv + arena);
}

void dct_plan_dump_table(const dct_plan *plan, const dct_plan_room *room, dct_text_fn *out, void *ctx) {
    dct_text t = {out, ctx};
    put_heading(&t, plan);
    put_envelope(&t, plan, room);
    put_family(&t, plan);
    put_phases(&t, plan);
    put_schedule(&t, plan);
    if (room == NULL) return;
    put_memory(&t, plan, room->staging_bytes);
    put_fits(&t, plan, room);
}

/* ---- everything ---- */

static void put_items(const dct_text *t, const dct_plan *plan) {
    dct_text_put(t, "\nitems (huge: where the system has huge pages; mlock: what --mlock pins)\n");
    dct_text_put(t, "%16s%14s  %-13s%-11s%-7s%-7s%s\n", "offset", "bytes", "region", "memory", "pages", "lock", "name");
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const dct_item *item = &plan->items[i];
        dct_safe_text name;
        if (item->outside) dct_text_put(t, "%16s", "outside");
        else dct_text_put(t, "%16" PRIu64, plan->region_offset[item->region] + item->offset);
        dct_text_put(t, "%14" PRIu64 "  %-13s%-11s%-7s%-7s%s\n", item->bytes, dct_region_name(item->region),
                     dct_backing_name(dct_item_backing(item)), item->outside ? "small" : "huge", item->outside ? "-" : "mlock",
                     dct_safe(item->name, &name));
    }
}

static void put_value(const dct_text *t, const dct_phase *phase, const dct_plan_lives *lives, dct_value_id id) {
    const dct_value *v = &phase->graph.values[id];
    dct_safe_text name;
    dct_text_put(t, "%6u%14" PRIu64 "%12" PRIu64, id, phase->places[id].offset, v->bytes);
    if (v->alias_of != DCT_NONE) dct_text_put(t, "%13s", "in place");
    else if (lives->first[id] != DCT_NONE) dct_text_put(t, "%6u..%-5u", lives->first[id], lives->last[id]);
    else dct_text_put(t, "%13s", "-");
    dct_text_put(t, "  %s", dct_safe(v->name, &name));
    if (v->alias_of != DCT_NONE) dct_text_put(t, " = %s", dct_safe(phase->graph.values[v->alias_of].name, &name));
    dct_text_put(t, "\n");
}

static void put_ids(const dct_text *t, const dct_phase *phase, const dct_value_id *ids, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        dct_safe_text name;
        if (ids[i] != DCT_NONE) dct_text_put(t, " %s", dct_safe(phase->graph.values[ids[i]].name, &name));
        else dct_text_put(t, " -");
    }
}

static void put_step(const dct_text *t, const dct_phase *phase, uint32_t s) {
    const dct_step *step = &phase->steps[s];
    dct_text_put(t, "step %u", s);
    for (uint32_t i = 0; i < step->n_waits; i++)
        dct_text_put(t, "%s%u", i == 0 ? " after " : ", ", phase->waits[step->wait_begin + i]);
    dct_text_put(t, " on workers %u..%u\n", step->worker_first, step->worker_first + step->n_workers - 1);
    for (uint32_t i = 0; i < step->n_ops; i++) {
        const dct_op *op = &phase->graph.ops[step->ops[i]];
        dct_text_put(t, "%6u %s", step->ops[i], dct_op_info_of(op->kind)->name);
        put_ids(t, phase, op->in, op->n_in);
        dct_text_put(t, " ->");
        put_ids(t, phase, op->out, op->n_out);
        dct_text_put(t, "\n");
    }
}

/* Why no packing is lower: what is live at one op fills all that the packing takes, but for the gap. */
static void put_certificate(const dct_text *t, const dct_phase *phase) {
    const dct_certificate *c = &phase->cert;
    dct_text_put(t, "certificate: load %" PRIu64 ", height %" PRIu64 ", gap %" PRIu64 ", %s, %" PRIu64 " nodes searched\n",
                 c->load_bytes, c->height_bytes, c->height_bytes - c->load_bytes,
                 c->optimal ? "proven optimal" : "not proven optimal", c->nodes);
    dct_text_put(t, "the load is reached in step %u, at op %u, by\n", dct_step_of(phase, c->op), c->op);
    for (uint32_t i = 0; i < c->n_values; i++) {
        const dct_value *v = &phase->graph.values[c->values[i]];
        dct_safe_text name;
        dct_text_put(t, "%14" PRIu64 "  %s\n", v->bytes, dct_safe(v->name, &name));
    }
}

static dct_status put_phase(const dct_text *t, const dct_plan *plan, const dct_phase *phase, dct_arena *work, dct_err *err) {
    dct_safe_text name;
    dct_plan_lives lives;
    uint64_t begin = dct_plan_arena_begin(plan, phase);
    dct_status status = dct_plan_find_lives(phase, work, &lives, err);
    if (status != DCT_OK) return status;
    dct_text_put(t, "\nphase %s, %u rows", dct_safe(phase->name, &name), phase->rows);
    if (begin != 0) dct_text_put(t, ", the arena from %" PRIu64 " on", begin);
    dct_text_put(t, "\n%6s%14s%12s%13s  %s\n", "value", "arena offset", "bytes", "ops", "name");
    for (dct_value_id v = 0; v < phase->graph.n_values; v++) {
        bool in_arena = phase->places[lives.root[v]].region == DCT_REGION_ARENA; /* not so what becomes the logits in place */
        if (phase->graph.values[v].kind == DCT_KIND_INTERMEDIATE && in_arena) put_value(t, phase, &lives, v);
    }
    for (uint32_t s = 0; s < phase->n_steps; s++) put_step(t, phase, s);
    put_certificate(t, phase);
    return DCT_OK;
}

/* Nothing orders a step of decode and one of another phase, so all that is live at any two of their steps lies side by side: no
 * packing is lower than both loads together. */
static void put_together(const dct_text *t, const dct_plan *plan) {
    const dct_phase *decode = dct_plan_phase(plan, DCT_PHASE_DECODE), *other = NULL;
    for (const dct_phase *p = plan->phases; p < plan->phases + plan->n_phases; p++) {
        if (p != decode && (other == NULL || p->cert.load_bytes > other->cert.load_bytes)) other = p;
    }
    uint64_t load = dct_plan_arena_load(plan), height = dct_plan_arena_height(plan);
    dct_safe_text name;
    if (!plan->bounds.overlap || decode == NULL || other == NULL) return;
    dct_text_put(t, "\ncertificate of both together: load %" PRIu64 " = %" PRIu64 " + %" PRIu64 ", height %" PRIu64 ", ", load,
                 other->cert.load_bytes, decode->cert.load_bytes, height);
    dct_text_put(t, "gap %" PRIu64 ", %s\n", height - load, height == load ? "proven optimal" : "not proven optimal");
    dct_text_put(t, "the load is reached with %s in step %u, at op %u, while decode is in step %u, at op %u\n",
                 dct_safe(other->name, &name), dct_step_of(other, other->cert.op), other->cert.op,
                 dct_step_of(decode, decode->cert.op), decode->cert.op);
}

static dct_status put_all_phases(const dct_text *t, const dct_plan *plan, dct_arena *work, dct_err *err) {
    dct_status status = DCT_OK;
    for (uint32_t i = 0; i < plan->n_phases && status == DCT_OK; i++) status = put_phase(t, plan, &plan->phases[i], work, err);
    put_together(t, plan);
    return status;
}

/* What a smaller member has of its own. Its items lie in the envelope of the largest, which the table above shows. */
static dct_status put_member(const dct_text *t, const dct_plan *member, dct_arena *work, dct_err *err) {
    const dct_bounds *b = &member->bounds;
    dct_text_put(t, "\n---- context %u = %u in + %u out, ubatch %u ----\n", b->n_ctx, b->n_input, b->n_output, b->ubatch);
    put_schedule(t, member);
    return put_all_phases(t, member, work, err);
}

dct_status dct_plan_dump_text(const dct_plan *plan, dct_text_fn *out, void *ctx, dct_err *err) {
    dct_text t = {out, ctx};
    dct_arena work;
    dct_arena_init(&work, 0);
    dct_plan_dump_table(plan, NULL, out, ctx);
    put_items(&t, plan);
    dct_status status = put_all_phases(&t, plan, &work, err);
    for (uint32_t i = plan->n_smaller; i-- > 0 && status == DCT_OK;) status = put_member(&t, &plan->smaller[i], &work, err);
    dct_arena_deinit(&work);
    return status;
}
