/* engine/engine: what stands behind the public handles. Only this folder sees it.
 *
 *   dctms_model    a file's header in an arena of its own; session_open drops the header and keeps the open files
 *   dctms_plan     a compact copy of a plan in its own arena; counted, because sessions run on it after the caller freed it
 *   dctms_group    plans that live in one reservation; a plan that is opened alone is a group of one
 *   dctms_graph    what the caller traced, and a record of his weights as of a model's tensors
 *   dctms_runner   lies in its reservation, at the item "runner"
 *   dctms_session  lies in its group's reservation, at the item "session"
 *
 * Handles that come before a reservation are mapped by themselves. Nothing here calls malloc but dynamic.c, whose purpose it is.
 */
#ifndef DCT_ENGINE_ENGINE_H
#define DCT_ENGINE_ENGINE_H

#include <stdatomic.h>

#include "arch/arch.h"
#include "compile/compile.h"
#include "dctms.h"
#include "engine/sampler.h"
#include "exec/exec.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct dctms_model {
    dct_arena arena;
    dct_model model;
    bool is_open;            /* the header is there */
    dct_status hparams_status; /* files of other architectures can be inspected, not run */
    dct_err hparams_err;
    dct_hparams hp;
    uint64_t map_bytes;
    char path[];
};

struct dctms_plan {
    dct_arena arena;         /* holds the plan and nothing else */
    _Atomic uint32_t owners;
    dct_plan *plan;
    const char *model_path;  /* "" when loaded from a file */
    const char *path;        /* of the plan's file; "" when compiled here */
    double compile_ms;
    dct_profile profile;     /* what it was made with, or the built-in one when that is not known */
    dctms_group *group;      /* a member's handle lies in its group and shares the plan of the handle it was made of; else NULL */
    uint32_t member;
};

struct dctms_group {
    dct_arena arena;         /* holds the layout and the lists */
    _Atomic uint32_t owners; /* the caller and each session */
    dct_group layout;
    dctms_plan **held;       /* [n_plans] */
    dctms_plan *members;     /* [n_plans] */
    uint32_t n_open;
    char **piece_at;         /* [n_pieces]: NULL until a session needs it */
    bool *is_open;           /* [n_plans]: a session is */
    bool *is_filled;         /* [n_pieces]: populated, and where it is weights, loaded */
    uint64_t *loaded_from;   /* [n_pieces]: of weights that are loaded, the identity of the file */
    _Atomic bool is_running; /* one of an exclusive group has the turn */
};

struct dctms_tokenizer {
    dct_tokenizer *tables;
    void *map;               /* what a tokenizer of its own occupies; NULL in a session */
    uint64_t map_bytes;
    void *scratch;           /* a session's; NULL: mapped for the call */
    uint64_t scratch_bytes;
    dctms_group *group;      /* whose turn the scratch needs: it lies over intermediates; else NULL */
};

struct dctms_graph {
    dct_arena arena;
    dct_graph graph;
    dct_model model;         /* its tensors are the weights: in the caller's memory, or in the files of `file` */
    uint32_t cap_tensors;
    const dctms_model *file; /* NULL: none of the weights is a file's */
    char name[64];
};

/* An input of ids, and for how many there are rows. */
typedef struct dct_ids_input {
    dct_value_id value;
    const int32_t *ids;
    uint32_t n_rows;
} dct_ids_input;

struct dctms_runner {
    dctms_plan *handle;      /* held */
    const dct_phase *phase;
    dct_arena keep;          /* the checked plan */
    void *mapped;            /* the reservation, when it is ours to give back */
    dct_bases bases;
    dct_pool *pool;
    dct_exec *exec;
    uint32_t n_ids;
    dct_ids_input ids[DCT_MAX_ENDS];
};

typedef struct dct_dynamic dct_dynamic;

enum { DCT_MAX_MEMBERS = DCT_PLAN_MAX_SMALLER + 1 };
enum { DCT_MAX_END_TOKENS = 64, DCT_MAX_STOPS = 16, DCT_MAX_STOP_BYTES = 256, DCT_MAX_BIAS = 64 };

struct dctms_session {
    const dctms_plan *handle; /* its place in the group */
    const dct_plan *plan;    /* of its family the largest member, whose bounds are the session's */
    dct_arena keep;          /* the checked plans */
    dctms_group *group;      /* held */
    dct_bases bases;         /* of that member */
    dct_checked_plan *checked[DCT_MAX_MEMBERS]; /* of each member of the family */
    dct_exec *exec[DCT_MAX_MEMBERS];
    uint32_t member;         /* the one that runs: its caches hold the timeline */
    dct_pool *pool;
    dct_dynamic *dynamic;    /* NULL when planned */
    dctms_tokenizer tokenizer;
    dct_sampler sampler;
    dct_chat_family family;
    char *jinja;             /* the file's template, in the item "chat template" */
    uint64_t jinja_bytes;

    /* the timeline */
    dct_token *timeline;     /* [n_ctx], the tokens that the caches hold */
    uint32_t n_past;
    dct_token pending;       /* generated and delivered, not evaluated yet; DCT_NO_TOKEN */
    const float *logits;     /* row 0 of the rows that the last step computed; NULL before the first */
    uint32_t n_logit_rows;
    uint32_t n_vocab;

    dct_token *prompt;       /* [n_input + 1] scratch for tokenized text */
    dct_token *generated;    /* [n_output] */
    uint32_t n_generated;
    char *text;              /* the answer */
    uint64_t text_cap, n_text;
    dctms_conversation conversation; /* the caller's */
    dct_token end_tokens[DCT_MAX_END_TOKENS];
    uint32_t n_end_tokens;

    _Atomic int interrupted;
    double prompt_ms;        /* of the prompt that the next answer follows: since the last answer, or the begin of the timeline */
    uint32_t n_prompt;       /* tokens of it that were evaluated in that time */
    uint64_t min_faults, maj_faults; /* when it became ready */
};

/* model_api.c: refuses a model whose header was dropped when a session was opened. */
dct_status dct_model_need_header(const dctms_model *m, dct_err *err) DCT_MUST_CHECK;

/* errors.c: the inner record to the caller's. Returns the status. */
dctms_status dct_give(dct_status status, const dct_err *from, dctms_error *to);
/* As dct_give; when the fault is a file's, the message begins with its name (once). */
dctms_status dct_give_of_file(dct_status status, const char *path, const dct_err *from, dctms_error *to);
/* The caller's parameters over the defaults; what an older caller does not know stays as it is. */
void dct_take_params(void *to, size_t to_bytes, const void *from, size_t from_bytes);

/* group_api.c: a group of this plan alone, for its session. */
dct_status dct_group_of_one(const dctms_plan *plan, dctms_group **out, dct_err *err) DCT_MUST_CHECK;

/* group_api.c: the turn, without which nobody writes where the intermediates of an exclusive group lie. DCT_USAGE while another
 * of its models has it; in other groups all may run. */
dct_status dct_group_take_turn(dctms_group *g, dct_err *err) DCT_MUST_CHECK;
void dct_group_end_turn(dctms_group *g);

/* items.c: what the engine keeps in the envelope. Names are looked up again when a session opens. */
#define DCT_ITEM_TOKENS "token tables"
#define DCT_ITEM_TEMPLATE "chat template"
#define DCT_ITEM_SAMPLER "sampler"
#define DCT_ITEM_TIMELINE "timeline"
#define DCT_ITEM_PROMPT "prompt tokens"
#define DCT_ITEM_GENERATED "generated tokens"
#define DCT_ITEM_TEXT "generated text"
#define DCT_ITEM_CONVERSATION "conversation"
#define DCT_ITEM_STACKS "worker stacks"
#define DCT_ITEM_POOL "worker pool"
#define DCT_ITEM_EXEC "executor"
#define DCT_ITEM_SESSION "session"
#define DCT_ITEM_RUNNER "runner"

enum { DCT_MAX_ITEMS = 24, DCT_MAIN_STACK = 512 * 1024 };
typedef struct dct_items {
    dct_extra_item item[DCT_MAX_ITEMS];
    uint32_t n;
    uint64_t text_scratch_bytes; /* for tokenizing the longest text that can fit: over the arena where that is large enough, else
                                    an item */
    uint64_t staging_bytes;      /* load-time staging of all workers */
    uint64_t kernel_bytes;       /* what the kernel keeps beside the reservation's page tables */
} dct_items;
dct_status dct_items_measure(const dctms_model *model, const dct_bounds *bounds, uint32_t n_members, dct_arena *work,
                             dct_items *items, dct_err *err) DCT_MUST_CHECK;

/* Whether a plan has what a session of this model takes beside its graphs, token tables apart, whose builder looks at their item.
 * A plan of another version, or one that was tampered with, may have it smaller, which the plan itself does not show:
 * DCT_BAD_FILE. */
dct_status dct_items_check(const dct_plan *plan, const dctms_model *model, dct_err *err) DCT_MUST_CHECK;

/* Where an item lies; NULL when the plan has none of that name. And one of at least `need` bytes, into *out, a pointer of any
 * type: a plan file may have been made by another version. */
void *dct_item_at(const dct_plan *plan, const dct_bases *bases, dct_region region, const char *name, uint64_t *bytes);
dct_status dct_item_need(const dct_plan *plan, const dct_bases *bases, dct_region region, const char *name, uint64_t need,
                         void *out, dct_err *err) DCT_MUST_CHECK;

/* Starts the plan's workers in its items. */
dct_status dct_start_workers(const dct_plan *plan, const dct_bases *bases, dct_pool **pool, dct_err *err) DCT_MUST_CHECK;

/* For the runner of a graph of one's own. */
void dct_items_of_graph(const dct_graph *g, uint32_t threads, dct_items *items);

/* The text of at most n_tokens tokens, when the longest has `longest` bytes; the buffer of an answer's text; and what a
 * conversation of n_tokens tokens may need. */
uint64_t dct_longest_text(uint32_t n_tokens, uint32_t longest);
uint64_t dct_answer_bytes(uint32_t n_tokens, uint32_t longest);
uint32_t dct_conversation_messages(uint32_t n_tokens);
uint64_t dct_conversation_bytes(uint32_t n_tokens, uint32_t longest);

/* plan_api.c: what there is for a process whose M_max has so much for the kernel's own memory, if it takes the place of this one,
 * all of whose memory counts as free. */
void dct_room_for(uint64_t kernel_bytes, dct_mem_available *out);

/* plan_api.c: DCT_NO_FIT with both numbers when M_max is more than there is beside what this process holds, of which own_bytes at
 * most are part of M_max or given back before it is used. */
dct_status dct_check_room(uint64_t m_max_bytes, uint64_t kernel_bytes, uint64_t own_bytes, dct_err *err) DCT_MUST_CHECK;

/* plan_api.c: a handle of a plan that was just compiled, since `start_ns`: a copy without what the passes left in their arena. */
dct_status dct_plan_hand_out(const dct_plan *compiled, const char *model_path, const dct_profile *profile, uint64_t start_ns,
                             dct_arena *work, dctms_plan **out, dct_err *err) DCT_MUST_CHECK;

/* How many threads a caller means. */
dct_status dct_choose_threads(uint32_t wanted, uint32_t *threads, dct_err *err) DCT_MUST_CHECK;

/* plan_api.c: what the defect means, before where it was found, unless the message says it already. */
void dct_explain_defect(dct_defect code, dct_err *why);

/* graph_api.c: the record of the graph's weights, ready for look-ups, and the plan checked against the graph. Tables and the
 * verifier's work lie in `work`, the result in `keep`. */
dct_status dct_graph_model(const dctms_graph *graph, dct_arena *work, dct_model **model, dct_err *err) DCT_MUST_CHECK;
dct_status dct_verify_graph(const dctms_graph *graph, const dct_plan *plan, const dct_model *model, dct_arena *work,
                            dct_arena *keep, dct_checked_plan **checked, dct_defect *defect, dct_err *err) DCT_MUST_CHECK;

/* plan_api.c: traces anew, into `traces`, and verifies, each member of the family, and the items beside the graphs. The results
 * lie in `keep`, one a member; `traced` is the largest's; what the verifier needs for its work is dropped. */
dct_status dct_verify_against(const dct_plan *plan, const dctms_model *m, dct_arena *traces, dct_arena *keep, dct_graph *traced,
                              dct_checked_plan *checked[DCT_MAX_MEMBERS], dct_defect *defect, dct_err *err) DCT_MUST_CHECK;

/* What the caller of compile said, and the profile that he named. */
typedef struct dct_request {
    dctms_plan_params params;
    dct_profile profile;
} dct_request;

/* plan_api.c: a plan with these bounds, with room for the smaller members of its family. */
dct_status dct_compile_bounds(const dctms_model *m, const dct_request *request, const dct_bounds *bounds, dct_plan *smaller,
                              uint32_t n_smaller, dct_arena *work, dct_plan **out, dct_err *err) DCT_MUST_CHECK;

/* plan_api.c: what the parameters say, with the defaults for what they leave open. */
dct_status dct_choose_bounds(const dctms_model *m, const dctms_plan_params *params, dct_bounds *out, dct_err *err) DCT_MUST_CHECK;

/* budget.c: what a plan needs, and the refusal when that is the least of all that were tried; and the longest context, from the
 * parameters' budget_ctx to below that of `too_much`, which does not fit, for which a chunk of up to its rows keeps to the
 * budget: DCT_NO_FIT when there is none. */
typedef struct dct_need {
    uint64_t bytes, terms[DCT_REGION_COUNT];
    uint32_t n_ctx, ubatch;
    bool has_staging; /* loading has bytes of its own, not over caches or arena */
} dct_need;
dct_need dct_need_of(const dct_plan *plan);
dct_status dct_fail_budget(const dct_need *least, uint64_t budget, dct_err *err);
dct_status dct_fit_context(const dctms_model *m, const dct_request *request, const dct_bounds *too_much, uint32_t *n_ctx,
                           dct_err *err) DCT_MUST_CHECK;

/* family.c: the plan for the context steps that the parameters name, if any, with the largest chunks up to theirs that a budget
 * allows. `bounds` are the largest member's. DCT_NO_FIT "needs at least X: what each term costs; the budget is Y". */
dct_status dct_family_compile(const dctms_model *m, const dct_request *request, const dct_bounds *bounds, dct_arena *work,
                              dct_plan **out, dct_err *err) DCT_MUST_CHECK;

/* family.c: where the regions of a member lie; and the member that the next token is for: the smallest that holds it. The session
 * moves there with its timeline. */
dct_bases dct_member_bases(const dctms_session *s, uint32_t member);
void dct_session_settle(dctms_session *s);

/* What the caller is shown while a session opens: bytes populated and bytes loaded, of all there are. Any worker counts, the
 * caller's own thread (worker 0) shows. */
typedef struct dct_progress {
    void (*show)(void *ctx, uint64_t done, uint64_t total); /* NULL: nobody looks */
    void *ctx;
    uint64_t total;
    _Atomic uint64_t done;
} dct_progress;

/* load.c: weights and rotary tables from the files into the reservation, by the pool. */
uint64_t dct_load_staging_bytes(const dct_graph *traced, uint32_t n_workers); /* for all weights and tables of a trace */
uint64_t dct_load_bytes(const dct_plan *plan);                                /* that are read from the files */
void dct_progress_add(dct_progress *progress, uint64_t bytes, uint32_t worker);
typedef struct dct_loader {
    const dct_model *model;
    const dct_plan *plan;
    const dct_bases *bases;
    bool skip_weights;       /* they are there: another session loaded them */
    dct_pool *pool;
    char *staging;
    uint64_t staging_bytes;
    dct_progress *progress;
    dct_tensor *tensors;     /* [n_weights]: where each weight's rows lie; outlives the header */
    dct_tensor *factors;     /* [n_tables] */
} dct_loader;
dct_status dct_load_find(dct_loader *loader, dct_arena *arena, dct_err *err) DCT_MUST_CHECK; /* needs the header */
dct_status dct_load_all(dct_loader *loader, dct_err *err) DCT_MUST_CHECK;                     /* needs the open files only */

/* rope.c: frequencies of a rotary table, factors NULL or f32[n_rot / 2]. */
void dct_rope_frequencies(const dct_rope_table *t, const float *factors, double *freq, double *mscale);

/* eval.c; who evaluates has the turn */
void dct_fill_positions(int32_t *pos, uint32_t first, uint32_t n); /* n rows of text from position `first` on */
dct_status dct_session_advance(dctms_session *s, const dct_token *tokens, uint32_t n,
                               dct_err *err) DCT_MUST_CHECK;                 /* bounds were checked */
dct_status dct_session_flush(dctms_session *s, dct_err *err) DCT_MUST_CHECK; /* evaluates the pending token */
dct_status dct_session_prompt_tokens(dctms_session *s, const dct_token *tokens, uint32_t n, uint64_t n_wanted,
                                     dct_err *err) DCT_MUST_CHECK;
void dct_session_cut(dctms_session *s, uint32_t n); /* forgets the tokens from n on, and of 0 what they took */
dct_status dct_session_refuse_prompt(const dctms_session *s, bool at_least, uint64_t n, dct_err *err); /* DCT_BOUND */

/* dynamic.c */
dct_status dct_dynamic_open(dctms_session *s, const dct_graph *traced, uint32_t n_traced, dct_err *err) DCT_MUST_CHECK;
void dct_dynamic_close(dct_dynamic *d);
void dct_dynamic_forget(dct_dynamic *d); /* gives the caches back: a timeline that begins anew grows new ones */
dct_status dct_dynamic_run(dctms_session *s, dct_phase_kind kind, const dct_token *tokens, uint32_t n,
                           dct_err *err) DCT_MUST_CHECK;

#endif
