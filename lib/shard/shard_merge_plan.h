/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_MERGE_PLAN_H
#define SHARD_SHARD_MERGE_PLAN_H

#include "ckpt/ckpt_write.h"
#include "shard/shard.h"

/* Plans the weights files that merge will write, before any byte is written. */

/* A tensor of a file: the model's, or a buffer whose bytes source/rest has. */
struct merge_tensor {
    int tensor;     /* the model's; -1: a buffer */
    int file;       /* that gets it, */
    int64_t offset; /* at this offset, */
    int64_t bytes;  /* so many bytes */
    int rest;       /* of a buffer: the file of source/rest that has it, */
    int64_t at;     /* at this offset */
};

struct merge_file {
    char *name, *head; /* owned */
    int64_t head_bytes, bytes;
};

struct merge_rest {
    char *path; /* owned */
    int64_t bytes;
};

struct merge_plan {
    struct ckpt *c;      /* borrowed, open */
    int params;          /* the state */
    enum dtype is, want; /* the params' type, and the files' */
    int fuse;            /* add adapters into their matrices */
    int files, tensors, rests;
    struct merge_file *file;
    struct merge_tensor *tensor; /* by the model's tensors, those of source/rest last */
    struct merge_rest *rest;
};

/* Plans the tensors to merge, and their types; no files yet. */
int merge_plan_init(struct merge_plan *p, struct ckpt *c, const struct shard_merging *what,
                    struct err *err);
struct merge_place {
    const char *tensor, *file;
};
/* The text of model.safetensors.index.json, for mem_free; as transformers writes it; sorts. */
char *merge_index(struct merge_place *place, int count, int64_t total);
/* Writes the files into dir->temp, synced; once, for it takes their heads. */
int merge_move(const struct merge_plan *p, const struct io_out *dir,
               const struct shard_options *options, struct err *err);

/* Reads weights as they are merged: adapters added to their matrices, sparse ones whole. */
struct merge_reader {
    const struct merge_plan *p;   /* borrowed; all else is 0 */
    const struct model_tensor *t; /* whose adapters or whole matrix are here; NULL: none */
    double *a, *b;                /* owned; (rank, in), (out, rank) */
    float *whole;                 /* owned */
};
/* Elements [first, first + count) of the model's tensor of that number, in p->want. */
int merge_read(struct merge_reader *r, int64_t tensor, int64_t first, int64_t count, void *out,
               struct err *err);
void merge_reader_release(struct merge_reader *r);

#endif
