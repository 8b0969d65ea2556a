/* engine/group_api: several plans in one reservation, and what is told of them. */
#include <string.h>

#include "engine/engine.h"
#include "engine/report.h"

enum { MAX_PLANS = 64 };

static dct_status fill_lists(dctms_group *g, const dctms_plan *const *plans, uint32_t n, dct_err *err) {
    const dct_plan **list = dct_arena_array(&g->arena, n, sizeof *list);
    g->held = dct_arena_array(&g->arena, n, sizeof *g->held);
    g->members = dct_arena_array(&g->arena, n, sizeof *g->members);
    g->piece_at = dct_arena_array(&g->arena, (uint64_t)n * DCT_REGION_COUNT, sizeof *g->piece_at);
    g->is_open = dct_arena_array(&g->arena, n, sizeof *g->is_open);
    g->is_filled = dct_arena_array(&g->arena, (uint64_t)n * DCT_REGION_COUNT, sizeof *g->is_filled);
    g->loaded_from = dct_arena_array(&g->arena, (uint64_t)n * DCT_REGION_COUNT, sizeof *g->loaded_from);
    if (list == NULL || g->held == NULL || g->members == NULL || g->piece_at == NULL ||
        g->is_open == NULL || g->is_filled == NULL || g->loaded_from == NULL)
        return dct_fail_memory(err, &g->arena, "several models");
    for (uint32_t i = 0; i < n; i++) {
        dctms_plan *held = (dctms_plan *)(uintptr_t)plans[i], *member = &g->members[i]; /* only its count of owners changes */
        g->held[i] = held;
        list[i] = member->plan = held->plan;
        member->model_path = held->model_path;
        member->path = held->path;
        member->compile_ms = held->compile_ms;
        member->profile = held->profile;
        member->group = g;
        member->member = i;
    }
    g->layout.plans = list;
    return DCT_OK;
}

static dct_status make(const dctms_plan *const *plans, uint32_t n, bool exclusive, dctms_group **out, dct_err *err) {
    dctms_group *g = dct_os_map(sizeof *g);
    if (g == NULL) return dct_fail(err, DCT_SYSTEM, "no memory for a group");
    dct_arena_init(&g->arena, 0);
    dct_status status = fill_lists(g, plans, n, err);
    if (status == DCT_OK) status = dct_group_lay(g->layout.plans, n, exclusive, &g->arena, &g->layout, err);
    if (status != DCT_OK) {
        dct_arena_deinit(&g->arena);
        dct_os_unmap(g, sizeof *g);
        return status;
    }
    for (uint32_t i = 0; i < n; i++) atomic_fetch_add(&g->held[i]->owners, 1);
    atomic_init(&g->owners, 1);
    *out = g;
    return DCT_OK;
}

dct_status dct_group_of_one(const dctms_plan *plan, dctms_group **out, dct_err *err) { return make(&plan, 1, false, out, err); }

dct_status dct_group_take_turn(dctms_group *g, dct_err *err) {
    bool others = false;
    if (!g->layout.exclusive || atomic_compare_exchange_strong(&g->is_running, &others, true)) return DCT_OK;
    return dct_fail(err, DCT_USAGE, "another model of this exclusive group is running");
}

void dct_group_end_turn(dctms_group *g) { atomic_store(&g->is_running, false); }

static dct_status check_plans(const dctms_plan *const *plans, uint32_t n, dct_err *err) {
    if (n == 0 || n > MAX_PLANS) return dct_fail(err, DCT_USAGE, "%u models; a group has 1 to %d", n, MAX_PLANS);
    for (uint32_t i = 0; i < n; i++) {
        if (plans[i]->group != NULL) return dct_fail(err, DCT_USAGE, "model %u is in a group already", i);
        if (dct_plan_is_graph(plans[i]->plan))
            return dct_fail(err, DCT_USAGE, "plan %u is of a traced graph; a group is of models", i);
    }
    return DCT_OK;
}

dctms_status dctms_group_make(const dctms_plan *const *plans, uint32_t n, dctms_group_mode mode, dctms_group **group,
                              dctms_error *err) {
    dct_err why = {0};
    dctms_group *g = NULL;
    dct_status status = check_plans(plans, n, &why);
    if (status == DCT_OK) status = make(plans, n, mode == DCTMS_EXCLUSIVE, &g, &why);
    if (status == DCT_OK) status = dct_verify_group(&g->layout, &why);
    if (status == DCT_OK) *group = g;
    else dctms_group_free(g);
    return dct_give(status, &why, err);
}

void dctms_group_free(dctms_group *g) {
    if (g == NULL || atomic_fetch_sub(&g->owners, 1) != 1) return;
    for (uint32_t i = 0; i < g->layout.n_plans; i++) dctms_plan_free(g->held[i]);
    dct_arena_deinit(&g->arena);
    dct_os_unmap(g, sizeof *g);
}

const dctms_plan *dctms_group_member(const dctms_group *g, uint32_t i) { return i < g->layout.n_plans ? &g->members[i] : NULL; }

void dctms_group_get_info(const dctms_group *g, dctms_group_info *info) {
    const dct_group *layout = &g->layout;
    *info = (dctms_group_info){.m_max_bytes = layout->m_max_bytes,
                               .reserve_bytes = layout->reserve_bytes,
                               .outside_bytes = layout->outside_bytes,
                               .arena_bytes = dct_group_region_bytes(layout, DCT_REGION_ARENA)};
    for (uint32_t i = 0; i < layout->n_plans; i++) info->alone_bytes += layout->plans[i]->m_max_bytes;
}

dctms_status dctms_group_print(const dctms_group *g, dctms_plan_format format, dctms_write_fn *write, void *ctx,
                               dctms_error *err) {
    dct_err why = {0};
    dct_mem_available have;
    const char *paths[MAX_PLANS];
    dct_status status = DCT_OK;
    dct_room_for(dct_group_kernel_bytes(&g->layout), &have);
    dct_report_facts facts = {NULL, have.total_bytes, have.available_bytes, have.source, 0, 0, NULL};
    for (uint32_t i = 0; i < g->layout.n_plans; i++) paths[i] = g->members[i].model_path;
    dct_plan_room room = {have.available_bytes, have.source, 0};
    if (format == DCTMS_PLAN_TABLE) dct_group_dump_table(&g->layout, &room, write, ctx);
    else if (format == DCTMS_PLAN_JSON) status = dct_report_group_json(&g->layout, paths, &facts, write, ctx, &why);
    else status = dct_fail(&why, DCT_USAGE, "several models are shown as a table or as JSON; the rest is one model's");
    return dct_give(status, &why, err);
}
