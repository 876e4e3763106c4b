/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_RANK_CURVE_H
#define RANK_RANK_CURVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Keeps a run as the means of its epochs: as much memory as epochs with a loss, whatever their
 * steps, or, where the later queries are known, as many of the last ones as those need.
 *
 * Epoch e (1, 2, ...) is of the steps from + (e - 1) B .. from + e B - 1, where `from` is 0 for
 * a run whose first step is 0, else 1.  Its mean is of the losses that there are; an epoch
 * without any has the mean of the next one that has.  B = 4, a log of every third step:
 *
 *     step      3  6  9  12  15         epoch 1: 3       2: 6       3: 9, 12    4: open
 *
 * A step that is not after the last one: the run was resumed, and what was logged from that
 * step on is void.  Of an epoch that this cuts, what was before is kept where the step is
 * among the last CURVE_BACK lines; else the epoch is of what follows.
 */
enum rank_method {
    RANK_TSE,      /* sum of l_e, e <= T (Ru et al., NeurIPS 2021) */
    RANK_TSE_E,    /* of the last E alone */
    RANK_TSE_EMA,  /* sum of gamma^(T - e) l_e */
    RANK_EMA_CODE, /* as in the paper's code: m = 0.1 m + 0.9 l_e, from m = l_1 */
    RANK_SOTL, /* the mean of all: a code length, nats per token (Lyle et al., NeurIPS 2020) */
    RANK_LAST, /* the last step of epoch T */
    RANK_METHODS
};

struct rank_score { /* how */
    enum rank_method method;
    int64_t e;
    double gamma;
};

/*
 * All that will be asked of a curve: its score and its loss at one budget.  Epochs are then
 * given up, the first ones first, once they are added to that score:
 *
 *     1 .. base, in `past`, on the way to T      kept to 2 kept epochs with a loss      open
 *
 * Steps that go back among those kept (of tse-e, all but E of them) cost nothing; of those that
 * go back farther, the curve is `lost`, and the run is to be read again, all of it kept.
 */
struct rank_query {
    struct rank_score how;
    int64_t T;    /* the budget; 0: all epochs that there are in the end */
    int64_t kept; /* 1 or more; beside E */
};

struct rank_past { /* epochs before some entry */
    int64_t done;  /* 1 .. done, T at most */
    double m;      /* the sum of them */
    double loss;   /* of the last of them */
};

struct rank_curve {
    int64_t per_epoch;       /* B */
    int last_step;           /* epochs are their last steps, not means */
    struct rank_query query; /* kept 0: anything may be asked, and all is kept */
    struct rank_past past;
    int64_t base;   /* the number of the last epoch that was given up; 0: none */
    int lost;       /* a step went back beyond what is kept */
    double *loss;   /* [count] of the epochs that have one; owned */
    int64_t *index; /* [count] their numbers; NULL: base + 1, base + 2, ...; owned */
    size_t count, space, index_space;
    int64_t from, first, last; /* steps; last < first: none yet */
    int64_t bad;               /* the first step whose loss is not finite; -1: none */
    int64_t gap;               /* the longest way from one step to the next */
    int64_t back;              /* how often steps went back */
    int64_t blind;             /* of these, how often the mean of an epoch lost its beginning */
    /* the epoch that is open: its number, last step, and what there is of it */
    int64_t open, until, n;
    double sum;
    struct rank_back *ring; /* the last lines; owned; NULL where B is 1 */
    uint64_t lines, oldest; /* put into it, and the first of them that is still there */
};

/* CURVE_KEPT: of an epoch a step, 256 KiB of losses stay in the cache. */
enum { CURVE_BACK = 1 << 16, CURVE_KEPT = 1 << 14, CURVE_EPOCHS_MAX = 1 << 26 };

/* ask: NULL: anything. */
void rank_curve_init(struct rank_curve *c, int64_t per_epoch, int last_step,
                     const struct rank_query *query);
void rank_curve_release(struct rank_curve *c);
/* step -1: the one after the last. */
int rank_curve_add(struct rank_curve *c, int64_t step, double loss, struct err *err);
/* Closes the last epoch if it is whole; nothing is added after it.  An asked curve keeps
   answers. */
int rank_curve_end(struct rank_curve *c, struct err *err);
/* The number of loss[i], from 1 on. */
static inline int64_t rank_curve_index(const struct rank_curve *c, size_t i)
{
    return c->index ? c->index[i] : c->base + (int64_t)i + 1;
}
/* Whole epochs; what is open does not count. */
int64_t rank_curve_epochs(const struct rank_curve *c);
/* Whether the beginning is not in the log: it is longer than any gap between its steps. */
int rank_curve_headless(const struct rank_curve *c);

/*
 * Lower is better; of the first T epochs, 1 <= T <= epochs.  Of a curve that was told what will
 * be asked: that, T the asked one or all epochs, where they are fewer.
 */
double rank_curve_score(const struct rank_curve *c, const struct rank_score *how, int64_t T);
/* The loss of epoch T alone. */
double rank_curve_loss(const struct rank_curve *c, int64_t T);

/* "tse", "tse-e", ... */
const char *rank_method_name(enum rank_method m);

#endif
