/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a plan of moves is collected, and who does what, and when, for its bytes to go from
 * one set of files to another in one pass.  How a piece is read or written is move_piece.c's.
 *
 *     from  |    a     |    b     |  c  |   d   |
 *     to    |  A  |    B    |     |   C   | D |
 *                 ^ drained      ^ filled           the ring holds what lies between
 *
 * A ring of --buffer bytes lies under the stream: byte p of it at p mod the ring.  `filled` is
 * where the first piece of `from` begins that is not read and checked, `drained` where the
 * first one of `to` does that is not written: no piece of `to` that begins before it is left,
 * for they are sorted.  A piece of `to` may be written when it ends at or before `filled`.  A
 * piece of `from` may be read when all of it fits before the ring comes round to the smaller of
 * the two: what is before `drained` nobody wants any more, and what is before `filled` nobody
 * puts there any more (where nothing is wanted, `drained` runs ahead).  So both sides are taken
 * in order, and done in any.
 *
 * It never stands still, if the ring holds any piece of `from`, and what lies from the start of
 * any of `to` to the end of the piece of `from` with its last byte.  Say nothing is being done,
 * and neither f, the next of `from`, nor t, the next of `to`, may be: f begins at `filled`, t
 * at `drained`.  Were t no earlier than f, or were there no t, f would have to fit from its own
 * start, and it does.  So t begins before f, and, as it may not be written, ends behind f's
 * start; but then f is, or lies before, the piece with t's last byte, so all from t's start to
 * f's end fits: f may be read.  For pieces that tile the stream on both sides the ring is less
 * than two of them.
 */
#include "shard/move_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

/* --- files --- */

static void add_path(struct moves_files *f, char *path)
{
    f->path = mem_grow(f->path, &f->path_room, (size_t)f->paths + 1, sizeof *f->path);
    f->path[f->paths++] = path;
    f->file[f->files - 1].paths++;
}

int moves_add_file(struct moves_files *f, int64_t bytes, char *path)
{
    f->file = mem_grow(f->file, &f->file_room, (size_t)f->files + 1, sizeof *f->file);
    f->file[f->files++] = (struct move_file){.bytes = bytes};
    add_path(f, path);
    return f->files - 1;
}

void moves_add_shard(struct moves_files *f, const char *dir, const struct groups *g, int copies,
                     int rank, int64_t bytes)
{
    moves_add_file(f, bytes, ckpt_shard_path(dir, g, rank, 0));
    for (int k = 1; k <= copies; k++)
        add_path(f, ckpt_shard_path(dir, g, rank, k));
}

void moves_add_ckpt(struct moves *m, struct ckpt *c)
{
    m->ckpt = c;
    m->stop = c->stop;
    for (int f = 0; f < c->files; f++)
        moves_add_shard(&m->in, c->dir, &c->groups, c->copies, f, c->file[f].bytes);
}

/* The paths, when all are there: until then they move. */
static void set_paths(struct moves_files *f)
{
    int64_t first = 0;

    for (int i = 0; i < f->files; first += f->file[i++].paths)
        f->file[i].path = (const char *const *)f->path + first;
}

/*
 * Whether one of the files that are read has holes (as far as its file system tells): then new
 * ones need not have more on the disk than that, and zeros are left out of them.
 */
static int has_holes(const struct moves_files *f)
{
    struct stat st;

    for (int i = 0; i < f->files; i++)
        if (stat(f->file[i].path[0], &st) == 0 && st.st_blocks * INT64_C(512) < st.st_size)
            return 1;
    return 0;
}

static int create_file(const struct moves *m, const struct io_dir *dir, int file, int holes,
                       struct err *err)
{
    const struct move_file *f = &m->out.file[file];
    char *head = NULL;
    int64_t bytes = 0;
    int fd = -1, rc = m->head(m->heads, file, &head, &bytes, err);

    for (int k = 0; rc == 0 && k < f->paths; k++)
        rc =
            err_any(ckpt_stopped(m->stop, err) ||
                    ckpt_create_file(dir, f->path[k], head, bytes, f->bytes, holes, &fd, err) ||
                    io_close(fd, f->path[k], err));
    mem_free(head);
    return rc;
}

/* --- pieces --- */

void moves_add_from(struct moves *m, struct move_from from)
{
    m->from = mem_grow(m->from, &m->from_room, (size_t)m->froms + 1, sizeof *m->from);
    m->from[m->froms++] = from;
    m->at += from.bytes;
}

void moves_add_block(struct moves *m, int64_t block)
{
    const struct ckpt_block *b = &m->ckpt->block[block];

    moves_add_from(m, (struct move_from){b->bytes, b->file, b->offset, b->hash, .id = block});
}

void moves_add_made(struct moves *m, int64_t id, int64_t first, int64_t count, int width)
{
    moves_add_from(
        m, (struct move_from){
               .bytes = count * width, .file = -1, .id = id, .first = first, .width = width});
}

void moves_add_to(struct moves *m, struct move_to to)
{
    m->to = mem_grow(m->to, &m->to_room, (size_t)m->tos + 1, sizeof *m->to);
    m->to[m->tos++] = to;
}

static int by_at(const void *a, const void *b)
{
    int64_t x = ((const struct move_to *)a)->at, y = ((const struct move_to *)b)->at;

    return (x > y) - (x < y);
}

enum { SMALL_STACK = 256 << 10 };

/* One side's pieces: which are taken, which are done. */
struct side {
    int64_t count;
    char *done;      /* [count] */
    int64_t next;    /* the first that nobody has taken */
    int64_t settled; /* the first that is not done */
};

struct work {
    struct mover m;
    struct side from, to, syncs; /* syncs: of the paths of `to`, when all is moved */
    int64_t moved, all;          /* bytes of the stream, read and written */
    pthread_mutex_t lock;        /* of all here but m */
    pthread_cond_t something;    /* is done */
    int failed;
    struct err *err; /* the first failure's */
};

/* --- who does what; the lock is held --- */

static int64_t filled_end(const struct work *w)
{
    return w->m.at[w->from.settled];
}

static int can_read(const struct work *w)
{
    const struct side *s = &w->from;
    int64_t low = filled_end(w);

    if (s->next == s->count)
        return 0;
    if (w->to.settled < w->to.count && w->m.what->to[w->to.settled].at < low)
        low = w->m.what->to[w->to.settled].at;
    return w->m.at[s->next + 1] - low <= w->m.ring_bytes;
}

static int can_write(const struct work *w)
{
    const struct move_to *t = &w->m.what->to[w->to.next];

    return w->to.next < w->to.count && t->at + t->bytes <= filled_end(w);
}

static int all_moved(const struct work *w)
{
    return w->from.settled == w->from.count && w->to.settled == w->to.count;
}

static void keep_failure(struct work *w, const struct err *err)
{
    if (!w->failed)
        *w->err = *err;
    w->failed = 1;
}

/* Not under the lock: the callback may take long.  What it gets never shrinks. */
static void report_progress(struct work *w)
{
    const struct shard_options *options = w->m.what->options;

    if (!options->progress)
        return;
    pthread_mutex_lock(&w->m.call);
    pthread_mutex_lock(&w->lock);
    int64_t moved = w->moved;
    pthread_mutex_unlock(&w->lock);
    options->progress(options->progress_arg, moved, w->all);
    pthread_mutex_unlock(&w->m.call);
}

/* Takes the next of a side and does it, without the lock. */
static void do_piece(struct work *w, struct side *s, int64_t bytes,
                     int (*run)(struct mover *, int64_t, struct err *))
{
    struct err err;
    int64_t i = s->next++;

    pthread_mutex_unlock(&w->lock);
    int rc = run(&w->m, i, &err);
    pthread_mutex_lock(&w->lock);
    if (rc) {
        keep_failure(w, &err);
        return;
    }
    s->done[i] = 1;
    while (s->settled < s->count && s->done[s->settled])
        s->settled++;
    w->moved += bytes;
}

static void *move_pieces(void *arg)
{
    struct work *w = arg;
    const struct moves *what = w->m.what;
    struct err err;

    pthread_mutex_lock(&w->lock);
    while (!w->failed && !(all_moved(w) && w->syncs.next == w->syncs.count)) {
        if (ckpt_stopped(what->stop, &err)) {
            keep_failure(w, &err);
        } else if (can_write(w)) { /* first: it makes room */
            do_piece(w, &w->to, what->to[w->to.next].bytes, move_write_piece);
        } else if (can_read(w)) {
            do_piece(w, &w->from, what->from[w->from.next].bytes, move_read_piece);
        } else if (all_moved(w)) {
            do_piece(w, &w->syncs, 0, move_sync_path);
        } else {
            pthread_cond_wait(&w->something, &w->lock);
            continue;
        }
        pthread_cond_broadcast(&w->something);
        pthread_mutex_unlock(&w->lock);
        report_progress(w);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- before and after --- */

static void lay_out(struct work *w, const struct moves *what)
{
    w->m.at = mem_new((size_t)what->froms + 1, sizeof *w->m.at);
    w->m.lost = mem_new((size_t)what->froms, 1);
    w->from = (struct side){.count = what->froms, .done = mem_new((size_t)what->froms, 1)};
    w->to = (struct side){.count = what->tos, .done = mem_new((size_t)what->tos, 1)};
    for (int64_t i = 0; i < what->froms; i++)
        w->m.at[i + 1] = w->m.at[i] + what->from[i].bytes;
    w->all = w->m.at[what->froms];
    for (int64_t i = 0; i < what->tos; i++) {
        const struct move_to *t = &what->to[i];
        assert(t->at >= (i ? t[-1].at : 0) && t->at + t->bytes <= w->m.at[what->froms]);
        assert(t->type == t->want || t->bytes % dtype_bytes(t->type) == 0);
        w->all += t->bytes;
    }
}

static int64_t whole_units(int64_t bytes)
{
    return (bytes + MOVE_UNIT - 1) / MOVE_UNIT * MOVE_UNIT;
}

/* The ring that is just large enough never to stand still. */
static int64_t least_ring(const struct work *w)
{
    const struct moves *what = w->m.what;
    int64_t least = 1, end = 0, last = 0;

    for (int64_t i = 0; i < what->froms; i++)
        if (what->from[i].bytes > least)
            least = what->from[i].bytes;
    for (int64_t i = 0; i < what->tos; i++) {
        const struct move_to *t = &what->to[i];
        if (t->at + t->bytes < last) /* inside one before it */
            continue;
        last = t->at + t->bytes;
        while (w->m.at[end] < last)
            end++;
        if (t->bytes && w->m.at[end] - t->at > least)
            least = w->m.at[end] - t->at;
    }
    return whole_units(least);
}

static int make_ring(struct work *w, struct err *err)
{
    int64_t least = least_ring(w), all = whole_units(w->m.at[w->m.what->froms]);
    int64_t buffer = w->m.what->options->buffer;

    w->m.ring_bytes = buffer < all ? buffer : all;
    w->m.ring_bytes -= w->m.ring_bytes % MOVE_UNIT;
    if (w->m.ring_bytes < least && all > 0)
        return err_set(err, ERR_INPUT,
                       "a buffer of %" PRId64 " bytes, expected at least %" PRId64
                       " for the blocks of these checkpoints (--buffer)",
                       buffer, least);
    if (w->m.ring_bytes == 0) /* nothing moves */
        w->m.ring_bytes = MOVE_UNIT;
    void *ring = NULL;
    int rc = mem_buffer(w->m.ring_bytes, "a buffer", &ring, err);
    w->m.ring = ring;
    return rc;
}

/*
 * At least four threads: one waits for what it reads, one for what it flushes, and two are left
 * to sum and to copy, whatever the processors.  Past 16, threads wait for one disk and one
 * memory.  A thread that cannot be had is done without: the caller's own does all there is.
 */
static void start_threads(struct work *w, int jobs)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_attr_t attr;
    int started = 0;

    if (!jobs)
        jobs = processors < 4 ? 4 : processors > 16 ? 16 : (int)processors;
    pthread_t *thread = mem_new((size_t)jobs, sizeof *thread);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SMALL_STACK);
    while (started < jobs - 1 && pthread_create(&thread[started], &attr, move_pieces, w) == 0)
        started++;
    pthread_attr_destroy(&attr);
    move_pieces(w);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    mem_free(thread);
}

int move_run(struct moves *m, const struct io_dir *into, int holes, struct err *err)
{
    struct work w = {.m = {.what = m, .holes = holes}, .err = err};

    pthread_mutex_init(&w.lock, NULL);
    pthread_mutex_init(&w.m.call, NULL);
    pthread_cond_init(&w.something, NULL);
    m->healed = 0;
    lay_out(&w, m);
    int rc =
        err_any(make_ring(&w, err) || move_paths_open(&w.m.from, &m->in, NULL, !m->lost, err) ||
                move_paths_open(&w.m.to, &m->out, into, 1, err));
    if (rc == 0) {
        int64_t paths = w.m.to.first[m->out.files];
        w.syncs = (struct side){.count = paths, .done = mem_new((size_t)paths, 1)};
        start_threads(&w, m->options->jobs);
        rc = w.failed ? -1 : 0;
    }
    mem_free(w.m.ring);
    mem_free(w.m.at);
    mem_free(w.m.lost);
    mem_free(w.from.done);
    mem_free(w.to.done);
    mem_free(w.syncs.done);
    move_paths_close(&w.m.from);
    move_paths_close(&w.m.to);
    pthread_cond_destroy(&w.something);
    pthread_mutex_destroy(&w.m.call);
    pthread_mutex_destroy(&w.lock);
    return rc;
}

/* --- all of it --- */

int moves_run(struct moves *m, const struct io_dir *dir, struct err *err)
{
    int holes, rc = 0;

    set_paths(&m->in);
    set_paths(&m->out);
    holes = has_holes(&m->in);
    if (m->tos)
        qsort(m->to, (size_t)m->tos, sizeof *m->to, by_at);
    for (int f = 0; rc == 0 && f < m->out.files; f++)
        rc = create_file(m, dir, f, holes, err);
    if (rc == 0)
        rc = move_run(m, dir, holes, err);
    if (rc == 0 && m->ckpt)
        ckpt_healed_add(&m->ckpt->healed, m->healed, 0, &m->damage);
    return rc;
}

static void files_release(struct moves_files *f)
{
    for (int64_t i = 0; i < f->paths; i++)
        mem_free(f->path[i]);
    mem_free(f->path);
    mem_free(f->file);
}

void moves_release(struct moves *m)
{
    files_release(&m->in);
    files_release(&m->out);
    mem_free(m->from);
    mem_free(m->to);
    *m = (struct moves){0};
}
