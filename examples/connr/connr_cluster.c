/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spherical k-means, started by k-means++, and how far a clustering agrees with labels:
 * normalised mutual information, accuracy under the best matching of clusters and classes, and
 * the adjusted Rand index.
 */
#include <math.h>
#include <string.h>

#include "connr.h"

enum { RESTARTS = 10, ROUNDS = 300 };
static const double tolerance = 1e-4; /* squared distance by which all centres move */

/* The next centre is a row drawn by 1 - cos, its squared distance to the nearest centre. */
static void choose_centres(const float *x, int n, int d, int k, uint64_t *state, float *centre)
{
    SCOPED double *far = zeros(n, sizeof *far);
    int64_t at = (int64_t)(uniform(state) * n);

    for (int c = 0; c < k; c++, centre += d) {
        memcpy(centre, &x[at * d], (size_t)d * sizeof *x);
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double cosine = 0;
            for (int j = 0; j < d; j++)
                cosine += (double)x[i * d + j] * centre[j];
            far[i] = fmin(c ? far[i] : 2, fmax(1 - cosine, 0));
            sum += far[i];
        }
        sum *= uniform(state);
        for (at = 0; at < n - 1 && (sum -= far[at]) >= 0;)
            at++;
    }
}

/* One round: nearest centres, of which the sum of cosines is returned, and new centres. */
static double move_centres(const float *x, int n, int d, int k, float *centre, int *of,
                           double *moved)
{
    int64_t size = (int64_t)k * d;
    SCOPED float *cosine = zeros((int64_t)n * k, sizeof *cosine);
    SCOPED float *mean = zeros(size, sizeof *mean);
    double sum = 0;

    add_product('N', 'T', n, k, d, x, centre, cosine);
    for (int64_t i = 0; i < n; i++) {
        const float *row = &cosine[i * k];
        of[i] = 0;
        for (int c = 1; c < k; c++)
            of[i] = row[c] > row[of[i]] ? c : of[i];
        sum += row[of[i]];
        for (int j = 0; j < d; j++)
            mean[(int64_t)of[i] * d + j] += x[i * d + j];
    }
    normalise(mean, k, d); /* that of an empty cluster is 0 */
    *moved = 0;
    for (int64_t i = 0; i < size; i++)
        *moved += pow(centre[i] - mean[i], 2);
    memcpy(centre, mean, (size_t)size * sizeof *mean);
    return sum;
}

void kmeans(const float *x, int n, int d, int k, uint64_t seed, float *centre, int *of)
{
    SCOPED float *c = zeros((int64_t)k * d, sizeof *c);
    SCOPED int *nearest = zeros(n, sizeof *nearest);
    double best = -HUGE_VAL;

    for (int r = 0; r < RESTARTS; r++) {
        uint64_t state = stream(seed, (uint64_t)r);
        double sum = 0, moved = HUGE_VAL;
        choose_centres(x, n, d, k, &state, c);
        for (int round = 0; round < ROUNDS && moved > tolerance; round++)
            sum = move_centres(x, n, d, k, c, nearest, &moved);
        if (sum > best) {
            best = sum;
            memcpy(centre, c, (size_t)k * (size_t)d * sizeof *c);
            memcpy(of, nearest, (size_t)n * sizeof *of);
        }
    }
}

/*
 * The Hungarian method: each row in turn is matched along the path to a free column that gains
 * most.  A path takes a column from the row that is matched to it, which goes to another one.
 */
double assignment(const int *table, int k)
{
    SCOPED int *row = zeros(k, sizeof *row), *before = zeros(k, sizeof *before);
    SCOPED double *gain = zeros(k, sizeof *gain);
    double sum = 0;

    for (int i = 0; i < k; i++) {
        int changed = 1, at = -1;
        for (int c = 0; c < k; c++) {
            gain[c] = table[(int64_t)i * k + c];
            before[c] = -1;
            row[c] = i ? row[c] : -1; /* free */
        }
        while (changed--) /* longest paths (Bellman and Ford) */
            for (int64_t from = 0; from < k; from++)
                for (int to = 0; to < k && row[from] >= 0; to++) {
                    const int *of = &table[(int64_t)row[from] * k];
                    if (gain[from] - of[from] + of[to] > gain[to]) {
                        gain[to] = gain[from] - of[from] + of[to];
                        before[to] = (int)from;
                        changed = 1;
                    }
                }
        for (int c = 0; c < k; c++)
            if (row[c] < 0 && (at < 0 || gain[c] > gain[at]))
                at = c;
        sum += gain[at];
        for (; before[at] >= 0; at = before[at])
            row[at] = row[before[at]];
        row[at] = i;
    }
    return sum;
}

static double pairs(double n)
{
    return n * (n - 1) / 2;
}

static double entropy(double share)
{
    return share > 0 ? -share * log(share) : 0;
}

struct scores agreement(const int *label, const int *of, int n, int k)
{
    SCOPED int *table = zeros((int64_t)k * k, sizeof *table);
    double joint = 0, apart = 0, same = 0, same_label = 0, same_cluster = 0;

    for (int i = 0; i < n; i++)
        table[(int64_t)label[i] * k + of[i]]++;
    for (int64_t i = 0; i < k; i++) {
        double in_label = 0, in_cluster = 0;
        for (int64_t j = 0; j < k; j++) {
            in_label += table[i * k + j];
            in_cluster += table[j * k + i];
            joint += entropy((double)table[i * k + j] / n);
            same += pairs(table[i * k + j]);
        }
        apart += entropy(in_label / n) + entropy(in_cluster / n);
        same_label += pairs(in_label);
        same_cluster += pairs(in_cluster);
    }
    double chance = n > 1 ? same_label * same_cluster / pairs(n) : 0;
    double most = (same_label + same_cluster) / 2;
    return (struct scores){.nmi = apart > 0 ? 2 * (apart - joint) / apart : 1,
                           .acc = assignment(table, k) / n,
                           .ari = most > chance ? (same - chance) / (most - chance) : 1};
}
