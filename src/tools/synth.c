/* Writes a synthetic model file: the header is made in memory; then the data section, which is a function of the seed, is filled
 * in pieces that threads claim, each in its own buffer, written at its own place. The file is named when it is complete. */
#include "tools/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "base/safe_text.h"
#include "base/size.h"
#include "tools/gguf_write.h"
#include "tools/synth_blocks.h"
#include "tools/synth_dir.h"
#include "tools/synth_shape.h"
#include "tools/synth_vocab.h"

enum { PIECE_BYTES = 2 * 1024 * 1024, MAX_THREADS = 64 };

/* A tensor's place in the file. */
typedef struct placed {
    const dct_synth_tensor *tensor;
    dct_synth_places at; /* in the data section */
    uint64_t bytes, n_blocks, blocks_a_piece;
    uint64_t first_piece, n_pieces;
} placed;

typedef struct synth {
    const dct_synth_params *params;
    const dct_synth_shape *shape;
    const dct_synth_mix *mix;
    dct_arena arena;
    dct_synth_vocab vocab;
    placed *tensors;
    uint32_t n_tensors;
    uint64_t n_pieces, data_bytes;
    uint8_t *header;
    uint64_t header_bytes;
    char path[4096]; /* of the file of weights */
    int fd;
    _Atomic uint64_t next_piece, done_bytes;
    _Atomic int failed; /* errno of the first write that failed */
} synth;

/* --- header ------------------------------------------------------------------------------------------------------- */

static void put_hparams(dct_writer *w, const dct_synth_shape *s) {
    char key[96];
    const char *arch = dct_synth_arch(s->family);
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {{"context_length", s->n_ctx},          {"embedding_length", s->n_embd},
                 {"block_count", s->n_layer},           {"feed_forward_length", s->n_ff},
                 {"attention.head_count", s->n_head},   {"attention.head_count_kv", s->n_head_kv},
                 {"attention.key_length", s->head_dim}, {"attention.value_length", s->head_dim},
                 {"rope.dimension_count", s->head_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, sizes[i].name);
        dct_gguf_put_u32(w, key, sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    dct_gguf_put_f32(w, key, s->rope_base);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    dct_gguf_put_f32(w, key, s->eps);
    snprintf(key, sizeof key, "%s.attention.sliding_window", arch);
    if (s->sliding_window != 0) dct_gguf_put_u32(w, key, s->sliding_window);
    if (s->family == DCT_SYNTH_QWEN2VL) {
        const uint32_t pairs = s->head_dim / 2, sections[4] = {pairs / 4, pairs * 3 / 8, pairs - pairs / 4 - pairs * 3 / 8, 0};
        snprintf(key, sizeof key, "%s.rope.dimension_sections", arch);
        dct_gguf_put_array(w, key, DCT_META_I32, 4);
        for (int i = 0; i < 4; i++) dct_write_u32(w, sections[i]);
    }
}

static void put_merge(dct_writer *w, const dct_synth_vocab *v, dct_synth_merge merge) {
    char left[64], right[64];
    dct_str a = dct_synth_spelled(v, merge.left, left), b = dct_synth_spelled(v, merge.right, right);
    dct_write_u64(w, a.len + 1 + b.len);
    dct_write_bytes(w, a.ptr, a.len);
    dct_write_u8(w, ' ');
    dct_write_bytes(w, b.ptr, b.len);
}

static void put_id(dct_writer *w, const char *key, int32_t id) {
    if (id >= 0) dct_gguf_put_u32(w, key, (uint32_t)id);
}

static void put_tokenizer(dct_writer *w, const dct_synth_vocab *v) {
    char text[64];
    dct_gguf_put_z(w, "tokenizer.ggml.model", v->spm ? "llama" : "gpt2");
    dct_gguf_put_z(w, "tokenizer.ggml.pre", v->pre);
    dct_gguf_put_array(w, "tokenizer.ggml.tokens", DCT_META_STRING, v->n_tokens);
    for (uint32_t i = 0; i < v->n_tokens; i++) dct_gguf_put_str(w, dct_synth_spelled(v, i, text));
    dct_gguf_put_array(w, "tokenizer.ggml.token_type", DCT_META_I32, v->n_tokens);
    for (uint32_t i = 0; i < v->n_tokens; i++) dct_write_u32(w, (uint32_t)v->tokens[i].type);
    if (v->spm) {
        dct_gguf_put_array(w, "tokenizer.ggml.scores", DCT_META_F32, v->n_tokens);
        for (uint32_t i = 0; i < v->n_tokens; i++) dct_write_f32(w, v->tokens[i].score);
        dct_gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", false);
    } else {
        dct_gguf_put_array(w, "tokenizer.ggml.merges", DCT_META_STRING, v->n_merges);
        for (uint32_t i = 0; i < v->n_merges; i++) put_merge(w, v, v->merges[i]);
    }
    put_id(w, "tokenizer.ggml.bos_token_id", v->bos);
    put_id(w, "tokenizer.ggml.eos_token_id", v->eos);
    put_id(w, "tokenizer.ggml.padding_token_id", v->pad);
    put_id(w, "tokenizer.ggml.unknown_token_id", v->unk);
    dct_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", v->add_bos);
    dct_gguf_put_z(w, "tokenizer.chat_template", v->chat_template);
}

/* How many pairs put_hparams and put_tokenizer write, and the five of put_header. */
static uint64_t count_meta(const synth *s) {
    const dct_synth_vocab *v = &s->vocab;
    uint64_t ids = (v->bos >= 0) + (v->eos >= 0) + (v->pad >= 0) + (v->unk >= 0);
    uint64_t hparams = 11 + (s->shape->sliding_window != 0) + (s->shape->family == DCT_SYNTH_QWEN2VL);
    return 5 + hparams + 4 + (v->spm ? 2 : 1) + ids + 2;
}

static void put_header(dct_writer *w, const synth *s) {
    dct_gguf_put_head(w, s->n_tensors, count_meta(s));
    dct_gguf_put_z(w, "general.architecture", dct_synth_arch(s->shape->family));
    dct_gguf_put_z(w, "general.name", s->shape->title);
    dct_gguf_put_z(w, "general.size_label", s->shape->size_label);
    dct_gguf_put_u32(w, "general.file_type", dct_synth_mix_file_type(s->mix));
    dct_gguf_put_u32(w, "general.quantization_version", 2);
    put_hparams(w, s->shape);
    put_tokenizer(w, &s->vocab);
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        const placed *p = &s->tensors[i];
        dct_gguf_put_tensor(w, p->tensor->name, p->tensor->n_dims, p->tensor->ne, p->tensor->type, p->at.data);
    }
}

/* The length, which the padding is part of, and the JSON. While counting it is not known yet and does not matter. */
static void put_st_header(dct_writer *w, const synth *s) {
    dct_write_u64(w, s->header_bytes - 8);
    dct_write_u8(w, '{');
    for (uint32_t i = 0; i < s->n_tensors; i++)
        dct_synth_put_st_tensor(w, i == 0, s->tensors[i].tensor, s->shape, &s->tensors[i].at);
    static const char end[] = ",\"__metadata__\":{\"format\":\"mlx\"}}";
    dct_write_bytes(w, end, sizeof end - 1);
}

static dct_status make_header(synth *s, dct_err *err) {
    bool is_directory = dct_synth_mix_is_directory(s->mix);
    void (*put)(dct_writer *w, const synth *s) = is_directory ? put_st_header : put_header;
    dct_writer count = {0};
    put(&count, s);
    s->header_bytes = dct_round_up(count.pos, DCT_GGUF_WRITE_ALIGN);
    s->header = dct_arena_alloc(&s->arena, s->header_bytes);
    if (s->header == NULL) return dct_fail_memory(err, &s->arena, "the header");
    if (is_directory) memset(s->header, ' ', s->header_bytes);
    dct_writer w = {.bytes = s->header, .size = s->header_bytes};
    put(&w, s);
    return w.overflow || w.pos != count.pos ? dct_fail(err, DCT_BUG, "the header changed its size") : DCT_OK;
}

/* --- data --------------------------------------------------------------------------------------------------------- */

/* Behind what is there. A safetensors file has no holes, and the parts of an MLX tensor one after another. */
static void place(synth *s, placed *p) {
    const dct_affine *a = dct_dtype_affine(p->tensor->type);
    uint64_t scale_bytes = a == NULL ? 0 : p->n_blocks * dct_dtype_block_bytes(a->scale);
    p->at.data = s->data_bytes;
    p->at.biases = s->data_bytes + p->bytes - scale_bytes;
    p->at.scales = p->at.biases - scale_bytes;
    s->data_bytes += p->bytes;
    if (!dct_synth_mix_is_directory(s->mix)) s->data_bytes = dct_round_up(s->data_bytes, DCT_GGUF_WRITE_ALIGN);
}

static dct_status place_tensors(synth *s, dct_err *err) {
    dct_synth_tensor *tensors = dct_synth_tensors(s->shape, s->mix, &s->arena, &s->n_tensors);
    if (tensors != NULL) s->tensors = dct_arena_array(&s->arena, s->n_tensors, sizeof *s->tensors);
    if (s->tensors == NULL) return dct_fail_memory(err, &s->arena, "the tensor table");
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        placed *p = &s->tensors[i];
        const dct_synth_tensor *t = &tensors[i];
        uint32_t block = dct_dtype_block_bytes(t->type);
        p->tensor = t;
        p->n_blocks = t->ne[0] * t->ne[1] / dct_dtype_block_elems(t->type);
        p->bytes = p->n_blocks * block;
        p->blocks_a_piece = PIECE_BYTES / block;
        p->first_piece = s->n_pieces;
        p->n_pieces = dct_div_up(p->n_blocks, p->blocks_a_piece);
        s->n_pieces += p->n_pieces;
        place(s, p);
    }
    return DCT_OK;
}

/* All n bytes at `offset`; an errno, or 0. */
static int write_at(int fd, const uint8_t *bytes, uint64_t n, uint64_t offset) {
    while (n > 0) {
        ssize_t put = pwrite(fd, bytes, (size_t)n, (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return put < 0 ? errno : ENOSPC;
        bytes += put;
        offset += (uint64_t)put;
        n -= (uint64_t)put;
    }
    return 0;
}

typedef struct worker {
    synth *s;
    uint8_t *buffer; /* 2 * PIECE_BYTES: blocks, and a part of each of them */
    void *stack;
    dct_thread thread;
    bool reports;    /* the caller's own thread */
} worker;

static void write_part(worker *me, const uint8_t *bytes, uint64_t n, uint64_t offset) {
    int why = write_at(me->s->fd, bytes, n, me->s->header_bytes + offset), none = 0;
    if (why != 0) atomic_compare_exchange_strong(&me->s->failed, &none, why);
}

/* Codes, scales and biases of n blocks from block `first` on, each to its place. */
static void write_affine(worker *me, const placed *p, uint64_t first, uint64_t n) {
    const dct_affine *a = dct_dtype_affine(p->tensor->type);
    uint32_t block = dct_dtype_block_bytes(p->tensor->type), width = dct_dtype_block_bytes(a->scale), run = block - 2 * width;
    const struct {
        uint64_t at;
        uint32_t begin, bytes;
    } parts[3] = {{p->at.data, 0, run}, {p->at.scales, run, width}, {p->at.biases, run + width, width}};
    for (int i = 0; i < 3; i++) {
        uint8_t *to = me->buffer + PIECE_BYTES;
        for (uint64_t k = 0; k < n; k++) memcpy(to + k * parts[i].bytes, me->buffer + k * block + parts[i].begin, parts[i].bytes);
        write_part(me, to, n * parts[i].bytes, parts[i].at + first * parts[i].bytes);
    }
}

static void fill_piece(worker *me, const placed *p, uint32_t tensor_number, uint64_t piece) {
    synth *s = me->s;
    const dct_synth_tensor *t = p->tensor;
    uint32_t block = dct_dtype_block_bytes(t->type);
    uint64_t first = (piece - p->first_piece) * p->blocks_a_piece, n = p->n_blocks - first;
    if (n > p->blocks_a_piece) n = p->blocks_a_piece;
    if (t->fixed != NULL) {
        memcpy(me->buffer, t->fixed + first, (size_t)(n * block));
    } else {
        dct_synth_stream stream;
        dct_synth_stream_init(&stream, t->type, s->params->seed, tensor_number, t->mean, t->sigma);
        stream.offset = t->offset;
        stream.both_signs = t->both_signs;
        dct_synth_fill(&stream, first, n, me->buffer);
    }
    if (dct_dtype_affine(t->type) != NULL) write_affine(me, p, first, n);
    else write_part(me, me->buffer, n * block, p->at.data + first * block);
    atomic_fetch_add(&s->done_bytes, n * block);
}

static void work(void *arg) {
    worker *me = arg;
    synth *s = me->s;
    uint32_t at = 0; /* pieces are claimed in ascending order, so the tensor is found by walking on */
    for (;;) {
        uint64_t piece = atomic_fetch_add(&s->next_piece, 1);
        if (piece >= s->n_pieces || atomic_load(&s->failed) != 0) return;
        while (piece >= s->tensors[at].first_piece + s->tensors[at].n_pieces) at++;
        fill_piece(me, &s->tensors[at], at, piece);
        if (me->reports && s->params->progress != NULL)
            s->params->progress(s->params->progress_ctx, atomic_load(&s->done_bytes), s->data_bytes);
    }
}

static dct_status fill_data(synth *s, dct_err *err) {
    worker workers[MAX_THREADS];
    uint32_t n = s->params->threads == 0 ? 1 : s->params->threads, started = 1;
    if (n > MAX_THREADS) n = MAX_THREADS;
    for (uint32_t i = 0; i < n; i++) {
        workers[i] = (worker){.s = s, .reports = i == 0};
        workers[i].buffer = dct_arena_alloc(&s->arena, 2 * PIECE_BYTES);
        workers[i].stack = dct_arena_alloc(&s->arena, DCT_WORKER_STACK);
        if (workers[i].buffer == NULL || workers[i].stack == NULL) return dct_fail_memory(err, &s->arena, "buffers");
    }
    dct_status status = DCT_OK;
    for (; started < n && status == DCT_OK; started += status == DCT_OK) {
        status = dct_thread_start(&workers[started].thread, work, &workers[started], workers[started].stack, DCT_WORKER_STACK,
                                  err);
    }
    if (status == DCT_OK) work(&workers[0]);
    else atomic_store(&s->failed, EAGAIN);
    for (uint32_t i = 1; i < started; i++) dct_thread_join(workers[i].thread);
    if (status != DCT_OK) return status;
    int why = atomic_load(&s->failed);
    if (why != 0) return dct_fail(err, DCT_SYSTEM, "cannot write %s: %s", dct_show_path(s->path).text, strerror(why));
    if (s->params->progress != NULL) s->params->progress(s->params->progress_ctx, s->data_bytes, s->data_bytes);
    return DCT_OK;
}

static dct_status write_file(synth *s, dct_err *err) {
    dct_out out;
    dct_status status = dct_out_open(&out, s->path, err);
    if (status != DCT_OK) return status;
    s->fd = out.fd;
    if (!s->params->header_only) status = fill_data(s, err);
    uint64_t end = s->header_bytes + (s->params->header_only ? 0 : s->data_bytes);
    int why = status == DCT_OK ? write_at(s->fd, s->header, s->header_bytes, 0) : 0;
    if (status == DCT_OK && why == 0 && !out.direct && ftruncate(s->fd, (off_t)end) != 0)
        why = errno;
    if (status == DCT_OK && why != 0)
        status = dct_fail(err, DCT_SYSTEM, "cannot write %s: %s", dct_show_path(s->path).text, strerror(why));
    if (status == DCT_OK) return dct_out_commit(&out, err);
    dct_out_discard(&out);
    return status;
}

/* --- the other files of a directory ------------------------------------------------------------------------------- */

typedef void put_text_fn(dct_writer *w, const synth *s);
static void put_config(dct_writer *w, const synth *s) { dct_synth_put_config(w, s->shape, dct_synth_mix_base(s->mix)); }
static void put_tokenizer_json(dct_writer *w, const synth *s) { dct_synth_put_tokenizer(w, s->shape, &s->vocab); }
static void put_tokenizer_config(dct_writer *w, const synth *s) { dct_synth_put_tokenizer_config(w, &s->vocab); }

static dct_status set_path(synth *s, const char *name, dct_err *err) {
    int n = snprintf(s->path, sizeof s->path, "%s%s%s", s->params->path, *name == '\0' ? "" : "/", name);
    return n < 0 || (size_t)n >= sizeof s->path ? dct_fail(err, DCT_USAGE, "path too long: %.80s...", s->params->path) : DCT_OK;
}

static dct_status write_text(synth *s, const char *name, put_text_fn *put, dct_err *err) {
    dct_writer count = {0};
    put(&count, s);
    uint8_t *bytes = dct_arena_alloc(&s->arena, count.pos);
    if (bytes == NULL) return dct_fail_memory(err, &s->arena, name);
    dct_writer w = {.bytes = bytes, .size = count.pos};
    put(&w, s);
    dct_status status = set_path(s, name, err);
    return status == DCT_OK ? dct_file_write_whole(s->path, bytes, count.pos, err) : status;
}

static dct_status write_texts(synth *s, dct_err *err) {
    if (mkdir(s->params->path, 0777) != 0 && errno != EEXIST)
        return dct_fail(err, DCT_SYSTEM, "cannot make %s: %s", dct_show_path(s->params->path).text, strerror(errno));
    dct_status status = write_text(s, "config.json", put_config, err);
    if (status == DCT_OK) status = write_text(s, "tokenizer.json", put_tokenizer_json, err);
    if (status == DCT_OK) status = write_text(s, "tokenizer_config.json", put_tokenizer_config, err);
    return status;
}

dct_status dct_synth(const dct_synth_params *params, dct_err *err) {
    synth s = {.params = params, .shape = dct_synth_find_shape(params->name), .mix = dct_synth_find_mix(params->type)};
    if (s.shape == NULL) return dct_fail(err, DCT_USAGE, "no shape named '%.40s' (%s)", params->name, dct_synth_names());
    if (s.mix == NULL)
        return dct_fail(err, DCT_USAGE, "no type or mixture named '%.40s' (%s)", params->type, dct_synth_mix_names());
    bool is_directory = dct_synth_mix_is_directory(s.mix);
    dct_arena_init(&s.arena, 0);
    dct_status status = dct_synth_vocab_make(&s.vocab, s.shape, params->seed, &s.arena, err);
    if (status == DCT_OK) status = place_tensors(&s, err);
    if (status == DCT_OK) status = make_header(&s, err);
    if (status == DCT_OK && is_directory) status = write_texts(&s, err);
    if (status == DCT_OK) status = set_path(&s, is_directory ? "model.safetensors" : "", err);
    if (status == DCT_OK) status = write_file(&s, err);
    dct_arena_deinit(&s.arena);
    return status;
}
