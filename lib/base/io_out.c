/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Publishes a file or folder completely or not at all: writes it next to its target under a
 * fixed name, syncs and renames it, and syncs the parent.  With a fixed name leftovers do not
 * accumulate: the next writer reuses that of a killed one, and a lock excludes concurrent
 * writers.
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

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) /* does not follow a link */

/*
 * "a/b/" -> "a/b".  Rejects a path that does not end in a name, such as "" or "a/..": the
 * rename would fail after everything is written.
 */
int io_take_name(const char *path, char **out, struct err *err)
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

char *io_old_path(const char *path)
{
    char *old = mem_new(strlen(path) + sizeof ".old", 1);

    strcpy(stpcpy(old, path), ".old");
    return old;
}

char *io_old_name(const char *path)
{
    char *old = io_old_path(path), *temp = io_temp_name(old);

    mem_free(old);
    return temp;
}

/*
 * Checks the target.  `kind` is S_IFREG or S_IFDIR; force only replaces the same kind.  A
 * rename would turn /dev/null into a regular file, or put a file in place of a run folder.
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
 * Between open and flock another writer may have renamed the opened file to its target:
 * truncating it would then truncate the published file, so the name is compared again.
 *
 * Some network file systems have no locks (NFS without its lock service, Lustre without -o
 * flock).  There only the process that created the temporary writes it, and that of a killed
 * process remains.
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

/* Whether the file was made by another user or has other links: others may be able to write
   it. */
static int is_strange(int fd)
{
    struct stat st;

    return fstat(fd, &st) || st.st_uid != geteuid() || st.st_nlink != 1 || (st.st_mode & 022);
}

static int open_temp(struct io_out *out, struct err *err)
{
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    mode_t mode = out->how & IO_CLOSED ? 0600 : 0666;

    for (int again = 0;; again++) {
        out->fd = open(out->temp, flags | O_EXCL, mode);
        int made = out->fd >= 0;
        if (!made && errno == EEXIST)
            out->fd = open(out->temp, flags, mode);
        if (out->fd < 0)
            return err_sys(err, "cannot create '%s'", out->temp);
        if (lock_temp(out->fd, made, out->temp, out->path, err))
            return -1;
        if (made || !is_strange(out->fd))
            return 0;
        /* No other process writes there now, and the new file belongs to this process. */
        if (again || (unlink(out->temp) && errno != ENOENT))
            return err_set(err, ERR_MISMATCH,
                           "'%s' belongs to another user or has a second link: remove it",
                           out->temp);
        close(out->fd);
    }
}

static int io_out_begin(struct io_out *out, const char *path, int how, mode_t kind,
                        struct err *err)
{
    *out = (struct io_out){.fd = -1, .how = how};
    if (io_take_name(path, &out->path, err))
        return -1;
    out->temp = io_temp_name(out->path);
    return check_target(out->path, how & (IO_FORCE | IO_MAKE_WAY), kind, err);
}

int io_create(struct io_out *out, const char *path, int how, struct err *err)
{
    struct io_out new;

    if (io_out_begin(&new, path, how, S_IFREG, err) || open_temp(&new, err)) {
        io_dir_leave(&new);
        return -1;
    }
    if (how & IO_CLOSED) {
        mode_t mask = umask(077);
        umask(mask);
        new.mode = 0666 & ~mask;
    }
    if (ftruncate(new.fd, 0)) {
        err_sys(err, "cannot empty '%s'", new.temp);
    } else if (!(new.file = fdopen(new.fd, "w"))) {
        err_sys(err, "cannot open '%s'", new.temp);
    } else {
        *out = new;
        return 0;
    }
    io_abandon(&new);
    return -1;
}

/* Without force the target may have appeared since the check: the kernel then refuses to
   replace it. */
static int publish(const char *temp, const char *path, unsigned flags, struct err *err)
{
    struct stat st;

    if (syscall(SYS_renameat2, AT_FDCWD, temp, AT_FDCWD, path, flags) == 0)
        return 0;
    /* For file systems or systems without renameat2's flags: relies on this check. */
    if (errno == EINVAL || errno == ENOSYS) {
        if (flags == RENAME_NOREPLACE && lstat(path, &st) == 0)
            errno = EEXIST;
        else if ((flags == 0 || errno == ENOENT) && rename(temp, path) == 0)
            return 0;
    }
    if (errno == EEXIST)
        return err_set(err, ERR_INPUT, "'%s' exists, expected a new name (or --force)", path);
    return err_sys(err, "cannot rename '%s' to '%s'", temp, path);
}

/* Exchanges two names atomically; 1: the file system cannot, nothing has changed. */
static int io_out_exchange(const char *a, const char *b, struct err *err)
{
    if (syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0)
        return 0;
    return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP
               ? 1
               : err_sys(err, "cannot exchange '%s' and '%s'", a, b);
}

/*
 * The old folder becomes out->temp.  If names cannot be exchanged and the caller allows it,
 * first moves the old folder to a third name.
 */
static int replace_folder(struct io_out *out, struct err *err)
{
    int rc = io_out_exchange(out->temp, out->path, err);

    if (rc < 1)
        return rc;
    if (!(out->how & IO_MAKE_WAY))
        return err_sys(err, "cannot exchange '%s' and '%s'", out->temp, out->path);
    char *old = io_old_name(out->path), *temp = out->temp;
    if (rename(out->path, old)) {
        rc = err_sys(err, "cannot move '%s' to '%s'", out->path, old);
    } else if (rename(temp, out->path)) {
        rc = err_sys(err, "cannot move '%s' to '%s'", temp, out->path);
        rename(old, out->path);
    } else {
        out->temp = old;
        old = temp;
        rc = 0;
    }
    mem_free(old);
    return rc;
}

/*
 * Sets errno to the reason of a failed write: stdio only records that there was one.  Writing
 * more, to a file that is lost anyway, gives the same error.
 */
static void find_reason(int fd)
{
    static const char block[65536];

    for (int i = 0; i < 16; i++)
        if (write(fd, block, sizeof block) < 0)
            return;
    errno = EIO;
}

/* Syncs fd and the folders below it; the files' writers sync their contents. */
static int sync_folders(int fd, const char *whole, struct err *err)
{
    struct io_names all;
    int rc = io_names_read(&all, fd, whole, err);

    for (int i = 0; rc == 0 && i < all.count; i++) {
        int below = openat(fd, all.entry[i]->d_name, FOLDER);
        if (below < 0 && errno == ENOTDIR)
            continue;
        rc = below < 0 ? err_sys(err, "cannot open folder '%s'", whole)
                       : sync_folders(below, whole, err);
        if (below >= 0)
            close(below);
    }
    io_names_free(&all);
    return rc ? rc : io_fsync_fd(fd, whole, err);
}

/* Sets the mode and syncs. */
static int io_out_finish(struct io_out *out, struct err *err)
{
    struct stat st;

    if (out->file && (fflush(out->file) || ferror(out->file))) {
        find_reason(out->fd);
        return err_sys(err, "cannot write '%s'", out->path);
    }
    if (out->mode && (fstat(out->fd, &st) ||
                      ((st.st_mode & 07777) != out->mode && fchmod(out->fd, out->mode))))
        return err_sys(err, "cannot set the mode of '%s'", out->file ? out->path : out->temp);
    if (!out->file)
        return sync_folders(out->fd, out->temp, err);
    return !out->unsynced && fsync(out->fd) ? err_sys(err, "cannot write '%s'", out->path) : 0;
}

int io_publish(struct io_out *out, struct err *err)
{
    int folder = !out->file, force = out->how & (IO_FORCE | IO_MAKE_WAY), is = 1, old = -1;
    unsigned flags = folder || !force ? RENAME_NOREPLACE : 0;
    struct stat st;

    if (io_out_finish(out, err))
        return -1;
    int there = folder && force && lstat(out->path, &st) == 0;
    /* The folder that gets the temporary's name must be locked, so that no writer reuses it */
    if (there)
        old = open(out->path, FOLDER);
    if (old >= 0)
        flock(old, LOCK_EX | LOCK_NB);
    if (there ? replace_folder(out, err) : publish(out->temp, out->path, flags, err)) {
        if (old >= 0)
            close(old);
        return -1;
    }
    if (folder) {
        /* A user with write access to the parent may have replaced the temporary by another
           folder. */
        is = io_has_name(out->fd, out->path, err);
        close(out->fd);
        out->fd = old;
    }
    if (is == 0)
        err_set(err, ERR_MISMATCH, "'%s' was replaced by another process", out->path);
    if (!there || is == 0) { /* if it was replaced, the old folder stays */
        mem_free(out->temp);
        out->temp = NULL;
    }
    return is == 1 ? 0 : -1;
}

int io_commit(struct io_out *out, struct err *err)
{
    int rc = io_publish(out, err);

    if (rc == 0 && !out->unsynced) {
        char *parent = io_parent(out->path);
        rc = io_fsync_path(parent, err);
        mem_free(parent);
    }
    io_abandon(out);
    return rc;
}

void io_abandon(struct io_out *out)
{
    if (out->temp && out->file)
        unlink(out->temp);
    else if (out->temp)
        io_remove_tree(out->temp, &(struct err){0});
    io_dir_leave(out);
}

int io_end(struct io_out *out, int rc, struct err *err)
{
    if (rc == 0)
        return io_commit(out, err);
    io_abandon(out);
    return rc;
}

int io_check_owner(const struct stat *st, const char *dir, const char *path, struct err *err)
{
    char *parent = dir ? mem_dup(dir) : io_parent(path), *probe = io_join(parent, "owner");
    int ours = st->st_uid == geteuid();
    struct io_out out;
    struct stat made;

    if (!ours && io_create(&out, probe, IO_FORCE, err) == 0) {
        ours = fstat(out.fd, &made) == 0 && made.st_uid == st->st_uid;
        io_abandon(&out);
    }
    mem_free(parent);
    mem_free(probe);
    return ours ? 0
                : err_set(err, ERR_INPUT, "'%s' belongs to user %u, expected user %u", path,
                          (unsigned)st->st_uid, (unsigned)geteuid());
}

/*
 * Checks before hours of writing that two folders can be exchanged atomically; otherwise (1)
 * the old one would be removed before the new one is in place.
 */
static int check_exchange(const struct io_out *dir, struct err *err)
{
    char *a = io_join(dir->temp, "a"), *b = io_join(dir->temp, "b"), *in = io_join(b, "in");
    struct stat st;
    struct statfs fs;
    int rc = 0;

    if (lstat(dir->path, &st) == 0) {
        if (mkdir(a, 0777) || mkdir(b, 0777) || mkdir(in, 0777))
            rc = err_sys(err, "cannot make a folder in '%s'", dir->temp);
        else
            rc = io_out_exchange(a, b, err);
        /*
         * overlayfs cannot rename folders of a lower layer, and reports this before it reports
         * a target folder that is not empty.
         */
        if (rc == 0 && statfs(dir->path, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC &&
            rename(dir->path, a) && errno == EXDEV)
            rc = 1;
        /* Remaining entries would end up in the new folder. */
        if (rc >= 0 && io_empty_dir(dir->fd, dir->temp, err))
            rc = -1;
    }
    MEM_FREE(a, b, in);
    return rc;
}

/*
 * Empties a killed writer's folder once no other user can enter it; keeps the folder itself,
 * which holds the lock.
 */
static int take_over(const struct io_out *dir, struct err *err)
{
    struct stat st;

    if (fstat(dir->fd, &st) || ((st.st_mode & 077) && fchmod(dir->fd, 0700)))
        return err_sys(err, "cannot restrict access to '%s'", dir->temp);
    return io_empty_dir(dir->fd, dir->temp, err);
}

/*
 * Finds the mode that mkdir gives here, with umask, set-group-ID bit and default ACL: folders
 * inside the temporary get it too.
 */
static int find_mode(struct io_out *dir, struct err *err)
{
    struct stat st;

    if (mkdirat(dir->fd, "mode", 0777) || fstatat(dir->fd, "mode", &st, AT_SYMLINK_NOFOLLOW) ||
        unlinkat(dir->fd, "mode", AT_REMOVEDIR))
        return err_sys(err, "cannot make a folder in '%s'", dir->temp);
    dir->mode = st.st_mode & 07777;
    return 0;
}

static int open_dir(struct io_out *dir, struct err *err)
{
    dir->fd = open(dir->temp, FOLDER);
    return dir->fd < 0 ? err_sys(err, "cannot open folder '%s'", dir->temp) : 0;
}

/* Never writes into another user's folder or removes its contents. */
static int hold_dir(struct io_out *dir, int made, struct err *err)
{
    struct stat st;

    if (open_dir(dir, err))
        return -1;
    if (fstat(dir->fd, &st))
        return err_sys(err, "cannot access '%s'", dir->temp);
    if (io_check_owner(&st, NULL, dir->temp, err))
        return err_suffix(err, ": remove it");
    return lock_temp(dir->fd, made, dir->temp, dir->path, err);
}

int io_dir_create(struct io_out *dir, const char *path, int how, struct err *err)
{
    struct io_out new;
    int cannot = 0;

    if (io_out_begin(&new, path, how, S_IFDIR, err))
        goto leave;
    int made = mkdir(new.temp, 0700) == 0;
    if (!made && errno != EEXIST) {
        err_sys(err, "cannot make folder '%s'", new.temp);
        goto leave;
    }
    if (hold_dir(&new, made, err))
        goto leave;
    if ((!made && take_over(&new, err)) || find_mode(&new, err) ||
        (how && (cannot = check_exchange(&new, err)) < 0))
        goto fail;
    if (cannot && !(how & IO_MAKE_WAY)) {
        err_set(err, ERR_SYS,
                "'%s' exists, and this file system cannot exchange it atomically: expected a "
                "new name, or to have it moved away first",
                new.path);
        goto fail;
    }
    new.in_the_way = cannot;
    *dir = new;
    return 0;
fail:
    io_abandon(&new);
leave:
    io_dir_leave(&new);
    return -1;
}

int io_dir_enter(struct io_out *dir, const char *path, int alone, struct err *err)
{
    *dir = (struct io_out){.fd = -1, .path = mem_dup(path), .temp = io_temp_name(path)};
    if ((alone ? hold_dir(dir, 0, err) : open_dir(dir, err)) == 0)
        return 0;
    io_dir_leave(dir);
    return -1;
}

void io_dir_leave(struct io_out *dir)
{
    if (dir->file)
        fclose(dir->file);
    else if (dir->fd >= 0)
        close(dir->fd);
    mem_free(dir->path);
    mem_free(dir->temp);
    *dir = (struct io_out){.fd = -1};
}

/* Opens the folder below `at` that contains the last component of *name; made: creates missing
   folders. */
static int walk_down(int at, char **name, int made)
{
    int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (char *slash; fd >= 0 && (slash = strchr(*name, '/')); *name = slash + 1) {
        *slash = 0;
        int bad = made && mkdirat(fd, *name, 0777) && errno != EEXIST;
        int below = bad ? -1 : openat(fd, *name, FOLDER);
        int why = errno;
        close(fd);
        errno = why;
        fd = below;
    }
    return fd;
}

/* A file that this process creates in its own folder has the folder's owner. */
static int check_made(const struct io_out *dir, int fd, struct err *err)
{
    struct stat a, b;

    if (fstat(dir->fd, &a) || fstat(fd, &b))
        return err_sys(err, "cannot access '%s'", dir->temp);
    if (a.st_uid != b.st_uid)
        return err_set(err, ERR_MISMATCH, "'%s' belongs to user %u, expected user %u",
                       dir->temp, (unsigned)a.st_uid, (unsigned)b.st_uid);
    return 0;
}

int io_dir_open(const struct io_out *dir, const char *path, int flags, mode_t mode, int *fd,
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

int io_dir_put(const struct io_out *dir, const char *name, const void *data, int64_t bytes,
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

int io_dir_take_text(const struct io_out *dir, const char *name, char *text, struct err *err)
{
    int rc = io_dir_put(dir, name, text, (int64_t)strlen(text), err);

    mem_free(text);
    return rc;
}
