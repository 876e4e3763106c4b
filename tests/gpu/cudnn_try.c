/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attention by cuDNN on a real GPU: the engines it finds, their workspaces and times, and their
 * results beside sums in double over every pair of tokens.  TAP.  By itself:
 *
 *     gcc -O2 -fopenmp -Ilib -I$CUDA_HOME/include tests/gpu/cudnn_try.c lib/kern/kern_cudnn.c \
 *         lib/kern/kern_cudnn_graph.c lib/base/err.c lib/base/mem.c \
 *         -L$CUDA_HOME/lib64 -l:libcudnn.so.9 -lcudart -lm -o cudnn_try
 *     ./cudnn_try [BATCH,SEQ,HEADS,KV_HEADS,HEAD_DIM]...
 */
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "kern/kern_cudnn.h"

enum { RUNS = 20, CANARY = 4096 };
/*
 * Errors in norm, those of gradients for the `out` that was given.  Probabilities, gradients of
 * scores, gradients of a head before they are summed and the result are rounded to bf16: four
 * times 2^-9 of what is rounded, as if they added up.
 */
#define TOLERANCE 0x1p-7
/* lse is f32 throughout; scores of up to 8 in f32, exponentials by the card's exp2 (2^-22). */
#define TOLERANCE_LSE 0x1p-13

static int tests, failures;

static void ok(int good, const char *what, double value)
{
    tests++;
    failures += !good;
    printf("%sok %d - %s: %.3g\n", good ? "" : "not ", tests, what, value);
    fflush(stdout);
}

static void cuda(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    printf("Bail out! %s: %s\n", what, cudaGetErrorString(status));
    exit(2);
}

/* Memory of the device with 0xff behind it and in it: NaN in every type. */
static void *device_room(int64_t bytes)
{
    void *p = NULL;

    cuda(cudaMalloc(&p, (size_t)bytes + CANARY), "cudaMalloc");
    cuda(cudaMemset(p, 0xff, (size_t)bytes + CANARY), "cudaMemset");
    return p;
}

static void *fetched(const void *at, int64_t bytes)
{
    void *host = mem_new((size_t)bytes, 1);

    cuda(cudaMemcpy(host, at, (size_t)bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
}

static int canary_lives(const void *at, int64_t bytes)
{
    unsigned char *tail = fetched((const char *)at + bytes, CANARY);
    int lives = 1;

    for (int i = 0; i < CANARY; i++)
        lives &= tail[i] == 0xff;
    mem_free(tail);
    return lives;
}

/* About normal: a sum of uniform numbers; the same in every run. */
static float noise(uint64_t *state)
{
    float sum = 0;

    for (int i = 0; i < 4; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (float)(*state >> 40) * 0x1p-24f - 0.5f;
    }
    return sum * 1.732f;
}

static uint16_t *random_bf16(int64_t n, uint64_t seed)
{
    uint16_t *x = mem_new((size_t)n, sizeof *x);

    for (int64_t i = 0; i < n; i++)
        x[i] = dtype_bf16_of_f32(noise(&seed));
    return x;
}

static double *doubles(int64_t n)
{
    return mem_new((size_t)n, sizeof(double));
}

/* One example's attention of one head of keys, in double: what the last of each must be. */
struct exact {
    int64_t T, d, group;      /* group: heads of queries */
    double *q, *k, *v, *dout; /* (group, T, d) or (T, d) */
    double *out, *lse, *dq, *dk, *dv;
    double *given; /* out as the backward pass was given it; NULL: it was not yet */
};

/* Rows of d at `at` in rows of `row` elements. */
static double *taken(const uint16_t *x, int64_t at, int64_t row, int64_t T, int64_t d)
{
    double *y = doubles(T * d);

    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < d; i++)
            y[t * d + i] = (double)dtype_f32_of_bf16(x[t * row + at + i]);
    return y;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double *y, double by, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += by * x[i];
}

/* Probabilities of row t of a head. */
static void exact_row(struct exact *e, int64_t h, int64_t t, double *p)
{
    const double *q = e->q + (h * e->T + t) * e->d;
    double most = -INFINITY, sum = 0;

    for (int64_t j = 0; j <= t; j++) {
        p[j] = dot(q, e->k + j * e->d, e->d) / sqrt((double)e->d);
        most = fmax(most, p[j]);
    }
    for (int64_t j = 0; j <= t; j++)
        sum += p[j] = exp(p[j] - most);
    for (int64_t j = 0; j <= t; j++)
        p[j] /= sum;
    e->lse[h * e->T + t] = most + log(sum);
}

static void exact_forward(struct exact *e)
{
#pragma omp parallel for
    for (int64_t h = 0; h < e->group; h++) {
        double *p = doubles(e->T);

        for (int64_t t = 0; t < e->T; t++) {
            exact_row(e, h, t, p);
            for (int64_t j = 0; j <= t; j++)
                add_scaled(e->out + (h * e->T + t) * e->d, p[j], e->v + j * e->d, e->d);
        }
        mem_free(p);
    }
}

static void exact_head(struct exact *e, int64_t h, double *dk, double *dv)
{
    double *p = doubles(e->T);

    for (int64_t t = 0; t < e->T; t++) {
        int64_t at = (h * e->T + t) * e->d;
        const double *g = e->dout + at;
        double delta = dot(g, e->given + at, e->d);

        exact_row(e, h, t, p);
        for (int64_t j = 0; j <= t; j++) {
            double dp = dot(g, e->v + j * e->d, e->d);
            double ds = p[j] * (dp - delta) / sqrt((double)e->d);

            add_scaled(dv + j * e->d, p[j], g, e->d);
            add_scaled(dk + j * e->d, ds, e->q + at, e->d);
            add_scaled(e->dq + at, ds, e->k + j * e->d, e->d);
        }
    }
    mem_free(p);
}

static void exact_backward(struct exact *e)
{
    int64_t n = e->T * e->d;

#pragma omp parallel for
    for (int64_t h = 0; h < e->group; h++) {
        double *dk = doubles(n), *dv = doubles(n);

        exact_head(e, h, dk, dv);
#pragma omp critical
        {
            add_scaled(e->dk, 1, dk, n);
            add_scaled(e->dv, 1, dv, n);
        }
        mem_free(dk);
        mem_free(dv);
    }
}

static void exact_init(struct exact *e, const struct kern_heads *s, const uint16_t *qkv,
                       const uint16_t *dout)
{
    int64_t T = s->seq, d = s->head_dim, group = s->heads / s->kv_heads;
    int64_t row = (s->heads + 2 * s->kv_heads) * d, last = s->batch - 1;
    int64_t k = (s->heads + s->kv_heads - 1) * d;

    *e = (struct exact){.T = T, .d = d, .group = group};
    e->k = taken(qkv + last * T * row, k, row, T, d);
    e->v = taken(qkv + last * T * row, k + s->kv_heads * d, row, T, d);
    e->q = doubles(group * T * d);
    e->dout = doubles(group * T * d);
    for (int64_t h = 0; h < group; h++) {
        int64_t at = (s->heads - group + h) * d, wide = s->heads * d;
        double *q = taken(qkv + last * T * row, at, row, T, d);
        double *g = taken(dout + last * T * wide, at, wide, T, d);

        memcpy(e->q + h * T * d, q, (size_t)(T * d) * sizeof *q);
        memcpy(e->dout + h * T * d, g, (size_t)(T * d) * sizeof *g);
        mem_free(q);
        mem_free(g);
    }
    e->out = doubles(group * T * d);
    e->dq = doubles(group * T * d);
    e->lse = doubles(group * T);
    e->dk = doubles(T * d);
    e->dv = doubles(T * d);
    exact_forward(e);
}

static void exact_release(struct exact *e)
{
    double *all[] = {e->q, e->k, e->v, e->dout, e->out, e->lse, e->dq, e->dk, e->dv, e->given};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mem_free(all[i]);
}

/* |x - y| / |y|; x is bf16 rows as in taken. */
static double distance(const uint16_t *x, int64_t at, int64_t row, const double *y, int64_t T,
                       int64_t d)
{
    double *mine = taken(x, at, row, T, d), size = sqrt(dot(y, y, T * d));

    add_scaled(mine, -1, y, T * d);
    size = sqrt(dot(mine, mine, T * d)) / size;
    mem_free(mine);
    return size;
}

/* A run's inputs and outputs on the device, results on the host. */
struct job {
    struct kern_heads s;
    int64_t qkv_elems, out_elems, lse_elems;
    uint16_t *h_qkv, *h_dout; /* host */
    void *qkv, *dout, *out, *dqkv, *workspace;
    float *lse;
    struct exact exact;
};

static void check_forward(struct job *j)
{
    const struct kern_heads *s = &j->s;
    struct exact *e = &j->exact;
    uint16_t *out = fetched(j->out, j->out_elems * 2);
    float *lse = fetched(j->lse, j->lse_elems * 4);
    int64_t T = s->seq, d = s->head_dim, wide = s->heads * d;
    double worst = 0, off = 0;

    for (int64_t h = 0; h < e->group; h++) {
        int64_t head = s->heads - e->group + h;

        worst = fmax(worst, distance(out + (s->batch - 1) * T * wide, head * d, wide,
                                     e->out + h * T * d, T, d));
        for (int64_t t = 0; t < T; t++)
            off = fmax(off, fabs((double)lse[((s->batch - 1) * s->heads + head) * T + t] -
                                 e->lse[h * T + t]));
    }
    if (!e->given) {
        e->given = doubles(e->group * T * d);
        for (int64_t h = 0; h < e->group; h++) {
            double *rows = taken(out + (s->batch - 1) * T * wide, (s->heads - e->group + h) * d,
                                 wide, T, d);

            memcpy(e->given + h * T * d, rows, (size_t)(T * d) * sizeof *rows);
            mem_free(rows);
        }
        exact_backward(e);
    }
    ok(worst <= TOLERANCE, "out, error in norm", worst);
    ok(off <= TOLERANCE_LSE, "lse, greatest error", off);
    mem_free(out);
    mem_free(lse);
}

static void check_backward(const struct job *j, const uint16_t *dqkv)
{
    const struct kern_heads *s = &j->s;
    const struct exact *e = &j->exact;
    int64_t T = s->seq, d = s->head_dim, row = (s->heads + 2 * s->kv_heads) * d;
    const uint16_t *last = dqkv + (s->batch - 1) * T * row;
    int64_t k = (s->heads + s->kv_heads - 1) * d, gaps = 0;
    double dq = 0, dk = distance(last, k, row, e->dk, T, d);
    double dv = distance(last, k + s->kv_heads * d, row, e->dv, T, d);

    for (int64_t h = 0; h < e->group; h++)
        dq = fmax(dq,
                  distance(last, (s->heads - e->group + h) * d, row, e->dq + h * T * d, T, d));
    for (int64_t i = 0; i < j->qkv_elems; i++)
        gaps += (dqkv[i] & 0x7fff) > 0x7f80;
    ok(dq <= TOLERANCE, "dq, error in norm", dq);
    ok(dk <= TOLERANCE, "dk, error in norm", dk);
    ok(dv <= TOLERANCE, "dv, error in norm", dv);
    ok(gaps == 0, "dqkv is written and finite but for", (double)gaps);
}

static int pass(struct job *j, struct kern_cudnn *p, int backward)
{
    struct err err = {0};
    int bad = backward
                  ? kern_cudnn_backward(p, NULL, j->dqkv, j->dout, j->out, j->lse, j->qkv,
                                        j->workspace, &err)
                  : kern_cudnn_forward(p, NULL, j->out, j->lse, j->qkv, j->workspace, &err);

    if (bad)
        printf("# %s\n", err.text);
    return bad;
}

/* Milliseconds, and arithmetic of the lower triangle: 2 products forward, 5 backward. */
static void time_pass(struct job *j, struct kern_cudnn *p, int backward)
{
    const struct kern_heads *s = &j->s;
    double flop = (double)s->batch * (double)s->heads * (double)s->seq * (double)s->seq *
                  (double)s->head_dim * (backward ? 5 : 2);
    cudaEvent_t from, to;
    float ms = 0;

    cuda(cudaEventCreate(&from), "event");
    cuda(cudaEventCreate(&to), "event");
    for (int i = 0; i < 3; i++)
        pass(j, p, backward);
    cuda(cudaEventRecord(from, NULL), "event");
    for (int i = 0; i < RUNS; i++)
        pass(j, p, backward);
    cuda(cudaEventRecord(to, NULL), "event");
    cuda(cudaEventSynchronize(to), "the work");
    cuda(cudaEventElapsedTime(&ms, from, to), "event");
    printf("#   %s: %.3f ms, %.0f TFLOP/s\n", backward ? "backward" : "forward", ms / RUNS,
           flop / (ms / RUNS * 1e9));
    cudaEventDestroy(from);
    cudaEventDestroy(to);
}

/* Twice over from memory full of NaN: equal bits, or how many differ. */
static void check_bits(struct job *j, struct kern_cudnn *p, int must, int backward)
{
    void *at = backward ? j->dqkv : j->out;
    int64_t n = backward ? j->qkv_elems : j->out_elems, differ = 0;
    uint16_t *one, *two;

    pass(j, p, backward);
    one = fetched(at, n * 2);
    cuda(cudaMemset(at, 0xff, (size_t)n * 2), "cudaMemset");
    cuda(cudaMemset(j->workspace, 0xff, (size_t)kern_cudnn_bytes(p)), "cudaMemset");
    pass(j, p, backward);
    two = fetched(at, n * 2);
    for (int64_t i = 0; i < n; i++)
        differ += one[i] != two[i];
    if (must)
        ok(differ == 0,
           backward ? "dqkv, bits of two runs, unequal elements"
                    : "out, bits of two runs, unequal elements",
           (double)differ);
    else
        printf("#   elements of dqkv that differ between two runs: %lld\n", (long long)differ);
    if (backward)
        check_backward(j, two);
    mem_free(one);
    mem_free(two);
}

static void try_what(struct job *j, enum kern_cudnn_what what)
{
    const struct kern_heads *s = &j->s;
    struct kern_cudnn *p = NULL;
    struct err err = {0};
    int64_t bytes;

    printf("# batch %lld, seq %lld, heads %lld/%lld of %lld, %s\n", (long long)s->batch,
           (long long)s->seq, (long long)s->heads, (long long)s->kv_heads,
           (long long)s->head_dim, what == KERN_CUDNN_BACKWARD ? "in order" : "atomic");
    if (kern_cudnn_new(&p, s, what, &err)) {
        ok(0, err.text, err.code);
        return;
    }
    printf("#   %s\n", kern_cudnn_text(p));
    bytes = kern_cudnn_bytes(p);
    j->workspace = device_room(bytes);
    if (pass(j, p, 0)) {
        ok(0, "forward runs", 0);
    } else {
        check_forward(j);
        check_bits(j, p, 1, 0);
        if (pass(j, p, 1)) {
            ok(0, "backward runs", 0);
        } else {
            check_bits(j, p, what == KERN_CUDNN_BACKWARD, 1);
            time_pass(j, p, 0);
            time_pass(j, p, 1);
        }
    }
    cuda(cudaDeviceSynchronize(), "the work");
    ok(canary_lives(j->workspace, bytes) && canary_lives(j->dqkv, j->qkv_elems * 2) &&
           canary_lives(j->out, j->out_elems * 2) && canary_lives(j->lse, j->lse_elems * 4),
       "nothing is written behind its end; workspace MB", (double)bytes / 1e6);
    cudaFree(j->workspace);
    kern_cudnn_free(p);
}

static void try_shape(struct kern_heads s)
{
    struct job j = {.s = s};
    int64_t tokens = s.batch * s.seq;

    j.qkv_elems = tokens * (s.heads + 2 * s.kv_heads) * s.head_dim;
    j.out_elems = tokens * s.heads * s.head_dim;
    j.lse_elems = tokens * s.heads;
    j.h_qkv = random_bf16(j.qkv_elems, 1);
    j.h_dout = random_bf16(j.out_elems, 2);
    j.qkv = device_room(j.qkv_elems * 2);
    j.dout = device_room(j.out_elems * 2);
    j.out = device_room(j.out_elems * 2);
    j.dqkv = device_room(j.qkv_elems * 2);
    j.lse = device_room(j.lse_elems * 4);
    cuda(cudaMemcpy(j.qkv, j.h_qkv, (size_t)j.qkv_elems * 2, cudaMemcpyHostToDevice), "copy");
    cuda(cudaMemcpy(j.dout, j.h_dout, (size_t)j.out_elems * 2, cudaMemcpyHostToDevice), "copy");
    exact_init(&j.exact, &s, j.h_qkv, j.h_dout);
    try_what(&j, KERN_CUDNN_BACKWARD);
    try_what(&j, KERN_CUDNN_BACKWARD_ATOMIC);
    exact_release(&j.exact);
    cudaFree(j.qkv);
    cudaFree(j.dout);
    cudaFree(j.out);
    cudaFree(j.dqkv);
    cudaFree(j.lse);
    mem_free(j.h_qkv);
    mem_free(j.h_dout);
}

/* The GPU in cuDNN's words: with them plans can be made where there is none. */
static void print_device(void)
{
    cudnnBackendDescriptor_t d = NULL;
    char text[4096];
    int64_t n = 0;

    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d) ||
        cudnnBackendFinalize(d) ||
        cudnnBackendGetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                 sizeof text - 1, &n, text))
        printf("# no words about this GPU\n");
    else
        printf("# device %.*s\n", (int)n, text);
    if (d)
        cudnnBackendDestroyDescriptor(d);
}

int main(int argc, char **argv)
{
    static const struct kern_heads shape[] = {
        {2, 300, 4, 2, 128, 0},  {1, 2, 2, 1, 64, 0},       {3, 129, 3, 3, 32, 0},
        {8, 2048, 32, 4, 64, 0}, {16, 1024, 12, 12, 64, 0}, {1, 4096, 32, 8, 64, 0},
    };
    long long n[5];

    printf("# cuDNN %zu, compiled with %d\n", cudnnGetVersion(), CUDNN_VERSION);
    print_device();
    for (size_t i = 0; argc == 1 && i < sizeof shape / sizeof *shape; i++)
        try_shape(shape[i]);
    for (int i = 1; i < argc; i++)
        if (sscanf(argv[i], "%lld,%lld,%lld,%lld,%lld", n, n + 1, n + 2, n + 3, n + 4) == 5)
            try_shape((struct kern_heads){n[0], n[1], n[2], n[3], n[4], 0});
    printf("1..%d\n", tests);
    return failures > 0;
}
