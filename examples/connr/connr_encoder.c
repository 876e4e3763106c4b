/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network.  Projector and predictor are
 *
 *     f(x) = x + relu(x W1) W2 - mean,    W2 = 0 at first
 *
 * with the mean over the batch, of all ranks: without it all vectors turn towards one
 * direction, and k-means sees little of the rest.  So the gradient, too, loses its mean.
 */
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "connr.h"

void add_product(char ta, char tb, int m, int n, int k, const float *a, const float *b,
                 float *c)
{
    dnnl_sgemm(ta, tb, m, n, k, 1, a, ta == 'N' ? k : m, b, tb == 'N' ? n : k, 1, c, n);
}

double normalise(float *x, int rows, int d)
{
    double s = 0;

    for (int i = 0; i < rows; i++, x += d) {
        s = 0;
        for (int j = 0; j < d; j++)
            s += (double)x[j] * x[j];
        s = s > 0 ? sqrt(s) : 1;
        for (int j = 0; j < d; j++)
            x[j] = (float)(x[j] / s);
    }
    return s;
}

void net_init(struct net *n, uint64_t seed)
{
    uint64_t state = stream(seed, 1);
    int64_t weights = (int64_t)n->dim * n->hidden;
    double range = sqrt(3); /* x has length 1: of variance 1, as are numbers of x W1 */

    n->part = 2 * weights; /* W1 (dim,hidden), W2 (hidden,dim) */
    n->count = 2 * n->part;
    n->online = zeros(n->count, sizeof *n->online);
    n->target = zeros(n->count, sizeof *n->target);
    n->m = zeros(n->count, sizeof *n->m);
    n->v = zeros(n->count, sizeof *n->v);
    n->grad = zeros(n->count + 1, sizeof *n->grad);
    for (int64_t i = 0; i < n->count; i++)
        if (i % n->part < weights)
            n->target[i] = n->online[i] = (float)(range * (2 * uniform(&state) - 1));
}

void net_update(struct net *n, double rate, double average)
{
    double b1 = 0.9, b2 = 0.999;
    double c1 = 1 - pow(b1, (double)++n->steps), c2 = 1 - pow(b2, (double)n->steps);

    for (int64_t i = 0; i < n->count; i++) {
        double g = n->grad[i];
        n->m[i] = (float)(b1 * n->m[i] + (1 - b1) * g);
        n->v[i] = (float)(b2 * n->v[i] + (1 - b2) * g * g);
        n->online[i] -= (float)(rate * n->m[i] / c1 / (sqrt(n->v[i] / c2) + 1e-8));
        n->target[i] = (float)(average * n->target[i] + (1 - average) * n->online[i]);
    }
}

/* Where this rank has all rows, there is nothing to sum. */
static void subtract_mean(float *x, int rows, int d, int all)
{
    SCOPED double *mean = zeros(d, sizeof *mean);

    for (int64_t i = 0; i < (int64_t)rows * d; i++)
        mean[i % d] += x[i];
    if (rows < all)
        sum_ranks(MEAN, mean);
    for (int64_t i = 0; i < (int64_t)rows * d; i++)
        x[i] -= (float)(mean[i % d] / all);
}

void mlp_forward(const struct net *n, const float *mlp, const float *x, int rows, int all,
                 float *y, float *out)
{
    int64_t size = (int64_t)rows * n->hidden;

    memset(y, 0, (size_t)size * sizeof *y);
    add_product('N', 'N', rows, n->hidden, n->dim, x, mlp, y);
    for (int64_t i = 0; i < size; i++)
        y[i] = fmaxf(y[i], 0);
    memcpy(out, x, (size_t)rows * (size_t)n->dim * sizeof *x);
    add_product('N', 'N', rows, n->dim, n->hidden, y, mlp + n->part / 2, out);
    subtract_mean(out, rows, n->dim, all);
}

void mlp_backward(const struct net *n, const float *mlp, const float *x, const float *y,
                  int rows, int all, float *dout, float *grad)
{
    int64_t size = (int64_t)rows * n->hidden;
    SCOPED float *dy = zeros(size, sizeof *dy);

    subtract_mean(dout, rows, n->dim, all);
    add_product('T', 'N', n->hidden, n->dim, rows, y, dout, grad + n->part / 2);
    add_product('N', 'T', rows, n->hidden, n->dim, dout, mlp + n->part / 2, dy);
    for (int64_t i = 0; i < size; i++)
        dy[i] = y[i] > 0 ? dy[i] : 0;
    add_product('T', 'N', n->dim, n->hidden, rows, x, dy, grad);
    add_product('N', 'T', rows, n->dim, n->hidden, dy, mlp, dout);
}
