/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the log and the newest checkpoint in a run's folder. */
#include "base/run_folder.h"

#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"

char *run_folder_checkpoint(const char *path)
{
    struct stat st;

    if (!*path) /* the empty value of a shell variable does not mean the current folder */
        return mem_dup(path);
    char *latest = io_join(path, "latest");

    /* Accepts a link even if it is broken, so that the reader reports the missing checkpoint.
       Other programs' checkpoints have a regular file of this name. */
    if (lstat(latest, &st) == 0 && (S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode)))
        return latest;
    mem_free(latest);
    return mem_dup(path);
}

int run_folder_log(const char *path, char **log, struct err *err)
{
    struct stat st;

    if (stat(path, &st) || !S_ISDIR(st.st_mode)) {
        *log = mem_dup(path);
        return 0;
    }
    char *inside = io_join(path, "log.jsonl");
    if (io_absent(inside)) {
        mem_free(inside);
        return err_set(err, ERR_ABSENT,
                       "folder '%s' has no log.jsonl, expected a log or a run's folder", path);
    }
    *log = inside;
    return 0;
}
