/* engine/session: opening and closing one timeline in planned memory.
 *
 *   verify ► is there room ► reserve ► token tables ► list of weights ► [drop the header] ► reserve the rest ► workers ►
 *   populate ► load ► rehearse
 *
 * The header is dropped before weights and caches are mapped and anything is populated, so the two never stand together and
 * the peak of the process is M_max. Everything that may fail for want of memory happens here.
 */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "engine/engine.h"
#include "kernels/kernel.h"

enum { POPULATE_PIECE = 8 * 1024 * 1024 };

#ifdef DCT_SANITIZED
enum { CAN_COUNT = 0 }; /* a sanitizer's shadow is resident too */
#else
enum { CAN_COUNT = 1 };
#endif

dctms_session_params dctms_session_default_params(void) {
    dctms_session_params params;
    memset(&params, 0, sizeof params);
    params.struct_bytes = sizeof params;
    return params;
}

/* ---- where things lie ---- */

/* A persistent item. */
static dct_status need(const dctms_session *s, const char *name, uint64_t bytes, void *out, dct_err *err) {
    return dct_item_need(s->plan, &s->bases, DCT_REGION_PERSISTENT, name, bytes, out, err);
}

static dct_status bind_items(dctms_session *s, dct_err *err) {
    const dct_bounds *b = &s->plan->bounds;
    void *sampler = NULL;
    dct_status status = need(s, DCT_ITEM_SAMPLER, dct_sampler_bytes(s->n_vocab), &sampler, err);
    if (status == DCT_OK) status = need(s, DCT_ITEM_TIMELINE, (uint64_t)b->n_ctx * sizeof(dct_token), &s->timeline, err);
    if (status == DCT_OK) status = need(s, DCT_ITEM_PROMPT, ((uint64_t)b->n_input + 1) * sizeof(dct_token), &s->prompt, err);
    if (status == DCT_OK) status = need(s, DCT_ITEM_GENERATED, (uint64_t)b->n_output * sizeof(dct_token), &s->generated, err);
    if (status == DCT_OK) status = need(s, DCT_ITEM_TEXT, 0, &s->text, err);
    if (status != DCT_OK) return status;
    dct_item_at(s->plan, &s->bases, DCT_REGION_PERSISTENT, DCT_ITEM_TEXT, &s->text_cap);
    dct_sampler_init(&s->sampler, sampler, s->n_vocab);
    return DCT_OK;
}

static void bind_text_scratch(dctms_session *s) {
    s->tokenizer.scratch = dct_item_at(s->plan, &s->bases, DCT_REGION_PERSISTENT, DCT_ITEM_TEXT_SCRATCH,
                                       &s->tokenizer.scratch_bytes);
    if (s->tokenizer.scratch == NULL) { /* over the intermediates */
        s->tokenizer.scratch = s->bases.of[DCT_REGION_ARENA];
        s->tokenizer.scratch_bytes = s->plan->region_bytes[DCT_REGION_ARENA];
        s->tokenizer.group = s->group;
    }
}

/* ---- memory ---- */

/* Mapped when the header is gone, so that the peak of mapped bytes is M_max as well. The others hold what is made of it. */
static bool is_late(dct_region r) { return r != DCT_REGION_PERSISTENT && r != DCT_REGION_RUNTIME; }

/* Each piece is a mapping of its own, wherever the system has room: what else the process maps meanwhile is never in the way. */
static dct_status map_region(dctms_group *g, uint32_t member, dct_region region, dct_err *err) {
    uint32_t piece = g->layout.part_of[member][region].piece;
    size_t bytes = (size_t)g->layout.piece_bytes[piece];
    if (g->piece_at[piece] != NULL) return DCT_OK;
    g->piece_at[piece] = dct_os_map_huge(bytes);
    if (g->piece_at[piece] != NULL) return DCT_OK;
    char what[64];
    snprintf(what, sizeof what, "%s in a reservation of %.1f MiB", dct_region_name(region),
             (double)g->layout.reserve_bytes / 1048576);
    return dct_os_fail_map(what, bytes, err);
}

static dct_status map_regions(dctms_group *g, uint32_t member, bool late, dct_err *err) {
    dct_status status = DCT_OK;
    for (dct_region r = 0; status == DCT_OK && r < DCT_REGION_COUNT; r++)
        if (is_late(r) == late) status = map_region(g, member, r, err);
    return status;
}

/* The last session gives everything back. */
static void release(dctms_group *g) {
    if (--g->n_open > 0) return;
    for (uint32_t i = 0; i < g->layout.n_pieces; i++) {
        dct_os_unmap(g->piece_at[i], (size_t)g->layout.piece_bytes[i]);
        g->piece_at[i] = NULL;
        g->is_filled[i] = false;
    }
}

static dct_status reserve(dctms_group *g, uint32_t member, dct_err *err) {
    g->n_open++;
    dct_status status = map_regions(g, member, false, err);
    if (status != DCT_OK) release(g);
    return status;
}

static uint32_t piece_of(const dctms_session *s, dct_region region) {
    return s->group->layout.part_of[s->handle->member][region].piece;
}

/* Of the regions that are mapped. */
static dct_bases bases_of(const dctms_group *g, uint32_t member) {
    dct_bases bases;
    for (uint32_t r = 0; r < DCT_REGION_COUNT; r++) {
        const dct_part *part = &g->layout.part_of[member][r];
        bases.of[r] = g->piece_at[part->piece] != NULL ? g->piece_at[part->piece] + part->offset : NULL;
    }
    return bases;
}

static dct_status reserve_late(dctms_session *s, dct_err *err) {
    dct_status status = map_regions(s->group, s->handle->member, true, err);
    s->bases = bases_of(s->group, s->handle->member);
    return status;
}

static dct_status lock(const dctms_session *s, dct_err *err) {
    const dct_group *layout = &s->group->layout;
    dct_status status = DCT_OK;
    for (dct_region r = 0; status == DCT_OK && r < DCT_REGION_COUNT; r++)
        status = dct_os_lock(s->group->piece_at[piece_of(s, r)], (size_t)layout->piece_bytes[piece_of(s, r)],
                             layout->reserve_bytes, err);
    return status;
}

typedef struct populate_run {
    char *from;
    uint64_t bytes;
    dct_progress *progress;
    _Atomic int failed;
    dct_err err;
} populate_run;

static void populate_piece(void *ctx, uint32_t piece, uint32_t worker) {
    populate_run *run = ctx;
    uint64_t begin = (uint64_t)piece * POPULATE_PIECE,
             end = begin + POPULATE_PIECE < run->bytes ? begin + POPULATE_PIECE : run->bytes;
    dct_err err = {0};
    dct_status status = dct_os_populate(run->from + begin, (size_t)(end - begin), &err);
    dct_progress_add(run->progress, end - begin, worker);
    int none = 0;
    if (status != DCT_OK && atomic_compare_exchange_strong(&run->failed, &none, 1)) run->err = err;
}

static dct_status populate(dct_pool *pool, char *from, uint64_t bytes, dct_progress *progress, dct_err *err) {
    populate_run run = {.from = from, .bytes = bytes, .progress = progress};
    dct_pool_run(pool, populate_piece, &run, (uint32_t)dct_div_up(bytes, POPULATE_PIECE));
    if (atomic_load(&run.failed) == 0) return DCT_OK;
    *err = run.err;
    return run.err.code;
}

/* The dynamic mode keeps caches and intermediates elsewhere: theirs stay untouched. */
static bool is_populated(dct_region r, bool is_dynamic) { return !is_dynamic || (r != DCT_REGION_KV && r != DCT_REGION_ARENA); }

/* Whether a region's piece is populated with it: not when another session did so, or a region before it lies there. */
static bool begins_piece(const dctms_group *g, uint32_t member, dct_region region, bool is_dynamic) {
    const dct_part *parts = g->layout.part_of[member];
    for (dct_region r = 0; r < region; r++)
        if (is_populated(r, is_dynamic) && parts[r].piece == parts[region].piece) return false;
    return is_populated(region, is_dynamic) && !g->is_filled[parts[region].piece];
}

static dct_status populate_regions(dctms_session *s, bool is_dynamic, dct_progress *progress, dct_err *err) {
    for (dct_region r = 0; r < DCT_REGION_COUNT; r++) {
        if (!begins_piece(s->group, s->handle->member, r, is_dynamic)) continue;
        char *piece = s->group->piece_at[piece_of(s, r)];
        uint64_t bytes = s->group->layout.piece_bytes[piece_of(s, r)];
        dct_status status = populate(s->pool, piece, bytes, progress, err);
        if (status != DCT_OK) return status;
        dct_os_settle_pages(piece, (size_t)bytes);
        s->group->is_filled[piece_of(s, r)] = r != DCT_REGION_WEIGHTS; /* those must be loaded too */
    }
    return DCT_OK;
}

/* ---- open ---- */

/* What is needed only while opening. */
typedef struct opening {
    dctms_model *model;
    dctms_session_params params;
    dct_arena work;      /* traces; dropped before populating */
    dct_arena late;      /* list of weights */
    dct_loader loader;
    dct_progress progress;
    dct_graph traced[DCT_PLAN_MAX_PHASES];
    const char *blamed;  /* the file that is at fault when what comes next fails */
} opening;

static void begin_progress(const dctms_group *g, uint32_t member, opening *o) {
    dct_progress *p = &o->progress;
    const dct_part *parts = g->layout.part_of[member];
    p->show = o->params.progress;
    p->ctx = o->params.progress_ctx;
    if (!g->is_filled[parts[DCT_REGION_WEIGHTS].piece]) p->total = dct_load_bytes(g->layout.plans[member]);
    for (dct_region r = 0; r < DCT_REGION_COUNT; r++)
        if (begins_piece(g, member, r, o->params.alloc == DCTMS_ALLOC_DYNAMIC)) p->total += g->layout.piece_bytes[parts[r].piece];
    dct_progress_add(p, 0, 0);
}

static void find_end_tokens(dctms_session *s) {
    const dct_tokenizer *t = s->tokenizer.tables;
    for (dct_token id = 0; id < dct_tokenizer_n_tokens(t) && s->n_end_tokens < DCT_MAX_END_TOKENS; id++)
        if (dct_tokenizer_is_end(t, id)) s->end_tokens[s->n_end_tokens++] = id;
}

/* The list first, for its alignment; the text is the rest. */
static dct_status bind_conversation(dctms_session *s, uint32_t longest, dct_err *err) {
    dctms_conversation *c = &s->conversation;
    uint32_t n_input = s->plan->bounds.n_input, n = dct_conversation_messages(n_input);
    dct_status status = need(s, DCT_ITEM_CONVERSATION, dct_conversation_bytes(n_input, longest), &c->messages, err);
    if (status != DCT_OK) return status;
    c->n_messages = n;
    c->text = (char *)(c->messages + n);
    c->n_text = (size_t)(dct_longest_text(n_input, longest) + n);
    return DCT_OK;
}

static dct_status open_text(dctms_session *s, opening *o, dct_err *err) {
    const dct_model *model = &o->model->model;
    uint64_t bytes;
    void *at = dct_item_at(s->plan, &s->bases, DCT_REGION_PERSISTENT, DCT_ITEM_TOKENS, &bytes);
    if (at == NULL) return dct_fail(err, DCT_BAD_FILE, "the plan has no item '%s'", DCT_ITEM_TOKENS);
    o->blamed = model->path;
    dct_status status = dct_tokenizer_build(model, at, bytes, &s->tokenizer.tables, err);
    if (status != DCT_OK) return status;
    o->blamed = s->handle->path;
    find_end_tokens(s);
    uint32_t longest = dct_tokenizer_longest(s->tokenizer.tables);
    if (dct_answer_bytes(s->plan->bounds.n_output, longest) > s->text_cap)
        return dct_fail(err, DCT_BAD_FILE, "the plan's item '%s' is too small", DCT_ITEM_TEXT);
    status = bind_conversation(s, longest, err);
    if (status != DCT_OK) return status;
    dct_str jinja;
    bool found;
    status = dct_model_get_str(model, "tokenizer.chat_template", &jinja, &found, err);
    if (status != DCT_OK || !found || jinja.len == 0) return status;
    status = need(s, DCT_ITEM_TEMPLATE, jinja.len, &s->jinja, err);
    if (status != DCT_OK) return status;
    memcpy(s->jinja, jinja.ptr, jinja.len);
    s->jinja_bytes = jinja.len;
    s->family = dct_chat_recognise((dct_str){s->jinja, s->jinja_bytes});
    return DCT_OK;
}

/* Only the open files stay; the record of what the header said is gone. */
static void drop_header(dctms_model *m) {
    m->is_open = false;
    m->model.meta = NULL;
    m->model.tensors = NULL;
    m->model.tensor_index = m->model.meta_index = (dct_name_index){0};
    m->model.n_meta = m->model.n_tensors = 0;
    dct_arena_deinit(&m->arena);
}

static dct_status load(dctms_session *s, opening *o, dct_err *err) {
    dct_loader *l = &o->loader;
    dct_place place;
    const uint32_t piece = piece_of(s, DCT_REGION_WEIGHTS);
    const uint64_t file = dct_model_identity(&o->model->model);
    const bool is_loaded = s->group->is_filled[piece];
    if (!dct_plan_staging(s->plan, l->staging_bytes, &place))
        return dct_fail(err, DCT_BAD_FILE, "the plan has no room for %llu bytes of staging",
                        (unsigned long long)l->staging_bytes);
    if (is_loaded && file != s->group->loaded_from[piece])
        return dct_fail(err, DCT_USAGE, "the weights that lie here are of another file, or of an earlier state of it");
    l->staging = s->bases.of[place.region] + place.offset;
    l->bases = &s->bases;
    l->skip_weights = is_loaded;
    l->pool = s->pool;
    l->progress = &o->progress;
    o->blamed = o->model->model.path;
    dct_status status = dct_load_all(l, err);
    if (status != DCT_OK) return status;
    s->group->is_filled[piece] = true;
    s->group->loaded_from[piece] = file;
    o->blamed = s->handle->path;
    return DCT_OK;
}

/* One token through each phase, so that every code and data page was used once; then the caches are as new. */
static dct_status rehearse(dctms_session *s, dct_err *err) {
    dct_token zeros[2] = {0, 0};
    uint32_t n = s->plan->bounds.n_ctx > 1 && s->plan->bounds.ubatch > 1 ? 2 : 1;
    dct_status status = dct_session_advance(s, zeros, n, err);
    s->n_past = 0;
    if (status == DCT_OK) status = dct_session_advance(s, zeros, 1, err);
    s->n_past = 0;
    s->logits = NULL;
    if (s->dynamic == NULL)
        memset(s->bases.of[DCT_REGION_KV], 0, (size_t)s->plan->region_bytes[DCT_REGION_KV]);
    return status;
}

static dct_status start_executor(dctms_session *s, opening *o, dct_err *err) {
    if (o->params.alloc == DCTMS_ALLOC_DYNAMIC) return dct_dynamic_open(s, o->traced, s->plan->n_phases, err);
    void *memory = NULL;
    memset(s->bases.of[DCT_REGION_KV], 0, (size_t)s->plan->region_bytes[DCT_REGION_KV]); /* the staging lay in one of the two */
    memset(s->bases.of[DCT_REGION_ARENA], 0, (size_t)s->plan->region_bytes[DCT_REGION_ARENA]);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < dct_plan_n_members(s->plan); i++) bytes += dct_exec_bytes(dct_plan_member(s->plan, i));
    dct_status status = dct_item_need(s->plan, &s->bases, DCT_REGION_RUNTIME, DCT_ITEM_EXEC, bytes, &memory, err);
    char *at = memory;
    for (uint32_t i = 0; i < dct_plan_n_members(s->plan) && status == DCT_OK; i++) {
        dct_bases bases = dct_member_bases(s, i);
        status = dct_exec_init(at, s->checked[i], &bases, dct_kernels_best(), s->pool, &s->exec[i], err);
        at += dct_exec_bytes(dct_plan_member(s->plan, i));
    }
    return status;
}

/* From the traces, which go before anything is loaded. The phases have the same weights. */
static void measure_staging(const dct_plan *plan, opening *o) {
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        uint64_t bytes = dct_load_staging_bytes(&o->traced[i], plan->bounds.threads);
        if (bytes > o->loader.staging_bytes) o->loader.staging_bytes = bytes;
    }
}

/* M_max holds for the process only when what lies outside the reservation keeps to its items: program, libraries, heap and stack
 * are populated as the seal would do it, and counted. */
static dct_status check_outside(const dctms_session *s, dct_err *err) {
    dct_mem_figures now;
    dct_os_populate_process(DCT_MAIN_STACK);
    dct_os_mem_figures(&now);
    const dct_group *layout = &s->group->layout;
    uint64_t resident = now.rss_anon + now.rss_file;
    uint64_t outside = resident > layout->reserve_bytes ? resident - layout->reserve_bytes : 0;
    uint64_t allowed = layout->outside_bytes - dct_group_kernel_bytes(layout);
    if (!CAN_COUNT || outside <= allowed) return DCT_OK;
    return dct_fail(err, DCT_NO_FIT, "program, libraries, heap and stack take %.2f MiB, M_max has room for %.2f MiB of them",
                    (double)outside / 1048576, (double)allowed / 1048576);
}

/* From what is read to what is computed. */
static dct_status make_ready(dctms_session *s, opening *o, dct_err *err) {
    dct_status status = load(s, o, err);
    if (status == DCT_OK) status = start_executor(s, o, err);
    if (status == DCT_OK) o->blamed = o->model->model.path; /* whose weights may be damaged */
    if (status == DCT_OK) status = rehearse(s, err);
    if (status == DCT_OK) o->blamed = s->handle->path;
    return status;
}

/* All that follows the reservation, in which the session lies already. */
static dct_status fill(dctms_session *s, opening *o, dct_err *err) {
    dct_status status = bind_items(s, err);
    if (status == DCT_OK) status = open_text(s, o, err);
    if (status != DCT_OK) return status;
    o->blamed = o->model->model.path;
    status = dct_load_find(&o->loader, &o->late, err);
    if (status != DCT_OK) return status;
    o->blamed = s->handle->path;
    measure_staging(s->plan, o);
    drop_header(o->model);
    dct_arena_deinit(&o->work);
    status = reserve_late(s, err);
    if (status == DCT_OK) bind_text_scratch(s);
    if (status == DCT_OK) status = dct_start_workers(s->plan, &s->bases, &s->pool, err);
    if (status == DCT_OK) status = populate_regions(s, o->params.alloc == DCTMS_ALLOC_DYNAMIC, &o->progress, err);
    if (status == DCT_OK && o->params.mlock) status = lock(s, err);
    if (status == DCT_OK) status = make_ready(s, o, err);
    if (status == DCT_OK && o->params.whole_process && s->dynamic == NULL) status = check_outside(s, err);
    if (status == DCT_OK) dct_progress_add(&o->progress, 0, 0); /* the last sight is of the end */
    return status;
}

static void close_session(dctms_session *s) {
    if (s->pool != NULL) dct_pool_stop(s->pool);
    if (s->dynamic != NULL) dct_dynamic_close(s->dynamic);
    dct_arena_deinit(&s->keep);
    dctms_group *group = s->group;
    group->is_open[s->handle - group->members] = false;
    release(group); /* the session may go with it */
    dctms_group_free(group);
}

/* What this process may hold of M_max by now, or gives back: program and heap, sessions of this group, header and traces. All of
 * it, where it is there for the session. */
static uint64_t held_bytes(const opening *o, const dctms_group *g, const dct_arena *keep) {
    uint64_t bytes = g->layout.outside_bytes + o->model->arena.taken_bytes + o->work.taken_bytes + keep->taken_bytes;
    for (uint32_t i = 0; i < g->layout.n_pieces; i++)
        if (g->piece_at[i] != NULL) bytes += g->layout.piece_bytes[i];
    return o->params.whole_process ? UINT64_MAX : bytes;
}

/* The group is held by the caller, and in the end by the session. */
static dct_status open_session(opening *o, dctms_group *group, uint32_t member, dctms_session **out, dct_err *err) {
    dct_arena keep;
    dct_arena_init(&keep, 0);
    const dct_plan *plan = group->members[member].plan;
    dct_checked_plan *checked[DCT_MAX_MEMBERS] = {NULL};
    dct_defect defect;
    dct_bases bases;
    void *at = NULL;
    dct_arena *traces = o->params.alloc == DCTMS_ALLOC_DYNAMIC ? &keep : &o->work;
    begin_progress(group, member, o);
    dct_status status = DCT_OK;
    if (group->is_open[member]) status = dct_fail(err, DCT_USAGE, "model %u of this group has a session already", member);
    if (status == DCT_OK) status = dct_verify_against(plan, o->model, traces, &keep, o->traced, checked, &defect, err);
    if (status == DCT_OK) status = dct_verify_group(&group->layout, err);
    if (status == DCT_OK && !o->params.force)
        status = dct_check_room(group->layout.m_max_bytes, dct_group_kernel_bytes(&group->layout), held_bytes(o, group, &keep),
                                err);
    if (status == DCT_OK) status = reserve(group, member, err);
    if (status != DCT_OK) goto fail_keep;
    bases = bases_of(group, member);
    status = dct_item_need(plan, &bases, DCT_REGION_RUNTIME, DCT_ITEM_SESSION, sizeof(dctms_session), &at, err);
    if (status != DCT_OK) goto fail_reservation;

    dctms_session *s = at;
    memset(s, 0, sizeof *s); /* another session may have lain there */
    atomic_fetch_add(&group->owners, 1);
    group->is_open[member] = true;
    s->group = group;
    s->handle = &group->members[member];
    s->plan = plan;
    s->keep = keep;
    s->bases = bases;
    memcpy(s->checked, checked, sizeof checked);
    s->n_vocab = o->model->hp.n_vocab;
    s->pending = DCT_NO_TOKEN;
    status = fill(s, o, err);
    if (status != DCT_OK) {
        close_session(s);
        return status;
    }
    dctms_session_mark_ready(s);
    *out = s;
    return DCT_OK;

fail_reservation:
    release(group);
fail_keep:
    dct_arena_deinit(&keep);
    return status;
}

/* Opening passes over the bytes of an exclusive group's intermediates: who is refused has not begun, and may try again. */
static dct_status open_in_turn(opening *o, dctms_group *group, uint32_t member, dctms_session **out, dct_err *err) {
    dct_status status = dct_group_take_turn(group, err);
    if (status != DCT_OK) return status;
    status = open_session(o, group, member, out, err);
    dct_group_end_turn(group);
    return status;
}

dctms_status dctms_session_open(dctms_model *model, const dctms_plan *plan, const dctms_session_params *params,
                                dctms_session **session, dctms_error *err) {
    dct_err why = {0};
    opening o;
    memset(&o, 0, sizeof o);
    o.model = model;
    o.params = dctms_session_default_params();
    if (params != NULL) dct_take_params(&o.params, sizeof o.params, params, params->struct_bytes);
    dct_status status = dct_model_need_header(model, &why);
    if (status != DCT_OK) return dct_give(status, &why, err);
    status = dct_model_need_data(&model->model, &why);
    if (status == DCT_OK && model->hparams_status != DCT_OK) {
        why = model->hparams_err;
        status = model->hparams_status;
    }
    if (status != DCT_OK) return dct_give_of_file(status, model->model.path, &why, err);
    if (o.params.whole_process) status = dct_os_check_stack(DCT_MAIN_STACK, &why); /* which opening touches to its end */
    if (status != DCT_OK) return dct_give(status, &why, err);
    dct_arena_init(&o.work, 0);
    dct_arena_init(&o.late, 0);
    o.loader.model = &model->model;
    o.loader.plan = plan->plan;
    o.blamed = plan->path;
    dctms_group *group = plan->group;
    if (group == NULL) status = dct_group_of_one(plan, &group, &why);
    else atomic_fetch_add(&group->owners, 1);
    if (status == DCT_OK) status = open_in_turn(&o, group, plan->member, session, &why);
    dctms_group_free(group);
    dct_arena_deinit(&o.late);
    dct_arena_deinit(&o.work);
    return dct_give_of_file(status, o.blamed, &why, err);
}

void dctms_session_free(dctms_session *session) {
    if (session != NULL) close_session(session);
}

/* ---- facts ---- */

static _Atomic bool process_is_sealed; /* a seal is the process's, not a session's */

dctms_status dctms_seal(bool kill, bool *enforced, dctms_error *err) {
    dct_err why = {0};
    bool is_enforced = false;
    dct_status status = dct_os_check_stack(DCT_MAIN_STACK, &why);
    if (status != DCT_OK) return dct_give(status, &why, err);
    dct_os_populate_process(DCT_MAIN_STACK);
    status = dct_os_seal(kill, &is_enforced, &why);
    if (status == DCT_OK) atomic_store(&process_is_sealed, is_enforced);
    if (enforced != NULL) *enforced = is_enforced;
    return dct_give(status, &why, err);
}

void dctms_session_memory(const dctms_session *s, dctms_memory *out) {
    dct_mem_figures now;
    dct_os_mem_figures(&now);
    memset(out, 0, sizeof *out);
    out->m_max_bytes = s->group->layout.m_max_bytes;
    out->vm_hwm_bytes = now.vm_hwm;
    out->vm_peak_bytes = now.vm_peak;
    out->vm_size_bytes = now.vm_size;
    out->rss_anon_bytes = now.rss_anon;
    out->vm_swap_bytes = now.vm_swap;
    out->min_faults = now.min_faults - s->min_faults;
    out->maj_faults = now.maj_faults - s->maj_faults;
    out->sealed = atomic_load(&process_is_sealed);
}

void dctms_session_mark_ready(dctms_session *s) {
    dct_mem_figures now;
    dct_os_mem_figures(&now);
    s->min_faults = now.min_faults;
    s->maj_faults = now.maj_faults;
}

uint64_t dctms_session_waits(const dctms_session *s) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < DCT_MAX_MEMBERS; i++) n += s->exec[i] == NULL ? 0 : dct_exec_waits(s->exec[i]);
    return n;
}

uint32_t dctms_session_n_vocab(const dctms_session *s) { return s->n_vocab; }
const dctms_tokenizer *dctms_session_tokenizer(const dctms_session *s) { return &s->tokenizer; }
