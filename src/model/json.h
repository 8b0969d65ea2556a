/* model/json: reading the JSON of model directories (config.json, tokenizer.json, headers of safetensors).
 *
 * A text is checked once, as a whole: RFC 8259, UTF-8, an object of at most DCT_JSON_MAX_DEPTH levels, nothing behind it. After
 * that a value is just where it begins, walking needs no memory and cannot fail, and only what is asked for is ever decoded. A
 * tree of nodes would cost ten times the bytes of a vocabulary, taken from malloc, before the envelope is known.
 */
#ifndef DCT_MODEL_JSON_H
#define DCT_MODEL_JSON_H

#include "base/reader.h"

enum { DCT_JSON_MAX_DEPTH = 64 };

typedef enum dct_json_kind {
    DCT_JSON_NONE, /* there is no such value */
    DCT_JSON_NULL,
    DCT_JSON_BOOL,
    DCT_JSON_NUMBER,
    DCT_JSON_STRING,
    DCT_JSON_ARRAY,
    DCT_JSON_OBJECT
} dct_json_kind;

/* A value of a checked text. {0} is none. */
typedef struct dct_json {
    const char *at;   /* its first character */
    const char *text; /* the whole text, for offsets */
} dct_json;

/* Checks the text and gives its value. `what` it is and `base`, where it begins in the file, are for messages. */
dct_status dct_json_open(dct_str text, const char *what, uint64_t base, dct_json *root, dct_err *err) DCT_MUST_CHECK;

dct_json_kind dct_json_kind_of(dct_json v);
uint64_t dct_json_offset(dct_json v); /* from the begin of the text */

/* Elements of an array or members of an object, in order. For other kinds there are none.
 *     for (dct_json_walk w = dct_json_begin(v); dct_json_next(&w);) ... w.key, w.value */
typedef struct dct_json_walk {
    const char *next; /* NULL at the end */
    const char *text;
    bool is_object;
    dct_str key; /* as it stands between the quotes: escapes are not decoded */
    dct_json value;
} dct_json_walk;
dct_json_walk dct_json_begin(dct_json v);
bool dct_json_next(dct_json_walk *w);
uint64_t dct_json_count(dct_json v);

/* The member of that name (plain ASCII), none when there is none; *n, when not NULL, is how many there are. */
dct_json dct_json_find(dct_json object, const char *key, uint32_t *n);

/* What stands between the quotes of a string, {NULL, 0} for other kinds; and that decoded: returns the bytes it has, at most
 * raw.len, and writes them when out is not NULL. A lone surrogate becomes U+FFFD. */
dct_str dct_json_raw(dct_json v);
uint64_t dct_json_decode(dct_str raw, char *out);
bool dct_json_str_is(dct_json v, const char *text); /* a string that decodes to `text` */

/* False when the value is something else, or out of range. A whole number may be written as 1e6 or 8.0. */
bool dct_json_u64(dct_json v, uint64_t *out);
bool dct_json_f64(dct_json v, double *out);
bool dct_json_bool(dct_json v, bool *out);

#endif
