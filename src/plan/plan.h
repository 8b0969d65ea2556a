/* plan/plan: the record that compile/ writes, verify/ checks and exec/ runs. Offsets and ids, no meaning hidden in pointers.
 *
 *   region      what lies in it
 *   weights     packed weights
 *   kv          caches
 *   persistent  rotary tables, token tables, logits, inputs, sampler state
 *   arena       intermediates of all phases, packed (the paper's M_intermediate)
 *   runtime     worker stacks, library heap, plan record, ... ; items marked `outside` lie outside the reservation
 *
 *   reservation: weights | kv | arena | persistent | runtime, each begins on a page
 *
 * Phases run one at a time and have the arena, and the inputs and logits, in turns; unless the bounds say that decode may run
 * while another does (of other slots). Then all that it writes lies behind what any other phase writes:
 *
 *   arena, and each of ids, pos, logits      | prefill (in turns with others but decode) | decode |
 *
 * Weights and tables are shared as ever, for no phase writes them; so are caches, in which each slot has rows of its own.
 *
 * The same graph, bounds and profile give the same bytes on every machine.
 *
 * A plan may be one of a family: the same model with smaller contexts and larger chunks, for as long as the context is short. The
 * smaller members lie in the reservation of the largest: the same weights and rotary tables, their caches and intermediates over
 * its own. So the largest member's envelope is the family's.
 *
 *   largest          | caches                                 | arena |
 *   a smaller one    | caches      | arena            |                     where the largest has its caches and arena
 */
#ifndef DCT_PLAN_PLAN_H
#define DCT_PLAN_PLAN_H

#include "ir/graph.h"

enum {
    DCT_PLAN_VERSION = 2,
    DCT_PLAN_ALIGN = 64,         /* of every place */
    DCT_PLAN_PAGE = 4096,        /* of every region; the reservation itself is mapped at a multiple of 2 MiB */
    DCT_PLAN_MAX_PHASES = 4,
    DCT_PLAN_MAX_SMALLER = 7,    /* members of a family beside the largest */
    DCT_ITEM_NAME_BYTES = 56
};

/* Items that the compiler makes and others look up by name. */
#define DCT_ITEM_IDS "ids"
#define DCT_ITEM_POS "pos"
#define DCT_ITEM_LOGITS "logits"
#define DCT_ITEM_INPUT_FORMAT "input %s"   /* of a graph of one's own: its name */
#define DCT_ITEM_OUTPUT_FORMAT "output %s"
#define DCT_ITEM_TABLE_FORMAT "rotary table %u" /* its number */
#define DCT_ITEM_STAGING "load staging"         /* runtime; the others are persistent */
#define DCT_ITEM_TEXT_SCRATCH "text scratch"
#define DCT_ITEM_SMALLER_INPUTS "inputs of smaller contexts" /* what these need beyond the largest member's own */
#define DCT_ITEM_SMALLER_ARENA "arena of smaller contexts"   /* in the arena */
#define DCT_ITEM_PROGRAM "program image and libraries" /* runtime, outside */
#define DCT_ITEM_KERNEL "kernel: page tables and stacks" /* runtime, outside */
#define DCT_ITEM_RECORD "plan record"                    /* runtime, outside */

typedef enum dct_region {
    DCT_REGION_WEIGHTS, DCT_REGION_KV, DCT_REGION_PERSISTENT, DCT_REGION_ARENA, DCT_REGION_RUNTIME, DCT_REGION_COUNT
} dct_region;

const char *dct_region_name(dct_region region); /* "weights", "kv", "persistent", "intermediate", "runtime" */
extern const dct_region dct_region_order[DCT_REGION_COUNT]; /* in a reservation */

typedef struct dct_bounds {
    uint32_t n_ctx;      /* N + M */
    uint32_t n_input;    /* N */
    uint32_t n_output;   /* M */
    uint32_t ubatch;     /* rows of prefill */
    uint32_t slots;      /* rows of decode: 1 today */
    uint32_t threads;
    dct_dtype type_k, type_v;
    dct_logits_mode logits;
    uint32_t table_ctx;  /* rotary tables are for so many positions: n_ctx of a family's largest member; 0: n_ctx */
    bool overlap;        /* decode may run while another phase does */
} dct_bounds;

typedef struct dct_place {
    dct_region region;
    uint64_t offset;     /* from the start of the region */
} dct_place;

/* A step: ops that run one after another as a unit. ops[0] is cut into pieces that the workers of the step claim; whoever
 * finishes the last piece runs the tail, ops[1..], alone; then the step is complete. Only a wait on a step's
 * completion orders another step after it (a step of one worker is also ordered before later steps of the same worker). */
enum { DCT_STEP_MAX_OPS = 4 };
typedef struct dct_step {
    uint32_t n_ops;
    dct_op_id ops[DCT_STEP_MAX_OPS];
    uint32_t worker_first, n_workers;
    uint32_t wait_begin, n_waits; /* into the phase's waits: steps that must be complete before this one starts */
    float est_us;                 /* cost model; not part of what is verified */
} dct_step;

typedef struct dct_certificate {
    uint64_t load_bytes, height_bytes; /* height = load: proven optimal */
    bool optimal;
    uint32_t op;                       /* an op at which the load is reached */
    uint32_t n_values;                 /* how many values are live there */
    dct_value_id *values;
    uint64_t nodes;                    /* spent by the exact search; 0 when a greedy order sufficed */
} dct_certificate;

typedef struct dct_phase {
    char name[16];
    dct_phase_kind kind;
    uint32_t rows;
    dct_graph graph;       /* fused; its weights, caches and tables are those of the plan, in the plan's order */
    dct_place *places;     /* one a value */
    uint32_t n_steps;
    dct_step *steps;       /* in the order every worker walks them */
    uint32_t n_waits;
    uint32_t *waits;       /* step numbers, lower than the step that waits */
    dct_value_id *scratch; /* one an op: the value (INTERMEDIATE, BYTES, no producer) of `threads` rows that holds its workers'
                              scratch, or DCT_NONE */
    uint32_t n_buffers;    /* distinct (offset, size) ranges of the arena */
    dct_certificate cert;
} dct_phase;

typedef struct dct_item {
    dct_region region;
    char name[DCT_ITEM_NAME_BYTES];
    uint64_t bytes;
    bool outside;          /* counted, not in the reservation: program image, libraries, main stack, kernel pages */
    uint64_t offset;       /* in its region; meaningless when outside */
} dct_item;

/* What an item's pages are. Those in the reservation are anonymous, huge where the system has huge pages, and pinned by --mlock;
 * those outside are small and are not pinned. */
typedef enum dct_backing { DCT_BACKING_ANONYMOUS, DCT_BACKING_FILE, DCT_BACKING_KERNEL } dct_backing;
dct_backing dct_item_backing(const dct_item *item);
const char *dct_backing_name(dct_backing backing); /* "anonymous", "file", "kernel" */

typedef struct dct_plan_weight { dct_weight w; uint64_t offset; } dct_plan_weight;
typedef struct dct_plan_cache { dct_cache c; uint64_t offset; } dct_plan_cache;
typedef struct dct_plan_table { dct_rope_table t; uint64_t offset, bytes; } dct_plan_table;

typedef struct dct_plan {
    char arch[32], model_name[64];
    uint64_t fingerprint, file_bytes, tensor_bytes, n_params;
    uint64_t identity;              /* of the model's files; 0: read from a plan file, and not known */
    uint64_t profile_hash;          /* of the cost profile */
    dct_bounds bounds;
    uint32_t n_weights, n_caches, n_tables, n_items, n_phases;
    dct_plan_weight *weights;       /* graphs of all phases index these three (value.ref) */
    dct_plan_cache *caches;
    dct_plan_table *tables;
    dct_item *items;                /* sorted by region, then offset, outside last; items of a region add up to it */
    dct_phase phases[DCT_PLAN_MAX_PHASES];
    uint64_t region_offset[DCT_REGION_COUNT]; /* in the reservation */
    uint64_t region_bytes[DCT_REGION_COUNT];  /* inside the reservation, whole pages */
    uint64_t reserve_bytes;         /* of the reservation */
    uint64_t outside_bytes;
    uint64_t m_max_bytes;           /* reserve + outside */
    /* The paper's view (plan/ and compile/ count it; --paper prints it). */
    uint32_t paper_tensors, paper_buffers, paper_clique;
    double est_ms_per_token, roofline_ms_per_token;
    uint32_t n_smaller;             /* members of its family, in the order of their contexts; they have none themselves */
    struct dct_plan *smaller;
} dct_plan;

/* Member i of a plan's family, the largest being the last; a plan without a family is its own only member. */
static inline uint32_t dct_plan_n_members(const dct_plan *plan) { return plan->n_smaller + 1; }
static inline const dct_plan *dct_plan_member(const dct_plan *plan, uint32_t i) {
    return i < plan->n_smaller ? &plan->smaller[i] : plan;
}

/* The item of that name in that region, inside the reservation or outside of it; NULL when there is none. Names of weights come
 * from files, so the region is part of what is asked; the verifier sees to it that a region has no name twice. Items are few: a
 * layer of weights is one. */
const dct_item *dct_plan_item(const dct_plan *plan, dct_region region, const char *name, bool outside);
/* Where an item inside the reservation lies, from the region's begin: 0 bytes and false when there is none. */
bool dct_plan_find_item(const dct_plan *plan, dct_region region, const char *name, uint64_t *offset, uint64_t *bytes);

const dct_phase *dct_plan_phase(const dct_plan *plan, dct_phase_kind kind);
const char *dct_phase_name(dct_phase_kind kind); /* "prefill", "decode", "graph" */

/* Whether it is the plan of a graph of one's own: one phase, whose inputs and outputs have items of their names. */
bool dct_plan_is_graph(const dct_plan *plan);

/* The name of the item of such an input or output. */
void dct_plan_end_name(const dct_value *end, char name[DCT_ITEM_NAME_BYTES]);

/* Of every value of a phase: the one whose bytes it takes in the end, and the first and last op that touch those bytes, in the
 * order of ops; DCT_NONE when none does. For people: what may share bytes is judged by happens-before, in compile/ and again in
 * verify/. */
typedef struct dct_plan_lives {
    dct_value_id *root;
    dct_op_id *first, *last;
} dct_plan_lives;
dct_status dct_plan_find_lives(const dct_phase *phase, dct_arena *arena, dct_plan_lives *out, dct_err *err) DCT_MUST_CHECK;

/* What the products of a phase take from memory and compute: each packed weight once a run; multiply-accumulates for every row of
 * the run, and those for one row of it, whatever it has (behind LAST_ROW). Weights that are only looked up in (EMBED) count for
 * nothing. */
typedef struct dct_phase_work {
    uint64_t weight_bytes, macs_per_row, macs_per_run;
} dct_phase_work;
dct_phase_work dct_plan_phase_work(const dct_phase *phase); /* of a phase that is NULL: nothing */

/* Intermediates of a phase: values that the arena holds, in place or not. */
uint32_t dct_plan_count_values(const dct_phase *phase);

const char *dct_logits_name(dct_logits_mode mode); /* "all", "last", "none" */

/* Gives the graphs of all phases the plan's lists of weights, caches and tables. */
dct_status dct_plan_share_lists(dct_plan *plan, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

/* Of something that phases write, `bytes` of it each: where a phase's part begins, and where the last part ends. */
typedef uint64_t dct_phase_bytes_fn(const dct_phase *phase);
uint64_t dct_plan_part_begin(const dct_plan *plan, const dct_phase *phase, dct_phase_bytes_fn *bytes);
uint64_t dct_plan_parts_end(const dct_plan *plan, dct_phase_bytes_fn *bytes); /* UINT64_MAX when there is no such number */

/* What the packings of all phases take; the load that no packing of all can be lower than: the most that is live at once in one
 * phase, or in two that nothing orders; and where a phase's packing begins. */
uint64_t dct_plan_arena_height(const dct_plan *plan);
uint64_t dct_plan_arena_load(const dct_plan *plan);
uint64_t dct_plan_arena_begin(const dct_plan *plan, const dct_phase *phase);

/* Of a region's items, outside ones included: what the envelope shows. */
uint64_t dct_plan_region_bytes(const dct_plan *plan, dct_region region);

/* What M_max has for the kernel's own memory, which control groups count and VmHWM does not; 0 when it has no such item. */
uint64_t dct_plan_kernel_bytes(const dct_plan *plan);

/* Where `bytes` of load-time staging may lie: the staging item if there is one, else kv or arena, which are unused while weights
 * are loaded. False when no such range is large enough. */
bool dct_plan_staging(const dct_plan *plan, uint64_t bytes, dct_place *place);

/* plan_io: bytes of a plan file (magic "DCTMPLAN", version, hash of the rest). With out == NULL counts. Same plan, same bytes. */
dct_status dct_plan_save(const dct_plan *plan, void *out, uint64_t cap, uint64_t *bytes, dct_err *err) DCT_MUST_CHECK;

/* Reads a plan file; untrusted: every count, id and offset is checked for range (not for meaning: verify does). */
dct_status dct_plan_load(const void *bytes, uint64_t n, dct_arena *arena, dct_plan **out, dct_err *err) DCT_MUST_CHECK;

/* plan_dump, plan_svg, plan_html: through a callback that takes pieces of text. */
typedef void dct_text_fn(void *ctx, const char *text, size_t n);

/* What this machine could give now, and what loading takes beside the weights, at a place in the plan: in no plan file. */
typedef struct dct_plan_room {
    uint64_t available_bytes;
    const char *source;
    uint64_t staging_bytes; /* 0: not said */
} dct_plan_room;

/* The envelope, what `plan` prints; with a room (may be NULL) also whether it fits there. */
void dct_plan_dump_table(const dct_plan *plan, const dct_plan_room *room, dct_text_fn *out, void *ctx);
/* --text: items, phases, values, steps, certificate. These fail for want of memory only, and may have written something then. */
dct_status dct_plan_dump_text(const dct_plan *plan, dct_text_fn *out, void *ctx, dct_err *err) DCT_MUST_CHECK;
/* One page for a browser that needs nothing else. */
dct_status dct_plan_dump_html(const dct_plan *plan, dct_text_fn *out, void *ctx, dct_err *err) DCT_MUST_CHECK;
dct_status dct_plan_dump_svg(const dct_plan *plan, dct_phase_kind kind, dct_text_fn *out, void *ctx, dct_err *err) DCT_MUST_CHECK;

/* plan_diff: something that differs between two plans: a number or a text that stands under a name in one or both. */
typedef struct dct_difference {
    const char *section; /* "model", "bounds", "envelope", "items", "family", "schedule", "phase", "values" */
    uint32_t context;    /* of the smaller member of a family that it is about, in the second plan; 0: the plan itself */
    const char *phase;   /* its name; "" outside phases */
    const char *name;    /* as in `plan --json`; of a value its own, with `*` for the layer when several changed alike */
    uint32_t count;      /* how many changed alike */
    bool had, has;       /* there in the first plan, in the second */
    uint64_t before, after;               /* of a value its bytes */
    const char *text_before, *text_after; /* both NULL: numbers were compared */
} dct_difference;
typedef void dct_difference_fn(void *ctx, const dct_difference *difference);

/* Every difference in a fixed order; the arena is for the call. Members of families are compared one by one, in the order of
 * their contexts; where one plan has more of them, those of the same context are, and the others are told. Plans that nobody
 * verified are compared as well. Places and the order of ops are not looked at: dct_plan_is_same tells whether those are equal
 * too. */
dct_status dct_plan_compare(const dct_plan *a, const dct_plan *b, dct_arena *arena, dct_difference_fn *found, void *ctx,
                            dct_err *err) DCT_MUST_CHECK;
dct_status dct_plan_is_same(const dct_plan *a, const dct_plan *b, dct_arena *arena, bool *same, dct_err *err) DCT_MUST_CHECK;

/* The differences as text. */
dct_status dct_plan_dump_diff(const dct_plan *a, const dct_plan *b, dct_arena *arena, dct_text_fn *out, void *ctx,
                              dct_err *err) DCT_MUST_CHECK;

#endif
