#include "model/json.h"

#include <string.h>

#include "base/size.h"
#include "base/utf8.h"

/* ---- checking ---- */

typedef struct scan {
    const char *text, *p, *end;
    const char *why; /* set once, where p stands */
} scan;

static bool fail(scan *s, const char *why) {
    if (s->why == NULL) s->why = why;
    return false;
}

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int hex_of(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static void skip_space(scan *s) {
    while (s->p < s->end && is_space(*s->p)) s->p++;
}

static bool check_word(scan *s, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0) return fail(s, "a value expected");
    s->p += n;
    return true;
}

static bool check_digits(scan *s) {
    const char *begin = s->p;
    while (s->p < s->end && is_digit(*s->p)) s->p++;
    return s->p > begin || fail(s, "a digit expected");
}

static bool check_number(scan *s) {
    if (*s->p == '-') s->p++;
    const char *first = s->p;
    if (!check_digits(s)) return false;
    if (*first == '0' && s->p - first > 1) return fail(s, "a number with a leading zero");
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!check_digits(s)) return false;
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-')) s->p++;
        if (!check_digits(s)) return false;
    }
    return true;
}

static bool check_escape(scan *s) {
    s->p++; /* the backslash */
    if (s->p == s->end) return fail(s, "a string without an end");
    if (*s->p != 'u') {
        if (strchr("\"\\/bfnrt", *s->p) == NULL || *s->p == '\0') return fail(s, "an unknown escape");
        s->p++;
        return true;
    }
    if (s->end - s->p < 5) return fail(s, "a string without an end");
    for (int i = 1; i <= 4; i++) {
        if (hex_of(s->p[i]) < 0) return fail(s, "four hex digits expected");
    }
    s->p += 5;
    return true;
}

static bool check_string(scan *s) {
    s->p++;
    while (s->p < s->end && *s->p != '"') {
        if ((uint8_t)*s->p < 0x20) return fail(s, "a control character in a string");
        if (*s->p == '\\') {
            if (!check_escape(s)) return false;
            continue;
        }
        uint32_t c;
        size_t n = (uint8_t)*s->p < 0x80 ? 1 : dct_utf8_next(s->p, (size_t)(s->end - s->p), &c);
        if (n == 0) return fail(s, "bytes that are not UTF-8");
        s->p += n;
    }
    if (s->p == s->end) return fail(s, "a string without an end");
    s->p++;
    return true;
}

static bool check_key(scan *s) {
    skip_space(s);
    if (s->p == s->end || *s->p != '"') return fail(s, "a name in quotes expected");
    if (!check_string(s)) return false;
    skip_space(s);
    if (s->p == s->end || *s->p != ':') return fail(s, "':' expected");
    s->p++;
    return true;
}

/* What is open at each level: '{' or '['. */
typedef struct levels {
    char open[DCT_JSON_MAX_DEPTH];
    uint32_t n;
} levels;

/* Behind a value: closes what ends here and steps over a comma. False when the outermost value is complete, or on failure. */
static bool check_after(scan *s, levels *l) {
    while (l->n > 0) {
        skip_space(s);
        if (s->p == s->end) return fail(s, "it is cut off");
        char open = l->open[l->n - 1];
        if (*s->p == ',') {
            s->p++;
            return open == '[' || check_key(s);
        }
        if (*s->p != (open == '{' ? '}' : ']')) return fail(s, open == '{' ? "',' or '}' expected" : "',' or ']' expected");
        s->p++;
        l->n--;
    }
    return false;
}

/* The begin of an object or an array. *empty when it ends at once. */
static bool check_open(scan *s, levels *l, bool *empty) {
    char open = *s->p;
    if (l->n == DCT_JSON_MAX_DEPTH) return fail(s, "more levels than are read");
    l->open[l->n++] = open;
    s->p++;
    skip_space(s);
    *empty = s->p < s->end && *s->p == (open == '{' ? '}' : ']');
    return *empty || open == '[' || check_key(s);
}

static bool check_scalar(scan *s) {
    char c = *s->p;
    if (c == '"') return check_string(s);
    if (c == '-' || is_digit(c)) return check_number(s);
    return check_word(s, c == 't' ? "true" : c == 'f' ? "false" : "null");
}

static void check_text(scan *s) {
    levels l = {.n = 0};
    bool more = true;
    skip_space(s);
    if (s->p < s->end && *s->p != '{') {
        fail(s, "an object expected");
        return;
    }
    while (more) {
        skip_space(s);
        if (s->p == s->end) {
            fail(s, "it is cut off");
            return;
        }
        if (*s->p == '{' || *s->p == '[') {
            bool empty;
            if (!check_open(s, &l, &empty)) return;
            if (!empty) continue;
        } else if (!check_scalar(s)) {
            return;
        }
        more = check_after(s, &l);
    }
    if (s->why != NULL) return;
    skip_space(s);
    if (s->p < s->end) fail(s, "something stands behind the end");
}

dct_status dct_json_open(dct_str text, const char *what, uint64_t base, dct_json *root, dct_err *err) {
    scan s = {.text = text.ptr, .p = text.ptr, .end = text.ptr + text.len};
    check_text(&s);
    if (s.why != NULL)
        return dct_fail_at(err, DCT_BAD_FILE, base + (uint64_t)(s.p - s.text), "%s: not valid JSON: %s", what, s.why);
    s.p = text.ptr;
    skip_space(&s);
    *root = (dct_json){s.p, text.ptr};
    return DCT_OK;
}

/* ---- walking a checked text ---- */

static const char *past_space(const char *p) {
    while (is_space(*p)) p++;
    return p;
}

/* Behind the string that begins at p. */
static const char *past_string(const char *p) {
    for (p++; *p != '"'; p++) {
        if (*p == '\\') p++;
    }
    return p + 1;
}

static const char *past_value(const char *p) {
    if (*p == '"') return past_string(p);
    if (*p != '{' && *p != '[') {
        while (is_digit(*p) || *p == '-' || *p == '+' || *p == '.' || (*p >= 'a' && *p <= 'z') || *p == 'E') p++;
        return p;
    }
    uint32_t depth = 0;
    do {
        if (*p == '"') {
            p = past_string(p);
            continue;
        }
        if (*p == '{' || *p == '[') depth++;
        if (*p == '}' || *p == ']') depth--;
        p++;
    } while (depth > 0);
    return p;
}

dct_json_kind dct_json_kind_of(dct_json v) {
    if (v.at == NULL) return DCT_JSON_NONE;
    switch (*v.at) {
    case '{': return DCT_JSON_OBJECT;
    case '[': return DCT_JSON_ARRAY;
    case '"': return DCT_JSON_STRING;
    case 't': case 'f': return DCT_JSON_BOOL;
    case 'n': return DCT_JSON_NULL;
    default: return DCT_JSON_NUMBER;
    }
}

uint64_t dct_json_offset(dct_json v) { return v.at == NULL ? 0 : (uint64_t)(v.at - v.text); }

dct_json_walk dct_json_begin(dct_json v) {
    dct_json_kind kind = dct_json_kind_of(v);
    dct_json_walk w = {.text = v.text, .is_object = kind == DCT_JSON_OBJECT};
    if (kind != DCT_JSON_OBJECT && kind != DCT_JSON_ARRAY) return w;
    const char *p = past_space(v.at + 1);
    w.next = *p == '}' || *p == ']' ? NULL : p;
    return w;
}

bool dct_json_next(dct_json_walk *w) {
    const char *p = w->next;
    if (p == NULL) return false;
    if (w->is_object) {
        const char *end = past_string(p);
        w->key = (dct_str){p + 1, (size_t)(end - p) - 2};
        p = past_space(past_space(end) + 1);
    }
    w->value = (dct_json){p, w->text};
    p = past_space(past_value(p));
    w->next = *p == ',' ? past_space(p + 1) : NULL;
    return true;
}

uint64_t dct_json_count(dct_json v) {
    uint64_t n = 0;
    for (dct_json_walk w = dct_json_begin(v); dct_json_next(&w);) n++;
    return n;
}

/* ---- strings ---- */

static uint32_t hex4(const char *p) {
    return (uint32_t)(hex_of(p[0]) << 12 | hex_of(p[1]) << 8 | hex_of(p[2]) << 4 | hex_of(p[3]));
}

/* The character of the escape at p (which is a backslash), and the bytes it takes in the text. */
static uint32_t escape_at(const char *p, const char *end, uint32_t *bytes) {
    static const char letters[] = "bfnrt", values[] = "\b\f\n\r\t";
    *bytes = 2;
    if (p[1] != 'u') {
        const char *letter = strchr(letters, p[1]);
        return letter != NULL ? (uint32_t)values[letter - letters] : (uint32_t)p[1];
    }
    uint32_t code = hex4(p + 2);
    *bytes = 6;
    if (code < 0xd800 || code >= 0xe000) return code;
    if (code < 0xdc00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u') {
        uint32_t low = hex4(p + 8);
        if (low >= 0xdc00 && low < 0xe000) {
            *bytes = 12;
            return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return 0xfffd;
}

static uint32_t put_utf8(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    uint32_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (uint32_t i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xf0) | code);
    return n;
}

dct_str dct_json_raw(dct_json v) {
    if (dct_json_kind_of(v) != DCT_JSON_STRING) return (dct_str){NULL, 0};
    return (dct_str){v.at + 1, (size_t)(past_string(v.at) - v.at) - 2};
}

uint64_t dct_json_decode(dct_str raw, char *out) {
    uint64_t n = 0;
    for (const char *p = raw.ptr, *end = raw.ptr + raw.len; p < end;) {
        char utf8[4] = {*p};
        uint32_t bytes = 1, put = 1;
        if (*p == '\\') put = put_utf8(escape_at(p, end, &bytes), utf8);
        if (out != NULL) memcpy(out + n, utf8, put);
        n += put;
        p += bytes;
    }
    return n;
}

/* Whether raw, decoded, is `text`; in place. */
static bool decodes_to(dct_str raw, const char *text) {
    size_t left = strlen(text);
    for (const char *p = raw.ptr, *end = raw.ptr + raw.len; p < end;) {
        char utf8[4] = {*p};
        uint32_t bytes = 1, put = 1;
        if (*p == '\\') put = put_utf8(escape_at(p, end, &bytes), utf8);
        if (left < put || memcmp(text, utf8, put) != 0) return false;
        text += put;
        left -= put;
        p += bytes;
    }
    return left == 0;
}

bool dct_json_str_is(dct_json v, const char *text) {
    return dct_json_kind_of(v) == DCT_JSON_STRING && decodes_to(dct_json_raw(v), text);
}

dct_json dct_json_find(dct_json object, const char *key, uint32_t *n) {
    dct_json found = {0};
    uint32_t count = 0;
    if (dct_json_kind_of(object) == DCT_JSON_OBJECT) {
        for (dct_json_walk w = dct_json_begin(object); dct_json_next(&w);) {
            if (!decodes_to(w.key, key)) continue;
            if (count++ == 0) found = w.value;
        }
    }
    if (n != NULL) *n = count;
    return found;
}

/* ---- numbers ---- */

/* A number as digits * 10^exponent; digits beyond the nineteenth only move the exponent. */
typedef struct decimal {
    bool negative, exact;
    uint64_t digits;
    int64_t exponent;
} decimal;

static void take_digit(decimal *d, char c, bool is_fraction) {
    uint64_t more;
    if (!dct_mul_u64(d->digits, 10, &more) || !dct_add_u64(more, (uint64_t)(c - '0'), &more)) {
        if (c != '0') d->exact = false;
        if (!is_fraction) d->exponent++;
        return;
    }
    d->digits = more;
    if (is_fraction) d->exponent--;
}

static decimal read_decimal(const char *p) {
    decimal d = {.exact = true};
    if (*p == '-') {
        d.negative = true;
        p++;
    }
    for (; is_digit(*p); p++) take_digit(&d, *p, false);
    if (*p == '.') {
        for (p++; is_digit(*p); p++) take_digit(&d, *p, true);
    }
    if (*p != 'e' && *p != 'E') return d;
    p++;
    bool down = *p == '-';
    if (*p == '-' || *p == '+') p++;
    int64_t e = 0;
    for (; is_digit(*p); p++) {
        if (e < 100000) e = e * 10 + (*p - '0');
    }
    d.exponent += down ? -e : e;
    return d;
}

bool dct_json_u64(dct_json v, uint64_t *out) {
    if (dct_json_kind_of(v) != DCT_JSON_NUMBER) return false;
    decimal d = read_decimal(v.at);
    for (; d.digits != 0 && d.exponent < 0 && d.digits % 10 == 0; d.exponent++) d.digits /= 10;
    for (; d.digits != 0 && d.exponent > 0 && d.digits <= UINT64_MAX / 10; d.exponent--) d.digits *= 10;
    if (!d.exact || (d.digits != 0 && (d.negative || d.exponent != 0))) return false;
    *out = d.digits;
    return true;
}

/* Right to the last bit for up to fifteen digits and small exponents, as configurations have them; beyond that to a few units of
 * the last place. No use of strtod, which follows the program's locale. */
bool dct_json_f64(dct_json v, double *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (dct_json_kind_of(v) != DCT_JSON_NUMBER) return false;
    decimal d = read_decimal(v.at);
    for (; d.digits != 0 && d.exponent < 0 && d.digits % 10 == 0; d.exponent++) d.digits /= 10;
    double x = (double)d.digits;
    int64_t e = d.exponent;
    if (d.digits == 0) e = 0;
    if (e > 400 || e < -400) return false;
    for (; e > 0; e -= e < 22 ? e : 22) x *= powers[e < 22 ? e : 22];
    for (; e < 0; e += e > -22 ? -e : 22) x /= powers[e > -22 ? -e : 22];
    if (!(x <= 1.7976931348623157e308)) return false;
    *out = d.negative ? -x : x;
    return true;
}

bool dct_json_bool(dct_json v, bool *out) {
    if (dct_json_kind_of(v) != DCT_JSON_BOOL) return false;
    *out = *v.at == 't';
    return true;
}
