/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how adapters are added into the matrix beside which they were trained:
 * W + (alpha / rank) B A, in double precision, rounded once to the type that is asked for.
 */
#include "shard/merge_plan.h"

#include <string.h>

#include "base/mem.h"

static int load(struct ckpt *c, const struct model_tensor *t, double **out, struct err *err)
{
    struct range at = {t->offset, t->offset + t->elems};
    void *values = NULL;

    if (mem_data(t->elems * (int64_t)sizeof(double), "an adapter", &values, err))
        return -1;
    *out = values;
    return ckpt_read_ranges(c, t->unit, ckpt_find_state(c, "params"), &at, 1, DTYPE_F64, values,
                            err);
}

/* What nothing is added to stays as it is, bit for bit: -0 + 0 would be 0. */
static double plus(double w, double x)
{
    return x != 0 ? w + x : w;
}

/* Part of one row of the matrix as stored: columns [col, col + n). */
static void add_row(const struct fuse *f, int64_t row, int64_t col, int64_t n, double *w)
{
    const struct model_lora *lora = &f->ckpt->model.lora;
    int64_t rank = lora->rank, in = f->t->shape[f->t->transposed ? 0 : 1];
    double scale = lora->alpha / (double)rank;

    if (f->t->transposed) { /* the row is an input, the columns are outputs */
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < rank; k++)
                sum += f->b[(col + j) * rank + k] * f->a[k * in + row];
            w[j] = plus(w[j], scale * sum);
        }
        return;
    }
    for (int64_t k = 0; k < rank; k++) {
        double s = scale * f->b[row * rank + k];
        for (int64_t j = 0; j < n; j++)
            w[j] = plus(w[j], s * f->a[k * in + col + j]);
    }
}

static void add(const struct fuse *f, int64_t first, int64_t count, double *w)
{
    int64_t cols = f->t->shape[1];

    for (int64_t at = 0, n; at < count; at += n) {
        int64_t row = (first + at) / cols, col = (first + at) % cols;
        n = cols - col < count - at ? cols - col : count - at;
        add_row(f, row, col, n, w + at);
    }
}

static int take_adapters(struct fuse *f, const struct model_tensor *t, struct err *err)
{
    const struct model *m = &f->ckpt->model;

    if (f->t == t)
        return 0;
    fuse_release(f);
    if (load(f->ckpt, model_adapter(m, t, MODEL_LORA_A), &f->a, err) ||
        load(f->ckpt, model_adapter(m, t, MODEL_LORA_B), &f->b, err))
        return -1;
    f->t = t;
    return 0;
}

int fuse_part(struct fuse *f, const struct model_tensor *t, int64_t first, int64_t count,
              enum dtype type, void *out, struct err *err)
{
    struct range range = {t->offset + first, t->offset + first + count};
    double *w = mem_new((size_t)count, sizeof *w);
    int rc = take_adapters(f, t, err) ||
                     ckpt_read_ranges(f->ckpt, t->unit, ckpt_find_state(f->ckpt, "params"),
                                      &range, 1, DTYPE_F64, w, err)
                 ? -1
                 : 0;

    if (rc == 0) {
        add(f, first, count, w);
        dtype_convert(out, type, w, DTYPE_F64, count);
    }
    mem_free(w);
    return rc;
}

void fuse_release(struct fuse *f)
{
    mem_free(f->a);
    mem_free(f->b);
    *f = (struct fuse){.ckpt = f->ckpt};
}
