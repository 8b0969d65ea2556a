/* engine/eval: tokens onto the timeline.
 *
 * A prompt goes through the prefill phase in chunks of ubatch rows, a single token through decode; both give the same bytes, and
 * so do all members of a family. A bound is checked before anything is computed, so a refused request leaves the timeline as it
 * was.
 *
 * The last token of an answer is delivered before it is evaluated, and is evaluated only if something follows: it is `pending`.
 */
#include <string.h>

#include "engine/engine.h"

static dct_status check_tokens(const dctms_session *s, const dct_token *tokens, uint32_t n, dct_err *err) {
    for (uint32_t i = 0; i < n; i++)
        if (tokens[i] >= s->n_vocab)
            return dct_fail(err, DCT_USAGE, "token %u does not exist, the vocabulary has %u", tokens[i], s->n_vocab);
    return DCT_OK;
}

/* Text has the same position in all three streams of M-RoPE. */
void dct_fill_positions(int32_t *pos, uint32_t first, uint32_t n) {
    for (uint32_t t = 0; t < n; t++) {
        int32_t p = (int32_t)(first + t);
        memcpy(pos + 4 * (size_t)t, (int32_t[4]){p, p, p, 0}, 4 * sizeof(int32_t));
    }
}

static void write_inputs(dctms_session *s, const dct_phase *phase, const dct_token *tokens, uint32_t n) {
    int32_t *ids = dct_exec_value(s->exec[s->member], phase->kind, phase->graph.ids);
    for (uint32_t t = 0; t < n; t++) ids[t] = (int32_t)tokens[t];
    dct_fill_positions(dct_exec_value(s->exec[s->member], phase->kind, phase->graph.pos), s->n_past, n);
}

static dct_status run_chunk(dctms_session *s, const dct_token *tokens, uint32_t n, dct_err *err) {
    const dct_phase *phase = dct_plan_phase(dct_plan_member(s->plan, s->member), n == 1 ? DCT_PHASE_DECODE : DCT_PHASE_PREFILL);
    if (s->dynamic != NULL) {
        dct_status status = dct_dynamic_run(s, phase->kind, tokens, n, err);
        if (status != DCT_OK) return status;
    } else {
        write_inputs(s, phase, tokens, n);
        dct_exec_run(s->exec[s->member], phase->kind, n, s->n_past);
        s->logits = dct_exec_value(s->exec[s->member], phase->kind, phase->graph.logits);
    }
    s->n_logit_rows = s->plan->bounds.logits == DCT_LOGITS_ALL ? n : 1;
    memcpy(s->timeline + s->n_past, tokens, n * sizeof *tokens);
    s->n_past += n;
    return DCT_OK;
}

/* Exponents of ones are the infinities and NaN. No branch in the loop, so that it costs next to nothing beside the logits. */
static bool is_finite(const float *x, uint64_t n) {
    uint32_t worst = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= UINT32_C(0x7f800000);
        worst = bits > worst ? bits : worst;
    }
    return worst != UINT32_C(0x7f800000);
}

/* Nothing that follows from such logits means anything, so no one gets to see them. */
static dct_status check_logits(dctms_session *s, dct_err *err) {
    uint32_t rows = s->n_logit_rows;
    for (uint32_t i = 0; i < rows; i++) {
        if (is_finite(s->logits + (uint64_t)i * s->n_vocab, s->n_vocab)) continue;
        s->logits = NULL;
        return dct_fail(err, DCT_BAD_FILE, "the logits are not finite at token %u: the file's weights are damaged, or a cache "
                        "type is too small for them", s->n_past - rows + i);
    }
    return DCT_OK;
}

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* A chunk ends with the context of the member of the family that runs it, too. */
dct_status dct_session_advance(dctms_session *s, const dct_token *tokens, uint32_t n, dct_err *err) {
    while (n > 0) {
        dct_session_settle(s);
        const dct_bounds *b = &dct_plan_member(s->plan, s->member)->bounds;
        uint32_t chunk = min_u32(n, min_u32(b->ubatch, b->n_ctx - s->n_past));
        dct_status status = run_chunk(s, tokens, chunk, err);
        if (status == DCT_OK) status = check_logits(s, err);
        if (status != DCT_OK) return status;
        tokens += chunk;
        n -= chunk;
        if (n > 0 && atomic_load_explicit(&s->interrupted, memory_order_relaxed)) {
            atomic_store(&s->interrupted, 0);
            s->logits = NULL; /* nothing goes on from the middle of a prompt */
            return dct_fail(err, DCT_INTERRUPTED, "interrupted with %u tokens of the prompt left", n);
        }
    }
    return DCT_OK;
}

static dct_status check_context(const dctms_session *s, uint32_t n, dct_err *err) {
    uint64_t total = (uint64_t)s->n_past + n;
    if (total <= s->plan->bounds.n_ctx) return DCT_OK;
    return dct_fail(err, DCT_BOUND, "the timeline would have %llu tokens, the bound is %u", (unsigned long long)total,
                    s->plan->bounds.n_ctx);
}

dct_status dct_session_flush(dctms_session *s, dct_err *err) {
    if (s->pending == DCT_NO_TOKEN) return DCT_OK;
    dct_status status = check_context(s, 1, err);
    if (status != DCT_OK) return status;
    dct_token token = s->pending;
    uint32_t before = s->n_past;
    s->pending = DCT_NO_TOKEN;
    status = dct_session_advance(s, &token, 1, err);
    if (s->n_past == before) s->pending = token; /* the system had no memory for a dynamic session */
    return status;
}

dct_status dct_session_refuse_prompt(const dctms_session *s, bool at_least, uint64_t n, dct_err *err) {
    const dct_bounds *b = &s->plan->bounds;
    return dct_fail(err, DCT_BOUND, "the prompt has %s%llu tokens, the bound is %u (a context of %u less %u of output)",
                    at_least ? "at least " : "", (unsigned long long)n, b->n_input, b->n_ctx, b->n_output);
}

dct_status dct_session_prompt_tokens(dctms_session *s, const dct_token *tokens, uint32_t n, uint64_t n_wanted, dct_err *err) {
    uint64_t total = s->n_past + (s->pending != DCT_NO_TOKEN) + n_wanted;
    if (total > s->plan->bounds.n_input) return dct_session_refuse_prompt(s, false, total, err);
    if (n == 0) return s->n_past > 0 ? dct_session_flush(s, err) : dct_fail(err, DCT_USAGE, "the prompt is empty");
    dct_status status = check_tokens(s, tokens, n, err);
    if (status != DCT_OK) return status;
    uint64_t start = dct_os_now_ns();
    status = dct_session_flush(s, err);
    uint32_t before = s->n_past;
    if (status == DCT_OK) status = dct_session_advance(s, tokens, n, err);
    s->prompt_ms += (double)(dct_os_now_ns() - start) * 1e-6;
    s->n_prompt += s->n_past - before; /* fewer than n when it was stopped */
    return status;
}

void dct_session_cut(dctms_session *s, uint32_t n) {
    s->n_past = n;
    s->pending = DCT_NO_TOKEN;
    s->logits = NULL;
    if (n > 0) return;
    s->n_prompt = 0;
    s->prompt_ms = 0;
    if (s->dynamic != NULL) dct_dynamic_forget(s->dynamic);
}

/* ---- public ---- */

uint32_t dctms_session_n_tokens(const dctms_session *s) { return s->n_past; }

dctms_status dctms_session_rewind(dctms_session *s, uint32_t n, dctms_error *err) {
    dct_err why = {0};
    if (n > s->n_past)
        return dct_give(dct_fail(&why, DCT_USAGE, "cannot rewind to %u tokens, there are %u", n, s->n_past), &why, err);
    dct_session_cut(s, n);
    return DCTMS_OK;
}

dctms_status dctms_session_eval(dctms_session *s, const dctms_token *tokens, uint32_t n, dctms_error *err) {
    dct_err why = {0};
    dct_status status = dct_group_take_turn(s->group, &why);
    if (status != DCT_OK) return dct_give(status, &why, err);
    status = dct_session_prompt_tokens(s, tokens, n, n, &why);
    dct_group_end_turn(s->group);
    return dct_give(status, &why, err);
}

dctms_status dctms_session_step(dctms_session *s, dctms_token token, dctms_error *err) {
    dct_err why = {0};
    dct_status status = check_tokens(s, &token, 1, &why);
    if (status == DCT_OK) status = check_context(s, 1 + (s->pending != DCT_NO_TOKEN), &why);
    if (status == DCT_OK) status = dct_group_take_turn(s->group, &why);
    if (status != DCT_OK) return dct_give(status, &why, err);
    status = dct_session_flush(s, &why);
    if (status == DCT_OK) status = dct_session_advance(s, &token, 1, &why);
    dct_group_end_turn(s->group);
    return dct_give(status, &why, err);
}

const float *dctms_session_logits(const dctms_session *s) {
    return s->logits == NULL ? NULL : s->logits + (uint64_t)(s->n_logit_rows - 1) * s->n_vocab;
}

const float *dctms_session_logits_row(const dctms_session *s, uint32_t row) {
    if (s->logits == NULL || row >= s->n_logit_rows) return NULL;
    return s->logits + (uint64_t)row * s->n_vocab;
}

void dctms_session_interrupt(dctms_session *s) { atomic_store_explicit(&s->interrupted, 1, memory_order_relaxed); }
void dctms_session_clear_interrupt(dctms_session *s) { atomic_store_explicit(&s->interrupted, 0, memory_order_relaxed); }
