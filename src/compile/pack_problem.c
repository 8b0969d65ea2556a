#include "compile/pack_problem.h"

#include "base/size.h"
#include "compile/sort.h"

typedef unsigned long long ull;

static dct_status check_pieces(const dct_pack_item *item, uint32_t i, dct_err *err) {
    uint32_t from = item->begin;
    for (uint32_t k = 0; k < item->n_pieces; k++) {
        const dct_pack_piece *p = &item->pieces[k];
        if (p->begin < from || p->begin >= p->end || p->end > item->end)
            return dct_fail(err, DCT_USAGE, "item %u: piece %u..%u is out of place", i, p->begin, p->end);
        if (p->low >= p->high || p->high > item->size) {
            return dct_fail(err, DCT_USAGE, "item %u: bytes %llu..%llu are not bytes of its %llu", i, (ull)p->low, (ull)p->high,
                            (ull)item->size);
        }
        from = p->end;
    }
    return DCT_OK;
}

static dct_status check_items(const dct_pack_item *items, uint32_t n, dct_err *err) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const dct_pack_item *item = &items[i];
        if (item->begin >= item->end)
            return dct_fail(err, DCT_USAGE, "item %u: its lifetime %u..%u is empty", i, item->begin, item->end);
        if (!dct_is_pow2(item->align))
            return dct_fail(err, DCT_USAGE, "item %u: alignment %llu is not a power of two", i, (ull)item->align);
        if (item->fixed && item->offset % item->align != 0)
            return dct_fail(err, DCT_USAGE, "item %u: its fixed offset is not aligned", i);
        uint64_t end = item->fixed ? item->offset : 0;
        if (!dct_add_u64(sum, item->size, &sum) || !dct_add_u64(sum, item->align, &sum) || !dct_add_u64(end, sum, &end) ||
            end > UINT64_MAX / 8) {
            return dct_fail(err, DCT_USAGE, "item %u: the sizes add up to more than 2^61", i);
        }
        dct_status status = check_pieces(item, i, err);
        if (status != DCT_OK) return status;
    }
    return DCT_OK;
}

static dct_status cut_pieces(dct_problem *p, dct_arena *arena, dct_err *err) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < p->n; i++) most += p->items[i].n_pieces > 0 ? p->items[i].n_pieces : 1;
    if (most > UINT32_MAX / 4) return dct_fail(err, DCT_USAGE, "%llu pieces of items are too many", (ull)most);
    p->pieces = dct_arena_array(arena, most, sizeof *p->pieces);
    p->first_piece = dct_arena_array(arena, (uint64_t)p->n + 1, sizeof *p->first_piece);
    if (p->pieces == NULL || p->first_piece == NULL) return dct_fail_memory(err, arena, "the packing problem");
    for (uint32_t i = 0; i < p->n; i++) {
        const dct_pack_item *item = &p->items[i];
        p->first_piece[i] = p->n_pieces;
        if (item->n_pieces == 0 && item->size > 0)
            p->pieces[p->n_pieces++] = (dct_problem_piece){0, item->size, item->begin, item->end, i};
        for (uint32_t k = 0; k < item->n_pieces; k++) {
            const dct_pack_piece *piece = &item->pieces[k];
            if (piece->low > 0 || piece->high < item->size) p->shaped = true;
            p->pieces[p->n_pieces++] = (dct_problem_piece){piece->low, piece->high, piece->begin, piece->end, i};
        }
    }
    p->first_piece[p->n] = p->n_pieces;
    return DCT_OK;
}

/* Walks begins and ends in time; at equal times ends come first, because lifetimes are half-open. */
static dct_status find_load(dct_problem *p, dct_arena *arena, dct_err *err) {
    uint32_t n_keys = 2 * p->n_pieces;
    dct_sort_key *keys = dct_arena_array(arena, n_keys, sizeof *keys);
    if (keys == NULL) return dct_fail_memory(err, arena, "the load");
    for (uint32_t k = 0; k < p->n_pieces; k++) {
        keys[2 * k] = (dct_sort_key){p->pieces[k].end, 0, k};
        keys[2 * k + 1] = (dct_sort_key){p->pieces[k].begin, 1, k};
    }
    dct_sort_keys(keys, n_keys);
    uint64_t live = 0;
    p->load_at = p->n > 0 ? p->items[0].begin : 0;
    for (uint32_t k = 0; k < n_keys; k++) {
        const dct_problem_piece *piece = &p->pieces[keys[k].index];
        if (keys[k].second == 0) {
            live -= piece->high - piece->low;
            continue;
        }
        live += piece->high - piece->low;
        if (live > p->load) {
            p->load = live;
            p->load_at = piece->begin;
        }
    }
    return DCT_OK;
}

void dct_problem_set_items(dct_problem *p, const dct_pack_item *items) {
    p->items = items;
    p->bound = p->load;
    for (uint32_t k = 0; k < p->n_pieces; k++) {
        const dct_pack_item *item = &items[p->pieces[k].item];
        uint64_t end = p->pieces[k].high + (item->fixed ? item->offset : 0); /* the lowest place of an item is 0 */
        if (end > p->bound) p->bound = end;
    }
}

dct_status dct_problem_make(const dct_pack_item *items, uint32_t n, const uint64_t *conflict, dct_arena *arena, dct_problem *out,
                            dct_err *err) {
    dct_problem p = {.items = items, .n = n, .conflict = conflict};
    dct_status status = check_items(items, n, err);
    if (status == DCT_OK) status = cut_pieces(&p, arena, err);
    if (status == DCT_OK) status = find_load(&p, arena, err);
    if (status != DCT_OK) return status;
    dct_problem_set_items(&p, items);
    *out = p;
    return DCT_OK;
}
