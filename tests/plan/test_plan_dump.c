/* What people see. The text of small plans is compared with files that a reviewer reads as memory maps; DCT_UPDATE_GOLDEN=1 writes them anew. */
#include <stdlib.h>

#include "compile/compile_support.h"
#include "support/collect.h"

static dct_plan *small_plan(subject *s, const char *arch, dct_arena *arena) {
    gguf_tiny tiny = gguf_tiny_default(arch, DCT_TYPE_Q8_0);
    tiny.n_layer = 1;
    gguf_build_tiny(&s->build, &tiny);
    subject_open(s);
    s->model.fingerprint = 0;
    dct_arena_init(arena, 0);
    dct_compile_params params = params_of(s, 64, 16, 8, 2);
    return compile_ok(&params, arena);
}

static void compare_with(const char *path, const collected *c) {
    if (getenv("DCT_UPDATE_GOLDEN") != NULL) {
        FILE *out = fopen(path, "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(c->text, 1, c->n, out), c->n);
        fclose(out);
    }
    FILE *in = fopen(path, "rb");
    if (in == NULL) fail_msg("%s is missing", path);
    char *expected = malloc(c->n + 2);
    assert_non_null(expected);
    size_t n = fread(expected, 1, c->n + 1, in);
    fclose(in);
    expected[n] = '\0';
    if (n != c->n || memcmp(expected, c->text, n) != 0) {
        size_t at = 0;
        while (at < n && at < c->n && expected[at] == c->text[at]) at++;
        fail_msg("%s differs at byte %zu: expected '%.60s', got '%.60s'", path, at, expected + at, c->text + at);
    }
    free(expected);
}

static void small_plans_read_as_before(void **state) {
    (void)state;
    static const char *const families[] = {"llama", "qwen3", "gemma2", "phi3"};
    for (size_t i = 0; i < 4; i++) {
        subject s;
        dct_arena arena;
        collected c = {0};
        char path[512];
        dct_plan *plan = small_plan(&s, families[i], &arena);
        assert_int_equal(dct_plan_dump_text(plan, collect, &c, NULL), DCT_OK);
        snprintf(path, sizeof path, "%s/tests/plan/golden/%s.txt", DCT_SOURCE_DIR, families[i]);
        compare_with(path, &c);
        free(c.text);
        dct_arena_deinit(&arena);
        subject_close(&s);
    }
}

static uint32_t count(const char *text, const char *part) {
    uint32_t n = 0;
    for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part)) n++;
    return n;
}

static void the_picture_shows_every_buffer(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    collected c = {0};
    dct_plan *plan = small_plan(&s, "llama", &arena);
    snprintf(plan->model_name, sizeof plan->model_name, "<b>&\"x\"");
    const dct_phase *p = dct_plan_phase(plan, DCT_PHASE_DECODE);
    snprintf(p->graph.values[p->cert.values[0]].name, DCT_NAME_BYTES, "a<b");
    uint32_t boxes = 0;
    for (dct_value_id v = 0; v < p->graph.n_values; v++) boxes += p->graph.values[v].kind == DCT_KIND_INTERMEDIATE && p->graph.values[v].alias_of == DCT_NONE;
    assert_int_equal(dct_plan_dump_svg(plan, DCT_PHASE_DECODE, collect, &c, NULL), DCT_OK);
    assert_int_equal(strncmp(c.text, "<svg ", 5), 0);
    assert_string_equal(c.text + c.n - 7, "</svg>\n");
    assert_int_equal(count(c.text, "<title>"), boxes + p->n_steps);
    assert_int_equal(count(c.text, "<title>step "), p->n_steps);
    assert_int_equal(count(c.text, "<rect "), boxes + p->n_steps + DCT_REGION_COUNT + 1 + 5 + 3); /* background, legend */
    assert_int_equal(count(strstr(c.text, " d=\""), "M"), p->n_waits);
    assert_int_equal(count(c.text, ">worker "), 2);
    assert_int_equal(count(c.text, "&lt;b&gt;&amp;&quot;x&quot;"), 1);
    assert_int_equal(count(c.text, "a&lt;b"), 1);
    assert_int_equal(count(c.text, "stroke-dasharray"), 1);
    assert_int_equal(count(c.text, "<text"), count(c.text, "</text>"));
    free(c.text);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

/* Of a family: a bar for the caches and one for the intermediates of each member, and the picture of each. */
static void the_picture_shows_every_member(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    collected alone = {0}, all = {0};
    dct_plan *plan = small_plan(&s, "llama", &arena);
    dct_compile_params params = params_of(&s, 64, 16, 8, 2);
    dct_plan *family = compile_family(&params, 2, &arena);
    assert_int_equal(dct_plan_dump_svg(plan, DCT_PHASE_PREFILL, collect, &alone, NULL), DCT_OK);
    assert_int_equal(dct_plan_dump_svg(family, DCT_PHASE_PREFILL, collect, &all, NULL), DCT_OK);
    uint32_t n_rects = count(alone.text, "<rect ");
    assert_int_equal(count(all.text, "<rect "), 3 * n_rects + 3 * 2 - 2 * (DCT_REGION_COUNT + 1)); /* one envelope, one background */
    assert_int_equal(count(all.text, "stroke-dasharray"), 3);
    assert_int_equal(count(all.text, "<g "), 3);
    assert_int_equal(count(all.text, "<g "), count(all.text, "</g>"));
    assert_int_equal(count(all.text, "<svg "), 1);
    static const char *const told[] = {", context 16: arena of phase prefill, 8 rows", ", context 32: arena of phase prefill, 16 rows",
                                       ", context 64: arena of phase prefill, 8 rows", "context 16, ubatch 8: ", "context 64, ubatch 8: "};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) assert_int_equal(count(all.text, told[i]), 1);
    free(alone.text);
    free(all.text);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

/* The next box of a value or step, up to its colour; NULL behind the last. */
static const char *next_box(const char *at) {
    while (at != NULL && (at = strstr(at + 1, "<rect ")) != NULL) {
        if (strncmp(strchr(at, '>'), "><title>", 8) == 0) break;
    }
    return at;
}

/* Where decode may overlap its packing begins further on, and is drawn as large as it is. */
static void the_picture_of_a_part(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    collected off = {0}, on = {0};
    dct_plan *plan = small_plan(&s, "llama", &arena);
    dct_compile_params params = params_of(&s, 64, 16, 8, 2);
    params.bounds.overlap = true;
    assert_int_equal(dct_plan_dump_svg(plan, DCT_PHASE_DECODE, collect, &off, NULL), DCT_OK);
    assert_int_equal(dct_plan_dump_svg(compile_ok(&params, &arena), DCT_PHASE_DECODE, collect, &on, NULL), DCT_OK);
    const char *a = next_box(off.text), *b = next_box(on.text);
    for (; a != NULL && b != NULL; a = next_box(a), b = next_box(b)) {
        assert_int_equal(strcspn(a, "#"), strcspn(b, "#"));
        assert_memory_equal(a, b, strcspn(a, "#"));
    }
    assert_true(a == NULL && b == NULL);
    assert_int_equal(count(off.text, "arena offset in the phase's part"), 0);
    assert_int_equal(count(on.text, "arena offset in the phase's part"), 1);
    assert_int_equal(count(on.text, ", where decode may overlap"), 1);
    free(off.text);
    free(on.text);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

/* The text has every phase of every member, and one envelope. */
static void the_text_has_every_member(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    collected c = {0};
    small_plan(&s, "llama", &arena);
    dct_compile_params params = params_of(&s, 64, 16, 8, 2);
    assert_int_equal(dct_plan_dump_text(compile_family(&params, 2, &arena), collect, &c, NULL), DCT_OK);
    assert_int_equal(count(c.text, "\nphase prefill, "), 3);
    assert_int_equal(count(c.text, "\nphase decode, "), 3);
    assert_int_equal(count(c.text, "total (M_max)"), 1);
    assert_int_equal(count(c.text, "\nitems "), 1);
    assert_int_equal(count(c.text, "---- context 16 = 12 in + 4 out, ubatch 8 ----\n"), 1);
    assert_int_equal(count(c.text, "\n16       prefill "), 1);
    assert_int_equal(count(c.text, "\n64       decode "), 1);
    free(c.text);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

/* The axis has a number for every n-th step; what labels and titles name must be found there. */
static void the_picture_counts_steps_only(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    collected c = {0};
    dct_plan *plan = small_plan(&s, "llama", &arena);
    const dct_phase *p = dct_plan_phase(plan, DCT_PHASE_DECODE);
    uint32_t with_load = 0, n_ops = 0;
    while (n_ops + p->steps[with_load].n_ops <= p->cert.op) n_ops += p->steps[with_load++].n_ops;
    assert_true(p->graph.n_ops > p->n_steps); /* else the two counts would be one */
    assert_int_equal(dct_plan_dump_svg(plan, DCT_PHASE_DECODE, collect, &c, NULL), DCT_OK);
    char label[64];
    snprintf(label, sizeof label, "reached in step %u<", with_load);
    assert_non_null(strstr(c.text, label));
    assert_null(strstr(c.text, " op "));
    uint32_t n_titles = 0, to;
    for (const char *at = c.text; (at = strstr(at, ", steps ")) != NULL; at++, n_titles++) {
        if (sscanf(at, ", steps %*u to %u</title>", &to) == 1) assert_true(to < p->n_steps);
        else assert_non_null(strstr(at, "</text>")); /* the heading */
    }
    assert_true(n_titles > 3);
    free(c.text);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

/* Every name that a file can set, set to what a terminal would obey. */
static void names_are_made_safe(void **state) {
    (void)state;
    static const char evil[] = "\x1b[31m\xc2\x9b\xe2\x80\xae\xff<";
    subject s;
    dct_arena arena;
    collected c = {0};
    dct_plan *plan = small_plan(&s, "llama", &arena);
    strcpy(plan->arch, evil);
    strcpy(plan->model_name, evil);
    for (uint32_t i = 0; i < plan->n_items; i++) strcpy(plan->items[i].name, evil);
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        strcpy(plan->phases[i].name, evil);
        for (dct_value_id v = 0; v < plan->phases[i].graph.n_values; v++) strcpy(plan->phases[i].graph.values[v].name, evil);
    }
    assert_int_equal(dct_plan_dump_text(plan, collect, &c, NULL), DCT_OK);
    assert_int_equal(dct_plan_dump_svg(plan, DCT_PHASE_DECODE, collect, &c, NULL), DCT_OK);
    for (size_t i = 0; i < c.n; i++) assert_true(c.text[i] == '\n' || (c.text[i] >= 0x20 && c.text[i] < 0x7f));
    assert_true(count(c.text, "\\u{1b}[31m\\u{9b}\\u{202e}\\xff<") > plan->n_items);
    free(c.text);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

static void the_table_has_the_columns(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    collected c = {0};
    dct_plan *plan = small_plan(&s, "llama", &arena);
    dct_plan_dump_table(plan, NULL, collect, &c);
    static const char *const words[] = {"weights", "kv", "persistent", "intermediate", "runtime", "total (M_max)", "bytes", "MiB", "load bytes", "height bytes", "optimal", "steps", "waits"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) assert_non_null(strstr(c.text, words[i]));
    char total[32];
    snprintf(total, sizeof total, "%llu", (unsigned long long)plan->m_max_bytes);
    assert_non_null(strstr(c.text, total));
    assert_null(strstr(c.text, "fits"));
    free(c.text);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

/* To the byte: what is needed is enough, a byte less is not, and headroom says so. */
static void the_table_tells_whether_it_fits(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    dct_plan *plan = small_plan(&s, "llama", &arena);
    for (uint64_t missing = 0; missing <= 1; missing++) {
        collected c = {0};
        char numbers[64];
        dct_plan_room room = {plan->m_max_bytes - missing, "cgroup v2 memory.max (/a)", 4096};
        dct_plan_dump_table(plan, &room, collect, &c);
        snprintf(numbers, sizeof numbers, "%14llu%14d\n", (unsigned long long)room.available_bytes, missing == 0 ? 0 : -1);
        assert_non_null(strstr(c.text, "available      headroom\n"));
        assert_non_null(strstr(c.text, numbers));
        assert_non_null(strstr(c.text, missing == 0 ? "fits     yes: " : "fits     no: "));
        assert_non_null(strstr(c.text, " are available (cgroup v2 memory.max (/a))"));
        free(c.text);
    }
    dct_arena_deinit(&arena);
    subject_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_plans_read_as_before),
        cmocka_unit_test(the_picture_shows_every_buffer),
        cmocka_unit_test(names_are_made_safe),
        cmocka_unit_test(the_table_has_the_columns),
        cmocka_unit_test(the_table_tells_whether_it_fits),
        cmocka_unit_test(the_picture_shows_every_member), cmocka_unit_test(the_picture_of_a_part), cmocka_unit_test(the_text_has_every_member),
        cmocka_unit_test(the_picture_counts_steps_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
