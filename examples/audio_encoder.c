/* An audio encoder of Whisper's shape, traced from C, planned, verified, drawn and run:
 *
 *     mel frames ─► 3-wide convolution, GELU ─► 3-wide convolution of stride 2, GELU ─► + sinusoids ─► LAYERS x block ─► norm
 *
 * A convolution over frames is a window of frames side by side and a product, so the library needs none. Weights are made up here;
 * a real program would give dctms_graph_matrix the bytes of its file, or name a tensor of one with dctms_graph_tensor.
 *
 *     audio_encoder [THREADS [PICTURE.svg]]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dctms.h"

enum { BINS = 80, WIDTH = 128, HEADS = 4, LAYERS = 2, FF = 4 * WIDTH, MAX_FRAMES = 600 };

/* ---- the weights ---- */

typedef struct norm { float w[WIDTH], b[WIDTH]; } norm;

typedef struct block {
    norm before_attention, before_mlp;
    float q[WIDTH][WIDTH], q_bias[WIDTH], k[WIDTH][WIDTH], v[WIDTH][WIDTH], v_bias[WIDTH], o[WIDTH][WIDTH], o_bias[WIDTH];
    float up[FF][WIDTH], up_bias[FF], down[WIDTH][FF], down_bias[WIDTH];
} block;

typedef struct encoder {
    float conv1[WIDTH][3][BINS], conv1_bias[WIDTH];  /* output channel, place in the window, input channel */
    float conv2[WIDTH][3][WIDTH], conv2_bias[WIDTH];
    block blocks[LAYERS];
    norm last;
} encoder;

/* Numbers in -1..1, the same everywhere. */
static float next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

static void fill(float *to, size_t bytes, float middle, float spread, uint64_t *state) {
    for (size_t i = 0; i < bytes / sizeof *to; i++) to[i] = middle + spread * next_random(state);
}

static void make_norm(norm *n, uint64_t *state) {
    fill(n->w, sizeof n->w, 1, 0.2f, state);
    fill(n->b, sizeof n->b, 0, 0.2f, state);
}

static void make_encoder(encoder *e) {
    uint64_t state = 1;
    fill((float *)e, sizeof *e, 0, 0.1f, &state); /* an encoder is floats and nothing else */
    for (int i = 0; i < LAYERS; i++) {
        make_norm(&e->blocks[i].before_attention, &state);
        make_norm(&e->blocks[i].before_mlp, &state);
    }
    make_norm(&e->last, &state);
}

/* ---- the graph ---- */

/* A name in a block; every call that takes a name copies it. */
typedef struct name { char text[48]; } name;

static name in_block(int i, const char *what, const char *more) {
    name n;
    snprintf(n.text, sizeof n.text, "blk.%d.%s%s", i, what, more);
    return n;
}

/* x W^T + bias; a bias of NULL is none. */
static dctms_value linear(dctms_graph *g, int i, const char *what, dctms_value x, const void *w, uint32_t rows, uint32_t cols,
                          const float *bias) {
    name of = in_block(i, what, ""), of_bias = in_block(i, what, ".bias");
    dctms_value weight = dctms_graph_matrix(g, of.text, "f32", rows, cols, w);
    dctms_value b = bias != NULL ? dctms_graph_vector(g, of_bias.text, rows, bias) : DCTMS_NO_VALUE;
    return dctms_graph_linear(g, x, weight, b, of.text);
}

static dctms_value layer_norm(dctms_graph *g, int i, const char *what, dctms_value x, const norm *n) {
    name of = in_block(i, what, ""), of_bias = in_block(i, what, ".bias");
    dctms_value w = dctms_graph_vector(g, of.text, WIDTH, n->w);
    dctms_value b = dctms_graph_vector(g, of_bias.text, WIDTH, n->b);
    return dctms_graph_layer_norm(g, x, w, b, 1e-5f, of.text);
}

static dctms_value trace_block(dctms_graph *g, int i, dctms_value x, const block *b) {
    dctms_value h = layer_norm(g, i, "norm1", x, &b->before_attention);
    dctms_value q = linear(g, i, "q", h, b->q, WIDTH, WIDTH, b->q_bias);
    dctms_value k = linear(g, i, "k", h, b->k, WIDTH, WIDTH, NULL);
    dctms_value v = linear(g, i, "v", h, b->v, WIDTH, WIDTH, b->v_bias);
    h = dctms_graph_attention(g, q, k, v, HEADS, HEADS, 1 / sqrtf(WIDTH / HEADS), false, in_block(i, "attention", "").text);
    h = linear(g, i, "o", h, b->o, WIDTH, WIDTH, b->o_bias);
    x = dctms_graph_add(g, x, h, in_block(i, "residual1", "").text);

    h = layer_norm(g, i, "norm2", x, &b->before_mlp);
    h = linear(g, i, "up", h, b->up, FF, WIDTH, b->up_bias);
    h = dctms_graph_act(g, h, DCTMS_GELU, in_block(i, "gelu", "").text);
    h = linear(g, i, "down", h, b->down, WIDTH, FF, b->down_bias);
    return dctms_graph_add(g, x, h, in_block(i, "residual2", "").text);
}

/* A convolution of three frames: the window, the product, and the GELU behind it. */
static dctms_value convolution(dctms_graph *g, const char *of, const char *of_bias, dctms_value x, uint32_t channels, const void *w,
                               const float *bias, uint32_t stride) {
    dctms_value weight = dctms_graph_matrix(g, of, "f32", WIDTH, 3 * channels, w);
    dctms_value b = dctms_graph_vector(g, of_bias, WIDTH, bias);
    x = dctms_graph_window(g, x, 3, stride, 1, of);
    x = dctms_graph_linear(g, x, weight, b, of);
    return dctms_graph_act(g, x, DCTMS_GELU, of);
}

/* A run has as many rows as there are mel frames; behind the second convolution there is one for every two. */
static void trace_encoder(dctms_graph *g, const encoder *e) {
    dctms_value mel = dctms_graph_input(g, "mel", BINS, 1), sinusoids = dctms_graph_input(g, "sinusoids", WIDTH, 2);
    dctms_value x = convolution(g, "conv1", "conv1.bias", mel, BINS, e->conv1, e->conv1_bias, 1);
    x = convolution(g, "conv2", "conv2.bias", x, WIDTH, e->conv2, e->conv2_bias, 2);
    x = dctms_graph_add(g, x, sinusoids, "placed");
    for (int i = 0; i < LAYERS; i++) x = trace_block(g, i, x, &e->blocks[i]);
    x = layer_norm(g, LAYERS, "norm", x, &e->last);
    dctms_graph_output(g, x, "features");
}

/* ---- inputs ---- */

/* An input keeps what was written to it: these are written once. */
static void fill_sinusoids(float *to) {
    for (int t = 0; t < MAX_FRAMES / 2; t++) {
        for (int i = 0; i < WIDTH / 2; i++) {
            double angle = t * exp(-log(10000.0) / (WIDTH / 2 - 1) * i);
            to[t * WIDTH + i] = (float)sin(angle);
            to[t * WIDTH + WIDTH / 2 + i] = (float)cos(angle);
        }
    }
}

/* A tone that rises. */
static void fill_mel(float *to, uint32_t n_frames) {
    for (uint32_t t = 0; t < n_frames; t++) {
        for (int bin = 0; bin < BINS; bin++) {
            double away = bin - 10 - 50.0 * t / MAX_FRAMES;
            to[t * BINS + bin] = (float)(2 * exp(-away * away / 20) - 1);
        }
    }
}

/* ---- plan it, draw it, run it ---- */

static void must(dctms_status status, const dctms_error *err) {
    if (status == DCTMS_OK) return;
    fprintf(stderr, "audio_encoder: %s\n", err->message);
    exit(status);
}

static void write_to(void *file, const char *text, size_t n) { fwrite(text, 1, n, file); }

static void draw(const dctms_plan *plan, const char *path) {
    dctms_error err;
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        exit(5);
    }
    must(dctms_plan_print(plan, DCTMS_PLAN_SVG_GRAPH, write_to, file, &err), &err);
    fclose(file);
}

int main(int argc, char **argv) {
    static encoder weights;
    dctms_graph *graph;
    dctms_plan *plan;
    dctms_runner *runner;
    dctms_plan_info info;
    dctms_error err;
    make_encoder(&weights);

    must(dctms_graph_new("audio encoder", MAX_FRAMES, &graph, &err), &err);
    trace_encoder(graph, &weights); /* a mistake in it is told by the next call */
    must(dctms_graph_compile(graph, argc > 1 ? (uint32_t)atoi(argv[1]) : 0, &plan, &err), &err);
    must(dctms_graph_verify(graph, plan, NULL, &err), &err);
    if (argc > 2) draw(plan, argv[2]);
    dctms_plan_get_info(plan, &info);
    printf("M_max %.2f MiB: weights %.2f, intermediates %.2f%s\n", (double)info.m_max_bytes / 1048576,
           (double)info.weights_bytes / 1048576, (double)info.intermediate_bytes / 1048576,
           info.optimal ? ", the least that any packing needs" : "");

    must(dctms_runner_open(graph, plan, NULL, 0, &runner, &err), &err); /* the last call that obtains memory */
    dctms_graph_free(graph);
    dctms_plan_free(plan);
    fill_sinusoids(dctms_runner_data(runner, "sinusoids"));
    const float *features = dctms_runner_data(runner, "features");
    for (uint32_t n = MAX_FRAMES / 3; n <= MAX_FRAMES; n += MAX_FRAMES / 3) {
        fill_mel(dctms_runner_data(runner, "mel"), n);
        must(dctms_runner_run(runner, n, &err), &err);
        printf("%u frames: %u features of %d, the first %.4f %.4f %.4f\n", n, (n + 1) / 2, WIDTH, (double)features[0],
               (double)features[1], (double)features[2]);
    }
    dctms_runner_free(runner);
    return 0;
}
