/* model/hf: directories as Hugging Face and MLX publish them, as a model record.
 *
 *     config.json                         hyper-parameters, MLX's quantisation     hf_config.c
 *     tokenizer.json, tokenizer_config.json, chat_template.jinja                  hf_tokenizer.c
 *     model.safetensors, or model.safetensors.index.json and its parts            hf_tensors.c
 *
 * hf.c opens and reads the files; what they say becomes metadata and tensors under GGUF's names, so that nothing above model/
 * knows the difference. Keys that GGUF has not say what is of directories alone: rotated pairs that lie half a head apart
 * ("{arch}.rope.half_split"), and those below.
 */
#ifndef DCT_MODEL_HF_H
#define DCT_MODEL_HF_H

#include "model/json.h"
#include "model/model.h"
#include "model/safetensors.h"

#define DCT_KEY_HALF_SPLIT "rope.half_split"
#define DCT_KEY_PREFIX_FIRST "tokenizer.space_prefix_first" /* SPM's space goes before the begin of a text alone */
#define DCT_KEY_PREFIX_ONCE "tokenizer.space_prefix_once"   /* and not before a space */
#define DCT_KEY_CUT_AT_SPACES "tokenizer.cut_at_spaces"     /* no token has a space after its first character */
#define DCT_KEY_ENDS "tokenizer.end_token_ids"              /* all that end an answer */

/* The texts of a directory; {NULL, 0} where there is no such file. */
typedef struct dct_hf_texts {
    dct_str config, generation, tokenizer, tokenizer_config, chat_template;
} dct_hf_texts;

/* The record while it is made. The first failure sticks in `status`, and what follows does nothing. */
typedef struct dct_hf_build {
    dct_model *model;
    dct_arena *arena;
    dct_err *err;
    dct_status status;
    const char *file;        /* being read, for messages */
    const char *arch;        /* in GGUF's words */
    uint32_t cap_meta;
    dct_json root, text;     /* of config.json: the whole, and the part about the language model; one where there is one model */
    dct_json quantization;   /* MLX's; none in plain directories */
    uint32_t n_layer, n_vocab, n_ctx, head_dim;
    bool is_gemma, tied;     /* tied: the configuration says so */
    uint32_t n_computed;
    dct_tensor computed[2];  /* divisors of the rotation */
    dct_meta nowhere;        /* keys that follow a failure are written here and never read */
} dct_hf_build;

/* hf_build.c: failing, and the keys of the record. `name` of keys with arch: behind "{arch}.". */
void dct_hf_fail(dct_hf_build *b, dct_json at, const char *format, ...) DCT_PRINTF(3, 4);
void *dct_hf_alloc(dct_hf_build *b, uint64_t n, uint64_t item_bytes); /* NULL: failed */
bool dct_hf_index(dct_hf_build *b, dct_name_index *index, uint32_t n); /* empty, for n names; false: failed */
void dct_hf_put_u32(dct_hf_build *b, const char *key, uint32_t v);
void dct_hf_put_bool(dct_hf_build *b, const char *key, bool v);
void dct_hf_put_str(dct_hf_build *b, const char *key, dct_str v);
void dct_hf_put_array(dct_hf_build *b, const char *key, dct_meta_type type, uint64_t n, const void *bytes, uint64_t n_bytes);
void dct_hf_put_arch_u32(dct_hf_build *b, const char *name, uint32_t v);
void dct_hf_put_arch_f32(dct_hf_build *b, const char *name, double v);
void dct_hf_put_arch_bool(dct_hf_build *b, const char *name, bool v);
void dct_hf_put_arch_str(dct_hf_build *b, const char *name, const char *v);
void dct_hf_put_arch_i32s(dct_hf_build *b, const char *name, const int32_t *v, uint64_t n);
/* A string of the JSON, decoded into the arena. */
dct_str dct_hf_text(dct_hf_build *b, dct_json v);

/* Members of an object: absent and null are false and leave *out alone; another kind, a number out of range or a name that stands
 * twice fail. */
dct_json dct_hf_member(dct_hf_build *b, dct_json object, const char *key);
bool dct_hf_u32(dct_hf_build *b, dct_json object, const char *key, uint32_t *out);
bool dct_hf_f64(dct_hf_build *b, dct_json object, const char *key, double *out);
bool dct_hf_bool(dct_hf_build *b, dct_json object, const char *key, bool *out);
bool dct_hf_str(dct_hf_build *b, dct_json object, const char *key, dct_json *out);
/* The same of config.json: the part that has the key, which is the language model's or else the root, and what stands there. */
dct_json dct_hf_holder(const dct_hf_build *b, const char *key);
static inline dct_json dct_hf_setting(dct_hf_build *b, const char *key) { return dct_hf_member(b, dct_hf_holder(b, key), key); }
static inline bool dct_hf_setting_f64(dct_hf_build *b, const char *key, double *out) {
    return dct_hf_f64(b, dct_hf_holder(b, key), key, out);
}

/* The parts of the record, in this order. */
void dct_hf_config(dct_hf_build *b, const dct_hf_texts *texts);
void dct_hf_rope(dct_hf_build *b); /* hf_rope.c, called by dct_hf_config */
void dct_hf_tokenizer(dct_hf_build *b, const dct_hf_texts *texts);
void dct_hf_tensors(dct_hf_build *b, const dct_st_tensor *tensors, uint32_t n);

/* All of it: metadata from the texts, and tensors whose `part` and absolute offset stand. The model's sums of bytes and its seed
 * are the caller's. */
dct_status dct_hf_record(dct_model *model, const dct_hf_texts *texts, const dct_st_tensor *tensors, uint32_t n, dct_arena *arena,
                         dct_err *err) DCT_MUST_CHECK;

#endif
