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

/* The slowest port; of those that are outside a range, if any is, the one farthest off. */
static const struct health_port *farthest(const struct health_verdict *v, int *host, int *way)
{
    const struct health_port *far = NULL;

    for (int k = 0; v->port && k < v->hosts; k++)
        for (int w = 0; w < 2; w++) {
            const struct health_port *p = &v->port[k][w];
            if (!p->samples || (far && far->pardon && !p->pardon))
                continue;
            if (far && !far->pardon == !p->pardon &&
                (p->pardon ? fabs(100 - p->percent) <= fabs(100 - far->percent)
                           : p->percent >= far->percent))
                continue;
            far = p;
            *host = k;
            *way = w;
        }
    return far;
}

static void put_good(const struct health_told *t, FILE *out)
{
    const struct health_data *d = t->d;
    int host = 0, way = 0, carriers = 0;
    struct units u;

    if (d->level == HEALTH_QUICK) {
        for (int i = 0; i < d->links.count; i++)
            carriers += d->links.at[i].carrier;
        fprintf(out, "%.64s: %d of %d links have a carrier, no faults", d->host[0].name,
                carriers, d->links.count);
        return;
    }
    const struct health_port *p = farthest(t->v, &host, &way);
    fprintf(out, "%d hosts, %d rounds", d->hosts, d->rounds);
    if (p)
        fprintf(out, ", %s %.64s %s %s of %s",
                p->pardon && p->percent > 100 ? "fastest" : "slowest", d->host[host].name,
                health_way[way], health_percent(&u, &t->o->rules, p->percent),
                t->v->by_baseline ? "baseline" : "peers");
    if (p && p->pardon)
        fprintf(out, ", %s", p->pardon);
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
static void put_range(const struct health_range *r, double unit, int decimals, FILE *out)
{
    fputs(r->inside ? "@" : "", out);
    if (isinf(r->start))
        fputs("~", out);
    else
        fprintf(out, "%.*f", decimals, r->start * unit);
    putc(':', out);
    if (!isinf(r->end))
        fprintf(out, "%.*f", decimals, r->end * unit);
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
    double MBps = p->Bps / 1e6, unit = p->want_Bps / 1e8; /* MB/s of one percent */

    put_label(l, t->d, k, health_way[w], out);
    if (p->samples == 0) {
        fputs("U;;;0;", out);
        return;
    }
    /* Of four digits; the thresholds have as many decimals as the value. */
    int decimals = MBps >= 999.95 ? 0 : MBps >= 99.995 ? 1 : MBps >= 9.9995 ? 2 : 3;
    decimals = health_rules_decimals(r, MBps, unit, decimals);
    fprintf(out, "%.*fMB;", decimals, MBps);
    put_range(&r->warn, unit, decimals, out);
    putc(';', out);
    put_range(&r->crit, unit, decimals, out);
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

static void put_link(const struct health_data *d, const struct health_link *l, FILE *out)
{
    static const char *const name[] = {"errors", "packets"};
    const int64_t count[] = {l->errors, l->packets};

    fprintf(out, "  %.64s %s: %s, ", d->host[l->host].name, l->name,
            !l->up       ? "down"
            : l->carrier ? "up"
                         : "no carrier");
    if (l->Bps > 0)
        fprintf(out, "%.4g Gbit/s", l->Bps * 8 / 1e9);
    else
        fputs("speed unknown", out);
    for (int i = 0; i < 2; i++)
        if (count[i] < 0)
            fprintf(out, ", %s unknown", name[i]);
        else
            fprintf(out, ", %s %" PRId64, name[i], count[i]);
    putc('\n', out);
}

static void put_verbose(const struct health_told *t, FILE *out)
{
    const struct health_data *d = t->d;

    for (int i = 0; i < t->v->findings; i++) {
        const struct health_finding *f = &t->v->finding[i];
        const struct health_check *c = health_check_find(f->code);
        fprintf(out, "%s HC-%d ", health_state_name(f->state), f->code);
        put_text(f->text, out);
        fprintf(out, " (%s: %s)\n", c ? c->text : "no words", health_action_name(f->action));
        if (t->ops->verbose > 1 && f->partners > 0)
            fprintf(out, "  %d of %d partners see it, %d samples, z %.1f\n", f->saw,
                    f->partners, f->samples, f->z);
    }
    for (int i = 0; t->ops->verbose > 1 && i < d->links.count; i++)
        put_link(d, &d->links.at[i], out);
    for (int k = 0; t->ops->verbose > 2 && t->v->port && k < d->hosts; k++)
        for (int w = 0; w < 2; w++) {
            const struct health_port *p = &t->v->port[k][w];
            struct units u[2];
            fprintf(out, "  %.64s %s: %s of %s MB/s, %.*f %%, %d samples, z %.1f%s%s\n",
                    d->host[k].name, health_way[w], units_fixed(&u[0], p->Bps / 1e6),
                    units_fixed(&u[1], p->want_Bps / 1e6),
                    health_rules_decimals(&t->o->rules, p->percent, 1, 1), p->percent,
                    p->samples, p->z, p->pardon ? ", " : "", p->pardon ? p->pardon : "");
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
