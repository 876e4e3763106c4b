/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the records of a process.  A record's number is its last member, and 0 while it is
 * written: a reader that finds it unchanged before and after has a complete record.
 */
#include "meter/meter.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fnv.h"
#include "base/io.h"
#include "base/mem.h"

enum { FILE_BYTES = METER_HEADER + METER_RECORDS * (int)sizeof(struct meter_record) };

_Static_assert(sizeof(struct meter_record) == 64, "a record is a line of the cache");
_Static_assert(sizeof(struct meter_header) <= METER_HEADER, "the header has a page");

struct meter {
    struct meter_header *header;
    struct meter_record *record; /* [METER_RECORDS] */
};

const char *const meter_op_names[METER_OPS] = {[METER_UNKNOWN] = "collective",
                                               [METER_ALL_GATHER] = "all-gather",
                                               [METER_REDUCE_SCATTER] = "reduce-scatter",
                                               [METER_ALL_REDUCE] = "all-reduce",
                                               [METER_BROADCAST] = "broadcast",
                                               [METER_BARRIER] = "barrier",
                                               [METER_ALL_TO_ALL] = "all-to-all",
                                               [METER_REDUCE] = "reduce",
                                               [METER_GATHER] = "gather",
                                               [METER_SCATTER] = "scatter",
                                               [METER_CONVERT] = "conversion"};

int meter_op_synchronises(enum meter_op op)
{
    return op == METER_ALL_GATHER || op == METER_REDUCE_SCATTER || op == METER_ALL_REDUCE ||
           op == METER_BARRIER || op == METER_ALL_TO_ALL;
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t meter_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t meter_id(const void *what, int64_t bytes, uint64_t more)
{
    return fnv_mix(fnv_bytes(what, (size_t)bytes), more);
}

uint64_t meter_new_run(void)
{
    const int64_t what[] = {clock_ns(CLOCK_REALTIME), meter_now_ns(), getpid()};

    return meter_id(what, sizeof what, 0);
}

uint64_t meter_next_id(struct meter_seen *s, uint64_t id)
{
    int at = 0;

    while (at < s->ids && s->of[at].id != id)
        at++;
    if (at == s->ids) {
        s->of = mem_grow(s->of, &s->space, (size_t)at + 1, sizeof *s->of);
        s->of[s->ids++] = (struct meter_same){.id = id};
    }
    return meter_id(&id, sizeof id, (uint64_t)s->of[at].count++);
}

/* Allocates the whole file at the start: running out of memory later would kill the program. */
static int map_file(const char *path, void **out, int64_t *inode, struct err *err)
{
    struct stat st;
    int fd;

    for (int again = 0;; again = 1) {
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd >= 0 || errno != EEXIST || again || unlink(path))
            break;
    }
    if (fd < 0)
        return err_sys(err, "cannot create '%s'", path);
    errno = posix_fallocate(fd, 0, FILE_BYTES);
    *out = errno || fstat(fd, &st) ? MAP_FAILED
                                   : mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_POPULATE, fd, 0);
    if (*out == MAP_FAILED) {
        err_sys(err, "cannot map %d bytes of '%s'", (int)FILE_BYTES, path);
        unlink(path);
    }
    close(fd);
    if (*out == MAP_FAILED)
        return -1;
    *inode = (int64_t)st.st_ino;
    return 0;
}

int meter_open(struct meter **out, const char *dir, const char *kind,
               const struct meter_run *run, struct err *err)
{
    struct meter_header h = {.version = METER_VERSION,
                             .header_bytes = METER_HEADER,
                             .record_bytes = sizeof(struct meter_record),
                             .records = METER_RECORDS,
                             .rank = run->rank,
                             .ranks = run->ranks,
                             .run = run->id,
                             .process = getpid(),
                             .opened_ns = clock_ns(CLOCK_REALTIME)};
    char path[4096];
    void *at = NULL;

    h.real_ns = h.opened_ns - meter_now_ns();
    gethostname(h.host, sizeof h.host - 1);
    for (char *c = h.host; *c; c++)
        if (*c == '/')
            *c = '_';
    int n =
        snprintf(path, sizeof path, "%s/%s.%lld.%s", dir, h.host, (long long)h.process, kind);
    if (n >= (int)sizeof path)
        return err_set(err, ERR_INPUT, "folder name of %zu bytes, expected less than %zu",
                       strlen(dir), sizeof path - METER_HOST - 32);
    if (io_mkdir(dir, NULL, err))
        return -1;
    if (map_file(path, &at, &h.inode, err))
        return -1;
    struct meter *m = mem_new(1, sizeof *m);
    m->header = at;
    m->record = (struct meter_record *)((char *)at + METER_HEADER);
    *m->header = h;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(m->header->magic, METER_MAGIC, sizeof h.magic);
    *out = m;
    return 0;
}

void meter_close(struct meter *m)
{
    if (!m)
        return;
    m->header->ended_ns = clock_ns(CLOCK_REALTIME);
    munmap(m->header, FILE_BYTES);
    mem_free(m);
}

void meter_widen(struct meter *m, const struct meter_run *run)
{
    if (run->ranks <= m->header->ranks)
        return;
    /* In this order a reader in between sees no rank out of range. */
    __atomic_store_n(&m->header->ranks, run->ranks, __ATOMIC_RELEASE);
    __atomic_store_n(&m->header->rank, run->rank, __ATOMIC_RELEASE);
    __atomic_store_n(&m->header->run, run->id, __ATOMIC_RELEASE);
}

static struct meter_record *meter_place_of(const struct meter *m, int64_t number)
{
    return &m->record[(number - 1) % METER_RECORDS];
}

int64_t meter_arrive(struct meter *m, const struct meter_comm *c, int64_t sequence,
                     enum meter_op op, int64_t bytes)
{
    if (!m)
        return 0;
    int64_t number = __atomic_add_fetch(&m->header->begun, 1, __ATOMIC_RELAXED);
    struct meter_record *r = meter_place_of(m, number);

    __atomic_store_n(&r->number, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    r->comm = c->id;
    r->sequence = sequence;
    r->bytes = bytes;
    r->rank = c->rank;
    r->ranks = c->ranks;
    r->op = (int32_t)op;
    r->work_us = 0;
    r->completed_ns = 0;
    r->arrived_ns = meter_now_ns();
    __atomic_store_n(&r->number, number, __ATOMIC_RELEASE);
    return number;
}

/* Returns the slot of a record still in the ring; or NULL. */
static struct meter_record *meter_kept(const struct meter *m, int64_t number)
{
    struct meter_record *r = m && number > 0 ? meter_place_of(m, number) : NULL;

    return r && __atomic_load_n(&r->number, __ATOMIC_ACQUIRE) == number ? r : NULL;
}

void meter_work(struct meter *m, int64_t number, double work_s)
{
    struct meter_record *r = meter_kept(m, number);

    if (r)
        r->work_us = (uint32_t)fmin(fmax(1e6 * work_s, 1), UINT32_MAX);
}

void meter_times(struct meter *m, int64_t number, int64_t arrived_ns, int64_t completed_ns)
{
    struct meter_record *r = meter_kept(m, number);

    if (!r)
        return;
    if (arrived_ns)
        r->arrived_ns = arrived_ns;
    __atomic_store_n(&r->completed_ns, completed_ns, __ATOMIC_RELEASE);
}

void meter_complete(struct meter *m, int64_t number)
{
    if (number > 0)
        meter_times(m, number, 0, meter_now_ns());
}
