/* The packer on files: good ones, real ones, and wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/hash.h"
#include "support/emulated.h"
#include "tools/tools.h"

#define PROBLEM DCT_BINARY_DIR "/test_packfile.problem.csv"
#define ANSWER DCT_BINARY_DIR "/test_packfile.answer.csv"
#define PICTURE DCT_BINARY_DIR "/test_packfile.svg"

static const char *write_problem(const char *text) {
    FILE *f = fopen(PROBLEM, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    fclose(f);
    return PROBLEM;
}

static const char *read_answer(const char *path) {
    static char text[4096];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    return text;
}

static dct_status pack(const char *text, uint64_t capacity, dct_packfile_result *result, dct_err *err) {
    const dct_packfile_capacity of_all = {.bytes = capacity};
    dct_packfile_params params = {.path = write_problem(text), .output = ANSWER, .capacities = &of_all,
                                  .n_capacities = capacity != 0};
    memset(err, 0, sizeof *err);
    return dct_packfile(&params, result, err);
}

static void a_problem_is_solved(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\r\nb4,9,21,4\n\nb5,0,21,4\n", 12, &r, &err), DCT_OK);
    assert_int_equal(r.n_items, 5);
    assert_int_equal(r.load, 12);
    assert_int_equal(r.height, 12);
    assert_true(r.optimal);
    const char *answer = read_answer(ANSWER);
    assert_int_equal(strncmp(answer, "id,lower,upper,size,offset\nb1,0,3,4,", 36), 0);
}

static void columns_may_stand_in_any_order(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack("size,offset,id,upper,alignment,lower\n8,16,fixed,4,,0\n3,,free,4,8,2\n", 0, &r, &err), DCT_OK);
    assert_string_equal(read_answer(ANSWER),
                        "size,offset,id,upper,alignment,lower\n8,16,fixed,4,,0\n3,0,free,4,8,2\n");
    assert_int_equal(r.height, 24);
    assert_int_equal(r.load, 11);
}

static void gaps_are_used(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack("id,lower,upper,size,gaps\na,0,9,8,2-6\nb,2,6,8,\n", 0, &r, &err), DCT_OK);
    assert_int_equal(r.height, 8);
    assert_int_equal(pack("id,lower,upper,size,gaps\na,0,9,8,2-4@0:3  4-6@0:2\nb,2,6,5,\nonly gaps,0,4,100,0-4\n", 0, &r, &err),
                     DCT_OK);
    assert_int_equal(r.load, 8);
    assert_int_equal(r.height, 8);
    assert_string_equal(read_answer(ANSWER),
                        "id,lower,upper,size,gaps,offset\na,0,9,8,2-4@0:3  4-6@0:2,0\nb,2,6,5,,3\nonly gaps,0,4,100,0-4,0\n");
}

/* A value that shrinks gives away what it no longer holds: the front, the back, or both by and by. */
static void values_that_shrink_give_bytes_away(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack("id,lower,upper,size,gaps\na,0,9,8,3-9@0:2\nb,3,9,6,\n", 0, &r, &err), DCT_OK);
    assert_int_equal(r.height, 8);
    assert_true(r.optimal);
    assert_int_equal(pack("id,lower,upper,size,gaps\na,0,9,8,3-6@2:8 6-9@4:6\nb,3,9,2,\nc,6,9,2,\nd,6,9,2,\n", 0, &r, &err), DCT_OK);
    assert_int_equal(r.height, 8);
    assert_string_equal(read_answer(ANSWER), "id,lower,upper,size,gaps,offset\na,0,9,8,3-6@2:8 6-9@4:6,0\nb,3,9,2,,0\n"
                                                            "c,6,9,2,,2\nd,6,9,2,,6\n");
}

/* ---- pools ---- */

typedef struct told { uint32_t n; char names[4][32]; dct_packfile_result of[4]; } told;

static void tell(void *ctx, const char *name, const dct_packfile_result *r) {
    told *t = ctx;
    assert_true(t->n < 4);
    strcpy(t->names[t->n], name);
    t->of[t->n++] = *r;
}

static const char POOLS[] = "id,lower,upper,size,pool\na,0,4,8,fast\nb,2,6,8,slow\nc,3,9,4,fast\nd,5,9,5,\ne,0,3,3,slow\n";

static void each_pool_is_packed_by_itself(void **state) {
    (void)state;
    told t = {0};
    dct_packfile_params params = {.path = write_problem(POOLS), .output = ANSWER, .pool = tell, .ctx = &t};
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(dct_packfile(&params, &r, &err), DCT_OK);
    static const struct { const char *name; uint32_t n_items, height; } pools[] = {{"fast", 2, 12}, {"slow", 2, 11}, {"", 1, 5}};
    assert_int_equal(t.n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(t.names[i], pools[i].name);
        assert_int_equal(t.of[i].n_items, pools[i].n_items);
        assert_int_equal(t.of[i].height, pools[i].height);
        assert_int_equal(t.of[i].load, pools[i].height);
    }
    assert_int_equal(r.n_items, 5);
    assert_int_equal(r.height, 28);
    assert_int_equal(r.load, 28);
    assert_true(r.optimal);
    assert_string_equal(read_answer(ANSWER), "id,lower,upper,size,pool,offset\na,0,4,8,fast,0\nb,2,6,8,slow,0\n"
                                                            "c,3,9,4,fast,8\nd,5,9,5,,0\ne,0,3,3,slow,8\n");
}

static void sums_of_pools_do_not_wrap(void **state) {
    (void)state;
    char text[1024];
    size_t n = (size_t)snprintf(text, sizeof text, "id,lower,upper,size,pool\n");
    for (int i = 0; i < 9; i++) n += (size_t)snprintf(text + n, sizeof text - n, "i%d,0,1,2305843009213693947,p%d\n", i, i);
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack(text, 0, &r, &err), DCT_NO_FIT);
    assert_non_null(strstr(err.message, "larger than can be counted"));
}

static void capacities_are_of_pools(void **state) {
    (void)state;
    static const struct { dct_packfile_capacity given[2]; uint32_t n; dct_status status; const char *says; } cases[] = {
        {{{NULL, 12}}, 1, DCT_OK, NULL},
        {{{NULL, 11}}, 1, DCT_NO_FIT, "pool 'fast': the capacity is 11"},
        {{{NULL, 11}, {"fast", 12}}, 2, DCT_OK, NULL},
        {{{"fast", 12}, {NULL, 11}}, 2, DCT_NO_FIT, "pool 'fast'"}, /* the last one that speaks of it */
        {{{"slow", 10}}, 1, DCT_NO_FIT, "pool 'slow': the capacity is 10"},
        {{{"", 4}}, 1, DCT_NO_FIT, "pool ''"},
        {{{"medium", 10}}, 1, DCT_USAGE, "'medium', which is no pool"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dct_packfile_params params = {.path = write_problem(POOLS), .capacities = cases[i].given, .n_capacities = cases[i].n};
        dct_packfile_result r;
        dct_err err = {0};
        assert_int_equal(dct_packfile(&params, &r, &err), cases[i].status);
        if (cases[i].says != NULL && strstr(err.message, cases[i].says) == NULL) fail_msg("case %zu: '%s'", i, err.message);
    }
}

/* ---- aliases ---- */

static void aliases_lie_in_the_bytes_that_they_name(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    /* b takes a's place, c is the upper half of b, d comes when only c is left, e never meets a byte of the others */
    assert_int_equal(pack("id,lower,upper,size,alias\na,0,3,8,\nb,2,5,8,a\nc,4,9,4,b@4\nd,5,9,4,\ne,0,9,1,\n", 0, &r, &err), DCT_OK);
    assert_int_equal(r.load, 9);
    assert_int_equal(r.height, 9);
    assert_string_equal(read_answer(ANSWER),
                        "id,lower,upper,size,alias,offset\na,0,3,8,,0\nb,2,5,8,a,0\nc,4,9,4,b@4,4\nd,5,9,4,,0\ne,0,9,1,,8\n");
    /* what is live at both ends of a buffer keeps what lies between */
    assert_int_equal(pack("id,lower,upper,size,alias\na,0,1,9,\nb,1,5,3,a\nc,1,5,3,a@6\nd,1,5,3,\n", 0, &r, &err), DCT_OK);
    assert_int_equal(r.height, 12);
    /* the offset and the alignment of an alias are its owner's as well */
    assert_int_equal(pack("id,lower,upper,size,alias,offset,alignment\na@1,0,4,8,,,\nb,4,9,4,a@1@4,20,4\nc,0,9,16,,,\n", 0, &r, &err),
                     DCT_OK);
    assert_string_equal(read_answer(ANSWER),
                        "id,lower,upper,size,alias,offset,alignment\na@1,0,4,8,,16,\nb,4,9,4,a@1@4,20,4\nc,0,9,16,,0,\n");
}

typedef struct small { uint32_t lower, upper, size, shrink_at, shrunk, owner, shift, pool; } small; /* shrunk: bytes from shrink_at on */

/* What a root and all that shares its bytes hold at a time: from the lowest byte to the highest. */
static bool held(const small *items, uint32_t n, uint32_t root, uint32_t time, uint32_t *low, uint32_t *high) {
    *low = UINT32_MAX;
    *high = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i, shift = 0;
        for (; items[at].owner != at; at = items[at].owner) shift += items[at].shift;
        if (at != root || time < items[i].lower || time >= items[i].upper) continue;
        uint32_t end = shift + (time >= items[i].shrink_at ? items[i].shrunk : items[i].size);
        *low = shift < *low ? shift : *low;
        *high = end > *high ? end : *high;
    }
    return *high > 0;
}

/* The least height of all places of the roots of a pool from `next` on. */
static void try_places(const small *items, uint32_t n, uint32_t pool, uint32_t next, uint32_t *at, uint32_t height, uint32_t *best) {
    while (next < n && (items[next].owner != next || items[next].pool != pool)) next++;
    if (height >= *best) return;
    if (next == n) {
        *best = height;
        return;
    }
    for (at[next] = 0; at[next] < *best; at[next]++) {
        bool clear = true;
        uint32_t top = height, low, high, other_low, other_high;
        for (uint32_t t = 0; t < 6; t++) {
            if (!held(items, n, next, t, &low, &high)) continue;
            top = at[next] + high > top ? at[next] + high : top;
            for (uint32_t i = 0; i < next; i++) {
                if (items[i].owner != i || items[i].pool != pool || !held(items, n, i, t, &other_low, &other_high)) continue;
                clear = clear && (at[next] + high <= at[i] + other_low || at[i] + other_high <= at[next] + low);
            }
        }
        if (clear) try_places(items, n, pool, next + 1, at, top, best);
    }
}

static uint64_t rng_state;
static uint32_t below(uint32_t n) { return (uint32_t)(dct_hash_mix(rng_state += UINT64_C(0x9e3779b97f4a7c15)) % n); }

static uint32_t random_small(small *items) {
    uint32_t n = 1 + below(7);
    for (uint32_t i = 0; i < n; i++) {
        small *s = &items[i];
        *s = (small){.lower = below(6), .size = 1 + below(6), .owner = i, .pool = below(2)};
        s->upper = s->lower + 1 + below(6 - s->lower);
        s->shrink_at = s->lower + 1 + below(6);
        s->shrunk = below(3) == 0 ? 1 + below(s->size) : s->size;
        if (i == 0 || below(2) == 0) continue;
        const small *owner = &items[s->owner = below(i)];
        s->shift = below(owner->size);
        s->size = 1 + below(owner->size - s->shift);
        s->shrunk = s->shrunk < s->size ? s->shrunk : s->size;
        s->pool = owner->pool;
    }
    return n;
}

/* Pools, aliases and shrinking in one, against all places that there are: never under the least height, and at it where proven. */
static void small_files_are_as_low_as_can_be(void **state) {
    (void)state;
    uint32_t n_proven = 0, n_pools = 0;
    for (uint32_t round = 0; round < 1500; round++) {
        rng_state = round;
        small items[7];
        char text[1024];
        uint32_t n = random_small(items), used = (uint32_t)snprintf(text, sizeof text, "id,lower,upper,size,gaps,alias,pool\n");
        for (uint32_t i = 0; i < n; i++) {
            const small *s = &items[i];
            used += (uint32_t)snprintf(text + used, sizeof text - used, "i%u,%u,%u,%u,", i, s->lower, s->upper, s->size);
            if (s->shrunk < s->size && s->shrink_at < s->upper)
                used += (uint32_t)snprintf(text + used, sizeof text - used, "%u-%u@0:%u", s->shrink_at, s->upper, s->shrunk);
            used += (uint32_t)snprintf(text + used, sizeof text - used, ",");
            if (s->owner != i) used += (uint32_t)snprintf(text + used, sizeof text - used, "i%u@%u", s->owner, s->shift);
            used += (uint32_t)snprintf(text + used, sizeof text - used, ",%c\n", s->pool == 0 ? 'p' : 'q');
        }
        told t = {0};
        dct_packfile_params params = {.path = write_problem(text), .pool = tell, .ctx = &t};
        dct_packfile_result r;
        dct_err err;
        if (dct_packfile(&params, &r, &err) != DCT_OK) fail_msg("round %u: %s\n%s", round, err.message, text);
        if (t.n == 0) tell(&t, items[0].pool == 0 ? "p" : "q", &r);
        for (uint32_t k = 0; k < t.n; k++) {
            uint32_t at[7], best = 43;
            try_places(items, n, t.names[k][0] == 'p' ? 0 : 1, 0, at, 0, &best);
            if (t.of[k].height < best || (t.of[k].optimal && t.of[k].height != best) || t.of[k].bound > best)
                fail_msg("round %u, pool %s: %u, not %u\n%s", round, t.names[k], (unsigned)t.of[k].height, best, text);
            n_proven += t.of[k].optimal;
        }
        n_pools += t.n;
    }
    assert_true(n_proven * 20 > n_pools * 19);
}

enum { MANY = 40, MANY_TIMES = 66, MANY_BYTES = 64, OTHER_BYTES = 100 };

static uint32_t random_family(small *items, char *text, size_t size) {
    uint32_t used = (uint32_t)snprintf(text, size, "id,lower,upper,size,alias\n");
    for (uint32_t i = 0; i <= MANY; i++) {
        small *s = &items[i];
        *s = (small){.lower = below(MANY_TIMES - 6), .size = MANY_BYTES, .shrink_at = UINT32_MAX};
        s->upper = s->lower + 1 + below(6);
        if (i > 0) {
            const small *owner = &items[s->owner = below(2) == 0 ? 0 : below(i)];
            s->shift = below(owner->size);
            s->size = 1 + below(owner->size - s->shift);
        }
        used += (uint32_t)snprintf(text + used, size - used, "i%u,%u,%u,%u,", i, s->lower, s->upper, s->size);
        used += (uint32_t)(i > 0 ? snprintf(text + used, size - used, "i%u@%u\n", s->owner, s->shift)
                                 : snprintf(text + used, size - used, "\n"));
    }
    return used;
}

/* A root and many that share its bytes. How much they hold at a time, and where, shows beside another item that is live just
 * then: it goes on top of what they hold, or they on top of it. */
static void many_aliases_hold_what_lies_between(void **state) {
    (void)state;
    small items[MANY + 1];
    char text[4096];
    for (uint32_t round = 0; round < 10; round++) {
        uint32_t low, high, top = 0, most = 0;
        rng_state = round;
        uint32_t n_family = random_family(items, text, sizeof text);
        for (uint32_t t = 0; t < MANY_TIMES; t++) {
            if (!held(items, MANY + 1, 0, t, &low, &high)) continue;
            top = high > top ? high : top;
            most = high - low > most ? high - low : most;
        }
        assert_true(top <= MANY_BYTES && most <= MANY_BYTES);
        for (uint32_t t = 0; t < MANY_TIMES; t++) {
            uint32_t load = OTHER_BYTES, height = OTHER_BYTES;
            if (held(items, MANY + 1, 0, t, &low, &high)) {
                load += high - low;
                height += high < top - low ? high : top - low;
            }
            uint32_t n = n_family + (uint32_t)snprintf(text + n_family, sizeof text - n_family, "other,%u,%u,%d,\n", t, t + 1,
                                                       OTHER_BYTES);
            dct_packfile_params params = {.path = "many", .text = text, .n_text = n, .nodes = 1};
            dct_packfile_result r;
            dct_err err = {0};
            if (dct_packfile(&params, &r, &err) != DCT_OK) fail_msg("round %u: %s\n%s", round, err.message, text);
            if (r.load != load || r.height != height)
                fail_msg("round %u, time %u: load %u and height %u, not %u and %u\n%s", round, t, (unsigned)r.load,
                         (unsigned)r.height, load, height, text);
        }
    }
}

/* Seconds of n aliases that are all live at one time, at one end of the root or the other. */
static double seconds_of_aliases(uint32_t n) {
    const size_t size = 128 + 48 * (size_t)n;
    char *text = malloc(size);
    assert_non_null(text);
    size_t used = (size_t)snprintf(text, size, "id,lower,upper,size,alias\nroot,0,1,8,\nunder,1,2,7,\nover,%u,%u,5,\n", n, n + 1);
    for (uint32_t i = 1; i <= n; i++)
        used += (size_t)snprintf(text + used, size - used, "%u,%u,%u,1,root@%d\n", i, i, n + i, i % 2 == 0 ? 7 : 0);
    dct_packfile_params params = {.path = "aliases", .text = text, .n_text = used};
    dct_packfile_result r;
    dct_err err = {0};
    clock_t from = clock();
    if (dct_packfile(&params, &r, &err) != DCT_OK) fail_msg("%s", err.message);
    double seconds = (double)(clock() - from) / CLOCKS_PER_SEC;
    assert_int_equal(r.load, 13); /* the whole root and what is over it; at 1 the first alias has but a byte of it */
    assert_int_equal(r.height, 13);
    free(text);
    return seconds;
}

/* Ten times as many take at most forty times as long (ten, a logarithm, and what caches do), not a hundred. */
static void many_aliases_take_no_long_time(void **state) {
    (void)state;
    const uint32_t n = emulated("a tenth of the aliases") ? 10000 : 100000;
    double few = seconds_of_aliases(n / 10), many = seconds_of_aliases(n);
    if (many > 40 * few + 0.5) fail_msg("%u aliases take %.3f s, ten times as many %.3f s", n / 10, few, many);
}

static void the_older_form_includes_its_end(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack("id,begin,end,size\na,0,3,8\nb,3,5,8\n", 0, &r, &err), DCT_OK);
    assert_int_equal(r.load, 16); /* both are live at 3 */
    assert_int_equal(pack("\xef\xbb\xbf" "buffer_id,start,end,size,gaps,hint\na,0,9,8,3-5,-1\nb,3,5,8,,0\n", 0, &r, &err), DCT_OK);
    assert_int_equal(r.height, 8); /* a gap's end is included as well */
    assert_string_equal(read_answer(ANSWER),
                        "buffer_id,start,end,size,gaps,hint,offset\na,0,9,8,3-5,-1,0\nb,3,5,8,,0,0\n");
    assert_int_equal(pack("buffer,begin,upper,size\na,0,3,8\nb,3,5,8\n", 0, &r, &err), DCT_OK);
    assert_int_equal(r.load, 8);
}

static void the_picture_shows_every_item(void **state) {
    (void)state;
    dct_packfile_params params = {.path = write_problem("id,lower,upper,size\nfirst,0,3,4\n<b>,2,9,4\n"),
                                  .svg = PICTURE};
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(dct_packfile(&params, &r, &err), DCT_OK);
    const char *svg = read_answer(PICTURE);
    assert_non_null(strstr(svg, "first: 4 bytes"));
    assert_non_null(strstr(svg, "?b?: 4 bytes"));
    assert_non_null(strstr(svg, "</svg>"));
}

/* What was written is a packing with every offset fixed: read again, nothing moves, and an overlap is named. */
static void an_answer_is_its_own_answer(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    char first[4096];
    assert_int_equal(pack("id,lower,upper,size\na,0,3,4\nb,2,9,6\nc,5,9,3\n", 0, &r, &err), DCT_OK);
    strcpy(first, read_answer(ANSWER));
    assert_int_equal(pack(first, 0, &r, &err), DCT_OK);
    assert_string_equal(read_answer(ANSWER), first);
    assert_int_equal(pack("id,lower,upper,size,offset\na,0,3,4,0\nb,2,9,6,3\n", 0, &r, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "fixed over"));
}

static void a_clock_ends_the_search(void **state) {
    (void)state;
    static char text[20000];
    size_t n = (size_t)snprintf(text, sizeof text, "id,lower,upper,size\n");
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t begin = i * 7919 % 500;
        n += (size_t)snprintf(text + n, sizeof text - n, "%u,%u,%u,%u\n", i, begin, begin + 3 + i * 31 % 67,
                              1000 + i * 613 % 9973);
    }
    dct_packfile_params params = {.path = write_problem(text), .seconds = 0.2f, .minimize = true};
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(dct_packfile(&params, &r, &err), DCT_OK);
    assert_true(r.ms < 20000); /* nodes alone would not end it for years */
    assert_true(r.bound >= r.load && r.height >= r.bound);
}

static void a_capacity_that_is_too_small_names_both(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack("id,lower,upper,size\na,0,2,30\nb,1,2,12\n", 41, &r, &err), DCT_NO_FIT);
    assert_non_null(strstr(err.message, "42"));
    assert_non_null(strstr(err.message, "41"));
    assert_int_equal(r.height, 42);
}

/* Where nothing is proven, no more is said than what was found. */
static void what_is_not_proven_is_not_said(void **state) {
    (void)state;
    static char text[20000];
    dct_packfile_result r;
    dct_err err;
    size_t n = (size_t)snprintf(text, sizeof text, "id,lower,upper,size\n");
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t begin = i * 7919 % 500;
        n += (size_t)snprintf(text + n, sizeof text - n, "%u,%u,%u,%u\n", i, begin, begin + 3 + i * 31 % 67, 1000 + i * 613 % 9973);
    }
    dct_packfile_capacity capacity = {.bytes = 1};
    dct_packfile_params params = {.path = write_problem(text), .nodes = 1};
    assert_int_equal(dct_packfile(&params, &r, &err), DCT_OK);
    capacity.bytes = r.bound;
    params.capacities = &capacity;
    params.n_capacities = 1;
    assert_true(r.height > r.bound);
    assert_int_equal(dct_packfile(&params, &r, &err), DCT_NO_FIT);
    snprintf(text, sizeof text, "the best found takes %llu bytes; the load is %llu; the capacity is %llu",
             (unsigned long long)r.height, (unsigned long long)r.load, (unsigned long long)capacity.bytes);
    assert_non_null(strstr(err.message, text));
}

static void what_is_over_its_capacity_is_not_written(void **state) {
    (void)state;
    static const char text[] = "id,lower,upper,size,offset\na,0,4,4,8\nb,0,4,4,0\nc,2,6,8,\n";
    dct_packfile_result r;
    dct_err err;
    remove(ANSWER);
    remove(PICTURE);
    const dct_packfile_capacity capacity = {.bytes = 18};
    dct_packfile_params params = {.path = write_problem(text), .output = ANSWER, .svg = PICTURE,
                                  .capacities = &capacity, .n_capacities = 1};
    assert_int_equal(dct_packfile(&params, &r, &err), DCT_NO_FIT);
    for (uint32_t i = 0; i < 2; i++) assert_null(fopen(i == 0 ? params.output : params.svg, "rb"));
    const dct_packfile_capacity enough = {.bytes = 20};
    params.capacities = &enough;
    assert_int_equal(dct_packfile(&params, &r, &err), DCT_OK);
    for (uint32_t i = 0; i < 2; i++) {
        FILE *f = fopen(i == 0 ? params.output : params.svg, "rb");
        assert_non_null(f);
        fclose(f);
    }
}

static void wrong_files_are_named(void **state) {
    (void)state;
    static const struct { const char *text, *says; } cases[] = {
        {"", "empty"},
        {"id,lower,upper\n1,2,3\n", "'size' is missing"},
        {"\nid,lower,upper,size,color\n", "line 2: column 'color' is unknown"},
        {"id,lower,upper,size,size\n", "line 1: column 'size' stands twice: column 4"},
        {"id,lower,upper,size,start\n", "column 'start' stands twice: column 2 says 'lower'"},
        {"id,start,end,size,gaps\na,0,9,1,1-4294967295\n", "a gap's end"},
        {"id,lower,upper,size\na,0,2\n", "4 fields"},
        {"lower,upper,size,id\n0,2,3\n", "line 2: it has not 4 fields"},
        {"id,lower,upper,size\na,0,2,3,4\n", "4 fields"},
        {"id,lower,upper,size\r\n\r\na,0,2,4\r\n\r\n\r\nb,0,2,x\r\n", "line 6, item 'b': size 'x'"},
        {"id,lower,upper,size\na,0,2,\n", "size ''"},
        {"id,lower,upper,size\na,0,4294967296,1\n", "upper"},
        {"id,lower,upper,size\na,0,2,99999999999999999999\n", "size"},
        {"id,lower,upper,size\na,2,2,1\n", "not under"},
        {"id,lower,upper,size,alignment\na,0,2,1,3\n", "power of two"},
        {"id,lower,upper,size,gaps\na,0,9,1,3-2\n", "no part"},
        {"id,lower,upper,size,gaps\na,0,9,1,1-3 2-4\n", "not after"},
        {"id,lower,upper,size,gaps\na,0,9,1,1-10\n", "no part"},
        {"id,lower,upper,size,gaps\na,0,9,4,1-3@0:5\n", "no part"},
        {"id,lower,upper,size,gaps\na,0,9,4,1\n", "gap's end"},
        {"id,lower,upper,size,gaps\na,0,9,4,1-3@2\n", "high byte"},
        {"id,lower,upper,size,alias\na,0,2,1,b\nb,0,2,1,\n", "alias 'b' is not the id of one line above"},
        {"id,lower,upper,size,alias\na,0,2,1,a\n", "not the id"},
        {"id,lower,upper,size,alias\na,0,2,4,\na,0,2,4,\nb,0,2,1,a\n", "not the id"},
        {"id,lower,upper,size,alias\na,0,2,4,\nb,0,2,1,a@x\n", "alias's byte 'x'"},
        {"id,lower,upper,size,alias\na,0,2,4,\nb,0,2,2,a@3\n", "not so many bytes"},
        {"id,lower,upper,size,alias\na,0,2,4,\nb,0,2,2,a@18446744073709551615\n", "not so many bytes"},
        {"id,lower,upper,size,alias,alignment\na,0,2,4,,\nb,0,2,2,a@1,2\n", "its alignment forbids"},
        {"id,lower,upper,size,alias,offset\na,0,2,4,,8\nb,0,2,2,a@1,10\n", "fixed elsewhere"},
        {"id,lower,upper,size,alias,offset\na,0,2,4,,\nb,0,2,2,a@1,0\n", "fixed elsewhere"},
        {"id,lower,upper,size,alias,pool\na,0,2,4,,p\nb,0,2,2,a,q\n", "another pool"},
        {"id,lower,upper,size,pool,offset\na,0,2,4,p,0\nb,0,2,4,q,0\nc,0,2,4,q,2\n", "pool 'q': item 1 is fixed over"},
        {"id,lower,upper,size\na,0,2,9223372036854775807\nb,0,1,9223372036854775807\n", "add up"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dct_packfile_result r;
        dct_err err;
        assert_int_equal(pack(cases[i].text, 0, &r, &err), DCT_BAD_FILE);
        if (strstr(err.message, cases[i].says) == NULL) fail_msg("case %zu: '%s'", i, err.message);
    }
    dct_packfile_result r;
    dct_err err;
    dct_packfile_params missing = {.path = "no such file.csv"};
    assert_int_not_equal(dct_packfile(&missing, &r, &err), DCT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_problem_is_solved),
        cmocka_unit_test(columns_may_stand_in_any_order),
        cmocka_unit_test(gaps_are_used),
        cmocka_unit_test(values_that_shrink_give_bytes_away),
        cmocka_unit_test(each_pool_is_packed_by_itself),
        cmocka_unit_test(sums_of_pools_do_not_wrap),
        cmocka_unit_test(capacities_are_of_pools),
        cmocka_unit_test(aliases_lie_in_the_bytes_that_they_name),
        cmocka_unit_test(small_files_are_as_low_as_can_be),
        cmocka_unit_test(many_aliases_hold_what_lies_between),
        cmocka_unit_test(many_aliases_take_no_long_time),
        cmocka_unit_test(the_older_form_includes_its_end),
        cmocka_unit_test(the_picture_shows_every_item),
        cmocka_unit_test(an_answer_is_its_own_answer),
        cmocka_unit_test(a_clock_ends_the_search),
        cmocka_unit_test(a_capacity_that_is_too_small_names_both),
        cmocka_unit_test(what_is_not_proven_is_not_said),
        cmocka_unit_test(what_is_over_its_capacity_is_not_written),
        cmocka_unit_test(wrong_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
