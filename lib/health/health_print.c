/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the monitoring plugins' line, and the lines after it. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "base/utf8.h"
#include "health/health_parts.h"

enum {
    LINE = 80,  /* Nagios shows this much, before the bar */
    LABEL = 15, /* with "_out" 19: as many characters must differ */
    MANY = 256  /* ports: with more, only those that are not OK have perfdata */
};

/* Returns the slowest port; if any is outside a range, the one of these farthest off. */
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

static void put_good(const struct health_report *t, FILE *out)
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

/* Prints words that include names from outside: no bar may precede the perfdata. */
static int print_put_text(const char *text, FILE *out)
{
    return utf8_put(text, "|", out);
}

/* Prints the worst findings first, as many as fit, then the number of others. */
static void print_put_findings(const struct health_verdict *v, FILE *out)
{
    static const enum health_state order[] = {HEALTH_CRITICAL, HEALTH_WARNING, HEALTH_UNKNOWN};
    int used = (int)strlen("HORING CRITICAL - "), put = 0;

    for (int o = 0; o < 3; o++)
        for (int i = 0; i < v->findings; i++) {
            const struct health_finding *f = &v->finding[i];
            int bytes = (int)strlen(f->text) + 2;
            if (f->state != order[o] || (put && used + bytes > LINE - 10))
                continue;
            if (put++)
                used += fprintf(out, "; ");
            used += print_put_text(f->text, out);
        }
    if (put < v->findings)
        fprintf(out, "; %d more", v->findings - put);
}

/* ---- labels ---- */

/* Labels of at most LABEL bytes, all different; if that is too short, numbers. */
struct labels {
    const char **at;  /* owned; point into names */
    const char *kind; /* the noun to number, with `number` */
    int count, number;
};

/*
 * Shortens hosts if one has a long name: removes the beginning that all share, except its last
 * number, in whole characters.
 */
static void shorten_hosts(struct labels *l)
{
    const char *first = l->at[0];
    int longest = 0, skip = (int)strlen(first);

    for (int k = 0; k < l->count; k++) {
        int n = 0;
        while (n < skip && l->at[k][n] == first[n])
            n++;
        skip = n;
        longest = (int)strlen(l->at[k]) > longest ? (int)strlen(l->at[k]) : longest;
    }
    while (skip > 0 &&
           (isdigit((unsigned char)first[skip - 1]) || (first[skip] & 0xc0) == 0x80))
        skip--;
    if (longest <= LABEL)
        skip = 0;
    l->number = longest - skip > LABEL || (l->count > 1 && longest == skip);
    for (int k = 0; k < l->count; k++)
        l->at[k] += skip;
}

/* Shortens long ports to their ends; "eth0" stays. */
static void shorten_links(struct labels *l)
{
    unsigned char *cut = mem_new((size_t)l->count + 1, 1);

    for (int k = 0; k < l->count; k++) {
        size_t n = strlen(l->at[k]);
        cut[k] = n > LABEL;
        l->at[k] += cut[k] ? n - LABEL : 0;
        while ((*l->at[k] & 0xc0) == 0x80)
            l->at[k]++;
    }
    for (int k = 0; k < l->count && !l->number; k++)
        for (int i = 0; cut[k] && i < l->count; i++)
            l->number |= i != k && strcmp(l->at[i], l->at[k]) == 0;
    mem_free(cut);
}

static struct labels make_labels(const struct health_data *d)
{
    const int quick = d->level == HEALTH_QUICK;
    struct labels l = {.kind = quick ? "link" : "host",
                       .count = quick ? d->links.count : d->hosts};

    l.at = mem_new((size_t)l.count + 1, sizeof *l.at);
    for (int k = 0; k < l.count; k++)
        l.at[k] = quick ? d->links.at[k].name : d->host[k].name;
    if (quick)
        shorten_links(&l);
    else
        shorten_hosts(&l);
    return l;
}

/* ---- perfdata ---- */

/* Prints a label.  Clean names hold no "="; quotes would have to be doubled. */
static void put_label(const struct labels *l, int k, const char *what, int is_first, FILE *out)
{
    putc(is_first ? '|' : ' ', out);
    putc('\'', out);
    if (l->number)
        fprintf(out, "%s%d", l->kind, k);
    else
        print_put_text(l->at[k], out);
    fprintf(out, "_%s'=", what);
}

/* Prints a range of percents in MB/s. */
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
    putc(';', out);
}

static void put_rate(const struct health_port *p, const struct health_rules *r, FILE *out)
{
    double MBps = p->Bps / 1e6, unit = p->want_Bps / 1e8; /* MB/s per percent */
    /* Four digits; thresholds have as many decimals as the value. */
    int decimals = MBps >= 999.95 ? 0 : MBps >= 99.995 ? 1 : MBps >= 9.9995 ? 2 : 3;

    if (p->samples == 0) {
        fputs("U;;;0;", out);
        return;
    }
    decimals = health_rules_decimals(r, MBps, unit, decimals);
    fprintf(out, "%.*fMB;", decimals, MBps);
    put_range(&r->warn, unit, decimals, out);
    put_range(&r->crit, unit, decimals, out);
    fputs("0;", out);
}

static void put_perfdata(const struct health_report *t, FILE *out)
{
    const struct health_verdict *v = t->v;
    struct labels l = make_labels(t->d);
    int links = t->d->level == HEALTH_QUICK ? t->d->links.count : 0, put = 0;

    for (int k = 0; v->port && k < v->hosts; k++)
        for (int w = 0; w < 2; w++) {
            if (2 * v->hosts > MANY && v->port[k][w].state == HEALTH_OK)
                continue;
            put_label(&l, k, health_way[w], !put++, out);
            put_rate(&v->port[k][w], &t->o->rules, out);
        }
    for (int i = 0; i < links; i++) {
        int64_t errors = t->d->links.at[i].errors;
        if (links > MANY && errors <= 0)
            continue;
        put_label(&l, i, "err", !put++, out);
        if (errors < 0)
            fputs("U;;;0;", out);
        else
            fprintf(out, "%" PRId64 "c;;;0;", errors);
    }
    mem_free(l.at);
}

/* ---- further lines ---- */

static void put_count(const char *name, int64_t count, FILE *out)
{
    if (count < 0)
        fprintf(out, ", %s unknown", name);
    else
        fprintf(out, ", %s %" PRId64, name, count);
}

static void put_verbose(const struct health_report *t, FILE *out)
{
    const struct health_data *d = t->d;

    for (int i = 0; i < t->v->findings; i++) {
        const struct health_finding *f = &t->v->finding[i];
        const struct health_check *c = health_check_find(f->code);
        fprintf(out, "%s HC-%d ", health_state_name(f->state), f->code);
        print_put_text(f->text, out);
        fprintf(out, " (%s: %s)\n", c ? c->text : "no words", health_action_name(f->action));
        if (t->o->verbose > 1 && f->partners > 0)
            fprintf(out, "  %d of %d partners see it, %d samples, z %.1f\n", f->saw,
                    f->partners, f->samples, f->z);
    }
    for (int i = 0; t->o->verbose > 1 && i < d->links.count; i++) {
        const struct health_link *l = &d->links.at[i];
        fprintf(out, "  %.64s %s: %s, ", d->host[l->host].name, l->name,
                !l->up       ? "down"
                : l->carrier ? "up"
                             : "no carrier");
        if (l->Bps > 0)
            fprintf(out, "%.4g Gbit/s", l->Bps * 8 / 1e9);
        else
            fputs("speed unknown", out);
        put_count("errors", l->errors, out);
        put_count("packets", l->packets, out);
        putc('\n', out);
    }
    for (int k = 0; t->o->verbose > 2 && t->v->port && k < d->hosts; k++)
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

static void print_put_words(const char *word, const struct health_words *w, FILE *out)
{
    for (int i = 0; i < w->count; i++) {
        fputs(word, out);
        print_put_text(w->at[i].text, out);
        putc('\n', out);
    }
}

void health_print_line(const struct health_report *t, FILE *out)
{
    const struct health_config *c = &t->o->config;
    char line[700];

    fprintf(out, "HORING %s - ", health_state_name(t->v->state));
    if (t->v->findings)
        print_put_findings(t->v, out);
    else
        put_good(t, out);
    /* A disabled check is not OK. */
    for (int i = 0; i < c->disables; i++)
        fprintf(out, "%s%s", i ? "," : "; disabled: ", c->disable[i]);
    if (t->ignored)
        fprintf(out, "; %d known", t->ignored);
    if (t->memory && t->memory->fresh && t->memory->old[0])
        fprintf(out, "; begins afresh, the old state is '%s'", t->memory->old);
    else if (t->memory && t->memory->fresh && t->d->level == HEALTH_QUICK)
        fputs("; first run: errors count from now", out);
    put_perfdata(t, out);
    putc('\n', out);
    if (t->o->verbose)
        put_verbose(t, out);
    /* The line names only the worst: a reader of changes needs all of them. */
    if (t->o->notify)
        print_put_words("NEW ", &t->news.fresh, out);
    print_put_words("CLEARED ", &t->news.clear, out);
    for (int i = 0; t->o->suggest && i < t->v->findings; i++)
        if (health_suggest(t->d, &t->v->finding[i], line, sizeof line) == 0)
            fprintf(out, "%s\n", line);
}
