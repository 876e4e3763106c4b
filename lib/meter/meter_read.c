/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the records of a process, which may be writing them.  What they mean is others'. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "meter/meter.h"

#define TIME_MAX (INT64_C(1) << 62) /* of a clock, so that sums of two fit */

int meter_is(const char *bytes, int64_t n)
{
    return n >= 8 && memcmp(bytes, METER_MAGIC, 8) == 0;
}

static int is_time(int64_t ns)
{
    return ns >= 0 && ns < TIME_MAX;
}

static int check_header(const char *path, const struct meter_header *h, int64_t bytes,
                        struct err *err)
{
    const int64_t want = METER_HEADER + (int64_t)METER_RECORDS * 64;

    if (h->version != METER_VERSION || h->header_bytes != METER_HEADER ||
        h->record_bytes != 64 || h->records != METER_RECORDS)
        return err_at(err, path, 0, NULL,
                      "version %" PRId32 " with %" PRId32 " records of %" PRId32
                      " bytes, expected version %d with %d of 64",
                      h->version, h->records, h->record_bytes, METER_VERSION, METER_RECORDS);
    if (bytes != want)
        return err_at(err, path, 0, NULL, "%" PRId64 " bytes, expected %" PRId64, bytes, want);
    if (h->rank < 0 || h->rank >= h->ranks || !is_time(h->begun) ||
        llabs(h->real_ns) > TIME_MAX || !is_time(h->opened_ns) || !is_time(h->ended_ns) ||
        !memchr(h->host, 0, METER_HOST))
        return err_at(err, path, 0, NULL, "damaged header: rank %" PRId32 " of %" PRId32,
                      h->rank, h->ranks);
    return 0;
}

/* Whole and sane: one that was being written, or is damaged, is left out. */
static int is_whole(const struct meter_record *r, int64_t number)
{
    return r->number == number && r->sequence > 0 && r->sequence < TIME_MAX && r->bytes >= 0 &&
           r->rank >= 0 && r->rank < r->ranks && r->op >= 0 && r->op < METER_OPS &&
           r->arrived_ns > 0 && is_time(r->arrived_ns) && is_time(r->completed_ns) &&
           (r->completed_ns == 0 || r->completed_ns >= r->arrived_ns);
}

static void copy_records(const char *at, int most, struct meter_file *f)
{
    const struct meter_header *h = (const struct meter_header *)at;
    const struct meter_record *from = (const struct meter_record *)(at + METER_HEADER);
    int64_t last = __atomic_load_n(&h->begun, __ATOMIC_ACQUIRE); /* the latest */
    int64_t first = last > METER_RECORDS ? last - METER_RECORDS + 1 : 1;

    f->header.begun = last;
    if (last < 0 || last > TIME_MAX)
        return;
    if (last - first + 1 > most)
        first = last - most + 1;
    for (int64_t n = first; n <= last; n++) {
        const struct meter_record *one = &from[(n - 1) % METER_RECORDS];
        struct meter_record *r = &f->record[f->count];
        if (__atomic_load_n(&one->number, __ATOMIC_ACQUIRE) != n)
            continue;
        memcpy(r, one, sizeof *r);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&one->number, __ATOMIC_RELAXED) == n && is_whole(r, n))
            f->count++;
    }
}

int meter_read(const char *path, int most, struct meter_file *out, struct err *err)
{
    struct meter_file f = {0};
    int64_t bytes, head = sizeof f.header;
    struct stat st;
    int fd;

    if (io_open(path, &fd, &bytes, err))
        return -1;
    int rc = io_pread_all(fd, &f.header, bytes < head ? bytes : head, 0, err);
    if (rc == 0 && !meter_is(f.header.magic, 8))
        rc = 1;
    rc = rc ? rc : check_header(path, &f.header, bytes, err);
    char *at = rc ? MAP_FAILED : mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (rc == 0 && (at == MAP_FAILED || fstat(fd, &st)))
        rc = err_sys(err, "cannot map '%s'", path);
    if (rc == 0) {
        f.is_copy = f.header.inode != (int64_t)st.st_ino;
        f.changed_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        most = most > METER_RECORDS ? METER_RECORDS : most;
        f.record = mem_new((size_t)most + 1, sizeof *f.record);
        copy_records(at, most, &f);
        *out = f;
    }
    if (at != MAP_FAILED)
        munmap(at, (size_t)bytes);
    close(fd);
    return rc;
}

void meter_file_release(struct meter_file *f)
{
    mem_free(f->record);
    *f = (struct meter_file){0};
}
