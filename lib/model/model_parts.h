/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_PARTS_H
#define MODEL_MODEL_PARTS_H

#include "model/model.h"

/* Declares functions shared by the files of this folder. */

/* Reads family and numbers from the text of a config.json, text[bytes] is 0; makes no units. */
int model_config_read(struct model *m, const char *name, const char *text, int64_t bytes,
                      struct err *err);
/* model_units.c: makes all units of the family, from those numbers. */
void model_units_add(struct model *m);

/* rows 0: a vector of `cols`.  Initial values: MODEL_VECTOR 1, all else normal with the model's
 * std; the caller may change init_mean and init_std (a bias: mean 0). */
struct model_tensor *model_tensor_add(struct model *m, const char *name, enum model_kind kind,
                                      int64_t rows, int64_t cols);
/*
 * Rebuilds the model unit by unit.  After each tensor, `add` may add at most two more with
 * model_tensor_add; when it is called the tensor is the last one in m, and `number` is its old
 * number.  frozen 1: existing tensors are frozen, and added ones train; 0: the reverse.
 */
void model_units_extend(struct model *m, int frozen,
                        void (*add)(struct model *m, int number, const void *arg),
                        const void *arg);

/* Returns the next part of *text up to `end`, owned, and moves *text after it, or to NULL.
   NULL: none is left. */
char *model_next_part(const char **text, char end);

/* Applies `sparse=`: S[,KEY=VALUE]...; matrices of layers become sparse. */
int model_train_sparse(struct model *m, const char *text, struct err *err);

/* Computes offsets, sums, and the order in which a step visits the units.  frozen: [tensors],
 * 1: it has no gradient; NULL: all train. */
void model_units_close(struct model *m, const char *frozen);

#endif
