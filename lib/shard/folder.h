/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_FOLDER_H
#define SHARD_FOLDER_H

#include "ckpt/hf.h"

/* What lies next to the weights of a Hugging Face folder, which is carried along unread. */
struct folder {
    const char *dir;    /* borrowed */
    char *root, *blobs; /* where its files may lie, without links; blobs NULL: nowhere else */
    int others;         /* from folder_list on: files that hold no weights, */
    char **other;       /* [others] names within dir, sorted */
};

/*
 * Lists them.  ERR_INPUT where something in the folder, weights too, is a link that leads out
 * of it (but to the blobs of a Hugging Face hub's snapshot), or to a folder, and where there
 * is more of it than the limits allow (NULL: the usual ones).  A single file has nothing next
 * to it.
 */
int folder_list(struct folder *f, const struct hf *hf, const struct ckpt_limits *limits,
                struct err *err);
/* Opens a file of f->dir; ERR_INPUT for a link out of it. */
int folder_open(struct folder *f, const char *name, int *fd, struct err *err);
void folder_release(struct folder *f);

#endif
