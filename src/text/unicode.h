/* text/unicode: the little of Unicode that tokenizers need: UTF-8 one code point at a time, and its broad category.
 *
 * Broken UTF-8 is never refused here: a "maximal subpart" (Unicode 15, 3.9) comes out as one invalid item, and the streaming
 * functions of tokenizer.h turn each of them into U+FFFD.
 */
#ifndef DCT_TEXT_UNICODE_H
#define DCT_TEXT_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum dct_char_class {
    DCT_CHAR_END,    /* no character: the end of the text */
    DCT_CHAR_LETTER, /* \p{L} */
    DCT_CHAR_NUMBER, /* \p{N} */
    DCT_CHAR_SPACE,  /* White_Space, what \s means */
    DCT_CHAR_PUNCT,  /* \p{P} */
    DCT_CHAR_OTHER   /* symbols, marks, controls, unassigned, invalid bytes */
} dct_char_class;

#define DCT_CHAR_INVALID UINT32_MAX

/* The code point at text[0], n > 0: its value or DCT_CHAR_INVALID, and the bytes it takes (1 to 4). */
uint32_t dct_utf8_decode(const uint8_t *text, uint64_t n, uint32_t *code);

dct_char_class dct_char_class_of(uint32_t code);

#endif
