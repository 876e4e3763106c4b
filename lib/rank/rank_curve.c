/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes epochs, discards steps that a resumed run replaces, and scores training speed. */
#include "rank/rank_curve.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

struct rank_back { /* state of an epoch after a line */
    int64_t step, n;
    double sum;
};

static const char *const names[RANK_METHODS] = {"tse",      "tse-e", "tse-ema",
                                                "ema-code", "sotl",  "last"};

const char *rank_method_name(enum rank_method m)
{
    return names[m];
}

static void curve_begin(struct rank_curve *c)
{
    c->count = 0;
    c->first = 0;
    c->last = -1;
    c->bad = -1;
    c->gap = 1;
    c->open = c->n = c->until = 0;
    c->sum = 0;
    c->lines = c->oldest = 0;
    c->past = (struct rank_past){0};
    c->base = 0;
    c->lost = 0;
}

void rank_curve_init(struct rank_curve *c, int64_t per_epoch, int last_step,
                     const struct rank_query *query)
{
    assert(per_epoch > 0 && (!query || query->kept > 0));
    *c = (struct rank_curve){.per_epoch = per_epoch, .last_step = last_step};
    if (query)
        c->query = *query;
    if (per_epoch > 1)
        c->ring = mem_new(CURVE_BACK, sizeof *c->ring);
    curve_begin(c);
}

void rank_curve_release(struct rank_curve *c)
{
    MEM_FREE(c->loss, c->index, c->ring);
    *c = (struct rank_curve){0};
}

static int64_t epoch_of(const struct rank_curve *c, int64_t step)
{
    return (step - c->from) / c->per_epoch + 1;
}

/* Opens an empty epoch, that of a step. */
static void open_at(struct rank_curve *c, int64_t step)
{
    c->open = epoch_of(c, step);
    c->until = c->from + c->open * c->per_epoch - 1;
    c->n = 0;
    c->sum = 0;
}

/* Opens the next epoch, without a division: with an epoch per step each one comes here. */
static void open_next(struct rank_curve *c)
{
    c->open++;
    c->until += c->per_epoch;
    c->n = 0;
    c->sum = 0;
}

/* Stores an epoch's number; numbers are kept from the first gap on. */
__attribute__((noinline)) static int curve_put_index(struct rank_curve *c, struct err *err)
{
    int first = c->index == NULL;
    void *grown = c->index;

    if (mem_grow_data(&grown, &c->index_space, c->count + 1, sizeof *c->index,
                      "the epochs of a log", err))
        return -1;
    c->index = grown;
    for (size_t i = 0; first && i < c->count; i++)
        c->index[i] = c->base + (int64_t)i + 1;
    c->index[c->count] = c->open;
    return 0;
}

__attribute__((noinline)) static int more_space(struct rank_curve *c, struct err *err)
{
    void *grown = c->loss;
    int rc = mem_grow_data(&grown, &c->space, c->count + 1, sizeof *c->loss,
                           "the losses of a log", err);

    c->loss = grown;
    return rc;
}

/* Extends the score m by k epochs of mean l. */
static double extend(const struct rank_score *how, double m, double l, int64_t k, int first)
{
    double keep = how->method == RANK_TSE_EMA ? how->gamma : 1, take = 1;

    if (how->method == RANK_EMA_CODE && first)
        return l;
    if (how->method == RANK_EMA_CODE) {
        keep = 0.1;
        take = 0.9;
    }
    if (k == 1)
        return keep * m + take * l;
    /* m keep^k + take l (1 + keep + ... + keep^(k-1)) */
    double left = pow(keep, (double)k);
    return m * left + take * l * (keep == 1 ? (double)k : (1 - left) / (1 - keep));
}

/* Returns the number of epochs that do not count at budget T: all but the last E. */
static int64_t skipped(const struct rank_score *how, int64_t T)
{
    return how->method == RANK_TSE_E && how->e < T ? T - how->e : 0;
}

/* Extends p by the entries from..to - 1, for epochs up to T. */
static struct rank_past extend_by(const struct rank_curve *c, const struct rank_score *how,
                                  int64_t T, size_t from, size_t to, struct rank_past p)
{
    int64_t skip = skipped(how, T);

    for (size_t i = from; i < to && p.done < T; i++) {
        int64_t index = rank_curve_index(c, i), end = index < T ? index : T;
        int64_t begin_at = p.done > skip ? p.done : skip;
        if (end > begin_at)
            p.m = extend(how, p.m, c->loss[i], end - begin_at, begin_at == skip);
        p.loss = c->loss[i];
        p.done = end;
    }
    return p;
}

/* Epochs that steps must not go back into, in addition to the discarded ones. */
static int64_t needed(const struct rank_curve *c)
{
    return c->query.how.method == RANK_TSE_E ? c->query.how.e : 0;
}

/*
 * Discards all but the last epochs; steps cannot go back into them.  With tse-e, these are E or
 * more before the last one, and count only if the budget is before them too: then it is T.
 */
__attribute__((noinline)) static void give_up(struct rank_curve *c)
{
    size_t kept = (size_t)(c->query.kept + needed(c)), n = c->count - kept;

    c->past = extend_by(c, &c->query.how, c->query.T ? c->query.T : INT64_MAX, 0, n, c->past);
    c->base = rank_curve_index(c, n - 1);
    memmove(c->loss, c->loss + n, kept * sizeof *c->loss);
    if (c->index)
        memmove(c->index, c->index + n, kept * sizeof *c->index);
    c->count = kept;
}

static int close_open(struct rank_curve *c, struct err *err)
{
    if (c->n == 0)
        return 0;
    if (c->count == CURVE_EPOCHS_MAX)
        return err_set(err, ERR_INPUT,
                       "has more than %d epochs, expected more steps in each"
                       " (--steps-per-epoch)",
                       (int)CURVE_EPOCHS_MAX);
    if (c->query.kept && (int64_t)c->count >= 2 * (c->query.kept + needed(c)))
        give_up(c);
    if ((c->index || c->open != c->base + (int64_t)c->count + 1) && curve_put_index(c, err))
        return -1;
    if (c->count == c->space && more_space(c, err))
        return -1;
    c->loss[c->count++] = c->last_step || c->n == 1 ? c->sum : c->sum / (double)c->n;
    return 0;
}

/* Restores the open epoch of `step` to its state before that step. */
static void reopen(struct rank_curve *c, int64_t step)
{
    const struct rank_back *b = NULL;

    open_at(c, step);
    if (!c->ring)
        return;
    if (c->lines > c->oldest + CURVE_BACK)
        c->oldest = c->lines - CURVE_BACK;
    while (c->lines > c->oldest && (b = &c->ring[(c->lines - 1) % CURVE_BACK])->step >= step)
        c->lines--;
    if (c->lines == c->oldest) {
        /* No earlier line is left; an epoch's first step needs none. */
        c->blind += c->oldest > 0 && step > c->until - c->per_epoch + 1;
        c->lines = c->oldest = 0;
    } else if (epoch_of(c, b->step) == c->open) {
        c->n = b->n;
        c->sum = b->sum;
    }
}

static void go_back(struct rank_curve *c, int64_t step)
{
    c->back++;
    if (step < c->first) { /* the whole run is void */
        curve_begin(c);
        return;
    }
    while (c->count && rank_curve_index(c, c->count - 1) >= epoch_of(c, step))
        c->count--;
    c->lost |=
        c->base && (epoch_of(c, step) <= c->base || rank_curve_epochs(c) < c->base + needed(c));
    if (c->bad >= step)
        c->bad = -1;
    reopen(c, step);
    c->last = step - 1;
}

/* Handles a step that is not the next one. */
__attribute__((noinline)) static void jump(struct rank_curve *c, int64_t step)
{
    if (step <= c->last)
        go_back(c, step);
    if (c->last < c->first) {
        c->from = step > 0;
        c->first = step;
        open_at(c, step);
    } else if (step - c->last > c->gap) {
        c->gap = step - c->last;
    }
}

int rank_curve_add(struct rank_curve *c, int64_t step, double loss, struct err *err)
{
    if (step < 0)
        step = c->last < c->first ? 1 : c->last + 1;
    if (step != c->last + 1 || step <= c->first)
        jump(c, step);
    if (step > c->until) {
        if (close_open(c, err))
            return -1;
        if (step == c->until + 1)
            open_next(c);
        else
            open_at(c, step);
    }
    c->sum = c->last_step ? loss : c->sum + loss;
    c->n++;
    c->last = step;
    if (c->bad < 0 && !isfinite(loss))
        c->bad = step;
    if (c->ring)
        c->ring[c->lines++ % CURVE_BACK] = (struct rank_back){step, c->n, c->sum};
    return 0;
}

int64_t rank_curve_epochs(const struct rank_curve *c)
{
    return c->count ? rank_curve_index(c, c->count - 1) : c->base;
}

int rank_curve_headless(const struct rank_curve *c)
{
    return c->first - c->from >= c->gap;
}

/* Returns the first entry for epoch t or later. */
static size_t curve_entry_of(const struct rank_curve *c, int64_t t)
{
    size_t lo = 0, hi = c->count - 1;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (rank_curve_index(c, mid) >= t)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Returns whether a query is the announced one. */
static int is_requested(const struct rank_curve *c, const struct rank_score *how, int64_t T)
{
    int64_t have = rank_curve_epochs(c),
            requested = c->query.T && c->query.T < have ? c->query.T : have;

    return !c->query.kept || (T == requested && (!how || how->method == c->query.how.method));
}

double rank_curve_loss(const struct rank_curve *c, int64_t T)
{
    assert(T >= 1 && T <= rank_curve_epochs(c) && is_requested(c, NULL, T));
    return T <= c->base ? c->past.loss : c->loss[curve_entry_of(c, T)];
}

/* Returns the score up to T, from the discarded epochs on. */
static struct rank_past up_to(const struct rank_curve *c, const struct rank_score *how,
                              int64_t T)
{
    struct rank_past p = c->past;
    int64_t skip = skipped(how, T);

    if (p.done >= skip)
        return extend_by(c, how, T, 0, c->count, p);
    p.done = skip;
    return extend_by(c, how, T, curve_entry_of(c, skip + 1), c->count, p);
}

double rank_curve_score(const struct rank_curve *c, const struct rank_score *how, int64_t T)
{
    assert(T >= 1 && T <= rank_curve_epochs(c) && is_requested(c, how, T));
    if (how->method == RANK_LAST)
        return rank_curve_loss(c, T);
    double m = up_to(c, how, T).m;
    return how->method == RANK_SOTL ? m / (double)T : m;
}

int rank_curve_end(struct rank_curve *c, struct err *err)
{
    int rc = c->n && c->last == c->until ? close_open(c, err) : 0;
    int64_t have = rank_curve_epochs(c);

    mem_free(c->ring);
    c->ring = NULL;
    c->n = 0;
    if (rc || !c->query.kept)
        return rc;
    /* Nothing goes back any more: the answers are final, and are all that must be kept. */
    if (have && !c->lost)
        c->past = up_to(c, &c->query.how, c->query.T && c->query.T < have ? c->query.T : have);
    c->base = have;
    c->count = 0;
    mem_free(c->loss);
    mem_free(c->index);
    c->loss = NULL;
    c->index = NULL;
    return 0;
}
