/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table_check DEVICE: what kern_check does not ask of a table: batches one behind the other
 * without a wait, a product at more alignments than it keeps algorithms for, sums that are
 * fetched late, more room for partial sums than there was.  TAP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kern/kern.h"

static struct device *device;
static struct device_queue *queue;
static struct kern k;
static struct err err;

static void must(int bad)
{
    if (!bad)
        return;
    printf("Bail out! %s\n", err.text);
    exit(2);
}

static void *room(int64_t bytes)
{
    void *p = NULL;

    must(device_alloc(device, bytes, "a test", &p, &err));
    return p;
}

static void fetch(void *to, const void *from, int64_t bytes)
{
    device_copy(queue, to, from, bytes);
    must(device_sync(queue, &err));
}

/* id, target, row and run of a batch are what struct kern_tokens says. */
static int batch_is(const struct kern_tokens *t, const int32_t *id, const int32_t *target,
                    int64_t n)
{
    int32_t *got = mem_new((size_t)(4 * n + 1), sizeof *got), *row = got + 2 * n;
    int32_t *run = got + 3 * n, before = -1;
    int64_t good = t->n == n;

    fetch(got, t->id, n * 4);
    fetch(got + n, t->target, n * 4);
    good &= !memcmp(got, id, (size_t)n * 4) && !memcmp(got + n, target, (size_t)n * 4);
    good &= device_kind(device) == DEVICE_CPU || (t->row && t->runs >= 1);
    if (t->row) {
        fetch(row, t->row, n * 4);
        fetch(run, t->run, (t->runs + 1) * 4);
        good &= run[0] == 0 && run[t->runs] == n;
        for (int64_t r = 0; good && r < t->runs; r++) {
            int32_t token = id[row[run[r]]];
            good &= run[r] < run[r + 1] && token > before;
            before = token;
            for (int32_t i = run[r]; good && i < run[r + 1]; i++)
                good &= row[i] >= 0 && row[i] < n && id[row[i]] == token &&
                        (i == run[r] || row[i] > row[i - 1]);
        }
    }
    mem_free(got);
    return good != 0;
}

enum { BATCHES = 6, MOST = 700 };

/* Sizes go up and down; the host's arrays of a GPU may be changed as soon as they were given.
 */
static int batches(void)
{
    static const int64_t sizes[BATCHES] = {5, 700, 1, 33, 700, 257};
    static int32_t id[BATCHES][MOST], target[BATCHES][MOST];
    int32_t given[2][MOST];
    struct kern_tokens t[BATCHES];
    void *at[BATCHES];
    int good = 1, keeps = device_kind(device) == DEVICE_CPU;

    for (int b = 0; b < BATCHES; b++) {
        for (int64_t i = 0; i < sizes[b]; i++) {
            id[b][i] = (int32_t)(rng_u64(3, (uint64_t)b, (uint64_t)i) % (uint64_t)(7 + 90 * b));
            target[b][i] = (int32_t)i * 3 - b;
        }
        at[b] = room(k.op->tokens_bytes(&k, sizes[b]) + 1);
    }
    for (int b = 0; b < BATCHES; b++) {
        memcpy(given[0], id[b], sizeof given[0]);
        memcpy(given[1], target[b], sizeof given[1]);
        k.op->tokens(&k, &t[b], at[b], keeps ? id[b] : given[0], keeps ? target[b] : given[1],
                     sizes[b], 7 + 90 * b);
    }
    for (int b = 0; b < BATCHES; b++) {
        good &= batch_is(&t[b], id[b], target[b], sizes[b]);
        device_free(device, at[b]);
    }
    return good;
}

/* Whole numbers: sums are exact, whichever algorithm takes them. */
enum { M = 5, N = 6, K = 7, LD = 16, OFFSETS = 4, ROOM = (K + 1) * LD };

static int alignments(void)
{
    struct kern_product_shape s = {'N', 'N', M, N, K, LD, LD, LD, 1, DTYPE_F32, DTYPE_F32};
    float host[3][ROOM], got[ROOM], *mat[3];
    struct kern_product *p = NULL;
    int good = 1;

    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < ROOM; j++)
            host[i][j] = (float)(rng_u64(5, (uint64_t)i, (uint64_t)j) % 17) - 8;
        mat[i] = room((int64_t)sizeof host[i]);
    }
    must(k.op->product_new(&k, &p, &s, &err));
    for (int at = 0; at < 2 * OFFSETS * OFFSETS * OFFSETS; at++) { /* each twice */
        int off[3] = {at % OFFSETS, at / OFFSETS % OFFSETS, at / OFFSETS / OFFSETS % OFFSETS};

        for (int i = 0; i < 3; i++)
            device_copy(queue, mat[i], host[i], (int64_t)sizeof host[i]);
        k.op->product(&k, p, mat[0] + off[0], mat[1] + off[1], mat[2] + off[2], NULL,
                      mat[2] + off[2]);
        fetch(got, mat[2], (int64_t)sizeof got);
        for (int j = 0; j < ROOM; j++) {
            int m = (j - off[2]) / LD, n = (j - off[2]) % LD;
            float want = host[2][j];
            for (int i = 0; j >= off[2] && m < M && n < N && i < K; i++)
                want += host[0][off[0] + m * LD + i] * host[1][off[1] + i * LD + n];
            good &= got[j] == want;
        }
    }
    k.op->product_free(&k, p);
    for (int i = 0; i < 3; i++)
        device_free(device, mat[i]);
    return good;
}

/* A sum is taken once, whatever was asked for behind it; then it begins at 0. */
static int sums(void)
{
    float host[64], *x = room(sizeof host), *logits = room(sizeof host);
    double first = 0, second = 0, third = 0, loss = 0;
    int32_t zero[64] = {0};
    struct kern_tokens t;
    void *at = room(k.op->tokens_bytes(&k, 64) + 1);

    for (int i = 0; i < 64; i++)
        host[i] = (float)i;
    device_copy(queue, x, host, sizeof host);
    k.op->sumsq(&k, x, DTYPE_F32, 64);
    k.op->sumsq(&k, x, DTYPE_F32, 3);
    must(k.op->sumsq_take(&k, &first, &err));
    k.op->sumsq(&k, x, DTYPE_F32, 4);
    must(k.op->sumsq_take(&k, &second, &err) || k.op->sumsq_take(&k, &third, &err));
    k.op->tokens(&k, &t, at, zero, zero, 64, 1);
    device_zero(queue, logits, sizeof host);
    k.op->cross_entropy(&k, logits, 1, &t, 1, 0); /* one word: no doubt */
    t.n = 32;
    k.op->cross_entropy(&k, logits, 2, &t, 2, 0);
    device_zero(queue, x, sizeof host);
    must(k.op->loss(&k, &loss, &err));
    must(device_sync(queue, &err));
    device_free(device, x), device_free(device, logits), device_free(device, at);
    return first == 85344 + 5 && second == 14 && third == 0 &&
           loss - 32 * 0.69314718056 < 1e-4 && loss - 32 * 0.69314718056 > -1e-4;
}

/* Partial sums of more columns than there was room for, twice. */
static int grows(void)
{
    int software = !strcmp(device_name(device), "a GPU in software");
    int64_t before = k.bytes, c = before / 4 + 1000;

    if (software && c > 2 << 20)
        c = 1000; /* it would take long */
    if (device_kind(device) == DEVICE_CPU)
        return 1;
    float *dy = room(c * 4), *db = room(c * 4), ends[2] = {0}, two = 2;
    device_copy(queue, dy, &two, 4);
    device_copy(queue, dy + c - 1, &two, 4);
    k.op->bias_backward(&k, db, dy, c, 1, c);
    int64_t between = k.bytes;
    k.op->bias_backward(&k, db, dy, c, 1, c);
    fetch(&ends[0], db, 4);
    fetch(&ends[1], db + c - 1, 4);
    device_free(device, dy), device_free(device, db);
    return ends[0] == 4 && ends[1] == 4 && k.bytes == between &&
           (between > before) == (c > 1000);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*check)(void);
    } all[] = {{"batches follow each other without a wait", batches},
               {"a product at 64 alignments", alignments},
               {"sums are taken once", sums},
               {"room for partial sums grows", grows}};
    int n = (int)(sizeof all / sizeof *all), failed = 0;

    if (argc != 2)
        snprintf(err.text, sizeof err.text, "expected: table_check DEVICE");
    must(argc != 2 || device_open(&device, argv[1], 0, &err) ||
         device_queue_open(device, &queue, &err));
    kern_thread_init();
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        must(kern_open(&k, device, queue, DTYPE_F32, DTYPE_F32, &err));
        int good = all[i].check();
        kern_close(&k);
        failed += !good;
        printf("%s %d - %s\n", good ? "ok" : "not ok", i + 1, all[i].name);
    }
    device_queue_close(queue);
    device_close(device);
    return failed > 0;
}
