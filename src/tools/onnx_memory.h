/* tools/onnx_memory: where the values of an ONNX graph whose shapes are known lie, and when.
 *
 *      nodes ─► steps (nodes whose result is known already do not run) ─► who has whose bytes ─► lifetimes ─► packer ─► verifier
 *                └─► in the file's order, and in one of less load, if there is one
 */
#ifndef DCT_TOOLS_ONNX_MEMORY_H
#define DCT_TOOLS_ONNX_MEMORY_H

#include "compile/compile.h"
#include "compile/order_search.h"
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
    uint32_t *steps;         /* nodes that run, in this order */
    uint32_t n_steps;
    uint64_t file_load, file_height; /* of the arena, were they run in the file's order */
    bool is_reordered;       /* it is not that order */
    bool order_proven;       /* no order has a smaller load */
    uint64_t region_bytes[DCT_ONNX_REGIONS];
    uint32_t region_values[DCT_ONNX_REGIONS]; /* all that lie there, those that share bytes as well */
    dct_pack_item *items;    /* of the arena */
    uint32_t *item_values;   /* roots */
    uint32_t n_items;
    dct_pack_result packed;
} dct_onnx_memory;

/* Everything in `arena`. nodes: of the exact search, 0 for the default. keep_order: the file's, whatever it costs; else another
 * where that needs a lower arena. */
dct_status dct_onnx_place_values(const dct_onnx_graph *g, uint64_t nodes, bool keep_order, dct_arena *arena,
                                 dct_onnx_memory *out, dct_err *err) DCT_MUST_CHECK;

/* The same steps in the order of least load that was found. *exact: the loads of *out are those of the arena. Else an output may
 * be written over an intermediate, which then leaves the arena; the search counts it as if it stayed. */
dct_status dct_onnx_order(const dct_onnx_graph *g, const uint32_t *steps, uint32_t n_steps, dct_arena *arena, uint32_t *ordered,
                          dct_order_result *out, bool *exact, dct_err *err) DCT_MUST_CHECK;

#endif
