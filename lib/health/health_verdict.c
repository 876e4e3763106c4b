/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the states of a verdict, and how findings are kept. */
#include "health/health_verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const char *health_state_name(enum health_state s)
{
    static const char *const names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

    return names[s];
}

/* What is known to be bad comes before what is not known. */
int health_state_rank(enum health_state s)
{
    static const int rank[] = {
        [HEALTH_OK] = 0, [HEALTH_UNKNOWN] = 1, [HEALTH_WARNING] = 2, [HEALTH_CRITICAL] = 3};

    return rank[s];
}

void health_rules_init(struct health_rules *r)
{
    *r = (struct health_rules){.warn = {96, INFINITY, 0},
                               .crit = {75, INFINITY, 0},
                               .late_warn = {-INFINITY, 200, 0},
                               .late_crit = {-INFINITY, 500, 0}};
}

struct health_finding health_finding_new(enum health_state state, int code)
{
    const struct health_check *c = health_check_find(code);
    struct health_finding f = {.state = state,
                               .code = code,
                               .action = c ? c->action : HEALTH_MONITOR,
                               .host = -1,
                               .other = -1,
                               .rank = -1,
                               .way = -1,
                               .measured = NAN,
                               .expected = NAN,
                               .peers = NAN,
                               .percent = NAN,
                               .z = NAN,
                               .samples = -1,
                               .partners = -1,
                               .saw = -1};

    return f;
}

static int order(const void *a, const void *b)
{
    const struct health_finding *p = a, *q = b;
    const int x[] = {p->code, p->host, p->other, p->rank, p->way},
              y[] = {q->code, q->host, q->other, q->rank, q->way};

    for (int i = 0; i < 5; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    int link = strcmp(p->link, q->link);
    return link ? link : strcmp(p->text, q->text);
}

void health_verdict_sort(struct health_verdict *v)
{
    if (v->findings)
        qsort(v->finding, (size_t)v->findings, sizeof *v->finding, order);
}

void health_verdict_add(struct health_verdict *v, const struct health_finding *f)
{
    v->finding = mem_grow(v->finding, &v->room, (size_t)v->findings + 1, sizeof *v->finding);
    v->finding[v->findings++] = *f;
    if (health_state_rank(f->state) > health_state_rank(v->state))
        v->state = f->state;
}

void health_verdict_say(struct health_verdict *v, struct health_finding *f, const char *fmt,
                        ...)
{
    va_list list;

    va_start(list, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, list);
    va_end(list);
    health_verdict_add(v, f);
}

void health_verdict_release(struct health_verdict *v)
{
    mem_free(v->port);
    mem_free(v->finding);
    *v = (struct health_verdict){0};
}
