/* text/vocab: the tables of a tokenizer, private to text/.
 *
 * One block of memory, no pointers in it: the record below, then arrays at the offsets that it states.
 *
 *     dct_tokenizer | starts u32[n+1] | flags u8[n] | index u32[] | scores f32[n], or merges[] + merge_index u32[]
 *                   | parsed u32[] | texts
 *
 * Token texts stay as the file spells them ("Ġword", "▁word"). What goes the other way, from bytes to a token, spells the
 * bytes on the fly through `spelling`, so there is one index for both.
 */
#ifndef DCT_TEXT_VOCAB_H
#define DCT_TEXT_VOCAB_H

#include "text/tokenizer.h"

typedef enum dct_vocab_kind { DCT_VOCAB_BPE, DCT_VOCAB_SPM } dct_vocab_kind;

enum dct_token_flag {
    DCT_TOKEN_CONTROL = 1,
    DCT_TOKEN_USER = 2,         /* user-defined: recognised in any text */
    DCT_TOKEN_UNKNOWN = 4,
    DCT_TOKEN_BYTE = 8,
    DCT_TOKEN_UNUSED = 16,      /* also types that mean nothing to us: no text */
    DCT_TOKEN_END = 32,         /* generation ends here */
    DCT_TOKEN_STRIP_RIGHT = 64, /* white space after it is dropped */
    DCT_TOKEN_MERGED = 128,     /* the result of a merge */
};

/* Merge number r (its rank: lower goes first) makes `merged` of two neighbours. */
typedef struct dct_merge { dct_token left, right, merged; } dct_merge;

/* How one byte of text is written in token texts. */
typedef struct dct_spelling { uint8_t n, bytes[3]; } dct_spelling;

struct dct_tokenizer {
    dct_vocab_kind kind;
    bool has_scores; /* SPM of a GGUF file; else neighbours are joined by merges */
    uint32_t pre; /* family of pretokenize.h; BPE only */
    uint32_t n_tokens, n_merges, n_parsed, longest;
    uint32_t index_mask, merge_index_mask; /* sizes of the open-addressing tables, minus 1 */
    dct_special special;
    uint64_t seed; /* of both indices: the model's, so that texts cannot be made to collide */
    uint64_t starts_at, flags_at, index_at, scores_at, merges_at, merge_index_at, parsed_at, texts_at;
    uint32_t parsed_from[257]; /* parsed[] is sorted by text; those that begin with byte b are [from[b], from[b + 1]) */
    dct_token byte_token[256]; /* DCT_NO_TOKEN when the vocabulary cannot write this byte */
    dct_spelling spelling[256];
};

static inline const void *dct_vocab_at(const dct_tokenizer *t, uint64_t offset) { return (const char *)t + offset; }
static inline const uint32_t *dct_vocab_starts(const dct_tokenizer *t) { return dct_vocab_at(t, t->starts_at); }
static inline const uint8_t *dct_vocab_flags(const dct_tokenizer *t) { return dct_vocab_at(t, t->flags_at); }
static inline const float *dct_vocab_scores(const dct_tokenizer *t) { return dct_vocab_at(t, t->scores_at); }
static inline const dct_merge *dct_vocab_merges(const dct_tokenizer *t) { return dct_vocab_at(t, t->merges_at); }
static inline const dct_token *dct_vocab_parsed(const dct_tokenizer *t) { return dct_vocab_at(t, t->parsed_at); }

static inline dct_str dct_vocab_text(const dct_tokenizer *t, dct_token id) {
    const uint32_t *starts = dct_vocab_starts(t);
    const char *texts = dct_vocab_at(t, t->texts_at);
    return (dct_str){texts + starts[id], starts[id + 1] - starts[id]};
}

/* The token that this stretch of plain text is as a whole, or DCT_NO_TOKEN. Control, unknown and byte tokens are not found:
 * text never becomes one. With `lead_space`, as if one more space stood in front. */
dct_token dct_vocab_find_plain(const dct_tokenizer *t, bool lead_space, const uint8_t *text, uint64_t n);

/* Whether a text begins with a space, or with the sign that stands for one in SPM's tokens, which people may type. */
bool dct_vocab_begins_with_space(const dct_tokenizer *t, const uint8_t *text, uint64_t n);

/* The rank of merging two neighbours, or DCT_NO_TOKEN. */
uint32_t dct_vocab_find_merge(const dct_tokenizer *t, dct_token left, dct_token right);

/* ---- between the tables and the two algorithms ---- */

/* Where encoded ids go: counted always, written while they fit. */
typedef struct dct_token_sink { dct_token *ids; uint64_t cap, n; } dct_token_sink;

static inline void dct_sink_put(dct_token_sink *sink, dct_token id) {
    if (sink->n < sink->cap) sink->ids[sink->n] = id;
    sink->n++;
}

/* One byte through its own token, or the unknown token. DCT_BAD_FILE when there is neither. */
dct_status dct_sink_put_byte(const dct_tokenizer *t, uint8_t byte, dct_token_sink *sink, dct_err *err) DCT_MUST_CHECK;

/* Scratch for merging n bytes (merge.c). */
uint64_t dct_merge_scratch_bytes(uint64_t n);
/* One word of byte-level BPE. */
dct_status dct_bpe_encode(const dct_tokenizer *t, const uint8_t *word, uint32_t n, void *scratch, dct_token_sink *sink,
                          dct_err *err) DCT_MUST_CHECK;
/* A stretch of text between two special tokens. leads: a space goes before it. */
dct_status dct_spm_encode(const dct_tokenizer *t, const uint8_t *text, uint32_t n, bool leads, void *scratch,
                          dct_token_sink *sink, dct_err *err) DCT_MUST_CHECK;

#endif
