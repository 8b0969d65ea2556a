/* compile/profile: what a machine reaches, built in or as `dctms calibrate` wrote it:
 *
 *      dctms cost profile 1
 *      workers 1 bytes_per_s 12000000000 macs_per_s 80000000000 wait_ns 0
 *      workers 2 bytes_per_s 20000000000 macs_per_s 150000000000 wait_ns 1500
 *
 * A line a number of workers, from one up, none lower than the one before. Whole numbers, so that the same file is the same
 * profile everywhere, whatever the locale.
 */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "compile/compile.h"
#include "plan/plan_text.h"

#define HEADER "dctms cost profile 1\n"

static const uint64_t MOST = UINT64_C(1000000000000000000); /* of any number: a double holds it well enough */

/* Measured on a small two-core machine with VNNI. */
static const dct_profile DEFAULT_PROFILE = {
    .bytes_per_s_one = 12e9, .bytes_per_s_all = 20e9, .macs_per_s_one = 80e9, .macs_per_s_all = 150e9, .wait_us = 1.5,
};

const dct_profile *dct_profile_default(void) { return &DEFAULT_PROFILE; }

uint64_t dct_profile_hash(const dct_profile *p) {
    const double fields[] = {p->bytes_per_s_one, p->bytes_per_s_all, p->macs_per_s_one, p->macs_per_s_all, p->wait_us};
    return dct_hash_mix(dct_hash_bytes(DCT_HASH_SEED, fields, sizeof fields));
}

/* ---- files ---- */

typedef struct cursor {
    const char *at, *end;
} cursor;

static bool take_text(cursor *c, const char *text) {
    size_t n = strlen(text);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n) != 0) return false;
    c->at += n;
    return true;
}

static bool take_number(cursor *c, uint64_t *out) {
    const char *begin = c->at;
    *out = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        *out = *out * 10 + (uint64_t)(*c->at - '0');
        if (*out > MOST) return false;
    }
    return c->at > begin;
}

static bool take_rates(cursor *c, uint32_t workers, dct_rates *out) {
    uint64_t number;
    return take_text(c, "workers ") && take_number(c, &number) && number == workers && take_text(c, " bytes_per_s ") &&
           take_number(c, &out->bytes_per_s) && take_text(c, " macs_per_s ") && take_number(c, &out->macs_per_s) &&
           take_text(c, " wait_ns ") && take_number(c, &out->wait_ns) && take_text(c, "\n");
}

static bool may_follow(const dct_rates *rates, const dct_rates *before) {
    return rates->bytes_per_s >= before->bytes_per_s && rates->macs_per_s >= before->macs_per_s;
}

dct_status dct_profile_parse(const char *text, size_t n, uint32_t threads, dct_profile *out, dct_err *err) {
    cursor c = {text, text + n};
    dct_rates one = {0}, all = {0}, rates, before = {.bytes_per_s = 1, .macs_per_s = 1};
    uint32_t workers = 0;
    if (!take_text(&c, HEADER)) return dct_fail(err, DCT_BAD_FILE, "no cost profile of dctms calibrate");
    while (c.at < c.end) {
        workers++;
        if (!take_rates(&c, workers, &rates) || !may_follow(&rates, &before))
            return dct_fail(err, DCT_BAD_FILE, "line %u of the cost profile makes no sense", workers + 1);
        if (workers == 1) one = rates;
        if (workers <= threads) all = rates;
        before = rates;
    }
    if (workers == 0) return dct_fail(err, DCT_BAD_FILE, "the cost profile has no rates");
    *out = (dct_profile){.bytes_per_s_one = (double)one.bytes_per_s,
                         .bytes_per_s_all = (double)all.bytes_per_s,
                         .macs_per_s_one = (double)one.macs_per_s,
                         .macs_per_s_all = (double)all.macs_per_s,
                         .wait_us = (double)all.wait_ns / 1e3};
    return DCT_OK;
}

void dct_profile_write(const dct_rates *rates, uint32_t n, dct_text_fn *write, void *ctx) {
    dct_text t = {write, ctx};
    dct_text_put(&t, HEADER);
    for (uint32_t i = 0; i < n; i++)
        dct_text_put(&t, "workers %u bytes_per_s %" PRIu64 " macs_per_s %" PRIu64 " wait_ns %" PRIu64 "\n", i + 1,
                     rates[i].bytes_per_s, rates[i].macs_per_s, rates[i].wait_ns);
}
