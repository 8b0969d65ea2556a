/* tools/synth_vocab: a vocabulary of real size that encodes any text.
 *
 * Byte-level BPE: 256 byte tokens, then tokens that are each the join of two earlier ones, with that join as their merge, then
 * the family's control tokens at their real ids. SPM: control tokens, 256 byte tokens, joined pieces scored by rank, single
 * characters. Joined tokens look like words (a space at most in front, letters by their frequency, some Chinese characters), and
 * no two are equal. Texts are raw bytes here; the byte alphabet of GPT-2 is applied by whoever writes them.
 */
#ifndef DCT_TOOLS_SYNTH_VOCAB_H
#define DCT_TOOLS_SYNTH_VOCAB_H

#include "base/arena.h"
#include "base/reader.h"
#include "tools/synth_shape.h"

enum { DCT_TOKEN_NORMAL = 1, DCT_TOKEN_UNKNOWN, DCT_TOKEN_CONTROL, DCT_TOKEN_USER, DCT_TOKEN_UNUSED, DCT_TOKEN_BYTE };

typedef struct dct_synth_token {
    dct_str text;
    int32_t type;
    float score;
} dct_synth_token;

typedef struct dct_synth_merge {
    uint32_t left, right;
} dct_synth_merge;

typedef struct dct_synth_vocab {
    bool spm;
    dct_synth_token *tokens;
    uint32_t n_tokens;
    dct_synth_merge *merges; /* SPM: GGUF files have scores instead */
    uint32_t n_merges;
    int32_t bos, eos, pad, unk; /* -1: none */
    bool add_bos;
    const char *pre, *chat_template;
} dct_synth_vocab;

dct_status dct_synth_vocab_make(dct_synth_vocab *v, const dct_synth_shape *shape, uint64_t seed, dct_arena *arena,
                                dct_err *err) DCT_MUST_CHECK;

/* The character (below U+0200) that stands for a byte in a byte-level vocabulary. */
uint32_t dct_synth_byte_char(uint8_t byte);

#endif
