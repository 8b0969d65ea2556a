/* Reading and writing of the public CSV format of static-allocation problems:
 *
 *     id,lower,upper,size[,alignment][,hint][,gaps][,offset]      a heading, then a line an item; lifetimes are half-open:
 *                        [,pool][,alias]                          lower <= t < upper
 *
 * Columns may stand in any order. Where they are absent or empty, alignment is 1, there are no gaps, and the offset is free; a
 * given offset is kept. `buffer` and `buffer_id` say id, `start` and `begin` say lower; `end` is the older form of upper, with
 * the end included, in gaps as well. `hint` passes through and is not used. In `gaps`, separated by spaces: 4-7 is a time in
 * which the item holds nothing, 4-7@0:16 one in which it holds only its own bytes 0..16. What is written is the same file with
 * the offsets filled in.
 *
 * Two columns are ours. `pool` names the memory that an item lies in; every pool is packed by itself. `alias` is the id of a line
 * above, of the same pool: the item is a view of that one or takes its place, and lies in its bytes from the first on, or, as
 * id@64, from byte 64 on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/os.h"
#include "base/safe_text.h"
#include "base/size.h"
#include "compile/sort.h"
#include "tools/pack_table.h"
#include "tools/tools.h"

enum { MAX_COLUMNS = 16 };

typedef enum column {
    COLUMN_ID,
    COLUMN_LOWER,
    COLUMN_UPPER,
    COLUMN_SIZE,
    COLUMN_ALIGNMENT,
    COLUMN_OFFSET,
    COLUMN_GAPS,
    COLUMN_HINT,
    COLUMN_POOL,
    COLUMN_ALIAS,
    COLUMN_COUNT
} column;

_Static_assert((int)COLUMN_COUNT == (int)DCT_PACK_COLUMNS, "a place for each column");

/* What a heading may say. The first ones are the names of the columns, in their order. */
static const struct { const char *text; column column; } HEADINGS[] = {
    {"id", COLUMN_ID},         {"lower", COLUMN_LOWER}, {"upper", COLUMN_UPPER},   {"size", COLUMN_SIZE},
    {"alignment", COLUMN_ALIGNMENT}, {"offset", COLUMN_OFFSET}, {"gaps", COLUMN_GAPS}, {"hint", COLUMN_HINT},
    {"pool", COLUMN_POOL},     {"alias", COLUMN_ALIAS}, {"buffer", COLUMN_ID},     {"buffer_id", COLUMN_ID},
    {"begin", COLUMN_LOWER},   {"start", COLUMN_LOWER}, {"end", COLUMN_UPPER},
};
enum { N_HEADINGS = sizeof HEADINGS / sizeof *HEADINGS };

typedef dct_pack_table table;

static dct_str trimmed(dct_str s) {
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) s.ptr++, s.len--;
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t' || s.ptr[s.len - 1] == '\r')) s.len--;
    return s;
}

/* Cuts a line at its commas. Returns the number of fields, at most MAX_COLUMNS + 1. */
static uint32_t split(dct_str line, dct_str *fields) {
    uint32_t n = 0;
    for (;;) {
        const char *comma = memchr(line.ptr, ',', line.len);
        size_t len = comma != NULL ? (size_t)(comma - line.ptr) : line.len;
        if (n < MAX_COLUMNS) fields[n] = trimmed((dct_str){line.ptr, len});
        n++;
        if (comma == NULL || n > MAX_COLUMNS) return n;
        line = (dct_str){comma + 1, line.len - len - 1};
    }
}

/* A defect in a line says in which one, and of what item. */
static dct_status name_line(const table *t, uint64_t line, dct_status status, dct_err *err) {
    if (status != DCT_BAD_FILE || err == NULL) return status;
    dct_str fields[MAX_COLUMNS], text = t->lines[line], id = {"", 0};
    uint64_t number = 1; /* as editors count: t->lines has no empty ones */
    for (const char *c = t->text; c < text.ptr; c++) number += *c == '\n';
    if (line > 0 && split(text, fields) > t->at[COLUMN_ID]) id = fields[t->at[COLUMN_ID]];
    int n_id = (int)(id.len < 60 ? id.len : 60);
    dct_err why = *err;
    return dct_fail(err, status, "line %" PRIu64 "%s%.*s%s: %.300s", number, n_id > 0 ? ", item '" : "", n_id, id.ptr,
                    n_id > 0 ? "'" : "", why.message);
}

static dct_status read_number(dct_str field, uint64_t most, const char *name, uint64_t *out, dct_err *err) {
    uint64_t v = 0;
    bool good = field.len > 0;
    for (size_t i = 0; good && i < field.len; i++) {
        char c = field.ptr[i];
        good = c >= '0' && c <= '9' && dct_mul_u64(v, 10, &v) && dct_add_u64(v, (uint64_t)(c - '0'), &v) && v <= most;
    }
    if (!good) {
        return dct_fail(err, DCT_BAD_FILE, "%s '%.*s' is not a number from 0 to %" PRIu64, name,
                           (int)(field.len < 40 ? field.len : 40), field.ptr, most);
    }
    *out = v;
    return DCT_OK;
}

static dct_status find_lines(table *t, dct_arena *arena, dct_err *err) {
    uint64_t n = 1;
    for (uint64_t i = 0; i < t->n_text; i++) n += t->text[i] == '\n';
    t->lines = dct_arena_array(arena, n, sizeof *t->lines);
    if (t->lines == NULL) return dct_fail_memory(err, arena, "the problem");
    for (uint64_t i = 0; i < t->n_text;) {
        const char *end = memchr(t->text + i, '\n', t->n_text - i);
        size_t len = end != NULL ? (size_t)(end - (t->text + i)) : (size_t)(t->n_text - i);
        dct_str line = trimmed((dct_str){t->text + i, len});
        if (line.len > 0) t->lines[t->n_lines++] = line;
        i += len + 1;
    }
    if (t->n_lines == 0) return dct_fail(err, DCT_BAD_FILE, "the problem is empty; expected a heading with id,lower,upper,size");
    return DCT_OK;
}

static dct_status read_heading(table *t, dct_err *err) {
    dct_str fields[MAX_COLUMNS];
    t->n_columns = split(t->lines[0], fields);
    if (t->n_columns > MAX_COLUMNS) return dct_fail(err, DCT_BAD_FILE, "more than %d columns", MAX_COLUMNS);
    for (uint32_t c = 0; c < COLUMN_COUNT; c++) t->at[c] = DCT_NONE;
    for (uint32_t i = 0; i < t->n_columns; i++) {
        uint32_t h = 0;
        int len = (int)(fields[i].len < 40 ? fields[i].len : 40);
        while (h < N_HEADINGS && !dct_str_eq_z(fields[i], HEADINGS[h].text)) h++;
        if (h == N_HEADINGS) {
            return dct_fail(err, DCT_BAD_FILE,
                            "column '%.*s' is unknown (known: id, lower, upper, size, alignment, hint, gaps, offset, pool, "
                            "alias)",
                            len, fields[i].ptr);
        }
        uint32_t *at = &t->at[HEADINGS[h].column];
        if (*at != DCT_NONE)
            return dct_fail(err, DCT_BAD_FILE, "column '%.*s' stands twice: column %u says '%.*s'", len, fields[i].ptr, *at + 1,
                            (int)fields[*at].len, fields[*at].ptr);
        *at = i;
        if (dct_str_eq_z(fields[i], "end")) t->last_included = 1;
    }
    for (uint32_t c = COLUMN_ID; c <= COLUMN_SIZE; c++) {
        if (t->at[c] == DCT_NONE) return dct_fail(err, DCT_BAD_FILE, "column '%s' is missing", HEADINGS[c].text);
    }
    return DCT_OK;
}

/* Cuts *rest at the first `mark`; what stood before it is returned, and all when there is none. */
static dct_str take_until(dct_str *rest, char mark) {
    const char *found = memchr(rest->ptr, mark, rest->len);
    dct_str head = {rest->ptr, found != NULL ? (size_t)(found - rest->ptr) : rest->len};
    size_t used = head.len + (found != NULL ? 1 : 0);
    *rest = (dct_str){rest->ptr + used, rest->len - used};
    return head;
}

/* One gap: its time, and the bytes that are held in it (none: 0..0). */
static dct_status read_gap(const table *t, dct_str text, dct_pack_piece *gap, dct_err *err) {
    dct_str window = text, times = take_until(&window, '@'), bytes = window;
    dct_str lower = take_until(&times, '-'), low = take_until(&bytes, ':');
    uint64_t from, to;
    *gap = (dct_pack_piece){0};
    dct_status status = read_number(lower, UINT32_MAX, "a gap's begin", &from, err);
    if (status == DCT_OK) status = read_number(times, UINT32_MAX, "a gap's end", &to, err);
    if (status == DCT_OK && window.len > 0) status = read_number(low, UINT64_MAX, "a gap's low byte", &gap->low, err);
    if (status == DCT_OK && window.len > 0) status = read_number(bytes, UINT64_MAX, "a gap's high byte", &gap->high, err);
    if (status != DCT_OK) return status;
    to += t->last_included;
    if (to > UINT32_MAX) return dct_fail(err, DCT_BAD_FILE, "a gap's end %" PRIu64 " is too large", to - 1);
    gap->begin = (uint32_t)from;
    gap->end = (uint32_t)to;
    return DCT_OK;
}

/* What is left of an item when its gaps are cut out. */
static dct_status read_gaps(const table *t, dct_str text, dct_arena *arena, dct_pack_item *item, dct_err *err) {
    uint64_t most = 1;
    uint32_t n = 0, from = item->begin;
    for (size_t k = 0; k < text.len; k++) most += text.ptr[k] == ' ' ? 2 : 0;
    dct_pack_piece *pieces = dct_arena_array(arena, most + 2, sizeof *pieces);
    if (pieces == NULL) return dct_fail_memory(err, arena, "the problem");
    while (text.len > 0) {
        dct_str one = take_until(&text, ' ');
        dct_pack_piece gap;
        if (one.len == 0) continue;
        dct_status status = read_gap(t, one, &gap, err);
        if (status != DCT_OK) return status;
        if (gap.begin < from || gap.begin >= gap.end || gap.end > item->end || gap.low > gap.high || gap.high > item->size) {
            return dct_fail(err, DCT_BAD_FILE, "gap '%.*s' is no part of its item, or not after the one before it",
                               (int)(one.len < 60 ? one.len : 60), one.ptr);
        }
        if (gap.begin > from) pieces[n++] = (dct_pack_piece){0, item->size, from, gap.begin};
        if (gap.low < gap.high) pieces[n++] = gap;
        from = gap.end;
    }
    if (from < item->end) pieces[n++] = (dct_pack_piece){0, item->size, from, item->end};
    if (n == 0) item->size = 0; /* nothing but gaps: no bytes at any time */
    item->pieces = pieces;
    item->n_pieces = n;
    return DCT_OK;
}

/* The field of a column, empty where the file has none. */
static dct_str field_of(const table *t, const dct_str *fields, column c) {
    return t->at[c] != DCT_NONE ? fields[t->at[c]] : (dct_str){"", 0};
}

/* Pools are numbered as they come. A file without the column has one. */
static dct_status read_pool(table *t, dct_str name, uint32_t *pool, dct_err *err) {
    for (*pool = 0; *pool < t->n_pools; ++*pool) {
        if (dct_str_eq(t->pools[*pool].name, name)) return DCT_OK;
    }
    if (t->n_pools == DCT_PACK_POOLS) {
        return dct_fail(err, DCT_BAD_FILE, "there are more than %d pools", DCT_PACK_POOLS);
    }
    t->pools[t->n_pools++] = (dct_pack_pool){.name = name};
    return DCT_OK;
}

static dct_status read_item(table *t, uint32_t i, dct_arena *arena, dct_err *err) {
    dct_str fields[MAX_COLUMNS], line = t->lines[i + 1];
    dct_pack_item *item = &t->items[i];
    uint64_t lower, upper;
    if (split(line, fields) != t->n_columns)
        return dct_fail(err, DCT_BAD_FILE, "it has not %u fields", t->n_columns);
    *item = (dct_pack_item){.align = 1};
    dct_status status = read_number(fields[t->at[COLUMN_LOWER]], UINT32_MAX, "lower", &lower, err);
    if (status == DCT_OK) status = read_number(fields[t->at[COLUMN_UPPER]], UINT32_MAX, "upper", &upper, err);
    if (status == DCT_OK) status = read_number(fields[t->at[COLUMN_SIZE]], UINT64_MAX, "size", &item->size, err);
    dct_str alignment = field_of(t, fields, COLUMN_ALIGNMENT), offset = field_of(t, fields, COLUMN_OFFSET);
    if (status == DCT_OK && alignment.len > 0)
        status = read_number(alignment, UINT64_MAX, "alignment", &item->align, err);
    if (status == DCT_OK && offset.len > 0) status = read_number(offset, UINT64_MAX, "offset", &item->offset, err);
    item->fixed = offset.len > 0;
    t->homes[i].root = i;
    if (status == DCT_OK) status = read_pool(t, field_of(t, fields, COLUMN_POOL), &t->homes[i].pool, err);
    if (status != DCT_OK) return status;
    if (!dct_is_pow2(item->align))
        return dct_fail(err, DCT_BAD_FILE, "alignment %" PRIu64 " is not a power of two", item->align);
    upper += t->last_included;
    if (upper > UINT32_MAX) return dct_fail(err, DCT_BAD_FILE, "upper %" PRIu64 " is too large", upper);
    if (lower >= upper) return dct_fail(err, DCT_BAD_FILE, "lower %" PRIu64 " is not under upper %" PRIu64, lower, upper);
    item->begin = (uint32_t)lower;
    item->end = (uint32_t)upper;
    dct_str gaps = field_of(t, fields, COLUMN_GAPS);
    return item->size > 0 && gaps.len > 0 ? read_gaps(t, gaps, arena, item, err) : DCT_OK;
}

/* ---- whose bytes ---- */

static uint64_t hash_of(dct_str s) { return dct_hash_mix(dct_hash_bytes(DCT_HASH_SEED, s.ptr, s.len)); }

/* All ids by their hashes. */
static dct_sort_key *sort_ids(const table *t, dct_arena *arena) {
    dct_sort_key *ids = dct_arena_array(arena, t->n_items, sizeof *ids);
    if (ids == NULL) return NULL;
    for (uint32_t i = 0; i < t->n_items; i++) ids[i] = (dct_sort_key){.first = hash_of(dct_pack_table_id(t, i)), .index = i};
    dct_sort_keys(ids, t->n_items);
    return ids;
}

/* The item with this id; DCT_NONE when there is none, or more than one. */
static uint32_t find_id(const table *t, const dct_sort_key *ids, dct_str id) {
    uint64_t hash = hash_of(id);
    uint32_t low = 0, high = t->n_items, found = DCT_NONE;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (ids[mid].first < hash) low = mid + 1;
        else high = mid;
    }
    for (; low < t->n_items && ids[low].first == hash; low++) {
        if (!dct_str_eq(dct_pack_table_id(t, ids[low].index), id)) continue;
        if (found != DCT_NONE) return DCT_NONE;
        found = ids[low].index;
    }
    return found;
}

/* An id may have an @ in it: it is the last one that a byte follows, where the whole is no id. */
static dct_status read_alias(const table *t, const dct_sort_key *ids, dct_str text, uint32_t *owner, uint64_t *shift,
                             dct_err *err) {
    size_t cut = text.len;
    *shift = 0;
    *owner = find_id(t, ids, text);
    if (*owner != DCT_NONE) return DCT_OK;
    while (cut > 0 && text.ptr[cut - 1] != '@') cut--;
    if (cut == 0) return DCT_OK;
    *owner = find_id(t, ids, (dct_str){text.ptr, cut - 1});
    return read_number((dct_str){text.ptr + cut, text.len - cut}, UINT64_MAX, "an alias's byte", shift, err);
}

/* A root lies as everything in it wants to lie. NULL, or what is wrong. */
static const char *settle(table *t, uint32_t i) {
    dct_pack_item *item = &t->items[i], *root = &t->items[t->homes[i].root];
    uint64_t shift = t->homes[i].shift;
    if (shift % item->align != 0) return "begins at a byte of its owner that its alignment forbids";
    if (item->align > root->align) root->align = item->align;
    if (!item->fixed) return NULL;
    if (item->offset < shift || (root->fixed && root->offset != item->offset - shift)) return "is fixed elsewhere than its owner";
    root->fixed = true;
    root->offset = item->offset - shift;
    return NULL;
}

static dct_status share(table *t, const dct_sort_key *ids, uint32_t i, dct_str text, dct_err *err) {
    uint64_t shift, end;
    uint32_t owner;
    dct_status status = read_alias(t, ids, text, &owner, &shift, err);
    if (status != DCT_OK) return status;
    const char *wrong = NULL;
    if (owner == DCT_NONE || owner >= i) wrong = "is not the id of one line above it";
    else if (t->homes[owner].pool != t->homes[i].pool) wrong = "lies in another pool";
    else if (!dct_add_u64(shift, t->items[i].size, &end) || end > t->items[owner].size) wrong = "has not so many bytes";
    if (wrong == NULL) {
        t->homes[i].root = t->homes[owner].root;
        t->homes[i].shift = t->homes[owner].shift + shift;
        wrong = settle(t, i);
    }
    if (wrong == NULL) return DCT_OK;
    return dct_fail(err, DCT_BAD_FILE, "alias '%.*s' %s", (int)(text.len < 60 ? text.len : 60),
                       text.ptr, wrong);
}

static dct_status read_aliases(table *t, dct_arena *arena, dct_err *err) {
    dct_sort_key *ids = sort_ids(t, arena);
    if (ids == NULL) return dct_fail_memory(err, arena, "the problem");
    for (uint32_t i = 0; i < t->n_items; i++) {
        dct_str fields[MAX_COLUMNS];
        split(t->lines[i + 1], fields);
        dct_str text = field_of(t, fields, COLUMN_ALIAS);
        dct_status status = text.len > 0 ? share(t, ids, i, text, err) : DCT_OK;
        if (status != DCT_OK) return name_line(t, i + 1, status, err);
    }
    return DCT_OK;
}

/* ---- the file ---- */

dct_status dct_pack_table_parse(const char *text, uint64_t n, dct_arena *arena, dct_pack_table *out, dct_err *err) {
    static const char mark[] = "\xef\xbb\xbf"; /* what some editors begin a file of UTF-8 with */
    uint64_t skip = n >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
    table made = {.text = text + skip, .n_text = n - skip}, *t = &made;
    dct_status status = find_lines(t, arena, err);
    if (status == DCT_OK) status = name_line(t, 0, read_heading(t, err), err);
    if (status != DCT_OK) return status;
    if (t->n_lines > UINT32_MAX) return dct_fail(err, DCT_BAD_FILE, "too many items");
    t->n_items = (uint32_t)(t->n_lines - 1);
    t->items = dct_arena_array(arena, t->n_items, sizeof *t->items);
    t->homes = dct_arena_array(arena, t->n_items, sizeof *t->homes);
    t->pools = dct_arena_array(arena, DCT_PACK_POOLS, sizeof *t->pools);
    if (t->items == NULL || t->homes == NULL || t->pools == NULL) return dct_fail_memory(err, arena, "the problem");
    for (uint32_t i = 0; status == DCT_OK && i < t->n_items; i++) status = name_line(t, i + 1, read_item(t, i, arena, err), err);
    if (status == DCT_OK && t->at[COLUMN_ALIAS] != DCT_NONE) status = read_aliases(t, arena, err);
    if (status == DCT_OK) *out = made;
    return status;
}

dct_status dct_pack_table_read(const char *path, dct_arena *arena, dct_pack_table *out, dct_err *err) {
    dct_file file;
    dct_status status = dct_file_open(&file, path, err);
    if (status != DCT_OK) return status;
    char *text = NULL;
    if (file.bytes > DCT_PACKFILE_MAX_BYTES)
        status = dct_fail(err, DCT_BAD_FILE, "%s: %" PRIu64 " bytes are more than a problem may have", dct_show_path(path).text,
                          file.bytes);
    if (status == DCT_OK && (text = dct_arena_alloc(arena, file.bytes)) == NULL)
        status = dct_fail_memory(err, arena, "the problem");
    if (status == DCT_OK) status = dct_file_read_at(&file, 0, text, file.bytes, err);
    if (status == DCT_OK) status = dct_pack_table_parse(text, file.bytes, arena, out, err);
    dct_file_close(&file);
    return status;
}

static void write_text(dct_writer *w, const char *text) { dct_write_bytes(w, text, strlen(text)); }

/* A line with its offset in place, or at the end when the heading had no such column. */
static void write_item(dct_writer *w, const table *t, dct_str line, uint64_t offset) {
    dct_str fields[MAX_COLUMNS];
    char number[24];
    split(line, fields);
    snprintf(number, sizeof number, "%" PRIu64, offset);
    for (uint32_t i = 0; i < t->n_columns; i++) {
        if (i > 0) write_text(w, ",");
        if (i == t->at[COLUMN_OFFSET]) write_text(w, number);
        else dct_write_bytes(w, fields[i].ptr, fields[i].len);
    }
    if (t->at[COLUMN_OFFSET] == DCT_NONE) {
        write_text(w, ",");
        write_text(w, number);
    }
    write_text(w, "\n");
}

static void write_table(dct_writer *w, const table *t) {
    dct_write_bytes(w, t->lines[0].ptr, t->lines[0].len);
    write_text(w, t->at[COLUMN_OFFSET] == DCT_NONE ? ",offset\n" : "\n");
    for (uint32_t i = 0; i < t->n_items; i++) write_item(w, t, t->lines[i + 1], t->items[i].offset);
}

dct_status dct_pack_table_save(const dct_pack_table *t, const char *path, dct_arena *arena, dct_err *err) {
    dct_writer measure = {.size = UINT64_MAX};
    write_table(&measure, t);
    dct_writer w = {.bytes = dct_arena_alloc(arena, measure.pos), .size = measure.pos};
    if (w.bytes == NULL) return dct_fail_memory(err, arena, "the answer");
    write_table(&w, t);
    return dct_file_write_whole(path, w.bytes, w.pos, err);
}

dct_str dct_pack_table_id(const dct_pack_table *t, uint32_t item) {
    dct_str fields[MAX_COLUMNS];
    split(t->lines[item + 1], fields);
    return fields[t->at[COLUMN_ID]];
}
