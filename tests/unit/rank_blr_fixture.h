/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_BLR_FIXTURE_H
#define RANK_BLR_FIXTURE_H

/* The line of eight points whose numbers are known, and a way to run a model on data. */
#include <math.h>

#include "rank/rank_blr_parts.h"
#include "rank_fixture.h"

static const double PI = 3.14159265358979323846;

static const char line_tsv[] = "one\tposition\ty\n"
                               "1\t0\t0.10\n1\t0.125\t0.45\n1\t0.25\t0.30\n1\t0.375\t0.80\n"
                               "1\t0.5\t0.95\n1\t0.625\t0.90\n1\t0.75\t1.40\n1\t0.875\t1.35\n";

static const struct rank_blr_options line_options = {.prior_var = 1, .noise_var = 0.25};

static inline struct rank_blr_data blr_parse(const char *name, const char *text)
{
    struct rank_blr_data d = {0};
    struct err err = {0};

    if (rank_blr_read_text(name, text, (int64_t)strlen(text), &d, &err))
        fail_msg("%s", err.text);
    return d;
}

static inline struct rank_blr blr_run(const struct rank_blr_data *d,
                                      const struct rank_blr_options *o)
{
    struct rank_blr r = {0};
    struct err err = {0};

    if (rank_blr_run(d, o, &r, &err))
        fail_msg("%s", err.text);
    return r;
}

#endif
