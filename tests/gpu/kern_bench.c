/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times the kernels that move more than they compute, in bf16 with shapes of a 1.1 B Llama at 8
 * x 2048 tokens: kern_bench DEVICE [NAME] [quick].  Prints microseconds, the median over
 * rounds, GB/s of what must be read and written once, and that beside a copy of as many bytes
 * within the device, in the same run.  NAME: those whose names begin so; quick: a hundredth of
 * the rows, for a GPU that is emulated.  Launches take turns at sets of arrays that together
 * are larger than any cache.
 */
#include "base/rng.h"
#include "base/stats.h"
#include "base/tick.h"
#include "kern/kern.h"
#include "../unit/plain_fixture.h"

enum { ROUNDS = 7, DRAWN = 1 << 18, PARTS = 7, SETS = 8, TOKENS = 16384, VOCAB = 32000 };
#define ROUND_S   0.02 /* a round is repeated for so long, so that launches do not count */
#define ALL_BYTES (400 << 20) /* of the sets */

struct bench;
struct task {
    const char *name;
    void (*run)(struct bench *b, const struct task *t, void *const *p);
    int64_t n, c; /* rows and columns, or one row of elements */
    /* Arrays of a set: B of bf16, D of two such, F of f32, Z of zeros in f32: (n,c); lower
       case: (c), but r: f32 (n). */
    const char *arrays;
    double touches; /* bytes of an element of (n,c) that are read or written */
    int flag;
};

struct bench {
    struct device *device;
    struct device_queue *queue;
    struct kern k;
    const struct kern_ops *op;
    struct kern_tokens tokens;
    void *half, *full; /* DRAWN random numbers each, bf16 and f32 */
    int quick;
};

static void copy(struct bench *b, const struct task *t, void *const *p)
{
    device_copy(b->queue, p[0], p[1], t->n * t->c * 4);
}

static void adamw(struct bench *b, const struct task *t, void *const *p)
{
    struct kern_optim o = {
        .scale = 1, .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .step = 10};

    b->op->adamw(&b->k, p[0], p[1], p[2], p[3], t->flag ? DTYPE_BF16 : DTYPE_F32, t->c, &o);
}

/* flag: layer normalisation.  Arrays: x, y, w, b, mean, rstd. */
static void norm(struct bench *b, const struct task *t, void *const *p)
{
    b->op->norm(&b->k, p[1], t->flag ? p[4] : NULL, p[5], p[0], p[2], p[3], 0, t->n, t->c,
                1e-5f, 0);
}

/* The same from what is known of the rows, as where activations are computed again. */
static void norm_again(struct bench *b, const struct task *t, void *const *p)
{
    b->op->norm(&b->k, p[1], t->flag ? p[4] : NULL, p[5], p[0], p[2], p[3], 0, t->n, t->c,
                1e-5f, 1);
}

/* Arrays: x, dy, dx, w, dw, rstd, db; the mean may be any numbers. */
static void norm_back(struct bench *b, const struct task *t, void *const *p)
{
    b->op->norm_backward(&b->k, p[2], p[4], t->flag ? p[6] : NULL, p[1], t->flag ? p[5] : NULL,
                         p[5], p[0], p[3], 0, t->n, t->c);
}

/* Gate and up side by side: rows 2 c apart. */
static void swiglu(struct bench *b, const struct task *t, void *const *p)
{
    b->op->gated(&b->k, p[0], p[1], (char *)p[1] + t->c * 2, t->n, t->c, 2 * t->c, 0);
}

static void swiglu_back(struct bench *b, const struct task *t, void *const *p)
{
    b->op->gated_backward(&b->k, p[0], p[1], (char *)p[1] + t->c * 2, t->n, t->c, 2 * t->c, 0);
}

static void gelu(struct bench *b, const struct task *t, void *const *p)
{
    b->op->gelu(&b->k, p[0], p[1], t->n * t->c, t->flag);
}

static void gelu_back(struct bench *b, const struct task *t, void *const *p)
{
    b->op->gelu_backward(&b->k, p[0], p[1], t->n * t->c, t->flag);
}

/* Heads of 64, all of a row; 2048 rows a sequence, whose table is any numbers. */
static void rope(struct bench *b, const struct task *t, void *const *p)
{
    int64_t seq = t->n < 2048 ? t->n : 2048;

    b->op->rope(&b->k, p[0], t->c, b->full, t->n / seq, seq, t->c / 64, 64, 64, 0);
}

static void loss(struct bench *b, const struct task *t, void *const *p)
{
    struct kern_tokens tokens = b->tokens;

    tokens.n = t->n;
    b->op->cross_entropy(&b->k, p[0], (t->c + 7) / 8 * 8, &tokens, t->c, 1.0f);
}

static void embed(struct bench *b, const struct task *t, void *const *p)
{
    b->op->embed(&b->k, p[0], p[1], &b->tokens, VOCAB, t->c);
}

static void embed_back(struct bench *b, const struct task *t, void *const *p)
{
    b->op->embed_backward(&b->k, p[1], p[0], &b->tokens, t->c);
}

/* Sequences of 1024 rows. */
static void positions(struct bench *b, const struct task *t, void *const *p)
{
    int64_t seq = t->n < 1024 ? t->n : 1024;

    b->op->positions(&b->k, p[0], p[1], t->n / seq, seq, t->c);
}

static void positions_back(struct bench *b, const struct task *t, void *const *p)
{
    int64_t seq = t->n < 1024 ? t->n : 1024;

    b->op->positions_backward(&b->k, p[1], p[0], t->n / seq, seq, t->c);
}

static void bias(struct bench *b, const struct task *t, void *const *p)
{
    b->op->bias(&b->k, p[0], t->c, p[1], t->n, t->c);
}

static void bias_back(struct bench *b, const struct task *t, void *const *p)
{
    b->op->bias_backward(&b->k, p[1], p[0], t->c, t->n, t->c);
}

static void sumsq(struct bench *b, const struct task *t, void *const *p)
{
    b->op->sumsq(&b->k, p[0], t->flag ? DTYPE_BF16 : DTYPE_F32, t->c);
}

static void narrow(struct bench *b, const struct task *t, void *const *p)
{
    b->op->convert(&b->k, p[0], DTYPE_BF16, p[1], DTYPE_F32, t->c);
}

static void widen(struct bench *b, const struct task *t, void *const *p)
{
    b->op->convert(&b->k, p[1], DTYPE_F32, p[0], DTYPE_BF16, t->c);
}

static void accumulate(struct bench *b, const struct task *t, void *const *p)
{
    b->op->accumulate(&b->k, p[1], DTYPE_F32, p[0], DTYPE_BF16, t->c);
}

static void add(struct bench *b, const struct task *t, void *const *p)
{
    b->op->add(&b->k, p[0], p[1], t->c);
}

static const struct task tasks[] = {
    {"copy", copy, 1, 64 << 20, "FF", 8, 0},
    {"adamw, bf16 gradient", adamw, 1, 32 << 20, "FFZB", 26, 1},
    {"adamw, f32 gradient", adamw, 1, 32 << 20, "FFZF", 28, 0},
    {"RMS norm", norm, TOKENS, 2048, "BBbbrr", 4, 0},
    {"RMS norm backward", norm_back, TOKENS, 2048, "BBBbfr", 8, 0},
    {"RMS norm again", norm_again, TOKENS, 2048, "BBbbrr", 4, 0},
    {"RMS norm, 4096", norm, TOKENS / 2, 4096, "BBbbrr", 4, 0},
    {"RMS norm backward, 4096", norm_back, TOKENS / 2, 4096, "BBBbfr", 8, 0},
    {"RMS norm, long rows", norm, TOKENS / 2, 8192, "BBbbrr", 4, 0},
    {"RMS norm backward, long rows", norm_back, TOKENS / 2, 8192, "BBBbfr", 8, 0},
    {"layer norm", norm, TOKENS, 768, "BBbbrr", 4, 1},
    {"layer norm again", norm_again, TOKENS, 768, "BBbbrr", 4, 1},
    {"layer norm, 1600", norm, TOKENS, 1600, "BBbbrr", 4, 1},
    {"layer norm backward, 1600", norm_back, TOKENS, 1600, "BBBbfrf", 8, 1},
    {"layer norm backward", norm_back, TOKENS, 768, "BBBbfrf", 8, 1},
    {"swiglu", swiglu, TOKENS, 5632, "BD", 6, 0},
    {"swiglu backward", swiglu_back, TOKENS, 5632, "BD", 12, 0},
    {"gelu tanh", gelu, TOKENS, 3072, "BB", 4, 1},
    {"gelu tanh backward", gelu_back, TOKENS, 3072, "BB", 8, 1},
    {"gelu", gelu, TOKENS, 3072, "BB", 4, 0},
    {"gelu backward", gelu_back, TOKENS, 3072, "BB", 8, 0},
    {"rope", rope, TOKENS, 36 * 64, "B", 4, 0},
    {"cross entropy", loss, TOKENS / 2, 32000, "B", 4, 0},
    {"cross entropy, 50257", loss, TOKENS / 4, 50257, "B", 4, 0},
    {"cross entropy, 128256", loss, TOKENS / 8, 128256, "B", 4, 0},
    {"embed", embed, TOKENS, 2048, "BT", 2, 0},
    {"embed backward", embed_back, TOKENS, 2048, "BU", 2, 0},
    {"positions", positions, TOKENS, 768, "BP", 4, 0},
    {"positions backward", positions_back, TOKENS, 768, "BQ", 2, 0},
    {"bias", bias, TOKENS, 2304, "Bb", 4, 0},
    {"bias backward", bias_back, TOKENS, 2304, "Bf", 2, 0},
    {"sum of squares, f32", sumsq, 1, 64 << 20, "F", 4, 0},
    {"sum of squares, bf16", sumsq, 1, 64 << 20, "B", 2, 1},
    {"f32 to bf16", narrow, 1, 64 << 20, "BF", 6, 0},
    {"bf16 to f32", widen, 1, 64 << 20, "BF", 6, 0},
    {"f32 += bf16", accumulate, 1, 64 << 20, "BF", 10, 0},
    {"bf16 += bf16", add, 1, 64 << 20, "BB", 6, 0},
};

/* T: the table of the embedding, bf16; U: its gradient, f32; P, Q: those of 1024 positions. */
static int64_t bytes_of(const struct task *t, char kind)
{
    int64_t ld = (t->c + 7) / 8 * 8;

    switch (kind) {
    case 'B':
        return t->n * ld * 2;
    case 'D':
        return t->n * ld * 4;
    case 'F':
    case 'Z':
        return t->n * ld * 4;
    case 'T':
        return VOCAB * t->c * 2;
    case 'U':
        return VOCAB * t->c * 4;
    case 'P':
        return 1024 * t->c * 2;
    case 'Q':
        return 1024 * t->c * 4;
    case 'r':
        return t->n * 4;
    default:
        return t->c * 4;
    }
}

static void draw(struct bench *b, void *to, int64_t bytes, char kind)
{
    int half = kind == 'B' || kind == 'D' || kind == 'b' || kind == 'T' || kind == 'P';
    int64_t most = DRAWN * (half ? 2 : 4);

    for (int64_t at = 0; kind != 'Z' && at < bytes; at += most)
        device_copy(b->queue, (char *)to + at, half ? b->half : b->full,
                    bytes - at < most ? bytes - at : most);
}

/* Rows of the tables that are touched; else nothing. */
static double more_bytes(const struct bench *b, const struct task *t)
{
    double rows = (double)b->tokens.runs * (double)t->c;

    double table = 1024.0 * (double)t->c;

    return t->run == embed            ? 2 * rows
           : t->run == embed_back     ? 8 * rows
           : t->run == positions      ? 2 * table
           : t->run == positions_back ? 8 * table
                                      : 0;
}

static int timed(struct bench *b, const struct task *t, void *p[SETS][PARTS], int sets,
                 double *out, struct err *why)
{
    double at[ROUNDS];
    int times = b->quick ? 1 : sets;

    for (int i = -2; i < ROUNDS; i++) { /* the first warms up, the second says how often */
        if (device_sync(b->queue, why))
            return -1;
        double from = tick_now_s();
        for (int k = 0; k < times; k++)
            t->run(b, t, p[k % sets]);
        if (device_sync(b->queue, why))
            return -1;
        double each = (tick_now_s() - from) / times;
        if (i >= 0)
            at[i] = each;
        else if (!b->quick)
            times = (int)(each < ROUND_S ? ceil(ROUND_S / each) : 1);
    }
    *out = stats_median(at, ROUNDS);
    return 0;
}

/* Seconds of one. */
static int measure(struct bench *b, struct task t, double *s, struct err *why)
{
    void *p[SETS][PARTS] = {{0}};
    int64_t set_bytes = 0;
    int sets, bad = 0;

    for (const char *a = t.arrays; *a; a++)
        set_bytes += bytes_of(&t, *a);
    sets = (int)(ALL_BYTES / set_bytes + 1);
    sets = sets < 2 ? 2 : sets < SETS ? sets : SETS;
    for (int i = 0; i < sets && !bad; i++)
        for (int a = 0; t.arrays[a] && !bad; a++) {
            int64_t bytes = bytes_of(&t, t.arrays[a]);

            bad = device_alloc(b->device, bytes, t.name, &p[i][a], why);
            if (!bad)
                draw(b, p[i][a], bytes, t.arrays[a]);
        }
    bad = bad || timed(b, &t, p, sets, s, why);
    for (int i = 0; i < sets * PARTS; i++)
        device_free(b->device, p[i / PARTS][i % PARTS]);
    return bad ? -1 : 0;
}

static int compare(struct bench *b, struct task t)
{
    double s = 0, copy_s = 0;

    if (b->quick && t.n > 1)
        t.n /= 128;
    else if (b->quick)
        t.c /= 128;
    double bytes = (double)t.n * (double)t.c * t.touches + more_bytes(b, &t);
    if (measure(b, t, &s, &err) ||
        measure(b, (struct task){"copy", copy, 1, (int64_t)(bytes / 8), "FF", 8, 0}, &copy_s,
                &err))
        return -1;
    printf("%-30s %6d x %-9d %9.1f us %8.1f GB/s %5.2f of the copy's\n", t.name, (int)t.n,
           (int)t.c, 1e6 * s, 1e-9 * bytes / s, copy_s / s);
    fflush(stdout);
    return 0;
}

/* Tokens as text has them: the i-th most frequent about 1 / i of the first. */
static int draw_tokens(struct bench *b, void **slot)
{
    int n = b->quick ? TOKENS / 128 : TOKENS;
    int32_t *id = mem_new((size_t)n, sizeof *id);

    for (int i = 0; i < n; i++)
        id[i] = (int32_t)pow(VOCAB, rng_uniform(1, 2, (uint64_t)i)) - 1;
    int bad = device_alloc(b->device, b->op->tokens_bytes(&b->k, n), "tokens", slot, &err);
    if (!bad)
        b->op->tokens(&b->k, &b->tokens, *slot, id, id, n, VOCAB);
    mem_free(id);
    return bad;
}

static int draw_numbers(struct bench *b)
{
    float *x = mem_new(DRAWN, sizeof *x);
    uint16_t *h = mem_new(DRAWN, sizeof *h);

    for (int i = 0; i < DRAWN; i++) {
        x[i] = (float)rng_normal(1, 0, (uint64_t)i);
        h[i] = dtype_bf16_of_f32(x[i]);
    }
    int bad = device_alloc(b->device, DRAWN * 2, "numbers", &b->half, &err) ||
              device_alloc(b->device, DRAWN * 4, "numbers", &b->full, &err);
    if (!bad) {
        device_copy(b->queue, b->half, h, DRAWN * 2);
        device_copy(b->queue, b->full, x, DRAWN * 4);
        bad = device_sync(b->queue, &err);
    }
    mem_free(x);
    mem_free(h);
    return bad;
}

int main(int argc, char **argv)
{
    struct bench b = {.quick = argc > 2 && !strcmp(argv[argc - 1], "quick")};
    const char *only = argc - b.quick > 2 ? argv[2] : "";
    err = (struct err){0};
    void *slot = NULL;

    if (argc < 2) {
        printf("expected: kern_bench DEVICE [NAME] [quick]\n");
        return 2;
    }
    if (device_open(&b.device, argv[1], 0, &err) ||
        device_queue_open(b.device, &b.queue, &err) ||
        kern_open(&b.k, b.device, b.queue, DTYPE_BF16, DTYPE_BF16, &err))
        goto fail;
    b.op = b.k.op;
    if (draw_numbers(&b) || draw_tokens(&b, &slot))
        goto fail;
    printf("# %s\n", device_name(b.device));
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (!strncmp(tasks[i].name, only, strlen(only)) && compare(&b, tasks[i]))
            goto fail;
    device_free(b.device, slot);
    device_free(b.device, b.half);
    device_free(b.device, b.full);
    kern_close(&b.k);
    device_queue_close(b.queue);
    device_close(b.device);
    return 0;
fail:
    printf("kern_bench: %s\n", err.text);
    return 1;
}
