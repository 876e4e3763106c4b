/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The classifiers.  Of a text of words i, with label y and keywords g:
 *
 *     h_i  = tanh(C [x_{i-1}; x_i; x_{i+1}] + c)    x: vectors of words, which are not trained
 *     a    = softmax over i of v . h_i
 *     z    = u . (sum of a_i h_i) + s polarity + b  polarity: 0 but in the hybrid network
 *     loss = log(1 + e^z) - y z + guide KL(g || a)  g: uniform over keywords; none: no KL
 *
 * For comparison --bag has z = sum of w over the words + b alone.
 *
 * The ranks share out each batch and sum their gradients with libparo, so that any number of
 * ranks takes the same steps.
 */
#include <math.h>
#include <paro.h>
#include <stdlib.h>
#include <string.h>

#include "crowdtsc.h"

enum { HIDDEN = 32, BATCH = 16 };
static const double rate = 0.003, decay = 1; /* of Adam, and of weights apart from it */

struct run {
    struct words words;
    struct texts asked, test;
    double *votes[2]; /* [words.n] the lexicon: keywords of negative and of positive texts */
    double guide;     /* 0: unguided */
    int hybrid, bag, rank, ranks;
};

static void add(double *restrict to, double factor, const double *restrict x, int n)
{
    for (int i = 0; factor != 0 && i < n; i++)
        to[i] += factor * x[i];
}

static double dot(const double *a, const double *b, int n)
{
    double s = 0;

    for (int i = 0; i < n; i++)
        s += a[i] * b[i];
    return s;
}

/* The sum of log odds of a text's words in the lexicon, without what it learns from. */
static double polarity(const struct run *r, const struct text *t, int learns)
{
    double sum = 0;

    for (int i = 0; r->hybrid && i < t->n; i++) {
        double seen[2] = {r->votes[0][t->word[i]], r->votes[1][t->word[i]]};
        for (int j = 0; learns && j < t->n; j++)
            seen[t->positive] -= t->keyword[j] && t->word[j] == t->word[i];
        sum += log((seen[1] + 0.5) / (seen[0] + 0.5));
    }
    return sum;
}

/* x (words,3 DIM), h (words,HIDDEN), a (words): windows, states, and log of the attention */
static void forward(const struct run *r, const double *theta, const struct text *t, double *x,
                    double *h, double *a)
{
    const double *c = theta + 3 * DIM * HIDDEN, *v = c + HIDDEN;
    double most = -INFINITY, sum = 0;

    for (int i = 0; i < t->n; i++, x += 3 * DIM, h += HIDDEN) {
        for (int k = i > 0 ? -1 : 0; k <= 1 && i + k < t->n; k++)
            add(&x[(k + 1) * DIM], 1, &r->words.vector[t->word[i + k] * DIM], DIM);
        add(h, 1, c, HIDDEN);
        for (int k = 0; k < 3 * DIM; k++)
            add(h, x[k], &theta[k * HIDDEN], HIDDEN);
        for (int k = 0; k < HIDDEN; k++)
            h[k] = tanh(h[k]);
        a[i] = dot(v, h, HIDDEN);
        most = fmax(most, a[i]);
    }
    for (int i = 0; i < t->n; i++)
        sum += exp(a[i] - most);
    for (int i = 0; i < t->n; i++)
        a[i] -= most + log(sum);
}

/* The logistic loss of a score, and its derivative. */
static double logistic(double z, int positive, double *dz)
{
    *dz = 1 / (1 + exp(-z)) - positive;
    return fmax(z, 0) + log1p(exp(-fabs(z))) - positive * z;
}

/* As pass, of a bag of words.  theta and grad: w (words), unused, b */
static double pass_bag(const struct run *r, const double *theta, const struct text *t,
                       double *grad, double *score)
{
    double dz, loss;

    *score = theta[r->words.n + 1];
    for (int i = 0; i < t->n; i++)
        *score += theta[t->word[i]];
    loss = logistic(*score, t->positive, &dz);
    for (int i = 0; grad && i < t->n; i++)
        grad[t->word[i]] += dz;
    if (grad)
        grad[r->words.n + 1] += dz;
    return loss;
}

/*
 * The loss of a text, whose score is above 0 if it seems positive; to learn from it, its
 * gradient is added to grad.  theta and grad: C (3 DIM,HIDDEN), c, v, u, s, b.
 */
static double pass(const struct run *r, const double *theta, const struct text *t, double *grad,
                   double *score)
{
    if (r->bag)
        return pass_bag(r, theta, t, grad, score);
    int n = t->n, H = HIDDEN, v = (3 * DIM + 1) * H, u = v + H, s = u + H, guides = 0;
    double *x = zeros((size_t)(n * (3 * DIM + H + 1)), sizeof(*x)), *h = x + n * 3 * DIM;
    double *a = h + n * H, g = 0, loss = 0, uh = 0, known = polarity(r, t, grad != NULL);

    forward(r, theta, t, x, h, a);
    for (int i = 0; i < n; i++)
        guides += t->keyword[i];
    g = guides ? r->guide / guides : 0;
    for (int i = 0; i < n; i++) {
        loss += t->keyword[i] ? g * (-log(guides) - a[i]) : 0;
        a[i] = exp(a[i]);
        uh += a[i] * dot(&h[i * H], &theta[u], H);
    }
    double z = *score = uh + theta[s] * known + theta[s + 1];
    double dz;
    loss += logistic(z, t->positive, &dz);
    for (int i = 0; grad && i < n; i++) {
        double *hi = &h[i * H], da = a[i] * dz * (dot(hi, &theta[u], H) - uh);
        da += g * (guides * a[i] - t->keyword[i]);
        add(&grad[v], da, hi, H);
        add(&grad[u], a[i] * dz, hi, H);
        for (int j = 0; j < H; j++) /* from here on the gradient before tanh */
            hi[j] = (da * theta[v + j] + a[i] * dz * theta[u + j]) * (1 - hi[j] * hi[j]);
        for (int j = 0; j < 3 * DIM; j++)
            add(&grad[j * H], x[3 * i * DIM + j], hi, H);
        add(&grad[3 * DIM * H], 1, hi, H);
    }
    if (grad) {
        grad[s] += dz * known;
        grad[s + 1] += dz;
    }
    free(x);
    return loss;
}

/* Returns the mean loss of the last epoch.  theta (n), and memory for two moments (2,n). */
static double train(const struct run *r, const struct options *o, double *theta, int n)
{
    struct paro_spec sum = {.bytes = sizeof sum, .op = PARO_ALL_REDUCE, .type = PARO_F64};
    uint64_t state = (uint64_t)o->x[SEED];
    double *grad, *all, *m = theta + n, *v = m + n, loss = 0, score;
    struct paro_comm *comm;
    struct paro_coll *coll;
    struct paro_error err;

    sum.count = n + 1; /* the last is the loss */
    if (paro_comm_open(&comm, MPI_COMM_WORLD, NULL, &err) ||
        paro_prepare(comm, &sum, &coll, &err))
        errx(2, "%s", err.text);
    paro_buffers(coll, (void **)&grad, (void **)&all);
    for (int i = 0; i < n && !r->bag; i++)
        theta[i] = (2 * uniform(&state) - 1) / sqrt(HIDDEN);
    theta[n - 2] = 1; /* log odds need no factor */
    for (int epoch = 0, step = 0; epoch < (int)o->x[EPOCHS]; epoch++) {
        int *order = shuffled(r->asked.n, &state), count;
        loss = 0;
        for (int from = 0; from < r->asked.n; from += count, step++) {
            count = r->asked.n - from < BATCH ? r->asked.n - from : BATCH;
            memset(grad, 0, (size_t)(n + 1) * sizeof(*grad));
            for (int i = r->rank; i < count; i += r->ranks)
                grad[n] += pass(r, theta, r->asked.at[order[from + i]], grad, &score);
            if (paro_run(coll, grad, all, &err))
                errx(2, "%s", err.text);
            double fix = sqrt(1 - pow(0.999, step + 1)) / (1 - pow(0.9, step + 1));
            for (int i = 0; i < n; i++) {
                m[i] += 0.1 * (all[i] / count - m[i]);
                v[i] += 0.001 * (all[i] / count * all[i] / count - v[i]);
                theta[i] -=
                    rate * (fix * m[i] / (sqrt(v[i]) + 1e-8) + (i < n - 2) * decay * theta[i]);
            }
            loss += all[n] / r->asked.n;
        }
        free(order);
    }
    paro_free(coll);
    paro_comm_close(comm);
    return loss;
}

void crowd_train(const struct options *o, FILE *out)
{
    struct run r = {.hybrid = o->x[HYBRID] > 0, .bag = o->x[BAG] > 0};
    int n = (3 * DIM + 3) * HIDDEN + 2, right = 0, all, plain = o->x[PLAIN] > 0 || r.bag;
    double *theta, loss, score;

    r.guide = plain ? 0 : o->x[GUIDE];
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.ranks);
    if (r.rank) /* rank 0 reads first: one message for one error */
        MPI_Barrier(MPI_COMM_WORLD);
    struct texts pool = texts_read(o->file[0], 3, &r.words);
    r.asked = texts_read(o->file[1], 4, &r.words);
    r.test = texts_read(o->file[2], 3, &r.words);
    if (r.rank == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    words_learn(&r.words, &pool);
    for (int k = 0; k < 2; k++)
        r.votes[k] = zeros((size_t)r.words.n, sizeof(double));
    for (int i = 0; i < r.asked.n; i++)
        for (int j = 0; j < r.asked.at[i]->n; j++) {
            struct text *t = r.asked.at[i];
            t->keyword[j] |= plain; /* without people every word is in the lexicon */
            r.votes[t->positive][t->word[j]] += t->keyword[j];
        }
    n = r.bag ? r.words.n + 2 : n;
    theta = zeros(3 * (size_t)n, sizeof(*theta));
    loss = train(&r, o, theta, n);
    for (int i = r.rank; i < r.test.n; i += r.ranks) {
        pass(&r, theta, r.test.at[i], NULL, &score);
        right += (score > 0) == r.test.at[i]->positive;
    }
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (r.rank == 0)
        fprintf(out, "%s\t%s\t%d labels\tseed %.0f\tloss %.9f\taccuracy %.4f\n",
                r.bag ? "bag" : (r.hybrid ? "hybrid" : "attention"),
                plain ? "unguided" : "guided", r.asked.n, o->x[SEED], loss,
                (double)all / r.test.n);
}
