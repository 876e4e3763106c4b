/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts a schedule and its times to messages, and these to a timeline's bars or to JSON. */
#include "sim/sim_draw.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "draw/draw_timeline.h"
#include "base/units.h"

enum { INSIDE = 1, ACROSS = 2, PARTS_SHOWN = 5 };
static const double LIGHT = 0.42; /* tint of messages inside a group */
static const double SENT = 0.66;  /* height of sends, in a lane */

struct message {
    int at, src, dst, lane, step; /* at: position of src, group after group */
    int part; /* the group whose part of the vector it carries; number of groups: several */
    int across, chunks;
    int64_t bytes;
    double start_s, end_s;
};

struct scene {
    const struct sim_picture *p;
    struct message *message; /* [messages], owned */
    int64_t messages;
    char *kind; /* [lanes of the schedule], owned: INSIDE, ACROSS or both */
};

static int by_message(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    int c = x->at - y->at;

    c = c ? c : x->lane - y->lane;
    c = c ? c : x->step - y->step;
    return c ? c : x->dst - y->dst;
}

static int draw_by_time(const void *a, const void *b)
{
    const struct message *x = a, *y = b;

    if (x->at != y->at || x->lane != y->lane)
        return by_message(a, b);
    int c = (x->start_s > y->start_s) - (x->start_s < y->start_s);
    c = c ? c : (x->end_s > y->end_s) - (x->end_s < y->end_s);
    return c ? c : by_message(a, b);
}

/* Returns a rank's row in the picture: group after group. */
static int draw_place_of(const struct groups *g, int rank)
{
    return g->first[g->group_of[rank]] + g->local_of[rank];
}

static struct message message_of_row(const struct sim_picture *p, int64_t i)
{
    const struct schedule *s = p->schedule;
    const struct schedule_row *row = &s->row[i];
    const struct groups *g = &s->groups;
    int chunk = row->chunk % s->chunks; /* a scratch plane counts as its chunk */

    return (struct message){.at = draw_place_of(g, row->src),
                            .src = row->src,
                            .dst = row->dst,
                            .lane = row->lane,
                            .step = row->step,
                            .part = chunk / s->subchunks % g->count,
                            .across = g->group_of[row->src] != g->group_of[row->dst],
                            .chunks = 1,
                            .bytes = p->chunk_bytes[chunk],
                            .start_s = p->times->start_s[i],
                            .end_s = p->times->end_s[i]};
}

/* Finds messages: rows of one lane, step, src and dst are one; rows of empty chunks are
   none. */
static int find_messages(struct scene *c, const struct sim_picture *p, struct err *err)
{
    const struct schedule *s = p->schedule;
    int64_t rows = 0, n = 0;

    assert(p->times->start_s && p->times->end_s);
    *c = (struct scene){.p = p};
    if (s->rows > SIM_DRAW_ROWS_MAX)
        return err_set(err, ERR_INPUT, "a picture of %" PRId64 " rows, expected %d at most",
                       s->rows, SIM_DRAW_ROWS_MAX);
    c->message = mem_new((size_t)s->rows + 1, sizeof *c->message);
    c->kind = mem_new((size_t)s->lanes + 1, sizeof *c->kind);
    for (int64_t i = 0; i < s->rows; i++) {
        struct message m = message_of_row(p, i);
        if (m.bytes == 0)
            continue;
        c->kind[m.lane] |= m.across ? ACROSS : INSIDE;
        c->message[rows++] = m;
    }
    qsort(c->message, (size_t)rows, sizeof *c->message, by_message);
    for (int64_t i = 0; i < rows; i++) {
        const struct message *b = &c->message[i];
        if (!n || by_message(&c->message[n - 1], b)) {
            c->message[n++] = *b;
            continue;
        }
        struct message *m = &c->message[n - 1];
        m->part = m->part == b->part ? m->part : s->groups.count;
        m->chunks++;
        m->bytes += b->bytes;
        m->start_s = fmin(m->start_s, b->start_s);
        m->end_s = fmax(m->end_s, b->end_s);
    }
    c->messages = n;
    qsort(c->message, (size_t)n, sizeof *c->message, draw_by_time);
    return 0;
}

static void scene_release(struct scene *c)
{
    mem_free(c->message);
    mem_free(c->kind);
}

/* Adds each message at both its ends; a message within a rank has no receiver. */
static void draw_add_bars(const struct scene *c, struct svg_timeline *t)
{
    for (int64_t i = 0; i < c->messages; i++) {
        const struct message *m = &c->message[i];
        for (int received = 0; received <= (m->src != m->dst); received++)
            svg_timeline_bar(
                t, (struct svg_bar){
                       .row = received ? draw_place_of(&c->p->schedule->groups, m->dst) : m->at,
                       .lane = 2 * m->lane + received,
                       .look = 2 * m->part + m->across,
                       .start_s = m->start_s,
                       .end_s = m->end_s,
                       .item = i,
                       .count = 1,
                       .bytes = m->bytes});
    }
}

static void sim_draw_tip_of(const void *of, const struct svg_bar *b, char *text, size_t space)
{
    const struct scene *c = of;
    const struct message *m = &c->message[b->item];
    int received = b->lane % 2, rank = received ? m->dst : m->src;
    struct units bytes, from, to;
    char part[48] = "several shards";

    if (m->part < c->p->schedule->groups.count)
        snprintf(part, sizeof part, "shard of group %d", m->part);
    units_bytes(&bytes, (double)b->bytes);
    units_time(&from, b->start_s);
    units_time(&to, b->end_s);
    if (b->count > 1)
        snprintf(text, space, "rank %d %s %d messages, lane %d: %s, %s to %s", rank,
                 received ? "receives" : "sends", b->count, m->lane, bytes.text, from.text,
                 to.text);
    else
        snprintf(text, space, "rank %d %s %d, lane %d, step %d: %s (%d chunk%s), %s, %s to %s",
                 rank, received ? "from" : "to", received ? m->src : m->dst, m->lane, m->step,
                 bytes.text, m->chunks, m->chunks == 1 ? "" : "s", part, from.text, to.text);
}

/*
 * Assigns colours to parts, light and dark: distinct while there are few parts; otherwise in
 * order, with only some of them named.  Returns the number of looks.
 */
static int find_looks(const struct scene *c, struct svg_look *look, char (*name)[32])
{
    int parts = c->p->schedule->groups.count, n = 2 * (parts + 1);
    int shown = parts > SVG_COLOURS ? PARTS_SHOWN : parts;

    for (int part = 0; part <= parts; part++) {
        struct svg_rgb colour = part == parts         ? svg_tint("#777777", 1)
                                : parts > SVG_COLOURS ? svg_ramp((double)part / (parts - 1))
                                                      : svg_tint(svg_colour(part), 1);
        for (int across = 0; across < 2; across++)
            look[2 * part + across] = (struct svg_look){
                .fill = svg_tint(colour.text, across ? 1 : LIGHT), .kind = across};
    }
    for (int k = 0; k < shown; k++) {
        int part = shown == parts ? k : k * (parts - 1) / (shown - 1);
        snprintf(name[k], sizeof name[k], "%s%d", k ? "" : "shard of group ", part);
        look[2 * part + 1].name = name[k];
    }
    for (int64_t i = 0; i < c->messages; i++)
        if (c->message[i].part == parts)
            look[n - 1].name = "several shards";
    look[n].name = "full colour: inter-group, light: intra-group; thick: sent, thin: received";
    return n + 1;
}

static int64_t whole_bytes(const struct sim_picture *p)
{
    int64_t bytes = 0;

    for (int c = 0; c < p->schedule->chunks; c++)
        bytes += p->chunk_bytes[c];
    return bytes;
}

static void draw_put_words(const struct scene *c, struct svg_timeline *t)
{
    const struct sim_picture *p = c->p;
    const struct schedule *s = p->schedule;
    const struct groups *g = &s->groups;
    const char *op = schedule_phases_name(s->phases);
    struct units port, latency, inside, latency_inside;
    char shape[256], bound[96] = "";

    groups_print(g, shape, sizeof shape);
    if (p->bound_s > 0 && isfinite(p->bound_s) && p->times->time_s > 0)
        snprintf(bound, sizeof bound, ", %.3f of the cut bound", p->bound_s / p->times->time_s);
    snprintf(t->title, sizeof t->title, "%s, %s, %s, %s: %s%s", op ? op : "partial collective",
             schedule_algo_name(s->algo), shape, units_bytes(&port, (double)whole_bytes(p)),
             units_time(&latency, p->times->time_s), bound);
    snprintf(t->note, sizeof t->note,
             "%d rank%s in %d group%s, %d sub-chunk%s, %d steps, %" PRId64
             " messages; intra-group %s and %s, slowest port %s and %s",
             g->ranks, g->ranks == 1 ? "" : "s", g->count, g->count == 1 ? "" : "s",
             s->subchunks, s->subchunks == 1 ? "" : "s", s->steps, c->messages,
             units_rate(&inside, p->topo->level[0].flow_Bps),
             units_time(&latency_inside, p->topo->level[0].latency_s),
             units_rate(&port, topo_slowest_port_Bps(p->topo)),
             units_time(&latency, p->topo->level[1].latency_s));
}

int sim_draw(const struct sim_picture *p, FILE *out, struct err *err)
{
    static const char *const kinds[] = {"lane", "intra", "inter", "mixed"};
    const struct schedule *s = p->schedule;
    const struct groups *g = &s->groups;
    struct scene c;

    if (find_messages(&c, p, err))
        return -1;
    double bound_s = isfinite(p->bound_s) ? p->bound_s : 0;
    char mark[64], part[SVG_COLOURS][32];
    char(*name)[32] = mem_new((size_t)s->lanes + 1, sizeof *name);
    struct units u;
    struct svg_lane *lane = mem_new(2 * (size_t)s->lanes + 1, sizeof *lane);
    struct svg_look *look = mem_new(2 * (size_t)g->count + 3, sizeof *look);
    struct svg_row *row = mem_new((size_t)g->ranks, sizeof *row);
    struct svg_timeline t = {.look = look,
                             .looks = find_looks(&c, look, part),
                             .host = p->topo->host,
                             .row = row,
                             .rows = g->ranks,
                             .lane = lane,
                             .lanes = 2 * s->lanes,
                             .end_s = fmax(p->times->time_s, bound_s),
                             .mark_s = bound_s,
                             .mark = mark,
                             .tip = sim_draw_tip_of,
                             .tip_of = &c};

    draw_put_words(&c, &t);
    snprintf(mark, sizeof mark, "cut bound %s", units_time(&u, bound_s));
    for (int at = 0; at < g->ranks; at++) {
        row[at].group = g->group_of[g->rank[at]];
        snprintf(row[at].name, sizeof row[at].name, "%d", g->rank[at]);
    }
    for (int k = 0; k < s->lanes; k++) {
        snprintf(name[k], sizeof name[k], "%s %d", kinds[(int)c.kind[k]], k);
        lane[2 * k] = (struct svg_lane){name[k], SENT};
        lane[2 * k + 1] = (struct svg_lane){NULL, 1 - SENT};
    }
    draw_add_bars(&c, &t);
    int rc = svg_timeline_draw(&t, out, err);
    svg_timeline_release(&t);
    MEM_FREE(look, row, lane, name);
    scene_release(&c);
    return rc;
}

static void print_message(struct jout *j, const struct message *m, int parts)
{
    jout_open(j, NULL, '{');
    jout_int(j, "lane", m->lane);
    jout_int(j, "step", m->step);
    jout_int(j, "src", m->src);
    jout_int(j, "dst", m->dst);
    jout_bool(j, "across", m->across);
    if (m->part == parts)
        jout_null(j, "part");
    else
        jout_int(j, "part", m->part);
    jout_int(j, "chunks", m->chunks);
    jout_int(j, "bytes", m->bytes);
    jout_num(j, "start_s", m->start_s);
    jout_num(j, "end_s", m->end_s);
    jout_close(j, '}');
}

int sim_draw_json(const struct sim_picture *p, FILE *out, struct err *err)
{
    const struct schedule *s = p->schedule;
    struct jout j = {.file = out, .pretty = 1};
    struct scene c;
    char shape[256];

    if (find_messages(&c, p, err))
        return -1;
    groups_print(&s->groups, shape, sizeof shape);
    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.sched.draw/1");
    jout_text(&j, "op", schedule_phases_name(s->phases));
    jout_text(&j, "algo", schedule_algo_name(s->algo));
    jout_text(&j, "groups", shape);
    jout_int(&j, "ranks", s->groups.ranks);
    jout_int(&j, "bytes", whole_bytes(p));
    jout_int(&j, "subchunks", s->subchunks);
    jout_num(&j, "time_s", p->times->time_s);
    jout_num(&j, "limit_s", p->bound_s > 0 ? p->bound_s : NAN);
    jout_open(&j, "messages", '[');
    for (int64_t i = 0; i < c.messages; i++)
        print_message(&j, &c.message[i], s->groups.count);
    jout_end(&j);
    scene_release(&c);
    return 0;
}
