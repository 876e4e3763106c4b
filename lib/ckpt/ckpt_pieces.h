/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_PIECES_H
#define CKPT_CKPT_PIECES_H

#include "base/io.h"
#include "ckpt/ckpt_safetensors.h"
#include "ckpt/ckpt_torch.h"

/*
 * Joins tensors that several ranks of a run wrote in parts: each part is a box of the tensor's
 * elements in a file of its rank.  A struct st with `pieces` has such tensors; st_read
 * assembles them:
 *
 *     W [4, 3]    . . | .     rank 0 [0, 0] of [4, 2] in file 0
 *                 . . | .     rank 1 [0, 2] of [4, 1] in file 1
 *                 . . | .
 *                 . . | .
 */
struct piece {
    char *key;  /* the tensor's name in the checkpoint, owned */
    char *name; /* the name without wrappers' prefixes, owned; of a state "NAME/exp_avg" */
    int type, dims, file;
    int64_t at; /* offset of the first element in the file; elements are in order */
    /* The archive record that holds it; bytes 0 once its checksum was compared */
    struct torch_record record;
    /* [3 * dims], owned: in each dimension the first element, the number of elements, the
       tensor's size */
    int64_t *box;
};

struct pieces {
    int files;
    /* [files] paths, owned; also of files that were read but have no pieces */
    char **file;
    struct io_id *id;    /* [files], owned: identities of the files */
    int *sorted;         /* [files] file numbers, in the order of their paths, owned */
    struct io_kept open; /* files that pieces_read has opened */
    int64_t count;
    struct piece *piece; /* [count]: sorted by name, then by first elements */
    /* [tensors + 1]: index of each tensor's first piece; set by pieces_end */
    int64_t *first;
    int64_t step; /* the optimizer's step count; -1: unknown */
    size_t file_space, id_space, sorted_space, piece_space;
};

/* The number of the file dir/name.  If it has none, `add` assigns one, otherwise -1 is
   returned. */
int pieces_file(struct pieces *p, const char *dir, const char *name, int add);
/*
 * Adds a part of a tensor.  part: type, dims, shape, and in `first` its offset in the file.
 * from: its first element in each dimension (NULL: 0). whole: the tensor's shape (NULL: derived
 * from all parts). record: the record to check when the part is first read (NULL: none).
 * Scalars and settings of an optimizer are skipped.
 */
void pieces_add(struct pieces *p, const char *key, const struct st_tensor *part,
                const int64_t *from, const int64_t *whole, int file,
                const struct torch_record *record);
/* If the name is that of an optimizer state, returns its '/'; else NULL. */
char *pieces_state(const char *name);
/* Whether the key is an optimizer's step count, which is not added as a tensor. */
int pieces_is_step(const char *key);
/* Records a step count; an error unless it equals the earlier ones. */
int pieces_step(struct pieces *p, const char *key, int64_t step, const char *path,
                struct err *err);
/*
 * Fills st->tensor.  Every element must lie in exactly one piece, or in several with equal
 * bytes; ERR_INPUT names a gap or an overlap.
 */
int pieces_end(struct st *st, const struct ckpt_limits *limits, struct err *err);
/* As st_read, for whole elements. */
int pieces_read(const struct st *st, const struct st_tensor *t, int64_t first, int64_t bytes,
                void *out, struct err *err);
void pieces_free(struct pieces *p);

#endif
