/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the three ways in which a verdict is told: the monitoring plugins' line, JSON, and the
 * text that node_exporter reads.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/io.h"
#include "base/jout.h"
#include "health/health_parts.h"

enum { LINE = 80 }; /* of which Nagios shows all, before the bar */

static const char *const way_name[] = {"out", "in"};

static void slowest(const struct health_verdict *v, int *host, int *way)
{
    double least = INFINITY;

    *host = -1;
    for (int k = 0; k < v->hosts; k++)
        for (int w = 0; w < 2; w++)
            if (v->port[k][w].samples && v->port[k][w].percent < least) {
                least = v->port[k][w].percent;
                *host = k;
                *way = w;
            }
}

static void put_good(const struct health_data *d, const struct health_verdict *v, FILE *out)
{
    int host, way = 0;

    slowest(v, &host, &way);
    fprintf(out, "%d hosts, %d rounds", v->hosts, d->rounds);
    if (host >= 0)
        fprintf(out, ", slowest %.60s %s %.0f %% of %s", d->host[host].name, way_name[way],
                v->port[host][way].percent, v->by_baseline ? "baseline" : "peers");
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
            used += fprintf(out, "%s%s", said ? "; " : "", f->text);
            said++;
        }
    if (said < v->findings)
        fprintf(out, "; %d more", v->findings - said);
}

/* A range of percents as one of MB/s. */
static void put_range(const struct health_range *r, double unit, FILE *out)
{
    fputs(r->inside ? "@" : "", out);
    if (isinf(r->start))
        fputs("~", out);
    else
        fprintf(out, "%.4g", r->start * unit);
    putc(':', out);
    if (!isinf(r->end))
        fprintf(out, "%.4g", r->end * unit);
}

/* A label may hold anything but "=" and a quote, which are doubled or left out. */
static void put_label(const char *host, const char *way, FILE *out)
{
    putc('\'', out);
    for (; *host; host++) {
        if (*host == '\'')
            putc('\'', out);
        if (*host != '=' && *host != '|' && (unsigned char)*host >= 0x20)
            putc(*host, out);
    }
    fprintf(out, "_%s'=", way);
}

static void put_perfdata(const struct health_data *d, const struct health_verdict *v,
                         const struct health_options *o, FILE *out)
{
    for (int k = 0; k < v->hosts; k++)
        for (int w = 0; w < 2; w++) {
            const struct health_port *p = &v->port[k][w];
            putc(k || w ? ' ' : '|', out);
            put_label(d->host[k].name, way_name[w], out);
            if (p->samples == 0) {
                fputs("U;;;0;", out);
                continue;
            }
            fprintf(out, "%.4gMB;", p->Bps / 1e6);
            put_range(&o->rules.warn, p->want_Bps / 1e8, out); /* MB/s of one percent */
            putc(';', out);
            put_range(&o->rules.crit, p->want_Bps / 1e8, out);
            fputs(";0;", out);
        }
}

void health_print_line(const struct health_data *d, const struct health_verdict *v,
                       const struct health_options *o, FILE *out)
{
    fprintf(out, "HORING %s - ", health_state_name(v->state));
    if (v->findings)
        put_findings(v, out);
    else
        put_good(d, v, out);
    if (v->port)
        put_perfdata(d, v, o, out);
    putc('\n', out);
}

/* ---- JSON ---- */

static void json_findings(struct jout *j, const struct health_data *d,
                          const struct health_verdict *v)
{
    jout_open(j, "findings", '[');
    for (int i = 0; i < v->findings; i++) {
        const struct health_finding *f = &v->finding[i];
        jout_open(j, NULL, '{');
        jout_text(j, "state", health_state_name(f->state));
        char code[16];
        snprintf(code, sizeof code, "HC-%d", f->code);
        jout_text(j, "code", code);
        jout_text(j, "action", health_action_name(f->action));
        jout_text(j, "host", f->host >= 0 ? d->host[f->host].name : NULL);
        jout_text(j, "other_host", f->other >= 0 ? d->host[f->other].name : NULL);
        jout_text(j, "text", f->text);
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

static void json_port(struct jout *j, const char *host, int way, const struct health_port *p)
{
    jout_open(j, NULL, '{');
    jout_text(j, "host", host);
    jout_text(j, "direction", way_name[way]);
    jout_int(j, "samples", p->samples);
    jout_num(j, "port_Bps", p->samples ? p->Bps : NAN);
    jout_num(j, "expected_Bps", p->samples ? p->want_Bps : NAN);
    jout_num(j, "percent", p->samples ? p->percent : NAN);
    jout_num(j, "z", p->samples ? p->z : NAN);
    jout_text(j, "state", health_state_name(p->state));
    jout_close(j, '}');
}

static int64_t wrong_words(const struct health_data *d)
{
    int64_t sum = 0;

    for (int i = 0; i < d->wrongs.count; i++)
        sum += d->wrongs.at[i].words;
    return sum;
}

static const char *lost_link(const struct health_data *d, int host)
{
    for (int i = 0; i < d->links.count; i++)
        if (d->links.at[i].host == host && d->links.at[i].lost)
            return d->links.at[i].name;
    return NULL;
}

void health_print_json(const struct health_data *d, const struct health_verdict *v, FILE *out)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.health/1");
    jout_text(&j, "state", health_state_name(v->state));
    jout_int(&j, "status", v->state);
    jout_text(&j, "level", health_level_name(d->level));
    jout_text(&j, "compared_with", v->by_baseline ? "baseline" : "peers");
    jout_int(&j, "rounds", d->rounds);
    jout_int(&j, "rounds_wanted", d->wanted);
    jout_int(&j, "wrong_words", wrong_words(d));
    jout_num(&j, "seconds", d->seconds);
    json_findings(&j, d, v);
    jout_open(&j, "ports", '[');
    for (int k = 0; v->port && k < v->hosts; k++)
        for (int w = 0; w < 2; w++)
            json_port(&j, d->host[k].name, w, &v->port[k][w]);
    jout_close(&j, ']');
    jout_open(&j, "hosts", '[');
    for (int k = 0; k < d->hosts; k++) {
        jout_open(&j, NULL, '{');
        jout_text(&j, "host", d->host[k].name);
        jout_bool(&j, "answers", !d->host[k].silent);
        jout_num(&j, "queue_drain_Bps", d->host[k].drain_Bps < 0 ? NAN : d->host[k].drain_Bps);
        jout_text(&j, "lost_link", lost_link(d, k));
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_close(&j, '}');
}

/* ---- node_exporter ---- */

static void prom_head(FILE *f, const char *name, const char *help)
{
    fprintf(f, "# HELP horing_%s %s\n# TYPE horing_%s gauge\n", name, help, name);
}

/* One value of a port; a port without samples has none. */
static void prom_ports(FILE *f, const struct health_data *d, const struct health_verdict *v,
                       const char *name, int ratio)
{
    for (int k = 0; v->port && k < v->hosts; k++)
        for (int w = 0; w < 2; w++) {
            const struct health_port *p = &v->port[k][w];
            if (p->samples == 0)
                continue;
            fprintf(f, "horing_%s{host=\"", name);
            for (const char *c = d->host[k].name; *c; c++)
                fprintf(f, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
            fprintf(f, "\",direction=\"%s\"} %.6g\n", way_name[w],
                    ratio ? p->percent / 100 : p->Bps);
        }
}

int health_write_prom(const struct health_data *d, const struct health_verdict *v,
                      const char *path, struct err *err)
{
    struct io_out out;

    if (io_create(&out, path, 1, err))
        return -1;
    FILE *f = out.file;
    prom_head(f, "state", "Verdict: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN");
    fprintf(f, "horing_state %d\n", v->state);
    prom_head(f, "port_bytes_per_second", "Payload rate of a host's port");
    prom_ports(f, d, v, "port_bytes_per_second", 0);
    prom_head(f, "port_expected_ratio", "Rate of a host's port over what is expected of it");
    prom_ports(f, d, v, "port_expected_ratio", 1);
    prom_head(f, "wrong_words", "Words that arrived and are not what was sent");
    fprintf(f, "horing_wrong_words %" PRId64 "\n", wrong_words(d));
    prom_head(f, "duration_seconds", "Time that the measurement took");
    fprintf(f, "horing_duration_seconds %.3f\n", d->seconds);
    prom_head(f, "last_run_timestamp_seconds", "When the check ended");
    fprintf(f, "horing_last_run_timestamp_seconds %lld\n", (long long)time(NULL));
    return io_commit(&out, err);
}
