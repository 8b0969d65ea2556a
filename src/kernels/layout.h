/* kernels/layout: how weights lie in the arena. The values are exactly the file's; only their order changes.
 *
 * A weight matrix W[m, k] is cut into tiles of 16 output rows; a vector lane is an output row. Along k a tile is a run of
 * units; every unit begins on a 64-byte line. Missing rows of the last tile and missing columns of the last unit are zero.
 * f16 scale arrays are [16], one a row. "nib 512" is 64 columns of 4-bit codes:
 *
 *     byte (c*64 + r*4 + i), c = 0..7, r = 0..15, i = 0..3:  low nibble = code(row r, column 4c+i)
 *                                                            high nibble = code(row r, column 32+4c+i)
 *
 * "hi1 128": bit 4 (Q5) of the same 64 columns: 8 bytes for (c, half) at (c*2 + half)*8: bit (r*4+i) of the little-endian
 * u64. "by2 512": 2-bit codes of 128 columns: byte (c*64 + r*4 + i) holds columns 32b+4c+i in bits 2b..2b+1, b = 0..3.
 * "byte 1024": 64 columns of 8-bit codes, byte ((half*8 + c)*64 + r*4 + i) = column 32*half+4c+i, biased by +128.
 *
 *   type            columns  unit in bytes, in this order
 *   F32 F16 BF16        1    16 elements (a row r each); units are packed, the tile is padded to 64 bytes
 *   Q4_0 IQ4_NL        64    nib 512, scales 2 x f16[16]                                        = 576
 *   Q4_1               64    nib 512, scales 2 x f16[16], mins 2 x f16[16]                      = 640
 *   Q5_0               64    nib 512, hi1 128, scales 2 x f16[16]                               = 704
 *   Q5_1               64    nib 512, hi1 128, scales 2 x f16[16], mins 2 x f16[16]             = 768
 *   Q8_0               64    byte 1024, scales 2 x f16[16]                                      = 1088
 *   MXFP4             128    nib 2 x 512, exponents 4 x u8[16]                                  = 1088
 *   Q2_K              256    by2 2 x 512, d f16[16], dmin f16[16], 16 x u8[16] (scale | min<<4) = 1344
 *   Q3_K              256    by2 2 x 512, hi1 4 x 128 (bit 2 of the code), d f16[16], low nibbles of the 16 six-bit scales
 *                            8 x u8[16] (scale g | scale g+8 << 4), their high bits 4 x u8[16] (bits 2j of byte [s]: scale
 *                            4j+s), pad 32                                                     = 1792
 *   Q4_K              256    nib 4 x 512, d f16[16], dmin f16[16], scales 8 x u8[16], mins 8 x u8[16] = 2368
 *   Q5_K              256    nib 4 x 512, hi1 4 x 128, d, dmin, scales 8 x u8[16], mins 8 x u8[16]    = 2880
 *   Q6_K              256    nib 4 x 512 (low 4 bits), by2 2 x 512 (high 2 bits), scales 16 x i8[16], d f16[16], pad 32 = 3392
 *   IQ4_XS            256    nib 4 x 512, scales 8 x i8[16] (six-bit value - 32), d f16[16], pad 32   = 2240
 *   MLX2               128    by2 512                     | then, as the group and the file have it,
 *   MLX3               128    by2 512, hi1 2 x 128        | scales n x s[16], biases n x s[16]:
 *   MLX4               128    nib 2 x 512                 |     n = 4, 2 or 1 groups of 32, 64 or 128 columns,
 *   MLX5               128    nib 2 x 512, hi1 2 x 128    |     s = bf16, f16 or f32
 *   MLX6               128    nib 2 x 512, by2 512        |
 *   MLX8               128    byte 2 x 1024, not biased   |
 *
 * The f16 of Q4_1's and Q5_1's mins is the file's m, which is added: unpack_row gives minima of the other sign, -m. Likewise the
 * biases of the MLX types. The scale of MXFP4 is 2^(e - 128) with doubled codes (tables.h).
 *
 * Vectors (norms, biases) are f32[n], rounded up to 64 bytes.
 */
#ifndef DCT_KERNELS_LAYOUT_H
#define DCT_KERNELS_LAYOUT_H

#include "base/dtype.h"

enum { DCT_TILE_ROWS = 16 };

typedef struct dct_layout {
    uint32_t unit_cols;  /* columns a unit */
    uint32_t unit_bytes; /* bytes a unit; a multiple of 64 except for float types */
    uint32_t group;      /* columns that are summed with one scale: 16 or 32; 0 for float types. Groups of MLX: as many of 32 */
    bool has_min;        /* a minimum beside the scale */
    int zero;            /* subtracted from the unsigned code: 8, 16, 32, 4, 128 or 0 (tables and minima) */
    int lift;            /* added to the codes that unpack_row gives, which are 8 bits: 128 for unsigned bytes, else 0 */
} dct_layout;

const dct_layout *dct_layout_of(dct_dtype type);

/* Bytes of one tile of k columns, and of a whole packed matrix; both multiples of 64. False on overflow or when k does not
 * suit the type (a multiple of 32 for types of 32, of 256 for types of 256). */
bool dct_layout_tile_bytes(dct_dtype type, uint64_t k, uint64_t *bytes);
bool dct_layout_bytes(dct_dtype type, uint64_t m, uint64_t k, uint64_t *bytes);

/* Packs n (1..16) rows of k columns as the file has them (row after row) into one tile. */
void dct_layout_pack_tile(dct_dtype type, uint32_t k, const void *rows, uint32_t n, void *tile);

/* Row r of a tile as numbers: codes (exact integers, zero point and table applied: value = scale*(code + lift) - min), scales and
 * minima of each group. codes[k], scales[k/group], mins[k/group] (0 when the type has none). Not for float types. */
void dct_layout_unpack_row(dct_dtype type, uint32_t k, const void *tile, uint32_t r, int8_t *codes, float *scales, float *mins);

/* Row r of a tile de-quantised, f32[k]. */
void dct_layout_row_f32(dct_dtype type, uint32_t k, const void *tile, uint32_t r, float *out);

/* A row as the file has it, de-quantised (vectors at load time, oracle, tests). Written from the format, not from the packed
 * form. */
void dct_dequant_row(dct_dtype type, uint32_t k, const void *row, float *out);

#endif
