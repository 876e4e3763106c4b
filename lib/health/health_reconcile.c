/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides which findings of a run are reported, given the runs before it, and which are new.
 *
 *     run at     0      5      10     15     20 min
 *     seen       crit   crit   -      -      -          (not confirmed within the run)
 *     reported     WARN   CRIT   CRIT   OK                CRITICAL is kept for 10 min
 *     printed    yes    yes    no     CLEARED           with --notify=change
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "health/health_parts.h"

/* ---- one finding, one problem ---- */

/* Returns the problem that the finding belongs to, a new one if there was none. */
static struct health_problem *problem_of(struct health_memory *m, const struct health_data *d,
                                         const struct health_finding *f)
{
    const char *host = health_host_name(d, f->host), *other = health_host_name(d, f->other);

    for (int i = 0; i < m->problems.count; i++) {
        struct health_problem *p = &m->problems.at[i];
        if (p->code == f->code && p->way == f->way && strcmp(p->link, f->link) == 0 &&
            strcmp(p->host, host) == 0 && strcmp(p->other, other) == 0)
            return p;
    }
    struct health_problem *p = &HEALTH_ADD(&m->problems);
    *p = (struct health_problem){.code = f->code, .way = f->way, .first_s = d->when_s};
    snprintf(p->host, sizeof p->host, "%s", host);
    snprintf(p->other, sizeof p->other, "%s", other);
    snprintf(p->link, sizeof p->link, "%s", f->link);
    return p;
}

static void reconcile_see(struct health_memory *m, const struct health_data *d,
                          struct health_finding *f)
{
    struct health_problem *p = problem_of(m, d, f);
    enum health_state s = f->state;

    p->seen = 1;
    p->runs++;
    if (s == HEALTH_CRITICAL && !f->confirmed && p->runs < 2 && p->reported != HEALTH_CRITICAL)
        s = HEALTH_WARNING;
    if (health_state_rank(s) >= health_state_rank(p->reported) ||
        d->when_s - p->last_s >= HEALTH_STICKY_S) {
        p->reported = s;
        p->last_s = d->when_s;
    }
    snprintf(p->text, sizeof p->text, "%s", f->text);
    f->state = p->reported;
}

/* Writes 10:42, or 2026-11-22 10:42 if it was not today; in UTC, as in logs. */
static const char *clock_text(int64_t at_s, int64_t now_s, char text[32])
{
    time_t at = (time_t)at_s;
    struct tm tm;

    if (!gmtime_r(&at, &tm))
        return "?";
    strftime(text, 32, now_s - at_s < 86400 ? "%H:%MZ" : "%Y-%m-%d %H:%MZ", &tm);
    return text;
}

static void clear(struct health_news *n, const struct health_problem *p, int64_t now_s)
{
    char since[32];

    if (p->printed == HEALTH_OK) /* never printed */
        return;
    n->changed = 1;
    snprintf(HEALTH_ADD(&n->clear).text, sizeof n->clear.at->text,
             "HC-%d %s (since %s, %" PRId64 " min)", p->code, p->text,
             clock_text(p->first_s, now_s, since), (now_s - p->first_s) / 60);
}

static int reconcile_host_of(const struct health_data *d, const char *name)
{
    for (int k = 0; name[0] && k < d->hosts; k++)
        if (strcmp(d->host[k].name, name) == 0)
            return k;
    return -1;
}

/* Handles a problem that this run did not see; returns 1 if it has ended. */
static int miss(struct health_problem *p, const struct health_data *d, struct health_verdict *v,
                const struct health_options *o, int measured, struct health_news *n)
{
    char seen[32], until[32], why[80] = "not measured now";

    if (p->host[0] && reconcile_host_of(d, p->host) < 0) /* host not in this run */
        return 0;
    if (health_config_is_disabled(&o->config, p->code) ||
        health_config_is_ignored(&o->config, p->code, p->host, p->link, d->when_s))
        return 1;
    if (measured)
        p->runs = 0;
    /* UNKNOWN ends as soon as the measurement succeeds. */
    if (p->reported == HEALTH_UNKNOWN || p->code >= 900 || o->accept ||
        (measured && d->when_s - p->last_s >= HEALTH_STICKY_S)) {
        clear(n, p, d->when_s);
        return 1;
    }
    /* Report again, although this run did not see it. */
    if (measured)
        snprintf(why, sizeof why, "not seen now; reported until %s",
                 clock_text(p->last_s + HEALTH_STICKY_S, d->when_s, until));
    struct health_finding *f = health_verdict_addf(
        v, p->reported, p->code, reconcile_host_of(d, p->host), "%.180s (until %s, %s)",
        p->text, clock_text(p->last_s, d->when_s, seen), why);
    f->other = reconcile_host_of(d, p->other);
    f->way = p->way;
    f->confirmed = 0;
    f->action = HEALTH_MONITOR;
    snprintf(f->link, sizeof f->link, "%.*s", (int)sizeof f->link - 1, p->link);
    return 0;
}

static void remember_rate(struct health_memory *m, const char *host, int way, double Bps)
{
    struct health_rate *r = health_memory_rate(m, host, way);

    if (!r) {
        r = &HEALTH_ADD(&m->rates);
        *r = (struct health_rate){.way = way};
        snprintf(r->host, sizeof r->host, "%s", host);
    }
    if (r->count == HEALTH_RATES)
        memmove(r->Bps, r->Bps + 1, (size_t)--r->count * sizeof *r->Bps);
    r->Bps[r->count++] = Bps;
}

void health_reconcile(struct health_memory *m, const struct health_data *d,
                      struct health_verdict *v, const struct health_options *o, int measured,
                      struct health_news *news)
{
    int seen = v->findings, kept = 0;

    for (int i = 0; i < m->problems.count; i++)
        m->problems.at[i].seen = 0;
    for (int i = 0; i < seen; i++)
        reconcile_see(m, d, &v->finding[i]);
    for (int i = 0; i < m->problems.count; i++) {
        struct health_problem p = m->problems.at[i];
        if (!p.seen && miss(&p, d, v, o, measured, news))
            continue;
        if (p.seen && p.reported != p.printed) {
            news->changed = 1;
            snprintf(HEALTH_ADD(&news->fresh).text, sizeof news->fresh.at->text, "%s HC-%d %s",
                     health_state_name(p.reported), p.code, p.text);
        }
        m->problems.at[kept++] = p;
    }
    m->problems.count = kept;
    v->state = HEALTH_OK;
    for (int i = 0; i < v->findings; i++)
        v->state = health_worse(v->state, v->finding[i].state);
    health_verdict_sort(v);
    for (int k = 0; v->port && k < v->hosts; k++)
        for (int way = 0; way < 2; way++)
            if (v->port[k][way].samples)
                remember_rate(m, d->host[k].name, way, v->port[k][way].Bps);
    m->runs++;
    m->when_s = d->when_s;
    if (measured)
        m->measured_s = d->when_s;
    news->changed |= m->fresh && m->old[0] != 0;
    news->due = !news->changed && v->findings && o->remind_s > 0 &&
                (double)(d->when_s - m->printed_s) >= o->remind_s;
}

void health_reconcile_printed(struct health_memory *m, const struct health_verdict *v,
                              int64_t now_s)
{
    m->printed = v->state;
    m->printed_s = now_s;
    for (int i = 0; i < m->problems.count; i++)
        if (m->problems.at[i].printed != m->problems.at[i].reported) {
            m->problems.at[i].printed = m->problems.at[i].reported;
            m->problems.at[i].printed_s = now_s;
        }
}

void health_news_release(struct health_news *n)
{
    mem_free(n->fresh.at);
    mem_free(n->clear.at);
    *n = (struct health_news){0};
}

int health_filter(const struct health_data *d, struct health_verdict *v,
                  const struct health_config *c)
{
    int kept = 0, ignored = 0;

    v->state = HEALTH_OK;
    for (int i = 0; i < v->findings; i++) {
        const struct health_finding f = v->finding[i];
        if (health_config_is_disabled(c, f.code))
            continue;
        if (health_config_is_ignored(c, f.code, health_host_name(d, f.host), f.link,
                                     d->when_s)) {
            ignored++;
            continue;
        }
        v->finding[kept++] = f;
        v->state = health_worse(v->state, f.state);
    }
    v->findings = kept;
    return ignored;
}

/* ---- a scheduler's command ---- */

/* Appends text safe for the shell and Slurm: omits all other characters of a name. */
static void reconcile_put_word(char *to, size_t space, const char *text, const char *also)
{
    size_t n = strlen(to);

    for (const char *c = text; *c && n + 1 < space; c++)
        if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
            strchr(also, *c))
            to[n++] = *c;
    to[n] = 0;
}

int health_suggest(const struct health_data *d, const struct health_finding *f, char *to,
                   size_t space)
{
    const char *host = health_host_name(d, f->host);
    char node[HEALTH_HOST_NAME] = "";

    if (f->state != HEALTH_CRITICAL || f->host < 0 || f->other >= 0 ||
        (f->action != HEALTH_OPERATOR && f->action != HEALTH_ISOLATE))
        return -1;
    /* Without some of its characters it would be another node. */
    reconcile_put_word(node, sizeof node, host, "-._");
    if (strcmp(node, host) != 0)
        return -1;
    snprintf(to, space, "scontrol update NodeName=%s State=DRAIN Reason=\"horing: HC-%d ", node,
             f->code);
    reconcile_put_word(to, space - 2, f->text, " -._:,;%/()>");
    strcat(to, "\"");
    return 0;
}
