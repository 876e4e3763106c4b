/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how what is no run's any more leaves its folder: by one rename out of sight, then from
 * the disk.  What cannot be removed, as a file that somebody has open on NFS, or something that
 * is mounted there, lies under a name that nobody needs: this run's end and the next one's
 * beginning try again, and nothing waits for it.
 *
 *     step-00000002/   ->   .gone-00000001.paro-tmp/   ->   nothing
 *
 * Where a folder cannot be renamed at all (overlayfs, of what an image brought), it goes from
 * where it is.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "train/train_folder.h"

#define BEFORE ".gone-"
#define BEHIND ".paro-tmp"

char *train_gone_free(const char *dir, const char *before, const char *behind, int n,
                      struct err *err)
{
    for (;; n++) {
        char name[40];
        struct stat st;
        snprintf(name, sizeof name, "%s%08d%s", before, n, behind);
        char *path = io_join(dir, name);
        if (lstat(path, &st) == 0) {
            mem_free(path);
            continue;
        }
        if (errno == ENOENT)
            return path;
        err_sys(err, "cannot access '%s'", path);
        mem_free(path);
        return NULL;
    }
}

/* An error now, or told when the run ends. */
static int keep_stuck(struct train *t, int now, const struct err *why, struct err *err)
{
    *(now ? err : &t->stuck) = *why;
    return now ? -1 : 0;
}

int train_gone_take(struct train *t, const char *dir, const char *name, int needed,
                    struct err *err)
{
    char *path = io_join(dir, name), *to = train_gone_free(t->run->out, BEFORE, BEHIND, 1, err);
    struct err why = {0};
    int rc = to ? 0 : -1;

    if (to && rename(path, to) == 0) {
        io_remove_tree(to, &why);      /* what stays is told by the last sweep */
    } else if (to && errno == EXDEV) { /* a folder of a lower layer of overlayfs */
        if (io_remove_tree(path, &why))
            rc = keep_stuck(t, needed, &why, err);
    } else if (to && errno != ENOENT) {
        /* EPERM: it may not be changed, or is another user's; EBUSY: it is a mount. */
        int stays = errno == EPERM || errno == EBUSY;
        err_sys(&why, "cannot remove '%s'", path);
        rc = keep_stuck(t, needed || !stays, &why, err);
    }
    mem_free(path);
    mem_free(to);
    return rc;
}

static int is_gone(const char *name)
{
    const char *digits = name + sizeof BEFORE - 1;

    return strncmp(name, BEFORE, sizeof BEFORE - 1) == 0 &&
           strcmp(digits + strspn(digits, "0123456789"), BEHIND) == 0;
}

void train_gone_sweep(struct train *t, struct err *stays)
{
    const char *out = t->run->out;
    DIR *d = opendir(out);

    for (struct dirent *e; d && (e = io_next(d));) {
        struct err why = {0};
        if (!is_gone(e->d_name))
            continue;
        char *path = io_join(out, e->d_name);
        if (io_remove_tree(path, &why) && stays->code == ERR_NONE)
            *stays = why;
        mem_free(path);
    }
    if (d)
        closedir(d);
}

void train_gone_end(struct train *t, int well)
{
    train_gone_sweep(t, &t->stuck);
    if (well && t->stuck.code != ERR_NONE && t->run->talk)
        fprintf(t->run->talk, "paro-train: %s: the next run tries again\n", t->stuck.text);
}
