/* plan/plan_draw: what the pictures of a plan have in common. */
#include "plan/plan_draw.h"

#include <string.h>

#include "base/safe_text.h"

dct_paint dct_paint_of(const dct_graph *g, dct_value_id id) {
    const dct_value *v = &g->values[id];
    if (v->format == DCT_FMT_BYTES) return DCT_PAINT_SCRATCH;
    if (v->format == DCT_FMT_Q8) return DCT_PAINT_QUANTISED;
    if (v->producer != DCT_NONE && g->ops[v->producer].kind == DCT_OP_ATTN_PART) return DCT_PAINT_PARTIALS;
    for (dct_value_id other = id + 1; other < g->n_values; other++) {
        const dct_value *w = &g->values[other];
        if (w->alias_of == id && w->producer != DCT_NONE &&
            (g->ops[w->producer].kind == DCT_OP_LINEAR_ADD || g->ops[w->producer].kind == DCT_OP_ADD))
            return DCT_PAINT_IN_PLACE;
    }
    return DCT_PAINT_ACTIVATION;
}

const char *dct_paint_label(dct_paint paint) {
    switch (paint) {
    case DCT_PAINT_ACTIVATION: return "activation";
    case DCT_PAINT_IN_PLACE: return "carried in place (residual stream)";
    case DCT_PAINT_QUANTISED: return "quantised activation";
    case DCT_PAINT_PARTIALS: return "attention partials";
    case DCT_PAINT_SCRATCH: return "scratch";
    case DCT_PAINT_COUNT: break;
    }
    return "?";
}

uint32_t dct_step_of(const dct_phase *phase, dct_op_id op) {
    uint32_t s = 0;
    while (s + 1 < phase->n_steps && phase->steps[s + 1].ops[0] <= op) s++;
    return s;
}

void dct_put_escaped(const dct_text *t, const char *text) {
    dct_safe_text safe;
    for (const char *p = dct_safe(text, &safe); *p != '\0'; p++) {
        const char *entity = *p == '&' ? "&amp;" : *p == '<' ? "&lt;" : *p == '>' ? "&gt;" : *p == '"' ? "&quot;" : NULL;
        if (entity != NULL) t->out(t->ctx, entity, strlen(entity));
        else t->out(t->ctx, p, 1);
    }
}
