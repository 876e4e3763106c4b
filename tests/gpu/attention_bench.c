/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times attentions in bf16, forward and backward: attention_bench DEVICE [NAME...].  Median
 * over rounds, TFLOP/s of the half below the diagonal (2 batch heads seq^2 head_dim forward, 5
 * backward).  NAME: hopper, flash, plain, cudnn (its backward adds in any order), or
 * BATCHxSEQxHEADSxKV_HEADSxHEAD_DIM for another shape than the three.  "off" is how far out and
 * dqkv are from those of the first NAME, in norm.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/stats.h"
#include "base/tick.h"
#include "dev/dev.h"
#include "kern/kern_cuda_attention.h"
#include "kern/kern_kind.h"
#include "kern/kern_cudnn.h"

enum { ROUNDS = 7, DRAWN = 1 << 20 };
#define ROUND_S 0.03 /* a round is repeated for so long, so that launches do not count */

struct bench {
    struct device *device;
    struct device_queue *queue;
    struct kern_heads s;
    void *qkv, *dout, *out, *dqkv, *scratch;
    float *lse;
    struct kern_cudnn *cudnn;
    uint16_t *first, *now; /* out and dqkv on the host, of the first and of this one */
    const char *name;
};

static int64_t width(const struct kern_heads *s)
{
    return (s->heads + 2 * s->kv_heads) * s->head_dim;
}

static int64_t qkv_bytes(const struct kern_heads *s)
{
    return 2 * s->batch * s->seq * width(s);
}

static int64_t out_bytes(const struct kern_heads *s)
{
    return 2 * s->batch * s->seq * s->heads * s->head_dim;
}

static int run(struct bench *b, int backward, struct err *err)
{
    const struct kern_heads *s = &b->s;
    void *stream = device_stream(b->queue);

    if (b->cudnn)
        return backward ? kern_cudnn_backward(b->cudnn, stream, b->dqkv, b->dout, b->out,
                                              b->lse, b->qkv, b->scratch, err)
                        : kern_cudnn_forward(b->cudnn, stream, b->out, b->lse, b->qkv,
                                             b->scratch, err);
    if (!strcmp(b->name, "hopper") && backward)
        kern_cuda_hopper_backward(stream, s, b->dqkv, b->dout, b->out, b->lse, b->qkv,
                                  b->scratch);
    else if (!strcmp(b->name, "flash") && backward)
        kern_cuda_flash_backward(stream, s, b->dqkv, b->dout, b->out, b->lse, b->qkv,
                                 b->scratch);
    else if (!strcmp(b->name, "hopper") || !strcmp(b->name, "flash"))
        kern_cuda_flash_forward(stream, s, b->out, b->lse, b->qkv);
    else if (backward)
        kern_cuda_plain_backward(stream, DTYPE_BF16, s, b->dqkv, b->dout, b->out, b->lse,
                                 b->qkv, b->scratch);
    else
        kern_cuda_plain_forward(stream, DTYPE_BF16, s, b->out, b->lse, b->qkv);
    return 0;
}

/* Seconds of one pass, the median of rounds. */
static int timed(struct bench *b, int backward, double *out, struct err *err)
{
    double at[ROUNDS], from;
    int times = 1;

    if (run(b, backward, err) || device_sync(b->queue, err))
        return -1;
    for (int i = -1; i < ROUNDS; i++) { /* the first says how often */
        from = tick_now_s();
        for (int k = 0; k < times; k++)
            if (run(b, backward, err))
                return -1;
        if (device_sync(b->queue, err))
            return -1;
        double each = (tick_now_s() - from) / times;
        if (i >= 0)
            at[i] = each;
        else
            times = each < ROUND_S ? (int)ceil(ROUND_S / each) : 1;
    }
    *out = stats_median(at, ROUNDS);
    return 0;
}

static double off(const uint16_t *a, const uint16_t *b, int64_t n)
{
    double sum = 0, norm = 0;

    for (int64_t i = 0; i < n; i++) {
        double x = (double)dtype_f32_of_bf16(a[i]), d = (double)dtype_f32_of_bf16(b[i]) - x;

        sum += d * d;
        norm += x * x;
    }
    return sqrt(sum / norm);
}

static int scratch_open(struct bench *b, struct err *err)
{
    int64_t bytes = kern_kind_plain_bytes(&b->s);

    if (!strcmp(b->name, "hopper") && !kern_cuda_hopper_can(DTYPE_BF16, &b->s))
        return err_set(err, ERR_ABSENT, "not a GPU of sm_90, or another head_dim");
    if (!strcmp(b->name, "cudnn")) {
        if (kern_cudnn_new(&b->cudnn, &b->s, KERN_CUDNN_BACKWARD_ATOMIC, err))
            return -1;
        printf("# %s\n", kern_cudnn_text(b->cudnn));
        bytes = kern_cudnn_bytes(b->cudnn);
    } else if (strcmp(b->name, "plain")) {
        bytes = kern_kind_flash_bytes(&b->s);
    }
    return device_alloc(b->device, bytes, b->name, &b->scratch, err);
}

/* One line for one of them at the shape of b. */
static int line(struct bench *b, struct err *err)
{
    const struct kern_heads *s = &b->s;
    int64_t out = out_bytes(s), qkv = qkv_bytes(s);
    double half = (double)(s->batch * s->heads * s->seq) * (double)(s->seq * s->head_dim);
    double forward = 0, backward = 0;
    uint16_t *to = b->first ? b->now : mem_new((size_t)(out + qkv), 1);
    int bad = scratch_open(b, err) || timed(b, 0, &forward, err) || timed(b, 1, &backward, err);

    if (!bad) {
        device_copy(b->queue, to, b->out, out);
        device_copy(b->queue, to + out / 2, b->dqkv, qkv);
        bad = device_sync(b->queue, err);
    }
    b->first = b->first ? b->first : to;
    if (!bad)
        printf("%3" PRId64 " x %5" PRId64 "  %2" PRId64 "/%-2" PRId64 " of %3" PRId64
               "  %-11s  forward %8.3f ms %6.1f TFLOP/s  backward %8.3f ms %6.1f TFLOP/s"
               "  off %.1e %.1e\n",
               s->batch, s->seq, s->heads, s->kv_heads, s->head_dim, b->name, forward * 1e3,
               2 * half / forward * 1e-12, backward * 1e3, 5 * half / backward * 1e-12,
               off(b->first, to, out / 2), off(b->first + out / 2, to + out / 2, qkv / 2));
    else
        printf("# %s: %s\n", b->name, err->text);
    fflush(stdout);
    kern_cudnn_free(b->cudnn);
    device_free(b->device, b->scratch);
    b->cudnn = NULL;
    b->scratch = NULL;
    return bad && err->code != ERR_ABSENT;
}

/* Normal numbers, a mebi of them again and again. */
static void fill(struct bench *b, void *to, const uint16_t *drawn, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += 2 * DRAWN)
        device_copy(b->queue, (char *)to + at, drawn,
                    bytes - at < 2 * DRAWN ? bytes - at : 2 * DRAWN);
}

static int shape(struct bench *b, const struct kern_heads *s, const uint16_t *drawn,
                 char **names, struct err *err)
{
    int64_t qkv = qkv_bytes(s), out = out_bytes(s), lse = 4 * s->batch * s->heads * s->seq;
    int bad = device_alloc(b->device, qkv, "qkv", &b->qkv, err) ||
              device_alloc(b->device, qkv, "dqkv", &b->dqkv, err) ||
              device_alloc(b->device, out, "out", &b->out, err) ||
              device_alloc(b->device, out, "dout", &b->dout, err) ||
              device_alloc(b->device, lse, "lse", (void **)&b->lse, err);
    void *all[] = {b->qkv, b->dqkv, b->out, b->dout, b->lse};

    b->s = *s;
    b->first = NULL;
    b->now = mem_new((size_t)(qkv + out), 1);
    if (bad) {
        printf("# %s\n", err->text);
    } else {
        fill(b, b->qkv, drawn, qkv);
        fill(b, b->dout, drawn + 1, out);
        for (; *names; names++)
            if (strchr("fhpc", **names)) {
                b->name = *names;
                bad |= line(b, err);
            }
    }
    for (int i = 0; i < 5; i++)
        device_free(b->device, all[i]);
    mem_free(b->first);
    mem_free(b->now);
    return bad;
}

int main(int argc, char **argv)
{
    static const struct kern_heads three[] = {
        {8, 2048, 32, 4, 64, 0}, {16, 1024, 12, 12, 64, 0}, {4, 4096, 32, 8, 128, 0}};
    static char *usual[] = {"flash", "hopper", "cudnn", NULL};
    struct bench b = {0};
    struct kern_heads s = {0};
    struct err err = {0};
    int named = 0, shaped = 0, bad = 0;

    if (argc < 2 || device_open(&b.device, argv[1], 0, &err) ||
        device_queue_open(b.device, &b.queue, &err)) {
        printf("%s\n", argc < 2 ? "expected: attention_bench DEVICE [NAME...]" : err.text);
        return 2;
    }
    uint16_t *drawn = mem_new(DRAWN + 1, sizeof *drawn);
    for (int i = 0; i <= DRAWN; i++)
        drawn[i] = dtype_bf16_of_f32((float)rng_normal(1, 0, (uint64_t)i));
    printf("# %s\n", device_name(b.device));
    for (int i = 2; i < argc; i++)
        named |= strchr("fhpc", argv[i][0]) != NULL;
    for (int i = 2; i < argc; i++)
        if (sscanf(argv[i], "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "x%" SCNd64 "x%" SCNd64,
                   &s.batch, &s.seq, &s.heads, &s.kv_heads, &s.head_dim) == 5) {
            shaped = 1;
            bad |= shape(&b, &s, drawn, named ? argv + 2 : usual, &err);
        }
    for (int i = 0; i < 3 && !shaped; i++)
        bad |= shape(&b, &three[i], drawn, named ? argv + 2 : usual, &err);
    mem_free(drawn);
    device_queue_close(b.queue);
    device_close(b.device);
    return bad;
}
