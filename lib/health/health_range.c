/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the ranges of the Monitoring Plugins guidelines (section "Threshold and Ranges"). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "health/health.h"

#define RANGE_MOST 1e15

/* A rate within a millionth of a threshold is at it. */
enum { DECIMALS_MOST = 6 };

static int parse_end(const char *text, double *out, struct err *err)
{
    return num_f64(text, -RANGE_MOST, RANGE_MOST, out, err);
}

static int parse(char *text, struct health_range *r, struct err *err)
{
    char *colon = strchr(text, ':');
    const char *end = colon ? colon + 1 : text;

    *r = (struct health_range){.end = INFINITY};
    if (colon) {
        *colon = 0;
        if (strcmp(text, "~") == 0)
            r->start = -INFINITY;
        else if (*text && parse_end(text, &r->start, err))
            return -1;
    }
    if (!colon || *end)
        if (parse_end(end, &r->end, err))
            return -1;
    if (r->start > r->end)
        return err_set(err, ERR_INPUT, "start %g is above end %g", r->start, r->end);
    return 0;
}

int health_range_parse(const char *text, struct health_range *out, struct err *err)
{
    struct health_range r = {0};
    char *copy = mem_dup(text);
    int inside = copy[0] == '@', rc = parse(copy + inside, &r, err);

    if (rc == 0) {
        r.inside = inside;
        *out = r;
    } else {
        err_prefix(err, "range '%s', expected [@][start:][end]: ", text);
    }
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

int health_rules_alert(const struct health_rules *r, double percent)
{
    return health_range_alerts(&r->warn, percent) || health_range_alerts(&r->crit, percent);
}

static int prints_alike(double a, double b, int decimals)
{
    char text[2][40];

    snprintf(text[0], sizeof text[0], "%.*f", decimals, a);
    snprintf(text[1], sizeof text[1], "%.*f", decimals, b);
    return strcmp(text[0], text[1]) == 0;
}

int health_rules_decimals(const struct health_rules *r, double v, double unit, int least)
{
    const double end[] = {r->warn.start, r->warn.end, r->crit.start, r->crit.end};
    int n = least;

    for (int i = 0; i < 4; i++)
        while (n < DECIMALS_MOST && isfinite(end[i]) && fabs(v - end[i] * unit) > 0 &&
               prints_alike(v, end[i] * unit, n))
            n++;
    return n;
}

const char *health_percent(struct units *u, const struct health_rules *r, double percent)
{
    snprintf(u->text, sizeof u->text, "%.*f %%", health_rules_decimals(r, percent, 1, 0),
             percent);
    return u->text;
}
