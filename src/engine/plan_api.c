/* engine/plan_api: bounds from what the caller says and leaves open, compiling, and plans in files. */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "engine/engine.h"
#include "engine/report.h"

enum { MAX_PROFILE_BYTES = 16384, MAX_PLAN_BYTES = 1 << 30 };
enum { DEFAULT_CTX = 4096, DEFAULT_OUTPUT = 512, DEFAULT_UBATCH = 512, MAX_THREADS = 512 };

dctms_plan_params dctms_plan_default_params(void) {
    dctms_plan_params params;
    memset(&params, 0, sizeof params);
    params.struct_bytes = sizeof params;
    return params;
}

/* ---- bounds ---- */

static dct_status cache_type(const char *name, size_t cap, const char *which, uint32_t head_dim, dct_dtype *out, dct_err *err) {
    if (memchr(name, '\0', cap) == NULL) return dct_fail(err, DCT_USAGE, "the name of the type of %s does not end", which);
    if (name[0] == '\0') {
        *out = DCT_TYPE_F16;
        return DCT_OK;
    }
    if (!dct_dtype_of_name(name, out) || (!dct_dtype_is_float(*out) && *out != DCT_TYPE_Q8_0))
        return dct_fail(err, DCT_USAGE, "'%s' is no type for %s (f32, f16, bf16, q8_0)", name, which);
    if (*out == DCT_TYPE_Q8_0 && head_dim % 32 != 0)
        return dct_fail(err, DCT_USAGE, "q8_0 for %s needs heads of a multiple of 32 elements, this model has %u", which,
                        head_dim);
    return DCT_OK;
}

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Where nobody says, as many as there are processors, and no more than there can be. */
static uint32_t threads_meant(uint32_t wanted) {
    return wanted != 0 ? wanted : min_u32(dct_os_usable_cpus(NULL, NULL, 0), MAX_THREADS);
}

dct_status dct_choose_threads(uint32_t wanted, uint32_t *threads, dct_err *err) {
    *threads = threads_meant(wanted);
    if (*threads <= MAX_THREADS) return DCT_OK;
    return dct_fail(err, DCT_USAGE, "%u threads are more than %d", *threads, MAX_THREADS);
}

/* Chunks that were left open; and the last of the context steps is the plan's context, with its chunk. */
static dct_status take_steps(dctms_plan_params *p, dct_err *err) {
    dctms_ctx_step *steps = p->ctx_steps;
    uint32_t n = p->n_ctx_steps;
    if (n == 0) return DCT_OK;
    if (n > DCTMS_MAX_CTX_STEPS)
        return dct_fail(err, DCT_USAGE, "%u context steps, at most %d are possible", n, DCTMS_MAX_CTX_STEPS);
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].n_ctx < 2)
            return dct_fail(err, DCT_USAGE, "a context step of %u: a prompt and an answer take 2 tokens at least",
                            steps[i].n_ctx);
        if (i > 0 && steps[i].n_ctx <= steps[i - 1].n_ctx)
            return dct_fail(err, DCT_USAGE, "context steps ascend: %u after %u", steps[i].n_ctx, steps[i - 1].n_ctx);
        if (steps[i].ubatch == 0) steps[i].ubatch = p->ubatch != 0 ? p->ubatch : DEFAULT_UBATCH;
    }
    if (p->n_ctx != 0 && p->n_ctx != steps[n - 1].n_ctx)
        return dct_fail(err, DCT_USAGE, "a context of %u tokens is not the last of the steps, %u", p->n_ctx, steps[n - 1].n_ctx);
    if (p->budget_ctx != 0) return dct_fail(err, DCT_USAGE, "context steps are given; a budget takes none of them");
    p->n_ctx = steps[n - 1].n_ctx;
    p->ubatch = steps[n - 1].ubatch;
    return DCT_OK;
}

dct_status dct_choose_bounds(const dctms_model *m, const dctms_plan_params *p, dct_bounds *b, dct_err *err) {
    memset(b, 0, sizeof *b);
    uint32_t trained = m->hp.n_ctx_train != 0 ? m->hp.n_ctx_train : DEFAULT_CTX;
    b->n_ctx = p->n_ctx != 0 ? p->n_ctx : min_u32(DEFAULT_CTX, trained);
    if (p->n_output < -1) return dct_fail(err, DCT_USAGE, "%d output tokens make no sense", p->n_output);
    if (p->n_output == -1) b->n_output = b->n_ctx / 2;
    else b->n_output = p->n_output != 0 ? (uint32_t)p->n_output : min_u32(DEFAULT_OUTPUT, b->n_ctx / 2);
    if (b->n_ctx > (1u << 30)) return dct_fail(err, DCT_USAGE, "a context of %u tokens is out of range", b->n_ctx);
    if (b->n_ctx <= b->n_output || b->n_output == 0)
        return dct_fail(err, DCT_USAGE, "a context of %u tokens leaves no room for a prompt beside %u output tokens", b->n_ctx,
                        b->n_output);
    b->n_input = b->n_ctx - b->n_output;
    b->ubatch = min_u32(p->ubatch != 0 ? p->ubatch : DEFAULT_UBATCH, b->n_input);
    b->slots = 1;
    b->logits = p->logits == DCTMS_LOGITS_ALL ? DCT_LOGITS_ALL : DCT_LOGITS_LAST;
    b->overlap = p->overlap;
    dct_status status = dct_choose_threads(p->threads, &b->threads, err);
    if (status != DCT_OK) return status;
    status = cache_type(p->type_k, sizeof p->type_k, "the K cache", m->hp.head_dim_k, &b->type_k, err);
    if (status != DCT_OK) return status;
    return cache_type(p->type_v, sizeof p->type_v, "the V cache", m->hp.head_dim_v, &b->type_v, err);
}

/* ---- compile ---- */

/* The profile that the caller names, for the workers that there will be. */
static dct_status choose_profile(const dctms_plan_params *p, dct_profile *out, dct_err *err) {
    char text[MAX_PROFILE_BYTES];
    *out = *dct_profile_default();
    if (p->cost_profile == NULL) return DCT_OK;
    dct_file file;
    dct_status status = dct_file_open(&file, p->cost_profile, err);
    if (status != DCT_OK) return status;
    if (file.bytes > sizeof text) status = dct_fail(err, DCT_BAD_FILE, "too long for a cost profile");
    if (status == DCT_OK) status = dct_file_read_at(&file, 0, text, file.bytes, err);
    if (status == DCT_OK) status = dct_profile_parse(text, file.bytes, threads_meant(p->threads), out, err);
    dct_file_close(&file);
    return status;
}

dct_status dct_compile_bounds(const dctms_model *m, const dct_request *r, const dct_bounds *bounds, dct_plan *smaller,
                              uint32_t n_smaller, dct_arena *work, dct_plan **out, dct_err *err) {
    const dctms_plan_params *p = &r->params;
    dct_compile_params c = {.model = &m->model, .hp = &m->hp, .profile = &r->profile, .pack_nodes = p->pack_nodes,
                            .bounds = *bounds, .smaller = smaller, .n_smaller = n_smaller};
    dct_items items;
    dct_status status = dct_items_measure(m, &c.bounds, n_smaller + 1, work, &items, err);
    if (status != DCT_OK) return status;
    c.extra = items.item;
    c.n_extra = items.n;
    c.staging_bytes = items.staging_bytes;
    c.kernel_bytes = items.kernel_bytes;
    c.text_scratch_bytes = items.text_scratch_bytes;
    return dct_compile(&c, work, out, err);
}

static dct_status compile_plan(const dctms_model *m, dct_request *r, dct_arena *work, dct_plan **out, dct_err *err) {
    dctms_plan_params *p = &r->params;
    dct_bounds bounds;
    dct_status status = take_steps(p, err);
    if (status == DCT_OK) status = dct_choose_bounds(m, p, &bounds, err);
    if (status != DCT_OK) return status;
    if (p->budget_ctx != 0 && p->memory_budget == 0)
        return dct_fail(err, DCT_USAGE, "a least context of %u tokens says what a budget may take; there is none", p->budget_ctx);
    if (p->budget_ctx > bounds.n_ctx)
        return dct_fail(err, DCT_USAGE, "a least context of %u tokens is more than the context of %u", p->budget_ctx,
                        bounds.n_ctx);
    status = dct_family_compile(m, r, &bounds, work, out, err);
    if (status != DCT_NO_FIT || p->budget_ctx == 0) return status;
    if (p->n_output > 0 && p->budget_ctx <= (uint32_t)p->n_output) p->budget_ctx = (uint32_t)p->n_output + 1; /* and a prompt */
    if (p->budget_ctx >= bounds.n_ctx) return status;
    status = dct_fit_context(m, r, &bounds, &p->n_ctx, err);
    if (status == DCT_OK) status = dct_choose_bounds(m, p, &bounds, err);
    return status == DCT_OK ? dct_family_compile(m, r, &bounds, work, out, err) : status;
}

/* One of the paths is "". */
static dct_status new_plan(const char *model_path, const char *path, dctms_plan **out, dct_err *err) {
    dctms_plan *plan = dct_os_map(sizeof *plan);
    if (plan == NULL) return dct_fail(err, DCT_SYSTEM, "no memory for a plan handle");
    dct_arena_init(&plan->arena, 0);
    atomic_init(&plan->owners, 1);
    plan->profile = *dct_profile_default();
    plan->model_path = dct_arena_strndup(&plan->arena, model_path, strlen(model_path));
    plan->path = dct_arena_strndup(&plan->arena, path, strlen(path));
    if (plan->model_path == NULL || plan->path == NULL) {
        dctms_plan_free(plan);
        return dct_fail(err, DCT_SYSTEM, "no memory for a plan handle");
    }
    *out = plan;
    return DCT_OK;
}

void dctms_plan_free(dctms_plan *plan) {
    if (plan == NULL || atomic_fetch_sub(&plan->owners, 1) != 1) return;
    dct_arena_deinit(&plan->arena);
    dct_os_unmap(plan, sizeof *plan);
}

/* The form of a plan file in `work`. */
static dct_status to_bytes(const dct_plan *plan, dct_arena *work, void **bytes, uint64_t *n, dct_err *err) {
    dct_status status = dct_plan_save(plan, NULL, 0, n, err);
    if (status != DCT_OK) return status;
    *bytes = dct_arena_alloc(work, *n);
    if (*bytes == NULL) return dct_fail_memory(err, work, "a plan file");
    return dct_plan_save(plan, *bytes, *n, n, err);
}

/* A copy without what the passes left in their arena, through the form that files have. */
static dct_status keep_compact(const dct_plan *compiled, dct_arena *work, dctms_plan *plan, dct_err *err) {
    void *bytes;
    uint64_t n;
    dct_status status = to_bytes(compiled, work, &bytes, &n, err);
    if (status == DCT_OK) status = dct_plan_load(bytes, n, &plan->arena, &plan->plan, err);
    if (status == DCT_OK) plan->plan->identity = compiled->identity; /* which no file has */
    return status;
}

dct_status dct_plan_hand_out(const dct_plan *compiled, const char *model_path, const dct_profile *profile, uint64_t start_ns,
                             dct_arena *work, dctms_plan **out, dct_err *err) {
    dctms_plan *plan;
    dct_status status = new_plan(model_path, "", &plan, err);
    if (status != DCT_OK) return status;
    status = keep_compact(compiled, work, plan, err);
    if (status != DCT_OK) {
        dctms_plan_free(plan);
        return status;
    }
    plan->compile_ms = (double)(dct_os_now_ns() - start_ns) * 1e-6;
    plan->profile = *profile;
    *out = plan;
    return DCT_OK;
}

dctms_status dctms_plan_compile(const dctms_model *model, const dctms_plan_params *params, dctms_plan **out, dctms_error *err) {
    dct_err why = {0};
    dct_request r = {.params = dctms_plan_default_params()};
    if (params != NULL) dct_take_params(&r.params, sizeof r.params, params, params->struct_bytes);
    dct_arena work;
    dct_plan *compiled = NULL;
    uint64_t start = dct_os_now_ns();
    dct_status status = dct_model_need_header(model, &why);
    if (status != DCT_OK) return dct_give(status, &why, err);
    if (model->hparams_status != DCT_OK)
        return dct_give_of_file(model->hparams_status, model->model.path, &model->hparams_err, err);
    status = choose_profile(&r.params, &r.profile, &why);
    if (status != DCT_OK) return dct_give_of_file(status, r.params.cost_profile, &why, err);
    dct_arena_init(&work, 0);
    status = compile_plan(model, &r, &work, &compiled, &why);
    if (status == DCT_OK) status = dct_plan_hand_out(compiled, model->model.path, &r.profile, start, &work, out, &why);
    dct_arena_deinit(&work);
    return dct_give_of_file(status, model->model.path, &why, err);
}

/* ---- files ---- */

static dct_status read_plan(const char *path, dct_arena *work, dctms_plan *plan, dct_err *err) {
    dct_file file;
    dct_status status = dct_file_open(&file, path, err);
    if (status != DCT_OK) return status;
    void *bytes = NULL;
    if (file.bytes >= MAX_PLAN_BYTES)
        status = dct_fail(err, DCT_BAD_FILE, "%llu bytes are too many for a plan", (unsigned long long)file.bytes);
    else if ((bytes = dct_arena_alloc(work, file.bytes)) == NULL) status = dct_fail_memory(err, work, "a plan file");
    if (status == DCT_OK) status = dct_file_read_at(&file, 0, bytes, file.bytes, err);
    if (status == DCT_OK) status = dct_plan_load(bytes, file.bytes, &plan->arena, &plan->plan, err);
    dct_file_close(&file);
    return status;
}

dctms_status dctms_plan_load(const char *path, dctms_plan **out, dctms_error *err) {
    dct_err why = {0};
    dct_arena work;
    dctms_plan *plan = NULL;
    dct_arena_init(&work, 0);
    dct_status status = new_plan("", path, &plan, &why);
    if (status == DCT_OK) status = read_plan(path, &work, plan, &why);
    dct_arena_deinit(&work);
    if (status != DCT_OK) dctms_plan_free(plan);
    else *out = plan;
    return dct_give_of_file(status, path, &why, err);
}

dctms_status dctms_plan_save(const dctms_plan *plan, const char *path, dctms_error *err) {
    dct_err why = {0};
    dct_arena work;
    void *bytes;
    uint64_t n;
    dct_arena_init(&work, 0);
    dct_status status = to_bytes(plan->plan, &work, &bytes, &n, &why);
    if (status == DCT_OK) status = dct_file_write_whole(path, bytes, n, &why);
    dct_arena_deinit(&work);
    return dct_give(status, &why, err);
}

/* ---- verify ---- */

/* The graphs of a plan's phases as the architecture traces them. */
static dct_status trace_phases(const dct_plan *plan, const dctms_model *m, dct_arena *arena, dct_graph *traced,
                               dct_defect *defect, dct_err *err) {
    if (m->hparams_status != DCT_OK) {
        *err = m->hparams_err;
        return m->hparams_status;
    }
    if (dct_plan_is_graph(plan)) return dct_fail(err, DCT_BAD_FILE, "the plan is of a traced graph, not of a model");
    if (plan->fingerprint != m->model.fingerprint)
        return dct_fail(err, DCT_BAD_FILE, "the plan was made for another model (%s)", plan->model_name);
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        dct_trace_params trace = dct_trace_params_of(&plan->bounds, plan->phases[i].kind);
        dct_status status = dct_arch_trace(&m->model, &m->hp, &trace, arena, &traced[i], err);
        if (status == DCT_USAGE) { /* the plan's bounds, which nobody gave on a command line */
            *defect = DCT_DEFECT_BOUNDS_WRONG;
            err->code = status = DCT_BAD_FILE;
        }
        if (status != DCT_OK) return status;
    }
    return DCT_OK;
}

static dct_status verify_one(const dct_plan *plan, const dctms_model *m, dct_arena *traces, dct_arena *keep, dct_graph *traced,
                             dct_checked_plan **checked, dct_defect *defect, dct_err *err) {
    *defect = DCT_DEFECT_MODEL_MISMATCH;
    dct_status status = trace_phases(plan, m, traces, traced, defect, err);
    if (status != DCT_OK) return status;
    dct_arena work;
    dct_arena_init(&work, 0);
    status = dct_verify(plan, &m->model, &m->hp, traced, plan->n_phases, &work, keep, checked, defect, err);
    dct_arena_deinit(&work);
    return status;
}

dct_status dct_verify_against(const dct_plan *plan, const dctms_model *m, dct_arena *traces, dct_arena *keep, dct_graph *traced,
                              dct_checked_plan *checked[DCT_MAX_MEMBERS], dct_defect *defect, dct_err *err) {
    dct_status status = DCT_OK;
    for (uint32_t i = 0; i < plan->n_smaller && status == DCT_OK; i++) {
        dct_arena own;
        dct_arena_init(&own, 0);
        status = verify_one(&plan->smaller[i], m, &own, keep, traced, &checked[i], defect, err);
        dct_arena_deinit(&own);
    }
    if (status == DCT_OK) status = verify_one(plan, m, traces, keep, traced, &checked[plan->n_smaller], defect, err);
    if (status != DCT_OK) return status;
    status = dct_items_check(plan, m, err);
    if (status == DCT_BAD_FILE) *defect = DCT_DEFECT_ITEMS_WRONG;
    return status;
}

/* The tokenizer's tables, which take as long to measure as to build; a session measures them by building them. */
static dct_status check_tables(const dct_plan *plan, const dctms_model *m, dct_arena *work, dct_err *err) {
    uint64_t need, offset, has;
    dct_status status = dct_tokenizer_measure(&m->model, work, &need, err);
    if (status != DCT_OK) return status;
    dct_plan_find_item(plan, DCT_REGION_PERSISTENT, DCT_ITEM_TOKENS, &offset, &has);
    if (has >= need) return DCT_OK;
    return dct_fail(err, DCT_BAD_FILE, "'%s' has %llu bytes, %llu are needed", DCT_ITEM_TOKENS, (unsigned long long)has,
                    (unsigned long long)need);
}

/* What the paper counts, which no verifier needs, and which is printed as proven. */
static dct_status check_counts(const dct_plan *plan, const dctms_model *m, dct_arena *work, dct_err *err) {
    dct_plan counted = {0};
    dct_status status = dct_compile_count_paper(&counted, &m->hp, work, err);
    for (uint32_t i = 0; i < dct_plan_n_members(plan) && status == DCT_OK; i++) {
        const dct_plan *member = dct_plan_member(plan, i);
        if (member->paper_tensors != counted.paper_tensors || member->paper_buffers != counted.paper_buffers ||
            member->paper_clique != counted.paper_clique)
            status = dct_fail(err, DCT_BAD_FILE, "%u tensors in %u buffers, of which %u meet; counted are %u, %u and %u",
                              member->paper_tensors, member->paper_buffers, member->paper_clique, counted.paper_tensors,
                              counted.paper_buffers, counted.paper_clique);
    }
    return status;
}

void dct_explain_defect(dct_defect code, dct_err *why) {
    const char *text = dct_defect_text(code), *name = dct_defect_name(code), *where = why->message;
    char copy[sizeof why->message];
    if (strncmp(where, text, strlen(text)) == 0) return;
    if (strncmp(where, name, strlen(name)) == 0 && strncmp(where + strlen(name), ": ", 2) == 0) where += strlen(name) + 2;
    snprintf(copy, sizeof copy, "%s", where);
    dct_fail(why, DCT_BAD_FILE, "%s: %.250s", text, copy);
}

dctms_status dctms_plan_verify(const dctms_plan *plan, const dctms_model *model, char defect[32], dctms_error *err) {
    dct_err why = {0};
    dct_defect code = DCT_DEFECT_NONE;
    dct_arena work;
    dct_graph traced[DCT_PLAN_MAX_PHASES];
    dct_checked_plan *checked[DCT_MAX_MEMBERS];
    dct_arena_init(&work, 0);
    dct_status status = model == NULL ? dct_verify_alone(plan->plan, &code, &why) : dct_model_need_header(model, &why);
    if (status == DCT_OK && model != NULL)
        status = dct_verify_against(plan->plan, model, &work, &work, traced, checked, &code, &why);
    if (status == DCT_OK && model != NULL) {
        status = check_tables(plan->plan, model, &work, &why);
        if (status == DCT_BAD_FILE) code = DCT_DEFECT_ITEMS_WRONG;
    }
    if (status == DCT_OK && model != NULL) {
        status = check_counts(plan->plan, model, &work, &why);
        if (status == DCT_BAD_FILE) code = DCT_DEFECT_CERTIFICATE_WRONG;
    }
    dct_arena_deinit(&work);
    if (defect != NULL) snprintf(defect, 32, "%s", dct_defect_name(code));
    if (status == DCT_BAD_FILE && code != DCT_DEFECT_NONE) dct_explain_defect(code, &why);
    return dct_give(status, &why, err);
}

/* ---- report ---- */

/* What this process holds of M_max already, or gives back before, counts on the side of what there is, and so does all that the
 * kernel may keep for it, some of which it keeps now, or has charged ahead. Pages of files count as available by themselves. No
 * limit below M_max will do, whatever is free under it. */
static void find_room(uint64_t kernel_bytes, uint64_t own_bytes, dct_mem_available *out) {
    dct_mem_figures now;
    dct_os_mem_available(NULL, out);
    dct_os_mem_figures(&now);
    out->available_bytes += (now.rss_anon < own_bytes ? now.rss_anon : own_bytes) + out->charged_ahead_bytes + kernel_bytes;
    if (out->available_bytes > out->total_bytes) out->available_bytes = out->total_bytes;
}

void dct_room_for(uint64_t kernel_bytes, dct_mem_available *out) { find_room(kernel_bytes, UINT64_MAX, out); }

/* A system that does not tell (no /proc) is no reason to refuse. */
dct_status dct_check_room(uint64_t m_max_bytes, uint64_t kernel_bytes, uint64_t own_bytes, dct_err *err) {
    dct_mem_available have;
    find_room(kernel_bytes, own_bytes, &have);
    if (have.total_bytes == 0 || m_max_bytes <= have.available_bytes) return DCT_OK;
    return dct_fail(err, DCT_NO_FIT, "does not fit: needs %llu bytes (%.2f MiB, M_max), %llu bytes (%.2f MiB) are available (%s)",
                    (unsigned long long)m_max_bytes, (double)m_max_bytes / 1048576, (unsigned long long)have.available_bytes,
                    (double)have.available_bytes / 1048576, have.source);
}

static dct_status draw(const dct_plan *plan, dct_phase_kind kind, dctms_write_fn *write, void *ctx, dct_err *err) {
    if (dct_plan_phase(plan, kind) == NULL)
        return dct_fail(err, DCT_USAGE, "the plan has no such phase to draw");
    return dct_plan_dump_svg(plan, kind, write, ctx, err);
}

dctms_status dctms_plan_print(const dctms_plan *plan, dctms_plan_format format, dctms_write_fn *write, void *ctx,
                              dctms_error *err) {
    dct_err why = {0};
    dct_mem_available have;
    dct_room_for(dct_plan_kernel_bytes(plan->plan), &have);
    uint64_t staging = dct_load_staging_bytes(&plan->plan->phases[0].graph, plan->plan->bounds.threads);
    dct_report_facts facts = {plan->model_path, have.total_bytes,   have.available_bytes, have.source,
                              plan->compile_ms, staging,            &plan->profile};
    dct_status status = DCT_OK;
    switch (format) {
    case DCTMS_PLAN_TABLE:
        dct_plan_dump_table(plan->plan, &(dct_plan_room){have.available_bytes, have.source, staging}, write, ctx);
        break;
    case DCTMS_PLAN_TEXT: status = dct_plan_dump_text(plan->plan, write, ctx, &why); break;
    case DCTMS_PLAN_JSON: status = dct_report_plan_json(plan->plan, &facts, write, ctx, &why); break;
    case DCTMS_PLAN_SVG_PREFILL: status = draw(plan->plan, DCT_PHASE_PREFILL, write, ctx, &why); break;
    case DCTMS_PLAN_SVG_DECODE: status = draw(plan->plan, DCT_PHASE_DECODE, write, ctx, &why); break;
    case DCTMS_PLAN_SVG_GRAPH: status = draw(plan->plan, DCT_PHASE_GRAPH, write, ctx, &why); break;
    case DCTMS_PLAN_HTML: status = dct_plan_dump_html(plan->plan, write, ctx, &why); break;
    case DCTMS_PLAN_PAPER: status = dct_report_paper(plan->plan, &facts, write, ctx, &why); break;
    default: status = dct_fail(&why, DCT_USAGE, "a plan has no format %d", (int)format);
    }
    return dct_give(status, &why, err);
}

dctms_status dctms_plan_diff(const dctms_plan *before, const dctms_plan *after, bool json, dctms_write_fn *write, void *ctx,
                             dctms_error *err) {
    dct_err why = {0};
    dct_arena work;
    dct_arena_init(&work, 0);
    dct_status status = json ? dct_report_diff_json(before->plan, after->plan, &work, write, ctx, &why)
                             : dct_plan_dump_diff(before->plan, after->plan, &work, write, ctx, &why);
    dct_arena_deinit(&work);
    return dct_give(status, &why, err);
}

dctms_status dctms_plan_concurrency(const dctms_plan *plan, const dctms_model *model, dctms_write_fn *write, void *ctx,
                                    dctms_error *err) {
    dct_err why = {0};
    dct_status status = dct_model_need_header(model, &why);
    for (uint32_t i = dct_plan_n_members(plan->plan); i-- > 0 && status == DCT_OK;) { /* the largest first */
        dct_arena work;
        dct_graph traced[DCT_PLAN_MAX_PHASES];
        const dct_plan *member = dct_plan_member(plan->plan, i);
        dct_defect defect;
        dct_arena_init(&work, 0);
        status = trace_phases(member, model, &work, traced, &defect, &why);
        if (status == DCT_OK) status = dct_report_concurrency(member, traced, &plan->profile, &work, write, ctx, &why);
        dct_arena_deinit(&work);
    }
    return dct_give(status, &why, err);
}

void dctms_plan_get_info(const dctms_plan *handle, dctms_plan_info *info) {
    const dct_plan *plan = handle->plan;
    dct_mem_available have;
    dct_room_for(dct_plan_kernel_bytes(plan), &have);
    memset(info, 0, sizeof *info);
    info->m_max_bytes = plan->m_max_bytes;
    info->weights_bytes = plan->region_bytes[DCT_REGION_WEIGHTS];
    info->kv_bytes = plan->region_bytes[DCT_REGION_KV];
    info->persistent_bytes = plan->region_bytes[DCT_REGION_PERSISTENT];
    info->intermediate_bytes = plan->region_bytes[DCT_REGION_ARENA];
    info->runtime_bytes = plan->region_bytes[DCT_REGION_RUNTIME] + plan->outside_bytes;
    info->available_bytes = have.available_bytes;
    snprintf(info->available_source, sizeof info->available_source, "%s", have.source);
    info->n_ctx = plan->bounds.n_ctx;
    info->n_input = plan->bounds.n_input;
    info->n_output = plan->bounds.n_output;
    info->ubatch = plan->bounds.ubatch;
    info->threads = plan->bounds.threads;
    info->compile_ms = handle->compile_ms;
    info->n_ctx_steps = plan->n_smaller > 0 ? dct_plan_n_members(plan) : 0;
    for (uint32_t i = 0; i < info->n_ctx_steps; i++) {
        const dct_bounds *b = &dct_plan_member(plan, i)->bounds;
        info->ctx_steps[i] = (dctms_ctx_step){b->n_ctx, b->ubatch};
    }
    dct_phase_work step = dct_plan_phase_work(dct_plan_phase(plan, DCT_PHASE_DECODE));
    dct_phase_work chunk = dct_plan_phase_work(dct_plan_phase(plan, DCT_PHASE_PREFILL));
    info->step_weight_bytes = step.weight_bytes;
    info->prompt_row_macs = chunk.macs_per_row;
    info->prompt_run_macs = chunk.macs_per_run;
    info->logical_tensors = plan->paper_tensors;
    info->physical_buffers = plan->paper_buffers;
    info->reserve_bytes = plan->reserve_bytes;
    info->optimal = true;
    for (uint32_t m = 0; m < dct_plan_n_members(plan); m++) {
        const dct_plan *member = dct_plan_member(plan, m);
        for (uint32_t i = 0; i < member->n_phases; i++) info->optimal = info->optimal && member->phases[i].cert.optimal;
    }
}
