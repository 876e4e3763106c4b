/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks attention kernels, cuDNN's too: cuda_attention_check DEVICE.  They are compared with
 * sums in double over every pair of tokens, ragged lengths, grouped heads; equal bits when run
 * again, of cuDNN's forward pass alone; nothing written beyond a buffer's end.  TAP.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "dev/dev.h"
#include "kern/kern_cuda_attention.h"
#include "kern/kern_cudnn.h"
#include "kern/kern_kind.h"
#include "../unit/kern_ref_fixture.h"

/*
 * Errors in norm.  f32: sums of n numbers of either sign in f32 are off by about sqrt(n) 2^-24,
 * n at most 512 here, and a result has four behind one another.  bf16: probabilities, gradients
 * of scores, `out` (in delta) and the result are each rounded once, off by at most 2^-9 and by
 * 2^-9 / sqrt(3) in norm: four independent ones are 2 / sqrt(3) 2^-9, twice that allowed.
 * lse is of sums in f32: tensor cores cut what is below 2^-22 of the largest term, up to 8
 * times for a score, and that of a single key may be a fourth of its terms: 2^-22 8 4 = 2^-17,
 * twice that allowed; fast exponentials are off by 2^-22.
 */
#define TOLERANCE_F32  (4 * 23 * 0x1p-24)
#define TOLERANCE_BF16 0x1.3p-8
#define TOLERANCE_LSE  0x1p-20
/*
 * cuDNN: probabilities, gradients of scores, gradients of a head before they are summed and the
 * result are rounded to bf16: four times 2^-9, as if they added up.  Scores are up to 8 in f32,
 * exponentials by the GPU's exp2 (2^-22).
 */
#define TOLERANCE_CUDNN     0x1p-7
#define TOLERANCE_CUDNN_LSE 0x1p-13

enum { GAP = 4096 }; /* bytes after each buffer that nothing may write */

struct shape {
    struct kern_heads heads;
    enum dtype act;
    enum { PLAIN, FLASH, HOPPER, CUDNN } kind;
};

struct side { /* what comes in, and what goes out: in double, and as the device has it */
    double *qkv, *dout, *out, *lse, *dqkv;
    void *given_qkv, *given_dout, *got[2];
    int64_t qkv_n, out_n, lse_n, got_bytes;
};

static int64_t width(const struct kern_heads *s)
{
    return (s->heads + 2 * s->kv_heads) * s->head_dim;
}

static double of(enum dtype type, const void *p, int64_t i)
{
    return type == DTYPE_F32 ? (double)((const float *)p)[i]
                             : (double)dtype_f32_of_bf16(((const uint16_t *)p)[i]);
}

/* Normal numbers as `type` has them, and in double what they are. */
static void draw(double *x, void *given, enum dtype type, int64_t n, uint64_t stream)
{
    for (int64_t i = 0; i < n; i++) {
        float f = (float)rng_normal(1, stream, (uint64_t)i);

        if (type == DTYPE_F32)
            ((float *)given)[i] = f;
        else
            ((uint16_t *)given)[i] = dtype_bf16_of_f32(f);
        x[i] = of(type, given, i);
    }
}

static void side_init(struct side *x, const struct shape *t)
{
    const struct kern_heads *s = &t->heads;
    double *p = mem_new((size_t)s->seq, sizeof *p);
    int bytes = dtype_bytes(t->act);

    x->qkv_n = s->batch * s->seq * width(s);
    x->out_n = s->batch * s->seq * s->heads * s->head_dim;
    x->lse_n = s->batch * s->heads * s->seq;
    x->got_bytes = (x->out_n + x->qkv_n) * bytes + x->lse_n * 4;
    x->qkv = mem_new((size_t)x->qkv_n, sizeof *x->qkv);
    x->dqkv = mem_new((size_t)x->qkv_n, sizeof *x->dqkv);
    x->dout = mem_new((size_t)x->out_n, sizeof *x->dout);
    x->out = mem_new((size_t)x->out_n, sizeof *x->out);
    x->lse = mem_new((size_t)x->lse_n, sizeof *x->lse);
    x->given_qkv = mem_new((size_t)x->qkv_n, (size_t)bytes);
    x->given_dout = mem_new((size_t)x->out_n, (size_t)bytes);
    x->got[0] = mem_new((size_t)x->got_bytes, 1);
    x->got[1] = mem_new((size_t)x->got_bytes, 1);
    draw(x->qkv, x->given_qkv, t->act, x->qkv_n, 1);
    draw(x->dout, x->given_dout, t->act, x->out_n, 2);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->seq; i++)
                kern_ref_attention_query(s, x->qkv, x->dout, x->out, x->lse, x->dqkv, b, h, i,
                                         p);
    mem_free(p);
}

static void side_release(struct side *x)
{
    void *all[] = {x->qkv,       x->dqkv,       x->dout,   x->out,   x->lse,
                   x->given_qkv, x->given_dout, x->got[0], x->got[1]};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mem_free(all[i]);
}

static int run_cudnn(struct kern_cudnn *c, void *stream, char *const p[6], struct err *err)
{
    return kern_cudnn_forward(c, stream, p[2], (float *)p[4], p[0], p[5], err) ||
                   kern_cudnn_backward(c, stream, p[3], p[1], p[2], (float *)p[4], p[0], p[5],
                                       err)
               ? -1
               : 0;
}

/* Runs both passes in memory that is NaN before; `to`: out, dqkv, lse.  cudnn may be NULL. */
static int run(struct device *d, const struct shape *t, const struct side *x,
               struct kern_cudnn *cudnn, void *to, struct err *err)
{
    const struct kern_heads *s = &t->heads;
    int64_t bytes = dtype_bytes(t->act), qkv_n = x->qkv_n * bytes, out_n = x->out_n * bytes;
    int64_t scratch_n = cudnn     ? kern_cudnn_bytes(cudnn)
                        : t->kind ? kern_kind_flash_bytes(s)
                                  : kern_kind_plain_bytes(s);
    int64_t sizes[] = {qkv_n, out_n, out_n, qkv_n, x->lse_n * 4, scratch_n}, all = 0;
    char *slot = NULL, *p[6], *host;
    struct device_queue *q = NULL;
    int64_t at[6];

    for (int i = 0; i < 6; i++) {
        at[i] = all;
        all += (sizes[i] + GAP + 255) / 256 * 256;
    }
    if (device_alloc(d, all, "both passes", (void **)&slot, err))
        return -1;
    for (int i = 0; i < 6; i++)
        p[i] = slot + at[i];
    host = memset(mem_new((size_t)all, 1), 0xff, (size_t)all);
    memcpy(host + at[0], x->given_qkv, (size_t)qkv_n);
    memcpy(host + at[1], x->given_dout, (size_t)out_n);
    int bad = device_queue_open(d, &q, err);
    if (!bad) {
        void *stream = device_stream(q);
        float *lse = (float *)p[4];

        device_copy(q, slot, host, all);
        if (cudnn) {
            bad = run_cudnn(cudnn, stream, p, err);
        } else if (t->kind) {
            kern_cuda_flash_forward(stream, s, p[2], lse, p[0]);
            (t->kind == HOPPER ? kern_cuda_hopper_backward : kern_cuda_flash_backward)(
                stream, s, p[3], p[1], p[2], lse, p[0], p[5]);
        } else {
            kern_cuda_plain_forward(stream, t->act, s, p[2], lse, p[0]);
            kern_cuda_plain_backward(stream, t->act, s, p[3], p[1], p[2], lse, p[0], p[5]);
        }
        device_copy(q, host, slot, all);
        bad |= device_sync(q, err);
    }
    memcpy(to, host + at[2], (size_t)out_n);
    memcpy((char *)to + out_n, host + at[3], (size_t)qkv_n);
    memcpy((char *)to + out_n + qkv_n, host + at[4], (size_t)x->lse_n * 4);
    for (int i = 0; i < 6 && !bad; i++)
        for (int k = 0; k < GAP && !bad; k++)
            if (host[at[i] + sizes[i] + k] != (char)0xff)
                bad = err_set(err, ERR_MISMATCH, "written beyond the end of buffer %d", i);
    mem_free(host);
    device_queue_close(q);
    device_free(d, slot);
    return bad;
}

/* The error in norm of columns from .. to of rows ld apart, n elements; NaN is one. */
static double wrong(const double *x, enum dtype type, const void *got, int64_t n, int64_t ld,
                    int64_t from, int64_t to)
{
    double off = 0, norm = 0;

    for (int64_t i = 0; i < n; i++)
        if (i % ld >= from && i % ld < to) {
            double e = of(type, got, i) - x[i];

            off += e * e;
            norm += x[i] * x[i];
        }
    return sqrt(off / (norm > 1e-9 ? norm : (double)n)); /* of one token dq and dk are 0 */
}

/* out, dq, dk, dv, lse; 1: one of them is beyond its tolerance. */
static int compare(const struct shape *t, const struct side *x, double e[5])
{
    const struct kern_heads *s = &t->heads;
    int64_t D = s->head_dim, hd = s->heads * D, kd = s->kv_heads * D, ld = width(s);
    const char *dqkv = (const char *)x->got[0] + x->out_n * dtype_bytes(t->act);
    const char *lse = dqkv + x->qkv_n * dtype_bytes(t->act);
    double limit = t->kind == CUDNN      ? TOLERANCE_CUDNN
                   : t->act == DTYPE_F32 ? TOLERANCE_F32
                                         : TOLERANCE_BF16;
    double lse_limit = t->kind == CUDNN ? TOLERANCE_CUDNN_LSE : TOLERANCE_LSE;
    int bad = 0;

    e[0] = wrong(x->out, t->act, x->got[0], x->out_n, hd, 0, hd);
    e[1] = wrong(x->dqkv, t->act, dqkv, x->qkv_n, ld, 0, hd);
    e[2] = wrong(x->dqkv, t->act, dqkv, x->qkv_n, ld, hd, hd + kd);
    e[3] = wrong(x->dqkv, t->act, dqkv, x->qkv_n, ld, hd + kd, ld);
    e[4] = wrong(x->lse, DTYPE_F32, lse, x->lse_n, 1, 0, 1);
    for (int i = 0; i < 5; i++)
        bad |= !(e[i] < (i == 4 ? lse_limit : limit));
    return bad;
}

static int check(struct device *d, const struct shape *t, int number)
{
    const struct kern_heads *s = &t->heads;
    static const char *const kinds[] = {"plain", "flash", "hopper", "cuDNN"};
    struct kern_cudnn *cudnn = NULL;
    struct side x;
    struct err err = {0};
    double e[5];

    if (t->kind == HOPPER && !kern_cuda_hopper_can(t->act, s))
        err_set(&err, ERR_ABSENT, "not a GPU of sm_90");
    else if (t->kind == CUDNN)
        kern_cudnn_new(&cudnn, s, KERN_CUDNN_BACKWARD_ATOMIC, &err);
    if (err.code == ERR_ABSENT) {
        printf("ok %d # SKIP %s\n", number, err.text);
        return 0;
    }
    if (cudnn)
        printf("# %s\n", kern_cudnn_text(cudnn));
    side_init(&x, t);
    int bad = err.code || run(d, t, &x, cudnn, x.got[0], &err) ||
              run(d, t, &x, cudnn, x.got[1], &err);
    bad |= compare(t, &x, e);
    int64_t equal = cudnn ? x.out_n * dtype_bytes(t->act) : x.got_bytes;
    bad |= memcmp(x.got[0], x.got[1], (size_t)equal) != 0;
    printf("%s %d - %s %s, %" PRId64 " x %" PRId64 " tokens, %" PRId64 " of %" PRId64
           " heads of %" PRId64 ": out %.1e dq %.1e dk %.1e dv %.1e lse %.1e%s%s\n",
           bad ? "not ok" : "ok", number, kinds[t->kind], dtype_name(t->act), s->batch, s->seq,
           s->kv_heads, s->heads, s->head_dim, e[0], e[1], e[2], e[3], e[4],
           err.text[0] ? ", " : "", err.text);
    fflush(stdout);
    side_release(&x);
    kern_cudnn_free(cudnn);
    return bad;
}

int main(int argc, char **argv)
{
    static const struct shape all[] = {
        {{2, 37, 4, 2, 20, 0}, DTYPE_F32, PLAIN},
        {{1, 50, 3, 1, 64, 0}, DTYPE_F32, PLAIN},
        {{1, 33, 2, 2, 256, 0}, DTYPE_F32, PLAIN},
        {{1, 1, 2, 2, 64, 0}, DTYPE_F32, PLAIN},
        {{2, 37, 4, 2, 20, 0}, DTYPE_BF16, PLAIN},
        {{1, 70, 2, 1, 128, 0}, DTYPE_BF16, PLAIN},
        {{1, 1, 1, 1, 64, 0}, DTYPE_BF16, FLASH},
        {{1, 64, 1, 1, 64, 0}, DTYPE_BF16, FLASH},
        {{2, 37, 4, 2, 64, 0}, DTYPE_BF16, FLASH},
        {{1, 193, 2, 1, 64, 0}, DTYPE_BF16, FLASH},
        {{1, 300, 4, 1, 64, 0}, DTYPE_BF16, FLASH},
        {{2, 65, 6, 3, 128, 0}, DTYPE_BF16, FLASH},
        {{1, 129, 2, 2, 128, 0}, DTYPE_BF16, FLASH},
        {{1, 257, 2, 1, 128, 0}, DTYPE_BF16, FLASH},
        {{1, 1, 1, 1, 64, 0}, DTYPE_BF16, HOPPER},
        {{2, 37, 4, 2, 64, 0}, DTYPE_BF16, HOPPER},
        {{1, 128, 1, 1, 64, 0}, DTYPE_BF16, HOPPER},
        {{1, 600, 2, 1, 64, 0}, DTYPE_BF16, HOPPER},
        {{1, 129, 2, 2, 128, 0}, DTYPE_BF16, HOPPER},
        {{1, 450, 2, 1, 128, 0}, DTYPE_BF16, HOPPER},
        {{2, 300, 4, 2, 128, 0}, DTYPE_BF16, CUDNN},
        {{1, 2, 2, 1, 64, 0}, DTYPE_BF16, CUDNN},
        {{3, 129, 3, 3, 32, 0}, DTYPE_BF16, CUDNN},
    };
    int failed = 0, n = (int)(sizeof all / sizeof *all);
    struct device *d = NULL;
    struct err err = {0};

    if (argc != 2 || device_open(&d, argv[1], 0, &err)) {
        printf("Bail out! %s\n",
               argc == 2 ? err.text : "expected: cuda_attention_check DEVICE");
        return 2;
    }
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++)
        failed += check(d, &all[i], i + 1);
    device_close(d);
    return failed != 0;
}
