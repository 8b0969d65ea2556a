/* dctms: transformer inference whose memory is known before it starts.
 *
 * The short way, for one model and one answer:
 *
 *     dctms_error err;
 *     dctms_model *model; dctms_plan *plan; dctms_session *session;
 *     dctms_plan_params pp = dctms_plan_default_params();
 *     pp.n_ctx = 1280; pp.n_output = 256;
 *     if (dctms_model_open("model.gguf", &model, &err) ||
 *         dctms_plan_compile(model, &pp, &plan, &err) ||           // exact memory, nothing read but the header
 *         dctms_session_open(model, plan, NULL, &session, &err))   // verify, reserve, load, start workers
 *         ... err.message says why
 *     dctms_gen_params gp = dctms_gen_default_params();
 *     dctms_chat_message m = {"user", "Hello"};
 *     dctms_session_chat(session, &m, 1, &err);                    // tokenizes and evaluates the prompt
 *     dctms_session_generate(session, &gp, on_text, ctx, &result, &err);
 *
 * where bool on_text(void *ctx, dctms_token, const char *text, size_t n) takes the answer; examples/answer.c is all of it.
 * A graph of one's own, traced by calls, is planned and run in the same way: the last part of this header.
 *
 * Nouns. A model is an open file's header. A plan says where every byte will lie and how much that is (M_max). A session is one
 * timeline of tokens in planned memory; after dctms_session_open nothing here allocates. Handles are opaque and belong to the
 * caller, who frees them (model, plan and session in any order). One thread may use a handle at a time.
 *
 * Errors. Functions return a dctms_status, 0 when fine, and fill *err (may be NULL). Nothing here prints or exits.
 * Structs that callers fill begin with their size, set by the *_default_* functions, so they may grow.
 */
#ifndef DCTMS_H
#define DCTMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DCTMS_VERSION_MAJOR 0
#define DCTMS_VERSION_MINOR 1
#define DCTMS_VERSION_PATCH 0

#if defined(__GNUC__)
#define DCTMS_API __attribute__((visibility("default")))
#else
#define DCTMS_API
#endif

/* Also the exit codes of the command. */
typedef enum dctms_status {
    DCTMS_OK = 0,
    DCTMS_USAGE = 1,       /* a parameter makes no sense */
    DCTMS_BAD_FILE = 2,    /* model or plan file: truncated, malformed, unsupported, of another model */
    DCTMS_NO_FIT = 3,      /* memory: need and have are in the message */
    DCTMS_BOUND = 4,       /* more tokens than the plan's bounds */
    DCTMS_SYSTEM = 5,      /* the operating system refused something */
    DCTMS_BUG = 70,
    DCTMS_INTERRUPTED = 130 /* dctms_session_interrupt asked to stop while a prompt was evaluated */
} dctms_status;

typedef struct dctms_error {
    dctms_status code;
    uint64_t offset;   /* byte in the file that was read, or UINT64_MAX */
    char message[400]; /* one line */
} dctms_error;

typedef struct dctms_model dctms_model;
typedef struct dctms_plan dctms_plan;
typedef struct dctms_session dctms_session;
typedef struct dctms_tokenizer dctms_tokenizer;
typedef uint32_t dctms_token;

/* Takes pieces of text in order. */
typedef void dctms_write_fn(void *ctx, const char *text, size_t n);

DCTMS_API const char *dctms_version(void);
DCTMS_API const char *dctms_status_text(dctms_status status);
/* The instruction set in use: "avx512-vnni", "avx2", "scalar", ... The environment variable DCTMS_ISA lowers it to the set it
 * names; a name that is unknown, or that this processor lacks, is no error: look here what came of it. */
DCTMS_API const char *dctms_kernels_name(void);

/* ---- model ---- */

/* Reads the header of a GGUF file (or of the first part of a split one), or a directory as Hugging Face or MLX have it. A file
 * whose data is cut off opens: see data_missing. */
DCTMS_API dctms_status dctms_model_open(const char *path, dctms_model **model, dctms_error *err);
DCTMS_API void dctms_model_free(dctms_model *model);

typedef struct dctms_model_info {
    char arch[32], name[64], type_name[32]; /* type_name: the type of most weights, "Q4_0", ... */
    uint64_t file_bytes, header_bytes, tensor_bytes, n_params, fingerprint;
    uint32_t n_layer, n_embd, n_head, n_head_kv, n_vocab, n_ctx_train;
    bool data_missing;
} dctms_model_info;
DCTMS_API dctms_status dctms_model_get_info(const dctms_model *model, dctms_model_info *info, dctms_error *err);

/* Everything that the file's header holds, for people (json: one object). `all` also lists long arrays and every tensor. Works on
 * files of architectures that cannot be run. */
DCTMS_API dctms_status dctms_model_inspect(const dctms_model *model, bool json, bool all, dctms_write_fn *write, void *ctx,
                                           dctms_error *err);

/* ---- plan ---- */

typedef enum dctms_logits { DCTMS_LOGITS_LAST, DCTMS_LOGITS_ALL } dctms_logits;

/* A context and its chunk. Of a plan with several, a session runs in the smallest that holds the next token, and moves with its
 * timeline, inside the same memory, when that is another: a prompt is read in large chunks while the context is short. */
enum { DCTMS_MAX_CTX_STEPS = 8 };
typedef struct dctms_ctx_step {
    uint32_t n_ctx, ubatch; /* ubatch 0: that of the parameters */
} dctms_ctx_step;

typedef struct dctms_plan_params {
    size_t struct_bytes;
    uint32_t n_ctx;    /* N + M; 0: min(4096, trained) */
    int32_t n_output;  /* M; 0: min(512, n_ctx / 2); -1: n_ctx / 2 */
    uint32_t ubatch;   /* rows of a prefill chunk; 0: 512, never more than N */
    uint32_t threads;  /* 0: what affinity and cgroup allow */
    char type_k[8], type_v[8]; /* "f32", "f16", "bf16", "q8_0"; "" is f16 */
    dctms_logits logits;
    uint64_t memory_budget;    /* bytes; 0: none. Else the largest ubatch that fits */
    uint64_t pack_nodes;       /* 0: default */
    uint32_t budget_ctx;       /* with a budget: when n_ctx does not fit whatever the ubatch, the largest context from this on
                                  that does; 0: n_ctx or nothing */
    const char *cost_profile;  /* file of `dctms calibrate`; NULL: the built-in profile */
    dctms_ctx_step ctx_steps[DCTMS_MAX_CTX_STEPS]; /* ascending; the last is n_ctx, which may stay 0. A budget is met by the steps
                                  that take most: their chunks are halved */
    uint32_t n_ctx_steps;      /* 0: one context */
    bool overlap;              /* the plan has room for decode to run while another phase does. A session does not run them so: it
                                  gives the same tokens in more memory */
} dctms_plan_params;
DCTMS_API dctms_plan_params dctms_plan_default_params(void);

/* Compiles. DCTMS_NO_FIT names need and budget; DCTMS_USAGE a senseless bound (n_ctx <= n_output, ...). */
DCTMS_API dctms_status dctms_plan_compile(const dctms_model *model, const dctms_plan_params *params, dctms_plan **plan,
                                          dctms_error *err);
DCTMS_API dctms_status dctms_plan_load(const char *path, dctms_plan **plan, dctms_error *err);
DCTMS_API dctms_status dctms_plan_save(const dctms_plan *plan, const char *path, dctms_error *err);
DCTMS_API void dctms_plan_free(dctms_plan *plan);

/* Checks a plan with the independent verifier; model may be NULL. On a defect: DCTMS_BAD_FILE, and `defect` (may be NULL, 32
 * bytes) receives its code's name, for instance "OVERLAP". */
DCTMS_API dctms_status dctms_plan_verify(const dctms_plan *plan, const dctms_model *model, char defect[32], dctms_error *err);

typedef enum dctms_plan_format {
    DCTMS_PLAN_TABLE, DCTMS_PLAN_TEXT, DCTMS_PLAN_JSON, DCTMS_PLAN_SVG_PREFILL, DCTMS_PLAN_SVG_DECODE,
    DCTMS_PLAN_PAPER, DCTMS_PLAN_HTML, DCTMS_PLAN_SVG_GRAPH
} dctms_plan_format;
DCTMS_API dctms_status dctms_plan_print(const dctms_plan *plan, dctms_plan_format format, dctms_write_fn *write, void *ctx,
                                        dctms_error *err);

/* What differs between two plans: bounds, envelope, phases, values that appear, vanish or change; as text, or as JSON. */
DCTMS_API dctms_status dctms_plan_diff(const dctms_plan *before, const dctms_plan *after, bool json, dctms_write_fn *write,
                                       void *ctx, dctms_error *err);

/* Which operations of the model may run at the same time, and what that could win: as text. The model is the plan's. */
DCTMS_API dctms_status dctms_plan_concurrency(const dctms_plan *plan, const dctms_model *model, dctms_write_fn *write, void *ctx,
                                              dctms_error *err);

typedef struct dctms_plan_info {
    uint64_t m_max_bytes, weights_bytes, kv_bytes, persistent_bytes, intermediate_bytes, runtime_bytes;
    uint64_t available_bytes; /* memory for this plan now, if it takes the place of what this process holds */
    char available_source[128];
    uint32_t n_ctx, n_input, n_output, ubatch, threads;
    double compile_ms;
    bool optimal; /* every phase */
    uint64_t step_weight_bytes;               /* packed weights that the products of one generated token read */
    uint64_t prompt_row_macs; /* multiply-accumulates of products: for each token of a prompt; */
    uint64_t prompt_run_macs; /* besides, for each chunk */
    uint32_t logical_tensors, physical_buffers; /* counted as the paper does */
    dctms_ctx_step ctx_steps[DCTMS_MAX_CTX_STEPS];
    uint32_t n_ctx_steps; /* 0: one context */
    uint64_t reserve_bytes; /* of m_max_bytes: what is one reservation */
} dctms_plan_info;
DCTMS_API void dctms_plan_get_info(const dctms_plan *plan, dctms_plan_info *info);

/* ---- several models under one envelope ---- */

typedef struct dctms_group dctms_group;

typedef enum dctms_group_mode {
    DCTMS_CONCURRENT, /* any of the sessions may run at any time */
    DCTMS_EXCLUSIVE   /* one at a time: intermediates share bytes; to open, tokenize or evaluate while another does any of
                         these is DCTMS_USAGE, and changes nothing. An answer that is under way ends so where another begins:
                         what was delivered stays, and its last token is evaluated by what comes next */
} dctms_group_mode;

/* One reservation and one M_max for sessions of several plans in one process. Packed weights of one file that are the same are
 * there once. The plans are held: the caller may free his. */
DCTMS_API dctms_status dctms_group_make(const dctms_plan *const *plans, uint32_t n, dctms_group_mode mode, dctms_group **group,
                                        dctms_error *err);
DCTMS_API void dctms_group_free(dctms_group *group); /* sessions hold it as long as they are open */

/* The handle to open a session with: plan i's place in the group. It belongs to the group and is not freed. Sessions of a group
 * are opened and closed one after another. */
DCTMS_API const dctms_plan *dctms_group_member(const dctms_group *group, uint32_t i);

typedef struct dctms_group_info {
    uint64_t m_max_bytes, reserve_bytes, outside_bytes;
    uint64_t alone_bytes;  /* what the plans take in processes of their own */
    uint64_t arena_bytes;  /* intermediates of all */
} dctms_group_info;
DCTMS_API void dctms_group_get_info(const dctms_group *group, dctms_group_info *info);

/* The envelope, a line a model, then what they share; or the same as JSON. Other formats are a plan's alone: DCTMS_USAGE. */
DCTMS_API dctms_status dctms_group_print(const dctms_group *group, dctms_plan_format format, dctms_write_fn *write, void *ctx,
                                         dctms_error *err);

/* ---- session ---- */

typedef enum dctms_alloc { DCTMS_ALLOC_PLANNED, DCTMS_ALLOC_DYNAMIC } dctms_alloc;

typedef struct dctms_session_params {
    size_t struct_bytes;
    dctms_alloc alloc;  /* DYNAMIC: unfused graph, one malloc and free per tensor, KV grown by 256: for comparison */
    bool mlock;         /* pin the reservation; failing is fatal */
    bool force;         /* start even when M_max exceeds the available memory */
    bool whole_process; /* the process is this session: DCTMS_NO_FIT when program, libraries, heap and stack hold more than M_max
                           has for them */
    void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes populated and bytes loaded, from 0; may be NULL */
    void *progress_ctx;
} dctms_session_params;
DCTMS_API dctms_session_params dctms_session_default_params(void);

/* Verifies the plan against a fresh trace, reserves M_max, builds the token tables, loads the weights, starts the workers,
 * populates and touches every page, and runs one rehearsal step. To keep the peak at M_max it drops the model's header on the
 * way: afterwards `model` can only be freed. */
DCTMS_API dctms_status dctms_session_open(dctms_model *model, const dctms_plan *plan, const dctms_session_params *params,
                                          dctms_session **session, dctms_error *err);
DCTMS_API void dctms_session_free(dctms_session *session);

/* Populates every page of the process, but for anonymous mappings above 64 MiB, which are their owners', and forbids it to obtain
 * memory from now on: process-wide and irrevocable, for executables once all is open. *enforced (may be NULL) is false where the
 * system has no way to enforce it. `kill`: an attempt raises SIGSYS, which ends the process. */
DCTMS_API dctms_status dctms_seal(bool kill, bool *enforced, dctms_error *err);

/* The tokens evaluated so far. Rewind forgets those from `n` on. */
DCTMS_API uint32_t dctms_session_n_tokens(const dctms_session *session);
DCTMS_API dctms_status dctms_session_rewind(dctms_session *session, uint32_t n, dctms_error *err);

/* Evaluates tokens after those there are. Logits that are not finite are DCTMS_BAD_FILE, here and wherever tokens are evaluated:
 * the weights are damaged. A prompt may bring the timeline to at most N, generation to N + M: DCTMS_BOUND names
 * both numbers, and nothing is evaluated then. */
DCTMS_API dctms_status dctms_session_eval(dctms_session *session, const dctms_token *tokens, uint32_t n, dctms_error *err);

/* Evaluates generated tokens (the bound is N + M). */
DCTMS_API dctms_status dctms_session_step(dctms_session *session, dctms_token token, dctms_error *err);

/* f32[n_vocab] after the last token. With LOGITS_ALL, row i of the last chunk that was evaluated (at most ubatch rows). */
DCTMS_API const float *dctms_session_logits(const dctms_session *session);
DCTMS_API const float *dctms_session_logits_row(const dctms_session *session, uint32_t row);
DCTMS_API uint32_t dctms_session_n_vocab(const dctms_session *session);

/* Tokenizes and evaluates a prompt. DCTMS_BOUND names how many tokens it has; at least how many, when the planned memory has no
 * room to tokenize a text so long. One that is interrupted stays as far as it was read, without logits: rewind. */
DCTMS_API dctms_status dctms_session_prompt(dctms_session *session, const char *text, size_t n, bool parse_special,
                                            dctms_error *err);

typedef struct dctms_chat_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
} dctms_chat_message;

/* Planned memory for a prompt or for the messages of a conversation, so that a sealed process can keep them: what N tokens can
 * need at most. It is the caller's; nothing here reads or writes it. */
typedef struct dctms_conversation {
    char *text;
    size_t n_text;      /* bytes: of the longest text of N tokens, and a NUL for each message */
    dctms_chat_message *messages;
    uint32_t n_messages; /* N + 2: no message can do without a token */
} dctms_conversation;
DCTMS_API dctms_conversation dctms_session_conversation(const dctms_session *session);

/* DCTMS_BOUND when a text of so many bytes cannot fit whatever it says; the message names at least how many tokens it has, and
 * the bound. */
DCTMS_API dctms_status dctms_session_check_length(const dctms_session *session, uint64_t n_bytes, dctms_error *err);

/* What the file has for chats; set_chat_template does not change it. */
typedef enum dctms_template { DCTMS_TEMPLATE_NONE, DCTMS_TEMPLATE_UNKNOWN, DCTMS_TEMPLATE_KNOWN } dctms_template;
DCTMS_API dctms_template dctms_session_file_template(const dctms_session *session);

/* "" means the file's own template, recognised; otherwise a family's name. Fails when neither is known, listing the names. */
DCTMS_API dctms_status dctms_session_set_chat_template(dctms_session *session, const char *name, dctms_error *err);

/* Renders the whole conversation with the assistant's turn opened, keeps the prefix that the timeline already has, evaluates the
 * rest. When it does not fit: DCTMS_BOUND, and the timeline is as it was. */
DCTMS_API dctms_status dctms_session_chat(dctms_session *session, const dctms_chat_message *messages, uint32_t n,
                                          dctms_error *err);

typedef struct dctms_logit_bias { dctms_token token; float bias; } dctms_logit_bias;

/* Sampler chain in llama.cpp's order: logit bias, penalties, top_k, top_p, min_p, temperature, draw. temperature <= 0: greedy. */
typedef struct dctms_gen_params {
    size_t struct_bytes;
    uint32_t n_predict;        /* at most M; 0: M */
    float temperature, top_p, min_p;
    int32_t top_k;             /* <= 0: off */
    float repeat_penalty, presence_penalty, frequency_penalty;
    int32_t repeat_last_n;     /* 0: off, -1: all */
    uint64_t seed;
    bool ignore_eos;
    const dctms_logit_bias *bias;
    uint32_t n_bias;           /* at most 64 */
    const char *const *stop;   /* strings; at most 16, each under 256 bytes */
    uint32_t n_stop;
} dctms_gen_params;
/* temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, penalties off, last_n 64, seed 0 */
DCTMS_API dctms_gen_params dctms_gen_default_params(void);

typedef enum dctms_finish { DCTMS_FINISH_STOP, DCTMS_FINISH_LENGTH, DCTMS_FINISH_WORD, DCTMS_FINISH_INTERRUPTED } dctms_finish;

typedef struct dctms_result {
    uint32_t n_prompt, n_predicted; /* n_prompt, in prompt_ms: evaluated since the last answer, or since the timeline began */
    double prompt_ms, predicted_ms;
    dctms_finish finish; /* an end token | M reached | a stop string | asked to stop */
} dctms_result;

/* Whole UTF-8 characters of the answer as they come; return false to stop. `token` is the one that completed the text, or
 * UINT32_MAX. */
typedef bool dctms_text_fn(void *ctx, dctms_token token, const char *text, size_t n);

/* Generates from the logits there are until an end. `text` may be NULL. The generated tokens: dctms_session_generated. */
DCTMS_API dctms_status dctms_session_generate(dctms_session *session, const dctms_gen_params *params, dctms_text_fn *text,
                                              void *ctx, dctms_result *result, dctms_error *err);
DCTMS_API const dctms_token *dctms_session_generated(const dctms_session *session, uint32_t *n);
DCTMS_API const char *dctms_session_text(const dctms_session *session, size_t *n); /* the whole answer, kept in planned memory */

/* Stops what runs, or what runs next; may be called from a signal handler. The other forgets a request that nothing has seen. */
DCTMS_API void dctms_session_interrupt(dctms_session *session);
DCTMS_API void dctms_session_clear_interrupt(dctms_session *session);

typedef struct dctms_memory {
    uint64_t m_max_bytes, vm_hwm_bytes, vm_peak_bytes, vm_size_bytes, rss_anon_bytes, vm_swap_bytes;
    uint64_t min_faults, maj_faults; /* since the session became ready */
    bool sealed;
} dctms_memory;
DCTMS_API void dctms_session_memory(const dctms_session *session, dctms_memory *out);
/* Begins the window in which faults are counted (after dctms_seal). */
DCTMS_API void dctms_session_mark_ready(dctms_session *session);
/* How often the workers have waited for one another since the session opened; not counted with DCTMS_ALLOC_DYNAMIC. */
DCTMS_API uint64_t dctms_session_waits(const dctms_session *session);

/* ---- tokens ---- */

/* The tokenizer alone. Memory is its own. */
DCTMS_API dctms_status dctms_tokenizer_open(const dctms_model *model, dctms_tokenizer **tokenizer, dctms_error *err);
DCTMS_API void dctms_tokenizer_free(dctms_tokenizer *tokenizer);
/* Writes at most cap ids; *n is the full count. */
DCTMS_API dctms_status dctms_tokenize(const dctms_tokenizer *tokenizer, const char *text, size_t n_text, bool add_special,
                                      bool parse_special, dctms_token *ids, size_t cap, size_t *n, dctms_error *err);
/* Writes the bytes of a token's text, at most cap of them, and returns how many; they need not be whole UTF-8. Control tokens
 * have a text only if `special`. */
DCTMS_API size_t dctms_token_text(const dctms_tokenizer *tokenizer, dctms_token id, bool special, char *out, size_t cap);
/* A session's tokenizer; valid as long as the session. It may work over the session's intermediates, so it is used as the session
 * is: by one thread at a time, not while the session evaluates. In an exclusive group dctms_tokenize may be DCTMS_USAGE, while
 * another model evaluates. */
DCTMS_API const dctms_tokenizer *dctms_session_tokenizer(const dctms_session *session);

/* ---- graphs of one's own: docs/TRACING.md, examples/ ---- */

/* A graph is traced by the calls below and then planned, verified, printed and run like a model's. It works on rows: a run has
 * 1..max_rows of them, an input or a result has as many rows of floats, or one for every few. All shapes are checked as they are
 * traced. A call that cannot be right returns DCTMS_NO_VALUE, as does every call after it; the first failure is kept, and
 * dctms_graph_status and dctms_graph_compile say what it was. Names are copied. No two inputs and outputs have the same name, no
 * two weights; these names have 1 to 47 bytes. */
typedef struct dctms_graph dctms_graph;
typedef struct dctms_runner dctms_runner;
typedef uint32_t dctms_value; /* a value of the graph that gave it */
#define DCTMS_NO_VALUE UINT32_MAX

DCTMS_API dctms_status dctms_graph_new(const char *name, uint32_t max_rows, dctms_graph **graph, dctms_error *err);
DCTMS_API void dctms_graph_free(dctms_graph *graph);
DCTMS_API dctms_status dctms_graph_status(const dctms_graph *graph, dctms_error *err);

/* Inputs. f32[rows, cols] with a row for every `stride` rows of a run, a begun one counted; and one int32 a row of a run. */
DCTMS_API dctms_value dctms_graph_input(dctms_graph *graph, const char *name, uint32_t cols, uint32_t stride);
DCTMS_API dctms_value dctms_graph_input_ids(dctms_graph *graph, const char *name);

/* Makes a result one that the caller reads after a run, under this name. */
DCTMS_API void dctms_graph_output(dctms_graph *graph, dctms_value x, const char *name);

/* Weights: a matrix of `type` ("f32", "f16", "bf16", "q8_0", "q4_0", ...) with its rows as model files have them, or n floats.
 * The data stays the caller's and is read when a runner opens; NULL is enough to plan. Or a tensor of a model file, which must be
 * open until then, the same for all: a tensor of one dimension is a vector, any other a matrix of rows of its first. */
DCTMS_API dctms_value dctms_graph_matrix(dctms_graph *graph, const char *name, const char *type, uint32_t rows, uint32_t cols,
                                         const void *data);
DCTMS_API dctms_value dctms_graph_vector(dctms_graph *graph, const char *name, uint32_t n, const float *data);
DCTMS_API dctms_value dctms_graph_tensor(dctms_graph *graph, const dctms_model *model, const char *name);

/* Operations. Each returns its result; `name` is for plans and messages. */

/* x W^T + bias (DCTMS_NO_VALUE: none). A quantised W takes x in blocks of 32 that are quantised to 8 bits. */
DCTMS_API dctms_value dctms_graph_linear(dctms_graph *graph, dctms_value x, dctms_value w, dctms_value bias, const char *name);
/* Rows of w by ids, an input. A run with an id that w has no row for is refused. */
DCTMS_API dctms_value dctms_graph_rows(dctms_graph *graph, dctms_value ids, dctms_value w, const char *name);
DCTMS_API dctms_value dctms_graph_rms_norm(dctms_graph *graph, dctms_value x, dctms_value w, float eps, const char *name);
DCTMS_API dctms_value dctms_graph_layer_norm(dctms_graph *graph, dctms_value x, dctms_value w, dctms_value bias, float eps,
                                             const char *name);
DCTMS_API dctms_value dctms_graph_add(dctms_graph *graph, dctms_value a, dctms_value b, const char *name);
DCTMS_API dctms_value dctms_graph_mul(dctms_graph *graph, dctms_value a, dctms_value b, const char *name);

typedef enum dctms_act { DCTMS_SILU, DCTMS_GELU, DCTMS_SIGMOID } dctms_act; /* GELU by tanh */
DCTMS_API dctms_value dctms_graph_act(dctms_graph *graph, dctms_value x, dctms_act act, const char *name);
/* act(gate) * up. */
DCTMS_API dctms_value dctms_graph_glu(dctms_graph *graph, dctms_value gate, dctms_value up, dctms_act act, const char *name);

/* Row t is `width` rows of x side by side, those from t * stride - pad on, zeros where x has none: a convolution over rows is a
 * window and a product. A row for every `stride` rows of x, a begun one counted. */
DCTMS_API dctms_value dctms_graph_window(dctms_graph *graph, dctms_value x, uint32_t width, uint32_t stride, uint32_t pad,
                                         const char *name);

/* Rotates the first n_rot elements of each head by the number of the row: pairs (i, i + n_rot / 2), or neighbours. */
DCTMS_API dctms_value dctms_graph_rope(dctms_graph *graph, dctms_value x, uint32_t head_dim, uint32_t n_rot, float base,
                                       bool neighbours, const char *name);

/* softmax(q k^T * scale) v, head by head; n_head is a multiple of n_head_kv. Causal: row t sees rows 0..t, else all there are. */
DCTMS_API dctms_value dctms_graph_attention(dctms_graph *graph, dctms_value q, dctms_value k, dctms_value v, uint32_t n_head,
                                            uint32_t n_head_kv, float scale, bool causal, const char *name);

/* Which experts run is data: for each row those n_used with the largest scores[row, n_expert], and how much each counts: softmax
 * over all experts; `renorm`: divided by the sum of those chosen. */
typedef struct dctms_routing {
    dctms_value ids, weights;
} dctms_routing;
DCTMS_API dctms_routing dctms_graph_route(dctms_graph *graph, dctms_value scores, uint32_t n_used, bool renorm,
                                          const char *name);
/* Each row times the weights of each expert that it chose: row t * n_used + j is for choice j of row t. w has the rows of expert
 * 0, then those of expert 1, ..., a multiple of 16 each. x has a row for each row routed or, from an earlier
 * dctms_graph_experts, for each choice. Whatever is chosen, a row has n_used results: their bytes cover every routing. */
DCTMS_API dctms_value dctms_graph_experts(dctms_graph *graph, dctms_value x, dctms_routing routing, dctms_value w,
                                          const char *name);
/* Sums of rows: row t is the sum over j of weights[t, j] times row t * g + j of x, for weights[rows, g]. */
DCTMS_API dctms_value dctms_graph_mix(dctms_graph *graph, dctms_value x, dctms_value weights, const char *name);

/* Compiles for so many worker threads (0: what affinity and cgroup allow). The plan needs the graph no longer. M_max is all that
 * the library takes for one runner, not the caller's program. DCTMS_USAGE when the graph cannot be right. */
DCTMS_API dctms_status dctms_graph_compile(const dctms_graph *graph, uint32_t threads, dctms_plan **plan, dctms_error *err);

/* As dctms_plan_verify, against the graph. */
DCTMS_API dctms_status dctms_graph_verify(const dctms_graph *graph, const dctms_plan *plan, char defect[32], dctms_error *err);

/* Verifies, reserves, loads the weights and starts the workers. `memory`: the caller's for the reservation, reserve_bytes of the
 * plan's info at a multiple of 4096, left alone until the runner is freed; NULL: mapped here. Afterwards the graph, its weights
 * and the plan may be freed, and nothing allocates any more. */
DCTMS_API dctms_status dctms_runner_open(const dctms_graph *graph, const dctms_plan *plan, void *memory, size_t n_memory,
                                         dctms_runner **runner, dctms_error *err);
DCTMS_API void dctms_runner_free(dctms_runner *runner);

/* Where an input or output of that name lies, row after row, as long as the runner lives; NULL when there is none. Inputs are the
 * caller's to write between runs and are kept. */
DCTMS_API void *dctms_runner_data(const dctms_runner *runner, const char *name);

/* One run of n rows. DCTMS_BOUND when they are more than max_rows, or an id has no row. */
DCTMS_API dctms_status dctms_runner_run(dctms_runner *runner, uint32_t n, dctms_error *err);

#ifdef __cplusplus
}
#endif

#endif
