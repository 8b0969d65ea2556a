/* The chain works on an array of candidates that only ever gets shorter. It is brought into order (logit down, then id up: a
 * total order) only as far as needed: a selection for top-k, a heap sort of what is left for top-p. */
#include "engine/sampler.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "base/size.h"
#include "kernels/kernel.h"

uint64_t dct_sampler_bytes(uint32_t n_vocab) {
    return dct_round_up((uint64_t)n_vocab * sizeof(dct_candidate), 64) + dct_round_up((uint64_t)n_vocab * sizeof(uint32_t), 64);
}

void dct_sampler_init(dct_sampler *sampler, void *memory, uint32_t n_vocab) {
    sampler->n_vocab = n_vocab;
    sampler->candidates = memory;
    sampler->counts = (uint32_t *)((char *)memory + dct_round_up((uint64_t)n_vocab * sizeof(dct_candidate), 64));
    memset(sampler->counts, 0, n_vocab * sizeof(uint32_t));
    dct_sampler_seed(sampler, 0);
}

/* The state is filled by splitmix64, as its authors advise (Blackman and Vigna 2021). */
void dct_sampler_seed(dct_sampler *sampler, uint64_t seed) {
    for (uint32_t i = 0; i < 4; i++) sampler->random[i] = dct_random_next(&seed);
}

static uint64_t rotate(uint64_t x, uint32_t by) { return x << by | x >> (64 - by); }

static uint64_t next_random(uint64_t s[4]) {
    uint64_t out = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return out;
}

/* In [0, 1), 53 bits. */
static double next_uniform(uint64_t s[4]) { return (double)(next_random(s) >> 11) * 0x1p-53; }

/* ---- order ---- */

/* NaN never comes first: it compares as the smallest. */
static bool before(dct_candidate a, dct_candidate b) {
    if (a.logit > b.logit) return true;
    if (a.logit < b.logit) return false;
    if (isnan(a.logit) != isnan(b.logit)) return isnan(b.logit);
    return a.id < b.id;
}

static void swap(dct_candidate *a, dct_candidate *b) {
    dct_candidate t = *a;
    *a = *b;
    *b = t;
}

/* A heap whose root is the last in order. */
static void sift(dct_candidate *heap, uint32_t n, uint32_t i) {
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= n) return;
        if (child + 1 < n && before(heap[child], heap[child + 1])) child++;
        if (!before(heap[i], heap[child])) return;
        swap(&heap[i], &heap[child]);
        i = child;
    }
}

static void make_heap(dct_candidate *heap, uint32_t n) {
    for (uint32_t i = n / 2; i-- > 0;) sift(heap, n, i);
}

static void sort_heap(dct_candidate *heap, uint32_t n) {
    for (uint32_t end = n; end > 1; end--) {
        swap(&heap[0], &heap[end - 1]);
        sift(heap, end - 1, 0);
    }
}

/* The first k of n in order, at the front. */
static void select_first(dct_candidate *c, uint32_t n, uint32_t k) {
    make_heap(c, k);
    for (uint32_t i = k; i < n; i++) {
        if (!before(c[i], c[0])) continue;
        swap(&c[i], &c[0]);
        sift(c, k, 0);
    }
    sort_heap(c, k);
}

/* ---- the chain ---- */

static void apply_bias(dct_candidate *c, uint32_t n, const dct_sampler_params *p) {
    for (uint32_t i = 0; i < p->n_bias; i++)
        if (p->bias[i].token < n) c[p->bias[i].token].logit += p->bias[i].bias;
    for (uint32_t i = 0; i < p->n_banned; i++)
        if (p->banned[i] < n) c[p->banned[i]].logit = -INFINITY;
}

/* Once for each distinct recent token; the counts are zero again afterwards. */
static void apply_penalties(dct_sampler *s, const dct_sampler_params *p) {
    for (uint32_t i = 0; i < p->n_recent; i++) s->counts[p->recent[i]]++;
    for (uint32_t i = 0; i < p->n_recent; i++) {
        uint32_t token = p->recent[i], count = s->counts[token];
        if (count == 0) continue;
        float *logit = &s->candidates[token].logit;
        *logit = *logit <= 0 ? *logit * p->repeat_penalty : *logit / p->repeat_penalty;
        *logit -= (float)count * p->frequency_penalty + p->presence_penalty;
        s->counts[token] = 0;
    }
}

static uint32_t first_in_order(const dct_candidate *c, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (before(c[i], c[best])) best = i;
    return c[best].id;
}

/* Equals are asked for first: a bias of +inf is one way to have no other token, and inf - inf is no number. */
static double weight(const dct_candidate *c, uint32_t i, double temperature) {
    if (c[i].logit == c[0].logit) return 1;
    double x = ((double)c[i].logit - (double)c[0].logit) / temperature;
    return x == x ? dct_exp64(x) : 0;
}

static double weight_sum(const dct_candidate *c, uint32_t n, double temperature) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += weight(c, i, temperature);
    return sum;
}

/* Candidates (sorted) that are kept: the fewest whose probability reaches top_p. */
static uint32_t keep_top_p(const dct_candidate *c, uint32_t n, float top_p) {
    double sum = weight_sum(c, n, 1), reached = 0;
    for (uint32_t i = 0; i < n; i++) {
        reached += weight(c, i, 1) / sum;
        if (reached >= (double)top_p) return i + 1;
    }
    return n;
}

/* Candidates (sorted) at least min_p as probable as the first. */
static uint32_t keep_min_p(const dct_candidate *c, uint32_t n, float min_p) {
    uint32_t kept = 1;
    while (kept < n && weight(c, kept, 1) >= (double)min_p) kept++;
    return kept;
}

static uint32_t draw(dct_sampler *s, uint32_t n, double temperature) {
    const dct_candidate *c = s->candidates;
    double left = next_uniform(s->random) * weight_sum(c, n, temperature);
    for (uint32_t i = 0; i + 1 < n; i++) {
        left -= weight(c, i, temperature);
        if (left < 0) return c[i].id;
    }
    return c[n - 1].id;
}

uint32_t dct_sampler_take(dct_sampler *s, const float *logits, const dct_sampler_params *p) {
    dct_candidate *c = s->candidates;
    uint32_t n = s->n_vocab;
    for (uint32_t i = 0; i < n; i++) c[i] = (dct_candidate){i, logits[i]};
    apply_bias(c, n, p);
    apply_penalties(s, p);
    if (!(p->temperature > 0)) return first_in_order(c, n);
    if (p->top_k > 0 && (uint32_t)p->top_k < n) {
        select_first(c, n, (uint32_t)p->top_k);
        n = (uint32_t)p->top_k;
    } else {
        make_heap(c, n);
        sort_heap(c, n);
    }
    if (p->top_p < 1) n = keep_top_p(c, n, p->top_p);
    if (p->min_p > 0) n = keep_min_p(c, n, p->min_p);
    return draw(s, n, (double)p->temperature);
}
