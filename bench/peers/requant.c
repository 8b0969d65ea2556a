/* dctms_requant IN.gguf TYPE OUT.gguf: the model with every matrix in another type.
 *
 * For measurements: a trained network in each type that the reader accepts, by the round-to-nearest recipes of tests/support/quant.c.
 * Metadata stays as it is, byte for byte (general.file_type too, which nobody needs), and so do vectors. A matrix whose rows do not
 * suit the type is an error rather than another type, so that a file measures what its name says.
 */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "kernels/layout.h"
#include "model/model.h"
#include "support/quant.h"
#include "tools/gguf_write.h"

enum { HEAD_BYTES = 24 }; /* magic, version, number of tensors, number of metadata */

typedef struct requant {
    const dct_model *model;
    dct_dtype type;
    const uint8_t *meta; /* as the file has it */
    uint64_t n_meta_bytes;
    dct_arena *arena;
    dct_out out;
    uint64_t written;
} requant;

static dct_dtype new_type(const requant *q, const dct_tensor *t) { return t->n_dims < 2 ? t->type : q->type; }

static uint64_t rows_of(const dct_tensor *t) { return t->n_elems / t->ne[0]; }

/* False when the rows do not suit the type. */
static bool new_bytes(const requant *q, const dct_tensor *t, uint64_t *bytes) {
    return dct_dtype_row_bytes(new_type(q, t), t->ne[0], bytes) && dct_mul_u64(*bytes, rows_of(t), bytes);
}

static dct_status read_meta(requant *q, dct_err *err) {
    const dct_model *m = q->model;
    if (m->format != DCT_FORMAT_GGUF || m->version != 3 || m->big_endian || m->n_parts != 1 || m->n_tensors == 0)
        return dct_fail(err, DCT_USAGE, "not a little-endian GGUF file of version 3 in one part");
    if (dct_model_find_meta(m, "general.alignment") != NULL) return dct_fail(err, DCT_USAGE, "it has an alignment of its own");
    q->n_meta_bytes = m->tensors[0].info_offset - HEAD_BYTES;
    uint8_t *meta = dct_arena_alloc(q->arena, q->n_meta_bytes);
    if (meta == NULL) return dct_fail_memory(err, q->arena, "the metadata");
    q->meta = meta;
    return dct_file_read_at(&m->files[0], HEAD_BYTES, meta, q->n_meta_bytes, err);
}

/* Writes with zeros up to the next multiple of the alignment. */
static dct_status put(requant *q, const void *bytes, uint64_t n, dct_err *err) {
    static const uint8_t zeros[DCT_GGUF_WRITE_ALIGN];
    dct_status status = dct_out_write(&q->out, bytes, n, err);
    if (status == DCT_OK) status = dct_out_write(&q->out, zeros, dct_round_up(n, DCT_GGUF_WRITE_ALIGN) - n, err);
    q->written += dct_round_up(n, DCT_GGUF_WRITE_ALIGN);
    return status;
}

static dct_status put_header(requant *q, dct_writer *w, dct_err *err) {
    const dct_model *m = q->model;
    uint64_t offset = 0, bytes;
    dct_gguf_put_head(w, m->n_tensors, m->n_meta);
    dct_write_bytes(w, q->meta, q->n_meta_bytes);
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const dct_tensor *t = &m->tensors[i];
        char name[64];
        if (!new_bytes(q, t, &bytes))
            return dct_fail(err, DCT_USAGE, "rows of %llu do not suit %s", (unsigned long long)t->ne[0], dct_dtype_name(q->type));
        snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.ptr);
        dct_gguf_put_tensor(w, name, t->n_dims, t->ne, new_type(q, t), offset);
        offset += dct_round_up(bytes, DCT_GGUF_WRITE_ALIGN);
    }
    return DCT_OK;
}

static dct_status write_header(requant *q, dct_err *err) {
    dct_writer count = {0};
    dct_status status = put_header(q, &count, err);
    if (status != DCT_OK) return status;
    dct_writer w = {.bytes = dct_arena_alloc(q->arena, count.pos), .size = count.pos};
    if (w.bytes == NULL) return dct_fail_memory(err, q->arena, "the header");
    status = put_header(q, &w, err);
    return status == DCT_OK ? put(q, w.bytes, w.pos, err) : status;
}

static dct_status write_tensor(requant *q, const dct_tensor *t, dct_err *err) {
    uint64_t from_row = t->bytes / rows_of(t), to_bytes, to_row;
    if (!new_bytes(q, t, &to_bytes)) return dct_fail(err, DCT_BUG, "the header took these rows");
    to_row = to_bytes / rows_of(t);
    uint8_t *from = dct_arena_alloc(q->arena, t->bytes), *to = dct_arena_alloc(q->arena, to_bytes);
    float *row = dct_arena_array(q->arena, t->ne[0], sizeof *row);
    if (from == NULL || to == NULL || row == NULL) return dct_fail_memory(err, q->arena, "a tensor");
    dct_status status = dct_model_read_tensor(q->model, t, 0, from, t->bytes, err);
    if (status != DCT_OK) return status;
    if (new_type(q, t) == t->type) return put(q, from, t->bytes, err);
    for (uint64_t r = 0; r < rows_of(t); r++) {
        dct_dequant_row(t->type, (uint32_t)t->ne[0], from + r * from_row, row);
        quant_row(q->type, (uint32_t)t->ne[0], row, to + r * to_row);
    }
    return put(q, to, to_bytes, err);
}

static dct_status write_file(requant *q, const char *path, dct_err *err) {
    dct_status status = read_meta(q, err);
    if (status == DCT_OK) status = dct_out_open(&q->out, path, err);
    if (status != DCT_OK) return status;
    status = write_header(q, err);
    for (uint32_t i = 0; status == DCT_OK && i < q->model->n_tensors; i++) status = write_tensor(q, &q->model->tensors[i], err);
    if (status == DCT_OK) return dct_out_commit(&q->out, err);
    dct_out_discard(&q->out);
    return status;
}

int main(int argc, char **argv) {
    dct_err err;
    dct_dtype type;
    if (argc != 4 || !dct_dtype_of_name(argv[2], &type) || dct_dtype_affine(type) != NULL) {
        fprintf(stderr, "usage: dctms_requant IN.gguf TYPE OUT.gguf\n");
        return DCT_USAGE;
    }
    dct_arena arena;
    dct_arena_init(&arena, 0);
    static dct_model model;
    dct_status status = dct_model_open(&model, argv[1], &arena, &err);
    if (status == DCT_OK) {
        requant q = {.model = &model, .type = type, .arena = &arena};
        status = write_file(&q, argv[3], &err);
        dct_model_close(&model);
    }
    dct_arena_deinit(&arena);
    if (status != DCT_OK) fprintf(stderr, "dctms_requant: %s: %s\n", argv[1], err.message);
    return (int)status;
}
