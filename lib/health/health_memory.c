/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the file of what is remembered: its folder, its lock, its lines.  Does not know what
 * follows from it (health_settle.c, health_quick.c).  A line is words with one blank between
 * them; a reader takes nothing that the writer does not write.
 */
#include "health/health_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "health/health_folder.h"

#define FORMAT "paro-health-state/1"

enum { WORDS = 32, FILE_MOST = 64 << 20, SUM_DIGITS = 16, RUN_LINE = 2 };

struct health_known *health_memory_nic(struct health_memory *m, const char *name)
{
    for (int i = 0; i < m->nics.count; i++)
        if (strcmp(m->nics.at[i].last.name, name) == 0)
            return &m->nics.at[i];
    return NULL;
}

struct health_known *health_memory_add_nic(struct health_memory *m, const char *name)
{
    struct health_known *k;

    m->nics.at = mem_grow(m->nics.at, &m->nics.room, (size_t)m->nics.count + 1, sizeof *k);
    k = &m->nics.at[m->nics.count++];
    *k = (struct health_known){0};
    snprintf(k->last.name, sizeof k->last.name, "%s", name);
    return k;
}

const struct health_rate *health_memory_find_rate(const struct health_memory *m,
                                                  const char *host, int way)
{
    for (int i = 0; i < m->rates.count; i++)
        if (m->rates.at[i].way == way && strcmp(m->rates.at[i].host, host) == 0)
            return &m->rates.at[i];
    return NULL;
}

struct health_rate *health_memory_add_rate(struct health_memory *m, const char *host, int way)
{
    struct health_rate *r;

    m->rates.at = mem_grow(m->rates.at, &m->rates.room, (size_t)m->rates.count + 1, sizeof *r);
    r = &m->rates.at[m->rates.count++];
    *r = (struct health_rate){.way = way};
    snprintf(r->host, sizeof r->host, "%s", host);
    return r;
}

/* ---- writing ---- */

/* A word has neither blanks nor line ends, and is not empty: "-" stands for nothing. */
static void put_word(FILE *out, const char *text)
{
    putc(' ', out);
    for (const char *c = text; *c; c++)
        putc((unsigned char)*c <= ' ' || *c == 0x7f ? '_' : *c, out);
    if (!*text)
        putc('-', out);
}

static void put_number(FILE *out, int64_t v)
{
    fprintf(out, " %" PRId64, v);
}

static void put_nic(FILE *out, const struct health_known *k)
{
    const struct health_nic *n = &k->last;
    const int64_t v[] = {n->ib,   n->real,    n->up,        n->carrier,
                         n->mbit, n->width,   n->packets,   n->losses,
                         n->ups,  k->want_up, k->want_mbit, k->want_width};

    fputs("nic", out);
    put_word(out, n->name);
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        put_number(out, v[i]);
    for (int i = 0; i < HEALTH_COUNTERS; i++)
        put_number(out, n->counter[i]);
    putc('\n', out);
    for (int i = 0; i < k->losses; i++)
        fprintf(out, "loss %s %" PRId64 " %" PRId64 "\n", n->name, k->loss[i].at_s,
                k->loss[i].n);
    for (int i = 0; i < k->recents; i++)
        fprintf(out, "recent %s %" PRId64 " %" PRId64 " %" PRId64 "\n", n->name,
                k->recent[i].at_s, k->recent[i].n, k->recent[i].packets);
}

static void put_problem(FILE *out, const struct health_problem *p)
{
    fprintf(out, "problem %d %d %d %d %" PRId64 " %" PRId64 " %" PRId64 " %d", p->code,
            p->spoken, p->told, p->runs, p->first_s, p->last_s, p->told_s, p->way);
    put_word(out, p->host);
    put_word(out, p->link);
    put_word(out, p->other);
    putc(' ', out);
    for (const char *c = p->text; *c; c++)
        putc((unsigned char)*c < ' ' || *c == 0x7f ? '_' : *c, out);
    putc('\n', out);
}

static void print_body(const struct health_memory *m, FILE *out)
{
    fprintf(out, FORMAT "\nrun %" PRId64 " %" PRId64 " %" PRId64, m->runs, m->when_s,
            m->measured_s);
    put_word(out, m->host);
    put_word(out, m->boot);
    fprintf(out, "\nsaid %d %" PRId64 "\n", m->said, m->said_s);
    for (int i = 0; i < m->nics.count; i++)
        put_nic(out, &m->nics.at[i]);
    for (int i = 0; i < m->problems.count; i++)
        put_problem(out, &m->problems.at[i]);
    for (int i = 0; i < m->rates.count; i++) {
        const struct health_rate *r = &m->rates.at[i];
        fputs("rate", out);
        put_word(out, r->host);
        put_number(out, r->way);
        for (int k = 0; k < r->count; k++)
            fprintf(out, " %.6g", r->Bps[k]);
        putc('\n', out);
    }
}

void health_memory_print(const struct health_memory *m, FILE *out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *body = mem_stream(&text, &bytes);

    print_body(m, body);
    fclose(body);
    fwrite(text, 1, bytes, out);
    fprintf(out, "sum %016" PRIx64 "\n", (uint64_t)XXH64(text, bytes, 0));
    mem_free(text);
}

/* ---- reading ---- */

struct reader {
    struct health_memory *m;
    const char *name;
    int line, words;
    char *word[WORDS];
};

static int bad(const struct reader *r, struct err *err, const char *what)
{
    return err_at(err, r->name, r->line, NULL, "%s", what);
}

static int number(const struct reader *r, int i, int64_t lo, int64_t hi, int64_t *out,
                  struct err *err)
{
    struct err why;

    if (num_i64(r->word[i], lo, hi, out, &why))
        return bad(r, err, why.text);
    return 0;
}

static int small(const struct reader *r, int i, int lo, int hi, int *out, struct err *err)
{
    int64_t v = 0;

    if (number(r, i, lo, hi, &v, err))
        return -1;
    *out = (int)v;
    return 0;
}

static int text_of(const struct reader *r, int i, char *to, size_t room, struct err *err)
{
    if (strlen(r->word[i]) >= room)
        return bad(r, err, "has a name that is too long");
    strcpy(to, strcmp(r->word[i], "-") ? r->word[i] : "");
    return 0;
}

static int counted(const struct reader *r, int words, struct err *err)
{
    return r->words == words ? 0 : bad(r, err, "has the wrong number of words");
}

#define WHEN_MOST ((int64_t)1 << 40)

static int take_run(struct reader *r, struct err *err)
{
    struct health_memory *m = r->m;

    return counted(r, 6, err) || number(r, 1, 0, INT64_MAX - 1, &m->runs, err) ||
                   number(r, 2, 0, WHEN_MOST, &m->when_s, err) ||
                   number(r, 3, 0, WHEN_MOST, &m->measured_s, err) ||
                   text_of(r, 4, m->host, sizeof m->host, err) ||
                   text_of(r, 5, m->boot, sizeof m->boot, err)
               ? -1
               : 0;
}

static int take_said(struct reader *r, struct err *err)
{
    int said = 0;

    if (counted(r, 3, err) || small(r, 1, 0, HEALTH_UNKNOWN, &said, err) ||
        number(r, 2, 0, WHEN_MOST, &r->m->said_s, err))
        return -1;
    r->m->said = (enum health_state)said;
    return 0;
}

static int take_nic(struct reader *r, struct err *err)
{
    enum { FIRST = 2, FLAGS = 4, NUMBERS = 12 };
    int64_t v[NUMBERS];
    const int64_t most[NUMBERS] = {1,         1,         1,         1, INT32_MAX, 999,
                                   INT64_MAX, INT64_MAX, INT64_MAX, 1, INT32_MAX, 999};

    if (counted(r, FIRST + NUMBERS + HEALTH_COUNTERS, err))
        return -1;
    if (r->m->nics.count == HEALTH_NICS_MOST || strlen(r->word[1]) >= HEALTH_NIC_NAME ||
        health_memory_nic(r->m, r->word[1]))
        return bad(r, err, "has a port too many");
    struct health_known *k = health_memory_add_nic(r->m, r->word[1]);
    struct health_nic *n = &k->last;
    for (int i = 0; i < NUMBERS; i++)
        if (number(r, FIRST + i, most[i] == INT64_MAX ? -1 : 0, most[i], &v[i], err))
            return -1;
    for (int i = 0; i < HEALTH_COUNTERS; i++)
        if (number(r, FIRST + NUMBERS + i, -1, INT64_MAX, &n->counter[i], err))
            return -1;
    n->ib = (int)v[0];
    n->real = (int)v[1];
    n->up = (int)v[2];
    n->carrier = (int)v[3];
    n->mbit = v[4];
    n->width = (int)v[5];
    n->packets = v[6];
    n->losses = v[7];
    n->ups = v[8];
    k->want_up = (int)v[9];
    k->want_mbit = v[10];
    k->want_width = (int)v[11];
    return 0;
}

/* Of the port whose line came last. */
static int take_event(struct reader *r, int losses, struct err *err)
{
    struct health_memory *m = r->m;
    struct health_known *k = m->nics.count ? &m->nics.at[m->nics.count - 1] : NULL;
    struct health_event e = {0};

    if (counted(r, losses ? 4 : 5, err))
        return -1;
    int *count = !k ? NULL : losses ? &k->losses : &k->recents;
    if (!k || strcmp(k->last.name, r->word[1]) != 0 || *count == HEALTH_EVENTS)
        return bad(r, err, "has an event of no port, or one too many");
    if (number(r, 2, 0, WHEN_MOST, &e.at_s, err) ||
        number(r, 3, 0, HEALTH_EVENT_MOST, &e.n, err) ||
        (!losses && number(r, 4, 0, HEALTH_EVENT_MOST, &e.packets, err)))
        return -1;
    (losses ? k->loss : k->recent)[(*count)++] = e;
    return 0;
}

/* The text is what is left of the line behind `words` words. */
static int take_problem(struct reader *r, const char *text, struct err *err)
{
    struct health_memory *m = r->m;
    struct health_problem p = {0};
    int spoken = 0, told = 0;

    if (counted(r, 12, err) || small(r, 1, 1, 999, &p.code, err) ||
        small(r, 2, 0, HEALTH_UNKNOWN, &spoken, err) ||
        small(r, 3, 0, HEALTH_UNKNOWN, &told, err) ||
        small(r, 4, 0, INT32_MAX - 1, &p.runs, err) ||
        number(r, 5, 0, WHEN_MOST, &p.first_s, err) ||
        number(r, 6, 0, WHEN_MOST, &p.last_s, err) ||
        number(r, 7, 0, WHEN_MOST, &p.told_s, err) || small(r, 8, -1, 1, &p.way, err) ||
        text_of(r, 9, p.host, sizeof p.host, err) ||
        text_of(r, 10, p.link, sizeof p.link, err) ||
        text_of(r, 11, p.other, sizeof p.other, err))
        return -1;
    if (m->problems.count == HEALTH_HOSTS_MOST || strlen(text) >= sizeof p.text)
        return bad(r, err, "has a problem too many, or one with too long a text");
    strcpy(p.text, text);
    p.spoken = (enum health_state)spoken;
    p.told = (enum health_state)told;
    m->problems.at =
        mem_grow(m->problems.at, &m->problems.room, (size_t)m->problems.count + 1, sizeof p);
    m->problems.at[m->problems.count++] = p;
    return 0;
}

static int take_rate(struct reader *r, struct err *err)
{
    struct health_memory *m = r->m;
    struct health_rate rate = {.count = r->words - 3};
    struct err why;

    if (r->words < 3 || rate.count > HEALTH_RATES || m->rates.count == 2 * HEALTH_HOSTS_MOST)
        return bad(r, err, "has a rate too many");
    if (text_of(r, 1, rate.host, sizeof rate.host, err) || small(r, 2, 0, 1, &rate.way, err))
        return -1;
    for (int i = 0; i < rate.count; i++)
        if (num_f64(r->word[3 + i], 0, 1e25, &rate.Bps[i], &why))
            return bad(r, err, why.text);
    m->rates.at =
        mem_grow(m->rates.at, &m->rates.room, (size_t)m->rates.count + 1, sizeof rate);
    m->rates.at[m->rates.count++] = rate;
    return 0;
}

/* Words of the line, the last of `most` with all that is left; "" where nothing is. */
static char *split(struct reader *r, char *line, int most)
{
    r->words = 0;
    for (char *at = line; r->words < most;) {
        r->word[r->words++] = at;
        at = strchr(at, ' ');
        if (!at)
            return line + strlen(line);
        *at++ = 0;
        if (r->words == most)
            return at;
    }
    return line;
}

static int take_line(struct reader *r, char *line, struct err *err)
{
    int problem = strncmp(line, "problem ", 8) == 0;

    for (const char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return bad(r, err, "has a control character");
    char *rest = split(r, line, problem ? 12 : WORDS);
    const char *kind = r->word[0];
    for (int i = 0; i < r->words; i++)
        if (!r->word[i][0])
            return bad(r, err, "has two blanks in a row");
    if (problem)
        return take_problem(r, rest, err);
    if (*rest)
        return bad(r, err, "has too many words");
    if (r->line == RUN_LINE)
        return strcmp(kind, "run") ? bad(r, err, "is no run") : take_run(r, err);
    if (strcmp(kind, "said") == 0)
        return take_said(r, err);
    if (strcmp(kind, "nic") == 0)
        return take_nic(r, err);
    if (strcmp(kind, "loss") == 0)
        return take_event(r, 1, err);
    if (strcmp(kind, "recent") == 0)
        return take_event(r, 0, err);
    if (strcmp(kind, "rate") == 0)
        return take_rate(r, err);
    return bad(r, err, "is of an unknown kind");
}

/* Where the last line begins, checked to be the sum of what stands before it; -1. */
static int64_t find_sum(const char *text, int64_t bytes)
{
    const int64_t last = (int64_t)strlen("sum \n") + SUM_DIGITS;
    char want[32];

    if (bytes < last || text[bytes - 1] != '\n' ||
        (bytes > last && text[bytes - last - 1] != '\n'))
        return -1;
    snprintf(want, sizeof want, "sum %016" PRIx64 "\n",
             (uint64_t)XXH64(text, (size_t)(bytes - last), 0));
    return memcmp(want, text + bytes - last, (size_t)last) ? -1 : bytes - last;
}

int health_memory_parse(struct health_memory *m, const char *name, char *text, int64_t bytes,
                        struct err *err)
{
    struct reader r = {.m = m, .name = name};

    if (strncmp(text, FORMAT "\n", strlen(FORMAT) + 1) != 0) {
        char first[41] = "";
        snprintf(first, sizeof first, "%.*s", (int)strcspn(text, "\n"), text);
        return err_at(err, name, 1, NULL, "is '%s', expected " FORMAT, first);
    }
    int64_t end = find_sum(text, bytes);
    if (end < 0 || (int64_t)strlen(text) < bytes) {
        for (int64_t i = 0; i < bytes; i++)
            r.line += i == 0 || text[i - 1] == '\n';
        return bad(&r, err,
                   "is not the sum of the lines before it: the file is cut or changed");
    }
    text[end] = 0;
    for (char *line = text; line < text + end;) {
        char *stop = strchr(line, '\n');
        *stop = 0;
        r.line++;
        if (r.line > 1 && take_line(&r, line, err))
            return -1;
        line = stop + 1;
    }
    return r.line >= 2 ? 0 : bad(&r, err, "is the last line, expected a run after it");
}

/* ---- the file ---- */

static void forget(struct health_memory *m)
{
    mem_free(m->nics.at);
    mem_free(m->problems.at);
    mem_free(m->rates.at);
    m->nics.at = NULL;
    m->problems.at = NULL;
    m->rates.at = NULL;
}

static int check_read(const struct health_memory *m, const char *host, int64_t now_s,
                      struct err *err)
{
    if (m->when_s > now_s + HEALTH_CLOCK_SLACK_S)
        return err_at(err, m->path, RUN_LINE, NULL, "is %" PRId64 " s from the future",
                      m->when_s - now_s);
    if (strcmp(m->host, host) != 0)
        return err_at(err, m->path, RUN_LINE, NULL, "is of host '%.64s', expected '%.64s'",
                      m->host, host);
    return 0;
}

/* 1: there is none */
static int read_file(struct health_memory *m, char **text, int64_t *bytes, struct err *err)
{
    struct stat st;

    if (lstat(m->path, &st))
        return errno == ENOENT ? 1 : err_sys(err, "cannot read '%s'", m->path);
    if (!S_ISREG(st.st_mode))
        return err_at(err, m->path, 0, NULL, "is no plain file");
    return io_read_text(m->path, FILE_MOST, text, bytes, err);
}

static char *bad_name(const struct health_memory *m)
{
    size_t room = strlen(m->path) + sizeof ".bad";
    char *name = mem_new(room, 1);

    snprintf(name, room, "%s.bad", m->path);
    return name;
}

static int load(struct health_memory *m, const char *host, int64_t now_s, struct err *err)
{
    char *text = NULL, *kept = bad_name(m);
    int64_t bytes = 0;
    int rc = read_file(m, &text, &bytes, err);

    m->fresh = rc == 1;
    if (m->fresh && access(kept, F_OK) == 0)
        snprintf(m->old, sizeof m->old, "%s", kept);
    if (rc == 0 && (health_memory_parse(m, m->path, text, bytes, err) ||
                    check_read(m, host, now_s, err))) {
        forget(m);
        rc = -1;
        if (rename(m->path, kept) == 0)
            err_suffix(err, "; kept as .bad, the next run starts afresh");
    }
    mem_free(text);
    mem_free(kept);
    return rc < 0 ? -1 : 0;
}

int health_memory_open(struct health_memory *m, const char *dir, const char *name,
                       const char *host, int64_t now_s, struct err *err)
{
    struct health_memory new = {.lock = -1};
    char lock[300];

    if (health_folder_check(dir, err))
        return -1;
    new.path = io_join(dir, name);
    snprintf(lock, sizeof lock, "%.280s.lock", name);
    char *path = io_join(dir, lock);
    int rc = health_file_lock(path, &new.lock, err);
    mem_free(path);
    if (rc && err->code == ERR_MISMATCH)
        err_set(err, ERR_MISMATCH, "another check is running, it holds '%s/%s'", dir, lock);
    rc = rc ? rc : load(&new, host, now_s, err);
    if (rc) {
        health_memory_close(&new);
        return -1;
    }
    if (new.fresh)
        snprintf(new.host, sizeof new.host, "%s", host);
    *m = new;
    return 0;
}

int health_memory_save(const struct health_memory *m, struct err *err)
{
    struct io_out out;

    if (health_file_create(&out, m->path, 1, err))
        return -1;
    health_memory_print(m, out.file);
    return health_file_commit(&out, err);
}

void health_memory_close(struct health_memory *m)
{
    forget(m);
    mem_free(m->path);
    if (m->lock >= 0)
        close(m->lock);
    *m = (struct health_memory){.lock = -1};
}
