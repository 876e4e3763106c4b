/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a record is written: paro-health/1, paro-health-record(5). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/jout.h"
#include "base/mem.h"
#include "health/health_folder.h"
#include "health/health_record.h"
#include "health/health_sum.h"

static void put_parts(struct jout *j, const char *key, unsigned parts)
{
    jout_open(j, key, '[');
    for (int p = 0; p < HEALTH_PARTS; p++)
        if (parts >> p & 1)
            jout_text(j, NULL, health_part_name((enum health_part)p));
    jout_close(j, ']');
}

static void put_head(const struct health_data *d, FILE *out)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_text(&j, "format", "paro-health/1");
    jout_int(&j, "when_s", d->when_s);
    jout_text(&j, "level", health_level_name(d->level));
    jout_int(&j, "hosts", d->hosts);
    jout_int(&j, "own", d->own);
    jout_int(&j, "seed", (int64_t)d->seed);
    jout_int(&j, "rounds", d->rounds);
    jout_int(&j, "wanted", d->wanted);
    put_parts(&j, "asked", d->asked);
    put_parts(&j, "done", d->done);
    jout_num(&j, "seconds", d->seconds);
    jout_num(&j, "deadline_s", d->deadline_s);
    if (d->capped)
        jout_bool(&j, "capped", 1);
    jout_close(&j, '}');
}

static void put_host(const struct health_host *h, FILE *out)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_text(&j, "host", h->name);
    jout_int(&j, "ranks", h->ranks);
    jout_int(&j, "leaf", h->leaf);
    jout_int(&j, "pod", h->pod);
    jout_num(&j, "drain_Bps", h->drain_Bps);
    jout_bool(&j, "silent", h->silent);
    jout_text(&j, "why", h->why);
    jout_close(&j, '}');
}

static void put_link(const struct health_link *l, FILE *out)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_text(&j, "link", l->name);
    jout_int(&j, "of", l->host);
    jout_bool(&j, "up", l->up);
    jout_bool(&j, "carrier", l->carrier);
    jout_bool(&j, "lost", l->lost);
    jout_num(&j, "link_Bps", l->Bps);
    jout_num(&j, "want_Bps", l->want_Bps);
    jout_int(&j, "errors", l->errors);
    jout_int(&j, "packets", l->packets);
    jout_int(&j, "flaps", l->flaps);
    jout_num(&j, "since_s", l->since_s);
    jout_close(&j, '}');
}

static void put_gpu(const struct health_gpu *g, FILE *out)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_int(&j, "gpu", g->index);
    jout_text(&j, "name", g->name);
    jout_int(&j, "wrong_out", g->wrong[HEALTH_OUT]);
    jout_int(&j, "wrong_in", g->wrong[HEALTH_IN]);
    jout_close(&j, '}');
}

static struct jout begin(FILE *out, int src, int dst)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_int(&j, "src", src);
    jout_int(&j, "dst", dst);
    return j;
}

static void put_samples(const struct health_data *d, FILE *out)
{
    for (int i = 0; i < d->samples.count; i++) {
        const struct health_sample *s = &d->samples.at[i];
        struct jout j = begin(out, s->src, s->dst);
        jout_int(&j, "round", s->round);
        jout_bool(&j, "again", s->stage == HEALTH_CONFIRM);
        jout_num(&j, "Bps", s->Bps);
        jout_close(&j, '}');
    }
    for (int i = 0; i < d->rank_samples.count; i++) {
        const struct health_rank_sample *s = &d->rank_samples.at[i];
        struct jout j = begin(out, s->src, s->dst);
        jout_int(&j, "round", s->round);
        jout_num(&j, "rank_Bps", s->Bps);
        jout_close(&j, '}');
    }
    for (int i = 0; i < d->latencies.count; i++) {
        struct jout j = begin(out, d->latencies.at[i].src, d->latencies.at[i].dst);
        jout_num(&j, "latency_s", d->latencies.at[i].s);
        jout_close(&j, '}');
    }
    for (int i = 0; i < d->wrongs.count; i++) {
        struct jout j = begin(out, d->wrongs.at[i].src, d->wrongs.at[i].dst);
        jout_int(&j, "wrong_words", d->wrongs.at[i].words);
        jout_close(&j, '}');
    }
    for (int i = 0; i < d->stalls.count; i++) {
        struct jout j = begin(out, d->stalls.at[i].src, d->stalls.at[i].dst);
        jout_num(&j, "stalled_s", d->stalls.at[i].waited_s);
        jout_close(&j, '}');
    }
    for (int i = 0; i < d->collectives.count; i++) {
        const struct health_collective *c = &d->collectives.at[i];
        struct jout j = {.file = out};
        jout_open(&j, NULL, '{');
        jout_num(&j, "collective_s", c->s);
        jout_num(&j, "want_s", c->want_s);
        jout_int(&j, "first", c->first);
        jout_int(&j, "count", c->count);
        jout_close(&j, '}');
    }
}

void health_record_print(const struct health_data *d, FILE *out)
{
    char *text = NULL, hex[HEALTH_SUM];
    size_t bytes = 0;
    FILE *f = mem_stream(&text, &bytes);

    put_head(d, f);
    for (int k = 0; k < d->hosts; k++)
        put_host(&d->host[k], f);
    for (int i = 0; i < d->links.count; i++)
        put_link(&d->links.at[i], f);
    for (int i = 0; i < d->gpus.count; i++)
        put_gpu(&d->gpus.at[i], f);
    put_samples(d, f);
    fclose(f);
    health_sum(text, (int64_t)bytes, hex);
    fwrite(text, 1, bytes, out);
    fprintf(out, "{\"xxh3\":\"%s\"}\n", hex);
    mem_free(text);
}

int health_record_write(const struct health_data *d, const char *path, struct err *err)
{
    struct io_out out;

    if (health_file_create(&out, path, 1, err))
        return err_prefix(err, "cannot write record '%s': ", path);
    health_record_print(d, out.file);
    return health_file_commit(&out, err);
}
