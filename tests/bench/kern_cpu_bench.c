/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels that move more than they compute, beside a copy of as many bytes: best of
 * several, alternated, on arrays larger than the caches (the default) or of a size given in
 * KiB.
 *
 *     make build/bench/kern_cpu_bench && build/bench/kern_cpu_bench [KIB]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/tick.h"
#include "kern/kern_cpu.h"

enum { C = 768, ROUNDS = 15 };

struct arrays {
    int64_t rows;
    float *x, *y, *dy, *w, *b, *mean, *rstd;
};

static void copy(const struct arrays *a)
{
    memcpy(a->y, a->x, (size_t)(a->rows * C) * sizeof(float));
}

static void rmsnorm(const struct arrays *a)
{
    kern_rmsnorm(a->y, a->rstd, a->x, a->w, a->rows, C, 1e-5f);
}

static void layernorm(const struct arrays *a)
{
    kern_layernorm(a->y, a->mean, a->rstd, a->x, a->w, a->b, a->rows, C, 1e-5f);
}

static void rmsnorm_back(const struct arrays *a)
{
    kern_rmsnorm_backward(a->y, a->mean, a->dy, a->rstd, a->x, a->w, a->rows, C);
}

static void layernorm_back(const struct arrays *a)
{
    kern_layernorm_backward(a->y, a->mean + a->rows, a->mean + a->rows + C, a->dy, a->mean,
                            a->rstd, a->x, a->w, a->rows, C);
}

static void bias(const struct arrays *a)
{
    kern_bias(a->y, C, a->b, a->rows, C);
}

static void bias_back(const struct arrays *a)
{
    kern_bias_backward(a->b, a->dy, C, a->rows, C);
}

static void gelu(const struct arrays *a)
{
    kern_gelu(a->y, a->x, a->rows * C);
}

static void gelu_tanh(const struct arrays *a)
{
    kern_gelu_tanh(a->y, a->x, a->rows * C);
}

static void gelu_tanh_back(const struct arrays *a)
{
    kern_gelu_tanh_backward(a->dy, a->y, a->rows * C);
}

static void swiglu(const struct arrays *a)
{
    kern_swiglu(a->y, a->x, a->dy, a->rows * C);
}

/* What is read and written, in arrays; adding to one is both. */
static const struct {
    const char *name;
    void (*run)(const struct arrays *a);
    int arrays;
} kernels[] = {
    {"copy", copy, 2},
    {"rmsnorm", rmsnorm, 2},
    {"layernorm", layernorm, 2},
    {"rmsnorm, backward", rmsnorm_back, 4},
    {"layernorm, backward", layernorm_back, 4},
    {"bias", bias, 2},
    {"bias, backward", bias_back, 1},
    {"gelu", gelu, 2},
    {"gelu tanh", gelu_tanh, 2},
    {"gelu tanh, backward", gelu_tanh_back, 4},
    {"swiglu", swiglu, 3},
};

enum { KERNELS = sizeof kernels / sizeof *kernels };

int main(int argc, char **argv)
{
    int64_t kib = argc > 1 ? atoi(argv[1]) : 96 << 10;
    struct arrays a = {.rows = kib * 1024 / (C * (int64_t)sizeof(float))};
    double best[KERNELS], bytes = (double)(a.rows * C) * sizeof(float);
    float **array[] = {&a.x, &a.y, &a.dy, &a.w, &a.b, &a.mean, &a.rstd};

    if (a.rows < 1)
        return fprintf(stderr, "usage: kern_cpu_bench [KIB], 3 or more\n"), 2;
    for (int i = 0; i < 7; i++) {
        int64_t n = i < 3 ? a.rows * C : a.rows + 2 * C;

        *array[i] = mem_new((size_t)n, sizeof(float));
        for (int64_t j = 0; j < n; j++)
            (*array[i])[j] = (float)rng_uniform(1, (uint64_t)i, (uint64_t)j);
    }
    kern_thread_init();
    for (int r = 0; r < ROUNDS; r++)
        for (int k = 0; k < KERNELS; k++) {
            double start = tick_cpu_s(), s;

            kernels[k].run(&a);
            s = tick_cpu_s() - start;
            best[k] = r && best[k] < s ? best[k] : s;
        }
    for (int k = 0; k < KERNELS; k++)
        printf("%-20s %6.2f GB/s  %5.2f of the copy's\n", kernels[k].name,
               kernels[k].arrays * bytes / best[k] / 1e9,
               kernels[k].arrays / best[k] * best[0] / 2);
    return 0;
}
