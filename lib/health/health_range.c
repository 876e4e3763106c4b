/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the ranges of the Monitoring Plugins guidelines (section "Threshold and Ranges"). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "health/health.h"

#define RANGE_MOST 1e15

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

int health_range_alerts(const struct health_range *r, double v)
{
    int in = v >= r->start && v <= r->end;

    return r->inside ? in : !in;
}

int health_rules_alert(const struct health_rules *r, double percent)
{
    return health_range_alerts(&r->warn, percent) || health_range_alerts(&r->crit, percent);
}
