/* base/status: the one list of outcomes, and the record that explains one.
 *
 * Every fallible function returns a dct_status (0 = ok) and, when it fails, fills the caller's dct_err with one
 * line: what was wrong, where, and what was expected. The numbers are the process's exit codes (DESIGN §6).
 */
#ifndef DCT_BASE_STATUS_H
#define DCT_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DCT_STATUS_LIST(X)                                      \
    X(OK, 0, "done")                                            \
    X(USAGE, 1, "wrong usage")                                  \
    X(BAD_FILE, 2, "the file is bad")                           \
    X(NO_FIT, 3, "it does not fit")                             \
    X(BOUND, 4, "a bound was exceeded")                         \
    X(SYSTEM, 5, "the system refused")                          \
    X(BUG, 70, "a bug of dctms")                                \
    X(INTERRUPTED, 130, "interrupted")

typedef enum dct_status {
#define DCT_STATUS_ENUM(name, code, text) DCT_##name = code,
    DCT_STATUS_LIST(DCT_STATUS_ENUM)
#undef DCT_STATUS_ENUM
} dct_status;

#define DCT_NO_OFFSET UINT64_MAX

/* The caller's error record. `message` is one line without a newline. */
typedef struct dct_err {
    dct_status code;
    uint64_t offset; /* byte offset in the file that was read, or DCT_NO_OFFSET */
    char message[400];
} dct_err;

#if defined(__GNUC__)
#define DCT_PRINTF(fmt_arg, first) __attribute__((format(printf, fmt_arg, first)))
#define DCT_MUST_CHECK __attribute__((warn_unused_result))
#else
#define DCT_PRINTF(fmt_arg, first)
#define DCT_MUST_CHECK
#endif

/* Fills *err (which may be NULL) and returns `code`, so that a failure is one `return dct_fail(...)`. */
dct_status dct_fail(dct_err *err, dct_status code, const char *format, ...) DCT_PRINTF(3, 4);

/* As dct_fail, for a defect at a byte of a file; " (at byte N)" is appended to the message. */
dct_status dct_fail_at(dct_err *err, dct_status code, uint64_t offset, const char *format, ...) DCT_PRINTF(4, 5);

/* Puts a file's name before the message, unless it stands there already or is "". A long path is shown by its end, so that the
 * reason stays. */
void dct_err_name_file(dct_err *err, const char *path);

/* The text of a status, for instance "the file is bad". Never NULL. */
const char *dct_status_text(dct_status code);

#endif
