/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ConNR adds to BYOL.  The neighbours of a key are those of similar neighbourhoods:
 *
 *     G = K K^T;  R_i: the k1 largest of row i, itself included;  A_ij = 1 for j in R_i, else 0
 *     twice:  A = A + A^T;  A_i = sum of G_ij^2 A_j over the first k2 of R_i, over its length
 *     C = A A^T;  the neighbours of i are the k largest of row i
 *
 * Keys near a boundary between clusters are left out until the filter is relaxed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "connr.h"

/* The k largest of v (n), in descending order; of equal ones the first. */
static void largest(const float *v, int n, int k, int *out)
{
    int have = 0;

    for (int i = 0; i < n; i++) {
        if (have == k && v[i] <= v[out[k - 1]])
            continue;
        int at = have < k ? have++ : k - 1;
        for (; at > 0 && v[i] > v[out[at - 1]]; at--)
            out[at] = out[at - 1];
        out[at] = i;
    }
}

void rerank(const float *keys, int b, int d, int k1, int k2, int k, int first, int rows,
            float *c, int *near)
{
    int64_t all = (int64_t)b * b;
    SCOPED float *g = zeros(all, sizeof *g), *a = zeros(all, sizeof *a);
    SCOPED int *nearest = zeros((int64_t)b * k1, sizeof *nearest);

    add_product('N', 'T', b, b, d, keys, keys, g);
    for (int64_t i = 0; i < b && k2 > 0; i++) {
        largest(&g[i * b], b, k1, &nearest[i * k1]);
        for (int e = 0; e < k1; e++)
            a[i * b + nearest[i * k1 + e]] = 1;
    }
    for (int round = 0; round < 2 && k2 > 1; round++) {
        float *next = zeros(all, sizeof *next);
        for (int64_t i = 0; i < b; i++)
            for (int e = 0; e < k2; e++) {
                int64_t j = nearest[i * k1 + e];
                float weight = g[i * b + j] * g[i * b + j];
                for (int64_t h = 0; h < b; h++)
                    next[i * b + h] += weight * (a[j * b + h] + a[h * b + j]);
            }
        normalise(next, b, b);
        free(a);
        a = next;
    }
    memset(c, 0, (size_t)rows * (size_t)b * sizeof *c);
    if (k2 > 0)
        add_product('N', 'T', rows, b, b, &a[(int64_t)first * b], a, c);
    else
        memcpy(c, &g[(int64_t)first * b], (size_t)rows * (size_t)b * sizeof *c);
    for (int64_t i = 0; i < rows; i++)
        largest(&c[i * b], b, k, &near[i * k]);
}

void boundary_filter(const float *keys, const int *of, int b, int d, const float *centre, int k,
                     double theta, char *keep)
{
    SCOPED float *cosine = zeros((int64_t)b * k, sizeof *cosine);
    SCOPED double *ratio = zeros(b, sizeof *ratio);

    add_product('N', 'T', b, k, d, keys, centre, cosine);
    for (int64_t i = 0; i < b; i++) { /* of squares: the distance is sqrt(2 - 2 cos) */
        double other = -HUGE_VAL;
        for (int c = 0; c < k; c++)
            other = c == of[i] ? other : fmax(other, cosine[i * k + c]);
        ratio[i] = (1 - cosine[i * k + of[i]]) / (1 - other);
    }
    for (int i = 0; i < b; i++) {
        int up_to = 0; /* for theta = 1 this leaves out the largest ratio alone */
        for (int j = 0; j < b; j++)
            up_to += ratio[j] <= ratio[i];
        keep[i] = up_to < (int)(theta * b);
    }
}

double concordance(float *q, int rows, int all, const float *keys, int d, const int *near,
                   int k, const char *keep, float *dq)
{
    double loss = 0;

    for (int i = 0; i < rows; i++, q += d, dq += d) {
        double scale = keep[i] ? -2.0 / all / k : 0, along = 0, length = normalise(q, 1, d);
        for (int j = 0; j < d; j++) {
            double sum = 0;
            for (int e = 0; e < k; e++)
                sum += keys[(int64_t)near[i * k + e] * d + j];
            dq[j] = (float)sum;
            along += sum * q[j];
        }
        loss += scale * along;
        for (int j = 0; j < d; j++)
            dq[j] = (float)(scale / length * (dq[j] - along * q[j]));
    }
    return loss;
}
