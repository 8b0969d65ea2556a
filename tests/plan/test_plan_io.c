/* Plan files: there and back, cut, flipped, and hostile; of one context, and of a family. */
#include "compile/compile_support.h"

enum { HASH_AT = 16, HASHED_FROM = 24, HEADER_BYTES = 32, N_SMALLER = 2 };

typedef struct file {
    subject s;
    dct_arena arena;
    dct_plan *plan;
    uint8_t *bytes;
    uint64_t n;
} file;

static void nowhere(void *ctx, const char *text, size_t n) {
    (void)text;
    *(uint64_t *)ctx += n;
}

static uint64_t save(const dct_plan *plan, dct_arena *arena, uint8_t **out) {
    uint64_t n, again;
    dct_err err;
    assert_int_equal(dct_plan_save(plan, NULL, 0, &n, &err), DCT_OK);
    *out = dct_arena_alloc(arena, n);
    assert_int_equal(dct_plan_save(plan, *out, n - 1, &again, &err), DCT_USAGE); /* one byte short */
    assert_int_equal(dct_plan_save(plan, *out, n, &again, &err), DCT_OK);
    assert_int_equal(again, n);
    return n;
}

static void open_file(file *f, uint32_t n_smaller) {
    gguf_tiny tiny = gguf_tiny_default("qwen3", DCT_TYPE_Q8_0);
    tiny.n_layer = 1;
    gguf_build_tiny(&f->s.build, &tiny);
    subject_open(&f->s);
    dct_arena_init(&f->arena, 0);
    dct_compile_params params = params_of(&f->s, 64, 16, 8, 2);
    f->plan = n_smaller > 0 ? compile_family(&params, n_smaller, &f->arena) : compile_ok(&params, &f->arena);
    f->n = save(f->plan, &f->arena, &f->bytes);
}

static void close_file(file *f) {
    dct_arena_deinit(&f->arena);
    subject_close(&f->s);
}

static dct_status load(const void *bytes, uint64_t n, dct_arena *arena, dct_plan **plan) {
    dct_err err = {0};
    dct_arena_init(arena, UINT64_C(64) << 20);
    dct_status status = dct_plan_load(bytes, n, arena, plan, &err);
    if (status != DCT_OK) assert_true(err.message[0] != '\0');
    return status;
}

/* Makes the hash right again, so that a change reaches the checks behind it. */
static void sign(uint8_t *bytes, uint64_t n) {
    uint64_t hash = dct_hash_mix(dct_hash_bytes(DCT_HASH_SEED, bytes + HASHED_FROM, n - HASHED_FROM));
    for (int i = 0; i < 8; i++) bytes[HASH_AT + i] = (uint8_t)(hash >> (8 * i));
}

static void expect_same_member(const dct_plan *loaded, const dct_plan *plan) {
    assert_int_equal(loaded->bounds.n_ctx, plan->bounds.n_ctx);
    assert_int_equal(loaded->n_phases, plan->n_phases);
    for (uint32_t i = 0; i < loaded->n_phases; i++) {
        dct_err err;
        assert_int_equal(dct_graph_check(&loaded->phases[i].graph, &err), DCT_OK);
        for (dct_value_id v = 0; v < loaded->phases[i].graph.n_values; v++) {
            dct_place got = loaded->phases[i].places[v], want = plan->phases[i].places[v];
            assert_true(got.region == want.region && got.offset == want.offset);
        }
    }
}

static void check_there_and_back(uint32_t n_smaller) {
    file f;
    open_file(&f, n_smaller);
    dct_arena arena;
    dct_plan *loaded = NULL;
    assert_int_equal(load(f.bytes, f.n, &arena, &loaded), DCT_OK);
    uint8_t *again;
    assert_int_equal(save(loaded, &arena, &again), f.n);
    assert_memory_equal(again, f.bytes, f.n);
    assert_string_equal(loaded->arch, "qwen3");
    assert_int_equal(loaded->m_max_bytes, f.plan->m_max_bytes);
    assert_int_equal(loaded->n_smaller, n_smaller);
    for (uint32_t m = 0; m < dct_plan_n_members(loaded); m++) expect_same_member(dct_plan_member(loaded, m), dct_plan_member(f.plan, m));
    dct_arena_deinit(&arena);
    close_file(&f);
}

static void there_and_back(void **state) {
    (void)state;
    check_there_and_back(0);
    check_there_and_back(N_SMALLER);
}

static void expect_refused(const void *bytes, uint64_t n) {
    dct_arena arena;
    dct_plan *loaded = NULL;
    assert_int_equal(load(bytes, n, &arena, &loaded), DCT_BAD_FILE);
    assert_null(loaded);
    dct_arena_deinit(&arena);
}

/* As it is, which its header tells; and with a header made right, so that the walk comes to the end: at every third byte, of a
 * family, which is long, at every 29th. tests/fuzz goes on from here. */
static void every_truncation_is_refused(void **state) {
    (void)state;
    for (uint32_t n_smaller = 0; n_smaller <= N_SMALLER; n_smaller += N_SMALLER) {
        file f;
        open_file(&f, n_smaller);
        for (uint64_t n = 0; n < f.n; n++) expect_refused(f.bytes, n);
        for (uint64_t n = f.n - 1; n >= HEADER_BYTES; n -= n_smaller > 0 ? 29 : 3) {
            for (int i = 0; i < 8; i++) f.bytes[HASHED_FROM + i] = (uint8_t)(n >> (8 * i));
            sign(f.bytes, n);
            expect_refused(f.bytes, n);
        }
        close_file(&f);
    }
}

static void flip_every_byte(uint32_t n_smaller) {
    file f;
    open_file(&f, n_smaller);
    for (uint64_t i = 0; i < f.n; i++) {
        dct_arena arena;
        dct_plan *loaded = NULL;
        f.bytes[i] = (uint8_t)(f.bytes[i] ^ 1u << (i % 8));
        assert_int_equal(load(f.bytes, f.n, &arena, &loaded), DCT_BAD_FILE);
        f.bytes[i] = (uint8_t)(f.bytes[i] ^ 1u << (i % 8));
        dct_arena_deinit(&arena);
    }
    close_file(&f);
}

static void every_flipped_byte_is_refused(void **state) {
    (void)state;
    flip_every_byte(0);
    flip_every_byte(N_SMALLER);
}

/* What may be done with a plan before it was verified, a part of it each time. */
static void use(const dct_plan *plan, uint64_t which) {
    uint64_t printed = 0;
    dct_err err;
    dct_arena arena;
    dct_arena_init(&arena, 0);
    switch (which % 16) {
    case 0: assert_int_equal(dct_plan_dump_text(plan, nowhere, &printed, NULL), DCT_OK); break;
    case 1: assert_int_equal(dct_plan_dump_svg(plan, DCT_PHASE_DECODE, nowhere, &printed, NULL), DCT_OK); break;
    case 2: assert_int_equal(dct_plan_dump_html(plan, nowhere, &printed, NULL), DCT_OK); break;
    case 3: assert_int_equal(dct_plan_dump_diff(plan, plan, &arena, nowhere, &printed, &err), DCT_OK); break;
    default: break;
    }
    for (uint32_t m = 0; m < dct_plan_n_members(plan); m++) {
        const dct_plan *member = dct_plan_member(plan, m);
        dct_plan_lives lives;
        for (uint32_t p = 0; p < member->n_phases; p++)
            assert_int_equal(dct_plan_find_lives(&member->phases[p], &arena, &lives, &err), DCT_OK);
    }
    dct_arena_deinit(&arena);
}

/* A forged plan, signed anew: refused, or good enough that nothing that prints or looks up runs wild. */
static void forge(uint32_t n_smaller) {
    file f;
    open_file(&f, n_smaller);
    static const uint8_t patterns[] = {0x00, 0xff, 0x80, 0x01};
    uint32_t refused = 0, taken = 0;
    for (uint64_t i = HASHED_FROM; i < f.n; i += n_smaller > 0 ? 11 : 1) {
        uint8_t before = f.bytes[i];
        f.bytes[i] ^= patterns[i % 4] != 0 ? patterns[i % 4] : 0x40;
        sign(f.bytes, f.n);
        dct_arena arena;
        dct_plan *loaded = NULL;
        if (load(f.bytes, f.n, &arena, &loaded) == DCT_OK) {
            use(loaded, i);
            taken++;
        } else {
            refused++;
        }
        dct_arena_deinit(&arena);
        f.bytes[i] = before;
    }
    assert_true(refused > (refused + taken) / 4);
    assert_true(taken > 0);
    close_file(&f);
}

static void forged_plans_are_harmless(void **state) {
    (void)state;
    forge(0);
    forge(N_SMALLER);
}

/* One field of a good plan made wrong: the writer, which walks the same fields as the reader, refuses it. More than a plan holds is
 * what the caller's graph has too much of. */
static void ranges_are_checked(void **state) {
    (void)state;
    for (int what = 0; what < 20; what++) {
        file f;
        open_file(&f, N_SMALLER);
        dct_phase *p = &f.plan->phases[1];
        uint32_t step = p->n_steps - 1;
        switch (what) {
        case 0: p->graph.values[4].alias_of = 4; break;
        case 1: p->graph.values[4].alias_of = 5; break;
        case 2: p->graph.ops[1].in[0] = p->graph.n_values; break;
        case 3: p->graph.ops[1].out[0] = p->graph.n_values; break;
        case 4: p->graph.ops[1].n_in = DCT_OP_MAX_IN + 1; break;
        case 5: p->graph.values[p->graph.ops[0].out[0]].producer = p->graph.n_ops; break;
        case 6: p->steps[step].ops[0] = p->graph.n_ops; break;
        case 7: p->steps[step].wait_begin = p->n_waits; p->steps[step].n_waits = 1; break;
        case 8: p->scratch[0] = p->graph.n_values; break;
        case 9: p->cert.values[0] = p->graph.n_values; break;
        case 10: p->graph.ids = p->graph.n_values; break;
        case 11: p->steps[step].n_ops = 0; break;
        case 12: f.plan->n_items = 2 * 1024 + 1; break; /* more than any model needs */
        case 13: f.plan->n_weights = 32 * 1024 + 1; break;
        case 14: p->graph.n_values = 64 * 1024 + 1; break;
        case 15: p->graph.n_ops = 32 * 1024 + 1; break;
        case 16: p->n_steps = p->graph.n_ops + 1; break;
        case 17: p->n_waits = 128 * 1024 + 1; break;
        case 18: f.plan->n_smaller = DCT_PLAN_MAX_SMALLER + 1; break;
        case 19: f.plan->smaller[1].phases[0].graph.values[4].alias_of = 4; break;
        }
        uint64_t n;
        dct_err err;
        bool is_much = (what >= 12 && what <= 15) || what == 17;
        assert_int_equal(dct_plan_save(f.plan, NULL, 0, &n, &err), is_much ? DCT_NO_FIT : DCT_BUG);
        assert_non_null(strstr(err.message, is_much ? "a plan holds" : "cannot be written"));
        close_file(&f);
    }
}

/* What only the reader looks at: a place outside its region. The bytes of the file that differ are the place's offset. */
static void places_are_checked(void **state) {
    (void)state;
    file f;
    uint8_t *changed;
    open_file(&f, 0);
    dct_phase *p = &f.plan->phases[1];
    dct_place *place = &p->places[p->graph.ops[0].out[0]];
    uint64_t before = place->offset;
    for (int is_outside = 0; is_outside <= 1; is_outside++) {
        place->offset = f.plan->region_bytes[place->region] + (is_outside ? 64 : 0);
        assert_int_equal(save(f.plan, &f.arena, &changed), f.n);
        dct_arena arena;
        dct_plan *loaded = NULL;
        if (is_outside) expect_refused(changed, f.n);
        else assert_int_equal(load(changed, f.n, &arena, &loaded), DCT_OK); /* the verifier asks whether the value has room */
        if (!is_outside) dct_arena_deinit(&arena);
    }
    place->offset = before;
    close_file(&f);
}

/* Numbers that no machine has: pictures of them end. */
static void pictures_end(void **state) {
    (void)state;
    static const uint64_t heights[] = {UINT64_C(17568327689247192015), UINT64_MAX, UINT64_MAX - 1, 0};
    file f;
    open_file(&f, 0);
    for (int i = 0; i < 4; i++) {
        uint64_t printed = 0;
        f.plan->phases[1].cert.height_bytes = heights[i];
        f.plan->bounds.threads = i == 3 ? UINT32_MAX : 2;
        for (uint32_t k = 0; k < f.plan->n_phases; k++)
            assert_int_equal(dct_plan_dump_svg(f.plan, f.plan->phases[k].kind, nowhere, &printed, NULL), DCT_OK);
        assert_true(printed > 1000);
    }
    close_file(&f);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    file f;
    open_file(&f, N_SMALLER);
    for (uint64_t k = 1;; k++) {
        dct_arena arena;
        dct_arena_init(&arena, 0);
        arena.fail_at = k;
        dct_plan *loaded = NULL;
        dct_err err;
        dct_status status = dct_plan_load(f.bytes, f.n, &arena, &loaded, &err);
        bool reached = arena.n_allocs >= k;
        dct_arena_deinit(&arena);
        if (!reached) break;
        assert_int_equal(status, DCT_NO_FIT);
        assert_null(loaded);
    }
    close_file(&f);
}

static void foreign_files_are_named(void **state) {
    (void)state;
    dct_arena arena;
    dct_plan *loaded = NULL;
    dct_err err;
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_plan_load("GGUF and more than thirty-two bytes", 35, &arena, &loaded, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "not a plan file"));
    uint8_t future[32] = "DCTMPLAN\x03";
    assert_int_equal(dct_plan_load(future, sizeof future, &arena, &loaded, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "version 3"));
    dct_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),       cmocka_unit_test(every_truncation_is_refused), cmocka_unit_test(every_flipped_byte_is_refused),
        cmocka_unit_test(forged_plans_are_harmless), cmocka_unit_test(ranges_are_checked), cmocka_unit_test(places_are_checked),
        cmocka_unit_test(pictures_end), cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(foreign_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
