/* text/vocab_build: what making the tables and using them must agree on, private to text/. */
#ifndef DCT_TEXT_VOCAB_BUILD_H
#define DCT_TEXT_VOCAB_BUILD_H

#include "text/vocab.h"

uint64_t dct_vocab_hash(const dct_tokenizer *t, dct_str text);
uint64_t dct_vocab_merge_hash(const dct_tokenizer *t, dct_token left, dct_token right);
int32_t dct_vocab_byte_of_code(uint32_t code); /* byte-level BPE's alphabet; -1 when the code is not in it */
int32_t dct_vocab_byte_of_text(dct_str text);  /* "<0x0A>" of SPM; -1 when it is not of this form */

#endif
