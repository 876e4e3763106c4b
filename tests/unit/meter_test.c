/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the meter: records are read while they are written; damaged files are refused. */
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "meter/meter.h"
#include "temp_fixture.h"

static char dir[TEMP_PATH];

static void path_of(char *path, size_t space)
{
    char host[METER_HOST] = "";

    gethostname(host, sizeof host - 1);
    snprintf(path, space, "%s/%s.%d.test", dir, host, (int)getpid());
}

static struct meter *open_one(void)
{
    const struct meter_run run = {.id = 7, .rank = 2, .ranks = 4};
    struct meter *m = NULL;

    assert_ok(meter_open(&m, dir, "test", &run, &err));
    return m;
}

static int setup(void **state)
{
    temp_folder(dir, "meter");
    rmdir(dir); /* which the meter makes */
    *state = open_one();
    return 0;
}

static int teardown(void **state)
{
    char path[400];

    (void)state;
    path_of(path, sizeof path);
    unlink(path);
    rmdir(dir);
    return 0;
}

#define METER_TEST(name) UNIT_TEST(name, setup, teardown)

static void read_it(int most, struct meter_file *f)
{
    char path[400];

    path_of(path, sizeof path);
    assert_ok(meter_read(path, most, f, &err));
}

METER_TEST(calls_are_read_as_they_were_written)
{
    struct meter *m = *state;
    struct meter_comm c = {.id = 99, .rank = 1, .ranks = 3};
    struct meter_file f;
    int64_t before = meter_now_ns();

    int64_t n = meter_arrive(m, &c, 1, METER_ALL_REDUCE, 4096);
    meter_complete(m, n);
    meter_work(m, n, 1.5e-3);
    meter_arrive(m, &c, 2, METER_BARRIER, 0);
    int64_t after = meter_now_ns();
    read_it(10, &f);
    assert_int_equal(f.count, 2);
    assert_int_equal(f.header.rank, 2);
    assert_int_equal(f.header.ranks, 4);
    assert_int_equal(f.header.run, 7);
    assert_int_equal(f.header.ended_ns, 0);
    const struct meter_record *r = f.record;
    assert_true(r->comm == 99 && r->sequence == 1 && r->op == METER_ALL_REDUCE);
    assert_true(r->bytes == 4096 && r->rank == 1 && r->ranks == 3);
    assert_true(before <= r->arrived_ns && r->arrived_ns <= r->completed_ns);
    assert_true(r->completed_ns <= r[1].arrived_ns && r[1].arrived_ns <= after);
    assert_int_equal(r[1].completed_ns, 0);
    assert_int_equal(r->work_us, 1500);
    assert_int_equal(r[1].work_us, 0);
    meter_file_release(&f);
    meter_close(m);
    read_it(10, &f);
    assert_true(f.header.ended_ns > f.header.opened_ns);
    meter_file_release(&f);
}

METER_TEST(the_ring_keeps_the_latest)
{
    struct meter *m = *state;
    struct meter_comm c = {.id = 1, .ranks = 1};
    struct meter_file f;
    const int more = 100;

    int64_t first = meter_arrive(m, &c, 1, METER_BARRIER, 0);
    for (int i = 2; i <= METER_RECORDS + more; i++)
        meter_complete(m, meter_arrive(m, &c, i, METER_BARRIER, i));
    meter_complete(m, first); /* another call has its place */
    read_it(METER_RECORDS, &f);
    /* The oldest place may be the next to be written: it is not read. */
    assert_int_equal(f.count, METER_RECORDS);
    for (int i = 0; i < f.count; i++)
        assert_int_equal(f.record[i].sequence, more + 1 + i);
    meter_file_release(&f);
    read_it(5, &f);
    assert_int_equal(f.count, 5);
    assert_int_equal(f.record[4].sequence, METER_RECORDS + more);
    meter_file_release(&f);
    meter_close(m);
}

static atomic_int stop;

static void *write_on(void *arg)
{
    struct meter_comm c = {.id = 1, .ranks = 1};

    for (int64_t i = 1; !stop; i++) /* every field says which call it is of */
        meter_times(arg, meter_arrive(arg, &c, i, METER_ALL_GATHER, 3 * i), i, 2 * i);
    return NULL;
}

METER_TEST(no_half_record_is_read_while_a_thread_writes)
{
    struct meter *m = *state;
    struct meter_file f;
    pthread_t thread;
    int64_t seen = 0;

    stop = 0;
    assert_int_equal(pthread_create(&thread, NULL, write_on, m), 0);
    for (int k = 0; k < 200 || seen == 0; k++) { /* a writer may overtake any reader */
        read_it(METER_RECORDS, &f);
        for (int i = 0; i < f.count; i++) {
            const struct meter_record *r = &f.record[i];
            assert_int_equal(r->sequence, r->number);
            assert_int_equal(r->bytes, 3 * r->number);
        }
        seen += f.count;
        meter_file_release(&f);
    }
    stop = 1;
    pthread_join(thread, NULL);
    assert_true(seen > 0);
    meter_close(m);
}

static void *cut_and_grow(void *arg)
{
    char path[400];

    (void)arg;
    path_of(path, sizeof path);
    while (!stop) {
        if (truncate(path, 8000) || truncate(path, METER_HEADER + METER_RECORDS * 64))
            break;
        usleep(200);
    }
    return NULL;
}

/* The file's owner may cut it at any time: an error, or what there is, but no signal. */
METER_TEST(a_file_that_is_cut_while_it_is_read)
{
    struct meter_comm c = {.id = 1, .ranks = 1};
    struct meter *m = *state;
    char path[400];
    struct meter_file f;
    pthread_t thread;

    for (int i = 1; i <= METER_RECORDS; i++)
        meter_arrive(m, &c, i, METER_BARRIER, 0);
    meter_close(m);
    path_of(path, sizeof path);
    stop = 0;
    assert_int_equal(pthread_create(&thread, NULL, cut_and_grow, NULL), 0);
    for (int cut = 0, whole = 0; cut < 200 || whole < 20;) {
        int rc = meter_read(path, METER_RECORDS, &f, &err);
        if (rc == 0)
            meter_file_release(&f);
        whole += rc == 0;
        cut += rc != 0;
    }
    stop = 1;
    pthread_join(thread, NULL);
}

METER_TEST(a_file_of_an_earlier_process_is_replaced)
{
    struct meter *m = *state;
    struct meter_comm c = {.id = 1, .ranks = 1};
    struct meter_file f;

    meter_arrive(m, &c, 1, METER_BARRIER, 0);
    meter_close(m);
    m = open_one();
    read_it(10, &f);
    assert_int_equal(f.count, 0);
    meter_file_release(&f);
    meter_close(m);
}

METER_TEST(no_meter_costs_nothing)
{
    struct meter_comm c = {.id = 1, .ranks = 1};

    assert_int_equal(meter_arrive(NULL, &c, 1, METER_BARRIER, 0), 0);
    meter_complete(NULL, 0);
    meter_close(NULL);
    meter_close(*state);
}

/* Changes the byte at `at` and expects the words. */
static void refused(int64_t at, int value, const char *words)
{
    char path[400], byte = (char)value, was;
    struct meter_file f;

    path_of(path, sizeof path);
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &was, 1, at), 1);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    assert_error(meter_read(path, 10, &f, &err), ERR_INPUT);
    assert_non_null(strstr(err.text, path));
    if (!strstr(err.text, words))
        fail_msg("'%s' lacks '%s'", err.text, words);
    assert_int_equal(pwrite(fd, &was, 1, at), 1);
    close(fd);
}

METER_TEST(damaged_files_are_refused)
{
    char path[400];
    struct meter_file f;

    refused(8, 2, "version 2 with 8192 records of 64 bytes, expected version 1");
    refused(20, 1, "records of 64 bytes, expected");
    refused(24, 9, "damaged header: rank 9 of 4");
    meter_close(*state);
    path_of(path, sizeof path);
    assert_int_equal(truncate(path, 8000), 0);
    assert_says(meter_read(path, 10, &f, &err), "8000 bytes, expected 528384");
    assert_int_equal(truncate(path, 20), 0);
    assert_says(meter_read(path, 10, &f, &err), "with 0 records of 64 bytes, expected");
    assert_int_equal(truncate(path, 7), 0);
    assert_int_equal(meter_read(path, 10, &f, &err), 1);
    assert_int_equal(meter_read("/proc/self/status", 10, &f, &err), 1);
}

METER_TEST(a_folder_that_cannot_be_made_is_an_error)
{
    const struct meter_run run = {.id = 7, .ranks = 1};
    struct meter *m = NULL;

    assert_says(meter_open(&m, "/proc/none/here", "test", &run, &err), "/proc/none");
    assert_null(m);
    meter_close(*state);
}
