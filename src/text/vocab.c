/* text/vocab: looking tokens up in the tables that vocab_build.c makes. */
#include "text/vocab.h"

#include <string.h>

#include "base/hash.h"
#include "text/vocab_build.h"

uint32_t dct_tokenizer_n_tokens(const dct_tokenizer *t) { return t->n_tokens; }

const dct_special *dct_tokenizer_special(const dct_tokenizer *t) { return &t->special; }

uint32_t dct_tokenizer_longest(const dct_tokenizer *t) { return t->longest; }

static uint8_t flags_of(const dct_tokenizer *t, dct_token id) { return id < t->n_tokens ? dct_vocab_flags(t)[id] : 0; }

bool dct_tokenizer_is_end(const dct_tokenizer *t, dct_token id) { return (flags_of(t, id) & DCT_TOKEN_END) != 0; }

bool dct_tokenizer_is_control(const dct_tokenizer *t, dct_token id) { return (flags_of(t, id) & DCT_TOKEN_CONTROL) != 0; }

/* ---- by text ---- */

uint64_t dct_vocab_hash(const dct_tokenizer *t, dct_str text) {
    return dct_hash_mix(dct_hash_bytes(t->seed, text.ptr, text.len));
}

dct_token dct_tokenizer_find(const dct_tokenizer *t, dct_str text) {
    const uint32_t *index = dct_vocab_at(t, t->index_at);
    for (uint64_t slot = dct_vocab_hash(t, text) & t->index_mask; index[slot] != 0; slot = (slot + 1) & t->index_mask)
        if (dct_str_eq(dct_vocab_text(t, index[slot] - 1), text)) return index[slot] - 1;
    return DCT_NO_TOKEN;
}

/* Whether a token's text is what these bytes of plain text spell. */
static bool is_spelt(const dct_tokenizer *t, dct_str token, bool lead_space, const uint8_t *text, uint64_t n) {
    size_t at = 0;
    for (uint64_t i = 0; i < n + lead_space; i++) {
        const dct_spelling *s = &t->spelling[lead_space ? (i == 0 ? ' ' : text[i - 1]) : text[i]];
        if (token.len - at < s->n || memcmp(token.ptr + at, s->bytes, s->n) != 0) return false;
        at += s->n;
    }
    return at == token.len;
}

dct_token dct_vocab_find_plain(const dct_tokenizer *t, bool lead_space, const uint8_t *text, uint64_t n) {
    if (n + lead_space > t->longest) return DCT_NO_TOKEN;
    uint64_t hash = t->seed;
    if (lead_space) hash = dct_hash_bytes(hash, t->spelling[' '].bytes, t->spelling[' '].n);
    for (uint64_t i = 0; i < n; i++) hash = dct_hash_bytes(hash, t->spelling[text[i]].bytes, t->spelling[text[i]].n);
    const uint32_t *index = dct_vocab_at(t, t->index_at);
    for (uint64_t slot = dct_hash_mix(hash) & t->index_mask; index[slot] != 0; slot = (slot + 1) & t->index_mask) {
        dct_token id = index[slot] - 1;
        if (!is_spelt(t, dct_vocab_text(t, id), lead_space, text, n)) continue;
        bool is_plain = (dct_vocab_flags(t)[id] & (DCT_TOKEN_CONTROL | DCT_TOKEN_UNKNOWN | DCT_TOKEN_BYTE)) == 0;
        return is_plain ? id : DCT_NO_TOKEN;
    }
    return DCT_NO_TOKEN;
}

bool dct_vocab_begins_with_space(const dct_tokenizer *t, const uint8_t *text, uint64_t n) {
    const dct_spelling *sign = &t->spelling[' '];
    return (n > 0 && text[0] == ' ') || (n >= sign->n && memcmp(text, sign->bytes, sign->n) == 0);
}

/* ---- merges ---- */

uint64_t dct_vocab_merge_hash(const dct_tokenizer *t, dct_token left, dct_token right) {
    return dct_hash_mix(t->seed ^ dct_hash_mix((uint64_t)left << 32 | right));
}

uint32_t dct_vocab_find_merge(const dct_tokenizer *t, dct_token left, dct_token right) {
    const uint32_t *index = dct_vocab_at(t, t->merge_index_at);
    const dct_merge *merges = dct_vocab_merges(t);
    uint64_t slot = dct_vocab_merge_hash(t, left, right) & t->merge_index_mask;
    for (; index[slot] != 0; slot = (slot + 1) & t->merge_index_mask) {
        const dct_merge *merge = &merges[index[slot] - 1];
        if (merge->left == left && merge->right == right) return index[slot] - 1;
    }
    return DCT_NO_TOKEN;
}

/* ---- from token to text ---- */

/* The byte that a code point stands for in texts of byte-level BPE, or -1. The 188 printable ones of Latin-1 stand for
 * themselves, the other 68 bytes, in order, are U+0100 and on. */
int32_t dct_vocab_byte_of_code(uint32_t code) {
    static const uint8_t others[] = {127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141, 142, 143, 144,
                                     145, 146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 173};
    if ((code >= 33 && code <= 126) || (code >= 161 && code <= 255 && code != 173)) return (int32_t)code;
    if (code >= 0x100 && code <= 0x120) return (int32_t)(code - 0x100);
    if (code > 0x120 && code <= 0x143) return others[code - 0x121];
    return -1;
}

/* Two-byte UTF-8 is all that a code up to U+0143 takes; anything else in a text stands for itself. */
static uint32_t bpe_piece(dct_str text, char *out, uint64_t cap) {
    uint32_t n = 0;
    for (size_t i = 0; i < text.len && n < cap; i++) {
        uint8_t lead = (uint8_t)text.ptr[i];
        bool is_pair = lead >= 0xc2 && lead < 0xe0 && i + 1 < text.len;
        uint32_t code = is_pair ? (lead & 0x1fu) << 6 | ((uint8_t)text.ptr[i + 1] & 0x3fu) : lead;
        int32_t byte = is_pair || lead < 0x80 ? dct_vocab_byte_of_code(code) : -1;
        if (byte < 0) {
            out[n++] = text.ptr[i];
            continue;
        }
        out[n++] = (char)byte;
        i += is_pair;
    }
    return n;
}

static uint32_t spm_piece(dct_str text, char *out, uint64_t cap) {
    uint32_t n = 0;
    for (size_t i = 0; i < text.len && n < cap; i++) {
        bool is_space = text.len - i >= 3 && memcmp(text.ptr + i, "\xe2\x96\x81", 3) == 0;
        out[n++] = is_space ? ' ' : text.ptr[i];
        if (is_space) i += 2;
    }
    return n;
}

uint32_t dct_tokenizer_piece(const dct_tokenizer *t, dct_token id, bool special, char *out, uint64_t cap) {
    if (id >= t->n_tokens || cap == 0) return 0;
    uint8_t flags = flags_of(t, id);
    dct_str text = dct_vocab_text(t, id);
    if ((flags & (DCT_TOKEN_CONTROL | DCT_TOKEN_UNKNOWN)) != 0 && !special) return 0;
    if ((flags & DCT_TOKEN_USER) != 0 && t->kind == DCT_VOCAB_SPM) return spm_piece(text, out, cap); /* Gemma's runs of spaces */
    if ((flags & (DCT_TOKEN_CONTROL | DCT_TOKEN_UNKNOWN | DCT_TOKEN_USER)) != 0) {
        uint32_t n = (uint32_t)(text.len < cap ? text.len : cap);
        memcpy(out, text.ptr, n);
        return n;
    }
    if ((flags & DCT_TOKEN_UNUSED) != 0) return 0;
    if ((flags & DCT_TOKEN_BYTE) != 0) {
        *out = (char)dct_vocab_byte_of_text(text);
        return 1;
    }
    return t->kind == DCT_VOCAB_SPM ? spm_piece(text, out, cap) : bpe_piece(text, out, cap);
}

uint32_t dct_tokenizer_piece_first(const dct_tokenizer *t, dct_token id, bool special, char *out) {
    uint32_t n = dct_tokenizer_piece(t, id, special, out, t->longest);
    if (n == 0 || out[0] != ' ' || !t->special.add_space_prefix) return n;
    memmove(out, out + 1, n - 1);
    return n - 1;
}

/* "<0x0A>" */
int32_t dct_vocab_byte_of_text(dct_str text) {
    static const char digits[] = "0123456789ABCDEF0123456789abcdef";
    if (text.len != 6 || memcmp(text.ptr, "<0x", 3) != 0 || text.ptr[5] != '>') return -1;
    const char *high = memchr(digits, text.ptr[3], 32), *low = memchr(digits, text.ptr[4], 32);
    if (high == NULL || low == NULL) return -1;
    return (int32_t)((high - digits) % 16 * 16 + (low - digits) % 16);
}
