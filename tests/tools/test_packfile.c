/* The packer on files: good ones, real ones, and wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/tools.h"

static const char *write_problem(const char *text) {
    static const char path[] = "packfile_problem.csv";
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    fclose(f);
    return path;
}

static const char *read_answer(const char *path) {
    static char text[4096];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    return text;
}

static dct_status pack(const char *text, uint64_t capacity, dct_packfile_result *result, dct_err *err) {
    dct_packfile_params params = {.path = write_problem(text), .output = "packfile_answer.csv", .capacity = capacity};
    memset(err, 0, sizeof *err);
    return dct_packfile(&params, result, err);
}

static void a_problem_is_solved(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\r\nb4,9,21,4\n\nb5,0,21,4\n", 12, &r, &err), DCT_OK);
    assert_int_equal(r.n_items, 5);
    assert_int_equal(r.load, 12);
    assert_int_equal(r.height, 12);
    assert_true(r.optimal);
    const char *answer = read_answer("packfile_answer.csv");
    assert_int_equal(strncmp(answer, "id,lower,upper,size,offset\nb1,0,3,4,", 36), 0);
}

static void columns_may_stand_in_any_order(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack("size,offset,id,upper,alignment,lower\n8,16,fixed,4,,0\n3,,free,4,8,2\n", 0, &r, &err), DCT_OK);
    assert_string_equal(read_answer("packfile_answer.csv"), "size,offset,id,upper,alignment,lower\n8,16,fixed,4,,0\n3,0,free,4,8,2\n");
    assert_int_equal(r.height, 24);
    assert_int_equal(r.load, 11);
}

static void a_capacity_that_is_too_small_names_both(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack("id,lower,upper,size\na,0,2,30\nb,1,2,12\n", 41, &r, &err), DCT_NO_FIT);
    assert_non_null(strstr(err.message, "42"));
    assert_non_null(strstr(err.message, "41"));
    assert_int_equal(r.height, 42);
}

static void wrong_files_are_named(void **state) {
    (void)state;
    static const struct { const char *text, *says; } cases[] = {
        {"", "empty"},
        {"id,lower,upper\n1,2,3\n", "'size' is missing"},
        {"id,lower,upper,size,color\n", "color"},
        {"id,lower,upper,size,size\n", "twice"},
        {"id,lower,upper,size\na,0,2\n", "4 fields"},
        {"id,lower,upper,size\na,0,2,3,4\n", "4 fields"},
        {"id,lower,upper,size\na,0,2,x\n", "size 'x'"},
        {"id,lower,upper,size\na,0,2,\n", "size ''"},
        {"id,lower,upper,size\na,0,4294967296,1\n", "upper"},
        {"id,lower,upper,size\na,0,2,99999999999999999999\n", "size"},
        {"id,lower,upper,size\na,2,2,1\n", "not under"},
        {"id,lower,upper,size,alignment\na,0,2,1,3\n", "power of two"},
        {"id,lower,upper,size,gaps\na,0,2,1,0-1\n", "gaps"},
        {"id,lower,upper,size\na,0,2,9223372036854775807\nb,0,1,9223372036854775807\n", "add up"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dct_packfile_result r;
        dct_err err;
        assert_int_equal(pack(cases[i].text, 0, &r, &err), DCT_BAD_FILE);
        if (strstr(err.message, cases[i].says) == NULL) fail_msg("case %zu: '%s'", i, err.message);
    }
    dct_packfile_result r;
    dct_err err;
    dct_packfile_params missing = {.path = "no such file.csv"};
    assert_int_not_equal(dct_packfile(&missing, &r, &err), DCT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_problem_is_solved),
        cmocka_unit_test(columns_may_stand_in_any_order),
        cmocka_unit_test(a_capacity_that_is_too_small_names_both),
        cmocka_unit_test(wrong_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
