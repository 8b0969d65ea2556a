/* text/bpe: byte-level BPE inside one word: every byte is a token, and neighbours are joined in the order of the merge list. */
#include "text/merge.h"
#include "text/pretokenize.h"

static void add_candidate(const dct_tokenizer *t, dct_merge_state *s, uint32_t pos) {
    uint32_t right = dct_merge_next(s, pos);
    if (right >= s->n) return;
    uint32_t rank = dct_vocab_find_merge(t, s->val[pos], s->val[right]);
    if (rank != DCT_NO_TOKEN) dct_merge_push(s, rank, pos);
}

/* Whether the symbol at pos and its neighbour are still the two that this merge is about. */
static bool is_current(const dct_merge_state *s, const dct_merge *merge, uint32_t pos) {
    if (s->val[pos] != merge->left) return false;
    uint32_t right = dct_merge_next(s, pos);
    return right < s->n && s->val[right] == merge->right;
}

static void join_pairs(const dct_tokenizer *t, dct_merge_state *s) {
    const dct_merge *merges = dct_vocab_merges(t);
    uint32_t rank, pos;
    while (dct_merge_pop(s, &rank, &pos)) {
        if (!is_current(s, &merges[rank], pos)) continue;
        dct_merge_join(s, pos);
        s->val[pos] = merges[rank].merged;
        if (pos > 0) add_candidate(t, s, dct_merge_prev(s, pos));
        add_candidate(t, s, pos);
    }
}

/* A byte without a token takes part in no merge: no token stands for it in val, and find_merge finds nothing for that. */
dct_status dct_bpe_encode(const dct_tokenizer *t, const uint8_t *word, uint32_t n, void *scratch, dct_token_sink *sink,
                          dct_err *err) {
    if (dct_pre_get(t->pre)->ignore_merges) {
        dct_token whole = dct_vocab_find_plain(t, false, word, n);
        if (whole != DCT_NO_TOKEN) {
            dct_sink_put(sink, whole);
            return DCT_OK;
        }
    }
    dct_merge_state s = dct_merge_start(scratch, n);
    for (uint32_t i = 0; i < n; i++) {
        dct_merge_set_len(&s, i, 1);
        s.val[i] = t->byte_token[word[i]];
    }
    for (uint32_t i = 0; i < n; i++) add_candidate(t, &s, i);
    join_pairs(t, &s);
    for (uint32_t pos = 0; pos < n; pos = dct_merge_next(&s, pos)) {
        if (s.val[pos] != DCT_NO_TOKEN) {
            dct_sink_put(sink, s.val[pos]);
            continue;
        }
        dct_status status = dct_sink_put_byte(t, word[pos], sink, err);
        if (status != DCT_OK) return status;
    }
    return DCT_OK;
}
