#include "base/arena.h"

#include <string.h>

#include "base/os.h"
#include "base/size.h"

struct dct_arena_chunk {
    dct_arena_chunk *next;
    uint64_t bytes; /* of the whole mapping, this header included */
    uint64_t used;
    uint64_t pad; /* keeps the header a multiple of 16 */
};

enum { MIN_CHUNK = 64 * 1024, MAX_GROWTH = 4 * 1024 * 1024, ALIGN = 16 };

void dct_arena_init(dct_arena *arena, uint64_t limit_bytes) {
    memset(arena, 0, sizeof *arena);
    arena->limit_bytes = limit_bytes;
}

void dct_arena_deinit(dct_arena *arena) {
    dct_arena_chunk *chunk = arena->chunks;
    while (chunk != NULL) {
        dct_arena_chunk *next = chunk->next;
        dct_os_unmap(chunk, chunk->bytes);
        chunk = next;
    }
    arena->chunks = NULL;
    arena->taken_bytes = arena->refused_bytes = 0;
}

/* A chunk that holds at least `bytes`; chunks grow with what was taken so far, so their number stays logarithmic. */
static dct_arena_chunk *add_chunk(dct_arena *arena, uint64_t bytes) {
    uint64_t want;
    if (!dct_add_u64(bytes, sizeof(dct_arena_chunk), &want)) return NULL;
    uint64_t growth = arena->taken_bytes / 4 < MAX_GROWTH ? arena->taken_bytes / 4 : MAX_GROWTH;
    if (growth < MIN_CHUNK) growth = MIN_CHUNK;
    uint64_t room = arena->limit_bytes == 0 ? UINT64_MAX : arena->limit_bytes - arena->taken_bytes;
    if (growth > room) growth = want;
    if (want < growth) want = growth;
    if (!dct_align_u64(want, 4096, &want)) return NULL;
    if (want > room) return NULL;
    dct_arena_chunk *chunk = dct_os_map((size_t)want);
    if (chunk == NULL) {
        arena->refused_bytes = want;
        return NULL;
    }
    chunk->bytes = want;
    chunk->used = sizeof *chunk;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->taken_bytes += want;
    if (arena->taken_bytes > arena->peak_bytes) arena->peak_bytes = arena->taken_bytes;
    return chunk;
}

void *dct_arena_alloc(dct_arena *arena, uint64_t bytes) {
    arena->n_allocs++;
    if (arena->fail_at != 0 && arena->n_allocs == arena->fail_at) return NULL;
    if (!dct_align_u64(bytes, ALIGN, &bytes)) return NULL;
    dct_arena_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->bytes - chunk->used < bytes) {
        chunk = add_chunk(arena, bytes);
        if (chunk == NULL) return NULL;
    }
    void *out = (char *)chunk + chunk->used;
    chunk->used += bytes;
    return out;
}

void *dct_arena_array(dct_arena *arena, uint64_t n, uint64_t item_bytes) {
    uint64_t bytes;
    if (!dct_mul_u64(n, item_bytes, &bytes)) return NULL;
    return dct_arena_alloc(arena, bytes);
}

/* Whether `old` is the newest allocation, so that it can be extended where it lies. */
static bool is_newest(const dct_arena_chunk *chunk, const void *old, uint64_t old_room) {
    return chunk != NULL && (const char *)old + old_room == (const char *)chunk + chunk->used;
}

void *dct_arena_grow(dct_arena *arena, void *old, uint64_t old_n, uint64_t new_n, uint64_t item_bytes) {
    uint64_t old_bytes, new_bytes, old_room, new_room;
    if (!dct_mul_u64(old_n, item_bytes, &old_bytes) || !dct_mul_u64(new_n, item_bytes, &new_bytes)) return NULL;
    if (!dct_align_u64(old_bytes, ALIGN, &old_room) || !dct_align_u64(new_bytes, ALIGN, &new_room)) return NULL;
    dct_arena_chunk *chunk = arena->chunks;
    if (old_bytes != 0 && new_bytes >= old_bytes && is_newest(chunk, old, old_room) &&
        new_room - old_room <= chunk->bytes - chunk->used) {
        arena->n_allocs++;
        if (arena->fail_at != 0 && arena->n_allocs == arena->fail_at) return NULL;
        chunk->used += new_room - old_room;
        return old;
    }
    void *grown = dct_arena_alloc(arena, new_bytes);
    if (grown != NULL && old_bytes != 0) memcpy(grown, old, old_bytes < new_bytes ? old_bytes : new_bytes);
    return grown;
}

char *dct_arena_strndup(dct_arena *arena, const char *text, size_t n) {
    uint64_t bytes;
    if (!dct_add_u64(n, 1, &bytes)) return NULL;
    char *copy = dct_arena_alloc(arena, bytes);
    if (copy == NULL) return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

dct_status dct_fail_memory(dct_err *err, const dct_arena *arena, const char *what) {
    if (arena->refused_bytes != 0) return dct_os_fail_map(what, arena->refused_bytes, err);
    return dct_fail(err, DCT_NO_FIT, "no memory for %s (%llu bytes taken, limit %llu)", what,
                    (unsigned long long)arena->taken_bytes, (unsigned long long)arena->limit_bytes);
}
