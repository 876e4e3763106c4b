/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a record is read: line by line, each an object with exactly the keys that the
 * writer gives it.  The last line is the checksum of all before it, so that a record that was
 * cut or changed is none.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "health/health_name.h"
#include "health/health_record.h"
#include "health/health_sum.h"

enum {
    LINE_MOST = 4096,
    RANKS_MOST = 1 << 20,
    SAMPLES_MOST = 1 << 22, /* 4096 ports 1024 times */
    LINKS_MOST = 1 << 18,
    NAME_MOST = 255
};

/* Beyond what any port does, and what any run takes; what is 0 would be no sample. */
static const double rate_most = 1e25, rate_least = 1e-3, time_most = 1e9;

static const char tail[] = "{\"xxh3\":\"";
enum { TAIL = sizeof tail - 1 + 32 + 3 }; /* and "}\n */

struct reader {
    struct health_data d;
    const char *name;
    int line, hosts; /* hosts read so far */
    json_t *object;
    struct err *err;
};

#define FAIL(r, key, ...) err_at((r)->err, (r)->name, (r)->line, key, __VA_ARGS__)

/* ---- values ---- */

static int whole(struct reader *r, const char *key, int64_t lo, int64_t hi, int64_t *out)
{
    json_t *v = json_object_get(r->object, key);

    *out = json_integer_value(v);
    if (json_is_integer(v) && *out >= lo && *out <= hi)
        return 0;
    return FAIL(r, key, "is absent or no whole number from %lld to %lld", (long long)lo,
                (long long)hi);
}

static int small(struct reader *r, const char *key, int lo, int hi, int *out)
{
    int64_t v;

    if (whole(r, key, lo, hi, &v))
        return -1;
    *out = (int)v;
    return 0;
}

static int number(struct reader *r, const char *key, double lo, double hi, double *out)
{
    json_t *v = json_object_get(r->object, key);

    *out = json_number_value(v);
    if (json_is_number(v) && *out >= lo && *out <= hi)
        return 0;
    return FAIL(r, key, "is absent or no number from %g to %g", lo, hi);
}

static int truth(struct reader *r, const char *key, int *out)
{
    json_t *v = json_object_get(r->object, key);

    *out = json_is_true(v);
    return json_is_boolean(v) ? 0 : FAIL(r, key, "is absent or neither true nor false");
}

/* A text of `room` bytes at most (its 0 with them), without control characters. */
static int text(struct reader *r, const char *key, size_t room, const char **out)
{
    json_t *v = json_object_get(r->object, key);
    size_t n = json_string_length(v);

    *out = json_string_value(v);
    if (!json_is_string(v) || n >= room || strlen(*out) != n)
        return FAIL(r, key, "is absent or no text of %zu bytes at most", room - 1);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)(*out)[i] < 0x20 || (*out)[i] == 0x7f)
            return FAIL(r, key, "has a control character");
    return 0;
}

static int keys(struct reader *r, size_t n)
{
    return json_object_size(r->object) == n
               ? 0
               : FAIL(r, NULL, "has %zu keys, expected %zu", json_object_size(r->object), n);
}

static int ends(struct reader *r, int most, int *src, int *dst)
{
    if (small(r, "src", 0, most - 1, src) || small(r, "dst", 0, most - 1, dst))
        return -1;
    return *src != *dst ? 0 : FAIL(r, "dst", "is %d as 'src' is, expected another", *dst);
}

static int room_for(struct reader *r, int count, int most)
{
    return count < most ? 0 : FAIL(r, NULL, "is one of more than %d", most);
}

/* ---- lines ---- */

static int parts(struct reader *r, const char *key, unsigned *out)
{
    json_t *list = json_object_get(r->object, key), *v;
    size_t i;

    *out = 0;
    if (!json_is_array(list))
        return FAIL(r, key, "is absent or no list");
    json_array_foreach(list, i, v)
    {
        const char *word = json_string_value(v);
        unsigned bit = 0;
        for (int p = 0; word && p < HEALTH_PARTS; p++)
            if (strcmp(word, health_part_name((enum health_part)p)) == 0)
                bit = 1u << p;
        if (bit <= *out) /* ascending */
            return FAIL(r, key, "has '%.40s' at %zu, expected names of checks in their order",
                        word ? word : "no text", i);
        *out |= bit;
    }
    return 0;
}

static int head(struct reader *r)
{
    struct health_data *d = &r->d;
    const char *format, *level;
    int64_t seed;

    d->capped = json_is_true(json_object_get(r->object, "capped"));
    if (text(r, "format", 32, &format))
        return -1;
    if (strcmp(format, "paro-health/1"))
        return FAIL(r, "format", "is '%s', expected 'paro-health/1'", format);
    if (keys(r, d->capped ? 13 : 12) || whole(r, "when_s", 0, INT64_C(1) << 40, &d->when_s) ||
        text(r, "level", 16, &level) || small(r, "hosts", 1, HEALTH_HOSTS_MOST, &d->hosts) ||
        small(r, "own", 0, d->hosts - 1, &d->own) ||
        whole(r, "seed", INT64_MIN, INT64_MAX, &seed) ||
        small(r, "rounds", 0, 1 << 24, &d->rounds) ||
        small(r, "wanted", 0, 1 << 24, &d->wanted) || parts(r, "asked", &d->asked) ||
        parts(r, "done", &d->done) || number(r, "seconds", 0, time_most, &d->seconds) ||
        number(r, "deadline_s", 0, time_most, &d->deadline_s))
        goto fail;
    if (health_level_parse(level, &d->level, r->err)) {
        FAIL(r, "level", "is '%s', expected quick, normal or deep", level);
        goto fail;
    }
    d->seed = (uint64_t)seed;
    d->host = mem_new((size_t)d->hosts, sizeof *d->host);
    return 0;
fail:
    d->hosts = 0; /* none was made */
    return -1;
}

static int host(struct reader *r)
{
    struct health_host *h = &r->d.host[r->hosts];
    const char *name, *why;
    char clean[HEALTH_NAME];

    if (keys(r, 7) || text(r, "host", NAME_MOST + 1, &name) ||
        small(r, "ranks", 1, RANKS_MOST, &h->ranks) ||
        small(r, "leaf", -1, INT32_MAX, &h->leaf) || small(r, "pod", -1, INT32_MAX, &h->pod) ||
        number(r, "drain_Bps", -1, rate_most, &h->drain_Bps) ||
        truth(r, "silent", &h->silent) || text(r, "why", sizeof h->why, &why))
        return -1;
    if (*name == 0)
        return FAIL(r, "host", "is empty, expected a name");
    if (h->ranks > RANKS_MOST - r->d.ranks)
        return FAIL(r, "ranks", "makes more than %d ranks", RANKS_MOST);
    r->d.ranks += h->ranks;
    snprintf(h->why, sizeof h->why, "%s", why);
    health_name_clean(name, clean, sizeof clean);
    h->name = mem_dup(clean);
    r->hosts++;
    return 0;
}

static int link_line(struct reader *r)
{
    struct health_link l = {0};
    const char *name;

    if (room_for(r, r->d.links.count, LINKS_MOST) || keys(r, 11) ||
        text(r, "link", sizeof l.name, &name) || small(r, "of", 0, r->d.hosts - 1, &l.host) ||
        truth(r, "up", &l.up) || truth(r, "carrier", &l.carrier) || truth(r, "lost", &l.lost) ||
        number(r, "link_Bps", 0, rate_most, &l.Bps) ||
        number(r, "want_Bps", 0, rate_most, &l.want_Bps) ||
        whole(r, "errors", -1, INT64_MAX, &l.errors) ||
        whole(r, "packets", -1, INT64_MAX, &l.packets) ||
        whole(r, "flaps", -1, INT64_MAX, &l.flaps) ||
        number(r, "since_s", 0, time_most, &l.since_s))
        return -1;
    health_name_clean(name, l.name, sizeof l.name);
    health_data_add_link(&r->d, &l);
    return 0;
}

static int gpu(struct reader *r)
{
    struct health_gpu g = {0};
    const char *name;

    if (room_for(r, r->d.gpus.count, r->d.ranks) || keys(r, 4) ||
        small(r, "gpu", 0, INT32_MAX, &g.index) || text(r, "name", sizeof g.name, &name) ||
        whole(r, "wrong_out", 0, INT64_C(1) << 48, &g.wrong[HEALTH_OUT]) ||
        whole(r, "wrong_in", 0, INT64_C(1) << 48, &g.wrong[HEALTH_IN]))
        return -1;
    snprintf(g.name, sizeof g.name, "%s", name);
    health_data_add_gpu(&r->d, &g);
    return 0;
}

static int sample(struct reader *r)
{
    struct health_sample s;
    int again;

    if (room_for(r, r->d.samples.count, SAMPLES_MOST) || keys(r, 5) ||
        ends(r, r->d.hosts, &s.src, &s.dst) || small(r, "round", 0, 1 << 24, &s.round) ||
        truth(r, "again", &again) || number(r, "Bps", rate_least, rate_most, &s.Bps))
        return -1;
    s.stage = again ? HEALTH_CONFIRM : HEALTH_ROUNDS;
    health_data_add(&r->d, s);
    return 0;
}

static int rank_sample(struct reader *r)
{
    struct health_rank_sample s;

    if (room_for(r, r->d.rank_samples.count, SAMPLES_MOST) || keys(r, 4) ||
        ends(r, r->d.ranks, &s.src, &s.dst) || small(r, "round", 0, 1 << 24, &s.round) ||
        number(r, "rank_Bps", rate_least, rate_most, &s.Bps))
        return -1;
    health_data_add_rank(&r->d, s);
    return 0;
}

static int latency(struct reader *r)
{
    struct health_latency s;

    if (room_for(r, r->d.latencies.count, SAMPLES_MOST) || keys(r, 3) ||
        ends(r, r->d.hosts, &s.src, &s.dst) || number(r, "latency_s", 1e-12, time_most, &s.s))
        return -1;
    health_data_add_latency(&r->d, s);
    return 0;
}

static int wrong(struct reader *r)
{
    int src, dst;
    int64_t words;

    if (room_for(r, r->d.wrongs.count, HEALTH_PAIRS_MOST) || keys(r, 3) ||
        ends(r, r->d.hosts, &src, &dst) || whole(r, "wrong_words", 1, INT64_C(1) << 48, &words))
        return -1;
    int before = r->d.wrongs.count;
    health_data_add_wrong(&r->d, src, dst, words);
    return r->d.wrongs.count > before ? 0 : FAIL(r, "src", "and 'dst' are repeated");
}

static int stall(struct reader *r)
{
    struct health_stall s;

    if (room_for(r, r->d.stalls.count, HEALTH_PAIRS_MOST) || keys(r, 3) ||
        ends(r, r->d.hosts, &s.src, &s.dst) ||
        number(r, "stalled_s", 0, time_most, &s.waited_s))
        return -1;
    health_data_add_stall(&r->d, s);
    return 0;
}

static int collective(struct reader *r)
{
    struct health_collective c;

    if (room_for(r, r->d.collectives.count, HEALTH_PAIRS_MOST) || keys(r, 4) ||
        number(r, "collective_s", 1e-12, time_most, &c.s) ||
        number(r, "want_s", 1e-12, time_most, &c.want_s) ||
        small(r, "first", 0, r->d.hosts - 1, &c.first) ||
        small(r, "count", 1, r->d.hosts - c.first, &c.count))
        return -1;
    health_data_add_collective(&r->d, c);
    return 0;
}

/* A line is what its own key says. */
static int item(struct reader *r)
{
    static const struct {
        const char *key;
        int (*read)(struct reader *r);
    } kinds[] = {{"Bps", sample},        {"rank_Bps", rank_sample},
                 {"latency_s", latency}, {"wrong_words", wrong},
                 {"stalled_s", stall},   {"collective_s", collective},
                 {"link", link_line},    {"gpu", gpu}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (json_object_get(r->object, kinds[i].key))
            return kinds[i].read(r);
    return FAIL(r, NULL, "is no line of a record");
}

static int line(struct reader *r, const char *at, size_t bytes)
{
    json_error_t where;
    int rc;

    if (bytes > LINE_MOST)
        return FAIL(r, NULL, "has %zu bytes, expected %d at most", bytes, LINE_MOST);
    r->object = json_loadb(at, bytes, JSON_REJECT_DUPLICATES, &where);
    if (!r->object)
        return FAIL(r, NULL, "no valid JSON: %.200s", where.text);
    if (!json_is_object(r->object))
        rc = FAIL(r, NULL, "is no JSON object");
    else if (r->line == 1)
        rc = head(r);
    else
        rc = r->hosts < r->d.hosts ? host(r) : item(r);
    json_decref(r->object);
    return rc;
}

/* ---- the whole ---- */

static int check_sum(struct reader *r, const char *at, int64_t bytes)
{
    int64_t before = bytes - TAIL;
    char hex[HEALTH_SUM];

    if (before < 0 || memcmp(at + before, tail, sizeof tail - 1) ||
        memcmp(at + bytes - 3, "\"}\n", 3))
        return FAIL(r, NULL, "does not end with its checksum: it is no record, or cut short");
    health_sum(at, before, hex);
    if (memcmp(hex, at + bytes - 35, 32))
        return FAIL(r, NULL, "is damaged: its checksum is not %s", hex);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int check_gpus(struct reader *r)
{
    if (r->d.gpus.count == 0 || r->d.gpus.count == r->d.ranks)
        return 0;
    return FAIL(r, "gpu", "occurs %d times for %d ranks, expected one for each or none",
                r->d.gpus.count, r->d.ranks);
}

static int check_hosts(struct reader *r)
{
    char **sorted;
    int rc = 0;

    if (r->hosts < r->d.hosts)
        return FAIL(r, NULL, "is the last, %d hosts expected and %d found", r->d.hosts,
                    r->hosts);
    sorted = mem_new((size_t)r->hosts, sizeof *sorted);
    for (int k = 0; k < r->hosts; k++)
        sorted[k] = r->d.host[k].name;
    qsort(sorted, (size_t)r->hosts, sizeof *sorted, by_name);
    r->line = 0;
    for (int k = 1; rc == 0 && k < r->hosts; k++)
        if (strcmp(sorted[k - 1], sorted[k]) == 0)
            rc = FAIL(r, "host", "is '%s' twice, expected each host once", sorted[k]);
    mem_free(sorted);
    return rc;
}

int health_record_parse(struct health_data *d, const char *name, const char *at, int64_t bytes,
                        struct err *err)
{
    struct reader r = {.name = name, .err = err};
    int rc = check_sum(&r, at, bytes);

    for (const char *end = at + bytes - TAIL; rc == 0 && at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        r.line++;
        if (!stop)
            rc = FAIL(&r, NULL, "has no end");
        else
            rc = line(&r, at, (size_t)(stop - at));
        at = stop ? stop + 1 : end;
    }
    if (rc == 0 && r.line == 0)
        rc = FAIL(&r, NULL, "is empty");
    rc = rc ? rc : check_hosts(&r);
    rc = rc ? rc : check_gpus(&r);
    if (rc == 0)
        *d = r.d;
    else
        health_data_release(&r.d);
    return rc;
}

int health_record_read(struct health_data *d, const char *path, struct err *err)
{
    char *at = NULL;
    int64_t bytes = 0;

    if (io_read_text(path, HEALTH_RECORD_MOST, &at, &bytes, err))
        return -1;
    int rc = health_record_parse(d, path, at, bytes, err);
    mem_free(at);
    return rc;
}
