/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BAYES_H
#define BAYES_H
#include <err.h>
#include <stdint.h>
#include <stdio.h>

enum { PRIOR, NOISE, KERNEL, WIDTH, K, SAMPLES, ITEMS, SEED, OPTIONS };
enum { REPEATS = 5 }; /* of all comparisons of generated data */
struct options {
    char **file; /* [files] */
    int files;
    double x[OPTIONS];
};

/* The verbs; they write to out, which is printed when they return. */
void bayes_evidence(const struct options *o, FILE *out);
void bayes_features(const struct options *o, FILE *out);
void bayes_variance(const struct options *o, FILE *out);
void bayes_limit(const struct options *o, FILE *out);
void bayes_networks(const struct options *o, FILE *out);

double uniform(uint64_t *state);        /* from [0, 1) */
double normal(uint64_t *state);         /* of mean 0 and variance 1 */
double *zeros(int64_t rows, int64_t n); /* (rows,n) */
/* Rank correlation of a and b; equal values share the mean of their ranks. */
double spearman(const double *a, const double *b, int n);

/* What networks learn, of four numbers. */
double target(const double *x);

struct data {
    const char *name; /* borrowed */
    int n, d;
    double *x, *y; /* (n,d), (n) owned */
};
enum { ROWS_MAX = 8192 }; /* a Gram matrix of 512 MiB */
struct data data_read(const char *path);

/* What row i adds, and how the rows before it predict it: without noise, mean and variance. */
struct item {
    double mean, var, log_p, bound;
};
struct estimate {
    double value, error; /* standard error */
};
struct model {
    const char *name;  /* borrowed */
    struct item *item; /* [n] owned */
    double log_p, bound;
    struct estimate bound_k, sampled; /* of L_k and L */
    double evidence, combined;        /* of weigh() */
};

/*
 * Gram matrices (n,n) of the prior of f.  LINEAR: f = x'theta.  RELU, NTK: a network of one
 * hidden layer of `width` rectified units, 0: infinitely many, of which the last or both
 * layers are trained.  GRAM: x is the matrix.  All times prior_var.
 */
enum kernel { LINEAR, RELU, NTK, GRAM };
double *gram(const struct data *d, enum kernel kernel, int width, double prior_var,
             uint64_t *state);

/* y = f + noise, f with this Gram matrix; o: NOISE, K, SAMPLES. */
void learn(const double *gram, const struct data *d, const struct options *o, uint64_t *state,
           struct model *out);
/* Several models of one y. */
void weigh(struct model *model, int models, const struct data *d, double noise_var);
#endif
