/* The rotation: "rope_theta", "rope_scaling" and, in newer files, "rope_parameters".
 *
 * llama3 and longrope divide each pair's frequency by a number of its own. GGUF files carry these as tensors; here they are
 * computed or copied into tensors that no file holds. The arithmetic is additions, products, quotients and roots in f64, so that
 * every machine gets the same bits.
 */
#include <math.h>
#include <string.h>

#include "model/gguf_scan.h"
#include "model/hf.h"

enum { MAX_PAIRS = 1 << 13 };
static const double two_pi = 6.283185307179586476925286766559, ln_2 = 0.69314718055994530941723212145818;

/* What the parts of this file share. */
typedef struct rope {
    dct_json scaling; /* none: not scaled */
    double base;
    uint32_t n_rot, n_ctx;
} rope;

static double power(double x, uint32_t n) {
    double y = 1;
    for (; n > 0; n--) y *= x;
    return y;
}

/* x^(1/n) for x >= 1, by halving an interval. */
static double root(double x, uint32_t n) {
    double low = 1, high = x;
    for (int i = 0; i < 200; i++) {
        double middle = low + (high - low) / 2;
        if (power(middle, n) <= x) low = middle;
        else high = middle;
    }
    return low;
}

/* ln x for x > 0: halved into [0.75, 1.5), then 2 artanh((x-1)/(x+1)). */
static double natural_log(double x) {
    int halvings = 0;
    for (; x >= 1.5; halvings++) x /= 2;
    for (; x < 0.75; halvings--) x *= 2;
    double t = (x - 1) / (x + 1), term = t, sum = 0;
    for (int i = 1; i < 40; i += 2, term *= t * t) sum += term / i;
    return 2 * sum + halvings * ln_2;
}

/* A tensor of n floats that no file holds. */
static float *add_computed(dct_hf_build *b, const char *name, uint32_t n) {
    float *values = dct_hf_alloc(b, n, sizeof *values);
    if (values == NULL) return NULL;
    b->computed[b->n_computed++] = (dct_tensor){.name = {name, strlen(name)},
                                                .type = DCT_TYPE_F32,
                                                .n_dims = 1,
                                                .ne = {n, 1, 1, 1},
                                                .n_elems = n,
                                                .bytes = n * sizeof(float),
                                                .info_offset = DCT_NO_OFFSET,
                                                .form = DCT_FORM_COMPUTED,
                                                .values = values};
    return values;
}

static double need_f64(dct_hf_build *b, dct_json object, const char *key) {
    double x = 0;
    if (!dct_hf_f64(b, object, key, &x) || !(x > 0))
        dct_hf_fail(b, object, "'%s' of the rotation is missing or not above 0", key);
    return x;
}

/* "original_max_position_embeddings" stands in the scaling or beside it. */
static uint32_t original_context(dct_hf_build *b, const rope *r) {
    uint32_t n = r->n_ctx;
    if (!dct_hf_u32(b, r->scaling, "original_max_position_embeddings", &n))
        dct_hf_u32(b, dct_hf_holder(b, "original_max_position_embeddings"), "original_max_position_embeddings", &n);
    if (n == 0) dct_hf_fail(b, r->scaling, "'original_max_position_embeddings' is 0");
    return n;
}

/* Long waves are stretched `factor` times, short ones not, those between by degrees. */
static void put_llama3(dct_hf_build *b, const rope *r) {
    double factor = need_f64(b, r->scaling, "factor"), low = need_f64(b, r->scaling, "low_freq_factor"),
           high = need_f64(b, r->scaling, "high_freq_factor");
    double trained = original_context(b, r);
    if (b->status == DCT_OK && high <= low) dct_hf_fail(b, r->scaling, "'high_freq_factor' is not above 'low_freq_factor'");
    float *out = add_computed(b, "rope_freqs.weight", r->n_rot / 2);
    if (out == NULL) return;
    double step = root(r->base, r->n_rot / 2), wave = two_pi;
    for (uint32_t i = 0; i < r->n_rot / 2; i++, wave *= step) {
        double smooth = (trained / wave - low) / (high - low);
        smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
        out[i] = (float)(1 / ((1 - smooth) / factor + smooth));
    }
}

static void put_divisors(dct_hf_build *b, const rope *r, const char *key, const char *tensor) {
    dct_json list = dct_hf_member(b, r->scaling, key);
    if (dct_json_count(list) != r->n_rot / 2) dct_hf_fail(b, list, "'%s' is not an array of %u numbers", key, r->n_rot / 2);
    float *out = add_computed(b, tensor, r->n_rot / 2);
    if (out == NULL) return;
    for (dct_json_walk w = dct_json_begin(list); dct_json_next(&w); out++) {
        double x;
        if (!dct_json_f64(w.value, &x) || !(x > 1e-6) || x > 1e6) {
            dct_hf_fail(b, w.value, "'%s' holds what is no divisor", key);
            return;
        }
        *out = (float)x;
    }
}

static void put_longrope(dct_hf_build *b, const rope *r) {
    uint32_t trained = original_context(b, r);
    double scale = (double)r->n_ctx / trained, magnitude = 1;
    put_divisors(b, r, "short_factor", "rope_factors_short.weight");
    put_divisors(b, r, "long_factor", "rope_factors_long.weight");
    dct_hf_put_arch_u32(b, "rope.scaling.original_context_length", trained);
    if (scale > 1 && trained > 1) magnitude = sqrt(1 + natural_log(scale) / natural_log(trained));
    dct_hf_f64(b, r->scaling, "attention_factor", &magnitude);
    dct_hf_put_arch_f32(b, "rope.scaling.attn_factor", magnitude);
}

static void put_yarn(dct_hf_build *b, const rope *r) {
    double factor = need_f64(b, r->scaling, "factor"), x = 0;
    dct_hf_put_arch_f32(b, "rope.scaling.factor", factor);
    dct_hf_put_arch_u32(b, "rope.scaling.original_context_length", original_context(b, r));
    if (dct_hf_f64(b, r->scaling, "beta_fast", &x)) dct_hf_put_arch_f32(b, "rope.scaling.yarn_beta_fast", x);
    if (dct_hf_f64(b, r->scaling, "beta_slow", &x)) dct_hf_put_arch_f32(b, "rope.scaling.yarn_beta_slow", x);
    /* The whole magnitude here; in a GGUF file, what comes on top of the formula's. */
    if (b->status == DCT_OK && dct_hf_f64(b, r->scaling, "attention_factor", &x)) {
        dct_hf_put_arch_f32(b, "rope.scaling.attn_factor", factor > 1 ? x / (1 + 0.1 * natural_log(factor)) : x);
    }
}

/* Three position streams: how many pairs each turns. */
static void put_sections(dct_hf_build *b, const rope *r) {
    dct_json list = dct_hf_member(b, r->scaling, "mrope_section");
    int32_t sections[4] = {0};
    uint32_t n = 0;
    for (dct_json_walk w = dct_json_begin(list); dct_json_next(&w); n++) {
        uint64_t pairs;
        if (n == 3 || !dct_json_u64(w.value, &pairs) || pairs > MAX_PAIRS) {
            dct_hf_fail(b, list, "'mrope_section' is not three counts of pairs");
            return;
        }
        sections[n] = (int32_t)pairs;
    }
    if (n != 3) dct_hf_fail(b, r->scaling, "'mrope_section' is not three counts of pairs");
    dct_hf_put_arch_i32s(b, "rope.dimension_sections", sections, 4);
}

static void put_scaling(dct_hf_build *b, const rope *r) {
    dct_json type = {0};
    if (!dct_hf_str(b, r->scaling, "rope_type", &type)) dct_hf_str(b, r->scaling, "type", &type);
    if (strcmp(b->arch, "qwen2vl") == 0) put_sections(b, r);
    if (type.at == NULL || dct_json_str_is(type, "default") || dct_json_str_is(type, "mrope")) return;
    bool is_llama3 = dct_json_str_is(type, "llama3"), is_long = dct_json_str_is(type, "longrope") || dct_json_str_is(type, "su");
    if ((is_llama3 && strcmp(b->arch, "llama") != 0) || (is_long && strcmp(b->arch, "phi3") != 0)) {
        dct_hf_fail(b, type, "rotation scaled by '%s' is not supported for %s", dct_gguf_quote(dct_json_raw(type)).text, b->arch);
    } else if (is_llama3) {
        put_llama3(b, r);
    } else if (is_long) {
        dct_hf_put_arch_str(b, "rope.scaling.type", "longrope");
        put_longrope(b, r);
    } else if (dct_json_str_is(type, "yarn")) {
        dct_hf_put_arch_str(b, "rope.scaling.type", "yarn");
        put_yarn(b, r);
    } else if (dct_json_str_is(type, "linear")) {
        dct_hf_put_arch_str(b, "rope.scaling.type", "linear");
        dct_hf_put_arch_f32(b, "rope.scaling.factor", need_f64(b, r->scaling, "factor"));
    } else {
        dct_hf_fail(b, type, "rotation scaled by '%s' is not supported (linear, yarn, llama3, longrope)",
                    dct_gguf_quote(dct_json_raw(type)).text);
    }
}

/* Newer files name everything "rope_parameters"; those of models with two rotations, one object for each kind of layer. */
static rope read_rope(dct_hf_build *b, dct_json *local) {
    rope r = {.base = strcmp(b->arch, "gemma3") == 0 ? 1e6 : 1e4};
    dct_json newer = dct_hf_setting(b, "rope_parameters");
    r.scaling = dct_hf_setting(b, "rope_scaling");
    if (newer.at != NULL) {
        dct_json global = dct_hf_member(b, newer, "full_attention");
        r.scaling = global.at != NULL ? global : newer;
        *local = dct_hf_member(b, newer, "sliding_attention");
    }
    if (r.scaling.at != NULL && dct_json_kind_of(r.scaling) != DCT_JSON_OBJECT)
        dct_hf_fail(b, r.scaling, "the scaling of the rotation is not an object");
    if (!dct_hf_setting_f64(b, "rope_theta", &r.base)) dct_hf_f64(b, r.scaling, "rope_theta", &r.base);
    if (!(r.base >= 1)) dct_hf_fail(b, b->text, "'rope_theta' is %g", r.base);
    return r;
}

void dct_hf_rope(dct_hf_build *b) {
    dct_json local = {0};
    rope r = read_rope(b, &local);
    double part = 1, local_base = 0;
    r.n_ctx = b->n_ctx;
    bool is_partial = dct_hf_setting_f64(b, "partial_rotary_factor", &part) ||
                      dct_hf_f64(b, r.scaling, "partial_rotary_factor", &part);
    if (!(part > 0 && part <= 1) || b->head_dim > 2 * MAX_PAIRS)
        dct_hf_fail(b, b->text, "'partial_rotary_factor' or 'head_dim' is out of range");
    if (b->status != DCT_OK) return;

    r.n_rot = (uint32_t)(part * b->head_dim);
    if (is_partial) dct_hf_put_arch_u32(b, "rope.dimension_count", r.n_rot);
    dct_hf_put_arch_f32(b, "rope.freq_base", r.base);
    dct_hf_put_arch_bool(b, DCT_KEY_HALF_SPLIT, true);
    put_scaling(b, &r);
    if (strcmp(b->arch, "gemma3") == 0 &&
        (dct_hf_setting_f64(b, "rope_local_base_freq", &local_base) || dct_hf_f64(b, local, "rope_theta", &local_base))) {
        dct_hf_put_arch_f32(b, "rope.freq_base_swa", local_base);
    }
}
