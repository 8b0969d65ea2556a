/* text/vocab_build: the tables of a tokenizer, made from the header of a model file and checked while they are made.
 *
 * Sizes come first (a walk over the token texts), so the block is one planned item. Measuring builds the same tables in
 * temporary memory: what is measured without complaint will be built without complaint. Refused are: types of arrays that
 * are not what the format says, arrays shorter than the token list, a text that two tokens share, byte tokens that name no
 * byte, a text longer than any token's, scores that are no numbers, merges of unknown tokens, and a cut
 * (`tokenizer.ggml.pre`) that we do not know. Ids beyond the list say nothing.
 */
#include "text/vocab_build.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/size.h"
#include "model/hf.h"
#include "text/pretokenize.h"

typedef struct vocab_source {
    const dct_model *model;
    dct_vocab_kind kind;
    uint32_t pre;
    const dct_meta *tokens, *types, *scores, *merges; /* types and scores may be NULL */
} vocab_source;

/* The names of tokens that mean something in every vocabulary that has them. Converters do not always mark them. */
typedef struct known_name { const char *text; bool is_end, is_eot; } known_name;
static const known_name known_names[] = {
    {"<|eot_id|>", true, true},        {"<|im_end|>", true, true},      {"<|end|>", true, true},
    {"<end_of_turn>", true, true},     {"<|endoftext|>", true, true},   {"<|end_of_text|>", true, true},
    {"<EOT>", true, true},             {"_<EOT>", true, true},          {"[EOT]", true, true},
    {"<｜end▁of▁sentence｜>", true, true}, {"<end_of_utterance>", true, true},
    {"<|eom_id|>", true, false},       {"<|return|>", true, false},     {"<|call|>", true, false},
    {"</s>", true, false},             {"[EOS]", true, false},          {"<eos>", true, false},
    {"<|fim_pad|>", true, false},      {"<|repo_name|>", true, false},  {"<|file_sep|>", true, false},
    {"<|im_start|>", false, false},    {"<|start_header_id|>", false, false}, {"<|end_header_id|>", false, false},
    {"<start_of_turn>", false, false}, {"<|user|>", false, false},  {"<|assistant|>", false, false},
    {"<|system|>", false, false}, /* whoever writes these could open a turn */
    {"<|fim_prefix|>", false, false},  {"<|fim_suffix|>", false, false}, {"<|fim_middle|>", false, false},
};
enum { N_KNOWN_NAMES = sizeof known_names / sizeof known_names[0] };

/* ---- what the header says ---- */

static dct_status find_array(const dct_model *model, const char *key, dct_meta_type type, const dct_meta **out, dct_err *err) {
    const dct_meta *meta = dct_model_find_meta(model, key);
    *out = NULL;
    if (meta == NULL) return DCT_OK;
    bool is_sign_twin = type == DCT_META_I32 && meta->type == DCT_META_ARRAY && meta->array.type == DCT_META_U32;
    if (meta->type != DCT_META_ARRAY || (meta->array.type != type && !is_sign_twin))
        return dct_fail_at(err, DCT_BAD_FILE, meta->offset, "%s is not an array of %s", key,
                           type == DCT_META_STRING ? "strings" : type == DCT_META_F32 ? "32-bit floats" : "32-bit integers");
    *out = meta;
    return DCT_OK;
}

static dct_status check_length(const dct_meta *meta, const char *key, uint64_t n_tokens, dct_err *err) {
    if (meta == NULL || meta->array.n >= n_tokens) return DCT_OK;
    return dct_fail_at(err, DCT_BAD_FILE, meta->offset, "%s has %llu entries for %llu tokens", key,
                       (unsigned long long)meta->array.n, (unsigned long long)n_tokens);
}

static dct_status read_kind(const dct_model *model, vocab_source *src, dct_err *err) {
    dct_str name;
    bool found;
    dct_status status = dct_model_get_str(model, "tokenizer.ggml.model", &name, &found, err);
    if (status != DCT_OK) return status;
    if (!found && model->format == DCT_FORMAT_SAFETENSORS)
        return dct_fail(err, DCT_BAD_FILE, "the directory has no tokenizer.json");
    if (!found) return dct_fail(err, DCT_BAD_FILE, "the file has no tokenizer (tokenizer.ggml.model is missing)");
    if (dct_str_eq_z(name, "llama")) {
        src->kind = DCT_VOCAB_SPM;
        return DCT_OK;
    }
    if (!dct_str_eq_z(name, "gpt2"))
        return dct_fail(err, DCT_BAD_FILE, "unsupported tokenizer.ggml.model '%.*s' (supported: gpt2, llama)",
                        (int)(name.len < 64 ? name.len : 64), name.ptr);
    src->kind = DCT_VOCAB_BPE;
    dct_str pre = DCT_STR("default");
    status = dct_model_get_str(model, "tokenizer.ggml.pre", &pre, &found, err);
    if (status != DCT_OK) return status;
    if (!dct_pre_find(pre, &src->pre))
        return dct_fail(err, DCT_BAD_FILE, "unknown tokenizer.ggml.pre '%.*s' (known: %s)", (int)(pre.len < 64 ? pre.len : 64),
                        pre.ptr, dct_pre_names());
    return DCT_OK;
}

static dct_status read_source(const dct_model *model, vocab_source *src, dct_err *err) {
    *src = (vocab_source){.model = model};
    dct_status status = read_kind(model, src, err);
    if (status == DCT_OK) status = find_array(model, "tokenizer.ggml.tokens", DCT_META_STRING, &src->tokens, err);
    if (status == DCT_OK) status = find_array(model, "tokenizer.ggml.token_type", DCT_META_I32, &src->types, err);
    if (status == DCT_OK) status = find_array(model, "tokenizer.ggml.scores", DCT_META_F32, &src->scores, err);
    if (status == DCT_OK) status = find_array(model, "tokenizer.ggml.merges", DCT_META_STRING, &src->merges, err);
    if (status != DCT_OK) return status;
    if (src->tokens == NULL) return dct_fail(err, DCT_BAD_FILE, "tokenizer.ggml.tokens is missing");
    uint64_t n_tokens = src->tokens->array.n;
    if (n_tokens == 0 || n_tokens > INT32_MAX)
        return dct_fail_at(err, DCT_BAD_FILE, src->tokens->offset, "tokenizer.ggml.tokens has %llu tokens",
                           (unsigned long long)n_tokens);
    status = check_length(src->types, "tokenizer.ggml.token_type", n_tokens, err);
    if (status == DCT_OK) status = check_length(src->scores, "tokenizer.ggml.scores", n_tokens, err);
    if (status != DCT_OK) return status;
    if (src->kind == DCT_VOCAB_SPM && model->format != DCT_FORMAT_SAFETENSORS) { /* directories have merges, and no scores */
        src->merges = NULL;
        return DCT_OK;
    }
    src->scores = NULL;
    if (src->merges == NULL) return dct_fail(err, DCT_BAD_FILE, "tokenizer.ggml.merges is missing");
    if (src->merges->array.n > INT32_MAX)
        return dct_fail_at(err, DCT_BAD_FILE, src->merges->offset, "tokenizer.ggml.merges has too many entries");
    return DCT_OK;
}

/* ---- the layout of the block ---- */

static uint32_t table_slots(uint64_t n) {
    uint64_t slots = 16;
    while (slots * 3 < n * 4) slots *= 2; /* at most three quarters full */
    return (uint32_t)slots;
}

/* Puts an array of n items at *end, and moves *end behind it. Sums stay far below 2^64: counts are below 2^31. */
static uint64_t place(uint64_t *end, uint64_t n, uint64_t item_bytes) {
    uint64_t at = dct_round_up(*end, 8);
    *end = at + n * item_bytes;
    return at;
}

/* Sizes and offsets into *t; the block takes *table_bytes. */
static dct_status lay_out(const vocab_source *src, dct_tokenizer *t, uint64_t *table_bytes, dct_err *err) {
    uint64_t cursor = 0, text_bytes = 0, n_parsed = N_KNOWN_NAMES;
    dct_str text;
    memset(t, 0, sizeof *t);
    for (uint64_t i = 0; dct_meta_array_next_str(src->model, src->tokens, &cursor, &text); i++) {
        int64_t type = 1;
        text_bytes += text.len;
        if (text.len > t->longest) t->longest = (uint32_t)(text.len < UINT32_MAX ? text.len : UINT32_MAX);
        if (src->types != NULL && dct_meta_array_i64(src->model, src->types, i, &type) && type >= 2 && type <= 4) n_parsed++;
    }
    if (t->longest == 0) return dct_fail_at(err, DCT_BAD_FILE, src->tokens->offset, "tokenizer.ggml.tokens: no token has a text");
    if (t->longest > DCT_LONGEST_TOKEN)
        return dct_fail_at(err, DCT_BAD_FILE, src->tokens->offset,
                           "tokenizer.ggml.tokens: a token of %u bytes, at most %d are taken", t->longest, DCT_LONGEST_TOKEN);
    if (text_bytes >= UINT32_MAX) return dct_fail_at(err, DCT_BAD_FILE, src->tokens->offset, "tokenizer.ggml.tokens is too long");
    t->kind = src->kind;
    t->has_scores = src->merges == NULL;
    t->pre = src->pre;
    t->seed = src->model->index_seed;
    t->n_tokens = (uint32_t)src->tokens->array.n;
    t->n_merges = src->merges != NULL ? (uint32_t)src->merges->array.n : 0;
    t->index_mask = table_slots(t->n_tokens) - 1;
    t->merge_index_mask = table_slots(t->n_merges) - 1;
    uint64_t end = sizeof *t;
    t->starts_at = place(&end, (uint64_t)t->n_tokens + 1, sizeof(uint32_t));
    t->flags_at = place(&end, t->n_tokens, 1);
    t->index_at = place(&end, (uint64_t)t->index_mask + 1, sizeof(uint32_t));
    t->scores_at = place(&end, t->has_scores ? t->n_tokens : 0, sizeof(float));
    t->merges_at = place(&end, t->n_merges, sizeof(dct_merge));
    t->merge_index_at = place(&end, (uint64_t)t->merge_index_mask + 1, sizeof(uint32_t));
    t->parsed_at = place(&end, n_parsed, sizeof(dct_token));
    t->texts_at = place(&end, text_bytes, 1);
    *table_bytes = dct_round_up(end, 64);
    return DCT_OK;
}

/* Writable views of the block, for this file alone. */
static uint32_t *u32_at(dct_tokenizer *t, uint64_t offset) { return (uint32_t *)(void *)((char *)t + offset); }
static uint8_t *flags_of(dct_tokenizer *t) { return (uint8_t *)t + t->flags_at; }

/* ---- filling ---- */

static dct_status fill_texts(const vocab_source *src, dct_tokenizer *t, dct_err *err) {
    uint32_t *starts = u32_at(t, t->starts_at), *index = u32_at(t, t->index_at);
    char *texts = (char *)t + t->texts_at;
    uint64_t cursor = 0;
    uint32_t end = 0;
    dct_str text;
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        if (!dct_meta_array_next_str(src->model, src->tokens, &cursor, &text))
            return dct_fail_at(err, DCT_BAD_FILE, src->tokens->offset, "tokenizer.ggml.tokens ends at token %u", id);
        starts[id] = end;
        memcpy(texts + end, text.ptr, text.len);
        end += (uint32_t)text.len;
        starts[id + 1] = end;
        if (text.len == 0) continue; /* a hole in the list: never found, no text */
        uint64_t slot = dct_vocab_hash(t, text) & t->index_mask;
        for (; index[slot] != 0; slot = (slot + 1) & t->index_mask)
            if (dct_str_eq(dct_vocab_text(t, index[slot] - 1), text))
                return dct_fail_at(err, DCT_BAD_FILE, src->tokens->offset,
                                   "tokenizer.ggml.tokens: tokens %u and %u have the same text", index[slot] - 1, id);
        index[slot] = id + 1;
    }
    return DCT_OK;
}

static uint8_t flags_of_type(int64_t type) {
    switch (type) {
    case 1: return 0;
    case 2: return DCT_TOKEN_UNKNOWN;
    case 3: return DCT_TOKEN_CONTROL;
    case 4: return DCT_TOKEN_USER;
    case 6: return DCT_TOKEN_BYTE;
    default: return DCT_TOKEN_UNUSED;
    }
}

static dct_status fill_flags(const vocab_source *src, dct_tokenizer *t, dct_err *err) {
    if (src->types == NULL) return DCT_OK;
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        int64_t type = 1;
        if (!dct_meta_array_i64(src->model, src->types, id, &type))
            return dct_fail_at(err, DCT_BAD_FILE, src->types->offset, "tokenizer.ggml.token_type ends at token %u", id);
        flags_of(t)[id] = flags_of_type(type);
        if (type == 6 && dct_vocab_byte_of_text(dct_vocab_text(t, id)) < 0)
            return dct_fail_at(err, DCT_BAD_FILE, src->types->offset,
                               "tokenizer.ggml.token_type: token %u is a byte but not of the form <0xHH>", id);
    }
    return DCT_OK;
}

static dct_status fill_scores(const vocab_source *src, dct_tokenizer *t, dct_err *err) {
    float *scores = (float *)(void *)((char *)t + t->scores_at);
    for (uint32_t id = 0; src->scores != NULL && id < t->n_tokens; id++) {
        double score = 0;
        if (!dct_meta_array_f64(src->model, src->scores, id, &score) || isnan(score))
            return dct_fail_at(err, DCT_BAD_FILE, src->scores->offset,
                               "tokenizer.ggml.scores: the score of token %u is not a number", id);
        scores[id] = (float)score;
    }
    return DCT_OK;
}

/* "left right"; a token's first byte may itself be a space. False when there is no such space. */
static bool cut_merge(dct_str line, dct_str *left, dct_str *right) {
    const char *space = line.len > 1 ? memchr(line.ptr + 1, ' ', line.len - 1) : NULL;
    if (space == NULL) return false;
    *left = (dct_str){line.ptr, (size_t)(space - line.ptr)};
    *right = (dct_str){space + 1, line.len - left->len - 1};
    return true;
}

/* The token whose text is left and right together. */
static dct_token find_joined(const dct_tokenizer *t, dct_token left, dct_token right) {
    dct_str a = dct_vocab_text(t, left), b = dct_vocab_text(t, right);
    uint64_t hash = dct_hash_mix(dct_hash_bytes(dct_hash_bytes(t->seed, a.ptr, a.len), b.ptr, b.len));
    const uint32_t *index = dct_vocab_at(t, t->index_at);
    for (uint64_t slot = hash & t->index_mask; index[slot] != 0; slot = (slot + 1) & t->index_mask) {
        dct_str text = dct_vocab_text(t, index[slot] - 1);
        if (text.len == a.len + b.len && memcmp(text.ptr, a.ptr, a.len) == 0 && memcmp(text.ptr + a.len, b.ptr, b.len) == 0)
            return index[slot] - 1;
    }
    return DCT_NO_TOKEN;
}

/* A pair that is listed twice keeps its first rank. A merge that would make a control token stays out of the index, so no
 * text can become one. */
static dct_status fill_merges(const vocab_source *src, dct_tokenizer *t, dct_err *err) {
    dct_merge *merges = (dct_merge *)(void *)((char *)t + t->merges_at);
    uint32_t *index = u32_at(t, t->merge_index_at);
    uint64_t cursor = 0;
    for (uint32_t rank = 0; rank < t->n_merges; rank++) {
        dct_str line, left, right;
        dct_merge *merge = &merges[rank];
        if (!dct_meta_array_next_str(src->model, src->merges, &cursor, &line) || !cut_merge(line, &left, &right))
            return dct_fail_at(err, DCT_BAD_FILE, src->merges->offset, "tokenizer.ggml.merges: entry %u is not two tokens", rank);
        merge->left = dct_tokenizer_find(t, left);
        merge->right = dct_tokenizer_find(t, right);
        if (merge->left == DCT_NO_TOKEN || merge->right == DCT_NO_TOKEN)
            return dct_fail_at(err, DCT_BAD_FILE, src->merges->offset, "tokenizer.ggml.merges: entry %u names an unknown token",
                               rank);
        merge->merged = find_joined(t, merge->left, merge->right);
        if (merge->merged == DCT_NO_TOKEN)
            return dct_fail_at(err, DCT_BAD_FILE, src->merges->offset, "tokenizer.ggml.merges: entry %u makes an unknown token",
                               rank);
        if ((flags_of(t)[merge->merged] & (DCT_TOKEN_CONTROL | DCT_TOKEN_UNKNOWN)) != 0) continue;
        if (dct_vocab_find_merge(t, merge->left, merge->right) != DCT_NO_TOKEN) continue;
        uint64_t slot = dct_vocab_merge_hash(t, merge->left, merge->right) & t->merge_index_mask;
        while (index[slot] != 0) slot = (slot + 1) & t->merge_index_mask;
        index[slot] = rank + 1;
        flags_of(t)[merge->merged] |= DCT_TOKEN_MERGED;
    }
    return DCT_OK;
}

/* How plain bytes are spelt in token texts, and which token each single byte is. */
static void fill_bytes(dct_tokenizer *t) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        t->spelling[byte] = (dct_spelling){1, {(uint8_t)byte}};
        t->byte_token[byte] = DCT_NO_TOKEN;
    }
    if (t->kind == DCT_VOCAB_SPM) {
        t->spelling[' '] = (dct_spelling){3, {0xe2, 0x96, 0x81}};
        for (dct_token id = 0; id < t->n_tokens; id++) {
            if ((flags_of(t)[id] & DCT_TOKEN_BYTE) == 0) continue;
            t->byte_token[dct_vocab_byte_of_text(dct_vocab_text(t, id))] = id;
        }
        return;
    }
    for (uint32_t code = 0; code < 0x144; code++) {
        int32_t byte = dct_vocab_byte_of_code(code);
        if (byte < 0) continue;
        if (code >= 0x80) t->spelling[byte] = (dct_spelling){2, {(uint8_t)(0xc0 | code >> 6), (uint8_t)(0x80 | (code & 0x3f))}};
        else t->spelling[byte] = (dct_spelling){1, {(uint8_t)code}};
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint8_t plain = (uint8_t)byte;
        t->byte_token[byte] = dct_vocab_find_plain(t, false, &plain, 1);
    }
}

/* ---- tokens that mean something ---- */

/* Files have -1 for "none", and ids of tokens that are not there: they say nothing, and the default of the kind stays, as it does
 * elsewhere. */
static dct_status read_id(const dct_model *model, const char *key, uint32_t n_tokens, dct_token *id, dct_err *err) {
    const dct_meta *meta = dct_model_find_meta(model, key);
    bool found;
    uint32_t value = 0;
    if (*id != DCT_NO_TOKEN && *id >= n_tokens) *id = DCT_NO_TOKEN; /* in a list too short for it */
    if (meta != NULL && dct_meta_is_integer(meta->type) && meta->as.u >= n_tokens) return DCT_OK;
    dct_status status = dct_model_get_u32(model, key, &value, &found, err);
    if (status == DCT_OK && found) *id = value;
    return status;
}

static dct_status read_ids(const dct_model *model, dct_tokenizer *t, dct_err *err) {
    dct_special *s = &t->special;
    dct_token eom = DCT_NO_TOKEN;
    const struct { const char *key; dct_token *id;
    } ids[] = {
        {"tokenizer.ggml.bos_token_id", &s->bos},     {"tokenizer.ggml.eos_token_id", &s->eos},
        {"tokenizer.ggml.eot_token_id", &s->eot},     {"tokenizer.ggml.unknown_token_id", &s->unk},
        {"tokenizer.ggml.padding_token_id", &s->pad}, {"tokenizer.ggml.eom_token_id", &eom},
    };
    bool is_spm = t->kind == DCT_VOCAB_SPM;
    s->bos = is_spm ? 1 : DCT_NO_TOKEN;
    s->eos = is_spm ? 2 : DCT_NO_TOKEN;
    s->unk = is_spm ? 0 : DCT_NO_TOKEN;
    s->eot = s->pad = DCT_NO_TOKEN;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        dct_status status = read_id(model, ids[i].key, t->n_tokens, ids[i].id, err);
        if (status != DCT_OK) return status;
    }
    if (s->eos != DCT_NO_TOKEN) flags_of(t)[s->eos] |= DCT_TOKEN_END;
    if (s->eot != DCT_NO_TOKEN) flags_of(t)[s->eot] |= DCT_TOKEN_END;
    if (eom != DCT_NO_TOKEN) flags_of(t)[eom] |= DCT_TOKEN_END;
    const dct_meta *ends;
    dct_status status = find_array(model, DCT_KEY_ENDS, DCT_META_I32, &ends, err);
    int64_t id;
    for (uint64_t i = 0; ends != NULL && i < ends->array.n; i++) {
        if (dct_meta_array_i64(model, ends, i, &id) && id >= 0 && id < t->n_tokens) flags_of(t)[id] |= DCT_TOKEN_END;
    }
    return status;
}

static dct_status read_switches(const dct_model *model, dct_tokenizer *t, dct_err *err) {
    dct_special *s = &t->special;
    bool found_bos, found_eos, found;
    bool is_spm = t->kind == DCT_VOCAB_SPM;
    s->add_bos = is_spm || dct_pre_get(t->pre)->add_bos;
    s->add_space_prefix = is_spm;
    dct_status status = dct_model_get_bool(model, "tokenizer.ggml.add_bos_token", &s->add_bos, &found_bos, err);
    if (status == DCT_OK) status = dct_model_get_bool(model, "tokenizer.ggml.add_eos_token", &s->add_eos, &found_eos, err);
    if (status == DCT_OK)
        status = dct_model_get_bool(model, "tokenizer.ggml.add_space_prefix", &s->add_space_prefix, &found, err);
    if (status == DCT_OK) status = dct_model_get_bool(model, DCT_KEY_PREFIX_FIRST, &s->space_prefix_first, &found, err);
    if (status == DCT_OK) status = dct_model_get_bool(model, DCT_KEY_PREFIX_ONCE, &s->space_prefix_once, &found, err);
    if (status == DCT_OK) status = dct_model_get_bool(model, DCT_KEY_CUT_AT_SPACES, &s->cut_at_spaces, &found, err);
    if (status != DCT_OK) return status;
    if (!is_spm) s->add_space_prefix = false;
    if (s->bos == DCT_NO_TOKEN && s->add_bos) {
        if (found_bos) return dct_fail(err, DCT_BAD_FILE, "tokenizer.ggml.add_bos_token is true, but there is no bos_token_id");
        s->add_bos = false;
    }
    if (s->eos == DCT_NO_TOKEN && s->add_eos)
        return dct_fail(err, DCT_BAD_FILE, "tokenizer.ggml.add_eos_token is true, but there is no eos_token_id");
    return DCT_OK;
}

/* Marks the known names. A plain token that merges can make is text that happens to look so ("</s>" of Qwen), not a control
 * token. The gpt-oss and Gemma 4 families, where some of these names mean less, are not ones we run. */
static void apply_known_names(dct_tokenizer *t) {
    for (size_t i = 0; i < N_KNOWN_NAMES; i++) {
        const known_name *known = &known_names[i];
        dct_token id = dct_tokenizer_find(t, (dct_str){known->text, strlen(known->text)});
        if (id == DCT_NO_TOKEN || (flags_of(t)[id] & DCT_TOKEN_MERGED) != 0) continue;
        flags_of(t)[id] = (uint8_t)((flags_of(t)[id] & ~DCT_TOKEN_USER) | DCT_TOKEN_CONTROL);
        if (known->is_end) flags_of(t)[id] |= DCT_TOKEN_END;
        if (known->is_eot && t->special.eot == DCT_NO_TOKEN) t->special.eot = id;
    }
}

/* Phi-3's special tokens swallow the white space after them; the file has no key for it. */
static dct_status apply_phi3(const dct_model *model, dct_tokenizer *t, dct_err *err) {
    dct_str arch = DCT_STR("");
    bool found;
    dct_status status = dct_model_get_str(model, "general.architecture", &arch, &found, err);
    if (status != DCT_OK || t->kind != DCT_VOCAB_SPM || !dct_str_eq_z(arch, "phi3")) return status;
    for (dct_token id = 0; id < t->n_tokens; id++) {
        dct_str text = dct_vocab_text(t, id);
        if (dct_str_eq_z(text, "<unk>") || dct_str_eq_z(text, "<s>") || dct_str_eq_z(text, "<|endoftext|>")) continue;
        if ((flags_of(t)[id] & (DCT_TOKEN_CONTROL | DCT_TOKEN_USER)) != 0) flags_of(t)[id] |= DCT_TOKEN_STRIP_RIGHT;
    }
    return DCT_OK;
}

/* ---- the list of tokens that are looked for in texts ---- */

static int compare_text(const dct_tokenizer *t, dct_token a, dct_token b) {
    dct_str x = dct_vocab_text(t, a), y = dct_vocab_text(t, b);
    int order = memcmp(x.ptr, y.ptr, x.len < y.len ? x.len : y.len);
    return order != 0 ? order : (x.len > y.len) - (x.len < y.len);
}

static void sift_down(const dct_tokenizer *t, dct_token *list, uint32_t n, uint32_t at) {
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n) return;
        if (child + 1 < n && compare_text(t, list[child], list[child + 1]) < 0) child++;
        if (compare_text(t, list[at], list[child]) >= 0) return;
        dct_token moved = list[at];
        list[at] = list[child];
        list[child] = moved;
        at = child;
    }
}

/* Heap sort: qsort may allocate. Texts are unique, so the order is total. */
static void sort_by_text(const dct_tokenizer *t, dct_token *list, uint32_t n) {
    for (uint32_t i = n / 2; i > 0; i--) sift_down(t, list, n, i - 1);
    for (uint32_t left = n; left > 1; left--) {
        dct_token largest = list[0];
        list[0] = list[left - 1];
        list[left - 1] = largest;
        sift_down(t, list, left - 1, 0);
    }
}

static void fill_parsed(dct_tokenizer *t) {
    dct_token *parsed = u32_at(t, t->parsed_at);
    uint32_t counts[256] = {0};
    for (dct_token id = 0; id < t->n_tokens; id++) {
        dct_str text = dct_vocab_text(t, id);
        if (text.len == 0 || (flags_of(t)[id] & (DCT_TOKEN_CONTROL | DCT_TOKEN_USER | DCT_TOKEN_UNKNOWN)) == 0) continue;
        parsed[t->n_parsed++] = id;
        counts[(uint8_t)text.ptr[0]]++;
    }
    sort_by_text(t, parsed, t->n_parsed);
    for (uint32_t byte = 0; byte < 256; byte++) t->parsed_from[byte + 1] = t->parsed_from[byte] + counts[byte];
}

/* ---- the whole ---- */

static dct_status build(const vocab_source *src, dct_tokenizer *t, dct_err *err) {
    dct_status status = fill_texts(src, t, err);
    if (status == DCT_OK) status = fill_flags(src, t, err);
    if (status == DCT_OK) status = fill_merges(src, t, err);
    if (status == DCT_OK && t->has_scores) status = fill_scores(src, t, err);
    if (status == DCT_OK) status = read_ids(src->model, t, err);
    if (status == DCT_OK) status = read_switches(src->model, t, err);
    if (status != DCT_OK) return status;
    apply_known_names(t);
    status = apply_phi3(src->model, t, err);
    if (status != DCT_OK) return status;
    fill_bytes(t);
    fill_parsed(t);
    return DCT_OK;
}

dct_status dct_tokenizer_measure(const dct_model *model, dct_arena *work, uint64_t *table_bytes, dct_err *err) {
    vocab_source src;
    dct_tokenizer layout, *t;
    uint64_t bytes;
    dct_status status = read_source(model, &src, err);
    if (status == DCT_OK) status = lay_out(&src, &layout, &bytes, err);
    if (status != DCT_OK) return status;
    t = dct_arena_alloc(work, bytes);
    if (t == NULL) return dct_fail_memory(err, work, "the token tables");
    *t = layout;
    status = build(&src, t, err);
    if (status == DCT_OK) *table_bytes = bytes;
    return status;
}

dct_status dct_tokenizer_build(const dct_model *model, void *memory, uint64_t table_bytes, dct_tokenizer **out, dct_err *err) {
    vocab_source src;
    dct_tokenizer layout;
    uint64_t bytes;
    dct_status status = read_source(model, &src, err);
    if (status == DCT_OK) status = lay_out(&src, &layout, &bytes, err);
    if (status != DCT_OK) return status;
    if (bytes > table_bytes)
        return dct_fail(err, DCT_BUG, "the token tables need %llu bytes and were given %llu", (unsigned long long)bytes,
                        (unsigned long long)table_bytes);
    dct_tokenizer *t = memory;
    memset(memory, 0, bytes);
    *t = layout;
    status = build(&src, t, err);
    if (status == DCT_OK) *out = t;
    return status;
}
