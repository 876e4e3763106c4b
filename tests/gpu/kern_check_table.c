/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks what a table does between its kernels: batches one behind the other without a wait, a
 * product at more alignments than it keeps algorithms for, sums that are fetched late, more
 * room for partial sums than there was.
 */
#include "base/rng.h"
#include "kern_check.h"

static void must(int bad)
{
    if (bad)
        bail("%s", err.text);
}

/* id, target, row and run of a batch are what struct kern_tokens says. */
static int batch_is(struct check *c, const struct kern_tokens *t, const int32_t *id,
                    const int32_t *target, int64_t n)
{
    int32_t *got = kept(c, (4 * n + 1) * 4), *row = got + 2 * n, *run = got + 3 * n;
    int32_t before = -1;
    int64_t good = t->n == n;

    fetch(c, got, t->id, n * 4);
    fetch(c, got + n, t->target, n * 4);
    good &= !memcmp(got, id, (size_t)n * 4) && !memcmp(got + n, target, (size_t)n * 4);
    good &= device_kind(c->device) == DEVICE_CPU || (t->row && t->runs >= 1);
    if (!t->row)
        return good != 0;
    fetch(c, row, t->row, n * 4);
    fetch(c, run, t->run, (t->runs + 1) * 4);
    good &= run[0] == 0 && run[t->runs] == n;
    for (int64_t r = 0; good && r < t->runs; r++) {
        int32_t token = id[row[run[r]]];
        good &= run[r] < run[r + 1] && token > before;
        before = token;
        for (int32_t i = run[r]; good && i < run[r + 1]; i++)
            good &= row[i] >= 0 && row[i] < n && id[row[i]] == token &&
                    (i == run[r] || row[i] > row[i - 1]);
    }
    return good != 0;
}

enum { BATCHES = 6, MOST = 700 };

/* Sizes go up and down; the host's arrays of a GPU may be changed once they were given. */
static int batches(struct check *c)
{
    static const int64_t sizes[BATCHES] = {5, 700, 1, 33, 700, 257};
    static int32_t id[BATCHES][MOST], target[BATCHES][MOST];
    int32_t given[2][MOST];
    struct kern_tokens t[BATCHES];
    void *at[BATCHES];
    int good = 1, keeps = device_kind(c->device) == DEVICE_CPU;

    for (int b = 0; b < BATCHES; b++) {
        for (int64_t i = 0; i < sizes[b]; i++) {
            id[b][i] = (int32_t)(rng_u64(3, (uint64_t)b, (uint64_t)i) % (uint64_t)(7 + 90 * b));
            target[b][i] = (int32_t)i * 3 - b;
        }
        at[b] = slot(c, c->op->tokens_bytes(c->k, sizes[b]) + 1);
    }
    for (int b = 0; b < BATCHES; b++) {
        memcpy(given[0], id[b], sizeof given[0]);
        memcpy(given[1], target[b], sizeof given[1]);
        c->op->tokens(c->k, &t[b], at[b], keeps ? id[b] : given[0],
                      keeps ? target[b] : given[1], sizes[b], 7 + 90 * b);
    }
    for (int b = 0; b < BATCHES; b++)
        good &= batch_is(c, &t[b], id[b], target[b], sizes[b]);
    return good;
}

/* Whole numbers: sums are exact, whichever algorithm takes them. */
enum { M = 5, N = 6, K = 7, LD = 16, OFFSETS = 4, SPACE = (K + 1) * LD };

static int alignments(struct check *c)
{
    struct kern_product_shape s = {'N', 'N', M, N, K, LD, LD, LD, 1, DTYPE_F32, DTYPE_F32};
    float host[3][SPACE], got[SPACE], *mat[3];
    struct kern_product *p = NULL;
    int good = 1;

    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < SPACE; j++)
            host[i][j] = (float)(rng_u64(5, (uint64_t)i, (uint64_t)j) % 17) - 8;
        mat[i] = slot(c, (int64_t)sizeof host[i]);
    }
    must(c->op->product_new(c->k, &p, &s, &err));
    for (int at = 0; at < 2 * OFFSETS * OFFSETS * OFFSETS; at++) { /* each twice */
        int off[3] = {at % OFFSETS, at / OFFSETS % OFFSETS, at / OFFSETS / OFFSETS % OFFSETS};

        for (int i = 0; i < 3; i++)
            device_copy(c->queue, mat[i], host[i], (int64_t)sizeof host[i]);
        c->op->product(c->k, p, mat[0] + off[0], mat[1] + off[1], mat[2] + off[2], NULL,
                       mat[2] + off[2]);
        fetch(c, got, mat[2], (int64_t)sizeof got);
        for (int j = 0; j < SPACE; j++) {
            int m = (j - off[2]) / LD, n = (j - off[2]) % LD;
            float want = host[2][j];
            for (int i = 0; j >= off[2] && m < M && n < N && i < K; i++)
                want += host[0][off[0] + m * LD + i] * host[1][off[1] + i * LD + n];
            good &= got[j] == want;
        }
    }
    c->op->product_free(c->k, p);
    return good;
}

/* A sum is taken once, whatever was asked for behind it; then it begins at 0. */
static int sums(struct check *c)
{
    float host[64], *x = slot(c, sizeof host), *logits = slot(c, sizeof host);
    double first = 0, second = 0, third = 0, loss = 0;
    int32_t zero[64] = {0};

    for (int i = 0; i < 64; i++)
        host[i] = (float)i;
    device_copy(c->queue, x, host, sizeof host);
    c->op->sumsq(c->k, x, DTYPE_F32, 64);
    c->op->sumsq(c->k, x, DTYPE_F32, 3);
    must(c->op->sumsq_take(c->k, &first, &err));
    c->op->sumsq(c->k, x, DTYPE_F32, 4);
    must(c->op->sumsq_take(c->k, &second, &err) || c->op->sumsq_take(c->k, &third, &err));
    struct kern_tokens t = tokens_of(c, zero, zero, 64, 1);
    device_zero(c->queue, logits, sizeof host);
    c->op->cross_entropy(c->k, logits, 1, &t, 1, 0); /* one word: no doubt */
    t.n = 32;
    c->op->cross_entropy(c->k, logits, 2, &t, 2, 0);
    device_zero(c->queue, x, sizeof host);
    must(c->op->loss(c->k, &loss, &err) || device_sync(c->queue, &err));
    return first == 85344 + 5 && second == 14 && third == 0 &&
           loss - 32 * 0.69314718056 < 1e-4 && loss - 32 * 0.69314718056 > -1e-4;
}

/* Partial sums of more columns than there was room for, twice. */
static int grows(struct check *c)
{
    int software = !strcmp(device_name(c->device), "a GPU in software");
    int64_t before = c->k->bytes, n = before / 4 + 1000;

    if (software && n > 2 << 20)
        n = 1000; /* it would take long */
    if (device_kind(c->device) == DEVICE_CPU)
        return 1;
    float *dy = slot(c, n * 4), *db = slot(c, n * 4), ends[2] = {0}, two = 2;
    device_copy(c->queue, dy, &two, 4);
    device_copy(c->queue, dy + n - 1, &two, 4);
    c->op->bias_backward(c->k, db, dy, n, 1, n);
    int64_t between = c->k->bytes;
    c->op->bias_backward(c->k, db, dy, n, 1, n);
    fetch(c, &ends[0], db, 4);
    fetch(c, &ends[1], db + n - 1, 4);
    return ends[0] == 4 && ends[1] == 4 && c->k->bytes == between &&
           (between > before) == (n > 1000);
}

/* Each on a table of its own, of f32. */
void check_table(struct check *c)
{
    static const struct {
        const char *name;
        int (*check)(struct check *c);
    } all[] = {{"batches follow each other without a wait", batches},
               {"a product at 64 alignments", alignments},
               {"sums are taken once", sums},
               {"room for partial sums grows", grows}};
    struct kern own, *was = c->k;

    for (size_t i = 0; i < sizeof all / sizeof *all && was->act == DTYPE_F32; i++) {
        must(kern_open(&own, c->device, c->queue, DTYPE_F32, DTYPE_F32, &err));
        c->k = &own;
        ok(c, all[i].check(c), "%s", all[i].name);
        end_case(c);
        kern_close(&own);
    }
    c->k = was;
}
