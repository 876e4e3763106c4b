/* SPDX-License-Identifier: BSD-3-Clause */
/* Predicts the hours that a number of tokens takes, and what they cost. */
#include "plan/plan_budget.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/units.h"
#include "plan/plan_traffic.h"

/* Removes an ending, if the text has it. */
static int cut(char *text, const char *end)
{
    int ends = io_ends_with(text, end);

    if (ends)
        text[strlen(text) - strlen(end)] = 0;
    return ends;
}

int plan_budget_parse(const char *text, struct plan_budget *b, struct err *err)
{
    char *number = mem_dup(text), *word = number + strspn(number, "-.0123456789");
    int hourly = cut(number, "/h"), per_rank = cut(number, "/rank"), ok = hourly;
    char *currency = mem_dup(word + strspn(word, " "));
    double price = 0;
    struct err ignored;

    if (!per_rank)
        cut(currency, "/host");
    *word = 0;
    ok = ok && strlen(currency) < PLAN_CURRENCY &&
         num_f64(number, 0, 1e12, &price, &ignored) == 0 && price > 0;
    for (const char *c = currency; *c; c++)
        ok = ok && !iscntrl((unsigned char)*c) && *c != '/';
    if (ok) {
        *b = (struct plan_budget){.price = price, .per_rank = per_rank};
        strcpy(b->currency, currency);
    }
    mem_free(currency);
    mem_free(number);
    return ok ? 0
              : err_set(err, ERR_INPUT,
                        "'%s', expected a price above 0 of an hour, as 32.77/h or"
                        " '32.77 USD/host/h' for each host, or 2.10EUR/rank/h",
                        text);
}

void plan_budget_set(const struct plan_case *c, struct plan_price *p)
{
    struct plan_budget *b = &p->budget;
    double per_h = 3600 * plan_useful_rate(p);

    *b = c->budget;
    b->hours = b->tokens / per_h;
    double h_cost = b->price * (b->per_rank ? c->topo->groups.ranks : b->hosts);
    b->cost = b->hours * h_cost;
    b->million_cost = 1e6 / per_h * h_cost;
}

const char *plan_budget_number(struct units *u, double v)
{
    /* A token costs less than a cent: fixed digits would be zeros. */
    return !isfinite(v) ? "?" : v < 1 ? units_plain(u, v) : units_fixed(u, v);
}

const char *plan_budget_print(const struct plan_price *p, char text[PLAN_BUDGET_TEXT])
{
    const struct plan_budget *b = &p->budget;
    const char *blank = b->currency[0] ? " " : "";
    FILE *f = fmemopen(text, PLAN_BUDGET_TEXT, "w");
    struct units u[2];

    text[0] = 0;
    if (!f)
        return text;
    if (b->tokens > 0)
        fprintf(f, "%s tokens in %s h", units_count(&u[0], b->tokens),
                plan_budget_number(&u[1], b->hours));
    if (b->tokens > 0 && b->price > 0)
        fprintf(f, " for %s%s%s, ", plan_budget_number(u, b->cost), blank, b->currency);
    if (b->price > 0)
        fprintf(f, "%s%s%s per million tokens", plan_budget_number(u, b->million_cost), blank,
                b->currency);
    if (b->hosts)
        fprintf(f, ", on %d host%s%s", b->hosts, b->hosts > 1 ? "s" : "",
                p->survival.mtbf_s > 0 ? ", failures counted" : "");
    fclose(f);
    return text;
}

void plan_budget_put(const struct plan_budget *b, int heads, FILE *out)
{
    const char *const head[] = {"hours", "cost", "cost/Mtok"};
    const double value[] = {b->hours, b->cost, b->million_cost};
    int timed = b->tokens > 0, priced = b->price > 0;
    const int shown[] = {timed, timed && priced, priced};
    struct units u;

    for (int i = 0; i < 3; i++)
        if (shown[i])
            fprintf(out, " %9s", heads ? head[i] : plan_budget_number(&u, value[i]));
}
