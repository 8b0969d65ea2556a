/* What the tests of text/ share: a tokenizer from a file or from GGUF bytes, with memory of its own, and where data lies. */
#ifndef TESTS_TEXT_SUPPORT_H
#define TESTS_TEXT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"
#include "text/tokenizer.h"

typedef struct test_vocab {
    dct_arena arena;
    void *memory;
    uint64_t table_bytes;
    dct_tokenizer *t;
} test_vocab;

/* Builds the tables from an open model; the model is closed before they are used. */
static inline dct_status test_vocab_build(test_vocab *v, dct_model *model, dct_err *err) {
    dct_status status = dct_tokenizer_measure(model, &v->arena, &v->table_bytes, err);
    if (status == DCT_OK) {
        v->memory = aligned_alloc(64, v->table_bytes);
        memset(v->memory, 0xa5, v->table_bytes);
        status = dct_tokenizer_build(model, v->memory, v->table_bytes, &v->t, err);
    }
    dct_model_close(model);
    dct_arena_deinit(&v->arena);
    return status;
}

static inline dct_status test_vocab_open_bytes(test_vocab *v, const void *bytes, size_t n, dct_err *err) {
    dct_model model;
    memset(v, 0, sizeof *v);
    dct_arena_init(&v->arena, 0);
    dct_status status = dct_model_open_bytes(&model, bytes, n, &v->arena, err);
    if (status == DCT_OK) return test_vocab_build(v, &model, err);
    dct_arena_deinit(&v->arena);
    return status;
}

static inline dct_status test_vocab_open(test_vocab *v, const char *path, dct_err *err) {
    dct_model model;
    memset(v, 0, sizeof *v);
    dct_arena_init(&v->arena, 0);
    dct_status status = dct_model_open(&model, path, &v->arena, err);
    if (status == DCT_OK) return test_vocab_build(v, &model, err);
    dct_arena_deinit(&v->arena);
    return status;
}

static inline void test_vocab_free(test_vocab *v) { free(v->memory); }

/* A file's bytes, NUL-terminated, or NULL when it is not there. */
static inline char *test_read_file(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*n + 1);
    assert_int_equal(fread(bytes, 1, *n, file), *n);
    bytes[*n] = '\0';
    fclose(file);
    return bytes;
}

static inline bool test_file_exists(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file != NULL) fclose(file);
    return file != NULL;
}

/* A path inside the shared data, which stands beside the checkout or where DCTMS_SHARED says. */
static inline const char *test_shared_path(const char *name, char *out, size_t cap) {
    const char *root = getenv("DCTMS_SHARED");
    if (root != NULL) snprintf(out, cap, "%s/%s", root, name);
    else snprintf(out, cap, "%s/../shared/%s", DCT_SOURCE_DIR, name);
    return out;
}

typedef struct test_ids { dct_token *ids; uint64_t n; } test_ids;

/* Encodes with exactly the scratch that is promised, so that sanitizers see a byte too many. */
static inline test_ids test_encode(const dct_tokenizer *t, const char *text, uint64_t n, bool add_special, bool parse_special) {
    dct_err err = {0};
    void *scratch = malloc(dct_tokenizer_scratch_bytes(n));
    test_ids out = {malloc((n + 3) * sizeof(dct_token) * 3), 0};
    dct_status status = dct_tokenizer_encode(t, text, n, add_special, parse_special, scratch, out.ids, 3 * (n + 3), &out.n, &err);
    if (status != DCT_OK) fail_msg("%s", err.message);
    free(scratch);
    return out;
}

/* Compares with what is expected and says what differs. */
static inline bool test_same_ids(const char *what, uint64_t number, test_ids got, const dct_token *want, uint64_t n_want) {
    if (got.n == n_want && memcmp(got.ids, want, n_want * sizeof *want) == 0) return true;
    print_error("%s %llu: got %llu ids, expected %llu\n got ", what, (unsigned long long)number, (unsigned long long)got.n,
                (unsigned long long)n_want);
    for (uint64_t i = 0; i < got.n && i < 40; i++) print_error(" %u", got.ids[i]);
    print_error("\n want");
    for (uint64_t i = 0; i < n_want && i < 40; i++) print_error(" %u", want[i]);
    print_error("\n");
    return false;
}

/* Decimal ids of one line; returns where the line ends. */
static inline const char *test_parse_ids(const char *line, dct_token *ids, uint64_t *n) {
    *n = 0;
    while (*line != '\n' && *line != '\0') {
        char *end;
        ids[(*n)++] = (dct_token)strtoul(line, &end, 10);
        line = end;
        while (*line == ' ') line++;
    }
    return line;
}

/* The text of a row of tokens. */
static inline char *test_decode(const dct_tokenizer *t, const dct_token *ids, uint64_t n, bool special, size_t *n_text) {
    char *text = malloc(n * (dct_tokenizer_longest(t) + 1) + 1);
    *n_text = 0;
    for (uint64_t i = 0; i < n; i++)
        *n_text += i == 0 ? dct_tokenizer_piece_first(t, ids[i], special, text)
                          : dct_tokenizer_piece(t, ids[i], special, text + *n_text, dct_tokenizer_longest(t));
    return text;
}

#endif
