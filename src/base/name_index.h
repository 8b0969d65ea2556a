/* base/name_index: finds a record by its name. An open-addressing table of record numbers + 1 (0 = free), linear probing, at
 * most half full. Records are an array of structs that begin with a dct_str. Where names come from outside, the seed depends on
 * what a file cannot know or choose freely, so that names cannot be made to meet in one slot. */
#ifndef DCT_BASE_NAME_INDEX_H
#define DCT_BASE_NAME_INDEX_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/reader.h"

typedef struct dct_name_index {
    uint32_t *slots;
    uint32_t size; /* a power of two */
    uint64_t seed;
} dct_name_index;

/* An empty table for up to n records (2^30 at most). False when there is no memory. */
static inline bool dct_name_index_init(dct_name_index *index, uint32_t n, uint64_t seed, dct_arena *arena) {
    uint32_t size = 4;
    while (size / 2 < n) size *= 2;
    *index = (dct_name_index){dct_arena_array(arena, size, sizeof *index->slots), size, seed};
    return index->slots != NULL;
}

/* The slot that holds `name`, or the free one where it would stand. */
static inline uint32_t *dct_name_index_slot(const dct_name_index *index, const void *records, size_t record_bytes, dct_str name) {
    uint32_t at = (uint32_t)dct_hash_mix(dct_hash_bytes(index->seed, name.ptr, name.len)) & (index->size - 1);
    while (index->slots[at] != 0) {
        const char *record = (const char *)records + (index->slots[at] - 1) * record_bytes;
        if (dct_str_eq(*(const dct_str *)(const void *)record, name)) break;
        at = (at + 1) & (index->size - 1);
    }
    return &index->slots[at];
}

#endif
