/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows several models of one y: which of them the data speak for. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "rank/rank_blr_parts.h"

static int check_same(const struct rank_blr_data *a, const struct rank_blr_data *b,
                      struct err *err)
{
    if (a->rows != b->rows)
        return err_set(err, ERR_MISMATCH,
                       "'%s' has %" PRId64 " rows and '%s' %" PRId64
                       ", expected models of the same rows",
                       a->name, a->rows, b->name, b->rows);
    for (int64_t i = 0; i < a->rows; i++)
        if (a->y[i] != b->y[i])
            return err_set(err, ERR_MISMATCH,
                           "row %" PRId64 " has y %g in '%s' and %g in '%s', expected the same",
                           i + 1, a->y[i], a->name, b->y[i], b->name);
    return 0;
}

/*
 * y on samples phi_j ~ N(mean, var) of what each model j said of row i, independent of each
 * other, in their mean over all draws: the squared loss is then
 *
 *     E (y - w'phi)^2 = (y - w'mean)^2 + sum_j w_j^2 var_j
 *
 * so that a model pays for what it missed by and for what it did not know, as in L(D): where
 * models are alike in what they say together, the largest coefficient is the highest L(D)'s
 * (Lyle et al., section 4).  The second term is a row of its own, y = 0 and sqrt(var_j) in
 * column j alone; as the order of rows does not matter to where they lead, all rows' second
 * terms come last, added up.
 */
static int combine(const double *y, struct rank_blr_weight *model, int models, struct err *err)
{
    const struct rank_blr *first = &model[0].result;
    double *said = mem_new((size_t)models, sizeof *said);
    double *unsure = mem_new((size_t)models, sizeof *unsure);
    struct rank_blr_state s = {0};
    struct rank_blr_item item;
    int rc = rank_blr_state_init(&s, models, 1.0 / models, 1, first->noise_var, err);
    int over = 0;

    for (int64_t i = 0; rc == 0 && i < first->rows; i++) {
        for (int m = 0; m < models; m++) {
            said[m] = model[m].result.item[i].mean;
            unsure[m] += model[m].result.item[i].var;
        }
        over |= rank_blr_state_step(&s, said, y[i], &item);
    }
    memset(said, 0, (size_t)models * sizeof *said);
    for (int m = 0; rc == 0 && m < models; m++) {
        said[m] = sqrt(unsure[m]);
        over |= rank_blr_state_step(&s, said, 0, &item);
        said[m] = 0;
    }
    if (rc == 0 && over)
        rc = err_set(err, ERR_INPUT,
                     "the models' combination overflows with noise variance %g, expected "
                     "numbers nearer to each other",
                     first->noise_var);
    for (int m = 0; rc == 0 && m < models; m++)
        model[m].combined = s.mean[m];
    mem_free(said);
    mem_free(unsure);
    rank_blr_state_release(&s);
    return rc;
}

static void weigh_evidence(struct rank_blr_weight *model, int models)
{
    double most = -INFINITY, sum = 0;

    for (int m = 0; m < models; m++)
        most = fmax(most, model[m].result.log_p);
    for (int m = 0; m < models; m++)
        sum += exp(model[m].result.log_p - most);
    for (int m = 0; m < models; m++)
        model[m].evidence = exp(model[m].result.log_p - most) / sum;
}

/* Highest log P(D) first; of equals the one that was given first. */
static void order(struct rank_blr_weight *model, int models)
{
    for (int m = 1; m < models; m++) {
        struct rank_blr_weight one = model[m];
        int to = m;
        for (; to > 0 && model[to - 1].result.log_p < one.result.log_p; to--)
            model[to] = model[to - 1];
        model[to] = one;
    }
}

int rank_blr_weigh(const struct rank_blr_data *data, int models,
                   const struct rank_blr_options *o, struct rank_blr_weights *out,
                   struct err *err)
{
    struct rank_blr_options with = *o;
    int items = o->items || models > 1, weighed = models > 1 && models < RANK_BLR_FEATURES_MAX;
    int64_t of_items = items * data->rows * models * (int64_t)sizeof(struct rank_blr_item);
    int64_t of_weights = weighed ? rank_blr_state_bytes(models) : 0;
    struct rank_blr_weights new = {.models = models};
    int rc = 0;

    if (models < 1 || models > RANK_BLR_FEATURES_MAX)
        return err_set(err, ERR_INPUT, "%d models, expected 1 to %d", models,
                       RANK_BLR_FEATURES_MAX);
    for (int m = 0; m < models; m++)
        if ((m && check_same(&data[0], &data[m], err)) ||
            rank_blr_check(&data[m], o, of_items + of_weights, err))
            return -1;
    with.items = items;
    new.model = mem_new((size_t)models, sizeof *new.model);
    for (int m = 0; rc == 0 && m < models; m++)
        rc = rank_blr_run(&data[m], &with, &new.model[m].result, err);
    if (rc == 0 && models > 1)
        rc = combine(data[0].y, new.model, models, err);
    for (int m = 0; m < models && !o->items; m++) {
        mem_free(new.model[m].result.item);
        new.model[m].result.item = NULL;
    }
    if (rc) {
        rank_blr_weights_release(&new);
        return -1;
    }
    weigh_evidence(new.model, models);
    order(new.model, models);
    *out = new;
    return 0;
}

void rank_blr_weights_release(struct rank_blr_weights *w)
{
    for (int m = 0; m < w->models; m++)
        rank_blr_release(&w->model[m].result);
    mem_free(w->model);
    *w = (struct rank_blr_weights){0};
}
