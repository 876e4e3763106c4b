/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the picture of a growing fabric: what all ranks do together, against a straight line
 * through the best of the smallest fabric, and what each rank does, where the lines part.
 */
#include <math.h>

#include "base/svg_figure.h"
#include "plan/scale.h"

static void add_strategy(struct svg_figure *f, const struct plan_scale *s, int i, int number,
                         int each)
{
    char name[4], tip[96];
    struct units u;

    plan_strategy_name(plan_strategy_at(i), name);
    svg_figure_line(f, name, (struct svg_series){.colour = number, .marker = number});
    for (int n = 0; n < s->points; n++) {
        const struct plan_price *price = &s->point[n].search.list[i];
        int ranks = s->point[n].ranks;
        snprintf(tip, sizeof tip, "%s, %d ranks: %s tokens/s%s", name, ranks,
                 units_count(&u, price->tokens_per_s),
                 i == s->point[n].search.best ? ", planned" : "");
        svg_figure_point(f, ranks,
                         price->feasible ? price->tokens_per_s / (each ? ranks : 1) : NAN, tip);
    }
}

/* Every rank as fast as on the smallest fabric on which something fits. */
static void add_linear(struct svg_figure *f, const struct plan_scale *s, int each)
{
    int from = 0;

    while (from < s->points && s->point[from].search.best < 0)
        from++;
    if (from == s->points)
        return;
    const struct plan_search *first = &s->point[from].search;
    double one = first->list[first->best].tokens_per_s / s->point[from].ranks;
    svg_figure_line(f, "linear", (struct svg_series){.marker = -1, .dashed = 1});
    for (int n = 0; n < s->points; n++)
        svg_figure_point(f, s->point[n].ranks, one * (each ? 1 : s->point[n].ranks), NULL);
}

static void put_note(const struct plan_scale *s, char *text, size_t room)
{
    const struct plan_search *first = &s->point[0].search;
    struct units params;
    int n = snprintf(text, room, "%s of %s parameters, %d tokens per sequence, ",
                     first->at.model->family->name,
                     units_count(&params, (double)first->at.model->params), first->at.seq);

    if (first->auto_batch || first->global_batch)
        snprintf(text + n, room - (size_t)n, "batch searched; predicted, not measured");
    else
        snprintf(text + n, room - (size_t)n,
                 "micro-batch %d, accum %d on every rank; predicted, not measured",
                 first->at.micro_batch, first->at.accum);
}

void plan_scale_draw(const struct plan_scale *s, FILE *out)
{
    /* Powers of two are known by all their digits. */
    const struct svg_axis ranks = {.name = "ranks", .scale = SVG_LOG2, .unit = units_whole};
    const struct svg_axis rate[2] = {
        {.name = "tokens/s, predicted", .scale = SVG_LOG10, .unit = units_count},
        {.name = "tokens/s per rank, predicted", .unit = units_count}};
    struct svg_figure f = {.title = "Throughput as the fabric grows, predicted", .columns = 2};

    put_note(s, f.note, sizeof f.note);
    for (int each = 0; each < 2; each++) {
        int number = 0;
        svg_figure_chart(&f, each ? "each rank" : "all ranks", ranks, rate[each], 400);
        for (int i = 0; i < PLAN_STRATEGIES; i++)
            if (s->survives >> i & 1)
                add_strategy(&f, s, i, number++, each);
        add_linear(&f, s, each);
    }
    svg_figure_draw(&f, out);
    svg_figure_release(&f);
}
