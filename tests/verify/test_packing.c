/* The check of a packing against its definition, which is two loops: on random packings, right ones and ones with a field changed,
 * and on as many items living together as the loops could not look at. DCTMS_CASES says how many random packings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "verify/packing.h"

enum { CASES = 4000, MOST = 40, LARGE = 100000 };

static bool meet(const dct_packed *a, const dct_packed *b) {
    return a->owner != b->owner && a->low < b->high && b->low < a->high && a->begin < b->end && b->begin < a->end;
}

static bool is_empty(const dct_packed *a) { return a->low >= a->high || a->begin >= a->end; }

/* By definition. */
static bool is_packing(const dct_packed *list, uint32_t n, uint64_t *height) {
    *height = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (is_empty(&list[i])) return false;
        if (list[i].high > *height) *height = list[i].high;
        for (uint32_t k = 0; k < i; k++)
            if (meet(&list[i], &list[k])) return false;
    }
    return true;
}

static dct_status check(const dct_packed *list, uint32_t n, uint64_t *height, dct_err *err) {
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_status status = dct_verify_packing(list, n, &arena, height, err);
    dct_arena_deinit(&arena);
    return status;
}

/* True for a packing. */
static bool agree(const dct_packed *list, uint32_t n) {
    uint64_t height, wanted;
    dct_err err;
    bool right = is_packing(list, n, &wanted);
    dct_status status = check(list, n, &height, &err);
    assert_int_equal(status, right ? DCT_OK : DCT_BUG);
    if (right) assert_int_equal(height, wanted);
    return right;
}

static uint32_t below(uint64_t *state, uint32_t n) { return (uint32_t)(dct_random_next(state) % n); }

static dct_packed random_item(uint64_t *state, uint32_t n_owners) {
    uint32_t low = below(state, 60), begin = below(state, 30);
    return (dct_packed){low, low + 1 + below(state, 12), begin, begin + 1 + below(state, 10), below(state, n_owners)};
}

/* As many items as find room, in no order. */
static uint32_t make_packing(uint64_t *state, dct_packed *list) {
    uint32_t n = 0, wanted = below(state, MOST + 1), n_owners = 1 + below(state, wanted + 1);
    for (uint32_t tries = 0; n < wanted && tries < 4 * MOST; tries++) {
        list[n] = random_item(state, n_owners);
        uint32_t k = 0;
        while (k < n && !meet(&list[k], &list[n])) k++;
        n += k == n;
    }
    return n;
}

static void damage(uint64_t *state, dct_packed *b) {
    switch (below(state, 5)) {
    case 0: b->low -= b->low > 0 ? 1 + below(state, (uint32_t)b->low) : 0; return;
    case 1: b->high += 1 + below(state, 3); return;
    case 2: b->begin = below(state, b->end + 1); return; /* may leave no time */
    case 3: b->end += 1 + below(state, 3); return;
    default: b->owner++; return;
    }
}

static void agrees_with_its_definition(void **unused) {
    (void)unused;
    const char *asked = getenv("DCTMS_CASES");
    uint32_t n_cases = asked != NULL ? (uint32_t)strtoul(asked, NULL, 10) : CASES, n_right = 0, n_wrong = 0;
    uint64_t state = 7;
    for (uint32_t i = 0; i < n_cases; i++) {
        dct_packed list[MOST];
        uint32_t n = make_packing(&state, list);
        assert_true(agree(list, n));
        if (n == 0) continue;
        damage(&state, &list[below(&state, n)]);
        if (agree(list, n)) n_right++;
        else n_wrong++;
    }
    assert_true(n_cases < CASES || (n_right > CASES / 8 && n_wrong > CASES / 8)); /* some damage does no harm */
}

/* Neighbours in bytes and in time touch and do not meet. */
static void names_both_owners_and_the_time(void **unused) {
    (void)unused;
    dct_packed list[] = {{0, 64, 3, 9, 11}, {64, 128, 3, 9, 12}, {0, 64, 9, 12, 13}, {32, 96, 12, 14, 14}};
    uint64_t height;
    dct_err err;
    assert_int_equal(check(list, 4, &height, &err), DCT_OK);
    assert_int_equal(height, 128);
    list[3].begin = 11;
    assert_int_equal(check(list, 4, &height, &err), DCT_BUG);
    assert_string_equal(err.message, "items 13 and 14 hold a byte together at time 11");
    list[3] = (dct_packed){5, 5, 12, 14, 14};
    assert_int_equal(check(list, 4, &height, &err), DCT_BUG);
    assert_string_equal(err.message, "item 14 takes no byte, or takes it for no time");
    assert_int_equal(check(list, 0, &height, &err), DCT_OK);
    assert_int_equal(height, 0);
}

/* All live at once, side by side; then views of one owner over all of them, which only its own bytes allow. */
static void takes_many_that_live_together(void **unused) {
    (void)unused;
    uint64_t height;
    dct_err err;
    dct_packed *list = calloc(LARGE, sizeof *list);
    assert_non_null(list);
    for (uint32_t i = 0; i < LARGE; i++) {
        uint64_t at = (uint64_t)(i * UINT64_C(7919) % LARGE) * 64;
        list[i] = (dct_packed){at, at + 64, i, 2 * LARGE, i};
    }
    assert_int_equal(check(list, LARGE, &height, &err), DCT_OK);
    assert_int_equal(height, LARGE * UINT64_C(64));
    list[LARGE / 2].high++;
    assert_int_equal(check(list, LARGE, &height, &err), DCT_BUG);
    for (uint32_t i = 0; i < LARGE; i++) list[i] = (dct_packed){i, LARGE, i, LARGE, 5};
    assert_int_equal(check(list, LARGE, &height, &err), DCT_OK);
    list[LARGE - 1].owner = 6;
    assert_int_equal(check(list, LARGE, &height, &err), DCT_BUG);
    free(list);
}

/* Every allocation may fail. */
static void memory_may_be_refused(void **unused) {
    (void)unused;
    const dct_packed list[] = {{0, 64, 3, 9, 11}, {64, 128, 3, 9, 12}};
    dct_status status = DCT_NO_FIT;
    for (uint64_t at = 1; status != DCT_OK; at++) {
        dct_arena arena;
        uint64_t height;
        dct_err err;
        assert_true(at < 10);
        dct_arena_init(&arena, 0);
        arena.fail_at = at;
        status = dct_verify_packing(list, 2, &arena, &height, &err);
        assert_true((status == DCT_OK && at > 1) || status == DCT_NO_FIT);
        dct_arena_deinit(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_its_definition),
        cmocka_unit_test(names_both_owners_and_the_time),
        cmocka_unit_test(takes_many_that_live_together),
        cmocka_unit_test(memory_may_be_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
