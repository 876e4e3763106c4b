/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a log as lines, in blocks that stay in the cache.  Leaves parsing them to
   rank_line.c. */
#include "rank/rank_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <omp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/run_folder.h"
#include "rank/rank_line.h"

/* A block stays in a second-level cache between the kernel's write and our read. */
enum { BLOCK = 256 << 10, THREADS_MAX = 64 };

struct reader {
    struct rank_run *run;
    struct rank_regex *regex; /* NULL: known formats */
    struct err *err;
    int64_t bytes; /* length of the log */
    int begun;     /* 1: the byte order mark, if any, has been skipped */
};

static int take_line(struct reader *r, const char *p, int64_t bytes)
{
    struct rank_run *run = r->run;
    enum rank_said said = RANK_NOTHING;
    struct rank_point pt;

    run->lines++;
    if (!r->regex)
        said = rank_line(p, bytes, run->losses == 0, &pt);
    else if (rank_regex_line(r->regex, p, bytes - (bytes && p[bytes - 1] == '\r'), &pt, &said,
                             r->err))
        return err_prefix(r->err, "%s:%" PRId64 ": ", run->name, run->lines);
    if (said != RANK_LOSS) {
        run->broken += said == RANK_BROKEN;
        return 0;
    }
    if (run->losses++ == 0) {
        run->planned = pt.planned;
        run->tokens = pt.tokens;
    }
    return rank_curve_add(&run->curve, pt.step, pt.loss, r->err)
               ? err_prefix(r->err, "log '%s': ", run->name)
               : 0;
}

/* Parses the lines p..end, each followed by a line feed. */
static int take_lines(struct reader *r, const char *p, const char *end)
{
    int rc = 0;

    for (const char *to; p < end && rc == 0; p = to + 1) {
        to = memchr(p, '\n', (size_t)(end - p));
        rc = take_line(r, p, to - p);
    }
    return rc;
}

/* Parses up to the last line feed of text[used], and moves the rest to the front. */
static int take_block(struct reader *r, char *text, int64_t *used)
{
    if (!r->begun && *used >= 3) { /* skip the byte order mark */
        int mark = rank_line_mark(text, *used, r->run->name, r->err);
        if (mark < 0)
            return -1;
        r->begun = 1;
        *used -= mark;
        memmove(text, text + mark, (size_t)*used);
    }
    const char *first = memchr(text, '\n', (size_t)*used);
    const char *last = first ? memrchr(text, '\n', (size_t)*used) : NULL;
    int64_t whole = last ? last + 1 - text : 0;

    /* Every other line lies within one block. */
    if ((first ? first - text : *used) > RANK_LINE_MAX)
        return err_set(r->err, ERR_INPUT, "%s:%" PRId64 ": a line of more than %d bytes",
                       r->run->name, r->run->lines + 1, (int)RANK_LINE_MAX);
    if (take_lines(r, text, text + whole))
        return -1;
    *used -= whole;
    memmove(text, text + whole, (size_t)*used);
    return 0;
}

static int read_fd(struct reader *r, int fd)
{
    int64_t used = 0;
    char *text = NULL;
    int rc = 0;

    if (mem_buffer(RANK_LINE_MAX + BLOCK + 1, "a block of a log", (void **)&text, r->err))
        return -1;
    while (rc == 0) {
        ssize_t n = read(fd, text + used, BLOCK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_sys(r->err, "cannot read log '%s'", r->run->name);
        if (n <= 0)
            break;
        used += n;
        r->bytes += n;
        rc = take_block(r, text, &used);
    }
    /*
     * An unterminated last line may be incomplete, and its numbers truncated: accept it only if
     * it is a closed JSON object.
     */
    int64_t broken = r->run->broken;
    text[used] = '\n';
    if (rc == 0 && used && *text == '{' && !r->regex)
        rc = take_lines(r, text, text + used + 1);
    r->run->broken = broken;
    mem_free(text);
    return rc;
}

/* Reads a file again, keeping everything, if a step went back too far. */
int rank_read_fd(struct rank_run *run, int fd, const struct rank_reading *how, struct err *err)
{
    struct rank_reading all = *how;
    struct reader r = {.run = run, .err = err};
    struct stat st;
    off_t from = lseek(fd, 0, SEEK_CUR);

    all.query = NULL;
    if (how->query && (from < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)))
        how = &all;
    if (how->regex && rank_regex_new(how->regex, &r.regex, err))
        return err_prefix(err, "--regex: ");
    *run = (struct rank_run){.name = run->name};
    rank_curve_init(&run->curve, how->per_epoch, how->last_step, how->query);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    int rc = read_fd(&r, fd);
    rank_regex_free(r.regex);
    if (rc == 0 && run->curve.lost) {
        rank_run_release(run);
        if (lseek(fd, from, SEEK_SET) < 0)
            return err_sys(err, "cannot read log '%s' again", run->name);
        return rank_read_fd(run, fd, &all, err);
    }
    if (rc == 0 && r.bytes == 0)
        rc = err_set(err, ERR_INPUT, "log '%s' is empty", run->name);
    if (rc == 0 && run->losses == 0)
        rc = err_set(err, ERR_INPUT,
                     how->regex ? "log '%s' has no line that --regex finds a number in,"
                                  " of %" PRId64
                                : "log '%s' has no line with a step and a training loss,"
                                  " of %" PRId64 " (--regex finds others)",
                     run->name, run->lines);
    if (rc == 0 && rank_curve_end(&run->curve, err))
        rc = err_prefix(err, "log '%s': ", run->name);
    if (rc)
        rank_run_release(run);
    return rc;
}

int rank_read(struct rank_run *run, const struct rank_reading *how, struct err *err)
{
    int std = strcmp(run->name, "-") == 0;
    char *path = NULL;

    if (!std && run_folder_log(run->name, &path, err))
        return -1;
    int fd = std ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    mem_free(path);
    if (fd < 0)
        return err_sys(err, "cannot open log '%s'", run->name);
    int rc = rank_read_fd(run, fd, how, err);
    if (!std)
        close(fd);
    return rc;
}

void rank_run_release(struct rank_run *run)
{
    rank_curve_release(&run->curve);
}

int rank_read_all(struct rank_run *run, int runs, const struct rank_reading *how,
                  struct err *err)
{
    struct err *each = mem_new((size_t)runs, sizeof *each);
    int *failed = mem_new((size_t)runs, sizeof *failed), rc = 0;
    int processors = omp_get_num_procs(), most = processors < runs ? processors : runs;

#pragma omp parallel for schedule(dynamic, 1) if (most > 1)                                    \
    num_threads(most < THREADS_MAX ? most : THREADS_MAX)
    for (int i = 0; i < runs; i++)
        failed[i] = rank_read(&run[i], how, &each[i]) != 0;
    for (int i = 0; i < runs && rc == 0; i++)
        if (failed[i]) {
            *err = each[i];
            rc = -1;
        }
    for (int i = 0; i < runs && rc; i++)
        if (!failed[i])
            rank_run_release(&run[i]);
    mem_free(each);
    mem_free(failed);
    return rc;
}
