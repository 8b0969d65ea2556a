/* compile/concurrency: maximal sets of operations that no path connects (the paper's §3.5), and the baselines of running two
 * phases at the same time.
 *
 * Ops that no path connects are neighbours in a graph of their own; a maximal set is a maximal clique there. They are found by
 * the algorithm of Bron and Kerbosch with a pivot: a set R grows by candidates P, each a neighbour of all in R; X holds those
 * that were tried before, so that no set is found twice. Rows of bits make each step a few words; a level of the search has a P
 * and an X of its own.
 */
#include <string.h>

#include "base/bits.h"
#include "compile/concurrency.h"
#include "compile/passes.h"
#include "compile/sort.h"

typedef struct search {
    dct_arena *arena;
    uint32_t n_ops, words, most;
    uint64_t *free_of;    /* bit b of row a: no path leads from a to b or from b to a */
    uint64_t **levels;    /* [n_ops + 1]: P, X and what is left to try; NULL until the search has been there */
    dct_op_id *chosen;    /* R */
    dct_op_sets *out;
} search;

static uint32_t count_common(const uint64_t *a, const uint64_t *b, uint32_t words) {
    uint32_t n = 0;
    for (uint32_t w = 0; w < words; w++) {
        for (uint64_t bits = a[w] & b[w]; bits != 0; bits &= bits - 1) n++;
    }
    return n;
}

/* Op `to` comes after op `from` and all that `from` comes after. */
static void follow(uint64_t *before, uint32_t words, dct_op_id from, dct_op_id to) {
    if (from == DCT_NONE || from == to) return;
    uint64_t *row = &before[(uint64_t)to * words];
    for (uint32_t w = 0; w < words; w++) row[w] |= before[(uint64_t)from * words + w];
    dct_bit_set(row, from);
}

/* Bit a of row b: a path leads from a to b. An op follows whoever wrote last what it reads or writes, caches too. */
static uint64_t *find_paths(const dct_graph *g, uint32_t words, dct_arena *arena) {
    uint64_t *before = dct_arena_array(arena, (uint64_t)g->n_ops * words, sizeof *before);
    dct_op_id *writer = dct_arena_array(arena, g->n_values, sizeof *writer);
    if (before == NULL || writer == NULL) return NULL;
    for (dct_value_id v = 0; v < g->n_values; v++) writer[v] = DCT_NONE;
    for (dct_op_id i = 0; i < g->n_ops; i++) {
        const dct_op *op = &g->ops[i];
        for (uint32_t k = 0; k < op->n_in; k++) {
            if (op->in[k] == DCT_NONE) continue;
            follow(before, words, writer[op->in[k]], i);
            if (dct_op_writes_input(op->kind, k)) writer[op->in[k]] = i;
        }
        for (uint32_t k = 0; k < op->n_out; k++) {
            if (op->out[k] != DCT_NONE) writer[op->out[k]] = i;
        }
    }
    return before;
}

static dct_status keep_set(search *s, uint32_t n, dct_err *err) {
    dct_op_sets *out = s->out;
    if (n < 2) return DCT_OK;
    if (out->n == s->most) {
        out->is_complete = false;
        return DCT_OK;
    }
    dct_op_set *set = &out->sets[out->n];
    set->ops = dct_arena_array(s->arena, n, sizeof *set->ops);
    if (set->ops == NULL) return dct_fail_memory(err, s->arena, "the sets of operations");
    for (uint32_t i = 0; i < n; i++) { /* in their order */
        uint32_t at = i;
        for (; at > 0 && set->ops[at - 1] > s->chosen[i]; at--) set->ops[at] = set->ops[at - 1];
        set->ops[at] = s->chosen[i];
    }
    set->n = n;
    out->n++;
    return DCT_OK;
}

/* P, X and what is left to try at a depth. NULL when there is no memory. */
static uint64_t *level_of(search *s, uint32_t depth) {
    if (s->levels[depth] == NULL) s->levels[depth] = dct_arena_array(s->arena, 3 * (uint64_t)s->words, sizeof **s->levels);
    return s->levels[depth];
}

/* The op of P or X that leaves the fewest of P to try. DCT_NONE: both are empty. */
static dct_op_id pivot_of(const search *s, const uint64_t *p, const uint64_t *x) {
    dct_op_id best = DCT_NONE;
    uint32_t most = 0;
    for (dct_op_id u = 0; u < s->n_ops; u++) {
        if (!dct_bit_is_set(p, u) && !dct_bit_is_set(x, u)) continue;
        uint32_t n = count_common(p, &s->free_of[(uint64_t)u * s->words], s->words);
        if (best == DCT_NONE || n > most) {
            best = u;
            most = n;
        }
    }
    return best;
}

/* The maximal sets that hold the `depth` ops chosen so far. Not deeper than the largest set. */
static dct_status extend(search *s, uint32_t depth, dct_err *err) {
    uint32_t words = s->words;
    uint64_t *p = s->levels[depth], *x = p + words, *left = x + words;
    dct_op_id pivot = pivot_of(s, p, x);
    if (pivot == DCT_NONE) return keep_set(s, depth, err);
    for (uint32_t w = 0; w < words; w++) left[w] = p[w] & ~s->free_of[(uint64_t)pivot * words + w];
    uint64_t *deeper = level_of(s, depth + 1);
    if (deeper == NULL) return dct_fail_memory(err, s->arena, "the sets of operations");
    for (dct_op_id v = 0; v < s->n_ops && s->out->is_complete; v++) {
        if (!dct_bit_is_set(left, v)) continue;
        const uint64_t *near = &s->free_of[(uint64_t)v * words];
        for (uint32_t w = 0; w < words; w++) {
            deeper[w] = p[w] & near[w];
            deeper[words + w] = x[w] & near[w];
        }
        s->chosen[depth] = v;
        dct_status status = extend(s, depth + 1, err);
        if (status != DCT_OK) return status;
        dct_bit_clear(p, v);
        dct_bit_set(x, v);
    }
    return DCT_OK;
}

static dct_op_id op_at(const dct_op_set *set, uint32_t i) { return i < set->n ? set->ops[i] : DCT_NONE; }

/* By two ops at a time, the last ones first: a pass leaves those that it finds equal as they were. No maximal set is the begin of
 * another, so what stands for the ops that a set does not have decides nothing. */
static dct_status sort_sets(search *s, dct_err *err) {
    dct_op_sets *out = s->out;
    uint32_t longest = 0;
    dct_sort_key *keys = dct_arena_array(s->arena, out->n, sizeof *keys);
    dct_op_set *sorted = dct_arena_array(s->arena, out->n, sizeof *sorted);
    if (keys == NULL || sorted == NULL) return dct_fail_memory(err, s->arena, "the sets of operations");
    for (uint32_t i = 0; i < out->n; i++) longest = out->sets[i].n > longest ? out->sets[i].n : longest;
    for (uint32_t at = longest + longest % 2; at > 0; at -= 2) {
        dct_op_set *sets = out->sets;
        for (uint32_t i = 0; i < out->n; i++) keys[i] = (dct_sort_key){op_at(&sets[i], at - 2), op_at(&sets[i], at - 1), i};
        dct_sort_keys(keys, out->n);
        for (uint32_t i = 0; i < out->n; i++) sorted[i] = sets[keys[i].index];
        out->sets = sorted;
        sorted = sets;
    }
    return DCT_OK;
}

dct_status dct_op_sets_find(const dct_graph *g, uint32_t most, dct_arena *arena, dct_op_sets *out, dct_err *err) {
    search s = {.arena = arena, .n_ops = g->n_ops, .words = g->n_ops / 64 + 1, .most = most, .out = out};
    *out = (dct_op_sets){.is_complete = true};
    const uint64_t *before = find_paths(g, s.words, arena);
    s.free_of = dct_arena_array(arena, (uint64_t)g->n_ops * s.words, sizeof *s.free_of);
    s.levels = dct_arena_array(arena, (uint64_t)g->n_ops + 2, sizeof *s.levels);
    s.chosen = dct_arena_array(arena, (uint64_t)g->n_ops + 1, sizeof *s.chosen);
    out->sets = dct_arena_array(arena, most, sizeof *out->sets);
    if (before == NULL || s.free_of == NULL || s.levels == NULL || s.chosen == NULL || out->sets == NULL ||
        level_of(&s, 0) == NULL)
        return dct_fail_memory(err, arena, "the sets of operations");
    for (dct_op_id b = 0; b < g->n_ops; b++) {
        for (dct_op_id a = 0; a < b; a++) {
            if (dct_bit_is_set(&before[(uint64_t)b * s.words], a)) continue;
            dct_bit_set(&s.free_of[(uint64_t)a * s.words], b);
            dct_bit_set(&s.free_of[(uint64_t)b * s.words], a);
        }
    }
    for (dct_op_id v = 0; v < g->n_ops; v++) {
        const uint64_t *row = &s.free_of[(uint64_t)v * s.words];
        if (count_common(row, row, s.words) == 0) out->n_alone++;
        else dct_bit_set(s.levels[0], v);
    }
    dct_status status = extend(&s, 0, err);
    return status == DCT_OK ? sort_sets(&s, err) : status;
}

/* ---- two phases at the same time ---- */

static double phase_us(const dct_phase *phase, bool attention_only) {
    double us = 0;
    for (uint32_t s = 0; phase != NULL && s < phase->n_steps; s++) {
        const dct_step *step = &phase->steps[s];
        dct_op_kind kind = step->n_ops > 0 ? phase->graph.ops[step->ops[0]].kind : DCT_OP_COUNT;
        bool counts = !attention_only || kind == DCT_OP_ATTN || kind == DCT_OP_ATTN_PART;
        if (counts && step->est_us > 0 && step->est_us < 1e12f) us += (double)step->est_us; /* nobody verified it */
    }
    return us;
}

/* `first_us` and `second_us`: what each takes on all workers; side by side they get these shares of the full rate. */
static double corun(double first_us, double first_share, double second_us, double second_share) {
    double first_end = first_us / first_share, second_end = second_us / second_share;
    if (!(first_end > 0) || !(second_end > 0)) return first_us + second_us;
    if (first_end <= second_end) return first_end + (1 - first_end / second_end) * second_us;
    return second_end + (1 - second_end / first_end) * first_us;
}

dct_baselines dct_baselines_of(const dct_plan *plan, const dct_profile *profile) {
    const dct_phase *chunk = dct_plan_phase(plan, DCT_PHASE_PREFILL), *token = dct_plan_phase(plan, DCT_PHASE_DECODE);
    double chunk_us = phase_us(chunk, false), token_us = phase_us(token, false), products = 1, bandwidth = 1;
    dct_baselines b = {.n_tokens = 1, .gain_max = 1};
    if (plan->bounds.threads >= 2) {
        double one = profile->macs_per_s_one / profile->macs_per_s_all, others = plan->bounds.threads - 1;
        products = one + (1 - one) * (others - 1) / others;
        bandwidth = profile->bytes_per_s_one / profile->bytes_per_s_all;
        b.gain_max = products + bandwidth;
        double fit = token_us > 0 ? chunk_us / products / (token_us / bandwidth) : 0;
        if (fit > 1) b.n_tokens = fit < 1e6 ? (uint32_t)fit : 1000000;
    }
    double rows = chunk != NULL && chunk->rows > 0 ? chunk->rows : 1, tokens_us = b.n_tokens * token_us;
    b.sequential_us = chunk_us + tokens_us;
    b.corun_us = plan->bounds.threads >= 2 ? corun(chunk_us, products, tokens_us, bandwidth) : b.sequential_us;
    b.fused_us = chunk_us * (rows + b.n_tokens) / rows + b.n_tokens * phase_us(token, true);
    return b;
}
