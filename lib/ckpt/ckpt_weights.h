/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_WEIGHTS_H
#define CKPT_CKPT_WEIGHTS_H

#include "ckpt/ckpt.h"
#include "ckpt/ckpt_hf.h"

/* Reads the named tensors of a checkpoint, a Hugging Face folder or a .safetensors file. */
struct weights_item {
    char *name;             /* owned; in states other than params "NAME/master"; of what each
                               group has of its own "NAME/exp_avg.GROUP" */
    struct st_tensor shape; /* type, dims, shape, elems; its name is not set */
    int tensor, state;      /* numbers in a checkpoint */
    int64_t before;         /* elements of other groups before the unit's */
    int file;               /* number of the file in a folder */
    const struct st_tensor *t;
};

struct weights {
    int is_ckpt;
    struct ckpt ckpt;
    struct hf hf;
    int count;
    struct weights_item *item; /* [count], owned, sorted by name */
    int64_t bytes;             /* total bytes of all items */
};

/* ERR_ABSENT: path is neither a checkpoint, a folder of weights nor a file. */
int weights_open(struct weights *w, const char *path, const struct ckpt_limits *limits,
                 struct err *err);
/*
 * Gives the items of a folder or file the model's names, and removes items that are not
 * parameters (a tied head, a mask).
 */
int weights_rename(struct weights *w, const struct model *m, struct err *err);
void weights_close(struct weights *w);
/* The type of the params. */
enum dtype weights_type(const struct weights *w);
/*
 * XXH3 that identifies the weights: of a checkpoint over all checksums; of a folder or file,
 * which has none, over every name, type and shape, and each tensor's first and last bytes.
 */
int weights_identity(const struct weights *w, char hash[33], struct err *err);
/* Reads elements [first, first + count), at most CKPT_BLOCK_ELEMS, in the item's own type. */
int weights_read(struct weights *w, const struct weights_item *item, int64_t first,
                 int64_t count, void *out, struct err *err);

#endif
