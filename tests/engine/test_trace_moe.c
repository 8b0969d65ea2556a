/* The decoder layer with experts of examples/ against plain C in double precision, for 1, 2 and 3 workers: within 1e-4 of it and
 * the same bytes whatever the workers; and under routings that a router is made to choose: every row the same experts, all experts
 * in turn, ties, scores that are no numbers. The memory behind the reservation is watched while they run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define main example_main
#include "../../examples/moe_layer.c"
#undef main

#define TOLERANCE 1e-4

static layer weights;
static float hidden[MAX_ROWS][WIDTH];

/* ---- the reference ---- */

static double silu(double x) { return x / (1 + exp(-x)); }

static void rms_norm(const double *x, const float *w, double *y) {
    double squares = 0;
    for (int i = 0; i < WIDTH; i++) squares += x[i] * x[i] / WIDTH;
    for (int i = 0; i < WIDTH; i++) y[i] = x[i] / sqrt(squares + 1e-6) * (double)w[i];
}

static void times(const double *x, const float *w, const float *bias, int rows, int cols, double *y) {
    for (int r = 0; r < rows; r++) {
        y[r] = bias != NULL ? (double)bias[r] : 0;
        for (int c = 0; c < cols; c++) y[r] += (double)w[r * cols + c] * x[c];
    }
}

/* Element i of a head and element i + HEAD/2 turn together. */
static void rotate(double *x, int n_heads, int t) {
    for (int h = 0; h < n_heads; h++) {
        for (int i = 0; i < HEAD / 2; i++) {
            double angle = t * pow(1e6, -2.0 * i / HEAD), *a = x + h * HEAD + i, *b = a + HEAD / 2, a0 = *a;
            *a = a0 * cos(angle) - *b * sin(angle);
            *b = a0 * sin(angle) + *b * cos(angle);
        }
    }
}

static void attention(int n, double x[][WIDTH]) {
    static double q[MAX_ROWS][WIDTH], k[MAX_ROWS][KV], v[MAX_ROWS][KV];
    double h[WIDTH], y[WIDTH];
    for (int t = 0; t < n; t++) {
        rms_norm(x[t], weights.attention_norm, h);
        times(h, weights.q[0], weights.q_bias, WIDTH, WIDTH, q[t]);
        times(h, weights.k[0], weights.k_bias, KV, WIDTH, k[t]);
        times(h, weights.v[0], weights.v_bias, KV, WIDTH, v[t]);
        rotate(q[t], HEADS, t);
        rotate(k[t], KV_HEADS, t);
    }
    for (int t = 0; t < n; t++) {
        for (int head = 0; head < HEADS; head++) {
            double e[MAX_ROWS], sum = 0;
            int from = head / (HEADS / KV_HEADS) * HEAD;
            for (int p = 0; p <= t; p++) {
                double s = 0;
                for (int d = 0; d < HEAD; d++) s += q[t][head * HEAD + d] * k[p][from + d];
                sum += e[p] = exp(s / sqrt(HEAD));
            }
            for (int d = 0; d < HEAD; d++) {
                h[head * HEAD + d] = 0;
                for (int p = 0; p <= t; p++) h[head * HEAD + d] += e[p] / sum * v[p][from + d];
            }
        }
        times(h, weights.o[0], NULL, WIDTH, WIDTH, y);
        for (int i = 0; i < WIDTH; i++) x[t][i] += y[i];
    }
}

static void gated(const double *x, const float *gate, const float *up, const float *down, int ff, double *y) {
    double g[SHARED_FF], u[SHARED_FF];
    times(x, gate, NULL, ff, WIDTH, g);
    times(x, up, NULL, ff, WIDTH, u);
    for (int i = 0; i < ff; i++) g[i] = silu(g[i]) * u[i];
    times(g, down, NULL, WIDTH, ff, y);
}

/* The experts with the largest shares, the lower number first among equals. */
static void choose(const double *share, int *chosen) {
    for (int j = 0; j < USED; j++) {
        chosen[j] = -1;
        for (int e = 0; e < EXPERTS; e++) {
            bool is_taken = false;
            for (int i = 0; i < j; i++) is_taken = is_taken || chosen[i] == e;
            if (!is_taken && (chosen[j] < 0 || share[e] > share[chosen[j]])) chosen[j] = e;
        }
    }
}

static void mlp(double *x, int *chosen) {
    double h[WIDTH], y[WIDTH], share[EXPERTS], sum = 0, out[WIDTH], open;
    rms_norm(x, weights.mlp_norm, h);
    times(h, weights.router[0], NULL, EXPERTS, WIDTH, share);
    for (int e = 0; e < EXPERTS; e++) sum += share[e] = exp(share[e]);
    choose(share, chosen);
    gated(h, weights.shared_gate[0], weights.shared_up[0], weights.shared_down[0], SHARED_FF, out);
    times(h, weights.shared_share[0], NULL, 1, WIDTH, &open);
    for (int i = 0; i < WIDTH; i++) out[i] /= 1 + exp(-open);
    for (int j = 0; j < USED; j++) {
        int e = chosen[j];
        gated(h, weights.gate[e][0], weights.up[e][0], weights.down[e][0], FF, y);
        for (int i = 0; i < WIDTH; i++) out[i] += share[e] / sum * y[i];
    }
    for (int i = 0; i < WIDTH; i++) x[i] += out[i];
}

static void reference(int n, double x[][WIDTH], int chosen[][USED]) {
    for (int t = 0; t < n; t++)
        for (int i = 0; i < WIDTH; i++) x[t][i] = (double)hidden[t][i];
    attention(n, x);
    for (int t = 0; t < n; t++) mlp(x[t], chosen[t]);
}

/* ---- the layer, in memory of ours with a guard behind ---- */

enum { GUARD = 4096 };

typedef struct bench {
    char *memory;
    size_t bytes;
    dctms_runner *runner;
} bench;

static bench opened(uint32_t threads) {
    dctms_graph *g;
    dctms_plan *plan;
    dctms_plan_info info;
    dctms_error err;
    bench b;
    char defect[32];
    assert_int_equal(dctms_graph_new("layer", MAX_ROWS, &g, &err), DCTMS_OK);
    trace_layer(g, &weights);
    if (dctms_graph_compile(g, threads, &plan, &err) != DCTMS_OK) fail_msg("%s", err.message);
    if (dctms_graph_verify(g, plan, defect, &err) != DCTMS_OK) fail_msg("%s: %s", defect, err.message);
    dctms_plan_get_info(plan, &info);
    assert_true(info.optimal);
    b.bytes = (size_t)info.reserve_bytes;
    b.memory = aligned_alloc(4096, b.bytes + GUARD);
    assert_non_null(b.memory);
    memset(b.memory, 0xA5, b.bytes + GUARD);
    if (dctms_runner_open(g, plan, b.memory, b.bytes, &b.runner, &err) != DCTMS_OK) fail_msg("%s", err.message);
    dctms_graph_free(g);
    dctms_plan_free(plan);
    return b;
}

static void close_bench(bench *b) {
    dctms_runner_free(b->runner);
    for (int i = 0; i < GUARD; i++) assert_int_equal((unsigned char)b->memory[b->bytes + (size_t)i], 0xA5);
    free(b->memory);
}

static void check_run(bench *b, uint32_t n, const char *what) {
    static double want[MAX_ROWS][WIDTH];
    int chosen[MAX_ROWS][USED];
    dctms_error err;
    reference((int)n, want, chosen);
    memcpy(dctms_runner_data(b->runner, "hidden"), hidden, n * sizeof hidden[0]);
    if (dctms_runner_run(b->runner, n, &err) != DCTMS_OK) fail_msg("%s", err.message);
    const int32_t *ids = dctms_runner_data(b->runner, "chosen");
    const float *out = dctms_runner_data(b->runner, "out");
    for (uint32_t i = 0; i < n * USED; i++) assert_int_equal(ids[i], chosen[i / USED][i % USED]);
    for (uint32_t i = 0; i < n * WIDTH; i++) {
        double off = fabs((double)out[i] - want[i / WIDTH][i % WIDTH]);
        if (!(off <= TOLERANCE)) fail_msg("%s, %u rows: element %u is %g, plain C says %g", what, n, i, (double)out[i], want[i / WIDTH][i % WIDTH]);
    }
}

static void rows_are_those_of_plain_c(void **state) {
    (void)state;
    static const uint32_t lengths[] = {MAX_ROWS, 17, 3, 1};
    static float kept[4][MAX_ROWS * WIDTH];
    for (uint32_t threads = 1; threads <= 3; threads++) {
        bench b = opened(threads);
        for (int i = 0; i < 4; i++) {
            check_run(&b, lengths[i], "as made");
            const float *out = dctms_runner_data(b.runner, "out");
            if (threads == 1) memcpy(kept[i], out, lengths[i] * sizeof hidden[0]);
            else assert_memory_equal(out, kept[i], lengths[i] * sizeof hidden[0]);
        }
        close_bench(&b);
    }
}

/* A router that gives expert (a, then b) the largest scores, whatever the row. */
static void prefer(int a, int b) {
    memset(weights.router, 0, sizeof weights.router);
    for (int i = 0; i < WIDTH; i++) {
        float along = weights.mlp_norm[i] * 0.01f; 
        weights.router[a][i] = 2 * along;
        weights.router[b][i] = along;
    }
}

/* Every pair of experts is chosen by all rows at once: the bytes of one expert then hold what else is spread over all. */
static void all_rows_may_choose_the_same_experts(void **state) {
    (void)state;
    static layer saved;
    static float saved_hidden[MAX_ROWS][WIDTH];
    saved = weights;
    memcpy(saved_hidden, hidden, sizeof hidden);
    for (int i = 0; i < MAX_ROWS * WIDTH; i++) hidden[i / WIDTH][i % WIDTH] = 3 + fabsf(hidden[i / WIDTH][i % WIDTH]); /* positive along it */
    memset(weights.o, 0, sizeof weights.o);
    for (int a = 0; a < EXPERTS; a++) {
        prefer(a, (a + 3) % EXPERTS);
        bench b = opened(2);
        check_run(&b, MAX_ROWS, "one pair for all");
        const int32_t *ids = dctms_runner_data(b.runner, "chosen");
        for (int t = 0; t < MAX_ROWS; t++) assert_true(ids[USED * t] == a && ids[USED * t + 1] == (a + 3) % EXPERTS);
        close_bench(&b);
    }
    memset(weights.router, 0, sizeof weights.router); /* all scores are equal: the lower numbers */
    bench b = opened(3);
    check_run(&b, MAX_ROWS, "ties");
    close_bench(&b);
    weights = saved;
    memcpy(hidden, saved_hidden, sizeof hidden);
}

/* Scores that are no numbers choose experts that exist all the same. */
static void no_number_chooses_no_expert_that_is_not_there(void **state) {
    (void)state;
    bench b = opened(2);
    float *in = dctms_runner_data(b.runner, "hidden");
    dctms_error err;
    for (int i = 0; i < MAX_ROWS * WIDTH; i++) in[i] = i / WIDTH % 3 == 0 ? NAN : i / WIDTH % 3 == 1 ? INFINITY : hidden[i / WIDTH][i % WIDTH];
    assert_int_equal(dctms_runner_run(b.runner, MAX_ROWS, &err), DCTMS_OK);
    const int32_t *ids = dctms_runner_data(b.runner, "chosen");
    for (int t = 0; t < MAX_ROWS; t++) {
        assert_in_range(ids[USED * t], 0, EXPERTS - 1);
        assert_in_range(ids[USED * t + 1], 0, EXPERTS - 1);
        assert_int_not_equal(ids[USED * t], ids[USED * t + 1]);
    }
    close_bench(&b);
}

int main(void) {
    make_layer(&weights);
    fill_hidden(hidden[0], MAX_ROWS);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_plain_c),
        cmocka_unit_test(all_rows_may_choose_the_same_experts),
        cmocka_unit_test(no_number_chooses_no_expert_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
