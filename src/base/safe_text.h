/* base/safe_text: texts from outside made fit for a terminal.
 *
 * A name in a file may hold bytes that move the cursor, colour the screen, reorder a line or are no text at all. Here each such
 * character becomes an escape that shows what it was: \n, \u{1b}, \xff. What was safe stays as it is.
 */
#ifndef DCT_BASE_SAFE_TEXT_H
#define DCT_BASE_SAFE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DCT_SAFE_CHAR_BYTES = 12 }; /* "\u{10ffff}" and its end */

/* Control characters, line separators, and the marks that turn the direction of what follows. */
bool dct_is_unsafe_char(uint32_t c);

/* One character, or one bad byte, at s as it may be shown, NUL-terminated. Returns the bytes of s that it stands for. */
size_t dct_safe_char(const void *s, size_t n, char out[DCT_SAFE_CHAR_BYTES]);

typedef struct dct_safe_text {
    char text[512]; /* a name of 64 bytes fits whatever is in it */
} dct_safe_text;

/* `text`, which ends with a NUL, as it may be shown: in *room, cut to what fits there. */
const char *dct_safe(const char *text, dct_safe_text *room);

/* A path as an error's message has it: of a long one the end, so that the reason keeps its room. What is unsafe in it, dct_fail
 * replaces. */
typedef struct dct_shown_path {
    char text[128];
} dct_shown_path;
dct_shown_path dct_show_path(const char *path);

#endif
