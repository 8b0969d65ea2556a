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
    assert_string_equal(read_answer("packfile_answer.csv"),
                        "size,offset,id,upper,alignment,lower\n8,16,fixed,4,,0\n3,0,free,4,8,2\n");
    assert_int_equal(r.height, 24);
    assert_int_equal(r.load, 11);
}

static void gaps_are_used(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack("id,lower,upper,size,gaps\na,0,9,8,2-6\nb,2,6,8,\n", 0, &r, &err), DCT_OK);
    assert_int_equal(r.height, 8);
    assert_int_equal(pack("id,lower,upper,size,gaps\na,0,9,8,2-4@0:3  4-6@0:2\nb,2,6,5,\nonly gaps,0,4,100,0-4\n", 0, &r, &err),
                     DCT_OK);
    assert_int_equal(r.load, 8);
    assert_int_equal(r.height, 8);
    assert_string_equal(read_answer("packfile_answer.csv"),
                        "id,lower,upper,size,gaps,offset\na,0,9,8,2-4@0:3  4-6@0:2,0\nb,2,6,5,,3\nonly gaps,0,4,100,0-4,0\n");
}

static void the_older_form_includes_its_end(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(pack("id,begin,end,size\na,0,3,8\nb,3,5,8\n", 0, &r, &err), DCT_OK);
    assert_int_equal(r.load, 16); /* both are live at 3 */
}

static void the_picture_shows_every_item(void **state) {
    (void)state;
    dct_packfile_params params = {.path = write_problem("id,lower,upper,size\nfirst,0,3,4\n<b>,2,9,4\n"),
                                  .svg = "packfile_picture.svg"};
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(dct_packfile(&params, &r, &err), DCT_OK);
    const char *svg = read_answer("packfile_picture.svg");
    assert_non_null(strstr(svg, "first: 4 bytes"));
    assert_non_null(strstr(svg, "?b?: 4 bytes"));
    assert_non_null(strstr(svg, "</svg>"));
}

/* What was written is a packing with every offset fixed: read again, nothing moves, and an overlap is named. */
static void an_answer_is_its_own_answer(void **state) {
    (void)state;
    dct_packfile_result r;
    dct_err err;
    char first[4096];
    assert_int_equal(pack("id,lower,upper,size\na,0,3,4\nb,2,9,6\nc,5,9,3\n", 0, &r, &err), DCT_OK);
    strcpy(first, read_answer("packfile_answer.csv"));
    assert_int_equal(pack(first, 0, &r, &err), DCT_OK);
    assert_string_equal(read_answer("packfile_answer.csv"), first);
    assert_int_equal(pack("id,lower,upper,size,offset\na,0,3,4,0\nb,2,9,6,3\n", 0, &r, &err), DCT_BAD_FILE);
    assert_non_null(strstr(err.message, "fixed over"));
}

static void a_clock_ends_the_search(void **state) {
    (void)state;
    static char text[20000];
    size_t n = (size_t)snprintf(text, sizeof text, "id,lower,upper,size\n");
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t begin = i * 7919 % 500;
        n += (size_t)snprintf(text + n, sizeof text - n, "%u,%u,%u,%u\n", i, begin, begin + 3 + i * 31 % 67,
                              1000 + i * 613 % 9973);
    }
    dct_packfile_params params = {.path = write_problem(text), .seconds = 0.2f, .minimize = true};
    dct_packfile_result r;
    dct_err err;
    assert_int_equal(dct_packfile(&params, &r, &err), DCT_OK);
    assert_true(r.ms < 20000); /* nodes alone would not end it for years */
    assert_true(r.bound >= r.load && r.height >= r.bound);
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
        {"id,lower,upper,size,gaps\na,0,9,1,3-2\n", "no part"},
        {"id,lower,upper,size,gaps\na,0,9,1,1-3 2-4\n", "not after"},
        {"id,lower,upper,size,gaps\na,0,9,1,1-10\n", "no part"},
        {"id,lower,upper,size,gaps\na,0,9,4,1-3@0:5\n", "no part"},
        {"id,lower,upper,size,gaps\na,0,9,4,1\n", "gap's end"},
        {"id,lower,upper,size,gaps\na,0,9,4,1-3@2\n", "high byte"},
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
        cmocka_unit_test(gaps_are_used),
        cmocka_unit_test(the_older_form_includes_its_end),
        cmocka_unit_test(the_picture_shows_every_item),
        cmocka_unit_test(an_answer_is_its_own_answer),
        cmocka_unit_test(a_clock_ends_the_search),
        cmocka_unit_test(a_capacity_that_is_too_small_names_both),
        cmocka_unit_test(wrong_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
