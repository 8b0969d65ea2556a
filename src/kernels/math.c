/* kernels/math: exp, log, pow, sine and cosine in f64, and rotary tables, with the same bits on every machine.
 *
 * Only + - * / fma and integer operations, all of which IEEE 754 fixes. Arguments are reduced by fma against a constant in
 * two parts, then a Taylor polynomial is long enough that its remainder is below half an ulp. Errors are about 1e-16 of the
 * result; pow carries its logarithm in two doubles, so that large exponents do not magnify its error.
 */
#include "kernels/math.h"

#include "kernels/kernel.h"

static const double ROUND = 0x1.8p+52; /* adding it rounds to the nearest integer, ties to even */
static const double LN2_HI = 0x1.62e42fefa39efp-1, LN2_LO = 0x1.abc9e3b39803fp-56;
static const double LN2_SHORT = 0x1.62e42fefap-1, LN2_REST = 0x1.cf79abc9e3b3ap-40; /* SHORT times an exponent is exact */
static const double PIO2_HI = 0x1.921fb54442d18p+0, PIO2_LO = 0x1.1a62633145c07p-54;

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* c[0] + x c[1] + ... + x^(n-1) c[n-1] */
static double horner(double x, const double *c, int n) {
    double sum = c[n - 1];
    for (int i = n - 2; i >= 0; i--) sum = fma(sum, x, c[i]);
    return sum;
}

/* Nearest integer, as a double and, in *n, as an integer (|x| < 2^31). */
static double round_to(double x, int64_t *n) {
    double shifted = x + ROUND;
    *n = (int64_t)(bits_of(shifted) - bits_of(ROUND));
    return shifted - ROUND;
}

/* x * 2^n for -1100 < n < 1100: two normal factors, of which the last alone can round. */
static double scale2(double x, int64_t n) {
    int64_t half = n / 2;
    return x * of_bits((uint64_t)(half + 1023) << 52) * of_bits((uint64_t)(n - half + 1023) << 52);
}

/* ---- exp ---- */

/* exp(x + tail), |tail| tiny. */
static double exp_sum(double x, double tail) {
    static const double c[] = {1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,        1.0 / 5040,
                               1.0 / 40320,  1.0 / 362880,  1.0 / 3628800,  1.0 / 39916800,  1.0 / 479001600,  1.0 / 6227020800};
    if (x != x) return x;
    if (x > 710) return INFINITY;
    if (x < -746) return 0;
    int64_t n;
    double fn = round_to(x * 0x1.71547652b82fep+0, &n);
    double r = fma(fn, -LN2_HI, x);
    double low = fma(fn, -LN2_LO, tail);
    double sum = r + low;
    low = (r - sum) + low;
    double p = fma(sum * sum, horner(sum, c, sizeof c / sizeof *c), low);
    return scale2(1 + (sum + p), n);
}

double dct_exp64(double x) { return exp_sum(x, 0); }

/* ---- log ---- */

typedef struct sum2 {
    double hi, lo;
} sum2;

/* log of a positive finite number as hi + lo: x = 2^e m, m in [sqrt 1/2, sqrt 2); log m = 2 atanh(s), s = (m-1)/(m+1). */
static sum2 log_sum(double x) {
    static const double c[] = {1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21,
                               1.0 / 23};
    int64_t e = 0;
    if (x < 0x1p-1022) { /* subnormal */
        x *= 0x1p54;
        e = -54;
    }
    uint64_t bits = bits_of(x), sqrt_half = 0x3fe6a09e667f3bcdu;
    int64_t shift = (int64_t)(bits - sqrt_half) >> 52;
    double m = of_bits(bits - ((uint64_t)shift << 52));
    e += shift;
    double f = m - 1, g = 2 + f, g_low = f - (g - 2);
    double s = f / g, s_low = (fma(-s, g, f) - s * g_low) / g;
    double z = s * s, small = 2 * fma(s * z, horner(z, c, sizeof c / sizeof *c), s_low);
    double exact = (double)e * LN2_SHORT, rest = fma((double)e, LN2_REST, small);
    double a = exact + 2 * s;
    rest += (exact - a) + 2 * s; /* what a lost: exact is 0 or greater than 2s */
    sum2 out = {.hi = a + rest};
    out.lo = (a - out.hi) + rest;
    return out;
}

double dct_log64(double x) {
    if (x == 0) return -INFINITY;
    if (!(x > 0)) return NAN;
    if (x == INFINITY) return x;
    return log_sum(x).hi;
}

/* ---- pow, of a positive finite base ---- */

double dct_pow64(double base, double exponent) {
    if (base == 0) return exponent > 0 ? 0 : exponent < 0 ? INFINITY : 1;
    if (!(base > 0) || base == INFINITY) return NAN;
    sum2 l = log_sum(base);
    double product = exponent * l.hi;
    if (!(fabs(product) < 800)) return exp_sum(product, 0);
    return exp_sum(product, fma(exponent, l.hi, -product) + exponent * l.lo);
}

/* ---- sine and cosine ---- */

void dct_sincos64(double x, double *sine, double *cosine) {
    static const double sin_c[] = {-1.0 / 6,       1.0 / 120,         -1.0 / 5040,          1.0 / 362880,
                                   -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
    static const double cos_c[] = {1.0 / 24,         -1.0 / 720,          1.0 / 40320,         -1.0 / 3628800,
                                   1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
    int64_t n;
    double fn = round_to(x * 0x1.45f306dc9c883p-1, &n);
    double exact = fma(fn, -PIO2_HI, x);
    double r = fma(fn, -PIO2_LO, exact);
    double tail = fma(fn, -PIO2_LO, exact - r); /* what r lost: x = n pi/2 + r + tail */
    double z = r * r;
    double s = r + fma(r * z, horner(z, sin_c, sizeof sin_c / sizeof *sin_c), tail);
    double half = z / 2, c = 1 - half;
    c = c + (((1 - c) - half) + fma(z * z, horner(z, cos_c, sizeof cos_c / sizeof *cos_c), -(r * tail)));
    bool swap = (n & 1) != 0;
    double a = swap ? c : s, b = swap ? s : c;
    *sine = (n & 2) != 0 ? -a : a;
    *cosine = ((n + 1) & 2) != 0 ? -b : b;
}

void dct_rope_fill(float *table, uint32_t n_ctx, uint32_t n_rot, const double *freq, double mscale) {
    for (uint32_t p = 0; p < n_ctx; p++) {
        for (uint32_t i = 0; i < n_rot / 2; i++) {
            double sine, cosine;
            dct_sincos64((double)p * freq[i], &sine, &cosine);
            float *pair = table + (uint64_t)p * n_rot + 2 * i;
            pair[0] = (float)(cosine * mscale);
            pair[1] = (float)(sine * mscale);
        }
    }
}
