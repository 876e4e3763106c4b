/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a file or a folder appears whole or not at all: written beside its target under a
 * fixed name, synced, renamed, its folder synced.  The fixed name is what keeps litter away: a
 * killed writer's leftover is the next writer's start, and a lock on it keeps two apart.
 */
#include "base/io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"

/*
 * "a/b/" -> "a/b".  A path that ends in no name of its own, such as "" or "a/..", could not be
 * renamed to, which would be found out when all is written.
 */
static int take_name(const char *path, char **out, struct err *err)
{
    char *copy = mem_dup(path), *slash;
    size_t n = strlen(copy);

    while (n > 1 && copy[n - 1] == '/')
        copy[--n] = 0;
    slash = strrchr(copy, '/');
    const char *name = slash ? slash + 1 : copy;
    if (*name && strcmp(name, ".") && strcmp(name, "..")) {
        *out = copy;
        return 0;
    }
    mem_free(copy);
    return err_set(err, ERR_INPUT,
                   "'%s' cannot be written, expected a path that ends in a name", path);
}

char *io_temp_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t head = slash ? (size_t)(slash - path) + 1 : 0;
    size_t n = strlen(path) + sizeof "..paro-tmp";
    char *temp = mem_new(n, 1);

    sprintf(temp, "%.*s.%s.paro-tmp", (int)head, path, path + head);
    return temp;
}

/*
 * `kind` is S_IFREG or S_IFDIR: force replaces like by like.  A rename would turn /dev/null
 * into a plain file, or put a file where a run folder was.
 */
static int check_target(const char *path, int force, mode_t kind, struct err *err)
{
    struct stat st;

    if (lstat(path, &st))
        return errno == ENOENT ? 0 : err_sys(err, "cannot access '%s'", path);
    if (!force)
        return err_set(err, ERR_INPUT, "'%s' exists, expected a new name (or --force)", path);
    if ((st.st_mode & S_IFMT) != kind)
        return err_set(err, ERR_INPUT,
                       "'%s' is not a %s, expected one to replace, or a new name", path,
                       kind == S_IFDIR ? "folder" : "regular file");
    return 0;
}

/*
 * Between open and flock another writer may have renamed what was opened to its target: then
 * the name no longer leads to it, and emptying it would empty the published file.
 *
 * Some network file systems have no locks (NFS without its lock service, Lustre without -o
 * flock).  There whoever made the temporary is its one writer, and a killed one's stays.
 */
static int lock_temp(int fd, int made, const char *temp, const char *path, struct err *err)
{
    int rc = flock(fd, LOCK_EX | LOCK_NB);

    if (rc && (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS))
        return made ? 0
                    : err_set(err, ERR_MISMATCH,
                              "'%s' exists: another process is writing '%s', or was killed; "
                              "this file system has no locks to find out: remove it",
                              temp, path);
    if (rc && errno != EWOULDBLOCK)
        return err_sys(err, "cannot lock '%s'", temp);
    int same = rc ? 0 : io_has_name(fd, temp, err);
    if (same == 0)
        return err_set(err, ERR_MISMATCH, "'%s' is being written by another process", path);
    return same < 0 ? -1 : 0;
}

static int sync_parent(const char *path, struct err *err)
{
    char *dir = io_parent(path);
    int rc = io_fsync_path(dir, err);

    mem_free(dir);
    return rc;
}

/* Of somebody else's making, or with a name elsewhere: who else may write into it is not known.
 */
static int is_strange(int fd)
{
    struct stat st;

    return fstat(fd, &st) || st.st_uid != geteuid() || st.st_nlink != 1 || (st.st_mode & 022);
}

static int open_temp(const char *temp, const char *path, int *fd, struct err *err)
{
    for (int again = 0;; again++) {
        *fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        int made = *fd >= 0;
        if (!made && errno == EEXIST)
            *fd = open(temp, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (*fd < 0)
            return err_sys(err, "cannot create '%s'", temp);
        if (lock_temp(*fd, made, temp, path, err))
            return -1;
        if (made || !is_strange(*fd))
            return 0;
        /* Nobody writes there now, and nobody's is what comes in its place. */
        if (again || (unlink(temp) && errno != ENOENT))
            return err_set(err, ERR_MISMATCH,
                           "'%s' belongs to another user or has a second link: remove it",
                           temp);
        close(*fd);
    }
}

int io_create(struct io_out *out, const char *path, int force, struct err *err)
{
    struct io_out new = {.fd = -1, .force = force};
    int ours = 0;

    if (take_name(path, &new.path, err))
        return -1;
    new.temp = io_temp_name(new.path);
    if (check_target(new.path, force, S_IFREG, err))
        goto fail;
    if (open_temp(new.temp, new.path, &new.fd, err))
        goto fail;
    ours = 1;
    if (ftruncate(new.fd, 0)) {
        err_sys(err, "cannot empty '%s'", new.temp);
        goto fail;
    }
    int twin = fcntl(new.fd, F_DUPFD_CLOEXEC, 0);
    new.file = twin < 0 ? NULL : fdopen(twin, "w");
    if (!new.file) {
        err_sys(err, "cannot open '%s'", new.temp);
        if (twin >= 0)
            close(twin);
        goto fail;
    }
    *out = new;
    return 0;
fail:
    if (ours)
        unlink(new.temp);
    if (new.fd >= 0)
        close(new.fd);
    mem_free(new.path);
    mem_free(new.temp);
    return -1;
}

/* Without force the target may have appeared since: the kernel refuses to replace it. */
static int publish(const char *temp, const char *path, unsigned flags, struct err *err)
{
    if (syscall(SYS_renameat2, AT_FDCWD, temp, AT_FDCWD, path, flags) == 0)
        return 0;
    /* File systems without renameat2's flags, systems without renameat2: the check stands. */
    if ((errno == EINVAL || errno == ENOSYS) && flags != RENAME_EXCHANGE) {
        struct stat st;
        if (flags == RENAME_NOREPLACE && lstat(path, &st) == 0)
            errno = EEXIST;
        else if ((flags == 0 || errno == ENOENT) && rename(temp, path) == 0)
            return 0;
    }
    if (errno == EEXIST)
        return err_set(err, ERR_INPUT, "'%s' exists, expected a new name (or --force)", path);
    return err_sys(err, "cannot rename '%s' to '%s'", temp, path);
}

/*
 * stdio remembers that a write failed and forgets why; errno may be another call's by now.
 * The file is lost anyway: writing on soon meets the same refusal.
 */
static void find_reason(int fd)
{
    static const char block[65536];

    for (int i = 0; i < 16; i++)
        if (write(fd, block, sizeof block) < 0)
            return;
    errno = EIO;
}

int io_commit(struct io_out *out, struct err *err)
{
    int rc = -1;

    if (fflush(out->file) || ferror(out->file)) {
        find_reason(out->fd);
        err_sys(err, "cannot write '%s'", out->path);
        goto done;
    }
    if (!out->unsynced && fsync(out->fd)) {
        err_sys(err, "cannot write '%s'", out->path);
        goto done;
    }
    if (publish(out->temp, out->path, out->force ? 0 : RENAME_NOREPLACE, err))
        goto done;
    rc = out->unsynced ? 0 : sync_parent(out->path, err);
    mem_free(out->temp); /* it is the target now: io_abandon must not remove it */
    out->temp = NULL;
done:
    io_abandon(out);
    return rc;
}

void io_abandon(struct io_out *out)
{
    if (out->temp)
        unlink(out->temp);
    if (out->file)
        fclose(out->file);
    if (out->fd >= 0)
        close(out->fd);
    mem_free(out->path);
    mem_free(out->temp);
    *out = (struct io_out){.fd = -1};
}

int io_end(struct io_out *out, int rc, struct err *err)
{
    if (rc == 0)
        return io_commit(out, err);
    io_abandon(out);
    return rc;
}

int io_is_ours(const char *dir, uid_t uid)
{
    struct io_out out;
    struct err ignored;
    struct stat st;
    int is = 0;

    if (uid == geteuid())
        return 1;
    char *path = io_join(dir, "owner");
    if (io_create(&out, path, 1, &ignored) == 0) {
        is = fstat(out.fd, &st) == 0 && st.st_uid == uid;
        io_abandon(&out);
    }
    mem_free(path);
    return is;
}

int io_open_log(const char *path, int special, FILE **file, struct err *err)
{
    struct stat st;
    int flags = O_APPEND | O_CLOEXEC, rc = 0;

    special = special && stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    if (special && io_check_link(path, err))
        return err_prefix(err, "log ");
    char *dir = io_parent(path);
    flags |= special ? O_WRONLY : O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK;
    int fd = open(path, flags, 0666);
    if (fd < 0 || fstat(fd, &st))
        rc = err_sys(err, "cannot open log '%s'", path);
    else if ((!S_ISREG(st.st_mode)) != special)
        rc = err_set(err, ERR_INPUT, "log '%s' is not a regular file", path);
    else if (!special && (st.st_nlink != 1 || !io_is_ours(dir, st.st_uid)))
        rc = err_set(err, ERR_MISMATCH,
                     "log '%s' belongs to user %u and has %u names, expected user %u and one",
                     path, (unsigned)st.st_uid, (unsigned)st.st_nlink, (unsigned)geteuid());
    else if (!(*file = fdopen(fd, special ? "a" : "a+")))
        rc = err_sys(err, "cannot open log '%s'", path);
    mem_free(dir);
    if (rc && fd >= 0)
        close(fd);
    return rc;
}

int io_exchange(const char *a, const char *b, struct err *err)
{
    if (syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0)
        return 0;
    return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP
               ? 1
               : err_sys(err, "cannot exchange '%s' and '%s'", a, b);
}

/*
 * Where two folders cannot change places at once (1), the old one would be gone before the new
 * one is there: better said before hours of writing.
 */
static int check_exchange(const struct io_dir *dir, struct err *err)
{
    char *a = io_join(dir->temp, "a"), *b = io_join(dir->temp, "b"), *in = io_join(b, "in");
    struct stat st;
    struct statfs fs;
    int rc = 0;

    if (lstat(dir->path, &st) == 0) {
        if (mkdir(a, 0777) || mkdir(b, 0777) || mkdir(in, 0777))
            rc = err_sys(err, "cannot make a folder in '%s'", dir->temp);
        else
            rc = io_exchange(a, b, err);
        /*
         * overlayfs may rename no folder of a lower layer, and says so before it says that
         * nothing is renamed to a folder in which something is.
         */
        if (rc == 0 && statfs(dir->path, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC &&
            rename(dir->path, a) && errno == EXDEV)
            rc = 1;
        /* What stayed would be in the new folder. */
        if (rc >= 0 && io_empty_dir(dir->fd, dir->temp, err))
            rc = -1;
    }
    mem_free(a);
    mem_free(b);
    mem_free(in);
    return rc;
}

/* Nothing is put into another user's folder, and nothing in it is removed. */
static int check_owner(const struct io_dir *dir, struct err *err)
{
    char *parent = io_parent(dir->temp);
    struct stat st;
    int rc = 0;

    if (fstat(dir->fd, &st))
        rc = err_sys(err, "cannot access '%s'", dir->temp);
    else if (!io_is_ours(parent, st.st_uid))
        rc = err_set(err, ERR_MISMATCH, "'%s' belongs to user %u, expected user %u: remove it",
                     dir->temp, (unsigned)st.st_uid, (unsigned)geteuid());
    mem_free(parent);
    return rc;
}

/*
 * What a killed writer left is emptied, once nobody else may enter; the folder itself stays,
 * for the lock is on it.
 */
static int take_over(const struct io_dir *dir, struct err *err)
{
    struct stat st;

    if (fstat(dir->fd, &st) || ((st.st_mode & 077) && fchmod(dir->fd, 0700)))
        return err_sys(err, "cannot restrict access to '%s'", dir->temp);
    return io_empty_dir(dir->fd, dir->temp, err);
}

/*
 * The mode that mkdir gives here, by umask, set-group-ID bit and default ACL: a folder in the
 * temporary has them, too.
 */
static int find_mode(struct io_dir *dir, struct err *err)
{
    struct stat st;

    if (mkdirat(dir->fd, "mode", 0777) || fstatat(dir->fd, "mode", &st, AT_SYMLINK_NOFOLLOW) ||
        unlinkat(dir->fd, "mode", AT_REMOVEDIR))
        return err_sys(err, "cannot make a folder in '%s'", dir->temp);
    dir->mode = st.st_mode & 07777;
    return 0;
}

static int open_dir(struct io_dir *dir, struct err *err)
{
    dir->fd = open(dir->temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir->fd < 0 ? err_sys(err, "cannot open folder '%s'", dir->temp) : 0;
}

int io_dir_create(struct io_dir *dir, const char *path, int force, struct err *err)
{
    struct io_dir new = {.fd = -1, .force = force};
    int ours = 0;

    if (take_name(path, &new.path, err))
        return -1;
    new.temp = io_temp_name(new.path);
    if (check_target(new.path, force, S_IFDIR, err))
        goto fail;
    int made = mkdir(new.temp, 0700) == 0;
    if (!made && errno != EEXIST) {
        err_sys(err, "cannot make folder '%s'", new.temp);
        goto fail;
    }
    if (open_dir(&new, err) || check_owner(&new, err) ||
        lock_temp(new.fd, made, new.temp, new.path, err) || (!made && take_over(&new, err)))
        goto fail;
    ours = 1;
    if (find_mode(&new, err))
        goto fail;
    int cannot = force ? check_exchange(&new, err) : 0;
    if (cannot == 1 && force != IO_MAKE_WAY)
        err_set(err, ERR_SYS,
                "'%s' exists, and this file system cannot exchange it atomically: expected a "
                "new name, or to have it moved away first",
                new.path);
    if (cannot < 0 || (cannot && force != IO_MAKE_WAY))
        goto fail;
    new.in_the_way = cannot;
    *dir = new;
    return 0;
fail:
    if (ours)
        io_remove_tree(new.temp, &(struct err){0});
    io_dir_leave(&new);
    return -1;
}

int io_dir_enter(struct io_dir *dir, const char *path, struct err *err)
{
    *dir = (struct io_dir){.fd = -1, .path = mem_dup(path), .temp = io_temp_name(path)};
    if (open_dir(dir, err) == 0)
        return 0;
    io_dir_leave(dir);
    return -1;
}

void io_dir_leave(struct io_dir *dir)
{
    if (dir->fd >= 0)
        close(dir->fd);
    mem_free(dir->path);
    mem_free(dir->temp);
    *dir = (struct io_dir){.fd = -1};
}

/* The folder below `at` in which the last of the names lies (*name); made: where absent. */
static int walk_down(int at, char **name, int made)
{
    int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (char *slash; fd >= 0 && (slash = strchr(*name, '/')); *name = slash + 1) {
        *slash = 0;
        int bad = made && mkdirat(fd, *name, 0777) && errno != EEXIST;
        int below =
            bad ? -1 : openat(fd, *name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int why = errno;
        close(fd);
        errno = why;
        fd = below;
    }
    return fd;
}

/* What we make in a folder that is ours has its owner. */
static int check_made(const struct io_dir *dir, int fd, struct err *err)
{
    struct stat a, b;

    if (fstat(dir->fd, &a) || fstat(fd, &b))
        return err_sys(err, "cannot access '%s'", dir->temp);
    if (a.st_uid != b.st_uid)
        return err_set(err, ERR_MISMATCH, "'%s' belongs to user %u, expected user %u",
                       dir->temp, (unsigned)a.st_uid, (unsigned)b.st_uid);
    return 0;
}

int io_dir_open(const struct io_dir *dir, const char *path, int flags, mode_t mode, int *fd,
                struct err *err)
{
    size_t head = strlen(dir->temp) + 1;
    int making = (flags & O_CREAT) != 0, rc = 0;

    assert(strlen(path) > head && strncmp(path, dir->temp, head - 1) == 0);
    char *copy = mem_dup(path + head), *name = copy;
    int at = walk_down(dir->fd, &name, making), new = -1;
    if (at >= 0)
        new = openat(at, name, flags | (making ? O_EXCL : 0) | O_NOFOLLOW | O_CLOEXEC, mode);
    if (new < 0)
        rc = err_sys(err, "cannot %s '%s'", making ? "create" : "open", path);
    else if (making)
        rc = check_made(dir, new, err);
    if (at >= 0)
        close(at);
    mem_free(copy);
    if (rc == 0)
        *fd = new;
    else if (new >= 0)
        close(new);
    return rc;
}

int io_dir_put(const struct io_dir *dir, const char *name, const void *data, int64_t bytes,
               struct err *err)
{
    char *path = io_join(dir->temp, name);
    int fd = -1, rc = io_dir_open(dir, path, O_WRONLY | O_CREAT, 0666, &fd, err);

    if (rc == 0 && io_pwrite_all(fd, data, bytes, 0, err))
        rc = err_prefix(err, "%s: ", path);
    else if (rc == 0 && fsync(fd))
        rc = err_sys(err, "cannot write '%s'", path);
    if (fd >= 0)
        close(fd);
    mem_free(path);
    return rc;
}

int io_dir_take_text(const struct io_dir *dir, const char *name, char *text, struct err *err)
{
    int rc = io_dir_put(dir, name, text, (int64_t)strlen(text), err);

    mem_free(text);
    return rc;
}

/* The folders below fd, and it: what is in the files is their writers' business. */
static int sync_folders(int fd, const char *whole, struct err *err)
{
    DIR *d = io_list(fd, whole, err);
    int rc = d ? 0 : -1;

    for (struct dirent *e; rc == 0 && (e = io_next(d));) {
        int below = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0 && errno == ENOTDIR)
            continue;
        rc = below < 0 ? err_sys(err, "cannot open folder '%s'", whole)
                       : sync_folders(below, whole, err);
        if (below >= 0)
            close(below);
    }
    if (rc == 0 && errno)
        rc = err_sys(err, "cannot read folder '%s'", whole);
    if (d)
        closedir(d);
    return rc ? rc : io_fsync_fd(fd, whole, err);
}

int io_dir_commit(struct io_dir *dir, struct err *err)
{
    struct stat st;
    int there = dir->force && lstat(dir->path, &st) == 0;
    int old = -1, rc = -1;

    if (fstat(dir->fd, &st) ||
        ((st.st_mode & 07777) != dir->mode && fchmod(dir->fd, dir->mode))) {
        err_sys(err, "cannot set the mode of '%s'", dir->temp);
        goto done;
    }
    if (sync_folders(dir->fd, dir->temp, err))
        goto done;
    /* The old folder gets the temporary's name: locked, so that no writer takes it over. */
    if (there)
        old = open(dir->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (old >= 0)
        flock(old, LOCK_EX | LOCK_NB);
    if (publish(dir->temp, dir->path, there ? RENAME_EXCHANGE : RENAME_NOREPLACE, err))
        goto done;
    /* Who may rename what is there may have put another folder in the temporary's place. */
    int is = io_has_name(dir->fd, dir->path, err);
    if (is == 0)
        err_set(err, ERR_MISMATCH, "'%s' was replaced by another process", dir->path);
    rc = is == 1 ? sync_parent(dir->path, err) : -1;
    if (!there || is == 0) { /* where another is there, the old one stays */
        mem_free(dir->temp);
        dir->temp = NULL;
    }
done:
    io_dir_abandon(dir); /* after an exchange the temporary is the old folder: removed */
    if (old >= 0)
        close(old);
    return rc;
}

void io_dir_abandon(struct io_dir *dir)
{
    struct err ignored;

    if (dir->temp)
        io_remove_tree(dir->temp, &ignored);
    io_dir_leave(dir);
}

int io_dir_end(struct io_dir *dir, int rc, struct err *err)
{
    if (rc == 0)
        return io_dir_commit(dir, err);
    io_dir_abandon(dir);
    return rc;
}
