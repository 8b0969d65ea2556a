/* engine/prompt: text and chats onto the timeline, in planned scratch.
 *
 *   scratch    [ rendered chat | its parts | the tokenizer's own ]     over the intermediates, or an item
 *
 * What cannot fit is refused: no token has more bytes than the longest of the vocabulary. The refusal counts the tokens exactly
 * as long as the scratch has room to tokenize the text, which is at least for the longest that can fit and often for much more;
 * beyond that it says how many there are at least.
 */
#include <string.h>

#include "base/size.h"
#include "engine/engine.h"

static dct_status check_length(const dctms_session *s, uint64_t n_text, dct_err *err) {
    uint32_t longest = dct_tokenizer_longest(s->tokenizer.tables), n_input = s->plan->bounds.n_input;
    if (n_text <= dct_longest_text(n_input, longest)) return DCT_OK;
    return dct_session_refuse_prompt(s, true, dct_div_up(n_text, longest), err);
}

/* There is no room to count, as there always is for a chat that may fit: each message, two parts, has a token at least. */
static dct_status too_long(const dctms_session *s, uint64_t n_text, uint64_t n_parts, dct_err *err) {
    dct_status status = check_length(s, n_text, err);
    if (status != DCT_OK) return status;
    if (n_parts / 2 > s->plan->bounds.n_input) return dct_session_refuse_prompt(s, true, n_parts / 2, err);
    return dct_fail(err, DCT_BUG, "the planned scratch of %llu bytes is too small for %llu bytes of text",
                    (unsigned long long)s->tokenizer.scratch_bytes, (unsigned long long)n_text);
}

/* A list of tokens may be longer than the table of their embeddings. */
static dct_status check_rows(const dctms_session *s, uint64_t n_tokens, dct_err *err) {
    for (uint64_t i = 0; i < n_tokens; i++)
        if (s->prompt[i] >= s->n_vocab)
            return dct_fail(err, DCT_BAD_FILE, "the text has token %u of the file's list, and the vocabulary has %u",
                            s->prompt[i], s->n_vocab);
    return DCT_OK;
}

/* Where an answer follows, the end that a file may want behind each text is left away: it is the last token. */
static uint64_t without_end(const dctms_session *s, uint64_t n_tokens) {
    return n_tokens - (dct_tokenizer_special(s->tokenizer.tables)->add_eos && n_tokens > 0);
}

/* Parts of the scratch. */
typedef struct layout {
    char *text;
    dct_text_part *parts;
    uint64_t n_parts;
    void *own;
    uint64_t own_bytes;
} layout;

/* n_copied: bytes of the text that lie in the scratch themselves, all or none. */
static dct_status lay_out(const dctms_session *s, uint64_t n_text, uint64_t n_copied, uint64_t n_parts, layout *l, dct_err *err) {
    uint64_t have = s->tokenizer.scratch_bytes;
    if (n_text > have || n_parts > have / sizeof(dct_text_part)) return too_long(s, n_text, n_parts, err);
    uint64_t text = dct_round_up(n_copied, 64), parts = dct_round_up(n_parts * sizeof(dct_text_part), 64);
    if (text + parts + dct_tokenizer_scratch_bytes(n_text) > have) return too_long(s, n_text, n_parts, err);
    char *at = s->tokenizer.scratch;
    *l = (layout){at, (dct_text_part *)(at + text), n_parts, at + text + parts, s->tokenizer.scratch_bytes - text - parts};
    return DCT_OK;
}

static dct_status prompt_text(dctms_session *s, const char *text, size_t n, bool parse_special, dct_err *err) {
    layout l;
    uint64_t n_tokens;
    bool is_first = s->n_past == 0 && s->pending == DCT_NO_TOKEN;
    dct_status status = lay_out(s, n, 0, 0, &l, err);
    if (status == DCT_OK)
        status = dct_tokenizer_encode(s->tokenizer.tables, text, n, is_first, parse_special, l.own, s->prompt,
                                      s->plan->bounds.n_input, &n_tokens, err);
    if (status != DCT_OK) return status;
    if (is_first) n_tokens = without_end(s, n_tokens);
    uint32_t written = n_tokens < s->plan->bounds.n_input ? (uint32_t)n_tokens : s->plan->bounds.n_input;
    status = check_rows(s, written, err);
    return status == DCT_OK ? dct_session_prompt_tokens(s, s->prompt, written, n_tokens, err) : status;
}

dctms_conversation dctms_session_conversation(const dctms_session *s) { return s->conversation; }

dctms_status dctms_session_check_length(const dctms_session *s, uint64_t n_bytes, dctms_error *err) {
    dct_err why = {0};
    return dct_give(check_length(s, n_bytes, &why), &why, err);
}

dctms_status dctms_session_prompt(dctms_session *s, const char *text, size_t n, bool parse_special, dctms_error *err) {
    dct_err why = {0};
    dct_status status = dct_group_take_turn(s->group, &why); /* the scratch may lie over what another model computes with */
    if (status != DCT_OK) return dct_give(status, &why, err);
    status = prompt_text(s, text, n, parse_special, &why);
    dct_group_end_turn(s->group);
    return dct_give(status, &why, err);
}

/* ---- chats ---- */

/* Rendered text and parts; neighbours of one kind are one part. What does not fit is only counted. */
typedef struct rendering {
    char *text;
    dct_text_part *parts;
    uint64_t n_text, text_cap, n_parts, parts_cap;
    bool last_is_template; /* of the last part */
} rendering;

static void take_piece(void *ctx, const char *text, size_t n, bool is_template) {
    rendering *r = ctx;
    if (n == 0) return;
    if (r->n_text + n <= r->text_cap) memcpy(r->text + r->n_text, text, n);
    r->n_text += n;
    if (r->n_parts == 0 || r->last_is_template != is_template) r->n_parts++;
    r->last_is_template = is_template;
    if (r->n_parts <= r->parts_cap) r->parts[r->n_parts - 1] = (dct_text_part){r->n_text, is_template};
}

static dct_status render_into(dctms_session *s, const dctms_chat_message *messages, uint32_t n, rendering *r, dct_err *err) {
    _Static_assert(sizeof(dctms_chat_message) == sizeof(dct_chat_message), "one shape of message");
    return dct_chat_render(s->family, (dct_str){s->jinja, s->jinja_bytes}, (const dct_chat_message *)messages, n, true,
                           take_piece, r, err);
}

/* Once to count, once into as much of the scratch as that says. */
static dct_status render(dctms_session *s, const dctms_chat_message *messages, uint32_t n, rendering *r, layout *l,
                         dct_err *err) {
    memset(r, 0, sizeof *r);
    dct_status status = render_into(s, messages, n, r, err);
    if (status == DCT_OK) status = lay_out(s, r->n_text, r->n_text, r->n_parts, l, err);
    if (status != DCT_OK) return status;
    *r = (rendering){.text = l->text, .parts = l->parts, .text_cap = r->n_text, .parts_cap = r->n_parts};
    return render_into(s, messages, n, r, err);
}

/* Tokens of the chat in s->prompt. A template may write BOS although the file does not ask the tokenizer for it. */
static dct_status encode_chat(dctms_session *s, const dctms_chat_message *messages, uint32_t n, uint64_t *n_tokens,
                              dct_err *err) {
    rendering r;
    layout l;
    const dct_special *special = dct_tokenizer_special(s->tokenizer.tables);
    dct_status status = render(s, messages, n, &r, &l, err);
    if (status != DCT_OK) return status;
    uint32_t n_front = !special->add_bos && special->bos != DCT_NO_TOKEN &&
                       dct_chat_writes_bos((dct_str){s->jinja, s->jinja_bytes});
    if (n_front != 0) s->prompt[0] = special->bos;
    status = dct_tokenizer_encode_parts(s->tokenizer.tables, r.text, r.n_text, r.parts, r.n_parts, true, l.own,
                                        s->prompt + n_front, s->plan->bounds.n_input, n_tokens, err);
    *n_tokens = without_end(s, *n_tokens) + n_front;
    return status;
}

/* At least the last token is evaluated again: its logits are what the answer begins with. */
static uint32_t common_prefix(const dctms_session *s, uint32_t n) {
    uint32_t k = 0;
    while (k < n - 1 && k < s->n_past && s->prompt[k] == s->timeline[k]) k++;
    return k;
}

static dct_status chat(dctms_session *s, const dctms_chat_message *messages, uint32_t n, dct_err *err) {
    if (s->family == DCT_CHAT_NONE)
        return dct_fail(err, DCT_USAGE, "the file's chat template is not one we know; name one of %s", dct_chat_names());
    uint64_t n_tokens = 0;
    dct_status status = encode_chat(s, messages, n, &n_tokens, err);
    if (status != DCT_OK) return status;
    if (n_tokens > s->plan->bounds.n_input) return dct_session_refuse_prompt(s, false, n_tokens, err);
    if (n_tokens == 0) return dct_fail(err, DCT_USAGE, "the prompt is empty");
    status = check_rows(s, n_tokens, err);
    if (status != DCT_OK) return status;
    uint32_t kept = common_prefix(s, (uint32_t)n_tokens);
    dct_session_cut(s, kept);
    return dct_session_prompt_tokens(s, s->prompt + kept, (uint32_t)n_tokens - kept, n_tokens - kept, err);
}

dctms_status dctms_session_chat(dctms_session *s, const dctms_chat_message *messages, uint32_t n, dctms_error *err) {
    dct_err why = {0};
    dct_status status = dct_group_take_turn(s->group, &why);
    if (status != DCT_OK) return dct_give(status, &why, err);
    status = chat(s, messages, n, &why);
    dct_group_end_turn(s->group);
    return dct_give(status, &why, err);
}

dctms_template dctms_session_file_template(const dctms_session *s) {
    if (s->jinja_bytes == 0) return DCTMS_TEMPLATE_NONE;
    return dct_chat_recognise((dct_str){s->jinja, s->jinja_bytes}) == DCT_CHAT_NONE ? DCTMS_TEMPLATE_UNKNOWN
                                                                                    : DCTMS_TEMPLATE_KNOWN;
}

dctms_status dctms_session_set_chat_template(dctms_session *s, const char *name, dctms_error *err) {
    dct_err why = {0};
    dct_chat_family family = DCT_CHAT_NONE;
    if (name[0] == '\0') family = dct_chat_recognise((dct_str){s->jinja, s->jinja_bytes});
    else if (!dct_chat_family_of_name(name, &family)) family = DCT_CHAT_NONE;
    if (family == DCT_CHAT_NONE) {
        const char *what = name[0] != '\0'       ? "unknown chat template "
                           : s->jinja_bytes == 0 ? "the file has no chat template"
                                                 : "the file's chat template is not one we know";
        return dct_give(dct_fail(&why, DCT_USAGE, "%s%.64s; name one of %s", what, name, dct_chat_names()), &why, err);
    }
    s->family = family;
    return DCTMS_OK;
}
