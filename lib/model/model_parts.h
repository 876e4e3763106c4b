/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_PARTS_H
#define MODEL_MODEL_PARTS_H

#include "model/model.h"

/* Between the files of this folder. */

/* The family and the numbers of the text of a config.json, one 0 after it; no units yet. */
int model_config_read(struct model *m, const char *name, const char *text, int64_t bytes,
                      struct err *err);
/* model_units.c: all of the family's, from those numbers. */
void model_units_add(struct model *m);

/* Room for so many at most; the unit that tensors are then added to. */
void model_units_room(struct model *m, int64_t units, int64_t tensors);
void model_unit_open(struct model *m, const char *name);
/* rows 0: a vector of `cols`, which begins at 1; all else is normal with the model's std. */
struct model_tensor *model_tensor_add(struct model *m, const char *name, enum model_kind kind,
                                      int64_t rows, int64_t cols);
/* Offsets, sums, visits.  frozen: [tensors], what has no gradient; NULL: all trains. */
void model_units_close(struct model *m, const char *frozen);

#endif
