/* compile/pack_room: which bytes are taken when, and the lowest free ones; made for tens of thousands of items.
 *
 * A tree over time. A node keeps two sets of byte ranges, sorted and merged: `cover`, what is taken throughout its time by items
 * that cover all of it, and `below`, what is taken in any part of its time. A span of time is a few nodes; what is taken during
 * it is `below` of these and `cover` of those above them. Ranges merge, so the sets stay short however many items there are.
 *
 *              ┌──────────── 0..8 ────────────┐        the span 2..5 is the nodes 2..4 and 4..5;
 *           0..4             …               4..8      above them are 0..4, 4..6, 4..8 and 0..8
 *         0..2  2..4                      4..6  6..8
 */
#ifndef DCT_COMPILE_PACK_ROOM_H
#define DCT_COMPILE_PACK_ROOM_H

#include "compile/pack_problem.h"

typedef struct dct_room dct_room;

/* NULL when the arena is exhausted. Not for problems with a conflict matrix. */
dct_room *dct_room_new(const dct_problem *problem, dct_arena *arena);

void dct_room_clear(dct_room *room);

/* Takes the bytes of all pieces of an item that lies at `offset`. */
void dct_room_take(dct_room *room, uint32_t item, uint64_t offset);

/* Turns to an item: the next calls of dct_room_find are about it. */
void dct_room_look(dct_room *room, uint32_t item);

/* The lowest offset from `from` on at which the item is free of all that is taken; aligned. *more is how much higher it could
 * lie in the same gap, UINT64_MAX where nothing lies above. `from` may only rise from call to call. */
uint64_t dct_room_find(dct_room *room, uint64_t from, uint64_t *more);

/* Sets looked at so far: a count of work that is the same everywhere. */
uint64_t dct_room_work(const dct_room *room);

#endif
