/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_RUN_FOLDER_H
#define BASE_RUN_FOLDER_H

#include "base/err.h"

/*
 * The folder of a run (paro-train(1), FILES) may be given instead of its log, and instead of
 * its newest checkpoint.
 *
 *   RUN/log.jsonl    the log
 *   RUN/latest       a link to the newest checkpoint
 */

/* RUN/latest if `path` is a run's folder, else `path`; owned by the caller. */
char *run_folder_checkpoint(const char *path);
/*
 * RUN/log.jsonl if `path` is a folder, else `path`; *log is owned by the caller.  ERR_ABSENT if
 * the folder has no log.
 */
int run_folder_log(const char *path, char **log, struct err *err);

#endif
