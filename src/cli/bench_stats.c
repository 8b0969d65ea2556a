/* What times say: means and median of repetitions; percentiles and spread of single tokens. */
#include <math.h>
#include <string.h>

#include "cli/bench.h"

/* The smallest time that at least `percent` of all do not exceed. */
static double percentile(const double *sorted, uint32_t n, uint32_t percent) {
    uint64_t rank = ((uint64_t)n * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

void bench_summarise(bench_times *t, uint32_t tokens, double *step_ms, uint32_t n_steps) {
    for (uint32_t i = 0; i < t->n; i++) t->ts[i] = tokens * 1e9 / t->ns[i];
    t->mean_ns = dct_stats_mean(t->ns, t->n);
    t->stddev_ns = dct_stats_sigma(t->ns, t->n);
    t->mean_ts = dct_stats_mean(t->ts, t->n);
    t->stddev_ts = dct_stats_sigma(t->ts, t->n);
    double sorted[BENCH_MAX_REPETITIONS];
    memcpy(sorted, t->ns, t->n * sizeof *sorted);
    dct_stats_sort(sorted, t->n);
    t->median_ns = percentile(sorted, t->n, 50);
    t->p50_ms = t->p95_ms = t->p99_ms = t->max_ms = t->cv = (double)NAN;
    if (n_steps == 0) return;
    t->cv = dct_stats_mean_cv(&(dct_sample){step_ms, n_steps}, 1);
    dct_stats_sort(step_ms, n_steps);
    t->p50_ms = percentile(step_ms, n_steps, 50);
    t->p95_ms = percentile(step_ms, n_steps, 95);
    t->p99_ms = percentile(step_ms, n_steps, 99);
    t->max_ms = step_ms[n_steps - 1];
}
