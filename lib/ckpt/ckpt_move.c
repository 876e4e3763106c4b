/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how the states go from one set of shard files to another in one pass.  All states, one
 * after the other, unit by unit, are a STREAM of bytes; the old blocks tile it, and the new
 * ones do, in other places:
 *
 *     old   |    a     |    b     |  c  |   d   |
 *     new   |  A  |    B    |     C     |   D   |
 *                 ^ drained      ^ filled           the ring holds what lies between
 *
 * A ring of --buffer bytes lies under it: byte p of the stream at p mod the ring.  An old block
 * may be read when all of it fits before the ring comes round to `drained`, the first new block
 * that is not written; a new one may be written when it ends at or before `filled`, the first
 * old block that is not read and checked.  So both are taken in order, and done in any.
 *
 * It never stands still: with all old blocks read that fit, the first new block t is not
 * written only if it ends in an old block that does not fit, so the ring must hold what lies
 * from the start of any new block to the end of the old block with its last byte.  That is less
 * than two blocks.
 */
#include "ckpt/ckpt_move.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

enum {
    SLICE_BYTES = 256 << 10, /* read or written at a time: in the cache when it is summed */
    KEPT_FILES = 100,        /* open of either kind: both fit below the usual limit of 1024 */
    SMALL_STACK = 256 << 10
};

/* Blocks in the order of the stream. */
struct side {
    int64_t count;
    struct ckpt_block **block; /* [count], borrowed */
    int64_t *at;               /* [count + 1] in the stream */
    char *done;                /* [count] */
    int64_t next;              /* the first that nobody has taken */
    int64_t settled;           /* the first that is not done */
    int files;
    int fd[KEPT_FILES]; /* of the first files; the others are opened for each use */
};

struct mover {
    const struct ckpt_move *what;
    struct side from, to;
    char *ring;
    int64_t ring_bytes;
    int next_sync; /* the first file that nobody syncs */
    pthread_mutex_t lock;
    pthread_cond_t moved; /* something is done */
    int failed;
    struct err *err; /* the first failure's */
};

/* The part of [at, at + left) that lies in one piece of the ring. */
static char *ring_slice(const struct mover *m, int64_t at, int64_t left, int64_t *bytes)
{
    int64_t place = at % m->ring_bytes, n = m->ring_bytes - place;

    n = n < SLICE_BYTES ? n : SLICE_BYTES;
    *bytes = n < left ? n : left;
    return m->ring + place;
}

/* --- one block, one file --- */

static int open_target(const struct mover *m, int file, int *fd, struct err *err)
{
    char *path = io_join(m->what->dir, m->what->shard[file].file.name);
    int new = open(path, O_WRONLY | O_CLOEXEC);
    int rc = new < 0 ? err_sys(err, "cannot open '%s'", path) : 0;

    mem_free(path);
    if (rc == 0)
        *fd = new;
    return rc;
}

static int fill_ring(struct mover *m, int64_t i, int fd, char hash[33], struct err *err)
{
    const struct ckpt_block *b = m->from.block[i];
    void *sum = ckpt_hash_begin();
    int rc = 0;

    posix_fadvise(fd, b->offset, b->bytes, POSIX_FADV_WILLNEED);
    for (int64_t done = 0, n; rc == 0 && done < b->bytes; done += n) {
        char *to = ring_slice(m, m->from.at[i] + done, b->bytes - done, &n);
        rc = io_pread_all(fd, to, n, b->offset + done, err);
        if (rc == 0)
            ckpt_hash_more(sum, to, n);
    }
    ckpt_hash_end(sum, hash);
    return rc;
}

static int read_block(struct mover *m, int64_t i, struct err *err)
{
    const struct ckpt *c = m->what->from;
    const struct ckpt_block *b = m->from.block[i];
    int kept = b->file < KEPT_FILES, fd = kept ? m->from.fd[b->file] : -1;
    char hash[33];

    if (!kept && ckpt_open_shard(c, b->file, &fd, err))
        return -1;
    int rc = fill_ring(m, i, fd, hash, err);
    if (rc)
        err_prefix(err, "%s/%s: ", c->dir, c->file[b->file].name);
    else
        rc = ckpt_check_block(c, b, hash, err);
    if (!kept)
        close(fd);
    return rc;
}

/* The old block that is this new one, byte for byte, or NULL. */
static const struct ckpt_block *same_block(const struct mover *m, int64_t i)
{
    int64_t at = m->to.at[i], lo = 0, hi = m->from.count;

    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (m->from.at[mid] <= at)
            lo = mid;
        else
            hi = mid;
    }
    return m->from.at[lo] == at && m->from.at[lo + 1] == m->to.at[i + 1] ? m->from.block[lo]
                                                                         : NULL;
}

static int drain_ring(struct mover *m, int64_t i, int fd, struct err *err)
{
    struct ckpt_block *b = m->to.block[i];
    const struct ckpt_block *same = same_block(m, i);
    void *sum = same ? NULL : ckpt_hash_begin();
    int rc = 0;

    for (int64_t done = 0, n; rc == 0 && done < b->bytes; done += n) {
        const char *from = ring_slice(m, m->to.at[i] + done, b->bytes - done, &n);
        if (sum)
            ckpt_hash_more(sum, from, n);
        rc = io_pwrite_all(fd, from, n, b->offset + done, err);
    }
    if (sum)
        ckpt_hash_end(sum, b->hash);
    else
        memcpy(b->hash, same->hash, sizeof b->hash);
    if (rc == 0)
        ckpt_flush(fd, b->offset, b->bytes);
    return rc;
}

static int write_block(struct mover *m, int64_t i, struct err *err)
{
    int file = m->to.block[i]->file;
    int kept = file < KEPT_FILES, fd = kept ? m->to.fd[file] : -1;

    if (!kept && open_target(m, file, &fd, err))
        return -1;
    int rc = drain_ring(m, i, fd, err);
    if (rc)
        err_prefix(err, "%s/%s: ", m->what->dir, m->what->shard[file].file.name);
    if (!kept)
        close(fd);
    return rc;
}

static int sync_file(struct mover *m, int file, struct err *err)
{
    int kept = file < KEPT_FILES, fd = kept ? m->to.fd[file] : -1, rc = 0;

    if (!kept && open_target(m, file, &fd, err))
        return -1;
    if (fsync(fd))
        rc = err_sys(err, "cannot write '%s/%s'", m->what->dir, m->what->shard[file].file.name);
    if (!kept)
        close(fd);
    return rc;
}

/* --- who does what; the lock is held --- */

static int can_read(const struct mover *m)
{
    const struct side *s = &m->from;

    return s->next < s->count && s->at[s->next + 1] - m->to.at[m->to.settled] <= m->ring_bytes;
}

static int can_write(const struct mover *m)
{
    const struct side *s = &m->to;

    return s->next < s->count && s->at[s->next + 1] <= m->from.at[m->from.settled];
}

static int can_sync(const struct mover *m)
{
    return m->to.settled == m->to.count && m->next_sync < m->what->shards;
}

static void settle(struct side *s, int64_t i)
{
    s->done[i] = 1;
    while (s->settled < s->count && s->done[s->settled])
        s->settled++;
}

/* Takes what can be done: writing first, for it makes room. */
static void do_one(struct mover *m)
{
    int writes = can_write(m), reads = !writes && can_read(m), rc;
    int64_t i = writes ? m->to.next++ : reads ? m->from.next++ : m->next_sync++;
    struct err err;

    pthread_mutex_unlock(&m->lock);
    rc = writes  ? write_block(m, i, &err)
         : reads ? read_block(m, i, &err)
                 : sync_file(m, (int)i, &err);
    pthread_mutex_lock(&m->lock);
    if (rc == 0 && writes)
        settle(&m->to, i);
    else if (rc == 0 && reads)
        settle(&m->from, i);
    else if (rc && !m->failed) {
        m->failed = 1;
        *m->err = err;
    }
    pthread_cond_broadcast(&m->moved);
}

static void *work(void *arg)
{
    struct mover *m = arg;

    pthread_mutex_lock(&m->lock);
    while (!m->failed && m->next_sync < m->what->shards) {
        if (m->what->stop && atomic_load(m->what->stop)) {
            m->failed = 1;
            err_set(m->err, ERR_SYS, "stopped, nothing was written");
            pthread_cond_broadcast(&m->moved);
        } else if (can_write(m) || can_read(m) || can_sync(m)) {
            do_one(m);
        } else {
            pthread_cond_wait(&m->moved, &m->lock);
        }
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* --- before and after --- */

static void side_init(struct side *s, int64_t count, int files)
{
    s->count = count;
    s->block = mem_new((size_t)count, sizeof *s->block);
    s->at = mem_new((size_t)count + 1, sizeof *s->at);
    s->done = mem_new((size_t)count, 1);
    s->files = files < KEPT_FILES ? files : KEPT_FILES;
    for (int f = 0; f < s->files; f++)
        s->fd[f] = -1;
}

static void side_release(struct side *s)
{
    for (int f = 0; f < s->files; f++)
        if (s->fd[f] >= 0)
            close(s->fd[f]);
    mem_free(s->block);
    mem_free(s->at);
    mem_free(s->done);
}

static int by_place(const void *a, const void *b)
{
    return ckpt_block_order(*(struct ckpt_block *const *)a, *(struct ckpt_block *const *)b);
}

static void lay_out(struct mover *m)
{
    const struct ckpt_move *w = m->what;
    int64_t count = 0, n = 0;

    for (int f = 0; f < w->shards; f++)
        count += w->shard[f].blocks;
    side_init(&m->from, w->from->blocks, w->from->files);
    side_init(&m->to, count, w->shards);
    for (int64_t i = 0; i < w->from->blocks; i++)
        m->from.block[i] = &w->from->block[i];
    for (int f = 0; f < w->shards; f++)
        for (int64_t i = 0; i < w->shard[f].blocks; i++)
            m->to.block[n++] = &w->shard[f].block[i];
    qsort(m->to.block, (size_t)count, sizeof *m->to.block, by_place);
    for (int64_t i = 0; i < m->from.count; i++)
        m->from.at[i + 1] = m->from.at[i] + m->from.block[i]->bytes;
    for (int64_t i = 0; i < count; i++)
        m->to.at[i + 1] = m->to.at[i] + m->to.block[i]->bytes;
    assert(m->from.at[m->from.count] == m->to.at[count]);
}

/* The ring that is just large enough never to stand still. */
static int64_t least_ring(const struct mover *m)
{
    const struct side *from = &m->from, *to = &m->to;
    int64_t least = 1, end = 0;

    for (int64_t i = 0; i < to->count; i++) {
        while (from->at[end] < to->at[i + 1])
            end++;
        if (from->at[end] - to->at[i] > least)
            least = from->at[end] - to->at[i];
    }
    return least;
}

static int make_ring(struct mover *m, struct err *err)
{
    int64_t least = least_ring(m), all = m->from.at[m->from.count];

    m->ring_bytes = m->what->buffer < all ? m->what->buffer : all;
    if (m->ring_bytes < least)
        return err_set(err, ERR_INPUT,
                       "a buffer of %" PRId64 " bytes, expected at least %" PRId64
                       " for the blocks of these checkpoints (--buffer)",
                       m->what->buffer, least);
    void *ring = NULL;
    int rc = mem_data(m->ring_bytes, "a buffer", &ring, err);
    m->ring = ring;
    return rc;
}

static int open_files(struct mover *m, struct err *err)
{
    for (int f = 0; f < m->from.files; f++)
        if (ckpt_open_shard(m->what->from, f, &m->from.fd[f], err))
            return -1;
    for (int f = 0; f < m->what->shards; f++) {
        int fd = -1;
        if (ckpt_shard_create(&m->what->shard[f], m->what->dir, &fd, err))
            return -1;
        if (f < KEPT_FILES)
            m->to.fd[f] = fd;
        else
            close(fd);
    }
    return 0;
}

/* A thread that cannot be had is done without: the caller's own does all there is. */
static void work_all(struct mover *m)
{
    pthread_t *thread = mem_new((size_t)m->what->jobs, sizeof *thread);
    pthread_attr_t attr;
    int started = 0;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SMALL_STACK);
    while (started < m->what->jobs - 1 && pthread_create(&thread[started], &attr, work, m) == 0)
        started++;
    pthread_attr_destroy(&attr);
    work(m);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    mem_free(thread);
}

int ckpt_move(const struct ckpt_move *what, struct err *err)
{
    struct mover m = {.what = what, .err = err};

    pthread_mutex_init(&m.lock, NULL);
    pthread_cond_init(&m.moved, NULL);
    lay_out(&m);
    int rc = make_ring(&m, err) || open_files(&m, err) ? -1 : 0;
    if (rc == 0) {
        work_all(&m);
        rc = m.failed ? -1 : 0;
    }
    mem_free(m.ring);
    side_release(&m.from);
    side_release(&m.to);
    pthread_cond_destroy(&m.moved);
    pthread_mutex_destroy(&m.lock);
    return rc;
}
