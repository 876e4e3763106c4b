/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connr: options, training and output.  The ranks share out each batch: they gather the keys,
 * and sum gradients and means with libparo.  Random numbers depend on the seed, the epoch and
 * the text alone, so that the number of ranks changes only rounding.
 */
#include <argp.h>
#include <math.h>
#include <omp.h>
#include <paro.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connr.h"

enum { SEED, WARM_UP, EPOCHS, BATCH, NEIGHBOURS, DIM, HIDDEN, EUCLID, VECTORS, PRINT, OPTIONS };
enum { KEY = 0x100 }; /* no option has a letter */

static const struct argp_option table[] = {
    {"seed", KEY + SEED, "N", 0, "Seed of all random numbers (default: 1)", 0},
    {"warm-up", KEY + WARM_UP, "N", 0, "Epochs of BYOL before ConNR (default: 8)", 0},
    {"epochs", KEY + EPOCHS, "N", 0, "Epochs of ConNR (default: 16)", 0},
    {"batch", KEY + BATCH, "N", 0, "Texts in a step, on all ranks (default: 256)", 0},
    {"neighbours", KEY + NEIGHBOURS, "N", 0, "Of a text in its batch (default: 12)", 0},
    {"dim", KEY + DIM, "N", 0, "Length of a text's vector (default: 64)", 0},
    {"hidden", KEY + HIDDEN, "N", 0, "Hidden units of an MLP (default: 256)", 0},
    {"euclid", KEY + EUCLID, NULL, 0, "Neighbours are the nearest keys, without ConAff", 0},
    {"vectors", KEY + VECTORS, NULL, 0, "FILE has two vectors in place of each text", 0},
    {"print", KEY + PRINT, NULL, 0, "Print the cluster of each line at the end", 0},
    {0}};

/* The filter's first theta; learning rate; average of the target at first; shares of views. */
static const double theta_first = 0.5, rate_most = 0.0003, average_first = 0.95;
static const double crop_warm_up = 0.3, crop_refine = 0.5, drop = 0.2;

struct run {
    int x[OPTIONS], rank, ranks, first, rows; /* this rank's share of a batch */
    const char *path;
    struct texts texts;
    struct net net;
    float *centre; /* (classes,dim) */
    int *of;       /* (texts) clusters */
    int steps;     /* of ConNR, and the time in them: neighbourhoods, and the network */
    double near_s, net_s;
};
static struct paro_comm *comm;
static struct paro_coll *sums[2], *gather; /* by enum sum; of the keys of a batch */
static struct paro_error error;

static void must(int failed)
{
    if (failed)
        errx(2, "%s", error.text);
}

void sum_ranks(enum sum which, void *x)
{
    must(paro_run(sums[which], x, x, &error));
}

/* k-means on the features of all texts, which are those of the target's projector. */
static void cluster(struct run *r)
{
    static const struct view whole = {.crop = 1};
    int n = r->texts.n, d = r->net.dim;
    SCOPED float *x = zeros((int64_t)n * d, sizeof *x), *out = zeros((int64_t)n * d, sizeof *x);
    SCOPED float *y = zeros((int64_t)n * r->net.hidden, sizeof *y);

    texts_view(&r->texts, NULL, n, &whole, 0, x);
    mlp_forward(&r->net, r->net.target, x, n, n, y, out);
    normalise(out, n, d);
    kmeans(out, n, d, r->texts.classes, (uint64_t)r->x[SEED], r->centre, r->of);
}

/* The loss of this rank's queries q of the texts batch[], and its gradient dq. */
static double compare(struct run *r, const int *batch, double theta, float *q, const float *key,
                      float *dq)
{
    int d = r->net.dim, b = r->x[BATCH], k = r->x[NEIGHBOURS] < b ? r->x[NEIGHBOURS] : b;
    SCOPED float *keys = zeros((int64_t)b * (d + r->rows), sizeof *keys);
    SCOPED int *near = zeros((int64_t)r->rows * k, sizeof *near), *of = zeros(b, sizeof *of);
    SCOPED char *keep = memset(zeros(b, 1), 1, (size_t)b);

    must(paro_run(gather, key, keys, &error));
    for (int i = 0; i < b; i++)
        of[i] = r->of[batch[i]];
    for (int i = 0; i < r->rows; i++)
        near[i] = r->first + i;
    if (theta >= 0) {
        double began = MPI_Wtime();
        int k2 = r->x[EUCLID] ? 0 : k < 2 ? k : 2;
        rerank(keys, b, d, k, k2, k, r->first, r->rows, keys + (int64_t)b * d, near);
        r->near_s += MPI_Wtime() - began;
        boundary_filter(keys, of, b, d, r->centre, r->texts.classes, theta, keep);
    }
    return concordance(q, r->rows, 2 * b, keys, d, near, theta < 0 ? 1 : k, keep + r->first,
                       dq);
}

/* One step; theta < 0: of BYOL.  Rows: those of view 0, then of view 1.  Returns the loss. */
static double train_step(struct run *r, const int *batch, const struct view *v, double theta,
                         double rate, double average)
{
    struct net *net = &r->net;
    int rows = 2 * r->rows, all = 2 * r->x[BATCH];
    int64_t half = (int64_t)r->rows * net->dim, y = (int64_t)rows * net->hidden;
    SCOPED float *x = zeros(2 * half, sizeof *x), *key = zeros(2 * half, sizeof *x);
    SCOPED float *z = zeros(2 * half, sizeof *z), *yz = zeros(y, sizeof *yz);
    SCOPED float *q = zeros(2 * half, sizeof *q), *yq = zeros(y, sizeof *yq);
    SCOPED float *dq = zeros(2 * half, sizeof *dq);
    float *predictor = net->online + net->part;
    double loss = 0, net_s;

    for (int w = 0; w < 2; w++)
        texts_view(&r->texts, batch + r->first, r->rows, v, w, x + w * half);
    net_s = -MPI_Wtime();
    mlp_forward(net, net->target, x, rows, all, yz, key);
    mlp_forward(net, net->online, x, rows, all, yz, z);
    mlp_forward(net, predictor, z, rows, all, yq, q);
    net_s += MPI_Wtime();
    normalise(key, rows, net->dim);
    for (int w = 0; w < 2; w++) /* queries of view w, keys of the other one */
        loss += compare(r, batch, theta, q + w * half, key + (1 - w) * half, dq + w * half);
    memset(net->grad, 0, (size_t)net->count * sizeof *net->grad);
    net->grad[net->count] = (float)loss;
    net_s -= MPI_Wtime();
    mlp_backward(net, predictor, z, yq, rows, all, dq, net->grad + net->part);
    mlp_backward(net, net->online, x, yz, rows, all, dq, net->grad);
    if (theta >= 0) {
        r->net_s += net_s + MPI_Wtime();
        r->steps++;
    }
    sum_ranks(GRADIENT, net->grad);
    net_update(net, rate, average);
    return net->grad[net->count];
}

/* Epochs from ... to - 1.  The remainder of an epoch below a batch is unused. */
static void train(struct run *r, int from, int to, int refine)
{
    int n = r->texts.n, steps = n / r->x[BATCH];
    SCOPED int *order = zeros(n, sizeof *order);

    for (int e = from; e < to; e++) {
        uint64_t seed = stream((uint64_t)r->x[SEED], (uint64_t)e + 2), state = seed;
        struct view v = {seed, refine ? crop_refine : crop_warm_up, drop};
        double relaxed = (e - from) / fmax(to - from - 1, 1), loss = 0;
        double theta = refine ? theta_first + (1 - theta_first) * relaxed : -1;
        if (refine)
            cluster(r);
        for (int i = 0; i < n; i++) { /* a random order */
            int j = (int)(uniform(&state) * (i + 1));
            order[i] = order[j];
            order[j] = i;
        }
        for (int i = 0; i < steps; i++) { /* the rate grows during a twentieth of the steps */
            double done = (e + (i + 0.5) / steps) / (r->x[WARM_UP] + r->x[EPOCHS]);
            double wave = (1 + cos(M_PI * done)) / 2, rate = rate_most * fmin(wave, 20 * done);
            loss += train_step(r, &order[(int64_t)i * r->x[BATCH]], &v, theta, rate,
                               1 - (1 - average_first) * wave);
        }
        if (r->rank == 0)
            fprintf(stderr, "epoch %d: loss %.6f\n", e + 1, loss / steps);
    }
}

/* Clusters, and prints a row of the table. */
static void report(struct run *r, const char *method, int epochs, double began)
{
    cluster(r);
    struct scores s = agreement(r->texts.label, r->of, r->texts.n, r->texts.classes);
    if (r->rank == 0)
        printf("%-7s %6d %6.2f %6.2f %6.2f %8.1f\n", method, epochs, 100 * s.nmi, 100 * s.acc,
               100 * s.ari, MPI_Wtime() - began);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct run *r = state->input;
    int least = key == KEY + BATCH ? 2 : key > KEY + EPOCHS;
    char *end = "";

    if (key == ARGP_KEY_NO_ARGS || (key == ARGP_KEY_ARG && r->path))
        errx(2, "%s, expected one", r->path ? "two files" : "no file");
    if (key == ARGP_KEY_ARG)
        r->path = argument;
    if (key < KEY || key >= KEY + OPTIONS)
        return key == ARGP_KEY_ARG ? 0 : ARGP_ERR_UNKNOWN;
    long x = argument ? strtol(argument, &end, 10) : 1;
    if (end == argument || *end || x < least || x > 1000000000)
        errx(2, "--%s is '%.40s', expected a whole number from %d to 1000000000",
             table[key - KEY].name, argument, least);
    r->x[key - KEY] = (int)x;
    return 0;
}

/* Everything but the options, the texts and the number of ranks. */
static void open_run(struct run *r)
{
    struct paro_spec s = {.bytes = sizeof s, .op = PARO_ALL_REDUCE, .type = PARO_F32};
    SCOPED int64_t *counts = zeros(r->ranks, sizeof *counts);
    int64_t d = r->texts.dim, b = r->x[BATCH] < r->texts.n ? r->x[BATCH] : r->texts.n;

    for (int64_t i = 0; i < r->ranks; i++)
        counts[i] = (b * (i + 1) / r->ranks - b * i / r->ranks) * d;
    r->x[BATCH] = (int)b;
    r->first = (int)(b * r->rank / r->ranks);
    r->rows = (int)(counts[r->rank] / d);
    r->net = (struct net){.dim = r->texts.dim, .hidden = r->x[HIDDEN]};
    net_init(&r->net, (uint64_t)r->x[SEED]);
    r->centre = zeros(r->texts.classes * d, sizeof *r->centre);
    r->of = zeros(r->texts.n, sizeof *r->of);
    must(paro_comm_open(&comm, MPI_COMM_WORLD, NULL, &error));
    s.count = r->net.count + 1;
    must(paro_prepare(comm, &s, &sums[GRADIENT], &error));
    s.count = d;
    s.type = PARO_F64;
    must(paro_prepare(comm, &s, &sums[MEAN], &error));
    s.op = PARO_ALL_GATHER;
    s.type = PARO_F32;
    s.counts = counts;
    must(paro_prepare(comm, &s, &gather, &error));
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = table,
        .parser = parse,
        .args_doc = "FILE",
        .doc =
            "Cluster the texts of FILE by ConNR, next to k-means and BYOL."
            "\vA line of FILE is a class, a tab and a text; with --vectors, numbers in place "
            "of the text: the vector of the first view, then that of the second. Classes are "
            "used for their number and for the scores: NMI, accuracy and ARI in %. Runs "
            "under mpirun, too. Exit status after an error: 2."};
    struct run r = {.x = {1, 8, 16, 256, 12, 64, 256}}; /* in the order of the enum */

    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &r);
    omp_set_num_threads(1); /* a rank is a thread */
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.ranks);
    if (r.rank) /* rank 0 reads first: one message for one error */
        MPI_Barrier(MPI_COMM_WORLD);
    texts_read(&r.texts, r.path, r.x[VECTORS], r.x[DIM], (uint64_t)r.x[SEED]);
    if (r.rank == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    open_run(&r);
    int warm_up = r.x[WARM_UP], all = warm_up + r.x[EPOCHS];
    double began = MPI_Wtime();
    if (r.rank == 0)
        printf("%d texts, %d classes, %d words, %d ranks\n"
               "method  epochs    NMI    ACC    ARI  seconds\n",
               r.texts.n, r.texts.classes, r.texts.words, r.ranks);
    report(&r, "k-means", 0, began);
    train(&r, 0, warm_up, 0);
    report(&r, "BYOL", warm_up, began);
    train(&r, warm_up, all, 1);
    if (all > warm_up)
        report(&r, r.x[EUCLID] ? "nearest" : "ConNR", all, began);
    if (r.steps && r.rank == 0)
        fprintf(stderr, "a step of %d texts: neighbourhoods %.2f ms, network %.2f ms\n",
                r.x[BATCH], 1e3 * r.near_s / r.steps, 1e3 * r.net_s / r.steps);
    for (int i = 0; r.x[PRINT] && r.rank == 0 && i < r.texts.n; i++)
        printf("%d\n", r.of[i]);
    paro_comm_close(comm);
    MPI_Finalize();
    if (fclose(stdout))
        errx(2, "cannot write to standard output");
    return 0;
}
