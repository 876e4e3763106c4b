/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trains small networks, each by its own loss, and a linear combination of their outputs by
 * the loss of the sum, all on the same batches: does the combination prefer those whose
 * training losses add up to least (section 4.2 of the paper)?
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bayes.h"

enum { NETWORKS = 10, D = 4, ROWS = 512, BATCH = 16, EPOCHS = 40, UNITS_MAX = 32 };

/* f(x) = sum over units of out * relu(in'x + in[D]) */
struct network {
    int units;
    double in[UNITS_MAX][D + 1], out[UNITS_MAX];
    double d_in[UNITS_MAX][D + 1], d_out[UNITS_MAX];
};

static void network_init(struct network *f, int units, uint64_t *state)
{
    *f = (struct network){.units = units};
    for (int k = 0; k < units; k++) {
        for (int j = 0; j <= D; j++)
            f->in[k][j] = normal(state) * sqrt(2.0 / (D + 1));
        f->out[k] = normal(state) / sqrt(units);
    }
}

/* Returns f(x); adds the gradient of (f(x) - y)^2 / 2. */
static double pass(struct network *f, const double *x, double y)
{
    double u[UNITS_MAX], sum = 0;

    for (int k = 0; k < f->units; k++) {
        u[k] = f->in[k][D];
        for (int j = 0; j < D; j++)
            u[k] += f->in[k][j] * x[j];
        sum += f->out[k] * fmax(u[k], 0);
    }
    for (int k = 0; k < f->units; k++) {
        if (u[k] <= 0)
            continue;
        f->d_out[k] += (sum - y) * u[k];
        for (int j = 0; j <= D; j++)
            f->d_in[k][j] += (sum - y) * f->out[k] * (j < D ? x[j] : 1);
    }
    return sum;
}

static void descend(struct network *f, double rate)
{
    for (int k = 0; k < f->units; k++) {
        f->out[k] -= rate * f->d_out[k];
        for (int j = 0; j <= D; j++)
            f->in[k][j] -= rate * f->d_in[k][j];
    }
    memset(f->d_in, 0, sizeof f->d_in);
    memset(f->d_out, 0, sizeof f->d_out);
}

double target(const double *x)
{
    return sin(3 * x[0]) + x[1] * x[2] - fabs(x[3]);
}

/* loss: the mean over all steps of each network's, before the step */
static void train(struct network *f, double *w, double *loss, uint64_t *state)
{
    static double x[ROWS][D], y[ROWS];
    const double rate = 0.02, rate_w = 0.005;

    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < D; j++)
            x[i][j] = 2 * uniform(state) - 1;
        y[i] = target(x[i]) + 0.1 * normal(state);
    }
    for (int m = 0; m < NETWORKS; m++)
        w[m] = 1.0 / NETWORKS;
    for (int step = 0; step < EPOCHS * ROWS / BATCH; step++) {
        double d_w[NETWORKS] = {0}, said[NETWORKS];
        for (int b = 0; b < BATCH; b++) {
            int i = (int)(uniform(state) * ROWS);
            double sum = 0;
            for (int m = 0; m < NETWORKS; m++) {
                said[m] = pass(&f[m], x[i], y[i]);
                sum += w[m] * said[m];
                loss[m] += (said[m] - y[i]) * (said[m] - y[i]) / (EPOCHS * ROWS);
            }
            for (int m = 0; m < NETWORKS; m++)
                d_w[m] += (sum - y[i]) * said[m];
        }
        for (int m = 0; m < NETWORKS; m++) {
            descend(&f[m], rate / BATCH);
            w[m] -= rate_w / BATCH * d_w[m];
        }
    }
}

void bayes_networks(const struct options *o, FILE *out)
{
    static const int units[NETWORKS] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    double mean_w[NETWORKS] = {0}, mean_loss[NETWORKS] = {0}, rho[REPEATS], sum = 0;
    uint64_t state = (uint64_t)o->x[SEED];
    struct network f[NETWORKS];

    for (int r = 0; r < REPEATS; r++) {
        double w[NETWORKS], loss[NETWORKS] = {0}, fast[NETWORKS];
        for (int m = 0; m < NETWORKS; m++)
            network_init(&f[m], units[m], &state);
        train(f, w, loss, &state);
        for (int m = 0; m < NETWORKS; m++) {
            fast[m] = -loss[m];
            mean_w[m] += w[m] / REPEATS;
            mean_loss[m] += loss[m] / REPEATS;
        }
        rho[r] = spearman(w, fast, NETWORKS);
        sum += rho[r] / REPEATS;
    }
    fprintf(out, "# mean of %d repeats\n%6s %12s %12s\n", REPEATS, "units", "loss", "weight");
    for (int m = 0; m < NETWORKS; m++)
        fprintf(out, "%6d %12.4f %12.4f\n", units[m], mean_loss[m], mean_w[m]);
    fprintf(out, "# rank correlation of weight and least loss: mean %.3f, repeats", sum);
    for (int r = 0; r < REPEATS; r++)
        fprintf(out, " %.3f", rho[r]);
    fprintf(out, "\n");
}
