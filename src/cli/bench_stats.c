/* What times say: means of repetitions; percentiles and spread of single tokens. */
#include <math.h>

#include "cli/bench.h"

static double mean_of(const double *x, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i];
    return sum / n;
}

static double stddev_of(const double *x, uint32_t n, double mean) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(sum / (n - 1)) : 0;
}

/* Lets x[root] sink in the heap x[0..n). */
static void sift(float *x, uint32_t root, uint32_t n) {
    float value = x[root];
    for (uint32_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
        if (child + 1 < n && x[child + 1] > x[child]) child++;
        if (x[child] <= value) break;
        x[root] = x[child];
        root = child;
    }
    x[root] = value;
}

/* A heapsort of our own: the library's asks for memory, and the process is sealed. */
static void sort(float *x, uint32_t n) {
    for (uint32_t i = n / 2; i-- > 0;) sift(x, i, n);
    for (uint32_t end = n; end-- > 1;) {
        float largest = x[0];
        x[0] = x[end];
        x[end] = largest;
        sift(x, 0, end);
    }
}

/* The smallest time that at least `percent` of all do not exceed. */
static double percentile(const float *sorted, uint32_t n, uint32_t percent) {
    uint64_t rank = ((uint64_t)n * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

static double variation_of(const float *x, uint32_t n) {
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i];
    double mean = sum / n;
    for (uint32_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    return mean > 0 ? sqrt(squares / n) / mean : 0;
}

void bench_summarise(bench_times *t, uint32_t tokens, float *step_ms, uint32_t n_steps) {
    for (uint32_t i = 0; i < t->n; i++) t->ts[i] = tokens * 1e9 / t->ns[i];
    t->mean_ns = mean_of(t->ns, t->n);
    t->stddev_ns = stddev_of(t->ns, t->n, t->mean_ns);
    t->mean_ts = mean_of(t->ts, t->n);
    t->stddev_ts = stddev_of(t->ts, t->n, t->mean_ts);
    t->p50_ms = t->p95_ms = t->p99_ms = t->max_ms = t->cv = (double)NAN;
    if (n_steps == 0) return;
    t->cv = variation_of(step_ms, n_steps);
    sort(step_ms, n_steps);
    t->p50_ms = percentile(step_ms, n_steps, 50);
    t->p95_ms = percentile(step_ms, n_steps, 95);
    t->p99_ms = percentile(step_ms, n_steps, 99);
    t->max_ms = step_ms[n_steps - 1];
}
