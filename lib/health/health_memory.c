/* SPDX-License-Identifier: BSD-3-Clause */
/* Maintains the file with a check's memory: its folder, its lock, its content. */
#include "health/health_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "health/health_store.h"

#define WHEN_MOST ((int64_t)1 << 40)

/* ---- the file ---- */

#define M struct health_memory
static const struct record head[] = {RECORD_INT(M, runs, "runs", 0, INT64_MAX - 1),
                                     RECORD_INT(M, when_s, "when_s", 0, WHEN_MOST),
                                     RECORD_INT(M, measured_s, "measured_s", 0, WHEN_MOST),
                                     RECORD(TEXT, M, host, "host"),
                                     RECORD(TEXT, M, boot, "boot"),
                                     RECORD_INT(M, printed, "said", 0, HEALTH_UNKNOWN),
                                     RECORD_INT(M, printed_s, "said_s", 0, WHEN_MOST),
                                     {0}};

#define K struct health_known
#define EVENTS(member_, count_)                                                                \
    RECORD_INT(K, member_, #member_, 0, HEALTH_EVENT_MOST, .each = 3,                          \
               .numbers = HEALTH_EVENTS, .count_at = offsetof(K, count_))
static const struct record nic[] = {HEALTH_NAME(K, last.name, "nic"),
                                    RECORD_INT(K, last.ib, "ib", 0, 1),
                                    RECORD_INT(K, last.real, "real", 0, 1),
                                    RECORD_INT(K, last.up, "up", 0, 1),
                                    RECORD_INT(K, last.carrier, "carrier", 0, 1),
                                    RECORD_INT(K, last.mbit, "mbit", 0, INT32_MAX),
                                    RECORD_INT(K, last.width, "width", 0, 999),
                                    RECORD_INT(K, last.packets, "packets", -1, INT64_MAX),
                                    RECORD_INT(K, last.losses, "losses", -1, INT64_MAX),
                                    RECORD_INT(K, last.ups, "ups", -1, INT64_MAX),
                                    RECORD_INT(K, want_up, "want_up", 0, 1),
                                    RECORD_INT(K, want_mbit, "want_mbit", 0, INT32_MAX),
                                    RECORD_INT(K, want_width, "want_width", 0, 999),
                                    RECORD_INT(K, last.counter, "counter", -1, INT64_MAX,
                                               .each = 1, .numbers = HEALTH_COUNTERS),
                                    EVENTS(loss, losses),
                                    EVENTS(recent, recents),
                                    {0}};

#define P struct health_problem
static const struct record problem[] = {RECORD_INT(P, code, "problem", 1, 999),
                                        RECORD_INT(P, reported, "spoken", 0, HEALTH_UNKNOWN),
                                        RECORD_INT(P, printed, "told", 0, HEALTH_UNKNOWN),
                                        RECORD_INT(P, runs, "runs", 0, INT32_MAX - 1),
                                        RECORD_INT(P, first_s, "first_s", 0, WHEN_MOST),
                                        RECORD_INT(P, last_s, "last_s", 0, WHEN_MOST),
                                        RECORD_INT(P, printed_s, "told_s", 0, WHEN_MOST),
                                        RECORD_INT(P, way, "way", -1, 1),
                                        RECORD(TEXT, P, host, "host"),
                                        RECORD(TEXT, P, link, "link"),
                                        RECORD(TEXT, P, other, "other"),
                                        RECORD(TEXT, P, text, "text"),
                                        {0}};

#define R struct health_rate
static const struct record rate[] = {HEALTH_NAME(R, host, "rate"),
                                     RECORD_INT(R, way, "way", 0, 1),
                                     RECORD_NUM(R, Bps, "Bps", 0, 1e25, .each = 1,
                                                .numbers = HEALTH_RATES,
                                                .count_at = offsetof(R, count)),
                                     {0}};

static const struct health_kind kinds[] = {
    {.key = "nic", .field = nic, HEALTH_LISTED(M, nics), .most = HEALTH_NICS_MOST, .unique = 1},
    {.key = "problem", .field = problem, HEALTH_LISTED(M, problems), .most = HEALTH_HOSTS_MOST},
    {.key = "rate", .field = rate, HEALTH_LISTED(M, rates), .most = 2 * HEALTH_HOSTS_MOST},
    {0}};

static void memory_forget(void *whole)
{
    struct health_memory *m = whole;

    MEM_FREE(m->nics.at, m->problems.at, m->rates.at);
    m->nics.at = NULL;
    m->problems.at = NULL;
    m->rates.at = NULL;
}

const struct health_store health_memory_store = {.format = "paro-health-state/2",
                                                 .bytes_most = 64 << 20,
                                                 .head = head,
                                                 .kind = kinds,
                                                 .release = memory_forget};

/* ---- items ---- */

struct health_known *health_memory_nic(struct health_memory *m, const char *name)
{
    for (int i = 0; i < m->nics.count; i++)
        if (strcmp(m->nics.at[i].last.name, name) == 0)
            return &m->nics.at[i];
    return NULL;
}

struct health_rate *health_memory_rate(const struct health_memory *m, const char *host, int way)
{
    for (int i = 0; i < m->rates.count; i++)
        if (m->rates.at[i].way == way && strcmp(m->rates.at[i].host, host) == 0)
            return &m->rates.at[i];
    return NULL;
}

/* ---- opening ---- */

/* Loads the file.  One with invalid content is kept under another name. */
static int memory_load(struct health_memory *m, const char *path, const char *host,
                       int64_t now_s, struct err *err)
{
    char kept[4200];
    struct stat st;
    int rc = 0;

    snprintf(kept, sizeof kept, "%s.bad", path);
    if (lstat(path, &st)) {
        if (errno != ENOENT)
            return err_sys(err, "cannot read '%s'", path);
        m->fresh = 1;
        snprintf(m->host, sizeof m->host, "%s", host);
        if (access(kept, F_OK) == 0)
            snprintf(m->old, sizeof m->old, "%s", kept);
        return 0;
    }
    if (!S_ISREG(st.st_mode))
        return err_at(err, path, 0, NULL, "is no plain file");
    if (health_store_read(&health_memory_store, path, m, err))
        rc = -1;
    else if (m->when_s > now_s + HEALTH_CLOCK_SLACK_S)
        rc = err_at(err, path, 1, "when_s", "is %" PRId64 " s from the future",
                    m->when_s - now_s);
    else if (strcmp(m->host, host) != 0)
        rc =
            err_at(err, path, 1, "host", "is of host '%.64s', expected '%.64s'", m->host, host);
    if (rc == 0)
        return 0;
    memory_forget(m);
    if (err->code == ERR_INPUT && rename(path, kept) == 0)
        err_suffix(err, "; kept as .bad, the next run starts afresh");
    return -1;
}

int health_memory_open(struct health_memory *m, const char *dir, const char *host,
                       const struct health_data *d, struct err *err)
{
    const int quick = d->level == HEALTH_QUICK;
    struct health_memory new = {.lock = -1};
    char name[HEALTH_HOST_NAME + 8], lock[HEALTH_HOST_NAME + 16];

    if (!dir)
        return 0;
    if (quick) /* a home folder may be shared by many hosts */
        snprintf(name, sizeof name, "%s.quick", host);
    else
        snprintf(name, sizeof name, "%s", d->gpus.count ? "rounds.cuda" : "rounds");
    for (char *c = name; (c = strchr(c, '/'));)
        *c = '_';
    snprintf(lock, sizeof lock, "%s.lock", name);
    if (health_folder_check(dir, err))
        return -1;
    char *path = io_join(dir, lock);
    int rc = io_lock(path, &new.lock, err);
    mem_free(path);
    if (rc && err->code == ERR_MISMATCH)
        err_set(err, ERR_MISMATCH, "another check is running, it holds '%s/%s'", dir, lock);
    path = io_join(dir, name);
    rc = rc ? rc : memory_load(&new, path, quick ? host : "", d->when_s, err);
    if (rc) {
        mem_free(path);
        if (new.lock >= 0)
            close(new.lock);
        return -1;
    }
    *m = new;
    m->path = path;
    return 0;
}

void health_memory_close(struct health_memory *m)
{
    memory_forget(m);
    mem_free(m->path);
    if (m->lock >= 0)
        close(m->lock);
    *m = (struct health_memory){.lock = -1};
}
