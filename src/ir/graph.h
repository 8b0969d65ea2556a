/* ir/graph: values and operations of one phase, in arrays, named by ids.
 *
 * An architecture traces a graph by calling the functions at the end of this header; it never allocates tensors. The
 * compiler rewrites the traced graph into a fused one of the same types. Ids are indexes; ops are in a valid order: an op
 * reads only values that inputs, weights, caches or earlier ops define. A graph lives in its arena.
 *
 *      x ──► rms_norm ──► quant ──► linear(Wq) ──► rope ──► attn ──► ...
 *                              └──► linear(Wk) ──► rope ──► kv_store
 */
#ifndef DCT_IR_GRAPH_H
#define DCT_IR_GRAPH_H

#include "base/arena.h"
#include "base/dtype.h"
#include "kernels/kernel.h"

typedef uint32_t dct_value_id;
typedef uint32_t dct_op_id;
#define DCT_NONE UINT32_MAX

/* What a graph is traced for, and of which rows it gives the logits. */
typedef enum dct_phase_kind {
    DCT_PHASE_PREFILL, DCT_PHASE_DECODE,
    DCT_PHASE_GRAPH /* a graph of one's own: inputs and outputs by name, and no other phase beside it */
} dct_phase_kind;
typedef enum dct_logits_mode { DCT_LOGITS_LAST, DCT_LOGITS_ALL, DCT_LOGITS_NONE } dct_logits_mode;

typedef enum dct_kind {
    DCT_KIND_WEIGHT, DCT_KIND_KV, DCT_KIND_PERSISTENT, DCT_KIND_INTERMEDIATE, DCT_KIND_INPUT, DCT_KIND_OUTPUT
} dct_kind;

/* How the elements of a value lie in memory. */
typedef enum dct_format {
    DCT_FMT_F32,    /* rows of `cols` floats; also weights that are vectors (norms, biases), widened at load */
    DCT_FMT_I32,    /* rows of `cols` int32 */
    DCT_FMT_Q8,     /* rows of quantised activations: dct_q8_row_bytes(cols) each (kernels/kernel.h) */
    DCT_FMT_WEIGHT, /* packed tiles of weight `weight_id` (kernels/layout.h) */
    DCT_FMT_KV,     /* a cache: dct_kv_bytes (kernels/kernel.h) */
    DCT_FMT_KV_ROWS, /* K or V of a run's rows: laid out as an f32 cache of `rows` positions, a multiple of 16 */
    DCT_FMT_BYTES   /* scratch: an intermediate that no op makes or reads; a row a worker, `cols` bytes each */
} dct_format;

typedef enum dct_op_kind {
#define DCT_OP(NAME, name, in_min, in_max, outs, inplace, writes, row_wise, fused, meaning) DCT_OP_##NAME,
#include "ir/ops.def"
#undef DCT_OP
    DCT_OP_COUNT
} dct_op_kind;

enum { DCT_OP_MAX_IN = 9, DCT_OP_MAX_OUT = 3, DCT_NAME_BYTES = 48 };

/* A weight as ops use it: a range of output rows of a file's tensor (phi3 splits fused tensors), in packed form. The same
 * (tensor, rows) is one weight however many ops read it (tied embeddings are stored once). */
typedef struct dct_weight {
    char tensor[64];        /* name in the file */
    dct_dtype type;
    uint32_t row_begin, n_rows; /* output rows taken */
    uint32_t n_cols;
    bool is_vector;         /* norms, biases: widened to f32[n_cols], n_rows = 1 */
    uint64_t bytes;         /* packed, a multiple of 64 (kernels/layout.h) */
} dct_weight;

typedef struct dct_cache {
    uint32_t layer;
    bool is_k;              /* K lies in blocks of 16 positions, V in rows (kernels/kernel.h) */
    uint32_t n_head_kv, head_dim, n_ctx;
    dct_dtype type;         /* F32, F16, BF16 or Q8_0 */
    uint64_t bytes;
} dct_cache;

/* What a rotary table holds: cos and sin of pos * freq(i), n_rot/2 pairs (cos, sin) a position: f32[n_ctx, n_rot]. */
typedef struct dct_rope_table {
    uint32_t n_rot, n_ctx;
    float base, factor;               /* linear: positions / factor */
    uint32_t scaling;                 /* dct_rope_scaling */
    uint32_t orig_ctx;
    float attn_factor, ext_factor, beta_fast, beta_slow;
    char factors_tensor[64];          /* "" or the tensor of n_rot/2 divisors (rope_freqs.weight, ...) */
} dct_rope_table;

typedef struct dct_value {
    char name[DCT_NAME_BYTES];
    dct_kind kind;
    dct_format format;
    uint32_t rows, cols;    /* rows: the phase's bound R, or fixed */
    uint32_t row_mul, row_div; /* a run of n rows has row_mul * ceil(n / row_div) of it, and never more than `rows` */
    uint64_t bytes;         /* rows x row bytes, rounded up to 64 */
    dct_op_id producer;     /* DCT_NONE for weights, caches, inputs, tables */
    dct_value_id alias_of;  /* takes the bytes of this value (in place); DCT_NONE otherwise */
    uint32_t ref;           /* weight: index in weights; KV: in caches; rope table: in tables; else DCT_NONE */
    int32_t layer;          /* -1 outside layers */
} dct_value;

typedef struct dct_op_params {
    float scale;      /* EMBED, ATTN* */
    float eps;        /* RMS_NORM, LAYER_NORM, NORM_QUANT, ROPE_KV (head norms) */
    float softcap;    /* ATTN*, SOFTCAP; 0 = none */
    uint32_t group;   /* RMS_NORM: elements a group; MIX: rows that are summed */
    uint32_t n_head, n_head_kv, head_dim, head_dim_v; /* ROPE uses n_head; ATTN*, KV_STORE, ROPE_KV all */
    uint32_t n_rot;
    uint32_t window;  /* 0 = none; else row at position p sees p-window+1 .. p */
    uint32_t n_part;  /* ATTN_PART, ATTN_MERGE */
    uint32_t width, stride, pad; /* WINDOW */
    uint32_t n_expert, n_used;   /* ROUTE, EXPERTS */
    bool causal;      /* ATTN_ROWS */
    bool renorm;      /* ROUTE */
    dct_act act;
    dct_rope_style rope_style;
    int32_t sections[4];
} dct_op_params;

typedef struct dct_op {
    dct_op_kind kind;
    uint32_t n_in, n_out;
    dct_value_id in[DCT_OP_MAX_IN];   /* DCT_NONE for an absent optional input */
    dct_value_id out[DCT_OP_MAX_OUT];
    dct_op_params p;
    int32_t layer;
} dct_op;

typedef struct dct_graph {
    dct_arena *arena;
    uint32_t rows;          /* R of the phase */
    uint32_t n_values, cap_values;
    dct_value *values;
    uint32_t n_ops, cap_ops;
    dct_op *ops;
    uint32_t n_weights, cap_weights;
    dct_weight *weights;
    uint32_t *weight_index; /* while tracing: numbers + 1 by the hash of the name, 0 where free; 2 cap_weights slots */
    uint32_t n_caches, cap_caches;
    dct_cache *caches;
    uint32_t n_tables, cap_tables;
    dct_rope_table *tables;
    dct_value_id ids, pos, logits; /* the two inputs and the output; a graph of one's own has no ids, no logits, and pos only if
                                      it rotates */
    dct_status status;      /* the first failure sticks: trace calls may be chained and checked once */
    dct_err err;
} dct_graph;

void dct_graph_init(dct_graph *g, dct_arena *arena, uint32_t rows);

/* Static facts of an op kind, from ops.def. */
typedef struct dct_op_info {
    const char *name, *meaning;
    uint32_t in_min, in_max, n_out;
    int inplace;
    uint32_t writes;  /* bit i: the op writes its input i */
    bool row_wise, fused;
} dct_op_info;
const dct_op_info *dct_op_info_of(dct_op_kind kind);

/* Whether the op also writes its input i (caches; k of ROPE_KV). */
bool dct_op_writes_input(dct_op_kind kind, uint32_t i);

/* At most so many tiles of gate and up LINEAR_GLU computes into its scratch at a time: scratch = 2 x rows x 16 x tiles floats.
 * One row reads weights as fast as memory gives them, so its pieces are long; many rows should stay in the nearest cache. */
static inline uint32_t dct_glu_tiles(uint32_t rows) { return rows > 16 ? 4 : rows > 1 ? 8 : 32; }

/* The same bytes in memory: whatever decides what a weight, a cache or a table holds is the same. */
bool dct_weight_equal(const dct_weight *a, const dct_weight *b);
bool dct_cache_equal(const dct_cache *a, const dct_cache *b);
bool dct_rope_table_equal(const dct_rope_table *a, const dct_rope_table *b);

/* Values. `name` is printf-free; a layer >= 0 is prefixed as "blk.N.". All return DCT_NONE after a failure. */
dct_value_id dct_graph_input_i32(dct_graph *g, const char *name, uint32_t rows, uint32_t cols);
dct_value_id dct_graph_weight(dct_graph *g, const dct_weight *w); /* finds an equal one first */
dct_value_id dct_graph_cache(dct_graph *g, const dct_cache *c);
dct_value_id dct_graph_table(dct_graph *g, const dct_rope_table *t); /* finds an equal one first */
dct_value_id dct_graph_value(dct_graph *g, const char *name, int32_t layer, dct_kind kind, dct_format format, uint32_t rows,
                             uint32_t cols);

/* Makes a value the phase's output: its kind becomes DCT_KIND_OUTPUT and g->logits names it. */
void dct_graph_output(dct_graph *g, dct_value_id id);

/* Appends an op whose outputs exist already; sets their producer. Shapes are checked by dct_graph_check. */
dct_op_id dct_graph_op(dct_graph *g, const dct_op *op);

/* Tracing: each makes its output value and returns it. LINEAR quantises its input when W needs it, once per input value.
 * `name` names the output. b may be DCT_NONE. */
dct_value_id dct_trace_embed(dct_graph *g, dct_value_id ids, dct_value_id w, float scale, const char *name);
dct_value_id dct_trace_rms_norm(dct_graph *g, dct_value_id x, dct_value_id w, float eps, int32_t layer, const char *name);
dct_value_id dct_trace_linear(dct_graph *g, dct_value_id x, dct_value_id w, dct_value_id b, int32_t layer, const char *name);
dct_value_id dct_trace_rope(dct_graph *g, dct_value_id x, dct_value_id table, const dct_op_params *p, int32_t layer,
                            const char *name);
void dct_trace_kv_store(dct_graph *g, dct_value_id k, dct_value_id v, dct_value_id kc, dct_value_id vc, const dct_op_params *p,
                        int32_t layer);
/* ATTN, or ATTN_PART + ATTN_MERGE when `split`. */
dct_value_id dct_trace_attn(dct_graph *g, dct_value_id q, dct_value_id kc, dct_value_id vc, const dct_op_params *p, bool split,
                            int32_t layer, const char *name);
dct_value_id dct_trace_glu(dct_graph *g, dct_value_id gate, dct_value_id up, dct_act act, int32_t layer, const char *name);
dct_value_id dct_trace_add(dct_graph *g, dct_value_id a, dct_value_id b, int32_t layer, const char *name);
dct_value_id dct_trace_last_row(dct_graph *g, dct_value_id x, const char *name);
dct_value_id dct_trace_softcap(dct_graph *g, dct_value_id x, float cap, const char *name);

/* What graphs of one's own trace besides. */
dct_value_id dct_trace_layer_norm(dct_graph *g, dct_value_id x, dct_value_id w, dct_value_id b, float eps, const char *name);
dct_value_id dct_trace_act(dct_graph *g, dct_value_id x, dct_act act, const char *name);
dct_value_id dct_trace_mul(dct_graph *g, dct_value_id a, dct_value_id b, const char *name);
dct_value_id dct_trace_window(dct_graph *g, dct_value_id x, uint32_t width, uint32_t stride, uint32_t pad, const char *name);
/* KV_ROWS and ATTN_ROWS: p gives heads, scale, causal. */
dct_value_id dct_trace_attn_rows(dct_graph *g, dct_value_id q, dct_value_id k, dct_value_id v, const dct_op_params *p,
                                 const char *name);
void dct_trace_route(dct_graph *g, dct_value_id scores, uint32_t n_used, bool renorm, const char *name, dct_value_id *ids,
                     dct_value_id *weights);
dct_value_id dct_trace_experts(dct_graph *g, dct_value_id x, dct_value_id ids, dct_value_id w, const char *name);
dct_value_id dct_trace_mix(dct_graph *g, dct_value_id x, dct_value_id w, const char *name);

/* The last op alone: what dct_graph_check asks of inputs, outputs and shapes. */
dct_status dct_graph_check_last(const dct_graph *g, dct_err *err) DCT_MUST_CHECK;

/* Checks every op: count of inputs and outputs, formats, shapes, order (each value is defined before it is read, produced
 * once), aliases allowed by ops.def. DCT_BUG or DCT_BAD_FILE with the op's name. */
dct_status dct_graph_check(const dct_graph *g, dct_err *err) DCT_MUST_CHECK;

/* An input or output of a graph of one's own: found by its name. */
static inline bool dct_value_is_end(const dct_graph *g, dct_value_id id) {
    return (g->values[id].kind == DCT_KIND_INPUT || g->values[id].kind == DCT_KIND_OUTPUT) && id != g->ids && id != g->pos &&
           id != g->logits;
}

enum { DCT_MAX_ENDS = 64 };

/* Rows that a run of n has of a value. */
static inline uint32_t dct_value_rows(const dct_value *v, uint32_t n) {
    uint64_t rows = (uint64_t)v->row_mul * (((uint64_t)n + v->row_div - 1) / v->row_div);
    return rows < v->rows ? (uint32_t)rows : v->rows;
}

/* Whether two values have equal numbers of rows in a run of any length, but for their bounds. */
static inline bool dct_value_rows_alike(const dct_value *a, const dct_value *b) {
    return a->row_mul == b->row_mul && a->row_div == b->row_div;
}

/* Bytes of one row of a value; 0 for formats without rows. */
uint64_t dct_value_row_bytes(const dct_value *v);

/* Bytes of scratch that op needs for each worker, over the largest instruction set: attention what its kernels say,
 * LINEAR_GLU its tiles, NORM_QUANT one row of floats, others none. */
uint64_t dct_op_scratch_bytes(const dct_graph *g, const dct_op *op);

#endif
