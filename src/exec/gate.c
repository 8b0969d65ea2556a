/* Closing and waiting: the parts of a gate that may sleep. The store of `complete` and the look at `sleepers` against the
 * announcement of a sleeper and its look at `complete` are sequentially consistent: one of the two sees the other. */
#include "exec/gate.h"

enum { YIELDS = 16 };

void dct_spin_while(_Atomic uint32_t *word, uint32_t old, uint64_t spin_ns) {
    if (spin_ns == 0) { /* more workers than processors: let another one run rather than spin; asleep it would have to be woken */
        for (uint32_t i = 0; i < YIELDS && atomic_load_explicit(word, memory_order_relaxed) == old; i++) dct_os_yield();
        return;
    }
    uint64_t end = dct_os_now_ns() + spin_ns;
    do {
        for (uint32_t i = 0; i < 32; i++) {
            if (atomic_load_explicit(word, memory_order_relaxed) != old) return;
            dct_cpu_relax();
        }
    } while (dct_os_now_ns() < end);
}

void dct_gate_close(dct_gate *gate, uint32_t run) {
    atomic_store_explicit(&gate->done, 0, memory_order_relaxed); /* for the next run, which begins after `complete` */
    atomic_store(&gate->complete, run);
    if (atomic_load(&gate->sleepers) != 0) dct_os_wake_word(&gate->complete);
}

bool dct_gate_spin(dct_gate *gate, uint32_t run, uint64_t spin_ns) {
    if (dct_gate_is_closed(gate, run)) return true;
    dct_spin_while(&gate->complete, atomic_load_explicit(&gate->complete, memory_order_relaxed), spin_ns);
    return dct_gate_is_closed(gate, run);
}

void dct_gate_sleep(dct_gate *gate, uint32_t run) {
    atomic_fetch_add(&gate->sleepers, 1);
    for (;;) {
        uint32_t seen = atomic_load(&gate->complete);
        if ((int32_t)(seen - run) >= 0) break;
        dct_os_wait_word(&gate->complete, seen);
    }
    atomic_fetch_sub(&gate->sleepers, 1);
}
