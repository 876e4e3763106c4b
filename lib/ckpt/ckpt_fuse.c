/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how adapters are added into the matrix beside which they were trained:
 * W + (alpha / rank) B A, in double precision, rounded once to the matrix's type.
 */
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_parts.h"

enum { CHUNK = 1 << 20 }; /* elements at a time: 8 MiB */

struct fuse {
    const struct model_tensor *t;
    int64_t rank, in, out;
    double scale;
    double *a, *b; /* (rank, in), (out, rank) */
};

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

/* Part of one row of the matrix as stored: columns [col, col + n). */
static void add_row(const struct fuse *f, int64_t row, int64_t col, int64_t n, double *w)
{
    if (f->t->transposed) { /* the row is an input, the columns are outputs */
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < f->rank; k++)
                sum += f->b[(col + j) * f->rank + k] * f->a[k * f->in + row];
            w[j] += f->scale * sum;
        }
        return;
    }
    for (int64_t k = 0; k < f->rank; k++) {
        double s = f->scale * f->b[row * f->rank + k];
        for (int64_t j = 0; j < n; j++)
            w[j] += s * f->a[k * f->in + col + j];
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

/* The matrix chunk by chunk, to fd at `at`. */
static int put(struct ckpt *c, const struct fuse *f, int fd, int64_t at, struct err *err)
{
    int params = ckpt_find_state(c, "params"), rc = 0;
    enum dtype type = c->state[params].type;
    double *w = mem_new(CHUNK, sizeof *w);
    void *cast = mem_new(CHUNK, (size_t)dtype_bytes(type));

    for (int64_t lo = 0, n; rc == 0 && lo < f->t->elems; lo += n) {
        n = f->t->elems - lo < CHUNK ? f->t->elems - lo : CHUNK;
        struct range range = {f->t->offset + lo, f->t->offset + lo + n};
        rc = ckpt_read_ranges(c, f->t->unit, params, &range, 1, DTYPE_F64, w, err);
        if (rc)
            break;
        add(f, lo, n, w);
        dtype_convert(cast, type, w, DTYPE_F64, n);
        if (io_pwrite_all(fd, cast, n * dtype_bytes(type), at + lo * dtype_bytes(type), err))
            rc = err_prefix(err, "'%s': ", f->t->name);
    }
    mem_free(w);
    mem_free(cast);
    return rc;
}

int ckpt_fuse(struct ckpt *c, const struct model_tensor *t, int fd, int64_t at, struct err *err)
{
    const struct model_lora *lora = &c->model.lora;
    struct fuse f = {.t = t,
                     .rank = lora->rank,
                     .in = t->shape[t->transposed ? 0 : 1],
                     .out = t->shape[t->transposed ? 1 : 0],
                     .scale = lora->alpha / (double)lora->rank};
    int rc = load(c, model_adapter(&c->model, t, MODEL_LORA_A), &f.a, err) ||
                     load(c, model_adapter(&c->model, t, MODEL_LORA_B), &f.b, err) ||
                     put(c, &f, fd, at, err)
                 ? -1
                 : 0;

    mem_free(f.a);
    mem_free(f.b);
    return rc;
}
