/* SPDX-License-Identifier: BSD-3-Clause */
/* Extends a fabric, and prices the strategies at each size. */
#include "plan/plan_scale.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/num.h"
#include "draw/draw_figure.h"
#include "plan/plan_periods.h"
#include "plan/plan_traffic.h"

int plan_scale_parse(const char *text, int ranks[2], struct err *err)
{
    char copy[64];
    struct err ignored;
    int64_t lo = 0, hi = 0;

    snprintf(copy, sizeof copy, "%s", text);
    char *dots = strstr(copy, "..");
    if (dots)
        *dots = '\0';
    if (!dots || num_i64(copy, 1, PLAN_SCALE_MAX, &lo, &ignored) ||
        num_i64(dots + 2, 1, PLAN_SCALE_MAX, &hi, &ignored) || hi < lo)
        return err_set(err, ERR_INPUT, "'%s', expected FROM..TO ranks, as 16..4096, %d at most",
                       text, PLAN_SCALE_MAX);
    ranks[0] = (int)lo;
    ranks[1] = (int)hi;
    return 0;
}

/* Extends a fabric to `ranks` ranks: the last group may have fewer than the fabric's. */
static void grow(struct topo *to, const struct topo *from, int ranks)
{
    int g = from->groups.count, count = 0, r = 0;
    int *group_of = mem_new((size_t)ranks, sizeof *group_of);
    struct topo whole;

    for (; r < ranks; count++)
        for (int j = 0; j < from->groups.members[count % g] && r < ranks; j++)
            group_of[r++] = count;
    topo_extend(from, count, &whole);
    topo_subset(&whole, ranks, group_of, to);
    topo_release(&whole);
    mem_free(group_of);
}

static int run_point(struct plan_scale *s, const struct plan_search *requested, int ranks,
                     struct err *err)
{
    struct plan_scale_point *p = &s->point[s->points];
    struct plan_boundaries groups;
    struct topo topo;

    grow(&topo, plan_search_whole(requested), ranks);
    int rc = plan_boundaries_init(&groups, &topo,
                                  requested->groups ? requested->groups->requested : 0, err);
    if (rc == 0) {
        p->search = *requested;
        p->search.groups = &groups;
        rc = err_any(plan_periods_choose(&p->search, err) || plan_search(&p->search, err));
        p->level = plan_search_level(&p->search);
        p->groups = groups.topo[p->search.boundary].groups.count;
        p->search.at.topo = NULL;
        p->search.groups = NULL;
        plan_boundaries_release(&groups);
    }
    p->ranks = topo.groups.ranks;
    topo_release(&topo);
    for (int i = 0; rc == 0 && i < PLAN_STRATEGIES; i++)
        if (p->search.list[i].feasible && p->search.list[i].dominated_by < 0)
            s->survives |= 1U << i;
    s->points += rc == 0;
    return rc;
}

int plan_scale_run(struct plan_scale *s, const struct plan_search *requested, struct err *err)
{
    s->points = 0;
    s->survives = 0;
    for (int64_t ranks = s->from;; ranks = 2 * ranks < s->to ? 2 * ranks : s->to) {
        if (run_point(s, requested, (int)ranks, err))
            return err_prefix(err, "--scale: %" PRId64 " ranks: ", ranks);
        if (ranks == s->to)
            return 0;
    }
}

int plan_scale_found(const struct plan_scale *s)
{
    for (int i = 0; i < s->points; i++)
        if (s->point[i].search.best >= 0)
            return 1;
    return 0;
}

static void scale_put_head(const struct plan_scale *s, int batch, FILE *out)
{
    const struct plan_case *c = &s->point[0].search.at;
    struct units params;

    fprintf(out, "predicted %stokens/s of %s parameters, %d tokens per sequence",
            c->failures.mtbf_s > 0 ? "useful " : "",
            units_count(&params, (double)c->model->params), c->seq);
    if (!batch)
        fprintf(out, ", micro-batch %d, accum %d on every rank", c->micro_batch, c->accum);
    fprintf(out, "\n%7s %7s", "ranks", "groups");
    if (s->point[0].level >= 0)
        fprintf(out, " %5s", "level");
    if (batch)
        fprintf(out, " %9s", "batch");
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        if (s->survives >> i & 1)
            fprintf(out, " %9s ", plan_strategy_name(plan_strategy_at(i)));
    }
    plan_budget_put(&c->budget, 1, out);
    putc('\n', out);
}

/* Prints a row for each size; '*' marks the strategy that would be planned. */
void plan_scale_print(const struct plan_scale *s, FILE *out)
{
    const struct plan_search *first = &s->point[0].search;
    int batch = first->auto_batch || first->at.global_batch;

    scale_put_head(s, batch, out);
    for (int n = 0; n < s->points; n++) {
        const struct plan_scale_point *p = &s->point[n];
        char text[32];
        fprintf(out, "%7d %7d", p->ranks, p->groups);
        if (p->level >= 0)
            fprintf(out, " %5d", p->level);
        snprintf(text, sizeof text, "%dx%d", p->search.at.micro_batch, p->search.at.accum);
        if (batch)
            fprintf(out, " %9s", text);
        for (int i = 0; i < PLAN_STRATEGIES; i++) {
            const struct plan_price *price = &p->search.list[i];
            snprintf(text, sizeof text,
                     !price->feasible             ? "-"
                     : isnan(price->tokens_per_s) ? "?"
                                                  : "%.0f",
                     plan_useful_rate(price));
            if (s->survives >> i & 1)
                fprintf(out, " %9s%c", text, i == p->search.best ? '*' : ' ');
        }
        if (p->search.best >= 0)
            plan_budget_put(&p->search.list[p->search.best].budget, 0, out);
        putc('\n', out);
    }
}

static void json_point(struct jout *j, const struct plan_scale_point *p)
{
    const struct plan_search *s = &p->search;

    jout_open(j, NULL, '{');
    jout_int(j, "ranks", p->ranks);
    jout_int(j, "groups", p->groups);
    plan_put_level(j, p->level);
    plan_put_batch(j, &s->at);
    plan_put_strategy(j, "chosen", s->best);
    jout_open(j, "strategies", '[');
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        const struct plan_price *price = &s->list[i];
        jout_open(j, NULL, '{');
        plan_put_strategy(j, "strategy", i);
        plan_put_feasible(j, &s->at, price);
        jout_bool(j, "dominated", price->dominated_by >= 0);
        jout_num(j, "step_s", price->step_s);
        jout_num(j, "tokens_per_s", price->tokens_per_s);
        plan_put_survival(j, price);
        jout_close(j, '}');
    }
    jout_close(j, ']');
    jout_close(j, '}');
}

void plan_scale_print_json(const struct plan_scale *s, FILE *out)
{
    struct jout j = jout_begin(out, "paro.plan.scale/1");

    jout_bool(&j, "predicted", 1);
    jout_int(&j, "seq", s->point[0].search.at.seq);
    jout_open(&j, "points", '[');
    for (int i = 0; i < s->points; i++)
        json_point(&j, &s->point[i]);
    jout_end(&j);
}

/*
 * Draws the rate of all ranks together, with a straight line through the best of the smallest
 * fabric, and the rate per rank, which shows where the lines part.
 */
static void add_strategy(struct svg_figure *f, const struct plan_scale *s, int i, int number,
                         int each)
{
    const char *name = plan_strategy_name(plan_strategy_at(i));
    struct units u;
    char tip[96];

    svg_figure_line(f, name, (struct svg_series){.colour = number, .marker = number});
    for (int n = 0; n < s->points; n++) {
        const struct plan_price *price = &s->point[n].search.list[i];
        int ranks = s->point[n].ranks;
        snprintf(tip, sizeof tip, "%s, %d ranks: %s tokens/s%s", name, ranks,
                 units_count(&u, plan_useful_rate(price)),
                 i == s->point[n].search.best ? ", planned" : "");
        svg_figure_point(f, ranks,
                         price->feasible ? plan_useful_rate(price) / (each ? ranks : 1) : NAN,
                         tip);
    }
}

/* Adds the line on which every rank is as fast as on the smallest fabric where something
   fits. */
static void add_linear(struct svg_figure *f, const struct plan_scale *s, int each)
{
    int from = 0;

    while (from < s->points && s->point[from].search.best < 0)
        from++;
    if (from == s->points)
        return;
    const struct plan_search *first = &s->point[from].search;
    double one = plan_useful_rate(&first->list[first->best]) / s->point[from].ranks;
    svg_figure_line(f, "linear", (struct svg_series){.marker = -1, .dashed = 1});
    for (int n = 0; n < s->points; n++)
        svg_figure_point(f, s->point[n].ranks, one * (each ? 1 : s->point[n].ranks), NULL);
}

void plan_scale_draw(const struct plan_scale *s, FILE *out)
{
    /* Show all digits: powers of two are known by them. */
    const struct svg_axis ranks = {.name = "ranks", .scale = SVG_LOG2, .unit = units_whole};
    const struct svg_axis rate[2] = {
        {.name = "tokens/s, predicted", .scale = SVG_LOG10, .unit = units_count},
        {.name = "tokens/s per rank, predicted", .unit = units_count}};
    struct svg_figure f = {.title = "Throughput as the fabric grows, predicted", .columns = 2};
    const struct plan_search *first = &s->point[0].search;
    struct units params;

    int n = snprintf(f.note, sizeof f.note, "%s of %s parameters, %d tokens per sequence, %s",
                     first->at.model->family->name,
                     units_count(&params, (double)first->at.model->params), first->at.seq,
                     first->at.failures.mtbf_s > 0 ? "useful ones alone, " : "");
    if (first->auto_batch || first->at.global_batch)
        snprintf(f.note + n, sizeof f.note - (size_t)n,
                 "batch searched; predicted, not measured");
    else
        snprintf(f.note + n, sizeof f.note - (size_t)n,
                 "micro-batch %d, accum %d on every rank; predicted, not measured",
                 first->at.micro_batch, first->at.accum);
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
