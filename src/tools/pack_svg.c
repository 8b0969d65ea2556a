/* The arena of a packing over time: a rectangle a piece, the load as a line. */
#include <inttypes.h>
#include <string.h>

#include "base/os.h"
#include "plan/plan_text.h"
#include "tools/pack_svg.h"

enum { WIDTH = 1280, HEIGHT = 640, LEFT = 24, TOP = 40, BOTTOM = 24, PLOT_W = WIDTH - 2 * LEFT, PLOT_H = HEIGHT - TOP - BOTTOM };

typedef struct canvas {
    dct_text t;
    double x_scale, y_scale; /* of a unit of time, of a byte */
    uint32_t from;
} canvas;

static void put_writer(void *ctx, const char *text, size_t n) { dct_write_bytes(ctx, text, n); }

static double x_of(const canvas *c, uint32_t time) { return LEFT + (time - c->from) * c->x_scale; }
static double y_of(const canvas *c, uint64_t byte) { return TOP + PLOT_H - (double)byte * c->y_scale; }

/* Names come from the file. */
static void put_name(const canvas *c, dct_str name) {
    for (size_t k = 0; k < name.len; k++) {
        char ch = name.ptr[k];
        if (ch == '&' || ch == '<' || ch == '>' || (unsigned char)ch < 0x20 || (unsigned char)ch >= 0x7f) ch = '?';
        c->t.out(c->t.ctx, &ch, 1);
    }
}

static void draw_piece(const canvas *c, const dct_pack_picture *picture, uint32_t i, const dct_pack_piece *p) {
    static const char *const colors[] = {"#4c78a8", "#f2a541", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#9d9da1"};
    const dct_pack_item *item = &picture->items[i];
    uint64_t at = item->offset + (picture->floors != NULL ? picture->floors[i] : 0);
    double top = y_of(c, at + p->high);
    uint64_t shade = (item->size ^ item->size >> 10 ^ item->begin) % 8;
    dct_text_put(
        &c->t,
        "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"0.4\"><title>",
        x_of(c, p->begin), top, x_of(c, p->end) - x_of(c, p->begin), y_of(c, at + p->low) - top, colors[shade]);
    put_name(c, picture->name(picture->ctx, i));
    dct_text_put(&c->t, ": %" PRIu64 " bytes at %" PRIu64 ", %u to %u</title></rect>\n", p->high - p->low, item->offset + p->low,
                 p->begin, p->end);
}

static void draw(const dct_pack_picture *p, dct_writer *w) {
    canvas c = {.t = {put_writer, w}, .from = UINT32_MAX};
    uint32_t n = p->n, to = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (p->items[i].begin < c.from) c.from = p->items[i].begin;
        if (p->items[i].end > to) to = p->items[i].end;
    }
    c.x_scale = to > c.from ? (double)PLOT_W / (to - c.from) : 1;
    c.y_scale = p->height > 0 ? (double)PLOT_H / (double)p->height : 1;
    dct_text_put(&c.t,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                 "font-family=\"sans-serif\" font-size=\"13\">\n",
                 WIDTH, HEIGHT, WIDTH, HEIGHT);
    dct_text_put(&c.t,
                 "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n<text x=\"%d\" y=\"26\">%u items, load %" PRIu64
                 ", height %" PRIu64 "%s</text>\n",
                 WIDTH, HEIGHT, LEFT, n, p->load, p->height, p->optimal ? ", proven optimal" : "");
    for (uint32_t i = 0; i < n; i++) {
        const dct_pack_item *item = &p->items[i];
        dct_pack_piece whole = {0, item->size, item->begin, item->end};
        if (item->n_pieces == 0 && item->size > 0) draw_piece(&c, p, i, &whole);
        for (uint32_t k = 0; k < item->n_pieces; k++) draw_piece(&c, p, i, &item->pieces[k]);
    }
    for (uint32_t k = 0; k < p->n_lines; k++) {
        dct_text_put(&c.t,
                     "<line x1=\"%d\" y1=\"%.2f\" x2=\"%d\" y2=\"%.2f\" stroke=\"#d62728\" stroke-width=\"1.5\" "
                     "stroke-dasharray=\"7 4\"/>\n",
                     LEFT, y_of(&c, p->lines[k]), WIDTH - LEFT, y_of(&c, p->lines[k]));
    }
    dct_text_put(&c.t, "</svg>\n");
}

dct_status dct_pack_draw(const dct_pack_picture *picture, const char *path, dct_arena *arena, dct_err *err) {
    dct_writer measure = {.size = UINT64_MAX};
    draw(picture, &measure);
    dct_writer w = {.bytes = dct_arena_alloc(arena, measure.pos), .size = measure.pos};
    if (w.bytes == NULL) return dct_fail_memory(err, arena, "the picture");
    draw(picture, &w);
    return dct_file_write_whole(path, w.bytes, w.pos, err);
}
