#include "support/onnx_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pb_raw(pb *m, const void *bytes, size_t n) {
    if (m->n + n > m->cap) {
        m->cap = 2 * (m->n + n) + 64;
        m->bytes = realloc(m->bytes, m->cap);
    }
    if (n > 0) memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

void pb_varint(pb *m, uint64_t v) {
    do {
        uint8_t byte = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        pb_raw(m, &byte, 1);
        v >>= 7;
    } while (v != 0);
}

static void tag(pb *m, uint32_t field, uint32_t wire) { pb_varint(m, field << 3 | wire); }

void pb_int(pb *m, uint32_t field, int64_t v) {
    tag(m, field, 0);
    pb_varint(m, (uint64_t)v);
}

void pb_float(pb *m, uint32_t field, float v) {
    tag(m, field, 5);
    pb_raw(m, &v, sizeof v);
}

void pb_bytes(pb *m, uint32_t field, const void *bytes, size_t n) {
    tag(m, field, 2);
    pb_varint(m, n);
    pb_raw(m, bytes, n);
}

void pb_text(pb *m, uint32_t field, const char *text) { pb_bytes(m, field, text, strlen(text)); }

void pb_put(pb *m, uint32_t field, pb *inner) {
    pb_bytes(m, field, inner->bytes, inner->n);
    pb_free(inner);
}

void pb_add(pb *m, uint32_t field, pb inner) { pb_put(m, field, &inner); }

void pb_free(pb *m) {
    free(m->bytes);
    *m = (pb){0};
}

static int64_t type_of(char letter) {
    switch (letter) {
    case 'f': return 1;
    case 'u': return 2;
    case 'c': return 3;
    case 'j': return 6;
    case 'i': return 7;
    case 's': return 8;
    case 'b': return 9;
    case 'h': return 10;
    case 'd': return 11;
    default: return 0;
    }
}

/* One element as it lies in raw data. */
static void put_element(pb *raw, char letter, const char *text) {
    int64_t i = strtoll(text, NULL, 0);
    double d = strtod(text, NULL);
    float f = (float)d;
    switch (letter) {
    case 'f': pb_raw(raw, &f, 4); break;
    case 'd': pb_raw(raw, &d, 8); break;
    case 'j': pb_raw(raw, &i, 4); break;
    case 'h': pb_raw(raw, &i, 2); break; /* bits */
    case 'u': case 'c': case 'b': pb_raw(raw, &i, 1); break;
    default: pb_raw(raw, &i, 8); break;
    }
}

pb onnx_tensor(const char *name, const char *text) {
    pb t = {0}, raw = {0};
    const char *at = text + 1;
    while (*at != '\0' && *at != ':') pb_int(&t, 1, strtoll(at + (*at == 'x'), (char **)&at, 10));
    pb_int(&t, 2, type_of(text[0]));
    pb_text(&t, 8, name);
    if (*at == '\0') {
        pb_int(&t, 14, 1);
        return t;
    }
    while (*at != '\0' && at[1] != '\0') {
        put_element(&raw, text[0], ++at);
        at += strcspn(at, ",");
    }
    pb_put(&t, 9, &raw);
    return t;
}

pb onnx_info(const char *name, const char *text) {
    pb info = {0}, type = {0}, tensor = {0}, shape = {0};
    pb_int(&tensor, 1, type_of(text[0]));
    for (const char *at = text + 1; *at != '\0';) {
        pb dim = {0};
        at += *at == 'x';
        if (*at == '?') {
            char param[64];
            size_t n = strcspn(++at, "x");
            snprintf(param, sizeof param, "%.*s", (int)n, at);
            if (n > 0) pb_text(&dim, 2, param);
            at += n;
        } else {
            pb_int(&dim, 1, strtoll(at, (char **)&at, 10));
        }
        pb_put(&shape, 1, &dim);
    }
    pb_put(&tensor, 2, &shape);
    pb_put(&type, 1, &tensor);
    pb_text(&info, 1, name);
    pb_put(&info, 2, &type);
    return info;
}

static void put_list(pb *attr, const char *value) {
    bool floats = *value == 'f';
    for (value += floats; *value != '\0'; value += *value == ',') {
        if (floats) pb_float(attr, 7, strtof(value, (char **)&value));
        else pb_int(attr, 8, strtoll(value, (char **)&value, 0));
    }
}

static void put_attr(pb *node, const char *word) {
    pb attr = {0};
    char name[64];
    const char *value = strchr(word, '=') + 1;
    snprintf(name, sizeof name, "%.*s", (int)(value - 1 - word), word);
    pb_text(&attr, 1, name);
    if (*value == '\'') {
        pb_bytes(&attr, 4, value + 1, strlen(value) - 2);
    } else if (*value == '@') {
        pb_add(&attr, 5, onnx_tensor("", value + 1));
    } else if (strchr(value, ',') != NULL || *value == 'f') {
        put_list(&attr, value);
    } else {
        pb_int(&attr, 3, strtoll(value, NULL, 0));
    }
    pb_put(node, 5, &attr);
}

static void put_words(pb *node, uint32_t field, const char *words) {
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *save, *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        if (field == 5) put_attr(node, word);
        else pb_text(node, field, strcmp(word, "_") == 0 ? "" : word);
    }
}

pb onnx_node(const char *op, const char *inputs, const char *outputs, const char *attrs) {
    pb node = {0};
    put_words(&node, 1, inputs);
    put_words(&node, 2, outputs);
    pb_text(&node, 4, op);
    put_words(&node, 5, attrs);
    return node;
}

void onnx_add_body(pb *node, const char *name, pb *graph) {
    pb attr = {0};
    pb_text(&attr, 1, name);
    pb_put(&attr, 6, graph);
    pb_put(node, 5, &attr);
}

pb onnx_model(pb *graph) {
    pb model = {0}, opset = {0};
    pb_int(&model, 1, 8);
    pb_put(&model, 7, graph);
    pb_text(&opset, 1, "");
    pb_int(&opset, 2, 17);
    pb_put(&model, 8, &opset);
    return model;
}
