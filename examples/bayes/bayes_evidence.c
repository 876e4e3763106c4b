/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the evidence of a Gaussian model row by row, its lower bound and estimates of it
 * (Lyle, Schut, Ru, Gal, van der Wilk, "A Bayesian Perspective on Training Speed and Model
 * Selection", NeurIPS 2020).  y = f + N(0, v I), f ~ N(0, G):
 *
 *     log P(D) = sum_i log E P(y_i | f_i)       f_i from the posterior given rows < i
 *     L(D)     = sum_i E log P(y_i | f_i)       what a training curve adds up; log P or less
 *     L_k(D)   = sum_i E log (mean of P(y_i | f_i) over k samples)      between the two
 *
 * The Cholesky factor C of G + v I gives all of it: with y = C z, rows < i predict y_i with
 * the error C_ii z_i, which has the variance C_ii^2 = v + var f_i.  LAPACK's error of C_ii^2
 * is about n eps G_ii: results need v well above that.
 */
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>

#include "bayes.h"

enum { ESTIMATES = 100 }; /* of L_k: its error is a tenth of one estimate's */

static double log_normal(double miss, double v)
{
    return -0.5 * (log(8 * atan(1) * v) + miss * miss / v);
}

static struct estimate estimate(const double *v, int n)
{
    struct estimate e = {0, 0};

    for (int i = 0; i < n; i++)
        e.value += v[i] / n;
    for (int i = 0; i < n; i++)
        e.error += (v[i] - e.value) * (v[i] - e.value) / (n - 1) / n;
    e.error = sqrt(e.error);
    return e;
}

/* E relu(u) relu(v) and P(u > 0, v > 0), twice each, for normal u and v of these covariances:
 * the arc-cosine kernels of orders 1 and 0 (Cho and Saul 2009). */
static double arc_cosine(double uu, double uv, double vv, int both)
{
    double pi = 4 * atan(1), scale = sqrt(uu * vv);
    double angle = scale > 0 ? acos(fmax(-1, fmin(1, uv / scale))) : 0;
    double relu = scale * (sin(angle) + (pi - angle) * cos(angle)) / pi;

    return relu + both * uv * (pi - angle) / pi;
}

/* Adds a hidden unit: its outputs u and, with a^2 > 0, the gradient by its weights. */
static void add_unit(double *g, const double *u, const double *xx, double a, int n, int width)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n && u[i] > 0; j++)
            if (u[j] > 0)
                g[i * n + j] += 2 * (u[i] * u[j] + a * a * xx[i * n + j]) / width;
}

double *gram(const struct data *d, enum kernel kernel, int width, double prior_var,
             uint64_t *state)
{
    int64_t n = d->n, f = d->d;
    double *g = zeros(n, n), *xx = zeros(n, n), *u = zeros(n, 1), w;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            if (kernel == GRAM)
                xx[i * n + j] = d->x[i * n + j];
            else
                for (int64_t k = 0; k < f; k++)
                    xx[i * n + j] += d->x[i * f + k] * d->x[j * f + k];
    for (int k = 0; k < width && (kernel == RELU || kernel == NTK); k++) {
        for (int64_t i = 0; i < n; i++)
            u[i] = 0;
        for (int64_t j = 0; j < f; j++) {
            w = normal(state);
            for (int64_t i = 0; i < n; i++)
                u[i] += w * d->x[i * f + j];
        }
        w = kernel == NTK ? normal(state) : 0;
        add_unit(g, u, xx, w, d->n, width);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double *to = &g[i * n + j], is = xx[i * n + j];
            if (kernel == LINEAR || kernel == GRAM)
                *to = is;
            else if (width == 0)
                *to = arc_cosine(xx[i * n + i], is, xx[j * n + j], kernel == NTK);
            *to *= prior_var;
        }
    free(xx);
    free(u);
    return g;
}

/* f ~ N(0, G) in each column of f (n,columns), by the pivoted factor of G, of any rank. */
static void draw(const double *gram, int n, int columns, double *f, uint64_t *state)
{
    double *c = zeros(n, n);
    lapack_int *pivot = calloc((size_t)n, sizeof *pivot), rank = 0;

    if (pivot == NULL)
        errx(2, "no memory for %d rows", n);
    for (int64_t i = 0; i < (int64_t)n * n; i++)
        c[i] = gram[i];
    LAPACKE_dpstrf(LAPACK_COL_MAJOR, 'L', n, c, n, pivot, &rank, -1);
    for (int64_t s = 0; s < columns; s++)
        for (int64_t j = 0; j < rank; j++) {
            double z = normal(state);
            for (int64_t i = j; i < n; i++)
                f[s * n + pivot[i] - 1] += c[j * n + i] * z;
        }
    free(c);
    free(pivot);
}

/* The k samples of a row's prediction; their likelihoods may all be tiny. */
static double log_mean(const struct item *t, double y, double v, int k, uint64_t *state)
{
    double most = -INFINITY, sum = 0;

    for (int i = 0; i < k; i++) {
        double l = log_normal(y - t->mean - sqrt(t->var) * normal(state), v);
        sum = l > most ? sum * exp(most - l) + 1 : sum + exp(l - most);
        most = fmax(most, l);
    }
    return most + log(sum / k);
}

/*
 * Columns of z: y, then of each sample y + noise - f_0.  Sample-then-optimise: f_0 from the
 * prior and noise on each y, then the minimum of the regularised squared loss of rows < i,
 * which is a sample of the posterior: f_0 and the prediction of y + noise - f_0.
 */
static void solve(const double *gram, const struct data *d, double v, int samples, double *c,
                  double *z, double *noise, uint64_t *state)
{
    int64_t n = d->n;

    draw(gram, d->n, samples, z + n, state);
    for (int64_t i = 0; i < n * n; i++)
        c[i] = gram[i];
    for (int64_t i = 0; i < n; i++) {
        c[i * n + i] += v;
        z[i] = d->y[i];
        for (int64_t s = 0; s < samples; s++) {
            noise[s * n + i] = sqrt(v) * normal(state);
            z[(s + 1) * n + i] = d->y[i] + noise[s * n + i] - z[(s + 1) * n + i];
        }
    }
    if (LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'L', d->n, c, d->n) ||
        LAPACKE_dtrtrs(LAPACK_COL_MAJOR, 'L', 'N', 'N', d->n, 1 + samples, c, d->n, z, d->n))
        errx(2, "%s: rounding or overflow exceeds the noise variance %g, expected more noise",
             d->name, v);
}

void learn(const double *gram, const struct data *d, const struct options *o, uint64_t *state,
           struct model *out)
{
    int samples = (int)o->x[SAMPLES], k = (int)o->x[K];
    int64_t n = d->n;
    double v = o->x[NOISE], *c = zeros(n, n), *z = zeros(1 + samples, n);
    double *noise = zeros(samples, n), *sum = zeros(samples, 1), sum_k[ESTIMATES] = {0};

    *out = (struct model){.name = d->name, .item = calloc((size_t)n, sizeof *out->item)};
    if (out->item == NULL)
        errx(2, "no memory for %d rows", d->n);
    solve(gram, d, v, samples, c, z, noise, state);
    for (int64_t i = 0; i < n; i++) {
        double own = c[i * n + i], e = own * z[i];
        struct item *t = &out->item[i];
        *t = (struct item){d->y[i] - e, fmax(0, own * own - v), log_normal(e, own * own), 0};
        t->bound = log_normal(e, v) - t->var / v / 2;
        out->log_p += t->log_p;
        out->bound += t->bound;
        for (int r = 0; r < ESTIMATES; r++)
            sum_k[r] += log_mean(t, d->y[i], v, k, state);
        for (int64_t s = 0; s < samples; s++) /* y - f = prediction's error - noise */
            sum[s] += log_normal(own * z[(s + 1) * n + i] - noise[s * n + i], v);
    }
    if (!isfinite(out->bound))
        errx(2, "%s: numbers overflow with noise variance %g, expected more", d->name, v);
    out->bound_k = estimate(sum_k, ESTIMATES);
    out->sampled = estimate(sum, samples);
    free(c);
    free(z);
    free(noise);
    free(sum);
}

/*
 * The probabilities of models alike before; and y regressed, w ~ N(1/models, 1), on samples of
 * all models' predictions, in the mean over all draws (section 4 of the paper by its minimum):
 *
 *     E (y - w'f)^2 = (y - w'mean)^2 + sum_j w_j^2 var_j
 */
void weigh(struct model *model, int models, const struct data *d, double noise_var)
{
    double *a = zeros(models, models), *b = zeros(models, 1), most = -INFINITY, sum = 0;

    for (int j = 0; j < models; j++)
        most = fmax(most, model[j].log_p);
    for (int j = 0; j < models; j++)
        sum += exp(model[j].log_p - most);
    for (int j = 0; j < models; j++) {
        b[j] = 1.0 / models;
        a[j * models + j] = 1;
        for (int i = 0; i < d->n; i++) {
            const struct item *t = &model[j].item[i];
            a[j * models + j] += t->var / noise_var;
            b[j] += t->mean * d->y[i] / noise_var;
            for (int k = 0; k < models; k++)
                a[j * models + k] += t->mean * model[k].item[i].mean / noise_var;
        }
        model[j].evidence = exp(model[j].log_p - most) / sum;
    }
    if (LAPACKE_dposv(LAPACK_COL_MAJOR, 'L', models, 1, a, models, b, models))
        errx(2, "%s: models overflow with noise variance %g", d->name, noise_var);
    for (int j = 0; j < models; j++)
        model[j].combined = b[j];
    free(a);
    free(b);
}
