/* engine/generate: the loop from logits to text.
 *
 * Text goes through three hands: bytes of tokens become whole characters, characters are searched for stop strings, and what can
 * no longer be part of one is delivered. All of it lies in the planned buffer of the answer.
 */
#include <string.h>

#include "engine/engine.h"

dctms_gen_params dctms_gen_default_params(void) {
    dctms_gen_params p;
    memset(&p, 0, sizeof p);
    p.struct_bytes = sizeof p;
    p.temperature = 0.8f;
    p.top_p = 0.95f;
    p.min_p = 0.05f;
    p.top_k = 40;
    p.repeat_penalty = 1;
    p.repeat_last_n = 64;
    return p;
}

/* ---- text ---- */

typedef struct answer {
    dctms_session *s;
    const dctms_gen_params *params;
    dctms_text_fn *text;
    void *ctx;
    dct_utf8_stream utf8;
    size_t n_sent;
    bool stopped;    /* a stop string was found; the text ends before it */
    bool refused;    /* the caller wants no more */
} answer;

static void send(answer *a, dct_token token, size_t end) {
    if (end <= a->n_sent || a->refused) return;
    if (a->text != NULL && !a->text(a->ctx, token, a->s->text + a->n_sent, end - a->n_sent)) a->refused = true;
    a->n_sent = end;
}

/* The first place at or after `from` where any stop string stands; n_text when there is none. */
static size_t find_stop(const answer *a, size_t from) {
    const dctms_session *s = a->s;
    for (size_t at = from; at < s->n_text; at++) {
        for (uint32_t i = 0; i < a->params->n_stop; i++) {
            size_t n = strlen(a->params->stop[i]);
            if (n <= s->n_text - at && memcmp(s->text + at, a->params->stop[i], n) == 0) return at;
        }
    }
    return s->n_text;
}

/* The first place from which the rest of the text is the beginning of a stop string: what follows is held back. */
static size_t find_held(const answer *a) {
    const dctms_session *s = a->s;
    size_t at = s->n_text > DCT_MAX_STOP_BYTES ? s->n_text - DCT_MAX_STOP_BYTES : 0;
    if (at < a->n_sent) at = a->n_sent;
    for (; at < s->n_text; at++) {
        for (uint32_t i = 0; i < a->params->n_stop; i++) {
            size_t rest = s->n_text - at;
            if (rest < strlen(a->params->stop[i]) && memcmp(s->text + at, a->params->stop[i], rest) == 0) return at;
        }
    }
    return s->n_text;
}

/* What was sent never holds the beginning of a stop string that is still open, so a search from there misses none. */
static void deliver(answer *a, dct_token token) {
    size_t stop = find_stop(a, a->n_sent);
    if (stop < a->s->n_text) {
        a->s->n_text = stop;
        a->stopped = true;
    }
    send(a, token, a->stopped ? a->s->n_text : find_held(a));
}

/* The token's bytes are put at the end of the buffer and become characters behind the text (dct_answer_bytes: the two never
 * meet). */
static void add_token(answer *a, dct_token token) {
    dctms_session *s = a->s;
    uint32_t longest = dct_tokenizer_longest(s->tokenizer.tables);
    char *raw = s->text + s->text_cap - longest;
    uint32_t n = dct_tokenizer_piece(s->tokenizer.tables, token, false, raw, longest);
    s->n_text += dct_utf8_push(&a->utf8, raw, n, s->text + s->n_text);
    deliver(a, token);
}

/* Nothing follows: a broken character at the end is replaced, and held text turns out to be text. */
static void finish_text(answer *a) {
    if (a->stopped) return;
    a->s->n_text += dct_utf8_flush(&a->utf8, a->s->text + a->s->n_text);
    deliver(a, UINT32_MAX);
    send(a, UINT32_MAX, a->s->n_text);
}

/* ---- tokens ---- */

static dct_status check_params(const dctms_session *s, const dctms_gen_params *p, dct_err *err) {
    if (p->n_bias > DCT_MAX_BIAS) return dct_fail(err, DCT_USAGE, "%u logit biases, the bound is %d", p->n_bias, DCT_MAX_BIAS);
    if (p->n_stop > DCT_MAX_STOPS) return dct_fail(err, DCT_USAGE, "%u stop strings, the bound is %d", p->n_stop, DCT_MAX_STOPS);
    for (uint32_t i = 0; i < p->n_stop; i++) {
        size_t n = strlen(p->stop[i]);
        if (n == 0 || n >= DCT_MAX_STOP_BYTES)
            return dct_fail(err, DCT_USAGE, "stop string %u has %zu bytes, allowed are 1 to %d", i, n, DCT_MAX_STOP_BYTES - 1);
    }
    if (!(p->repeat_penalty > 0))
        return dct_fail(err, DCT_USAGE, "a repeat penalty of %g makes no sense", (double)p->repeat_penalty);
    if (p->n_predict > s->plan->bounds.n_output)
        return dct_fail(err, DCT_BOUND, "%u output tokens are wanted, the bound is %u", p->n_predict, s->plan->bounds.n_output);
    for (uint32_t i = 0; i < p->n_bias; i++)
        if (p->bias[i].token >= s->n_vocab)
            return dct_fail(err, DCT_USAGE, "logit bias for token %u, the vocabulary has %u", p->bias[i].token, s->n_vocab);
    return DCT_OK;
}

static bool is_end(const dctms_session *s, dct_token token) {
    for (uint32_t i = 0; i < s->n_end_tokens; i++)
        if (s->end_tokens[i] == token) return true;
    return false;
}

static dct_token sample(dctms_session *s, const dctms_gen_params *p, const dct_sampler_bias *bias) {
    uint32_t n_recent = p->repeat_last_n < 0 || (uint32_t)p->repeat_last_n > s->n_past ? s->n_past : (uint32_t)p->repeat_last_n;
    dct_sampler_params sp = {
        .temperature = p->temperature, .top_p = p->top_p, .min_p = p->min_p, .top_k = p->top_k,
        .repeat_penalty = p->repeat_penalty, .presence_penalty = p->presence_penalty, .frequency_penalty = p->frequency_penalty,
        .bias = bias, .n_bias = p->n_bias, .recent = s->timeline + s->n_past - n_recent, .n_recent = n_recent,
        .banned = s->end_tokens, .n_banned = p->ignore_eos ? s->n_end_tokens : 0,
    };
    return dct_sampler_take(&s->sampler, dctms_session_logits(s), &sp);
}

/* Between two tokens another model of the group may run. */
static dct_status evaluate_pending(dctms_session *s, dct_err *err) {
    if (s->pending == DCT_NO_TOKEN) return DCT_OK;
    dct_status status = dct_group_take_turn(s->group, err);
    if (status != DCT_OK) return status;
    status = dct_session_flush(s, err);
    dct_group_end_turn(s->group);
    return status;
}

/* Generates at most n tokens. */
static dct_status loop(answer *a, uint32_t n, dctms_finish *finish, dct_err *err) {
    dctms_session *s = a->s;
    dct_sampler_bias bias[DCT_MAX_BIAS];
    for (uint32_t i = 0; i < a->params->n_bias; i++)
        bias[i] = (dct_sampler_bias){a->params->bias[i].token, a->params->bias[i].bias};
    *finish = DCTMS_FINISH_LENGTH;
    while (s->n_generated < n) {
        if (atomic_exchange_explicit(&s->interrupted, 0, memory_order_relaxed)) {
            *finish = DCTMS_FINISH_INTERRUPTED;
            return DCT_OK;
        }
        dct_status status = evaluate_pending(s, err);
        if (status != DCT_OK) return status;
        dct_token token = sample(s, a->params, bias);
        if (is_end(s, token) && !a->params->ignore_eos) {
            *finish = DCTMS_FINISH_STOP;
            return DCT_OK;
        }
        s->pending = token;
        s->generated[s->n_generated++] = token;
        add_token(a, token);
        if (a->stopped || a->refused) {
            *finish = a->stopped ? DCTMS_FINISH_WORD : DCTMS_FINISH_INTERRUPTED;
            return DCT_OK;
        }
    }
    return DCT_OK;
}

static dct_status generate(dctms_session *s, const dctms_gen_params *p, dctms_text_fn *text, void *ctx, dctms_result *result,
                           dct_err *err) {
    dct_status status = check_params(s, p, err);
    if (status != DCT_OK) return status;
    if (s->logits == NULL) return dct_fail(err, DCT_USAGE, "nothing was evaluated to generate from");
    status = dct_group_take_turn(s->group, err); /* a refusal changes nothing */
    if (status != DCT_OK) return status;
    dct_group_end_turn(s->group);
    uint32_t n = p->n_predict != 0 ? p->n_predict : s->plan->bounds.n_output, used = s->n_past + (s->pending != DCT_NO_TOKEN);
    if (n > s->plan->bounds.n_ctx - used) n = s->plan->bounds.n_ctx - used;
    answer a = {.s = s, .params = p, .text = text, .ctx = ctx};
    s->n_generated = 0;
    s->n_text = 0;
    dct_sampler_seed(&s->sampler, p->seed);
    uint64_t start = dct_os_now_ns();
    dctms_finish finish;
    status = loop(&a, n, &finish, err);
    finish_text(&a);
    if (finish == DCTMS_FINISH_LENGTH && a.stopped) finish = DCTMS_FINISH_WORD;
    if (result != NULL)
        *result = (dctms_result){s->n_prompt, s->n_generated, s->prompt_ms, (double)(dct_os_now_ns() - start) * 1e-6, finish};
    s->n_prompt = 0;
    s->prompt_ms = 0;
    return status;
}

dctms_status dctms_session_generate(dctms_session *s, const dctms_gen_params *params, dctms_text_fn *text, void *ctx,
                                    dctms_result *result, dctms_error *err) {
    dct_err why = {0};
    dctms_gen_params p = dctms_gen_default_params();
    if (params != NULL) dct_take_params(&p, sizeof p, params, params->struct_bytes);
    return dct_give(generate(s, &p, text, ctx, result, &why), &why, err);
}

const dctms_token *dctms_session_generated(const dctms_session *s, uint32_t *n) {
    *n = s->n_generated;
    return s->generated;
}

const char *dctms_session_text(const dctms_session *s, size_t *n) {
    *n = (size_t)s->n_text;
    return s->text;
}
