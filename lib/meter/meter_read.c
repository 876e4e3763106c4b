/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the records of a process that may be writing them.  Leaves their meaning to callers. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "meter/meter.h"

#define TIME_MAX (INT64_C(1) << 62) /* limit of a clock, so that sums of two fit */

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

/* Returns whether a record is complete and sane: one being written, or damaged, is omitted. */
static int read_is_whole(const struct meter_record *r, int64_t number)
{
    return r->number == number && r->sequence > 0 && r->sequence < TIME_MAX && r->bytes >= 0 &&
           r->rank >= 0 && r->rank < r->ranks && r->op >= 0 && r->op < METER_OPS &&
           r->arrived_ns > 0 && is_time(r->arrived_ns) && is_time(r->completed_ns) &&
           (r->completed_ns == 0 || r->completed_ns >= r->arrived_ns);
}

/*
 * Reads the file rather than mapping it: its owner may truncate it, and accessing a missing
 * page raises a signal.  A record is complete if its number is equal before and after copying
 * all of it: the numbers of one copy are compared with the records of the next and the numbers
 * of a third.
 */
static int copy_records(int fd, int most, struct meter_file *f, struct err *err)
{
    const size_t bytes = METER_RECORDS * sizeof(struct meter_record);
    struct meter_record *copy = mem_new(2 * METER_RECORDS, sizeof *copy),
                        *numbers = copy + METER_RECORDS;
    int64_t last = f->header.begun, *before = mem_new(METER_RECORDS, sizeof *before);
    int64_t first = last > METER_RECORDS ? last - METER_RECORDS + 1 : 1;
    int rc = io_pread_all(fd, numbers, (int64_t)bytes, METER_HEADER, err);

    for (int i = 0; i < METER_RECORDS; i++)
        before[i] = numbers[i].number;
    rc = rc ? rc : io_pread_all(fd, copy, (int64_t)bytes, METER_HEADER, err);
    rc = rc ? rc : io_pread_all(fd, numbers, (int64_t)bytes, METER_HEADER, err);
    if (last - first + 1 > most)
        first = last - most + 1;
    for (int64_t n = first; n <= last && rc == 0; n++) {
        int at = (int)((n - 1) % METER_RECORDS);
        if (before[at] == n && numbers[at].number == n && read_is_whole(&copy[at], n))
            f->record[f->count++] = copy[at];
    }
    mem_free(copy);
    mem_free(before);
    return rc;
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
    if (rc == 0 && fstat(fd, &st))
        rc = err_sys(err, "cannot read '%s'", path);
    if (rc == 0) {
        f.is_copy = f.header.inode != (int64_t)st.st_ino;
        f.changed_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        most = most > METER_RECORDS ? METER_RECORDS : most;
        f.record = mem_new((size_t)most + 1, sizeof *f.record);
        if (most > 0 && copy_records(fd, most, &f, err)) {
            mem_free(f.record);
            rc = err_prefix(err, "%s: ", path);
        }
    }
    if (rc == 0)
        *out = f;
    close(fd);
    return rc;
}

void meter_file_release(struct meter_file *f)
{
    mem_free(f->record);
    *f = (struct meter_file){0};
}
