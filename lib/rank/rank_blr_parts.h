/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_BLR_PARTS_H
#define RANK_BLR_PARTS_H

#include "base/jout.h"
#include "rank/rank_blr.h"

/* Bayesian linear regression; symbols as in rank_blr.h.  The posterior N(m, S) of the rows so
 * far, S = U U' by its upper triangular factor. */
struct rank_blr_state {
    int features;
    double noise_var;
    double *factor; /* U by columns: entry (i, j), i <= j, at j (j + 1) / 2 + i; owned */
    double *mean;   /* [features] owned */
    double *gain; /* [features] of the last row: S x / (v_n + x'Sx), S from before it; owned */
};

/* Bytes of a state's arrays. */
int64_t rank_blr_state_bytes(int features);
/* N(mean, prior_var I), the same mean for every feature. */
int rank_blr_state_init(struct rank_blr_state *s, int features, double mean, double prior_var,
                        double noise_var, struct err *err);
/* One row: out gets its terms of log P and L, then the posterior takes it in.  -1 where a term
 * is not finite: the state is of no use any more. */
int rank_blr_state_step(struct rank_blr_state *s, const double *x, double y,
                        struct rank_blr_item *out);
void rank_blr_state_release(struct rank_blr_state *s);

/* a'b in one order of additions, the same on every processor. */
double rank_blr_dot(const double *a, const double *b, int n);

/*
 * Two independent standard normals (Box and Muller 1958), unbounded: base/rng's stop at 6,
 * which would bias the logarithm of a mean.  By libm: another machine may differ in last bits.
 */
void rank_blr_normals(uint64_t seed, uint64_t stream, uint64_t index, double out[2]);

/* Both estimates of a run: they use theta and item from before the row was taken in. */
struct rank_blr_trials {
    const struct rank_blr_options *o; /* borrowed */
    int features;
    int64_t row;                   /* the next one */
    int64_t repeats;               /* of the estimate of L_k, 0: not asked for */
    double log_norm;               /* log(2 pi v_n) */
    double *theta;                 /* [samples][features] owned */
    double *sum_sampled, *sum_k;   /* [samples], [repeats] owned */
    uint64_t of_theta, of_y, of_k; /* streams of random numbers */
};

int64_t rank_blr_trials_bytes(const struct rank_blr_data *d, const struct rank_blr_options *o);
int rank_blr_trials_init(struct rank_blr_trials *t, const struct rank_blr_data *d,
                         const struct rank_blr_options *o, struct err *err);
/* After rank_blr_state_step of the same row, which gives item and gain. */
void rank_blr_trials_step(struct rank_blr_trials *t, const double *x, double y,
                          const struct rank_blr_item *item, const double *gain);
void rank_blr_trials_end(const struct rank_blr_trials *t, struct rank_blr *out);
void rank_blr_trials_release(struct rank_blr_trials *t);

/* ERR_INPUT where options, or the work on d, are beyond bounds; beside_bytes of memory are
 * already held. */
int rank_blr_check(const struct rank_blr_data *d, const struct rank_blr_options *o,
                   int64_t beside_bytes, struct err *err);

#endif
