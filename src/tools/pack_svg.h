/* tools/pack_svg: items that were packed, as a picture: the arena over time, the load as a line. */
#ifndef DCT_TOOLS_PACK_SVG_H
#define DCT_TOOLS_PACK_SVG_H

#include "base/reader.h"
#include "compile/compile.h"

typedef struct dct_pack_picture {
    const dct_pack_item *items;
    uint32_t n;
    dct_str (*name)(const void *ctx, uint32_t item);
    const void *ctx;
    uint64_t load, height;
    bool optimal;
    const uint64_t *floors; /* an item: the byte of the picture where its pool begins; NULL: 0 */
    const uint64_t *lines;  /* heights of the picture at which a load is: one a pool */
    uint32_t n_lines;
} dct_pack_picture;

dct_status dct_pack_draw(const dct_pack_picture *picture, const char *path, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

#endif
