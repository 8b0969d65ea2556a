/* text/pretokenize: cutting a text into the words inside which byte-level BPE merges.
 *
 * A family of models names its cut by a list of splits, applied one after another: each split cuts every piece that the one
 * before it left. Where the model's own tokenizer has a regular expression, a split here is a small scanner for just that
 * expression, so the time is linear and the stack constant for any text.
 */
#ifndef DCT_TEXT_PRETOKENIZE_H
#define DCT_TEXT_PRETOKENIZE_H

#include "base/reader.h"

enum { DCT_PRE_MAX_SPLITS = 6 };

/* From (pos < end) to the end of the first piece of text[pos, end). */
typedef uint64_t dct_split_fn(const uint8_t *text, uint64_t pos, uint64_t end);

typedef struct dct_pre_family {
    const char *name;
    dct_split_fn *splits[DCT_PRE_MAX_SPLITS]; /* NULL after the last */
    bool ignore_merges;                       /* a word that is a token is that token, whatever the merges say */
    bool add_bos;                             /* when the file does not say */
} dct_pre_family;

/* The number of a family by its name in `tokenizer.ggml.pre` or by one of the names that mean the same cut. False when the
 * name is not known: other tokens than the model's own are worse than none. */
bool dct_pre_find(dct_str name, uint32_t *family);
const dct_pre_family *dct_pre_get(uint32_t family);
/* Comma-separated, for messages. */
const char *dct_pre_names(void);

/* A walk over the words of a text, left to right. */
typedef struct dct_pre_walk {
    const dct_pre_family *family;
    const uint8_t *text;
    uint64_t pos, end;
    uint64_t piece_end[DCT_PRE_MAX_SPLITS]; /* of the piece of each split that holds pos; exhausted when <= pos */
} dct_pre_walk;

dct_pre_walk dct_pre_start(uint32_t family, const uint8_t *text, uint64_t n);
/* The next word is text[*from, *to); false at the end. */
bool dct_pre_next(dct_pre_walk *walk, uint64_t *from, uint64_t *to);

#endif
