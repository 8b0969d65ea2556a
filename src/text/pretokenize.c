#include "text/pretokenize.h"

#include "text/unicode.h"

typedef struct text_char {
    uint32_t code;
    dct_char_class kind;
    uint32_t bytes; /* 0 at the end */
} text_char;

static text_char char_at(const uint8_t *text, uint64_t pos, uint64_t end) {
    text_char c = {DCT_CHAR_INVALID, DCT_CHAR_END, 0};
    if (pos >= end) return c;
    c.bytes = dct_utf8_decode(text + pos, end - pos, &c.code);
    c.kind = dct_char_class_of(c.code);
    return c;
}

/* [^\s\p{L}\p{N}] */
static bool is_mark(text_char c) { return c.kind == DCT_CHAR_PUNCT || c.kind == DCT_CHAR_OTHER; }

static bool is_line_end(text_char c) { return c.code == '\r' || c.code == '\n'; }

static bool is_number(text_char c) { return c.kind == DCT_CHAR_NUMBER; }

static bool is_letter(text_char c) { return c.kind == DCT_CHAR_LETTER; }

static bool is_ascii_digit(text_char c) { return c.code >= '0' && c.code <= '9'; }

typedef bool char_test(text_char c);

static uint64_t skip_while(const uint8_t *text, uint64_t pos, uint64_t end, char_test *test) {
    for (text_char c = char_at(text, pos, end); c.bytes != 0 && test(c); c = char_at(text, pos, end)) pos += c.bytes;
    return pos;
}

static uint64_t skip_until(const uint8_t *text, uint64_t pos, uint64_t end, char_test *test) {
    for (text_char c = char_at(text, pos, end); c.bytes != 0 && !test(c); c = char_at(text, pos, end)) pos += c.bytes;
    return pos;
}

/* ---- the pieces that several expressions share ---- */

/* Bytes of 's 't 'm 'd 're 've 'll at pos, or 0. */
static uint64_t contraction_bytes(const uint8_t *text, uint64_t pos, uint64_t end, bool any_case) {
    if (text[pos] != '\'' || end - pos < 2) return 0;
    uint8_t fold = any_case ? 0x20 : 0; /* only ASCII letters are compared below, so setting the bit lowers the case */
    uint8_t a = text[pos + 1] | fold;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (end - pos < 3) return 0;
    uint8_t b = text[pos + 2] | fold;
    return ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) ? 3 : 0;
}

/* White space: \s+(?!\S)|\s+, that is, the whole run, but for its last character when something follows. With `lines`, first
 * \s*[\r\n]+, that is, up to the last line end of the run. */
static uint64_t white_space_end(const uint8_t *text, uint64_t pos, uint64_t end, bool lines) {
    uint64_t p = pos, last = pos, after_line = 0;
    for (text_char c = char_at(text, p, end); c.kind == DCT_CHAR_SPACE; c = char_at(text, p, end)) {
        last = p;
        p += c.bytes;
        if (is_line_end(c)) after_line = p;
    }
    if (lines && after_line != 0) return after_line;
    return p < end && last > pos ? last : p;
}

/* ---- whole expressions ---- */

/* (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,max_digits} | ' '?[^\s\p{L}\p{N}]+[\r\n]* | white space */
static uint64_t tiktoken_end(const uint8_t *text, uint64_t pos, uint64_t end, uint32_t max_digits) {
    uint64_t contraction = contraction_bytes(text, pos, end, true);
    if (contraction != 0) return pos + contraction;
    text_char first = char_at(text, pos, end);
    text_char second = char_at(text, pos + first.bytes, end);
    if (is_letter(first) || (is_letter(second) && !is_number(first) && !is_line_end(first)))
        return skip_while(text, pos + first.bytes, end, is_letter);
    if (is_number(first)) {
        for (uint32_t i = 0; i < max_digits && is_number(first); i++) {
            pos += first.bytes;
            first = char_at(text, pos, end);
        }
        return pos;
    }
    if (is_mark(first.code == ' ' ? second : first)) {
        pos = skip_while(text, pos + first.bytes, end, is_mark);
        return skip_while(text, pos, end, is_line_end);
    }
    return white_space_end(text, pos, end, true);
}

static uint64_t split_qwen2(const uint8_t *text, uint64_t pos, uint64_t end) { return tiktoken_end(text, pos, end, 1); }

static uint64_t split_llama3(const uint8_t *text, uint64_t pos, uint64_t end) { return tiktoken_end(text, pos, end, 3); }

/* 's|'t|'re|'ve|'m|'ll|'d | ' '?\p{L}+ | ' '?\p{N}+ | ' '?[^\s\p{L}\p{N}]+ | white space */
static uint64_t split_gpt2(const uint8_t *text, uint64_t pos, uint64_t end) {
    uint64_t contraction = contraction_bytes(text, pos, end, false);
    if (contraction != 0) return pos + contraction;
    text_char first = char_at(text, pos, end);
    text_char head = first.code == ' ' ? char_at(text, pos + 1, end) : first;
    if (is_letter(head)) return skip_while(text, pos + first.bytes, end, is_letter);
    if (is_number(head)) return skip_while(text, pos + first.bytes, end, is_number);
    if (is_mark(head)) return skip_while(text, pos + first.bytes, end, is_mark);
    return white_space_end(text, pos, end, false);
}

/* ---- splits of one kind of character ---- */

/* X+ and what lies between. */
static uint64_t run_end(const uint8_t *text, uint64_t pos, uint64_t end, char_test *test) {
    return test(char_at(text, pos, end)) ? skip_while(text, pos, end, test) : skip_until(text, pos, end, test);
}

/* Each X alone, and what lies between. */
static uint64_t single_end(const uint8_t *text, uint64_t pos, uint64_t end, char_test *test) {
    text_char c = char_at(text, pos, end);
    return test(c) ? pos + c.bytes : skip_until(text, pos, end, test);
}

/* \s?X+ and what lies between. */
static uint64_t spaced_run_end(const uint8_t *text, uint64_t pos, uint64_t end, char_test *test) {
    text_char c = char_at(text, pos, end), next = char_at(text, pos + c.bytes, end);
    if (test(c) || (c.kind == DCT_CHAR_SPACE && next.bytes != 0 && test(next)))
        return skip_while(text, pos + c.bytes, end, test);
    while (next.bytes != 0 && !test(next)) { /* looks one character ahead of where the gap ends so far */
        pos += c.bytes;
        c = next;
        next = char_at(text, pos + c.bytes, end);
    }
    if (next.bytes == 0) return end;
    return c.kind == DCT_CHAR_SPACE ? pos : pos + c.bytes;
}

static uint64_t split_each_number(const uint8_t *text, uint64_t pos, uint64_t end) {
    return single_end(text, pos, end, is_number);
}

static uint64_t split_number_runs(const uint8_t *text, uint64_t pos, uint64_t end) { return run_end(text, pos, end, is_number); }

static uint64_t split_each_line_end(const uint8_t *text, uint64_t pos, uint64_t end) {
    return single_end(text, pos, end, is_line_end);
}

/* [\p{P}$+<=>^~|] */
static bool is_default_punct(text_char c) {
    if (c.kind == DCT_CHAR_PUNCT) return true;
    return c.code == '$' || c.code == '+' || c.code == '<' || c.code == '=' || c.code == '>' || c.code == '^' || c.code == '~' ||
           c.code == '|';
}

static uint64_t split_default_punct(const uint8_t *text, uint64_t pos, uint64_t end) {
    return run_end(text, pos, end, is_default_punct);
}

static bool three_digits_at(const uint8_t *text, uint64_t pos, uint64_t end) {
    return end - pos >= 3 && is_ascii_digit(char_at(text, pos, end)) && is_ascii_digit(char_at(text, pos + 1, end)) &&
           is_ascii_digit(char_at(text, pos + 2, end));
}

/* [0-9][0-9][0-9] and what lies between. */
static uint64_t split_three_digits(const uint8_t *text, uint64_t pos, uint64_t end) {
    if (three_digits_at(text, pos, end)) return pos + 3;
    while (pos < end && !three_digits_at(text, pos, end)) pos += char_at(text, pos, end).bytes;
    return pos;
}

/* ---- deepseek-llm: its expressions are lists of ranges, as they stood in the Unicode of their day ---- */

typedef struct code_range { uint32_t first, last; } code_range;

static bool in_ranges(uint32_t code, const code_range *ranges, size_t n) {
    size_t low = 0;
    while (low < n) { /* finds the range that is the first to end at or after code */
        size_t middle = low + (n - low) / 2;
        if (ranges[middle].last < code) low = middle + 1; else n = middle;
    }
    return ranges[low].first <= code && code <= ranges[low].last;
}

/* The last range is a sentinel, so the search always ends on an entry. */
static bool is_cased_letter(text_char c) {
    static const code_range ranges[] = {
    {0x0041, 0x005A}, {0x0061, 0x007A}, {0x00B5, 0x00B5}, {0x00C0, 0x00D6}, {0x00D8, 0x00F6}, {0x00F8, 0x01BA},
    {0x01BC, 0x01BF}, {0x01C4, 0x0293}, {0x0295, 0x02AF}, {0x0370, 0x0373}, {0x0376, 0x0377}, {0x037B, 0x037D},
    {0x037F, 0x037F}, {0x0386, 0x0386}, {0x0388, 0x038A}, {0x038C, 0x038C}, {0x038E, 0x03A1}, {0x03A3, 0x03F5},
    {0x03F7, 0x0481}, {0x048A, 0x052F}, {0x0531, 0x0556}, {0x10A0, 0x10C5}, {0x13A0, 0x13F5}, {0x13F8, 0x13FD},
    {0x1C90, 0x1CBA}, {0x1CBD, 0x1CBF}, {0x1D00, 0x1D2B}, {0x1D6B, 0x1D77}, {0x1D79, 0x1D9A}, {0x1E00, 0x1F15},
    {0x1F18, 0x1F1D}, {0x1F20, 0x1F45}, {0x1F48, 0x1F4D}, {0x1F50, 0x1F57}, {0x1F59, 0x1F59}, {0x1F5B, 0x1F5B},
    {0x1F5D, 0x1F5D}, {0x1F5F, 0x1F7D}, {0x1F80, 0x1FB4}, {0x1FB6, 0x1FBC}, {0x1FBE, 0x1FBE}, {0x1FC2, 0x1FC4},
    {0x1FC6, 0x1FCC}, {0x1FD0, 0x1FD3}, {0x1FD6, 0x1FDB}, {0x1FE0, 0x1FEC}, {0x1FF2, 0x1FF4}, {0x1FF6, 0x1FFC},
    {0x2102, 0x2102}, {0x2107, 0x2107}, {0x210A, 0x2113}, {0x2115, 0x2115}, {0x2119, 0x211D}, {0x2124, 0x2124},
    {0x2126, 0x2126}, {0x2128, 0x2128}, {0x212A, 0x212D}, {0x212F, 0x2134}, {0x2139, 0x2139}, {0x213C, 0x213F},
    {0x2145, 0x2149}, {0x214E, 0x214E}, {0x2183, 0x2184}, {0x2C00, 0x2C7B}, {0x2C7E, 0x2CE4}, {0x2CEB, 0x2CEE},
    {0x2CF2, 0x2CF3}, {0xA640, 0xA66D}, {0xA680, 0xA69B}, {0xA722, 0xA76F}, {0xA771, 0xA787}, {0xA78B, 0xA78E},
    {0xAB70, 0xABBF}, {0xFB00, 0xFB06}, {0xFB13, 0xFB17}, {0xFF21, 0xFF3A}, {0xFF41, 0xFF5A}, {0x10400, 0x1044F},
    {0x104B0, 0x104D3}, {0x104D8, 0x104FB}, {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF},
    {0x1E900, 0x1E943},
        {UINT32_MAX, 0},
    };
    return in_ranges(c.code, ranges, sizeof ranges / sizeof ranges[0] - 1);
}

/* [!-/:-~！-／：-～‘-‟　-。], which takes in the ASCII letters: an accented word is cut between its ASCII and its other letters. */
static bool is_deepseek_mark(text_char c) {
    static const code_range ranges[] = {{'!', '/'},       {':', '~'},       {0x2018, 0x201F}, {0x3000, 0x3002},
                                        {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}, {UINT32_MAX, 0}};
    return in_ranges(c.code, ranges, sizeof ranges / sizeof ranges[0] - 1);
}

/* [一-龥ࠀ-一가-퟿] */
static bool is_deepseek_wide(text_char c) {
    return (c.code >= 0x800 && c.code <= 0x9FA5) || (c.code >= 0xAC00 && c.code <= 0xD7FF);
}

static uint64_t split_cased_words(const uint8_t *text, uint64_t pos, uint64_t end) {
    return spaced_run_end(text, pos, end, is_cased_letter);
}

static uint64_t split_deepseek_marks(const uint8_t *text, uint64_t pos, uint64_t end) {
    return spaced_run_end(text, pos, end, is_deepseek_mark);
}

static uint64_t split_deepseek_wide(const uint8_t *text, uint64_t pos, uint64_t end) {
    return run_end(text, pos, end, is_deepseek_wide);
}

/* \s+$ and what comes before. */
static uint64_t split_trailing_space(const uint8_t *text, uint64_t pos, uint64_t end) {
    uint64_t solid_end = pos;
    for (uint64_t p = pos; p < end;) {
        text_char c = char_at(text, p, end);
        p += c.bytes;
        if (c.kind != DCT_CHAR_SPACE) solid_end = p;
    }
    return solid_end > pos ? solid_end : end;
}

/* ---- families ---- */

enum { PRE_DEFAULT, PRE_GPT2, PRE_QWEN2, PRE_LLAMA3, PRE_DBRX, PRE_SMOLLM, PRE_DEEPSEEK_LLM };

static const dct_pre_family families[] = {
    [PRE_DEFAULT] = {"default", {split_default_punct, split_gpt2, split_number_runs, split_three_digits}, false, false},
    [PRE_GPT2] = {"gpt-2", {split_gpt2}, false, false},
    [PRE_QWEN2] = {"qwen2", {split_qwen2}, false, false},
    [PRE_LLAMA3] = {"llama-bpe", {split_llama3}, true, true},
    [PRE_DBRX] = {"dbrx", {split_llama3}, false, false},
    [PRE_SMOLLM] = {"smollm", {split_each_number, split_gpt2}, false, false},
    [PRE_DEEPSEEK_LLM] = {"deepseek-llm",
                          {split_each_line_end, split_cased_words, split_deepseek_marks, split_trailing_space,
                           split_deepseek_wide, split_number_runs},
                          false,
                          false},
};

/* Names under which converters write the same cut with the same defaults. */
static const struct { const char *name; uint32_t family; } aliases[] = {
    {"phi-2", PRE_GPT2},         {"mpt", PRE_GPT2},         {"olmo", PRE_GPT2},       {"jais", PRE_GPT2},
    {"gigachat", PRE_GPT2},      {"a.x-4.0", PRE_GPT2},     {"mellum", PRE_GPT2},     {"exaone4", PRE_GPT2},
    {"trillion", PRE_GPT2},      {"granite-docling", PRE_GPT2},
    {"deepseek-r1-qwen", PRE_QWEN2}, {"kormo", PRE_QWEN2},  {"f2llmv2", PRE_QWEN2},   {"megrez", PRE_QWEN2},
    {"stablelm2", PRE_QWEN2},    {"hunyuan", PRE_QWEN2},    {"solar-open", PRE_QWEN2}, {"grok-2", PRE_QWEN2},
    {"llama3", PRE_LLAMA3},      {"llama-v3", PRE_LLAMA3},  {"falcon3", PRE_LLAMA3},  {"falcon-h1", PRE_LLAMA3},
    {"pixtral", PRE_LLAMA3},     {"midm-2.0", PRE_LLAMA3},  {"lfm2", PRE_LLAMA3},
    {"smaug-bpe", PRE_DBRX},
    {"starcoder", PRE_SMOLLM},   {"refact", PRE_SMOLLM},    {"command-r", PRE_SMOLLM}, {"codeshell", PRE_SMOLLM},
    {"exaone", PRE_SMOLLM},      {"minerva-7b", PRE_SMOLLM}, {"mellum2", PRE_SMOLLM},
};

bool dct_pre_find(dct_str name, uint32_t *family) {
    for (uint32_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (!dct_str_eq_z(name, families[i].name)) continue;
        *family = i;
        return true;
    }
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (!dct_str_eq_z(name, aliases[i].name)) continue;
        *family = aliases[i].family;
        return true;
    }
    return false;
}

const dct_pre_family *dct_pre_get(uint32_t family) { return &families[family]; }

const char *dct_pre_names(void) { return "qwen2, llama-bpe, gpt-2, smollm, deepseek-llm, dbrx, default"; }

dct_pre_walk dct_pre_start(uint32_t family, const uint8_t *text, uint64_t n) {
    dct_pre_walk walk = {.family = &families[family], .text = text, .end = n};
    return walk;
}

bool dct_pre_next(dct_pre_walk *walk, uint64_t *from, uint64_t *to) {
    if (walk->pos >= walk->end) return false;
    uint64_t end = walk->end; /* of the piece that the split before left */
    for (uint32_t i = 0; i < DCT_PRE_MAX_SPLITS && walk->family->splits[i] != NULL; i++) {
        if (walk->piece_end[i] <= walk->pos) walk->piece_end[i] = walk->family->splits[i](walk->text, walk->pos, end);
        end = walk->piece_end[i];
    }
    *from = walk->pos;
    *to = walk->pos = end;
    return true;
}
