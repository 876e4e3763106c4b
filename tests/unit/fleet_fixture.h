/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FLEET_FIXTURE_H
#define FLEET_FIXTURE_H

/* Synthetic fabrics, measured and judged, and files as texts: for tests under cmocka. */
#include <stdio.h>

#include "health/health_fleet.h"
#include "health/health_store.h"
#include "health/health_verdict.h"

static struct health_rules rules;

static inline struct health_fleet fleet(const char *spec, uint64_t seed)
{
    struct health_fleet f;
    struct err err;

    if (health_fleet_parse(spec, &f, &err))
        fail_msg("%s", err.text);
    f.seed = seed;
    return f;
}

static inline struct health_data data(const char *spec, uint64_t seed)
{
    struct health_fleet f = fleet(spec, seed);
    struct health_data d;
    struct err err;

    if (health_fleet_run(&f, &rules, &d, &err))
        fail_msg("%s: %s", spec, err.text);
    return d;
}

/* Freed by free. */
/* noinline: GCC 12 else takes what it returns for the address of `text`. */
static __attribute__((noinline, unused)) char *store_text(const struct health_store *s,
                                                          const void *whole, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);

    health_store_print(s, whole, out);
    fclose(out);
    return text;
}

static inline int store_parse(const struct health_store *s, const char *text, size_t bytes,
                              void *whole, struct err *err)
{
    return health_store_parse(s, "file", text, (int64_t)bytes, whole, err);
}

static inline struct health_verdict judge(const struct health_data *d)
{
    struct health_verdict v;
    struct err err;

    if (health_judge(d, &rules, &v, &err))
        fail_msg("%s", err.text);
    return v;
}

#endif
