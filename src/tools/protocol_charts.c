/* tools/protocol_charts: two pictures as SVG.
 *
 *   latency   a panel for each condition. From left to right the prompts, and within a prompt its calls in the order in which
 *             they were made, run after run: what is not a flat line is noise.
 *   memory    a panel for each condition: RSS of the first round of the first run, call after call, and M_max above it.
 */
#include <stdio.h>
#include <string.h>

#include "plan/plan_text.h"
#include "tools/protocol.h"

enum { WIDTH = 1180, LEFT = 84, RIGHT = 24, TOP = 62, PANEL = 200, GAP = 58, BOTTOM = 26, PLOT = WIDTH - LEFT - RIGHT };

static const char *const colors[DCT_SYSTEMS] = {"#1f6fb4", "#e07b39", "#6a9f58"};

/* One chart as it is drawn. */
typedef struct chart {
    const dct_protocol *p;
    dct_text t;
    double top, high; /* of the panel that is drawn: its upper edge; the value there */
} chart;

static double y_of(const chart *c, double value) { return c->top + PANEL * (1 - value / c->high); }

/* ---- frame ---- */

static uint32_t count_stresses(const dct_protocol *p, bool present[DCT_STRESSES]) {
    uint32_t n = 0;
    memset(present, 0, DCT_STRESSES * sizeof *present);
    for (uint32_t i = 0; i < p->n_calls; i++) present[p->calls[i].key.stress] = true;
    for (int s = 0; s < DCT_STRESSES; s++) n += present[s];
    return n;
}

static bool has_system(const dct_protocol *p, dct_system system) {
    for (uint32_t i = 0; i < p->n_calls; i++)
        if (p->calls[i].key.system == system) return true;
    return false;
}

static void open_chart(const chart *c, uint32_t n_panels, const char *title) {
    int height = TOP + (int)n_panels * (PANEL + GAP) - GAP + 34 + BOTTOM, x = LEFT;
    dct_text_put(&c->t, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                        "font-family=\"sans-serif\" font-size=\"13\" fill=\"#222222\">\n", WIDTH, height, WIDTH, height);
    dct_text_put(&c->t, "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", WIDTH, height);
    dct_text_put(&c->t, "<text x=\"%d\" y=\"22\" font-size=\"16\">%s</text>\n", LEFT, title);
    for (int s = 0; s < DCT_SYSTEMS; s++) {
        if (!has_system(c->p, (dct_system)s)) continue;
        dct_text_put(&c->t, "<circle cx=\"%d\" cy=\"38\" r=\"5\" fill=\"%s\"/>", x + 5, colors[s]);
        dct_text_put(&c->t, "<text x=\"%d\" y=\"43\">%s</text>\n", x + 15, dct_system_name((dct_system)s));
        x += 100;
    }
}

/* The smallest of 1, 2, 5 times a power of ten that cuts `high` into at most five. */
static double step_for(double high) {
    static const double factors[] = {1, 2, 5};
    for (double power = 1e-3; power < 1e15; power *= 10) {
        for (int i = 0; i < 3; i++)
            if (high / (power * factors[i]) <= 5) return power * factors[i];
    }
    return high;
}

static void open_panel(chart *c, dct_stress stress, const char *unit, double high) {
    double step = step_for(high);
    c->high = high;
    dct_text_put(&c->t, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">stress: %s</text>\n", WIDTH - RIGHT, c->top - 6,
                 dct_stress_name(stress));
    dct_text_put(&c->t, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 8, c->top - 6, unit);
    for (double v = 0; v <= high; v += step) {
        dct_text_put(&c->t, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#dddddd\"/>", LEFT, y_of(c, v),
                     WIDTH - RIGHT, y_of(c, v));
        dct_text_put(&c->t, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 8, y_of(c, v) + 4, v);
    }
}

/* ---- latency ---- */

/* The place of a call from left to right: first its prompt, then its run and repetition. */
typedef struct slots {
    bool present[DCT_PROTOCOL_PROMPTS];
    uint32_t column[DCT_PROTOCOL_PROMPTS]; /* of a prompt that is present, from 0 */
    uint32_t n_columns, n_runs, n_repetitions;
} slots;

static void find_slots(const dct_protocol *p, slots *s) {
    *s = (slots){.n_runs = dct_protocol_runs(p)};
    for (uint32_t i = 0; i < p->n_calls; i++) {
        s->present[p->calls[i].prompt] = true;
        if (p->calls[i].repetition > s->n_repetitions) s->n_repetitions = p->calls[i].repetition;
    }
    for (uint32_t k = 0; k < DCT_PROTOCOL_PROMPTS; k++)
        if (s->present[k]) s->column[k] = s->n_columns++;
}

static double column_left(const slots *s, uint32_t column) { return LEFT + (double)PLOT * column / s->n_columns; }

static double x_of(const slots *s, const dct_call *c) {
    double order = (c->key.run - 1) * s->n_repetitions + c->repetition - 0.5, n = s->n_runs * s->n_repetitions;
    return column_left(s, s->column[c->prompt]) + (double)PLOT / s->n_columns * (0.06 + 0.88 * order / n);
}

static double largest_latency(const dct_protocol *p, dct_stress stress) {
    double most = 0;
    for (uint32_t i = 0; i < p->n_calls; i++)
        if (p->calls[i].key.stress == stress && p->calls[i].latency_ms > most) most = p->calls[i].latency_ms;
    return most;
}

/* Columns are named by their prompt; of many, by category alone, where it begins. */
static void name_columns(const chart *c, const slots *s) {
    uint32_t named = DCT_PROTOCOL_CATEGORIES;
    for (uint32_t k = 0; k < DCT_PROTOCOL_PROMPTS; k++) {
        uint32_t category = dct_protocol_category_of(k);
        double left = column_left(s, s->column[k]);
        if (!s->present[k] || category == named) continue;
        named = category;
        dct_text_put(&c->t, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#999999\"/>", left, c->top, left,
                     c->top + PANEL + 6);
        dct_text_put(&c->t, "<text x=\"%.1f\" y=\"%.1f\">P%u %s</text>\n", left + 6, c->top + PANEL + 18, category + 1,
                     dct_protocol_category(category));
    }
}

static void draw_latencies(chart *c, const slots *s, dct_stress stress) {
    const dct_protocol *p = c->p;
    double radius = s->n_columns * s->n_runs * s->n_repetitions > 300 ? 1.6 : 2.6;
    open_panel(c, stress, "ms", largest_latency(p, stress) * 1.05);
    name_columns(c, s);
    for (uint32_t i = 0; i < p->n_calls; i++) {
        const dct_call *call = &p->calls[i];
        if (call->key.stress != stress) continue;
        dct_text_put(&c->t, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\" fill-opacity=\"0.75\"/>\n", x_of(s, call),
                     y_of(c, call->latency_ms), radius, colors[call->key.system]);
    }
}

void dct_protocol_latency_svg(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx) {
    chart c = {.p = p, .t = {write, ctx}, .top = TOP + 8};
    bool present[DCT_STRESSES];
    slots s;
    find_slots(p, &s);
    open_chart(&c, count_stresses(p, present), "Latency of every call, from the text to the last token");
    for (int stress = 0; stress < DCT_STRESSES; stress++) {
        if (!present[stress]) continue;
        draw_latencies(&c, &s, (dct_stress)stress);
        c.top += PANEL + GAP;
    }
    dct_text_put(&c.t, "</svg>\n");
}

/* ---- memory ---- */

/* The records of one panel and system are those of its first run and first round; calls follow one another without the time
 * between them. */
static bool is_shown(const dct_rss_record *r, dct_stress stress, dct_system system) {
    return r->key.stress == stress && r->key.system == system && r->key.run == 1 && r->repetition == 1;
}

typedef struct extent {
    double ms;
    uint64_t bytes;
} extent;

/* How long a system's first round took, and what it held at most. */
static extent extent_of(const dct_protocol *p, dct_stress stress, dct_system system) {
    extent e = {0, 0};
    double call_ms = 0;
    for (uint32_t i = 0; i < p->n_rss; i++) {
        const dct_rss_record *r = &p->rss[i];
        if (!is_shown(r, stress, system)) continue;
        if (r->sample.ms < call_ms) {
            e.ms += call_ms;
            call_ms = 0;
        }
        call_ms = r->sample.ms;
        if (r->sample.bytes > e.bytes) e.bytes = r->sample.bytes;
    }
    e.ms += call_ms;
    return e;
}

/* A step line: a value holds until the next one. */
static void draw_series(const chart *c, dct_stress stress, dct_system system, double ms_wide) {
    const dct_protocol *p = c->p;
    double before = 0, call_ms = 0, last_y = -1;
    bool open = false;
    for (uint32_t i = 0; i < p->n_rss; i++) {
        const dct_rss_record *r = &p->rss[i];
        if (!is_shown(r, stress, system)) continue;
        if (r->sample.ms < call_ms) before += call_ms;
        call_ms = r->sample.ms;
        double x = LEFT + PLOT * (before + call_ms) / ms_wide, y = y_of(c, dct_mib(r->sample.bytes));
        if (!open) dct_text_put(&c->t, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colors[system]);
        if (open) dct_text_put(&c->t, " %.1f,%.1f", x, last_y);
        dct_text_put(&c->t, " %.1f,%.1f", x, y);
        open = true;
        last_y = y;
    }
    if (open) dct_text_put(&c->t, "\"/>\n");
}

static void draw_bound(const chart *c) {
    double y = y_of(c, dct_mib(c->p->m_max));
    dct_text_put(&c->t, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#c0392b\" stroke-dasharray=\"7 4\"/>",
                 LEFT, y, WIDTH - RIGHT, y);
    dct_text_put(&c->t, "<text x=\"%d\" y=\"%.1f\" fill=\"#c0392b\" text-anchor=\"end\">M_max %.1f MiB</text>\n",
                 WIDTH - RIGHT, y + 15, dct_mib(c->p->m_max));
}

static void draw_memory(chart *c, dct_stress stress) {
    double ms = 1, high = dct_mib(c->p->m_max);
    for (int s = 0; s < DCT_SYSTEMS; s++) {
        extent e = extent_of(c->p, stress, (dct_system)s);
        if (e.ms > ms) ms = e.ms;
        if (dct_mib(e.bytes) > high) high = dct_mib(e.bytes);
    }
    open_panel(c, stress, "MiB", high * 1.12);
    for (double at = 0, step = step_for(ms / 1000); at <= ms / 1000; at += step)
        dct_text_put(&c->t, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g s</text>\n", LEFT + PLOT * at * 1000 / ms,
                     c->top + PANEL + 18, at);
    draw_bound(c);
    for (int s = DCT_SYSTEMS; s-- > 0;) draw_series(c, stress, (dct_system)s, ms); /* ours above the others */
}

void dct_protocol_memory_svg(const dct_protocol *p, dct_protocol_write_fn *write, void *ctx) {
    chart c = {.p = p, .t = {write, ctx}, .top = TOP + 8};
    bool present[DCT_STRESSES];
    open_chart(&c, count_stresses(p, present), "Resident memory every 10 ms, first round of the first run, beside M_max");
    for (int stress = 0; stress < DCT_STRESSES; stress++) {
        if (!present[stress]) continue;
        draw_memory(&c, (dct_stress)stress);
        c.top += PANEL + GAP;
    }
    dct_text_put(&c.t, "</svg>\n");
}
