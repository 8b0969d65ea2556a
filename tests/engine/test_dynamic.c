/* The dynamic mode when memory runs out: at every malloc of a growth and of a step after it the session says so, keeps its timeline, and goes on
 * with the same bytes as one that never failed. malloc fails by number here (not under sanitizers, which have their own). */
#include "engine_support.h"
#include "support/emulated.h"

#include <errno.h>

enum { BEFORE = 250, AFTER = 20 }; /* the growth at 256 positions lies in the second part */

static _Atomic uint64_t n_mallocs, fail_at;

#ifndef DCT_SANITIZED
extern void *__libc_malloc(size_t n);

void *malloc(size_t n) {
    if (++n_mallocs == fail_at) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(n);
}
#endif

static dctms_token token_at(uint32_t i) { return (i * 7919u + 13u) % 1500u; }

static void growing_fails_whole(void **state) {
    (void)state;
#ifdef DCT_SANITIZED
    print_message("skipped: malloc is the sanitizer's\n");
    return;
#endif
    dctms_plan_params pp = plan_params(512, 16, 32, 2);
    opened o = open_all(MODELS "tiny-vl-f16.gguf", &pp, DCTMS_ALLOC_DYNAMIC);
    dctms_token tokens[BEFORE + AFTER];
    for (uint32_t i = 0; i < BEFORE + AFTER; i++) tokens[i] = token_at(i);
    uint32_t n_vocab = dctms_session_n_vocab(o.session), n_failed = 0;
    float *reference = malloc(n_vocab * sizeof *reference);
    CHECK(dctms_session_eval(o.session, tokens, BEFORE, &check_err));
    CHECK(dctms_session_eval(o.session, tokens + BEFORE, AFTER, &check_err));
    memcpy(reference, dctms_session_logits(o.session), n_vocab * sizeof *reference);

    const uint64_t step = emulated("every third malloc fails, not each") ? 3 : 1;
    for (uint64_t k = 1;; k += step) {
        opened p = open_all(MODELS "tiny-vl-f16.gguf", &pp, DCTMS_ALLOC_DYNAMIC); /* small caches again */
        CHECK(dctms_session_eval(p.session, tokens, BEFORE, &check_err));
        dctms_error err = {0};
        n_mallocs = 0;
        fail_at = k;
        dctms_status status = dctms_session_eval(p.session, tokens + BEFORE, AFTER, &err);
        fail_at = 0;
        uint32_t n_done = dctms_session_n_tokens(p.session);
        if (status != DCTMS_OK) {
            n_failed++;
            assert_int_equal(status, DCTMS_SYSTEM);
            assert_int_equal(n_done, BEFORE);
            CHECK(dctms_session_eval(p.session, tokens + n_done, BEFORE + AFTER - n_done, &check_err));
        }
        assert_memory_equal(dctms_session_logits(p.session), reference, n_vocab * sizeof *reference);
        close_all(p);
        if (status == DCTMS_OK) break;
        if (k >= 30 && k < 200) k = 200; /* past the caches: a few of the step's own */
        if (k > 204) break;
    }
    assert_true(n_failed > 10);
    free(reference);
    close_all(o);
}

static uint64_t mallocs_of(dctms_session *s, const dctms_token *tokens, uint32_t n) {
    n_mallocs = 0;
    CHECK(dctms_session_eval(s, tokens, n, &check_err));
    return n_mallocs;
}

/* Rewound to 0 it holds no caches, so that the next prompt makes new ones and takes more mallocs; rewound to 1 it keeps them. */
static void an_empty_timeline_has_no_caches(void **state) {
    (void)state;
#ifdef DCT_SANITIZED
    print_message("skipped: malloc is the sanitizer's\n");
    return;
#endif
    dctms_plan_params pp = plan_params(512, 16, 32, 2);
    opened o = open_all(MODELS "tiny-vl-f16.gguf", &pp, DCTMS_ALLOC_DYNAMIC);
    dctms_token tokens[] = {token_at(0), token_at(1), token_at(2)};
    uint32_t n_vocab = dctms_session_n_vocab(o.session);
    float *reference = malloc(n_vocab * sizeof *reference);
    CHECK(dctms_session_rewind(o.session, 0, &check_err));
    uint64_t with_caches = mallocs_of(o.session, tokens, 3);
    memcpy(reference, dctms_session_logits(o.session), n_vocab * sizeof *reference);
    CHECK(dctms_session_rewind(o.session, 1, &check_err));
    uint64_t without = mallocs_of(o.session, tokens + 1, 2);
    assert_memory_equal(dctms_session_logits(o.session), reference, n_vocab * sizeof *reference);
    CHECK(dctms_session_rewind(o.session, 0, &check_err));
    assert_int_equal(mallocs_of(o.session, tokens, 3), with_caches);
    assert_memory_equal(dctms_session_logits(o.session), reference, n_vocab * sizeof *reference);
    assert_true(with_caches > without);
    free(reference);
    close_all(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(growing_fails_whole), cmocka_unit_test(an_empty_timeline_has_no_caches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
