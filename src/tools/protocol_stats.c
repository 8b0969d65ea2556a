/* tools/protocol_stats: mean, spread, and how sure they are.
 *
 * The percentile bootstrap (Efron 1979): B replicates, each with every cell's values drawn anew, and the interval between
 * their 2.5th and 97.5th percentile. A drawn sample of n values has, in the mean, (n - 1) / n of the variance of its source,
 * which would shift small cells' intervals down; its sigma is raised by sqrt(n / (n - 1)).
 */
#include <math.h>

#include "base/random.h"
#include "tools/protocol.h"

enum { REPLICATES = 2000, LOW_RANK = REPLICATES / 40, HIGH_RANK = REPLICATES - 1 - LOW_RANK };

double dct_stats_mean(const double *x, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i];
    return n > 0 ? sum / n : 0;
}

double dct_stats_sigma(const double *x, uint32_t n) {
    double mean = dct_stats_mean(x, n), sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(sum / (n - 1)) : 0;
}

uint32_t dct_stats_spread_cells(const dct_sample *cells, uint32_t n) {
    uint32_t n_spread = 0;
    for (uint32_t i = 0; i < n; i++) n_spread += cells[i].n > 1;
    return n_spread;
}

/* 0 for a cell of one value. */
static double cv_of(const dct_sample *cell) {
    double mean = dct_stats_mean(cell->x, cell->n);
    return mean > 0 ? dct_stats_sigma(cell->x, cell->n) / mean : 0;
}

double dct_stats_mean_cv(const dct_sample *cells, uint32_t n) {
    double sum = 0;
    uint32_t n_spread = dct_stats_spread_cells(cells, n);
    for (uint32_t i = 0; i < n; i++) sum += cv_of(&cells[i]);
    return n_spread > 0 ? sum / n_spread : 0;
}

/* ---- drawing ---- */

/* 0 to n - 1; the bias of n / 2^32 is nothing here. */
static uint32_t draw_below(uint64_t *dice, uint32_t n) { return (uint32_t)(((dct_random_next(dice) >> 32) * n) >> 32); }

/* Mean and sigma of a cell drawn anew, in one pass around the cell's first value. */
static void draw_cell(const dct_sample *cell, uint64_t *dice, double *mean, double *sigma) {
    double origin = cell->x[0], sum = 0, squares = 0;
    uint32_t n = cell->n;
    for (uint32_t i = 0; i < n; i++) {
        double v = cell->x[draw_below(dice, n)] - origin;
        sum += v;
        squares += v * v;
    }
    double excess = squares - sum * sum / n;
    *mean = origin + sum / n;
    *sigma = n > 1 && excess > 0 ? sqrt(excess / (n - 1) * n / (n - 1)) : 0;
}

typedef struct drawn {
    double mean, cv; /* over the cells; cv over those that have a spread */
} drawn;

static drawn draw_cells(const dct_sample *cells, uint32_t n, uint64_t *dice) {
    drawn sum = {0, 0};
    uint32_t n_spread = dct_stats_spread_cells(cells, n);
    for (uint32_t i = 0; i < n; i++) {
        double mean, sigma;
        draw_cell(&cells[i], dice, &mean, &sigma);
        sum.mean += mean / n;
        sum.cv += mean > 0 && cells[i].n > 1 ? sigma / mean / n_spread : 0;
    }
    return sum;
}

/* ---- order ---- */

/* Lets x[root] sink in the heap x[0..n). */
static void sift(double *x, uint32_t root, uint32_t n) {
    double value = x[root];
    for (uint32_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
        if (child + 1 < n && x[child + 1] > x[child]) child++;
        if (x[child] <= value) break;
        x[root] = x[child];
        root = child;
    }
    x[root] = value;
}

void dct_stats_sort(double *x, uint32_t n) {
    for (uint32_t i = n / 2; i-- > 0;) sift(x, i, n);
    for (uint32_t end = n; end-- > 1;) {
        double largest = x[0];
        x[0] = x[end];
        x[end] = largest;
        sift(x, 0, end);
    }
}

static dct_spread interval_of(double *replicates) {
    dct_stats_sort(replicates, REPLICATES);
    return (dct_spread){replicates[LOW_RANK], replicates[HIGH_RANK]};
}

void dct_stats_bootstrap_mean(const dct_sample *cells, uint32_t n, uint64_t seed, dct_spread *out) {
    double means[REPLICATES];
    for (uint32_t i = 0; i < REPLICATES; i++) means[i] = draw_cells(cells, n, &seed).mean;
    *out = interval_of(means);
}

void dct_stats_bootstrap_cv(const dct_sample *cells, uint32_t n, uint64_t seed, dct_spread *out) {
    double cvs[REPLICATES];
    for (uint32_t i = 0; i < REPLICATES; i++) cvs[i] = draw_cells(cells, n, &seed).cv;
    *out = interval_of(cvs);
}

void dct_stats_bootstrap_cv_ratio(const dct_sample *a, uint32_t n_a, const dct_sample *b, uint32_t n_b, uint64_t seed,
                                  dct_spread *out) {
    double ratios[REPLICATES];
    for (uint32_t i = 0; i < REPLICATES; i++) {
        double ours = draw_cells(a, n_a, &seed).cv, theirs = draw_cells(b, n_b, &seed).cv;
        ratios[i] = ours == 0 ? 0 : ours / theirs; /* infinite where theirs never differed */
    }
    *out = interval_of(ratios);
}
