/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of ranges of the monitoring plugins, [@][start:]end. */
#include "reader_fuzz.h"

#include <math.h>

#include "base/num.h"
#include "health/health.h"

static int parse(struct health_range *r, const char *text)
{
    struct err err = {0};

    *r = (struct health_range){.start = 77};
    if (health_range_parse(text, r, &err) == 0)
        return 1;
    assert(err.code == ERR_INPUT && strstr(err.text, "range '") && r->start == 77);
    return 0;
}

/* An end as the guidelines have it; an empty one is `open`. */
static int is_end(const char *from, size_t n, double open, double *out)
{
    char text[64];
    struct err err;

    *out = open;
    if (n == 0)
        return 1;
    snprintf(text, sizeof text, "%.*s", n < sizeof text ? (int)n : 63, from);
    return num_f64(text, -1e15, 1e15, out, &err) == 0;
}

/* The second opinion: start and end cut out by hand. */
static int want(const char *text, struct health_range *r)
{
    const char *p = text + (*text == '@'), *colon = strchr(p, ':');
    const char *end = colon ? colon + 1 : p;

    r->inside = *text == '@';
    r->start = 0;
    if (colon && colon == p + 1 && *p == '~')
        r->start = -INFINITY;
    else if (colon && !is_end(p, (size_t)(colon - p), 0, &r->start))
        return 0;
    if ((!colon && !*end) || !is_end(end, strlen(end), INFINITY, &r->end))
        return 0;
    return r->start <= r->end;
}

static int same(const struct health_range *a, const struct health_range *b)
{
    return a->start == b->start && a->end == b->end && a->inside == b->inside;
}

static void check_alerts(const struct health_range *r)
{
    const double at[] = {r->start, r->end, nextafter(r->start, -INFINITY),
                         nextafter(r->end, INFINITY), r->start / 2 + r->end / 2};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        int within = !(at[i] < r->start) && !(at[i] > r->end);
        if (!isnan(at[i]))
            assert(health_range_alerts(r, at[i]) == (r->inside ? within : !within));
    }
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct health_range r, ref = {0}, back;
    char printed[80], start[32] = "~", end[32] = "";

    if (bytes >= 64)
        return 0;
    char *text = fuzz_copy(data, bytes);
    int taken = parse(&r, text);
    assert(taken == want(text, &ref));
    mem_free(text);
    if (!taken)
        return 0;
    assert(same(&r, &ref));
    if (isfinite(r.start))
        snprintf(start, sizeof start, "%.17g", r.start);
    if (isfinite(r.end))
        snprintf(end, sizeof end, "%.17g", r.end);
    snprintf(printed, sizeof printed, "%s%s:%s", r.inside ? "@" : "", start, end);
    taken = parse(&back, printed);
    assert(taken && same(&r, &back));
    check_alerts(&r);
    return 1;
}

FUZZ_SET(.name = "range", .longest = 40, .cases = 60000, .part = 50, .ends = "@~:.e\n",
         .words = FUZZ_LIST("@", "~", ":", "0", "-0", "10", "1e15", ".", "-1e3", "1e-30", "nan",
                            " ", "010", "\xff"),
         .text = {FUZZ_TEXT("10"), FUZZ_TEXT("10:"), FUZZ_TEXT("~:10"), FUZZ_TEXT("@10:20"),
                  FUZZ_TEXT("-1e15:.5"), FUZZ_TEXT(":"), FUZZ_TEXT("~:")});
