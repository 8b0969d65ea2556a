/* text/unicode: the little of Unicode that tokenizers need beside the decoder of base/utf8.h: the broad category of a character.
 * unicode.c also has the streaming functions of tokenizer.h, which turn each invalid part of a text into U+FFFD. */
#ifndef DCT_TEXT_UNICODE_H
#define DCT_TEXT_UNICODE_H

#include "base/utf8.h"

typedef enum dct_char_class {
    DCT_CHAR_END,    /* no character: the end of the text */
    DCT_CHAR_LETTER, /* \p{L} */
    DCT_CHAR_NUMBER, /* \p{N} */
    DCT_CHAR_SPACE,  /* White_Space, what \s means */
    DCT_CHAR_PUNCT,  /* \p{P} */
    DCT_CHAR_OTHER   /* symbols, marks, controls, unassigned, invalid bytes */
} dct_char_class;

dct_char_class dct_char_class_of(uint32_t code);

#endif
