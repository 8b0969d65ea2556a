/* compile/compile: from traced graphs to a plan. Passes: fuse, order, schedule, lifetimes, pack, envelope; each a struct in,
 * a struct out. compile.c is the list of them, top to bottom. */
#ifndef DCT_COMPILE_COMPILE_H
#define DCT_COMPILE_COMPILE_H

#include "arch/arch.h"
#include "plan/group.h"

/* ---- profile: a machine's roofline ---- */

/* For a number of workers. dct_profile_default() is built in; `dctms calibrate` measures another (opt-in). */
typedef struct dct_profile {
    double bytes_per_s_one, bytes_per_s_all; /* reading, one worker and all */
    double macs_per_s_one, macs_per_s_all;   /* int8 multiply-accumulates */
    double wait_us;                          /* one point of synchronisation */
} dct_profile;
const dct_profile *dct_profile_default(void);
uint64_t dct_profile_hash(const dct_profile *profile); /* what a plan says about the one it was made with */

/* What 1, 2, ... workers reach together: a cost profile as a file holds it. */
typedef struct dct_rates {
    uint64_t bytes_per_s, macs_per_s, wait_ns;
} dct_rates;
void dct_profile_write(const dct_rates *rates, uint32_t n, dct_text_fn *write, void *ctx);

/* The profile of a file's text for so many workers; with more than it has, those of its last line. DCT_BAD_FILE says which line
 * makes no sense. */
dct_status dct_profile_parse(const char *text, size_t n, uint32_t threads, dct_profile *out, dct_err *err) DCT_MUST_CHECK;

/* ---- compile ---- */

/* Things that the engine keeps in the envelope and that no graph shows: token tables, sampler state, stacks, heap. */
typedef struct dct_extra_item {
    dct_region region;  /* PERSISTENT or RUNTIME */
    const char *name;
    uint64_t bytes;
    bool outside;
} dct_extra_item;

typedef struct dct_compile_params {
    const dct_model *model;
    const dct_hparams *hp;
    const dct_graph *graph; /* of one's own, to be compiled as it is; NULL: the model's phases are traced. hp names it then, and
                               model has its weights */
    dct_bounds bounds;
    const dct_extra_item *extra;
    uint32_t n_extra;
    const dct_profile *profile;
    uint64_t pack_nodes; /* node budget of the exact search; 0 = the default */
    uint64_t staging_bytes; /* load-time staging: lies over kv or arena, which are unused then; where it does not fit, an item is
                               added */
    uint64_t kernel_bytes;  /* what the kernel keeps for the process beside page tables for the reservation, which are added; 0:
                               no item for the kernel */
    uint64_t text_scratch_bytes; /* for tokenizing a request: lies over the arena, which is unused then; where it does not fit, an
                                    item is added */
    dct_plan *smaller;      /* of this plan's family, n_smaller of them: its envelope has room for each */
    uint32_t n_smaller;
} dct_compile_params;

/* How a phase of a plan with these bounds is traced: by the compiler, and anew by whoever has the plan verified. */
dct_trace_params dct_trace_params_of(const dct_bounds *bounds, dct_phase_kind kind);

/* A complete plan in `arena`. */
dct_status dct_compile(const dct_compile_params *params, dct_arena *arena, dct_plan **out, dct_err *err) DCT_MUST_CHECK;

/* Only what the paper counts of a model: plan->paper_tensors, paper_buffers and paper_clique. */
dct_status dct_compile_count_paper(dct_plan *plan, const dct_hparams *hp, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

/* Lays plans out in one reservation; everything lies in the arena, the list of plans stays the caller's. `exclusive`: no two of
 * them will run at the same time. DCT_NO_FIT when their sum does not fit in 63 bits. */
dct_status dct_group_lay(const dct_plan *const *plans, uint32_t n, bool exclusive, dct_arena *arena, dct_group *out,
                         dct_err *err) DCT_MUST_CHECK;

/* ---- pack: the packer alone ---- */

/* What an item occupies for a part of its life: its own bytes low..high, in begin..end (both half-open). */
typedef struct dct_pack_piece {
    uint64_t low, high;
    uint32_t begin, end;
} dct_pack_piece;

typedef struct dct_pack_item {
    uint64_t size, align; /* align a power of two */
    uint32_t begin, end;  /* half-open lifetime, begin < end */
    uint64_t offset;      /* result; input when fixed */
    bool fixed;
    /* Lifetimes with gaps, values that shrink or take one another's bytes: pieces in order of time, apart, inside begin..end and
     * 0..size. n_pieces 0: all of the item, all of the time. */
    const dct_pack_piece *pieces;
    uint32_t n_pieces;
} dct_pack_item;

typedef struct dct_pack_params {
    uint64_t nodes;          /* budget of the exact search; 0 = the default */
    uint64_t capacity; /* enough: the first packing of at most so many bytes is the answer; 0 = the least height is wanted */
    bool (*stop)(void *ctx); /* asked now and then, once there is a packing; true ends all with the best so far. NULL: nodes
                                alone decide, so the same everywhere */
    void *ctx;
} dct_pack_params;

typedef struct dct_pack_result {
    uint64_t load, height, nodes;
    uint64_t bound; /* proven: no packing is lower. At least the load */
    bool optimal;   /* height == bound */
    uint32_t at;    /* a time at which the load is reached */
} dct_pack_result;

/* Places items so that no two that are live together overlap; deterministic. Greedy portfolio; then an exact search, probing at
 * the load first. `conflict`, when not NULL, is a symmetric n x n bit matrix that replaces the intervals (happens-before under
 * concurrency): items whose intervals meet must conflict in it as well, and none may have pieces. params NULL: the defaults. */
dct_status dct_pack(dct_pack_item *items, uint32_t n, const uint64_t *conflict, const dct_pack_params *params, dct_arena *arena,
                    dct_pack_result *out, dct_err *err) DCT_MUST_CHECK;

/* ---- the paper's view ---- */
typedef struct dct_interval { uint32_t first, last; /* inclusive, as the paper */ uint64_t bytes; } dct_interval;

/* Fewest buffers by greedy interval colouring (Golumbic 2004); color[n] receives 0..*n_buffers-1. *clique is the most
 * intervals that meet at one step, *clique_step: equal to *n_buffers, which proves it. Order: by first, then by index. color and
 * clique_step may be NULL. */
dct_status dct_interval_color(const dct_interval *iv, uint32_t n, dct_arena *arena, uint32_t *color, uint32_t *n_buffers,
                              uint32_t *clique, uint32_t *clique_step, dct_err *err) DCT_MUST_CHECK;

/* The logical tensors of a decode step at the paper's grain: 16 a layer. *iv and *names are in the arena; names may be NULL. */
dct_status dct_paper_tensors(const dct_hparams *hp, dct_arena *arena, dct_interval **iv, const char ***names, uint32_t *n,
                             dct_err *err) DCT_MUST_CHECK;

#endif
