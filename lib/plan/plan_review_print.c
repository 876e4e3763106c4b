/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints what a configuration of another tool amounts to, and what would be cheaper: the other
 * rows of the tool's table that fit and take less time, nearest first, with the keys in which
 * they differ from the file.
 */
#include "plan/plan_review.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "plan/plan_traffic.h"
#include "value/value_json_out.h"

enum { NEIGHBOURS = 16 }; /* rows of a tool with different strategies, at most */

struct neighbour {
    const struct plan_row *row;
    struct plan_price price;
    int keeps, steps, changes;
};

static int by_nearness(const void *a, const void *b)
{
    const struct neighbour *x = a, *y = b;
    int d = MEM_ORDER(x, y, steps);

    return d ? d : MEM_ORDER(x, y, price.step_s);
}

/* Lists the cheaper strategies of the tool, each with the row of the fewest changes. */
static int list_neighbours(const struct plan_review *r, const struct plan_search *s,
                           const struct plan_price *now, struct neighbour list[NEIGHBOURS])
{
    const struct groups *g = &s->at.topo->groups;
    struct plan_price other[PLAN_STRATEGIES]; /* with the other value of `keep` */
    struct plan_case c = s->at;
    const struct plan_row *row = NULL;
    int count = 0, at;

    c.keep = c.keep ? 0 : PLAN_KEEP_ALL;
    plan_price_all(&c, other);
    while ((row = plan_row_next(r->target, row))) {
        struct plan_strategy to = plan_row_strategy(row, s->at.accum);
        int keeps = (row->flags & PLAN_ROW_KEEPS) != 0, same = keeps == (s->at.keep > 0);
        const struct plan_price *p = (same ? s->list : other) + plan_strategy_index(to);
        struct neighbour new = {row, *p, keeps, plan_steps_between(s->strategy, to), 0};
        if (p == now || !p->feasible || (!same && !s->at.model->unit) ||
            row->flags & PLAN_ROW_HPZ || !plan_can_run(r->target, to, g) ||
            strcmp(plan_plain_name(to, g), plan_strategy_name(to)) != 0 ||
            (now->feasible && p->step_s >= now->step_s * (1 - PLAN_TIE)))
            continue;
        for (int i = 0; i < r->tool->keys; i++)
            new.changes += !plan_review_has(r, row, i, g);
        for (at = 0; at < count && (list[at].keeps != keeps ||
                                    plan_steps_between(list[at].price.strategy, to) > 0);)
            at++;
        if (at == count || new.changes < list[at].changes)
            list[at] = new;
        count += at == count;
    }
    qsort(list, (size_t)count, sizeof *list, by_nearness);
    return count;
}

/*
 * Writes the path of a key as the file has it, and the value that a row has; returns whether
 * that is a change.  An empty value removes the key.
 */
static int change_of(const struct plan_review *r, const struct plan_row *row, int key,
                     const struct groups *g, char path[128], char value[PLAN_VALUE])
{
    const struct tree_node *n = r->at[PLAN_STATED_KEY + key];
    const char *above = n && n->parent->key ? n->parent->key : "";

    snprintf(path, 128, "%s%s%s", above, *above ? "." : "",
             n ? n->key : r->tool->key[key].path);
    if (!plan_row_value(row, key, g, value))
        *value = 0;
    value[strcspn(value, "|")] = 0;
    return !plan_review_has(r, row, key, g);
}

static void put_neighbour(const struct plan_review *r, const struct plan_search *s,
                          const struct neighbour *to, const struct plan_price *now, FILE *out)
{
    const struct plan_price *p = &to->price;
    const char *sets = r->tool->sets;
    struct units step, slow, memory;
    char path[128], value[PLAN_VALUE];

    fprintf(out, "  %s%s: step %s (%+.1f %%), slow bytes %s, memory %s%s\n",
            plan_strategy_name(p->strategy),
            to->keeps ? ", parameters kept for the backward" : "", units_time(&step, p->step_s),
            100 * (p->step_s / now->step_s - 1), units_sent(&slow, p->slow_bytes),
            units_bytes(&memory, p->memory.total),
            to->row->flags & PLAN_ROW_EACH && s->at.accum > 1
                ? "; gradients cross groups in each micro-step, which is not priced"
                : "");
    for (int i = 0; i < r->tool->keys; i++) {
        const struct tree_node *n = r->at[PLAN_STATED_KEY + i];
        if (!change_of(r, to->row, i, &s->at.topo->groups, path, value))
            continue;
        int bare = *path == '-' && strcmp(value, "true") == 0; /* a flag */
        fprintf(out, "      %s%s%s%s", *value ? "" : "remove ", path,
                *value && !bare ? sets : "", bare ? "" : value);
        if (n)
            fprintf(out, " (line %d)", n->line);
        putc('\n', out);
    }
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

static void print_text(const struct plan_review *r, const struct plan_search *s,
                       const struct plan_price *now, const struct neighbour *list, int count,
                       FILE *out)
{
    static const char *const kinds[] = {"differs", "not stated"};
    const struct groups *g = &s->at.topo->groups;
    const char *title = r->tool->title, *before = "no effect: ";

    fprintf(out, "%s: %s for %s%s, parameters %s, gradients %s, sent as %s\n", r->tree.name,
            plan_strategy_name(s->strategy), title,
            s->at.keep ? ", parameters kept for the backward" : "",
            dtype_name(s->at.param_type), dtype_name(s->at.grad_type),
            dtype_name(s->at.wire_type));
    put_state("parameters", s->strategy.params, g, out);
    put_state("gradients", s->strategy.grads, g, out);
    put_state("optimizer state", s->strategy.optimizer, g, out);
    for (int kind = 0; kind < PLAN_REMARK_UNUSED; kind++)
        for (size_t i = 0; i < r->remarks; i++)
            if ((int)r->remark[i].kind == kind)
                fprintf(out, "%s: %s\n", kinds[kind], r->remark[i].text);
    for (size_t i = 0; i < r->remarks; i++)
        if (r->remark[i].kind == PLAN_REMARK_UNUSED) {
            fprintf(out, "%s%s", before, r->remark[i].text);
            before = ", ";
        }
    fputs(*before == ',' ? "\n" : "", out);
    putc('\n', out);
    plan_search_print(s, out);
    fprintf(out, "\n%s with %s%s\n", count ? "cheaper" : "nothing is cheaper", title,
            count ? ":" : "");
    for (int i = 0; i < count; i++)
        put_neighbour(r, s, &list[i], now, out);
}

static void print_json(const struct plan_review *r, const struct plan_search *s,
                       const struct plan_price *now, const struct neighbour *list, int count,
                       FILE *out)
{
    static const char *const keys[] = {"differs", "not_stated", "no_effect"};
    struct jout j = jout_begin(out, "paro.plan.review/1");
    char path[128], value[PLAN_VALUE];

    jout_text(&j, "file", r->tree.name);
    jout_text(&j, "tool", r->tool->name);
    jout_text(&j, "strategy", plan_strategy_name(s->strategy));
    plan_put_batch(&j, &s->at);
    jout_int(&j, "seq", s->at.seq);
    jout_text(&j, "param_type", dtype_name(s->at.param_type));
    jout_text(&j, "wire_type", dtype_name(s->at.wire_type));
    jout_text(&j, "grad_type", dtype_name(s->at.grad_type));
    for (int kind = 0; kind < 3; kind++) {
        jout_open(&j, keys[kind], '[');
        for (size_t i = 0; i < r->remarks; i++)
            if ((int)r->remark[i].kind == kind)
                jout_text(&j, NULL, r->remark[i].text);
        jout_close(&j, ']');
    }
    plan_put_limits(&j, s);
    plan_put_feasible(&j, &s->at, now);
    plan_put_price(&j, now);
    jout_open(&j, "cheaper", '[');
    for (int i = 0; i < count; i++) {
        jout_open(&j, NULL, '{');
        jout_text(&j, "strategy", plan_strategy_name(list[i].price.strategy));
        jout_bool(&j, "keeps", list[i].keeps);
        plan_put_price(&j, &list[i].price);
        jout_open(&j, "settings", '{');
        for (int k = 0; k < r->tool->keys; k++)
            if (change_of(r, list[i].row, k, &s->at.topo->groups, path, value))
                jout_text(&j, path, *value ? value : NULL);
        jout_close(&j, '}');
        jout_close(&j, '}');
    }
    jout_end(&j);
}

void plan_review_print(const struct plan_review *r, const struct plan_search *s, int json,
                       FILE *out)
{
    const struct plan_price *now = &s->list[plan_strategy_index(s->strategy)];
    struct neighbour list[NEIGHBOURS];
    int count = list_neighbours(r, s, now, list);

    (json ? print_json : print_text)(r, s, now, list, count, out);
}
