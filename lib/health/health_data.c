/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps what one run has measured. */
#include "health/health_data.h"

#include <string.h>

#include "base/mem.h"

const char *const health_way[2] = {"out", "in"};
const char *const health_levels[HEALTH_LEVELS] = {"quick", "normal", "deep"};
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
