/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows where records are: files, folders of them, of which run, and until when. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fnv.h"
#include "base/io.h"
#include "base/mem.h"
#include "watch/watch_parts.h"

#define JSON_MAX (INT64_C(512) << 20) /* a tree of it takes several times as much */
enum { FILES_MAX = 1 << 17 };

struct files {
    char **path; /* owned, as what they point to */
    int count;
    size_t room;
};

static void add_path(struct files *f, char *path)
{
    f->path = mem_grow(f->path, &f->room, (size_t)f->count + 1, sizeof *f->path);
    f->path[f->count++] = path;
}

static int list_folder(struct files *f, const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), from = f->count;
    struct dirent *e;
    char name[4352];
    struct stat st;

    if (fd < 0)
        return err_sys(err, "cannot open '%s'", path);
    DIR *dir = io_list(fd, path, err);
    while (dir && f->count < FILES_MAX && (e = readdir(dir))) {
        if (e->d_name[0] == '.' || fstatat(fd, e->d_name, &st, 0) || !S_ISREG(st.st_mode))
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        add_path(f, mem_dup(name));
    }
    if (dir)
        closedir(dir);
    close(fd);
    if (dir && f->count > from)
        qsort(f->path + from, (size_t)(f->count - from), sizeof *f->path, mem_by_text);
    return dir ? 0 : -1;
}

/* ---- meters ---- */

/* A process that is gone, and did not say so, was killed: nobody waits for it now. */
static int is_gone(const struct meter_header *h)
{
    char host[METER_HOST] = "";

    gethostname(host, sizeof host - 1);
    return strncmp(host, h->host, METER_HOST) == 0 && h->process > 0 &&
           h->process < INT32_MAX && kill((pid_t)h->process, 0) && errno == ESRCH;
}

static void set_now(struct watch *w, int64_t ns)
{
    w->now_ns = ns > w->now_ns ? ns : w->now_ns;
}

/* Of a process, whatever its rank: before it has a communicator of all ranks it does not know
 * its own. */
static uint64_t key_of(const struct meter_header *h)
{
    return fnv_mix(fnv_bytes(h->host, strnlen(h->host, METER_HOST)), (uint64_t)h->process);
}

/*
 * What a process writes is read now; of a copy its file says when it was made.  Nobody waits in
 * a call that a process left open when it ended.
 */
static void add_meter(struct watch *w, const struct meter_file *f)
{
    const struct meter_header *h = &f->header;
    struct timespec now;
    int process = watch_process(w, key_of(h), h->rank, h->host);

    if (process < 0)
        return;
    watch_rank(w, process, h->rank, h->ranks);
    clock_gettime(CLOCK_REALTIME, &now);
    w->ended += h->ended_ns != 0;
    if (f->is_copy && !h->ended_ns)
        set_now(w, f->changed_ns);
    else if (!h->ended_ns && !is_gone(h))
        set_now(w, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    for (int i = 0; i < f->count; i++) {
        const struct meter_record *r = &f->record[i];
        struct watch_call c = {.process = process,
                               .comm = watch_comm(w, r->comm, r->ranks),
                               .member = r->rank,
                               .op = r->op,
                               .sequence = r->sequence,
                               .bytes = r->bytes,
                               .arrived_ns = r->arrived_ns + h->real_ns,
                               .completed_ns =
                                   r->completed_ns ? r->completed_ns + h->real_ns : 0};
        watch_rank(w, process, r->rank, r->ranks);
        if (h->ended_ns && !c.completed_ns)
            c.completed_ns = h->ended_ns > c.arrived_ns ? h->ended_ns : c.arrived_ns;
        if (c.comm >= 0 && c.arrived_ns > 0)
            watch_add(w, &c);
    }
}

/* Of the run that began last: a folder keeps the files of those before. */
static int read_meters(struct watch *w, const struct files *f, struct err *err)
{
    struct meter_header *h = mem_new((size_t)f->count + 1, sizeof *h);
    int newest = 0, n = 0, rc = 0;
    struct meter_file m;

    for (int i = 0; i < f->count && rc == 0; i++) {
        rc = meter_read(f->path[i], 0, &m, err);
        if (rc == 0) {
            h[i] = m.header;
            meter_file_release(&m);
            newest = h[i].opened_ns > h[newest].opened_ns ? i : newest;
        }
    }
    for (int i = 0; i < f->count; i++)
        n += h[i].run == h[newest].run;
    for (int i = 0; i < f->count && rc == 0; i++) {
        if (h[i].run != h[newest].run) {
            w->other_runs++;
            continue;
        }
        rc = meter_read(f->path[i], WATCH_CELLS_MAX / n, &m, err);
        if (rc == 0) {
            add_meter(w, &m);
            meter_file_release(&m);
        }
    }
    mem_free(h);
    return rc;
}

/* ---- others ---- */

static int read_json(struct watch *w, const char *path, struct err *err)
{
    char *text = NULL;
    int64_t bytes = 0;
    struct stat st;

    if (io_read_text(path, JSON_MAX, &text, &bytes, err))
        return -1;
    int rc = watch_read_json(w, strcmp(path, "-") ? path : "stdin", text, bytes, err);
    if (rc == 0 && stat(path, &st) == 0)
        set_now(w, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
    mem_free(text);
    return rc;
}

/* 1: of a meter, -1: of one that is being made, 0: another.  What is read of a pipe is gone. */
static int is_meter(const char *path)
{
    char head[8] = "", zero[8] = "";
    struct stat st;

    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int64_t n = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    return n == 0 || (n == 8 && memcmp(head, zero, 8) == 0) ? -1 : meter_is(head, n);
}

int watch_read(struct watch *w, const char *const *path, int paths, struct err *err)
{
    struct files all = {0}, meters = {0}, others = {0};
    struct stat st;
    int rc = 0;

    *w = (struct watch){0};
    for (int i = 0; i < paths && rc == 0; i++) {
        if (stat(path[i], &st) == 0 && S_ISDIR(st.st_mode))
            rc = list_folder(&all, path[i], err);
        else
            add_path(&all, mem_dup(path[i]));
    }
    for (int i = 0; i < all.count; i++) {
        int is = is_meter(all.path[i]);
        if (is >= 0)
            add_path(is ? &meters : &others, all.path[i]);
    }
    if (rc == 0 && meters.count && others.count)
        rc = err_at(err, others.path[0], 0, NULL,
                    "no file of a meter, expected all files of one format");
    if (rc == 0 && meters.count)
        rc = read_meters(w, &meters, err);
    for (int i = 0; i < others.count && rc == 0; i++)
        rc = read_json(w, others.path[i], err);
    if (rc == 0 && meters.count + others.count == 0)
        rc = err_set(err, ERR_INPUT, "no files in '%s', expected records of collectives",
                     path[0]);
    rc = rc ? rc : watch_index(w, err);
    for (int i = 0; i < all.count; i++)
        mem_free(all.path[i]);
    mem_free(all.path);
    mem_free(meters.path);
    mem_free(others.path);
    if (rc)
        watch_release(w);
    return rc;
}
