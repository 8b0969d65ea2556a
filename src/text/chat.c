/* text/chat: the turns of a chat as the templates of six families write them.
 *
 * A family's template is recognised by the markers that it must contain. What differs inside a family (the spaces of
 * Mistral's versions, a default system message, Llama 3.1's dates) is read off the template's text. Templates that look
 * like a family and are not (Phi-4, SmolVLM, Mistral v7) are not recognised, so that nobody gets almost the right prompt.
 */
#include "text/chat.h"

#include <string.h>

static const struct { const char *name; dct_chat_family family; } family_names[] = {
    {"chatml", DCT_CHAT_CHATML},   {"llama2", DCT_CHAT_LLAMA2}, {"llama3", DCT_CHAT_LLAMA3},
    {"mistral", DCT_CHAT_MISTRAL}, {"gemma", DCT_CHAT_GEMMA},   {"phi3", DCT_CHAT_PHI3},
};
enum { N_FAMILIES = sizeof family_names / sizeof family_names[0] };

bool dct_chat_family_of_name(const char *name, dct_chat_family *family) {
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (strcmp(name, family_names[i].name) != 0) continue;
        *family = family_names[i].family;
        return true;
    }
    return false;
}

const char *dct_chat_names(void) { return "chatml, llama2, llama3, mistral, gemma, phi3"; }

/* ---- looking into a template ---- */

/* What follows the first occurrence of a literal; ptr NULL when there is none. */
static dct_str after(dct_str text, const char *literal) {
    size_t n = strlen(literal);
    const char *at = text.len == 0 ? NULL : memmem(text.ptr, text.len, literal, n);
    if (at == NULL) return (dct_str){NULL, 0};
    return (dct_str){at + n, text.len - (size_t)(at - text.ptr) - n};
}

static bool has(dct_str text, const char *literal) { return after(text, literal).ptr != NULL; }

dct_chat_family dct_chat_recognise(dct_str jinja) {
    if (has(jinja, "<|im_start|>"))
        return has(jinja, "<|im_sep|>") || has(jinja, "<end_of_utterance>") ? DCT_CHAT_NONE : DCT_CHAT_CHATML;
    if (has(jinja, "[INST]")) {
        if (has(jinja, "[SYSTEM_PROMPT]")) return DCT_CHAT_NONE;
        return has(jinja, "<<SYS>>") ? DCT_CHAT_LLAMA2 : DCT_CHAT_MISTRAL;
    }
    if (has(jinja, "<|assistant|>") && has(jinja, "<|end|>")) return DCT_CHAT_PHI3;
    if (has(jinja, "<start_of_turn>")) return DCT_CHAT_GEMMA;
    if (has(jinja, "unsafe content")) return DCT_CHAT_NONE; /* Llama Guard: the chat is what a task is about */
    if (has(jinja, "<|start_header_id|>") && has(jinja, "<|end_header_id|>")) return DCT_CHAT_LLAMA3;
    return DCT_CHAT_NONE;
}

/* Whether the answer begins with a thought that the prompt opens: that is written behind the last word on the answer's opening.
 * Where a thought may be closed at once as well, the template writes it apart, and not by default. */
static bool opens_thought(dct_str jinja) {
    dct_str tail = {NULL, 0}, rest = after(jinja, "add_generation_prompt");
    for (; rest.ptr != NULL; rest = after(rest, "add_generation_prompt")) tail = rest;
    return has(tail, "<|im_start|>assistant\\n<think>\\n'") || has(tail, "<|im_start|>assistant\\n<think>\\n\"");
}

bool dct_chat_writes_bos(dct_str jinja) { return has(jinja, "bos_token") || has(jinja, "<|begin_of_text|>"); }

/* ---- messages ---- */

typedef enum chat_role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT } chat_role;

typedef struct chat_run {
    dct_str jinja;
    const dct_chat_message *messages;
    uint32_t n;
    bool add_generation;
    dct_chat_piece_fn *piece;
    void *ctx;
} chat_run;

static chat_role role_of(const dct_chat_message *message) {
    if (strcmp(message->role, "system") == 0) return ROLE_SYSTEM;
    return strcmp(message->role, "user") == 0 ? ROLE_USER : ROLE_ASSISTANT;
}

static dct_str content_of(const dct_chat_message *message) { return (dct_str){message->content, strlen(message->content)}; }

/* Written by the template. */
static void put(const chat_run *run, const char *text) {
    if (*text != '\0') run->piece(run->ctx, text, strlen(text), true);
}

/* Written by people or by the model. */
static void put_content(const chat_run *run, dct_str text) {
    if (text.len != 0) run->piece(run->ctx, text.ptr, text.len, false);
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static dct_str trim_right(dct_str text) {
    while (text.len > 0 && is_space(text.ptr[text.len - 1])) text.len--;
    return text;
}

static dct_str trim(dct_str text) {
    text = trim_right(text);
    while (text.len > 0 && is_space(*text.ptr)) {
        text.ptr++;
        text.len--;
    }
    return text;
}

/* The system message when it stands first, for the families that write it in a place of its own. */
static const dct_chat_message *leading_system(const chat_run *run) {
    return run->n > 0 && role_of(&run->messages[0]) == ROLE_SYSTEM ? &run->messages[0] : NULL;
}

/* Where a system message goes into a user turn, there must be one, and the system message stands first. */
static dct_status check_folded_system(const chat_run *run, dct_err *err) {
    for (uint32_t i = 1; i < run->n; i++)
        if (role_of(&run->messages[i]) == ROLE_SYSTEM)
            return dct_fail(err, DCT_USAGE, "this chat template takes a system message only at the beginning (message %u)",
                            i + 1);
    if (leading_system(run) == NULL) return DCT_OK;
    if (run->n == 1 || role_of(&run->messages[1]) != ROLE_USER)
        return dct_fail(err, DCT_USAGE, "this chat template needs a user message after the system message");
    return DCT_OK;
}

/* ---- ChatML ---- */

/* The text of a string literal of the template; the escape \n becomes a line end. */
static void put_literal(const chat_run *run, dct_str text) {
    for (dct_str rest = after(text, "\\n"); rest.ptr != NULL; rest = after(text, "\\n")) {
        size_t before = text.len - rest.len - 2;
        if (before != 0) run->piece(run->ctx, text.ptr, before, true);
        put(run, "\n");
        text = rest;
    }
    if (text.len != 0) run->piece(run->ctx, text.ptr, text.len, true);
}

/* The default system message: the literal that stands, inside one string, between the opening of a system turn and its end. */
static bool find_default_system(dct_str jinja, dct_str *text) {
    static const char opening[] = "<|im_start|>system", ending[] = "<|im_end|>";
    for (dct_str tail = after(jinja, ending), rest = jinja; tail.ptr != NULL; rest = tail, tail = after(tail, ending)) {
        dct_str body = {NULL, 0};
        rest.len -= tail.len + strlen(ending); /* what lies before this end, and the last opening there */
        for (dct_str next = after(rest, opening); next.ptr != NULL; next = after(next, opening)) body = next;
        const char *start = body.ptr != NULL ? body.ptr - strlen(opening) : NULL;
        if (body.len >= 2 && body.ptr[0] == '\\' && body.ptr[1] == 'n') body = (dct_str){body.ptr + 2, body.len - 2};
        else if (body.len >= 1 && body.ptr[0] == '\n') body = (dct_str){body.ptr + 1, body.len - 1};
        else continue;
        char quote = start > jinja.ptr && (start[-1] == '\'' || start[-1] == '"') ? start[-1] : '{';
        if (body.len == 0 || memchr(body.ptr, quote, body.len) != NULL || memchr(body.ptr, '{', body.len) != NULL) continue;
        *text = body;
        return true;
    }
    return false;
}

/* What a template that splits at the end of thoughts (Qwen3) keeps of an answer from before the last question: what follows
 * them. */
static dct_str without_thoughts(dct_str content) {
    if (!has(content, "</think>")) return content;
    for (dct_str rest = after(content, "</think>"); rest.ptr != NULL; rest = after(rest, "</think>")) content = rest;
    while (content.len > 0 && *content.ptr == '\n') content = (dct_str){content.ptr + 1, content.len - 1};
    return content;
}

static uint32_t last_question(const chat_run *run) {
    uint32_t i = run->n;
    while (i > 0 && role_of(&run->messages[i - 1]) != ROLE_USER) i--;
    return i; /* one behind it; 0: there is none */
}

static dct_status render_chatml(const chat_run *run, dct_err *err) {
    (void)err;
    dct_str system;
    if (run->n > 0 && leading_system(run) == NULL && find_default_system(run->jinja, &system)) {
        put(run, "<|im_start|>system\n");
        put_literal(run, system);
        put(run, "<|im_end|>\n");
    }
    const bool drops_thoughts = has(run->jinja, "split('</think>')[-1]");
    const uint32_t question = last_question(run);
    for (uint32_t i = 0; i < run->n; i++) {
        dct_str content = content_of(&run->messages[i]);
        bool is_old = i < question && role_of(&run->messages[i]) == ROLE_ASSISTANT;
        put(run, "<|im_start|>");
        put(run, run->messages[i].role);
        put(run, "\n");
        put_content(run, drops_thoughts && is_old ? without_thoughts(content) : content);
        put(run, "<|im_end|>\n");
    }
    if (run->add_generation) put(run, opens_thought(run->jinja) ? "<|im_start|>assistant\n<think>\n" : "<|im_start|>assistant\n");
    return DCT_OK;
}

/* ---- Llama 2 ---- */

/* The system message is part of the first user turn, and what is stripped is the two together. */
static dct_status render_llama2(const chat_run *run, dct_err *err) {
    dct_status status = check_folded_system(run, err);
    if (status != DCT_OK) return status;
    const dct_chat_message *system = leading_system(run);
    bool is_first = true; /* whose BOS the tokenizer adds */
    for (uint32_t i = system != NULL; i < run->n; i++) {
        dct_str content = content_of(&run->messages[i]);
        if (role_of(&run->messages[i]) == ROLE_ASSISTANT) {
            put(run, " ");
            put_content(run, trim(content));
            put(run, " </s>");
            continue;
        }
        put(run, is_first ? "[INST] " : "<s>[INST] ");
        if (is_first && system != NULL) {
            put(run, "<<SYS>>\n");
            put_content(run, content_of(system));
            put(run, "\n<</SYS>>\n\n");
            put_content(run, trim_right(content));
        } else {
            put_content(run, trim(content));
        }
        put(run, " [/INST]");
        is_first = false;
    }
    return DCT_OK;
}

/* ---- Llama 3 ---- */

static void put_llama3_header(const chat_run *run, const char *role) {
    put(run, "<|start_header_id|>");
    put(run, role);
    put(run, "<|end_header_id|>\n\n");
}

/* From 3.1 on there is always a system turn, and it opens with two dates. Today's is the one that the template falls back to:
 * the same chat gives the same tokens on any day. */
static void put_llama31_dates(const chat_run *run) {
    dct_str date = after(run->jinja, "date_string = \"");
    const char *end = date.ptr == NULL ? NULL : memchr(date.ptr, '"', date.len);
    put(run, "Cutting Knowledge Date: December 2023\nToday Date: ");
    if (end != NULL && end != date.ptr) run->piece(run->ctx, date.ptr, (size_t)(end - date.ptr), true);
    else put(run, "26 Jul 2024");
    put(run, "\n\n");
}

static dct_status render_llama3(const chat_run *run, dct_err *err) {
    (void)err;
    const dct_chat_message *system = leading_system(run);
    bool has_dates = has(run->jinja, "Cutting Knowledge Date: December 2023");
    if (system != NULL || has_dates || has(run->jinja, "set system_message = \"\"")) { /* the last: an empty one is written */
        put_llama3_header(run, "system");
        if (has_dates) put_llama31_dates(run);
        if (system != NULL) put_content(run, trim(content_of(system)));
        put(run, "<|eot_id|>");
    }
    for (uint32_t i = system != NULL; i < run->n; i++) {
        put_llama3_header(run, run->messages[i].role);
        put_content(run, trim(content_of(&run->messages[i])));
        put(run, "<|eot_id|>");
    }
    if (run->add_generation) put_llama3_header(run, "assistant");
    return DCT_OK;
}

/* ---- Mistral ---- */

typedef struct mistral_form {
    const char *open, *close, *answer; /* before and after a user's text; before an answer */
    bool trim_answer, system_goes_last; /* the system message is put into the last user turn, else into the first */
} mistral_form;

static mistral_form mistral_form_of(dct_str jinja) {
    bool is_v1 = has(jinja, "' [INST] ' + system_message"), has_tools = has(jinja, "[AVAILABLE_TOOLS]");
    if (is_v1 || (has_tools && has(jinja, " [INST]"))) return (mistral_form){" [INST] ", " [/INST]", " ", false, false};
    if (has_tools && has(jinja, "\"[INST]\"")) return (mistral_form){"[INST]", "[/INST]", "", false, true};
    if (has_tools || jinja.len == 0) return (mistral_form){"[INST] ", "[/INST]", " ", true, true};
    return (mistral_form){"[INST] ", " [/INST]", "", false, false}; /* as first published, for 7B v0.1 */
}

static dct_status render_mistral(const chat_run *run, dct_err *err) {
    dct_status status = check_folded_system(run, err);
    if (status != DCT_OK) return status;
    mistral_form form = mistral_form_of(run->jinja);
    const dct_chat_message *system = leading_system(run);
    uint32_t system_turn = system != NULL;
    for (uint32_t i = system_turn; form.system_goes_last && i < run->n; i++)
        if (role_of(&run->messages[i]) == ROLE_USER) system_turn = i;
    for (uint32_t i = system != NULL; i < run->n; i++) {
        dct_str content = content_of(&run->messages[i]);
        if (role_of(&run->messages[i]) == ROLE_ASSISTANT) {
            put(run, form.answer);
            put_content(run, form.trim_answer ? trim(content) : content);
            put(run, "</s>");
            continue;
        }
        put(run, form.open);
        if (system != NULL && i == system_turn) {
            put_content(run, content_of(system));
            put(run, "\n\n");
        }
        put_content(run, content);
        put(run, form.close);
    }
    return DCT_OK;
}

/* ---- Gemma ---- */

static dct_status render_gemma(const chat_run *run, dct_err *err) {
    dct_status status = check_folded_system(run, err);
    if (status != DCT_OK) return status;
    const dct_chat_message *system = leading_system(run);
    for (uint32_t i = system != NULL; i < run->n; i++) {
        put(run, role_of(&run->messages[i]) == ROLE_USER ? "<start_of_turn>user\n" : "<start_of_turn>model\n");
        if (system != NULL && i == 1) {
            put_content(run, content_of(system));
            put(run, "\n\n");
        }
        put_content(run, trim(content_of(&run->messages[i])));
        put(run, "<end_of_turn>\n");
    }
    if (run->add_generation) put(run, "<start_of_turn>model\n");
    return DCT_OK;
}

/* ---- Phi-3 ---- */

static dct_status render_phi3(const chat_run *run, dct_err *err) {
    (void)err;
    for (uint32_t i = 0; i < run->n; i++) {
        put(run, "<|");
        put(run, run->messages[i].role);
        put(run, "|>\n");
        put_content(run, content_of(&run->messages[i]));
        put(run, "<|end|>\n");
    }
    if (run->add_generation) put(run, "<|assistant|>\n");
    return DCT_OK;
}

dct_status dct_chat_render(dct_chat_family family, dct_str jinja, const dct_chat_message *messages, uint32_t n,
                           bool add_generation, dct_chat_piece_fn *piece, void *ctx, dct_err *err) {
    chat_run run = {jinja, messages, n, add_generation, piece, ctx};
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(messages[i].role, "system") != 0 && strcmp(messages[i].role, "user") != 0 &&
            strcmp(messages[i].role, "assistant") != 0)
            return dct_fail(err, DCT_USAGE, "message %u has the role '%.40s' (system, user and assistant are known)", i + 1,
                            messages[i].role);
    switch (family) {
    case DCT_CHAT_CHATML: return render_chatml(&run, err);
    case DCT_CHAT_LLAMA2: return render_llama2(&run, err);
    case DCT_CHAT_LLAMA3: return render_llama3(&run, err);
    case DCT_CHAT_MISTRAL: return render_mistral(&run, err);
    case DCT_CHAT_GEMMA: return render_gemma(&run, err);
    case DCT_CHAT_PHI3: return render_phi3(&run, err);
    case DCT_CHAT_NONE: break;
    }
    return dct_fail(err, DCT_USAGE, "the model's chat template is not one we know; choose one with --chat-template (%s)",
                    dct_chat_names());
}
