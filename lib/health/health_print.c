/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the monitoring plugins' line, and the lines that may stand below it. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "base/utf8.h"
#include "health/health_parts.h"

enum {
    LINE = 80,  /* of which Nagios shows all, before the bar */
    LABEL = 15, /* with "_out" 19: as many characters must tell labels apart */
    MANY = 256  /* ports: with more, those alone that are not OK have perfdata */
};

static const char *const way_name[] = {"out", "in"};

static void slowest(const struct health_verdict *v, int *host, int *way)
{
    double least = INFINITY;

    *host = -1;
    for (int k = 0; v->port && k < v->hosts; k++)
        for (int w = 0; w < 2; w++)
            if (v->port[k][w].samples && v->port[k][w].percent < least) {
                least = v->port[k][w].percent;
                *host = k;
                *way = w;
            }
}

static void put_good(const struct health_told *t, FILE *out)
{
    const struct health_data *d = t->d;
    int host, way = 0, carriers = 0;

    if (d->level == HEALTH_QUICK) {
        for (int i = 0; i < d->links.count; i++)
            carriers += d->links.at[i].carrier;
        fprintf(out, "%.64s: %d of %d links have a carrier, no faults", d->host[0].name,
                carriers, d->links.count);
        return;
    }
    slowest(t->v, &host, &way);
    fprintf(out, "%d hosts, %d rounds", d->hosts, d->rounds);
    if (host >= 0)
        fprintf(out, ", slowest %.64s %s %.0f %% of %s", d->host[host].name, way_name[way],
                t->v->port[host][way].percent, t->v->by_baseline ? "baseline" : "peers");
    if (t->v->percent_only)
        fputs(", percentage only", out);
}

/* Words of which others have given some: no bar before the perfdata. */
static int put_text(const char *text, FILE *out)
{
    return utf8_put(text, "|", out);
}

/* The worst findings first, as many as fit, then how many more there are. */
static void put_findings(const struct health_verdict *v, FILE *out)
{
    static const enum health_state order[] = {HEALTH_CRITICAL, HEALTH_WARNING, HEALTH_UNKNOWN};
    int used = (int)strlen("HORING CRITICAL - "), said = 0;

    for (int o = 0; o < 3; o++)
        for (int i = 0; i < v->findings; i++) {
            const struct health_finding *f = &v->finding[i];
            int bytes = (int)strlen(f->text) + 2;
            if (f->state != order[o] || (said && used + bytes > LINE - 10))
                continue;
            if (said)
                used += fprintf(out, "; ");
            used += put_text(f->text, out);
            said++;
        }
    if (said < v->findings)
        fprintf(out, "; %d more", v->findings - said);
}

/* What was not looked at is no OK. */
static void put_left_out(const struct health_told *t, FILE *out)
{
    const struct health_config *c = &t->ops->config;

    for (int i = 0; i < c->disables; i++)
        fprintf(out, "%s%s", i ? "," : "; disabled: ", c->disable[i]);
    if (t->ignored)
        fprintf(out, "; %d known", t->ignored);
    if (t->memory && t->memory->fresh && t->memory->old[0])
        fprintf(out, "; begins afresh, the old state is '%s'", t->memory->old);
    else if (t->memory && t->memory->fresh && t->d->level == HEALTH_QUICK)
        fputs("; first run: errors count from now", out);
}

/* ---- perfdata ---- */

/* A range of percents as one of MB/s. */
static void put_range(const struct health_range *r, double unit, FILE *out)
{
    struct units u;

    fputs(r->inside ? "@" : "", out);
    if (isinf(r->start))
        fputs("~", out);
    else
        fputs(units_fixed(&u, r->start * unit), out);
    putc(':', out);
    if (!isinf(r->end))
        fputs(units_fixed(&u, r->end * unit), out);
}

/*
 * Names as labels have them: of LABEL bytes at most, and no two alike.  The names, or where one
 * is longer all without what they share (hosts: their beginnings), or the ends of those that
 * are (ports: "eth0" keeps its own), or where that does not do numbers.
 */
struct labels {
    const char *(*name)(const struct health_data *d, int k);
    const char *kind; /* what is numbered */
    int skip, ends, number;
};

static const char *host_at(const struct health_data *d, int k)
{
    return d->host[k].name;
}

static const char *link_at(const struct health_data *d, int k)
{
    return d->links.at[k].name;
}

/* How many first characters all share, their last number excepted, and whole ones. */
static int shared(const struct labels *l, const struct health_data *d, int count)
{
    const char *first = l->name(d, 0);
    int n = (int)strlen(first);

    for (int k = 1; k < count; k++)
        for (int i = 0; i < n; i++)
            if (l->name(d, k)[i] != first[i])
                n = i;
    while (n > 0 && (isdigit((unsigned char)first[n - 1]) || (first[n] & 0xc0) == 0x80))
        n--;
    return n;
}

static const char *label_of(const struct labels *l, const struct health_data *d, int k)
{
    const char *name = l->name(d, k);
    size_t n = strlen(name);

    if (!l->ends)
        return name + l->skip;
    name += n > LABEL ? n - LABEL : 0;
    while ((*name & 0xc0) == 0x80)
        name++;
    return name;
}

static struct labels labels_of_hosts(const struct health_data *d)
{
    struct labels l = {.name = host_at, .kind = "host"};
    int longest = 0;

    for (int k = 0; k < d->hosts; k++)
        if ((int)strlen(d->host[k].name) > longest)
            longest = (int)strlen(d->host[k].name);
    if (longest > LABEL)
        l.skip = shared(&l, d, d->hosts);
    l.number = longest - l.skip > LABEL || (d->hosts > 1 && longest == l.skip);
    return l;
}

static struct labels labels_of_links(const struct health_data *d)
{
    struct labels l = {.name = link_at, .kind = "link", .ends = 1};

    for (int k = 0; k < d->links.count && !l.number; k++)
        for (int i = 0; strlen(link_at(d, k)) > LABEL && i < d->links.count; i++)
            l.number |= i != k && strcmp(label_of(&l, d, i), label_of(&l, d, k)) == 0;
    return l;
}

/* Clean names hold neither "=" nor a quote, which a label has doubled. */
static void put_label(const struct labels *l, const struct health_data *d, int k,
                      const char *what, FILE *out)
{
    putc('\'', out);
    if (l->number)
        fprintf(out, "%s%d", l->kind, k);
    else
        put_text(label_of(l, d, k), out);
    fprintf(out, "_%s'=", what);
}

static void put_port(const struct health_told *t, const struct labels *l, int k, int w,
                     FILE *out)
{
    const struct health_port *p = &t->v->port[k][w];
    const struct health_rules *r = &t->o->rules;
    struct units u;

    put_label(l, t->d, k, way_name[w], out);
    if (p->samples == 0) {
        fputs("U;;;0;", out);
        return;
    }
    fprintf(out, "%sMB;", units_fixed(&u, p->Bps / 1e6));
    put_range(&r->warn, p->want_Bps / 1e8, out); /* MB/s of one percent */
    putc(';', out);
    put_range(&r->crit, p->want_Bps / 1e8, out);
    fputs(";0;", out);
}

static void put_perfdata(const struct health_told *t, FILE *out)
{
    const struct health_verdict *v = t->v;
    struct labels l =
        t->d->level == HEALTH_QUICK ? labels_of_links(t->d) : labels_of_hosts(t->d);
    int many = 2 * v->hosts > MANY, said = 0;

    for (int k = 0; v->port && k < v->hosts; k++)
        for (int w = 0; w < 2; w++) {
            if (many && v->port[k][w].state == HEALTH_OK)
                continue;
            putc(said++ ? ' ' : '|', out);
            put_port(t, &l, k, w, out);
        }
    for (int i = 0; t->d->level == HEALTH_QUICK && i < t->d->links.count; i++) {
        const struct health_link *k = &t->d->links.at[i];
        if (t->d->links.count > MANY && k->errors <= 0)
            continue;
        putc(said++ ? ' ' : '|', out);
        put_label(&l, t->d, i, "err", out);
        if (k->errors < 0)
            fputs("U;;;0;", out);
        else
            fprintf(out, "%" PRId64 "c;;;0;", k->errors);
    }
}

/* ---- below the line ---- */

static void put_verbose(const struct health_told *t, FILE *out)
{
    const struct health_data *d = t->d;

    for (int i = 0; i < t->v->findings; i++) {
        const struct health_finding *f = &t->v->finding[i];
        const struct health_code *c = health_code_find(f->code);
        fprintf(out, "%s HC-%d ", health_state_name(f->state), f->code);
        put_text(f->text, out);
        fprintf(out, " (%s: %s)\n", c ? c->text : "no words", health_action_name(f->action));
        if (t->ops->verbose > 1 && f->partners > 0)
            fprintf(out, "  %d of %d partners see it, %d samples, z %.1f\n", f->saw,
                    f->partners, f->samples, f->z);
    }
    for (int i = 0; t->ops->verbose > 1 && i < d->links.count; i++) {
        const struct health_link *l = &d->links.at[i];
        fprintf(out, "  %.64s %s: %s, %.4g Gbit/s, errors %" PRId64 ", packets %" PRId64 "\n",
                d->host[l->host].name, l->name,
                !l->up       ? "down"
                : l->carrier ? "up"
                             : "no carrier",
                l->Bps * 8 / 1e9, l->errors, l->packets);
    }
    for (int k = 0; t->ops->verbose > 2 && t->v->port && k < d->hosts; k++)
        for (int w = 0; w < 2; w++) {
            const struct health_port *p = &t->v->port[k][w];
            struct units u[2];
            fprintf(out, "  %.64s %s: %s of %s MB/s, %.1f %%, %d samples, z %.1f\n",
                    d->host[k].name, way_name[w], units_fixed(&u[0], p->Bps / 1e6),
                    units_fixed(&u[1], p->want_Bps / 1e6), p->percent, p->samples, p->z);
        }
}

/* The line itself names the worst alone: who is told of changes is told of all of them. */
static void put_news(const struct health_news *n, int notify, FILE *out)
{
    for (int i = 0; notify && i < n->fresh.count; i++) {
        fputs("NEW ", out);
        put_text(n->fresh.at[i].text, out);
        putc('\n', out);
    }
    for (int i = 0; i < n->clear.count; i++) {
        fputs("CLEARED ", out);
        put_text(n->clear.at[i].text, out);
        putc('\n', out);
    }
}

void health_print_line(const struct health_told *t, FILE *out)
{
    fprintf(out, "HORING %s - ", health_state_name(t->v->state));
    if (t->v->findings)
        put_findings(t->v, out);
    else
        put_good(t, out);
    put_left_out(t, out);
    put_perfdata(t, out);
    putc('\n', out);
    if (t->ops->verbose)
        put_verbose(t, out);
    if (t->news)
        put_news(t->news, t->ops->notify, out);
    for (int i = 0; t->ops->suggest && i < t->v->findings; i++) {
        char line[700];
        if (health_suggest(t->d, &t->v->finding[i], line, sizeof line) == 0)
            fprintf(out, "%s\n", line);
    }
}
