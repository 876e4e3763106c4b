/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

/* Whole reads and writes: short ones and EINTR are carried on; an early end is ERR_INPUT. */
int io_size(int fd, int64_t *bytes, struct err *err);
int io_pread_all(int fd, void *to, int64_t bytes, int64_t offset, struct err *err);
int io_pwrite_all(int fd, const void *from, int64_t bytes, int64_t offset, struct err *err);
/*
 * Closes what was written and was not synced: a file system of the network may say only here
 * that it could not, and to nobody who opens the file again.
 */
int io_close(int fd, const char *name, struct err *err);
/*
 * Opens a file to read it, and tells its size (NULL: nobody asks).  It is a regular one: a
 * pipe, a socket, a device in its place is ERR_INPUT, and is not waited for.
 */
int io_open(const char *path, int *fd, int64_t *bytes, struct err *err);
/*
 * ERR_INPUT where the open file of so many bytes is a pointer of Git LFS, which a clone without
 * git-lfs has in the place of each large file.
 */
int io_check_pointer(int fd, const char *path, int64_t bytes, struct err *err);
/* io_open of a file that must have so many bytes (-1: any). */
int io_open_whole(const char *path, int64_t bytes, int *fd, struct err *err);
/* Which file was opened, so that another that gets its name is found out. */
struct io_id {
    dev_t device;
    ino_t inode; /* 0: none was opened */
};
/* io_open, which sets *id the first time; ERR_MISMATCH where it opened another file before. */
int io_open_same(const char *path, struct io_id *id, int *fd, int64_t *bytes, struct err *err);
struct stat;
int io_is_same(const struct io_id *id, const struct stat *is); /* 1, too, if none was opened */
/* A few files stay open by their numbers; another in the same slot closes the one before. */
enum { IO_KEPT_MAX = 64 };
struct io_kept { /* all 0: none is open */
    struct {
        int fd, number; /* from 1 on; 0: none */
    } slot[IO_KEPT_MAX];
};
/* The list's descriptor of a file, from number 0 on; -1: the caller opens it. */
int *io_kept(struct io_kept *k, int number);
void io_kept_close(struct io_kept *k);
/* A number of at most 8 bytes, little endian. */
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
 * A text from a file that a user names, or from stdin where path is "-", refused above `limit`
 * bytes; a pipe is read to its end (<(...) of a shell is one).  *text is owned by the caller
 * (mem_free), one 0 behind it.
 */
int io_read_text(const char *path, int64_t limit, char **text, int64_t *bytes, struct err *err);
/*
 * The same of what a folder has under a name that is ours: a regular file, "-" too.  `raise`:
 * the option that does so to the limit, to be named where one is met; NULL: there is none.
 */
int io_read_file(const char *path, int64_t limit, const char *raise, char **text,
                 int64_t *bytes, struct err *err);

/* The same of what is open, from where it stands on; `name` is for messages.  A pointer of
   Git LFS is ERR_INPUT, as by io_check_pointer. */
int io_read_all(int fd, const char *name, int64_t limit, const char *raise, char **text,
                int64_t *bytes, struct err *err);

/*
 * Files are written beside their target, fsynced, renamed, and the folder fsynced: a killed
 * command leaves the old file or the new one.  An existing target is refused without force.
 *
 *     struct io_out out;
 *     if (io_create(&out, path, force, err)) ...
 *     ... write out.fd (or out.file, which is the same file) ...
 *     if (io_commit(&out, err)) ...      or io_abandon(&out)
 *
 * The temporary is ".NAME.paro-tmp" beside the target: the next writer takes it over, so that
 * a killed one leaves no litter that stays.  A lock on it keeps two writers apart.
 */
struct io_out {
    int fd;         /* the temporary, locked */
    FILE *file;     /* the same file; NULL: it is a folder */
    int how;        /* IO_FORCE, IO_MAKE_WAY, IO_CLOSED */
    int unsynced;   /* set by who writes it again soon: a crash of the host may lose the file */
    mode_t mode;    /* which it gets at the commit; 0: it has it */
    int in_the_way; /* with IO_MAKE_WAY: path is better moved before the commit */
    char *path, *temp;
};

enum {
    IO_FORCE = 1,    /* an existing target is replaced */
    IO_MAKE_WAY = 2, /* a folder is, even where two names cannot change places: io_old_name */
    IO_CLOSED = 4    /* no other process opens, and so locks, a file before it is whole */
};

int io_create(struct io_out *out, const char *path, int how, struct err *err);
int io_commit(struct io_out *out, struct err *err);
void io_abandon(struct io_out *out);
int io_end(struct io_out *out, int rc, struct err *err); /* commits where rc is 0 */

/*
 * The same for a folder: files are put into dir->temp, then the folder is renamed whole (an
 * existing target is refused without force, and exchanged whole with it; the old one is
 * removed).  Until then nobody else may enter it; one that is there already and belongs to
 * another user is refused.
 */
int io_dir_create(struct io_out *dir, const char *path, int how, struct err *err);
/*
 * io_commit but for the last of it, which is the caller's: to sync the parent, and to remove
 * the old folder.  That is *dir then, locked, for io_abandon; dir->temp NULL: there was none.
 */
int io_publish(struct io_out *dir, struct err *err);
/*
 * The temporary of `path`, made by another process of this user: until io_dir_leave.  alone:
 * it is locked, and was left by one that was killed; ERR_ABSENT: there is none, ERR_MISMATCH:
 * another process has it.
 */
int io_dir_enter(struct io_out *dir, const char *path, int alone, struct err *err);
void io_dir_leave(struct io_out *dir);
/*
 * Opens dir->temp/...: from the folder's descriptor, whatever its name leads to by now, and
 * through no link.  With O_CREAT it is new, of that mode less the umask, in new folders, too.
 */
int io_dir_open(const struct io_out *dir, const char *path, int flags, mode_t mode, int *fd,
                struct err *err);
/* Writes a whole small file dir->temp/name, synced. */
int io_dir_put(const struct io_out *dir, const char *name, const void *data, int64_t bytes,
               struct err *err);
/* The same of a text up to its 0, which it takes. */
int io_dir_take_text(const struct io_out *dir, const char *name, char *text, struct err *err);

/*
 * Opens a log to add lines to it, made where it is absent; a regular one is readable, too.
 * It is no link, has no other name, and belongs to the effective user.  `special`: a pipe or a
 * device may be in its place, but neither a pipe nor a link of another user.
 */
int io_open_log(const char *path, int special, FILE **file, struct err *err);
/*
 * ERR_INPUT unless the owner is who owns what this process makes in the folder `dir` (NULL:
 * that of `path`): the effective user, or whom the file system gives it to (NFS with
 * root_squash, FAT).
 */
int io_check_owner(const struct stat *st, const char *dir, const char *path, struct err *err);

/* The path less slashes at its end; ERR_INPUT where it ends in no name of its own. */
int io_take_name(const char *path, char **out, struct err *err);
/* The temporary of a target, ".NAME.paro-tmp" beside it; owned by the caller. */
char *io_temp_name(const char *path);
/* ".NAME.old.paro-tmp": what makes way for it, until it is removed; owned by the caller. */
char *io_old_name(const char *path);
char *io_old_path(const char *path); /* the target whose temporary that is: "NAME.old" */

/*
 * Whether the file is known to be absent.  Returns 0 if unsure, so that the following open
 * reports the error.
 */
int io_absent(const char *path);
int io_has(const char *dir, const char *name);              /* not io_absent("dir/name") */
int io_fsync_fd(int fd, const char *name, struct err *err); /* a file or a folder */
int io_fsync_path(const char *path, struct err *err);
int io_remove_tree(const char *path,
                   struct err *err); /* absent is fine; links are not followed */
/* The names in a folder but "." and "..", sorted. */
struct io_names {
    int count;
    struct dirent **entry; /* [count] */
};
/* Reads the names in the open folder fd, which stays open, or (-1) in the one called
   `whole`. */
int io_names_read(struct io_names *n, int fd, const char *whole, struct err *err);
void io_names_free(struct io_names *n);
/*
 * The first line of a small file of a kernel's, which is not waited for; "" unless it is there.
 * The kernel refuses to report some values while a port is down, or does not know them (EINVAL,
 * EOPNOTSUPP): that is as good as no file.  A file that is there and cannot be read, or is
 * empty, tells nothing.
 */
enum io_answer { IO_THERE, IO_ABSENT, IO_BROKEN };
enum io_answer io_line(const char *path, char *line, size_t space);
enum io_answer io_why_not(int number); /* of errno */

/* Removes what is in the open folder fd; `whole` is its name, for messages. */
int io_empty_dir(int fd, const char *whole, struct err *err);
/*
 * Rejects a link or a pipe of another user than root and this one: it leads what is written
 * anywhere, or waits for a reader.
 */
int io_check_link(const char *path, struct err *err);
/*
 * Absent parents, too; an existing folder is fine, but not through another user's link.  *made
 * (or NULL): how many were made.
 */
int io_mkdir(const char *path, int *made, struct err *err);
/* "dir/name", owned by the caller. */
char *io_join(const char *dir, const char *name);
char *io_parent(const char *path); /* its folder, owned by the caller */
int io_ends_with(const char *name, const char *end);

/* Whether the open file is the one of that name (a link is not followed); -1: unknown. */
int io_has_name(int fd, const char *path, struct err *err);
/*
 * An exclusive lock on a file that is made if absent, and that nobody else may open;
 * ERR_MISMATCH when another process holds it, ERR_INPUT when it is another user's.
 */
int io_lock(const char *path, int *fd, struct err *err);

#endif
