/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_PEFT_H
#define SHARD_SHARD_PEFT_H

#include "ckpt/ckpt_safetensors.h"
#include "model/model.h"

/*
 * Reads and writes a folder of low-rank adapters in the PEFT library's format:
 * adapter_config.json, adapter_model.safetensors.
 */
struct peft {
    struct st st; /* path NULL: not open */
};

/*
 * The adapters of the folder must match the model's: rank, alpha, and tensors; ERR_MISMATCH
 * otherwise.  Settings beyond plain adapters are rejected by name.
 */
int peft_open(struct peft *p, const char *dir, const struct model *m, struct err *err);
/*
 * Checks the settings only: text of an adapter_config.json, ending with a 0; name is for
 * messages.
 */
int peft_check(const struct model *m, const char *name, const char *text, int64_t bytes,
               struct err *err);
void peft_release(struct peft *p);
/* Reads elements [first, first + count) of the model's adapter t, converted to `type`. */
int peft_read(const struct peft *p, const struct model_tensor *t, int64_t first, int64_t count,
              enum dtype type, void *out, struct err *err);
/* The text of an adapter_config.json, mem_free.  base: the adapted model; NULL: unknown. */
char *peft_config(const struct model *m, const char *base);

#endif
