/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks at the quick level: compares the ports of one host (health_nics.h) with their state at
 * the last run (health_memory.h) and with the expected one (health_checks.h).
 *
 * Counters are judged by their growth since the last run.  After a boot, or when one of them
 * decreased (a driver was reloaded), they begin again: that run counts nothing.
 *
 *     boot     A    A    A    B    B
 *     counter  50   50   62   3    4
 *     judged   -    0    12   -    1        -: unknown
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/tick.h"
#include "base/units.h"
#include "health/health_data.h"
#include "health/health_parts.h"

/* Errors too few in one run are added up for an hour, lost links for a day. */
static const int64_t recent_s = 3600, loss_s = 86400;
/* A link that renegotiates is down for less: read twice, this far apart. */
static const double again_s = 0.25;

struct quick {
    const struct health_options *o;
    struct health_memory *m; /* NULL: no memory */
    const struct health_nics *now;
    struct health_data *d;
    struct health_verdict *v;
    int same_boot;
    int judged; /* ports judged */
};

/* Reports "HOST WORDS" of a port; it was counted, not estimated, so it needs no
   confirmation. */
static struct health_finding *__attribute__((format(printf, 5, 6)))
quick_report(struct quick *q, enum health_state state, int code, const char *link,
             const char *fmt, ...)
{
    char text[256];
    va_list list;

    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    struct health_finding *f =
        health_verdict_addf(q->v, state, code, 0, "%.64s%s", q->o->host, text);
    f->confirmed = 1;
    if (link[0])
        health_name_clean(link, f->link, sizeof f->link);
    return f;
}

/* ---- growth of a port's counters ---- */

/* Clamps to the range of an event, 0 to HEALTH_EVENT_MOST. */
static int64_t clamp_event(int64_t v)
{
    return v < 0 ? 0 : v > HEALTH_EVENT_MOST ? HEALTH_EVENT_MOST : v;
}

struct growth {
    int64_t packets, losses, most; /* -1: unknown; most: the counter that grew most */
    int64_t counter[HEALTH_COUNTERS];
    double since_s;
};

/*
 * Returns the growth since the last run, or since the counter began if there is no memory.  The
 * counters of a driver begin together: one that decreased sets *reset for all.
 */
static int64_t grown(const struct quick *q, int64_t now, int64_t before, int *reset)
{
    if (now < 0 || !q->m)
        return now;
    if (!q->same_boot || before < 0)
        return -1;
    *reset |= now < before;
    return now - before;
}

static struct growth growth_of(const struct quick *q, const struct health_nic *n,
                               const struct health_known *k)
{
    struct growth g = {.most = -1};
    int reset = 0, no_matter = 0;

    g.packets = grown(q, n->packets, k ? k->last.packets : -1, &reset);
    g.losses = grown(q, n->losses, k ? k->last.losses : -1, &no_matter);
    for (int i = 0; i < HEALTH_COUNTERS; i++)
        g.counter[i] = grown(q, n->counter[i], k ? k->last.counter[i] : -1, &reset);
    for (int i = 0; i < HEALTH_COUNTERS; i++) {
        g.counter[i] = reset ? -1 : g.counter[i];
        g.most = g.counter[i] > g.most ? g.counter[i] : g.most;
    }
    if (reset || no_matter)
        g.losses = -1;
    if (reset)
        g.packets = -1;
    g.since_s = q->m && g.most >= 0 ? (double)(q->o->now_s - q->m->when_s) : 0;
    return g;
}

/* ---- errors ---- */

/* Returns the sum of the events after `oldest_s`. */
static struct health_event quick_sum(const struct health_event *e, int count, int64_t oldest_s)
{
    struct health_event all = {0};

    for (int i = 0; i < count; i++)
        if (e[i].at_s > oldest_s) {
            all.n += e[i].n;
            all.packets += e[i].packets;
        }
    return all;
}

static void judge_errors(struct quick *q, const struct health_nic *n,
                         const struct health_known *k, const struct growth *g)
{
    const struct health_counter *c = health_counters(n->ib);
    struct units u;

    for (int i = 0; i < HEALTH_COUNTERS && c[i].name; i++) {
        /* Some counters include others: the more specific one comes first. */
        if (!health_errors_are_many(g->counter[i], g->packets))
            continue;
        quick_report(q, HEALTH_WARNING, HC_ERRORS, n->name,
                     " port '%s' counts %" PRId64 " %s in %" PRId64 " packets%s%s", n->name,
                     g->counter[i], c[i].name, clamp_event(g->packets),
                     g->since_s > 0 ? ", in " : "",
                     g->since_s > 0 ? units_time(&u, g->since_s) : "")
            ->measured = (double)g->counter[i];
        return;
    }
    if (!k || !k->recents)
        return;
    struct health_event hour = quick_sum(k->recent, k->recents, q->o->now_s - recent_s);
    int64_t errors = hour.n + clamp_event(g->most),
            packets = hour.packets + clamp_event(g->packets);
    if (health_errors_are_many(errors, packets))
        quick_report(q, HEALTH_WARNING, HC_ERRORS, n->name,
                     " port '%s' counts %" PRId64 " errors in %" PRId64
                     " packets within an hour",
                     n->name, errors, packets)
            ->measured = (double)errors;
}

static void judge_full(struct quick *q, const struct health_nic *n)
{
    const struct health_counter *c = health_counters(n->ib);
    int i = 0;

    while (i < HEALTH_COUNTERS && c[i].name && (c[i].end == 0 || n->counter[i] != c[i].end))
        i++;
    if (i < HEALTH_COUNTERS && c[i].name)
        quick_report(q, HEALTH_UNKNOWN, HC_FULL, n->name,
                     " port '%s': %s is at its maximum, %" PRId64, n->name, c[i].name, c[i].end)
            ->measured = (double)c[i].end;
}

/* Judges the checks that consist of a row only. */
static void judge_measured(struct quick *q, const struct health_nic *n,
                           const struct health_known *k, const struct growth *g)
{
    struct health_seen seen = {.nic = n, .losses_in_day = -1};

    if (k)
        seen.losses_in_day =
            quick_sum(k->loss, k->losses, q->o->now_s - loss_s).n + clamp_event(g->losses);
    for (const struct health_check *c = health_checks; c->code; c++) {
        double v = c->measure ? c->measure(&seen) : NAN;
        if (v >= c->warn)
            quick_report(q, c->crit > 0 && v >= c->crit ? HEALTH_CRITICAL : HEALTH_WARNING,
                         c->code, n->name, " port '%s' %s %.0f %s", n->name, c->says, v,
                         c->what)
                ->measured = v;
    }
}

/* ---- the link ---- */

/* Returns whether there is a link; reports a missing one. */
static int quick_judge_link(struct quick *q, const struct health_nic *n, int want_up)
{
    if (!n->up && want_up)
        quick_report(q, HEALTH_WARNING, HC_GONE, n->name,
                     " port '%s' was in use and is set down", n->name);
    else if (n->up && !n->carrier && want_up)
        quick_report(q, HEALTH_CRITICAL, HC_LINK, n->name, " lost the link of its port '%s'",
                     n->name);
    else if (n->ib && n->carrier && n->waits)
        quick_report(q, want_up ? HEALTH_CRITICAL : HEALTH_WARNING, HC_UNUSED, n->name,
                     " port '%s' has a link and is not ACTIVE: no subnet manager?", n->name);
    return n->up && n->carrier && !n->waits;
}

static void judge_speed(struct quick *q, const struct health_nic *n, int64_t want_mbit,
                        int want_width)
{
    double percent =
        want_mbit > 0 && n->mbit > 0 ? 100.0 * (double)n->mbit / (double)want_mbit : NAN;
    int narrow = want_width > 0 && n->width > 0 && n->width < want_width;
    enum health_state s = narrow || n->half ? HEALTH_WARNING : HEALTH_OK;
    char lanes[48] = "", speed[64] = "has an unknown speed";

    if (!isnan(percent))
        s = health_worse(s, health_rules_state(&q->o->rules, percent));
    if (s == HEALTH_OK)
        return;
    if (narrow)
        snprintf(lanes, sizeof lanes, ", %d of %d lanes", n->width, want_width);
    if (n->mbit > 0)
        snprintf(speed, sizeof speed, "runs at %.4g of %.4g Gbit/s", (double)n->mbit / 1e3,
                 (double)(want_mbit > 0 ? want_mbit : n->mbit) / 1e3);
    struct health_finding *f =
        quick_report(q, s, HC_SPEED, n->name, " port '%s' %s%s%s", n->name, speed, lanes,
                     n->half ? ", half duplex" : "");
    f->percent = percent;
    f->measured = (double)n->mbit * 1e6 / 8;
    f->expected = (double)want_mbit * 1e6 / 8;
}

/* Since the kernel started: a port that never had a link may have no cable. */
static int had_link(const struct health_nic *n)
{
    return n->up && (n->carrier || n->ups > 0);
}

static void add_link(struct quick *q, const struct health_nic *n, const struct health_known *k,
                     const struct growth *g)
{
    struct health_link l = {.up = n->up,
                            .carrier = n->carrier,
                            .lost = n->up && !n->carrier && (k ? k->want_up : had_link(n)),
                            .Bps = (double)n->mbit * 1e6 / 8,
                            .want_Bps = k ? (double)k->want_mbit * 1e6 / 8 : 0,
                            .errors = g->most,
                            .packets = g->packets,
                            .flaps = g->losses,
                            .since_s = g->since_s};

    snprintf(l.name, sizeof l.name, "%.*s", (int)sizeof l.name - 1, n->name);
    HEALTH_ADD(&q->d->links) = l;
}

static void judge_nic(struct quick *q, const struct health_nic *n)
{
    const struct health_known *k = q->m ? health_memory_nic(q->m, n->name) : NULL;
    const struct health_expect *e =
        health_config_find_expect(&q->o->config, q->o->host, n->name);
    const struct growth g = growth_of(q, n, k);
    char more[48] = "";

    if (!n->real && !e && !n->ib)
        return;
    if (n->unread) { /* neither healthy nor lost */
        quick_report(q, HEALTH_UNKNOWN, HC_UNABLE, n->name, ": cannot read '%s' of port '%s'",
                     n->unread, n->name);
        q->judged++;
        return;
    }
    add_link(q, n, k, &g);
    if (n->broken > 1)
        snprintf(more, sizeof more, ", nor %d other files", n->broken - 1);
    if (n->broken)
        quick_report(q, HEALTH_UNKNOWN, HC_UNREAD, n->name, ": cannot read '%s' of port '%s'%s",
                     n->broken_file, n->name, more);
    if (n->real || e) { /* a RoCE port's link is the interface's */
        int want_up = e || (k ? k->want_up : had_link(n));
        q->judged += n->up || want_up;
        if (n->waits && !n->ib)
            return;
        if (quick_judge_link(q, n, want_up))
            judge_speed(q, n,
                        e && e->mbit ? e->mbit
                        : k          ? k->want_mbit
                                     : 0,
                        e && e->width ? e->width
                        : k           ? k->want_width
                                      : 0);
    }
    judge_errors(q, n, k, &g);
    judge_full(q, n);
    if (n->real || e)
        judge_measured(q, n, k, &g);
}

/* Returns whether there is a port of that name, or a device whose ports cannot be read. */
static int quick_is_there(const struct health_nics *all, const char *name)
{
    size_t n = strcspn(name, "/");

    for (int i = 0; i < all->count; i++) {
        const char *is = all->nic[i].name;
        if (strcmp(is, name) == 0 ||
            (name[n] && strlen(is) == n && memcmp(is, name, n) == 0 && all->nic[i].unread))
            return 1;
    }
    return 0;
}

/* Finds missing ports: remembered ones, and expected ones (by a name without patterns). */
static void judge_absent(struct quick *q)
{
    const struct health_config *c = &q->o->config;
    char clean[HEALTH_LINK_NAME];

    for (int i = 0; q->m && i < q->m->nics.count; i++) {
        const char *link = q->m->nics.at[i].last.name;
        if (!q->m->nics.at[i].want_up || quick_is_there(q->now, link))
            continue;
        quick_report(q, HEALTH_CRITICAL, HC_GONE, link, " has no port '%s' any more", link);
        q->judged++;
    }
    for (int i = 0; i < c->expects; i++) {
        const char *link = c->expect[i].link;
        const struct health_known *k = q->m ? health_memory_nic(q->m, link) : NULL;
        if (strpbrk(link, "*?[") || quick_is_there(q->now, link) || (k && k->want_up) ||
            health_config_find_expect(c, q->o->host, link) != &c->expect[i])
            continue;
        health_name_clean(link, clean, sizeof clean);
        quick_report(q, HEALTH_CRITICAL, HC_GONE, link, " has no port '%s', which is expected",
                     clean);
        q->judged++;
    }
}

static void quick_judge(struct quick *q)
{
    const int left = q->now->left + q->now->left_others;

    q->judged = 0;
    q->d->links.count = 0;
    q->v->findings = 0;
    q->v->state = HEALTH_OK;
    q->same_boot = q->m && !q->m->fresh && strcmp(q->m->boot, q->now->boot) == 0;
    for (int i = 0; i < q->now->count; i++)
        judge_nic(q, &q->now->nic[i]);
    /* Ports that were not read are neither healthy nor missing. */
    if (q->now->left || (left && q->o->config.expects)) {
        quick_report(q, HEALTH_UNKNOWN, HC_UNABLE, "",
                     " has %d ports, %d of them not checked (%d at most)", q->now->count + left,
                     left, HEALTH_NICS_MOST);
        return;
    }
    judge_absent(q);
    if (q->judged == 0)
        quick_report(q, HEALTH_UNKNOWN, HC_UNABLE, "",
                     " has no network hardware that is up: nothing to check");
}

/* ---- memory ---- */

/* Appends an event; drops those that are too old, and merges the oldest two if full. */
static void remember(struct health_event *e, int *count, struct health_event last,
                     int64_t oldest_s)
{
    int kept = 0;

    for (int i = 0; i < *count; i++)
        if (e[i].at_s > oldest_s)
            e[kept++] = e[i];
    if (last.n || last.packets) {
        if (kept == HEALTH_EVENTS) {
            e[1].n = clamp_event(e[1].n + e[0].n);
            e[1].packets = clamp_event(e[1].packets + e[0].packets);
            memmove(e, e + 1, (HEALTH_EVENTS - 1) * sizeof *e);
            kept--;
        }
        e[kept++] = last;
    }
    *count = kept;
}

static void remember_nic(struct quick *q, const struct health_nic *n)
{
    struct health_known *k = health_memory_nic(q->m, n->name);
    struct growth g = growth_of(q, n, k);
    int64_t now_s = q->o->now_s;

    if (!k) {
        k = &HEALTH_ADD(&q->m->nics);
        *k = (struct health_known){.want_up = n->real && had_link(n), .last = *n};
    }
    const struct health_nic before = k->last;
    k->last = *n;
    /* A counter that cannot be read this time grows later from its last value. */
    for (int i = 0; n->broken && q->same_boot && i < HEALTH_COUNTERS; i++)
        if (n->counter[i] < 0)
            k->last.counter[i] = before.counter[i];
    k->want_up |= n->real && n->up && n->carrier && !n->waits;
    k->want_mbit = n->mbit > k->want_mbit ? n->mbit : k->want_mbit;
    k->want_width = n->width > k->want_width ? n->width : k->want_width;
    remember(k->loss, &k->losses, (struct health_event){now_s, clamp_event(g.losses), 0},
             now_s - loss_s);
    /* A burst has been reported; a slow trickle is added up. */
    struct health_event drip = {now_s, clamp_event(g.most), clamp_event(g.packets)};
    if (health_errors_are_many(g.most, g.packets))
        drip.n = drip.packets = 0;
    remember(k->recent, &k->recents, drip, now_s - recent_s);
}

static void remember_all(struct quick *q)
{
    struct health_memory *m = q->m;
    int kept = 0;

    for (int i = 0; i < q->now->count; i++)
        if (!q->now->nic[i].unread &&
            (m->nics.count < HEALTH_NICS_MOST || health_memory_nic(m, q->now->nic[i].name)))
            remember_nic(q, &q->now->nic[i]);
    /* Forget a port that disappeared and had not been in use. */
    for (int i = 0; i < m->nics.count; i++) {
        struct health_known k = m->nics.at[i];
        int found = k.want_up;
        for (int n = 0; !found && n < q->now->count; n++)
            found = strcmp(q->now->nic[n].name, k.last.name) == 0;
        if (found)
            m->nics.at[kept++] = k;
    }
    m->nics.count = kept;
    snprintf(m->boot, sizeof m->boot, "%s", q->now->boot);
}

/* ---- the run ---- */

int health_quick(const struct health_options *o, FILE *out, enum health_state *state,
                 struct err *err)
{
    struct health_nics now = {0};
    struct health_data d;
    struct health_verdict v = {.hosts = 1};
    const char *name = o->host;
    struct quick q = {.o = o, .now = &now, .d = &d, .v = &v};

    health_data_init(&d, 1, &name);
    d.level = HEALTH_QUICK;
    d.when_s = o->now_s;
    if (health_memory_open(o->memory, o->state, o->host, &d, err)) {
        health_data_release(&d);
        return -1;
    }
    q.m = o->state ? o->memory : NULL;
    for (int i = 0; o->accept && q.m && i < q.m->nics.count; i++) {
        /* The current state becomes the expected one: forget better readings. */
        const struct health_nic last = q.m->nics.at[i].last;
        q.m->nics.at[i] = (struct health_known){.last = last};
    }
    d.requested = d.done = 1u << HEALTH_PART_LINKS;
    double start = tick_now_s();
    int rc = 0;
    for (int again = 0, twice = 1; rc == 0 && again < 2 && twice; again++) {
        health_nics_release(&now);
        if (again)
            tick_sleep_s(again_s);
        rc = health_nics_read(&now, o->sys, o->proc, err);
        if (rc)
            break;
        quick_judge(&q);
        twice = 0;
        for (int i = 0; i < v.findings; i++)
            twice |= health_check_find(v.finding[i].code)->read_twice;
    }
    d.seconds = tick_now_s() - start;
    if (rc == 0 && q.m)
        remember_all(&q);
    if (rc == 0)
        rc = health_report(&d, &v, o, out, state, err);
    health_nics_release(&now);
    health_verdict_release(&v);
    health_data_release(&d);
    return rc;
}
