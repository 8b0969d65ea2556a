/* The example that answers: what it prints, and what it says when it cannot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define main example_main
#include "../../examples/answer.c"
#undef main

static void the_answer_is_printed(void **state) {
    (void)state;
    dctms_error err;
    char text[256] = "";
    FILE *out = tmpfile();
    assert_non_null(out);
    assert_int_equal(answer(DCT_SOURCE_DIR "/models/tiny-vl/tiny-vl-f16.gguf", "What is the capital of France?", out, &err), DCTMS_OK);
    rewind(out);
    assert_true(fread(text, 1, sizeof text - 1, out) > 0);
    assert_string_equal(text, "The capital of France is Paris.\n15 tokens in, 7 out\n");
    fclose(out);
}

static void a_failure_is_said(void **state) {
    (void)state;
    dctms_error err;
    assert_int_equal(answer("nowhere.gguf", "?", stdout, &err), DCTMS_BAD_FILE);
    assert_string_equal(err.message, "nowhere.gguf: No such file or directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_answer_is_printed), cmocka_unit_test(a_failure_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
