/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_PEFT_H
#define SHARD_SHARD_PEFT_H

#include "ckpt/ckpt_safetensors.h"
#include "model/model.h"

/*
 * Reads and writes a folder of low-rank adapters as the PEFT library does: adapter_config.json,
 * adapter_model.safetensors.
 */
struct peft {
    struct st st; /* path NULL: not open */
};

/*
 * The folder's adapters must be the model's: rank, alpha, and the same tensors.  ERR_MISMATCH
 * where they are others; a setting that is more than plain adapters is refused by name.
 */
int peft_open(struct peft *p, const char *dir, const struct model *m, struct err *err);
/*
 * The settings alone: the text of an adapter_config.json, one 0 behind it; name is for
 * messages.
 */
int peft_check(const struct model *m, const char *name, const char *text, int64_t bytes,
               struct err *err);
void peft_release(struct peft *p);
/* Elements [first, first + count) of the model's adapter t, in `type`. */
int peft_read(const struct peft *p, const struct model_tensor *t, int64_t first, int64_t count,
              enum dtype type, void *out, struct err *err);
/* The text of an adapter_config.json, for mem_free.  base: what they adapt; NULL: not known. */
char *peft_config(const struct model *m, const char *base);

#endif
