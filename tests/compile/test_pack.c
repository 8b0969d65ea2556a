/* The packer against brute force, against an independent checker, and on the cases that have a name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "compile/pack_greedy.h"

static uint64_t rng_state;
static uint32_t below(uint32_t n) { return (uint32_t)(dct_hash_mix(rng_state += UINT64_C(0x9e3779b97f4a7c15)) % n); }

static bool meet(const dct_pack_item *a, const dct_pack_item *b) { return a->begin < b->end && b->begin < a->end; }

/* The independent checker: no overlap, aligned, height and load as stated. */
static void check_packing(const dct_pack_item *items, uint32_t n, const dct_pack_result *r) {
    uint64_t height = 0, load = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t live = 0;
        assert_int_equal(items[i].offset % items[i].align, 0);
        if (items[i].offset + items[i].size > height) height = items[i].offset + items[i].size;
        for (uint32_t j = 0; j < n; j++) {
            const dct_pack_item *a = &items[i], *b = &items[j];
            if (b->begin <= a->begin && a->begin < b->end) live += b->size;
            if (i == j || !meet(a, b)) continue;
            assert_true(a->offset + a->size <= b->offset || b->offset + b->size <= a->offset || a->size == 0 || b->size == 0);
        }
        if (live > load) load = live;
    }
    assert_int_equal(r->height, height);
    assert_int_equal(r->load, load);
    if (r->height == r->load) assert_true(r->optimal);
}

static bool conflict(const dct_pack_item *items, uint32_t n, const uint64_t *matrix, uint32_t a, uint32_t b) {
    uint64_t bit = (uint64_t)a * n + b;
    return matrix != NULL ? (matrix[bit / 64] >> (bit % 64) & 1) != 0 : meet(&items[a], &items[b]);
}

/* Lowers *best to the least height over all orders of first fit: an optimal packing, taken from the bottom up, is one of them.
 * Fixed items are there from the start. */
static void brute_force(dct_pack_item *items, uint32_t n, const uint64_t *matrix, uint32_t done_mask, uint64_t height,
                        uint64_t *best) {
    if (height >= *best) return;
    if (done_mask == (1u << n) - 1) *best = height;
    for (uint32_t i = 0; i < n; i++) {
        if (done_mask >> i & 1) continue;
        uint64_t offset = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (uint32_t j = 0; j < n; j++) {
                const dct_pack_item *other = &items[j];
                if (!(done_mask >> j & 1) || !conflict(items, n, matrix, i, j)) continue;
                if (offset < other->offset + other->size && other->offset < offset + items[i].size) {
                    offset = (other->offset + other->size + items[i].align - 1) / items[i].align * items[i].align;
                    moved = true;
                }
            }
        }
        items[i].offset = offset;
        uint64_t end = offset + items[i].size;
        brute_force(items, n, matrix, done_mask | 1u << i, end > height ? end : height, best);
    }
}

static uint64_t least_height(const dct_pack_item *items, uint32_t n, const uint64_t *matrix) {
    dct_pack_item copy[8];
    uint64_t height = 0, best = UINT64_MAX;
    uint32_t mask = 0;
    memcpy(copy, items, n * sizeof *items);
    for (uint32_t i = 0; i < n; i++) {
        if (!items[i].fixed) continue;
        mask |= 1u << i;
        if (items[i].offset + items[i].size > height) height = items[i].offset + items[i].size;
    }
    brute_force(copy, n, matrix, mask, height, &best);
    return best;
}

/* The answer, from an arena of its own; `nodes` 0 is the default. */
static dct_pack_result pack(dct_pack_item *items, uint32_t n, const uint64_t *matrix, uint64_t nodes) {
    dct_arena arena;
    dct_arena_init(&arena, 0);
    dct_pack_result r;
    dct_err err;
    if (dct_pack(items, n, matrix, &(dct_pack_params){.nodes = nodes}, &arena, &r, &err) != DCT_OK) fail_msg("%s", err.message);
    dct_arena_deinit(&arena);
    return r;
}

static uint32_t random_items(dct_pack_item *items, uint32_t max, uint32_t times, uint32_t sizes) {
    uint32_t n = 1 + below(max);
    bool aligned = below(3) == 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t begin = below(times);
        items[i] = (dct_pack_item){.size = 1 + below(sizes),
                                   .align = aligned ? 1u << below(4) : 1,
                                   .begin = begin,
                                   .end = begin + 1 + below(times - begin)};
    }
    return n;
}

static void small_instances_are_optimal(void **state) {
    (void)state;
    uint32_t beyond_greedy = 0;
    for (uint32_t round = 0; round < 10000; round++) {
        rng_state = round;
        dct_pack_item items[8];
        uint32_t n = random_items(items, 8, 12, 9);
        uint64_t least = least_height(items, n, NULL);
        dct_pack_result r = pack(items, n, NULL, 0);
        check_packing(items, n, &r);
        assert_true(r.optimal);
        assert_int_equal(r.height, least);
        assert_int_equal(r.bound, least);
        if (r.nodes > 0) beyond_greedy++;
    }
    assert_true(beyond_greedy > 10); /* the search did prove some of them */
}

/* One item is fixed wherever the packer put it in a free packing, or a little above. */
static void small_instances_with_a_fixed_item_are_optimal(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 3000; round++) {
        rng_state = 500000 + round;
        dct_pack_item items[7];
        uint32_t n = random_items(items, 7, 10, 9);
        items[0].offset = (uint64_t)below(3) * 8;
        items[0].fixed = true;
        uint64_t least = least_height(items, n, NULL);
        dct_pack_result r = pack(items, n, NULL, 0);
        check_packing(items, n, &r);
        assert_true(r.optimal);
        assert_int_equal(r.height, least);
    }
}

/* Conflicts beyond the intervals: what happens-before leaves unordered. */
static void small_instances_under_a_matrix_are_optimal(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 3000; round++) {
        rng_state = 900000 + round;
        dct_pack_item items[7];
        uint32_t n = random_items(items, 7, 12, 9);
        uint64_t matrix = 0;
        for (uint32_t a = 0; a < n; a++) {
            for (uint32_t b = 0; b <= a; b++) {
                if (a == b || meet(&items[a], &items[b]) || below(4) == 0)
                    matrix |= UINT64_C(1) << (a * n + b) | UINT64_C(1) << (b * n + a);
            }
        }
        dct_pack_result r = pack(items, n, &matrix, 0);
        for (uint32_t a = 0; a < n; a++) {
            for (uint32_t b = 0; b < a; b++) {
                bool apart = items[a].offset + items[a].size <= items[b].offset ||
                             items[b].offset + items[b].size <= items[a].offset;
                assert_true(apart || !conflict(items, n, &matrix, a, b));
            }
        }
        assert_true(r.optimal);
        assert_int_equal(r.height, least_height(items, n, &matrix));
    }
}

/* Items in pieces: no piece overlaps another that shares a time with it, and no height lies under the load. */
static void shaped_items_are_kept_apart(void **state) {
    (void)state;
    uint32_t at_load = 0;
    for (uint32_t round = 0; round < 1000; round++) {
        rng_state = 1300000 + round;
        dct_pack_item items[12];
        dct_pack_piece pieces[12][3];
        uint32_t n = random_items(items, 12, 20, 30);
        uint64_t load_at[20] = {0}, height = 0, load = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t length = items[i].end - items[i].begin, first = 1 + below(length), size = (uint32_t)items[i].size;
            pieces[i][0] = (dct_pack_piece){0, size, items[i].begin, items[i].begin + first};
            pieces[i][1] = (dct_pack_piece){below(size), size, items[i].begin + first, items[i].end}; /* shrinks from below */
            pieces[i][2] = (dct_pack_piece){0, 1 + below(size), items[i].begin + first + 1,
                                            items[i].end}; /* or a gap, and shrinks from above */
            bool gap = below(2) == 0 && first + 1 < length;
            items[i].n_pieces = first < length ? 2 : 1;
            if (gap) pieces[i][1] = pieces[i][2];
            items[i].pieces = pieces[i];
        }
        dct_pack_result r = pack(items, n, NULL, 2000);
        for (uint32_t a = 0; a < n; a++) {
            for (uint32_t k = 0; k < items[a].n_pieces; k++) {
                const dct_pack_piece *p = &pieces[a][k];
                for (uint32_t t = p->begin; t < p->end; t++) load_at[t] += p->high - p->low;
                if (items[a].offset + p->high > height) height = items[a].offset + p->high;
                for (uint32_t b = 0; b < a; b++) {
                    for (uint32_t m = 0; m < items[b].n_pieces; m++) {
                        const dct_pack_piece *q = &pieces[b][m];
                        bool together = p->begin < q->end && q->begin < p->end;
                        assert_false(together && items[a].offset + p->low < items[b].offset + q->high &&
                                     items[b].offset + q->low < items[a].offset + p->high);
                    }
                }
            }
        }
        for (uint32_t t = 0; t < 20; t++) load = load_at[t] > load ? load_at[t] : load;
        assert_int_equal(r.load, load);
        assert_int_equal(r.height, height);
        at_load += r.height == r.bound;
    }
    assert_true(at_load > 500);
}

/* The gap is used: two items that hold their bytes by turns lie over each other. */
static void a_gap_gives_its_bytes_away(void **state) {
    (void)state;
    dct_pack_piece around[] = {{0, 8, 0, 2}, {0, 8, 6, 9}}, shrinking[] = {{0, 8, 0, 3}, {0, 2, 3, 9}};
    dct_pack_item gap[] = {{.size = 8, .align = 1, .begin = 0, .end = 9, .pieces = around, .n_pieces = 2},
                           {.size = 8, .align = 1, .begin = 2, .end = 6}};
    dct_pack_item shrink[] = {{.size = 8, .align = 1, .begin = 0, .end = 9, .pieces = shrinking, .n_pieces = 2},
                              {.size = 6, .align = 1, .begin = 3, .end = 9}};
    dct_pack_result r = pack(gap, 2, NULL, 0);
    assert_int_equal(r.height, 8);
    r = pack(shrink, 2, NULL, 0);
    assert_int_equal(r.height, 8);
    assert_int_equal(shrink[1].offset, 2);
}

/* Sizes that are tiny beside the height: items that only hold each other are not raised step by step up to it. Found by fuzzing. */
static void sizes_far_apart_end_within_the_nodes(void **state) {
    (void)state;
    const uint64_t sizes[] = {341714, UINT64_C(737095544671615), UINT64_C(184467440737095), 7337095, UINT64_C(737095544671615),
                              UINT64_C(187095544671615), UINT64_C(18446744073615)};
    const uint64_t aligns[] = {64, 4, 64, 64, 4, 4, 1};
    enum { N = sizeof sizes / sizeof *sizes };
    dct_pack_item items[N];
    for (uint32_t i = 0; i < N; i++)
        items[i] = (dct_pack_item){.size = sizes[i], .align = aligns[i], .begin = i > 0, .end = i > 0 ? 5 : 271};
    dct_pack_result r = pack(items, N, NULL, 3000);
    check_packing(items, N, &r);
    assert_int_equal(r.load, UINT64_C(1864200826504364));
    assert_in_range(r.height, r.load, r.load + 256);
    assert_in_range(r.nodes, 1, 3000);
}

/* A clock that has run out at the n-th look. */
typedef struct looks { uint32_t asked, last; } looks;

static bool is_last_look(void *ctx) {
    looks *l = ctx;
    return ++l->asked == l->last;
}

/* Also where there are too many items for a search: each part has one greedy order, and then the clock ends all, wherever it is
 * looked at. */
static void a_clock_ends_what_is_no_search(void **state) {
    (void)state;
    enum { N = 5000 };
    static dct_pack_item items[N];
    static const uint32_t lasts[] = {1, 30, 200, UINT32_MAX};
    for (uint32_t k = 0; k < 4; k++) {
        rng_state = 42;
        for (uint32_t i = 0; i < N; i++) {
            uint32_t begin = i % 2 * 3000 + below(2000); /* two parts */
            items[i] = (dct_pack_item){.size = 1 + below(1000), .align = 1, .begin = begin, .end = begin + 1 + below(400)};
        }
        looks l = {.last = lasts[k]};
        dct_arena arena;
        dct_pack_result r;
        dct_err err;
        dct_arena_init(&arena, 0);
        const dct_pack_params params = {.nodes = 1, .stop = is_last_look, .ctx = &l};
        assert_int_equal(dct_pack(items, N, NULL, &params, &arena, &r, &err), DCT_OK);
        dct_arena_deinit(&arena);
        check_packing(items, N, &r);
        if (k < 3) assert_int_equal(l.asked, l.last); /* never again after it said so */
        if (k < 3) assert_int_equal(r.nodes, 0);
        else assert_true(l.asked > lasts[2]); /* or there was nothing to end */
    }
}

/* What the greedy orders reach, each for all items. */
static uint64_t greedy_height(const dct_pack_item *items, uint32_t n, uint64_t *offsets) {
    dct_arena arena;
    dct_problem problem;
    dct_placement best = {UINT64_MAX, offsets};
    dct_err err;
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_problem_make(items, n, NULL, &arena, &problem, &err), DCT_OK);
    dct_greedy *greedy = dct_greedy_new(&problem, &arena);
    assert_non_null(greedy);
    assert_int_equal(dct_greedy_portfolio(greedy, problem.bound, &(dct_effort){0}, &best, &err), DCT_OK);
    dct_arena_deinit(&arena);
    return best.height;
}

/* What the greedy orders reach is never lost. */
static void no_instance_is_worse_than_the_best_greedy(void **state) {
    (void)state;
    uint32_t better = 0;
    for (uint32_t round = 0; round < 1000; round++) {
        rng_state = 1700000 + round;
        static dct_pack_item items[300];
        uint64_t offsets[300];
        uint32_t n = 100 + below(201);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t begin = below(400);
            items[i] = (dct_pack_item){.size = 1 + below(1000), .align = 1, .begin = begin, .end = begin + 1 + below(60)};
        }
        uint64_t greedy = greedy_height(items, n, offsets);
        dct_pack_result r = pack(items, n, NULL, 700);
        check_packing(items, n, &r);
        assert_true(r.height <= greedy);
        better += r.height < greedy;
    }
    assert_true(better > 100); /* of which the search improves many */
}

/* More items than the search takes at once, in 500 problems one after another. The highest is one that no greedy order solves. */
static void parts_of_large_instances_are_searched(void **state) {
    (void)state;
    static dct_pack_item items[500 * 20];
    static uint64_t offsets[500 * 20];
    uint64_t highest = 0, greedy = 0;
    uint32_t n = 0;
    for (uint32_t part = 0; part < 500; part++) {
        dct_pack_item *one = items + n;
        rng_state = 3100000 + part;
        uint32_t count = random_items(one, 20, 9, 30);
        for (uint32_t i = 0; i < count; i++) one[i].align = 1;
        dct_pack_result r = pack(one, count, NULL, 1000);
        if (highest == 0 && part >= 250 && r.optimal && r.nodes > 0) {
            for (uint32_t i = 0; i < count; i++) one[i].size *= 100;
            highest = 100 * r.height;
            greedy = greedy_height(one, count, offsets);
        }
        for (uint32_t i = 0; i < count; i++) one[i].begin += 9 * part, one[i].end += 9 * part;
        n += count;
    }
    assert_true(n > 4096 && highest < greedy);
    dct_pack_result r = pack(items, n, NULL, 0);
    check_packing(items, n, &r);
    assert_true(r.optimal);
    assert_int_equal(r.height, highest);
}

/* No cut parts these: the largest items, which carry the load, are searched, and the others lie between them. */
static void the_core_of_large_instances_is_searched(void **state) {
    (void)state;
    enum { LONG = 200, ALL = 5000 };
    static dct_pack_item items[ALL], again[ALL];
    static uint64_t offsets[ALL];
    rng_state = 3200000;
    for (uint32_t i = 0; i < ALL; i++) {
        bool is_long = i < LONG;
        uint32_t begin = below(is_long ? 900 : 1000), size = is_long ? 1000 + below(20000) : 1 + below(40);
        items[i] = (dct_pack_item){.size = size, .align = 1, .begin = begin, .end = begin + 1 + (is_long ? below(100) : 0)};
    }
    memcpy(again, items, sizeof again);
    uint64_t greedy = greedy_height(items, ALL, offsets);
    dct_pack_result r = pack(items, ALL, NULL, 0), same = pack(again, ALL, NULL, 0);
    check_packing(items, ALL, &r);
    assert_true(r.optimal && r.nodes > 0 && r.height < greedy);
    assert_int_equal(r.nodes, same.nodes);
    for (uint32_t i = 0; i < ALL; i++) assert_int_equal(items[i].offset, again[i].offset);
    again[300].fixed = true; /* one of the small ones: it belongs to the core all the same */
    again[300].offset = 20000;
    same = pack(again, ALL, NULL, 500);
    check_packing(again, ALL, &same);
    assert_int_equal(again[300].offset, 20000);
}

/* More fixed items than a core has room for: nothing is searched, nothing moves. */
static void large_instances_may_be_fixed(void **state) {
    (void)state;
    enum { ALL = 4300 };
    static dct_pack_item items[ALL];
    for (uint32_t i = 0; i < ALL; i++)
        items[i] = (dct_pack_item){.size = 4, .align = 1, .begin = i, .end = i + 2, .offset = i % 2 * 5, .fixed = i > 0};
    items[0].size = 5;
    dct_pack_result r = pack(items, ALL, NULL, 0);
    check_packing(items, ALL, &r);
    assert_int_equal(r.height, 9);
    assert_int_equal(items[0].offset, 0);
}

static void larger_instances_are_valid_and_repeatable(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 60; round++) {
        rng_state = 77000 + round;
        dct_pack_item items[150], again[150];
        uint32_t n = random_items(items, 150, 60, 4000);
        memcpy(again, items, sizeof items);
        dct_pack_result r = pack(items, n, NULL, 3000), r2 = pack(again, n, NULL, 3000);
        check_packing(items, n, &r);
        for (uint32_t i = 0; i < n; i++) assert_int_equal(items[i].offset, again[i].offset);
        assert_int_equal(r.nodes, r2.nodes);
    }
}

static void a_fixed_item_stays(void **state) {
    (void)state;
    dct_pack_item items[] = {
        {.size = 4, .align = 1, .begin = 0, .end = 4, .offset = 6, .fixed = true},
        {.size = 6, .align = 1, .begin = 0, .end = 2},
        {.size = 5, .align = 1, .begin = 2, .end = 4},
        {.size = 3, .align = 1, .begin = 3, .end = 4},
    };
    dct_pack_result r = pack(items, 4, NULL, 0);
    check_packing(items, 4, &r);
    assert_int_equal(items[0].offset, 6);
    assert_int_equal(r.height, 13); /* 5 below the fixed one, 3 above it: the load is 12, but no better is possible */
    assert_true(r.optimal);
}

static void a_conflict_matrix_replaces_time(void **state) {
    (void)state;
    dct_pack_item items[] = {{.size = 8, .align = 1, .begin = 0, .end = 1}, {.size = 8, .align = 1, .begin = 1, .end = 2}};
    uint64_t apart = 0, together = 1u << 1 | 1u << 2; /* bits (0,1) and (1,0) of a 2 x 2 matrix */
    dct_pack_result r = pack(items, 2, &apart, 0);
    assert_int_equal(r.height, 8);
    r = pack(items, 2, &together, 0);
    assert_int_equal(r.height, 16);
    assert_true(r.optimal); /* the intervals do not prove it, the search over the matrix does */
    assert_int_equal(r.load, 8);
    assert_int_equal(r.bound, 16);
}

/* Items without bytes change nothing: neither the height nor that it is proven, where only the search proves it. */
static void items_without_bytes_change_nothing(void **state) {
    (void)state;
    uint32_t searched = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        rng_state = seed;
        dct_pack_item items[22], more[24];
        uint32_t n = random_items(items, 20, 9, 30);
        more[0] = (dct_pack_item){.align = 8, .begin = 0, .end = 5};
        memcpy(&more[1], items, n * sizeof *items);
        more[n + 1] = (dct_pack_item){.align = 1, .begin = 1, .end = 2};
        dct_pack_result r = pack(items, n, NULL, 0), with = pack(more, n + 2, NULL, 0);
        searched += r.nodes > 0;
        if (r.optimal) assert_true(with.optimal);
        if (r.optimal) assert_int_equal(with.height, r.height);
        for (uint32_t i = 1; i <= n; i++) {
            for (uint32_t j = i + 1; j <= n; j++) {
                bool meet = more[i].begin < more[j].end && more[j].begin < more[i].end;
                assert_false(meet && more[i].offset < more[j].offset + more[j].size &&
                             more[j].offset < more[i].offset + more[i].size);
            }
        }
    }
    assert_true(searched > 5);
}

static void senseless_items_are_refused(void **state) {
    (void)state;
    dct_pack_item bad[][2] = {
        {{.size = 1, .align = 1, .begin = 3, .end = 3}},
        {{.size = 1, .align = 3, .begin = 0, .end = 1}},
        {{.size = UINT64_MAX, .align = 1, .begin = 0, .end = 1}, {.size = 2, .align = 1, .begin = 0, .end = 1}},
        {{.size = 8, .align = 1, .begin = 0, .end = 2, .fixed = true},
         {.size = 8, .align = 1, .begin = 1, .end = 3, .offset = 4, .fixed = true}},
    };
    uint32_t count[] = {1, 1, 2, 2};
    for (uint32_t i = 0; i < 4; i++) {
        dct_arena arena;
        dct_arena_init(&arena, 0);
        dct_pack_result r;
        dct_err err;
        assert_int_equal(dct_pack(bad[i], count[i], NULL, NULL, &arena, &r, &err), DCT_USAGE);
        dct_arena_deinit(&arena);
    }
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (uint64_t k = 1;; k++) {
        rng_state = 4;
        dct_pack_item items[40];
        uint32_t n = random_items(items, 40, 9, 30);
        dct_arena arena;
        dct_arena_init(&arena, 0);
        arena.fail_at = k;
        dct_pack_result r;
        dct_err err;
        dct_status status = dct_pack(items, n, NULL, &(dct_pack_params){.nodes = 100}, &arena, &r, &err);
        bool reached = arena.n_allocs >= k;
        dct_arena_deinit(&arena);
        if (!reached) break;
        assert_int_equal(status, DCT_NO_FIT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_instances_are_optimal),
        cmocka_unit_test(small_instances_with_a_fixed_item_are_optimal),
        cmocka_unit_test(small_instances_under_a_matrix_are_optimal),
        cmocka_unit_test(shaped_items_are_kept_apart),
        cmocka_unit_test(a_gap_gives_its_bytes_away),
        cmocka_unit_test(sizes_far_apart_end_within_the_nodes),
        cmocka_unit_test(a_clock_ends_what_is_no_search),
        cmocka_unit_test(no_instance_is_worse_than_the_best_greedy),
        cmocka_unit_test(parts_of_large_instances_are_searched),
        cmocka_unit_test(the_core_of_large_instances_is_searched),
        cmocka_unit_test(large_instances_may_be_fixed),
        cmocka_unit_test(larger_instances_are_valid_and_repeatable),
        cmocka_unit_test(a_fixed_item_stays),
        cmocka_unit_test(a_conflict_matrix_replaces_time),
        cmocka_unit_test(items_without_bytes_change_nothing),
        cmocka_unit_test(senseless_items_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
