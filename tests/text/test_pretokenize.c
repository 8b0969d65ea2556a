/* The cuts, as text: words with a bar between them. Expected cuts follow from the regular expressions of the models' own tokenizers. */
#include "text/pretokenize.h"
#include "text_support.h"

typedef struct cut_case { const char *pre, *text, *words; } cut_case;
static const cut_case cases[] = {
    {"qwen2", "I'm DON'T 'tis we'LL", "I|'m| DON|'T| '|tis| we|'LL"},
    {"qwen2", "a2024 x", "a|2|0|2|4| x"},
    {"qwen2", "(x):\n  y", "(x|):\n| | y"},
    {"qwen2", "  a", " | a"},
    {"qwen2", "a  \n \n  b", "a|  \n \n| | b"},
    {"qwen2", "a \r\n", "a| \r\n"},
    {"qwen2", "end   ", "end|   "},
    {"qwen2", "!!\n\n?", "!!\n\n|?"},
    {"qwen2", "_a -b \tc", "_a| -|b| |\tc"},
    {"qwen2", "\xff" "a\xe2\x82", "\xff" "a|\xe2\x82"},
    {"qwen2", "x\xc2\xb2y", "x|\xc2\xb2|y"},
    {"deepseek-r1-qwen", "12", "1|2"},
    {"llama-bpe", "12345678 a", "123|456|78| a"},
    {"llama3", "'Re9", "'Re|9"},
    {"gpt-2", "I'm DON'T 2024", "I|'m| DON|'|T| 2024"},
    {"gpt-2", "a  b\n\nc", "a| | b|\n|\n|c"},
    {"gpt-2", "x \n", "x| \n"},
    {"gpt-2", "$5!? ok", "$|5|!?| ok"},
    {"smollm", "ab 12 c", "ab| |1|2| c"},
    {"smollm", "a  1", "a|  |1"},
    {"default", "a 12345!", "a| |123|45|!"},
    {"default", "it's <b>", "it|'|s| |<|b|>"},
    {"default", "x\xc2\xb2" "1234", "x|\xc2\xb2|123|4"},
    {"default", "`a` #1", "`|a|`| |#|1"},
    {"deepseek-llm", "caf\xc3\xa9 au", "caf|\xc3\xa9| au"},
    {"deepseek-llm", "x\n\ny", "x|\n|\n|y"},
    {"deepseek-llm", "ab  ", "ab|  "},
    {"deepseek-llm", "12 34", "12| |34"},
    {"deepseek-llm", "\xe4\xbd\xa0\xe5\xa5\xbd! 3", "\xe4\xbd\xa0\xe5\xa5\xbd|!| |3"},
    {"deepseek-llm", "a  b", "a| | b"},
};

/* Joins the words with bars; checks that they cover the text without gap. */
static void cut(uint32_t family, const char *text, size_t n, char *out) {
    dct_pre_walk walk = dct_pre_start(family, (const uint8_t *)text, n);
    uint64_t from, to, end = 0;
    char *p = out;
    while (dct_pre_next(&walk, &from, &to)) {
        assert_int_equal(from, end);
        assert_true(to > from && to <= n);
        if (from != 0) *p++ = '|';
        memcpy(p, text + from, to - from);
        p += to - from;
        end = to;
    }
    assert_int_equal(end, n);
    *p = '\0';
}

static void test_cuts(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t family;
        char out[400];
        assert_true(dct_pre_find((dct_str){cases[i].pre, strlen(cases[i].pre)}, &family));
        cut(family, cases[i].text, strlen(cases[i].text), out);
        if (strcmp(out, cases[i].words) != 0) fail_msg("%s: '%s' expected '%s'", cases[i].pre, out, cases[i].words);
    }
}

static void test_names(void **state) {
    (void)state;
    uint32_t family;
    assert_false(dct_pre_find(DCT_STR("qwen2x"), &family));
    assert_false(dct_pre_find(DCT_STR(""), &family));
    assert_true(dct_pre_find(DCT_STR("llama-v3"), &family));
    assert_true(dct_pre_get(family)->ignore_merges && dct_pre_get(family)->add_bos);
}

/* On any bytes every family's words cover the text. */
static void test_cover(void **state) {
    (void)state;
    static const char *const names[] = {"qwen2", "llama-bpe", "gpt-2", "smollm", "deepseek-llm", "dbrx", "default"};
    static const char *const bits[] = {"a", "\xc3\xa9", "1", " ", "\n", "\r", "'", "s", "\xe3\x80\x80", "!", "$", "\xe4\xb8\xad", "\xff", "\xe2\x80", "\xc2\xb2"};
    uint64_t seed = 5;
    for (int round = 0; round < 4000; round++) {
        char text[200] = "", out[600];
        for (int i = 0; i < 30; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            strcat(text, bits[(seed >> 33) % (sizeof bits / sizeof bits[0])]);
        }
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            uint32_t family;
            assert_true(dct_pre_find((dct_str){names[i], strlen(names[i])}, &family));
            cut(family, text, strlen(text), out);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_cover),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
