/* engine/report_plan: a plan as the JSON object that DESIGN §6 fixes, and as the paper's table. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "engine/report.h"
#include "plan/plan_text.h"

/* jansson counts in signed 64 bits. A hash is printed as hexadecimal text, so every reader keeps all of its bits. */
static json_t *number(uint64_t v) { return json_integer((json_int_t)v); }

static json_t *hash_text(uint64_t hash) {
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_string(text);
}

/* Texts from model files may be no UTF-8; what jansson refuses is shown without its odd bytes. */
static json_t *lenient_text(const char *text) {
    json_t *exact = json_string(text);
    if (exact != NULL) return exact;
    char plain[512];
    size_t n = 0;
    for (; text[n] != '\0' && n < sizeof plain - 1; n++) plain[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
    plain[n] = '\0';
    return json_string(plain);
}

static json_t *model_object(const dct_plan *plan, const dct_report_facts *facts) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "path", lenient_text(facts->model_path != NULL ? facts->model_path : ""),
                     "arch", lenient_text(plan->arch), "name", lenient_text(plan->model_name), "file_bytes",
                     number(plan->file_bytes), "n_params", number(plan->n_params), "fingerprint", hash_text(plan->fingerprint));
}

static json_t *bounds_object(const dct_bounds *b) {
    char type_k[16], type_v[16];
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:i, s:s, s:b}", "ctx", number(b->n_ctx), "max_input",
                     number(b->n_input), "max_output", number(b->n_output), "ubatch", number(b->ubatch), "slots",
                     number(b->slots), "threads", number(b->threads), "type_k", dct_type_flag(b->type_k, type_k), "type_v",
                     dct_type_flag(b->type_v, type_v), "image_max_tokens", 0, "logits", dct_logits_name(b->logits),
                     "overlap", b->overlap);
}

static json_t *items_array(const dct_plan *plan) {
    json_t *items = json_array();
    for (uint32_t i = 0; items != NULL && i < plan->n_items; i++) {
        const dct_item *item = &plan->items[i];
        json_t *one = json_pack("{s:s, s:o, s:o, s:s, s:b, s:b}", "region", dct_region_name(item->region), "name",
                                lenient_text(item->name), "bytes", number(item->bytes), "memory",
                                dct_backing_name(dct_item_backing(item)), "huge_pages", !item->outside, "mlock", !item->outside);
        if (one == NULL || json_array_append_new(items, one) != 0) {
            json_decref(items);
            return NULL;
        }
    }
    return items;
}

/* Where loading has its own bytes: in an item, or over what is not used yet. */
static json_t *loading_object(const dct_plan *plan, uint64_t staging_bytes) {
    dct_place place;
    bool has_place = dct_plan_staging(plan, staging_bytes, &place);
    return json_pack("{s:o, s:s}", "staging_bytes", number(staging_bytes), "region",
                     has_place ? dct_region_name(place.region) : "");
}

static json_t *envelope_object(const dct_plan *plan, const dct_report_facts *facts) {
    json_int_t free_bytes = (json_int_t)facts->available_bytes - (json_int_t)plan->m_max_bytes;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:b, s:o, s:o, s:o}", "m_max_bytes", number(plan->m_max_bytes),
                     "weights_bytes", number(dct_plan_region_bytes(plan, DCT_REGION_WEIGHTS)), "kv_bytes",
                     number(dct_plan_region_bytes(plan, DCT_REGION_KV)), "persistent_bytes",
                     number(dct_plan_region_bytes(plan, DCT_REGION_PERSISTENT)), "intermediate_bytes",
                     number(dct_plan_region_bytes(plan, DCT_REGION_ARENA)), "runtime_bytes",
                     number(dct_plan_region_bytes(plan, DCT_REGION_RUNTIME)), "m_hw_bytes", number(facts->hw_bytes),
                     "m_free_bytes", free_bytes, "fits", free_bytes >= 0, "source",
                     lenient_text(facts->available_source != NULL ? facts->available_source : ""), "loading",
                     loading_object(plan, facts->staging_bytes), "items", items_array(plan));
}

static double reduction_pct(const dct_plan *plan) {
    return plan->paper_tensors == 0 ? 0 : 100.0 * (1.0 - (double)plan->paper_buffers / plan->paper_tensors);
}

static json_t *compile_object(const dct_plan *plan) {
    uint64_t load = dct_plan_arena_load(plan), height = dct_plan_arena_height(plan);
    return json_pack("{s:o, s:o, s:f, s:o, s:o, s:b}", "logical_tensors", number(plan->paper_tensors), "physical_buffers",
                     number(plan->paper_buffers), "reduction_pct", reduction_pct(plan), "load_bytes",
                     number(load), "height_bytes", number(height), "optimal", height == load);
}

static json_t *phases_array(const dct_plan *plan) {
    json_t *phases = json_array();
    for (uint32_t i = 0; phases != NULL && i < plan->n_phases; i++) {
        const dct_phase *p = &plan->phases[i];
        json_t *one = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "name", lenient_text(p->name), "rows",
                                number(p->rows), "values", number(dct_plan_count_values(p)), "buffers",
                                number(p->n_buffers), "load_bytes", number(p->cert.load_bytes), "height_bytes",
                                number(p->cert.height_bytes), "optimal", p->cert.optimal, "steps", number(p->n_steps), "waits",
                                number(p->n_waits));
        if (one == NULL || json_array_append_new(phases, one) != 0) {
            json_decref(phases);
            return NULL;
        }
    }
    return phases;
}

/* What depends on the cost profile is told of plans that were made with the one that is at hand. */
static void add_baselines(json_t *schedule, const dct_plan *plan, const dct_profile *profile) {
    if (profile == NULL || plan->profile_hash != dct_profile_hash(profile)) return;
    dct_baselines b = dct_baselines_of(plan, profile);
    json_object_set_new(schedule, "g_max", json_real(b.gain_max));
    json_object_set_new(schedule, "corun", json_pack("{s:o, s:f, s:f, s:f}", "tokens", number(b.n_tokens), "sequential_ms",
                                                     b.sequential_us / 1e3, "side_by_side_ms", b.corun_us / 1e3, "fused_ms",
                                                     b.fused_us / 1e3));
}

static json_t *schedule_object(const dct_plan *plan, const dct_profile *profile) {
    const dct_phase *decode = dct_plan_phase(plan, DCT_PHASE_DECODE);
    json_t *schedule = json_pack("{s:o, s:o, s:f, s:f}", "workers", number(plan->bounds.threads), "waits_per_token",
                                 number(decode != NULL ? decode->n_waits : 0), "est_ms_per_token", plan->est_ms_per_token,
                                 "roofline_ms_per_token", plan->roofline_ms_per_token);
    if (schedule != NULL) add_baselines(schedule, plan, profile);
    return schedule;
}

static int write_piece(const char *text, size_t n, void *ctx) {
    const dct_text *t = ctx;
    t->out(t->ctx, text, n);
    return 0;
}

static dct_status write_json(json_t *all, dct_text_fn *out, void *ctx, dct_err *err) {
    dct_text t = {out, ctx};
    if (all == NULL) return dct_fail(err, DCT_SYSTEM, "no memory for the plan as JSON");
    int failed = json_dump_callback(all, write_piece, &t, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(8));
    json_decref(all);
    if (failed != 0) return dct_fail(err, DCT_SYSTEM, "the plan could not be written as JSON");
    out(ctx, "\n", 1);
    return DCT_OK;
}

/* A member of a family: its bounds and what it takes of the envelope while it runs, in the words of the plan itself. */
static json_t *member_object(const dct_plan *member, const dct_report_facts *facts) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "ctx", number(member->bounds.n_ctx), "max_input",
                     number(member->bounds.n_input), "max_output", number(member->bounds.n_output), "ubatch",
                     number(member->bounds.ubatch), "kv_bytes", number(member->region_bytes[DCT_REGION_KV]), "height_bytes",
                     number(dct_plan_arena_height(member)), "compile", compile_object(member), "phases",
                     phases_array(member), "schedule", schedule_object(member, facts->profile));
}

/* What the members of a family have in turns, of which the last has the plan's bounds. */
static json_t *family_array(const dct_plan *plan, const dct_report_facts *facts) {
    json_t *members = json_array();
    for (uint32_t i = 0; members != NULL && i < dct_plan_n_members(plan); i++) {
        if (json_array_append_new(members, member_object(dct_plan_member(plan, i), facts)) == 0) continue;
        json_decref(members);
        members = NULL;
    }
    return members;
}

/* What is said of a plan, and of its family where it has one; NULL when there is no memory. */
static json_t *with_family(json_t *said, const dct_plan *plan, const dct_report_facts *facts) {
    if (plan->n_smaller == 0 || json_object_set_new(said, "family", family_array(plan, facts)) == 0) return said;
    json_decref(said);
    return NULL;
}

dct_status dct_report_plan_json(const dct_plan *plan, const dct_report_facts *facts, dct_text_fn *out, void *ctx, dct_err *err) {
    if (plan->n_phases == 0) return dct_fail(err, DCT_BAD_FILE, "the plan has no phases");
    json_t *all = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "model", model_object(plan, facts), "bounds",
                            bounds_object(&plan->bounds), "envelope", envelope_object(plan, facts), "compile",
                            compile_object(plan), "phases", phases_array(plan), "schedule",
                            schedule_object(plan, facts->profile));
    json_object_set_new(json_object_get(all, "compile"), "compile_ms", json_real(facts->compile_ms));
    return write_json(with_family(all, plan, facts), out, ctx, err);
}

static json_t *group_envelope(const dct_group *g, const dct_report_facts *facts) {
    json_int_t free_bytes = (json_int_t)facts->available_bytes - (json_int_t)g->m_max_bytes;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:b, s:o}", "m_max_bytes", number(g->m_max_bytes), "weights_bytes",
                     number(dct_group_region_bytes(g, DCT_REGION_WEIGHTS)), "kv_bytes",
                     number(dct_group_region_bytes(g, DCT_REGION_KV)), "persistent_bytes",
                     number(dct_group_region_bytes(g, DCT_REGION_PERSISTENT)), "intermediate_bytes",
                     number(dct_group_region_bytes(g, DCT_REGION_ARENA)), "runtime_bytes",
                     number(dct_group_region_bytes(g, DCT_REGION_RUNTIME)), "m_hw_bytes", number(facts->hw_bytes), "m_free_bytes",
                     free_bytes, "fits", free_bytes >= 0, "source", lenient_text(facts->available_source));
}

dct_status dct_report_group_json(const dct_group *g, const char *const *paths, const dct_report_facts *facts,
                                 dct_text_fn *out, void *ctx, dct_err *err) {
    json_t *models = json_array();
    for (uint32_t i = 0; models != NULL && i < g->n_plans; i++) {
        dct_report_facts own = *facts;
        own.model_path = paths[i];
        json_t *one = json_pack("{s:o, s:o, s:o}", "model", model_object(g->plans[i], &own), "bounds",
                                bounds_object(&g->plans[i]->bounds), "envelope", envelope_object(g->plans[i], &own));
        one = with_family(one, g->plans[i], &own);
        if (one == NULL || json_array_append_new(models, one) != 0) {
            json_decref(models);
            models = NULL;
        }
    }
    json_t *all = json_pack("{s:s, s:o, s:o}", "mode", g->exclusive ? "exclusive" : "concurrent", "envelope",
                            group_envelope(g, facts), "models", models);
    return write_json(all, out, ctx, err);
}

/* ---- what differs between two plans ---- */

static json_t *side(bool is_there, const char *text, uint64_t value) {
    return !is_there ? json_null() : text != NULL ? lenient_text(text) : number(value);
}

static void add_difference(void *ctx, const dct_difference *d) {
    json_t *one = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "section", d->section, "context",
                            d->context != 0 ? number(d->context) : json_null(), "phase", lenient_text(d->phase), "name",
                            lenient_text(d->name), "before", side(d->had, d->text_before, d->before), "after",
                            side(d->has, d->text_after, d->after), "count", number(d->count));
    json_array_append_new(ctx, one); /* what fails is missed below */
}

static void count_difference(void *ctx, const dct_difference *d) {
    (void)d;
    (*(size_t *)ctx)++;
}

dct_status dct_report_diff_json(const dct_plan *a, const dct_plan *b, dct_arena *work, dct_text_fn *out, void *ctx,
                                dct_err *err) {
    bool same;
    size_t n = 0;
    json_t *list = json_array();
    dct_status status = dct_plan_is_same(a, b, work, &same, err);
    if (status == DCT_OK) status = dct_plan_compare(a, b, work, count_difference, &n, err);
    if (status == DCT_OK) status = dct_plan_compare(a, b, work, add_difference, list, err);
    if (status == DCT_OK && json_array_size(list) != n) status = dct_fail(err, DCT_SYSTEM, "no memory for a difference as JSON");
    json_t *all = json_pack("{s:b, s:o}", "same", status == DCT_OK && same, "differences", list);
    if (status == DCT_OK) return write_json(all, out, ctx, err);
    json_decref(all);
    return status;
}

/* ---- the paper's table ---- */

static void put_term(const dct_text *t, const char *name, uint64_t bytes) {
    dct_text_put(t, "%-28s%16" PRIu64 " bytes%12.2f MiB\n", name, bytes, dct_mib(bytes));
}

/* The counts of one member. */
static void put_counts(const dct_text *t, const dct_plan *member) {
    dct_text_put(t, "%-28s%16u\n", "logical tensors", member->paper_tensors);
    dct_text_put(t, "%-28s%16u   proven: %u tensors are live at one step\n", "physical buffers", member->paper_buffers,
                 member->paper_clique);
    dct_text_put(t, "%-28s%15.2f%%\n", "reduction", reduction_pct(member));
}

/* A smaller member: what of the envelope is not the largest's alone. */
static void put_paper_member(const dct_text *t, const dct_plan *member) {
    dct_text_put(t, "\nwhile the context is at most %u: N = %u, M = %u\n\n", member->bounds.n_ctx, member->bounds.n_input,
                 member->bounds.n_output);
    put_counts(t, member);
    put_term(t, "M_KV", member->region_bytes[DCT_REGION_KV]);
    put_term(t, "M_intermediate", dct_plan_arena_height(member));
}

dct_status dct_report_paper(const dct_plan *plan, const dct_report_facts *facts, dct_text_fn *out, void *ctx, dct_err *err) {
    if (dct_plan_is_graph(plan)) return dct_fail(err, DCT_USAGE, "the paper counts what models have, not a graph of one's own");
    dct_text t = {out, ctx};
    dct_text_put(&t, "static compilation, N = %u, M = %u\n\n", plan->bounds.n_input, plan->bounds.n_output);
    put_counts(&t, plan);
    put_term(&t, "M_weights", dct_plan_region_bytes(plan, DCT_REGION_WEIGHTS));
    put_term(&t, "M_KV", dct_plan_region_bytes(plan, DCT_REGION_KV));
    put_term(&t, "M_persistent", dct_plan_region_bytes(plan, DCT_REGION_PERSISTENT));
    put_term(&t, "M_intermediate", dct_plan_region_bytes(plan, DCT_REGION_ARENA));
    put_term(&t, "M_runtime", dct_plan_region_bytes(plan, DCT_REGION_RUNTIME));
    put_term(&t, "M_max", plan->m_max_bytes);
    put_term(&t, "M_hw", facts->hw_bytes);
    bool fits = facts->available_bytes >= plan->m_max_bytes;
    put_term(&t, fits ? "M_free (available - M_max)" : "missing (M_max - available)",
             fits ? facts->available_bytes - plan->m_max_bytes : plan->m_max_bytes - facts->available_bytes);
    for (uint32_t i = plan->n_smaller; i-- > 0;) put_paper_member(&t, &plan->smaller[i]);
    return DCT_OK;
}
