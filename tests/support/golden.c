#include "support/golden.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void end(const char *what, const char *path) {
    fprintf(stderr, "golden: %s: %s\n", path, what);
    abort();
}

static void *alloc(size_t n, size_t item_bytes) {
    void *out = calloc(n == 0 ? 1 : n, item_bytes);
    if (out == NULL) end("no memory", "golden file");
    return out;
}

static char *copy_text(const json_t *value) {
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    char *copy = alloc(strlen(text) + 1, 1);
    strcpy(copy, text);
    return copy;
}

static int32_t *copy_ids(const json_t *array, size_t *n) {
    *n = json_array_size(array);
    int32_t *ids = alloc(*n, sizeof *ids);
    for (size_t i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return ids;
}

static void copy_name(char *out, size_t bytes, const json_t *value) { snprintf(out, bytes, "%s", json_is_string(value) ? json_string_value(value) : ""); }

static void read_case(golden_case *c, const json_t *line) {
    copy_name(c->id, sizeof c->id, json_object_get(line, "id"));
    copy_name(c->kind, sizeof c->kind, json_object_get(line, "kind"));
    copy_name(c->model, sizeof c->model, json_object_get(line, "model"));
    c->prompt = copy_text(json_object_get(line, "prompt"));
    c->output_text = copy_text(json_object_get(line, "output_text"));
    c->token_ids = copy_ids(json_object_get(line, "token_ids"), &c->n_token_ids);
    c->output_ids = copy_ids(json_object_get(line, "output_ids"), &c->n_output_ids);
    const json_t *stop = json_object_get(line, "stop");
    c->ends = json_is_string(stop) && strcmp(json_string_value(stop), "eos") == 0;
    c->max_tokens = (uint32_t)json_integer_value(json_object_get(line, "max_tokens"));
    c->n_images = json_array_size(json_object_get(line, "images"));
    c->min_gap = json_number_value(json_object_get(line, "min_gap"));
    c->exact = json_is_true(json_object_get(line, "exact"));
    const json_t *top5 = json_object_get(line, "top5");
    for (size_t i = 0; i < 5; i++) {
        const json_t *pair = json_array_get(top5, i);
        c->top5[i].id = (int32_t)json_integer_value(json_array_get(pair, 0));
        c->top5[i].logit = json_number_value(json_array_get(pair, 1));
    }
}

golden_case *golden_load(const char *path, size_t *n) {
    enum { MAX_CASES = 256 };
    FILE *file = fopen(path, "rb");
    if (file == NULL) end("cannot be opened", path);
    golden_case *cases = alloc(MAX_CASES, sizeof *cases);
    for (*n = 0; *n < MAX_CASES; (*n)++) {
        json_t *line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL);
        if (line == NULL) break;
        read_case(&cases[*n], line);
        json_decref(line);
    }
    fclose(file);
    if (*n == 0) end("no cases", path);
    return cases;
}

void golden_free(golden_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(cases[i].prompt);
        free(cases[i].output_text);
        free(cases[i].token_ids);
        free(cases[i].output_ids);
    }
    free(cases);
}

bool golden_is_text(const golden_case *c) { return c->n_images == 0 && strcmp(c->model, "tiny-vl") == 0; }
bool golden_is_draft(const golden_case *c) { return strcmp(c->model, "tiny-draft") == 0; }
