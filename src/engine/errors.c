/* engine/errors: version, names, and the inner error record given to the caller. */
#include <string.h>

#include "engine/engine.h"
#include "kernels/kernel.h"

#define TEXT(x) #x
#define VERSION_TEXT(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

_Static_assert((int)DCTMS_NO_FIT == (int)DCT_NO_FIT && (int)DCTMS_BOUND == (int)DCT_BOUND && (int)DCTMS_BUG == (int)DCT_BUG,
               "one numbering");
_Static_assert(sizeof(dctms_error) == sizeof(dct_err), "one shape of error");

const char *dctms_version(void) { return VERSION_TEXT(DCTMS_VERSION_MAJOR, DCTMS_VERSION_MINOR, DCTMS_VERSION_PATCH); }
const char *dctms_status_text(dctms_status status) { return dct_status_text((dct_status)status); }
const char *dctms_kernels_name(void) { return dct_kernels_best()->name; }

dctms_status dct_give(dct_status status, const dct_err *from, dctms_error *to) {
    if (status != DCT_OK && to != NULL) {
        to->code = (dctms_status)status;
        to->offset = from->offset;
        memcpy(to->message, from->message, sizeof to->message);
    }
    return (dctms_status)status;
}

dctms_status dct_give_of_file(dct_status status, const char *path, const dct_err *from, dctms_error *to) {
    dct_err named = *from;
    if (status == DCT_BAD_FILE || (status == DCT_SYSTEM && from->offset != DCT_NO_OFFSET)) dct_err_name_file(&named, path);
    return dct_give(status, &named, to);
}

void dct_take_params(void *to, size_t to_bytes, const void *from, size_t from_bytes) {
    memcpy(to, from, from_bytes < to_bytes ? from_bytes : to_bytes);
}
