/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Explains why the other strategies lose.  A term is weighed by removing it: all are priced
 * again as if it took no time (each with its then fastest algorithm), and the term without
 * which a strategy loses least is the one that binds it.  Time hidden under a longer term
 * thereby counts as nothing, as it should; shares of a sum would not show that.
 */
#include "plan/plan_why.h"

#include <math.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/units.h"
#include "plan/plan_traffic.h"

/* Terms that a faster network, more compute or a more sharded optimizer would shorten. */
static const char *const terms[PLAN_TERMS] = {"slow tier", "fast tier", "compute",
                                              "optimizer step"};
static const char *const keys[PLAN_BINDINGS] = {
    "slow", "fast", "compute", "update", "memory", "together", "tie", "choice", NULL};

static enum plan_binding binding_of(const struct plan_search *s, int i,
                                    const struct plan_reason *r)
{
    const struct plan_price *p = &s->list[i], *best = &s->list[s->best];
    double step_s = plan_price_gross_s(best), least = r->behind_s;
    enum plan_binding top = PLAN_BINDS_TOGETHER;

    if (i == s->best)
        return PLAN_BINDS_NOTHING;
    if (!p->feasible)
        return PLAN_BINDS_MEMORY;
    if (!plan_price_less(step_s, plan_price_gross_s(p)))
        return s->fixed && plan_price_better(p, best) ? PLAN_BINDS_CHOICE : PLAN_BINDS_TIE;
    for (int term = 0; term < PLAN_TERMS; term++) {
        /* Closer by more than the rounding of sums of whole steps. */
        if (!plan_price_less(step_s + r->behind_without_s[term], step_s + least))
            continue;
        least = r->behind_without_s[term];
        top = (enum plan_binding)term;
    }
    return top;
}

void plan_why(const struct plan_search *s, struct plan_why *out)
{
    struct plan_price without[PLAN_STRATEGIES];
    struct plan_traffic traffic;

    *out = (struct plan_why){.second = -1};
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        const struct plan_price *p = &s->list[i];
        if (!p->feasible) {
            out->of[i].over_bytes = p->memory.total - s->at.memory_bytes;
            out->of[i].binding = PLAN_BINDS_MEMORY;
        } else if (i != s->best &&
                   (out->second < 0 || plan_price_better(p, &s->list[out->second]))) {
            out->second = i;
        }
        if (s->best >= 0)
            out->of[i].behind_s = plan_price_gross_s(p) - plan_price_gross_s(&s->list[s->best]);
    }
    if (s->best < 0)
        return;
    plan_traffic_init(&traffic, s->at.topo, s->at.model, &s->at.settings);
    for (int term = 0; term < PLAN_TERMS; term++) {
        struct plan_case c = s->at;
        c.free |= 1U << term;
        plan_price_with(&c, &traffic, without);
        for (int i = 0; i < PLAN_STRATEGIES; i++)
            out->of[i].behind_without_s[term] =
                plan_price_gross_s(&without[i]) - plan_price_gross_s(&without[s->best]);
    }
    plan_traffic_release(&traffic);
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        out->of[i].binding = binding_of(s, i, &out->of[i]);
}

/* Returns the lead of the best, as a part of its own time. */
static double margin(const struct plan_search *s, const struct plan_why *w)
{
    double step_s = plan_price_gross_s(&s->list[s->best]);

    return step_s > 0 ? w->of[w->second].behind_s / step_s : 0;
}

static void put_margin(const struct plan_search *s, const struct plan_why *w, FILE *out)
{
    if (w->second < 0) {
        fputs("nothing else fits\n", out);
        return;
    }
    double by = 100 * margin(s, w);
    const struct plan_price *best = &s->list[s->best], *next = &s->list[w->second];
    const char *second = plan_strategy_name(next->strategy);
    if (!plan_price_less(plan_price_gross_s(best), plan_price_gross_s(next)) &&
        !plan_price_less(plan_price_gross_s(next), plan_price_gross_s(best)))
        fprintf(out, "as fast as %s, %s\n", second,
                plan_price_less(best->memory.total, next->memory.total) ? "with less memory"
                : plan_price_less(best->slow_bytes, next->slow_bytes)
                    ? "with fewer slow bytes"
                    : "and first in the list");
    else
        fprintf(out, "%s%.1f %% %s %s, the %s\n", fabs(by) < 0.1 ? "less than " : "",
                fmax(fabs(by), 0.1), by < 0 ? "behind" : "ahead of", second,
                by >= 0    ? "second"
                : s->fixed ? "best"
                           : "fastest: nearer than predictions tell");
}

/* Prints "slow tier 35.3 GB (best: 23.5 GB): ", a term's amounts. */
static void put_term(const struct plan_price *p, const struct plan_price *best,
                     enum plan_term term, FILE *out)
{
    const double its[PLAN_TERMS] = {p->slow_bytes, p->fast_bytes, p->compute_s,
                                    p->memory.optimizer};
    const double least[PLAN_TERMS] = {best->slow_bytes, best->fast_bytes, best->compute_s,
                                      best->memory.optimizer};
    const char *(*text)(struct units *, double) = term == PLAN_COMPUTE  ? units_time
                                                  : term == PLAN_UPDATE ? units_bytes
                                                                        : units_sent;
    struct units a, b;

    if (strcmp(text(&a, its[term]), text(&b, least[term])))
        fprintf(out, "%s %s (best: %s): ", terms[term], a.text, b.text);
    else if (term == PLAN_COMPUTE)
        fputs("the same computing, but more is sent before or after it: ", out);
    else
        fprintf(out, "%s %s, as the best, but less of it during other work: ", terms[term],
                a.text);
}

/* Explains one that is not slower, or by rounding only, and yet was not chosen. */
static void put_tie(const struct plan_price *p, const struct plan_price *best, FILE *out)
{
    struct units more;

    if (!plan_price_less(best->memory.total, p->memory.total) &&
        plan_price_less(plan_price_gross_s(p), plan_price_gross_s(best)))
        fputs("as fast as predictions tell, but sends more slow bytes\n", out);
    else if (plan_price_less(plan_price_gross_s(p), plan_price_gross_s(best)))
        fprintf(out, "as fast as predictions tell, but needs %s more memory\n",
                units_bytes(&more, p->memory.total - best->memory.total));
    else
        fprintf(out, "as fast, %s\n",
                plan_price_less(best->memory.total, p->memory.total) ? "but needs more memory"
                : plan_price_less(best->slow_bytes, p->slow_bytes) ? "but sends more slow bytes"
                                                                   : "as large: comes later");
}

static void put_because(const struct plan_search *s, const struct plan_why *w, int i, FILE *out)
{
    const struct plan_price *p = &s->list[i], *best = &s->list[s->best < 0 ? 0 : s->best];
    const struct plan_reason *r = &w->of[i];
    struct units needs, limit, most;
    const char *what;
    double bytes, left;

    switch (r->binding) {
    case PLAN_BINDS_NOTHING:
        put_margin(s, w, out);
        return;
    case PLAN_BINDS_MEMORY:
        what = plan_memory_heaviest(&p->memory, &bytes);
        fprintf(out, "memory: needs %s, limit %s; %s is %s\n",
                units_bytes(&needs, p->memory.total), units_bytes(&limit, s->at.memory_bytes),
                units_bytes(&most, bytes), what);
        return;
    case PLAN_BINDS_TIE:
        put_tie(p, best, out);
        return;
    case PLAN_BINDS_CHOICE:
        fputs("better, but not requested\n", out);
        return;
    case PLAN_BINDS_TOGETHER:
        fputs("no term alone\n", out);
        return;
    default:
        break;
    }
    left = r->behind_without_s[r->binding];
    put_term(p, best, (enum plan_term)r->binding, out);
    if (!plan_price_less(best->step_s, best->step_s + fabs(left)))
        fputs("without it as fast\n", out);
    else
        fprintf(out, "without it %s %s\n", units_time(&needs, fabs(left)),
                left < 0 ? "ahead" : "behind");
}

void plan_why_print(const struct plan_search *s, const struct plan_why *w, FILE *out)
{
    const struct plan_price *order[PLAN_STRATEGIES];
    double best_s = s->best >= 0 ? plan_price_gross_s(&s->list[s->best]) : 0;

    plan_list_order(s->list, order);
    plan_list_title(s, out);
    fprintf(out, "%-5s %10s %9s  %s\n", "plan", "step", "behind", "because");
    for (int n = 0; n < PLAN_STRATEGIES; n++) {
        int i = (int)(order[n] - s->list);
        char behind[32] = "-";
        struct units step;
        if (best_s > 0 && i != s->best)
            snprintf(behind, sizeof behind, "%+.1f %%", 100 * w->of[i].behind_s / best_s);
        fprintf(out, "%s%-4s %10s %9s  ", i == s->best ? "*" : " ",
                plan_strategy_name(order[n]->strategy), units_time(&step, order[n]->step_s),
                behind);
        put_because(s, w, i, out);
    }
}

static void json_row(struct jout *j, const struct plan_search *s, const struct plan_why *w,
                     int i)
{
    const struct plan_price *p = &s->list[i];
    const struct plan_reason *r = &w->of[i];
    double bytes;

    jout_open(j, NULL, '{');
    plan_put_strategy(j, "strategy", i);
    jout_text(j, "algo", schedule_algo_name(p->algo));
    plan_put_feasible(j, &s->at, p);
    jout_num(j, "step_s", p->step_s);
    jout_text(j, "binding", keys[r->binding]);
    jout_num(j, "over_bytes", r->over_bytes);
    jout_text(j, "heaviest", plan_memory_heaviest(&p->memory, &bytes));
    jout_num(j, "heaviest_bytes", bytes);
    jout_num(j, "behind_s", s->best >= 0 ? r->behind_s : NAN);
    jout_open(j, "behind_without_s", '{');
    for (int term = 0; term < PLAN_TERMS; term++)
        jout_num(j, keys[term], s->best >= 0 ? r->behind_without_s[term] : NAN);
    jout_close(j, '}');
    jout_close(j, '}');
}

void plan_why_print_json(const struct plan_search *s, const struct plan_why *w, FILE *out)
{
    struct jout j = jout_begin(out, "paro.plan.why/1");
    int both = s->best >= 0 && w->second >= 0;

    plan_put_strategy(&j, "chosen", s->best);
    plan_put_strategy(&j, "second", both ? w->second : -1);
    jout_num(&j, "margin", both ? margin(s, w) : NAN);
    plan_put_batch(&j, &s->at);
    jout_int(&j, "seq", s->at.seq);
    plan_put_limits(&j, s);
    jout_open(&j, "strategies", '[');
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        json_row(&j, s, w, i);
    jout_end(&j);
}
