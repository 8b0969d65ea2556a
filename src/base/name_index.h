/* base/name_index: finds a record by its name. An open-addressing table of record numbers + 1 (0 = free), linear probing, at
 * most half full. Records are an array of structs that begin with a dct_str. */
#ifndef DCT_BASE_NAME_INDEX_H
#define DCT_BASE_NAME_INDEX_H

#include "base/hash.h"
#include "base/reader.h"

/* Slots for n records: a power of two of at least 2n. */
static inline uint32_t dct_name_index_size(uint32_t n) {
    uint32_t size = 4;
    while (size / 2 < n) size *= 2;
    return size;
}

/* The slot that holds `name`, or the free one where it would stand. */
static inline uint32_t dct_name_index_slot(const uint32_t *table, uint32_t size, uint64_t seed, const void *records,
                                           size_t record_bytes, dct_str name) {
    uint32_t slot = (uint32_t)dct_hash_mix(dct_hash_bytes(seed, name.ptr, name.len)) & (size - 1);
    while (table[slot] != 0) {
        const char *record = (const char *)records + (table[slot] - 1) * record_bytes;
        if (dct_str_eq(*(const dct_str *)(const void *)record, name)) break;
        slot = (slot + 1) & (size - 1);
    }
    return slot;
}

#endif
