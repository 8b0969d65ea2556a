/* plan/plan_draw: what the pictures of a plan have in common. */
#ifndef DCT_PLAN_PLAN_DRAW_H
#define DCT_PLAN_PLAN_DRAW_H

#include "plan/plan_text.h"

/* What a value of the arena is, for its colour. */
typedef enum dct_paint {
    DCT_PAINT_ACTIVATION, DCT_PAINT_IN_PLACE, DCT_PAINT_QUANTISED, DCT_PAINT_PARTIALS, DCT_PAINT_SCRATCH, DCT_PAINT_COUNT
} dct_paint;
dct_paint dct_paint_of(const dct_graph *g, dct_value_id id);
const char *dct_paint_label(dct_paint paint);

/* The step that runs an op. Steps hold ops in their order. */
uint32_t dct_step_of(const dct_phase *phase, dct_op_id op);

/* A name from a file as text of XML or HTML. */
void dct_put_escaped(const dct_text *t, const char *text);

#endif
