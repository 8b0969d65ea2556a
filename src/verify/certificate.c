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

/* An arena buffer: first and last op that touches it, in the order of the chain. */
typedef struct life {
    uint32_t first, last;
    uint64_t bytes;
} life;

static bool in_arena(const dct_facts *f, dct_value_id v) { return f->phase->places[v].region == DCT_REGION_ARENA; }

static bool is_chain(const dct_facts *f) {
    for (uint32_t s = 1; s < f->phase->n_steps; s++) {
        if (!dct_happens_before(f, f->phase->steps[s - 1].ops[0], f->phase->steps[s].ops[0])) return false;
    }
    return true;
}

/* Place of each op in the chain. */
static void number_ops(const dct_facts *f, uint32_t *number) {
    uint32_t next = 0;
    for (uint32_t s = 0; s < f->phase->n_steps; s++) {
        for (uint32_t i = 0; i < f->phase->steps[s].n_ops; i++) number[f->phase->steps[s].ops[i]] = next++;
    }
}

static void find_lives(const dct_facts *f, const uint32_t *number, life *lives) {
    for (dct_value_id v = 0; v < f->graph->n_values; v++) lives[v] = (life){UINT32_MAX, 0, f->graph->values[v].bytes};
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        if (!in_arena(f, v)) continue;
        life *l = &lives[f->root[v]];
        for (uint32_t i = f->access_begin[v]; i < f->access_begin[v + 1]; i++) {
            uint32_t at = number[f->accesses[i].op];
            if (at < l->first) l->first = at;
            if (at > l->last) l->last = at;
        }
    }
}

static uint64_t load_at(const dct_facts *f, const life *lives, uint32_t at) {
    uint64_t sum = 0;
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        if (lives[v].first <= at && at <= lives[v].last) sum += lives[v].bytes; /* each at most the region, and few */
    }
    return sum;
}

/* True when neither buffer is over before the other begins: some run keeps both. */
static bool may_meet(const dct_facts *f, dct_value_id x, dct_value_id y) {
    bool x_first = true, y_first = true;
    for (dct_value_id a = 0; a < f->graph->n_values; a++) {
        if (f->root[a] != x) continue;
        for (dct_value_id b = 0; b < f->graph->n_values; b++) {
            if (f->root[b] != y) continue;
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
    for (uint32_t i = 0; i < cert->n_values; i++) {
        dct_value_id v = cert->values[i];
        bool ok = v < f->graph->n_values && in_arena(f, v);
        for (uint32_t j = 0; ok && j < i; j++) ok = f->root[cert->values[j]] != f->root[v];
        if (!ok || !dct_add_u64(sum, f->graph->values[v].bytes, &sum)) {
            return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: entry %u of the certificate is no buffer, or named twice", f->phase->name, i);
        }
    }
    if (sum != cert->load_bytes) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: load is said to be %llu, its values add up to %llu", f->phase->name, (ull)cert->load_bytes, (ull)sum);
    }
    return DCT_OK;
}

static dct_status check_chain_load(dct_checker *c, const dct_facts *f) {
    const dct_certificate *cert = &f->phase->cert;
    uint32_t *number = dct_arena_array(c->arena, f->graph->n_ops, sizeof *number);
    life *lives = dct_arena_array(c->arena, f->graph->n_values, sizeof *lives);
    if (number == NULL || lives == NULL) return dct_fail_memory(c->err, c->arena, "the verifier");
    number_ops(f, number);
    find_lives(f, number, lives);
    uint64_t load = 0;
    for (uint32_t at = 0; at < f->graph->n_ops; at++) {
        uint64_t sum = load_at(f, lives, at);
        if (sum > load) load = sum;
    }
    if (load != cert->load_bytes) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: load is said to be %llu, is %llu", f->phase->name, (ull)cert->load_bytes, (ull)load);
    }
    if (cert->op >= f->graph->n_ops || load_at(f, lives, number[cert->op]) != load) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: the load is not reached at op %u", f->phase->name, cert->op);
    }
    for (uint32_t i = 0; i < cert->n_values; i++) {
        const life *l = &lives[f->root[cert->values[i]]];
        if (l->first <= number[cert->op] && number[cert->op] <= l->last) continue;
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: '%s' is not live at op %u", f->phase->name, f->graph->values[cert->values[i]].name, cert->op);
    }
    return DCT_OK;
}

static dct_status check_pairs_meet(dct_checker *c, const dct_facts *f) {
    const dct_certificate *cert = &f->phase->cert;
    for (uint32_t i = 0; i < cert->n_values; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (may_meet(f, f->root[cert->values[i]], f->root[cert->values[j]])) continue;
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
static uint32_t count_buffers(const dct_facts *f) {
    uint32_t n = 0;
    for (dct_value_id v = 0; v < f->graph->n_values; v++) {
        bool is_new = in_arena(f, v);
        for (dct_value_id u = 0; u < v && is_new; u++) {
            is_new = !in_arena(f, u) || f->phase->places[u].offset != f->phase->places[v].offset || f->graph->values[u].bytes != f->graph->values[v].bytes;
        }
        n += is_new;
    }
    return n;
}

dct_status dct_check_certificate(dct_checker *c, const dct_facts *f) {
    const dct_certificate *cert = &f->phase->cert;
    dct_status status = check_witness(c, f);
    if (status == DCT_OK) status = is_chain(f) ? check_chain_load(c, f) : check_pairs_meet(c, f);
    if (status != DCT_OK) return status;
    uint64_t height = arena_height(f);
    if (cert->height_bytes != height || cert->optimal != (height == cert->load_bytes)) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: height is said to be %llu%s, is %llu over a load of %llu", f->phase->name, (ull)cert->height_bytes,
                          cert->optimal ? " (optimal)" : "", (ull)height, (ull)cert->load_bytes);
    }
    uint32_t n_buffers = count_buffers(f);
    if (f->phase->n_buffers != n_buffers) {
        return dct_refuse(c, DCT_DEFECT_CERTIFICATE_WRONG, "%s: %u buffers are stated, %u counted", f->phase->name, f->phase->n_buffers, n_buffers);
    }
    return DCT_OK;
}
