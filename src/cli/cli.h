/* cli: the command `dctms`. A file or more for each verb (verify is in plan.c, tokenize in inspect.c, pack and synth in work.c),
 * and what they share: options, output, the library heap.
 *
 * The command sees the public header, base/ and tools/ only, as any other program would.
 */
#ifndef DCT_CLI_CLI_H
#define DCT_CLI_CLI_H

#include <sys/types.h>

#include "base/os.h"
#include "base/status.h"
#include "dctms.h"

enum { CLI_MAX_STOP = 16, CLI_MAX_STOP_BYTES = 255, CLI_MAX_BIAS = 64, CLI_MAX_ARGS = 8, CLI_MAX_LIST = 16 };

typedef enum cli_toggle { CLI_AUTO, CLI_ON, CLI_OFF } cli_toggle;

/* The values of a flag that may be repeated, as they were given. */
typedef struct cli_list {
    const char *text[CLI_MAX_LIST];
    uint32_t n;
    bool from_environment;
} cli_list;

/* What can be asked of a verb, as bits: a flag is of some of these, and not of the others. Most verbs have one form. */
typedef enum cli_form {
    CLI_PLAN = 1 << 0,       /* plan MODEL */
    CLI_PLAN_ONNX = 1 << 1,  /* plan F.onnx */
    CLI_PLAN_GROUP = 1 << 2, /* plan A B ... */
    CLI_PLAN_DIFF = 1 << 3,  /* plan --diff A B, of which one at least is compiled */
    CLI_PLAN_FILES = 1 << 4, /* plan --diff A B, both plan files */
    CLI_PLAN_SAVED = 1 << 5, /* plan F.plan */
    CLI_RUN = 1 << 6,        /* run MODEL */
    CLI_RUN_FILE = 1 << 7,   /* run MODEL --plan F */
    CLI_RUN_GROUP = 1 << 8,  /* run A B ... */
    CLI_FORMS_END = 1 << 9   /* options.c has the verbs of one form from here on */
} cli_form;

/* Everything that flags can say, whatever the verb; options.c knows which form of a verb takes which. */
typedef struct cli_options {
    const char *verb;
    uint64_t given[2];              /* rows of options.c that the command line named, a bit each; variables do not count */
    const char *args[CLI_MAX_ARGS]; /* positional, after the verb */
    uint32_t n_args;

    const char *model;
    /* bounds */
    uint32_t ctx_size;
    int32_t n_predict;
    uint32_t ubatch, threads;
    const char *type_k, *type_v;
    uint64_t memory_budget;
    uint32_t budget_ctx;
    const char *ctx_steps;
    const char *logits, *cost_profile;
    /* running */
    const char *prompt, *prompt_file, *system, *chat_template, *plan_file, *seal, *alloc;
    cli_toggle conversation;
    bool mlock, force, ignore_eos, special, quiet, single_turn;
    float temp, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int32_t top_k, repeat_last_n;
    uint64_t seed;
    const char *stop[CLI_MAX_STOP];
    uint32_t n_stop;
    dctms_logit_bias bias[CLI_MAX_BIAS];
    uint32_t n_bias;
    /* output */
    const char *emit;
    const char *output, *svg, *html, *phase, *type;
    bool json, text, paper, diff, concurrency, all, ids, header_only;
    bool exclusive, concurrent, overlap;
    /* plan of an ONNX file */
    cli_list dims, inputs, values;
    /* score */
    const char *save_logits, *kl_base, *ids_file;
    /* pack */
    const char *problem;
    cli_list capacities;
    uint64_t nodes;
    float seconds;
    bool minimize, keep_order;
    /* bench */
    cli_list bench_model, bench_prompt, bench_gen, bench_both, bench_steady, bench_depth, bench_ubatch, bench_threads,
        bench_type_k, bench_type_v;
    const char *bench_format, *cpu_mask;
    uint32_t repetitions, delay;
    bool no_warmup, no_roofline;
    /* protocol */
    cli_list categories, systems, stresses;
    uint32_t n_runs, n_prompts;
    const char *llama_bench, *directory;
    uint64_t stress_memory, memory_limit;
} cli_options;

/* Fills *options from the command line and from LLAMA_ARG_* variables (a flag beats its variable). On a mistake prints one line
 * to stderr and returns DCT_USAGE. *help is set when help for the verb was asked for. */
dct_status cli_parse(int argc, char **argv, cli_options *options, bool *help);
void cli_help(const char *verb); /* NULL: the verbs */

/* values.c: what a text as a whole says; false when it is no such value. */
bool cli_parse_i64(const char *text, int64_t low, int64_t high, int64_t *out);
bool cli_parse_u64(const char *text, uint64_t *out);
bool cli_parse_size(const char *text, uint64_t *out); /* 900M, 1.5G, 123456 */
bool cli_parse_f32(const char *text, float *out);
bool cli_parse_bias(const char *text, dctms_logit_bias *out);

/* Flags and verbs of other programs (habits.c). `value` is what stands behind the flag, joined to it by "=" or not, or NULL. A
 * refusal has been printed. */
typedef enum cli_habit { CLI_HABIT_NONE, CLI_HABIT_TAKEN, CLI_HABIT_TAKEN_WITH_VALUE, CLI_HABIT_REFUSED } cli_habit;
cli_habit cli_take_habit(const char *flag, const char *value, bool is_joined);
int cli_unknown_verb(const char *verb); /* says what to type; DCT_USAGE */

/* Whether all flags of the command line are of this form of the verb and go together; false after naming one that is not: no flag
 * is ignored in silence. */
bool cli_check_form(const cli_options *o, cli_form form);
bool cli_is_given(const cli_options *o, const char *long_name);

/* Whether a file begins as plan files do; false too when it cannot be read. */
bool cli_is_plan_file(const char *path);

/* One verb each. They print their own failures (cli_fail) and return the exit code. */
int cli_plan(const cli_options *o);
int cli_diff(const cli_options *o); /* plan --diff */
int cli_plan_onnx(const cli_options *o, const char *path);
int cli_verify(const cli_options *o);
int cli_run(const cli_options *o);
int cli_inspect(const cli_options *o);
int cli_tokenize(const cli_options *o);
int cli_score(const cli_options *o);
int cli_pack(const cli_options *o);
int cli_synth(const cli_options *o);
int cli_bench(const cli_options *o);
int cli_protocol(const cli_options *o);
int cli_calibrate(const cli_options *o);

/* plan --emit (emit.c): whether the flags go together, false after a usage error; and the file, on stdout. `name` is that of
 * the model. */
bool cli_check_emit(const cli_options *o);
int cli_emit(const dctms_plan *plan, const char *name, const cli_options *o);

/* group.c: whether several models are meant; their group; what they cost together; and their sessions, in the order of the
 * arguments (on a failure some stay NULL and the others are the caller's to free). Failures are printed, the exit code
 * returned. */
static inline bool cli_is_group(const cli_options *o) { return o->exclusive || o->concurrent || o->n_args > 1; }
int cli_make_group(const cli_options *o, dctms_group **group);
int cli_plan_group(const cli_options *o);
int cli_open_group(const cli_options *o, const dctms_session_params *params, dctms_session *sessions[CLI_MAX_ARGS]);

/* ---- output: write(2) through fixed buffers, so that nothing allocates ---- */
void cli_out(void *where, const char *text, size_t n);    /* a dctms_write_fn: NULL is stdout (buffered), CLI_STDERR stderr */
void cli_print(const char *format, ...) DCT_PRINTF(1, 2); /* stdout, buffered */
void cli_note(const char *format, ...) DCT_PRINTF(1, 2);  /* stderr, at once */
void cli_flush(void);                                     /* stdout; exits with 5 when it cannot be written */
enum { CLI_NO_READER = 141 }; /* its exit code, without a word, when stdout is a pipe that nobody reads: as after SIGPIPE */
#define CLI_STDERR ((void *)2)

/* "dctms: message" on stderr; returns the code to exit with. */
int cli_fail(const dctms_error *err);
int cli_fail_err(const dct_err *err);
int cli_fail_file(const char *path, dct_err *err); /* names the file */
int cli_usage(const char *format, ...) DCT_PRINTF(1, 2);
int cli_no_memory(const char *what); /* DCT_SYSTEM */

void cli_print_json_string(const char *text, size_t n); /* quoted and escaped, on stdout; ? for what is no UTF-8 */

/* A file written through a dctms_write_fn: everything is gathered in memory, then written whole (temporary and rename). Saving
 * also drops it. */
typedef struct cli_sink {
    char *bytes;
    size_t used, cap;
    bool failed;
} cli_sink;
void cli_sink_write(void *sink, const char *text, size_t n);
int cli_sink_save(cli_sink *sink, const char *path);
void cli_sink_drop(cli_sink *sink);

/* Texts may be files, pipes or terminals; "-" is standard input. */
dct_status cli_open_text(dct_file *file, const char *path, dct_err *err);

/* The whole text in fresh pages (map_bytes, the caller's to unmap), NUL-terminated. Refuses more than `limit` bytes. */
dct_status cli_read_file(const char *path, uint64_t limit, char **text, size_t *n, size_t *map_bytes, dct_err *err);

/* What is left of an open file into the caller's memory. When there is more than cap, *n is at least cap + 1: how much there is
 * where that is known. A signal that has a handler ends it with DCT_INTERRUPTED. */
dct_status cli_read_into(const dct_file *file, const char *path, char *into, size_t cap, uint64_t *n, dct_err *err);

/* What a user says in a chat (line.c), after "> ", without the newline at its end. Lines are one text where they were pasted,
 * when the one before ends with a backslash, and between two """. At most cap bytes are kept, *n counts all. Arrow keys bring
 * back earlier messages of the user's. False at the end of the input, and when is_stopped() says so; at a terminal a
 * text that was begun is forgotten instead where take_interrupt() says that a Ctrl-C was all, which is then done with. SIGINT,
 * SIGTERM and SIGHUP are let in only while this waits, so that none slips between a look at it and the wait. */
typedef struct cli_line {
    char *text;
    size_t cap;
    const dctms_chat_message *earlier;
    uint32_t n_earlier;
    bool (*is_stopped)(void), (*take_interrupt)(void);
} cli_line;
bool cli_read_line(const cli_line *line, uint64_t *n);

/* Editors end a file with a newline that is no part of a prompt: one is dropped, as llama.cpp does. */
void cli_drop_newline(const char *text, size_t *n);

/* What a verb reads ("-": standard input) and what it writes; each list ends with NULL, and cli_add_path leaves out what is NULL.
 * The check refuses an output that is an input, or another output, whatever the names (DCT_USAGE), and one that cannot be
 * written, after saying so. */
enum { CLI_MAX_PATHS = 4, CLI_PATH_BYTES = 4096 };
typedef struct cli_paths {
    const char *in[CLI_MAX_PATHS + 1], *out[CLI_MAX_PATHS + 1];
    bool into_directories; /* an output that is a directory is one to write files into */
} cli_paths;
void cli_add_path(const char **list, const char *path);
int cli_check_outputs(const cli_paths *paths);

/* Part i, from 1, of a model in parts, which is named by its first (NAME-00001-of-00003.gguf); false when there is none. */
bool cli_model_part(const char *path, unsigned i, char part[CLI_PATH_BYTES]);

/* ---- ids.c: the tokens of a text ---- */

typedef struct cli_ids {
    dctms_token *at;
    size_t n, map_bytes;
} cli_ids;

/* Both return the exit code; what they made is dropped by the caller, whatever that is. parse: decimal numbers with white space
 * between them, each of a token that there is; text[n_text] is 0. */
int cli_ids_tokenize(const dctms_tokenizer *tokenizer, const char *text, size_t n_text, bool add_special, bool parse_special,
                     cli_ids *ids);
int cli_ids_parse(const char *path, const char *text, size_t n_text, uint32_t n_vocab, cli_ids *ids);
void cli_ids_drop(cli_ids *ids);

double cli_mib(uint64_t bytes);

/* The model to use: -m, the first positional argument, or the built-in one. Never NULL. And whether more than it is named. */
const char *cli_model_path(const cli_options *o);
static inline bool cli_has_more_args(const cli_options *o) { return o->n_args > (o->model == NULL ? 1u : 0u); }

/* The type of a cache as a plan has it when no flag says. */
static inline const char *cli_cache_type(const char *given) { return given != NULL ? given : "f16"; }

/* Plan parameters as the flags say; false after printing a usage error. */
bool cli_plan_params(const cli_options *o, dctms_plan_params *params);

/* What --alloc, --seal, --mlock and --force say. Verbs that plan their memory also close the library heap. False after printing a
 * usage error. */
typedef struct cli_modes {
    dctms_session_params session;
    bool seal, seal_kills;
} cli_modes;
bool cli_parse_modes(const cli_options *o, cli_modes *modes);

/* Warns when the context is longer than what the model was trained for, and says what --budget-ctx came to (o may be NULL).
 * Before the model's header is dropped. */
void cli_warn_context(const dctms_model *model, const dctms_plan *plan, const cli_options *o);

/* "M_max ... observed ..." on stderr: what a session promised and what the process took, and what `calls` of the heap there were
 * since ready. */
void cli_note_memory(const dctms_memory *memory, uint64_t calls);
uint64_t cli_heap_calls(void);

/* Seals the process when the modes say so; *enforced is false when they do not. What the kernel then stops is said in a line
 * (stop.c). */
void cli_explain_stops(void);
int cli_seal(const cli_modes *modes, bool *enforced);

/* Whether stderr is a terminal on which a line can be drawn over. */
bool cli_can_draw(void);

/* Draws a progress line on stderr where that can be, which the next note replaces: a `progress` callback of the library. */
void cli_progress(void *label, uint64_t done, uint64_t total);

/* ---- processes (child.c) ---- */
void cli_follow_parent(pid_t parent);                /* the child calls it first: it ends when the parent does */
int cli_wait_child(pid_t pid, const char *what);     /* its exit code; says so when a signal ended it */

/* ---- the library heap (heap.c): malloc of this executable ---- */
typedef struct cli_heap_figures {
    uint64_t calls; /* malloc, calloc, realloc, memalign and their kin, since the start */
    uint64_t used_bytes, peak_bytes, mapped_bytes;
} cli_heap_figures;
void cli_heap_get(cli_heap_figures *out);
void cli_heap_close(void);    /* no memory from now on but the fixed part, which the envelope counts */

#endif
