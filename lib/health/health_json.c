/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the document paro.health/1.  Unknown numbers are null. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "health/health_parts.h"

/* Returns NULL, printed as null, for "". */
static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static double json_above_0(double v)
{
    return v > 0 ? v : NAN;
}

typedef void put_item(struct jout *j, const struct health_report *t, int i);

static void put_list(struct jout *j, const char *key, const struct health_report *t, int count,
                     put_item *put)
{
    jout_open(j, key, '[');
    for (int i = 0; i < count; i++) {
        jout_open(j, NULL, '{');
        put(j, t, i);
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

static void json_put_finding(struct jout *j, const struct health_report *t, int i)
{
    const struct health_finding *f = &t->v->finding[i];
    char text[700];

    snprintf(text, sizeof text, "HC-%d", f->code);
    jout_text(j, "state", health_state_name(f->state));
    jout_text(j, "code", text);
    jout_text(j, "action", health_action_name(f->action));
    jout_text(j, "host", or_null(health_host_name(t->d, f->host)));
    jout_text(j, "other_host", or_null(health_host_name(t->d, f->other)));
    jout_text(j, "direction", f->way < 0 ? NULL : health_way[f->way]);
    jout_known(j, "rank", f->rank);
    jout_text(j, "link", or_null(f->link));
    jout_text(j, "text", f->text);
    jout_open(j, "evidence", '{');
    jout_num(j, "measured", f->measured);
    jout_num(j, "expected", f->expected);
    jout_num(j, "peers", f->peers);
    jout_num(j, "percent", f->percent);
    jout_num(j, "z", f->z);
    jout_known(j, "samples", f->samples);
    jout_known(j, "partners", f->partners);
    jout_known(j, "partners_that_see_it", f->saw);
    jout_bool(j, "confirmed", f->confirmed);
    jout_close(j, '}');
    if (t->o->suggest)
        jout_text(j, "suggest", health_suggest(t->d, f, text, sizeof text) ? NULL : text);
}

static void put_port(struct jout *j, const struct health_report *t, int i)
{
    int k = i / 2, way = i % 2;
    const struct health_port *p = &t->v->port[k][way];
    const struct health_rate *r =
        t->memory ? health_memory_rate(t->memory, t->d->host[k].name, way) : NULL;

    jout_text(j, "host", t->d->host[k].name);
    jout_text(j, "direction", health_way[way]);
    jout_int(j, "samples", p->samples);
    jout_num(j, "port_Bps", p->samples ? p->Bps : NAN);
    jout_num(j, "expected_Bps", p->samples ? p->want_Bps : NAN);
    jout_num(j, "percent", p->samples ? p->percent : NAN);
    jout_num(j, "z", p->samples ? p->z : NAN);
    jout_text(j, "state", health_state_name(p->state));
    jout_text(j, "ok_because", p->pardon);
    if (!t->memory)
        return;
    jout_open(j, "history_Bps", '[');
    for (int n = 0; r && n < r->count; n++)
        jout_num(j, NULL, r->Bps[n]);
    jout_close(j, ']');
}

/* ---- one number per pair ---- */

struct value {
    int src, dst, late; /* late: 1: a latency, not a rate */
    double v;
};

static int by_ends(const void *a, const void *b)
{
    const struct value *p = a, *q = b;
    int c = MEM_ORDER(p, q, src);

    c = c ? c : MEM_ORDER(p, q, dst);
    c = c ? c : MEM_ORDER(p, q, late);
    return c ? c : MEM_ORDER(p, q, v);
}

static int same_pair(const struct value *a, const struct value *b)
{
    return a->src == b->src && a->dst == b->dst;
}

int health_streams_of(const struct health_data *d, const struct health_verdict *v,
                      struct health_stream **out)
{
    int n = 0, count = 0, samples = d->samples.count, latencies = d->latencies.count;
    struct value *x = mem_new((size_t)(samples + 2 * latencies) + 1, sizeof *x);

    *out = mem_new((size_t)samples + 1, sizeof **out);
    for (int i = 0; i < samples; i++) {
        const struct health_sample *s = &d->samples.at[i];
        x[n++] = (struct value){s->src, s->dst, 0, s->Bps};
    }
    for (int i = 0; i < latencies; i++) { /* one per pair: enter both ways */
        const struct health_latency *l = &d->latencies.at[i];
        x[n++] = (struct value){l->src, l->dst, 1, l->s};
        x[n++] = (struct value){l->dst, l->src, 1, l->s};
    }
    qsort(x, (size_t)n, sizeof *x, by_ends);
    for (int at = 0, late, end; at < n; at = end) {
        const struct value *first = &x[at];
        for (late = at; late < n && same_pair(&x[late], first) && !x[late].late; late++)
            ;
        for (end = late; end < n && same_pair(&x[end], first); end++)
            ;
        if (late == at)
            continue;
        double Bps = (x[(at + late - 1) / 2].v + x[(at + late) / 2].v) / 2;
        double out_Bps = v->port ? v->port[first->src][HEALTH_OUT].want_Bps : 0;
        double in_Bps = v->port ? v->port[first->dst][HEALTH_IN].want_Bps : 0;
        double want_Bps = out_Bps > 0 && in_Bps > 0 ? fmin(out_Bps, in_Bps) : NAN;
        (*out)[count++] =
            (struct health_stream){.src = first->src,
                                   .dst = first->dst,
                                   .samples = late - at,
                                   .Bps = Bps,
                                   .percent = 100 * Bps / want_Bps,
                                   .latency_s = end > late ? x[(late + end) / 2].v : NAN};
    }
    mem_free(x);
    return count;
}

static void json_put_pairs(struct jout *j, const struct health_report *t)
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

static void put_link(struct jout *j, const struct health_report *t, int i)
{
    const struct health_link *l = &t->d->links.at[i];

    jout_text(j, "host", t->d->host[l->host].name);
    jout_text(j, "name", l->name);
    jout_bool(j, "up", l->up);
    jout_bool(j, "carrier", l->carrier);
    jout_bool(j, "lost", l->lost);
    jout_num(j, "speed_Bps", json_above_0(l->Bps));
    jout_num(j, "expected_Bps", json_above_0(l->want_Bps));
    jout_known(j, "errors", l->errors);
    jout_known(j, "packets", l->packets);
    jout_known(j, "flaps", l->flaps);
    jout_num(j, "since_s", json_above_0(l->since_s));
}

static void put_host(struct jout *j, const struct health_report *t, int k)
{
    const struct health_host *h = &t->d->host[k];
    const char *lost = NULL;

    for (int i = 0; !lost && i < t->d->links.count; i++)
        if (t->d->links.at[i].host == k && t->d->links.at[i].lost)
            lost = t->d->links.at[i].name;
    jout_text(j, "host", h->name);
    jout_int(j, "ranks", h->ranks);
    jout_bool(j, "answers", !h->silent);
    jout_text(j, "why", or_null(h->why));
    jout_known(j, "leaf", h->leaf);
    jout_known(j, "pod", h->pod);
    jout_num(j, "queue_drain_Bps", h->drain_Bps < 0 ? NAN : h->drain_Bps);
    jout_text(j, "lost_link", lost);
}

static void put_gpu(struct jout *j, const struct health_report *t, int r)
{
    const struct health_gpu *g = &t->d->gpus.at[r];

    jout_int(j, "rank", r);
    jout_text(j, "host", t->d->host[health_host_of_rank(t->d, r)].name);
    jout_int(j, "gpu", g->index);
    jout_text(j, "name", g->name);
    jout_int(j, "wrong_words_out", g->wrong[HEALTH_OUT]);
    jout_int(j, "wrong_words_in", g->wrong[HEALTH_IN]);
}

static void json_put_parts(struct jout *j, const char *key, unsigned bits)
{
    jout_open(j, key, '[');
    for (int i = 0; i < HEALTH_PARTS; i++)
        if (bits & 1u << i)
            jout_text(j, NULL, health_parts[i]);
    jout_close(j, ']');
}

/* Prints texts that are `stride` bytes apart. */
static void put_texts(struct jout *j, const char *key, const void *at, int count, size_t stride)
{
    jout_open(j, key, '[');
    for (int i = 0; i < count; i++)
        jout_text(j, NULL, (const char *)at + (size_t)i * stride);
    jout_close(j, ']');
}

void health_print_json(const struct health_report *t, FILE *out)
{
    const struct health_data *d = t->d;
    const struct health_verdict *v = t->v;
    const struct health_config *c = &t->o->config;
    const struct health_news *n = &t->news;
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
    json_put_parts(&j, "asked", d->requested);
    json_put_parts(&j, "done", d->done);
    put_texts(&j, "disabled", c->disable, c->disables, sizeof *c->disable);
    jout_int(&j, "ignored", t->ignored);
    if (t->memory) {
        jout_bool(&j, "changed", n->changed);
        jout_int(&j, "runs", t->memory->runs);
        put_texts(&j, "new", n->fresh.at, n->fresh.count, sizeof *n->fresh.at);
        put_texts(&j, "cleared", n->clear.at, n->clear.count, sizeof *n->clear.at);
    }
    put_list(&j, "findings", t, v->findings, json_put_finding);
    put_list(&j, "ports", t, v->port ? 2 * v->hosts : 0, put_port);
    json_put_pairs(&j, t);
    put_list(&j, "links", t, d->links.count, put_link);
    put_list(&j, "hosts", t, d->hosts, put_host);
    if (d->gpus.count)
        put_list(&j, "gpus", t, d->gpus.count, put_gpu);
    jout_close(&j, '}');
}
