/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_attention_check DEVICE: the attentions of a GPU beside sums in double over every pair of
 * tokens, ragged lengths, grouped heads; equal bits when run again.  TAP.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "dev/device.h"
#include "kern/kern_cuda_attention.h"
#include "kern/kern_kind.h"

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

struct shape {
    struct kern_heads heads;
    enum dtype act;
    enum { PLAIN, FLASH, HOPPER } kind;
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

/* One query against all keys before it: (dq, dk, dv) += and (out, lse) =. */
static void row(const struct kern_heads *s, struct side *x, int64_t b, int64_t h, int64_t i,
                double *p)
{
    int64_t D = s->head_dim, ld = width(s), at = (b * s->seq + i) * ld + h * D;
    int64_t k = b * s->seq * ld + (s->heads + h / (s->heads / s->kv_heads)) * D;
    int64_t v = k + s->kv_heads * D, o = ((b * s->seq + i) * s->heads + h) * D;
    double scale = 1 / sqrt((double)D), max = -INFINITY, sum = 0, delta = 0;

    for (int64_t j = 0; j <= i; j++) {
        p[j] = 0;
        for (int64_t c = 0; c < D; c++)
            p[j] += scale * x->qkv[at + c] * x->qkv[k + j * ld + c];
        max = fmax(max, p[j]);
    }
    for (int64_t j = 0; j <= i; j++)
        sum += p[j] = exp(p[j] - max);
    x->lse[(b * s->heads + h) * s->seq + i] = max + log(sum);
    for (int64_t j = 0; j <= i; j++)
        for (int64_t c = 0; c < D; c++)
            x->out[o + c] += p[j] / sum * x->qkv[v + j * ld + c];
    for (int64_t c = 0; c < D; c++)
        delta += x->out[o + c] * x->dout[o + c];
    for (int64_t j = 0; j <= i; j++) {
        double dp = 0, ds;

        for (int64_t c = 0; c < D; c++)
            dp += x->dout[o + c] * x->qkv[v + j * ld + c];
        ds = scale * p[j] / sum * (dp - delta);
        for (int64_t c = 0; c < D; c++) {
            x->dqkv[at + c] += ds * x->qkv[k + j * ld + c];
            x->dqkv[k + j * ld + c] += ds * x->qkv[at + c];
            x->dqkv[v + j * ld + c] += p[j] / sum * x->dout[o + c];
        }
    }
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
                row(s, x, b, h, i, p);
    mem_free(p);
}

static void side_release(struct side *x)
{
    void *all[] = {x->qkv,       x->dqkv,       x->dout,   x->out,   x->lse,
                   x->given_qkv, x->given_dout, x->got[0], x->got[1]};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mem_free(all[i]);
}

/* Asks for both passes, in memory that is NaN before; `to`: out, dqkv, lse. */
static int ask(struct device *d, const struct shape *t, const struct side *x, void *to,
               struct err *err)
{
    const struct kern_heads *s = &t->heads;
    int64_t bytes = dtype_bytes(t->act), qkv_n = x->qkv_n * bytes, out_n = x->out_n * bytes;
    int64_t scratch_n = t->kind ? kern_kind_flash_bytes(s) : kern_kind_plain_bytes(s);
    int64_t sizes[] = {qkv_n, out_n, out_n, qkv_n, x->lse_n * 4, scratch_n}, all = 0;
    char *room = NULL, *p[6], *nan;
    struct device_queue *q = NULL;

    for (int i = 0; i < 6; i++)
        all += (sizes[i] + 255) / 256 * 256;
    if (device_alloc(d, all, "both passes", (void **)&room, err))
        return -1;
    p[0] = room;
    for (int i = 1; i < 6; i++)
        p[i] = p[i - 1] + (sizes[i - 1] + 255) / 256 * 256;
    nan = memset(mem_new((size_t)all, 1), 0xff, (size_t)all);
    int bad = device_queue_open(d, &q, err);
    if (!bad) {
        void *stream = device_stream(q);
        float *lse = (float *)p[4];

        device_copy(q, room, nan, all);
        device_copy(q, p[0], x->given_qkv, qkv_n);
        device_copy(q, p[1], x->given_dout, out_n);
        if (t->kind) {
            kern_cuda_flash_forward(stream, s, p[2], lse, p[0]);
            (t->kind == HOPPER ? kern_cuda_hopper_backward : kern_cuda_flash_backward)(
                stream, s, p[3], p[1], p[2], lse, p[0], p[5]);
        } else {
            kern_cuda_plain_forward(stream, t->act, s, p[2], lse, p[0]);
            kern_cuda_plain_backward(stream, t->act, s, p[3], p[1], p[2], lse, p[0], p[5]);
        }
        device_copy(q, to, p[2], out_n);
        device_copy(q, (char *)to + out_n, p[3], qkv_n);
        device_copy(q, (char *)to + out_n + qkv_n, p[4], x->lse_n * 4);
        bad = device_sync(q, err);
    }
    mem_free(nan);
    device_queue_close(q);
    device_free(d, room);
    return bad;
}

/* The error in norm of columns from .. to of rows ld apart; NaN is one. */
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

static int check(struct device *d, const struct shape *t, int number)
{
    const struct kern_heads *s = &t->heads;
    int64_t hd = s->heads * s->head_dim, kd = s->kv_heads * s->head_dim, ld = width(s);
    double tolerance = t->act == DTYPE_F32 ? TOLERANCE_F32 : TOLERANCE_BF16, e[5];
    static const char *const kinds[] = {"plain", "flash", "hopper"};
    struct side x;
    struct err err = {0};

    if (t->kind == HOPPER && !kern_cuda_hopper_can(t->act, s)) {
        printf("ok %d # SKIP not a GPU of sm_90\n", number);
        return 0;
    }
    side_init(&x, t);
    int bad = ask(d, t, &x, x.got[0], &err) || ask(d, t, &x, x.got[1], &err);
    const char *dqkv = (const char *)x.got[0] + x.out_n * dtype_bytes(t->act);
    e[0] = wrong(x.out, t->act, x.got[0], x.out_n, hd, 0, hd);
    e[1] = wrong(x.dqkv, t->act, dqkv, x.qkv_n, ld, 0, hd);
    e[2] = wrong(x.dqkv, t->act, dqkv, x.qkv_n, ld, hd, hd + kd);
    e[3] = wrong(x.dqkv, t->act, dqkv, x.qkv_n, ld, hd + kd, ld);
    e[4] = wrong(x.lse, DTYPE_F32, dqkv + x.qkv_n * dtype_bytes(t->act), x.lse_n, 1, 0, 1);
    for (int i = 0; i < 5; i++)
        bad |= !(e[i] < (i == 4 ? TOLERANCE_LSE : tolerance));
    bad |= memcmp(x.got[0], x.got[1], (size_t)x.got_bytes) != 0;
    printf("%s %d - %s %s, %" PRId64 " x %" PRId64 " tokens, %" PRId64 " of %" PRId64
           " heads of %" PRId64 ": out %.1e dq %.1e dk %.1e dv %.1e lse %.1e%s%s\n",
           bad ? "not ok" : "ok", number, kinds[t->kind], dtype_name(t->act), s->batch, s->seq,
           s->kv_heads, s->heads, s->head_dim, e[0], e[1], e[2], e[3], e[4],
           err.text[0] ? ", " : "", err.text);
    fflush(stdout);
    side_release(&x);
    return bad != 0;
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
    };
    int n = (int)(sizeof all / sizeof *all), failed = 0;
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
