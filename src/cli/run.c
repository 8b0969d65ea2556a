/* run: plan, verify, reserve, load, seal, answer; a chat when a terminal asks.
 *
 * After dctms_seal nothing here allocates: prompts and the chat's history lie in fixed buffers of this file.
 */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "cli/cli.h"

enum { HISTORY_BYTES = 192 * 1024, MAX_MESSAGES = 512 };

/* A conversation: texts follow one another in `store`. */
typedef struct history {
    char store[HISTORY_BYTES];
    size_t used;
    dctms_chat_message messages[MAX_MESSAGES];
    uint32_t n;
} history;

static history talk;
static dctms_session *running; /* for the signal handler */
static volatile sig_atomic_t signal_seen;

static void on_signal(int number) {
    signal_seen = number;
    if (running != NULL) dctms_session_interrupt(running);
}

/* No SA_RESTART: a read from the terminal is broken off by the signal. */
static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Appends a message; false when the conversation has grown past what can be kept. */
static bool add_message(history *h, const char *role, const char *text, size_t n) {
    if (h->n == MAX_MESSAGES || HISTORY_BYTES - h->used < n + 1) return false;
    char *copy = h->store + h->used;
    memcpy(copy, text, n);
    copy[n] = '\0';
    h->used += n + 1;
    h->messages[h->n++] = (dctms_chat_message){role, copy};
    return true;
}

static void drop_message(history *h) {
    h->n--;
    h->used = (size_t)(h->messages[h->n].content - h->store);
}

static bool deliver(void *ctx, dctms_token token, const char *text, size_t n) {
    (void)ctx;
    (void)token;
    cli_out(NULL, text, n);
    cli_flush();
    return true;
}

static dctms_gen_params gen_params(const cli_options *o) {
    dctms_gen_params p = dctms_gen_default_params();
    p.temperature = o->temp;
    p.top_k = o->top_k;
    p.top_p = o->top_p;
    p.min_p = o->min_p;
    p.repeat_penalty = o->repeat_penalty;
    p.presence_penalty = o->presence_penalty;
    p.frequency_penalty = o->frequency_penalty;
    p.repeat_last_n = o->repeat_last_n;
    p.seed = o->seed;
    p.ignore_eos = o->ignore_eos;
    p.bias = o->bias;
    p.n_bias = o->n_bias;
    p.stop = o->stop;
    p.n_stop = o->n_stop;
    return p;
}

/* ---- reports ---- */

/* What a run has to show when it is over. */
typedef struct outcome {
    dctms_result result;
    dctms_memory memory;
    uint64_t mallocs;
    bool sealed;
} outcome;

static double per_second(uint32_t n, double ms) { return ms > 0 ? n * 1000.0 / ms : 0; }

static const char *finish_name(dctms_finish finish) {
    switch (finish) {
    case DCTMS_FINISH_STOP: return "stop";
    case DCTMS_FINISH_LENGTH: return "length";
    case DCTMS_FINISH_WORD: return "stop";
    case DCTMS_FINISH_INTERRUPTED: return "interrupted";
    }
    return "stop";
}

static void print_outcome(const outcome *out) {
    const dctms_result *r = &out->result;
    cli_note("prompt eval time = %10.2f ms / %5u tokens (%8.2f ms per token, %8.2f tokens per second)\n", r->prompt_ms, r->n_prompt,
             r->n_prompt > 0 ? r->prompt_ms / r->n_prompt : 0.0, per_second(r->n_prompt, r->prompt_ms));
    cli_note("       eval time = %10.2f ms / %5u tokens (%8.2f ms per token, %8.2f tokens per second)\n", r->predicted_ms, r->n_predicted,
             r->n_predicted > 0 ? r->predicted_ms / r->n_predicted : 0.0, per_second(r->n_predicted, r->predicted_ms));
    cli_note("M_max %.2f MiB · observed %.2f MiB · mallocs after ready %llu · page faults after ready %llu%s\n", cli_mib(out->memory.m_max_bytes),
             cli_mib(out->memory.vm_hwm_bytes), (unsigned long long)out->mallocs,
             (unsigned long long)(out->memory.min_faults + out->memory.maj_faults), out->sealed ? "" : " · not sealed");
}

static void json_piece(void *ctx, const char *text, size_t n) { cli_out(ctx, text, n); }
static int json_write(const char *text, size_t n, void *ctx) {
    json_piece(ctx, text, n);
    return 0;
}

static int print_json(dctms_session *session, const outcome *out) {
    const dctms_result *r = &out->result;
    size_t n_text;
    uint32_t n_tokens;
    const char *text = dctms_session_text(session, &n_text);
    const dctms_token *tokens = dctms_session_generated(session, &n_tokens);
    json_t *ids = json_array();
    for (uint32_t i = 0; i < n_tokens; i++) json_array_append_new(ids, json_integer(tokens[i]));
    json_t *root = json_pack(
        "{s:o, s:o, s:s, s:{s:I, s:f, s:f, s:I, s:f, s:f}, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:b}}", "text", json_stringn_nocheck(text, n_text), "tokens", ids,
        "finish_reason", finish_name(r->finish), "timings", "prompt_n", (json_int_t)r->n_prompt, "prompt_ms", r->prompt_ms, "prompt_per_second",
        per_second(r->n_prompt, r->prompt_ms), "predicted_n", (json_int_t)r->n_predicted, "predicted_ms", r->predicted_ms, "predicted_per_second",
        per_second(r->n_predicted, r->predicted_ms), "memory", "m_max_bytes", (json_int_t)out->memory.m_max_bytes, "vm_hwm_bytes",
        (json_int_t)out->memory.vm_hwm_bytes, "rss_anon_bytes", (json_int_t)out->memory.rss_anon_bytes, "mallocs_after_ready", (json_int_t)out->mallocs,
        "minflt_after_ready", (json_int_t)out->memory.min_faults, "majflt_after_ready", (json_int_t)out->memory.maj_faults, "sealed", out->sealed);
    int failed = root == NULL || json_dump_callback(root, json_write, NULL, JSON_COMPACT) != 0;
    json_decref(root);
    cli_print("\n");
    return failed ? cli_usage("the result does not fit in the library heap") : 0;
}

/* ---- one answer ---- */

static uint64_t heap_calls(void) {
    cli_heap_figures heap;
    cli_heap_get(&heap);
    return heap.calls;
}

/* Ends the window of DESIGN §5: figures are taken right after the last token was written. */
static void take_figures(dctms_session *session, uint64_t calls_at_ready, outcome *out) {
    uint64_t calls = heap_calls();
    dctms_session_memory(session, &out->memory);
    out->mallocs = calls - calls_at_ready;
    out->sealed = out->memory.sealed;
}

static dctms_status generate(dctms_session *session, const cli_options *o, dctms_result *result, dctms_error *err) {
    dctms_gen_params params = gen_params(o);
    dctms_status status = dctms_session_generate(session, &params, o->json ? NULL : deliver, NULL, result, err);
    if (status == DCTMS_OK && !o->json) {
        cli_print("\n");
        cli_flush();
    }
    return status;
}

static int answer_once(dctms_session *session, const cli_options *o, const char *prompt, size_t n_prompt, bool templated, uint64_t calls, int *interrupted) {
    dctms_error err;
    outcome out = {0};
    dctms_status status;
    if (templated) {
        if (o->system != NULL && !add_message(&talk, "system", o->system, strlen(o->system))) return cli_usage("the system prompt is too long");
        if (!add_message(&talk, "user", prompt, n_prompt)) {
            cli_note("dctms: the prompt has %zu bytes; a chat message can have %d\n", n_prompt, HISTORY_BYTES);
            return DCT_BOUND;
        }
        status = dctms_session_chat(session, talk.messages, talk.n, &err);
    } else {
        status = dctms_session_prompt(session, prompt, n_prompt, true, &err);
    }
    if (status == DCTMS_OK) status = generate(session, o, &out.result, &err);
    take_figures(session, calls, &out);
    if (status != DCTMS_OK) return cli_fail(&err);
    *interrupted = out.result.finish == DCTMS_FINISH_INTERRUPTED;
    if (o->json) return print_json(session, &out);
    if (!o->quiet) print_outcome(&out);
    return 0;
}

/* ---- chat ---- */

/* One line from standard input, without its newline. Returns false at the end or after a signal. */
static bool read_line(char *line, size_t cap, size_t *n) {
    *n = 0;
    for (;;) {
        char c;
        ssize_t got = read(0, &c, 1);
        if (got < 0 && errno == EINTR && !signal_seen) continue;
        if (got <= 0) return got == 0 && *n > 0;
        if (c == '\n') return true;
        if (*n < cap) line[(*n)++] = c;
    }
}

static int chat(dctms_session *session, const cli_options *o, uint64_t calls, int *interrupted) {
    static char line[16 * 1024];
    dctms_error err;
    outcome out = {0};
    if (o->system != NULL && !add_message(&talk, "system", o->system, strlen(o->system))) return cli_usage("the system prompt is too long");
    uint32_t first = talk.n;
    cli_note("Chat: /clear forgets, /exit or Ctrl-D ends, Ctrl-C stops an answer.\n");
    for (;;) {
        size_t n;
        signal_seen = 0;
        cli_note("\n> ");
        if (!read_line(line, sizeof line, &n) || (n == 5 && memcmp(line, "/exit", 5) == 0)) break;
        if (n == 0) continue;
        if (n == 6 && memcmp(line, "/clear", 6) == 0) {
            while (talk.n > first) drop_message(&talk);
            if (dctms_session_rewind(session, 0, &err) != DCTMS_OK) return cli_fail(&err);
            continue;
        }
        if (!add_message(&talk, "user", line, n)) {
            cli_note("dctms: the conversation is full; /clear forgets it\n");
            continue;
        }
        dctms_status status = dctms_session_chat(session, talk.messages, talk.n, &err);
        if (status == DCTMS_OK) status = generate(session, o, &out.result, &err);
        if (status == DCTMS_BOUND) { /* the turn is refused, the session lives */
            cli_note("dctms: %s; /clear forgets the conversation\n", err.message);
            drop_message(&talk);
            continue;
        }
        if (status != DCTMS_OK) return cli_fail(&err);
        size_t n_text;
        const char *text = dctms_session_text(session, &n_text);
        if (!add_message(&talk, "assistant", text, n_text)) drop_message(&talk);
        if (o->single_turn) break;
    }
    take_figures(session, calls, &out);
    *interrupted = signal_seen != 0;
    cli_note("\n");
    if (!o->quiet) print_outcome(&out);
    return 0;
}

/* ---- set-up ---- */

typedef struct seal_mode {
    bool on, kill;
} seal_mode;

static bool parse_modes(const cli_options *o, dctms_session_params *params, seal_mode *seal) {
    *params = dctms_session_default_params();
    params->mlock = o->mlock;
    params->force = o->force;
    params->progress = cli_progress;
    params->progress_ctx = (void *)(uintptr_t) "loading";
    if (o->alloc != NULL && strcmp(o->alloc, "dynamic") == 0) {
        params->alloc = DCTMS_ALLOC_DYNAMIC;
    } else if (o->alloc != NULL && strcmp(o->alloc, "planned") != 0) {
        cli_usage("--alloc: '%s' is neither planned nor dynamic", o->alloc);
        return false;
    }
    const char *how = o->seal != NULL ? o->seal : params->alloc == DCTMS_ALLOC_DYNAMIC ? "off" : "on";
    *seal = (seal_mode){strcmp(how, "off") != 0, strcmp(how, "kill") == 0};
    if (seal->on && !seal->kill && strcmp(how, "on") != 0) {
        cli_usage("--seal: '%s' is none of on, kill, off", how);
        return false;
    }
    if (seal->on && params->alloc == DCTMS_ALLOC_DYNAMIC) {
        cli_usage("--alloc dynamic gets memory all the time; it runs with --seal off only");
        return false;
    }
    return true;
}

/* Opens model, plan and session as the flags say. On failure the message is printed and the exit code returned. */
static int open_session(const cli_options *o, const dctms_session_params *params, dctms_session **session) {
    dctms_plan_params plan_params;
    if (!cli_plan_params(o, &plan_params)) return DCT_USAGE;
    dctms_error err;
    dctms_model *model;
    dctms_plan *plan;
    if (dctms_model_open(cli_model_path(o), &model, &err) != DCTMS_OK) return cli_fail(&err);
    dctms_status status = o->plan_file != NULL ? dctms_plan_load(o->plan_file, &plan, &err) : dctms_plan_compile(model, &plan_params, &plan, &err);
    if (status == DCTMS_OK) {
        status = dctms_session_open(model, plan, params, session, &err);
        dctms_plan_free(plan);
    }
    dctms_model_free(model);
    return status == DCTMS_OK ? 0 : cli_fail(&err);
}

/* Whether -p is a chat message or a text to complete; a failure when the file's template is not known. */
static int choose_template(dctms_session *session, const cli_options *o, bool *templated) {
    *templated = false;
    if (o->conversation == CLI_OFF) return 0;
    dctms_error err;
    if (dctms_session_set_chat_template(session, o->chat_template != NULL ? o->chat_template : "", &err) != DCTMS_OK) return cli_fail(&err);
    *templated = dctms_session_has_chat_template(session);
    return 0;
}

int cli_run(const cli_options *o) {
    if (o->n_args > (o->model == NULL ? 1u : 0u)) return cli_usage("run takes one model; quote the prompt and give it with -p");
    dctms_session_params params;
    seal_mode seal;
    if (!parse_modes(o, &params, &seal)) return DCT_USAGE;
    dct_err io;
    bool interactive = o->prompt == NULL && o->prompt_file == NULL && (o->conversation == CLI_ON || isatty(0));
    char *prompt = (char *)(uintptr_t)o->prompt;
    size_t n_prompt = prompt != NULL ? strlen(prompt) : 0;
    if (prompt == NULL && !interactive && cli_read_file(o->prompt_file != NULL ? o->prompt_file : "-", 1u << 30, &prompt, &n_prompt, &io) != DCT_OK) {
        return cli_fail_err(&io);
    }

    dctms_session *session;
    int code = open_session(o, &params, &session);
    if (code != 0) return code;
    bool templated;
    code = choose_template(session, o, &templated);
    if (code != 0) goto close_session;
    if (interactive && !templated) {
        code = cli_usage("the file has no chat template: give a prompt with -p, or --chat-template NAME");
        goto close_session;
    }
    if (!o->quiet && o->temp > 0) {
        cli_note("sampling: temp %g, top-k %d, top-p %g, min-p %g, seed %llu\n", (double)o->temp, o->top_k, (double)o->top_p, (double)o->min_p,
                 (unsigned long long)o->seed);
    }
    running = session;
    catch_signals();
    dctms_error err;
    bool enforced = false;
    if (seal.on && dctms_seal(seal.kill, &enforced, &err) != DCTMS_OK) {
        code = cli_fail(&err);
        goto close_session;
    }
    if (!o->quiet && !o->json && (!seal.on || !enforced)) cli_note("seal: %s\n", !seal.on ? "off; memory is not enforced" : "a promise only on this system");
    uint64_t calls = heap_calls();
    dctms_session_mark_ready(session);
    int interrupted = 0;
    code = interactive ? chat(session, o, calls, &interrupted) : answer_once(session, o, prompt, n_prompt, templated, calls, &interrupted);
    if (code == 0 && interrupted) code = signal_seen == SIGTERM ? 143 : DCT_INTERRUPTED;
close_session:
    running = NULL;
    dctms_session_free(session);
    return code;
}
