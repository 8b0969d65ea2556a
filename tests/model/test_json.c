/* JSON of model directories: what is valid, what is not, and every way to ask for what is in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/json.h"

/* A copy of exactly the text's length, so that a sanitizer sees any byte that is read behind it. */
static dct_status open_text(const char *text, size_t n, dct_json *root, dct_err *err, char **copy) {
    *copy = malloc(n);
    memcpy(*copy, text, n);
    return dct_json_open((dct_str){*copy, n}, "x.json", 0, root, err);
}

static void accepts(const char *text) {
    dct_json root;
    dct_err err;
    char *copy;
    if (open_text(text, strlen(text), &root, &err, &copy) != DCT_OK) fail_msg("%s: %s", text, err.message);
    for (dct_json_walk w = dct_json_begin(root); dct_json_next(&w);) dct_json_decode(dct_json_raw(w.value), NULL);
    free(copy);
}

static void refuses(const char *text, const char *why) {
    dct_json root;
    dct_err err;
    char *copy;
    assert_int_equal(open_text(text, strlen(text), &root, &err, &copy), DCT_BAD_FILE);
    if (strstr(err.message, why) == NULL) fail_msg("expected '%s' in: %s", why, err.message);
    free(copy);
}

static void valid_texts(void **state) {
    (void)state;
    accepts("{}");
    accepts(" \t\r\n{ \"a\" : [ ] , \"b\" : { } } \n");
    accepts("{\"a\":[1,-0,0.5,1e9,1E+2,-1.25e-3,true,false,null,\"\",[[[{}]]]]}");
    accepts("{\"\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\ud83d\\ude00\xc3\xa4\xf0\x9f\x98\x80\"}");
}

static void texts_that_are_none(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "cut off"}, {"   ", "cut off"}, {"[1]", "an object expected"}, {"7", "an object expected"}, {"{", "name in quotes"},
        {"{\"a\"", "':' expected"}, {"{\"a\":", "cut off"}, {"{\"a\":1", "cut off"}, {"{\"a\":1,", "name in quotes"}, {"{\"a\":1,}", "name in quotes"},
        {"{\"a\":[1,]}", "a value expected"}, {"{\"a\":[1 2]}", "',' or ']'"}, {"{\"a\":1 \"b\":2}", "',' or '}'"}, {"{\"a\":[}", "a value expected"},
        {"{a:1}", "name in quotes"}, {"{'a':1}", "name in quotes"}, {"{\"a\":01}", "leading zero"}, {"{\"a\":+1}", "a value expected"},
        {"{\"a\":1.}", "a digit"}, {"{\"a\":.5}", "a value expected"}, {"{\"a\":1e}", "a digit"}, {"{\"a\":-}", "a digit"}, {"{\"a\":NaN}", "a value expected"},
        {"{\"a\":Infinity}", "a value expected"}, {"{\"a\":tru}", "a value expected"}, {"{\"a\":truex}", "',' or '}'"}, {"{\"a\":\"\n\"}", "control character"},
        {"{\"a\":\"\\x\"}", "unknown escape"}, {"{\"a\":\"\\u12g4\"}", "hex digits"}, {"{\"a\":\"\\u12", "without an end"}, {"{\"a\":\"b", "without an end"},
        {"{\"a\":\"b\\", "without an end"}, {"{\"a\":\"\xff\"}", "not UTF-8"}, {"{\"a\":\"\xc0\x80\"}", "not UTF-8"}, {"{\"a\":\"\xed\xa0\x80\"}", "not UTF-8"},
        {"{\"a\":\"\xf4\x90\x80\x80\"}", "not UTF-8"}, {"{\"a\":\"\xe4\xb8", "not UTF-8"}, {"{} {}", "behind the end"}, {"{}x", "behind the end"}, {"{\"a\":1}]", "behind the end"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuses(bad[i].text, bad[i].why);
}

/* Every text that is cut short is refused, and nothing behind it is read. */
static void prefixes(void **state) {
    (void)state;
    static const char text[] = "{\"a\":[1.5e3,true,null,\"\\u00e4\\\"\xc3\xa4\",{\"b\":{}}],\"c\":-1}";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        dct_json root;
        dct_err err;
        char *copy;
        assert_int_equal(open_text(text, n, &root, &err, &copy), DCT_BAD_FILE);
        free(copy);
    }
}

static void depth_is_bounded(void **state) {
    (void)state;
    enum { MANY = 1000000 };
    char *text = malloc(MANY + 8), *copy;
    dct_json root;
    dct_err err;
    for (int depth = 62; depth <= 65; depth++) {
        size_t n = 0;
        memcpy(text, "{\"a\":", 5);
        n = 5;
        for (int i = 0; i < depth; i++) text[n++] = '[';
        for (int i = 0; i < depth; i++) text[n++] = ']';
        text[n++] = '}';
        assert_int_equal(open_text(text, n, &root, &err, &copy), depth < DCT_JSON_MAX_DEPTH ? DCT_OK : DCT_BAD_FILE);
        free(copy);
    }
    memset(text + 5, '[', MANY - 5);
    assert_int_equal(open_text(text, MANY, &root, &err, &copy), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "more levels"));
    free(copy);
    free(text);
}

static void walking(void **state) {
    (void)state;
    dct_json root;
    dct_err err;
    char *copy, text[64];
    static const char source[] = "{ \"one\" : 1, \"l\\u0069st\":[ 10 , \"x\\n\", {\"k\":[]} ], \"twice\":true, \"twice\":null, \"e\":{} }";
    assert_int_equal(open_text(source, sizeof source - 1, &root, &err, &copy), DCT_OK);
    assert_int_equal(dct_json_count(root), 5);
    uint32_t n;
    uint64_t u = 0;
    dct_json list = dct_json_find(root, "list", &n); /* names are compared decoded */
    assert_int_equal(n, 1);
    assert_int_equal(dct_json_count(list), 3);
    dct_json_walk w = dct_json_begin(list);
    assert_true(dct_json_next(&w) && dct_json_u64(w.value, &u) && u == 10);
    assert_true(dct_json_next(&w) && dct_json_str_is(w.value, "x\n") && !dct_json_str_is(w.value, "x") && !dct_json_str_is(w.value, "x\n "));
    assert_int_equal(dct_json_decode(dct_json_raw(w.value), text), 2);
    assert_true(dct_json_next(&w) && dct_json_kind_of(w.value) == DCT_JSON_OBJECT);
    assert_int_equal(dct_json_kind_of(dct_json_find(w.value, "k", NULL)), DCT_JSON_ARRAY);
    assert_false(dct_json_next(&w));
    dct_json_find(root, "twice", &n);
    assert_int_equal(n, 2);
    assert_int_equal(dct_json_kind_of(dct_json_find(root, "no", &n)), DCT_JSON_NONE);
    assert_int_equal(n, 0);
    assert_int_equal(dct_json_count(dct_json_find(root, "e", NULL)), 0);
    assert_int_equal(dct_json_count((dct_json){0}), 0);
    assert_null(dct_json_raw((dct_json){0}).ptr);
    free(copy);
}

static void escapes(void **state) {
    (void)state;
    static const struct {
        const char *json, *text;
    } pairs[] = {
        {"{\"a\":\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"}", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"{\"a\":\"\\ud83d\"}", "\xef\xbf\xbd"},
        {"{\"a\":\"\\ude00x\"}", "\xef\xbf\xbdx"},
        {"{\"a\":\"\\ud83d\\u0041\"}", "\xef\xbf\xbd""A"},
        {"{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "\"\\/\b\f\n\r\t"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        dct_json root;
        dct_err err;
        char *copy, out[64];
        assert_int_equal(open_text(pairs[i].json, strlen(pairs[i].json), &root, &err, &copy), DCT_OK);
        dct_json v = dct_json_find(root, "a", NULL);
        size_t n = (size_t)dct_json_decode(dct_json_raw(v), out);
        assert_int_equal(n, strlen(pairs[i].text));
        assert_memory_equal(out, pairs[i].text, n);
        assert_true(dct_json_str_is(v, pairs[i].text));
        free(copy);
    }
}

static bool number(const char *text, uint64_t *u, double *f, bool *is_f) {
    char source[128], *copy;
    dct_json root;
    dct_err err;
    snprintf(source, sizeof source, "{\"a\":%s}", text);
    assert_int_equal(open_text(source, strlen(source), &root, &err, &copy), DCT_OK);
    dct_json v = dct_json_find(root, "a", NULL);
    bool is_u = dct_json_u64(v, u);
    *is_f = dct_json_f64(v, f);
    free(copy);
    return is_u;
}

static void numbers(void **state) {
    (void)state;
    static const char *const exact[] = {"0", "1", "1e-06", "1e-05", "0.000001", "10000.0", "1000000.0", "500000", "0.5", "1.25", "-3.75", "123456789.125", "1e22", "8.0",
                                        "0.7071067811865476", "5e-324"};
    uint64_t u = 0;
    double f = 0;
    bool is_f;
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        number(exact[i], &u, &f, &is_f);
        if (strcmp(exact[i], "5e-324") != 0) assert_true(is_f && f == strtod(exact[i], NULL));
    }
    assert_true(number("18446744073709551615", &u, &f, &is_f) && u == UINT64_MAX);
    assert_false(number("18446744073709551616", &u, &f, &is_f));
    assert_true(is_f && f == 0x1p64);
    assert_false(number("1e20", &u, &f, &is_f));
    assert_true(number("1.5e3", &u, &f, &is_f) && u == 1500);
    assert_true(number("4096.0", &u, &f, &is_f) && u == 4096);
    assert_true(number("0e99999", &u, &f, &is_f) && u == 0 && is_f && f == 0);
    assert_false(number("-1", &u, &f, &is_f));
    assert_false(number("0.5", &u, &f, &is_f));
    assert_true(number("-0", &u, &f, &is_f) && u == 0);
    assert_false(number("1e400", &u, &f, &is_f));
    assert_false(is_f);
    assert_false(number("1e999999999999999999999", &u, &f, &is_f));
    assert_false(is_f);
    number("1.0800000429153442", &u, &f, &is_f);
    assert_true(is_f && (float)f == 1.0800000429153442f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_texts), cmocka_unit_test(texts_that_are_none), cmocka_unit_test(prefixes), cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(walking),     cmocka_unit_test(escapes),             cmocka_unit_test(numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
