/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes a plan of moves.  Threads take its units in order.  A unit is a piece of `from` that
 * has a checksum, or the part of a piece without checksum that goes to a single piece of `to`.
 *
 *     from   |    a     |    b     |  c, no checksum  |
 *     to     |  A  |    B    |     |   C    |    D    |
 *     units  |    0     |    1     |   2    |    3    |
 *
 * A unit is copied in slices, which stay in the cache while they are hashed and written.  Its
 * checksum is known when all of it is written: if it is wrong, the unit is copied again from
 * the next path; after the last path the new files are abandoned.  A piece of `to` inside one
 * unit is hashed while it is copied; a piece in several units, as B, is read back by the thread
 * that completes it, while it is in memory.
 */
#include "shard/shard_moves.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

enum {
    KEPT_PATHS = 100, /* open files on each side: both fit below the usual limit of 1024 */
    SLICE_BYTES = 256 << 10,
    SLICE_LEAST = 4 << 10, /* a multiple of every element size and of SLICE_UNIT */
    SLICE_UNIT = 64,
    /* Slices of a thread's buffer: one is read, and converted from 2 bytes to at most 8 */
    SLICES = 5,
    UNIT_BYTES = 32 << 20,
    SMALL_STACK = 256 << 10
};

/* --- paths --- */

/* All paths of a side; the first ones stay open. */
struct paths {
    const struct moves_files *files;
    const struct io_out *into; /* folder for writing; NULL: reading */
    int fd[KEPT_PATHS];        /* -1: not open */
};

static const char *path_name(const struct paths *p, int file, int path)
{
    return p->files->path[p->files->file[file].first + path];
}

static int open_path(const struct paths *p, int file, int path, int *fd, struct err *err)
{
    const char *name = path_name(p, file, path);

    return p->into ? io_dir_open(p->into, name, O_RDWR, 0, fd, err)
                   : io_open_whole(name, p->files->file[file].bytes, fd, err);
}

/* needed: a file whose only path cannot be opened is an error now, not when it is read. */
static int open_paths(struct paths *p, int needed, struct err *err)
{
    const struct move_file *f = p->files->file;

    for (int i = 0; i < p->files->files; i++)
        for (int k = 0; k < f[i].paths && f[i].first + k < KEPT_PATHS; k++)
            if (open_path(p, i, k, &p->fd[f[i].first + k], err) && needed && f[i].paths == 1)
                return -1;
    return 0;
}

static int take_fd(const struct paths *p, int file, int path, int *fd, struct err *err)
{
    int64_t n = p->files->file[file].first + path;

    if (n >= KEPT_PATHS || p->fd[n] < 0)
        return open_path(p, file, path, fd, err);
    *fd = p->fd[n];
    return 0;
}

/* rc: the result so far.  Closing a written file may fail. */
static int give_fd(const struct paths *p, int file, int path, int fd, int rc, struct err *err)
{
    int64_t n = p->files->file[file].first + path;

    if (n < KEPT_PATHS && p->fd[n] >= 0)
        return rc;
    if (rc == 0 && p->into)
        return io_close(fd, path_name(p, file, path), err);
    close(fd);
    return rc;
}

/* --- units --- */

struct unit {
    int64_t from, skip; /* the piece, and the bytes of it before this unit */
    int64_t at, bytes;  /* range in the stream */
    int64_t to;         /* first piece of `to` that ends after `at` */
};

struct work {
    struct moves *what;
    int holes, jobs;
    struct paths from, to;
    struct unit *unit;
    int64_t units, slice; /* slice: bytes per slice */
    int64_t damaged;      /* the unit that the plan's `damage` is about */
    /* Guards calls of make and lost, `damaged`, and the plan's repaired and damage */
    pthread_mutex_t call;
    pthread_mutex_t lock; /* guards progress and all fields below */
    int64_t *left;        /* [tos] bytes not yet written */
    int64_t next, count;  /* next and total number of calls of `run` */
    int (*run)(struct work *w, int64_t i, char *buffer, struct err *err);
    int64_t moved, all; /* bytes read and written, and their total */
    int failed;
    struct err *err; /* error of the first failure */
};

static int64_t move_run_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t to_end(const struct move_to *t)
{
    return t->at + t->bytes;
}

/* The next position at or after `at` at which a piece of `to` begins or ends. */
static int64_t next_cut(const struct moves *m, int64_t to, int64_t at)
{
    if (to == m->tos)
        return INT64_MAX;
    return m->to[to].at > at ? m->to[to].at : to_end(&m->to[to]);
}

static void list_units(struct work *w)
{
    const struct moves *m = w->what;
    int64_t at = 0, to = 0;
    size_t space = 0;

    w->left = mem_new((size_t)m->tos, sizeof *w->left);
    for (int64_t i = 0; i < m->tos; i++) {
        const struct move_to *t = &m->to[i];
        assert(!i || t->at >= to_end(t - 1) || (t->at == t[-1].at && t->bytes == t[-1].bytes));
        w->all += w->left[i] = t->bytes;
    }
    for (int64_t i = 0; i < m->froms; i++)
        for (int64_t skip = 0, n; skip < m->from[i].bytes; skip += n, at += n) {
            n = m->from[i].bytes - skip;
            while (to < m->tos && to_end(&m->to[to]) <= at)
                to++;
            if (!m->from[i].hash)
                n = move_run_least(n, move_run_least(UNIT_BYTES, next_cut(m, to, at) - at));
            w->unit = mem_grow(w->unit, &space, (size_t)w->units + 1, sizeof *w->unit);
            w->unit[w->units++] = (struct unit){i, skip, at, n, to};
        }
    assert(m->tos == 0 || to_end(&m->to[m->tos - 1]) <= at);
    w->all += at;
}

/* --- copying one unit from one path --- */

struct pass {
    struct work *w;
    const struct unit *u;
    const struct move_from *f;
    const char *name;    /* the path; NULL: elements are made */
    int fd, hole, again; /* again: from another path, after part of the unit was written */
    void *sum;
    char *in, *out; /* a slice, and its converted elements */
};

/* A path of a piece of `to`. */
struct target {
    const struct move_to *t;
    int path, fd;
    void *sum;
};

/* Whether these bytes are a hole, which need not be read.  Changes the file position, which is
   not used. */
static int is_hole(int fd, int64_t offset, int64_t bytes)
{
    off_t data = lseek(fd, offset, SEEK_DATA);

    return data < 0 ? errno == ENXIO : data >= offset + bytes;
}

static int read_slice(const struct pass *p, int64_t at, int64_t n, struct err *err)
{
    const struct move_from *f = p->f;
    const struct moves *m = p->w->what;
    int64_t skip = p->u->skip + at - p->u->at;

    if (!p->name)
        return m->make(m->arg, f->id, f->first + skip / f->width, n / f->width, p->in, err);
    if (p->hole)
        memset(p->in, 0, (size_t)n);
    else if (io_pread_all(p->fd, p->in, n, f->offset + skip, err))
        return err_prefix(err, "%s: ", p->name);
    if (p->sum)
        ckpt_hash_more(p->sum, p->in, n);
    return 0;
}

/* Bytes in the file for this many bytes of the stream. */
static int64_t file_bytes(const struct move_to *t, int64_t bytes)
{
    assert(bytes % dtype_bytes(t->type) == 0);
    return bytes / dtype_bytes(t->type) * dtype_bytes(t->want);
}

static int write_slice(const struct pass *p, const struct target *x, int64_t at, int64_t n,
                       struct err *err)
{
    const struct move_to *t = x->t;
    int64_t bytes = file_bytes(t, n);
    const char *from = t->type == t->want ? p->in : p->out;

    if (from == p->out)
        dtype_convert(p->out, t->want, p->in, t->type, n / dtype_bytes(t->type));
    if (x->sum)
        ckpt_hash_more(x->sum, from, bytes);
    if (p->w->holes && !p->again && from[0] == 0 &&
        memcmp(from, from + 1, (size_t)bytes - 1) == 0)
        return 0;
    if (io_pwrite_all(x->fd, from, bytes, t->offset + file_bytes(t, at - t->at), err))
        return err_prefix(err, "%s: ", path_name(&p->w->to, t->file, x->path));
    return 0;
}

/* Writes bytes [at, stop) of the stream to pieces [t, end) of `to`, each of which contains them
   all. */
static int pass_part(const struct pass *p, int64_t at, int64_t stop, const struct move_to *t,
                     const struct move_to *end, struct err *err)
{
    const struct paths *paths = &p->w->to;
    struct target *x = NULL;
    size_t space = 0;
    int64_t begin = at;
    int targets = 0, unread = 0, rc = 0;

    for (; t < end; t++)
        for (int k = 0; rc == 0 && k < paths->files->file[t->file].paths; k++) {
            x = mem_grow(x, &space, (size_t)targets + 1, sizeof *x);
            x[targets] = (struct target){t, k, -1, NULL};
            rc = take_fd(paths, t->file, k, &x[targets].fd, err);
            if (rc == 0 && t->hash && k == 0 && stop - at == t->bytes)
                x[targets].sum = ckpt_hash_begin();
            targets += rc == 0;
        }
    for (int64_t n; rc == 0 && at < stop; at += n) {
        n = move_run_least(stop - at, p->w->slice);
        rc = unread = read_slice(p, at, n, err);
        for (int i = 0; rc == 0 && i < targets; i++)
            rc = write_slice(p, &x[i], at, n, err);
    }
    for (int i = 0; i < targets; i++) {
        t = x[i].t;
        if (x[i].sum)
            ckpt_hash_end(x[i].sum, t->hash);
        if (rc == 0)
            ckpt_flush(x[i].fd, t->offset + file_bytes(t, begin - t->at),
                       file_bytes(t, stop - begin));
        rc = give_fd(paths, t->file, x[i].path, x[i].fd, rc, err);
    }
    if (rc && !unread) /* the error is not of the path that is read */
        err->scarce = 1;
    mem_free(x);
    return rc;
}

static int pass_unit(struct work *w, const struct unit *u, int path, int again, char *buffer,
                     struct err *err)
{
    const struct moves *m = w->what;
    const struct move_from *f = &m->from[u->from];
    const char *name = f->file < 0 ? NULL : path_name(&w->from, f->file, path);
    struct pass p = {w, u, f, name, -1, 0, again, NULL, buffer, buffer + w->slice};
    int64_t at = u->at, end = u->at + u->bytes, to = u->to, offset = f->offset + u->skip;
    char hash[33] = "";
    int rc = 0;

    if (name) {
        if (take_fd(&w->from, f->file, path, &p.fd, err))
            return -1;
        p.hole = w->holes && is_hole(p.fd, offset, u->bytes);
        if (!p.hole) /* read-ahead would allocate pages for a hole */
            posix_fadvise(p.fd, offset, u->bytes, POSIX_FADV_WILLNEED);
    }
    p.sum = f->hash ? ckpt_hash_begin() : NULL;
    for (int64_t stop, last = to; rc == 0 && at < end; at = stop, to = last) {
        stop = move_run_least(end, next_cut(m, to, at));
        while (last < m->tos && m->to[last].at <= at)
            last++;
        rc = pass_part(&p, at, stop, m->to + to, m->to + last, err);
    }
    if (p.sum)
        ckpt_hash_end(p.sum, hash);
    if (name)
        rc = give_fd(&w->from, f->file, path, p.fd, rc, err);
    if (rc || !f->hash || strcmp(hash, f->hash) == 0)
        return rc;
    if (m->ckpt)
        return ckpt_say_damaged(m->ckpt, &m->ckpt->block[f->id], name, hash, err);
    return err_mismatch(err, name, NULL,
                        "bytes [%" PRId64 ", %" PRId64 ") are damaged: checksum %s", f->offset,
                        f->offset + f->bytes, hash);
}

/* --- copying one unit --- */

static int read_back(const struct work *w, const struct move_to *t, char *buffer,
                     struct err *err)
{
    int64_t bytes = file_bytes(t, t->bytes);
    int fd = -1, rc = 0;

    if (take_fd(&w->to, t->file, 0, &fd, err))
        return -1;
    void *sum = ckpt_hash_begin();
    for (int64_t done = 0, n; rc == 0 && done < bytes; done += n) {
        n = move_run_least(bytes - done, w->slice * SLICES);
        rc = io_pread_all(fd, buffer, n, t->offset + done, err);
        if (rc == 0)
            ckpt_hash_more(sum, buffer, n);
    }
    ckpt_hash_end(sum, t->hash);
    if (rc)
        err_prefix(err, "%s: ", path_name(&w->to, t->file, 0));
    return give_fd(&w->to, t->file, 0, fd, rc, err);
}

/* Counts the unit; hashes pieces of `to` that it completes and that span several units. */
static int finish_unit(struct work *w, const struct unit *u, char *buffer, struct err *err)
{
    const struct moves *m = w->what;
    int64_t end = u->at + u->bytes, moved = u->bytes;
    int rc = 0;

    for (int64_t i = u->to; rc == 0 && i < m->tos && m->to[i].at < end; i++) {
        const struct move_to *t = &m->to[i];
        int64_t n = move_run_least(end, to_end(t)) - (t->at > u->at ? t->at : u->at);
        pthread_mutex_lock(&w->lock);
        int64_t left = w->left[i] -= n;
        pthread_mutex_unlock(&w->lock);
        moved += n;
        if (t->hash && left == 0 && n < t->bytes)
            rc = read_back(w, t, buffer, err);
    }
    pthread_mutex_lock(&w->lock);
    w->moved += moved;
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static int move_unit(struct work *w, int64_t i, char *buffer, struct err *err)
{
    struct moves *m = w->what;
    const struct unit *u = &w->unit[i];
    const struct move_from *f = &m->from[u->from];
    int made = f->file < 0, paths = made ? 1 : m->in.file[f->file].paths, k = 0, rc = -1;
    struct err damage = {0};

    if (made)
        pthread_mutex_lock(&w->call);
    /* Starts with different copies for different units, so that their disks share the load. */
    while (rc && k < paths) {
        rc = pass_unit(w, u, (int)((u->from + k) % paths), k > 0, buffer, err);
        /* A scarce resource says nothing about the path */
        k = rc && err->scarce ? paths : k + 1;
        damage = rc ? *err : damage;
    }
    if (!made)
        pthread_mutex_lock(&w->call);
    /* Reports the damage of the lowest unit, independent of the threads' timing. */
    if (rc == 0 && k > 1 && (m->repaired++ == 0 || i < w->damaged)) {
        w->damaged = i;
        m->damage = damage;
    } else if (rc && m->lost && !err->scarce) {
        rc = m->lost(m->arg, f->file, f->id, err);
    }
    pthread_mutex_unlock(&w->call);
    return rc ? rc : finish_unit(w, u, buffer, err);
}

static int sync_file(struct work *w, int64_t file, char *buffer, struct err *err)
{
    int fd = -1, rc = 0;

    (void)buffer;
    for (int k = 0; rc == 0 && k < w->to.files->file[file].paths; k++) {
        if (take_fd(&w->to, (int)file, k, &fd, err))
            return -1;
        if (fsync(fd))
            rc = err_sys(err, "cannot write '%s'", path_name(&w->to, (int)file, k));
        rc = give_fd(&w->to, (int)file, k, fd, rc, err);
    }
    return rc;
}

/* --- threads --- */

static void *run_next(void *arg)
{
    struct work *w = arg;
    const struct shard_options *options = w->what->options;
    char *buffer = mem_new((size_t)w->slice, SLICES);
    struct err err;

    pthread_mutex_lock(&w->lock);
    while (!w->failed && w->next < w->count) {
        int64_t i = w->next++;
        pthread_mutex_unlock(&w->lock);
        int rc = err_any(ckpt_stopped(w->what->stop, &err) || w->run(w, i, buffer, &err));
        pthread_mutex_lock(&w->lock);
        if (rc && !w->failed)
            *w->err = err;
        w->failed |= rc;
        if (options->progress && !w->failed)
            options->progress(options->progress_arg, w->moved, w->all);
    }
    pthread_mutex_unlock(&w->lock);
    mem_free(buffer);
    return NULL;
}

/* Threads that cannot be created are not needed: the caller's thread can do all the work. */
static int run_all(struct work *w, int64_t count,
                   int (*run)(struct work *, int64_t, char *, struct err *))
{
    pthread_t *thread = mem_new((size_t)w->jobs, sizeof *thread);
    pthread_attr_t attr;
    int started = 0;

    w->next = 0;
    w->count = count;
    w->run = run;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SMALL_STACK);
    while (started < move_run_least(w->jobs, count) - 1 &&
           pthread_create(&thread[started], &attr, run_next, w) == 0)
        started++;
    pthread_attr_destroy(&attr);
    run_next(w);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    mem_free(thread);
    return w->failed ? -1 : 0;
}

/*
 * At least four threads whatever the number of processors: one waits for reads, one for
 * flushes, and two hash and copy.  More than 16 only wait for the disk and the memory.
 */
static int share_buffer(struct work *w, struct err *err)
{
    const int64_t buffer = w->what->options->buffer, thread_least = SLICES * SLICE_LEAST;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    if (buffer < thread_least)
        return err_set(err, ERR_INPUT,
                       "a buffer of %" PRId64 " bytes, expected at least %" PRId64
                       " (--buffer)",
                       buffer, thread_least);
    w->jobs = w->what->options->jobs;
    if (!w->jobs)
        w->jobs = processors < 4 ? 4 : processors > 16 ? 16 : (int)processors;
    w->jobs = (int)move_run_least(w->jobs, buffer / thread_least);
    w->slice = move_run_least(buffer / w->jobs / SLICES / SLICE_UNIT * SLICE_UNIT, SLICE_BYTES);
    return 0;
}

int move_run(struct moves *m, const struct io_out *into, int holes, struct err *err)
{
    struct work w = {.what = m, .holes = holes, .err = err};

    w.from.files = &m->in;
    w.to = (struct paths){.files = &m->out, .into = into};
    memset(w.from.fd, -1, sizeof w.from.fd);
    memset(w.to.fd, -1, sizeof w.to.fd);
    pthread_mutex_init(&w.lock, NULL);
    pthread_mutex_init(&w.call, NULL);
    m->repaired = 0;
    list_units(&w);
    int rc = err_any(share_buffer(&w, err) || open_paths(&w.from, !m->lost, err) ||
                     open_paths(&w.to, 1, err) || run_all(&w, w.units, move_unit) ||
                     run_all(&w, m->out.files, sync_file));
    for (int i = 0; i < KEPT_PATHS; i++) {
        if (w.from.fd[i] >= 0)
            close(w.from.fd[i]);
        if (w.to.fd[i] >= 0)
            close(w.to.fd[i]);
    }
    mem_free(w.unit);
    mem_free(w.left);
    pthread_mutex_destroy(&w.call);
    pthread_mutex_destroy(&w.lock);
    return rc;
}
