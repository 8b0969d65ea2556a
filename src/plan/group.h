/* plan/group: several plans in one reservation.
 *
 *   piece     bytes that one region of one plan occupies, or several: the weights of one file are there once, and intermediates
 *             of models that never run at the same time lie over each other
 *
 *       weights A | weights B | kv A | kv B | arena A and B | persistent A | persistent B | runtime A | runtime B
 *
 * The reservation is the sum of the pieces; each is mapped by itself, so they need not be neighbours. A plan alone is a group of
 * one, and its pieces are its regions; but the smaller members of a family lie over its caches and on into its arena, so these
 * are one piece. The arena that an exclusive group shares can be in that of one family; another family has its own.
 *
 *       kv A, arena A and B | kv B                  A is a family
 */
#ifndef DCT_PLAN_GROUP_H
#define DCT_PLAN_GROUP_H

#include "plan/plan.h"

typedef struct dct_part { uint32_t piece; uint64_t offset; } dct_part; /* of a piece: where it begins */

typedef struct dct_group {
    uint32_t n_plans, n_pieces;
    const dct_plan *const *plans;
    bool exclusive;      /* no two of the plans run at the same time */
    uint64_t *piece_bytes; /* [n_pieces] whole pages */
    dct_part (*part_of)[DCT_REGION_COUNT]; /* [n_plans] where a region of a plan lies */
    uint64_t reserve_bytes, outside_bytes, m_max_bytes;
} dct_group;

/* Where each region of a plan lies in memory. */
typedef struct dct_bases { char *of[DCT_REGION_COUNT]; } dct_bases;

/* Whether the two hold the same packed weights in the same places: then these need to be there once. */
bool dct_plan_same_weights(const dct_plan *a, const dct_plan *b);
/* And these are of one file, so that they may lie in memory once. */
bool dct_plan_shares_weights(const dct_plan *a, const dct_plan *b);

/* Items outside the reservation belong to the process and to all its plans together, but for those that each plan has for
 * itself. */
bool dct_item_is_own(const dct_item *item);

/* dct_plan_kernel_bytes of all plans. */
uint64_t dct_group_kernel_bytes(const dct_group *g);

/* Of all plans, what they share counted once; what lies outside the reservation is runtime's. */
uint64_t dct_group_region_bytes(const dct_group *g, dct_region region);

/* The envelope of each plan and of all together. */
void dct_group_dump_table(const dct_group *g, const dct_plan_room *room, dct_text_fn *out, void *ctx);

#endif
