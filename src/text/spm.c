/* text/spm: SentencePiece's BPE with scores: characters are joined as long as two neighbours together are a token, the token of
 * the best score first. With a list of merges, as directories have it, those neighbours are joined that stand there, the first of
 * the list first. What is left and is no token goes out byte by byte.
 *
 * Positions count bytes of the plain text (a space is one, though tokens spell it with three). With a lead space, position 0
 * is that space, and text[i] stands at i + 1.
 */
#include "base/half.h"
#include "text/merge.h"
#include "text/unicode.h"

typedef struct spm_text {
    const dct_tokenizer *t;
    const uint8_t *text;
    uint32_t lead; /* 1 with a lead space, else 0 */
} spm_text;

static dct_token token_at(const spm_text *x, uint32_t pos, uint32_t len) {
    if (x->lead == 0) return dct_vocab_find_plain(x->t, false, x->text + pos, len);
    return pos == 0 ? dct_vocab_find_plain(x->t, true, x->text, len - 1)
                    : dct_vocab_find_plain(x->t, false, x->text + pos - 1, len);
}

/* An earlier merge and a higher score give a lower key. Scores are not NaN (checked when the tables are built). */
static uint32_t key_of(const dct_tokenizer *t, uint32_t made) {
    if (!t->has_scores) return made;
    uint32_t bits = dct_bits_of_f32(dct_vocab_scores(t)[made] + 0.0f); /* -0 becomes 0 */
    uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

/* What two neighbours make: a token, or a merge where there are merges. */
static uint32_t made_of(const spm_text *x, uint32_t pos, uint32_t len, uint32_t len_right) {
    if (x->t->has_scores) return token_at(x, pos, len + len_right);
    const uint8_t *text_right = x->text + pos + len - x->lead; /* the lead space is no right neighbour */
    if (x->t->special.cut_at_spaces && dct_vocab_begins_with_space(x->t, text_right, len_right)) return DCT_NO_TOKEN;
    dct_token left = token_at(x, pos, len), right = token_at(x, pos + len, len_right);
    return left == DCT_NO_TOKEN || right == DCT_NO_TOKEN ? DCT_NO_TOKEN : dct_vocab_find_merge(x->t, left, right);
}

/* val of a symbol is what it and its right neighbour would make. */
static void add_candidate(const spm_text *x, dct_merge_state *s, uint32_t pos) {
    uint32_t right = dct_merge_next(s, pos);
    s->val[pos] = right < s->n ? made_of(x, pos, s->len[pos], s->len[right]) : DCT_NO_TOKEN;
    if (s->val[pos] != DCT_NO_TOKEN) dct_merge_push(s, key_of(x->t, s->val[pos]), pos);
}

static void join_pairs(const spm_text *x, dct_merge_state *s) {
    uint32_t key, pos;
    while (dct_merge_pop(s, &key, &pos)) {
        if (s->val[pos] == DCT_NO_TOKEN || key_of(x->t, s->val[pos]) != key) continue;
        dct_merge_join(s, pos);
        if (pos > 0) add_candidate(x, s, dct_merge_prev(s, pos));
        add_candidate(x, s, pos);
    }
}

static void cut_into_characters(const spm_text *x, dct_merge_state *s) {
    for (uint32_t pos = 0; pos < s->n;) {
        uint32_t code, bytes = 1;
        if (pos >= x->lead) {
            const uint8_t *p = x->text + pos - x->lead;
            bytes = dct_utf8_decode(p, s->n - pos, &code);
            if (code == DCT_CHAR_INVALID) bytes = 1;
        }
        for (uint32_t i = 1; i < bytes; i++) s->val[pos + i] = DCT_NO_TOKEN;
        dct_merge_set_len(s, pos, bytes);
        pos += bytes;
    }
}

static dct_status put_symbol(const spm_text *x, uint32_t pos, uint32_t len, dct_token_sink *sink, dct_err *err) {
    dct_token id = token_at(x, pos, len);
    if (id != DCT_NO_TOKEN) {
        dct_sink_put(sink, id);
        return DCT_OK;
    }
    for (uint32_t i = 0; i < len; i++) { /* a space is spelt out: its three bytes have tokens, it may have none */
        uint8_t byte = pos + i < x->lead ? ' ' : x->text[pos + i - x->lead];
        const dct_spelling *spelling = &x->t->spelling[byte];
        for (uint32_t k = 0; k < spelling->n; k++) {
            dct_status status = dct_sink_put_byte(x->t, spelling->bytes[k], sink, err);
            if (status != DCT_OK) return status;
        }
    }
    return DCT_OK;
}

dct_status dct_spm_encode(const dct_tokenizer *t, const uint8_t *text, uint32_t n, bool leads, void *scratch,
                          dct_token_sink *sink, dct_err *err) {
    spm_text x = {t, text, leads ? 1 : 0};
    dct_merge_state s = dct_merge_start(scratch, n + x.lead);
    cut_into_characters(&x, &s);
    for (uint32_t pos = 0; pos < s.n; pos = dct_merge_next(&s, pos)) add_candidate(&x, &s, pos);
    join_pairs(&x, &s);
    for (uint32_t pos = 0; pos < s.n; pos = dct_merge_next(&s, pos)) {
        dct_status status = put_symbol(&x, pos, s.len[pos], sink, err);
        if (status != DCT_OK) return status;
    }
    return DCT_OK;
}
