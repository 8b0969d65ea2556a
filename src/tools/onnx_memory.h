/* tools/onnx_memory: where the values of an ONNX graph whose shapes are known lie, and when.
 *
 *      nodes ─► steps (nodes whose result is known already do not run) ─► who has whose bytes ─► lifetimes ─► packer ─► verifier
 */
#ifndef DCT_TOOLS_ONNX_MEMORY_H
#define DCT_TOOLS_ONNX_MEMORY_H

#include "compile/compile.h"
#include "onnx/onnx.h"

typedef enum dct_onnx_region {
    DCT_ONNX_NOWHERE,    /* no step reads it */
    DCT_ONNX_WEIGHTS,    /* tensors of the file */
    DCT_ONNX_CONSTANTS,  /* what follows from the shapes, computed once */
    DCT_ONNX_PERSISTENT, /* inputs and outputs of the graph */
    DCT_ONNX_ARENA,      /* intermediates, packed */
    DCT_ONNX_REGIONS
} dct_onnx_region;
const char *dct_onnx_region_name(dct_onnx_region region);

typedef struct dct_onnx_place {
    uint32_t root;        /* the value that it shares its bytes with; itself */
    bool in_place;        /* it replaces what lay there; else it is a view */
    dct_onnx_region region;
    uint32_t first, last; /* steps, from the one that writes it to the last that touches it (of a root: it or what shares its
                             bytes); outputs of the graph last until n_steps */
    uint64_t bytes;       /* rounded up to DCT_PLAN_ALIGN */
    uint64_t offset;      /* of a root in the arena */
} dct_onnx_place;

typedef struct dct_onnx_memory {
    const dct_onnx_graph *g;
    dct_onnx_place *places;  /* one a value */
    uint32_t *steps;         /* nodes that run, in the file's order */
    uint32_t n_steps;
    uint64_t region_bytes[DCT_ONNX_REGIONS];
    uint32_t region_values[DCT_ONNX_REGIONS]; /* all that lie there, those that share bytes as well */
    dct_pack_item *items;    /* of the arena */
    uint32_t *item_values;   /* roots */
    uint32_t n_items;
    dct_pack_result packed;
} dct_onnx_memory;

/* Everything in `arena`. nodes: of the exact search, 0 for the default. */
dct_status dct_onnx_place_values(const dct_onnx_graph *g, uint64_t nodes, dct_arena *arena, dct_onnx_memory *out,
                                 dct_err *err) DCT_MUST_CHECK;

#endif
