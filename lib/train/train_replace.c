/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces a run in its folder (--force): the new run has a new folder next to the old one, and
 * takes the old one's name with its first checkpoint.  Until then nothing of the old run is
 * touched.  Rank 0 only, under the folder's lock.
 *
 *     DIR            .DIR.paro-tmp     .DIR.old.paro-tmp
 *     the old run    the new one fills
 *     the old run    with `latest`                          its checkpoint is complete
 *     the new one    the old one                            exchanged, or, where two names
 *                    with `latest`     the old one          cannot be: moved
 *     the new one
 *
 * Whichever line a run is killed in, the folders next to DIR show what the next run has to do.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "train/train_inside.h"

enum { LOGS_MAX = 1000000 };

/* The first log.failed... name that is free, mem_free; other errors are reported when it is
   written. */
static char *free_log(const char *out)
{
    char name[40] = TRAIN_LOG_FAILED;
    char *path = io_join(out, name);

    for (int n = 2; n < LOGS_MAX && train_folder_has(out, name); n++) {
        snprintf(name, sizeof name, "%s%08d%s", TRAIN_FAILED_BEFORE, n, TRAIN_FAILED_BEHIND);
        mem_free(path);
        path = io_join(out, name);
    }
    return path;
}

/* Keeps the log of a run without a checkpoint; nothing else of it remains. */
static int keep_log(struct train *t, const char *temp, struct err *err)
{
    char *from = io_join(temp, "log.jsonl"), *to = free_log(t->run->out);
    struct stat st;
    int rc = 0;

    if (stat(from, &st) == 0 && st.st_size) {
        rc = rename(from, to) ? err_sys(err, "cannot move '%s' to '%s'", from, to) : 0;
        mem_free(t->kept);
        t->kept = mem_dup(rc ? from : to);
    }
    mem_free(from);
    mem_free(to);
    return rc;
}

/*
 * Removes a folder; a rest that cannot be removed is reported when the run ends, and the next
 * one tries again.  Removes its settings first: without them it no longer counts as a failed
 * run, whatever else remains.
 */
static void discard_folder(struct train *t, const char *dir)
{
    char *settings = io_join(dir, "settings.yaml");

    unlink(settings);
    io_remove_tree(dir, &t->stuck);
    mem_free(settings);
}

/*
 * Moves to the new run's folder other files from the old one, and the user's requests to the
 * run.  -1: something did not move, so the folder must stay.
 */
static int move_others(const char *from, const char *to)
{
    struct io_names all;
    struct err none;
    int rc = io_names_read(&all, -1, from, &none);

    for (int i = 0; i < all.count; i++) {
        const char *name = all.entry[i]->d_name;
        int requests = strcmp(name, "STOP") == 0 || strcmp(name, "SAVE") == 0;
        char *at = io_join(from, name), *there = io_join(to, name);
        if (!requests && train_folder_owns(name))
            ;
        else if (train_folder_has(to, name) || rename(at, there))
            rc = requests ? rc : -1;
        mem_free(at);
        mem_free(there);
    }
    io_names_free(&all);
    return rc;
}

/* Removes the remains of the old run, unless a run in "NAME.old", which has the same temporary
   name, is writing there. */
static void discard_old(struct train *t, const char *name)
{
    char *path = io_old_path(name);
    struct io_out old;
    struct err none;

    if (io_dir_enter(&old, path, 1, &none) == 0 && move_others(old.temp, name) == 0)
        discard_folder(t, old.temp);
    io_dir_leave(&old);
    mem_free(path);
}

/*
 * The new run is complete and the old one has moved away.  A job script may have made the
 * folder again: an empty one is replaced.
 */
static int finish_exchange(const char *name, const char *temp, struct err *err)
{
    if (rename(temp, name) == 0)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return err_set(
            err, ERR_MISMATCH,
            "'%s' has a run with a checkpoint, which was to become '%s', and that has "
            "other files: expected '%s' absent or empty, or '%s' removed",
            temp, name, name, temp);
    return err_sys(err, "cannot move '%s' to '%s'", temp, name);
}

static int finish_folder(struct train *t, const char *name, const char *temp, struct err *err)
{
    int settings = train_folder_has(temp, "settings.yaml"),
        latest = train_folder_has(temp, "latest");
    int begun = settings && !latest, stands = train_folder_has(name, "latest");

    if (settings && latest && !stands && finish_exchange(name, temp, err))
        return -1;
    if (begun && stands && keep_log(t, temp, err))
        return -1;
    if (begun || move_others(temp, name) == 0)
        discard_folder(t, temp);
    if (begun)
        train_print(t,
                    "'%s': the run begun anew there ended before its first checkpoint, and is "
                    "removed%s%s%s%s",
                    t->run->out, t->kept ? " but for its log, '" : "", t->kept ? t->kept : "",
                    t->kept ? "'" : "", stands ? ": the old run stands" : "");
    mem_free(t->kept);
    t->kept = NULL;
    return 0;
}

int train_replace_finish(struct train *t, struct err *err)
{
    char *name = train_folder_real(t->run->out);
    struct io_out left;
    int rc = io_dir_enter(&left, name, 1, err);

    if (rc == 0)
        rc = finish_folder(t, name, left.temp, err);
    else if (err->code == ERR_MISMATCH)
        err_set(err, ERR_MISMATCH, "'%s' is being written by another run", t->run->out);
    else if (err->code == ERR_ABSENT)
        rc = 0;
    if (rc == 0)
        discard_old(t, name);
    io_dir_leave(&left);
    mem_free(name);
    return rc;
}

/* Rejects an output inside the folder: it would be removed with it, such as a log with all its
   lines. */
static int check_beside(const struct train *t, const char *what, const char *path,
                        const char *option, struct err *err)
{
    char *parent = path ? io_parent(path) : NULL;
    struct stat a, b;
    int rc = 0;

    if (path && strcmp(path, "-") && stat(parent, &a) == 0 && stat(t->run->out, &b) == 0 &&
        a.st_ino == b.st_ino && a.st_dev == b.st_dev)
        rc = err_set(err, ERR_INPUT,
                     "%s '%s' is in '%s', which --force replaces: expected it elsewhere, or no "
                     "--%s",
                     what, path, t->run->out, option);
    mem_free(parent);
    return rc;
}

static int check_outputs(const struct train *t, struct err *err)
{
    const struct train_run *r = t->run;

    return check_beside(t, "log", r->log, "log", err) ||
                   check_beside(t, "metrics file", r->prom, "prom", err) ||
                   check_beside(t, "folder of events", r->tensorboard, "tensorboard", err)
               ? -1
               : 0;
}

/* A mount cannot be renamed, which is better reported before the first checkpoint. */
static int check_mount(const char *name, struct err *err)
{
    struct statx st;

    if (statx(AT_FDCWD, name, 0, 0, &st))
        return err_sys(err, "cannot access '%s'", name);
    return st.stx_attributes & STATX_ATTR_MOUNT_ROOT
               ? err_set(err, ERR_INPUT,
                         "'%s' is a mount point, which --force cannot replace: expected a "
                         "folder, or to have it emptied first",
                         name)
               : 0;
}

static int begin_folder(struct train *t, struct err *err)
{
    char *name = train_folder_real(t->run->out), *lock = NULL, *old = io_old_name(name);
    int new = -1, rc = -1;

    if (check_outputs(t, err) || check_mount(name, err) ||
        io_dir_create(&t->replacement, name, IO_MAKE_WAY, err))
        goto done;
    lock = io_join(t->replacement.temp, ".lock");
    rc = io_lock(lock, &new, err);
    if (rc == 0) {
        t->old_lock = t->lock;
        t->lock = new;
    }
    /* In the way: an old folder that could not be removed, or another program's. */
    if (rc == 0 && t->replacement.in_the_way && !io_absent(old))
        rc = err_set(err, ERR_MISMATCH,
                     "'%s' is in the way of the old run, which has to move there on this file "
                     "system: expected it absent",
                     old);
done:
    MEM_FREE(name, lock, old);
    return rc;
}

int train_replace_begin(struct train *t, struct err *err)
{
    int32_t there =
        t->world->rank == 0 && !t->run->resume && train_folder_has(t->run->out, "latest");
    int rc = world_agree(t->world, there ? begin_folder(t, err) : 0, err);

    if (rc == 0)
        rc = world_bcast(t->world, &there, sizeof there, 0, err);
    if (rc || !there)
        return rc;
    if (t->world->rank) {
        t->replacement.path = train_folder_real(t->run->out);
        t->replacement.temp = io_temp_name(t->replacement.path);
    }
    t->home = t->replacement.temp;
    return 0;
}

int train_replace_end(struct train *t, const char *step, struct err *err)
{
    struct io_out *dir = &t->replacement;

    if (train_folder_point(t, step, err) || io_publish(dir, err))
        return -1;
    t->home = dir->path;
    char *parent = io_parent(dir->path);
    int rc = io_fsync_path(parent, err); /* even if this fails, the new run is in place */
    mem_free(parent);
    if (dir->temp && move_others(dir->temp, dir->path) == 0)
        discard_folder(t, dir->temp);
    close(t->old_lock);
    t->old_lock = -1;
    return rc;
}

void train_replace_close(struct train *t, struct err *why)
{
    struct io_out *dir = &t->replacement;
    struct err ignored;

    /* The new run has no checkpoint. */
    if (t->world->rank == 0 && dir->path && t->home != dir->path && dir->temp) {
        int kept = keep_log(t, dir->temp, &ignored) == 0;
        if (why && t->kept)
            err_suffix(why, "; the log of this run is '%s', the one before it stands", t->kept);
        if (kept)
            io_abandon(dir);
    }
    io_dir_leave(dir);
    if (t->old_lock >= 0)
        close(t->old_lock);
    mem_free(t->kept);
}
