/* run: plan, verify, reserve, load, seal, answer; a chat when a terminal asks.
 *
 * After dctms_seal nothing here allocates: a prompt from a file, a chat's lines and its history lie in the session's planned
 * memory for conversations, which is as large as the bound of N tokens allows. So that bound is the only one, and refusals count
 * tokens.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "cli/cli.h"

/* A conversation: texts follow one another, a NUL behind each, but for those of the command line, which stay where they are. */
typedef struct history {
    dctms_conversation room;
    size_t used;               /* of the room's text */
    uint32_t n, n_elsewhere;   /* messages; how many of them are the command line's */
} history;

static history talk;

/* ---- signals ---- */

/* SIGINT stops what runs; a chat goes on after it. SIGTERM and SIGHUP end the command. Each has a flag, so that none hides the
 * other. */
static dctms_session *volatile running; /* while a turn runs */
static volatile sig_atomic_t int_seen, end_seen; /* end_seen: the number of the signal */

static void on_signal(int number) {
    if (number == SIGINT) int_seen = 1;
    else end_seen = number;
    if (running != NULL) dctms_session_interrupt(running);
}

/* No SA_RESTART: a read from the terminal is broken off by the signal. One that is ignored (nohup, a script's background) stays
 * so. */
static void catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction before, action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
}

static bool is_signalled(void) { return int_seen || end_seen; }

/* Whether Ctrl-C is all that came; then it did not. */
static bool take_interrupt(void) {
    if (end_seen || !int_seen) return false;
    int_seen = 0;
    return true;
}

/* The only place where a signal becomes an exit code. */
static int exit_code(int code) {
    if (code != 0 && code != DCT_INTERRUPTED) return code;
    return end_seen ? 128 + end_seen : int_seen ? DCT_INTERRUPTED : code;
}

static void begin_turn(dctms_session *session) { running = session; }

/* A signal that came too late to stop this turn must not stop the next. */
static void end_turn(dctms_session *session) {
    running = NULL;
    dctms_session_clear_interrupt(session);
}

/* ---- conversation ---- */

/* Where the next text may be written, and how long it may be. */
static char *free_text(const history *h) { return h->room.text + h->used; }
static size_t free_bytes(const history *h) { return h->used < h->room.n_text ? h->room.n_text - h->used - 1 : 0; }

/* A text of the command line becomes a message. There are at most two, and always room for them. */
static void refer_message(history *h, const char *role, const char *text) {
    h->room.messages[h->n++] = (dctms_chat_message){role, text};
    h->n_elsewhere++;
}

/* The n bytes that were written at free_text become a message; false when there are as many as N tokens can be, or no byte is
 * left for the text's end. */
static bool keep_message(history *h, const char *role, size_t n) {
    if (h->n == h->room.n_messages || h->used == h->room.n_text) return false;
    char *text = free_text(h);
    text[n] = '\0';
    h->used += n + 1;
    h->room.messages[h->n++] = (dctms_chat_message){role, text};
    return true;
}

static bool copy_message(history *h, const char *role, const char *text, size_t n) {
    if (n > free_bytes(h)) return false;
    memcpy(free_text(h), text, n);
    return keep_message(h, role, n);
}

/* The last one, which is none of the command line's. */
static void drop_message(history *h) {
    h->n--;
    h->used = (size_t)(h->room.messages[h->n].content - h->room.text);
}

/* Bytes of all texts, without the NULs. */
static uint64_t text_bytes(const history *h) { return h->used - (h->n - h->n_elsewhere); }

/* ctx: the options. A signal that came between prompt and answer has no step to stop; it ends the answer here. */
static bool deliver(void *ctx, dctms_token token, const char *text, size_t n) {
    const cli_options *o = ctx;
    (void)token;
    if (!o->json) {
        cli_out(NULL, text, n);
        cli_flush();
    }
    return !is_signalled();
}

static bool sampling_makes_sense(const cli_options *o) {
    if (o->top_p < 0 || o->top_p > 1) cli_usage("--top-p %g: a share from 0 to 1 is expected", (double)o->top_p);
    else if (o->min_p < 0 || o->min_p > 1) cli_usage("--min-p %g: a share from 0 to 1 is expected", (double)o->min_p);
    else if (o->repeat_penalty <= 0) cli_usage("--repeat-penalty %g: a positive number is expected", (double)o->repeat_penalty);
    else if (o->repeat_last_n < -1) cli_usage("--repeat-last-n %d: -1 (all) or a count is expected", o->repeat_last_n);
    else return true;
    return false;
}

/* A plan file has M; a flag may say less, and what a variable says is about bounds, which are not asked for. */
static bool has_own_length(const cli_options *o) { return o->plan_file != NULL && cli_is_given(o, "--n-predict"); }

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
    if (has_own_length(o)) p.n_predict = (uint32_t)o->n_predict;
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

/* What drew the tokens, so that a run can be repeated. */
static void print_sampling(const cli_options *o) {
    if (o->temp <= 0) return;
    cli_note("sampling: temp %g, top-k %d, top-p %g, min-p %g, seed %llu\n", (double)o->temp, o->top_k, (double)o->top_p,
             (double)o->min_p, (unsigned long long)o->seed);
}

/* Where the number of workers comes from, when nobody said one. */
static struct {
    uint32_t n;
    char source[160];
} threads;

static void print_outcome(const outcome *out) {
    const dctms_result *r = &out->result;
    if (r->n_prompt == 0) { /* a chat in which nothing was said */
        cli_note_memory(&out->memory, out->mallocs);
        return;
    }
    cli_note("prompt eval time = %10.2f ms / %5u tokens (%8.2f ms per token, %8.2f tokens per second)\n", r->prompt_ms,
             r->n_prompt, r->n_prompt > 0 ? r->prompt_ms / r->n_prompt : 0.0, per_second(r->n_prompt, r->prompt_ms));
    cli_note("       eval time = %10.2f ms / %5u tokens (%8.2f ms per token, %8.2f tokens per second)\n", r->predicted_ms,
             r->n_predicted, r->n_predicted > 0 ? r->predicted_ms / r->n_predicted : 0.0,
             per_second(r->n_predicted, r->predicted_ms));
    if (threads.n != 0) cli_note("threads %u (%s)\n", threads.n, threads.source);
    cli_note_memory(&out->memory, out->mallocs);
}

/* Written as it goes, so that an answer of any length can be shown without memory. */
static void print_json(dctms_session *session, const outcome *out) {
    const dctms_result *r = &out->result;
    const dctms_memory *m = &out->memory;
    size_t n_text;
    uint32_t n_tokens;
    const char *text = dctms_session_text(session, &n_text);
    const dctms_token *tokens = dctms_session_generated(session, &n_tokens);
    cli_print("{\"text\": ");
    cli_print_json_string(text, n_text);
    cli_print(", \"tokens\": [");
    for (uint32_t i = 0; i < n_tokens; i++) cli_print("%s%u", i == 0 ? "" : ", ", tokens[i]);
    cli_print("], \"finish_reason\": \"%s\", \"timings\": {\"prompt_n\": %u, \"prompt_ms\": %.3f, \"prompt_per_second\": %.3f, ",
              finish_name(r->finish), r->n_prompt, r->prompt_ms, per_second(r->n_prompt, r->prompt_ms));
    cli_print("\"predicted_n\": %u, \"predicted_ms\": %.3f, \"predicted_per_second\": %.3f}, ", r->n_predicted, r->predicted_ms,
              per_second(r->n_predicted, r->predicted_ms));
    cli_print("\"memory\": {\"m_max_bytes\": %llu, \"vm_hwm_bytes\": %llu, \"rss_anon_bytes\": %llu, ",
              (unsigned long long)m->m_max_bytes, (unsigned long long)m->vm_hwm_bytes, (unsigned long long)m->rss_anon_bytes);
    cli_print("\"mallocs_after_ready\": %llu, \"minflt_after_ready\": %llu, \"majflt_after_ready\": %llu, \"sealed\": %s}}\n",
              (unsigned long long)out->mallocs, (unsigned long long)m->min_faults, (unsigned long long)m->maj_faults,
              m->sealed ? "true" : "false");
}

/* ---- one answer ---- */

/* Ends the window of DESIGN §5: figures are taken right after the last token was written. */
static void take_figures(dctms_session *session, uint64_t calls_at_ready, outcome *out) {
    uint64_t calls = cli_heap_calls();
    dctms_session_memory(session, &out->memory);
    out->mallocs = calls - calls_at_ready;
}

static dctms_status generate(dctms_session *session, const cli_options *o, dctms_result *result, dctms_error *err) {
    dctms_gen_params params = gen_params(o);
    dctms_status status = dctms_session_generate(session, &params, deliver, (void *)(uintptr_t)o, result, err);
    if (status == DCTMS_OK && !o->json) {
        cli_print("\n");
        cli_flush();
    }
    if (status == DCTMS_OK && result->finish == DCTMS_FINISH_LENGTH && !o->quiet && !o->json && !o->ignore_eos)
        cli_note("the answer is cut off at %u tokens, its bound: -n\n", result->n_predicted);
    return status;
}

/* Evaluates the conversation, or the text alone, and answers it. */
static dctms_status take_turn(dctms_session *session, const cli_options *o, const char *text, size_t n_text, bool templated,
                              dctms_result *result, dctms_error *err) {
    begin_turn(session);
    dctms_status status = templated ? dctms_session_chat(session, talk.room.messages, talk.n, err)
                                    : dctms_session_prompt(session, text, n_text, true, err);
    if (status == DCTMS_OK) status = generate(session, o, result, err);
    end_turn(session);
    return status;
}

static void begin_conversation(dctms_session *session, const cli_options *o) {
    talk = (history){.room = dctms_session_conversation(session)};
    if (o->system != NULL) refer_message(&talk, "system", o->system);
}

/* `prompt` ends with a NUL. `calls`: of the heap, when the session was ready. */
static int answer_once(dctms_session *session, const cli_options *o, const char *prompt, size_t n_prompt, bool templated,
                       uint64_t calls) {
    dctms_error err;
    outcome out = {0};
    if (n_prompt == 0) return cli_usage("the prompt is empty");
    if (templated && memchr(prompt, '\0', n_prompt) != NULL)
        return cli_usage("the prompt holds a NUL byte; a chat message is text");
    if (templated) refer_message(&talk, "user", prompt);
    dctms_status status = take_turn(session, o, prompt, n_prompt, templated, &out.result, &err);
    take_figures(session, calls, &out);
    if (status != DCTMS_OK) return cli_fail(&err);
    if (o->json) print_json(session, &out);
    else if (!o->quiet) print_outcome(&out);
    return 0;
}

/* ---- chat ---- */

/* What a line of a chat is. */
typedef enum line_kind { LINE_MESSAGE, LINE_CLEAR, LINE_EXIT, LINE_HELP, LINE_UNKNOWN } line_kind;

static const struct {
    const char *name, *help;
    line_kind kind;
} commands[] = {
    {"/clear", "forget the conversation", LINE_CLEAR},
    {"/exit", "end, as Ctrl-D does", LINE_EXIT},
    {"/help", "this list", LINE_HELP},
    {"/bye", NULL, LINE_EXIT}, {"/quit", NULL, LINE_EXIT}, {"/?", NULL, LINE_HELP}, /* as elsewhere */
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* Letters right behind a "/" are a command. Paths and the like are messages. */
static line_kind kind_of(const char *line, size_t n) {
    size_t word = 1;
    if (line[0] != '/') return LINE_MESSAGE;
    while (n > 1 && (line[n - 1] == ' ' || line[n - 1] == '\t' || line[n - 1] == '\r')) n--;
    for (int i = 0; i < N_COMMANDS; i++)
        if (n == strlen(commands[i].name) && memcmp(line, commands[i].name, n) == 0) return commands[i].kind;
    while (word < n && ((line[word] >= 'a' && line[word] <= 'z') || (line[word] >= 'A' && line[word] <= 'Z'))) word++;
    return word > 1 && (word == n || line[word] == ' ') ? LINE_UNKNOWN : LINE_MESSAGE;
}

static void print_commands(void) {
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].help != NULL) cli_note("  %-8s %s\n", commands[i].name, commands[i].help);
    cli_note("  %-8s %s\n", "Ctrl-C", "stop an answer, forget a line that was begun");
    cli_note("  A message goes on in the next line behind a \\, between two \"\"\", and where it was pasted.\n");
}

/* The line at free_text becomes the user's message; false when it cannot, which is said. */
static bool take_message(dctms_session *session, uint64_t n) {
    dctms_error err;
    const char *line = free_text(&talk);
    if (n > free_bytes(&talk)) { /* then the text is longer than that of N tokens */
        if (dctms_session_check_length(session, text_bytes(&talk) + n, &err) != DCTMS_OK)
            cli_note("dctms: %s; /clear forgets the conversation\n", err.message);
    } else if (memchr(line, '\0', (size_t)n) != NULL) {
        cli_note("dctms: the line holds a NUL byte; a chat message is text\n");
    } else if (!keep_message(&talk, "user", (size_t)n)) {
        cli_note("dctms: the conversation has %u messages, more than the bound of tokens; /clear forgets it\n", talk.n);
    } else {
        return true;
    }
    return false;
}

/* A turn: the user's message is there, the answer is added to it. What cannot be answered is dropped, and the session lives. */
static dctms_status answer_message(dctms_session *session, const cli_options *o, dctms_result *result, dctms_error *err) {
    dctms_status status = take_turn(session, o, NULL, 0, true, result, err);
    if (end_seen) return status;
    int_seen = 0; /* it stopped this turn and nothing else */
    if (status == DCTMS_BOUND || status == DCTMS_INTERRUPTED) {
        cli_note("dctms: %s%s\n", err->message, status == DCTMS_BOUND ? "; /clear forgets the conversation" : "");
        drop_message(&talk);
        return DCTMS_OK;
    }
    if (status != DCTMS_OK) return status;
    size_t n_text;
    const char *text = dctms_session_text(session, &n_text);
    if (copy_message(&talk, "assistant", text, n_text)) return DCTMS_OK;
    cli_note("dctms: the conversation is full, this turn is not kept; /clear forgets it\n");
    drop_message(&talk);
    return DCTMS_OK;
}

/* A chat is timed as a whole. */
static void add_result(dctms_result *sum, const dctms_result *turn) {
    sum->n_prompt += turn->n_prompt;
    sum->n_predicted += turn->n_predicted;
    sum->prompt_ms += turn->prompt_ms;
    sum->predicted_ms += turn->predicted_ms;
}

static int chat(dctms_session *session, const cli_options *o, uint64_t calls) {
    dctms_error err;
    outcome out = {0};
    cli_note("Chat: /help lists the commands, Ctrl-D ends, Ctrl-C stops an answer.\n");
    for (bool answered = false; !end_seen && !(answered && o->single_turn);) {
        uint64_t n;
        cli_line line = {free_text(&talk), free_bytes(&talk), talk.room.messages, talk.n, is_signalled,
                         take_interrupt};
        if (!cli_read_line(&line, &n)) break;
        if (n == 0) continue;
        line_kind kind = n > free_bytes(&talk) ? LINE_MESSAGE : kind_of(free_text(&talk), (size_t)n);
        if (kind == LINE_EXIT) break;
        if (kind == LINE_HELP) {
            print_commands();
        } else if (kind == LINE_UNKNOWN) {
            cli_note("dctms: %.*s: no such command; /help lists them (a blank before the / makes it a message)\n",
                     (int)(n < 40 ? n : 40), free_text(&talk));
        } else if (kind == LINE_CLEAR) {
            while (talk.n > talk.n_elsewhere) drop_message(&talk);
            if (dctms_session_rewind(session, 0, &err) != DCTMS_OK) return cli_fail(&err);
        } else if (take_message(session, n)) {
            dctms_result turn = {0};
            dctms_status status = answer_message(session, o, &turn, &err);
            add_result(&out.result, &turn);
            if (status != DCTMS_OK && !end_seen) return cli_fail(&err);
            answered = true;
        }
    }
    take_figures(session, calls, &out);
    cli_note("\n");
    if (!o->quiet) print_outcome(&out);
    return 0;
}

/* ---- set-up ---- */

/* Said before anything is loaded. A header that tells no vocabulary is refused further on. */
static bool biases_make_sense(const cli_options *o, const dctms_model *model) {
    dctms_model_info info;
    if (o->n_bias == 0 || dctms_model_get_info(model, &info, NULL) != DCTMS_OK || info.n_vocab == 0) return true;
    for (uint32_t i = 0; i < o->n_bias; i++) {
        if (o->bias[i].token < info.n_vocab) continue;
        cli_usage("--logit-bias: there is no token %u, the vocabulary has %u", o->bias[i].token, info.n_vocab);
        return false;
    }
    return true;
}

/* Said before anything is loaded as well. */
static int check_length(const cli_options *o, const dctms_plan *plan) {
    dctms_plan_info info;
    dct_err err;
    if (!has_own_length(o)) return 0;
    if (o->n_predict < 0) return cli_usage("-n %d does not go with --plan, whose bounds are those of the file", o->n_predict);
    dctms_plan_get_info(plan, &info);
    if ((uint32_t)o->n_predict <= info.n_output) return 0;
    dct_fail(&err, DCT_BOUND, "%d output tokens are wanted, the bound is %u", o->n_predict, info.n_output);
    return cli_fail_err(&err);
}

static void take_threads(const cli_options *o, const dctms_plan *plan) {
    dctms_plan_info info;
    if (o->threads != 0 || o->plan_file != NULL) return;
    dctms_plan_get_info(plan, &info);
    threads.n = info.threads;
    dct_os_usable_cpus(NULL, threads.source, sizeof threads.source);
}

/* Opens model, plan and session as the flags say. On failure the message is printed and the exit code returned. */
static int open_session(const cli_options *o, const dctms_session_params *params, dctms_session **session) {
    dctms_plan_params plan_params;
    if (!cli_plan_params(o, &plan_params)) return DCT_USAGE;
    dctms_error err;
    dctms_model *model;
    dctms_plan *plan;
    if (dctms_model_open(cli_model_path(o), &model, &err) != DCTMS_OK) return cli_fail(&err);
    if (!biases_make_sense(o, model)) {
        dctms_model_free(model);
        return DCT_USAGE;
    }
    dctms_status status = o->plan_file != NULL ? dctms_plan_load(o->plan_file, &plan, &err)
                                               : dctms_plan_compile(model, &plan_params, &plan, &err);
    int code = status == DCTMS_OK ? 0 : cli_fail(&err);
    if (code == 0) {
        code = check_length(o, plan);
        if (code == 0 && !o->quiet) cli_warn_context(model, plan, o);
        if (code == 0) take_threads(o, plan);
        if (code == 0 && dctms_session_open(model, plan, params, session, &err) != DCTMS_OK) code = cli_fail(&err);
        dctms_plan_free(plan);
    }
    dctms_model_free(model);
    return code;
}

/* Whether the prompt is a chat message or a text to complete. A file without a template has its prompts completed as they stand;
 * one whose template is unknown must be told what to do. */
static int choose_template(dctms_session *session, const cli_options *o, bool interactive, bool *templated) {
    *templated = false;
    dctms_error err;
    if (o->conversation == CLI_OFF) return 0;
    bool must_chat = interactive || o->conversation == CLI_ON;
    bool has_none = o->chat_template == NULL && dctms_session_file_template(session) == DCTMS_TEMPLATE_NONE;
    if (has_none && !must_chat && o->system != NULL)
        return cli_usage("--system-prompt is a chat's, and the file has no chat template: name one with --chat-template");
    if (has_none && !must_chat) return 0;
    *templated = dctms_session_set_chat_template(session, o->chat_template != NULL ? o->chat_template : "", &err) == DCTMS_OK;
    return *templated ? 0 : cli_usage("%s with --chat-template, or complete a prompt as it stands with -no-cnv", err.message);
}

/* Where the prompt comes from. */
typedef struct source {
    const char *text; /* -p; NULL: a file */
    const char *path; /* "-": standard input */
    dct_file file;
} source;

/* Opened before anything is loaded, so that a wrong name costs no time. */
static int open_source(const cli_options *o, source *from) {
    *from = (source){.text = o->prompt, .path = o->prompt_file != NULL ? o->prompt_file : "-", .file = {.fd = 0}};
    if (from->text != NULL) return 0;
    dct_err err;
    return cli_open_text(&from->file, from->path, &err) == DCT_OK ? 0 : cli_fail_err(&err);
}

/* Reads the file straight into planned memory; no more than can be a prompt. Then it is closed. */
static int read_source(dctms_session *session, source *from, const char **text, size_t *n) {
    dctms_conversation room = dctms_session_conversation(session);
    dctms_error refused;
    dct_err err;
    uint64_t bytes;
    dct_status status = cli_read_into(&from->file, from->path, room.text, room.n_text - 1, &bytes, &err);
    if (from->file.fd != 0) dct_file_close(&from->file);
    if (status != DCT_OK) return cli_fail_err(&err);
    if (bytes >= room.n_text)
        return dctms_session_check_length(session, bytes, &refused) != DCTMS_OK ? cli_fail(&refused) : DCT_BUG;
    *n = (size_t)bytes;
    cli_drop_newline(room.text, n);
    room.text[*n] = '\0';
    *text = room.text;
    return 0;
}

/* What holds for all answers of the command. */
static void print_conditions(const cli_options *o, const cli_modes *modes, bool enforced) {
    if (o->quiet || o->json) return;
    if (!enforced)
        cli_note("seal: %s\n", modes->seal ? "a promise only on this system"
                                           : "off; memory is not enforced, whoever asks for it gets it");
    print_sampling(o);
}

/* Seals, and answers or chats until the end. */
static int serve_user(dctms_session *session, const cli_options *o, const cli_modes *modes, source *from,
                      bool interactive) {
    bool templated, enforced;
    int code = choose_template(session, o, interactive, &templated);
    if (code != 0) return code;
    catch_signals();
    const char *prompt = from->text;
    size_t n_prompt = prompt != NULL ? strlen(prompt) : 0;
    if (!interactive && prompt == NULL) code = read_source(session, from, &prompt, &n_prompt);
    if (code == 0) code = cli_seal(modes, &enforced);
    if (code != 0) return exit_code(code);
    begin_conversation(session, o);
    print_conditions(o, modes, enforced);
    uint64_t calls = cli_heap_calls();
    dctms_session_mark_ready(session);
    code = interactive ? chat(session, o, calls) : answer_once(session, o, prompt, n_prompt, templated, calls);
    return exit_code(code);
}

/* Several models: all are opened, then the process is sealed, then each answers. */
static int run_each(const cli_options *o) {
    dctms_session *sessions[CLI_MAX_ARGS] = {NULL};
    bool templated[CLI_MAX_ARGS], enforced;
    cli_modes modes;
    for (uint32_t i = 1; i < o->n_args; i++) /* `ollama run NAME PROMPT` */
        if (!dct_os_exists(o->args[i])) return cli_usage("%.200s: no such file; a prompt is given with -p", o->args[i]);
    if (o->prompt == NULL) return cli_usage("several models answer one prompt: give it with -p");
    if (!cli_parse_modes(o, &modes)) return DCT_USAGE;
    int code = cli_open_group(o, &modes.session, sessions);
    for (uint32_t i = 0; code == 0 && i < o->n_args; i++) code = choose_template(sessions[i], o, false, &templated[i]);
    catch_signals();
    if (code == 0) code = cli_seal(&modes, &enforced);
    if (code == 0) print_conditions(o, &modes, enforced);
    for (uint32_t i = 0; code == 0 && i < o->n_args; i++) {
        begin_conversation(sessions[i], o);
        if (!o->quiet && !o->json) cli_note("%s%s\n", i > 0 ? "\n" : "", o->args[i]);
        dctms_session_mark_ready(sessions[i]);
        code = answer_once(sessions[i], o, o->prompt, strlen(o->prompt), templated[i], cli_heap_calls());
        if (is_signalled()) code = exit_code(code);
    }
    for (uint32_t i = 0; i < o->n_args; i++) dctms_session_free(sessions[i]);
    return code;
}

int cli_run(const cli_options *o) {
    if (!sampling_makes_sense(o)) return DCT_USAGE;
    if (cli_is_group(o)) return run_each(o);
    if (cli_has_more_args(o))
        return cli_usage("run takes one model after -m; quote the prompt and give it with -p");
    if (!cli_check_form(o, o->plan_file != NULL ? CLI_RUN_FILE : CLI_RUN)) return DCT_USAGE;
    bool interactive = o->prompt == NULL && o->prompt_file == NULL && (o->conversation == CLI_ON || isatty(0));
    if (interactive && o->conversation == CLI_OFF) return cli_usage("-no-cnv completes a prompt: give it with -p or -f");
    if (interactive && o->json) return cli_usage("--json shows one answer: give a prompt with -p or -f");
    cli_modes modes;
    source from = {0};
    dctms_session *session;
    if (!cli_parse_modes(o, &modes)) return DCT_USAGE;
    int code = interactive ? 0 : open_source(o, &from);
    if (code == 0) code = open_session(o, &modes.session, &session);
    if (code != 0) return code;
    code = serve_user(session, o, &modes, &from, interactive);
    dctms_session_free(session);
    return code;
}
