/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a predicted step looks, in a table and drawn: the computing thread and the four
 * streams of a rank, all ranks alike.
 *
 *     title, totals, legend
 *               0        20 ms      40 ms
 *     compute     [u][F0][F1]....[B1][B0]
 *     param sync     [s0][s1]
 *     gather         [p0][p1]
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/jout.h"
#include "base/mem.h"
#include "base/svg_chart.h"
#include "base/units.h"
#include "plan/timeline.h"

static const double WIDTH = 1280, MARGIN = 20, LEFT = 110, RIGHT = 34, TOP = 112, HIGH = 26;
static const double GAP = 8, FOOT = 44, TICK_X = 90;
static const char *const INK = "#444444", *const GRID = "#d8d8d8";

/* The rows, from above, and what each lane is called. */
static const int order[STEP_LANES] = {STEP_COMPUTE, STEP_SYNC, STEP_GATHER, STEP_REDUCE,
                                      STEP_CONVERT};
static const struct {
    const char *id, *name; /* in JSON, as in the traces of paro-train; for people */
} lanes[STEP_LANES] = {[STEP_GATHER] = {"gathers", "gather"},
                       [STEP_REDUCE] = {"reduces", "reduce"},
                       [STEP_CONVERT] = {"boundaries", "conversion"},
                       [STEP_SYNC] = {"syncs", "param sync"},
                       [STEP_COMPUTE] = {"compute", "compute"}};

static const struct look {
    const char *id, *name;
    int colour;
} looks[] = {{"update", "update", 2},     {"forward", "forward", 0},
             {"backward", "backward", 1}, {"gradient accumulated", "accumulate", 7},
             {"sync", "param sync", 4},   {"gather", "gather", 3},
             {"reduce", "reduce", 5},     {"boundary", "conversion", 6}};

static const struct look *look_of(const struct plan_piece *p)
{
    static const int of_kind[] = {
        [STEP_UPDATE] = 0, [STEP_FORWARD] = 1, [STEP_BACKWARD] = 2, [STEP_ACCUMULATE] = 3};
    static const int of_lane[STEP_COMPUTE] = {
        [STEP_SYNC] = 4, [STEP_GATHER] = 5, [STEP_REDUCE] = 6, [STEP_CONVERT] = 7};

    return &looks[p->kind == STEP_TRANSFER ? of_lane[p->lane] : of_kind[p->kind]];
}

struct picture {
    struct svg svg;
    const struct plan_search *search;
    const struct plan_timeline *line;
};

static double x_of(const struct picture *p, double s)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (p->line->walked_s > 0 ? s / p->line->walked_s : 0);
}

static double y_of(int row)
{
    return TOP + row * (HIGH + GAP);
}

static void draw_axis(struct picture *p)
{
    double tick[SVG_TICKS], bottom = y_of(STEP_LANES);
    int n = p->line->walked_s > 0 ? svg_ticks(SVG_LINEAR, 0, p->line->walked_s,
                                              (int)((WIDTH - LEFT - RIGHT) / TICK_X), tick)
                                  : 0;
    struct svg_font font = {.anchor = SVG_MIDDLE, .colour = INK};

    for (int i = 0; i < n; i++) {
        struct units u;
        double x = x_of(p, tick[i]);
        svg_line(&p->svg, x, TOP - 4, x, bottom, &(struct svg_pen){.stroke = GRID});
        svg_text(&p->svg, x, bottom + 14, &font, svg_tick_text(units_time, tick[i], &u));
    }
}

static const char *compute_text(const struct plan_search *s, const struct plan_timeline *t,
                                struct units *u)
{
    return s->at.topo->flops > 0 ? units_time(u, t->compute_s) : "unknown";
}

static const char *unit_name(const struct picture *p, int unit)
{
    const struct model *m = p->search->at.model;

    return m->unit ? m->unit[unit].name : "all";
}

static void draw_piece(struct picture *p, int row, const struct plan_piece *piece)
{
    const struct look *look = look_of(piece);
    double x = x_of(p, piece->start_s), w = x_of(p, piece->end_s) - x;
    const char *name = unit_name(p, piece->unit), *dot = strrchr(name, '.');
    struct svg_font font = {.size = 10, .anchor = SVG_MIDDLE, .colour = "#ffffff"};
    struct units from, took;
    char tip[200];

    snprintf(tip, sizeof tip, "%s %.80s: %s, starts at %s", look->name, name,
             units_time(&took, piece->end_s - piece->start_s),
             units_time(&from, piece->start_s));
    svg_rect(&p->svg, (struct svg_box){x, y_of(row), w > 3 ? w - 0.5 : w, HIGH},
             &(struct svg_pen){.fill = svg_colour(look->colour)}, tip);
    if (svg_text_width(name, font.size) + 4 > w && dot)
        name = dot + 1;
    if (svg_text_width(name, font.size) + 2 <= w)
        svg_text(&p->svg, x + w / 2, y_of(row) + HIGH / 2 + 3.6, &font, name);
}

static void draw_lanes(struct picture *p)
{
    for (int row = 0; row < STEP_LANES; row++) {
        svg_text(&p->svg, LEFT - 8, y_of(row) + HIGH / 2 + 4,
                 &(struct svg_font){.anchor = SVG_END, .colour = INK}, lanes[order[row]].name);
        for (int i = 0; i < p->line->pieces; i++)
            if (p->line->piece[i].lane == order[row])
                draw_piece(p, row, &p->line->piece[i]);
    }
}

static void draw_legend(struct picture *p)
{
    double x = MARGIN;

    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        svg_rect(&p->svg, (struct svg_box){x, 80, 16, 11},
                 &(struct svg_pen){.fill = svg_colour(looks[i].colour)}, NULL);
        svg_text(&p->svg, x + 21, 89, &(struct svg_font){0}, looks[i].name);
        x += 21 + svg_text_width(looks[i].name, 11) + 14;
    }
}

/* What the picture is of, in two lines. */
static void draw_words(struct picture *p)
{
    const struct plan_timeline *t = p->line;
    const struct plan_case *c = &p->search->at;
    struct units step, compute, waited, u;
    char name[4], text[200];

    plan_strategy_name(p->search->list[p->search->best].strategy, name);
    snprintf(text, sizeof text, "%s: predicted step, from update to update", name);
    svg_text(&p->svg, MARGIN, 28, &(struct svg_font){.size = 15, .bold = 1}, text);
    snprintf(
        text, sizeof text,
        "%s parameters, %d ranks, micro-batch %d x %d, accum %d: step %s, compute only %s, "
        "waiting %s",
        units_count(&u, (double)c->model->params), c->topo->groups.ranks, c->micro_batch,
        c->seq, c->accum, units_time(&step, t->step_s), compute_text(p->search, t, &compute),
        units_time(&waited, t->waited_s));
    svg_text(&p->svg, MARGIN, 48, &(struct svg_font){.colour = INK}, text);
    if (c->accum <= t->micros)
        return;
    snprintf(text, sizeof text, "%d micro-steps like the second to last are omitted",
             c->accum - t->micros);
    svg_text(&p->svg, MARGIN, 66, &(struct svg_font){.colour = INK}, text);
}

void plan_timeline_draw(const struct plan_search *s, const struct plan_timeline *t, FILE *out)
{
    struct picture p = {.search = s, .line = t};

    svg_open(&p.svg, out, WIDTH, y_of(STEP_LANES) + FOOT, "predicted step");
    draw_words(&p);
    draw_legend(&p);
    draw_axis(&p);
    draw_lanes(&p);
    svg_close(&p.svg);
}

/* By their begins; of those that begin together the order of their ends. */
static int by_begin(const void *a, const void *b)
{
    const struct plan_piece *x = *(const struct plan_piece *const *)a;
    const struct plan_piece *y = *(const struct plan_piece *const *)b;

    if (x->start_s != y->start_s)
        return x->start_s > y->start_s ? 1 : -1;
    return (x > y) - (x < y);
}

void plan_timeline_print(const struct plan_search *s, const struct plan_timeline *t, FILE *out)
{
    const struct plan_piece **piece = mem_new((size_t)t->pieces + 1, sizeof *piece);
    struct picture p = {.search = s, .line = t};
    struct units step, compute, waited;
    char name[4];

    for (int i = 0; i < t->pieces; i++)
        piece[i] = &t->piece[i];
    qsort(piece, (size_t)t->pieces, sizeof *piece, by_begin);
    plan_strategy_name(s->list[s->best].strategy, name);
    fprintf(out, "%s: predicted step %s, compute only %s, waiting %s\n", name,
            units_time(&step, t->step_s), compute_text(s, t, &compute),
            units_time(&waited, t->waited_s));
    if (s->at.accum > t->micros)
        fprintf(out, "%d micro-steps like the second to last are omitted\n",
                s->at.accum - t->micros);
    fprintf(out, "%12s %12s %-11s %-16s %6s  %s\n", "start ms", "end ms", "lane", "operation",
            "micro", "unit");
    for (int i = 0; i < t->pieces; i++) {
        char micro[16] = "-";
        if (piece[i]->micro >= 0)
            snprintf(micro, sizeof micro, "%d", piece[i]->micro);
        fprintf(out, "%12.3f %12.3f %-11s %-16s %6s  %s\n", 1e3 * piece[i]->start_s,
                1e3 * piece[i]->end_s, lanes[piece[i]->lane].name, look_of(piece[i])->name,
                micro, unit_name(&p, piece[i]->unit));
    }
    mem_free(piece);
}

void plan_timeline_print_json(const struct plan_search *s, const struct plan_timeline *t,
                              FILE *out)
{
    struct jout j = {.file = out, .pretty = 1};
    struct picture p = {.search = s, .line = t};
    char name[4];

    plan_strategy_name(s->list[s->best].strategy, name);
    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.plan.timeline/1");
    jout_text(&j, "strategy", name);
    jout_num(&j, "step_s", t->step_s);
    jout_num(&j, "compute_s", s->at.topo->flops > 0 ? t->compute_s : NAN);
    jout_num(&j, "comm_s", t->comm_s);
    jout_num(&j, "waited_s", t->waited_s);
    jout_int(&j, "micro_steps_left_out", s->at.accum - t->micros);
    jout_open(&j, "pieces", '[');
    for (int i = 0; i < t->pieces; i++) {
        const struct plan_piece *piece = &t->piece[i];
        jout_open(&j, NULL, '{');
        jout_text(&j, "lane", lanes[piece->lane].id);
        jout_text(&j, "what", look_of(piece)->id);
        jout_text(&j, "unit", unit_name(&p, piece->unit));
        if (piece->micro >= 0)
            jout_int(&j, "micro_step", piece->micro);
        else
            jout_null(&j, "micro_step");
        jout_num(&j, "start_s", piece->start_s);
        jout_num(&j, "end_s", piece->end_s);
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_close(&j, '}');
}

void plan_timeline_of(const struct plan_search *s, struct plan_timeline *out)
{
    const struct plan_case *c = &s->at;
    const struct plan_price *p = &s->list[s->best];
    struct plan_tally t;
    struct plan_bill b = {.at = c, .tally = &t, .strategy = p->strategy, .algo = p->algo};

    plan_tally_init(&t, c->topo, c->model, c->trainable, c->keep);
    struct plan_work *work = mem_new((size_t)t.visits, sizeof *work);
    plan_works_of(&b, work);
    b.work = work;
    plan_timeline_keep(&b, out);
    mem_free(work);
    plan_tally_release(&t);
}
