/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which texts to ask about: a random sample is clustered (k-means), and of each the texts
 * nearest to its centre are taken, so that few questions cover many kinds of texts.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crowdtsc.h"

/* A word met twice has no statistics.  A sample bounds the time that clusters take. */
enum { COUNT_LEAST = 3, WINDOW = 5, SAMPLE = 2000, ROUNDS = 20 };

static void normalise(double *x)
{
    double length = 1e-99;

    for (int c = 0; c < DIM; c++)
        length += x[c] * x[c];
    for (int c = 0; c < DIM; c++)
        x[c] /= sqrt(length);
}

/* The vectors say which frequent words a word is near to: pointwise mutual information. */
void words_learn(struct words *w, const struct texts *t)
{
    int *count = zeros((size_t)w->n, sizeof(*count)),
        *column = zeros((size_t)w->n, sizeof(int)), frequent = DIM + 1;
    double met[DIM] = {0}, total = 0;

    w->share = zeros((size_t)w->n, sizeof(*w->share));
    w->vector = zeros((size_t)w->n * DIM, sizeof(*w->vector));
    for (int i = 0; i < t->n; i++)
        for (int j = 0; j < t->at[i]->n; j++)
            count[t->at[i]->word[j]]++;
    for (int least = 1; frequent > DIM; least++) { /* columns for the most frequent words */
        frequent = 0;
        for (int i = 0; i < w->n; i++)
            column[i] = count[i] >= least ? frequent++ : -1;
    }
    for (int i = 0; i < t->n; i++)
        for (int j = 0, *word = t->at[i]->word; j < t->at[i]->n; j++)
            for (int k = j - WINDOW; k <= j + WINDOW; k++)
                if (k >= 0 && k < t->at[i]->n && k != j && column[word[k]] >= 0)
                    w->vector[word[j] * DIM + column[word[k]]]++;
    for (int i = 0; i < w->n * DIM; total += w->vector[i++])
        met[i % DIM] += w->vector[i];
    for (int i = 0; i < w->n; i++) {
        double near = 0;
        w->share[i] = (double)count[i] / t->words;
        for (int c = 0; c < DIM; c++)
            near += w->vector[i * DIM + c];
        for (int c = 0; c < DIM; c++) {
            double *v = &w->vector[i * DIM + c], ratio = *v * total / (near * met[c]);
            *v = count[i] >= COUNT_LEAST && ratio > 1 ? log(ratio) : 0;
        }
        normalise(&w->vector[i * DIM]);
    }
}

/* Of each row of x (n,DIM) the cluster and the distance.  The first k rows begin as centres. */
static void cluster(const double *x, int n, int k, int *of, double *distance)
{
    double *centre = zeros((size_t)k * DIM, sizeof(*centre));
    int *size = zeros((size_t)k, sizeof(*size));

    memcpy(centre, x, (size_t)k * DIM * sizeof(*x));
    for (int round = 0; round < ROUNDS; round++) {
        memset(size, 0, (size_t)k * sizeof(*size));
        for (int i = 0; i < n; size[of[i++]]++) {
            distance[i] = INFINITY;
            for (int j = 0; j < k; j++) {
                double s = 0;
                for (int c = 0; c < DIM; c++)
                    s += pow(x[i * DIM + c] - centre[j * DIM + c], 2);
                of[i] = s < distance[i] ? j : of[i];
                distance[i] = fmin(s, distance[i]);
            }
        }
        for (int j = 0; j < k * DIM; j++) /* an empty cluster keeps its centre */
            centre[j] = size[j / DIM] ? 0 : centre[j];
        for (int i = 0; i < n * DIM; i++)
            centre[of[i / DIM] * DIM + i % DIM] += x[i] / size[of[i / DIM]];
    }
}

void crowd_query(const struct options *o, FILE *out)
{
    uint64_t state = (uint64_t)o->x[SEED];
    struct words w = {0};
    struct texts t = texts_read(o->file[0], 3, &w);
    int n = t.n < SAMPLE ? t.n : SAMPLE, *order = shuffled(t.n, &state);
    int budget = (int)o->x[BUDGET], each = o->x[RANDOM] ? budget : (int)o->x[EACH];
    int clusters = (budget + each - 1) / each, *of = zeros((size_t)n, sizeof(*of));
    double *x = zeros((size_t)n * DIM, sizeof(*x)), *far = zeros((size_t)n, sizeof(*far));

    if (budget > n)
        errx(2, "budget %d, expected at most %d, the texts of the sample", budget, n);
    if (!o->x[RANDOM]) {
        words_learn(&w, &t);
        for (int i = 0; i < n; normalise(&x[i++ * DIM]))
            for (int j = 0; j < t.at[order[i]]->n * DIM; j++) { /* frequent words count less */
                int k = t.at[order[i]]->word[j / DIM];
                x[i * DIM + j % DIM] += w.vector[k * DIM + j % DIM] / (1 + 1000 * w.share[k]);
            }
        cluster(x, n, clusters, of, far);
    }
    fputs("# Which words decide the label?  Answer in columns: your name, the id, the words' "
          "positions\n# as in 2,5, counted from 1, or 0 for none.\n",
          out);
    for (int turn = 0; budget > 0; turn++) { /* each cluster in turn gives its nearest text */
        int best = -1;
        for (int i = 0; i < n; i++)
            if (of[i] == turn % clusters && (best < 0 || far[i] < far[best]))
                best = i;
        if (best < 0)
            continue;
        of[best] = -1;
        budget--;
        text_print(t.at[order[best]], &w, '\n', out);
    }
}
