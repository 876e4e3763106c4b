/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans which host sends to which in each round.
 *
 * There are two kinds of rounds, in both of which every port carries one stream out and one in:
 * shifts, k to k + s, and rounds of the circle method, pairs that send to each other.  With few
 * hosts these are whole cycles, so that pairs are measured equally often; with many they are
 * spread over all, from a start given by the seed.
 *
 *     5 hosts, shift 2                     6 hosts, circle round 0: i + j = 0 mod 5, 5 with 0
 *     0>2 1>3 2>4 3>0 4>1                  1<>4 2<>3 0<>5
 *
 * The confirmation loads all ports too, because it would otherwise measure another fabric:
 * suspected pairs enter a round first, and a shift not used yet fills it.  A port thereby gets
 * other partners.
 */
#include <string.h>

#include "base/mem.h"
#include "health/health_analysis.h"

enum {
    SAMPLES_FEW_HOSTS = 20, /* 8 or fewer */
    SAMPLES_DEEP = 60,
    FEW_HOSTS = 8,
    AGAIN_ROUNDS_MOST = 64, /* confirmation rounds in total */
    AGAIN_SAMPLES_MOST = 3 * HEALTH_AGAIN
};

static int shift_dst(int k, int s, int n)
{
    return (k + s) % n;
}

int health_plan_circle(int k, int r, int n)
{
    int m = n - 1, other = m > 0 ? ((2 * r - k) % m + m) % m : 0;

    return k == m ? r : other == k ? m : other;
}

static void add_round(struct health_plan *p, size_t *space, const struct health_data *d,
                      int circle, int at)
{
    size_t n = (size_t)d->hosts;

    p->dst = mem_grow(p->dst, space, n * (size_t)(p->rounds + 1), sizeof *p->dst);
    int *dst = p->dst + n * (size_t)p->rounds++;
    for (int k = 0; k < d->hosts; k++)
        dst[k] = circle ? health_plan_circle(k, at, d->hosts) : shift_dst(k, at + 1, d->hosts);
}

/* With an odd number of hosts no circle round includes all: only shifts then. */
static void plan_rounds(const struct health_data *d, struct health_plan *p)
{
    int others = d->hosts - 1, circles = d->hosts % 2 == 0, deep = d->level == HEALTH_DEEP;
    int wanted = deep                    ? SAMPLES_DEEP
                 : d->hosts <= FEW_HOSTS ? SAMPLES_FEW_HOSTS
                                         : HEALTH_SAMPLES_LEAST;
    int rounds = deep && others > wanted ? others /* every pair at least once */
                 : others > wanted       ? wanted
                                         : (wanted + others - 1) / others * others;
    size_t space = 0;

    p->stage = HEALTH_ROUNDS;
    for (int i = 0; i < rounds; i++) {
        int cycle = i / others, spread = (int)((int64_t)i * others / rounds);
        if (rounds >= others)
            add_round(p, &space, d, circles && cycle % 2, i % others);
        else
            add_round(p, &space, d, circles && i % 2,
                      (int)((d->seed + (uint64_t)spread) % (uint64_t)others));
    }
}

/* ---- confirmation ---- */

struct again {
    const struct health_analysis *look;
    int rounds, *met;         /* confirmation rounds so far; [hosts] times each shift was
                                 used */
    int ports;                /* rounds that ports need */
    struct health_pair *pair; /* suspected pairs */
    int pairs, *left;         /* pairs, and the samples that each needs */
};

/* Samples of one confirmation; as many again while two standard errors span a threshold. */
static int port_needs(const struct health_analysis *l, const struct health_end *e)
{
    if (!e->slow && !e->suspect)
        return 0;
    if (e->again < HEALTH_AGAIN)
        return HEALTH_AGAIN - e->again;
    int low = health_rules_state(l->rules, e->median - 2 * e->sigma) != HEALTH_OK,
        high = health_rules_state(l->rules, e->median + 2 * e->sigma) != HEALTH_OK;
    return !e->slow && low != high && e->again < AGAIN_SAMPLES_MOST ? HEALTH_AGAIN : 0;
}

/* Collects the rounds done, and the needs of ports and pairs. */
static void look_back(struct again *a)
{
    const struct health_analysis *l = a->look;
    const struct health_data *d = l->d;
    int last = -1;

    for (int i = 0; i < d->samples.count; i++) {
        const struct health_sample *s = &d->samples.at[i];
        a->met[(s->dst - s->src + d->hosts) % d->hosts]++;
        a->rounds += s->stage == HEALTH_CONFIRM && s->round != last;
        last = s->stage == HEALTH_CONFIRM ? s->round : last;
    }
    for (int k = 0; k < d->hosts; k++)
        for (int way = 0; way < 2; way++) {
            int need = port_needs(l, &l->ends.end[k][way]);
            a->ports = need > a->ports ? need : a->ports;
        }
    for (int i = 0; i < l->pairs; i++) {
        const struct health_pair *p = &l->pair[i];
        if (!p->suspect && !(p->slow && p->again < 3))
            continue;
        /* One sample, since most suspicions end there; then all that accuse. */
        a->left[a->pairs] = p->slow ? 3 - p->again : p->again == 0 ? 1 : p->need - p->n;
        a->pair[a->pairs++] = *p;
    }
}

/* Returns the least used shift, the first of these from the seed on. */
static int next_shift(struct again *a)
{
    const struct health_data *d = a->look->d;
    int best = 1;

    for (int i = 0; i < d->hosts - 1; i++) {
        int s = 1 + (int)((d->seed + (uint64_t)i) % (uint64_t)(d->hosts - 1));
        if (i == 0 || a->met[s] < a->met[best])
            best = s;
    }
    return best;
}

/* Enters suspected pairs, as many as fit; returns their number. */
static int plan_put_pairs(struct again *a, int *dst, unsigned char *taken)
{
    int put = 0;

    for (int i = 0; i < a->pairs; i++) {
        const struct health_pair *p = &a->pair[i];
        if (a->left[i] == 0 || dst[p->src] >= 0 || taken[p->dst])
            continue;
        dst[p->src] = p->dst;
        taken[p->dst] = 1;
        a->left[i]--;
        put++;
    }
    return put;
}

/* Fills the round by a shift where it fits, then pairs the remaining senders and receivers. */
static void plan_fill(const struct health_data *d, int s, int *dst, unsigned char *taken)
{
    int n = d->hosts, free_dst = 0;

    for (int k = 0; k < n; k++) {
        int to = shift_dst(k, s, n);
        if (dst[k] < 0 && !taken[to]) {
            dst[k] = to;
            taken[to] = 1;
        }
    }
    for (int k = 0; k < n; k++) {
        if (dst[k] >= 0)
            continue;
        while (free_dst < n && taken[free_dst])
            free_dst++;
        int to = free_dst;
        while (to < n && (taken[to] || to == k))
            to++;
        if (to < n) {
            dst[k] = to;
            taken[to] = 1;
        }
    }
}

static int plan_suspicions(const struct health_data *d, const struct health_rules *rules,
                           struct health_plan *p, struct err *err)
{
    struct health_analysis look;
    struct again a = {.look = &look};
    size_t space = 0, n = (size_t)d->hosts;

    if (health_analyse(&look, d, rules, err))
        return -1;
    unsigned char *taken = mem_new(n, 1);
    a.met = mem_new(n + 1, sizeof *a.met);
    a.pair = mem_new((size_t)look.pairs + 1, sizeof *a.pair);
    a.left = mem_new((size_t)look.pairs + 1, sizeof *a.left);
    look_back(&a);
    p->stage = HEALTH_CONFIRM;
    while (a.rounds + p->rounds < AGAIN_ROUNDS_MOST) {
        p->dst = mem_grow(p->dst, &space, n * (size_t)(p->rounds + 1), sizeof *p->dst);
        int *dst = p->dst + n * (size_t)p->rounds;
        memset(taken, 0, n);
        for (size_t k = 0; k < n; k++)
            dst[k] = -1;
        if (plan_put_pairs(&a, dst, taken) == 0 && p->rounds >= a.ports)
            break;
        int s = next_shift(&a);
        a.met[s] += d->hosts;
        plan_fill(d, s, dst, taken);
        p->rounds++;
    }
    MEM_FREE(taken, a.met, a.pair, a.left);
    health_analysis_release(&look);
    return 0;
}

int health_plan(const struct health_data *d, const struct health_rules *rules,
                struct health_plan *out, struct err *err)
{
    struct health_plan p = {.hosts = d->hosts};

    if (d->hosts > 1 && d->samples.count == 0 && d->rounds == 0)
        plan_rounds(d, &p);
    else if (d->samples.count && plan_suspicions(d, rules, &p, err))
        return -1;
    *out = p;
    return 0;
}

void health_plan_release(struct health_plan *p)
{
    mem_free(p->dst);
    *p = (struct health_plan){0};
}
