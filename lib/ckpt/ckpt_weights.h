/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_WEIGHTS_H
#define CKPT_CKPT_WEIGHTS_H

#include "ckpt/ckpt.h"
#include "ckpt/ckpt_hf.h"

/* Reads the named tensors of a checkpoint, a Hugging Face folder or a .safetensors file. */
struct weights_item {
    char *name;             /* owned; of a state other than params: "NAME/master" */
    struct st_tensor shape; /* type, dims, shape, elems (its name is not set) */
    int tensor, state;      /* of a checkpoint */
    int file;               /* of a folder */
    const struct st_tensor *t;
};

struct weights {
    int is_ckpt;
    struct ckpt ckpt;
    struct hf hf;
    int count;
    struct weights_item *item; /* [count], owned, by name */
    int64_t bytes;             /* of all of them */
};

/* ERR_ABSENT: neither kind of folder, and no file. */
int weights_open(struct weights *w, const char *path, const struct ckpt_limits *limits,
                 struct err *err);
/*
 * Gives a folder's or file's items the model's names, and removes those that are no parameters
 * of their own (a tied head, a mask).
 */
int weights_rename(struct weights *w, const struct model *m, struct err *err);
void weights_close(struct weights *w);
/* The type of the params. */
enum dtype weights_type(const struct weights *w);
/*
 * XXH3 of what identifies them: of a checkpoint all checksums; of a folder or file,
 * which has none, every name, type and shape, and the first and last bytes of each tensor.
 */
int weights_identity(const struct weights *w, char hash[33], struct err *err);
/* Elements [first, first + count), at most CKPT_BLOCK_ELEMS, in the item's own type. */
int weights_read(struct weights *w, const struct weights_item *item, int64_t first,
                 int64_t count, void *out, struct err *err);

#endif
