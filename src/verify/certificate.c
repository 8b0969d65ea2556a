/* Load and height, counted again.
 *
 * When the steps of a phase stand in one chain, every moment is an op: a buffer (a value with all that lies in its bytes in
 * place) is live from the op that first writes it to the op that last touches it, and the load is the largest sum at any op.
 * When steps run side by side, the load is whatever set of buffers the certificate names, provided that each two of them may
 * be live together: that too is a sum which no packing can undercut.
 */
#include "base/size.h"
#include "verify/checker.h"

typedef unsigned long long ull;

static bool in_arena(const dct_facts *f, dct_value_id v) { return f->phase->places[v].region == DCT_REGION_ARENA; }

/* A buffer: the life of a root value and of all that lies in its bytes in place, as a chain of values. */
typedef struct buffer {
    dct_life life;
    dct_value_id first_member;
} buffer;

typedef struct buffers {
    buffer *of;              /* a root value */
    dct_value_id *next;      /* a value: the next of the same root */
} buffers;

static dct_status find_buffers(dct_checker *c, const dct_facts *f, buffers *b) {
    b->of = dct_arena_array(c->arena, f->graph->n_values, sizeof *b->of);
    b->next = dct_arena_array(c->arena, f->graph->n_values, sizeof *b->next);
    if (b->of == NULL || b->next == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    for (dct_value_id v = 0; v < f->graph->n_values; v++) b->of[v] = (buffer){{UINT32_MAX, 0}, DCT_NONE};
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        if (!in_arena(f, v)) continue;
        buffer *root = &b->of[f->root[v]];
        dct_life life = dct_life_of(f, v);
        if (life.first < root->life.first) root->life.first = life.first;
        if (life.last > root->life.last) root->life.last = life.last;
        b->next[v] = root->first_member;
        root->first_member = v;
    }
    return DCT_OK;
}

/* True when neither buffer is over before the other begins: some run keeps both. */
static bool may_meet(const dct_facts *f, const buffers *bs, dct_value_id x, dct_value_id y) {
    bool x_first = true, y_first = true;
    for (dct_value_id a = bs->of[x].first_member; a != DCT_NONE; a = bs->next[a]) {
        for (dct_value_id b = bs->of[y].first_member; b != DCT_NONE; b = bs->next[b]) {
            x_first = x_first && dct_all_before(f, a, b, DCT_NONE);
            y_first = y_first && dct_all_before(f, b, a, DCT_NONE);
        }
    }
    return !x_first && !y_first;
}

/* The values that the certificate names: buffers of the arena, each once, summing to the load. */
static dct_status check_witness(dct_checker *c, const dct_facts *f) {
    const dct_certificate *cert = &f->phase->cert;
    uint64_t sum = 0;
    bool *named = dct_arena_array(c->arena, f->graph->n_values, sizeof *named); /* a root value */
    if (named == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    for (uint32_t i = 0; i < cert->n_values; i++) {
        dct_value_id v = cert->values[i];
        bool ok = v < f->graph->n_values && in_arena(f, v) && !named[f->root[v]];
        if (ok) named[f->root[v]] = true;
        if (!ok || !dct_add_u64(sum, f->graph->values[v].bytes, &sum)) {
            return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: entry %u of the certificate is no buffer, or named twice",
                              f->phase->name, i);
        }
    }
    if (sum != cert->load_bytes) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: load is said to be %llu, its values add up to %llu",
                          f->phase->name, (ull)cert->load_bytes, (ull)sum);
    }
    return DCT_OK;
}

/* Bytes live at each op. No two live buffers share a byte (memory.c), so no sum at an op is larger than the region; what wraps on
 * the way there wraps back. */
static uint64_t *find_loads(dct_checker *c, const dct_facts *f, const buffers *b) {
    uint64_t *load = dct_arena_array(c->arena, (uint64_t)f->graph->n_ops + 1, sizeof *load);
    if (load == NULL) return NULL;
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        dct_life life = b->of[v].life;
        if (life.first > life.last) continue;
        load[life.first] += f->graph->values[v].bytes;
        load[life.last + 1] -= f->graph->values[v].bytes;
    }
    for (uint32_t at = 1; at <= f->graph->n_ops; at++) load[at] += load[at - 1];
    return load;
}

static dct_status check_chain_load(dct_checker *c, const dct_facts *f, const buffers *b) {
    const dct_certificate *cert = &f->phase->cert;
    const uint64_t *load_at = find_loads(c, f, b);
    if (load_at == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    uint64_t load = 0;
    for (uint32_t at = 0; at < f->graph->n_ops; at++) {
        if (load_at[at] > load) load = load_at[at];
    }
    if (load != cert->load_bytes) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: load is said to be %llu, is %llu", f->phase->name,
                          (ull)cert->load_bytes, (ull)load);
    }
    if (cert->op >= f->graph->n_ops || load_at[f->number[cert->op]] != load) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: the load is not reached at op %u", f->phase->name, cert->op);
    }
    for (uint32_t i = 0; i < cert->n_values; i++) {
        dct_life life = b->of[f->root[cert->values[i]]].life;
        if (life.first <= f->number[cert->op] && f->number[cert->op] <= life.last) continue;
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: '%s' is not live at op %u", f->phase->name,
                          f->graph->values[cert->values[i]].name, cert->op);
    }
    return DCT_OK;
}

static dct_status check_pairs_meet(dct_checker *c, const dct_facts *f, const buffers *b) {
    const dct_certificate *cert = &f->phase->cert;
    for (uint32_t i = 0; i < cert->n_values; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (*f->questions_left > 0 && may_meet(f, b, f->root[cert->values[i]], f->root[cert->values[j]])) continue;
            return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: '%s' and '%s' are never live together", f->phase->name,
                              f->graph->values[cert->values[i]].name, f->graph->values[cert->values[j]].name);
        }
    }
    return DCT_OK;
}

static uint64_t arena_height(const dct_facts *f) {
    uint64_t height = 0;
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        if (!in_arena(f, v)) continue;
        uint64_t end = f->phase->places[v].offset + f->graph->values[v].bytes; /* inside the region: memory.c */
        if (end > height) height = end;
    }
    return height;
}

/* Distinct (offset, size) ranges of the arena. */
static dct_status count_buffers(dct_checker *c, const dct_facts *f, uint32_t *n_buffers) {
    dct_range *r = dct_arena_array(c->arena, f->graph->n_values, sizeof *r);
    if (r == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    uint32_t n = 0;
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        if (in_arena(f, v)) r[n++] = (dct_range){f->phase->places[v].offset, f->graph->values[v].bytes, v};
    }
    dct_sort_ranges(r, n);
    *n_buffers = 0;
    for (uint32_t i = 0; i < n; i++) *n_buffers += i == 0 || r[i].offset != r[i - 1].offset || r[i].bytes != r[i - 1].bytes;
    return DCT_OK;
}

dct_status dct_check_certificate(dct_checker *c, const dct_facts *f) {
    const dct_certificate *cert = &f->phase->cert;
    buffers b;
    uint32_t n_buffers = 0;
    dct_status status = check_witness(c, f);
    if (status == DCT_OK) status = find_buffers(c, f, &b);
    if (status == DCT_OK) status = f->is_chain ? check_chain_load(c, f, &b) : check_pairs_meet(c, f, &b);
    if (status == DCT_OK) status = count_buffers(c, f, &n_buffers);
    if (status != DCT_OK) return status;
    uint64_t height = arena_height(f);
    if (cert->height_bytes != height || cert->optimal != (height == cert->load_bytes)) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: height is said to be %llu%s, is %llu over a load of %llu",
                          f->phase->name, (ull)cert->height_bytes, cert->optimal ? " (optimal)" : "", (ull)height,
                          (ull)cert->load_bytes);
    }
    if (f->phase->n_buffers != n_buffers) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: %u buffers are stated, %u counted", f->phase->name,
                          f->phase->n_buffers, n_buffers);
    }
    return DCT_OK;
}
