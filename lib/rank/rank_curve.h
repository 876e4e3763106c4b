/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_RANK_CURVE_H
#define RANK_RANK_CURVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Stores a run as the means of its epochs: memory grows with the epochs that have a loss, not
 * with their steps; or, if the later queries are known, it is bounded by the last epochs that
 * those need.
 *
 * Epoch e (1, 2, ...) consists of the steps from + (e - 1) B .. from + e B - 1, where `from` is
 * 0 for a run whose first step is 0, otherwise 1.  Its mean is over the losses present; an
 * epoch without losses has the mean of the next one with some.  B = 4, a log of every third
 * step:
 *
 *     step      3  6  9  12  15         epoch 1: 3       2: 6       3: 9, 12    4: open
 *
 * A step that is not after the last one means that the run was resumed, and entries from that
 * step on are void.  If this cuts an epoch, its earlier part is kept if the step is among the
 * last CURVE_BACK lines; otherwise the epoch has only the steps that come.
 */
enum rank_method {
    RANK_TSE,      /* sum of l_e, e <= T (Ru et al., NeurIPS 2021) */
    RANK_TSE_E,    /* the last E epochs only */
    RANK_TSE_EMA,  /* sum of gamma^(T - e) l_e */
    RANK_EMA_CODE, /* as in the paper's code: m = 0.1 m + 0.9 l_e, from m = l_1 */
    RANK_SOTL,     /* mean of all: a code length, nats per token (Lyle et al., NeurIPS 2020) */
    RANK_LAST,     /* the last step of epoch T */
    RANK_METHODS
};

struct rank_score { /* how */
    enum rank_method method;
    int64_t e;
    double gamma;
};

/*
 * The only query to a curve: its score and its loss at one budget.  The first epochs are then
 * discarded once they are added to that score:
 *
 *     1 .. base, in `past`, on the way to T      kept to 2 kept epochs with a loss      open
 *
 * Steps that go back into kept epochs (of tse-e, all but E of them) cost nothing.  If a step
 * goes back further, the curve is `lost`, and the run must be read again with everything kept.
 */
struct rank_query {
    struct rank_score how;
    int64_t T;    /* budget; 0: all epochs present at the end */
    int64_t kept; /* 1 or more; in addition to E */
};

struct rank_past { /* score of the epochs before some entry */
    int64_t done;  /* epochs 1 .. done, T at most */
    double m;      /* their sum */
    double loss;   /* loss of the last of them */
};

struct rank_curve {
    int64_t per_epoch;       /* B */
    int last_step;           /* 1: an epoch's value is its last step, not the mean */
    struct rank_query query; /* kept 0: any query is allowed, and all epochs are kept */
    struct rank_past past;
    int64_t base;   /* number of the last discarded epoch; 0: none */
    int lost;       /* 1: a step went back beyond the kept epochs */
    double *loss;   /* [count] of the epochs that have a loss; owned */
    int64_t *index; /* [count] their numbers; NULL: base + 1, base + 2, ...; owned */
    size_t count, space, index_space;
    int64_t from, first, last; /* steps; last < first: none yet */
    int64_t bad;               /* the first step whose loss is not finite; -1: none */
    int64_t gap;               /* longest distance between consecutive steps */
    int64_t back;              /* number of times that steps went back */
    int64_t blind;             /* times that this cut off the beginning of an epoch */
    /* the open epoch: its number, last step, count and sum so far */
    int64_t open, until, n;
    double sum;
    struct rank_back *ring; /* the last lines; owned; NULL if B is 1 */
    uint64_t lines, oldest; /* lines written to it, and the first one still there */
};

/* CURVE_KEPT: with an epoch per step, 256 KiB of losses stay in the cache. */
enum { CURVE_BACK = 1 << 16, CURVE_KEPT = 1 << 14, CURVE_EPOCHS_MAX = 1 << 26 };

/* query NULL: any query is allowed. */
void rank_curve_init(struct rank_curve *c, int64_t per_epoch, int last_step,
                     const struct rank_query *query);
void rank_curve_release(struct rank_curve *c);
/* step -1: the one after the last. */
int rank_curve_add(struct rank_curve *c, int64_t step, double loss, struct err *err);
/* Closes the last epoch if it is complete; nothing may be added afterwards.  A curve with a
   query then keeps only its answers. */
int rank_curve_end(struct rank_curve *c, struct err *err);
/* Returns the number of the epoch of loss[i], from 1 on. */
static inline int64_t rank_curve_index(const struct rank_curve *c, size_t i)
{
    return c->index ? c->index[i] : c->base + (int64_t)i + 1;
}
/* Returns the number of complete epochs. */
int64_t rank_curve_epochs(const struct rank_curve *c);
/* Returns whether the log lacks its beginning: that is longer than any gap between its
   steps. */
int rank_curve_headless(const struct rank_curve *c);

/*
 * Returns the score of the first T epochs, 1 <= T <= epochs; lower is better.  With a query it
 * must be that one, and T the query's, or all epochs if there are fewer.
 */
double rank_curve_score(const struct rank_curve *c, const struct rank_score *how, int64_t T);
/* Returns the loss of epoch T alone. */
double rank_curve_loss(const struct rank_curve *c, int64_t T);

/* "tse", "tse-e", ... */
const char *rank_method_name(enum rank_method m);

#endif
