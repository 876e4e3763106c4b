/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows one model's pass over its data, and what it may ask for.  The posterior is state's. */
#include "rank/rank_blr.h"

#include <inttypes.h>

#include "base/mem.h"
#include "base/units.h"
#include "rank/rank_blr_parts.h"

/* More would hold a gigabyte of nothing but sums; as a bound it keeps products from overflow.
 */
static const int64_t COUNT_MAX = RANK_BLR_BYTES_MAX / (int64_t)sizeof(double);

static int check_var(const char *what, double v, struct err *err)
{
    if (v >= 1 / RANK_BLR_NUMBER_MAX && v <= RANK_BLR_NUMBER_MAX)
        return 0;
    return err_set(err, ERR_INPUT, "the %s variance is %g, expected a number from %g to %g",
                   what, v, 1 / RANK_BLR_NUMBER_MAX, RANK_BLR_NUMBER_MAX);
}

/* One estimate has no spread. */
static int check_count(const char *what, int64_t n, struct err *err)
{
    if (n == 0 || (n >= 2 && n <= COUNT_MAX))
        return 0;
    return err_set(err, ERR_INPUT, "%" PRId64 " %s, expected 0, or 2 to %" PRId64, n, what,
                   COUNT_MAX);
}

int rank_blr_check(const struct rank_blr_data *d, const struct rank_blr_options *o,
                   int64_t beside_bytes, struct err *err)
{
    struct units all, posterior, trials, most;

    if (check_var("prior", o->prior_var, err) || check_var("noise", o->noise_var, err) ||
        check_count("samples", o->samples, err) || check_count("repeats", o->repeats, err))
        return -1;
    if (o->k < 0 || o->k > RANK_BLR_K_MAX)
        return err_set(err, ERR_INPUT, "L_k of %d samples, expected 0 to %d", o->k,
                       RANK_BLR_K_MAX);
    int64_t of_state = rank_blr_state_bytes(d->features);
    int64_t of_trials = rank_blr_trials_bytes(d, o);
    int64_t bytes = of_state + of_trials + beside_bytes;
    if (bytes <= RANK_BLR_BYTES_MAX)
        return 0;
    return err_set(err, ERR_INPUT,
                   "'%s' needs %s of memory (%s for the posterior of %d features, %s for "
                   "samples, the rest for terms of rows), expected %s at most",
                   d->name, units_bytes(&all, (double)bytes),
                   units_bytes(&posterior, (double)of_state), d->features,
                   units_bytes(&trials, (double)of_trials),
                   units_bytes(&most, RANK_BLR_BYTES_MAX));
}

static int run_rows(const struct rank_blr_data *d, struct rank_blr_state *s,
                    struct rank_blr_trials *t, struct rank_blr *out, struct err *err)
{
    for (int64_t i = 0; i < d->rows; i++) {
        const double *x = d->x + i * d->features;
        struct rank_blr_item item;
        if (rank_blr_state_step(s, x, d->y[i], &item))
            return err_set(err, ERR_INPUT,
                           "'%s': row %" PRId64 " of %" PRId64
                           " overflows with prior variance %g and noise variance %g, expected "
                           "numbers nearer to each other",
                           d->name, i + 1, d->rows, out->prior_var, out->noise_var);
        rank_blr_trials_step(t, x, d->y[i], &item, s->gain);
        out->log_p += item.log_p;
        out->bound += item.bound;
        out->kl += item.kl;
        if (out->item)
            out->item[i] = item;
    }
    rank_blr_trials_end(t, out);
    return 0;
}

int rank_blr_run(const struct rank_blr_data *d, const struct rank_blr_options *o,
                 struct rank_blr *out, struct err *err)
{
    struct rank_blr new = {.name = d->name,
                           .rows = d->rows,
                           .features = d->features,
                           .prior_var = o->prior_var,
                           .noise_var = o->noise_var,
                           .k = o->k};
    struct rank_blr_state s = {0};
    struct rank_blr_trials t = {0};
    int64_t bytes = o->items ? d->rows * (int64_t)sizeof *new.item : 0;
    void *items = NULL;
    int rc = -1;

    if (rank_blr_check(d, o, bytes, err) ||
        (bytes && mem_buffer(bytes, "terms of rows", &items, err)))
        return -1;
    new.item = items;
    if (rank_blr_state_init(&s, d->features, 0, o->prior_var, o->noise_var, err) == 0 &&
        rank_blr_trials_init(&t, d, o, err) == 0)
        rc = run_rows(d, &s, &t, &new, err);
    rank_blr_trials_release(&t);
    rank_blr_state_release(&s);
    if (rc)
        rank_blr_release(&new);
    else
        *out = new;
    return rc;
}

void rank_blr_release(struct rank_blr *r)
{
    mem_free(r->item);
    *r = (struct rank_blr){0};
}
