/* plan/plan_text: formatted pieces of text for a dct_text_fn. */
#ifndef DCT_PLAN_PLAN_TEXT_H
#define DCT_PLAN_PLAN_TEXT_H

#include "plan/plan.h"

typedef struct dct_text {
    dct_text_fn *out;
    void *ctx;
} dct_text;

/* At most 1,279 bytes a call, two safe names and what stands between; more is cut. */
void dct_text_put(const dct_text *t, const char *format, ...) DCT_PRINTF(2, 3);

/* "f16": a type as people type it after a flag. */
const char *dct_type_flag(dct_dtype type, char out[16]);

/* A name without the layer that it begins with: "q" and 7 of "blk.7.q". DCT_NONE: it names no layer. */
const char *dct_name_base(const char *name, uint32_t *layer);

/* A time that nobody verified, as a whole number of thousandths of its unit. */
static inline uint64_t dct_thousandths(double time) { return time >= 0 && time < 1e12 ? (uint64_t)(time * 1000 + 0.5) : 0; }

static inline double dct_mib(uint64_t bytes) { return (double)bytes / 1048576.0; }

#endif
