/* Texts from outside: what is shown of each kind of character, and that nothing is read or written past its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/safe_text.h"
#include "base/status.h"

static void each_kind_of_character(void **state) {
    (void)state;
    static const struct { const char *from, *shown; } cases[] = {
        {"", ""}, {"plain \"quoted\" \\", "plain \"quoted\" \\"}, {"\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80", "\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80"},
        {"\n\t\r", "\\n\\t\\u{d}"}, {"\x1b[2J\x7f", "\\u{1b}[2J\\u{7f}"}, {"\xc2\x9b", "\\u{9b}"}, {"\xe2\x80\xae", "\\u{202e}"}, {"\xe2\x80\xa8", "\\u{2028}"},
        {"\xf3\xa0\x81\x81", "\\u{e0041}"}, {"\xff\xc0\x80", "\\xff\\xc0\\x80"}, {"\xed\xa0\x80", "\\xed\\xa0\\x80"}, {"\xe4\xb8", "\\xe4\\xb8"}, {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dct_safe_text room;
        assert_string_equal(dct_safe(cases[i].from, &room), cases[i].shown);
    }
}

/* A name of 64 bytes fits whatever it is; what does not fit is cut between characters. */
static void rooms_are_kept(void **state) {
    (void)state;
    char text[601];
    dct_safe_text room;
    memset(text, 0x1b, 63);
    text[63] = '\0';
    assert_int_equal(strlen(dct_safe(text, &room)), 63 * 6);
    memset(text, 0x1b, 600);
    text[600] = '\0';
    assert_int_equal(strlen(dct_safe(text, &room)), 511 / 6 * 6);
}

static void messages_are_safe(void **state) {
    (void)state;
    dct_err err;
    assert_int_equal(dct_fail(&err, DCT_BAD_FILE, "'%s'", "a\x1b[31m\xc2\x9b\xe2\x80\xae\xff\xc3\xa9"), DCT_BAD_FILE);
    assert_string_equal(err.message, "'a?[31m??????\xc3\xa9'");
    assert_int_equal(dct_fail_at(&err, DCT_BAD_FILE, 7, "x\ny"), DCT_BAD_FILE);
    assert_string_equal(err.message, "x?y (at byte 7)");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_kind_of_character), cmocka_unit_test(rooms_are_kept), cmocka_unit_test(messages_are_safe)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
