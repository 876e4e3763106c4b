/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_CARRY_H
#define CKPT_CKPT_CARRY_H

#include "base/io.h"
#include "ckpt/weights.h"

/*
 * The tokenizer and generation files of a model's folder, in memory: small, and needed by every
 * checkpoint of a run, whatever becomes of the folder meanwhile.
 */
struct ckpt_carry {
    struct ckpt_sources list; /* list.item[i] is text[i] */
    char **text;
};

/* Whether a file of a folder is one of them; tokenizer: of those that encode text. */
int ckpt_carries(const char *name);
int ckpt_carries_tokenizer(const char *name);
/* Those of weights that are open; only generation_config.json without `tokenizer`. */
int ckpt_carry_weights(struct ckpt_carry *c, struct weights *w, int tokenizer, struct err *err);
/* The tokenizer's of a folder. */
int ckpt_carry_folder(struct ckpt_carry *c, const char *dir, struct err *err);
/* Whether a checkpoint's own are whole; 0 for a folder that is no checkpoint. */
int ckpt_carry_check(const char *dir, struct err *err);
/* Writes them into the source/ of the checkpoint to come. */
int ckpt_carry_put(const struct ckpt_carry *c, const struct io_dir *dir, struct err *err);
void ckpt_carry_release(struct ckpt_carry *c);
/* The folder in which a checkpoint, or a model's folder, has them; mem_free. */
char *ckpt_carry_path(const char *dir);

#endif
