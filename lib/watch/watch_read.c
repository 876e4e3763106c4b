/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds records in files and folders, selects the run, and determines the time up to which they
   reach. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fnv.h"
#include "base/io.h"
#include "base/mem.h"
#include "data/data_unpack.h"
#include "watch/watch_parts.h"

#define JSON_MAX (INT64_C(512) << 20) /* a tree takes several times as much memory */
enum { FILES_MAX = 1 << 17 };

struct files {
    char **path; /* owned, and the texts */
    int count;
    size_t space;
};

struct reader {
    int meters, others; /* number of files so far */
    uint64_t run;       /* run of the meters that count */
    int most;           /* largest number of records of a meter */
};

static void read_add_path(struct files *f, char *path)
{
    f->path = mem_grow(f->path, &f->space, (size_t)f->count + 1, sizeof *f->path);
    f->path[f->count++] = path;
}

static int read_list_folder(struct files *f, const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct io_names all;
    struct stat st;

    if (fd < 0)
        return err_sys(err, "cannot open '%s'", path);
    int rc = io_names_read(&all, fd, path, err);
    for (int i = 0; i < all.count && f->count < FILES_MAX; i++) {
        const char *name = all.entry[i]->d_name;
        if (name[0] != '.' && fstatat(fd, name, &st, 0) == 0 && S_ISREG(st.st_mode))
            read_add_path(f, io_join(path, name));
    }
    io_names_free(&all);
    close(fd);
    if (f->count >= FILES_MAX)
        rc = err_at(err, path, 0, NULL, "%d files, expected fewer", FILES_MAX);
    return rc;
}

/* ---- meters ---- */

static int is_regular(const char *path, struct stat *st)
{
    return stat(path, st) == 0 && S_ISREG(st->st_mode);
}

static int64_t real_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Selects the run that began last, since a folder keeps files of earlier runs.  A run that has
   not begun yet does not hide others; hosts' clocks differ by less than this. */
static void find_run(const struct files *all, struct reader *r)
{
    const int64_t future_ns = real_ns() + INT64_C(60000000000);
    uint64_t *run = mem_new((size_t)all->count + 1, sizeof *run);
    int64_t latest_ns = -1;
    int n = 0, same = 0;
    struct meter_file f;
    struct err ignored;
    struct stat st;

    for (int i = 0; i < all->count; i++) {
        if (!is_regular(all->path[i], &st) || meter_read(all->path[i], 0, &f, &ignored))
            continue;
        run[n++] = f.header.run;
        int64_t opened_ns = f.header.opened_ns > future_ns ? 0 : f.header.opened_ns;
        if (opened_ns > latest_ns) {
            latest_ns = opened_ns;
            r->run = f.header.run;
        }
        meter_file_release(&f);
    }
    for (int i = 0; i < n; i++)
        same += run[i] == r->run;
    r->most = WATCH_CELLS_MAX / (same > 0 ? same : 1);
    mem_free(run);
}

/* A process that ended without recording it was killed: no rank waits for it any more. */
static int read_has_ended(const struct meter_header *h)
{
    char host[METER_HOST] = "";

    gethostname(host, sizeof host - 1);
    return strncmp(host, h->host, METER_HOST) == 0 && h->process > 0 &&
           h->process < INT32_MAX && kill((pid_t)h->process, 0) && errno == ESRCH;
}

static void set_now(struct watch *w, int64_t ns)
{
    if (ns > real_ns())
        ns = real_ns(); /* the file's date: waits are counted up to then */
    w->now_ns = ns > w->now_ns ? ns : w->now_ns;
}

/*
 * The time is now for a file that a process still writes, and the time of copying for a copy.
 * A call that a process left open when it ended does not wait.
 */
static void add_meter(struct watch *w, const struct meter_file *f, struct reader *r)
{
    const struct meter_header *h = &f->header;

    r->meters++;
    if (h->run != r->run) {
        w->other_runs++;
        return;
    }
    /* Identified by host and number: before it has a communicator of all ranks its rank is
       unknown. */
    uint64_t host = fnv_bytes(h->host, strnlen(h->host, METER_HOST));
    int process = watch_process(w, fnv_mix(host, (uint64_t)h->process), h->rank, h->host);
    if (process < 0)
        return;
    watch_rank(w, process, h->rank, h->ranks);
    w->ended += h->ended_ns != 0;
    if (f->is_copy && !h->ended_ns)
        set_now(w, f->changed_ns);
    else if (!h->ended_ns && !read_has_ended(h))
        set_now(w, real_ns());
    for (int i = 0; i < f->count; i++) {
        const struct meter_record *x = &f->record[i];
        struct watch_call c = {.process = process,
                               .comm = watch_comm(w, x->comm, x->ranks),
                               .member = x->rank,
                               .op = x->op,
                               .sequence = x->sequence,
                               .bytes = x->bytes,
                               .work_ns = 1000 * (int64_t)x->work_us,
                               .arrived_ns = x->arrived_ns + h->real_ns,
                               .completed_ns =
                                   x->completed_ns ? x->completed_ns + h->real_ns : 0};
        watch_rank(w, process, x->rank, x->ranks);
        if (h->ended_ns && !c.completed_ns)
            c.completed_ns = h->ended_ns > c.arrived_ns ? h->ended_ns : c.arrived_ns;
        if (c.comm >= 0 && c.arrived_ns > 0)
            watch_add(w, &c);
    }
}

/* Reads a regular file, possibly compressed by gzip or zstd: PyTorch's profiler writes
   .json.gz. */
static int watch_read_text(const char *path, const struct stat *st, char **text, int64_t *bytes,
                           struct err *err)
{
    struct unpack *u = NULL;
    size_t space = 0;
    void *to = NULL;
    int64_t got = 1;

    if (!S_ISREG(st->st_mode))
        return io_read_text(path, JSON_MAX, text, bytes, err);
    int rc = unpack_open(&u, path, err);
    while (rc == 0 && got > 0) {
        rc = mem_grow_data(&to, &space, (size_t)*bytes + (1 << 17), 1, "records", err);
        rc = rc ? rc : unpack_read(u, (char *)to + *bytes, 1 << 17, &got, err);
        *bytes += rc ? 0 : got;
        if (rc == 0 && *bytes > JSON_MAX)
            rc = err_at(err, path, 0, NULL, "more than %d MiB", (int)(JSON_MAX >> 20));
    }
    unpack_close(u);
    *text = to;
    return rc;
}

/* A pipe can be read only once, so it is not tried as a meter.  A file that is still being
   created is skipped. */
static int watch_read_file(struct watch *w, const char *path, struct reader *r, struct err *err)
{
    struct stat st = {0};
    struct meter_file f;
    char *text = NULL;
    int64_t bytes = 0;
    int rc = is_regular(path, &st) ? meter_read(path, r->most, &f, err) : 1;

    if (rc == 0) {
        add_meter(w, &f, r);
        meter_file_release(&f);
    } else if (rc > 0) {
        rc = watch_read_text(path, &st, &text, &bytes, err);
        if (rc == 0 && bytes && *text) {
            set_now(w, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
            rc = watch_read_json(w, strcmp(path, "-") ? path : "stdin", text, bytes, err);
            r->others++;
        }
        mem_free(text);
    }
    if (rc == 0 && r->meters && r->others)
        return err_at(err, path, 0, NULL, "another format, expected all files of one format");
    return rc;
}

int watch_read(struct watch *w, const char *const *path, int paths, struct err *err)
{
    struct files all = {0};
    struct reader r = {0};
    struct stat st;
    int rc = 0;

    *w = (struct watch){0};
    for (int i = 0; i < paths && rc == 0; i++) {
        if (stat(path[i], &st) == 0 && S_ISDIR(st.st_mode))
            rc = read_list_folder(&all, path[i], err);
        else
            read_add_path(&all, mem_dup(path[i]));
    }
    if (rc == 0)
        find_run(&all, &r);
    for (int i = 0; i < all.count && rc == 0; i++)
        rc = watch_read_file(w, all.path[i], &r, err);
    if (rc == 0 && r.meters + r.others == 0)
        rc = err_set(err, ERR_INPUT, "no records of collectives in '%s'", path[0]);
    rc = rc ? rc : watch_index(w, err);
    for (int i = 0; i < all.count; i++)
        mem_free(all.path[i]);
    mem_free(all.path);
    if (rc)
        watch_release(w);
    return rc;
}
