/* tokenizer.json and tokenizer_config.json as the keys that GGUF files have.
 *
 *     vocab {text: id}, added_tokens        -> tokens, token_type         ids that nothing names become unused tokens
 *     merges ["a b"] or [["a", "b"]]        -> merges ["a b"]             of BPE, byte-level or with byte fallback; the latter is
 *                                                                         SPM with merges for scores
 *     the regular expression of the cut     -> pre                        known by its text
 *     bos_token, eos_token, chat_template   -> ids, chat_template
 *
 * A cut or a normaliser that we do not know is refused: other tokens than the model's own are worse than none. NFC is taken and
 * not applied, as llama.cpp does: what people type is composed already.
 */
#include <stdio.h>
#include <string.h>

#include "model/gguf_scan.h"
#include "model/hf.h"

enum { MAX_HOLES = 8192 };
#define SIGN_OF_SPACE "\xe2\x96\x81"
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

/* The vocabulary by ids. */
typedef struct vocab {
    dct_json model, root, config; /* "model" of tokenizer.json, its root, tokenizer_config.json */
    bool is_spm;
    uint32_t n;
    dct_str *raw;    /* as the JSON has them; ptr NULL: a hole */
    int32_t *types;
    dct_str *texts;  /* decoded, in the image of the array */
    dct_name_index index; /* of texts */
} vocab;

/* ---- tokens ---- */

/* Checks ids and finds how many there are. */
static void count_tokens(dct_hf_build *b, vocab *v, dct_json list, dct_json added) {
    uint64_t n_entries = 0, n = b->n_vocab, id;
    for (dct_json_walk w = dct_json_begin(list); dct_json_next(&w); n_entries++) {
        if (!dct_json_u64(w.value, &id) || id >= b->n_vocab) {
            dct_hf_fail(b, w.value, "the id of a token is not a whole number below vocab_size (%u)", b->n_vocab);
            return;
        }
    }
    n_entries += dct_json_count(added);
    if (n > n_entries + MAX_HOLES)
        dct_hf_fail(b, list, "%llu tokens for a vocab_size of %u", (unsigned long long)n_entries, b->n_vocab);
    v->n = (uint32_t)n;
}

static void take_vocab(dct_hf_build *b, vocab *v, dct_json list) {
    for (dct_json_walk w = dct_json_begin(list); dct_json_next(&w);) {
        uint64_t id = 0;
        if (!dct_json_u64(w.value, &id)) continue; /* was checked */
        if (v->raw[id].ptr != NULL) {
            dct_hf_fail(b, w.value, "two tokens have the id %llu", (unsigned long long)id);
            return;
        }
        v->raw[id] = w.key;
        v->types[id] = NORMAL;
    }
}

/* What changes tokens and is not done here; `object` sets it or not. */
static void refuse_flag(dct_hf_build *b, dct_json object, const char *key) {
    bool is_set = false;
    if (dct_hf_bool(b, object, key, &is_set) && is_set) dct_hf_fail(b, object, "'%s' is not supported", key);
}

static void take_added(dct_hf_build *b, vocab *v, dct_json added) {
    for (dct_json_walk w = dct_json_begin(added); dct_json_next(&w) && b->status == DCT_OK;) {
        uint32_t id = UINT32_MAX;
        bool special = false;
        dct_json content = {0};
        if (!dct_hf_u32(b, w.value, "id", &id) || !dct_hf_str(b, w.value, "content", &content)) {
            dct_hf_fail(b, w.value, "an added token has no id or no content");
            return;
        }
        if (id >= v->n) continue; /* of another part: Gemma's stand-in for an image has no row in the text model's tables */
        refuse_flag(b, w.value, "lstrip");
        refuse_flag(b, w.value, "single_word");
        if (strcmp(b->arch, "phi3") != 0) refuse_flag(b, w.value, "rstrip"); /* there, text/ knows which tokens do that */
        dct_hf_bool(b, w.value, "special", &special);
        v->raw[id] = dct_json_raw(content);
        v->types[id] = special ? CONTROL : USER_DEFINED;
    }
}

static bool is_byte_token(dct_str text) { return text.len == 6 && memcmp(text.ptr, "<0x", 3) == 0 && text.ptr[5] == '>'; }

/* Writes the elements of one array: counts with a writer without memory, and writes. */
typedef void write_fn(dct_writer *w, vocab *v);

static void put_text(dct_writer *w, dct_str raw) {
    uint64_t n = dct_json_decode(raw, NULL);
    dct_write_u64(w, n);
    if (w->bytes != NULL) dct_json_decode(raw, (char *)w->bytes + w->pos);
    w->pos += n;
}

static void write_tokens(dct_writer *w, vocab *v) {
    for (uint32_t id = 0; id < v->n; id++) {
        char pad[32];
        uint64_t begin = w->pos + 8;
        if (v->raw[id].ptr != NULL) {
            put_text(w, v->raw[id]);
        } else {
            int n = snprintf(pad, sizeof pad, "[PAD%u]", id);
            dct_write_u64(w, (uint64_t)n);
            dct_write_bytes(w, pad, (uint64_t)n);
        }
        if (w->bytes != NULL) v->texts[id] = (dct_str){(const char *)w->bytes + begin, (size_t)(w->pos - begin)};
    }
}

static void put_image(dct_hf_build *b, vocab *v, const char *key, uint64_t n, write_fn *write) {
    dct_writer w = {0};
    write(&w, v);
    uint64_t n_bytes = w.pos;
    uint8_t *bytes = dct_hf_alloc(b, n_bytes, 1);
    if (bytes == NULL) return;
    w = (dct_writer){.bytes = bytes, .size = n_bytes};
    write(&w, v);
    dct_hf_put_array(b, key, DCT_META_STRING, n, bytes, n_bytes);
}

static void index_texts(dct_hf_build *b, vocab *v) {
    if (!dct_hf_index(b, &v->index, v->n)) return;
    for (uint32_t id = 0; id < v->n; id++) *dct_name_index_slot(&v->index, v->texts, sizeof *v->texts, v->texts[id]) = id + 1;
}

static bool find_token(const vocab *v, dct_str text, uint32_t *id) {
    uint32_t found = *dct_name_index_slot(&v->index, v->texts, sizeof *v->texts, text);
    *id = found - 1;
    return found != 0;
}

static void put_tokens(dct_hf_build *b, vocab *v) {
    dct_json list = dct_hf_member(b, v->model, "vocab"), added = dct_hf_member(b, v->root, "added_tokens"), unknown = {0};
    if (b->status == DCT_OK && dct_json_kind_of(list) != DCT_JSON_OBJECT) dct_hf_fail(b, list, "'vocab' is not an object");
    if (b->status == DCT_OK) count_tokens(b, v, list, added);
    v->raw = dct_hf_alloc(b, v->n, sizeof *v->raw);
    v->types = dct_hf_alloc(b, v->n, sizeof *v->types);
    v->texts = dct_hf_alloc(b, v->n, sizeof *v->texts);
    if (b->status != DCT_OK) return;
    for (uint32_t id = 0; id < v->n; id++) v->types[id] = UNUSED;
    take_vocab(b, v, list);
    take_added(b, v, added);
    if (b->status != DCT_OK) return;
    put_image(b, v, "tokenizer.ggml.tokens", v->n, write_tokens);
    index_texts(b, v);
    if (b->status != DCT_OK) return;
    for (uint32_t id = 0; v->is_spm && id < v->n; id++) {
        if (is_byte_token(v->texts[id])) v->types[id] = BYTE;
    }
    uint32_t id;
    if (v->is_spm && dct_hf_str(b, v->model, "unk_token", &unknown) && find_token(v, dct_hf_text(b, unknown), &id)) {
        v->types[id] = UNKNOWN;
        dct_hf_put_u32(b, "tokenizer.ggml.unknown_token_id", id);
    }
    dct_hf_put_array(b, "tokenizer.ggml.token_type", DCT_META_I32, v->n, v->types, (uint64_t)v->n * sizeof *v->types);
}

/* ---- merges ---- */

/* The two sides of a merge: of a pair, or of a string with a space behind its first character. */
static bool cut_merge(dct_json merge, dct_str sides[2]) {
    dct_json_walk w = dct_json_begin(merge);
    if (dct_json_kind_of(merge) == DCT_JSON_ARRAY) {
        for (int i = 0; i < 2; i++) {
            if (!dct_json_next(&w) || dct_json_kind_of(w.value) != DCT_JSON_STRING) return false;
            sides[i] = dct_json_raw(w.value);
        }
        return !dct_json_next(&w);
    }
    dct_str whole = dct_json_raw(merge);
    const char *space = whole.len > 1 ? memchr(whole.ptr + 1, ' ', whole.len - 1) : NULL;
    if (space == NULL) return false;
    sides[0] = (dct_str){whole.ptr, (size_t)(space - whole.ptr)};
    sides[1] = (dct_str){space + 1, whole.len - sides[0].len - 1};
    return true;
}

static void write_merges(dct_writer *w, vocab *v) {
    for (dct_json_walk walk = dct_json_begin(dct_json_find(v->model, "merges", NULL)); dct_json_next(&walk);) {
        dct_str sides[2];
        if (!cut_merge(walk.value, sides)) continue; /* was checked */
        dct_write_u64(w, dct_json_decode(sides[0], NULL) + 1 + dct_json_decode(sides[1], NULL));
        for (int i = 0; i < 2; i++) {
            uint64_t n = dct_json_decode(sides[i], w->bytes == NULL ? NULL : (char *)w->bytes + w->pos);
            w->pos += n;
            if (i == 0) dct_write_u8(w, ' ');
        }
    }
}

static void put_merges(dct_hf_build *b, vocab *v) {
    dct_json merges = dct_hf_member(b, v->model, "merges");
    uint64_t n = 0;
    if (dct_json_kind_of(merges) != DCT_JSON_ARRAY) dct_hf_fail(b, merges, "'merges' is not an array");
    for (dct_json_walk w = dct_json_begin(merges); b->status == DCT_OK && dct_json_next(&w); n++) {
        dct_str sides[2];
        if (!cut_merge(w.value, sides)) dct_hf_fail(b, w.value, "a merge is not two tokens");
    }
    if (b->status == DCT_OK) put_image(b, v, "tokenizer.ggml.merges", n, write_merges);
}

/* ---- the cut into words ---- */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const struct {
    const char *regex, *pre,
        *pre_ignoring; /* pre_ignoring: when words that are tokens ignore the merges; NULL: that is not known */
} cuts[] = {
    {CONTRACTIONS "\\p{N}" REST, "qwen2", NULL},
    {CONTRACTIONS "\\p{N}{1,3}" REST, "dbrx", "llama-bpe"},
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", "gpt-2", NULL},
};

/* What the pre-tokenizers do, in their order. */
typedef struct cut {
    dct_json regex;    /* of a Split */
    uint32_t n_splits;
    bool single_digits, byte_level, own_regex;
} cut;

static void take_step(dct_hf_build *b, dct_json step, cut *c) {
    dct_json type = {0}, pattern, behavior = {0};
    if (!dct_hf_str(b, step, "type", &type)) dct_hf_fail(b, step, "a pre-tokenizer has no type");
    if (c->byte_level) dct_hf_fail(b, step, "a pre-tokenizer behind ByteLevel is not supported");
    if (dct_json_str_is(type, "ByteLevel")) {
        c->byte_level = c->own_regex = true;
        dct_hf_bool(b, step, "use_regex", &c->own_regex);
        refuse_flag(b, step, "add_prefix_space");
    } else if (dct_json_str_is(type, "Split")) {
        pattern = dct_hf_member(b, step, "pattern");
        c->n_splits++;
        if (!dct_hf_str(b, pattern, "Regex", &c->regex))
            dct_hf_fail(b, step, "a Split without a regular expression is not supported");
        if (!dct_hf_str(b, step, "behavior", &behavior) || !dct_json_str_is(behavior, "Isolated"))
            dct_hf_fail(b, step, "a Split whose 'behavior' is not 'Isolated' is not supported");
        refuse_flag(b, step, "invert");
    } else if (dct_json_str_is(type, "Digits")) {
        dct_hf_bool(b, step, "individual_digits", &c->single_digits);
        if (!c->single_digits) dct_hf_fail(b, step, "a pre-tokenizer that keeps digits together is not supported");
    } else {
        dct_hf_fail(b, step, "pre-tokenizer '%s' is not supported", dct_gguf_quote(dct_json_raw(type)).text);
    }
}

static const char *pre_of_regex(dct_hf_build *b, const cut *c, bool ignores_merges) {
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        if (!dct_json_str_is(c->regex, cuts[i].regex)) continue;
        const char *pre = ignores_merges ? cuts[i].pre_ignoring : cuts[i].pre;
        if (pre == NULL) dct_hf_fail(b, c->regex, "'ignore_merges' with this pre-tokenizer is not supported");
        return pre;
    }
    dct_hf_fail(b, c->regex, "the regular expression of the pre-tokenizer is not one we know: %.200s",
                dct_gguf_quote(dct_json_raw(c->regex)).text);
    return NULL;
}

static void put_byte_level(dct_hf_build *b, vocab *v) {
    dct_json first = dct_hf_member(b, v->root, "pre_tokenizer"), steps = dct_hf_member(b, first, "pretokenizers"), type = {0};
    bool ignores_merges = false;
    cut c = {0};
    const char *pre = NULL;
    dct_hf_bool(b, v->model, "ignore_merges", &ignores_merges);
    dct_hf_str(b, first, "type", &type);
    if (!dct_json_str_is(type, "Sequence")) take_step(b, first, &c);
    for (dct_json_walk w = dct_json_begin(steps); b->status == DCT_OK && dct_json_next(&w);) take_step(b, w.value, &c);
    if (b->status != DCT_OK) return;
    if (c.byte_level && c.own_regex && c.n_splits == 0) {
        pre = c.single_digits ? "smollm" : "gpt-2";
        if (ignores_merges) dct_hf_fail(b, v->model, "'ignore_merges' with this pre-tokenizer is not supported");
    }
    else if (c.byte_level && !c.own_regex && c.n_splits == 1 && !c.single_digits) pre = pre_of_regex(b, &c, ignores_merges);
    else dct_hf_fail(b, first, "this sequence of pre-tokenizers is not supported");
    if (pre == NULL) return;
    dct_hf_put_str(b, "tokenizer.ggml.model", DCT_STR("gpt2"));
    dct_hf_put_str(b, "tokenizer.ggml.pre", (dct_str){pre, strlen(pre)});
}

/* Whether a list of steps (or the one there is) has one of this type. */
static dct_json find_step(dct_json step, const char *list, const char *type) {
    if (dct_json_str_is(dct_json_find(step, "type", NULL), type)) return step;
    for (dct_json_walk w = dct_json_begin(dct_json_find(step, list, NULL)); dct_json_next(&w);) {
        if (dct_json_str_is(dct_json_find(w.value, "type", NULL), type)) return w.value;
    }
    return (dct_json){0};
}

/* Of the normalisers and cuts of such a tokenizer, those that SPM has of itself: a space is the sign of one, and goes before. */
static void check_step(dct_hf_build *b, dct_json step) {
    static const struct {
        const char *type, *key; /* which says what stands for a space */
        bool of_space;          /* its pattern is one */
    } known[] = {
        {"Prepend", "prepend", false}, {"Metaspace", "replacement", false}, {"Replace", "content", true}, {"Split", NULL, true},
    };
    dct_json type = {0}, text = {0}, sign = {0};
    if (step.at == NULL || !dct_hf_str(b, step, "type", &type)) return;
    bool is_of_space = dct_hf_str(b, dct_hf_member(b, step, "pattern"), "String", &text) && dct_json_str_is(text, " ");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!dct_json_str_is(type, known[i].type) || is_of_space != known[i].of_space) continue;
        if (known[i].key == NULL) return;
        if (dct_hf_str(b, step, known[i].key, &sign) && dct_str_eq_z(dct_hf_text(b, sign), SIGN_OF_SPACE)) return;
    }
    dct_hf_fail(b, step, "'%s' beside tokens for bytes is not supported", dct_gguf_quote(dct_json_raw(type)).text);
}

static void check_steps(dct_hf_build *b, dct_json first, const char *list) {
    if (!dct_json_str_is(dct_json_find(first, "type", NULL), "Sequence")) check_step(b, first);
    for (dct_json_walk w = dct_json_begin(dct_hf_member(b, first, list)); dct_json_next(&w);) check_step(b, w.value);
}

/* A space goes before each stretch of text when a normaliser prepends one, or a Metaspace does: before the first alone when that
 * is its scheme, and not before a space. It cuts the text before each space unless it says that it does not. */
static void put_spm(dct_hf_build *b, vocab *v) {
    dct_json normalizer = dct_hf_member(b, v->root, "normalizer"), steps = dct_hf_member(b, v->root, "pre_tokenizer");
    dct_json metaspace = find_step(steps, "pretokenizers", "Metaspace");
    dct_json scheme = dct_json_find(metaspace, "prepend_scheme", NULL);
    bool prepends = find_step(normalizer, "normalizers", "Prepend").at != NULL, prefix = prepends;
    bool cuts_spaces = metaspace.at != NULL;
    check_steps(b, normalizer, "normalizers");
    check_steps(b, steps, "pretokenizers");
    refuse_flag(b, v->model, "ignore_merges");
    if (!prepends && metaspace.at != NULL && !dct_json_str_is(scheme, "never")) {
        prefix = true;
        dct_hf_bool(b, metaspace, "add_prefix_space", &prefix);
        dct_hf_put_bool(b, DCT_KEY_PREFIX_FIRST, dct_json_str_is(scheme, "first"));
        dct_hf_put_bool(b, DCT_KEY_PREFIX_ONCE, true);
    }
    dct_hf_bool(b, metaspace, "split", &cuts_spaces);
    dct_hf_put_bool(b, DCT_KEY_CUT_AT_SPACES, cuts_spaces);
    dct_hf_put_str(b, "tokenizer.ggml.model", DCT_STR("llama"));
    dct_hf_put_bool(b, "tokenizer.ggml.add_space_prefix", prefix);
}

/* ---- tokens that mean something ---- */

/* A token of tokenizer_config.json: its text, or an object with the text. */
static bool token_of_config(dct_hf_build *b, const vocab *v, const char *key, uint32_t *id) {
    b->file = "tokenizer_config.json";
    dct_json token = dct_hf_member(b, v->config, key);
    if (dct_json_kind_of(token) == DCT_JSON_OBJECT) token = dct_hf_member(b, token, "content");
    if (dct_json_kind_of(token) != DCT_JSON_STRING) return false;
    dct_str text = dct_hf_text(b, token);
    if (b->status != DCT_OK) return false;
    if (find_token(v, text, id)) return true;
    if (strcmp(key, "pad_token") != 0) /* which nothing needs, and which fine-tunes add without a row for it */
        dct_hf_fail(b, token, "'%s' is not a token of the %u that the model has", key, v->n);
    return false;
}

/* An id, or the first of several, in a configuration. Some have -1 for "none", and fine-tunes a pad token without a row: that
 * says nothing. */
static bool id_of_config(dct_hf_build *b, dct_json config, const char *key, uint32_t *id) {
    b->file = "config.json or generation_config.json";
    dct_json v = dct_hf_member(b, config, key);
    dct_json_walk w = dct_json_begin(v);
    if (dct_json_kind_of(v) == DCT_JSON_ARRAY) v = dct_json_next(&w) ? w.value : (dct_json){0};
    uint64_t n;
    double number;
    if (v.at == NULL || (dct_json_f64(v, &number) && number == -1)) return false;
    const bool is_whole = dct_json_u64(v, &n);
    if (is_whole && n >= b->n_vocab && strcmp(key, "pad_token_id") == 0) return false;
    if (!is_whole || n >= b->n_vocab) {
        dct_hf_fail(b, v, "'%s' is not a token id below %u", key, b->n_vocab);
        return false;
    }
    *id = (uint32_t)n;
    return true;
}

static bool put_id(dct_hf_build *b, const vocab *v, dct_json generation, const char *token_key, const char *id_key,
                   const char *our_key) {
    uint32_t id = 0;
    bool found = token_of_config(b, v, token_key, &id) || id_of_config(b, generation, id_key, &id) ||
                 id_of_config(b, dct_hf_holder(b, id_key), id_key, &id);
    if (found && b->status == DCT_OK) dct_hf_put_u32(b, our_key, id);
    return found;
}

/* Whether the tokenizer's own template puts a token before the text; *known when it has one. */
static bool begins_with_token(const vocab *v, bool *known) {
    dct_json step = find_step(dct_json_find(v->root, "post_processor", NULL), "processors", "TemplateProcessing");
    dct_json_walk w = dct_json_begin(dct_json_find(step, "single", NULL));
    *known = step.at != NULL;
    return dct_json_next(&w) && dct_json_find(w.value, "SpecialToken", NULL).at != NULL;
}

static void put_switches(dct_hf_build *b, const vocab *v, bool has_bos) {
    bool known = false, adds = begins_with_token(v, &known);
    b->file = "tokenizer_config.json";
    if (dct_hf_bool(b, v->config, "add_bos_token", &adds)) known = true;
    if (!v->is_spm) known = true; /* no template, no token */
    if (known) dct_hf_put_bool(b, "tokenizer.ggml.add_bos_token", adds && has_bos);
}

/* All tokens that end an answer, where a configuration lists several. */
static void put_ends(dct_hf_build *b, dct_json generation) {
    dct_json list = dct_json_find(generation, "eos_token_id", NULL);
    if (list.at == NULL) list = dct_hf_setting(b, "eos_token_id");
    if (dct_json_kind_of(list) != DCT_JSON_ARRAY) return;
    uint64_t n = 0, id;
    int32_t *ids = dct_hf_alloc(b, dct_json_count(list), sizeof *ids);
    if (ids == NULL) return;
    for (dct_json_walk w = dct_json_begin(list); dct_json_next(&w);) {
        if (dct_json_u64(w.value, &id) && id < b->n_vocab) ids[n++] = (int32_t)id;
    }
    dct_hf_put_array(b, DCT_KEY_ENDS, DCT_META_I32, n, ids, n * sizeof *ids);
}

static void put_template(dct_hf_build *b, const vocab *v, const dct_hf_texts *texts) {
    b->file = "tokenizer_config.json";
    dct_json t = dct_hf_member(b, v->config, "chat_template");
    if (texts->chat_template.ptr != NULL) {
        dct_hf_put_str(b, "tokenizer.chat_template", texts->chat_template);
        return;
    }
    if (dct_json_kind_of(t) == DCT_JSON_ARRAY) { /* several by name */
        for (dct_json_walk w = dct_json_begin(t); dct_json_next(&w);) {
            if (dct_json_str_is(dct_json_find(w.value, "name", NULL), "default")) t = dct_json_find(w.value, "template", NULL);
        }
    }
    if (dct_json_kind_of(t) == DCT_JSON_STRING) dct_hf_put_str(b, "tokenizer.chat_template", dct_hf_text(b, t));
}

/* ---- the whole ---- */

static dct_json open_json(dct_hf_build *b, dct_str text, const char *file) {
    dct_json root = {0};
    if (text.ptr != NULL && b->status == DCT_OK) b->status = dct_json_open(text, file, 0, &root, b->err);
    return root;
}

static void refuse_affix(dct_hf_build *b, dct_json model, const char *key) {
    dct_json text = {0};
    if (dct_hf_str(b, model, key, &text) && dct_json_raw(text).len != 0) dct_hf_fail(b, text, "'%s' is not supported", key);
}

static void check_kind(dct_hf_build *b, vocab *v) {
    dct_json type = {0}, normalizer = dct_hf_member(b, v->root, "normalizer"), kind = {0};
    v->model = dct_hf_member(b, v->root, "model");
    if (dct_hf_str(b, v->model, "type", &type) && !dct_json_str_is(type, "BPE")) {
        dct_hf_fail(b, type, "tokenizers of type '%s' are not supported (BPE)", dct_gguf_quote(dct_json_raw(type)).text);
    }
    dct_hf_bool(b, v->model, "byte_fallback", &v->is_spm);
    refuse_affix(b, v->model, "continuing_subword_prefix");
    refuse_affix(b, v->model, "end_of_word_suffix");
    if (v->is_spm || normalizer.at == NULL || !dct_hf_str(b, normalizer, "type", &kind) || dct_json_str_is(kind, "NFC")) return;
    dct_hf_fail(b, normalizer, "normalizer '%s' is not supported", dct_gguf_quote(dct_json_raw(kind)).text);
}

void dct_hf_tokenizer(dct_hf_build *b, const dct_hf_texts *texts) {
    vocab v = {0};
    if (texts->tokenizer.ptr == NULL) return; /* text/ says what is missing, when it is needed */
    v.root = open_json(b, texts->tokenizer, "tokenizer.json");
    v.config = open_json(b, texts->tokenizer_config, "tokenizer_config.json");
    dct_json generation = open_json(b, texts->generation, "generation_config.json");
    b->file = "tokenizer.json";
    check_kind(b, &v);
    if (b->status != DCT_OK) return;
    if (v.is_spm) put_spm(b, &v);
    else put_byte_level(b, &v);
    put_tokens(b, &v);
    put_merges(b, &v);
    if (b->status != DCT_OK) return;
    bool has_bos = put_id(b, &v, generation, "bos_token", "bos_token_id", "tokenizer.ggml.bos_token_id");
    put_id(b, &v, generation, "eos_token", "eos_token_id", "tokenizer.ggml.eos_token_id");
    put_id(b, &v, generation, "pad_token", "pad_token_id", "tokenizer.ggml.padding_token_id");
    put_ends(b, generation);
    put_switches(b, &v, has_bos);
    put_template(b, &v, texts);
}
