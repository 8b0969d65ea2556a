/* The eleven public problems (MiniMalloc's challenging set), each within its capacity; the packings are judged here, pair by
 * pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compile/compile.h"

enum { MAX_ITEMS = 500 };

static uint32_t read_problem(char name, dct_pack_item *items) {
    const char *root = getenv("DCTMS_SHARED");
    char path[4096], line[256];
    snprintf(path, sizeof path, "%s/data/static-allocation/%c.1048576.csv", root != NULL ? root : DCT_SOURCE_DIR "/../shared",
             name);
    FILE *f = fopen(path, "rb");
    if (f == NULL) return 0;
    uint32_t n = 0;
    assert_non_null(fgets(line, sizeof line, f)); /* the heading */
    while (fgets(line, sizeof line, f) != NULL) {
        unsigned id, lower, upper, size;
        assert_true(n < MAX_ITEMS && sscanf(line, "%u,%u,%u,%u", &id, &lower, &upper, &size) == 4);
        items[n++] = (dct_pack_item){.size = size, .align = 1, .begin = lower, .end = upper};
    }
    fclose(f);
    return n;
}

static void validate(const dct_pack_item *items, uint32_t n, uint64_t capacity) {
    for (uint32_t i = 0; i < n; i++) {
        const dct_pack_item *a = &items[i];
        assert_true(a->offset + a->size <= capacity);
        for (uint32_t j = 0; j < i; j++) {
            const dct_pack_item *b = &items[j];
            bool together = a->begin < b->end && b->begin < a->end;
            assert_false(together && a->offset < b->offset + b->size && b->offset < a->offset + a->size);
        }
    }
}

/* Nodes stand for time: all eleven take some 12,000, half a second. */
static void all_fit_their_capacity(void **state) {
    (void)state;
    static dct_pack_item items[MAX_ITEMS];
    uint64_t nodes = 0;
    for (char name = 'A'; name <= 'K'; name++) {
        uint32_t n = read_problem(name, items);
        if (n == 0) skip(); /* the data may not be committed */
        dct_arena arena;
        dct_arena_init(&arena, 0);
        dct_pack_result r;
        dct_err err;
        assert_int_equal(dct_pack(items, n, NULL, &(dct_pack_params){.capacity = 1048576, .nodes = 20000}, &arena, &r, &err),
                         DCT_OK);
        if (r.height > 1048576) fail_msg("%c: %llu", name, (unsigned long long)r.height);
        validate(items, n, 1048576);
        if (name != 'D' && name != 'J')
            assert_true(r.optimal && r.height == r.load); /* their loads are lower than the capacity */
        nodes += r.nodes;
        dct_arena_deinit(&arena);
    }
    assert_true(nodes < 30000);
}

/* With the least height wanted: within 1 percent of the loads, as a geometric mean. 1.01 to the eleventh is 1.1157. */
static void heights_are_near_the_loads(void **state) {
    (void)state;
    static dct_pack_item items[MAX_ITEMS];
    double product = 1;
    for (char name = 'A'; name <= 'K'; name++) {
        uint32_t n = read_problem(name, items);
        if (n == 0) skip();
        dct_arena arena;
        dct_arena_init(&arena, 0);
        dct_pack_result r;
        dct_err err;
        assert_int_equal(dct_pack(items, n, NULL, &(dct_pack_params){.nodes = 30000}, &arena, &r, &err), DCT_OK);
        validate(items, n, r.height);
        product *= (double)r.height / (double)r.load;
        dct_arena_deinit(&arena);
    }
    assert_true(product < 1.1157);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_fit_their_capacity), cmocka_unit_test(heights_are_near_the_loads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
