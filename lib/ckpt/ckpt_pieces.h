/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_PIECES_H
#define CKPT_CKPT_PIECES_H

#include "base/io.h"
#include "ckpt/ckpt_safetensors.h"
#include "ckpt/ckpt_torch.h"

/*
 * Joins tensors of which each rank of a run wrote a part, a box of their elements, into a file
 * of its own.  Those of a struct st that has `pieces` lie so, and st_read puts them together:
 *
 *     W [4, 3]    . . | .     rank 0 [0, 0] of [4, 2] in file 0
 *                 . . | .     rank 1 [0, 2] of [4, 1] in file 1
 *                 . . | .
 *                 . . | .
 */
struct piece {
    char *key;  /* of the tensor in the checkpoint, owned */
    char *name; /* without what wrappers add, owned; of a state "NAME/exp_avg" */
    int type, dims, file;
    int64_t at; /* of its first element in the file; its elements are in order */
    struct torch_record record; /* that has it, until its checksum is compared: bytes 0 */
    int64_t *box; /* [3 * dims], owned: the first, how many, and how many the tensor has */
};

struct pieces {
    int files;
    char **file;         /* [files] paths, owned; those without pieces, too, that were read */
    struct io_id *id;    /* [files], owned: which files those were */
    int *sorted;         /* [files] their numbers, in the order of their paths, owned */
    struct io_kept open; /* those that pieces_read has opened */
    int64_t count;
    struct piece *piece; /* [count]: by name, then by their first elements */
    int64_t *first;      /* [tensors + 1]: where those of a tensor begin; from pieces_end on */
    int64_t step;        /* of the optimizer; -1: not known */
    size_t file_space, id_space, sorted_space, piece_space;
};

/* The number of the file dir/name; a file without one gets one (add), or has -1. */
int pieces_file(struct pieces *p, const char *dir, const char *name, int add);
/*
 * A part of a tensor: type, dims, shape and `first`, its place in the file.  from: its first
 * element in each dimension; whole: the tensor's shape.  NULL: 0; as the parts have it.
 * record: what is checked when the part is first read (NULL: nothing).  Scalars and settings
 * of an optimizer are left out.
 */
void pieces_add(struct pieces *p, const char *key, const struct st_tensor *part,
                const int64_t *from, const int64_t *whole, int file,
                const struct torch_record *record);
/* Whether a tensor's name is of an optimizer's state: its '/', or NULL. */
char *pieces_state(const char *name);
/* Whether it is an optimizer's count of steps, which is no tensor to add. */
int pieces_is_step(const char *key);
/* All steps must be one. */
int pieces_step(struct pieces *p, const char *key, int64_t step, const char *path,
                struct err *err);
/*
 * Fills st->tensor: every element in exactly one piece, or in several with equal bytes.
 * ERR_INPUT names a gap or an overlap.
 */
int pieces_end(struct st *st, const struct ckpt_limits *limits, struct err *err);
/* As st_read, of whole elements. */
int pieces_read(const struct st *st, const struct st_tensor *t, int64_t first, int64_t bytes,
                void *out, struct err *err);
void pieces_free(struct pieces *p);

#endif
