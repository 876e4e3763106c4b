/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks every entry of the device's table of kernels against the double reference, on ragged
 * shapes, in TAP: kern_check DEVICE [GROUP] [quick] [own|cudnn].  DEVICE as device_open has it;
 * GROUP: those whose names begin so; quick: few shapes and types, for a GPU that is emulated;
 * the rest: what struct kern can be asked for.
 */
#include "kern_check.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

/* NaN around what is read; around and in what is written a large number, which a kernel that
   goes too far changes, where a NaN would stay one. */
enum { GUARD = 256, NOT_READ = 0xff, NOT_WRITTEN = 0x5a };

void bail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("Bail out! ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    exit(1);
}

static void say(struct check *c, int good, const char *more, const char *format, va_list args)
{
    printf("%s %d - %s: ", good ? "ok" : "not ok", ++c->tests, c->label);
    vprintf(format, args);
    printf("%s\n", more);
    fflush(stdout);
    c->failed += !good;
}

void ok(struct check *c, int good, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(c, good, "", format, args);
    va_end(args);
}

double tolerance(enum dtype type)
{
    return type == DTYPE_F32 ? 1e-5 : 1e-2;
}

void *kept(struct check *c, int64_t bytes)
{
    assert(c->hosts < KEPT_MOST);
    return c->host[c->hosts++] = mem_new((size_t)bytes + 1, 1);
}

double *doubles(struct check *c, int64_t n)
{
    return kept(c, n * (int64_t)sizeof(double));
}

void *slot(struct check *c, int64_t bytes)
{
    assert(c->slots < KEPT_MOST);
    if (device_alloc(c->device, bytes ? bytes : 1, "a case", &c->slot[c->slots], &err))
        bail("%s", err.text);
    return c->slot[c->slots++];
}

static void sync_all(struct check *c)
{
    if (device_sync(c->queue, &err))
        bail("%s", err.text);
}

void fetch(struct check *c, void *to, const void *from, int64_t bytes)
{
    device_copy(c->queue, to, from, bytes);
    sync_all(c);
}

static char *element(const struct mat *m, char *raw, int64_t row, int64_t col)
{
    return raw + m->first + (row * m->ld + col) * dtype_bytes(m->type);
}

static double load(const struct mat *m, char *raw, int64_t row, int64_t col)
{
    double v;

    dtype_convert(&v, DTYPE_F64, element(m, raw, row, col), m->type, 1);
    return v;
}

double mat_at(const struct mat *m, int64_t row, int64_t col)
{
    return load(m, m->got, row, col);
}

struct mat *mat_of(struct check *c, enum dtype type, int64_t rows, int64_t cols, int64_t ld,
                   int64_t off, const double *values)
{
    struct mat *m = kept(c, sizeof *m);

    *m = (struct mat){.next = c->mats,
                      .type = type,
                      .rows = rows,
                      .cols = cols,
                      .ld = ld,
                      .filled = !!values};
    c->mats = m;
    m->first = GUARD + off * dtype_bytes(type);
    m->bytes = m->first + rows * ld * dtype_bytes(type) + GUARD;
    m->base = slot(c, m->bytes);
    m->p = (char *)m->base + m->first;
    m->init = memset(kept(c, m->bytes), NOT_READ, (size_t)m->bytes);
    m->got = kept(c, m->bytes);
    m->x = doubles(c, rows * cols);
    for (int64_t i = 0; values && i < rows * cols; i++) {
        float f = (float)values[i];

        dtype_convert(element(m, m->init, i / cols, i % cols), type, &f, DTYPE_F32, 1);
        m->x[i] = load(m, m->init, i / cols, i % cols);
    }
    device_copy(c->queue, m->base, m->init, m->bytes);
    return m;
}

struct mat *mat_new(struct check *c, enum dtype type, int64_t rows, int64_t cols, int64_t ld,
                    int64_t off, double scale)
{
    double *values = mem_new((size_t)(rows * cols + 1), sizeof *values);
    uint64_t stream = c->seed++;

    for (int64_t i = 0; i < rows * cols; i++)
        values[i] = scale * rng_normal(11, stream, (uint64_t)i);
    struct mat *m = mat_of(c, type, rows, cols, ld, off, scale != 0 ? values : NULL);
    mem_free(values);
    return m;
}

struct mat *vec_new(struct check *c, enum dtype type, int64_t n, double scale)
{
    return mat_new(c, type, 1, n, n, 0, scale);
}

/* Whether a byte belongs to an element. */
static int inside(const struct mat *m, int64_t byte)
{
    int64_t size = dtype_bytes(m->type), at = byte - m->first;

    return at >= 0 && at < m->rows * m->ld * size && at % (m->ld * size) < m->cols * size;
}

struct mat *written(struct mat *m)
{
    m->written = 1;
    for (int64_t i = 0; i < m->bytes; i++)
        if (!m->filled || !inside(m, i))
            m->init[i] = NOT_WRITTEN;
    return m;
}

int next_run(struct check *c, int *run)
{
    for (struct mat *m = *run ? c->mats : NULL; m; m = m->next) {
        if (!m->written)
            continue;
        char *before = memcpy(mem_new((size_t)m->bytes, 1), m->got, (size_t)m->bytes);
        fetch(c, m->got, m->base, m->bytes);
        m->differs |= *run == 2 && memcmp(before, m->got, (size_t)m->bytes) != 0;
        mem_free(before);
    }
    if (*run == 2)
        return 0;
    for (struct mat *m = c->mats; m; m = m->next)
        if (m->written)
            device_copy(c->queue, m->base, m->init, m->bytes);
    return ++*run;
}

int64_t mat_strayed(const struct mat *m)
{
    int64_t count = 0;

    for (int64_t i = 0; i < m->bytes; i++)
        count += m->got[i] != m->init[i] && !inside(m, i);
    return count;
}

void mat_near(struct check *c, const struct mat *m, const double *ref, double bound,
              const char *format, ...)
{
    double sum = 0, all = 0;
    int64_t stray = mat_strayed(m);
    char more[160];
    va_list args;

    for (int64_t i = 0; i < m->rows * m->cols; i++) {
        double d = mat_at(m, i / m->cols, i % m->cols) - ref[i];

        sum += d * d;
        all += ref[i] * ref[i];
    }
    double error = all > 0 ? sqrt(sum / all) : sqrt(sum);
    int good = error <= bound && !stray && !m->differs; /* NaN is not */
    snprintf(more, sizeof more, ": error %.2e, bound %.0e%s", error, bound,
             m->differs ? ", a second run differs" : "");
    if (stray)
        snprintf(more + strlen(more), sizeof more - strlen(more), ", %lld bytes beside it",
                 (long long)stray);
    va_start(args, format);
    say(c, good, more, format, args);
    va_end(args);
}

void end_case(struct check *c)
{
    for (const struct mat *m = c->mats; m; m = m->next) {
        if (m->written)
            continue;
        fetch(c, m->got, m->base, m->bytes);
        if (memcmp(m->got, m->init, (size_t)m->bytes))
            ok(c, 0, "an input of (%lld,%lld) was written", (long long)m->rows,
               (long long)m->cols);
    }
    for (; c->slots; c->slots--)
        device_free(c->device, c->slot[c->slots - 1]);
    for (; c->hosts; c->hosts--)
        mem_free(c->host[c->hosts - 1]);
    c->mats = NULL;
}

struct kern_tokens tokens_of(struct check *c, const int32_t *id, const int32_t *target,
                             int64_t n, int64_t vocab)
{
    struct kern_tokens t;

    c->op->tokens(c->k, &t, slot(c, c->op->tokens_bytes(c->k, n) + 1), id, target, n, vocab);
    return t;
}

static const struct group {
    const char *name;
    void (*run)(struct check *c);
} groups[] = {
    {"embed", check_embed},
    {"positions", check_positions},
    {"norm", check_norm},
    {"bias", check_bias},
    {"rope", check_rope},
    {"gated", check_gated},
    {"gelu", check_gelu},
    {"loss", check_loss},
    {"add", check_add},
    {"attention", check_attention},
    {"product", check_product},
    {"convert", check_convert},
    {"accumulate", check_accumulate},
    {"sumsq", check_sumsq},
    {"adamw", check_adamw},
    {"outer", check_outer},
    {"moments", check_moments},
    {"table", check_table},
};

static void run_groups(struct check *c, const char *only)
{
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        if (!only || strncmp(groups[g].name, only, strlen(only)) == 0)
            groups[g].run(c);
}

static void run_types(struct check *c, const char *only)
{
    static const enum dtype type[2] = {DTYPE_F32, DTYPE_BF16};
    int seen[DTYPE_COUNT][DTYPE_COUNT] = {{0}};

    for (int i = 0; i < 4; i++) {
        if (c->quick && i / 2 != i % 2)
            continue; /* weights in a type of their own */
        if (kern_open(&c->kern, c->device, c->queue, type[i / 2], type[i % 2], &err))
            bail("%s", err.text);
        c->kern.attention = c->attention;
        c->k = &c->kern;
        c->op = c->kern.op;
        snprintf(c->label, sizeof c->label, "act %s, weight %s", dtype_name(c->kern.act),
                 dtype_name(c->kern.weight));
        if (!seen[c->kern.act][c->kern.weight]++)
            run_groups(c, only);
        sync_all(c);
        kern_close(&c->kern);
    }
}

static int requested(struct check *c, const char *word)
{
    int quick = !strcmp(word, "quick");
    int cudnn = !strcmp(word, "cudnn"), own = !strcmp(word, "own");

    c->quick |= quick;
    if (own || cudnn)
        c->attention = own ? KERN_ATTENTION_OWN : KERN_ATTENTION_CUDNN_ATOMIC;
    return quick || own || cudnn;
}

int main(int argc, char **argv)
{
    struct check c = {.seed = 1};
    const char *only = NULL;

    if (argc < 2)
        bail("usage: kern_check DEVICE [GROUP] [quick] [own|cudnn]");
    for (int i = 2; i < argc; i++)
        if (!requested(&c, argv[i]))
            only = argv[i];
    kern_thread_init();
    if (device_open(&c.device, argv[1], 0, &err) || device_queue_open(c.device, &c.queue, &err))
        bail("%s", err.text);
    run_types(&c, only);
    printf("1..%d\n", c.tests);
    if (!c.tests)
        bail("no group begins with '%s'", only);
    device_queue_close(c.queue);
    device_close(c.device);
    return c.failed ? 1 : 0;
}
