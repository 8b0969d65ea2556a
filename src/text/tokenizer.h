/* text/tokenizer: text to ids and back, exactly as the model's own tokenizer does it (of text in NFC, where that asks for it).
 *
 * Built once from the model's header into one block of memory whose size is known first (it is a planned item); after that
 * nothing allocates: encoding works in scratch of a stated size. Byte-level BPE with the pre-tokenizers of the field, and SPM
 * with scores (or, of directories, with merges) and byte fallback. Linear time and bounded stack for any input.
 */
#ifndef DCT_TEXT_TOKENIZER_H
#define DCT_TEXT_TOKENIZER_H

#include "model/model.h"

typedef struct dct_tokenizer dct_tokenizer;
typedef uint32_t dct_token;
#define DCT_NO_TOKEN UINT32_MAX
enum { DCT_LONGEST_TOKEN = 65535 }; /* bytes of a token's text, at most */

/* Bytes of the tables for this model. Also checks them (counts, types, ids, merges): DCT_BAD_FILE names the key. The tables are
 * built once in `work` for that, so it takes table_bytes there. */
dct_status dct_tokenizer_measure(const dct_model *model, dct_arena *work, uint64_t *table_bytes, dct_err *err) DCT_MUST_CHECK;

/* Builds the tables in `memory` (64-byte aligned, table_bytes). Copies all it needs: the model may be closed afterwards.
 * *out points into memory. */
dct_status dct_tokenizer_build(const dct_model *model, void *memory, uint64_t table_bytes, dct_tokenizer **out,
                               dct_err *err) DCT_MUST_CHECK;

typedef struct dct_special {
    dct_token bos, eos, eot, unk, pad; /* DCT_NO_TOKEN when the file has none */
    bool add_bos, add_eos, add_space_prefix;
    bool space_prefix_first;           /* at the begin of a text only */
    bool space_prefix_once;            /* not before a space */
    bool cut_at_spaces;                /* no token has a space after its first character, whatever the merges say */
} dct_special;

uint32_t dct_tokenizer_n_tokens(const dct_tokenizer *t);
const dct_special *dct_tokenizer_special(const dct_tokenizer *t);
/* Whether generation ends at this token: eos, eot, eom and the names the field uses (<|im_end|>, <|endoftext|>, <|eot_id|>,
 * <end_of_turn>, ...). */
bool dct_tokenizer_is_end(const dct_tokenizer *t, dct_token id);
bool dct_tokenizer_is_control(const dct_tokenizer *t, dct_token id);
uint32_t dct_tokenizer_longest(const dct_tokenizer *t); /* bytes of the longest token's text */
/* The token with exactly this text (the raw text of the vocabulary), or DCT_NO_TOKEN. */
dct_token dct_tokenizer_find(const dct_tokenizer *t, dct_str text);

/* Scratch that encoding n bytes of text needs, at most: 24 bytes a byte, of any alignment. */
uint64_t dct_tokenizer_scratch_bytes(uint64_t n_text);

/* Text to ids. add_special: bos/eos as the file says. parse_special: the texts of control and user-defined tokens become those
 * tokens; when false, user-defined tokens still do and control tokens never (user text cannot make one). At most `cap` ids are
 * written; *n is the number that the text has even when it exceeds cap. Invalid UTF-8 is encoded byte by byte. */
dct_status dct_tokenizer_encode(const dct_tokenizer *t, const char *text, uint64_t n_text, bool add_special, bool parse_special,
                                void *scratch, dct_token *ids, uint64_t cap, uint64_t *n, dct_err *err) DCT_MUST_CHECK;

/* A chat is one text of parts, some written by the template and some by people. Bytes [end of the part before, end) are one part.
 * The whole is tokenized as one text (words, merges and SPM's prefix space cross the seams), but a control token is only seen
 * where all of its bytes lie in parts with parse_special. The last end is n_text. */
typedef struct dct_text_part {
    uint64_t end;
    bool parse_special;
} dct_text_part;
dct_status dct_tokenizer_encode_parts(const dct_tokenizer *t, const char *text, uint64_t n_text, const dct_text_part *parts,
                                      uint64_t n_parts, bool add_special, void *scratch, dct_token *ids, uint64_t cap,
                                      uint64_t *n, dct_err *err) DCT_MUST_CHECK;

/* The first bytes of one token's text, at most `cap` of them, not always whole UTF-8; no text is longer than
 * dct_tokenizer_longest. Control tokens give nothing unless `special`. */
uint32_t dct_tokenizer_piece(const dct_tokenizer *t, dct_token id, bool special, char *out, uint64_t cap);
/* All of it when the token stands first in its text: SPM drops the prefix space that it added. */
uint32_t dct_tokenizer_piece_first(const dct_tokenizer *t, dct_token id, bool special, char *out);

/* ---- streaming UTF-8 ---- */
/* Takes bytes as they come and gives whole characters: an incomplete tail (at most 3 bytes) is held, each maximal invalid part
 * becomes U+FFFD (Unicode 15, 3.9). */
typedef struct dct_utf8_stream {
    uint8_t held[4];
    uint32_t n_held;
} dct_utf8_stream;
/* out needs 3*(n + 3) bytes. Returns bytes written. */
size_t dct_utf8_push(dct_utf8_stream *s, const char *bytes, size_t n, char *out);
size_t dct_utf8_flush(dct_utf8_stream *s, char *out);

#endif
