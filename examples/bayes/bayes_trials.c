/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks models by evidence and bound: those of files, and the paper's two of generated data
 * (settings as in the program that its authors released): the number of features, and the
 * prior variance.  Networks of one hidden layer follow from few units to infinitely many.
 */
#include <math.h>
#include <stdlib.h>

#include "bayes.h"

enum { MODELS = 10 };

static double rank(const double *a, int n, int i)
{
    double below = 0;

    for (int j = 0; j < n; j++)
        below += (a[j] < a[i]) + (a[j] == a[i]) / 2.0;
    return below;
}

double spearman(const double *a, const double *b, int n)
{
    double aa = 0, ab = 0, bb = 0, mean = n / 2.0; /* of below */

    for (int i = 0; i < n; i++) {
        double u = rank(a, n, i) - mean, v = rank(b, n, i) - mean;
        aa += u * u;
        ab += u * v;
        bb += v * v;
    }
    return ab / sqrt(aa * bb);
}

static int by_evidence(const void *a, const void *b)
{
    const struct model *x = a, *y = b;

    return (x->log_p < y->log_p) - (x->log_p > y->log_p);
}

static void check_same(const struct data *a, const struct data *b)
{
    if (a->n != b->n)
        errx(2, "%s has %d rows and %s %d, expected models of the same y", a->name, a->n,
             b->name, b->n);
    for (int i = 0; i < a->n; i++)
        if (a->y[i] != b->y[i])
            errx(2, "%s and %s differ in y of row %d, expected models of the same y", a->name,
                 b->name, i + 1);
}

static void check_gram(const struct data *d)
{
    if (d->n != d->d)
        errx(2, "%s: %d rows of %d, expected a Gram matrix and a column y", d->name, d->n,
             d->d);
    for (int64_t i = 0; i < d->n; i++)
        for (int64_t j = 0; j < i; j++)
            if (d->x[i * d->n + j] != d->x[j * d->n + i])
                errx(2, "%s: rows %d and %d, expected a symmetric matrix", d->name, (int)j + 1,
                     (int)i + 1);
}

void bayes_evidence(const struct options *o, FILE *out)
{
    struct data *d = calloc((size_t)o->files, sizeof *d);
    struct model *model = calloc((size_t)o->files, sizeof *model);
    uint64_t state = (uint64_t)o->x[SEED];
    int k = (int)o->x[KERNEL];

    if (o->x[WIDTH] > 0 && k != RELU && k != NTK)
        errx(2, "--width without a network, expected --kernel=relu or ntk");
    for (int m = 0; m < o->files; m++) {
        d[m] = data_read(o->file[m]);
        check_same(&d[0], &d[m]);
        if (k == GRAM)
            check_gram(&d[m]);
        double *g = gram(&d[m], (enum kernel)k, (int)o->x[WIDTH], o->x[PRIOR], &state);
        learn(g, &d[m], o, &state, &model[m]);
        free(g);
    }
    weigh(model, o->files, d, o->x[NOISE]);
    qsort(model, (size_t)o->files, sizeof *model, by_evidence);
    fprintf(out, "%14s %14s %14s %9s %14s %9s %9s %9s  model\n", "log P", "L", "L_k", "+-",
            "L_sampled", "+-", "evidence", "combined");
    for (struct model *m = model; m < model + o->files; m++)
        fprintf(out, "%14.6f %14.6f %14.6f %9.2g %14.6f %9.2g %9.6f %9.5f  %s\n", m->log_p,
                m->bound, m->bound_k.value, m->bound_k.error, m->sampled.value,
                m->sampled.error, m->evidence, m->combined, m->name);
    for (struct model *m = model; m < model + o->files && o->x[ITEMS]; m++) {
        fprintf(out, "# rows of %s\n%14s %14s %14s %14s\n", m->name, "mean", "variance",
                "log P", "L");
        for (int i = 0; i < d->n; i++)
            fprintf(out, "%14.6g %14.6g %14.6f %14.6f\n", m->item[i].mean, m->item[i].var,
                    m->item[i].log_p, m->item[i].bound);
    }
}

/* One set-up: data of which y is in the first `informative` features, model m sees the first
 * features[m] under prior_var[m]. */
struct setup {
    const char *what;
    int models, n, d, informative;
    int features[MODELS];
    double prior_var[MODELS], noise_var;
};

/* Sums over repeats; the columns of what is printed. */
enum { LOG_P, BOUND, BOUND_K, SAMPLED, COMBINED, COLUMNS };

static void repeat(const struct setup *s, const struct options *o, uint64_t *state,
                   double value[COLUMNS][MODELS])
{
    struct data all = {s->what, s->n, s->d, zeros(s->n, s->d), zeros(s->n, 1)}, d = all;
    struct model model[MODELS];
    struct options with = *o;

    with.x[NOISE] = s->noise_var;
    for (int i = 0; i < s->n; i++) {
        all.y[i] = normal(state);
        for (int j = 0; j < s->d; j++)
            all.x[i * s->d + j] = normal(state) + (j < s->informative ? all.y[i] : 0);
    }
    d.x = zeros(s->n, s->d);
    for (int m = 0; m < s->models; m++) {
        d.d = s->features[m];
        for (int i = 0; i < s->n; i++)
            for (int j = 0; j < d.d; j++)
                d.x[i * d.d + j] = all.x[i * s->d + j];
        double *g = gram(&d, LINEAR, 0, s->prior_var[m], state);
        learn(g, &d, &with, state, &model[m]);
        free(g);
    }
    weigh(model, s->models, &d, s->noise_var);
    for (int m = 0; m < s->models; m++) {
        const double of[COLUMNS] = {model[m].log_p, model[m].bound, model[m].bound_k.value,
                                    model[m].sampled.value, model[m].combined};
        for (int c = 0; c < COLUMNS; c++)
            value[c][m] = of[c];
        free(model[m].item);
    }
    free(all.x);
    free(all.y);
    free(d.x);
}

static void compare(const struct setup *s, const struct options *o, FILE *out)
{
    double mean[COLUMNS][MODELS] = {{0}}, value[COLUMNS][MODELS];
    double rho[COLUMNS] = {0}, least[COLUMNS] = {0};
    uint64_t state = (uint64_t)o->x[SEED];

    for (int r = 0; r < REPEATS; r++) {
        repeat(s, o, &state, value);
        for (int c = 0; c < COLUMNS; c++) {
            double is = spearman(value[LOG_P], value[c], s->models);
            rho[c] += is / REPEATS;
            least[c] = r ? fmin(least[c], is) : is;
            for (int m = 0; m < s->models; m++)
                mean[c][m] += value[c][m] / REPEATS;
        }
    }
    fprintf(out, "# mean of %d repeats\n%10s %12s %12s %12s %12s %12s\n", REPEATS, s->what,
            "log P", "L", "L_k", "L_sampled", "combined");
    for (int m = 0; m < s->models; m++) {
        if (s->features[0] == s->features[1])
            fprintf(out, "%10.3g", s->prior_var[m]);
        else
            fprintf(out, "%10d", s->features[m]);
        for (int c = 0; c < COLUMNS; c++)
            fprintf(out, c < COMBINED ? " %12.1f" : " %12.4f", mean[c][m]);
        fprintf(out, "\n");
    }
    fprintf(out, "# rank correlation with log P\n%10s", "mean");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(out, " %12.3f", rho[c]);
    fprintf(out, "\n%10s", "least");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(out, " %12.3f", least[c]);
    fprintf(out, "\n");
}

void bayes_features(const struct options *o, FILE *out)
{
    struct setup s = {"features", 6, 60, 30, 15, {0}, {0}, 1.0 / 15};

    for (int m = 0; m < s.models; m++) {
        s.features[m] = 5 * (m + 1);
        s.prior_var[m] = 1.0 / s.features[m] / s.features[m];
    }
    compare(&s, o, out);
}

void bayes_variance(const struct options *o, FILE *out)
{
    struct setup s = {"variance", 10, 50, 25, 25, {0}, {0}, 0.1};

    for (int m = 0; m < s.models; m++) {
        s.features[m] = s.d;
        s.prior_var[m] = pow(4, -m);
    }
    compare(&s, o, out);
}

void bayes_limit(const struct options *o, FILE *out)
{
    enum { N = 64, D = 4, WIDTHS = 7 };
    static const int width[WIDTHS] = {4, 16, 64, 256, 1024, 4096, 0};
    struct data d = {"limit", N, D, zeros(N, D), zeros(N, 1)};
    struct options with = *o;
    uint64_t state = (uint64_t)o->x[SEED];
    double log_p[2 * WIDTHS], bound[2 * WIDTHS], bound_k[2 * WIDTHS];

    with.x[NOISE] = 0.1;
    for (int i = 0; i < N * D; i++)
        d.x[i] = normal(&state);
    for (int i = 0; i < N; i++)
        d.y[i] = target(d.x + i * D) + sqrt(with.x[NOISE]) * normal(&state);
    fprintf(out, "%6s %8s %12s %12s %12s %12s\n", "kernel", "width", "distance", "log P", "L",
            "L_k");
    for (int i = 0; i < 2 * WIDTHS; i++) {
        enum kernel kernel = i < WIDTHS ? RELU : NTK;
        double *limit = gram(&d, kernel, 0, 1, &state), far = 0, all = 0;
        double *g = gram(&d, kernel, width[i % WIDTHS], 1, &state);
        struct model model;
        for (int j = 0; j < N * N; j++) {
            far += (g[j] - limit[j]) * (g[j] - limit[j]);
            all += limit[j] * limit[j];
        }
        learn(g, &d, &with, &state, &model);
        log_p[i] = model.log_p;
        bound[i] = model.bound;
        bound_k[i] = model.bound_k.value;
        fprintf(out, "%6s %8.0f %12.4f %12.1f %12.1f %12.1f\n", kernel == RELU ? "relu" : "ntk",
                width[i % WIDTHS] ? width[i % WIDTHS] : INFINITY, sqrt(far / all), log_p[i],
                bound[i], bound_k[i]);
        free(limit);
        free(g);
        free(model.item);
    }
    fprintf(out, "# rank correlation with log P: L %.3f, L_k %.3f\n",
            spearman(log_p, bound, 2 * WIDTHS), spearman(log_p, bound_k, 2 * WIDTHS));
}
