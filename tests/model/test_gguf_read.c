/* The GGUF reader: what it reads, of values of every kind, in both byte orders, from one file and from several (users.md U29, row
 * 18). test_gguf.c has what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/gguf_support.h"

/* --- values ------------------------------------------------------------------------------------------------------- */

static void put_one_of_each(gguf_build *b) {
    gguf_build_int(b, "u8", DCT_META_U8, 200);
    gguf_build_int(b, "i8", DCT_META_I8, (uint64_t)-3);
    gguf_build_int(b, "u16", DCT_META_U16, 60000);
    gguf_build_int(b, "i16", DCT_META_I16, (uint64_t)-300);
    gguf_build_u32(b, "u32", 4000000000u);
    gguf_build_i32(b, "i32", -70000);
    gguf_build_f32(b, "f32", 1.5f);
    gguf_build_bool(b, "bool", true);
    gguf_build_str(b, "str", "text");
    gguf_build_u64(b, "u64", UINT64_C(1) << 63);
    gguf_build_int(b, "i64", DCT_META_I64, (uint64_t)INT64_MIN);
    gguf_build_f64(b, "f64", -0.1);
    gguf_build_array_str(b, "strings", (const char *const[]){"a", "", "ccc"}, 3);
    gguf_build_array_i32(b, "ints", (const int32_t[]){-1, 2}, 2);
    gguf_build_array_f32(b, "floats", (const float[]){0.5f, -2}, 2);
    gguf_build_str(b, "empty", "");
}

static void single_values(const dct_model *m) {
    dct_err err;
    bool found;
    uint32_t u = 0;
    float f = 0;
    bool flag = false;
    dct_str s;
    assert_int_equal(dct_model_get_u32(m, "u8", &u, &found, &err), DCT_OK);
    assert_int_equal(u, 200);
    assert_int_equal(dct_model_get_u32(m, "u16", &u, &found, &err), DCT_OK);
    assert_int_equal(u, 60000);
    assert_int_equal(dct_model_get_u32(m, "u32", &u, &found, &err), DCT_OK);
    assert_int_equal(u, 4000000000u);
    assert_int_equal(dct_model_get_f32(m, "f32", &f, &found, &err), DCT_OK);
    assert_true(f == 1.5f);
    assert_int_equal(dct_model_get_f32(m, "f64", &f, &found, &err), DCT_OK);
    assert_true(f == -0.1f);
    assert_int_equal(dct_model_get_bool(m, "bool", &flag, &found, &err), DCT_OK);
    assert_true(found && flag);
    assert_int_equal(dct_model_get_str(m, "str", &s, &found, &err), DCT_OK);
    assert_true(dct_str_eq_z(s, "text"));
    assert_int_equal(dct_model_get_str(m, "empty", &s, &found, &err), DCT_OK);
    assert_int_equal(s.len, 0);
    assert_int_equal(dct_model_find_meta(m, "i8")->as.i, -3);
    assert_int_equal(dct_model_find_meta(m, "i16")->as.i, -300);
    assert_int_equal(dct_model_find_meta(m, "i32")->as.i, -70000);
    assert_true(dct_model_find_meta(m, "i64")->as.i == INT64_MIN);
    assert_true(dct_model_find_meta(m, "u64")->as.u == UINT64_C(1) << 63);
}

/* What is not there, not of that kind or not in its range leaves the caller's value as it was. */
static void values_that_do_not_fit(const dct_model *m) {
    dct_err err;
    bool found, flag = false;
    uint32_t u = 99;
    float f = 0;
    dct_str s;
    assert_int_equal(dct_model_get_u32(m, "absent", &u, &found, &err), DCT_OK);
    assert_true(!found && u == 99);
    assert_int_equal(dct_model_get_u32(m, "i8", &u, &found, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "'i8' is out of range"));
    assert_int_equal(dct_model_get_u32(m, "u64", &u, &found, &err), DCT_BAD_FILE);
    assert_int_equal(dct_model_get_u32(m, "str", &u, &found, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "'str' is of type string"));
    assert_int_equal(dct_model_get_f32(m, "u32", &f, &found, &err), DCT_BAD_FILE);
    assert_int_equal(dct_model_get_bool(m, "u8", &flag, &found, &err), DCT_BAD_FILE);
    assert_int_equal(dct_model_get_str(m, "ints", &s, &found, &err), DCT_BAD_FILE);
    assert_int_equal(u, 99);
}

static void arrays(const dct_model *m) {
    dct_str s;
    int64_t i;
    double d;
    uint64_t cursor = 0;
    const dct_meta *strings = dct_model_find_meta(m, "strings"), *ints = dct_model_find_meta(m, "ints"), *floats = dct_model_find_meta(m, "floats");
    assert_true(dct_meta_array_next_str(m, strings, &cursor, &s) && dct_str_eq_z(s, "a"));
    assert_true(dct_meta_array_next_str(m, strings, &cursor, &s) && s.len == 0);
    assert_true(dct_meta_array_next_str(m, strings, &cursor, &s) && dct_str_eq_z(s, "ccc"));
    assert_false(dct_meta_array_next_str(m, strings, &cursor, &s));
    assert_true(dct_meta_array_i64(m, ints, 0, &i) && i == -1);
    assert_true(dct_meta_array_f64(m, ints, 1, &d) && d == 2);
    assert_false(dct_meta_array_i64(m, ints, 2, &i));
    assert_false(dct_meta_array_i64(m, floats, 0, &i));
    assert_false(dct_meta_array_i64(m, strings, 0, &i));
    assert_true(dct_meta_array_f64(m, floats, 1, &d) && d == -2);
}

static void every_kind_of_value(void **state) {
    (void)state;
    for (int variant = 0; variant < 3; variant++) {
        gguf_build b;
        size_t n;
        dct_model m;
        dct_arena arena;
        dct_err err;
        gguf_build_init(&b, variant == 0 ? 2 : 3, variant == 2);
        put_one_of_each(&b);
        const uint8_t *image = gguf_build_image(&b, &n);
        dct_arena_init(&arena, 0);
        assert_int_equal(dct_model_open_bytes(&m, image, n, &arena, &err), DCT_OK);
        assert_int_equal(m.version, variant == 0 ? 2 : 3);
        assert_int_equal(m.big_endian, variant == 2);
        assert_false(m.data_missing);
        single_values(&m);
        values_that_do_not_fit(&m);
        arrays(&m);
        dct_arena_deinit(&arena);
        gguf_build_free(&b);
    }
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

/* The same weights in either byte order are the same weights in memory, whatever their type. */
static void byte_orders_agree(void **state) {
    (void)state;
    char path[2][512];
    for (int type = 0; type < DCT_TYPE_GGUF_COUNT; type++) {
        dct_model m[2];
        dct_arena arena[2];
        dct_err err;
        uint8_t data[2][4096];
        for (int e = 0; e < 2; e++) {
            gguf_build b;
            gguf_build_init(&b, 3, e == 1);
            gguf_build_random(&b, "w", (dct_dtype)type, 2, (uint64_t[]){256, 2}, 5, 0, 1);
            snprintf(path[e], sizeof path[e], "%s", temp_path(e == 0 ? "little" : "big"));
            gguf_build_save(&b, path[e]);
            gguf_build_free(&b);
            dct_arena_init(&arena[e], 0);
            assert_int_equal(dct_model_open(&m[e], path[e], &arena[e], &err), DCT_OK);
            const dct_tensor *t = dct_model_find_tensor(&m[e], "w");
            assert_non_null(t);
            assert_int_equal(t->type, type);
            assert_int_equal(t->n_elems, 512);
            assert_int_equal(dct_model_read_tensor(&m[e], t, 0, data[e], t->bytes, &err), DCT_OK);
            assert_int_equal(dct_model_read_tensor(&m[e], t, t->bytes, data[e], 1, &err), DCT_BUG);
            uint64_t half = t->bytes / 2;
            uint8_t part[4096];
            assert_int_equal(dct_model_read_tensor(&m[e], t, half, part, half, &err), DCT_OK);
            assert_memory_equal(part, data[e] + half, half);
        }
        assert_memory_equal(data[0], data[1], m[0].tensors[0].bytes);
        assert_true(m[0].fingerprint != m[1].fingerprint);
        for (int e = 0; e < 2; e++) {
            dct_model_close(&m[e]);
            dct_arena_deinit(&arena[e]);
            unlink(path[e]);
        }
    }
}

static void finds_every_tensor(void **state) {
    (void)state;
    gguf_build b = bare();
    char name[32];
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "t%d", i);
        gguf_build_tensor(&b, name, DCT_TYPE_F32, 1, (uint64_t[]){1}, &(float){(float)i});
    }
    size_t n;
    const uint8_t *image = gguf_build_image(&b, &n);
    dct_model m;
    dct_arena arena;
    dct_err err;
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_model_open_bytes(&m, image, n, &arena, &err), DCT_OK);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "t%d", i);
        assert_ptr_equal(dct_model_find_tensor(&m, name), &m.tensors[i]);
    }
    assert_null(dct_model_find_tensor(&m, "t3000"));
    assert_int_equal(m.n_params, 3000);
    assert_int_equal(m.tensor_bytes, 12000);
    float f;
    assert_int_equal(dct_model_read_tensor(&m, &m.tensors[0], 0, &f, 4, &err), DCT_BAD_FILE); /* memory has no data to read */
    dct_arena_deinit(&arena);
    gguf_build_free(&b);
}

static void the_built_in_model(void **state) {
    (void)state;
    dct_model m;
    dct_arena arena;
    dct_err err;
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_model_open(&m, DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-f16.gguf", &arena, &err), DCT_OK);
    assert_int_equal(m.n_tensors, 50);
    assert_int_equal(m.n_params, 2756864);
    assert_false(m.data_missing);
    dct_model_close(&m);
    dct_arena_deinit(&arena);
}

/* --- split files -------------------------------------------------------------------------------------------------- */

static void part_path(char *out, size_t n, uint32_t number, uint32_t count) {
    snprintf(out, n, "%s/split.%ld-%05u-of-%05u.gguf", DCT_BINARY_DIR, (long)getpid(), number, count);
}

/* Part `no` (from 0) of three: one tensor each, keys in the first. */
static void save_part(uint32_t no, uint32_t claimed_no, uint32_t count, const char *tensor) {
    char path[512];
    gguf_build b = bare();
    if (no == 0) gguf_build_str(&b, "general.architecture", "llama");
    gguf_build_int(&b, "split.no", DCT_META_U16, claimed_no);
    gguf_build_int(&b, "split.count", DCT_META_U16, count);
    gguf_build_i32(&b, "split.tensors.count", 3);
    gguf_build_tensor(&b, tensor, DCT_TYPE_F32, 1, (uint64_t[]){1}, &(float){(float)no + 10});
    part_path(path, sizeof path, no + 1, 3);
    gguf_build_save(&b, path);
    gguf_build_free(&b);
}

static void open_split(uint32_t number, dct_status code, const char *text) {
    char path[512];
    dct_model m;
    dct_arena arena;
    dct_err err;
    part_path(path, sizeof path, number, 3);
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_model_open(&m, path, &arena, &err), code);
    if (code == DCT_OK) {
        assert_int_equal(m.n_parts, 3);
        assert_int_equal(m.n_tensors, 3);
        assert_false(m.data_missing);
        for (uint32_t i = 0; i < 3; i++) {
            float f;
            assert_int_equal(dct_model_read_tensor(&m, &m.tensors[i], 0, &f, 4, &err), DCT_OK);
            assert_true(f == (float)i + 10);
            assert_int_equal(m.tensors[i].part, i);
        }
        dct_model_close(&m);
    } else if (strstr(err.message, text) == NULL) {
        fail_msg("expected '%s' in: %s", text, err.message);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(m.files[i].fd, -1);
    dct_arena_deinit(&arena);
}

static void row_18_split_files(void **state) {
    (void)state;
    const char *const names[] = {"a", "b", "c"};
    char path[512];
    for (uint32_t i = 0; i < 3; i++) save_part(i, i, 3, names[i]);
    open_split(1, DCT_OK, "");
    open_split(2, DCT_BAD_FILE, "this is part 2 of 3");
    save_part(1, 1, 3, "a");
    open_split(1, DCT_BAD_FILE, "tensor 'a' stands in the file twice");
    save_part(1, 2, 3, "b");
    open_split(1, DCT_BAD_FILE, "part 2 of 3: it says that it is part 3");
    save_part(1, 1, 4, "b");
    open_split(1, DCT_BAD_FILE, "part 2 of 3");
    part_path(path, sizeof path, 2, 3);
    unlink(path);
    open_split(1, DCT_BAD_FILE, "part 2 of 3");
    save_part(1, 1, 3, "b");
    open_split(1, DCT_OK, "");
    part_path(path, sizeof path, 3, 3);
    assert_int_equal(truncate(path, 20), 0);
    open_split(1, DCT_BAD_FILE, "part 3 of 3: the header is cut off");
    for (uint32_t i = 1; i <= 3; i++) {
        part_path(path, sizeof path, i, 3);
        unlink(path);
    }
    gguf_build b = bare();
    gguf_build_int(&b, "split.count", DCT_META_U16, 3);
    gguf_build_save(&b, temp_path("lonely"));
    dct_model m;
    dct_arena arena;
    dct_err err;
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_model_open(&m, temp_path("lonely"), &arena, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "-00001-of-00003.gguf"));
    dct_arena_deinit(&arena);
    unlink(temp_path("lonely"));
    gguf_build_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value), cmocka_unit_test(byte_orders_agree),    cmocka_unit_test(finds_every_tensor),
        cmocka_unit_test(the_built_in_model),  cmocka_unit_test(row_18_split_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
