/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes findings about ports and pairs from the rates of streams (health_analysis.c).
 *
 * With two hosts every stream has the same two ends, and no stream shows which one is slow.
 * The sender's kernel does: the rate at which its queue drains while bytes wait in it is the
 * rate of its own port.  If that is close to the stream's rate, the port is the bottleneck.  If
 * it is close to the expected rate, or if bytes never wait, the bottleneck is further on.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "health/health_analysis.h"

/*
 * Payload per drained byte, which counts headers: 1448 / 1514 = 0.956 in frames of 1500 bytes,
 * up to 1 in longer ones; the middle of both.
 */
static const double payload_share = 0.98;

struct judge {
    const struct health_data *d;
    const struct health_rules *rules;
    struct health_analysis *look;
    struct health_verdict *v;
    const char *by;  /* reference of a rate: "baseline", "peers" */
    int (*slow)[2];  /* [hosts] 1: to be named, by direction */
    double peers[2]; /* median of the ports, Bps */
};

/*
 * A small deviation is measured again.  A check that ended before may have seen a short
 * disturbance by another program: unknown.  Latency comes between rounds and confirmation: if
 * it is missing, the confirmation was not even requested.
 */
static enum health_state state_of(const struct judge *j, double percent, int confirmed)
{
    const unsigned parts =
        1u << HEALTH_PART_ROUNDS | 1u << HEALTH_PART_LATENCY | 1u << HEALTH_PART_CONFIRM;
    enum health_state s = health_rules_state(j->rules, percent);

    return s == HEALTH_WARNING && !confirmed && health_missing(j->d, parts) ? HEALTH_UNKNOWN
                                                                            : s;
}

static int is_shifted(const struct judge *j)
{
    return j->look->shift < 100 || j->look->shift > 100;
}

static const char *name(const struct judge *j, int k)
{
    return j->d->host[k].name;
}

/* health_verdict_addf; UNKNOWN has its own code, and the reason is added. */
#define SAY(j, state, code, host, fmt, ...)                                                    \
    health_verdict_addf((j)->v, state, (state) == HEALTH_UNKNOWN ? HC_UNSURE : (code), host,   \
                        fmt "%s", __VA_ARGS__,                                                 \
                        (state) == HEALTH_UNKNOWN ? ", not measured again" : "")

static void write_ports(struct judge *j)
{
    int hosts = j->d->hosts;
    double *each = mem_new((size_t)hosts, sizeof *each);

    for (int way = 0; way < 2; way++) {
        int n = 0;
        for (int k = 0; k < hosts; k++) {
            const struct health_end *e = &j->look->ends.end[k][way];
            struct health_port *p = &j->v->port[k][way];
            p->samples = e->n;
            p->want_Bps = j->look->want[k][way];
            p->percent = e->median * j->look->shift / 100;
            p->Bps = p->percent / 100 * p->want_Bps;
            p->z = e->n ? e->z : 0;
            if (e->n)
                each[n++] = p->Bps;
            j->slow[k][way] = e->slow;
        }
        j->peers[way] = n ? stats_median(each, n) : NAN;
    }
    mem_free(each);
}

/* ---- two hosts ---- */

/* Decides which end of the stream from `src` is slow; both if the kernel does not show it. */
static void blame_one_of_two(struct judge *j, int src)
{
    const struct health_port *p = &j->v->port[src][HEALTH_OUT];
    double drain_Bps = j->d->host[src].drain_Bps;
    /* Closer, by ratio, to the stream's rate than to the expected one: a busy machine sends a
       tenth less than its port drains. */
    int here = sqrt(p->Bps * p->want_Bps) > payload_share * drain_Bps;

    j->slow[src][HEALTH_OUT] = drain_Bps < 0 || (drain_Bps > 0 && here);
    j->slow[!src][HEALTH_IN] = drain_Bps < 0 || !j->slow[src][HEALTH_OUT];
}

/* Two hosts without evidence: the pair is named once, not each end. */
static int is_either(const struct judge *j, int src)
{
    return j->d->hosts == 2 && j->slow[src][HEALTH_OUT] && j->slow[!src][HEALTH_IN];
}

/* ---- findings ---- */

static void add_evidence(const struct judge *j, int k, int way, struct health_finding *f)
{
    const struct health_port *p = &j->v->port[k][way];
    const struct health_end *e = &j->look->ends.end[k][way];

    f->measured = p->Bps;
    f->expected = p->want_Bps;
    f->peers = j->peers[way];
    f->percent = p->percent;
    f->z = p->z;
    f->samples = p->samples;
    f->partners = e->partners;
    f->saw = e->saw;
}

/* decimals for three digits */
static int decimals(double v)
{
    return v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
}

/* Writes "out 50.0 of 100 MB/s, 50 %". */
static void say_rates(const struct judge *j, int k, int way, char text[128])
{
    const struct health_port *p = &j->v->port[k][way];
    /* 999.5 would print as 1000 in the smaller unit */
    double unit = fmax(p->want_Bps, p->Bps) >= 999.5e6 ? 1e9 : 1e6;
    double is = p->Bps / unit, want = p->want_Bps / unit;
    struct units u;

    snprintf(text, 128, "%s %.*f of %.*f %cB/s, %s", health_way[way], decimals(is), is,
             decimals(want), want, unit > 1e6 ? 'G' : 'M',
             health_percent(&u, j->rules, p->percent));
}

static void name_port(struct judge *j, int k)
{
    enum health_state state = HEALTH_OK;
    int ways = 0, worst = 0, last = 0, all_confirmed = 1;
    char rates[128] = "", also[64] = "";
    struct units u;

    for (int way = 0; way < 2; way++) {
        struct health_port *p = &j->v->port[k][way];
        if (!j->slow[k][way] || is_either(j, way == HEALTH_OUT ? k : !k))
            continue;
        int confirmed = j->look->ends.end[k][way].confirmed;
        p->state = state_of(j, p->percent, confirmed);
        state = health_worse(state, p->state);
        all_confirmed &= confirmed;
        if (ways == 0 || p->percent < j->v->port[k][worst].percent)
            worst = way;
        if (ways++ == 0)
            say_rates(j, k, way, rates);
        else
            snprintf(also, sizeof also, ", %s %s", health_way[way],
                     health_percent(&u, j->rules, p->percent));
        last = way;
    }
    if (ways == 0)
        return;
    struct health_finding *f =
        SAY(j, state, HC_PORT, k, "%.64s %s%s of %s", name(j, k), rates, also, j->by);
    add_evidence(j, k, worst, f);
    f->way = ways == 1 ? last : -1;
    f->confirmed = all_confirmed;
}

static void name_either(struct judge *j, int src)
{
    struct health_port *p = &j->v->port[src][HEALTH_OUT];
    int confirmed = j->look->ends.end[src][HEALTH_OUT].confirmed;
    struct units u;

    p->state = j->v->port[!src][HEALTH_IN].state = state_of(j, p->percent, confirmed);
    struct health_finding *f =
        SAY(j, p->state, HC_EITHER, src,
            "%.64s out or %.64s in (unknown which, with two hosts) %s of %s", name(j, src),
            name(j, !src), health_percent(&u, j->rules, p->percent), j->by);
    add_evidence(j, src, HEALTH_OUT, f);
    f->other = !src;
    f->confirmed = confirmed;
}

/* Reports a deviation in the critical range that noise explains: unknown, not good. */
static void name_unsteady(struct judge *j, int k, int way)
{
    struct health_port *p = &j->v->port[k][way];
    const struct health_end *e = &j->look->ends.end[k][way];
    struct units u;

    if (e->slow || e->n == 0 || e->z > j->look->ends.z || e->denied || !e->suspect ||
        state_of(j, p->percent, 0) != HEALTH_CRITICAL)
        return;
    p->state = HEALTH_UNKNOWN;
    struct health_finding *f = health_verdict_addf(
        j->v, HEALTH_UNKNOWN, HC_UNSURE, k, "%.64s %s %s of %s, too unsteady to judge",
        name(j, k), health_way[way], health_percent(&u, j->rules, p->percent), j->by);
    add_evidence(j, k, way, f);
    f->way = way;
}

static void name_pair(struct judge *j, const struct health_pair *p)
{
    double percent = p->percent * j->look->shift / 100,
           want_Bps = fmin(j->v->port[p->src][HEALTH_OUT].want_Bps,
                           j->v->port[p->dst][HEALTH_IN].want_Bps);
    int confirmed = p->again >= 3;
    enum health_state alone = state_of(j, percent, confirmed),
                      residual = state_of(j, p->residual, confirmed);
    /* Print the percentage that determines the state. */
    int by_residual = is_shifted(j) || health_state_rank(residual) > health_state_rank(alone);
    struct units u;

    if (!p->slow)
        return;
    enum health_state state = by_residual ? residual : alone;
    struct health_finding *f =
        SAY(j, state, HC_PAIR, p->src, "%.64s to %.64s %s of %s%s", name(j, p->src),
            name(j, p->dst), health_percent(&u, j->rules, by_residual ? p->residual : percent),
            by_residual ? "what both reach with others" : j->by,
            by_residual ? "" : ", both well with others");
    f->other = p->dst;
    f->confirmed = confirmed;
    f->measured = percent / 100 * want_Bps;
    f->expected = want_Bps;
    f->peers = j->peers[HEALTH_OUT];
    f->percent = percent;
    f->z = p->z;
    f->samples = f->partners = p->n;
    f->saw = p->low;
}

static void name_shift(struct judge *j)
{
    const int stale = j->look->stale > 0;
    double percent = stale ? j->look->stale : j->look->shift;
    struct units u;

    if (!stale && !is_shifted(j))
        return;
    struct health_finding *f =
        health_verdict_addf(j->v, stale ? HEALTH_WARNING : state_of(j, percent, 1), HC_SHIFT,
                            -1, "all %d hosts are at %s of the baseline%s", j->d->hosts,
                            health_percent(&u, j->rules, percent),
                            stale ? ", it is stale (--accept-baseline or --learn)"
                                  : " (--accept-baseline if that is right)");
    f->percent = percent;
    f->confirmed = 1; /* every port shows it */
}

/* Gives each port that is OK outside a range its reason. */
static void pardon_ports(struct judge *j)
{
    for (int k = 0; k < j->d->hosts; k++)
        for (int way = 0; way < 2; way++) {
            struct health_port *p = &j->v->port[k][way];
            const struct health_end *e = &j->look->ends.end[k][way];
            if (p->state == HEALTH_OK && p->samples && health_rules_state(j->rules, p->percent))
                p->pardon = e->slow     ? "the other port is slow"
                            : e->pardon ? e->pardon
                                        : "so are all ports";
        }
}

static int judge_rates(struct judge *j, struct err *err)
{
    struct health_analysis look;
    int two = j->d->hosts == 2;

    if (health_analyse(&look, j->d, j->rules, err))
        return -1;
    j->look = &look;
    j->by = !j->rules->baseline ? "peers" : look.stale > 0 ? "the others" : "baseline";
    write_ports(j);
    for (int src = 0; two && src < 2; src++)
        if (look.ends.end[src][HEALTH_OUT].slow)
            blame_one_of_two(j, src);
    name_shift(j);
    for (int k = 0; k < j->d->hosts; k++)
        name_port(j, k);
    for (int src = 0; two && src < 2; src++)
        if (is_either(j, src))
            name_either(j, src);
    for (int k = 0; k < j->d->hosts; k++)
        for (int way = 0; way < 2; way++)
            name_unsteady(j, k, way);
    for (int i = 0; i < look.pairs; i++)
        name_pair(j, &look.pair[i]);
    pardon_ports(j);
    health_analysis_release(&look);
    return 0;
}

/* Judges that need no rates of ports.  The last one depends on the findings of the others. */
static void (*const judges[])(const struct health_data *d, const struct health_rules *rules,
                              struct health_verdict *v) = {
    health_judge_ranks, health_judge_latency, health_judge_facts, health_judge_collective};

int health_judge(const struct health_data *d, const struct health_rules *rules,
                 struct health_verdict *out, struct err *err)
{
    struct health_verdict v = {.hosts = d->hosts, .by_baseline = rules->baseline != NULL};
    struct judge j = {.d = d, .rules = rules, .v = &v};
    int rc = 0;

    v.percent_only = !rules->baseline && d->hosts < HEALTH_PEERS_LEAST;
    v.port = mem_new((size_t)d->hosts, sizeof *v.port);
    j.slow = mem_new((size_t)d->hosts, sizeof *j.slow);
    if (d->samples.count)
        rc = judge_rates(&j, err);
    mem_free(j.slow);
    if (rc) {
        health_verdict_release(&v);
        return -1;
    }
    for (size_t i = 0; i < sizeof judges / sizeof *judges; i++)
        judges[i](d, rules, &v);
    health_verdict_sort(&v);
    *out = v;
    return 0;
}
