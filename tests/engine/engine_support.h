/* What the tests of the engine share: a model, a plan and a session opened by one line, through the public header only. */
#ifndef TESTS_ENGINE_SUPPORT_H
#define TESTS_ENGINE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dctms.h"

#define MODELS DCT_SOURCE_DIR "/models/tiny-vl/"

typedef struct opened {
    dctms_model *model;
    dctms_plan *plan;
    dctms_session *session;
} opened;

static inline dctms_plan_params plan_params(uint32_t n_ctx, int32_t n_output, uint32_t ubatch, uint32_t threads) {
    dctms_plan_params p = dctms_plan_default_params();
    p.n_ctx = n_ctx;
    p.n_output = n_output;
    p.ubatch = ubatch;
    p.threads = threads;
    strcpy(p.type_k, "f32");
    strcpy(p.type_v, "f32");
    return p;
}

/* Ends the test when anything fails. */
static inline opened open_all(const char *path, const dctms_plan_params *pp, dctms_alloc alloc) {
    opened o = {0};
    dctms_error err = {0};
    dctms_session_params sp = dctms_session_default_params();
    sp.alloc = alloc;
    if (dctms_model_open(path, &o.model, &err) || dctms_plan_compile(o.model, pp, &o.plan, &err) ||
        dctms_session_open(o.model, o.plan, &sp, &o.session, &err))
        fail_msg("%s: %s", path, err.message);
    return o;
}

static inline void close_all(opened o) {
    dctms_session_free(o.session);
    dctms_plan_free(o.plan);
    dctms_model_free(o.model);
}

#define CHECK(call)                                                                  \
    do {                                                                             \
        dctms_error check_err = {0};                                                 \
        if ((call) != DCTMS_OK) fail_msg("%s: %s", #call, check_err.message);        \
    } while (0)

#endif
