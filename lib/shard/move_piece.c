/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how one piece gets from its file into the ring, and out of it into its files: by
 * slices that stay in the cache while they are summed, with the next path where one is
 * damaged, and as another type where that is wanted.
 */
#include "shard/move_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

enum {
    KEPT_PATHS = 100, /* open on either side: both fit below the usual limit of 1024 */
    SLICE_BYTES = 256 << 10,
    SLICE_ELEMS = SLICE_BYTES / 8 /* of any type, before and after */
};

/* --- paths --- */

static int open_path(const struct move_paths *p, int file, int path, int *fd, struct err *err)
{
    const char *name = p->file[file].path[path];

    return p->into ? io_dir_open(p->into, name, O_WRONLY, 0, fd, err)
                   : io_open_whole(name, p->file[file].bytes, fd, err);
}

int move_paths_open(struct move_paths *p, const struct moves_files *side,
                    const struct io_dir *into, int needed, struct err *err)
{
    const struct move_file *file = side->file;
    int files = side->files;

    *p = (struct move_paths){.file = file, .into = into};
    p->first = mem_new((size_t)files + 1, sizeof *p->first);
    for (int f = 0; f < files; f++)
        p->first[f + 1] = p->first[f] + file[f].paths;
    p->kept = p->first[files] < KEPT_PATHS ? (int)p->first[files] : KEPT_PATHS;
    p->fd = mem_new((size_t)p->kept, sizeof *p->fd);
    memset(p->fd, -1, (size_t)p->kept * sizeof *p->fd);
    for (int f = 0; f < files; f++)
        for (int k = 0; k < file[f].paths && p->first[f] + k < p->kept; k++)
            if (open_path(p, f, k, &p->fd[p->first[f] + k], err) && needed &&
                file[f].paths == 1)
                return -1;
    return 0;
}

void move_paths_close(struct move_paths *p)
{
    for (int i = 0; i < p->kept; i++)
        if (p->fd[i] >= 0)
            close(p->fd[i]);
    mem_free(p->fd);
    mem_free(p->first);
}

static int take_fd(const struct move_paths *p, int file, int path, int *fd, struct err *err)
{
    int64_t n = p->first[file] + path;

    if (n >= p->kept || p->fd[n] < 0)
        return open_path(p, file, path, fd, err);
    *fd = p->fd[n];
    return 0;
}

/* rc: what has happened to it so far.  Closing a written one may fail. */
static int give_fd(const struct move_paths *p, int file, int path, int fd, int rc,
                   struct err *err)
{
    int64_t n = p->first[file] + path;

    if (n < p->kept && p->fd[n] >= 0)
        return rc;
    if (rc == 0 && p->into)
        return io_close(fd, p->file[file].path[path], err);
    close(fd);
    return rc;
}

/* --- in --- */

/* The part of [at, at + left) that lies in one piece of the ring, cut at whole MOVE_UNIT. */
static char *ring_slice(const struct mover *m, int64_t at, int64_t left, int64_t *bytes)
{
    int64_t place = at % m->ring_bytes, n = m->ring_bytes - place;

    if (n > SLICE_BYTES)
        n = SLICE_BYTES - at % MOVE_UNIT;
    *bytes = n < left ? n : left;
    return m->ring + place;
}

/* Zeros that nobody has to read.  The place in the file that this moves is nobody's. */
static int is_hole(int fd, int64_t offset, int64_t bytes)
{
    off_t data = lseek(fd, offset, SEEK_DATA);

    return data < 0 ? errno == ENXIO : data >= offset + bytes;
}

static int fill_ring(struct mover *m, int64_t piece, int fd, void *sum, struct err *err)
{
    const struct move_from *f = &m->what->from[piece];
    int hole = m->holes && is_hole(fd, f->offset, f->bytes), rc = 0;

    if (!hole) /* else pages would be made of it all the same */
        posix_fadvise(fd, f->offset, f->bytes, POSIX_FADV_WILLNEED);
    for (int64_t done = 0, n; rc == 0 && done < f->bytes; done += n) {
        char *to = ring_slice(m, m->at[piece] + done, f->bytes - done, &n);
        if (hole)
            memset(to, 0, (size_t)n);
        else
            rc = io_pread_all(fd, to, n, f->offset + done, err);
        if (rc == 0 && sum)
            ckpt_hash_more(sum, to, n);
    }
    return rc;
}

static int read_path(struct mover *m, int64_t piece, int path, struct err *err)
{
    const struct move_from *f = &m->what->from[piece];
    const char *name = m->what->in.file[f->file].path[path];
    char hash[33] = "";
    int fd = -1;

    if (take_fd(&m->from, f->file, path, &fd, err))
        return -1;
    void *sum = f->hash ? ckpt_hash_begin() : NULL;
    int rc = fill_ring(m, piece, fd, sum, err);
    if (sum)
        ckpt_hash_end(sum, hash);
    if (give_fd(&m->from, f->file, path, fd, rc, err))
        return err_prefix(err, "%s: ", name);
    if (!f->hash || strcmp(hash, f->hash) == 0)
        return 0;
    if (m->what->ckpt)
        return ckpt_say_damaged(m->what->ckpt, &m->what->ckpt->block[f->id], name, hash, err);
    return err_mismatch(err, name, NULL,
                        "bytes [%" PRId64 ", %" PRId64 ") are damaged: checksum %s", f->offset,
                        f->offset + f->bytes, hash);
}

/* Any bytes of a piece, whose elements may lie over either end of them. */
static int make_bytes(const struct moves *m, const struct move_from *f, int64_t first,
                      int64_t bytes, char *out, struct err *err)
{
    int64_t lo = first / f->width, hi = (first + bytes + f->width - 1) / f->width;

    if (lo * f->width == first && hi * f->width == first + bytes && (uintptr_t)out % 8 == 0)
        return m->make(m->arg, f->id, f->first + lo, hi - lo, out, err);
    char *whole = mem_new((size_t)(hi - lo), (size_t)f->width);
    int rc = m->make(m->arg, f->id, f->first + lo, hi - lo, whole, err);
    if (rc == 0)
        memcpy(out, whole + first - lo * f->width, (size_t)bytes);
    mem_free(whole);
    return rc;
}

static int make_piece(struct mover *m, int64_t piece, struct err *err)
{
    const struct move_from *f = &m->what->from[piece];
    int rc = 0;

    pthread_mutex_lock(&m->call);
    for (int64_t done = 0, n; rc == 0 && done < f->bytes; done += n) {
        char *to = ring_slice(m, m->at[piece] + done, f->bytes - done, &n);
        rc = make_bytes(m->what, f, done, n, to, err);
    }
    pthread_mutex_unlock(&m->call);
    return rc;
}

/* Of those that healed, the first piece's damage is reported, whichever thread was first. */
static void note_healed(struct mover *m, int64_t piece, const struct err *damage)
{
    pthread_mutex_lock(&m->call);
    if (m->what->healed++ == 0 || piece < m->damaged_piece) {
        m->damaged_piece = piece;
        m->what->damage = *damage;
    }
    pthread_mutex_unlock(&m->call);
}

static int give_up(struct mover *m, int64_t piece, struct err *err)
{
    const struct move_from *f = &m->what->from[piece];
    int rc = -1;

    if (!m->what->lost || err->scarce)
        return -1;
    pthread_mutex_lock(&m->call);
    rc = m->what->lost(m->what->arg, f->file, f->id, err);
    pthread_mutex_unlock(&m->call);
    if (rc)
        return -1;
    m->lost[piece] = 1;
    for (int64_t done = 0, n; done < f->bytes; done += n) {
        char *to = ring_slice(m, m->at[piece] + done, f->bytes - done, &n);
        memset(to, 0, (size_t)n);
    }
    return 0;
}

int move_read_piece(struct mover *m, int64_t piece, struct err *err)
{
    const struct move_from *f = &m->what->from[piece];
    int paths = f->file < 0 ? 1 : m->what->in.file[f->file].paths, rc = -1;
    struct err damage = {0};

    /* Copies are read in turns: their disks share the work. */
    for (int k = 0; rc && !damage.scarce && k < paths; k++) {
        rc = f->file < 0 ? make_piece(m, piece, err)
                         : read_path(m, piece, (int)((piece + k) % paths), err);
        if (rc == 0 && k > 0)
            note_healed(m, piece, &damage);
        if (rc) /* for want of files or memory: that says nothing of the path */
            damage = *err;
    }
    return rc ? give_up(m, piece, err) : 0;
}

/* --- out --- */

/* The piece of `from` that is this one, byte for byte and checked, or NULL. */
static const struct move_from *same_piece(const struct mover *m, const struct move_to *t)
{
    int64_t lo = 0, hi = m->what->froms;

    if (t->type != t->want || t->bytes == 0)
        return NULL;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (m->at[mid] <= t->at)
            lo = mid;
        else
            hi = mid;
    }
    int same = m->at[lo] == t->at && m->what->from[lo].bytes == t->bytes;
    return same && m->what->from[lo].hash && !m->lost[lo] ? &m->what->from[lo] : NULL;
}

static int write_slice(const struct mover *m, int fd, void *sum, const char *from, int64_t n,
                       int64_t offset, struct err *err)
{
    int zero = m->holes && from[0] == 0 && memcmp(from, from + 1, (size_t)n - 1) == 0;

    if (sum)
        ckpt_hash_more(sum, from, n);
    return zero ? 0 : io_pwrite_all(fd, from, n, offset, err);
}

static int drain_ring(const struct mover *m, const struct move_to *t, int fd, void *sum,
                      struct err *err)
{
    int rc = 0;

    for (int64_t done = 0, n; rc == 0 && done < t->bytes; done += n) {
        const char *from = ring_slice(m, t->at + done, t->bytes - done, &n);
        rc = write_slice(m, fd, sum, from, n, t->offset + done, err);
    }
    return rc;
}

/* An element may lie over the end of the ring, or where its type may not: taken out first. */
static int drain_converted(const struct mover *m, const struct move_to *t, int fd, void *sum,
                           struct err *err)
{
    int64_t is = dtype_bytes(t->type), wants = dtype_bytes(t->want), elems = t->bytes / is;
    char *raw = mem_new(SLICE_ELEMS, (size_t)is), *out = mem_new(SLICE_ELEMS, (size_t)wants);
    int rc = 0;

    for (int64_t done = 0, count; rc == 0 && done < elems; done += count) {
        count = elems - done < SLICE_ELEMS ? elems - done : SLICE_ELEMS;
        for (int64_t got = 0, n; got < count * is; got += n) {
            const char *from = ring_slice(m, t->at + done * is + got, count * is - got, &n);
            memcpy(raw + got, from, (size_t)n);
        }
        dtype_convert(out, t->want, raw, t->type, count);
        rc = write_slice(m, fd, sum, out, count * wants, t->offset + done * wants, err);
    }
    mem_free(raw);
    mem_free(out);
    return rc;
}

static int write_path(struct mover *m, const struct move_to *t, int path, void *sum,
                      struct err *err)
{
    int64_t bytes =
        t->type == t->want ? t->bytes : t->bytes / dtype_bytes(t->type) * dtype_bytes(t->want);
    int fd = -1;

    if (take_fd(&m->to, t->file, path, &fd, err))
        return -1;
    int rc = t->type == t->want ? drain_ring(m, t, fd, sum, err)
                                : drain_converted(m, t, fd, sum, err);
    if (rc)
        err_prefix(err, "%s: ", m->what->out.file[t->file].path[path]);
    else
        ckpt_flush(fd, t->offset, bytes);
    return give_fd(&m->to, t->file, path, fd, rc, err);
}

/*
 * All data passes through memory to be summed, so copy_file_range could do for paths after the
 * first alone.  It is not faster there, and where files can share blocks a copy would be none.
 */
int move_write_piece(struct mover *m, int64_t piece, struct err *err)
{
    const struct move_to *t = &m->what->to[piece];
    const struct move_from *same = t->hash ? same_piece(m, t) : NULL;
    void *sum = t->hash && !same ? ckpt_hash_begin() : NULL;
    int rc = 0;

    for (int k = 0; rc == 0 && k < m->what->out.file[t->file].paths; k++)
        rc = write_path(m, t, k, k == 0 ? sum : NULL, err);
    if (sum)
        ckpt_hash_end(sum, t->hash);
    else if (same)
        memcpy(t->hash, same->hash, 33);
    return rc;
}

int move_sync_path(struct mover *m, int64_t number, struct err *err)
{
    int file = 0, fd = -1, rc = 0;

    while (m->to.first[file + 1] <= number)
        file++;
    int path = (int)(number - m->to.first[file]);
    if (take_fd(&m->to, file, path, &fd, err))
        return -1;
    if (fsync(fd))
        rc = err_sys(err, "cannot write '%s'", m->what->out.file[file].path[path]);
    return give_fd(&m->to, file, path, fd, rc, err);
}
