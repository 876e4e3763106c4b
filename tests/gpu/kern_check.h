/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_GPU_KERN_CHECK_H
#define TESTS_GPU_KERN_CHECK_H

#include "kern/kern.h"
#include "../unit/plain_fixture.h"

/*
 * Provides what the parts of kern_check share: the table under test, and matrices in the
 * device's memory of which everything is known, also what lies before, behind and between the
 * rows: NaN where a kernel must not read, a number that must stay where it must not write.  A
 * case makes what it needs, runs kernels twice, compares, and ends:
 *
 *     struct mat *x = mat_new(...), *y = written(mat_new(...));
 *     for (int run = 0; next_run(c, &run);)
 *         c->op->...(c->k, y->p, x->p);
 *     mat_near(c, y, ...);
 *     end_case(c);
 *
 * Reference: kern_ref_fixture.h, and for backwards the formulas in double precision, here; on
 * the processor they meet kernels that are held against central differences (kern_test.c).
 */
struct mat {
    struct mat *next; /* of the case */
    enum dtype type;
    int64_t rows, cols, ld;
    void *base, *p;       /* of the device: all, and the first element */
    int64_t bytes, first; /* of base; where p is */
    char *init, *got;     /* of the host, bytes each; what kernels find and leave */
    double *x;            /* (rows, cols) what is in init, where it was filled */
    int filled, written, differs;
};

enum { KEPT_MOST = 96 };

struct check {
    struct device *device;
    struct device_queue *queue;
    struct kern kern, *k; /* k: &kern */
    const struct kern_ops *op;
    int tests, failed, quick;
    enum kern_attention attention;
    uint64_t seed;
    char label[64]; /* of the table: types */
    /* Members of the case: */
    struct mat *mats;
    void *host[KEPT_MOST], *slot[KEPT_MOST];
    int hosts, slots;
};

/* Rounding leaves at most 2^-9 of a bf16 number: 1e-2 are five such roundings in a row, more
 * than any kernel has (the most: scores' exponentials, their gradients, out, dqkv).  f32: 2^-24
 * each and sums of n <= 8192 terms, whose errors add up like a random walk's: 2^-24 sqrt(n) is
 * 5.4e-6 of the norm. */
double tolerance(enum dtype type);

/* scale 0: empty.  off: elements by which the first is not aligned. */
struct mat *mat_new(struct check *c, enum dtype type, int64_t rows, int64_t cols, int64_t ld,
                    int64_t off, double scale);
struct mat *mat_of(struct check *c, enum dtype type, int64_t rows, int64_t cols, int64_t ld,
                   int64_t off, const double *values);
struct mat *vec_new(struct check *c, enum dtype type, int64_t n, double scale); /* aligned */
struct mat *written(struct mat *m);                           /* by kernels: m */
double mat_at(const struct mat *m, int64_t row, int64_t col); /* after the last run */
int64_t mat_strayed(const struct mat *m);                     /* bytes beside it that changed */
double *doubles(struct check *c, int64_t n); /* zeroed; of the case, as these */
void *kept(struct check *c, int64_t bytes);
void *slot(struct check *c, int64_t bytes); /* of the device */
/* The tokens of a micro-batch, by the table. */
struct kern_tokens tokens_of(struct check *c, const int32_t *id, const int32_t *target,
                             int64_t n, int64_t vocab);

/* 1 twice: what is written is as at first before a run, and fetched behind it. */
int next_run(struct check *c, int *run);
/* One test: values, the same bits of two runs, everything beside them. */
void mat_near(struct check *c, const struct mat *m, const double *ref, double bound,
              const char *format, ...) __attribute__((format(printf, 5, 6)));
void end_case(struct check *c); /* frees; what is not written must not have changed */

void ok(struct check *c, int good, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Prints a line and exits: what has no place in a test. */
void bail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void fetch(struct check *c, void *to, const void *from, int64_t bytes); /* waits */

/* The groups. */
void check_embed(struct check *c);
void check_positions(struct check *c);
void check_norm(struct check *c);
void check_bias(struct check *c);
void check_rope(struct check *c);
void check_gated(struct check *c);
void check_gelu(struct check *c);
void check_loss(struct check *c);
void check_add(struct check *c);
void check_attention(struct check *c);
void check_product(struct check *c);
void check_convert(struct check *c);
void check_accumulate(struct check *c);
void check_sumsq(struct check *c);
void check_adamw(struct check *c);
void check_outer(struct check *c);
void check_moments(struct check *c);
void check_table(struct check *c);

#endif
