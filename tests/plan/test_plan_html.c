/* The page of a plan: its data are the plan's, whatever names a model file has, and the markup around them holds. */
#include <jansson.h>

#include "compile/compile_support.h"
#include "support/collect.h"

static dct_plan *small_plan(subject *s, dct_arena *arena) {
    gguf_tiny tiny = gguf_tiny_default("qwen3", DCT_TYPE_Q8_0);
    gguf_build_tiny(&s->build, &tiny);
    subject_open(s);
    dct_arena_init(arena, 0);
    dct_compile_params params = params_of(s, 64, 16, 8, 3);
    return compile_ok(&params, arena);
}

/* The JSON in the page, which ends where a browser ends the element. */
static json_t *data_of(const char *text) {
    static const char open[] = "<script type=\"application/json\" id=\"plan\">";
    const char *from = strstr(text, open);
    assert_non_null(from);
    from += strlen(open);
    const char *to = strstr(from, "</script");
    assert_non_null(to);
    json_error_t why;
    json_t *data = json_loadb(from, (size_t)(to - from), 0, &why);
    if (data == NULL) fail_msg("%s at %d", why.text, why.position);
    return data;
}

/* A plan and what its page holds. */
typedef struct page {
    subject s;
    dct_arena arena;
    dct_plan *plan;
    collected c;
    json_t *data;
} page;

static void page_open(page *p) {
    memset(p, 0, sizeof *p);
    p->plan = small_plan(&p->s, &p->arena);
    assert_int_equal(dct_plan_dump_html(p->plan, collect, &p->c, NULL), DCT_OK);
    p->data = data_of(p->c.text);
}

static void page_close(page *p) {
    json_decref(p->data);
    free(p->c.text);
    dct_arena_deinit(&p->arena);
    subject_close(&p->s);
}

static uint64_t whole(const json_t *number) {
    assert_true(json_is_integer(number));
    return (uint64_t)json_integer_value(number);
}

/* The cell of a row that the column of that name holds. */
static const json_t *cell(const json_t *owner, const char *columns, const json_t *row, const char *name) {
    const json_t *names = json_object_get(owner, columns);
    assert_int_equal(json_array_size(names), json_array_size(row));
    for (size_t i = 0; i < json_array_size(names); i++) {
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0) return json_array_get(row, i);
    }
    fail_msg("no column %s", name);
    return NULL;
}

static void sizes_add_up(void **state) {
    (void)state;
    page p;
    uint64_t total = 0;
    page_open(&p);
    const json_t *regions = json_object_get(p.data, "regions");
    assert_int_equal(json_array_size(regions), DCT_REGION_COUNT);
    for (size_t i = 0; i < DCT_REGION_COUNT; i++) {
        const json_t *region = json_array_get(regions, i), *items = json_object_get(region, "items");
        uint64_t sum = 0;
        for (size_t k = 0; k < json_array_size(items); k++) sum += whole(cell(p.data, "item_columns", json_array_get(items, k), "bytes"));
        assert_int_equal(sum, whole(json_object_get(region, "bytes")));
        total += sum;
    }
    assert_int_equal(total, p.plan->m_max_bytes);
    assert_int_equal(whole(json_object_get(p.data, "m_max_bytes")), p.plan->m_max_bytes);
    page_close(&p);
}

static uint32_t id_of(const json_t *number) {
    json_int_t id = json_integer_value(number);
    assert_true(json_is_integer(number) && id >= -1);
    return id < 0 ? DCT_NONE : (uint32_t)id;
}

static dct_value_id root_of(const dct_phase *p, dct_value_id v) {
    while (p->graph.values[v].alias_of != DCT_NONE) v = p->graph.values[v].alias_of;
    return v;
}

static bool is_used(const dct_phase *p, dct_op_id k, dct_value_id root) {
    const dct_op *op = &p->graph.ops[k];
    bool used = p->scratch[k] == root;
    for (uint32_t i = 0; i < op->n_in; i++) used = used || (op->in[i] != DCT_NONE && root_of(p, op->in[i]) == root);
    for (uint32_t i = 0; i < op->n_out; i++) used = used || (op->out[i] != DCT_NONE && root_of(p, op->out[i]) == root);
    return used;
}

/* The first or last op that touches the bytes of a value; DCT_NONE when none does. */
static dct_op_id use_of(const dct_phase *p, dct_value_id root, bool is_first) {
    dct_op_id found = DCT_NONE;
    for (dct_op_id k = 0; k < p->graph.n_ops; k++)
        if (is_used(p, k, root) && (!is_first || found == DCT_NONE)) found = k;
    return found;
}

static void compare_values(const json_t *data, const dct_phase *p) {
    const json_t *rows = json_object_get(data, "values");
    uint64_t load = 0;
    assert_int_equal(json_array_size(rows), p->graph.n_values);
    for (dct_value_id v = 0; v < p->graph.n_values; v++) {
        const dct_value *value = &p->graph.values[v];
        const json_t *row = json_array_get(rows, v);
        const dct_op_id first = use_of(p, root_of(p, v), true), last = use_of(p, root_of(p, v), false);
        assert_string_equal(json_string_value(cell(data, "value_columns", row, "name")), value->name);
        assert_int_equal(whole(cell(data, "value_columns", row, "bytes")), value->bytes);
        assert_int_equal(whole(cell(data, "value_columns", row, "offset")), p->places[root_of(p, v)].offset);
        assert_int_equal(id_of(cell(data, "value_columns", row, "alias_of")), value->alias_of);
        assert_int_equal(id_of(cell(data, "value_columns", row, "first")), first);
        assert_int_equal(id_of(cell(data, "value_columns", row, "last")), last);
        bool in_arena = p->places[v].region == DCT_REGION_ARENA;
        assert_int_equal(json_integer_value(cell(data, "value_columns", row, "paint")) >= 0, in_arena);
        if (in_arena && value->alias_of == DCT_NONE && first <= p->cert.op && p->cert.op <= last) load += value->bytes;
    }
    assert_int_equal(load, p->cert.load_bytes); /* lifetimes and sizes together are those of the certificate */
}

static void compare_steps(const json_t *data, const dct_phase *p) {
    const json_t *rows = json_object_get(data, "steps");
    uint32_t n_ops = 0, n_waits = 0;
    assert_int_equal(json_array_size(rows), p->n_steps);
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const json_t *row = json_array_get(rows, s), *waits = cell(data, "step_columns", row, "waits");
        n_ops += (uint32_t)json_array_size(cell(data, "step_columns", row, "ops"));
        assert_int_equal(json_array_size(waits), p->steps[s].n_waits);
        for (uint32_t i = 0; i < p->steps[s].n_waits; i++)
            assert_int_equal(id_of(json_array_get(waits, i)), p->waits[p->steps[s].wait_begin + i]);
        n_waits += p->steps[s].n_waits;
        assert_int_equal(whole(cell(data, "step_columns", row, "n_workers")), p->steps[s].n_workers);
    }
    assert_int_equal(n_ops, p->graph.n_ops);
    assert_int_equal(n_waits, whole(json_object_get(data, "waits")));
}

static void compare_phases(const json_t *member, const dct_plan *plan) {
    const json_t *phases = json_object_get(member, "phases");
    assert_int_equal(json_array_size(phases), plan->n_phases);
    assert_int_equal(whole(json_object_get(json_object_get(member, "bounds"), "ctx")), plan->bounds.n_ctx);
    assert_int_equal(whole(json_object_get(member, "kv_bytes")), plan->region_bytes[DCT_REGION_KV]);
    assert_int_equal(whole(json_object_get(member, "height_bytes")), dct_plan_arena_height(plan));
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        const json_t *shown = json_array_get(phases, i), *cert = json_object_get(shown, "certificate");
        const dct_phase *phase = &plan->phases[i];
        compare_values(shown, phase);
        compare_steps(shown, phase);
        assert_int_equal(json_array_size(json_object_get(shown, "ops")), phase->graph.n_ops);
        assert_int_equal(json_array_size(json_object_get(cert, "values")), phase->cert.n_values);
        assert_int_equal(whole(json_object_get(cert, "height")), phase->cert.height_bytes);
    }
}

static void every_value_and_step_is_there(void **state) {
    (void)state;
    page p;
    page_open(&p);
    compare_phases(p.data, p.plan);
    assert_int_equal(json_array_size(json_object_get(p.data, "smaller")), 0);
    page_close(&p);
}

static void every_member_is_there(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    collected c = {0};
    small_plan(&s, &arena);
    dct_compile_params params = params_of(&s, 64, 16, 8, 3);
    dct_plan *family = compile_family(&params, 2, &arena);
    assert_int_equal(dct_plan_dump_html(family, collect, &c, NULL), DCT_OK);
    json_t *data = data_of(c.text), *smaller = json_object_get(data, "smaller");
    compare_phases(data, family);
    assert_int_equal(json_array_size(smaller), 2);
    for (uint32_t i = 0; i < 2; i++) compare_phases(json_array_get(smaller, i), &family->smaller[i]);
    json_decref(data);
    free(c.text);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

/* ---- markup ---- */

typedef struct tags {
    char open[32][16];
    size_t depth;
    uint32_t n_scripts;
} tags;

static bool is_void(const char *name) {
    return strcmp(name, "meta") == 0 || strcmp(name, "input") == 0 || strcmp(name, "!DOCTYPE") == 0;
}

/* Reads the tag at p, and what is no markup behind it; returns what follows. */
static const char *take_tag(tags *t, const char *p) {
    char name[16];
    bool closes = p[1] == '/';
    size_t n = strcspn(p + 1 + closes, " >\n");
    assert_true(n > 0 && n < sizeof name);
    snprintf(name, sizeof name, "%.*s", (int)n, p + 1 + closes);
    const char *end = strchr(p, '>');
    assert_non_null(end);
    if (closes) {
        assert_true(t->depth > 0);
        assert_string_equal(t->open[--t->depth], name);
    } else if (!is_void(name)) {
        assert_true(t->depth < 32);
        strcpy(t->open[t->depth++], name);
    }
    if (closes || (strcmp(name, "script") != 0 && strcmp(name, "style") != 0)) return end + 1;
    t->n_scripts += strcmp(name, "script") == 0;
    const char *body_end = strstr(end, name[1] == 'c' ? "</script" : "</style");
    assert_non_null(body_end);
    return body_end;
}

static void check_markup(const char *text) {
    tags t = {.depth = 0};
    assert_int_equal(strncmp(text, "<!DOCTYPE html>\n<html", 21), 0);
    for (const char *p = text; (p = strchr(p, '<')) != NULL;) p = take_tag(&t, p);
    assert_int_equal(t.depth, 0);
    assert_int_equal(t.n_scripts, 4);
}

static uint32_t count(const char *text, const char *part) {
    uint32_t n = 0;
    for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part)) n++;
    return n;
}

/* Nothing is fetched: the policy forbids it, and no attribute or rule names a place. */
static void the_page_stands_alone(void **state) {
    (void)state;
    page p;
    page_open(&p);
    check_markup(p.c.text);
    assert_int_equal(count(p.c.text, "content=\"default-src 'none'; "), 1);
    static const char *const outside[] = {"src=", "href=", "url(", "@import", "http:", "https:", "//", "fetch(", "import(", "innerHTML"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        if (count(p.c.text, outside[i]) != 0) fail_msg("the page has %s", outside[i]);
    }
    page_close(&p);
}

/* Names that end a script, a title, a string, a comment; and come out as they went in. */
static void names_are_no_markup(void **state) {
    (void)state;
    static const char *const evil[] = {"</script><script>alert(1)//", "<!--<script>", "\"],\\\"}", "</title><img>&amp;", "a\\u003cb", "'</ScRiPt >"};
    subject s;
    dct_arena arena;
    dct_plan *plan = small_plan(&s, &arena);
    for (size_t k = 0; k < sizeof evil / sizeof *evil; k++) {
        collected c = {0};
        strcpy(plan->arch, evil[k]);
        strcpy(plan->model_name, evil[k]);
        for (uint32_t i = 0; i < plan->n_items; i++) strcpy(plan->items[i].name, evil[k]);
        for (uint32_t i = 0; i < plan->n_phases; i++) {
            assert_true(strlen(evil[k]) < DCT_NAME_BYTES);
            for (dct_value_id v = 0; v < plan->phases[i].graph.n_values; v++) strcpy(plan->phases[i].graph.values[v].name, evil[k]);
        }
        assert_int_equal(dct_plan_dump_html(plan, collect, &c, NULL), DCT_OK);
        check_markup(c.text);
        if (strpbrk(evil[k], "<\"") != NULL) assert_null(strstr(c.text, evil[k]));
        json_t *data = data_of(c.text);
        assert_string_equal(json_string_value(json_object_get(data, "name")), evil[k]);
        compare_values(json_array_get(json_object_get(data, "phases"), 0), &plan->phases[0]);
        json_decref(data);
        free(c.text);
    }
    dct_arena_deinit(&arena);
    subject_close(&s);
}

/* What is small for a model of 7 billion parameters opens at once. */
static void the_page_of_a_large_model_is_small(void **state) {
    (void)state;
    subject s;
    dct_arena arena;
    collected c = {0};
    subject_qwen(&s, &QWEN_7B);
    dct_arena_init(&arena, 0);
    dct_compile_params params = params_of(&s, 4096, 512, 512, 8);
    assert_int_equal(dct_plan_dump_html(compile_ok(&params, &arena), collect, &c, NULL), DCT_OK);
    assert_in_range(c.n, 100000, 500000); /* allowed are 1.5 MB */
    check_markup(c.text);
    json_decref(data_of(c.text));
    free(c.text);
    dct_arena_deinit(&arena);
    subject_close(&s);
}

static void same_plan_same_bytes(void **state) {
    (void)state;
    page a, b;
    page_open(&a);
    page_open(&b);
    assert_int_equal(a.c.n, b.c.n);
    assert_memory_equal(a.c.text, b.c.text, a.c.n);
    page_close(&a);
    page_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_add_up),
        cmocka_unit_test(every_value_and_step_is_there),
        cmocka_unit_test(every_member_is_there),
        cmocka_unit_test(the_page_stands_alone),
        cmocka_unit_test(names_are_no_markup),
        cmocka_unit_test(same_plan_same_bytes),
        cmocka_unit_test(the_page_of_a_large_model_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
