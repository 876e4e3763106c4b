/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the text that node_exporter's textfile collector reads: base units, no timestamps
 * behind values; when it was written is a value of its own, and so is when a run last could say
 * what is well and what is not.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/utf8.h"
#include "health/health_folder.h"
#include "health/health_parts.h"

static void head(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP horing_%s %s\n# TYPE horing_%s %s\n", name, help, name, type);
}

/* The format takes any UTF-8, with three characters escaped; what is none would cost the file.
 */
static void put_value(FILE *f, const char *text)
{
    for (const char *c = text; *c;) {
        int n = utf8_next(c, NULL);
        if (*c == '\n')
            fputs("\\n", f);
        else if (n == 0)
            fputs("\xef\xbf\xbd", f); /* U+FFFD */
        else
            fprintf(f, *c == '"' || *c == '\\' ? "\\%.*s" : "%.*s", n, c);
        c += n ? n : 1;
    }
}

static void label(FILE *f, const char *before, const char *key, const char *value)
{
    fprintf(f, "%s%s=\"", before, key);
    put_value(f, value);
    putc('"', f);
}

/* One value of a port; a port without samples has none. */
static void put_ports(FILE *f, const struct health_told *t, const char *name, int ratio)
{
    const struct health_verdict *v = t->v;

    for (int k = 0; v->port && k < v->hosts; k++)
        for (int w = 0; w < 2; w++) {
            const struct health_port *p = &v->port[k][w];
            if (p->samples == 0)
                continue;
            fprintf(f, "horing_%s", name);
            label(f, "{", "host", health_host_name(t->d, k));
            fprintf(f, ",direction=\"%s\"} %.6g\n", health_way[w],
                    ratio ? p->percent / 100 : p->Bps);
        }
}

enum link_value { CARRIER, SPEED, ERRORS };

static void put_links(FILE *f, const struct health_data *d, const char *name, enum link_value v)
{
    for (int i = 0; i < d->links.count; i++) {
        const struct health_link *l = &d->links.at[i];
        if ((v == SPEED && l->Bps <= 0) || (v == ERRORS && l->errors < 0))
            continue;
        fprintf(f, "horing_%s", name);
        label(f, "{", "host", health_host_name(d, l->host));
        label(f, ",", "device", l->name);
        fprintf(f, "} %.10g\n",
                v == CARRIER ? l->carrier
                : v == SPEED ? l->Bps
                             : (double)l->errors);
    }
}

static void put_findings(FILE *f, const struct health_told *t)
{
    for (int i = 0; i < t->v->findings; i++) {
        const struct health_finding *g = &t->v->finding[i];
        int again = 0; /* a series stands once: findings that differ in words alone are one */
        for (int k = 0; k < i && !again; k++) {
            const struct health_finding *h = &t->v->finding[k];
            again = h->code == g->code && h->host == g->host && h->other == g->other &&
                    h->way == g->way && h->state == g->state && !strcmp(h->link, g->link);
        }
        if (again)
            continue;
        fprintf(f, "horing_finding{code=\"HC-%d\",state=\"%s\"", g->code,
                health_state_name(g->state));
        label(f, ",", "host", health_host_name(t->d, g->host));
        label(f, ",", "other_host", health_host_name(t->d, g->other));
        label(f, ",", "device", g->link);
        fprintf(f, ",direction=\"%s\"} 1\n", g->way < 0 ? "" : health_way[g->way]);
    }
}

static void put_all(FILE *f, const struct health_told *t)
{
    const struct health_data *d = t->d;
    int64_t wrong = 0;

    for (int i = 0; i < d->wrongs.count; i++)
        wrong += d->wrongs.at[i].words;
    head(f, "finding", "gauge", "Findings, by code (horing-check(1))");
    put_findings(f, t);
    head(f, "port_bytes_per_second", "gauge", "Payload rate of a host's port");
    put_ports(f, t, "port_bytes_per_second", 0);
    head(f, "port_expected_ratio", "gauge", "Rate of a host's port over its expected rate");
    put_ports(f, t, "port_expected_ratio", 1);
    head(f, "link_carrier", "gauge", "Whether the link has a carrier");
    put_links(f, d, "link_carrier", CARRIER);
    head(f, "link_speed_bytes_per_second", "gauge", "Negotiated rate of the link");
    put_links(f, d, "link_speed_bytes_per_second", SPEED);
    head(f, "link_new_errors", "gauge", "Errors of the link since the previous run");
    put_links(f, d, "link_new_errors", ERRORS);
    head(f, "wrong_words", "gauge", "Received words that differ from the sent ones");
    fprintf(f, "horing_wrong_words %" PRId64 "\n", wrong);
    head(f, "duration_seconds", "gauge", "Time that the measurement took");
    fprintf(f, "horing_duration_seconds %.3f\n", d->seconds);
}

static void put_state(FILE *f, enum health_state state, int64_t run_s, int64_t success_s)
{
    head(f, "state", "gauge", "Verdict: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN");
    fprintf(f, "horing_state %d\n", state);
    head(f, "last_run_timestamp_seconds", "gauge", "When the check ran");
    fprintf(f, "horing_last_run_timestamp_seconds %" PRId64 "\n", run_s);
    head(f, "last_success_timestamp_seconds", "gauge",
         "When a check last reached a verdict; 0: never");
    fprintf(f, "horing_last_success_timestamp_seconds %" PRId64 "\n", success_s);
}

/*
 * What the file that is to be replaced says of it: it may be all that remembers.  Its folder
 * may be another user's (node_exporter's): of what lies there the beginning is read, where
 * put_state writes, and it does not wait.
 */
static int64_t success_before(const char *path, int64_t now_s)
{
    static const char key[] = "\nhoring_last_success_timestamp_seconds ";
    enum { HEAD = 4096 };
    char text[HEAD] = "", *at;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, text, HEAD - 1, 0); /* of a pipe it fails */
    close(fd);
    at = n > 0 ? strstr(text, key) : NULL;
    int64_t success_s = at ? strtoll(at + sizeof key - 1, NULL, 10) : 0;
    return success_s < 0 || success_s > now_s ? 0 : success_s;
}

int health_write_prom(const struct health_told *t, const char *path, struct err *err)
{
    struct io_out out;
    int64_t success_s = t->measured ? t->d->when_s : success_before(path, t->d->when_s);

    if (!t->measured && t->memory && t->memory->measured_s > success_s)
        success_s = t->memory->measured_s;
    if (health_file_create(&out, path, 1, err))
        return -1;
    put_state(out.file, t->v->state, t->d->when_s, success_s);
    put_all(out.file, t);
    return health_file_commit(&out, err);
}

int health_write_prom_unknown(const char *path, int64_t now_s, struct err *err)
{
    struct io_out out;
    int64_t success_s = success_before(path, now_s);

    if (health_file_create(&out, path, 1, err))
        return -1;
    put_state(out.file, HEALTH_UNKNOWN, now_s, success_s);
    return health_file_commit(&out, err);
}
