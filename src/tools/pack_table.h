/* tools/pack_table: a packing problem as a CSV file; see pack_table.c for the format. */
#ifndef DCT_TOOLS_PACK_TABLE_H
#define DCT_TOOLS_PACK_TABLE_H

#include "base/reader.h"
#include "compile/compile.h"

enum { DCT_PACK_COLUMNS = 10, DCT_PACK_POOLS = 64 };

/* Memory of its own: what lies in one pool never meets what lies in another. */
typedef struct dct_pack_pool {
    dct_str name;           /* "": the file has no column for it */
    dct_pack_result packed; /* by dct_pack_table_pack */
} dct_pack_pool;

/* Where an item belongs: its bytes are those from `shift` on of item `root`, which is itself when it shares nobody's. */
typedef struct dct_pack_home {
    uint64_t shift;
    uint32_t root, pool;
} dct_pack_home;

typedef struct dct_pack_table {
    const char *text;                /* the whole file, without a byte order mark */
    uint64_t n_text;
    uint32_t n_columns;
    uint32_t last_included;          /* 1: what ends, ends after the time it names (heading `end`); 0: at it */
    uint32_t at[DCT_PACK_COLUMNS];   /* position of a column in a line, or DCT_NONE */
    dct_str *lines;                  /* without line ends; [0] is the heading */
    uint64_t n_lines;
    uint32_t n_items;                /* lines without the heading */
    dct_pack_item *items;            /* [n_items]; a root is aligned, and fixed, as those that share its bytes need it */
    dct_pack_home *homes;            /* one an item */
    dct_pack_pool *pools;
    uint32_t n_pools;
} dct_pack_table;

/* `text` stays the caller's and must outlive the table; all else lies in the arena. */
dct_status dct_pack_table_parse(const char *text, uint64_t n, dct_arena *arena, dct_pack_table *out, dct_err *err) DCT_MUST_CHECK;
dct_status dct_pack_table_read(const char *path, dct_arena *arena, dct_pack_table *out, dct_err *err) DCT_MUST_CHECK;

/* Packs the items of a pool and has the answer verified. Senseless items are DCT_BAD_FILE: they came from the file. */
dct_status dct_pack_table_pack(dct_pack_table *table, uint32_t pool, const dct_pack_params *params, dct_arena *arena,
                               dct_err *err) DCT_MUST_CHECK;

/* The same file with the offsets of the items filled in. */
dct_status dct_pack_table_save(const dct_pack_table *table, const char *path, dct_arena *arena, dct_err *err) DCT_MUST_CHECK;

/* The name of an item, as the file has it. */
dct_str dct_pack_table_id(const dct_pack_table *table, uint32_t item);

#endif
