/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what one host's kernel writes of its links under /sys/class/net.  Reads a few small
 * files for each interface, starts nothing, and needs no other host.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/jout.h"
#include "base/mem.h"
#include "health/health.h"
#include "health/health_look.h"

enum { IFF_UP_BIT = 1, IFF_LOOPBACK_BIT = 8, NAME = 64 };

struct link {
    char name[NAME];
    int up, carrier;         /* asked to be up; has a carrier */
    int64_t carrier_ups;     /* since the kernel started, or -1 */
    int64_t speed_mbit;      /* or -1 */
    int64_t errors, packets; /* both ways */
};

struct links {
    struct link *link;
    int count;
    size_t room;
};

/* The first line of sys/name/file; -1 when there is none. */
static int read_line(const char *sys, const char *name, const char *file, char *text, int room)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s/%s", sys, name, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, text, (size_t)room - 1);
    close(fd);
    if (got < 0)
        return -1;
    text[got] = 0;
    text[strcspn(text, "\n")] = 0;
    return 0;
}

static int64_t read_number(const char *sys, const char *name, const char *file, int base)
{
    char text[40], *end;

    if (read_line(sys, name, file, text, sizeof text))
        return -1;
    long long v = strtoll(text, &end, base);
    return end == text || *end ? -1 : v;
}

static int64_t read_sum(const char *sys, const char *name, const char *rx, const char *tx)
{
    int64_t a = read_number(sys, name, rx, 10), b = read_number(sys, name, tx, 10);

    return (a > 0 ? a : 0) + (b > 0 ? b : 0);
}

static void read_link(struct links *all, const char *sys, const char *name)
{
    struct link l = {.carrier = read_number(sys, name, "carrier", 10) == 1};
    int64_t flags = read_number(sys, name, "flags", 16);

    if (flags < 0 || (flags & IFF_LOOPBACK_BIT))
        return;
    snprintf(l.name, sizeof l.name, "%.63s", name); /* the kernel allows 15 */
    l.up = (flags & IFF_UP_BIT) != 0;
    l.carrier_ups = read_number(sys, name, "carrier_up_count", 10);
    l.speed_mbit = read_number(sys, name, "speed", 10);
    l.errors = read_sum(sys, name, "statistics/rx_errors", "statistics/tx_errors");
    l.packets = read_sum(sys, name, "statistics/rx_packets", "statistics/tx_packets");
    all->link = mem_grow(all->link, &all->room, (size_t)all->count + 1, sizeof *all->link);
    all->link[all->count++] = l;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct link *)a)->name, ((const struct link *)b)->name);
}

static int read_links(struct links *all, const char *sys, struct err *err)
{
    DIR *dir = opendir(sys);

    if (!dir)
        return err_sys(err, "cannot read '%s'", sys);
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.')
            read_link(all, sys, e->d_name);
    closedir(dir);
    if (all->count)
        qsort(all->link, (size_t)all->count, sizeof *all->link, by_name);
    return 0;
}

static void judge(const struct links *all, const char *host, struct health_verdict *v)
{
    struct health_data d;

    health_data_init(&d, 1, &host);
    for (int i = 0; i < all->count; i++) {
        const struct link *from = &all->link[i];
        struct health_link l = {.up = from->up,
                                .carrier = from->carrier,
                                /* one that never had a carrier may have no cable */
                                .lost = !from->carrier && from->carrier_ups > 0,
                                .errors = from->errors,
                                .packets = from->packets,
                                .flaps = -1};
        snprintf(l.name, sizeof l.name, "%.15s", from->name);
        health_data_add_link(&d, &l);
    }
    health_judge_facts(&d, v);
    health_data_release(&d);
}

static void put_line(const struct links *all, const struct health_verdict *v, const char *host,
                     FILE *out)
{
    int carriers = 0;

    for (int i = 0; i < all->count; i++)
        carriers += all->link[i].carrier;
    fprintf(out, "HORING %s - ", health_state_name(v->state));
    for (int i = 0; i < v->findings; i++)
        fprintf(out, "%s%s", i ? "; " : "", v->finding[i].text);
    if (v->findings == 0)
        fprintf(out, "%.64s: %d of %d links have a carrier, no faults", host, carriers,
                all->count);
    for (int i = 0; i < all->count; i++)
        fprintf(out, "%c'%s_errors'=%" PRId64 "c;;;0;", i ? ' ' : '|', all->link[i].name,
                all->link[i].errors);
    putc('\n', out);
}

static void put_json(const struct links *all, const struct health_verdict *v, const char *host,
                     FILE *out)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.health/1");
    jout_text(&j, "state", health_state_name(v->state));
    jout_int(&j, "status", v->state);
    jout_text(&j, "level", "quick");
    jout_text(&j, "host", host);
    jout_open(&j, "findings", '[');
    for (int i = 0; i < v->findings; i++) {
        jout_open(&j, NULL, '{');
        jout_text(&j, "state", health_state_name(v->finding[i].state));
        char code[16];
        snprintf(code, sizeof code, "HC-%d", v->finding[i].code);
        jout_text(&j, "code", code);
        jout_text(&j, "action", health_action_name(v->finding[i].action));
        jout_text(&j, "host", host);
        jout_text(&j, "text", v->finding[i].text);
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_open(&j, "links", '[');
    for (int i = 0; i < all->count; i++) {
        const struct link *l = &all->link[i];
        jout_open(&j, NULL, '{');
        jout_text(&j, "name", l->name);
        jout_bool(&j, "up", l->up);
        jout_bool(&j, "carrier", l->carrier);
        if (l->speed_mbit > 0)
            jout_num(&j, "speed_Bps", (double)l->speed_mbit * 1e6 / 8);
        else
            jout_null(&j, "speed_Bps");
        jout_int(&j, "errors", l->errors);
        jout_int(&j, "packets", l->packets);
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_close(&j, '}');
}

static int write_prom(const struct links *all, const struct health_verdict *v, const char *path,
                      struct err *err)
{
    struct io_out out;

    if (io_create(&out, path, 1, err))
        return -1;
    fprintf(out.file,
            "# HELP horing_state Verdict: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN\n"
            "# TYPE horing_state gauge\nhoring_state %d\n",
            v->state);
    fputs("# HELP horing_link_carrier Whether the link has a carrier\n"
          "# TYPE horing_link_carrier gauge\n",
          out.file);
    for (int i = 0; i < all->count; i++)
        fprintf(out.file, "horing_link_carrier{device=\"%s\"} %d\n", all->link[i].name,
                all->link[i].carrier);
    fputs("# HELP horing_link_errors_total Errors of the link, both ways\n"
          "# TYPE horing_link_errors_total counter\n",
          out.file);
    for (int i = 0; i < all->count; i++)
        fprintf(out.file, "horing_link_errors_total{device=\"%s\"} %" PRId64 "\n",
                all->link[i].name, all->link[i].errors);
    return io_commit(&out, err);
}

int health_quick(const struct health_options *o, const char *sys, FILE *out,
                 enum health_state *state, struct err *err)
{
    struct links all = {0};
    struct health_verdict v = {.hosts = 1};
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    if (read_links(&all, sys, err))
        return -1;
    judge(&all, host, &v);
    int rc = o->prom ? write_prom(&all, &v, o->prom, err) : 0;
    if (rc == 0 && o->json)
        put_json(&all, &v, host, out);
    else if (rc == 0)
        put_line(&all, &v, host, out);
    if (rc == 0)
        *state = v.state;
    health_verdict_release(&v);
    mem_free(all.link);
    return rc;
}
