/* Cost profiles in files: what is written is read back, and nothing that is cut off, falls or is out of order is taken. */
#include "compile/compile_support.h"
#include "support/collect.h"

static const dct_rates RATES[] = {
    {12000000000, 80000000000, 0}, {20000000000, 150000000000, 1500}, {20000000000, 151000000000, 1800}};

static dct_status parse(const char *text, uint32_t threads, dct_profile *out) {
    dct_err err = {0};
    return dct_profile_parse(text, strlen(text), threads, out, &err);
}

static void a_line_a_number_of_workers(void **state) {
    (void)state;
    collected file = {0};
    dct_profile p;
    dct_profile_write(RATES, 3, collect, &file);
    assert_int_equal(parse(file.text, 2, &p), DCT_OK); /* the first two lines are those of the built-in profile */
    assert_int_equal(dct_profile_hash(&p), dct_profile_hash(dct_profile_default()));
    assert_int_equal(parse(file.text, 1, &p), DCT_OK);
    assert_true(p.macs_per_s_all == 80e9 && p.wait_us == 0);
    assert_int_equal(parse(file.text, 3, &p), DCT_OK);
    assert_true(p.bytes_per_s_one == 12e9 && p.macs_per_s_all == 151e9 && p.wait_us == 1.8);
    assert_int_equal(parse(file.text, 16, &p), DCT_OK); /* more than were measured: no more than those */
    assert_true(p.macs_per_s_all == 151e9);
    free(file.text);
}

static void no_part_of_a_file_but_whole_lines(void **state) {
    (void)state;
    collected file = {0};
    dct_profile p;
    dct_err err;
    dct_profile_write(RATES, 3, collect, &file);
    for (size_t n = 0; n < file.n; n++) {
        uint32_t lines = 0;
        for (size_t i = 0; i < n; i++) lines += file.text[i] == '\n';
        bool is_whole = lines >= 2 && file.text[n - 1] == '\n';
        assert_int_equal(dct_profile_parse(file.text, n, 2, &p, &err), is_whole ? DCT_OK : DCT_BAD_FILE);
    }
    free(file.text);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    static const char *const lines[] = {
        "workers 2 bytes_per_s 5 macs_per_s 5 wait_ns 5\n",  /* not the first */
        "workers 1 bytes_per_s 0 macs_per_s 5 wait_ns 5\n",  /* a rate of nothing */
        "workers 1 bytes_per_s -5 macs_per_s 5 wait_ns 5\n",
        "workers 1 bytes_per_s 5.5 macs_per_s 5 wait_ns 5\n",
        "workers 1 bytes_per_s 5 macs_per_s 1000000000000000001 wait_ns 5\n",
        "workers 1 bytes_per_s 5 macs_per_s 99999999999999999999999999 wait_ns 5\n",
        "workers 1 bytes_per_s 5 macs_per_s 5 wait_ns 5 \n",
        "workers 1 bytes_per_s 5 macs_per_s 5 wait_ns 5\nworkers 2 bytes_per_s 4 macs_per_s 5 wait_ns 5\n",
        "workers 1 bytes_per_s 5 macs_per_s 5 wait_ns 5\nworkers 2 bytes_per_s 5 macs_per_s 4 wait_ns 5\n",
        "workers 1 bytes_per_s 5 macs_per_s 5 wait_ns 5\nworkers 3 bytes_per_s 5 macs_per_s 5 wait_ns 5\n",
    };
    char text[256];
    dct_profile p;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(text, sizeof text, "dctms cost profile 1\n%s", lines[i]);
        if (parse(text, 2, &p) != DCT_BAD_FILE) fail_msg("taken: %s", lines[i]);
    }
    assert_int_equal(parse("dctms cost profile 2\nworkers 1 bytes_per_s 5 macs_per_s 5 wait_ns 5\n", 1, &p), DCT_BAD_FILE);
    assert_int_equal(parse("dctms cost profile 1\nworkers 1 bytes_per_s 5 macs_per_s 5 wait_ns 5\n", 1, &p), DCT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_a_number_of_workers),
        cmocka_unit_test(no_part_of_a_file_but_whole_lines),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
