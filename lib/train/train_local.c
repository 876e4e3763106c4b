/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes and prunes the folders in which hosts keep checkpoints of a run, and checks who may
 * write there.  A folder has the host's name, so that hosts that see the same DIR do not
 * collide, and the run's id, so that another run's remains are not used.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "train/train_inside.h"

enum { ID = 16 }; /* hexadecimal digits */

static int local_is_id(const char *text)
{
    return strlen(text) == ID && strspn(text, "0123456789abcdef") == ID;
}

/* Finds the folder of this host, if the run is known. */
static int share_id(struct train *t, struct err *err)
{
    const struct world *w = t->world;
    struct train_local *l = t->local;
    char name[400];

    if (world_bcast(t->world, l->id, sizeof l->id, 0, err))
        return -1;
    snprintf(name, sizeof name, "%.300s.%s", w->host[w->groups.group_of[w->rank]], l->id);
    mem_free(l->base);
    l->base = l->id[0] ? io_join(t->run->local_save, name) : NULL;
    return 0;
}

static int local_check_options(const struct train *t, struct err *err)
{
    if (!t->run->local_save[0])
        return err_set(err, ERR_INPUT, "--local-save is '', expected a folder");
    if (t->settings.drop_easy > 0)
        return err_set(err, ERR_INPUT,
                       "--local-save with --drop-easy, whose losses local checkpoints do not "
                       "have: expected one of them");
    return 0;
}

/* Rejects a folder of another owner: it is neither read nor cleared. */
static int local_check_owner(const struct train *t, struct err *err)
{
    const char *base = t->local->base;
    struct stat st;

    if (!base)
        return 0;
    if (lstat(base, &st))
        return errno == ENOENT || errno == ENOTDIR ? 0
                                                   : err_sys(err, "cannot access '%s'", base);
    if (S_ISDIR(st.st_mode) && io_check_owner(&st, NULL, base, err) == 0)
        return 0;
    return err_set(err, ERR_INPUT,
                   "'%s' is a link, a file or another user's, expected a folder", base);
}

int train_local_open(struct train *t, struct err *err)
{
    if (!t->run->local_save)
        return 0;
    if (world_agree(t->world, local_check_options(t, err), err))
        return -1;
    struct train_local *l = t->local = mem_new(1, sizeof *l);
    l->lock = -1;
    if (t->world->rank == 0) {
        char *lock = io_join(t->run->out, ".lock"), line[64];
        if (io_line(lock, line, sizeof line) == IO_THERE && local_is_id(line))
            strcpy(l->id, line);
        mem_free(lock);
    }
    return share_id(t, err) || world_agree(t->world, local_check_owner(t, err), err) ||
                   world_peers_open(t->world, 0, &l->peers, err)
               ? -1
               : 0;
}

/*
 * Reads the run's id from its lock.  A run that does not resume from its newest state, wherever
 * that is, gets a new id, so that local checkpoints of later steps are not its own.
 */
static int find_id(struct train *t, struct err *err)
{
    struct train_local *l = t->local;
    uint64_t number;

    memset(l->id, 0, sizeof l->id);
    if (train_is_auto(t->run) && pread(t->lock, l->id, ID, 0) == ID && local_is_id(l->id))
        return 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return err_sys(err, "cannot get a random number");
    snprintf(l->id, sizeof l->id, "%016llx", (unsigned long long)number);
    return io_pwrite_all(t->lock, l->id, ID, 0, err) || io_fsync_fd(t->lock, ".lock", err) ? -1
                                                                                           : 0;
}

/*
 * Removes everything from a host's folder except steps from `least` (-1: the newest) to `most`,
 * and the lock.  Errors are left to the next call.
 */
static int clear_steps(const char *dir, int64_t least, int64_t most, struct err *err)
{
    struct err ignored;
    struct io_names all;
    int rc = io_names_read(&all, -1, dir, err);
    int64_t newest = 0;

    for (int i = 0; i < all.count; i++)
        if (train_folder_step(all.entry[i]->d_name) > newest)
            newest = train_folder_step(all.entry[i]->d_name);
    least = least < 0 ? newest : least;
    for (int i = 0; i < all.count; i++) {
        const char *name = all.entry[i]->d_name;
        int64_t step = train_folder_step(name);
        char *path = io_join(dir, name);
        if (strcmp(name, ".lock") && (step < least || step > most))
            io_remove_tree(path, &ignored);
        mem_free(path);
    }
    io_names_free(&all);
    return rc;
}

/* Whether `name` must stay: another run of this host uses or is making it, or it is no other
   run's folder. */
static int stays_beside(const struct train *t, const char *name)
{
    const char *own = strrchr(t->local->base, '/') + 1;
    size_t host = strlen(own) - ID;
    struct err ignored;
    int fd = -1;

    if (strlen(name) != host + ID || strncmp(name, own, host) || !local_is_id(name + host) ||
        strcmp(name, own) == 0)
        return 1;
    char *folder = io_join(t->run->local_save, name), *lock = io_join(folder, ".lock");
    int held = io_absent(lock) || io_lock(lock, &fd, &ignored);
    if (fd >= 0)
        close(fd);
    mem_free(lock);
    mem_free(folder);
    return held;
}

/* Removes the folders of runs on this host that have ended. */
static int clear_ended(const struct train *t, struct err *err)
{
    struct err ignored;
    struct io_names all;
    int rc = io_names_read(&all, -1, t->run->local_save, err);

    for (int i = 0; i < all.count; i++) {
        char *path = io_join(t->run->local_save, all.entry[i]->d_name);
        if (!stays_beside(t, all.entry[i]->d_name))
            io_remove_tree(path, &ignored);
        mem_free(path);
    }
    io_names_free(&all);
    return rc;
}

/* Makes and locks the folder: both may be lost with the disk that they were on. */
static int hold_folder(struct train *t, struct err *err)
{
    struct train_local *l = t->local;
    int fd = -1, rc = 0;

    if (io_mkdir(l->base, NULL, err) || local_check_owner(t, err))
        return -1;
    char *lock = io_join(l->base, ".lock");
    if (l->lock < 0 || io_has_name(l->lock, lock, err) != 1) {
        rc = io_lock(lock, &fd, err);
        if (l->lock >= 0 && rc == 0)
            close(l->lock);
        l->lock = rc ? l->lock : fd;
    }
    mem_free(lock);
    return rc;
}

static int make_folder(struct train *t, struct err *err)
{
    /* Keeps this run's own completed steps. */
    return hold_folder(t, err) || clear_steps(t->local->base, 0, t->step, err) ||
                   clear_ended(t, err)
               ? -1
               : 0;
}

int train_local_begin(struct train *t, struct err *err)
{
    struct world *w = t->world;

    if (!t->local) { /* local checkpoints are invalid for later runs */
        int forgot = w->rank || ftruncate(t->lock, 0) == 0;
        return world_agree(w, forgot ? 0 : err_sys(err, "cannot write '.lock'"), err);
    }
    if (world_agree(w, w->rank == 0 ? find_id(t, err) : 0, err) || share_id(t, err))
        return -1;
    return world_agree(w, w->node_rank == 0 ? make_folder(t, err) : 0, err);
}

int train_local_prune(struct train *t, struct err *err)
{
    return hold_folder(t, err) || clear_steps(t->local->base, -1, INT64_MAX, err) ? -1 : 0;
}

void train_local_remove(struct train *t)
{
    struct err ignored;

    if (t->local && t->local->lock >= 0) {
        clear_steps(t->local->base, INT64_MAX, 0, &ignored); /* in case the process ends here */
        io_remove_tree(t->local->base, &ignored);
    }
}

void train_local_close(struct train *t)
{
    struct train_local *l = t->local;

    if (!l)
        return;
    world_peers_close(&l->peers);
    if (l->lock >= 0)
        close(l->lock);
    MEM_FREE(l->candidate, l->all, l->base, l);
    t->local = NULL;
}
