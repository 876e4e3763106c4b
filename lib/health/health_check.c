/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the order of a check: baseline, rounds, verdict, a second look at what it accuses, and
 * what is said when hosts fall silent or the time runs out.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/tick.h"
#include "health/health_parts.h"

/*
 * Measurements per port (health.md): 15 find a port slowed by 5 % below a threshold of 3 % in
 * 98 % of runs; where ports are few, peers tell less and more samples are taken.
 */
enum {
    SAMPLES_LEAST = 15,
    SAMPLES_FEW_HOSTS = 20,
    SAMPLES_DEEP = 60,
    SAMPLES_LEARN = 40,
    AGAIN_LEAST = 12,
    AGAIN_MOST = 45,
    FEW_HOSTS = 8
};

void health_options_init(struct health_options *o)
{
    *o = (struct health_options){.warn = {.start = 90, .end = INFINITY},
                                 .crit = {.start = 75, .end = INFINITY},
                                 .deadline_s = 10,
                                 .start_s = tick_now_s(),
                                 .level = HEALTH_NORMAL};
}

int health_level_parse(const char *text, enum health_level *out, struct err *err)
{
    static const char *const names[] = {"quick", "normal", "deep"};

    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum health_level)i;
            return 0;
        }
    return err_set(err, ERR_INPUT, "'%s', expected quick, normal or deep", text);
}

struct check {
    struct world *w;
    const struct health_options *o;
    const char *volatile *where;
    struct health_rules rules;
    struct health_baseline baseline;
    struct health_data data;
    struct health_verdict verdict;
    int unfinished;
};

static double until_s(const struct check *c)
{
    return c->o->start_s + c->o->deadline_s;
}

/* Whole cycles of the shifts, so that every pair is met as often. */
static int rounds_for(const struct check *c, int samples)
{
    int shifts = c->w->groups.count - 1;

    return shifts > samples ? samples : (samples + shifts - 1) / shifts * shifts;
}

static int samples_wanted(const struct check *c)
{
    if (c->o->learn)
        return SAMPLES_LEARN;
    if (c->o->level == HEALTH_DEEP)
        return SAMPLES_DEEP;
    return c->w->groups.count <= FEW_HOSTS ? SAMPLES_FEW_HOSTS : SAMPLES_LEAST;
}

static int read_baseline(struct check *c, struct err *err)
{
    const char *path = c->o->baseline;

    if (health_baseline_read(&c->baseline, path, err))
        return -1;
    c->rules.baseline = &c->baseline;
    for (int k = 0; k < c->w->groups.count; k++)
        if (health_baseline_find(&c->baseline, c->w->host[k]) < 0)
            return err_set(err, ERR_INPUT,
                           "'%s' has no host '%s', expected every host that is"
                           " checked (--learn makes a new one)",
                           path, c->w->host[k]);
    return 0;
}

/* What rank 0 alone has done: everyone gets its outcome. */
static int share(struct check *c, int rc, struct err *err)
{
    struct err said = {0};

    if (rc)
        said = *err;
    if (world_bcast(c->w, &said, sizeof said, 0, err))
        return -1;
    if (said.code == ERR_NONE)
        return 0;
    *err = said;
    return -1;
}

/* What all ranks see alike, then the file, which rank 0 alone reads. */
static int prepare(struct check *c, struct err *err)
{
    int hosts = c->w->groups.count;

    if (hosts < 2)
        return err_set(err, ERR_INPUT,
                       "one host ('%s'), expected two or more to measure between",
                       c->w->host[0]);
    if (!c->o->baseline && !c->o->learn && hosts < HEALTH_HOSTS_ALONE)
        return err_set(err, ERR_INPUT,
                       "two hosts and no baseline, expected -b BASELINE (see"
                       " --learn) or %d hosts to compare with each other",
                       HEALTH_HOSTS_ALONE);
    if (!c->o->baseline)
        return 0;
    return share(c, c->w->rank == 0 ? read_baseline(c, err) : 0, err);
}

/* ---- what is said besides the ports' rates ---- */

static void say(struct check *c, enum health_state state, const char *code, int host, int other,
                const char *text)
{
    struct health_finding f = {.state = state,
                               .code = code,
                               .host = host,
                               .other = other,
                               .action = state == HEALTH_CRITICAL ? "operator" : "retest"};

    snprintf(f.text, sizeof f.text, "%s", text);
    health_verdict_add(&c->verdict, &f);
}

static void say_wrong(struct check *c)
{
    const struct health_data *d = &c->data;
    char text[200];

    if (d->wrong == 0)
        return;
    snprintf(text, sizeof text, "%" PRId64 " words wrong, from %.60s to %.60s", d->wrong,
             d->host[d->wrong_src], d->host[d->wrong_dst]);
    say(c, HEALTH_CRITICAL, "HC-305", d->wrong_src, d->wrong_dst, text);
}

static void say_lost(struct check *c)
{
    const struct health_data *d = &c->data;
    char text[200];

    for (int k = 0; k < d->hosts; k++) {
        if (d->lost[k][0] == 0)
            continue;
        snprintf(text, sizeof text, "%.60s lost the link of its port '%.15s'", d->host[k],
                 d->lost[k]);
        say(c, HEALTH_CRITICAL, "HC-201", k, -1, text);
    }
}

/*
 * Rank 0 hears from nobody else: with three hosts it is its own port that is dead, with two it
 * may be either, and the link of its own port tells (say_lost).
 */
static void say_silent(struct check *c)
{
    const struct health_data *d = &c->data;
    int silent = 0, own = c->w->groups.group_of[0];
    char text[200];

    for (int k = 0; k < d->hosts; k++)
        silent += d->silent[k];
    if (silent == d->hosts - 1) {
        if (d->lost[own][0])
            return;
        if (d->hosts > 2) {
            snprintf(text, sizeof text, "%.60s reaches no other host", d->host[own]);
            say(c, HEALTH_CRITICAL, "HC-202", own, -1, text);
            return;
        }
    }
    for (int k = 0; k < d->hosts; k++) {
        if (!d->silent[k])
            continue;
        snprintf(text, sizeof text, "%.60s does not answer", d->host[k]);
        say(c, HEALTH_CRITICAL, "HC-202", k, -1, text);
    }
}

static void say_unfinished(struct check *c)
{
    const struct health_data *d = &c->data;
    char text[200];

    if (!d->stalled && d->rounds >= (c->o->level == HEALTH_DEEP ? d->wanted : SAMPLES_LEAST) &&
        !c->unfinished)
        return;
    snprintf(text, sizeof text, "%s not finished within %.3g s (%d of %d rounds)",
             c->unfinished ? "second look" : "measurement", c->o->deadline_s, d->rounds,
             d->wanted);
    say(c, HEALTH_UNKNOWN, "HC-901", -1, -1, text);
}

/* ---- the second look ---- */

static void keep_shares(struct health_data *d, const struct health_data *again)
{
    d->wrong += again->wrong;
    if (again->wrong) {
        d->wrong_src = again->wrong_src;
        d->wrong_dst = again->wrong_dst;
    }
    d->seconds += again->seconds;
    d->stalled |= again->stalled;
    for (int k = 0; k < d->hosts; k++) {
        d->silent[k] |= again->silent[k];
        if (again->lost[k][0])
            memcpy(d->lost[k], again->lost[k], sizeof d->lost[k]);
    }
}

/* Rank 0 has accused somebody: all measure again, and only what is seen twice is said. */
static int look_again(struct check *c, struct err *err)
{
    struct health_data again;
    struct health_verdict second = {0};
    int shifts = c->w->groups.count - 1, samples = 3 * shifts; /* three of every pair */

    samples = samples < AGAIN_LEAST ? AGAIN_LEAST : samples > AGAIN_MOST ? AGAIN_MOST : samples;
    health_data_init(&again, c->data.hosts, c->data.host);
    int rc = health_rounds(c->w, rounds_for(c, samples), until_s(c), c->where, &again, err);
    if (rc == 0 && c->w->rank == 0) {
        c->unfinished = again.rounds < again.wanted;
        if (!c->unfinished)
            rc = health_judge(&again, &c->rules, &second, err);
        if (rc == 0 && !c->unfinished)
            health_confirm(&c->verdict, &second);
    }
    if (rc == 0)
        keep_shares(&c->data, &again);
    if (!again.stalled)
        rc = share(c, rc, err);
    health_verdict_release(&second);
    health_data_release(&again);
    return rc;
}

static int measure(struct check *c, struct err *err)
{
    int accused = 0;
    int rc = health_rounds(c->w, rounds_for(c, samples_wanted(c)), until_s(c), c->where,
                           &c->data, err);

    if (rc)
        return -1;
    if (c->data.stalled) {
        c->verdict.hosts = c->data.hosts;
        c->verdict.port = mem_new((size_t)c->data.hosts, sizeof *c->verdict.port);
        c->verdict.by_baseline = c->rules.baseline != NULL;
        return 0;
    }
    if (c->w->rank == 0 && !(c->o->learn && c->data.hosts < HEALTH_HOSTS_ALONE))
        rc = health_judge(&c->data, &c->rules, &c->verdict, err);
    if (share(c, rc, err))
        return -1;
    accused = c->verdict.findings > 0;
    if (world_bcast(c->w, &accused, sizeof accused, 0, err))
        return -1;
    return accused ? look_again(c, err) : 0;
}

/* Rank 0's word. */
static int speak(struct check *c, FILE *out, struct err *err)
{
    const struct health_options *o = c->o;

    say_wrong(c);
    say_lost(c);
    if (c->data.stalled)
        say_silent(c);
    say_unfinished(c);
    if (o->learn) {
        if (c->verdict.findings)
            return err_set(err, ERR_MISMATCH,
                           "no baseline is learnt from a fabric that is not"
                           " well: %s",
                           c->verdict.finding[0].text);
        health_baseline_print(&c->data, out);
        return 0;
    }
    if (o->prom && health_write_prom(&c->data, &c->verdict, o->prom, err))
        return -1;
    if (o->json)
        health_print_json(&c->data, &c->verdict, o, out);
    else
        health_print_line(&c->data, &c->verdict, o, out);
    return 0;
}

int health_check(struct world *w, const struct health_options *o, const char *volatile *where,
                 FILE *out, enum health_state *state, int *gone, struct err *err)
{
    struct check c = {.w = w, .o = o, .where = where, .rules = {o->warn, o->crit, NULL}};

    health_data_init(&c.data, w->groups.count, (const char *const *)w->host);
    int rc = prepare(&c, err);
    rc = rc ? rc : measure(&c, err);
    *gone = c.data.stalled || (rc && err->code == ERR_PEER);
    if (rc == 0) {
        rc = w->rank == 0 ? speak(&c, out, err) : 0;
        rc = *gone ? rc : share(&c, rc, err);
    }
    if (rc == 0)
        *state = c.verdict.state;
    health_verdict_release(&c.verdict);
    health_data_release(&c.data);
    health_baseline_release(&c.baseline);
    return rc;
}
