/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places the copies of a checkpoint's files.  Rank R's shard is held by R itself and K other
 * ranks, in the order k = 0, 1, ... of this table; 3 groups, K = 4, R = 0:
 *
 *     group    0      1      2          place within the group
 *     k        0      1      2          R's own
 *              3      4      5          the next
 *              6      7      8          the one after that, ...
 *
 * Each row visits all groups, R's own first, and skips groups without further members.  So
 * holders are distinct, and the first `count` of them lie in different groups.  In groups of
 * equal size each column rotates by one for the next R, so all ranks hold equally many copies.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

int ckpt_check_copies(const struct groups *g, int copies, struct err *err)
{
    int most = g->ranks - 1 < CKPT_COPIES_MAX ? g->ranks - 1 : CKPT_COPIES_MAX;

    if (copies >= 0 && copies <= most)
        return 0;
    return err_set(err, ERR_INPUT,
                   "%d copies, expected 0 to %d: each needs a different one of %d rank%s",
                   copies, most, g->ranks, g->ranks == 1 ? "" : "s");
}

int ckpt_copy_holder(const struct groups *g, int rank, int k)
{
    int own = g->group_of[rank], place = g->local_of[rank];

    assert(k >= 0 && k < g->ranks);
    if (k < g->count) { /* the first row: no group is empty */
        int group = (own + k) % g->count;
        return groups_rank(g, group, place % g->members[group]);
    }
    k -= g->count;
    for (int row = 1;; row++) {
        for (int i = 0; i < g->count; i++) {
            int group = (own + i) % g->count, members = g->members[group];
            if (row < members && k-- == 0)
                return groups_rank(g, group, (place + row) % members);
        }
    }
}

char *ckpt_shard_path(const char *dir, const struct groups *g, int rank, int k)
{
    char name[CKPT_FILE_NAME];

    if (k) /* the copy of rank's shard held by ckpt_copy_holder */
        snprintf(name, sizeof name, "shard-%05d.copy-%05d.safetensors",
                 ckpt_copy_holder(g, rank, k), rank);
    else
        ckpt_shard_name(rank, name);
    return io_join(dir, name);
}

int ckpt_repaired_print(const struct ckpt_repaired *h, const char *dir, char *text,
                        size_t space)
{
    if (h->blocks + h->files == 0)
        return 0;
    return snprintf(text, space,
                    "'%s' is damaged: %" PRId64 " block%s and %" PRId64 " other file%s were "
                    "read from copies, paro-shard repair rebuilds them; the first: %s",
                    dir, h->blocks, h->blocks == 1 ? "" : "s", h->files,
                    h->files == 1 ? "" : "s", h->first.text);
}

void ckpt_repaired_add(struct ckpt_repaired *h, int64_t blocks, int64_t files,
                       const struct err *damage)
{
    if (blocks + files && h->blocks + h->files == 0)
        h->first = *damage;
    h->blocks += blocks;
    h->files += files;
}

int ckpt_source_number(const struct ckpt_sources *list, const char *name)
{
    int i = 0;

    while (i < list->count && strcmp(list->item[i].name, name))
        i++;
    return i;
}

int ckpt_find_source(struct ckpt *c, const struct ckpt_source *s, char **path, struct err *err)
{
    char *name = io_join(ckpt_source_folder(s->keep), s->name);
    struct err damage = {0};
    int rc = -1;

    for (int i = 0; rc && !damage.scarce && i <= c->copies; i++) {
        *path = ckpt_small_path(c->dir, i, name);
        rc = ckpt_check_file(*path, s->bytes, s->hash, c->stop, err);
        if (rc == 0 && i)
            ckpt_repaired_add(&c->repaired, 0, 1, &damage);
        if (rc && (i == 0 || err->scarce))
            damage = *err;
        if (rc)
            mem_free(*path);
    }
    if (rc) {
        *path = NULL;
        *err = damage; /* the original's error; verify reports damaged copies */
    }
    mem_free(name);
    return rc;
}

/* Copies a checked file into the folder `to` in dir->temp. */
static int put_checked(const char *from, const struct io_out *dir, const char *to,
                       const struct ckpt_source *s, const atomic_int *stop, struct err *err)
{
    char *path = io_join(to, s->name);
    struct ckpt_source is = {0};
    int fd = -1, rc = io_open(from, &fd, NULL, err);

    if (rc == 0) {
        rc = ckpt_copy_file(fd, dir, path, stop, &is, err);
        close(fd);
        if (rc)
            err_prefix(err, "%s: ", from);
        else if (strcmp(is.hash, s->hash))
            rc = err_at(err, from, 0, NULL, "was changed while it was read");
    }
    mem_free(path);
    return rc;
}

int ckpt_take_source(struct ckpt *c, const struct ckpt_source *s, const struct io_out *dir,
                     const char *to, struct err *err)
{
    char *path = NULL, *own = io_join(dir->temp, ckpt_source_folder(s->keep));
    int rc = err_any(ckpt_find_source(c, s, &path, err) ||
                     put_checked(path, dir, to ? to : own, s, c->stop, err));

    mem_free(path);
    mem_free(own);
    return rc;
}

/* Writes the small files of copy k: source/, config.json and, last, manifest.json. */
static int copy_put_copy(const struct io_out *dir, int k, const struct ckpt_small *what,
                         struct err *err)
{
    char *config = ckpt_small_path(dir->temp, k, "config.json");
    char *manifest = ckpt_small_path(dir->temp, k, "manifest.json");
    size_t inside = strlen(dir->temp) + 1;
    int rc = 0;

    for (int i = 0; rc == 0 && k && what->source && i < what->source->count; i++) {
        const struct ckpt_source *s = &what->source->item[i];
        const char *folder = ckpt_source_folder(s->keep);
        char *own = io_join(dir->temp, folder), *from = io_join(own, s->name);
        char *to = ckpt_small_path(dir->temp, k, folder);
        rc = put_checked(from, dir, to, s, what->source->stop, err);
        MEM_FREE(own, from, to);
    }
    if (rc == 0)
        rc = io_dir_put(dir, config + inside, what->config, (int64_t)strlen(what->config), err);
    if (rc == 0)
        rc = io_dir_put(dir, manifest + inside, what->manifest, what->manifest_bytes, err);
    mem_free(config);
    mem_free(manifest);
    return rc;
}

int ckpt_put_small(const struct io_out *dir, int copies, const struct ckpt_small *what,
                   struct err *err)
{
    int rc = 0;

    for (int k = copies; rc == 0 && k >= 0; k--) /* the original manifest is written last */
        rc = copy_put_copy(dir, k, what, err);
    return rc;
}
