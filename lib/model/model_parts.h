/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_PARTS_H
#define MODEL_MODEL_PARTS_H

#include "model/model.h"

/* Declares what the files of this folder share. */

/* The family and the numbers of the text of a config.json, text[bytes] is 0; no units yet. */
int model_config_read(struct model *m, const char *name, const char *text, int64_t bytes,
                      struct err *err);
/* model_units.c: all of the family's, from those numbers. */
void model_units_add(struct model *m);

/* rows 0: a vector of `cols`.  MODEL_VECTOR begins at 1, all else is normal with the model's
 * std; the caller may change init_mean and init_std (a bias: mean 0). */
struct model_tensor *model_tensor_add(struct model *m, const char *name, enum model_kind kind,
                                      int64_t rows, int64_t cols);
/*
 * The model again, unit by unit, each tensor followed by what `add` adds for it with
 * model_tensor_add, at most two: it is the last one in m, and had that number.  Tensors that
 * were there are frozen, or they train (0); those that are added the other way round.
 */
void model_units_extend(struct model *m, int frozen,
                        void (*add)(struct model *m, int number, const void *arg),
                        const void *arg);

/* The next part of *text up to `end`, owned; *text follows it, or is NULL.  NULL: no more. */
char *model_next_part(const char **text, char end);

/* Applies `sparse=`: S[,KEY=VALUE]...; matrices of layers become sparse. */
int model_train_sparse(struct model *m, const char *text, struct err *err);

/* Offsets, sums, the order in which a step visits the units.  frozen: [tensors], 1: it has no
 * gradient; NULL: all train. */
void model_units_close(struct model *m, const char *frozen);

#endif
