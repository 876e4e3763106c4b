/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints what a configuration of another tool amounts to, and what would be cheaper: the other
 * rows of the tool's table that fit and take less time, nearest first, with the keys in which
 * they differ from the file.
 */
#include "plan/plan_review.h"

#include <string.h>

#include "base/units.h"
#include "plan/plan_traffic.h"
#include "value/value_json_out.h"

enum { NEIGHBOURS = 16 }; /* rows of a tool with different strategies, at most */

struct neighbours {
    const struct plan_price *now;
    struct plan_price other[PLAN_STRATEGIES]; /* with the other value of `keep` */
    struct neighbour {
        const struct plan_row *row;
        const struct plan_price *price;
        int steps, changes;
    } of[NEIGHBOURS];
    int count;
};

static int changes_to(const struct plan_review *r, const struct plan_row *row,
                      const struct groups *g)
{
    int n = 0;

    for (int i = 0; i < PLAN_KEYS && plan_tool(r->target)->key[i].path; i++)
        n += !plan_review_has(r, row, i, g);
    return n;
}

static int is_nearer(const struct neighbour *a, const struct neighbour *b)
{
    return a->steps != b->steps ? a->steps < b->steps : a->price->step_s < b->price->step_s;
}

/* Inserts a neighbour; of two ways to the same strategy, that with fewer changes stays. */
static void add_neighbour(struct neighbours *n, struct neighbour new)
{
    int at = n->count;

    for (int i = 0; i < n->count; i++)
        if (n->of[i].price == new.price) {
            n->of[i] = new.changes < n->of[i].changes ? new : n->of[i];
            return;
        }
    for (; at > 0 && is_nearer(&new, &n->of[at - 1]); at--)
        n->of[at] = n->of[at - 1];
    n->of[at] = new;
    n->count++;
}

static struct neighbours neighbours_of(const struct plan_review *r, const struct plan_search *s)
{
    const struct groups *g = &s->at.topo->groups;
    struct plan_case c = s->at;
    struct neighbours n = {.count = 0};
    const struct plan_row *row = NULL;

    c.keep = c.keep ? 0 : PLAN_KEEP_ALL;
    plan_price_all(&c, n.other);
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        n.now = plan_search_allows(s, i) ? &s->list[i] : n.now;
    while ((row = plan_row_next(r->target, row))) {
        struct plan_strategy to = plan_row_strategy(row, s->at.accum);
        int index = to.params * 9 + to.grads * 3 + to.optimizer;
        int same = !(row->flags & PLAN_ROW_KEEPS) == !s->at.keep;
        const struct plan_price *p = same ? &s->list[index] : &n.other[index];
        if (p != n.now && p->feasible && (same || s->at.model->unit) &&
            plan_row_of(r->target, to, g, 0) && !(row->flags & PLAN_ROW_HPZ) &&
            (!n.now->feasible || p->step_s < n.now->step_s * (1 - PLAN_TIE)))
            add_neighbour(&n, (struct neighbour){row, p, plan_steps_between(s->strategy, to),
                                                 changes_to(r, row, g)});
    }
    return n;
}

/* Writes the path of a key as the file has it. */
static const char *key_path(const struct plan_review *r, int key, char path[128])
{
    const struct tree_node *n = r->key[key];

    if (!n)
        return plan_tool(r->target)->key[key].path;
    snprintf(path, 128, "%s%s%s", n->parent->key ? n->parent->key : "",
             n->parent->key ? "." : "", n->key);
    return path;
}

static void put_neighbour(const struct plan_review *r, const struct plan_search *s,
                          const struct neighbour *to, const struct plan_price *now, FILE *out)
{
    const struct groups *g = &s->at.topo->groups;
    const struct plan_price *p = to->price;
    struct units step, slow, memory;
    char path[128], value[PLAN_VALUE];

    fprintf(out, "  %s%s: step %s (%+.1f %%), slow bytes %s, memory %s%s\n",
            plan_strategy_name(p->strategy),
            to->row->flags & PLAN_ROW_KEEPS ? ", parameters kept for the backward" : "",
            units_time(&step, p->step_s), 100 * (p->step_s / now->step_s - 1),
            units_sent(&slow, p->slow_bytes), units_bytes(&memory, p->memory.total),
            to->row->flags & PLAN_ROW_EACH && s->at.accum > 1
                ? "; gradients cross groups in each micro-step, which is not priced"
                : "");
    for (int i = 0; i < PLAN_KEYS && plan_tool(r->target)->key[i].path; i++) {
        if (plan_review_has(r, to->row, i, g))
            continue;
        fputs("      ", out);
        if (plan_row_value(to->row, i, 0, g, value))
            plan_put_setting(plan_tool(r->target), key_path(r, i, path), value, out);
        else
            fprintf(out, "remove %s", key_path(r, i, path));
        if (r->key[i])
            fprintf(out, " (line %d)", r->key[i]->line);
        putc('\n', out);
    }
}

/* Writes the best of all 27 if it is faster than the strategy and the tool cannot run it. */
static const char *fastest_elsewhere(const struct plan_review *r, const struct plan_search *s,
                                     const struct plan_price *now)
{
    const struct plan_price *order[PLAN_STRATEGIES];

    plan_list_order(s->list, order);
    return order[0]->feasible && order[0]->step_s < now->step_s * (1 - PLAN_TIE) &&
                   !plan_row_of(r->target, order[0]->strategy, &s->at.topo->groups, 0)
               ? plan_strategy_name(order[0]->strategy)
               : NULL;
}

static void put_state(const char *name, enum letter letter, const struct groups *g, FILE *out)
{
    fprintf(out, "%-16s", name);
    if (letter == LETTER_N)
        fprintf(out, "N: whole on each of the %d ranks\n", g->ranks);
    else if (letter == LETTER_G)
        fprintf(out, "G: one copy, shared by all %d ranks\n", g->ranks);
    else
        fprintf(out, "I: %d copies, each shared by the %d ranks of a group\n", g->count,
                groups_largest(g));
}

static const char *const kinds[PLAN_REMARK_KINDS] = {"differs", "not stated", "unknown key"};

void plan_review_print(const struct plan_review *r, const struct plan_search *s, FILE *out)
{
    struct neighbours n = neighbours_of(r, s);
    const struct groups *g = &s->at.topo->groups;
    const char *title = plan_tool(r->target)->title, *fastest = fastest_elsewhere(r, s, n.now);

    fprintf(out, "%s: %s for %s%s, parameters %s, gradients %s, sent as %s\n", r->tree.name,
            plan_strategy_name(s->strategy), title,
            s->at.keep ? ", parameters kept for the backward" : "",
            dtype_name(s->at.param_type), dtype_name(s->at.grad_type),
            dtype_name(s->at.wire_type));
    put_state("parameters", s->strategy.params, g, out);
    put_state("gradients", s->strategy.grads, g, out);
    put_state("optimizer state", s->strategy.optimizer, g, out);
    for (int kind = 0; kind < PLAN_REMARK_KINDS; kind++)
        for (size_t i = 0; i < r->remarks; i++)
            if ((int)r->remark[i].kind == kind)
                fprintf(out, "%s: %s\n", kinds[kind], r->remark[i].text);
    putc('\n', out);
    plan_search_print(s, out);
    fprintf(out, "\n%s %s%s\n", n.count ? "cheaper with" : "nothing is cheaper with", title,
            n.count ? ":" : "");
    for (int i = 0; i < n.count; i++)
        put_neighbour(r, s, &n.of[i], n.now, out);
    if (fastest)
        fprintf(out, "fastest of all 27: %s, for which %s has no settings\n", fastest, title);
}

void plan_review_print_json(const struct plan_review *r, const struct plan_search *s, FILE *out)
{
    static const char *const keys[] = {"differs", "not_stated", "unknown"};
    struct neighbours n = neighbours_of(r, s);
    struct jout j = jout_begin(out, "paro.plan.review/1");
    char path[128], value[PLAN_VALUE];

    jout_text(&j, "file", r->tree.name);
    jout_text(&j, "tool", plan_tool(r->target)->name);
    jout_text(&j, "strategy", plan_strategy_name(s->strategy));
    plan_put_batch(&j, &s->at);
    jout_int(&j, "seq", s->at.seq);
    jout_text(&j, "param_type", dtype_name(s->at.param_type));
    jout_text(&j, "wire_type", dtype_name(s->at.wire_type));
    jout_text(&j, "grad_type", dtype_name(s->at.grad_type));
    for (int kind = 0; kind < PLAN_REMARK_KINDS; kind++) {
        jout_open(&j, keys[kind], '[');
        for (size_t i = 0; i < r->remarks; i++)
            if ((int)r->remark[i].kind == kind)
                jout_text(&j, NULL, r->remark[i].text);
        jout_close(&j, ']');
    }
    plan_put_limits(&j, s);
    plan_put_feasible(&j, &s->at, n.now);
    plan_put_price(&j, n.now);
    jout_text(&j, "fastest_elsewhere", fastest_elsewhere(r, s, n.now));
    jout_open(&j, "cheaper", '[');
    for (int i = 0; i < n.count; i++) {
        jout_open(&j, NULL, '{');
        jout_text(&j, "strategy", plan_strategy_name(n.of[i].price->strategy));
        jout_bool(&j, "keeps", n.of[i].row->flags & PLAN_ROW_KEEPS);
        plan_put_price(&j, n.of[i].price);
        jout_open(&j, "settings", '{');
        for (int k = 0; k < PLAN_KEYS && plan_tool(r->target)->key[k].path; k++)
            if (!plan_review_has(r, n.of[i].row, k, &s->at.topo->groups))
                jout_text(&j, key_path(r, k, path),
                          plan_row_value(n.of[i].row, k, 0, &s->at.topo->groups, value));
        jout_close(&j, '}');
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_close(&j, '}');
}
