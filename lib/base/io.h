/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

/* Whole reads and writes: repeated after short ones and EINTR; an early end of file is
   ERR_INPUT. */
int io_size(int fd, int64_t *bytes, struct err *err);
int io_pread_all(int fd, void *to, int64_t bytes, int64_t offset, struct err *err);
int io_pwrite_all(int fd, const void *from, int64_t bytes, int64_t offset, struct err *err);
/*
 * Closes a file that was written but not synced.  A network file system may report a write
 * error only here, and not to later readers.
 */
int io_close(int fd, const char *name, struct err *err);
/*
 * Opens a regular file for reading and returns its size (bytes may be NULL).  ERR_INPUT for a
 * pipe, a socket or a device, without blocking.
 */
int io_open(const char *path, int *fd, int64_t *bytes, struct err *err);
/*
 * ERR_INPUT if the open file of `bytes` bytes is a pointer of Git LFS, which a clone without
 * git-lfs has in place of each large file.
 */
int io_check_pointer(int fd, const char *path, int64_t bytes, struct err *err);
/* io_open of a file that must have this size (-1: any). */
int io_open_whole(const char *path, int64_t bytes, int *fd, struct err *err);
/* Identity of an opened file, to detect that its name leads to another file. */
struct io_id {
    dev_t device;
    ino_t inode; /* 0: no file was opened */
};
/* io_open that sets *id the first time; later ERR_MISMATCH if it opens another file. */
int io_open_same(const char *path, struct io_id *id, int *fd, int64_t *bytes, struct err *err);
struct stat;
/* Also 1 if no file was opened */
int io_is_same(const struct io_id *id, const struct stat *is);
/* Keeps a few files open by their numbers; a new file in a slot closes the previous one. */
enum { IO_KEPT_MAX = 64 };
struct io_kept { /* initialize with 0 */
    struct {
        int fd, number; /* from 1 on; 0: none */
    } slot[IO_KEPT_MAX];
};
/* The stored descriptor of a file, numbered from 0; -1: the caller opens the file and stores
   it. */
int *io_kept(struct io_kept *k, int number);
void io_kept_close(struct io_kept *k);
/* Reads a number of at most 8 bytes, little-endian. */
static inline uint64_t io_le(const void *p, int bytes)
{
    uint64_t v = 0;

    while (bytes-- > 0)
        v = v << 8 | ((const unsigned char *)p)[bytes];
    return v;
}
static inline uint64_t io_le64(const unsigned char *p)
{
    return io_le(p, 8);
}
void io_put_le64(unsigned char *p, uint64_t v);

/*
 * Reads a text from a file that a user names, or from stdin if path is "-"; an error above
 * `limit` bytes.  A pipe, such as the shell's <(...), is read to its end.  *text is owned by
 * the caller (mem_free) and ends with a 0.
 */
int io_read_text(const char *path, int64_t limit, char **text, int64_t *bytes, struct err *err);
/*
 * As io_read_text, for a file whose name the program chose: a regular file; "-" is a file name.
 * `raise`: the option that raises the limit, for the error; NULL: none.
 */
int io_read_file(const char *path, int64_t limit, const char *raise, char **text,
                 int64_t *bytes, struct err *err);

/* As io_read_file, from the current position of an open file; `name` is for messages.  A
   pointer of Git LFS is ERR_INPUT, as in io_check_pointer. */
int io_read_all(int fd, const char *name, int64_t limit, const char *raise, char **text,
                int64_t *bytes, struct err *err);

/*
 * Writes a file next to its target, fsyncs and renames it, and fsyncs the folder: a killed
 * command leaves the old file or the new one.  An existing target is rejected without IO_FORCE.
 *
 *     struct io_out out;
 *     if (io_create(&out, path, force, err)) ...
 *     ... write out.fd (or out.file, which is the same file) ...
 *     if (io_commit(&out, err)) ...      or io_abandon(&out)
 *
 * The temporary is ".NAME.paro-tmp" in the target's folder.  A later writer reuses one left by
 * a killed writer.  A lock on it excludes concurrent writers.
 */
struct io_out {
    int fd;         /* the temporary, locked */
    FILE *file;     /* the same file as a stream; NULL for a folder */
    int how;        /* IO_FORCE, IO_MAKE_WAY, IO_CLOSED */
    int unsynced;   /* set by callers that rewrite the file soon: a host crash may lose it */
    mode_t mode;    /* mode set at the commit; 0: already set */
    int in_the_way; /* with IO_MAKE_WAY: the old folder must be moved away before the commit */
    char *path, *temp;
};

enum {
    IO_FORCE = 1, /* an existing target is replaced */
    /* Also a folder, on file systems without atomic exchange: see io_old_name */
    IO_MAKE_WAY = 2,
    IO_CLOSED = 4 /* no other process can open, and so lock, a file before it is complete */
};

int io_create(struct io_out *out, const char *path, int how, struct err *err);
int io_commit(struct io_out *out, struct err *err);
void io_abandon(struct io_out *out);
/* Commits if rc is 0, else abandons; returns the result */
int io_end(struct io_out *out, int rc, struct err *err);

/*
 * The same for a folder: put files into dir->temp, then io_commit renames the whole folder.  An
 * existing target is rejected without force; with force it is exchanged atomically and then
 * removed.  Before the commit only this user may enter the folder; one that exists already and
 * belongs to another user is rejected.
 */
int io_dir_create(struct io_out *dir, const char *path, int how, struct err *err);
/*
 * io_commit without its last part: the caller syncs the parent and removes the old folder.
 * *dir is then the old folder, locked, for io_abandon; dir->temp NULL: there was none.
 */
int io_publish(struct io_out *dir, struct err *err);
/*
 * Enters the temporary of `path` made by another process of this user, until io_dir_leave.
 * alone: locks it; it must be a leftover of a killed process.  ERR_ABSENT: there is none;
 * ERR_MISMATCH: another process holds it.
 */
int io_dir_enter(struct io_out *dir, const char *path, int alone, struct err *err);
void io_dir_leave(struct io_out *dir);
/*
 * Opens dir->temp/path relative to the folder's descriptor, even if the folder was renamed, and
 * without following links.  With O_CREAT creates the file with this mode less the umask, and
 * missing folders.
 */
int io_dir_open(const struct io_out *dir, const char *path, int flags, mode_t mode, int *fd,
                struct err *err);
/* Writes a complete small file dir->temp/name, synced. */
int io_dir_put(const struct io_out *dir, const char *name, const void *data, int64_t bytes,
               struct err *err);
/* io_dir_put of a string, which it frees. */
int io_dir_take_text(const struct io_out *dir, const char *name, char *text, struct err *err);

/*
 * Opens a log for appending, created if absent; a regular file is also readable.  It must not
 * be a link or have other names, and must belong to the effective user.  `special`: also
 * accepts a pipe or device, but not a pipe or link of another user.
 */
int io_open_log(const char *path, int special, FILE **file, struct err *err);
/*
 * ERR_INPUT unless the file's owner is the owner of files that this process creates in `dir`
 * (NULL: the folder of `path`): the effective user, or the user that the file system assigns
 * (NFS with root_squash, FAT).
 */
int io_check_owner(const struct stat *st, const char *dir, const char *path, struct err *err);

/* The path without final slashes; ERR_INPUT if it does not end in a name. */
int io_take_name(const char *path, char **out, struct err *err);
/* The temporary of a target, ".NAME.paro-tmp" in its folder; owned by the caller. */
char *io_temp_name(const char *path);
/* ".NAME.old.paro-tmp": the previous target until it is removed; owned by the caller. */
char *io_old_name(const char *path);
char *io_old_path(const char *path); /* the target with that temporary: "NAME.old" */

/*
 * Whether the file is known to be absent.  Returns 0 if unsure, so that the following open
 * reports the error.
 */
int io_absent(const char *path);
int io_has(const char *dir, const char *name);              /* !io_absent("dir/name") */
int io_fsync_fd(int fd, const char *name, struct err *err); /* a file or a folder */
int io_fsync_path(const char *path, struct err *err);
int io_remove_tree(const char *path,
                   struct err *err); /* no error if absent; does not follow links */
/* The names in a folder except "." and "..", sorted. */
struct io_names {
    int count;
    struct dirent **entry; /* [count] */
};
/* Reads the names in the open folder fd, which stays open, or with fd -1 in the folder named
   `whole`. */
int io_names_read(struct io_names *n, int fd, const char *whole, struct err *err);
void io_names_free(struct io_names *n);
/*
 * Reads the first line of a small kernel file, without blocking; "" unless IO_THERE.
 * IO_ABSENT: the file does not exist, or the kernel has no value (EINVAL, EOPNOTSUPP), such as
 * while a port is down.  IO_BROKEN: it cannot be read, or is empty.
 */
enum io_answer { IO_THERE, IO_ABSENT, IO_BROKEN };
enum io_answer io_line(const char *path, char *line, size_t space);
enum io_answer io_why_not(int number); /* number: a value of errno */

/* Removes the contents of the open folder fd; `whole` is its name, for messages. */
int io_empty_dir(int fd, const char *whole, struct err *err);
/*
 * Rejects a link or pipe that belongs to a user other than root and this one: a link could
 * redirect the output, a pipe would wait for a reader.
 */
int io_check_link(const char *path, struct err *err);
/*
 * Creates a folder and missing parents.  An existing folder is accepted, except through another
 * user's link.  *made (or NULL): number of folders created.
 */
int io_mkdir(const char *path, int *made, struct err *err);
/* "dir/name", owned by the caller. */
char *io_join(const char *dir, const char *name);
/* A path relative to the folder of the running program; owned by the caller. */
char *io_program_path(const char *relative);
char *io_parent(const char *path); /* the path's folder, owned by the caller */
int io_ends_with(const char *name, const char *end);

/* Whether the open file is still the one with this name (links are not followed); -1:
   unknown. */
int io_has_name(int fd, const char *path, struct err *err);
/*
 * Takes an exclusive lock on a file, which is created if absent and readable only by this user.
 * ERR_MISMATCH if another process holds it, ERR_INPUT if it belongs to another user.
 */
int io_lock(const char *path, int *fd, struct err *err);

#endif
