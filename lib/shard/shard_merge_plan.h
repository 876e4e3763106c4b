/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_MERGE_PLAN_H
#define SHARD_SHARD_MERGE_PLAN_H

#include "shard/shard.h"

/* Plans the weights files for merge before any byte is written. */

/* A tensor of a new file: one of the model's, or a buffer from source/rest. */
struct merge_tensor {
    int tensor;     /* index in the model; -1: a buffer */
    int file;       /* destination file, */
    int64_t offset; /* offset */
    int64_t bytes;  /* and size */
    int rest;       /* for a buffer: the file of source/rest, */
    int64_t at;     /* and the offset in it */
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
    int params;          /* number of the state "params" */
    enum dtype is, want; /* the params' type, and the files' */
    int fuse;            /* add adapters to their matrices */
    int files, tensors, rests;
    struct merge_file *file;
    /* Sorted by the model's tensors; buffers of source/rest last */
    struct merge_tensor *tensor;
    struct merge_rest *rest;
};

/* Plans the tensors to merge and their types, without files. */
int merge_plan_init(struct merge_plan *p, struct ckpt *c, const struct shard_merging *what,
                    struct err *err);
struct merge_place {
    const char *tensor, *file;
};
/* Builds the text of model.safetensors.index.json like transformers; sorts `place`;
   mem_free. */
char *merge_index(struct merge_place *place, int count, int64_t total);
/* Writes the files into dir->temp, synced.  Call it once: it frees their headers. */
int merge_move(const struct merge_plan *p, const struct io_out *dir,
               const struct shard_options *options, struct err *err);

/* Reads weights for merging: adapters are added to their matrices, sparse matrices become
   dense. */
struct merge_reader {
    const struct merge_plan *p; /* borrowed; set all other fields to 0 */
    /* The tensor whose adapters or dense matrix are loaded; NULL: none */
    const struct model_tensor *t;
    double *a, *b; /* owned; (rank, in), (out, rank) */
    float *whole;  /* owned */
};
/* Reads elements [first, first + count) of the model's tensor of that index, in p->want. */
int merge_read(struct merge_reader *r, int64_t tensor, int64_t first, int64_t count, void *out,
               struct err *err);
void merge_reader_release(struct merge_reader *r);

#endif
