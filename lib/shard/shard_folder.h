/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_FOLDER_H
#define SHARD_SHARD_FOLDER_H

#include "ckpt/ckpt_hf.h"

/* Lists the files next to the weights of a Hugging Face folder, which are copied unread. */
struct folder {
    const char *dir;    /* borrowed */
    char *root, *blobs; /* files must be below these real paths; blobs NULL: only root */
    int others;         /* number of files without weights; set by folder_list */
    char **other;       /* [others] names within dir, sorted */
};

/*
 * Lists these files; a single weights file has none.  ERR_INPUT for a link to a folder, for a
 * link out of the folder (except to the blobs of a Hugging Face hub's snapshot), weights
 * included, and for more files than the limits allow (NULL: ckpt_limits_usual).
 */
int folder_list(struct folder *f, const struct hf *hf, const struct ckpt_limits *limits,
                struct err *err);
/* Checks for these errors only. */
int folder_check(const struct hf *hf, const struct ckpt_limits *limits, struct err *err);
/* Opens a file of f->dir; ERR_INPUT if it links to a place outside. */
int folder_open(struct folder *f, const char *name, int *fd, struct err *err);
void folder_release(struct folder *f);

#endif
