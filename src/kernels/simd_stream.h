/* kernels/simd_stream: how the weights of a product with one row are asked for.
 *
 * Such a product is as fast as its weights arrive. Left to itself the processor's prefetcher keeps up only with bytes that are
 * read strictly from begin to end, and even then the arithmetic between reads costs a fifth of the rate. What reaches the rate of
 * a plain read for nearly all types (docs/PERFORMANCE.md): the weights go by in bursts, from the first tile to the last without
 * regard to where tiles end. At the begin of each, the bytes behind it are prefetched, unless the kind leaves that to the
 * processor, and one load from near its end keeps the processor from running into lines that are still under way; for weights
 * read in order it also starts the processor's prefetcher on the next page.
 */
#ifndef DCT_KERNELS_SIMD_STREAM_H
#define DCT_KERNELS_SIMD_STREAM_H

#include <stdbool.h>
#include <stdint.h>

typedef enum stream_kind {
    STREAM_IN_ORDER,   /* read strictly from begin to end: the load is all that the prefetcher needs */
    STREAM_PREFETCHED, /* the burst behind this one is prefetched */
    STREAM_SLOW        /* the arithmetic takes about as long as the bytes: shorter bursts, prefetched from further ahead */
} stream_kind;

/* TOUCH_BYTES: how far before the end of a burst the load lies; every burst is longer. */
enum { LONG_BURST = 4200, SHORT_BURST = 1800, SHORT_AHEAD = 3456, TOUCH_BYTES = 256 };

/* What one call reads. A unit is what is read between two looks at the stream. */
typedef struct weight_stream {
    stream_kind kind;
    uintptr_t next, end;   /* addresses of the next burst, perhaps behind the end, and of the end */
    uint64_t burst, ahead; /* bytes */
} weight_stream;

V_INLINE weight_stream stream_of(stream_kind kind, const void *begin, const void *end, uint64_t unit_bytes) {
    const uint64_t about = kind == STREAM_SLOW ? SHORT_BURST : LONG_BURST;
    const uint64_t units = (about + unit_bytes / 2) / unit_bytes, burst = (units > 0 ? units : 1) * unit_bytes;
    return (weight_stream){kind, (uintptr_t)begin, (uintptr_t)end, burst, kind == STREAM_SLOW ? SHORT_AHEAD : burst};
}

/* Bytes at `at`, perhaps behind the end of the weights. */
V_INLINE void prefetch_bytes(uintptr_t at, uint64_t bytes) {
    for (uint64_t line = 0; line < bytes; line += 64) __builtin_prefetch((const void *)(at + line));
}

/* Before the unit at `unit` is read. */
V_INLINE void stream_reaches(weight_stream *s, const void *unit) {
    const uintptr_t at = (uintptr_t)unit;
    if (at < s->next) return;
    s->next = at + s->burst;
    if (s->kind != STREAM_IN_ORDER) prefetch_bytes(at + s->ahead, s->burst);
    if (s->next <= s->end)
        (void)*(const volatile uint64_t *)(const void *)((const char *)unit + s->burst - TOUCH_BYTES);
}

/* The same, and how many units to read before the stream is to be looked at again. */
V_INLINE uint64_t stream_units(weight_stream *s, const void *unit, uint64_t unit_bytes) {
    stream_reaches(s, unit);
    return (s->next - (uintptr_t)unit + unit_bytes - 1) / unit_bytes;
}

#endif
