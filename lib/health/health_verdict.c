/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the words of a verdict: states, codes, actions; and how findings are kept. */
#include "health/health_verdict.h"

#include <math.h>
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

const char *health_action_name(enum health_action a)
{
    static const char *const names[] = {"monitor", "retest", "operator", "isolate"};

    return names[a];
}

const struct health_code health_codes[] = {
    {103, HEALTH_OPERATOR, "every check is disabled"},
    {201, HEALTH_ISOLATE, "a port lost its link"},
    {202, HEALTH_ISOLATE, "a host does not answer"},
    {203, HEALTH_OPERATOR, "a link counts errors"},
    {204, HEALTH_OPERATOR, "a link is slower than it should be"},
    {205, HEALTH_OPERATOR, "a link comes and goes"},
    {206, HEALTH_ISOLATE, "bytes do not come through"},
    {207, HEALTH_OPERATOR, "a port that was in use is gone or set down"},
    {208, HEALTH_OPERATOR, "a port has a link and is not in use"},
    {209, HEALTH_OPERATOR, "a counter of errors stands at its end"},
    {210, HEALTH_OPERATOR, "a file of a port cannot be read"},
    {301, HEALTH_OPERATOR, "a port is slow"},
    {302, HEALTH_RETEST, "one of two ports is slow, which one is not known"},
    {303, HEALTH_RETEST, "a port or a pair seems slow, and it is not certain"},
    {304, HEALTH_OPERATOR, "a pair is slow, both ends are well with others"},
    {306, HEALTH_OPERATOR, "all ports are off their baseline together"},
    {307, HEALTH_OPERATOR, "a rank is slower than the others of its host"},
    {308, HEALTH_MONITOR, "all hosts together are slow, and no pair is"},
    {401, HEALTH_OPERATOR, "the way to a host takes long"},
    {501, HEALTH_ISOLATE, "data arrived wrong"},
    {502, HEALTH_ISOLATE, "a GPU, or the copy to or from it, made data wrong"},
    {901, HEALTH_RETEST, "the time was over before the check was"},
    {902, HEALTH_RETEST, "a host could not measure"},
    {903, HEALTH_RETEST, "a port was measured too seldom"},
    {0, HEALTH_MONITOR, NULL},
};

const struct health_code *health_code_find(int number)
{
    for (const struct health_code *c = health_codes; c->number; c++)
        if (c->number == number)
            return c;
    return NULL;
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
    const struct health_code *c = health_code_find(code);
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

void health_verdict_release(struct health_verdict *v)
{
    mem_free(v->port);
    mem_free(v->finding);
    *v = (struct health_verdict){0};
}
