/* tools/tools: work beside inference: synth, pack, onnx, emit, roofline, calibrate; protocol.h has the paper's experiment. Each
 * is a function that takes plain parameters and reports by status. */
#ifndef DCT_TOOLS_TOOLS_H
#define DCT_TOOLS_TOOLS_H

#include "base/dtype.h"
#include "tools/protocol.h"

/* Writes a GGUF file of a known shape with seeded random weights. `type` names a tensor type ("Q4_0") or a mixture ("Q4_K_M",
 * "Q5_K_M", ...), or a directory ("hf-bf16", "mlx-4bit", ...), which is made where there is none. progress may be NULL. */
typedef struct dct_synth_params {
    const char *name; /* "qwen2.5-1.5b", ... */
    const char *type;
    const char *path;
    uint64_t seed;
    uint32_t threads;
    bool header_only; /* the file ends where its weights would begin: enough for a plan */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
} dct_synth_params;
dct_status dct_synth(const dct_synth_params *params, dct_err *err) DCT_MUST_CHECK;
const char *dct_synth_names(void); /* for people: all of them, with commas */
const char *dct_synth_mix_names(void);

/* Reads a problem in the public CSV format (id,lower,upper,size[,alignment,hint,gaps,offset], half-open, and our pool and alias),
 * packs each pool, has the answer verified, and writes it back with offsets. Stops at the first packing under a capacity unless
 * `minimize`; DCT_NO_FIT when none was found, and nothing is written then. */
#define DCT_PACKFILE_MAX_BYTES (UINT64_C(256) << 20)
typedef struct dct_packfile_result {
    uint64_t n_items, load, bound, height, nodes; /* bound: proven, no packing is lower. Sums where there are several pools */
    bool optimal;                                 /* height == bound */
    double ms;
} dct_packfile_result;
typedef struct dct_packfile_capacity {
    const char *pool; /* NULL: of each pool of which none after it speaks */
    uint64_t bytes;
} dct_packfile_capacity;
typedef struct dct_packfile_params {
    const char *path;
    const char *text;         /* NULL: what is in the file; else the problem, and `path` is its name in messages */
    uint64_t n_text;
    const char *output, *svg; /* NULL: no such file */
    const dct_packfile_capacity *capacities;
    uint32_t n_capacities;
    uint64_t nodes;           /* of the exact search, for each pool; 0: default */
    float seconds;            /* 0: nodes alone decide, and the answer is the same everywhere */
    bool minimize;
    void (*pool)(void *ctx, const char *name, const dct_packfile_result *result); /* told of each when there are several */
    void *ctx;
} dct_packfile_params;
dct_status dct_packfile(const dct_packfile_params *params, dct_packfile_result *result, dct_err *err) DCT_MUST_CHECK;

/* Plans an ONNX file: the lifetimes of its values, a packing that the verifier accepted, its certificate, and what it all takes.
 * dims are "batch=1", inputs "images=1x3x224x224", values "rate=16000": what is in an input. Nodes that cannot be shaped are
 * listed through `complain`, a line each, before DCT_BAD_FILE. */
typedef struct dct_onnx_params {
    const char *path;
    const char *const *dims, *const *inputs, *const *values;
    uint32_t n_dims, n_inputs, n_values;
    uint64_t nodes;      /* of the exact search; 0: default */
    bool keep_order;     /* the file's order of nodes, where another would need less */
    bool json, with_values; /* the steps and values as well as the table */
    const char *svg;     /* NULL: no such file */
    void (*write)(void *ctx, const char *text, size_t n);
    void *ctx;
    void (*complain)(void *ctx, const char *text, size_t n);
    void *complain_ctx;
} dct_onnx_params;
dct_status dct_onnx_plan(const dct_onnx_params *params, dct_err *err) DCT_MUST_CHECK;

/* A plan's command as a file for a scheduler, with M_max as its limit of memory. Paths begin with '/'. */
typedef struct dct_emit_params {
    const char *format;       /* one of dct_emit_names */
    const char *name;         /* what it runs: any text */
    const char *program;      /* for a unit; containers have dctms in their path */
    const char *image;        /* of the container */
    const char *model, *prompt; /* files that the command reads: containers see them at the same paths, to read only */
    bool model_is_directory;
    const char *const *words; /* of the command, without the program */
    uint32_t n_words, threads;
    uint64_t m_max_bytes;
    bool locks;               /* the command has --mlock */
    void (*write)(void *ctx, const char *text, size_t n);
    void *ctx;
} dct_emit_params;
dct_status dct_emit(const dct_emit_params *params, dct_err *err) DCT_MUST_CHECK;
bool dct_emit_knows(const char *format);
const char *dct_emit_names(void); /* for people: all of them, with commas */

/* What this machine could do at most: bytes read and int8 multiply-accumulates a second, by one worker and by all, with the
 * instruction set of the kernels in use. Takes about a second and up to 512 MiB, which are given back. */
enum { DCT_ROOFLINE_WORKERS = 1024 };
typedef struct dct_roofline {
    uint32_t n_workers;
    double bytes_per_s_one, bytes_per_s_all, macs_per_s_one, macs_per_s_all; /* the best of many passes */
    double bytes_per_s_median, macs_per_s_median;                              /* the median pass of all workers */
    double wait_s_all; /* handing nothing to all of them and having it back */
} dct_roofline;
dct_status dct_roofline_measure(uint32_t n_workers, dct_roofline *out, dct_err *err) DCT_MUST_CHECK;

/* The same for 1..n_workers, as the cost profile that plans can be made with (compile/profile.c): text for `write`. */
enum { DCT_CALIBRATE_WORKERS = 64 };
dct_status dct_calibrate(uint32_t n_workers, void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
                         void (*write)(void *ctx, const char *text, size_t n), void *ctx, dct_err *err) DCT_MUST_CHECK;

#endif
