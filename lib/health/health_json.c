/* SPDX-License-Identifier: BSD-3-Clause */
/* The document paro.health/1.  Numbers that are not known are null. */
#include <math.h>
#include <string.h>

#include "base/jout.h"
#include "base/mem.h"
#include "health/health_parts.h"

/* NULL, which is null in JSON, for "". */
static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static void put_count(struct jout *j, const char *key, int64_t v)
{
    if (v < 0)
        jout_null(j, key);
    else
        jout_int(j, key, v);
}

static double above_0(double v)
{
    return v > 0 ? v : NAN;
}

static void put_findings(struct jout *j, const struct health_report *t)
{
    char text[700];

    jout_open(j, "findings", '[');
    for (int i = 0; i < t->v->findings; i++) {
        const struct health_finding *f = &t->v->finding[i];
        snprintf(text, sizeof text, "HC-%d", f->code);
        jout_open(j, NULL, '{');
        jout_text(j, "state", health_state_name(f->state));
        jout_text(j, "code", text);
        jout_text(j, "action", health_action_name(f->action));
        jout_text(j, "host", or_null(health_host_name(t->d, f->host)));
        jout_text(j, "other_host", or_null(health_host_name(t->d, f->other)));
        jout_text(j, "direction", f->way < 0 ? NULL : health_way[f->way]);
        put_count(j, "rank", f->rank);
        jout_text(j, "link", or_null(f->link));
        jout_text(j, "text", f->text);
        jout_open(j, "evidence", '{');
        jout_num(j, "measured", f->measured);
        jout_num(j, "expected", f->expected);
        jout_num(j, "peers", f->peers);
        jout_num(j, "percent", f->percent);
        jout_num(j, "z", f->z);
        put_count(j, "samples", f->samples);
        put_count(j, "partners", f->partners);
        put_count(j, "partners_that_see_it", f->saw);
        jout_bool(j, "confirmed", f->confirmed);
        jout_close(j, '}');
        if (t->o->suggest)
            jout_text(j, "suggest", health_suggest(t->d, f, text, sizeof text) ? NULL : text);
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

static void put_port(struct jout *j, const struct health_report *t, int k, int way)
{
    const struct health_port *p = &t->v->port[k][way];
    const struct health_rate *r =
        t->memory ? health_memory_rate(t->memory, t->d->host[k].name, way) : NULL;

    jout_open(j, NULL, '{');
    jout_text(j, "host", t->d->host[k].name);
    jout_text(j, "direction", health_way[way]);
    jout_int(j, "samples", p->samples);
    jout_num(j, "port_Bps", p->samples ? p->Bps : NAN);
    jout_num(j, "expected_Bps", p->samples ? p->want_Bps : NAN);
    jout_num(j, "percent", p->samples ? p->percent : NAN);
    jout_num(j, "z", p->samples ? p->z : NAN);
    jout_text(j, "state", health_state_name(p->state));
    jout_text(j, "ok_because", p->pardon);
    if (t->memory) {
        jout_open(j, "history_Bps", '[');
        for (int i = 0; r && i < r->count; i++)
            jout_num(j, NULL, r->Bps[i]);
        jout_close(j, ']');
    }
    jout_close(j, '}');
}

static void put_pairs(struct jout *j, const struct health_report *t)
{
    struct health_stream *stream;
    int count = health_streams_of(t->d, t->v, &stream);

    jout_open(j, "pairs", '[');
    for (int i = 0; i < count; i++) {
        const struct health_stream *q = &stream[i];
        jout_open(j, NULL, '{');
        jout_text(j, "from", t->d->host[q->src].name);
        jout_text(j, "to", t->d->host[q->dst].name);
        jout_int(j, "samples", q->samples);
        jout_num(j, "pair_Bps", q->Bps);
        jout_num(j, "percent", q->percent);
        jout_num(j, "latency_s", q->latency_s);
        jout_close(j, '}');
    }
    jout_close(j, ']');
    mem_free(stream);
}

static void put_links(struct jout *j, const struct health_data *d)
{
    jout_open(j, "links", '[');
    for (int i = 0; i < d->links.count; i++) {
        const struct health_link *l = &d->links.at[i];
        jout_open(j, NULL, '{');
        jout_text(j, "host", d->host[l->host].name);
        jout_text(j, "name", l->name);
        jout_bool(j, "up", l->up);
        jout_bool(j, "carrier", l->carrier);
        jout_bool(j, "lost", l->lost);
        jout_num(j, "speed_Bps", above_0(l->Bps));
        jout_num(j, "expected_Bps", above_0(l->want_Bps));
        put_count(j, "errors", l->errors);
        put_count(j, "packets", l->packets);
        put_count(j, "flaps", l->flaps);
        jout_num(j, "since_s", above_0(l->since_s));
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

static void put_hosts(struct jout *j, const struct health_data *d)
{
    jout_open(j, "hosts", '[');
    for (int k = 0; k < d->hosts; k++) {
        const struct health_host *h = &d->host[k];
        const char *lost = NULL;
        for (int i = 0; !lost && i < d->links.count; i++)
            if (d->links.at[i].host == k && d->links.at[i].lost)
                lost = d->links.at[i].name;
        jout_open(j, NULL, '{');
        jout_text(j, "host", h->name);
        jout_int(j, "ranks", h->ranks);
        jout_bool(j, "answers", !h->silent);
        jout_text(j, "why", or_null(h->why));
        put_count(j, "leaf", h->leaf);
        put_count(j, "pod", h->pod);
        jout_num(j, "queue_drain_Bps", h->drain_Bps < 0 ? NAN : h->drain_Bps);
        jout_text(j, "lost_link", lost);
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

static void put_gpus(struct jout *j, const struct health_data *d)
{
    jout_open(j, "gpus", '[');
    for (int r = 0; r < d->gpus.count; r++) {
        const struct health_gpu *g = &d->gpus.at[r];
        jout_open(j, NULL, '{');
        jout_int(j, "rank", r);
        jout_text(j, "host", d->host[health_host_of_rank(d, r)].name);
        jout_int(j, "gpu", g->index);
        jout_text(j, "name", g->name);
        jout_int(j, "wrong_words_out", g->wrong[HEALTH_OUT]);
        jout_int(j, "wrong_words_in", g->wrong[HEALTH_IN]);
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

static void put_parts(struct jout *j, const char *key, unsigned bits)
{
    jout_open(j, key, '[');
    for (int i = 0; i < HEALTH_PARTS; i++)
        if (bits & 1u << i)
            jout_text(j, NULL, health_parts[i]);
    jout_close(j, ']');
}

static void put_words(struct jout *j, const char *key, const struct health_words *w)
{
    jout_open(j, key, '[');
    for (int i = 0; i < w->count; i++)
        jout_text(j, NULL, w->at[i].text);
    jout_close(j, ']');
}

static void put_news(struct jout *j, const struct health_report *t)
{
    const struct health_config *c = &t->o->config;

    jout_open(j, "disabled", '[');
    for (int i = 0; i < c->disables; i++)
        jout_text(j, NULL, c->disable[i]);
    jout_close(j, ']');
    jout_int(j, "ignored", t->ignored);
    if (!t->memory)
        return;
    jout_bool(j, "changed", t->news.changed);
    jout_int(j, "runs", t->memory->runs);
    put_words(j, "new", &t->news.fresh);
    put_words(j, "cleared", &t->news.clear);
}

void health_print_json(const struct health_report *t, FILE *out)
{
    const struct health_data *d = t->d;
    const struct health_verdict *v = t->v;
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.health/1");
    jout_text(&j, "state", health_state_name(v->state));
    jout_int(&j, "status", v->state);
    jout_text(&j, "level", health_levels[d->level]);
    if (d->level == HEALTH_QUICK)
        jout_text(&j, "host", d->host[0].name);
    else {
        jout_text(&j, "compared_with", v->by_baseline ? "baseline" : "peers");
        jout_bool(&j, "percent_only", v->percent_only);
        jout_text(&j, "device", d->gpus.count ? "cuda" : "cpu");
    }
    jout_int(&j, "rounds", d->rounds);
    jout_int(&j, "rounds_wanted", d->wanted);
    jout_int(&j, "wrong_words", health_wrong_words(d));
    jout_int(&j, "when_s", d->when_s);
    jout_num(&j, "seconds", d->seconds);
    put_parts(&j, "asked", d->asked);
    put_parts(&j, "done", d->done);
    put_news(&j, t);
    put_findings(&j, t);
    jout_open(&j, "ports", '[');
    for (int k = 0; v->port && k < v->hosts; k++)
        for (int way = 0; way < 2; way++)
            put_port(&j, t, k, way);
    jout_close(&j, ']');
    put_pairs(&j, t);
    put_links(&j, d);
    put_hosts(&j, d);
    if (d->gpus.count)
        put_gpus(&j, d);
    jout_close(&j, '}');
}
