/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the text that node_exporter's textfile collector reads: base units, no timestamps
 * after values.  The time of writing is a value of its own, and so is the time of the last
 * verdict.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "value/value_prom.h"
#include "health/health_parts.h"

static void prom_put_head(FILE *f, const char *name, const char *help)
{
    prom_head(f, "horing_", name, "gauge", help);
}

static void prom_put_value(FILE *f, const char *name, const char *help, int decimals, double v)
{
    prom_put_head(f, name, help);
    fprintf(f, "horing_%s %.*f\n", name, decimals, v);
}

/* Prints one value of each port; a port without samples has none. */
static void put_ports(FILE *f, const struct health_report *t, const char *name,
                      const char *help, int ratio)
{
    prom_put_head(f, name, help);
    for (int k = 0; t->v->port && k < t->v->hosts; k++)
        for (int w = 0; w < 2; w++) {
            const struct health_port *p = &t->v->port[k][w];
            if (p->samples == 0)
                continue;
            fprintf(f, "horing_%s", name);
            prom_label(f, "{", "host", health_host_name(t->d, k));
            fprintf(f, ",direction=\"%s\"} %.6g\n", health_way[w],
                    ratio ? p->percent / 100 : p->Bps);
        }
}

enum link_value { CARRIER, SPEED, ERRORS };

static void put_links(FILE *f, const struct health_data *d, const char *name, const char *help,
                      enum link_value what)
{
    prom_put_head(f, name, help);
    for (int i = 0; i < d->links.count; i++) {
        const struct health_link *l = &d->links.at[i];
        const double value[] = {l->carrier, l->Bps > 0 ? l->Bps : -1, (double)l->errors};
        if (value[what] < 0)
            continue;
        fprintf(f, "horing_%s", name);
        prom_label(f, "{", "host", health_host_name(d, l->host));
        prom_label(f, ",", "device", l->name);
        fprintf(f, "} %.10g\n", value[what]);
    }
}

static void prom_put_findings(FILE *f, const struct health_report *t)
{
    prom_put_head(f, "finding", "Findings, by code (horing-check(1))");
    for (int i = 0; i < t->v->findings; i++) {
        const struct health_finding *g = &t->v->finding[i];
        int again = 0; /* each series once: merge findings that differ only in words */
        for (int k = 0; k < i && !again; k++) {
            const struct health_finding *h = &t->v->finding[k];
            again = h->code == g->code && h->host == g->host && h->other == g->other &&
                    h->way == g->way && h->state == g->state && !strcmp(h->link, g->link);
        }
        if (again)
            continue;
        fprintf(f, "horing_finding{code=\"HC-%d\",state=\"%s\"", g->code,
                health_state_name(g->state));
        prom_label(f, ",", "host", health_host_name(t->d, g->host));
        prom_label(f, ",", "other_host", health_host_name(t->d, g->other));
        prom_label(f, ",", "device", g->link);
        fprintf(f, ",direction=\"%s\"} 1\n", g->way < 0 ? "" : health_way[g->way]);
    }
}

/*
 * Reads the last success from the file that is to be replaced, which may be its only record.
 * Its folder may be another user's (node_exporter's), so a pipe or a large file may be in its
 * place: opens without blocking and reads only the beginning.
 */
static int64_t success_before(const char *path, int64_t now_s)
{
    static const char key[] = "\nhoring_last_success_timestamp_seconds ";
    enum { HEAD = 4096 };
    char text[HEAD] = "", *at;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, text, HEAD - 1, 0); /* fails on a pipe */
    close(fd);
    at = n > 0 ? strstr(text, key) : NULL;
    int64_t success_s = at ? strtoll(at + sizeof key - 1, NULL, 10) : 0;
    return success_s < 0 || success_s > now_s ? 0 : success_s;
}

int health_write_prom(const struct health_report *t, const char *path, int64_t now_s,
                      struct err *err)
{
    struct io_out out;
    int64_t success_s = t && t->measured ? now_s : success_before(path, now_s);

    if (t && !t->measured && t->memory && t->memory->measured_s > success_s)
        success_s = t->memory->measured_s;
    if (io_create(&out, path, IO_FORCE | IO_CLOSED, err))
        return -1;
    prom_put_value(out.file, "state", "Verdict: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN", 0,
                   t ? t->v->state : HEALTH_UNKNOWN);
    prom_put_value(out.file, "last_run_timestamp_seconds", "When the check ran", 0,
                   (double)now_s);
    prom_put_value(out.file, "last_success_timestamp_seconds",
                   "When a check last reached a verdict; 0: never", 0, (double)success_s);
    if (!t)
        return io_commit(&out, err);
    prom_put_findings(out.file, t);
    put_ports(out.file, t, "port_bytes_per_second", "Payload rate of a host's port", 0);
    put_ports(out.file, t, "port_expected_ratio",
              "Rate of a host's port over its expected rate", 1);
    put_links(out.file, t->d, "link_carrier", "Whether the link has a carrier", CARRIER);
    put_links(out.file, t->d, "link_speed_bytes_per_second", "Negotiated rate of the link",
              SPEED);
    put_links(out.file, t->d, "link_new_errors", "Errors of the link since the previous run",
              ERRORS);
    prom_put_value(out.file, "wrong_words", "Received words that differ from the sent ones", 0,
                   (double)health_wrong_words(t->d));
    prom_put_value(out.file, "duration_seconds", "Time that the measurement took", 3,
                   t->d->seconds);
    return io_commit(&out, err);
}
