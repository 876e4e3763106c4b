/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves the params into the weights files of a merge_plan.  The stream consists of the blocks
 * of the planned tensors, in the checkpoint's order, and then of the buffers in source/rest.  A
 * block lies inside one tensor, so it is one piece, written (unchanged or converted) once for
 * each file tensor that it belongs to; a tied head is a second one.
 */
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "shard/shard_moves.h"
#include "shard/shard_merge_plan.h"

/* --- adapters, added to the matrices that they adapt; dense forms of sparse matrices --- */

void merge_reader_release(struct merge_reader *r)
{
    MEM_FREE(r->a, r->b, r->whole);
    *r = (struct merge_reader){.p = r->p};
}

/* Whether the tensor's elements are computed: a sparse matrix, or one with adapters. */
static int merge_makes(const struct merge_plan *p, const struct model_tensor *t)
{
    return t->block || (p->fuse && model_adapter(&p->c->model, t, MODEL_LORA_A));
}

static int load_tensor(const struct merge_plan *p, const struct model_tensor *t,
                       enum dtype type, void **out, struct err *err)
{
    struct range at = {t->offset, t->offset + t->elems};

    if (mem_data(t->elems * dtype_bytes(type), "a tensor", out, err))
        return -1;
    return ckpt_read_range(p->c, t->unit, p->params, at, type, *out, err);
}

static int load_adapter(const struct merge_plan *p, const struct model_tensor *t, double **out,
                        struct err *err)
{
    void *values = NULL;
    int rc = load_tensor(p, t, DTYPE_F64, &values, err);

    *out = values;
    return rc;
}

/* Expands a sparse matrix: inactive elements are 0. */
static int load_whole(struct merge_reader *f, const struct model_tensor *t, struct err *err)
{
    const struct model_tensor *mask = model_mask_of(&f->p->c->model, t);
    void *value = NULL, *bits = NULL, *whole = NULL;
    int rc =
        err_any(load_tensor(f->p, t, DTYPE_F32, &value, err) ||
                load_tensor(f->p, mask, DTYPE_F32, &bits, err) ||
                mem_data(model_whole(t) * (int64_t)sizeof(float), "a matrix", &whole, err));

    if (rc == 0)
        model_sparse_whole(t, value, bits, whole);
    f->whole = whole;
    mem_free(value);
    mem_free(bits);
    return rc;
}

/* Keeps a value bit for bit if nothing is added: -0 + 0 would be 0. */
static double plus(double w, double x)
{
    return x != 0 ? w + x : w;
}

/* Adds to part of one row of the matrix as stored: columns [col, col + n). */
static void merge_move_add_row(const struct merge_reader *f, int64_t row, int64_t col,
                               int64_t n, double *w)
{
    const struct model_lora *lora = &f->p->c->model.lora;
    int64_t rank = lora->rank, in = f->t->shape[f->t->transposed ? 0 : 1];
    double scale = lora->alpha / (double)rank;

    if (f->t->transposed) { /* the row is an input, columns are outputs */
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

/* Computes W + (alpha / rank) B A in double precision and rounds once. */
int merge_read(struct merge_reader *f, int64_t tensor, int64_t first, int64_t count, void *out,
               struct err *err)
{
    const struct model *m = &f->p->c->model;
    const struct model_tensor *t = &m->tensor[tensor];
    struct range range = {t->offset + first, t->offset + first + count};
    int64_t cols = t->shape[1];

    if (!merge_makes(f->p, t))
        return ckpt_read_range(f->p->c, t->unit, f->p->params, range, f->p->want, out, err);
    if (f->t != t) {
        merge_reader_release(f);
        if (t->block ? load_whole(f, t, err)
                     : load_adapter(f->p, model_adapter(m, t, MODEL_LORA_A), &f->a, err) ||
                           load_adapter(f->p, model_adapter(m, t, MODEL_LORA_B), &f->b, err))
            return -1;
        f->t = t;
    }
    if (t->block) {
        dtype_convert(out, f->p->want, f->whole + first, DTYPE_F32, count);
        return 0;
    }
    double *w = mem_new((size_t)count, sizeof *w);
    int rc = ckpt_read_range(f->p->c, t->unit, f->p->params, range, DTYPE_F64, w, err);
    for (int64_t at = 0, n; rc == 0 && at < count; at += n) {
        int64_t row = (first + at) / cols, col = (first + at) % cols;
        n = cols - col < count - at ? cols - col : count - at;
        merge_move_add_row(f, row, col, n, w + at);
    }
    if (rc == 0)
        dtype_convert(out, f->p->want, w, DTYPE_F64, count);
    mem_free(w);
    return rc;
}

static int merge_move_make_elements(void *arg, int64_t tensor, int64_t first, int64_t count,
                                    void *out, struct err *err)
{
    return merge_read(arg, tensor, first, count, out, err);
}

/* --- pieces --- */

/* Adds a block of tensors `to` ... `end`; for a sparse matrix the first block represents
   all. */
static void add_block(struct moves *m, const struct merge_plan *p, int64_t block,
                      const struct merge_tensor *to, const struct merge_tensor *end)
{
    const struct ckpt_block *b = &p->c->block[block];
    const struct model_tensor *t = &p->c->model.tensor[b->tensor];
    /* Computed values are rounded once, directly to the requested type. */
    int64_t first = b->lo - t->offset, at = m->at;
    int makes = merge_makes(p, t);

    if (t->block && first)
        return;
    if (makes)
        moves_add_made(m, b->tensor, first, t->block ? model_whole(t) : b->hi - b->lo,
                       dtype_bytes(p->want));
    else
        moves_add_block(m, block);
    for (; to < end; to++)
        moves_add_to(m, (struct move_to){.at = at,
                                         .bytes = m->at - at,
                                         .file = to->file,
                                         .offset = to->offset + first * dtype_bytes(p->want),
                                         .type = makes ? p->want : p->is,
                                         .want = p->want});
}

static int merge_move_take_head(void *heads, int file, char **head, int64_t *bytes,
                                struct err *err)
{
    struct merge_file *f = &((const struct merge_plan *)heads)->file[file];

    (void)err;
    *head = f->head;
    *bytes = f->head_bytes;
    f->head = NULL;
    return 0;
}

int merge_move(const struct merge_plan *p, const struct io_out *dir,
               const struct shard_options *options, struct err *err)
{
    struct merge_reader reader = {.p = p};
    struct moves m = {.options = options,
                      .make = merge_move_make_elements,
                      .arg = &reader,
                      .head = merge_move_take_head,
                      .heads = (void *)p};
    struct ckpt *c = p->c;
    int units = c->model.units;
    int *first = mem_new((size_t)c->model.tensors + 1, sizeof *first);

    moves_add_ckpt(&m, c);
    for (int i = 0; i < p->rests; i++)
        moves_add_file(&m.in, p->rest[i].bytes, mem_dup(p->rest[i].path));
    for (int f = 0; f < p->files; f++)
        moves_add_file(&m.out, p->file[f].bytes, io_join(dir->temp, p->file[f].name));
    for (int i = 0, t = 0; t <= c->model.tensors; t++) {
        while (i < p->tensors && p->tensor[i].tensor >= 0 && p->tensor[i].tensor < t)
            i++;
        first[t] = i;
    }
    for (int64_t b = c->first[p->params * units]; b < c->first[(p->params + 1) * units]; b++) {
        int t = c->block[b].tensor;
        if (first[t] < first[t + 1])
            add_block(&m, p, b, &p->tensor[first[t]], &p->tensor[first[t + 1]]);
    }
    for (int i = first[c->model.tensors]; i < p->tensors; i++) {
        const struct merge_tensor *t = &p->tensor[i];
        moves_add_to(
            &m, (struct move_to){m.at, t->bytes, t->file, t->offset, DTYPE_U8, DTYPE_U8, NULL});
        moves_add_from(&m, (struct move_from){
                               .bytes = t->bytes, .file = c->files + t->rest, .offset = t->at});
    }
    mem_free(first);
    int rc = moves_run(&m, dir, err);
    moves_release(&m);
    merge_reader_release(&reader);
    return rc;
}
