/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the prices of the 27 strategies: a table for people, paro.plan.list/1 for programs. */
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>

#include "value/value_json_out.h"
#include "base/units.h"
#include "plan/plan_fit.h"
#include "plan/plan_traffic.h"

struct scale {
    const char *name;
    double unit;
};

/* Chooses a column's unit: the largest in which its least nonzero value is at least 1. */
static struct scale list_scale_of(double least, double step, const char *const *names, int n)
{
    struct scale s = {names[0], 1};

    for (int i = 1; i < n && isfinite(least) && least >= s.unit * step; i++)
        s = (struct scale){names[i], s.unit * step};
    return s;
}

static const char *list_number(char text[16], double v)
{
    snprintf(text, 16,
             v == 0     ? "0"
             : v < 10   ? "%.3f"
             : v < 100  ? "%.2f"
             : v < 1000 ? "%.1f"
                        : "%.0f",
             v);
    return text;
}

/* Best first, by the criteria of the search. */
static int by_merit(const void *a, const void *b)
{
    const struct plan_price *x = *(const struct plan_price *const *)a;
    const struct plan_price *y = *(const struct plan_price *const *)b;

    if (x->feasible != y->feasible)
        return y->feasible - x->feasible;
    if (plan_price_better(x, y) || plan_price_better(y, x))
        return plan_price_better(x, y) ? -1 : 1;
    return (x > y) - (x < y); /* the order of the list */
}

void plan_list_order(const struct plan_price list[PLAN_STRATEGIES],
                     const struct plan_price *order[PLAN_STRATEGIES])
{
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        order[i] = &list[i];
    qsort(order, PLAN_STRATEGIES, sizeof *order, by_merit);
}

/* Prints the saves of the best, and its goodput. */
static void put_survival(const struct plan_search *s, FILE *out)
{
    const struct plan_survival *v = &s->list[s->best].survival;
    double rate = s->at.failures.storage_Bps;
    struct units stored, one, all;

    fprintf(out,
            "failures every %.4g h of a node, %.4g h of %d: save every %d steps in the shared"
            " folder",
            v->mtbf_s / 3600, v->mtbf_s / 3600 / v->nodes, v->nodes, v->save_every);
    if (v->copies)
        fprintf(out, ", every %d locally with %d %s, %s per rank, enough for %.6g %% of them",
                v->local_every, v->copies, v->copies > 1 ? "copies" : "copy",
                units_bytes(&stored, v->copy_bytes), 100 * (1 - v->lost_share));
    fprintf(out, "; shared storage of %s per host, %s of all%s\n", units_rate(&one, rate),
            units_rate(&all, rate * v->nodes), s->storage_Bps > 0 ? "" : " (assumed)");
}

const char *plan_preferred(const struct plan_search *s, char text[PLAN_PREFERRED])
{
    int fastest = plan_fastest(s);
    struct units less;

    text[0] = 0;
    if (fastest < 0 || fastest == s->best)
        return text;
    const struct plan_price *best = &s->list[s->best], *top = &s->list[fastest];
    snprintf(text, PLAN_PREFERRED,
             "%s takes %.2g %% longer than %s, too little to be predicted, and needs %s less"
             " memory",
             plan_strategy_name(best->strategy),
             100 * (plan_price_gross_s(best) / plan_price_gross_s(top) - 1),
             plan_strategy_name(top->strategy),
             units_bytes(&less, top->memory.total - best->memory.total));
    return text;
}

void plan_list_title(const struct plan_search *s, FILE *out)
{
    const struct plan_case *c = &s->at;
    const struct model *m = c->model;
    struct units params, limit, all, one, time, rate;
    char shape[64], preferred[PLAN_PREFERRED], budget[PLAN_BUDGET_TEXT];

    groups_print(&c->topo->groups, shape, sizeof shape);
    if (m->unit)
        fprintf(out, "%s of ", m->family->name);
    fprintf(out, "%s parameters, groups %s", units_count(&params, (double)m->params), shape);
    if (plan_search_level(s) >= 0)
        fprintf(out, ", level %d", plan_search_level(s));
    fprintf(out, ", memory %s",
            c->memory_bytes > 0 ? units_bytes(&limit, c->memory_bytes) : "unknown");
    if (c->memory_bytes > 0 && c->memory_bytes < (double)c->topo->memory_bytes)
        fprintf(out, " of %s", units_bytes(&limit, (double)c->topo->memory_bytes));
    fprintf(out, " per rank on %s, products in %s", plan_device_name(c->device),
            dtype_name(c->compute_type));
    fprintf(out, ", micro-batch %d x %d, accum %d", c->micro_batch, c->seq, c->accum);
    if (plan_layered(&c->settings) > 1)
        fprintf(out, ", layered %d", plan_layered(&c->settings));
    if (c->keep >= PLAN_KEEP_ALL)
        fputs(", keep all", out);
    else if (c->keep)
        fprintf(out, ", keep %d", c->keep);
    if (plan_apart(&c->settings, &c->topo->groups))
        fprintf(out, ", groups apart for %d steps", c->sync_every);
    if (plan_apart(&c->settings, &c->topo->groups) && c->fragments)
        fprintf(out, " (%d fragments)", c->fragments);
    fputs(c->recompute ? ", recomputed\n" : "\n", out);
    if (c->rates_of[0])
        fprintf(out, "rates of %s: the fabric was not measured for %s %s\n", c->rates_of,
                plan_device_name(c->device), dtype_name(c->compute_type));
    if (c->topo->doubt[0])
        fprintf(out, "doubt: %s\n", c->topo->doubt);
    if (!(c->topo->flops > 0))
        fputs("the fabric has no compute rate: times are communication only\n", out);
    if (plan_preferred(s, preferred)[0])
        fprintf(out, "%s\n", preferred);
    /* Print the best of each other boundary, next to the chosen one. */
    const struct plan_found *chosen = &s->found[s->boundary];
    for (int i = 0; s->groups && i < s->groups->count; i++) {
        const struct plan_found *f = &s->found[i];
        int named = f->best >= 0 ? f->best : f->closest;
        const char *name = plan_strategy_name(plan_strategy_at(named));
        if (i == s->boundary)
            continue;
        groups_print(&s->groups->topo[i].groups, shape, sizeof shape);
        fprintf(out, "groups %s, level %d: ", shape, s->groups->level[i]);
        if (f->best < 0)
            fprintf(out, "nothing fits, %s needs %s\n", name,
                    units_bytes(&all, f->total_bytes));
        else
            fprintf(out, "%s %.1f %% slower\n", name,
                    100 * (plan_sample_s(f) / plan_sample_s(chosen) - 1));
    }
    if (s->storage_Bps > 0)
        fprintf(out, "checkpoint %s, %s per rank, %s at %s per host\n",
                units_bytes(&all, s->checkpoint.bytes),
                units_bytes(&one, s->checkpoint.rank_bytes), units_time(&time, s->checkpoint.s),
                units_rate(&rate, plan_search_storage(s)));
    if (s->best >= 0 && s->at.failures.mtbf_s > 0)
        put_survival(s, out);
    if (s->best >= 0 && plan_budget_print(&s->list[s->best], budget)[0])
        fprintf(out, "%s\n", budget);
}

/* Returns the lesser value, ignoring 0. */
static double lesser(double least, double v)
{
    return v > 0 && v < least ? v : least;
}

struct columns {
    struct scale memory, slow, fast, time;
};

static struct columns list_columns_of(const struct plan_price *list)
{
    static const char *const binary[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    static const char *const decimal[] = {"B", "kB", "MB", "GB", "TB"};
    static const char *const seconds[] = {"us", "ms", "s"};
    double memory = INFINITY, slow = INFINITY, fast = INFINITY, time = INFINITY;

    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        memory = lesser(memory, list[i].memory.total);
        slow = lesser(slow, list[i].slow_bytes);
        fast = lesser(fast, list[i].fast_bytes);
        time = lesser(time, list[i].step_s);
    }
    struct columns c = {
        list_scale_of(memory, 1024, binary, 5), list_scale_of(slow, 1000, decimal, 5),
        list_scale_of(fast, 1000, decimal, 5), list_scale_of(time * 1e6, 1000, seconds, 3)};
    c.time.unit /= 1e6;
    return c;
}

static void list_put_row(const struct plan_search *s, const struct plan_price *p,
                         const struct columns *c, FILE *out)
{
    const struct plan_memory *m = &p->memory;
    const double memory[] = {m->params,      m->grads,   m->optimizer,
                             m->activations, m->buffers, m->total};
    char text[16];

    fprintf(out, "%s%-4s %-9s", s->best == p - s->list ? "*" : " ",
            plan_strategy_name(p->strategy), schedule_algo_name(p->algo));
    for (int i = 0; i < 6; i++)
        fprintf(out, " %8s", list_number(text, memory[i] / c->memory.unit));
    fprintf(out, " %8s", list_number(text, p->slow_bytes / c->slow.unit));
    fprintf(out, " %8s", list_number(text, p->fast_bytes / c->fast.unit));
    fprintf(out, " %8s", list_number(text, p->step_s / c->time.unit));
    fprintf(out, " %8s", list_number(text, p->guideline_s / c->time.unit));
    if (p->guideline_s > 0)
        fprintf(out, " %8.2f", log(1 / p->guideline_s));
    else
        fprintf(out, " %8s", "-");
    if (isnan(p->tokens_per_s))
        fprintf(out, " %9s", "?");
    else
        fprintf(out, " %9.0f", p->tokens_per_s);
    if (s->at.failures.mtbf_s > 0)
        fprintf(out, " %7.4f", p->survival.goodput);
    plan_budget_put(&p->budget, 0, out);
    fprintf(out, " %-4s %-4s %s\n", plan_strategy_kept(p->strategy) ? "yes" : "no",
            !p->feasible                   ? "no"
            : plan_known_to_fit(&s->at, p) ? "yes"
                                           : "?",
            p->dominated_by < 0 ? "-" : plan_strategy_name(s->list[p->dominated_by].strategy));
}

void plan_search_print(const struct plan_search *s, FILE *out)
{
    const struct plan_price *order[PLAN_STRATEGIES];
    struct columns c = list_columns_of(s->list);

    plan_list_order(s->list, order);
    plan_list_title(s, out);
    static const char *const names[] = {"params", "grads", "optim", "activ", "buffers",
                                        "total",  "slow",  "fast",  "step",  "T"};
    fprintf(out, "%15s", "");
    for (int i = 0; i < 10; i++)
        fprintf(out, " %8s", names[i]);
    fprintf(out, "\n%-5s %-9s", "plan", "algo");
    for (int i = 0; i < 6; i++)
        fprintf(out, " %8s", c.memory.name);
    fprintf(out, " %8s %8s %8s %8s log(1/T) %9s%s", c.slow.name, c.fast.name, c.time.name,
            c.time.name, "tokens/s", (s->at.failures.mtbf_s > 0) ? " goodput" : "");
    plan_budget_put(&s->at.budget, 1, out);
    fprintf(out, " %-4s %-4s %s\n", "kept", "fits", "dominated");
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        if (plan_search_allows(s, (int)(order[i] - s->list)))
            list_put_row(s, order[i], &c, out);
}

int plan_known_to_fit(const struct plan_case *c, const struct plan_price *p)
{
    return p->feasible && c->memory_bytes > 0 && c->model->unit;
}

void plan_put_feasible(struct jout *j, const struct plan_case *c, const struct plan_price *p)
{
    if (!p->feasible || plan_known_to_fit(c, p))
        jout_bool(j, "feasible", p->feasible);
    else
        jout_null(j, "feasible");
}

void plan_put_strategy(struct jout *j, const char *key, int index)
{
    jout_text(j, key, index < 0 ? NULL : plan_strategy_name(plan_strategy_at(index)));
}

void plan_put_level(struct jout *j, int level)
{
    if (level >= 0)
        jout_int(j, "group_level", level);
}

void plan_put_limits(struct jout *j, const struct plan_search *s)
{
    const char *doubt = plan_search_whole(s)->doubt;

    jout_text(j, "doubt", doubt[0] ? doubt : NULL);
    jout_num(j, "memory_limit_bytes", s->at.memory_bytes);
    plan_put_level(j, plan_search_level(s));
    if (plan_search_level(s) < 0)
        return;
    jout_open(j, "boundaries", '[');
    for (int i = 0; i < s->groups->count; i++) {
        const struct plan_found *f = &s->found[i];
        jout_open(j, NULL, '{');
        jout_int(j, "group_level", s->groups->level[i]);
        jout_int(j, "groups", s->groups->topo[i].groups.count);
        plan_put_strategy(j, "chosen", f->best);
        plan_put_strategy(j, "needs_least", f->closest);
        jout_int(j, "micro_batch", f->micro_batch);
        jout_int(j, "accum", f->accum);
        jout_int(j, "layered", f->layered);
        jout_num(j, "step_s", f->step_s);
        jout_num(j, "tokens_per_s", f->tokens_per_s);
        jout_num(j, "total_bytes", f->total_bytes);
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

void plan_search_print_json(const struct plan_search *s, const struct plan_advice *advice,
                            FILE *out)
{
    struct jout j = jout_begin(out, "paro.plan.list/1");

    plan_put_strategy(&j, "chosen", s->best);
    plan_put_batch(&j, &s->at);
    jout_int(&j, "seq", s->at.seq);
    jout_text(&j, "device", plan_device_name(s->at.device));
    plan_put_limits(&j, s);
    plan_put_checkpoint(&j, &s->checkpoint);
    if (s->best < 0)
        plan_put_advice(&j, advice);
    jout_open(&j, "strategies", '[');
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        const struct plan_price *p = &s->list[i];
        if (!plan_search_allows(s, i))
            continue;
        jout_open(&j, NULL, '{');
        plan_put_strategy(&j, "strategy", i);
        jout_text(&j, "algo", schedule_algo_name(p->algo));
        plan_put_feasible(&j, &s->at, p);
        plan_put_price(&j, p);
        jout_num(&j, "guideline_s", p->guideline_s);
        jout_num(&j, "indicator", p->guideline_s > 0 ? log(1 / p->guideline_s) : INFINITY);
        jout_bool(&j, "kept", plan_strategy_kept(p->strategy));
        plan_put_strategy(&j, "dominated_by", p->dominated_by);
        jout_close(&j, '}');
    }
    jout_end(&j);
}
