/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_RUN_FOLDER_H
#define BASE_RUN_FOLDER_H

#include "base/err.h"

/*
 * The folder of a run (paro-train(1), FILES) stands for its log where a log is expected, and
 * for its newest checkpoint where a checkpoint is expected.
 *
 *   RUN/log.jsonl    the log
 *   RUN/latest       a link to the newest checkpoint
 */

/* RUN/latest where `path` is a run's folder, else `path`; owned by the caller. */
char *run_folder_checkpoint(const char *path);
/*
 * RUN/log.jsonl where `path` is a folder, else `path`; *log is owned by the caller.  ERR_ABSENT
 * where a folder has none.
 */
int run_folder_log(const char *path, char **log, struct err *err);

#endif
