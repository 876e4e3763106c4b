/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a run is begun anew in the folder of another (--force): in a new folder beside it,
 * which takes the old one's name with its first checkpoint, so that nothing of the old run is
 * touched before.  Rank 0's business, under the folder's lock.
 *
 *     DIR            .DIR.paro-tmp     .DIR.old.paro-tmp
 *     the old run    the new one fills
 *     the old run    with `latest`                          its checkpoint is there
 *     the new one    the old one                            exchanged, or, where two names
 *                    with `latest`     the old one          cannot be: moved
 *     the new one
 *
 * In whichever line a run is killed, what is beside DIR says what the next one has to do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "train/train_inside.h"

/* The folder by a name that it can be exchanged by: no link, no "."; mem_free. */
static char *find_name(const char *out)
{
    char *name = mem_dup(out);
    size_t n = strlen(name);
    struct stat st;

    while (n > 1 && name[n - 1] == '/')
        name[--n] = 0;
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    if (strcmp(last, ".") && strcmp(last, "..") && (lstat(name, &st) || !S_ISLNK(st.st_mode)))
        return name;
    char *real = realpath(out, NULL), *copy = mem_dup(real ? real : name);
    free(real);
    mem_free(name);
    return copy;
}

enum { LOGS_MAX = 1000000 };

/* The first log.failed... that is free, mem_free; what is wrong is met when it is written. */
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

/* What it said of its steps is all that stays of a run that came to no checkpoint. */
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

/* Whose it is, and that nobody writes there; *fd -1: it is absent. */
static int take_temp(const char *out, const char *temp, int *fd, struct err *err)
{
    struct stat st;

    *fd = open(temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, "cannot open folder '%s'", temp);
    if (fstat(*fd, &st))
        return err_sys(err, "cannot access '%s'", temp);
    if (st.st_uid != geteuid() && !io_is_ours(out, st.st_uid))
        return err_set(err, ERR_MISMATCH,
                       "'%s' belongs to user %u, expected user %u: remove it", temp,
                       (unsigned)st.st_uid, (unsigned)geteuid());
    if (flock(*fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return err_set(err, ERR_MISMATCH, "'%s' is being written by another run", out);
    return 0;
}

/*
 * What cannot be removed is reported when the run ends, and the next one tries again.  Its
 * settings go first: without them it is no run that came to nothing, whatever else is still
 * there.
 */
static void discard_folder(struct train *t, const char *dir)
{
    char *settings = io_join(dir, "settings.yaml");

    unlink(settings);
    io_remove_tree(dir, &t->stuck);
    mem_free(settings);
}

/*
 * What others put into the old run's folder, and what the user asked of the run there, moves to
 * the new run's.  -1: something did not, and the folder has to stay.
 */
static int move_others(const char *from, const char *to)
{
    DIR *d = opendir(from);
    int rc = d || errno == ENOENT ? 0 : -1;

    for (struct dirent *e; d && (e = io_next(d));) {
        int asks = strcmp(e->d_name, "STOP") == 0 || strcmp(e->d_name, "SAVE") == 0;
        char *at = io_join(from, e->d_name), *there = io_join(to, e->d_name);
        if (!asks && train_folder_owns(e->d_name))
            ;
        else if (train_folder_has(to, e->d_name) || rename(at, there))
            rc = asks ? rc : -1;
        mem_free(at);
        mem_free(there);
    }
    if (d)
        closedir(d);
    return rc;
}

/* The same name is the temporary of "NAME.old": what somebody writes there is none of ours. */
static void discard_old(struct train *t, const char *old, const char *name)
{
    int fd = open(old, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
        move_others(old, name) == 0)
        discard_folder(t, old);
    if (fd >= 0)
        close(fd);
}

/*
 * The new run is whole and the old one has moved away.  A job script may have
 * made the folder again: an empty one gives way.
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

static int settle_folders(struct train *t, const char *name, const char *temp, const char *old,
                          struct err *err)
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
    discard_old(t, old, name);
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

int train_anew_settle(struct train *t, struct err *err)
{
    char *name = find_name(t->run->out), *temp = io_temp_name(name),
         *old = train_folder_old(name);
    int fd = -1, rc = take_temp(t->run->out, temp, &fd, err);

    if (rc == 0 && (fd >= 0 || !io_absent(old)))
        rc = settle_folders(t, name, temp, old, err);
    if (fd >= 0)
        close(fd);
    mem_free(name);
    mem_free(temp);
    mem_free(old);
    return rc;
}

/* What lies in the folder is removed with it, a log with all its lines. */
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

/* A mount has no other name, which is better known before the first checkpoint. */
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

static int begin_folder(struct train *t, const char *name, struct err *err)
{
    if (check_outputs(t, err) || check_mount(name, err) ||
        io_dir_create(&t->anew, name, IO_MAKE_WAY, err))
        return -1;
    char *lock = io_join(t->anew.temp, ".lock"), *old = train_folder_old(name);
    int rc = io_lock(lock, &t->anew_lock, err);
    /* What could not be removed, or is another's. */
    if (rc == 0 && t->anew.in_the_way && !io_absent(old))
        rc = err_set(err, ERR_MISMATCH,
                     "'%s' is in the way of the old run, which has to move there on this file "
                     "system: expected it absent",
                     old);
    mem_free(lock);
    mem_free(old);
    mem_free(t->stop);
    mem_free(t->save);
    t->stop = io_join(name, "STOP");
    t->save = io_join(name, "SAVE");
    return rc;
}

int train_anew_begin(struct train *t, struct err *err)
{
    int32_t there =
        t->world->rank == 0 && !t->run->resume && train_folder_has(t->run->out, "latest");
    char *name = find_name(t->run->out);
    int rc = world_agree(t->world, there ? begin_folder(t, name, err) : 0, err);

    if (rc == 0)
        rc = world_bcast(t->world, &there, sizeof there, 0, err);
    if (rc || !there) {
        mem_free(name);
        return rc;
    }
    t->home = t->temp = io_temp_name(name);
    t->place = name;
    return 0;
}

/* Two names change places, or, where they cannot, the old run's moves away first. */
static int exchange_folders(struct io_dir *dir, const char *old, struct err *err)
{
    int rc = io_exchange(dir->temp, dir->path, err);

    if (rc == 1 && rename(dir->path, old))
        return err_sys(err, "cannot move '%s' to '%s'", dir->path, old);
    if (rc == 1 && rename(dir->temp, dir->path)) {
        err_sys(err, "cannot move '%s' to '%s'", dir->temp, dir->path);
        rename(old, dir->path);
        return -1;
    }
    return rc < 0 ? -1 : 0;
}

int train_anew_end(struct train *t, const char *step, struct err *err)
{
    struct io_dir *dir = &t->anew;
    char *old = train_folder_old(dir->path), *parent = io_parent(dir->path);
    int rc = train_folder_point(t, step, err);
    /* What gets the temporary's name is locked, so that no other run settles it. */
    int was = open(dir->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (was >= 0)
        flock(was, LOCK_EX | LOCK_NB);
    if (rc == 0 && fchmod(dir->fd, dir->mode))
        rc = err_sys(err, "cannot set the mode of '%s'", dir->temp);
    if (rc == 0)
        rc = io_fsync_fd(dir->fd, dir->temp, err) || exchange_folders(dir, old, err) ? -1 : 0;
    if (rc == 0) {
        rc = io_fsync_path(parent, err); /* whatever it says, the temporary is the old run */
        const char *before = io_absent(dir->temp) ? old : dir->temp;
        if (move_others(before, dir->path) == 0)
            discard_folder(t, before);
        close(t->lock);
        t->lock = t->anew_lock;
        t->anew_lock = -1;
        t->home = t->place;
        io_dir_leave(dir);
    }
    if (was >= 0)
        close(was);
    mem_free(old);
    mem_free(parent);
    return rc;
}

void train_anew_close(struct train *t, struct err *why)
{
    struct err ignored;

    if (t->anew.path) {
        int kept = keep_log(t, t->anew.temp, &ignored) == 0;
        if (why && t->kept)
            err_suffix(why, "; the log of this run is '%s', the one before it stands", t->kept);
        if (kept)
            io_dir_abandon(&t->anew);
        else
            io_dir_leave(&t->anew);
    }
    if (t->anew_lock >= 0)
        close(t->anew_lock);
    mem_free(t->temp);
    mem_free(t->place);
    mem_free(t->kept);
}
