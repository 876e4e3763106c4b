/* SPDX-License-Identifier: BSD-3-Clause */
/* Holds one run's measurements, and makes names printable. */
#include "health/health_data.h"

#include <inttypes.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "base/utf8.h"

const char *const health_way[2] = {"out", "in"};
const char *const health_levels[HEALTH_LEVELS + 1] = {"quick", "normal", "deep"};
const char *const health_parts[HEALTH_PARTS] = {"links",        "rounds",     "latency",
                                                "confirmation", "collective", "bisection"};

void health_data_init(struct health_data *d, int hosts, const char *const *name)
{
    *d = (struct health_data){.hosts = hosts, .ranks = hosts, .level = HEALTH_NORMAL};
    d->host = mem_new((size_t)hosts, sizeof *d->host);
    for (int k = 0; k < hosts; k++) {
        struct health_host *h = &d->host[k];
        *h = (struct health_host){.ranks = 1, .leaf = -1, .pod = -1, .drain_Bps = -1};
        if (name)
            health_name_clean(name[k], h->name, sizeof h->name);
        else
            snprintf(h->name, sizeof h->name, "node%d", k);
    }
}

void health_data_release(struct health_data *d)
{
    MEM_FREE(d->host, d->samples.at, d->rank_samples.at, d->latencies.at, d->wrongs.at,
             d->stalls.at, d->collectives.at, d->links.at, d->gpus.at);
    *d = (struct health_data){0};
}

void health_data_add_wrong(struct health_data *d, int src, int dst, int64_t words)
{
    for (int i = 0; i < d->wrongs.count; i++)
        if ((d->wrongs.at[i].src == src && d->wrongs.at[i].dst == dst) ||
            i == HEALTH_PAIRS_MOST - 1) {
            d->wrongs.at[i].amount += (double)words;
            return;
        }
    HEALTH_ADD(&d->wrongs) = (struct health_amount){src, dst, (double)words};
}

void health_data_add_stall(struct health_data *d, int src, int dst, double waited_s)
{
    if (d->stalls.count < HEALTH_PAIRS_MOST)
        HEALTH_ADD(&d->stalls) = (struct health_amount){src, dst, waited_s};
}

int64_t health_wrong_words(const struct health_data *d)
{
    double all = 0;

    for (int i = 0; i < d->wrongs.count; i++)
        all += d->wrongs.at[i].amount;
    return (int64_t)all;
}

unsigned health_missing(const struct health_data *d, unsigned parts)
{
    return d->requested & ~d->done & parts;
}

const char *health_host_name(const struct health_data *d, int host)
{
    return host >= 0 && host < d->hosts ? d->host[host].name : "";
}

int health_host_of_rank(const struct health_data *d, int rank)
{
    int k = 0;

    while (k < d->hosts - 1 && rank >= d->host[k].ranks)
        rank -= d->host[k++].ranks;
    return k;
}

int health_path(const struct health_data *d, int src, int dst)
{
    const struct health_host *a = &d->host[src], *b = &d->host[dst];

    if (a->leaf < 0 || b->leaf < 0)
        return 0;
    if (a->pod != b->pod)
        return 3;
    return a->leaf == b->leaf ? 1 : 2;
}

/* ---- names ---- */

/* Returns the bytes of the character if it may stay unchanged, otherwise 0. */
static int data_plain(const char *at)
{
    uint32_t code = 0;
    int n = utf8_next(at, &code);

    /* Some outputs replace a terminal's control characters by '?', and YAML escapes the last
       three. */
    if (n == 0 || code <= ' ' || code == 0xa0 || utf8_steers(code) || code == 0xfeff ||
        code == 0xfffe || code == 0xffff)
        return 0;
    /* Nagios removes `~$&|'"<> from text that it passes on. */
    return n > 1 || !strchr("|'\"\\=`~$&<>;", *at) ? n : 0;
}

static int is_inside(const char *at)
{
    return (*at & 0xc0) == 0x80;
}

/* Shortens a name to its beginning and end, in whole characters, and a hash. */
static void shorten(const char *all, size_t bytes, char *to, size_t space)
{
    const size_t kept = space - sizeof "..#01234567";
    size_t head = kept / 2, tail = bytes - (kept - head);

    while (head > 0 && is_inside(all + head))
        head--;
    while (tail < bytes && is_inside(all + tail))
        tail++;
    snprintf(to, space, "%.*s..%s#%08" PRIx32, (int)head, all, all + tail,
             (uint32_t)XXH32(all, bytes, 0));
}

static void data_make(const char *raw, int made, char *to, size_t space)
{
    static const char digits[] = "0123456789ABCDEF";
    char *all = mem_new(3 * strlen(raw) + 1, 1);
    size_t n = 0;

    for (const char *at = raw; *at;) {
        /* Escape '%' of an existing escape, so that it is not taken for one made here; and a
           name that is just "-". */
        int escape =
            *at == '%' && at[1] && strchr(digits, at[1]) && at[2] && strchr(digits, at[2]);
        int stays = strcmp(raw, "-") == 0 || (!made && escape) ? 0 : data_plain(at);
        if (stays)
            memcpy(all + n, at, (size_t)stays);
        else
            snprintf(all + n, 4, "%%%02X", (unsigned char)*at);
        n += stays ? (size_t)stays : 3;
        at += stays ? stays : 1;
    }
    if (n == 0)
        snprintf(to, space, "(none)"); /* Linux' name for a host without one */
    else if (n < space)
        memcpy(to, all, n + 1);
    else
        shorten(all, n, to, space);
    mem_free(all);
}

void health_name_make(const char *raw, char *to, size_t space)
{
    data_make(raw, 0, to, space);
}

void health_name_clean(const char *raw, char *to, size_t space)
{
    data_make(raw, 1, to, space);
}
