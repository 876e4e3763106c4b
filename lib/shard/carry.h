/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_CARRY_H
#define SHARD_CARRY_H

#include "base/io.h"
#include "ckpt/weights.h"

/*
 * The tokenizer and generation files of a model's folder, in memory: small, and needed by every
 * checkpoint of a run, whatever becomes of the folder meanwhile.
 */
struct carry {
    struct ckpt_sources list; /* list.item[i] is text[i] */
    char **text;
};

/* Whether a file of a folder is one of them. */
int carry_has(const char *name);
/* Those of weights that are open; only generation_config.json without `tokenizer`. */
int carry_weights(struct carry *c, struct weights *w, int tokenizer, struct err *err);
/* The tokenizer's of a folder. */
int carry_folder(struct carry *c, const char *dir, struct err *err);
/* Whether a checkpoint's own are whole; 0 for a folder that is no checkpoint. */
int carry_check(const char *dir, struct err *err);
/* Writes them into the source/ of the checkpoint to come. */
int carry_put(const struct carry *c, const struct io_dir *dir, struct err *err);
void carry_release(struct carry *c);
/* The folder in which a checkpoint, or a model's folder, has them; mem_free. */
char *carry_path(const char *dir);

#endif
