/* plan/plan_svg: the arena of a phase as a picture.
 *
 *      title, and M_max as a bar of its regions
 *      bytes ▲  ─ ─ ─ ─ ─ ─ ─ ─ ─ load      a rectangle a value: from the op that writes it first to the last that touches it,
 *            │  ┌────┐   ┌──┐               over the bytes that it occupies; results in place go on in the same rectangle
 *            │  └────┘───┴──┘
 *            └──┴──┴──┴──┴──► steps         a tick where a step begins; a step is as wide as its number of ops
 *      workers  ▬▬▬▬ ▬▬ ▬▬▬▬▬▬          over the same axis: a rectangle a step, over the workers that it runs on; a dot where
 *      legend                           it waits, with a line from the end of a step that is not the one before it
 *
 * Of a family, below the bar stands what its members have of it in turns; the picture of the largest follows, then those of the
 * others.
 *
 * Every number along the axis, in labels and in titles counts steps; ops only make widths.
 */
#include <inttypes.h>
#include <math.h>

#include "base/size.h"
#include "plan/plan_draw.h"

enum {
    WIDTH = 1280, LEFT = 96, RIGHT = 24, PLOT_W = WIDTH - LEFT - RIGHT, /* from top to bottom: */
    BAR_TOP = 54, BAR_H = 16, BAR_TEXT = 18, TOP = BAR_TOP + BAR_H + BAR_TEXT + 18, PLOT_H = 476, /* the bar, the arena */
    LANES_TOP = TOP + PLOT_H + 54, LANES_H = 88, LEGEND_TOP = LANES_TOP + LANES_H + 18, LEGEND_LINE = 22,
    HEIGHT = LEGEND_TOP + 2 * LEGEND_LINE + 8, MEMBER_LINE = 20 /* of a family, below the bar */
};

static const char *const COLORS[DCT_PAINT_COUNT] = {"#7aa6d8", "#7cc274", "#f2b15a", "#c79abb", "#b4b6bd"};

typedef struct canvas {
    dct_text t;
    const dct_phase *phase; /* NULL: nothing to draw */
    dct_plan_lives lives;
    double op_px;   /* width of an op */
    uint64_t begin; /* of the phase's part of the arena, and of the scale */
    uint64_t bytes; /* of the scale */
    uint32_t n_workers;
    double lane_px; /* height of a worker's lane */
} canvas;

static double x_of(const canvas *c, uint32_t op) { return LEFT + op * c->op_px; }
static double y_of(const canvas *c, uint64_t bytes) { return TOP + PLOT_H - (double)bytes / (double)c->bytes * PLOT_H; }

static void draw_values(const canvas *c) {
    const dct_graph *g = &c->phase->graph;
    for (dct_value_id v = 0; v < g->n_values; v++) {
        const dct_value *value = &g->values[v];
        const dct_op_id first = c->lives.first[v], last = c->lives.last[v];
        bool in_arena = value->kind == DCT_KIND_INTERMEDIATE && c->phase->places[v].region == DCT_REGION_ARENA;
        if (!in_arena || value->alias_of != DCT_NONE || first == DCT_NONE) continue;
        uint64_t offset = c->phase->places[v].offset;
        double top = y_of(c, offset - c->begin + value->bytes), height = y_of(c, offset - c->begin) - top;
        dct_text_put(
            &c->t,
            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"#ffffff\" "
            "stroke-width=\"0.4\"><title>",
            x_of(c, first), top, x_of(c, last + 1) - x_of(c, first), height, COLORS[dct_paint_of(g, v)]);
        dct_put_escaped(&c->t, value->name);
        dct_text_put(&c->t, ": %" PRIu64 " bytes at %" PRIu64 ", steps %u to %u</title></rect>\n", value->bytes, offset,
                     dct_step_of(c->phase, first), dct_step_of(c->phase, last));
    }
}

/* A tick distance of 1, 2 or 5 times a power of ten that gives at most `most` ticks. */
static double tick_distance(double range, int most) {
    double power = pow(10, floor(log10(range / most)));
    static const double factors[] = {1, 2, 5, 10};
    for (size_t i = 0; i < 4; i++) {
        if (range / (power * factors[i]) <= most) return power * factors[i];
    }
    return power * 10;
}

static void draw_byte_axis(const canvas *c) {
    bool mib = c->bytes >= 4 * 1048576;
    double unit = mib ? 1048576 : 1024, range = (double)c->bytes / unit, step = tick_distance(range, 8);
    for (int i = 0; i * step <= range; i++) {
        double y = TOP + PLOT_H - i * step / range * PLOT_H;
        dct_text_put(
            &c->t,
            "<line x1=\"%d\" y1=\"%.2f\" x2=\"%d\" y2=\"%.2f\" stroke=\"#e4e4e4\"/>"
            "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\">%g</text>\n",
            LEFT, y, WIDTH - RIGHT, y, LEFT - 8, y + 4, i * step);
    }
    dct_text_put(&c->t, "<text transform=\"translate(24,%d) rotate(-90)\" text-anchor=\"middle\">arena offset%s [%s]</text>\n",
                 TOP + PLOT_H / 2, c->begin != 0 ? " in the phase's part" : "", mib ? "MiB" : "KiB");
}

static void draw_step_axis(const canvas *c) {
    const dct_phase *p = c->phase;
    uint32_t every = (uint32_t)tick_distance(p->n_steps, 20), base = TOP + PLOT_H;
    if (every == 0) every = 1;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        double x = x_of(c, p->steps[s].ops[0]);
        bool numbered = s % every == 0;
        dct_text_put(&c->t, "<line x1=\"%.2f\" y1=\"%u\" x2=\"%.2f\" y2=\"%u\" stroke=\"#444444\" stroke-width=\"%s\"/>\n", x,
                     base, x, base + (numbered ? 7 : 3), numbered ? "1" : "0.5");
        if (numbered) dct_text_put(&c->t, "<text x=\"%.2f\" y=\"%u\" text-anchor=\"middle\">%u</text>\n", x, base + 20, s);
    }
    dct_text_put(&c->t, "<text x=\"%d\" y=\"%u\" text-anchor=\"middle\">step (each as wide as its number of ops)</text>\n",
                 LEFT + PLOT_W / 2, base + 42);
}

static void draw_load(const canvas *c) {
    const dct_certificate *cert = &c->phase->cert;
    double y = y_of(c, cert->load_bytes);
    dct_text_put(
        &c->t,
        "<line x1=\"%d\" y1=\"%.2f\" x2=\"%d\" y2=\"%.2f\" stroke=\"#d62728\" stroke-width=\"1.5\" stroke-dasharray=\"7 4\"/>\n",
        LEFT, y, WIDTH - RIGHT, y);
    dct_text_put(&c->t,
                 "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\" fill=\"#d62728\">load %" PRIu64
                 " bytes, reached in step %u</text>\n",
                 WIDTH - RIGHT, y - 6, cert->load_bytes, dct_step_of(c->phase, cert->op));
}

/* ---- lanes ---- */

typedef enum lane_kind { LANE_PRODUCT, LANE_ATTENTION, LANE_ROWS, LANE_KIND_COUNT } lane_kind;

static const struct {
    dct_paint paint;
    const char *label;
} LANES[LANE_KIND_COUNT] = {
    {DCT_PAINT_ACTIVATION, "step: a product"},
    {DCT_PAINT_PARTIALS, "step: attention"},
    {DCT_PAINT_SCRATCH, "step: row by row"},
};

/* By the op that is cut over the workers. */
static lane_kind lane_kind_of(const dct_phase *p, const dct_step *step) {
    switch (p->graph.ops[step->ops[0]].kind) {
    case DCT_OP_LINEAR: case DCT_OP_LINEAR_MULTI: case DCT_OP_LINEAR_ADD: case DCT_OP_LINEAR_GLU:
    case DCT_OP_EXPERTS: return LANE_PRODUCT;
    case DCT_OP_ATTN: case DCT_OP_ATTN_PART: case DCT_OP_ATTN_ROWS: return LANE_ATTENTION;
    default: return LANE_ROWS;
    }
}

static double end_of(const canvas *c, const dct_step *step) { return x_of(c, step->ops[step->n_ops - 1] + 1); }

static double lane_middle(const canvas *c, const dct_step *step) {
    return LANES_TOP + (step->worker_first + step->n_workers / 2.0) * c->lane_px;
}

static void draw_lane_steps(const canvas *c) {
    const dct_phase *p = c->phase;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const dct_step *step = &p->steps[s];
        double x = x_of(c, step->ops[0]);
        dct_text_put(&c->t,
                     "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"#ffffff\" "
                     "stroke-width=\"0.4\"><title>",
                     x, LANES_TOP + step->worker_first * c->lane_px, end_of(c, step) - x, step->n_workers * c->lane_px,
                     COLORS[LANES[lane_kind_of(p, step)].paint]);
        dct_text_put(&c->t, "step %u: %s, workers %u to %u, %u waits</title></rect>\n", s,
                     dct_op_info_of(p->graph.ops[step->ops[0]].kind)->name, step->worker_first,
                     step->worker_first + step->n_workers - 1, step->n_waits);
    }
}

/* One path: a line of no length with round ends is a dot. */
static void draw_waits(const canvas *c) {
    const dct_phase *p = c->phase;
    if (p->n_waits == 0) return;
    dct_text_put(&c->t, "<path class=\"waits\" stroke=\"#222222\" stroke-width=\"2.5\" stroke-linecap=\"round\" d=\"");
    for (const dct_step *step = p->steps; step < p->steps + p->n_steps; step++) {
        for (uint32_t i = 0; i < step->n_waits; i++) {
            const dct_step *awaited = &p->steps[p->waits[step->wait_begin + i]];
            dct_text_put(&c->t, "M%.2f %.2fL%.2f %.2f", end_of(c, awaited), lane_middle(c, awaited), x_of(c, step->ops[0]),
                         lane_middle(c, step));
        }
    }
    dct_text_put(&c->t, "\"/>\n");
}

/* The numbers of the workers, as many as there is room for. */
static void draw_lanes(const canvas *c) {
    draw_lane_steps(c);
    draw_waits(c);
    uint64_t every = c->lane_px < 14 ? (uint64_t)ceil(14 / c->lane_px) : 1;
    for (uint64_t w = 0; w < c->n_workers; w += every) {
        dct_text_put(&c->t, "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\">worker %u</text>\n", LEFT - 8,
                     LANES_TOP + ((double)w + 0.5) * c->lane_px + 4, (uint32_t)w);
    }
}

/* ---- what stands around ---- */

static int draw_key(const canvas *c, int x, int y, const char *color, const char *label, int width) {
    dct_text_put(&c->t, "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"14\" fill=\"%s\"/>", x, y, color);
    dct_text_put(&c->t, "<text x=\"%d\" y=\"%d\">%s</text>\n", x + 20, y + 12, label);
    return x + width;
}

static void draw_legend(const canvas *c) {
    static const int widths[DCT_PAINT_COUNT] = {110, 260, 180, 160, 90};
    int x = LEFT;
    for (int i = 0; i < DCT_PAINT_COUNT; i++)
        x = draw_key(c, x, LEGEND_TOP, COLORS[i], dct_paint_label((dct_paint)i), widths[i]);
    x = LEFT;
    for (int i = 0; i < LANE_KIND_COUNT; i++)
        x = draw_key(c, x, LEGEND_TOP + LEGEND_LINE, COLORS[LANES[i].paint], LANES[i].label, 140);
    dct_text_put(&c->t, "<circle cx=\"%d\" cy=\"%d\" r=\"3\"/><text x=\"%d\" y=\"%d\">wait</text>\n", x + 7,
                 LEGEND_TOP + LEGEND_LINE + 7, x + 20, LEGEND_TOP + LEGEND_LINE + 12);
}

static void draw_bar(const canvas *c, double x, double y, double width, dct_region region) {
    dct_text_put(&c->t, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n", x, y, width, BAR_H,
                 COLORS[region]);
}

static void draw_envelope(const canvas *c, const dct_plan *plan) {
    static const char *const names[DCT_REGION_COUNT] = {"M_weights", "M_KV", "M_persistent", "M_intermediate", "M_runtime"};
    double x = LEFT, px = plan->m_max_bytes > 0 ? PLOT_W / (double)plan->m_max_bytes : 0;
    for (int i = 0; i < DCT_REGION_COUNT; i++) {
        double width = (double)dct_plan_region_bytes(plan, (dct_region)i) * px;
        draw_bar(c, x, BAR_TOP, width, (dct_region)i);
        x += width;
    }
    dct_text_put(&c->t, "<text x=\"%d\" y=\"%d\">M_max %.2f MiB", LEFT, BAR_TOP + BAR_H + BAR_TEXT, dct_mib(plan->m_max_bytes));
    for (int i = 0; i < DCT_REGION_COUNT; i++) {
        dct_text_put(&c->t, " %s <tspan fill=\"%s\">&#9632;</tspan> %s %.2f", i == 0 ? "=" : "+", COLORS[i], names[i],
                     dct_mib(dct_plan_region_bytes(plan, (dct_region)i)));
    }
    dct_text_put(&c->t, "</text>\n");
}

/* What the members have in turns, over the same bytes: their caches, and their intermediates behind them. */
static void draw_members(const canvas *c, const dct_plan *plan) {
    enum { BARS_W = PLOT_W / 2 };
    uint64_t all = plan->region_bytes[DCT_REGION_KV] + plan->region_bytes[DCT_REGION_ARENA];
    double px = all > 0 ? BARS_W / (double)all : 0;
    for (uint32_t i = 0; i < dct_plan_n_members(plan); i++) {
        const dct_plan *member = dct_plan_member(plan, i);
        uint64_t kv = member->region_bytes[DCT_REGION_KV], arena = dct_plan_arena_height(member);
        double y = BAR_TOP + BAR_H + BAR_TEXT + 10 + i * MEMBER_LINE;
        draw_bar(c, LEFT, y, (double)kv * px, DCT_REGION_KV);
        draw_bar(c, LEFT + (double)kv * px, y, (double)arena * px, DCT_REGION_ARENA);
        dct_text_put(&c->t,
                     "<text x=\"%d\" y=\"%.2f\">context %u, ubatch %u: %.2f MiB of caches + %.2f of intermediates</text>\n",
                     LEFT + BARS_W + 10, y + 12, member->bounds.n_ctx, member->bounds.ubatch, dct_mib(kv), dct_mib(arena));
    }
}

/* `context` is 0 where there is only one. */
static void draw_title(const canvas *c, const dct_plan *plan, uint32_t context) {
    const dct_certificate *cert = &c->phase->cert;
    dct_text_put(&c->t, "<text x=\"%d\" y=\"26\" font-size=\"16\" font-weight=\"bold\">", LEFT);
    dct_put_escaped(&c->t, plan->model_name[0] != '\0' ? plan->model_name : plan->arch);
    if (context != 0) dct_text_put(&c->t, ", context %u", context);
    dct_text_put(&c->t, ": arena of phase ");
    dct_put_escaped(&c->t, c->phase->name);
    dct_text_put(&c->t, ", %u %s, %u steps</text>\n", c->phase->rows, c->phase->rows == 1 ? "row" : "rows", c->phase->n_steps);
    dct_text_put(&c->t, "<text x=\"%d\" y=\"44\">height %" PRIu64 " bytes (%.2f MiB)%s, %u buffers", LEFT,
                 cert->height_bytes, dct_mib(cert->height_bytes), cert->optimal ? ", proven optimal" : "", c->phase->n_buffers);
    if (plan->bounds.overlap)
        dct_text_put(&c->t, "; from %" PRIu64 " on in an arena of %" PRIu64 " bytes, where decode may overlap", c->begin,
                     dct_plan_arena_height(plan));
    dct_text_put(&c->t, "</text>\n");
}

/* The phase of a member below its title. */
static void draw_phase(const canvas *c) {
    draw_byte_axis(c);
    draw_values(c);
    draw_step_axis(c);
    draw_load(c);
    draw_lanes(c);
    draw_legend(c);
}

static dct_status open_canvas(canvas *c, const dct_plan *plan, dct_phase_kind kind, dct_text t, dct_arena *work, dct_err *err) {
    *c = (canvas){.t = t, .phase = dct_plan_phase(plan, kind)};
    if (c->phase != NULL && c->phase->graph.n_ops == 0) c->phase = NULL;
    if (c->phase == NULL) return DCT_OK;
    c->op_px = (double)PLOT_W / c->phase->graph.n_ops;
    c->begin = dct_plan_arena_begin(plan, c->phase);
    uint64_t height = c->phase->cert.height_bytes;
    if (!dct_add_u64(height, height / 20 + 1, &c->bytes)) c->bytes = height; /* some air above */
    c->n_workers = plan->bounds.threads > 0 ? plan->bounds.threads : 1;
    c->lane_px = (double)LANES_H / c->n_workers;
    return dct_plan_find_lives(c->phase, work, &c->lives, err);
}

/* Each member in a group of its own that begins where the picture before it ends. */
static dct_status draw_smaller(const dct_plan *plan, dct_phase_kind kind, int top, dct_text t, dct_arena *work, dct_err *err) {
    for (uint32_t i = plan->n_smaller; i-- > 0; top += HEIGHT) {
        canvas c;
        dct_status status = open_canvas(&c, &plan->smaller[i], kind, t, work, err);
        if (status != DCT_OK) return status;
        if (c.phase == NULL) continue;
        dct_text_put(&t, "<g transform=\"translate(0,%d)\">\n", top);
        draw_title(&c, &plan->smaller[i], plan->smaller[i].bounds.n_ctx);
        draw_phase(&c);
        dct_text_put(&t, "</g>\n");
    }
    return DCT_OK;
}

static dct_status draw_all(const dct_plan *plan, dct_phase_kind kind, dct_text t, dct_arena *work, dct_err *err) {
    canvas c;
    dct_status status = open_canvas(&c, plan, kind, t, work, err);
    if (status != DCT_OK || c.phase == NULL) return status;
    bool is_family = plan->n_smaller > 0;
    int members_h = is_family ? (int)dct_plan_n_members(plan) * MEMBER_LINE + 10 : 0;
    int height = members_h + HEIGHT * (int)dct_plan_n_members(plan);
    dct_text_put(
        &c.t,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n",
        WIDTH, height, WIDTH, height);
    dct_text_put(&c.t, "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", WIDTH, height);
    draw_title(&c, plan, is_family ? plan->bounds.n_ctx : 0);
    draw_envelope(&c, plan);
    if (is_family) {
        draw_members(&c, plan);
        dct_text_put(&c.t, "<g transform=\"translate(0,%d)\">\n", members_h);
    }
    draw_phase(&c);
    if (is_family) {
        dct_text_put(&c.t, "</g>\n");
        status = draw_smaller(plan, kind, members_h + HEIGHT, c.t, work, err);
    }
    dct_text_put(&c.t, "</svg>\n");
    return status;
}

dct_status dct_plan_dump_svg(const dct_plan *plan, dct_phase_kind kind, dct_text_fn *out, void *ctx, dct_err *err) {
    dct_arena work;
    dct_arena_init(&work, 0);
    dct_status status = draw_all(plan, kind, (dct_text){out, ctx}, &work, err);
    dct_arena_deinit(&work);
    return status;
}
