/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how what was measured is kept. */
#include "health/health_data.h"

#include <string.h>

#include "base/mem.h"
#include "health/health_name.h"

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
        char clean[HEALTH_NAME];
        health_name_clean(name[k], clean, sizeof clean);
        struct health_host h = {
            .name = mem_dup(clean), .ranks = 1, .leaf = -1, .pod = -1, .drain_Bps = -1};
        d->host[k] = h;
    }
}

void health_data_release(struct health_data *d)
{
    for (int k = 0; k < d->hosts; k++)
        mem_free(d->host[k].name);
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

/* One item more; returns the list's place, whose room is kept by the caller's struct. */
static void *grow(void *at, int *count, size_t *room, size_t size)
{
    at = mem_grow(at, room, (size_t)*count + 1, size);
    ++*count;
    return at;
}

void health_data_add(struct health_data *d, struct health_sample s)
{
    d->samples.at = grow(d->samples.at, &d->samples.count, &d->samples.room, sizeof s);
    d->samples.at[d->samples.count - 1] = s;
}

void health_data_add_rank(struct health_data *d, struct health_rank_sample s)
{
    d->rank_samples.at =
        grow(d->rank_samples.at, &d->rank_samples.count, &d->rank_samples.room, sizeof s);
    d->rank_samples.at[d->rank_samples.count - 1] = s;
}

void health_data_add_latency(struct health_data *d, struct health_latency s)
{
    d->latencies.at = grow(d->latencies.at, &d->latencies.count, &d->latencies.room, sizeof s);
    d->latencies.at[d->latencies.count - 1] = s;
}

void health_data_add_wrong(struct health_data *d, int src, int dst, int64_t words)
{
    struct health_wrong s = {src, dst, words};

    for (int i = 0; i < d->wrongs.count; i++)
        if ((d->wrongs.at[i].src == src && d->wrongs.at[i].dst == dst) ||
            i == HEALTH_PAIRS_MOST - 1) {
            d->wrongs.at[i].words += words;
            return;
        }
    d->wrongs.at = grow(d->wrongs.at, &d->wrongs.count, &d->wrongs.room, sizeof s);
    d->wrongs.at[d->wrongs.count - 1] = s;
}

void health_data_add_stall(struct health_data *d, struct health_stall s)
{
    if (d->stalls.count == HEALTH_PAIRS_MOST)
        return;
    d->stalls.at = grow(d->stalls.at, &d->stalls.count, &d->stalls.room, sizeof s);
    d->stalls.at[d->stalls.count - 1] = s;
}

void health_data_add_collective(struct health_data *d, struct health_collective s)
{
    d->collectives.at =
        grow(d->collectives.at, &d->collectives.count, &d->collectives.room, sizeof s);
    d->collectives.at[d->collectives.count - 1] = s;
}

void health_data_add_link(struct health_data *d, const struct health_link *l)
{
    d->links.at = grow(d->links.at, &d->links.count, &d->links.room, sizeof *l);
    d->links.at[d->links.count - 1] = *l;
}

void health_data_add_gpu(struct health_data *d, const struct health_gpu *g)
{
    d->gpus.at = grow(d->gpus.at, &d->gpus.count, &d->gpus.room, sizeof *g);
    d->gpus.at[d->gpus.count - 1] = *g;
}

unsigned health_missing(const struct health_data *d, unsigned parts)
{
    return d->asked & ~d->done & parts;
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
