/* base/arena: the compile arena. A bump allocator over pages taken straight from the system, dropped whole.
 *
 * Everything that is worked out before the seal (model record, graph, plan) lives in one of these, so no code of ours
 * calls malloc and dropping the arena gives its pages back to the system at once. An arena has a byte limit: asking for
 * more returns NULL, which callers report as DCT_NO_FIT or DCT_BAD_FILE; so does a system that gives no more
 * (DCT_SYSTEM). Not thread-safe.
 */
#ifndef DCT_BASE_ARENA_H
#define DCT_BASE_ARENA_H

#include "base/status.h"

typedef struct dct_arena_chunk dct_arena_chunk;

typedef struct dct_arena {
    dct_arena_chunk *chunks; /* newest first */
    uint64_t limit_bytes;    /* no more than this is ever taken from the system; 0 = no limit */
    uint64_t taken_bytes;    /* taken from the system now */
    uint64_t peak_bytes;     /* most that was ever taken */
    uint64_t refused_bytes;  /* what the system refused last; 0: nothing */
    uint64_t n_allocs;       /* allocations so far */
    uint64_t fail_at;        /* tests: the allocation with this number (1, 2, ...) fails; 0 = never */
} dct_arena;

void dct_arena_init(dct_arena *arena, uint64_t limit_bytes);

/* Gives every page back. The arena may be used again afterwards. */
void dct_arena_deinit(dct_arena *arena);

/* Zeroed bytes, aligned to 16. NULL when the limit or the system says no. size 0 gives a valid, unusable pointer. */
void *dct_arena_alloc(dct_arena *arena, uint64_t bytes) DCT_MUST_CHECK;

/* As above for `n` items of `item_bytes`; NULL also when the product overflows. */
void *dct_arena_array(dct_arena *arena, uint64_t n, uint64_t item_bytes) DCT_MUST_CHECK;

/* A larger copy of an array: the first `old_n` items are kept. The old bytes stay in the arena until it is dropped
 * (they are extended in place when they are the newest allocation). */
void *dct_arena_grow(dct_arena *arena, void *old, uint64_t old_n, uint64_t new_n, uint64_t item_bytes) DCT_MUST_CHECK;

/* A NUL-terminated copy of n bytes. */
char *dct_arena_strndup(dct_arena *arena, const char *text, size_t n) DCT_MUST_CHECK;

/* The usual answer to a NULL from an arena: DCT_SYSTEM when the system refused, else DCT_NO_FIT. */
dct_status dct_fail_memory(dct_err *err, const dct_arena *arena, const char *what);

#endif
