/* Streaming UTF-8: the examples of the Unicode standard, cut at every place, and a plain second implementation on random bytes. */
#include "text_support.h"

#define FFFD "\xef\xbf\xbd"

typedef struct utf8_case { const char *in, *out; } utf8_case;
static const utf8_case cases[] = {
    {"\x20\xF0\x9F\x98\xB8", "\x20\xF0\x9F\x98\xB8"},
    {"\xED\xA0\x80", FFFD FFFD FFFD},                                          /* a surrogate */
    {"\xF0\x80\x80\x41", FFFD FFFD FFFD "A"},                                  /* an overlong form */
    {"\xE2\x80\x41", FFFD "A"},
    {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", FFFD FFFD FFFD FFFD "A"},
    {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A"},
    {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B"}, /* above U+10FFFF */
    {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
    {"\xED\x9F\xBF\xEE\x80\x80", "\xED\x9F\xBF\xEE\x80\x80"},
    {"\xE4\xB8", FFFD},                                                        /* the text ends inside a character */
    {"", ""},
};

/* Pushes a text in pieces of `step` bytes; checks the bound on each answer and that at most 3 bytes are held. */
static size_t push_all(const char *in, size_t n, size_t step, char *out) {
    dct_utf8_stream s = {{0}, 0};
    size_t written = 0;
    for (size_t i = 0; i < n; i += step) {
        size_t piece = n - i < step ? n - i : step;
        size_t got = dct_utf8_push(&s, in + i, piece, out + written);
        assert_true(got <= 3 * (piece + 3));
        assert_true(s.n_held <= 3);
        written += got;
    }
    written += dct_utf8_flush(&s, out + written);
    assert_int_equal(s.n_held, 0);
    return written;
}

static void test_standard(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t step = 1; step < 12; step++) {
            char out[200];
            size_t n = push_all(cases[i].in, strlen(cases[i].in), step, out);
            assert_int_equal(n, strlen(cases[i].out));
            assert_memory_equal(out, cases[i].out, n);
        }
    }
}

/* A whole character comes out with its last byte, not later. */
static void test_no_delay(void **state) {
    (void)state;
    dct_utf8_stream s = {{0}, 0};
    char out[40];
    assert_int_equal(dct_utf8_push(&s, "\xF0\x9F\x98", 3, out), 0);
    assert_int_equal(dct_utf8_push(&s, "\xB8", 1, out), 4);
    assert_int_equal(dct_utf8_push(&s, "A", 1, out), 1);
}

/* Length of the well-formed character at p, else 0, from the definition: decode, then ask whether encoding it again would be this long. */
static size_t well_formed(const uint8_t *p, size_t n) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
    if (len == 0 || len > n) return 0;
    uint32_t code = len == 1 ? p[0] : p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (p[i] >> 6 != 2) return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    return code >= least[len] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? len : 0;
}

/* Whether some bytes after p[0, n) make a well-formed character of it. */
static bool is_proper_start(const uint8_t *p, size_t n) {
    uint8_t whole[4];
    memcpy(whole, p, n);
    for (size_t len = n + 1; len <= 4; len++) {
        for (uint32_t fill = 0x80; fill <= 0xbf; fill++) {
            for (size_t i = n; i < len; i++) whole[i] = i == n ? (uint8_t)fill : 0x80;
            if (well_formed(whole, len) == len) return true;
        }
    }
    return false;
}

static void test_random(void **state) {
    (void)state;
    static const uint8_t alphabet[] = {0x41, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf3, 0xf4, 0xf5, 0xff};
    uint64_t seed = 11;
    for (int round = 0; round < 3000; round++) {
        uint8_t in[24];
        char out[100], want[100];
        size_t n_want = 0;
        for (size_t i = 0; i < sizeof in; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            in[i] = alphabet[(seed >> 33) % sizeof alphabet];
        }
        for (size_t i = 0; i < sizeof in;) {
            size_t len = well_formed(in + i, sizeof in - i);
            if (len != 0) memcpy(want + n_want, in + i, len);
            else memcpy(want + n_want, FFFD, 3);
            n_want += len != 0 ? len : 3;
            for (size_t more = 1; len == 0; more++) /* the longest start of a character is one part */
                if (more == 4 || i + more >= sizeof in || !is_proper_start(in + i, more + 1)) len = more;
            i += len;
        }
        size_t n = push_all((const char *)in, sizeof in, 1 + (size_t)round % 5, out);
        assert_int_equal(n, n_want);
        assert_memory_equal(out, want, n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standard),
        cmocka_unit_test(test_no_delay),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
