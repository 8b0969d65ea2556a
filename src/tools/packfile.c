/* tools/packfile: the packer on a file. Every answer is checked by the verifier before it is written. */
#include <inttypes.h>
#include <string.h>

#include "base/os.h"
#include "base/safe_text.h"
#include "base/size.h"
#include "tools/pack_svg.h"
#include "tools/pack_table.h"
#include "tools/tools.h"

/* What the search may take when neither nodes nor seconds are given and the answer matters. */
#define WANTED_NODES UINT64_C(1000000)

static bool is_late(void *deadline) { return dct_os_now_ns() >= *(const uint64_t *)deadline; }

/* A pool's name as a file and a terminal can show it. */
static const char *show_name(const dct_pack_pool *pool, dct_safe_text *room) {
    char name[64];
    size_t n = pool->name.len < sizeof name - 1 ? pool->name.len : sizeof name - 1;
    memcpy(name, pool->name.ptr, n);
    name[n] = '\0';
    return dct_safe(name, room);
}

/* A failure about one of several pools says so. */
static dct_status name_pool(const dct_pack_table *t, uint32_t pool, dct_status status, dct_err *err) {
    if (status == DCT_OK || err == NULL || t->n_pools < 2) return status;
    dct_err why = *err;
    dct_safe_text room;
    return dct_fail(err, status, "pool '%.100s': %.260s", show_name(&t->pools[pool], &room), why.message);
}

/* The last that speaks of a pool counts. */
static uint64_t capacity_of(const dct_packfile_params *params, const dct_pack_pool *pool) {
    uint64_t capacity = 0;
    for (uint32_t k = 0; k < params->n_capacities; k++) {
        const dct_packfile_capacity *c = &params->capacities[k];
        if (c->pool == NULL || dct_str_eq_z(pool->name, c->pool)) capacity = c->bytes;
    }
    return capacity;
}

static dct_status check_names(const dct_packfile_params *params, const dct_pack_table *t, dct_err *err) {
    for (uint32_t k = 0; k < params->n_capacities; k++) {
        const char *name = params->capacities[k].pool;
        uint32_t pool = 0;
        while (name != NULL && pool < t->n_pools && !dct_str_eq_z(t->pools[pool].name, name)) pool++;
        if (name != NULL && pool == t->n_pools)
            return dct_fail(err, DCT_USAGE, "a capacity for '%.100s', which is no pool", name);
    }
    return DCT_OK;
}

/* Pools share the seconds, but not the nodes. */
static dct_status pack(const dct_packfile_params *params, dct_pack_table *t, dct_arena *arena, dct_err *err) {
    uint64_t begun = dct_os_now_ns(), deadline, sum = 0;
    bool timed = params->seconds > 0;
    for (uint32_t pool = 0; pool < t->n_pools; pool++) {
        uint64_t capacity = capacity_of(params, &t->pools[pool]);
        double ns = (double)params->seconds * 1e9 * (pool + 1) / t->n_pools;
        deadline = ns < 0x1p62 ? begun + (uint64_t)ns : UINT64_MAX;
        dct_pack_params pack = {.nodes = params->nodes,
                                .capacity = params->minimize ? 0 : capacity,
                                .stop = timed ? is_late : NULL,
                                .ctx = &deadline};
        if (pack.nodes == 0 && timed) pack.nodes = UINT64_MAX;
        if (pack.nodes == 0 && (params->minimize || capacity != 0)) pack.nodes = WANTED_NODES;
        dct_status status = dct_pack_table_pack(t, pool, &pack, arena, err);
        if (status != DCT_OK) return name_pool(t, pool, status, err);
        if (!dct_add_u64(sum, t->pools[pool].packed.height, &sum))
            return dct_fail(err, DCT_NO_FIT, "the pools together are larger than can be counted");
    }
    return DCT_OK;
}

static dct_status check_capacity(uint64_t capacity, const dct_pack_result *r, dct_err *err) {
    if (capacity == 0 || r->height <= capacity) return DCT_OK;
    if (r->bound > capacity)
        return dct_fail(err, DCT_NO_FIT,
                        "the capacity is %" PRIu64 "; no packing takes less than %" PRIu64
                        " (proven), the best found takes %" PRIu64,
                        capacity, r->bound, r->height);
    return dct_fail(err, DCT_NO_FIT,
                    "the best found takes %" PRIu64 " bytes; the load is %" PRIu64 "; the capacity is %" PRIu64, r->height,
                    r->load, capacity);
}

static dct_status check_capacities(const dct_packfile_params *params, const dct_pack_table *t, dct_err *err) {
    for (uint32_t pool = 0; pool < t->n_pools; pool++) {
        dct_status status = check_capacity(capacity_of(params, &t->pools[pool]), &t->pools[pool].packed, err);
        if (status != DCT_OK) return name_pool(t, pool, status, err);
    }
    return DCT_OK;
}

static dct_str item_name(const void *table, uint32_t item) { return dct_pack_table_id(table, item); }

/* Pools lie over each other in the picture. */
static dct_status draw(const dct_packfile_params *params, const dct_pack_table *t, dct_arena *arena, dct_err *err) {
    uint32_t n = t->n_items;
    dct_pack_picture picture = {.items = t->items, .n = n, .name = item_name, .ctx = t, .optimal = true};
    uint64_t *floors = dct_arena_array(arena, n, sizeof *floors), *loads = dct_arena_array(arena, t->n_pools, sizeof *loads);
    if (floors == NULL || loads == NULL) return dct_fail_memory(err, arena, "the picture");
    for (uint32_t pool = 0; pool < t->n_pools; pool++) {
        const dct_pack_result *r = &t->pools[pool].packed;
        for (uint32_t i = 0; i < n; i++) floors[i] = t->homes[i].pool == pool ? picture.height : floors[i];
        loads[pool] = picture.height + r->load;
        picture.height += r->height;
        picture.load += r->load;
        picture.optimal = picture.optimal && r->optimal;
    }
    picture.floors = floors;
    picture.lines = loads;
    picture.n_lines = t->n_pools;
    return dct_pack_draw(&picture, params->svg, arena, err);
}

/* What is said of a pool, and of all of them. */
static void report(const dct_packfile_params *params, const dct_pack_table *t, double ms, dct_packfile_result *all) {
    *all = (dct_packfile_result){.optimal = true, .ms = ms};
    for (uint32_t pool = 0; pool < t->n_pools; pool++) {
        const dct_pack_result *r = &t->pools[pool].packed;
        dct_packfile_result one = {.load = r->load, .bound = r->bound, .height = r->height, .nodes = r->nodes,
                                   .optimal = r->optimal};
        dct_safe_text room;
        for (uint32_t i = 0; i < t->n_items; i++) one.n_items += t->homes[i].pool == pool;
        all->n_items += one.n_items;
        all->load += one.load;
        all->bound += one.bound;
        all->height += one.height;
        all->nodes += one.nodes;
        all->optimal = all->optimal && one.optimal;
        if (params->pool != NULL && t->n_pools > 1) params->pool(params->ctx, show_name(&t->pools[pool], &room), &one);
    }
}

dct_status dct_packfile(const dct_packfile_params *params, dct_packfile_result *result, dct_err *err) {
    dct_arena arena;
    dct_pack_table t = {0};
    dct_arena_init(&arena, 0);
    uint64_t begun = dct_os_now_ns();
    dct_status status = params->text != NULL ? dct_pack_table_parse(params->text, params->n_text, &arena, &t, err)
                                             : dct_pack_table_read(params->path, &arena, &t, err);
    if (status == DCT_OK) status = check_names(params, &t, err);
    if (status == DCT_OK) status = pack(params, &t, &arena, err);
    if (err != NULL && status == DCT_BAD_FILE) dct_err_name_file(err, params->path);
    if (status == DCT_OK) {
        report(params, &t, (double)(dct_os_now_ns() - begun) / 1e6, result);
        status = check_capacities(params, &t, err); /* a build must not go on with what does not fit: nothing is written then */
    }
    if (status == DCT_OK && params->output != NULL) status = dct_pack_table_save(&t, params->output, &arena, err);
    if (status == DCT_OK && params->svg != NULL) status = draw(params, &t, &arena, err);
    dct_arena_deinit(&arena);
    return status;
}
