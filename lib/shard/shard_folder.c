/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists and opens the files next to the weights of a folder.  Rejects links to other places,
 * with which the folder's author could make readers copy their private files.  In the download
 * cache of the Hugging Face hub, a snapshot consists of links:
 *
 *     models--ORG--NAME/blobs/HASH                the files
 *     models--ORG--NAME/snapshots/REVISION/FILE   links to ../../blobs/HASH
 *
 * so the blobs next to a folder's snapshots belong to it.  Also checks that folders do not
 * overlap.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ckpt/ckpt_write.h"
#include "shard/shard_folder.h"
#include "shard/shard_parts.h"

struct listing {
    struct folder *folder;
    const struct hf *hf;
    int64_t seen, most; /* files and folders, without weights files */
    size_t space;       /* capacity of folder->other */
};

/* --- where files may lie --- */

/* Both paths are absolute, without links. */
static int is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || (n == 1 && path[n]));
}

/* The absolute name of a path that may not exist; *out is NULL if its folder does not exist
   either. */
static int absolute_path(const char *path, char **out, struct err *err)
{
    char *a = mem_dup(path), *b = mem_dup(path);
    char *dir = realpath(dirname(a), NULL);
    int rc = dir || errno == ENOENT ? 0 : err_sys(err, "cannot resolve '%s'", path);

    *out = dir ? io_join(dir, basename(b)) : NULL;
    free(dir);
    mem_free(a);
    mem_free(b);
    return rc;
}

int shard_check_apart(const char *from, const char *to, int may, struct err *err)
{
    char *source = realpath(from, NULL), *target = NULL;
    int rc = 0;

    if (!source)
        rc = err_sys(err, "cannot open '%s'", from);
    else if (absolute_path(to, &target, err))
        rc = -1;
    else if (!(may & SHARD_BE_SOURCE) && target && strcmp(target, source) == 0)
        rc = err_set(err, ERR_INPUT, "'%s' is what is read, expected another path", to);
    else if (!(may & SHARD_BE_INSIDE) && target && is_below(target, source))
        rc = err_set(err, ERR_INPUT, "'%s' is inside '%s', expected a path outside", to, from);
    else if (target && is_below(source, target))
        rc = err_set(err, ERR_INPUT, "'%s' is inside '%s', expected a path outside", from, to);
    free(source);
    mem_free(target);
    return rc;
}

static int find_root(struct folder *f, struct err *err)
{
    f->root = realpath(f->dir, NULL);
    if (!f->root)
        return err_sys(err, "cannot resolve '%s'", f->dir);
    for (char *p = f->root; !f->blobs && (p = strstr(p, "/models--")); p++) {
        char *end = strchr(p + 1, '/');
        if (!end || strncmp(end, "/snapshots/", strlen("/snapshots/")))
            continue;
        *end = 0;
        f->blobs = io_join(f->root, "blobs");
        *end = '/';
    }
    return 0;
}

/* Checks the open file, since its name may lead to another file by now. */
static int check_place(const struct folder *f, int fd, const char *path, struct err *err)
{
    char link[64], place[PATH_MAX];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, place, sizeof place - 1);
    if (n < 0)
        return err_sys(err, "cannot resolve '%s'", path);
    place[n] = 0;
    if (is_below(place, f->root) || (f->blobs && is_below(place, f->blobs)))
        return 0;
    return err_at(err, path, 0, NULL, "is a symbolic link out of its folder, expected a file");
}

int folder_open(struct folder *f, const char *name, int *fd, struct err *err)
{
    char *path = io_join(f->dir, name);
    int there = -1, rc = f->root ? 0 : find_root(f, err);

    if (rc == 0)
        rc = io_open(path, &there, NULL, err);
    if (rc == 0)
        rc = check_place(f, there, path, err);
    if (rc == 0)
        *fd = there;
    else if (there >= 0)
        close(there);
    mem_free(path);
    return rc;
}

/* --- listing --- */

static int folder_is_utf8(const char *text)
{
    int n = 1;

    for (; *text && n > 0; text += n)
        n = utf8_next(text, NULL);
    return n > 0;
}

/* Checks the target of `path` without opening it: a FIFO would block. */
static int folder_check_entry(const struct folder *f, const char *path, struct stat *st,
                              struct err *err)
{
    int fd = open(path, O_PATH | O_CLOEXEC), rc = 0;

    if (fd < 0 || fstat(fd, st))
        rc = err_sys(err, "cannot read '%s'", path);
    else if (S_ISREG(st->st_mode))
        rc = check_place(f, fd, path, err);
    else if (!S_ISDIR(st->st_mode))
        rc = err_set(err, ERR_INPUT, "'%s' is neither a file nor a folder", path);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Does not follow a link, whose target may be listed already or be an outer folder. */
static int read_names(struct io_names *all, const char *path, int depth, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));

    *all = (struct io_names){0};
    if (fd < 0 && depth && (errno == ENOTDIR || errno == ELOOP))
        return err_at(err, path, 0, NULL,
                      "is a symbolic link to a folder, expected a folder or a file");
    if (fd < 0)
        return err_sys(err, "cannot read folder '%s'", path);
    int rc = io_names_read(all, fd, path, err);
    close(fd);
    return rc;
}

static int folder_list_folder(struct listing *l, const char *under, int depth, struct err *err);

/* Lists one entry: a name within the folder. */
static int list_one(struct listing *l, char *name, int depth, struct err *err)
{
    struct folder *f = l->folder;
    char *path = io_join(f->dir, name);
    struct stat st;
    int rc = -1, file = hf_find_file(l->hf, name);

    if (!folder_is_utf8(name)) /* the manifest is JSON and cannot store it */
        err_set(err, ERR_INPUT, "the name of '%s' is not valid UTF-8", path);
    else if (file < 0 && l->seen++ == l->most)
        err_set(err, ERR_INPUT,
                "'%s' has more than %" PRId64
                " files and folders next to its weights (--max-files)",
                f->dir, l->most);
    else
        rc = folder_check_entry(f, path, &st, err);
    const struct io_id *id = file >= 0          ? &l->hf->file[file].id
                             : l->hf->files > 0 ? st_piece_id(l->hf->file, name)
                                                : NULL;
    if (rc == 0 && id && !io_is_same(id, &st))
        rc = err_set(err, ERR_MISMATCH, "'%s' changed while it was read", path);
    if (rc == 0 && S_ISDIR(st.st_mode)) {
        rc = folder_list_folder(l, name, depth + 1, err);
    } else if (rc == 0 && file < 0) {
        f->other = mem_grow(f->other, &l->space, (size_t)f->others + 1, sizeof *f->other);
        f->other[f->others++] = mem_dup(name);
    }
    mem_free(path);
    return rc;
}

static int folder_list_folder(struct listing *l, const char *under, int depth, struct err *err)
{
    char *path = *under ? io_join(l->folder->dir, under) : mem_dup(l->folder->dir);
    struct io_names all;
    int rc = read_names(&all, path, depth, err);

    if (rc == 0 && depth > CKPT_DEPTH_MAX)
        rc = err_set(err, ERR_INPUT, "'%s' is more than %d folders deep", path, CKPT_DEPTH_MAX);
    for (int i = 0; rc == 0 && i < all.count; i++) {
        const char *here = all.entry[i]->d_name;
        char *name = *under ? io_join(under, here) : mem_dup(here);
        rc = err_any(ckpt_stopped(l->hf->stop, err) || list_one(l, name, depth, err));
        mem_free(name);
    }
    io_names_free(&all);
    mem_free(path);
    return rc;
}

int folder_list(struct folder *f, const struct hf *hf, const struct ckpt_limits *limits,
                struct err *err)
{
    struct listing l = {
        .folder = f, .hf = hf, .most = (limits ? limits : &ckpt_limits_usual)->files};

    f->dir = hf->dir;
    if (hf->alone)
        return 0;
    if (find_root(f, err) || folder_list_folder(&l, "", 0, err))
        return -1;
    if (f->others)
        qsort(f->other, (size_t)f->others, sizeof *f->other, mem_by_text);
    return 0;
}

int folder_check(const struct hf *hf, const struct ckpt_limits *limits, struct err *err)
{
    struct folder f = {0};
    int rc = folder_list(&f, hf, limits, err);

    folder_release(&f);
    return rc;
}

void folder_release(struct folder *f)
{
    for (int i = 0; i < f->others; i++)
        mem_free(f->other[i]);
    MEM_FREE(f->other, f->root, f->blobs);
    *f = (struct folder){0};
}
