/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes completely, lists folders, locks, and joins paths.  Leaves publishing to
   io_out.c. */
#include "base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tick.h"

int io_size(int fd, int64_t *bytes, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st))
        return err_sys(err, "cannot read the size");
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INPUT, "is not a regular file");
    *bytes = st.st_size;
    return 0;
}

int io_open(const char *path, int *fd, int64_t *bytes, struct err *err)
{
    int64_t size = 0;
    int new;

    do /* a pipe must not block */
        new = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (new < 0 && errno == EINTR);
    if (new < 0 && errno == ENXIO) /* a socket, or a missing device */
        return err_set(err, ERR_INPUT, "%s: is not a regular file", path);
    if (new < 0)
        return err_sys(err, "cannot open '%s'", path);
    if (io_size(new, &size, err)) {
        close(new);
        return err_prefix(err, "%s: ", path);
    }
    *fd = new;
    if (bytes)
        *bytes = size;
    return 0;
}

int io_open_whole(const char *path, int64_t bytes, int *fd, struct err *err)
{
    int64_t is = 0;
    int new = -1;

    if (io_open(path, &new, &is, err))
        return -1;
    if (bytes >= 0 && is != bytes) {
        if (io_check_pointer(new, path, is, err) == 0)
            err_at(err, path, 0, NULL, "has %" PRId64 " bytes, expected %" PRId64, is, bytes);
        close(new);
        return -1;
    }
    *fd = new;
    return 0;
}

int io_is_same(const struct io_id *id, const struct stat *is)
{
    return !id->inode || (id->device == is->st_dev && id->inode == is->st_ino);
}

int io_open_same(const char *path, struct io_id *id, int *fd, int64_t *bytes, struct err *err)
{
    struct stat is;
    int new = -1, rc;

    if (io_open(path, &new, bytes, err))
        return -1;
    rc = fstat(new, &is) ? err_sys(err, "cannot read '%s'", path) : 0;
    if (rc == 0 && !io_is_same(id, &is))
        rc = err_set(err, ERR_MISMATCH, "'%s' changed while it was read", path);
    if (rc) {
        close(new);
        return -1;
    }
    *id = (struct io_id){is.st_dev, is.st_ino};
    *fd = new;
    return 0;
}

static void close_kept(struct io_kept *k, int slot)
{
    if (k->slot[slot].number && k->slot[slot].fd >= 0)
        close(k->slot[slot].fd);
}

int *io_kept(struct io_kept *k, int number)
{
    int i = number % IO_KEPT_MAX;

    if (k->slot[i].number != number + 1) {
        close_kept(k, i);
        k->slot[i].fd = -1;
        k->slot[i].number = number + 1;
    }
    return &k->slot[i].fd;
}

void io_kept_close(struct io_kept *k)
{
    for (int i = 0; i < IO_KEPT_MAX; i++)
        close_kept(k, i);
    *k = (struct io_kept){0};
}

int io_pread_all(int fd, void *to, int64_t bytes, int64_t offset, struct err *err)
{
    int64_t done = 0;

    while (done < bytes) {
        ssize_t n = pread(fd, (char *)to + done, (size_t)(bytes - done), offset + done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "cannot read %" PRId64 " bytes at %" PRId64, bytes, offset);
        if (n == 0)
            return err_set(err, ERR_INPUT, "ends at byte %" PRId64 ", expected %" PRId64,
                           offset + done, offset + bytes);
        done += n;
    }
    return 0;
}

int io_pwrite_all(int fd, const void *from, int64_t bytes, int64_t offset, struct err *err)
{
    int64_t done = 0;

    while (done < bytes) {
        ssize_t n =
            pwrite(fd, (const char *)from + done, (size_t)(bytes - done), offset + done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO; /* the file system wrote nothing and reported no error */
        if (n <= 0)
            return err_sys(err, "cannot write %" PRId64 " bytes at %" PRId64, bytes, offset);
        done += n;
    }
    return 0;
}

int io_close(int fd, const char *name, struct err *err)
{
    /* After EINTR the file is closed too, and its data is still being written. */
    return close(fd) && errno != EINTR ? err_sys(err, "cannot write '%s'", name) : 0;
}

void io_put_le64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

/* A pointer is shorter than 1024 bytes (docs/spec.md of git-lfs). */
static int refuse_pointer(const char *name, const char *text, int64_t bytes, struct err *err)
{
    static const char first[] = "version https://git-lfs.github.com/spec/v1\n";

    if (bytes >= 1024 || bytes < (int64_t)sizeof first || memcmp(text, first, sizeof first - 1))
        return 0;
    return err_set(err, ERR_INPUT,
                   "'%s' is a Git LFS pointer, expected the file itself ('git lfs pull' "
                   "fetches it)",
                   name);
}

int io_check_pointer(int fd, const char *path, int64_t bytes, struct err *err)
{
    char text[64] = "";

    if (io_pread_all(fd, text, bytes < 64 ? bytes : 64, 0, err))
        return err_prefix(err, "%s: ", path);
    return refuse_pointer(path, text, bytes, err);
}

int io_read_all(int fd, const char *name, int64_t limit, const char *raise, char **text,
                int64_t *bytes, struct err *err)
{
    char *buf = NULL;
    size_t space = 0;
    int64_t used = 0;
    int rc = -1;

    for (;;) {
        buf = mem_grow(buf, &space, (size_t)used + 65536, 1);
        ssize_t n = read(fd, buf + used, space - (size_t)used - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err_sys(err, "cannot read '%s'", name);
            goto done;
        }
        if (n == 0)
            break;
        used += n;
        if (used > limit) {
            err_set(err, ERR_INPUT, "'%s' has more than %" PRId64 " bytes%s%s%s", name, limit,
                    raise ? " (" : "", raise ? raise : "", raise ? ")" : "");
            goto done;
        }
    }
    buf[used] = 0;
    if (refuse_pointer(name, buf, used, err))
        goto done;
    *text = buf;
    *bytes = used;
    buf = NULL;
    rc = 0;
done:
    mem_free(buf);
    return rc;
}

int io_read_text(const char *path, int64_t limit, char **text, int64_t *bytes, struct err *err)
{
    int std = strcmp(path, "-") == 0;
    int fd = std ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    const char *name = std ? "stdin" : path;

    if (fd < 0)
        return err_sys(err, "cannot open '%s'", name);
    int rc = io_read_all(fd, name, limit, NULL, text, bytes, err);
    if (!std)
        close(fd);
    return rc;
}

int io_read_file(const char *path, int64_t limit, const char *raise, char **text,
                 int64_t *bytes, struct err *err)
{
    int fd = -1;

    if (io_open(path, &fd, NULL, err))
        return -1;
    int rc = io_read_all(fd, path, limit, raise, text, bytes, err);
    close(fd);
    return rc;
}

int io_absent(const char *path)
{
    struct stat st;

    return stat(path, &st) && (errno == ENOENT || errno == ENOTDIR);
}

int io_has(const char *dir, const char *name)
{
    char *path = io_join(dir, name);
    int absent = io_absent(path);

    mem_free(path);
    return !absent;
}

int io_fsync_fd(int fd, const char *name, struct err *err)
{
    int rc = fsync(fd);

    /* Some file systems reject fsync on a folder; there is no alternative for them. */
    return rc && errno != EINVAL ? err_sys(err, "cannot sync '%s'", name) : 0;
}

int io_fsync_path(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_sys(err, "cannot open '%s'", path);
    int rc = io_fsync_fd(fd, path, err);
    close(fd);
    return rc;
}

int io_ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

char *io_join(const char *dir, const char *name)
{
    size_t a = strlen(dir), b = strlen(name);
    char *path = mem_new(a + b + 2, 1);
    int slash = a > 0 && dir[a - 1] != '/';

    memcpy(path, dir, a);
    if (slash)
        path[a] = '/';
    memcpy(path + a + slash, name, b + 1);
    return path;
}

char *io_program_path(const char *relative)
{
    char self[4000];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    return io_join(self, relative);
}

char *io_parent(const char *path)
{
    char *copy = mem_dup(path);
    char *dir = mem_dup(dirname(copy));

    mem_free(copy);
    return dir;
}

static int is_name(const struct dirent *e)
{
    return strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
}

int io_names_read(struct io_names *n, int fd, const char *whole, struct err *err)
{
    int found = -1;

    *n = (struct io_names){0};
    found =
        scandirat(fd < 0 ? AT_FDCWD : fd, fd < 0 ? whole : ".", &n->entry, is_name, alphasort);
    if (found < 0)
        return err_sys(err, "cannot read folder '%s'", whole);
    n->count = found;
    return 0;
}

void io_names_free(struct io_names *n)
{
    for (int i = 0; i < n->count; i++)
        free(n->entry[i]);
    free(n->entry);
    *n = (struct io_names){0};
}

static int remove_at(int at, const char *name, const char *whole, struct err *err)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return err_sys(err, "cannot remove '%s'", whole);
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "cannot open '%s'", whole);
    int rc = io_empty_dir(fd, whole, err);
    close(fd);
    if (rc == 0 && unlinkat(at, name, AT_REMOVEDIR))
        rc = err_sys(err, "cannot remove '%s'", whole);
    return rc;
}

int io_empty_dir(int fd, const char *whole, struct err *err)
{
    struct io_names all;
    struct err later; /* only the first error is reported; removal continues */
    int rc = io_names_read(&all, fd, whole, err);

    for (int i = 0; i < all.count; i++)
        if (remove_at(fd, all.entry[i]->d_name, whole, rc ? &later : err))
            rc = -1;
    io_names_free(&all);
    return rc;
}

int io_remove_tree(const char *path, struct err *err)
{
    return remove_at(AT_FDCWD, path, path, err);
}

int io_check_link(const char *path, struct err *err)
{
    struct stat st;

    if (lstat(path, &st) || (!S_ISLNK(st.st_mode) && !S_ISFIFO(st.st_mode)) || !st.st_uid)
        return 0;
    return io_check_owner(&st, NULL, path, err);
}

int io_mkdir(const char *path, int *made, struct err *err)
{
    char *part = mem_dup(path);
    int rc = 0, n = 0;

    for (char *p = part + (*part != 0); rc == 0; p++) {
        char was = *p;
        if (was != '/' && was != 0)
            continue;
        *p = 0;
        if (io_check_link(part, err))
            rc = -1;
        else if (mkdir(part, 0777) == 0)
            n++;
        else if (errno != EEXIST)
            rc = err_sys(err, "cannot make folder '%s'", part);
        *p = was;
        if (was == 0)
            break;
    }
    mem_free(part);
    if (made)
        *made = n;
    struct stat st;
    if (rc == 0 && (stat(path, &st) || !S_ISDIR(st.st_mode)))
        rc = err_set(err, ERR_INPUT, "'%s' exists and is not a folder", path);
    return rc;
}

int io_has_name(int fd, const char *path, struct err *err)
{
    struct stat a, b;

    if (fstat(fd, &a))
        return err_sys(err, "cannot access '%s'", path);
    if (lstat(path, &b))
        return errno == ENOENT ? 0 : err_sys(err, "cannot access '%s'", path);
    return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

enum { LOCK_TRIES = 20 };
static const double lock_s = 0.01; /* between two of them */

/* Another user who can open the file could lock it. */
static int take_lock(int fd, const char *path, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st))
        return err_sys(err, "cannot access '%s'", path);
    if (io_check_owner(&st, NULL, path, err))
        return err_prefix(err, "lock ");
    if ((st.st_mode & 077) && fchmod(fd, 0600))
        return err_sys(err, "cannot set the mode of '%s'", path);
    /* A process that looks whether it is held, as paro-report does, has it for an instant. */
    for (int tries = 1; flock(fd, LOCK_EX | LOCK_NB); tries++) {
        if (errno != EWOULDBLOCK)
            return err_sys(err, "cannot lock '%s'", path);
        if (tries == LOCK_TRIES)
            return err_set(err, ERR_MISMATCH, "'%s' is held by another process", path);
        tick_sleep_s(lock_s);
    }
    return 0;
}

int io_lock(const char *path, int *fd, struct err *err)
{
    for (;;) {
        int new = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (new < 0)
            return err_sys(err, "cannot open lock '%s'", path);
        /* The previous holder may have removed the file meanwhile: a lock on an unlinked file
           excludes nobody. */
        int same = take_lock(new, path, err) ? -1 : io_has_name(new, path, err);
        if (same == 1) {
            *fd = new;
            return 0;
        }
        close(new);
        if (same < 0)
            return -1;
    }
}

int io_open_log(const char *path, int special, FILE **file, struct err *err)
{
    struct stat st;
    int flags = O_APPEND | O_CLOEXEC, rc = 0;

    special = special && stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    if (special && io_check_link(path, err))
        return err_prefix(err, "log ");
    flags |= special ? O_WRONLY : O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK;
    int fd = open(path, flags, 0666);
    if (fd < 0 || fstat(fd, &st))
        rc = err_sys(err, "cannot open log '%s'", path);
    else if ((!S_ISREG(st.st_mode)) != special)
        rc = err_set(err, ERR_INPUT, "log '%s' is not a regular file", path);
    else if (!special && (st.st_nlink != 1 || io_check_owner(&st, NULL, path, err)))
        rc = err_set(err, ERR_MISMATCH,
                     "log '%s' belongs to user %u and has %u names, expected user %u and one",
                     path, (unsigned)st.st_uid, (unsigned)st.st_nlink, (unsigned)geteuid());
    else if (!(*file = fdopen(fd, special ? "a" : "a+")))
        rc = err_sys(err, "cannot open log '%s'", path);
    if (rc && fd >= 0)
        close(fd);
    return rc;
}

/* ---- files of the kernel ---- */

enum io_answer io_why_not(int number)
{
    static const int absent[] = {ENOENT, ENOTDIR, ENODEV, EINVAL, EOPNOTSUPP, ENETDOWN};

    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (number == absent[i])
            return IO_ABSENT;
    return IO_BROKEN;
}

enum io_answer io_line(const char *path, char *line, size_t space)
{
    line[0] = 0;
    /* Does not wait for a writer: the file may be a pipe. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return io_why_not(errno);
    ssize_t got = read(fd, line, space - 1);
    enum io_answer why = got < 0 ? io_why_not(errno) : IO_THERE;
    close(fd);
    line[got > 0 ? got : 0] = 0;
    line[strcspn(line, "\n")] = 0;
    return why == IO_THERE && !line[0] ? IO_BROKEN : why;
}
