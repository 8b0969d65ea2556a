/* base/utf8: the one decoder of UTF-8. What is no UTF-8 is told from what is, and never refused here: a "maximal subpart"
 * (Unicode 15, 3.9: a sequence up to the byte that cannot belong to it) is one invalid item. */
#ifndef DCT_BASE_UTF8_H
#define DCT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DCT_CHAR_INVALID UINT32_MAX

/* Bytes of the sequence that this byte may begin; 0 when no sequence begins with it. */
uint32_t dct_utf8_sequence_bytes(uint8_t lead);

/* Whether `next` may stand at position `at` (1, 2 or 3) after this lead. */
bool dct_utf8_may_follow(uint8_t lead, uint32_t at, uint8_t next);

/* The code point at text[0], n > 0: its value or DCT_CHAR_INVALID, and the bytes it takes (1 to 4). */
uint32_t dct_utf8_decode(const uint8_t *text, uint64_t n, uint32_t *code);

/* The same for those who want characters only: 0 bytes when there is none. */
size_t dct_utf8_next(const void *text, size_t n, uint32_t *code);

#endif
