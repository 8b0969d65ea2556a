/* The GGUF reader: every file it must refuse (users.md U29, rows 1 to 12; test_gguf_read.c has what it reads, and row 18). Each
 * broken image is opened from memory and from a file; both must be refused with the same line, an offset where there is one, and
 * little memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/size.h"
#include "model/model.h"
#include "model/gguf_support.h"

static uint64_t allowed(uint64_t header) { return 8 * header + 1024 * 1024; }

/* Opens the image both ways; both must fail alike with `code` and a line that holds `text`. */
static void refuse(gguf_build *b, dct_status code, const char *text) {
    size_t n;
    const uint8_t *image = gguf_build_image(b, &n);
    const char *path = temp_path("refuse");
    dct_model model;
    dct_arena arena;
    dct_err err;
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_model_open_bytes(&model, image, n, &arena, &err), code);
    if (strstr(err.message, text) == NULL) fail_msg("expected '%s' in: %s", text, err.message);
    assert_null(strchr(err.message, '\n'));
    assert_true(arena.peak_bytes <= allowed(n));
    dct_arena_deinit(&arena);

    gguf_build_save(b, path);
    dct_err again;
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_model_open(&model, path, &arena, &again), code);
    assert_string_equal(again.message, err.message);
    assert_true(arena.peak_bytes <= allowed(n));
    assert_int_equal(model.files[0].fd, -1);
    dct_arena_deinit(&arena);
    unlink(path);
    gguf_build_free(b);
}

static void bad(gguf_build *b, const char *text) { refuse(b, DCT_BAD_FILE, text); }

/* A small valid file to break: two keys, two tensors. */
static gguf_build small(uint32_t version, bool big_endian) {
    gguf_build b;
    gguf_build_init(&b, version, big_endian);
    gguf_build_str(&b, "general.architecture", "llama");
    gguf_build_u32(&b, "a.number", 7);
    gguf_build_random(&b, "first", DCT_TYPE_Q4_0, 2, (uint64_t[]){64, 3}, 1, 0, 1);
    gguf_build_random(&b, "second", DCT_TYPE_F32, 1, (uint64_t[]){5}, 1, 1, 0.1f);
    return b;
}

/* --- U29 ---------------------------------------------------------------------------------------------------------- */

static void row_1_counts(void **state) {
    (void)state;
    const uint64_t counts[] = {UINT64_C(1) << 63, UINT64_MAX, 1000};
    for (int i = 0; i < 3; i++) {
        gguf_build b = small(3, false);
        b.n_tensors = counts[i];
        bad(&b, i == 2 ? "1000 tensors cannot" : "tensors cannot be described");
        b = small(2, false);
        b.n_meta = counts[i];
        bad(&b, "metadata pairs cannot stand");
    }
    gguf_build b = small(3, false);
    b.n_meta = 3; /* the first tensor is read as a pair */
    bad(&b, "");
    b = small(3, false);
    b.n_tensors = 3;
    bad(&b, "");
}

static void row_2_string_lengths(void **state) {
    (void)state;
    const uint64_t lengths[] = {UINT64_MAX, UINT64_C(1) << 30, 100};
    for (int i = 0; i < 3; i++) {
        gguf_build b = bare();
        gguf_build_key(&b, "s", DCT_META_STRING);
        gguf_build_raw_int(&b, lengths[i], 8);
        bad(&b, "key 's': a string of");
        b = bare();
        gguf_build_raw_int(&b, lengths[i], 8); /* a key's length */
        gguf_build_raw(&b, "abcdefgh", 8);
        b.n_meta = 1;
        bad(&b, lengths[i] == 100 ? "cut off in a metadata key" : "a metadata key has");
        b = bare();
        gguf_build_key(&b, "list", DCT_META_ARRAY);
        gguf_build_raw_int(&b, DCT_META_STRING, 4);
        gguf_build_raw_int(&b, 2, 8);
        gguf_build_raw_int(&b, lengths[i], 8);
        gguf_build_raw(&b, "abcdefgh", 8);
        bad(&b, "key 'list': a string of");
    }
    gguf_build b = bare();
    gguf_build_info(&b, "a name of more than sixty-three bytes, which is one more than fits.", 1, (uint64_t[]){1}, 0, 0);
    bad(&b, "a tensor name has");
}

static void row_3_array_sizes(void **state) {
    (void)state;
    const uint64_t counts[] = {UINT64_C(1) << 61, UINT64_C(1) << 62, UINT64_MAX, 99};
    const dct_meta_type types[] = {DCT_META_U64, DCT_META_U32, DCT_META_STRING, DCT_META_U8, DCT_META_BOOL};
    for (int c = 0; c < 4; c++) {
        for (int t = 0; t < 5; t++) {
            gguf_build b = bare();
            gguf_build_array_raw(&b, "a", types[t], counts[c], "12345678", 8);
            bad(&b, "key 'a': an array of");
        }
    }
    gguf_build b = bare();
    gguf_build_array_raw(&b, "a", DCT_META_ARRAY, 1, "12345678", 8);
    bad(&b, "arrays of arrays");
    b = bare();
    gguf_build_array_raw(&b, "a", 13, 1, "12345678", 8);
    bad(&b, "an array of type 13");
    b = bare();
    gguf_build_key(&b, "a", 13);
    gguf_build_raw(&b, "12345678", 8);
    bad(&b, "unknown value type 13");
    b = bare();
    gguf_build_int(&b, "a", DCT_META_BOOL, 2);
    bad(&b, "a bool of value 2");
}

static void rows_4_to_8_shapes_and_types(void **state) {
    (void)state;
    const uint64_t ne[9] = {32, 1, 1, 1, 1, 1, 1, 1, 1};
    gguf_build b = bare();
    gguf_build_info(&b, "w", 0, ne, 0, 0);
    gguf_build_tensor(&b, "more", DCT_TYPE_F32, 1, ne, NULL);
    bad(&b, "tensor 'w' (number 0) has 0 dimensions");
    b = bare();
    gguf_build_info(&b, "w", 5, ne, 0, 0);
    bad(&b, "5 dimensions");
    b = bare();
    gguf_build_info(&b, "w", 9, ne, 0, 0);
    bad(&b, "9 dimensions");
    b = small(3, false);
    memset(b.infos.ptr + 8 + 5, 0xff, 4); /* n_dims of "first" */
    bad(&b, "4294967295 dimensions");

    b = bare();
    gguf_build_info(&b, "w", 2, (uint64_t[]){32, 0}, 0, 0);
    bad(&b, "dimension 1 is 0");
    b = bare();
    gguf_build_info(&b, "w", 2, (uint64_t[]){UINT64_MAX, 2}, 0, 0);
    bad(&b, "overflows");
    b = bare();
    gguf_build_info(&b, "w", 2, (uint64_t[]){UINT64_C(1) << 22, (UINT64_C(1) << 42) + 1}, 0, 0);
    bad(&b, "overflows");
    b = bare();
    gguf_build_info(&b, "w", 2, (uint64_t[]){UINT64_C(1) << 31, UINT64_C(1) << 31}, 0, 0);
    bad(&b, "overflows"); /* the elements fit, the bytes do not */
    b = bare();
    gguf_build_info(&b, "w", 1, (uint64_t[]){33}, 2, 0);
    bad(&b, "not whole blocks of Q4_0");

    b = bare();
    gguf_build_info(&b, "v", 1, (uint64_t[]){UINT64_C(1) << 60}, 0, 0);
    gguf_build_info(&b, "w", 1, (uint64_t[]){UINT64_C(1) << 60}, 0, UINT64_C(1) << 62);
    bad(&b, "tensor 'w': offset and size overflow");

    const struct {
        uint32_t id;
        const char *text;
    } types[] = {{16, "IQ2_XXS"}, {4, "Q4_2 (removed)"}, {31, "removed"}, {9, "Q8_1"}, {43, "id 43"}, {1000, "id 1000"}, {UINT32_MAX, "id 4294967295"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        b = bare();
        gguf_build_info(&b, "blk.0.w", 1, (uint64_t[]){256}, types[i].id, 0);
        bad(&b, types[i].text);
        b = bare();
        gguf_build_info(&b, "blk.0.w", 1, (uint64_t[]){256}, types[i].id, 0);
        bad(&b, "tensor 'blk.0.w'");
    }
}

static void row_9_alignment(void **state) {
    (void)state;
    const uint32_t wrong[] = {0, 3, 1u << 30, UINT32_MAX};
    for (int i = 0; i < 4; i++) {
        gguf_build b = bare();
        gguf_build_u32(&b, "general.alignment", wrong[i]);
        bad(&b, "general.alignment");
    }
    gguf_build b = bare();
    gguf_build_i32(&b, "general.alignment", 32);
    bad(&b, "general.alignment");

    for (uint32_t right = 1; right <= 4096; right *= 8) {
        b = bare();
        b.alignment = right;
        gguf_build_u32(&b, "general.alignment", right);
        gguf_build_random(&b, "a", DCT_TYPE_F32, 1, (uint64_t[]){3}, 1, 0, 1);
        gguf_build_tensor(&b, "b", DCT_TYPE_F32, 1, (uint64_t[]){1}, &(float){42});
        const char *path = temp_path("aligned");
        gguf_build_save(&b, path);
        dct_model m;
        dct_arena arena;
        dct_err err;
        float f;
        dct_arena_init(&arena, 0);
        assert_int_equal(dct_model_open(&m, path, &arena, &err), DCT_OK);
        assert_int_equal(dct_model_read_tensor(&m, dct_model_find_tensor(&m, "b"), 0, &f, 4, &err), DCT_OK);
        assert_true(f == 42);
        dct_model_close(&m);
        dct_arena_deinit(&arena);
        unlink(path);
        gguf_build_free(&b);
    }
}

static void row_10_offsets(void **state) {
    (void)state;
    const struct {
        uint64_t offset;
        const char *text;
    } cases[] = {{UINT64_C(1) << 40, "leaves a hole"}, {UINT64_MAX - 31, "leaves a hole"}, {17, "is not aligned"}, {0, "overlaps another tensor"}, {160, "leaves a hole"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_build b = bare();
        gguf_build_tensor(&b, "a", DCT_TYPE_F32, 1, (uint64_t[]){32}, NULL); /* 128 bytes */
        gguf_build_info(&b, "b", 1, (uint64_t[]){32}, 0, cases[i].offset);
        bad(&b, cases[i].text);
    }
}

static void row_12_names(void **state) {
    (void)state;
    gguf_build b = bare();
    gguf_build_u32(&b, "", 1);
    gguf_build_u32(&b, "more", 1);
    bad(&b, "a metadata key has 0 bytes");
    b = bare();
    gguf_build_u32(&b, "twice", 1);
    gguf_build_u32(&b, "other", 1);
    gguf_build_u32(&b, "twice", 1);
    bad(&b, "key 'twice' stands in the file twice");
    b = bare();
    gguf_build_tensor(&b, "twice", DCT_TYPE_F32, 1, (uint64_t[]){8}, NULL);
    gguf_build_tensor(&b, "twice", DCT_TYPE_F32, 1, (uint64_t[]){8}, NULL);
    bad(&b, "tensor 'twice' stands in the file twice");
    b = bare();
    gguf_build_tensor(&b, "", DCT_TYPE_F32, 1, (uint64_t[]){8}, NULL);
    gguf_build_tensor(&b, "more", DCT_TYPE_F32, 1, (uint64_t[]){8}, NULL);
    bad(&b, "a tensor name has 0 bytes");
    b = bare();
    gguf_build_u32(&b, "evil\n\x1b[2J\xff", 1);
    gguf_build_u32(&b, "evil\n\x1b[2J\xff", 1);
    bad(&b, "key 'evil??[2J?' stands");
}

static void row_18_split_count(void **state) {
    (void)state;
    gguf_build b = bare();
    gguf_build_u32(&b, "split.count", 100000);
    bad(&b, "'split.count' is out of range");
}

static void versions(void **state) {
    (void)state;
    const uint32_t wrong[] = {0, 1, 4, 0x10000, 0x7fffffff};
    for (int i = 0; i < 5; i++) {
        gguf_build b = bare();
        b.version = wrong[i];
        bad(&b, "is not supported");
    }
    gguf_build b = small(2, true);
    bad(&b, "version 2 big-endian");
    b = small(3, false);
    size_t n;
    dct_model m;
    dct_arena arena;
    dct_err err;
    uint8_t copy[64];
    memcpy(copy, gguf_build_image(&b, &n), sizeof copy);
    copy[3] = 'g';
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_model_open_bytes(&m, copy, sizeof copy, &arena, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "not a GGUF file"));
    assert_int_equal(err.offset, 0);
    dct_arena_deinit(&arena);
    gguf_build_free(&b);
}

/* Row 11 and more: every prefix is refused inside the header, and is a file without data behind it. */
static void every_prefix(void **state) {
    (void)state;
    for (int variant = 0; variant < 2; variant++) {
        gguf_build b = small(variant == 0 ? 2 : 3, variant == 1);
        gguf_build_array_str(&b, "list", (const char *const[]){"x", "yy", ""}, 3);
        gguf_build_array_f32(&b, "floats", (const float[]){1, 2, 3}, 3);
        size_t n, header = 24 + b.meta.n + b.infos.n;
        const uint8_t *image = gguf_build_image(&b, &n);
        size_t data_end = gguf_build_header_bytes(&b) + dct_round_up(6 * 18, 32) + 5 * 4;
        const char *path = temp_path("prefix");
        for (size_t cut = 0; cut <= n; cut++) {
            uint8_t *exact = malloc(cut + (cut == 0)); /* so that a sanitizer sees a read too far */
            memcpy(exact, image, cut);
            dct_model m;
            dct_arena arena;
            dct_err err;
            dct_arena_init(&arena, 0);
            dct_status status = dct_model_open_bytes(&m, exact, cut, &arena, &err);
            assert_int_equal(status, cut < header ? DCT_BAD_FILE : DCT_OK);
            if (status == DCT_OK) assert_int_equal(m.data_missing, cut < data_end);
            dct_arena_deinit(&arena);

            FILE *f = fopen(path, "wb");
            assert_int_equal(fwrite(exact, 1, cut, f), cut);
            fclose(f);
            dct_arena_init(&arena, 0);
            assert_int_equal(dct_model_open(&m, path, &arena, &err), status);
            if (status == DCT_OK) {
                uint8_t data[256];
                const dct_tensor *last = dct_model_find_tensor(&m, "second");
                assert_int_equal(m.data_missing, cut < data_end);
                assert_int_equal(dct_model_read_tensor(&m, last, 0, data, last->bytes, &err), cut < data_end ? DCT_BAD_FILE : DCT_OK);
                dct_model_close(&m);
            } else {
                assert_non_null(strstr(err.message, "(at byte "));
            }
            dct_arena_deinit(&arena);
            free(exact);
        }
        unlink(path);
        gguf_build_free(&b);
    }
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* The most records a header can have for its size: short keys, small values; short names, one dimension. */
static void memory_is_bounded(void **state) {
    (void)state;
    gguf_build b = bare();
    char name[8];
    for (uint32_t i = 1; i < 40000; i++) {
        memcpy(name, (char[]){(char)(1 + i % 250), (char)(1 + i / 250 % 250), '\0'}, 3);
        gguf_build_int(&b, name, DCT_META_U8, 1);
    }
    for (int with_tensors = 0; with_tensors < 2; with_tensors++) {
        for (uint32_t i = 0; with_tensors && i < 40000; i++) {
            memcpy(name, (char[]){(char)(1 + i % 250), (char)(1 + i / 250 % 250), '\0'}, 3);
            gguf_build_info(&b, name, 1, (uint64_t[]){8}, 0, 32 * (uint64_t)i);
        }
        const char *path = temp_path("records");
        gguf_build_save(&b, path);
        dct_model m;
        dct_arena arena;
        dct_err err;
        dct_arena_init(&arena, 0);
        assert_int_equal(dct_model_open(&m, path, &arena, &err), DCT_OK);
        assert_int_equal(m.n_meta, 39999);
        assert_int_equal(m.data_missing, with_tensors == 1);
        assert_true(arena.peak_bytes <= allowed(m.header_bytes));
        dct_model_close(&m);
        dct_arena_deinit(&arena);
        unlink(path);
    }
    gguf_build_free(&b);
}

/* A failed allocation at any point is reported as our own shortage, and nothing stays open. */
static void any_allocation_may_fail(void **state) {
    (void)state;
    gguf_build b;
    gguf_tiny tiny = gguf_tiny_default("qwen2", DCT_TYPE_Q4_0);
    gguf_build_tiny(&b, &tiny);
    const char *path = temp_path("fail");
    gguf_build_save(&b, path);
    uint64_t k = 1;
    for (;; k++) {
        dct_model m;
        dct_arena arena;
        dct_err err;
        dct_arena_init(&arena, 0);
        arena.fail_at = k;
        dct_status status = dct_model_open(&m, path, &arena, &err);
        if (status == DCT_OK) {
            dct_model_close(&m);
            dct_arena_deinit(&arena);
            break;
        }
        assert_int_equal(status, DCT_NO_FIT);
        assert_int_equal(m.files[0].fd, -1);
        dct_arena_deinit(&arena);
    }
    assert_true(k > 4);
    unlink(path);
    gguf_build_free(&b);
}

static void not_a_model_file(void **state) {
    (void)state;
    dct_model m;
    dct_arena arena;
    dct_err err;
    dct_arena_init(&arena, 0);
    assert_int_equal(dct_model_open(&m, "/nonexistent/x.gguf", &arena, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "/nonexistent/x.gguf"));
    assert_int_equal(dct_model_open(&m, DCT_SOURCE_DIR, &arena, &err), DCT_BAD_FILE);
    assert_int_equal(dct_model_open(&m, "/dev/zero", &arena, &err), DCT_BAD_FILE);
    dct_arena_deinit(&arena);
}

/* What people have under a model's name instead of one is named. */
static void other_files_are_named(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *says;
        size_t n;
    } files[] = {
#define FILE_OF(bytes, says) {bytes, says, sizeof(bytes) - 1}
        FILE_OF("", "the file is empty"),
        FILE_OF("version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        FILE_OF("version 7, of a text", "the magic is wrong"),
        FILE_OF("<!DOCTYPE html>", "a page of HTML"),
        FILE_OF("\0\0\0\0\0\0\0\0\0\0", "an unfinished download"),
        FILE_OF("\100\0\0\0\0\0\0\0{\"a\":", "safetensors; name the directory"),
        FILE_OF("{\"model_type\": 1}", "name the directory"),
        FILE_OF("tjgg\3\0\0\0", "an old GGML file"),
        FILE_OF("PK\3\4....", "a ZIP archive"),
        FILE_OF("\x8\x8\x12\x7pytorch", "an ONNX file: `plan FILE.onnx`"),
        FILE_OF("\x8\x8\0\0\0\0\0\0", "the magic is wrong"),
        FILE_OF("DCTMPLAN", "a plan: `plan FILE`, `run MODEL --plan FILE`"),
#undef FILE_OF
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        dct_model m;
        dct_arena arena;
        dct_err err;
        dct_arena_init(&arena, 0);
        assert_int_equal(dct_model_open_bytes(&m, files[i].bytes, files[i].n, &arena, &err), DCT_BAD_FILE);
        if (strstr(err.message, files[i].says) == NULL) fail_msg("expected '%s' in: %s", files[i].says, err.message);
        dct_arena_deinit(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_1_counts),                 cmocka_unit_test(row_2_string_lengths), cmocka_unit_test(row_3_array_sizes),
        cmocka_unit_test(rows_4_to_8_shapes_and_types), cmocka_unit_test(row_9_alignment),      cmocka_unit_test(row_10_offsets),
        cmocka_unit_test(row_12_names),                 cmocka_unit_test(row_18_split_count),   cmocka_unit_test(versions),
        cmocka_unit_test(every_prefix),                 cmocka_unit_test(memory_is_bounded),    cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(not_a_model_file),             cmocka_unit_test(other_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
