/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_CARRY_H
#define SHARD_SHARD_CARRY_H

#include "base/io.h"
#include "ckpt/ckpt_weights.h"

/*
 * Keeps the tokenizer and generation files of a model's folder in memory, so that each
 * checkpoint of a run gets a copy even if the folder has been deleted.
 */
struct carry {
    struct ckpt_sources list; /* text[i] are the bytes of list.item[i] */
    char **text;
};

/*
 * For a run with --drop-easy: the loss of each sequence of each step so far, as f32,
 * little-endian.  Checkpoints contain it, merged folders do not.
 */
#define CARRY_LOSSES "sequence-losses.f32"
/* If adapters train: the folder that they adapt, or its name on the hub, for PEFT. */
#define CARRY_BASE "base-model.txt"
enum { CARRY_FILE_MAX = 256 << 20 }; /* the largest tokenizers, of 256,000 tokens, have 35 MB */

/* Whether a file of this name is kept. */
int carry_has(const char *name);
/* Whether only checkpoints contain it, and merged folders do not. */
int carry_is_inner(const char *name);
/* Sets CARRY_BASE to this folder: ORG/NAME for models--ORG--NAME, else its absolute path. */
void carry_base(struct carry *c, const struct hf *hf);
/* Reads the files from the folder of the weights; without `tokenizer`, only
   generation_config.json. */
int carry_weights(struct carry *c, struct weights *w, int tokenizer, struct err *err);
/* Reads them including the tokenizer, also from the folder of a single file. */
int carry_beside(struct carry *c, struct weights *w, struct err *err);
/* Reads the tokenizer's files of a folder. */
int carry_folder(struct carry *c, const char *dir, struct err *err);
/*
 * Compares the files of a checkpoint with their checksums, and rejects additional ones.
 * Returns 0 for a folder that is not a checkpoint.
 */
int carry_check(const char *dir, struct err *err);
/* Writes the files into source/ of a new checkpoint. */
int carry_put(const struct carry *c, const struct io_out *dir, struct err *err);
/* Sets the contents of a file to a copy of these bytes; NULL removes the file. */
void carry_set(struct carry *c, const char *name, const void *bytes, int64_t count);
/* The bytes of a file, borrowed; NULL: absent. */
const char *carry_find(const struct carry *c, const char *name, int64_t *count);
void carry_release(struct carry *c);
/* The folder in which a checkpoint, or a model's folder, has these files; mem_free. */
char *carry_path(const char *dir);

#endif
