/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_PARTS_H
#define MODEL_MODEL_PARTS_H

#include "model/model.h"

/*
 * Between the files of this folder: a reader of one family's keys fills the numbers of the
 * model, then its writer of tensors adds the units.
 */

/* The Llama family's keys from the text of a config.json, one 0 behind it; no units yet. */
int model_config_read(struct model *m, const char *name, const char *text, int64_t bytes,
                      struct err *err);
/* Units and tensors of the Llama family, from the numbers that are there. */
void model_llama_units(struct model *m);

#endif
