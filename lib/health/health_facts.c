/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes findings that need no statistics: links without a carrier, silent hosts, wrong words,
 * checks that were not done.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "health/health_analysis.h"

/* A cable plugged in again, or a switch that restarts, is one flap. */
static const int64_t flaps_least = 3;
/* Within a measurement nobody plugs cables: there one is enough. */
static const double measured_s = 120;

enum { NAMES_MOST = 16 /* findings of one kind that have their own line */ };

/* ---- links ---- */

static void of_link(struct health_finding *f, const struct health_link *l, double measured)
{
    f->measured = measured;
    memcpy(f->link, l->name, sizeof f->link);
}

static void facts_judge_link(const struct health_data *d, const struct health_link *l,
                             struct health_verdict *v)
{
    const char *host = d->host[l->host].name;
    int in_run = l->since_s > 0 && l->since_s <= measured_s;
    struct health_finding *f;

    if (l->up && !l->carrier && l->lost)
        of_link(health_verdict_addf(v, HEALTH_CRITICAL, HC_LINK, l->host,
                                    "%.64s lost the link of its port '%.63s'", host, l->name),
                l, NAN);
    if (l->packets >= 0 && health_errors_are_many(l->errors, l->packets))
        of_link(health_verdict_addf(v, HEALTH_WARNING, HC_ERRORS, l->host,
                                    "%.64s port '%.63s' %" PRId64 " errors in %" PRId64
                                    " packets",
                                    host, l->name, l->errors, l->packets),
                l, (double)l->errors);
    if (l->carrier && l->want_Bps > 0 && l->Bps > 0 && l->Bps < l->want_Bps) {
        f = health_verdict_addf(v, HEALTH_WARNING, HC_SPEED, l->host,
                                "%.64s port '%.63s' has %.4g Gbit/s, expected %.4g", host,
                                l->name, l->Bps * 8e-9, l->want_Bps * 8e-9);
        of_link(f, l, l->Bps);
        f->expected = l->want_Bps;
        f->percent = 100 * l->Bps / l->want_Bps;
    }
    if (l->flaps >= (in_run ? 1 : flaps_least)) {
        f = health_verdict_addf(
            v, HEALTH_WARNING, HC_FLAPS, l->host,
            in_run ? "%.64s port '%.63s' lost its link %" PRId64 " times in %.3g s"
                   : "%.64s port '%.63s' came and went %" PRId64 " times in %.3g h",
            host, l->name, l->flaps, in_run ? l->since_s : l->since_s / 3600);
        of_link(f, l, (double)l->flaps);
    }
}

/* ---- silence ---- */

/*
 * Judges links and hosts.  If rank 0's host hears from nobody: with three hosts its own port is
 * dead, with two it may be either; the link of its own port decides.
 */
static void judge_presence(const struct health_data *d, struct health_verdict *v)
{
    int silent = 0, own_lost = 0;

    for (int i = 0; i < d->links.count; i++) {
        const struct health_link *l = &d->links.at[i];
        facts_judge_link(d, l, v);
        own_lost |= l->host == d->own && l->lost && !l->carrier;
    }
    for (int k = 0; k < d->hosts; k++)
        silent += d->host[k].silent;
    int alone = silent && silent == d->hosts - 1 && !d->host[d->own].silent;
    if (alone && own_lost)
        return;
    if (alone && d->hosts > 2)
        health_verdict_addf(v, HEALTH_CRITICAL, HC_SILENT, d->own,
                            "%.64s reaches no other host", d->host[d->own].name);
    for (int k = 0; k < d->hosts && !(alone && d->hosts > 2); k++)
        if (d->host[k].silent)
            health_verdict_addf(v, HEALTH_CRITICAL, HC_SILENT, k, "%.64s does not answer",
                                d->host[k].name);
}

/* ---- wrong words and stalls ---- */

struct blame {
    const struct health_data *d;
    struct health_verdict *v;
    struct health_amount *at; /* amounts that nobody is blamed for yet */
    int count, code;
};

/*
 * Returns the host that is the source, or the destination, of most of the remaining amounts; -1
 * if no two streams share an end.
 */
static int commonest_end(const struct blame *b, int *way)
{
    int(*seen)[2] = mem_new((size_t)b->d->hosts, sizeof *seen), most = 1, host = -1;

    for (int i = 0; i < b->count; i++) {
        seen[b->at[i].src][HEALTH_OUT]++;
        seen[b->at[i].dst][HEALTH_IN]++;
    }
    for (int k = 0; k < b->d->hosts; k++)
        for (int w = 0; w < 2; w++)
            if (seen[k][w] > most) {
                most = seen[k][w];
                host = k;
                *way = w;
            }
    mem_free(seen);
    return host;
}

static void blame_end(struct blame *b, int host, int way)
{
    const char *name = b->d->host[host].name;
    const int out = way == HEALTH_OUT;
    struct health_finding *f;
    double sum = 0;
    int n = 0, left = 0;

    for (int i = 0; i < b->count; i++)
        if ((out ? b->at[i].src : b->at[i].dst) == host) {
            sum += b->at[i].amount;
            n++;
        } else {
            b->at[left++] = b->at[i];
        }
    b->count = left;
    if (b->code == HC_WRONG)
        f = health_verdict_addf(b->v, HEALTH_CRITICAL, HC_WRONG, host,
                                "%.64s %s wrong data: %.0f words, %s %d hosts", name,
                                out ? "sends" : "receives", sum, out ? "to" : "from", n);
    else
        f = health_verdict_addf(b->v, HEALTH_CRITICAL, b->code, host,
                                "no bytes come through %s %.64s, %s %d hosts",
                                out ? "out of" : "into", name, out ? "to" : "from", n);
    f->way = way;
    f->measured = sum;
    f->partners = f->saw = n;
}

static void blame_stream(struct blame *b, const struct health_amount *s)
{
    const char *src = b->d->host[s->src].name, *dst = b->d->host[s->dst].name;
    struct health_finding *f;

    if (b->code == HC_WRONG)
        f = health_verdict_addf(b->v, HEALTH_CRITICAL, HC_WRONG, s->src,
                                "%.0f words wrong, from %.64s to %.64s", s->amount, src, dst);
    else
        f = health_verdict_addf(b->v, HEALTH_CRITICAL, b->code, s->src,
                                "no bytes come through from %.64s to %.64s", src, dst);
    f->other = s->dst;
    f->measured = s->amount;
}

/* Blames the host that is an end of most amounts, then of most of the rest, and so on. */
static void blame_all(const struct health_data *d, struct health_verdict *v, int code,
                      const struct health_amount *at, int count)
{
    struct blame b = {d, v, mem_new((size_t)count + 1, sizeof *at), count, code};
    int host, way = 0, named = 0;

    if (count)
        memcpy(b.at, at, (size_t)count * sizeof *at);
    while (named++ < NAMES_MOST && (host = commonest_end(&b, &way)) >= 0)
        blame_end(&b, host, way);
    for (int i = 0; i < b.count && i < NAMES_MOST; i++)
        blame_stream(&b, &b.at[i]);
    if (b.count > NAMES_MOST)
        health_verdict_addf(v, HEALTH_CRITICAL, code, -1, "%s on %d more streams",
                            code == HC_WRONG ? "wrong data" : "no bytes", b.count - NAMES_MOST);
    mem_free(b.at);
}

/* The network is not to blame: data were right when they entered it, or wrong only after it. */
static void judge_gpus(const struct health_data *d, struct health_verdict *v)
{
    static const char *const when[] = {"", " when sending", " when receiving"};

    for (int r = 0, named = 0; r < d->gpus.count && named < NAMES_MOST; r++) {
        const struct health_gpu *g = &d->gpus.at[r];
        int64_t out = g->wrong[HEALTH_OUT], in = g->wrong[HEALTH_IN];
        int host = health_host_of_rank(d, r), way = !in ? HEALTH_OUT : !out ? HEALTH_IN : -1;
        if (out + in == 0)
            continue;
        named++;
        struct health_finding *f = health_verdict_addf(
            v, HEALTH_CRITICAL, HC_GPU, host,
            "%.64s cuda:%d made %" PRId64 " words wrong%s, not the wire (rank %d)",
            d->host[host].name, g->index, out + in, when[way + 1], r);
        f->rank = r;
        f->way = way;
        f->measured = (double)(out + in);
    }
}

/* ---- unknown results ---- */

static void judge_unfinished(const struct health_data *d, struct health_verdict *v)
{
    char parts[160] = "", within[48] = "the bytes of --max-bytes", done[48] = "";
    size_t used = 0;

    for (int p = 0; p < HEALTH_PARTS; p++)
        if (health_missing(d, 1u << p))
            used += (size_t)snprintf(parts + used, sizeof parts - used, "%s%s",
                                     used ? ", " : "", health_parts[p]);
    if (used == 0)
        return;
    if (!d->capped)
        snprintf(within, sizeof within, "%.3g s", d->deadline_s);
    if (health_missing(d, 1u << HEALTH_PART_ROUNDS))
        snprintf(done, sizeof done, " (%d of %d rounds)", d->rounds, d->wanted);
    health_verdict_addf(v, HEALTH_UNKNOWN, HC_UNFINISHED, -1, "%s not finished within %s%s",
                        parts, within, done);
}

/* Reports a port with too few samples for a verdict although the rounds were done. */
static void judge_seldom(const struct health_data *d, struct health_verdict *v)
{
    unsigned rounds = 1u << HEALTH_PART_ROUNDS;
    int(*n)[2] = mem_new((size_t)d->hosts, sizeof *n);

    for (int i = 0; i < d->samples.count; i++) {
        n[d->samples.at[i].src][HEALTH_OUT]++;
        n[d->samples.at[i].dst][HEALTH_IN]++;
    }
    for (int k = 0; (d->requested & d->done & rounds) && k < d->hosts; k++) {
        int way = n[k][HEALTH_OUT] < n[k][HEALTH_IN] ? HEALTH_OUT : HEALTH_IN;
        if (n[k][way] >= HEALTH_SAMPLES_LEAST || d->host[k].silent || d->host[k].why[0])
            continue;
        struct health_finding *f = health_verdict_addf(
            v, HEALTH_UNKNOWN, HC_SELDOM, k, "%.64s %s measured %d times, expected %d",
            d->host[k].name, health_way[way], n[k][way], HEALTH_SAMPLES_LEAST);
        f->way = way;
        f->samples = n[k][way];
    }
    mem_free(n);
}

void health_judge_facts(const struct health_data *d, const struct health_rules *rules,
                        struct health_verdict *v)
{
    int explained = 0; /* 1: a silent host or a lost link explains stalled streams */

    (void)rules;
    judge_presence(d, v);
    for (int i = 0; i < v->findings; i++)
        explained |= v->finding[i].code == HC_LINK || v->finding[i].code == HC_SILENT;
    if (!explained)
        blame_all(d, v, HC_STALL, d->stalls.at, d->stalls.count);
    blame_all(d, v, HC_WRONG, d->wrongs.at, d->wrongs.count);
    judge_gpus(d, v);
    for (int k = 0; k < d->hosts; k++)
        if (d->host[k].why[0])
            health_verdict_addf(v, HEALTH_UNKNOWN, HC_UNABLE, k,
                                "%.64s could not measure: %.95s", d->host[k].name,
                                d->host[k].why);
    judge_seldom(d, v);
    judge_unfinished(d, v);
}

unsigned char *health_excused(const struct health_data *d)
{
    unsigned char *excused = mem_new((size_t)d->hosts + 1, 1);
    struct health_verdict v = {.hosts = d->hosts};

    if (d->hosts > 2)
        judge_presence(d, &v);
    for (int i = 0; i < v.findings; i++) {
        const struct health_finding *f = &v.finding[i];
        if ((f->code == HC_LINK || f->code == HC_SILENT || f->code == HC_FLAPS) && f->host >= 0)
            excused[f->host] = 1;
    }
    health_verdict_release(&v);
    return excused;
}
