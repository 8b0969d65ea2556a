#include "exec/seat.h"

#include <string.h>

/* Who moves a worker takes its seat from SITS to BEING_MOVED first, so that one alone does; the worker itself ends MOVED. */
enum { SITS = 0, BEING_MOVED, MOVED };

enum {
    LOOK_NS = 3000, /* between two looks at a thread's clock */
    RAN_NS = 1000   /* it runs when the clock went on by so much */
};

void dct_seat_take(dct_seat *seat) {
    int32_t thread = dct_os_thread_id();
    if (atomic_load_explicit(&seat->thread, memory_order_relaxed) == thread) return;
    atomic_store(&seat->thread, dct_os_cpus_allowed(&seat->allowed) ? thread : 0);
}

void dct_seat_release(dct_seat *seat) {
    atomic_store_explicit(&seat->holds, 0, memory_order_release);
    if (atomic_load_explicit(&seat->state, memory_order_relaxed) != MOVED) return;
    dct_os_keep_thread(0, &seat->allowed);
    atomic_store(&seat->state, SITS);
}

void dct_seat_leave(dct_seat *seat) {
    atomic_store(&seat->holds, 0); /* before the look: who begins to move it behind the look finds that it holds nothing */
    while (atomic_load(&seat->state) == BEING_MOVED) dct_os_yield(); /* one system call of another worker */
    dct_seat_release(seat);
    atomic_store(&seat->thread, 0); /* until it takes the seat again, where it may run is its own business */
}

static bool is_stopped(int32_t thread) {
    uint64_t before = dct_os_thread_ns(thread), end = dct_os_now_ns() + LOOK_NS;
    while (dct_os_now_ns() < end) dct_cpu_relax();
    return dct_os_thread_ns(thread) - before < RAN_NS;
}

/* False when somebody else moves it, when it holds something else by now, or when the system refuses. */
static bool move(dct_seat *seat, uint32_t holds, int32_t thread, uint32_t cpu) {
    dct_os_cpus one;
    uint32_t state = SITS, bits = 8 * sizeof *one.bits;
    if (cpu >= 8 * sizeof one.bits || !atomic_compare_exchange_strong(&seat->state, &state, BEING_MOVED)) return false;
    memset(&one, 0, sizeof one);
    one.bits[cpu / bits] = 1ul << cpu % bits;
    bool moved = atomic_load(&seat->holds) == holds && dct_os_keep_thread(thread, &one);
    atomic_store(&seat->state, moved ? MOVED : SITS);
    return moved;
}

bool dct_seat_help(dct_seat *mine, dct_seat *other) {
    uint32_t holds = atomic_load_explicit(&other->holds, memory_order_acquire), here = dct_os_cpu();
    int32_t thread = atomic_load(&other->thread);
    if (holds == 0 || thread == 0 || here == UINT32_MAX) return false;
    if (holds == here + 1) return true;
    if (!is_stopped(thread)) return false;
    if (!move(other, holds, thread, here)) return false;
    return !move(mine, atomic_load(&mine->holds), 0, holds - 1);
}
