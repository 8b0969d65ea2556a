/* tools/packfile: the packer on a file. Every answer is checked by the verifier before it is written. */
#include <inttypes.h>

#include "base/os.h"
#include "tools/pack_svg.h"
#include "tools/pack_table.h"
#include "tools/tools.h"
#include "verify/packing.h"

/* What the search may take when neither nodes nor seconds are given and the answer matters. */
#define WANTED_NODES UINT64_C(1000000)

static bool is_late(void *deadline) { return dct_os_now_ns() >= *(const uint64_t *)deadline; }

/* Where the bytes of each piece lie, for the verifier. */
static dct_status verify(const dct_pack_item *items, uint32_t n, uint64_t height, dct_arena *arena, dct_err *err) {
    uint64_t n_pieces = 0, found;
    for (uint32_t i = 0; i < n; i++) n_pieces += items[i].n_pieces > 0 ? items[i].n_pieces : 1;
    dct_packed *list = dct_arena_array(arena, n_pieces, sizeof *list);
    if (list == NULL) return dct_fail_memory(err, arena, "the check of a packing");
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = items[i].offset;
        if (at % items[i].align != 0) return dct_fail(err, DCT_BUG, "item %u is not aligned", i);
        if (items[i].n_pieces == 0 && items[i].size > 0)
            list[used++] = (dct_packed){at, at + items[i].size, items[i].begin, items[i].end, i};
        for (uint32_t k = 0; k < items[i].n_pieces; k++) {
            const dct_pack_piece *p = &items[i].pieces[k];
            list[used++] = (dct_packed){at + p->low, at + p->high, p->begin, p->end, i};
        }
    }
    dct_status status = dct_verify_packing(list, used, arena, &found, err);
    if (status == DCT_OK && found != height)
        status = dct_fail(err, DCT_BUG, "the height is %" PRIu64 ", not %" PRIu64, found, height);
    return status;
}

dct_status dct_pack_table_pack(dct_pack_table *t, const dct_pack_params *params, dct_arena *arena, dct_pack_result *result,
                               dct_err *err) {
    uint32_t n = (uint32_t)(t->n_lines - 1);
    dct_status status = dct_pack(t->items, n, NULL, params, arena, result, err);
    if (status == DCT_USAGE) { /* the message stays */
        status = DCT_BAD_FILE;
        if (err != NULL) err->code = status;
    }
    return status == DCT_OK ? verify(t->items, n, result->height, arena, err) : status;
}

static dct_status pack(const dct_packfile_params *params, dct_pack_table *t, dct_arena *arena, dct_pack_result *result,
                       dct_err *err) {
    uint64_t deadline = dct_os_now_ns() + (uint64_t)((double)params->seconds * 1e9);
    bool timed = params->seconds > 0;
    dct_pack_params pack = {.nodes = params->nodes,
                            .capacity = params->minimize ? 0 : params->capacity,
                            .stop = timed ? is_late : NULL,
                            .ctx = &deadline};
    if (pack.nodes == 0 && timed) pack.nodes = UINT64_MAX;
    if (pack.nodes == 0 && (params->minimize || params->capacity != 0)) pack.nodes = WANTED_NODES;
    return dct_pack_table_pack(t, &pack, arena, result, err);
}

static dct_status check_capacity(uint64_t capacity, const dct_pack_result *r, dct_err *err) {
    if (capacity == 0 || r->height <= capacity) return DCT_OK;
    if (r->bound > capacity)
        return dct_fail(err, DCT_NO_FIT,
                        "the capacity is %" PRIu64 "; no packing takes less than %" PRIu64
                        " (proven), the best found takes %" PRIu64,
                        capacity, r->bound, r->height);
    return dct_fail(err, DCT_NO_FIT, "needs %" PRIu64 " bytes, the capacity is %" PRIu64 " (a better packing may exist)",
                    r->height, capacity);
}

static dct_str item_name(const void *table, uint32_t item) { return dct_pack_table_id(table, item); }

dct_status dct_packfile(const dct_packfile_params *params, dct_packfile_result *result, dct_err *err) {
    dct_arena arena;
    dct_pack_table t = {0};
    dct_pack_result packed;
    dct_arena_init(&arena, 0);
    uint64_t begun = dct_os_now_ns();
    dct_status status = dct_pack_table_read(params->path, &arena, &t, err);
    if (status == DCT_OK) status = pack(params, &t, &arena, &packed, err);
    if (err != NULL && status == DCT_BAD_FILE) dct_err_name_file(err, params->path);
    if (status == DCT_OK) {
        *result = (dct_packfile_result){.n_items = t.n_lines - 1,
                                        .load = packed.load,
                                        .bound = packed.bound,
                                        .height = packed.height,
                                        .nodes = packed.nodes,
                                        .optimal = packed.optimal,
                                        .ms = (double)(dct_os_now_ns() - begun) / 1e6};
        if (params->output != NULL) status = dct_pack_table_save(&t, params->output, &arena, err);
    }
    if (status == DCT_OK && params->svg != NULL) {
        const dct_pack_picture picture = {t.items, (uint32_t)(t.n_lines - 1), item_name, &t};
        status = dct_pack_draw(&picture, &packed, params->svg, &arena, err);
    }
    if (status == DCT_OK) status = check_capacity(params->capacity, &packed, err);
    dct_arena_deinit(&arena);
    return status;
}
