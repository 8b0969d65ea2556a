/* The audio encoder of examples/ against plain C in double precision, for 1, 2 and 3 workers and runs of several lengths: within
 * 2e-4 of it, the same bytes whatever the workers, in the memory that the plan says. The reference shares the weights and inputs of
 * the example, and no line of how they are used: convolutions are sums over channels and taps, attention is a full matrix.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define main example_main
#include "../../examples/audio_encoder.c"
#undef main

#include "base/os.h"
#include "support/emulated.h"

enum { MAX_FEATURES = (MAX_FRAMES + 1) / 2 };
#define TOLERANCE 2e-4

static encoder weights;
static float mel[MAX_FRAMES][BINS], sinusoids[MAX_FRAMES / 2][WIDTH];

/* ---- the reference ---- */

static double gelu(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x))); }

/* Frame t, channel c of what a convolution of `n_in` channels makes; `from` has n frames. */
static double convolve(const double *from, int n, int n_in, const float *w, float bias, int t) {
    double sum = bias;
    for (int tap = -1; tap <= 1; tap++)
        for (int c = 0; c < n_in && t + tap >= 0 && t + tap < n; c++)
            sum += (double)w[(tap + 1) * n_in + c] * from[(t + tap) * n_in + c];
    return gelu(sum);
}

static void normalise(const double *x, const norm *n, double *y) {
    double mean = 0, variance = 0;
    for (int i = 0; i < WIDTH; i++) mean += x[i] / WIDTH;
    for (int i = 0; i < WIDTH; i++) variance += (x[i] - mean) * (x[i] - mean) / WIDTH;
    for (int i = 0; i < WIDTH; i++) y[i] = (x[i] - mean) / sqrt(variance + 1e-5) * (double)n->w[i] + (double)n->b[i];
}

static void times(const double *x, const float *w, const float *bias, int rows, int cols, double *y) {
    for (int r = 0; r < rows; r++) {
        y[r] = bias != NULL ? (double)bias[r] : 0;
        for (int c = 0; c < cols; c++) y[r] += (double)w[r * cols + c] * x[c];
    }
}

static double q[MAX_FEATURES][WIDTH], k[MAX_FEATURES][WIDTH], v[MAX_FEATURES][WIDTH];

static void attend(int n, int t, double *out) {
    enum { DIM = WIDTH / HEADS };
    for (int h = 0; h < HEADS; h++) {
        double e[MAX_FEATURES], sum = 0;
        for (int p = 0; p < n; p++) {
            double s = 0;
            for (int d = h * DIM; d < (h + 1) * DIM; d++) s += q[t][d] * k[p][d];
            sum += e[p] = exp(s / sqrt(DIM));
        }
        for (int d = h * DIM; d < (h + 1) * DIM; d++) {
            out[d] = 0;
            for (int p = 0; p < n; p++) out[d] += e[p] / sum * v[p][d];
        }
    }
}

static void run_block(const block *b, int n, double x[][WIDTH]) {
    double h[FF], y[WIDTH];
    for (int t = 0; t < n; t++) {
        normalise(x[t], &b->before_attention, h);
        times(h, b->q[0], b->q_bias, WIDTH, WIDTH, q[t]);
        times(h, b->k[0], NULL, WIDTH, WIDTH, k[t]);
        times(h, b->v[0], b->v_bias, WIDTH, WIDTH, v[t]);
    }
    for (int t = 0; t < n; t++) {
        attend(n, t, h);
        times(h, b->o[0], b->o_bias, WIDTH, WIDTH, y);
        for (int i = 0; i < WIDTH; i++) x[t][i] += y[i];
        double normed[WIDTH];
        normalise(x[t], &b->before_mlp, normed);
        times(normed, b->up[0], b->up_bias, FF, WIDTH, h);
        for (int i = 0; i < FF; i++) h[i] = gelu(h[i]);
        times(h, b->down[0], b->down_bias, WIDTH, FF, y);
        for (int i = 0; i < WIDTH; i++) x[t][i] += y[i];
    }
}

static int encode(int n_frames, double out[][WIDTH]) {
    static double frames[MAX_FRAMES][BINS], first[MAX_FRAMES][WIDTH], x[MAX_FEATURES][WIDTH];
    int n = (n_frames + 1) / 2;
    for (int i = 0; i < n_frames * BINS; i++) frames[i / BINS][i % BINS] = (double)mel[i / BINS][i % BINS];
    for (int t = 0; t < n_frames; t++)
        for (int c = 0; c < WIDTH; c++) first[t][c] = convolve(frames[0], n_frames, BINS, weights.conv1[c][0], weights.conv1_bias[c], t);
    for (int t = 0; t < n; t++)
        for (int c = 0; c < WIDTH; c++)
            x[t][c] = (double)sinusoids[t][c] + convolve(first[0], n_frames, WIDTH, weights.conv2[c][0], weights.conv2_bias[c], 2 * t);
    for (int i = 0; i < LAYERS; i++) run_block(&weights.blocks[i], n, x);
    for (int t = 0; t < n; t++) normalise(x[t], &weights.last, out[t]);
    return n;
}

/* ---- the encoder ---- */

static dctms_graph *traced(void) {
    dctms_graph *g;
    dctms_error err;
    assert_int_equal(dctms_graph_new("audio encoder", MAX_FRAMES, &g, &err), DCTMS_OK);
    trace_encoder(g, &weights);
    if (dctms_graph_status(g, &err) != DCTMS_OK) fail_msg("%s", err.message);
    return g;
}

static dctms_runner *opened(uint32_t threads, dctms_plan_info *info) {
    dctms_graph *g = traced();
    dctms_plan *plan;
    dctms_runner *r = NULL;
    dctms_error err;
    char defect[32];
    if (dctms_graph_compile(g, threads, &plan, &err) != DCTMS_OK) fail_msg("%s", err.message);
    if (dctms_graph_verify(g, plan, defect, &err) != DCTMS_OK) fail_msg("%s: %s", defect, err.message);
    dctms_plan_get_info(plan, info);
    if (dctms_runner_open(g, plan, NULL, 0, &r, &err) != DCTMS_OK) fail_msg("%s", err.message);
    dctms_graph_free(g);
    dctms_plan_free(plan);
    fill_sinusoids(dctms_runner_data(r, "sinusoids"));
    return r;
}

static const float *run(dctms_runner *r, uint32_t n_frames) {
    dctms_error err;
    memcpy(dctms_runner_data(r, "mel"), mel, n_frames * sizeof mel[0]);
    if (dctms_runner_run(r, n_frames, &err) != DCTMS_OK) fail_msg("%s", err.message);
    return dctms_runner_data(r, "features");
}

/* Lengths that are odd, short, of one frame; each follows a longer one, whose rows are still there. */
static void features_are_those_of_plain_c(void **state) {
    (void)state;
    static const uint32_t lengths[] = {MAX_FRAMES, 331, 64, 2, 1};
    static double want[MAX_FEATURES][WIDTH];
    static float kept[5][MAX_FEATURES][WIDTH];
    for (uint32_t threads = 1; threads <= 3; threads++) {
        dctms_plan_info info;
        dctms_runner *r = opened(threads, &info);
        for (int i = 0; i < 5; i++) {
            const float *got = run(r, lengths[i]);
            int n = (int)(lengths[i] + 1) / 2;
            if (threads > 1) {
                assert_memory_equal(got, kept[i], (size_t)n * sizeof kept[i][0]);
                continue;
            }
            memcpy(kept[i], got, (size_t)n * sizeof kept[i][0]);
            assert_int_equal(encode((int)lengths[i], want), n);
            for (int j = 0; j < n * WIDTH; j++) {
                double off = fabs((double)got[j] - want[j / WIDTH][j % WIDTH]);
                if (!(off <= TOLERANCE)) fail_msg("%u frames: element %d is %g, plain C says %g", lengths[i], j, (double)got[j], want[j / WIDTH][j % WIDTH]);
            }
        }
        dctms_runner_free(r);
    }
}

/* What the library takes of the system, from before the graph to after the runs, is within M_max. */
static void memory_is_within_the_plan(void **state) {
    (void)state;
    if (emulated("skipped: the emulator's memory and faults are counted with the process")) skip();
#ifndef DCT_SANITIZED
    dct_mem_figures before, after;
    dctms_plan_info info;
    dct_os_mem_figures(&before);
    dctms_runner *r = opened(2, &info);
    run(r, MAX_FRAMES);
    dct_os_mem_figures(&after);
    assert_true(after.rss_anon - before.rss_anon <= info.m_max_bytes);
    assert_true(info.reserve_bytes <= info.m_max_bytes && info.optimal);
    uint64_t faults = after.min_faults;
    for (int i = 0; i < 10; i++) run(r, MAX_FRAMES - (uint32_t)i);
    dct_os_mem_figures(&after);
    assert_true(after.min_faults - faults <= 8); /* reading the figures makes some */
    dctms_runner_free(r);
#endif
}

int main(void) {
    make_encoder(&weights);
    fill_mel(mel[0], MAX_FRAMES);
    fill_sinusoids(sinusoids[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_of_plain_c),
        cmocka_unit_test(memory_is_within_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
