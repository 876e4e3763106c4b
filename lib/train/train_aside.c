/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows where a run is that was begun anew in the folder of another (--force) and has no
 * checkpoint yet: in a folder of its own, so that nothing of the old one is touched.  With its
 * first checkpoint it takes the old one's place, by `latest`, which at every moment (but see
 * move_step) leads to a whole checkpoint; a run that is killed on the way is finished by the
 * next one.  Rank 0's business, under the folder's lock.
 *
 *     latest -> step-00000009                    the old run; .new.paro-tmp/ fills
 *     latest -> .new.paro-tmp/step-00000002      the new one; what is the old one's is removed
 *     latest -> step-00000002 -> .new.paro-tmp/step-00000002
 *                                                all else of the new one moves up
 *     latest -> step-00000002                    folder and link have changed places
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "train/train_folder.h"

#define ASIDE ".new.paro-tmp"

/* 1: it is there, 0: it is not; -1: that cannot be told, and nothing may be done upon it. */
static int look(const char *dir, const char *name, mode_t *type, struct err *err)
{
    char *path = io_join(dir, name);
    struct stat st = {0};
    int there = lstat(path, &st) == 0 ? 1 : errno == ENOENT || errno == ENOTDIR ? 0 : -1;

    if (there < 0)
        err_sys(err, "cannot access '%s'", path);
    if (type)
        *type = st.st_mode & S_IFMT;
    mem_free(path);
    return there;
}

/* Of the old run; what the new one has under the same name has to come there. */
static int drop(struct train *t, const char *aside, const char *name, struct err *err)
{
    int needed = look(aside, name, NULL, err);

    return needed < 0 ? -1 : train_gone_take(t, t->run->out, name, needed, err);
}

/* Of the new one. */
static int move(struct train *t, const char *aside, const char *name, struct err *err)
{
    char *a = io_join(aside, name), *b = io_join(t->run->out, name);
    int rc = rename(a, b) ? err_sys(err, "cannot move '%s' to '%s'", a, t->run->out) : 0;

    mem_free(a);
    mem_free(b);
    return rc;
}

typedef int acts(struct train *t, const char *aside, const char *name, struct err *err);

/* With every name of a run in `from`, as it was at the beginning, but for `except`. */
static int for_names(struct train *t, const char *from, const char *except, acts *act,
                     struct err *err)
{
    char *aside = io_join(t->run->out, ASIDE);
    DIR *d = opendir(from);
    char **name = NULL;
    size_t room = 0, n = 0;

    int rc = d ? 0 : err_sys(err, "cannot read folder '%s'", from);
    for (struct dirent *e; d && (e = io_next(d));)
        if (train_folder_owns(e->d_name) && strcmp(e->d_name, except)) {
            name = mem_grow(name, &room, n + 1, sizeof *name);
            name[n++] = mem_dup(e->d_name);
        }
    if (d && errno)
        rc = err_sys(err, "cannot read folder '%s'", from);
    if (d)
        closedir(d);
    for (size_t i = 0; i < n; i++) {
        rc = rc ? rc : act(t, aside, name[i], err);
        mem_free(name[i]);
    }
    mem_free(name);
    mem_free(aside);
    return rc;
}

int train_aside_begin(struct train *t, struct err *err)
{
    int32_t there = 0;
    int rc = 0;

    if (t->world->rank == 0 && !t->run->resume)
        rc = there = look(t->run->out, "latest", NULL, err);
    if (rc == 1)
        rc = 0;
    char *aside = io_join(t->run->out, ASIDE);
    if (rc == 0 && there && mkdir(aside, 0777))
        rc = err_sys(err, "cannot make folder '%s'", aside);
    rc = world_agree(t->world, rc, err);
    if (rc == 0)
        rc = world_bcast(t->world, &there, sizeof there, 0, err);
    if (rc == 0 && there)
        t->home = t->aside = aside;
    else
        mem_free(aside);
    return rc;
}

int train_aside_is(const struct train *t, struct err *err)
{
    return look(t->run->out, ASIDE, NULL, err);
}

/* The text of `latest`, owned by the caller; NULL: it is absent, or no link. */
static int read_latest(const char *out, char **text, struct err *err)
{
    char *path = io_join(out, "latest"), to[PATH_MAX];
    ssize_t n = readlink(path, to, sizeof to - 1);
    int rc = n < 0 && errno != ENOENT && errno != EINVAL
                 ? err_sys(err, "cannot read '%s'", path)
                 : 0;

    mem_free(path);
    *text = NULL;
    if (n >= 0) {
        to[n] = 0;
        *text = mem_dup(to);
    }
    return rc;
}

/*
 * The folder in .new.paro-tmp under the name in DIR that is a link to it.  Where two names
 * cannot be exchanged the link is gone for a moment, or since a run was killed in it.
 */
static int move_step(const char *out, const char *aside, const char *step, struct err *err)
{
    char *link = io_join(out, step), *folder = io_join(aside, step);
    int there = look(out, step, NULL, err);
    int rc = there == 1 ? io_exchange(folder, link, err) : there;

    if (rc == 1 && unlink(link))
        rc = err_sys(err, "cannot remove link '%s'", link);
    if ((rc == 1 || there == 0) && rename(folder, link))
        rc = err_sys(err, "cannot move '%s' to '%s'", folder, out);
    else if (rc == 1)
        rc = 0;
    mem_free(link);
    mem_free(folder);
    return rc;
}

/* What is left of the way to the last line at the top of this file; `latest` has `text`. */
static int go_on(struct train *t, const char *aside, const char *text, struct err *err)
{
    const char *out = t->run->out, *step = text;
    mode_t type = 0;
    int rc = 0;

    if (strncmp(text, ASIDE "/", sizeof ASIDE) == 0) {
        step = text + sizeof ASIDE;
        char *link = io_join(out, step);
        rc = for_names(t, out, "latest", drop, err);
        if (rc == 0 && symlink(text, link))
            rc = err_sys(err, "cannot make link '%s'", link);
        mem_free(link);
        if (rc == 0)
            rc = train_folder_point(t, step, err);
    }
    /* A folder under that name: the old run's, or all is done. */
    if (rc || look(out, step, &type, err) < 0)
        return -1;
    int there = type == S_IFDIR ? 0 : look(aside, step, NULL, err);
    if (there < 1)
        return there;
    rc = for_names(t, aside, step, move, err);
    if (rc == 0)
        rc = move_step(out, aside, step, err);
    return rc ? rc : io_fsync_path(out, err);
}

/* What it said of its steps is all that stays of a run that came to no checkpoint. */
static int keep_log(struct train *t, const char *aside, struct err *err)
{
    char *from = io_join(aside, "log.jsonl"), *to = io_join(t->run->out, TRAIN_LOG_FAILED);
    struct stat st;
    int rc = 0;

    if (stat(from, &st) == 0 && st.st_size) {
        if (lstat(to, &st) == 0) {
            mem_free(to);
            to = train_gone_free(t->run->out, TRAIN_FAILED_BEFORE, TRAIN_FAILED_BEHIND, 2, err);
        }
        if (!to)
            rc = -1;
        else if (rename(from, to))
            rc = err_sys(err, "cannot move '%s' to '%s'", from, to);
        else {
            mem_free(t->kept);
            t->kept = mem_dup(to);
        }
    }
    mem_free(from);
    mem_free(to);
    return rc;
}

int train_aside_settle(struct train *t, int *gone, struct err *err)
{
    const char *out = t->run->out;
    char *aside = io_join(out, ASIDE), *text = NULL;
    int there = train_aside_is(t, err);
    int rc = there < 1 ? there : read_latest(out, &text, err);

    *gone = 0;
    if (rc == 0 && there && text)
        rc = go_on(t, aside, text, err);
    if (rc == 0 && there)
        rc = train_gone_take(t, out, ".latest.paro-tmp", 0, err);
    if (rc == 0 && there)
        *gone = rc = look(aside, "settings.yaml", NULL, err);
    if (rc == 1)
        rc = keep_log(t, aside, err);
    if (rc == 0 && there)
        rc = train_gone_take(t, out, ASIDE, 1, err);
    if (rc == 0)
        t->home = out;
    mem_free(aside);
    mem_free(text);
    return rc;
}

/* Whether `latest` leads to what is aside, in one step or two. */
static int is_taking(const struct train *t)
{
    char *above = io_join(t->run->out, "latest/..");
    struct stat a, b;
    int is = stat(above, &a) == 0 && stat(t->aside, &b) == 0 && a.st_ino == b.st_ino &&
             a.st_dev == b.st_dev;

    mem_free(above);
    return is;
}

void train_aside_tell(const struct train *t, struct err *why)
{
    char *log = t->kept ? mem_dup(t->kept) : NULL;
    struct stat st;

    /* It is where it was if that could not be settled. */
    if (!log && t->aside && t->home == t->aside && !is_taking(t))
        log = io_join(t->aside, "log.jsonl");
    if (log && stat(log, &st) == 0 && st.st_size)
        err_suffix(why, "; the log of this run is '%s', the one before it stands", log);
    mem_free(log);
}

int train_aside_end(struct train *t, const char *step, struct err *err)
{
    char *text = io_join(ASIDE, step);
    int gone, rc = train_folder_point(t, text, err);

    mem_free(text);
    return rc ? rc : train_aside_settle(t, &gone, err);
}
