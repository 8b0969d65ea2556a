/* compile/pack_problem: a packing problem as the greedy and the exact packer see it: rectangles of time and bytes.
 *
 *      bytes                     an item is one piece, or several that keep their distance in bytes:
 *        │  ┌───┐                here one with a gap in its life (A) and one that shrinks (B)
 *        │  │ A │   ┌─A─┐
 *        │  └───┘ ┌─┴─┬─┘
 *        │  ┌─B───┘   └──┐       Items meet when pieces of theirs share a time.
 *      0 └──┴────────────┴─ time
 */
#ifndef DCT_COMPILE_PACK_PROBLEM_H
#define DCT_COMPILE_PACK_PROBLEM_H

#include "base/bits.h"
#include "compile/compile.h"

typedef struct dct_problem_piece {
    uint64_t low, high; /* bytes of its item, low < high */
    uint32_t begin, end, item;
} dct_problem_piece;

typedef struct dct_problem {
    const dct_pack_item *items;
    uint32_t n;
    const uint64_t *conflict; /* NULL: pieces that share a time conflict */
    dct_problem_piece *pieces;        /* of item i: first_piece[i] .. first_piece[i + 1]; an item without bytes has none */
    uint32_t *first_piece, n_pieces;
    bool shaped;              /* some piece is not the whole height of its item: exhausting the search proves nothing then */
    uint64_t load, bound;     /* bound: fixed items can force more than the load */
    uint32_t load_at;
} dct_problem;

/* What limits a search. `stop` as in dct_pack_params. */
typedef struct dct_effort {
    uint64_t nodes_left;
    bool (*stop)(void *ctx);
    void *ctx;
    bool stopped; /* `stop` said so */
} dct_effort;

/* Asks `stop`, until it has said so once. */
static inline bool dct_effort_ends(dct_effort *effort) {
    if (effort->stop != NULL && !effort->stopped) effort->stopped = effort->stop(effort->ctx);
    return effort->stopped;
}

/* Checks the items and takes them apart. DCT_USAGE names the item that makes no sense. */
dct_status dct_problem_make(const dct_pack_item *items, uint32_t n, const uint64_t *conflict, dct_arena *arena, dct_problem *out,
                            dct_err *err) DCT_MUST_CHECK;

/* The same items, of which others are fixed now; aligned, and where no sum overflows. */
void dct_problem_set_items(dct_problem *p, const dct_pack_item *items);

static inline bool dct_problem_conflict(const dct_problem *p, uint32_t a, uint32_t b) {
    return dct_bit_is_set(p->conflict, (uint64_t)a * p->n + b);
}

/* The highest byte of an item that anything occupies. */
static inline uint64_t dct_problem_top(const dct_problem *p, uint32_t item) {
    uint64_t top = 0;
    for (uint32_t k = p->first_piece[item]; k < p->first_piece[item + 1]; k++)
        top = p->pieces[k].high > top ? p->pieces[k].high : top;
    return top;
}

#endif
