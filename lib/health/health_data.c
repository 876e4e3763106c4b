/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how what was measured is kept. */
#include "health/health_data.h"

#include <string.h>

#include "base/mem.h"
#include "health/health_name.h"

const char *const health_way[2] = {"out", "in"};
static const char *const levels[] = {"quick", "normal", "deep"};

const char *health_level_name(enum health_level level)
{
    return levels[level];
}

int health_level_parse(const char *text, enum health_level *out, struct err *err)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(text, levels[i]) == 0) {
            *out = (enum health_level)i;
            return 0;
        }
    return err_set(err, ERR_INPUT, "'%s', expected quick, normal or deep", text);
}

const char *health_part_name(enum health_part part)
{
    static const char *const names[HEALTH_PARTS] = {"links",        "rounds",     "latency",
                                                    "confirmation", "collective", "bisection"};

    return names[part];
}

void health_data_init(struct health_data *d, int hosts, const char *const *name)
{
    *d = (struct health_data){.hosts = hosts, .ranks = hosts, .level = HEALTH_NORMAL};
    d->host = mem_new((size_t)hosts, sizeof *d->host);
    for (int k = 0; k < hosts; k++) {
        struct health_host *h = &d->host[k];
        *h = (struct health_host){.ranks = 1, .leaf = -1, .pod = -1, .drain_Bps = -1};
        health_name_clean(name[k], h->name, sizeof h->name);
    }
}

void health_data_release(struct health_data *d)
{
    mem_free(d->host);
    mem_free(d->samples.at);
    mem_free(d->rank_samples.at);
    mem_free(d->latencies.at);
    mem_free(d->wrongs.at);
    mem_free(d->stalls.at);
    mem_free(d->collectives.at);
    mem_free(d->links.at);
    mem_free(d->gpus.at);
    *d = (struct health_data){0};
}

void health_data_add_wrong(struct health_data *d, int src, int dst, int64_t words)
{
    for (int i = 0; i < d->wrongs.count; i++)
        if ((d->wrongs.at[i].src == src && d->wrongs.at[i].dst == dst) ||
            i == HEALTH_PAIRS_MOST - 1) {
            d->wrongs.at[i].words += words;
            return;
        }
    HEALTH_ADD(&d->wrongs) = (struct health_wrong){src, dst, words};
}

void health_data_add_stall(struct health_data *d, struct health_stall s)
{
    if (d->stalls.count < HEALTH_PAIRS_MOST)
        HEALTH_ADD(&d->stalls) = s;
}

unsigned health_missing(const struct health_data *d, unsigned parts)
{
    return d->asked & ~d->done & parts;
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
