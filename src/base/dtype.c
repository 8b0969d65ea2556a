#include "base/dtype.h"

#include <ctype.h>
#include <string.h>

#include "base/size.h"

typedef struct row {
    const char *name;
    uint32_t id, elems, bytes;
} row;

static const row rows[DCT_TYPE_COUNT] = {
#define DCT_DTYPE(name, id, elems, bytes) {#name, id, elems, bytes},
#include "base/dtype.def"
#undef DCT_DTYPE
};

static const dct_affine affines[DCT_TYPE_COUNT] = {
#define DCT_DTYPE(name, id, elems, bytes)
#define DCT_DTYPE_AFFINE(name, bits, group, scale, elems, bytes) [DCT_TYPE_##name] = {bits, group, DCT_TYPE_##scale},
#include "base/dtype.def"
#undef DCT_DTYPE
};

_Static_assert(DCT_TYPE_GGUF_COUNT == 16 && DCT_TYPE_COUNT == 16 + 6 * 3 * 3, "a new type needs a row in kernels/layout as well");

/* Types that exist in the field and that we refuse by name. */
static const struct {
    uint32_t id;
    const char *name;
} refused[] = {
    {4, "Q4_2 (removed)"}, {5, "Q4_3 (removed)"}, {9, "Q8_1"},    {15, "Q8_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"},
    {18, "IQ3_XXS"},       {19, "IQ1_S"},         {21, "IQ3_S"},  {22, "IQ2_S"},  {24, "I8"},      {25, "I16"},
    {26, "I32"},           {27, "I64"},           {28, "F64"},    {29, "IQ1_M"},  {31, "Q4_0_4_4 (removed)"},
    {32, "Q4_0_4_8 (removed)"}, {33, "Q4_0_8_8 (removed)"}, {34, "TQ1_0"}, {35, "TQ2_0"}, {36, "IQ4_NL_4_4 (removed)"},
    {37, "IQ4_NL_4_8 (removed)"}, {38, "IQ4_NL_8_8 (removed)"}, {40, "NVFP4"}, {41, "Q1_0"}, {42, "Q2_0"},
};

const char *dct_dtype_name(dct_dtype type) { return rows[type].name; }
uint32_t dct_dtype_block_elems(dct_dtype type) { return rows[type].elems; }
uint32_t dct_dtype_block_bytes(dct_dtype type) { return rows[type].bytes; }
uint32_t dct_dtype_ggml_id(dct_dtype type) { return rows[type].id; }

bool dct_dtype_is_float(dct_dtype type) {
    return type == DCT_TYPE_F32 || type == DCT_TYPE_F16 || type == DCT_TYPE_BF16;
}

const dct_affine *dct_dtype_affine(dct_dtype type) { return affines[type].bits != 0 ? &affines[type] : NULL; }

bool dct_dtype_of_affine(uint32_t bits, uint32_t group, dct_dtype scale, dct_dtype *type) {
    for (int i = 0; i < DCT_TYPE_COUNT; i++) {
        if (bits == 0 || affines[i].bits != bits || affines[i].group != group || affines[i].scale != scale) continue;
        *type = (dct_dtype)i;
        return true;
    }
    return false;
}

bool dct_dtype_of_ggml_id(uint32_t id, dct_dtype *type, const char **name) {
    if (name != NULL) *name = NULL;
    for (int i = 0; i < DCT_TYPE_COUNT; i++) {
        if (rows[i].id != id || id == DCT_NO_GGML_ID) continue;
        *type = (dct_dtype)i;
        if (name != NULL) *name = rows[i].name;
        return true;
    }
    for (size_t i = 0; name != NULL && i < sizeof refused / sizeof *refused; i++) {
        if (refused[i].id == id) *name = refused[i].name;
    }
    return false;
}

static bool same_name(const char *a, const char *b) {
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
    }
    return *a == *b;
}

bool dct_dtype_of_name(const char *text, dct_dtype *type) {
    for (int i = 0; i < DCT_TYPE_COUNT; i++) {
        if (!same_name(text, rows[i].name)) continue;
        *type = (dct_dtype)i;
        return true;
    }
    return false;
}

bool dct_dtype_row_bytes(dct_dtype type, uint64_t n_elems, uint64_t *bytes) {
    const row *t = &rows[type];
    if (n_elems % t->elems != 0) return false;
    return dct_mul_u64(n_elems / t->elems, t->bytes, bytes);
}
