/* Under an emulator (make test-aarch64 sets DCTMS_EMULATED) the kernel's own figures and filters are not ours to test, and
 * arithmetic is some twenty times slower. Tests ask here, and the output names what was skipped or made shorter.
 */
#ifndef TESTS_SUPPORT_EMULATED_H
#define TESTS_SUPPORT_EMULATED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* True under an emulator; then says what is not done. */
static inline bool emulated(const char *what) {
    if (getenv("DCTMS_EMULATED") == NULL) return false;
    print_message("emulated: %s\n", what);
    return true;
}

#endif
