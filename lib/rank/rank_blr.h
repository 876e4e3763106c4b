/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_BLR_H
#define RANK_BLR_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * How well a Gaussian linear model explains data, by how fast it learns them (Lyle, Schut, Ru,
 * Gal, van der Wilk, "A Bayesian Perspective on Training Speed and Model Selection", NeurIPS
 * 2020).  y = x'theta + N(0, v_n), theta ~ N(0, v_0 I), rows in the order of the file:
 *
 *     log P(D) = sum_i log E P(D_i | theta)      theta from the posterior given rows < i
 *     L(D)     = sum_i E log P(D_i | theta)      a lower bound; the gap is the sum of KL of
 *                                                each posterior from the next
 *     L_k(D)   = sum_i E log (mean of k samples' P(D_i | theta))     between the two
 *
 * log P(D) and L(D) are exact.  All are in nats; v_0 is in units of theta squared and v_n in
 * those of y squared.  Predictions are linear in x alone: a constant is a column of ones.
 */
enum {
    RANK_BLR_FEATURES_MAX = 4096, /* a factor of 64 MiB, read and written once a row */
    RANK_BLR_LINE_MAX = 1 << 18,  /* bytes: 63 for each of as many columns */
    RANK_BLR_K_MAX = 1 << 20,     /* samples of L_k */
    RANK_BLR_BYTES_MAX = 1 << 30, /* of all files' numbers; of what one run works on */
    RANK_BLR_REPEATS_MIN = 64,    /* a standard error known to 1 in sqrt(2 * 63): 9 % */
    RANK_BLR_REPEATS_MAX = 4096,  /* 0.0156 of one repeat's deviation */
    RANK_BLR_DRAWS = 20000000     /* of L_k, all in all: a second or two */
};

/* Bounds of numbers in files and of both variances: no square of them overflows. */
#define RANK_BLR_NUMBER_MAX 1e100

struct rank_blr_data {
    char *name; /* owned: of the file, for messages */
    double *x;  /* [rows][features], owned */
    double *y;  /* [rows], owned */
    int64_t rows;
    int features;
};

/*
 * A table: columns parted by tabs, features first, y last, at least two.  Lines that are empty
 * or begin with '#' are passed over, blanks around a number and a carriage return too.  A first
 * line of names alone is passed over; "nan" and "inf" are no names.  "-" is stdin.  All n
 * files together have most_bytes of numbers at most; out is [n].
 */
int rank_blr_read(const char *const *path, int n, int64_t most_bytes, struct rank_blr_data *out,
                  struct err *err);
/* One stream; left: of most_bytes, what the files before it have not used. */
int rank_blr_read_stream(FILE *f, const char *name, int64_t most_bytes, int64_t left,
                         struct rank_blr_data *out, struct err *err);
void rank_blr_data_release(struct rank_blr_data *d);

struct rank_blr_options {
    double prior_var; /* v_0 > 0 */
    double noise_var; /* v_n > 0 */
    int k;            /* L_k with k samples; 0: none */
    int64_t samples;  /* of sample-then-optimise, 2 or more; 0: none */
    uint64_t seed;    /* of both estimates */
    int64_t repeats;  /* of L_k, 2 or more; 0: RANK_BLR_DRAWS, within the bounds above */
    int items;        /* keep a row's terms (struct rank_blr_item) */
};

/* A mean of `count` independent estimates, each of the whole of D. */
struct rank_blr_estimate {
    int64_t count; /* 0: not asked for */
    double value, standard_error;
};

/* What row i adds, and how it was predicted from the rows before it. */
struct rank_blr_item {
    double mean, var; /* x'm and x'Sx: of x'theta, v_n not in it */
    double log_p, bound, kl;
};

struct rank_blr {
    const char *name; /* borrowed from the data */
    int64_t rows;
    int features;
    double prior_var, noise_var;
    double log_p, bound; /* log P(D), L(D) */
    /*
     * The sum of KL, from the posteriors themselves: log_p = bound + kl holds as far as their
     * update is right, and says how far that is.
     */
    double kl;
    int k;
    struct rank_blr_estimate bound_k; /* of L_k(D), with L(D) for what is known of it */
    /*
     * Of L(D), by sample-then-optimise: theta_0 from the prior and noise on each y, then the
     * minimum of the regularised squared loss, which is a sample of the posterior.
     */
    struct rank_blr_estimate sampled;
    struct rank_blr_item *item; /* [rows] if asked for, else NULL; owned */
};

/* O(features^2) per row.  ERR_INPUT where options are out of bounds or numbers overflow. */
int rank_blr_run(const struct rank_blr_data *d, const struct rank_blr_options *o,
                 struct rank_blr *out, struct err *err);
void rank_blr_release(struct rank_blr *r);

/*
 * Several models of one y: data sets of the same rows and other features.  Beside them y is
 * regressed on samples of what each predicted from the rows before, which learns whom to listen
 * to and never computes evidence (section 4 of the paper, by a descent; here the minimum, in
 * the mean over all samples, w ~ N(1/models, 1), noise v_n).  Its largest coefficient is most
 * often that of the highest L(D).
 */
struct rank_blr_weight {
    struct rank_blr result;
    double evidence; /* P(model | D), models alike before: softmax of log P(D) */
    double combined; /* its coefficient at the end, of any sign */
};

struct rank_blr_weights {
    struct rank_blr_weight *model; /* [models] highest log P(D) first, else as given; owned */
    int models;
};

/* ERR_MISMATCH where rows differ in number or in y.  One model is run, and not weighed. */
int rank_blr_weigh(const struct rank_blr_data *data, int models,
                   const struct rank_blr_options *o, struct rank_blr_weights *out,
                   struct err *err);
void rank_blr_weights_release(struct rank_blr_weights *w);
/* What each came to: of one model a line for each quantity, of several one for each model. */
void rank_blr_print(const struct rank_blr_weights *w, FILE *f);
/* {"schema":"paro.rank.blr/1","prior_var","noise_var","models":[{...}]} */
void rank_blr_print_json(const struct rank_blr_weights *w, FILE *f);

#endif
