/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_CARRY_H
#define SHARD_SHARD_CARRY_H

#include "base/io.h"
#include "ckpt/ckpt_weights.h"

/*
 * Carries the tokenizer and generation files of a model's folder, in memory: each checkpoint of
 * a run gets a copy of them, even if the folder is gone by then.
 */
struct carry {
    struct ckpt_sources list; /* list.item[i] is text[i] */
    char **text;
};

/*
 * For a run with --drop-easy: the loss of each sequence of each step so far, f32,
 * little-endian. No file of a model's: checkpoints have it, merged folders have not.
 */
#define CARRY_LOSSES "sequence-losses.f32"
/* Where adapters train: the folder that they adapt, or its name at the hub, for PEFT. */
#define CARRY_BASE "base-model.txt"
enum { CARRY_FILE_MAX = 256 << 20 }; /* the largest tokenizers, of 256,000 tokens, have 35 MB */

/* Whether a file of this name is one of them. */
int carry_has(const char *name);
/* Whether it is a checkpoint's alone: merged folders do not have it. */
int carry_is_inner(const char *name);
/* CARRY_BASE becomes this folder: ORG/NAME of models--ORG--NAME, else its absolute path. */
void carry_base(struct carry *c, const struct hf *hf);
/* Reads them from where the weights are; without `tokenizer`, generation_config.json alone. */
int carry_weights(struct carry *c, struct weights *w, int tokenizer, struct err *err);
/* The same with the tokenizer's, also from beside a single file. */
int carry_beside(struct carry *c, struct weights *w, struct err *err);
/* Reads the tokenizer's files of a folder. */
int carry_folder(struct carry *c, const char *dir, struct err *err);
/*
 * Compares those of a checkpoint with their checksums, and rejects further ones; 0 for a folder
 * that is no checkpoint.
 */
int carry_check(const char *dir, struct err *err);
/* Writes them into source/ of a new checkpoint. */
int carry_put(const struct carry *c, const struct io_out *dir, struct err *err);
/* Copies a file's bytes in place of those of that name, if there are any; NULL removes it. */
void carry_set(struct carry *c, const char *name, const void *bytes, int64_t count);
/* The bytes of a file, borrowed; NULL: there is none. */
const char *carry_find(const struct carry *c, const char *name, int64_t *count);
void carry_release(struct carry *c);
/* The path at which a checkpoint, or a model's folder, has them; mem_free. */
char *carry_path(const char *dir);

#endif
