/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the picture of a growing fabric: what all ranks do together, against a straight line
 * through the best of the smallest fabric, and what each rank does, where the lines part.
 *
 *     title
 *     model, batch, "predicted"
 *     -o- NNG  -x- IIG  - - linear
 *     all ranks | each rank
 */
#include <math.h>

#include "base/mem.h"
#include "base/svg_chart.h"
#include "plan/scale.h"

static const double WIDTH = 1040, HIGH = 400, MARGIN = 20, GAP = 14;

struct picture {
    struct svg_series all[PLAN_STRATEGIES + 1], each[PLAN_STRATEGIES + 1];
    char name[PLAN_STRATEGIES][4];
    char tip[PLAN_STRATEGIES][PLAN_SCALE_POINTS][64];
    const char *tips[PLAN_STRATEGIES][PLAN_SCALE_POINTS];
    double x[PLAN_SCALE_POINTS], y[2][PLAN_STRATEGIES + 1][PLAN_SCALE_POINTS];
    int lines;
};

static void add_strategy(struct picture *p, const struct plan_scale *s, int i)
{
    int at = p->lines++;
    double *all = p->y[0][at], *each = p->y[1][at];
    struct units u;

    plan_strategy_name(plan_strategy_at(i), p->name[at]);
    for (int n = 0; n < s->points; n++) {
        const struct plan_price *price = &s->point[n].search.list[i];
        all[n] = price->feasible ? price->tokens_per_s : NAN;
        each[n] = all[n] / s->point[n].ranks;
        snprintf(p->tip[at][n], sizeof p->tip[at][n], "%s, %d ranks: %s tokens/s%s",
                 p->name[at], s->point[n].ranks, units_count(&u, price->tokens_per_s),
                 i == s->point[n].search.best ? ", planned" : "");
        p->tips[at][n] = p->tip[at][n];
    }
    p->all[at] = (struct svg_series){.name = p->name[at],
                                     .colour = at,
                                     .marker = at,
                                     .points = s->points,
                                     .x = p->x,
                                     .y = all,
                                     .tip = p->tips[at]};
    p->each[at] = p->all[at];
    p->each[at].y = each;
}

/* Every rank as fast as on the smallest fabric on which something fits. */
static void add_linear(struct picture *p, const struct plan_scale *s)
{
    int at = p->lines, from = 0;

    while (from < s->points && s->point[from].search.best < 0)
        from++;
    if (from == s->points)
        return;
    const struct plan_search *first = &s->point[from].search;
    double one = first->list[first->best].tokens_per_s / s->point[from].ranks;
    for (int n = 0; n < s->points; n++) {
        p->y[0][at][n] = one * s->point[n].ranks;
        p->y[1][at][n] = one;
    }
    p->all[at] = (struct svg_series){.name = "linear",
                                     .marker = -1,
                                     .dashed = 1,
                                     .points = s->points,
                                     .x = p->x,
                                     .y = p->y[0][at]};
    p->each[at] = p->all[at];
    p->each[at].y = p->y[1][at];
    p->lines++;
}

static void put_titles(struct svg *svg, const struct plan_scale *s, const char *title)
{
    const struct plan_search *first = &s->point[0].search;
    struct units params;
    char text[160];

    svg_text(svg, MARGIN, MARGIN + 12, &(struct svg_font){.size = 15, .bold = 1}, title);
    int n = snprintf(text, sizeof text, "%s of %s parameters, %d tokens per sequence, ",
                     first->at.model->family->name,
                     units_count(&params, (double)first->at.model->params), first->at.seq);
    if (first->auto_batch || first->global_batch)
        snprintf(text + n, sizeof text - (size_t)n, "batch searched; predicted, not measured");
    else
        snprintf(text + n, sizeof text - (size_t)n,
                 "micro-batch %d, accum %d on every rank; predicted, not measured",
                 first->at.micro_batch, first->at.accum);
    svg_text(svg, MARGIN, MARGIN + 30, &(struct svg_font){0}, text);
}

/* Powers of two are known by all their digits. */
static void put_charts(struct svg *svg, const struct picture *p, double top)
{
    double wide = (WIDTH - 2 * MARGIN - GAP) / 2;
    struct svg_axis ranks = {.name = "ranks", .scale = SVG_LOG2, .unit = units_whole};

    svg_chart(svg,
              &(struct svg_chart){
                  .box = {MARGIN, top, wide, HIGH},
                  .title = "all ranks",
                  .x = ranks,
                  .y = {.name = "tokens/s, predicted", .scale = SVG_LOG10, .unit = units_count},
                  .count = p->lines,
                  .series = p->all});
    svg_chart(svg, &(struct svg_chart){
                       .box = {MARGIN + wide + GAP, top, wide, HIGH},
                       .title = "each rank",
                       .x = ranks,
                       .y = {.name = "tokens/s per rank, predicted", .unit = units_count},
                       .count = p->lines,
                       .series = p->each});
}

void plan_scale_draw(const struct plan_scale *s, FILE *out)
{
    static const char title[] = "Throughput as the fabric grows, predicted";
    struct picture *p = mem_new(1, sizeof *p);
    struct svg svg;

    for (int n = 0; n < s->points; n++)
        p->x[n] = s->point[n].ranks;
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        if (s->survives >> i & 1)
            add_strategy(p, s, i);
    add_linear(p, s);
    double legend = svg_legend(NULL, 0, 0, WIDTH - 2 * MARGIN, p->all, p->lines);
    double top = MARGIN + 44 + legend + GAP;
    svg_open(&svg, out, WIDTH, top + HIGH + MARGIN, title);
    put_titles(&svg, s, title);
    svg_legend(&svg, MARGIN, MARGIN + 44, WIDTH - 2 * MARGIN, p->all, p->lines);
    put_charts(&svg, p, top);
    svg_close(&svg);
    mem_free(p);
}
