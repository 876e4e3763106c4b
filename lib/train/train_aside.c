/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows where the old run is while a new one that was begun in its folder (--force) has no
 * checkpoint of its own: in folders beside it, by renames alone, so that a kill at any place
 * loses neither.  Rank 0's business alone, under the folder's lock.
 *
 *     DIR/.moving.paro-tmp   the old run is partly there, partly in DIR; the new has nothing
 *
 *     DIR/.old.paro-tmp      all of the old run is there; what DIR has is the new one's
 *
 *     old in DIR --(each name)--> .moving --(one rename)--> .old --(new `latest`)--> removed
 *         ^-------(each name)-------'  ^----(one rename)----'   (none: the new one's goes)
 *
 * The rename of the one folder to the other is what says whose the names in DIR are.  `latest`
 * leaves first and comes back last: it always leads to a whole checkpoint, or is absent.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "train/train_inside.h"

struct places { /* owned */
    char *latest, *moving, *old;
};

static struct places places_of(const char *out)
{
    return (struct places){.latest = io_join(out, "latest"),
                           .moving = io_join(out, ".moving.paro-tmp"),
                           .old = io_join(out, ".old.paro-tmp")};
}

static void free_places(struct places *p)
{
    mem_free(p->latest);
    mem_free(p->moving);
    mem_free(p->old);
}

/* 1: it is there, 0: it is not; -1: that cannot be told, and nothing may be done upon it. */
static int look(const char *path, struct err *err)
{
    struct stat st;

    if (lstat(path, &st) == 0)
        return 1;
    return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(err, "cannot look for '%s'", path);
}

static int move(const char *from, const char *to, const char *name, struct err *err)
{
    char *a = io_join(from, name), *b = io_join(to, name);
    int rc = rename(a, b) ? err_sys(err, "cannot move '%s' to '%s'", a, to) : 0;

    mem_free(a);
    mem_free(b);
    return rc;
}

static int remove_it(const char *dir, const char *unused, const char *name, struct err *err)
{
    char *path = io_join(dir, name);
    int rc = io_remove_tree(path, err);

    (void)unused;
    mem_free(path);
    return rc;
}

/* With every name of a run in `from`, as it was at the beginning, but for `latest`. */
static int for_names(const char *from, const char *to,
                     int (*act)(const char *from, const char *to, const char *name,
                                struct err *err),
                     struct err *err)
{
    DIR *d = opendir(from);
    char **name = NULL;
    size_t room = 0, n = 0;

    if (!d)
        return err_sys(err, "cannot read folder '%s'", from);
    for (struct dirent *e; (e = io_next(d));)
        if (train_folder_owns(e->d_name) && strcmp(e->d_name, "latest")) {
            name = mem_grow(name, &room, n + 1, sizeof *name);
            name[n++] = mem_dup(e->d_name);
        }
    int rc = errno ? err_sys(err, "cannot read folder '%s'", from) : 0;
    closedir(d);
    for (size_t i = 0; i < n; i++) {
        rc = rc ? rc : act(from, to, name[i], err);
        mem_free(name[i]);
    }
    mem_free(name);
    return rc;
}

/* From one name to the other, and so on the disk. */
static int rename_folder(const char *out, const char *from, const char *to, struct err *err)
{
    if (rename(from, to))
        return err_sys(err, "cannot rename '%s' to '%s'", from, to);
    return io_fsync_path(out, err);
}

int train_aside_begin(struct train *t, struct err *err)
{
    const char *out = t->run->out;
    struct places p = places_of(out);
    int rc = t->run->resume ? 0 : look(p.latest, err);

    if (rc == 1) {
        rc = mkdir(p.moving, 0777) ? err_sys(err, "cannot make folder '%s'", p.moving) : 0;
        if (rc == 0)
            rc = move(out, p.moving, "latest", err);
        if (rc == 0)
            rc = for_names(out, p.moving, move, err);
        if (rc == 0)
            rc = io_fsync_path(p.moving, err);
        if (rc == 0)
            rc = rename_folder(out, p.moving, p.old, err);
    }
    free_places(&p);
    return rc;
}

/* All of it, `latest` last. */
static int move_back(const char *out, const struct places *p, struct err *err)
{
    char *latest = io_join(p->moving, "latest");
    int there = for_names(p->moving, out, move, err) ? -1 : look(latest, err), rc = there;

    mem_free(latest);
    if (there == 1)
        rc = move(p->moving, out, "latest", err);
    if (rc == 0)
        rc = io_fsync_path(out, err);
    if (rc == 0 && rmdir(p->moving))
        rc = err_sys(err, "cannot remove folder '%s'", p->moving);
    return rc;
}

int train_aside_is(const struct train *t, struct err *err)
{
    struct places p = places_of(t->run->out);
    int moving = look(p.moving, err), old = moving < 0 ? -1 : look(p.old, err);

    free_places(&p);
    return old < 0 ? -1 : moving || old;
}

int train_aside_settle(struct train *t, int *back, struct err *err)
{
    const char *out = t->run->out;
    struct places p = places_of(out);
    int old = look(p.old, err), latest = old == 1 ? look(p.latest, err) : 0, rc = 0;

    *back = 0;
    if (old < 0 || latest < 0)
        rc = -1;
    else if (old && latest) /* the new run has a checkpoint */
        rc = io_remove_tree(p.old, err);
    else if (old) {
        *back = 1;
        rc = for_names(out, NULL, remove_it, err);
        if (rc == 0)
            rc = rename_folder(out, p.old, p.moving, err);
    }
    int moving = rc ? 0 : look(p.moving, err);
    if (moving < 0 || (moving && move_back(out, &p, err)))
        rc = -1;
    free_places(&p);
    return rc;
}
