/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_BLR_PARTS_H
#define RANK_BLR_PARTS_H

#include "base/jout.h"
#include "rank/rank_blr.h"

/* The posterior N(m, S) of the rows so far, S = U U' by its upper triangular factor. */
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
/* One row: what it adds, then the posterior with it.  -1 where a term is not finite. */
int rank_blr_state_step(struct rank_blr_state *s, const double *x, double y,
                        struct rank_blr_item *out);
void rank_blr_state_release(struct rank_blr_state *s);

/* a'b in one order of additions, the same on every processor. */
double rank_blr_dot(const double *a, const double *b, int n);

/*
 * Two independent standard normals (Box and Muller 1958): true ones, where base/rng's, bounded
 * by 6, would bend the logarithm of a mean.  By libm: another machine may differ in last bits.
 */
void rank_blr_normals(uint64_t seed, uint64_t stream, uint64_t index, double out[2]);

/* Both estimates of a run, which see each row before the posterior has it. */
struct rank_blr_trials {
    const struct rank_blr_options *o;
    int features;
    int64_t row;                   /* the next one */
    int64_t repeats;               /* of L_k, 0 without */
    double log_norm;               /* log(2 pi v_n) */
    double *theta;                 /* [samples][features] owned */
    double *sum_sampled, *sum_k;   /* [samples], [repeats] owned */
    uint64_t of_theta, of_y, of_k; /* streams of random numbers */
};

int64_t rank_blr_trials_bytes(const struct rank_blr_data *d, const struct rank_blr_options *o);
int rank_blr_trials_init(struct rank_blr_trials *t, const struct rank_blr_data *d,
                         const struct rank_blr_options *o, struct err *err);
/* item and gain: of this row, by rank_blr_state_step. */
void rank_blr_trials_step(struct rank_blr_trials *t, const double *x, double y,
                          const struct rank_blr_item *item, const double *gain);
void rank_blr_trials_end(const struct rank_blr_trials *t, struct rank_blr *out);
void rank_blr_trials_release(struct rank_blr_trials *t);

/* Whether options are within bounds, and the work on d too; beside says what else is held. */
int rank_blr_check(const struct rank_blr_data *d, const struct rank_blr_options *o,
                   int64_t beside_bytes, struct err *err);

#endif
