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
} dct_pack_picture;

dct_status dct_pack_draw(const dct_pack_picture *picture, const dct_pack_result *result, const char *path, dct_arena *arena,
                         dct_err *err) DCT_MUST_CHECK;

#endif
