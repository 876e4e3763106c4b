/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements states, findings, and the ranges of the Monitoring Plugins guidelines (section
 * "Threshold and Ranges").
 */
#include "health/health_verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

const char *health_state_name(enum health_state s)
{
    static const char *const names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

    return names[s];
}

/* A known fault comes before an unknown state. */
int health_state_rank(enum health_state s)
{
    static const int rank[] = {
        [HEALTH_OK] = 0, [HEALTH_UNKNOWN] = 1, [HEALTH_WARNING] = 2, [HEALTH_CRITICAL] = 3};

    return rank[s];
}

enum health_state health_worse(enum health_state a, enum health_state b)
{
    return health_state_rank(b) > health_state_rank(a) ? b : a;
}

/* ---- findings ---- */

struct health_finding health_finding_new(enum health_state state, int code)
{
    const struct health_check *c = health_check_find(code);
    struct health_finding f = {.state = state, .code = code};

    f.confirmed = code / 100 == 2 || code / 100 == 5; /* counted, not estimated */
    f.action = c ? c->action : HEALTH_MONITOR;
    f.host = f.other = f.rank = f.way = f.samples = f.partners = f.saw = -1;
    f.measured = f.expected = f.peers = f.percent = f.z = NAN;
    return f;
}

static int verdict_order(const void *a, const void *b)
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
        qsort(v->finding, (size_t)v->findings, sizeof *v->finding, verdict_order);
}

void health_verdict_add(struct health_verdict *v, const struct health_finding *f)
{
    v->finding = mem_grow(v->finding, &v->space, (size_t)v->findings + 1, sizeof *v->finding);
    v->finding[v->findings++] = *f;
    v->state = health_worse(v->state, f->state);
}

struct health_finding *health_verdict_addf(struct health_verdict *v, enum health_state state,
                                           int code, int host, const char *fmt, ...)
{
    struct health_finding f = health_finding_new(state, code);
    va_list list;

    f.host = host;
    va_start(list, fmt);
    vsnprintf(f.text, sizeof f.text, fmt, list);
    va_end(list);
    health_verdict_add(v, &f);
    return &v->finding[v->findings - 1];
}

void health_verdict_release(struct health_verdict *v)
{
    mem_free(v->port);
    mem_free(v->finding);
    *v = (struct health_verdict){0};
}

/* ---- ranges ---- */

#define RANGE_MOST 1e15

/* A rate within a millionth of a threshold equals it. */
enum { DECIMALS_MOST = 6 };

int health_range_parse(const char *text, struct health_range *out, struct err *err)
{
    int inside = text[0] == '@', rc = 0;
    struct health_range r = {.end = INFINITY, .inside = inside};
    char *copy = mem_dup(text + inside), *colon = strchr(copy, ':');
    const char *end = colon ? colon + 1 : copy;

    if (colon)
        *colon = 0;
    if (colon && strcmp(copy, "~") == 0)
        r.start = -INFINITY;
    else if (colon && *copy)
        rc = num_f64(copy, -RANGE_MOST, RANGE_MOST, &r.start, err);
    if (rc == 0 && (!colon || *end))
        rc = num_f64(end, -RANGE_MOST, RANGE_MOST, &r.end, err);
    if (rc == 0 && r.start > r.end)
        rc = err_set(err, ERR_INPUT, "start %g is above end %g", r.start, r.end);
    if (rc)
        err_prefix(err, "range '%s', expected [@][start:][end]: ", text);
    else
        *out = r;
    mem_free(copy);
    return rc;
}

int health_range_parse_rate(const char *text, struct health_range *out, struct err *err)
{
    struct health_range r;

    if (health_range_parse(text, &r, err))
        return -1;
    if (health_range_alerts(&r, 100))
        return err_set(
            err, ERR_INPUT,
            "range '%s' alerts at 100 %%, the expected rate, expected one that alerts"
            " below it, such as 90:",
            text);
    if (!health_range_alerts(&r, 0))
        return err_set(
            err, ERR_INPUT,
            "range '%s' alerts on no low rate, expected one that does, such as 90:", text);
    *out = r;
    return 0;
}

int health_range_alerts(const struct health_range *r, double v)
{
    int in = v >= r->start && v <= r->end;

    return r->inside ? in : !in;
}

int health_range_check(const char *warn, const char *crit, struct err *err)
{
    struct health_range w, c;

    if (!warn || !crit || health_range_parse(warn, &w, err) ||
        health_range_parse(crit, &c, err))
        return 0; /* the option parser has reported it */
    const double end[] = {0, w.start, w.end, c.start, c.end};
    for (size_t i = 0; i < 3 * sizeof end / sizeof *end; i++) {
        double v = end[i / 3];
        if (i % 3)
            v = nextafter(v, i % 3 == 1 ? -INFINITY : INFINITY);
        if (v >= 0 && !isinf(v) && health_range_alerts(&c, v) && !health_range_alerts(&w, v))
            return err_set(err, ERR_INPUT,
                           "--critical '%s' alerts at %g where --warning '%s' does not,"
                           " expected a warning wherever it is critical",
                           crit, v, warn);
    }
    return 0;
}

void health_rules_init(struct health_rules *r)
{
    *r = (struct health_rules){.warn = {96, INFINITY, 0},
                               .crit = {75, INFINITY, 0},
                               .late_warn = {-INFINITY, 200, 0},
                               .late_crit = {-INFINITY, 500, 0}};
}

enum health_state health_rules_state(const struct health_rules *r, double percent)
{
    return health_range_alerts(&r->crit, percent)   ? HEALTH_CRITICAL
           : health_range_alerts(&r->warn, percent) ? HEALTH_WARNING
                                                    : HEALTH_OK;
}

int health_rules_decimals(const struct health_rules *r, double v, double unit, int least)
{
    const double end[] = {r->warn.start, r->warn.end, r->crit.start, r->crit.end};
    char text[2][40];
    int n = least;

    for (int i = 0; i < 4; i++)
        for (; n < DECIMALS_MOST && isfinite(end[i]) && fabs(v - end[i] * unit) > 0; n++) {
            snprintf(text[0], sizeof text[0], "%.*f", n, v);
            snprintf(text[1], sizeof text[1], "%.*f", n, end[i] * unit);
            if (strcmp(text[0], text[1]))
                break;
        }
    return n;
}

const char *health_percent(struct units *u, const struct health_rules *r, double percent)
{
    snprintf(u->text, sizeof u->text, "%.*f %%", health_rules_decimals(r, percent, 1, 0),
             percent);
    return u->text;
}
