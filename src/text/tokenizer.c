/* text/tokenizer: a text is cut at the special tokens it may contain, and the stretches between go to BPE or SPM. */
#include "text/tokenizer.h"

#include "text/pretokenize.h"
#include "text/vocab.h"

/* The walk over the parts of a text: where special tokens are looked for. */
typedef struct part_walk {
    const dct_text_part *parts;
    uint64_t n_parts, at;
    uint64_t parsed_end; /* bytes [pos, parsed_end) are parsed; nothing when parsed_end <= pos */
} part_walk;

static void move_to(part_walk *walk, uint64_t pos) {
    if (pos < walk->parsed_end) return;
    while (walk->at < walk->n_parts && walk->parts[walk->at].end <= pos) walk->at++;
    for (; walk->at < walk->n_parts && walk->parts[walk->at].parse_special; walk->at++)
        walk->parsed_end = walk->parts[walk->at].end;
}

/* The longest token of the list that stands at text[0], among those that may be seen here: control tokens only when they end
 * within n_parsed. Narrows the sorted list byte by byte. */
static dct_token match_parsed(const dct_tokenizer *t, const uint8_t *text, uint64_t n, uint64_t n_parsed) {
    const dct_token *parsed = dct_vocab_parsed(t);
    uint32_t low = t->parsed_from[text[0]], high = t->parsed_from[text[0] + 1];
    dct_token best = DCT_NO_TOKEN;
    for (uint64_t len = 1; low < high; len++) { /* parsed[low, high) all begin with text[0, len) */
        if (dct_vocab_text(t, parsed[low]).len == len) {
            bool is_user = (dct_vocab_flags(t)[parsed[low]] & DCT_TOKEN_USER) != 0;
            if (is_user || len <= n_parsed) best = parsed[low];
            low++;
        }
        if (len == n) break;
        uint32_t from = low, to = high;
        while (from < to) { /* the first whose next byte is not less */
            uint32_t middle = from + (to - from) / 2;
            if ((uint8_t)dct_vocab_text(t, parsed[middle]).ptr[len] < text[len]) from = middle + 1; else to = middle;
        }
        low = from;
        to = high;
        while (from < to) { /* the first whose next byte is greater */
            uint32_t middle = from + (to - from) / 2;
            if ((uint8_t)dct_vocab_text(t, parsed[middle]).ptr[len] <= text[len]) from = middle + 1; else to = middle;
        }
        high = from;
    }
    return best;
}

dct_status dct_sink_put_byte(const dct_tokenizer *t, uint8_t byte, dct_token_sink *sink, dct_err *err) {
    dct_token id = t->byte_token[byte] != DCT_NO_TOKEN ? t->byte_token[byte] : t->special.unk;
    if (id == DCT_NO_TOKEN)
        return dct_fail(err, DCT_BAD_FILE, "the vocabulary has no token for byte 0x%02X and no unknown token", byte);
    dct_sink_put(sink, id);
    return DCT_OK;
}

/* A stretch stands at the beginning or after a special token: in both places SPM puts its space, or in the first alone; before a
 * space perhaps not. */
static dct_status put_plain(const dct_tokenizer *t, const uint8_t *text, uint64_t n, bool is_first, void *scratch,
                            dct_token_sink *sink, dct_err *err) {
    if (n == 0) return DCT_OK;
    if (t->kind == DCT_VOCAB_SPM) {
        bool leads = t->special.add_space_prefix && (is_first || !t->special.space_prefix_first) &&
                     !(t->special.space_prefix_once && dct_vocab_begins_with_space(t, text, n));
        return dct_spm_encode(t, text, (uint32_t)n, leads, scratch, sink, err);
    }
    dct_pre_walk walk = dct_pre_start(t->pre, text, n);
    uint64_t from, to;
    while (dct_pre_next(&walk, &from, &to)) {
        dct_status status = dct_bpe_encode(t, text + from, (uint32_t)(to - from), scratch, sink, err);
        if (status != DCT_OK) return status;
    }
    return DCT_OK;
}

static bool is_ascii_space(uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

static dct_status put_text(const dct_tokenizer *t, const uint8_t *text, uint64_t n, part_walk *walk, void *scratch,
                           dct_token_sink *sink, dct_err *err) {
    uint64_t pos = 0, plain = 0; /* text[plain, pos) waits */
    while (pos < n) {
        move_to(walk, pos);
        dct_token id = match_parsed(t, text + pos, n - pos, walk->parsed_end > pos ? walk->parsed_end - pos : 0);
        if (id == DCT_NO_TOKEN) {
            pos++;
            continue;
        }
        dct_status status = put_plain(t, text + plain, pos - plain, plain == 0, scratch, sink, err);
        if (status != DCT_OK) return status;
        dct_sink_put(sink, id);
        pos += dct_vocab_text(t, id).len;
        if ((dct_vocab_flags(t)[id] & DCT_TOKEN_STRIP_RIGHT) != 0)
            while (pos < n && is_ascii_space(text[pos])) pos++;
        plain = pos;
    }
    return put_plain(t, text + plain, n - plain, plain == 0, scratch, sink, err);
}

uint64_t dct_tokenizer_scratch_bytes(uint64_t n_text) {
    return dct_merge_scratch_bytes(n_text + 1); /* one more for SPM's space */
}

dct_status dct_tokenizer_encode_parts(const dct_tokenizer *t, const char *text, uint64_t n_text, const dct_text_part *parts,
                                      uint64_t n_parts, bool add_special, void *scratch, dct_token *ids, uint64_t cap,
                                      uint64_t *n, dct_err *err) {
    if (n_text >= UINT32_MAX)
        return dct_fail(err, DCT_BOUND, "a text of %llu bytes is longer than 4 GiB", (unsigned long long)n_text);
    part_walk walk = {.parts = parts, .n_parts = n_parts};
    dct_token_sink sink = {ids, cap, 0};
    if (add_special && t->special.add_bos) dct_sink_put(&sink, t->special.bos);
    dct_status status = put_text(t, (const uint8_t *)text, n_text, &walk, scratch, &sink, err);
    if (status != DCT_OK) return status;
    if (add_special && t->special.add_eos) dct_sink_put(&sink, t->special.eos);
    *n = sink.n;
    return DCT_OK;
}

dct_status dct_tokenizer_encode(const dct_tokenizer *t, const char *text, uint64_t n_text, bool add_special, bool parse_special,
                                void *scratch, dct_token *ids, uint64_t cap, uint64_t *n, dct_err *err) {
    dct_text_part whole = {n_text, parse_special};
    return dct_tokenizer_encode_parts(t, text, n_text, &whole, 1, add_special, scratch, ids, cap, n, err);
}
