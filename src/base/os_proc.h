/* base/os_proc: small text files of /proc and /sys, read without allocating. For the os_*.c files only. */
#ifndef DCT_BASE_OS_PROC_H
#define DCT_BASE_OS_PROC_H

#include "base/status.h"

enum { DCT_PROC_TEXT_BYTES = 16384 };

/* Reads the file root + path into `text`, NUL-terminated and cut at `size`. False when it cannot be read. */
bool dct_proc_read(const char *root, const char *path, char *text, size_t size);

/* The first line of `text` that begins with `key` followed by a blank or a colon: where its value begins. NULL when absent. */
const char *dct_proc_find(const char *text, const char *key);

/* As above, the value as a number; "kB" behind it multiplies by 1,024. */
bool dct_proc_number(const char *text, const char *key, uint64_t *out);

/* Decimal digits at *p; moves *p behind them. False when there are none or they do not fit. */
bool dct_proc_digits(const char **p, uint64_t *out);

#endif
