/* kernels/ref_kv: sizes of the caches, and storing one position of every head, in scalar code. */
#include <string.h>

#include "base/half.h"
#include "base/size.h"
#include "kernels/kv.h"
#include "kernels/ref.h"

uint64_t dct_kv_head_bytes(dct_dtype type, uint32_t head_dim, uint32_t n_ctx) {
    uint64_t elems = dct_kv_round(n_ctx) * head_dim;
    uint64_t bytes = type == DCT_TYPE_Q8_0 ? elems + elems / 32 * 2 : elems * dct_dtype_block_bytes(type);
    return dct_round_up(bytes, 64);
}

/* The size of a head is at most elems * 4 + 63 in every type, so when that fits no step of it wraps. */
bool dct_kv_bytes(dct_dtype type, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx, uint64_t *out) {
    uint64_t most;
    if (!dct_mul_u64(dct_kv_round(n_ctx), head_dim, &most) || !dct_mul_u64(most, 4, &most)) return false;
    if (!dct_add_u64(most, 63, &most)) return false;
    return dct_mul_u64(dct_kv_head_bytes(type, head_dim, n_ctx), n_head_kv, out);
}

/* A piece is the values of a head, or its scales, in the order in which they lie. On the way to more positions a piece goes to
 * where it is or further back, so the last goes first and none is written over before it was moved; and the other way round. */
void dct_kv_move(dct_dtype type, uint32_t n_head_kv, uint32_t head_dim, uint32_t n, const char *from, uint32_t from_ctx, char *to,
                 uint32_t to_ctx) {
    const bool is_q8 = type == DCT_TYPE_Q8_0, to_more = to_ctx > from_ctx || to > from;
    const uint32_t n_pieces = is_q8 ? 2 * n_head_kv : n_head_kv;
    const uint64_t n_values = dct_kv_round(n) * head_dim;
    for (uint32_t i = 0; i < n_pieces; i++) {
        uint32_t piece = to_more ? n_pieces - 1 - i : i, head = is_q8 ? piece / 2 : piece;
        bool is_scales = is_q8 && piece % 2 == 1;
        uint64_t bytes = is_scales ? n_values / 32 * 2 : is_q8 ? n_values : n_values * dct_dtype_block_bytes(type);
        const char *source = from + head * dct_kv_head_bytes(type, head_dim, from_ctx);
        char *target = to + head * dct_kv_head_bytes(type, head_dim, to_ctx);
        if (is_scales) {
            source += dct_kv_code_bytes(head_dim, from_ctx);
            target += dct_kv_code_bytes(head_dim, to_ctx);
        }
        memmove(target, source, (size_t)bytes);
    }
}

typedef uint64_t place_fn(uint32_t head_dim, uint32_t pos, uint32_t d);

static void store_floats(dct_dtype type, const float *x, uint32_t head_dim, uint32_t pos, place_fn *place, void *head) {
    for (uint32_t d = 0; d < head_dim; d++) {
        uint64_t at = place(head_dim, pos, d);
        if (type == DCT_TYPE_F32) ((float *)head)[at] = x[d];
        else ((uint16_t *)head)[at] = type == DCT_TYPE_F16 ? dct_f16_of_f32(x[d]) : dct_bf16_of_f32(x[d]);
    }
}

static void store_q8(const float *x, uint32_t head_dim, uint32_t n_ctx, uint32_t pos, place_fn *place, void *head) {
    int8_t *codes = head;
    uint16_t *scales = (uint16_t *)((char *)head + dct_kv_code_bytes(head_dim, n_ctx));
    for (uint32_t d0 = 0; d0 < head_dim; d0 += 32) {
        float amax = dct_ref_block_amax(x + d0, 32), inverse = dct_ref_inverse(amax);
        scales[place(head_dim / 32, pos, d0 / 32)] = dct_f16_of_f32(amax / 127.0f);
        for (uint32_t d = d0; d < d0 + 32; d++) codes[place(head_dim, pos, d)] = dct_ref_code(x[d], inverse);
    }
}

static void store(dct_dtype type, const float *x, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx, uint32_t pos,
                  place_fn *place, char *cache) {
    uint64_t head_bytes = dct_kv_head_bytes(type, head_dim, n_ctx);
    for (uint32_t h = 0; h < n_head_kv; h++, x += head_dim, cache += head_bytes) {
        if (type == DCT_TYPE_Q8_0) store_q8(x, head_dim, n_ctx, pos, place, cache);
        else store_floats(type, x, head_dim, pos, place, cache);
    }
}

void dct_ref_store_k(dct_dtype type, const float *x, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx, uint32_t pos,
                     void *cache) {
    store(type, x, n_head_kv, head_dim, n_ctx, pos, dct_k_at, cache);
}

void dct_ref_store_v(dct_dtype type, const float *x, uint32_t n_head_kv, uint32_t head_dim, uint32_t n_ctx, uint32_t pos,
                     void *cache) {
    store(type, x, n_head_kv, head_dim, n_ctx, pos, dct_v_at, cache);
}
