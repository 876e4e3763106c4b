/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_FOLDER_H
#define HEALTH_HEALTH_FOLDER_H

#include "base/io.h"

/*
 * The state's folder, made (0700) if it is not there.  ERR_INPUT: it is a link or no folder,
 * another's, or others may write to it or put another in its place: then nothing is made.
 */
int health_folder_check(const char *dir, struct err *err);

/*
 * io_create with force, io_commit and io_lock, where others may read the folder: whoever can
 * open a temporary or a lock could lock it, and would be taken for another writer.  So nobody
 * can: a file has its mode from the commit on.
 */
int health_file_create(struct io_out *out, const char *path, int force, struct err *err);
int health_file_commit(struct io_out *out, struct err *err);
int health_file_lock(const char *path, int *fd, struct err *err);

#endif
