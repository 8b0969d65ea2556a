/* plan/plan_html: a plan as one page for a browser: it loads nothing, needs no network, and everything in it is ours.
 *
 *      <style>    page/page.css                    ┐
 *      <body>     page/page.html                   │ the bytes of these files, which the build makes arrays (scripts/embed.cmake)
 *      <script>   page/plan.js picture.js page.js  ┘
 *      <script type="application/json" id="plan">    what this file writes: the plan, a row each value, op and step
 *
 * Names come from model files. Each is made safe to show (dct_safe); in JSON the characters that mean something to HTML become
 * \u escapes, so no name can end the script that it stands in; and the page's own script sets text only, never markup. The data
 * has integers only, so the bytes are the same under every locale.
 */
#include <inttypes.h>
#include <string.h>

#include "base/safe_text.h"
#include "plan/page.h"
#include "plan/plan_draw.h"

static void put_string(const dct_text *t, const char *text) {
    dct_safe_text safe;
    dct_text_put(t, "\"");
    for (const char *p = dct_safe(text, &safe); *p != '\0'; p++) {
        if (strchr("\"\\<>&", *p) != NULL) dct_text_put(t, "\\u%04x", (unsigned)*p);
        else t->out(t->ctx, p, 1);
    }
    dct_text_put(t, "\"");
}

static void put_named_string(const dct_text *t, const char *name, const char *text) {
    dct_text_put(t, "\"%s\":", name);
    put_string(t, text);
    dct_text_put(t, ",");
}

/* Ids and numbers that may be none: -1. */
static void put_id(const dct_text *t, uint32_t id) {
    if (id == DCT_NONE) dct_text_put(t, "-1");
    else dct_text_put(t, "%" PRIu32, id);
}

static void put_ids(const dct_text *t, const uint32_t *ids, uint32_t n) {
    dct_text_put(t, "[");
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0) dct_text_put(t, ",");
        put_id(t, ids[i]);
    }
    dct_text_put(t, "]");
}

/* ---- the plan as a whole ---- */

static void put_model(const dct_text *t, const dct_plan *plan) {
    put_named_string(t, "name", plan->model_name);
    put_named_string(t, "arch", plan->arch);
    dct_text_put(t, "\"fingerprint\":\"%016" PRIx64 "\",\"parameters\":%" PRIu64 ",\"tensor_bytes\":%" PRIu64 ",\n",
                 plan->fingerprint, plan->n_params, plan->tensor_bytes);
}

/* What each member of a family has of its own, beside its phases. */
static void put_bounds(const dct_text *t, const dct_plan *member) {
    const dct_bounds *b = &member->bounds;
    char type_k[16], type_v[16];
    dct_text_put(t,
                 "\"bounds\":{\"ctx\":%u,\"max_input\":%u,\"max_output\":%u,\"ubatch\":%u,\"slots\":%u,\"threads\":%u,"
                 "\"type_k\":\"%s\",\"type_v\":\"%s\",\"overlap\":%s},\n",
                 b->n_ctx, b->n_input, b->n_output, b->ubatch, b->slots, b->threads, dct_type_flag(b->type_k, type_k),
                 dct_type_flag(b->type_v, type_v), b->overlap ? "true" : "false");
    dct_text_put(t, "\"est_us_per_token\":%" PRIu64 ",\"roofline_us_per_token\":%" PRIu64 ",\n",
                 dct_thousandths(member->est_ms_per_token), dct_thousandths(member->roofline_ms_per_token));
    dct_text_put(t, "\"kv_bytes\":%" PRIu64 ",\"load_bytes\":%" PRIu64 ",\"height_bytes\":%" PRIu64 ",\n",
                 member->region_bytes[DCT_REGION_KV], dct_plan_arena_load(member), dct_plan_arena_height(member));
}

static void put_region(const dct_text *t, const dct_plan *plan, dct_region region) {
    dct_text_put(t, "%s{\"name\":\"%s\",\"bytes\":%" PRIu64 ",\"items\":[", region > 0 ? ",\n" : "", dct_region_name(region),
                 dct_plan_region_bytes(plan, region));
    const char *separator = "";
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const dct_item *item = &plan->items[i];
        if (item->region != region) continue;
        dct_text_put(t, "%s[", separator);
        put_string(t, item->name);
        dct_text_put(t, ",%" PRIu64 ",%d]", item->bytes, item->outside ? 1 : 0);
        separator = ",";
    }
    dct_text_put(t, "]}");
}

static void put_envelope(const dct_text *t, const dct_plan *plan) {
    dct_text_put(t, "\"m_max_bytes\":%" PRIu64 ",\"item_columns\":[\"name\",\"bytes\",\"outside\"],\"regions\":[\n",
                 plan->m_max_bytes);
    for (int region = 0; region < DCT_REGION_COUNT; region++) put_region(t, plan, (dct_region)region);
    dct_text_put(t, "],\n\"paints\":[");
    for (int paint = 0; paint < DCT_PAINT_COUNT; paint++) {
        dct_text_put(t, "%s\"%s\"", paint > 0 ? "," : "", dct_paint_label((dct_paint)paint));
    }
    dct_text_put(t, "],\n");
}

/* ---- a phase ---- */

static const char *format_name(dct_format format) {
    switch (format) {
    case DCT_FMT_F32: return "f32";
    case DCT_FMT_I32: return "i32";
    case DCT_FMT_Q8: return "q8";
    case DCT_FMT_WEIGHT: return "packed weight";
    case DCT_FMT_KV: return "cache";
    case DCT_FMT_KV_ROWS: return "f32 laid out as a cache";
    case DCT_FMT_BYTES: return "bytes";
    }
    return "?";
}

/* `first` and `last` are the ops between which the bytes are taken: those of the value whose bytes these are. */
static void put_value(const dct_text *t, const dct_phase *phase, const dct_plan_lives *lives, dct_value_id id) {
    const dct_value *v = &phase->graph.values[id];
    const dct_place *place = &phase->places[lives->root[id]];
    dct_text_put(t, "[");
    put_string(t, v->name);
    dct_text_put(t, ",%d,%" PRIu64 ",%" PRIu64 ",\"%s\",%u,%u,", place->region, place->offset, v->bytes, format_name(v->format),
                 v->rows, v->cols);
    put_id(t, lives->first[id]);
    dct_text_put(t, ",");
    put_id(t, lives->last[id]);
    dct_text_put(t, ",");
    put_id(t, v->alias_of);
    dct_text_put(t, ",%d]", place->region == DCT_REGION_ARENA ? (int)dct_paint_of(&phase->graph, id) : -1);
}

static void put_values(const dct_text *t, const dct_phase *phase, const dct_plan_lives *lives) {
    dct_text_put(t, "\"value_columns\":[\"name\",\"region\",\"offset\",\"bytes\",\"format\",\"rows\",\"cols\",\"first\",\"last\","
                    "\"alias_of\",\"paint\"],\"values\":[\n");
    for (dct_value_id v = 0; v < phase->graph.n_values; v++) {
        if (v > 0) dct_text_put(t, ",\n");
        put_value(t, phase, lives, v);
    }
    dct_text_put(t, "],\n");
}

static void put_ops(const dct_text *t, const dct_phase *phase) {
    dct_text_put(t, "\"op_columns\":[\"kind\",\"in\",\"out\",\"scratch\"],\"ops\":[\n");
    for (dct_op_id i = 0; i < phase->graph.n_ops; i++) {
        const dct_op *op = &phase->graph.ops[i];
        dct_text_put(t, "%s[\"%s\",", i > 0 ? ",\n" : "", dct_op_info_of(op->kind)->name);
        put_ids(t, op->in, op->n_in);
        dct_text_put(t, ",");
        put_ids(t, op->out, op->n_out);
        dct_text_put(t, ",");
        put_id(t, phase->scratch[i]);
        dct_text_put(t, "]");
    }
    dct_text_put(t, "],\n");
}

static void put_steps(const dct_text *t, const dct_phase *phase) {
    dct_text_put(t, "\"step_columns\":[\"ops\",\"worker_first\",\"n_workers\",\"est_ns\",\"waits\"],\"steps\":[\n");
    for (uint32_t s = 0; s < phase->n_steps; s++) {
        const dct_step *step = &phase->steps[s];
        dct_text_put(t, "%s[", s > 0 ? ",\n" : "");
        put_ids(t, step->ops, step->n_ops);
        dct_text_put(t, ",%u,%u,%" PRIu64 ",", step->worker_first, step->n_workers, dct_thousandths(step->est_us));
        put_ids(t, phase->waits + step->wait_begin, step->n_waits);
        dct_text_put(t, "]");
    }
    dct_text_put(t, "]");
}

static dct_status put_phase(const dct_text *t, const dct_plan *member, const dct_phase *phase, dct_arena *work, dct_err *err) {
    const dct_certificate *cert = &phase->cert;
    dct_plan_lives lives;
    dct_status status = dct_plan_find_lives(phase, work, &lives, err);
    if (status != DCT_OK) return status;
    dct_text_put(t, "{");
    put_named_string(t, "name", phase->name);
    dct_text_put(t, "\"rows\":%u,\"buffers\":%u,\"waits\":%u,\"begin\":%" PRIu64 ",\n", phase->rows, phase->n_buffers,
                 phase->n_waits, dct_plan_arena_begin(member, phase));
    dct_text_put(t, "\"certificate\":{\"load\":%" PRIu64 ",\"height\":%" PRIu64 ",\"optimal\":%s,\"nodes\":%" PRIu64 ",",
                 cert->load_bytes, cert->height_bytes, cert->optimal ? "true" : "false", cert->nodes);
    dct_text_put(t, "\"op\":%u,\"step\":%u,\"values\":", cert->op, dct_step_of(phase, cert->op));
    put_ids(t, cert->values, cert->n_values);
    dct_text_put(t, "},\n");
    put_values(t, phase, &lives);
    put_ops(t, phase);
    put_steps(t, phase);
    dct_text_put(t, "}");
    return DCT_OK;
}

/* ---- a member ---- */

static dct_status put_member(const dct_text *t, const dct_plan *member, dct_arena *work, dct_err *err) {
    dct_status status = DCT_OK;
    put_bounds(t, member);
    dct_text_put(t, "\"phases\":[\n");
    for (uint32_t i = 0; i < member->n_phases && status == DCT_OK; i++) {
        if (i > 0) dct_text_put(t, ",\n");
        status = put_phase(t, member, &member->phases[i], work, err);
    }
    dct_text_put(t, "]");
    return status;
}

/* The largest member is the plan itself, as it is in the record. */
static dct_status put_family(const dct_text *t, const dct_plan *plan, dct_arena *work, dct_err *err) {
    dct_status status = put_member(t, plan, work, err);
    dct_text_put(t, ",\n\"smaller\":[");
    for (uint32_t i = 0; i < plan->n_smaller && status == DCT_OK; i++) {
        dct_text_put(t, i > 0 ? ",\n{" : "{");
        status = put_member(t, &plan->smaller[i], work, err);
        dct_text_put(t, "}");
    }
    dct_text_put(t, "]");
    return status;
}

/* ---- the page ---- */

static void put_file(const dct_text *t, const unsigned char *bytes, size_t n) { t->out(t->ctx, (const char *)bytes, n); }

static void put_script(const dct_text *t, const unsigned char *bytes, size_t n) {
    dct_text_put(t, "<script>\n");
    put_file(t, bytes, n);
    dct_text_put(t, "</script>\n");
}

dct_status dct_plan_dump_html(const dct_plan *plan, dct_text_fn *out, void *ctx, dct_err *err) {
    dct_text t = {out, ctx};
    dct_arena work;
    dct_arena_init(&work, 0);
    dct_text_put(&t, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<meta http-equiv=\"Content-Security-Policy\" "
                     "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>");
    dct_put_escaped(&t, plan->model_name[0] != '\0' ? plan->model_name : plan->arch);
    dct_text_put(&t, ": plan</title>\n<style>\n");
    put_file(&t, page_css, sizeof page_css);
    dct_text_put(&t, "</style>\n</head>\n<body>\n");
    put_file(&t, page_html, sizeof page_html);
    dct_text_put(&t, "<script type=\"application/json\" id=\"plan\">\n{");
    put_model(&t, plan);
    put_envelope(&t, plan);
    dct_status status = put_family(&t, plan, &work, err);
    dct_arena_deinit(&work);
    dct_text_put(&t, "}\n</script>\n");
    put_script(&t, plan_js, sizeof plan_js);
    put_script(&t, picture_js, sizeof picture_js);
    put_script(&t, page_js, sizeof page_js);
    dct_text_put(&t, "</body>\n</html>\n");
    return status;
}
