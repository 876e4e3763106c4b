/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_COPY_H
#define CKPT_CKPT_COPY_H

#include "base/io.h"
#include "ckpt/ckpt.h"

/* The copies of a checkpoint's files, between the files of this folder. */

/*
 * Where copies lie.  ERR_INPUT where there are more of them than other ranks, or than
 * CKPT_COPIES_MAX.
 */
int ckpt_check_copies(const struct groups *g, int copies, struct err *err);
/*
 * The rank that holds copy k of rank's shard; k = 0: rank.  Those of 0 ... K are all different,
 * and of different groups while K < groups: losing any K of them loses nothing.
 */
int ckpt_copy_holder(const struct groups *g, int rank, int k);
/* "copy-1" */
void ckpt_copy_folder(int k, char name[CKPT_FILE_NAME]);
/* The 1 + copies files of dir that are rank's shard, its own first; mem_free each. */
void ckpt_shard_paths(const char *dir, const struct groups *g, int copies, int rank,
                      char **path);

/* The file that is copy k of an open checkpoint's shard; mem_free. */
char *ckpt_shard_path(const struct ckpt *c, int file, int k);
/* dir/name, or (k) dir/copy-k/name; mem_free. */
char *ckpt_small_path(const char *dir, int k, const char *name);

/* What is small, borrowed; source (NULL: there is none) lies in dir->temp already. */
struct ckpt_small {
    const char *config;
    const char *manifest;
    int64_t manifest_bytes;
    const struct ckpt_sources *source;
};
/* Writes config.json and manifest.json into it, and the three into its copy-1 ... */
int ckpt_put_small(const struct io_dir *dir, int copies, const struct ckpt_small *what,
                   struct err *err);

/* Reads copy k of block b into c->buffer and checks it. */
int ckpt_load_copy(struct ckpt *c, int64_t b, int k, struct err *err);
/*
 * The path (mem_free) of a copy of what is kept that is good, or the error of the first of
 * them; counted where it is not that one.
 */
int ckpt_find_source(struct ckpt *c, const struct ckpt_source *s, char **path, struct err *err);
/*
 * Writes it from there to to/NAME, `to` in dir->temp; all of them, into the source/ of the
 * checkpoint to come.
 */
int ckpt_take_source(struct ckpt *c, const struct ckpt_source *s, const struct io_dir *dir,
                     const char *to, struct err *err);
int ckpt_take_sources(struct ckpt *c, const struct io_dir *dir, struct err *err);
/* One file, or blocks, that another copy gave, and what was wrong with the first. */
void ckpt_healed_file(struct ckpt_healed *h, const struct err *wound);
void ckpt_healed_add(struct ckpt_healed *h, int64_t blocks, const struct err *wound);

#endif
