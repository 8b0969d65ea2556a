/* exec/gate: the control line of one unit of work that is cut into pieces.
 *
 * Work is done again and again in numbered runs. A gate remembers the run it serves together with the next piece in one
 * 64-bit word, so a claim is one compare-and-swap that fails once the run moved on: a worker that slept through the end of
 * a run cannot take a piece of it, nor of the next one by mistake.
 *
 *     next      run << 32 | next piece      claimed by compare-and-swap
 *     done      pieces finished             whoever finishes the last one closes the gate
 *     complete  last run that was closed    waited for; a futex word
 *     sleepers  who sleeps on `complete`    nobody is woken when nobody sleeps
 *
 * A run closes before the next one begins (its owner waits for it), so a word is never more than one run behind.
 * Run numbers start at 1 and may wrap.
 */
#ifndef DCT_EXEC_GATE_H
#define DCT_EXEC_GATE_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/os.h"

typedef struct dct_gate {
    alignas(64) _Atomic uint64_t next;
    _Atomic uint32_t done;
    _Atomic uint32_t complete;
    _Atomic uint32_t sleepers;
} dct_gate;

/* Takes the next of n_pieces (the same number for every worker of the run). False when none is left or the run is over. */
static inline bool dct_gate_claim(dct_gate *gate, uint32_t run, uint32_t n_pieces, uint32_t *piece) {
    uint64_t word = atomic_load_explicit(&gate->next, memory_order_relaxed);
    for (;;) {
        uint32_t word_run = (uint32_t)(word >> 32);
        if ((int32_t)(word_run - run) > 0) return false;
        uint32_t next = word_run == run ? (uint32_t)word : 0;
        if (next >= n_pieces) return false;
        uint64_t taken = (uint64_t)run << 32 | (next + 1);
        if (atomic_compare_exchange_weak_explicit(&gate->next, &word, taken, memory_order_relaxed, memory_order_relaxed)) {
            *piece = next;
            return true;
        }
    }
}

/* Reports a claimed piece as finished; true for the caller that finished the last one and must close the gate. */
static inline bool dct_gate_finish(dct_gate *gate, uint32_t n_pieces) {
    return atomic_fetch_add_explicit(&gate->done, 1, memory_order_acq_rel) + 1 == n_pieces;
}

/* Marks the run complete and wakes who sleeps. All that the pieces wrote is visible to whoever waited. */
void dct_gate_close(dct_gate *gate, uint32_t run);

static inline bool dct_gate_is_closed(dct_gate *gate, uint32_t run) {
    return (int32_t)(atomic_load_explicit(&gate->complete, memory_order_acquire) - run) >= 0;
}

/* Waits until the run is complete, at most for `spin_ns`; true when it is. And asleep, for as long as it takes. */
bool dct_gate_spin(dct_gate *gate, uint32_t run, uint64_t spin_ns);
void dct_gate_sleep(dct_gate *gate, uint32_t run);

/* Spins until *word differs from `old` or spin_ns passed. */
void dct_spin_while(_Atomic uint32_t *word, uint32_t old, uint64_t spin_ns);

#endif
