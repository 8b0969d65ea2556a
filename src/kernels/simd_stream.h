/* kernels/simd_stream: how the weights of a product with one row are asked for.
 *
 * Such a product is as fast as its weights arrive. Left to itself the processor's prefetcher keeps up only with bytes that are
 * read strictly from begin to end, and even then the arithmetic between reads costs a fifth of the rate. What reaches nine
 * tenths of a plain read's rate for nearly all types (docs/PERFORMANCE.md): bursts of prefetches some way ahead, each followed
 * by one load from near the end of an earlier burst, which keeps the processor from running into lines that are still under way.
 */
#ifndef DCT_KERNELS_SIMD_STREAM_H
#define DCT_KERNELS_SIMD_STREAM_H

#include <stdbool.h>
#include <stdint.h>

enum { AHEAD = 3456, BURST_BYTES = 2304, TOUCH_BYTES = 256 }; /* bursts are of about BURST_BYTES */

/* Asks for `bytes` that lie AHEAD of `at`, perhaps behind the end of the weights. */
V_INLINE void ask_ahead(const void *at, uint64_t bytes) {
    for (uint64_t line = 0; line < bytes; line += 64) __builtin_prefetch((const void *)((uintptr_t)at + AHEAD + line));
}

/* Waits for the end of `bytes` of weights at `at`, in the order of things: what follows is not begun long before it is there. */
V_INLINE void wait_for(const void *at, uint64_t bytes) {
    if (bytes >= TOUCH_BYTES) (void)*(const volatile uint64_t *)(const void *)((const char *)at + bytes - TOUCH_BYTES);
}

#endif
