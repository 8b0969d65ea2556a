/* exec/seat: the processor that a worker runs on, and what to do for one that was sent off its own.
 *
 * Where another process wants to run as well, the system stops a worker for milliseconds, maybe in the middle of a piece, and
 * all the others wait for that piece. The system is slow to move it to a processor that idles meanwhile, for it has just run. So
 * a worker that has waited a while, and finds that one which holds a piece does not run, changes seats with it: the stopped one
 * goes on at once where the waiting one ran, and the waiting one queues in its place, holding nothing that others need.
 *
 *     processor 0    A: in pieces ── waits ──┬── B: finishes its piece ──►
 *     processor 1    B: in a piece ─┐ the other process ───┴── A: goes on ──►
 */
#ifndef DCT_EXEC_SEAT_H
#define DCT_EXEC_SEAT_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/os.h"

typedef struct dct_seat {
    alignas(64) _Atomic uint32_t holds; /* the processor on which the worker began to take pieces, + 1; 0: it holds none */
    _Atomic uint32_t state;             /* 0: it sits where the system put it; else seat.c */
    _Atomic int32_t thread;             /* 0: none that could be moved */
    dct_os_cpus allowed;                /* where it may run; its own, others do not look */
} dct_seat;

/* The calling thread is this worker from now on. */
void dct_seat_take(dct_seat *seat);

/* It has finished the last piece. Where it was moved, it may run everywhere again. */
void dct_seat_release(dct_seat *seat);

/* The worker begins to take pieces, and was not moved before: who holds one must not be kept where another process runs. */
static inline void dct_seat_hold(dct_seat *seat) {
    if (atomic_load_explicit(&seat->state, memory_order_relaxed) != 0) dct_seat_release(seat);
    atomic_store_explicit(&seat->holds, dct_os_cpu() + 1, memory_order_release);
}

/* The calling thread is no worker any more, and runs where it might before it took the seat. */
void dct_seat_leave(dct_seat *seat);

/* For `other`, which may hold a piece that `mine` waits for. True when it should have this very processor: it was stopped here,
 * or was moved here while the caller cannot go; it runs when the caller sleeps. */
bool dct_seat_help(dct_seat *mine, dct_seat *other);

#endif
