/* text/merge: the working state of both algorithms: a text as a row of symbols that are joined pair by pair, best pair first.
 *
 * A symbol is known by the position of its first byte. Its length stands in len[] at its first byte and again at its last,
 * so both neighbours are found without links. val[] at its first byte is the algorithm's own; DCT_NO_TOKEN there says that the
 * position no longer begins a symbol (or, in SPM, that it has no partner).
 *
 *     bytes   h e l l o        after joining l+l, then he+ll:
 *     len     2 2 2 2 1  ...   4 . . 4 1
 *
 * Candidates wait in a heap, ordered by (key, position): a lower key is joined first, the leftmost among equals. A candidate
 * is not removed when a neighbour changes; whoever takes it from the heap sees that it is stale. Each join adds at most two, so
 * 2n slots suffice, and the whole is O(n log n) with 24 bytes of scratch a byte of text.
 */
#ifndef DCT_TEXT_MERGE_H
#define DCT_TEXT_MERGE_H

#include "text/vocab.h"

typedef struct dct_merge_state {
    uint32_t n;
    uint32_t *len, *val;
    uint64_t *heap;
    uint64_t n_heap;
} dct_merge_state;

/* Lays the state out in scratch; len and val are not yet set. */
dct_merge_state dct_merge_start(void *scratch, uint32_t n);
void dct_merge_push(dct_merge_state *s, uint32_t key, uint32_t pos);
bool dct_merge_pop(dct_merge_state *s, uint32_t *key, uint32_t *pos);

static inline void dct_merge_set_len(dct_merge_state *s, uint32_t pos, uint32_t len) {
    s->len[pos] = s->len[pos + len - 1] = len;
}
static inline uint32_t dct_merge_next(const dct_merge_state *s, uint32_t pos) { return pos + s->len[pos]; }
static inline uint32_t dct_merge_prev(const dct_merge_state *s, uint32_t pos) { return pos - s->len[pos - 1]; } /* pos > 0 */

/* Joins the symbol at pos and the one after it. */
static inline void dct_merge_join(dct_merge_state *s, uint32_t pos) {
    uint32_t right = dct_merge_next(s, pos);
    uint32_t len = s->len[pos] + s->len[right];
    s->val[right] = DCT_NO_TOKEN;
    dct_merge_set_len(s, pos, len);
}

#endif
