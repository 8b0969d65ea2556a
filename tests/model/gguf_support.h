/* What the tests of the GGUF reader share. */
#ifndef TESTS_MODEL_GGUF_SUPPORT_H
#define TESTS_MODEL_GGUF_SUPPORT_H

#include <stdio.h>
#include <unistd.h>

#include "support/gguf_build.h"

/* Of this process alone; good until the next call. */
static inline const char *temp_path(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s.%ld.gguf", DCT_BINARY_DIR, name, (long)getpid());
    return path;
}

/* A file that holds nothing. */
static inline gguf_build bare(void) {
    gguf_build b;
    gguf_build_init(&b, 3, false);
    return b;
}

#endif
