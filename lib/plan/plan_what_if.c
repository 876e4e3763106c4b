/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the figures at which another strategy would win.  The winner may change back as a dial
 * is turned further, so the dial moves outwards in steps until another wins, and the interval
 * of the last step is bisected.  Each point runs the whole search.
 */
#include "plan/plan_what_if.h"

#include <math.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/units.h"
#include "plan/plan_traffic.h"

static const double STEP = 1.0905077326652577; /* 2^(1/8) */

struct probe {
    const struct plan_search *requested;
    const struct plan_traffic *traffic;
    const struct plan_changes *from;
    enum plan_dial dial;
};

struct winner {
    int best, level;
};

/*
 * With several boundaries, levels above the chosen groups may lie inside the groups of another
 * boundary: the fabric itself is scaled.
 */
static struct winner winner_on_slower(const struct probe *p, double times)
{
    const struct plan_search *requested = p->requested;
    struct plan_search s = *requested;
    struct plan_boundaries groups;
    struct topo t;
    struct err ignored;
    int level = plan_search_level(requested);

    topo_at_boundary(plan_search_whole(requested), 0, &t);
    for (int l = level + 1; l < t.levels; l++) {
        t.level[l].port_Bps *= times;
        t.level[l].flow_Bps *= times;
        t.level[l].member_Bps *= times;
    }
    for (int k = 0; level == 0 && k < t.groups.count; k++) {
        t.port[k].out_Bps *= times;
        t.port[k].in_Bps *= times;
    }
    plan_boundaries_init(&groups, &t, requested->groups->requested,
                         &ignored); /* as requested */
    s.groups = &groups;
    plan_search(&s, &ignored); /* cannot fail: it was run before */
    struct winner w = {s.best, plan_search_level(&s)};
    plan_boundaries_release(&groups);
    topo_release(&t);
    return w;
}

static enum moments moments_at(double v)
{
    return (enum moments)(3 - v);
}

/* Returns the winner with the dial at v. */
static struct winner winner_at(const struct probe *p, double v)
{
    struct plan_search s = *p->requested;

    if (p->dial == PLAN_DIAL_SLOW && s.groups && s.groups->count > 1)
        return winner_on_slower(p, v / p->from->now[PLAN_DIAL_SLOW]);
    if (p->dial == PLAN_DIAL_SLOW)
        s.at.slow_rate *= v / p->from->now[PLAN_DIAL_SLOW];
    else if (p->dial == PLAN_DIAL_MOMENTS)
        s.at.moments = moments_at(v);
    else if (p->dial == PLAN_DIAL_ACCUM)
        s.at.accum = (int)v;
    else
        s.at.memory_bytes = v;
    if (s.at.moments != p->requested->at.moments) { /* shards may be cut elsewhere */
        struct err ignored;
        plan_search(&s, &ignored); /* cannot fail: it was run before */
    } else {
        plan_search_choose(&s, p->traffic);
    }
    return (struct winner){s.best, plan_search_level(&s)};
}

static int what_if_is_same(struct winner a, struct winner b)
{
    return a.best == b.best && (a.best < 0 || a.level == b.level);
}

static int is_old(const struct probe *p, struct winner w)
{
    return what_if_is_same(
        w, (struct winner){p->requested->best, plan_search_level(p->requested)});
}

/*
 * Bisects between a value and *other, up to where `want` begins to win or, if that is NULL,
 * where the old winner ceases to.  Returns the winner at the value found.
 */
static struct winner bisect(const struct probe *p, double same, struct winner now,
                            const struct winner *want, double *other)
{
    int slow = p->dial == PLAN_DIAL_SLOW; /* the other dials are whole numbers */

    while (fabs(same - *other) > (slow ? 1e-9 * same : 1)) {
        double half = slow ? sqrt(same * *other) : floor((same + *other) / 2);
        struct winner there = winner_at(p, half);
        if (want ? !what_if_is_same(there, *want) : is_old(p, there)) {
            same = half;
            continue;
        }
        *other = half;
        now = there;
    }
    return now;
}

static void find_change(const struct probe *p, int more, double start, struct plan_change *c)
{
    struct winner first, last = {-1, -1};
    double same = start, other = start;

    c->searched = 1;
    c->then_at = NAN;
    c->winner = c->level = c->then_winner = c->then_level = -1;
    while (!c->found && (more ? other < c->bound : other > c->bound)) {
        same = other;
        other = more ? other * STEP : other / STEP;
        if (p->dial != PLAN_DIAL_SLOW)
            other = more ? fmax(same + 1, floor(other)) : fmin(same - 1, ceil(other));
        if (more ? other > c->bound : other < c->bound)
            other = c->bound;
        last = winner_at(p, other);
        c->found = !is_old(p, last);
    }
    c->at = other;
    if (!c->found)
        return;
    first = bisect(p, same, last, NULL, &c->at);
    c->winner = first.best;
    c->level = first.level;
    if (what_if_is_same(first, last))
        return;
    c->then_at = other;
    bisect(p, c->at, last, &last, &c->then_at);
    c->then_winner = last.best;
    c->then_level = last.level;
}

void plan_what_if(const struct plan_search *s, struct plan_changes *out)
{
    int known = s->at.memory_bytes > 0;
    double memory = known ? s->at.memory_bytes : 0;
    struct plan_traffic *traffic = plan_search_traffic(s);

    for (int i = 0; !known && i < PLAN_STRATEGIES; i++)
        memory = fmax(memory, ceil(s->list[i].memory.total));
    *out = (struct plan_changes){.now = {
                                     topo_slowest_port_Bps(s->at.topo) * s->at.slow_rate,
                                     s->at.accum,
                                     known ? memory : INFINITY,
                                     3 - (double)s->at.moments,
                                 }};
    const double starts[PLAN_DIALS] = {out->now[0], out->now[1], memory, out->now[3]};
    const double bounds[PLAN_DIALS][2] = {
        {starts[0] / PLAN_WHAT_IF_TIMES, starts[0] * PLAN_WHAT_IF_TIMES},
        {1, fmax(PLAN_WHAT_IF_ACCUM, s->at.accum)},
        {ceil(memory / PLAN_WHAT_IF_TIMES), floor(memory * PLAN_WHAT_IF_TIMES)},
        {3 - MOMENTS_INT8, 3 - MOMENTS_F32}};
    for (int dial = 0; dial < PLAN_DIALS; dial++) {
        struct probe p = {s, traffic, out, (enum plan_dial)dial};
        if (dial == PLAN_DIAL_ACCUM && s->at.global_batch)
            continue;
        for (int more = 0; more < 2; more++) {
            out->of[dial][more].bound = bounds[dial][more];
            if (dial != PLAN_DIAL_MEMORY || !more || known)
                find_change(&p, more, starts[dial], &out->of[dial][more]);
        }
    }
    plan_search_drop(s, traffic);
}

static const char *what_if_value_text(enum plan_dial dial, double v, char text[32])
{
    struct units u;

    if (dial == PLAN_DIAL_ACCUM)
        snprintf(text, 32, "%.0f", v);
    else if (dial == PLAN_DIAL_MOMENTS)
        snprintf(text, 32, "%s", moments_name(moments_at(v)));
    else if (!isfinite(v))
        snprintf(text, 32, "any");
    else
        snprintf(text, 32, "%s",
                 dial == PLAN_DIAL_SLOW ? units_rate(&u, v) : units_bytes(&u, v));
    return text;
}

static const char *what_if_name_of(int index)
{
    return index >= 0 ? plan_strategy_name(plan_strategy_at(index)) : "nothing fits";
}

static void put_winner(enum plan_dial dial, int more, int winner, int level, double from,
                       const char *end, FILE *out)
{
    char at[32];

    fputs(what_if_name_of(winner), out);
    if (winner >= 0 && level >= 0)
        fprintf(out, " of level %d", level);
    fprintf(out, " from %s %s%s", what_if_value_text(dial, from, at), more ? "up" : "down",
            end);
}

static void put_change(enum plan_dial dial, int more, const struct plan_change *c, FILE *out)
{
    static const char *const names[PLAN_DIALS][2] = {{"slower tier", "faster tier"},
                                                     {"fewer micro-steps", "more micro-steps"},
                                                     {"less memory", "more memory"},
                                                     {"smaller moments", "larger moments"}};
    char at[32], then[32];

    fprintf(out, "%-18s ", names[dial][more]);
    if (!c->searched) {
        fputs(dial == PLAN_DIAL_ACCUM ? "fixed by the global batch\n" : "no known limit\n",
              out);
        return;
    }
    if (!c->found) {
        fprintf(out, "no change %s to %s\n", more ? "up" : "down",
                what_if_value_text(dial, c->bound, at));
        return;
    }
    int also = !isnan(c->then_at);
    /* Omit one whose range is smaller than the printed digits. */
    if (!also ||
        strcmp(what_if_value_text(dial, c->at, at), what_if_value_text(dial, c->then_at, then)))
        put_winner(dial, more, c->winner, c->level, c->at, also ? ", " : "\n", out);
    if (also)
        put_winner(dial, more, c->then_winner, c->then_level, c->then_at, "\n", out);
}

void plan_what_if_print(const struct plan_search *s, const struct plan_changes *w, FILE *out)
{
    char slow[32], memory[32];

    plan_list_title(s, out);
    fprintf(out, "%s at a slow tier of %s, accum %d, %s memory\n", what_if_name_of(s->best),
            what_if_value_text(PLAN_DIAL_SLOW, w->now[0], slow), s->at.accum,
            what_if_value_text(PLAN_DIAL_MEMORY, w->now[2], memory));
    for (int dial = 0; dial < PLAN_DIALS; dial++)
        for (int more = 0; more < 2; more++)
            put_change((enum plan_dial)dial, more, &w->of[dial][more], out);
}

static void put_value(struct jout *j, const char *key, enum plan_dial dial, double v)
{
    if (dial == PLAN_DIAL_MOMENTS)
        jout_text(j, key, isnan(v) ? NULL : moments_name(moments_at(v)));
    else
        jout_num(j, key, v);
}

static void json_change(struct jout *j, enum plan_dial dial, int more,
                        const struct plan_change *c)
{
    static const char *const keys[PLAN_DIALS] = {"slow_Bps", "accum", "memory_bytes",
                                                 "moments"};

    jout_open(j, NULL, '{');
    jout_text(j, "what", keys[dial]);
    jout_text(j, "direction", more ? "more" : "less");
    jout_bool(j, "searched", c->searched);
    put_value(j, "bound", dial, c->searched ? c->bound : NAN);
    jout_bool(j, "changes", c->found);
    put_value(j, "value", dial, c->found ? c->at : NAN);
    plan_put_strategy(j, "winner", c->found ? c->winner : -1);
    plan_put_level(j, c->found && c->winner >= 0 ? c->level : -1);
    if (c->found && !isnan(c->then_at)) {
        jout_open(j, "then", '{');
        put_value(j, "value", dial, c->then_at);
        plan_put_strategy(j, "winner", c->then_winner);
        plan_put_level(j, c->then_winner >= 0 ? c->then_level : -1);
        jout_close(j, '}');
    }
    jout_close(j, '}');
}

void plan_what_if_print_json(const struct plan_search *s, const struct plan_changes *w,
                             FILE *out)
{
    struct jout j = jout_begin(out, "paro.plan.what-if/1");

    plan_put_strategy(&j, "chosen", s->best);
    plan_put_batch(&j, &s->at);
    jout_int(&j, "seq", s->at.seq);
    jout_num(&j, "slow_Bps", w->now[PLAN_DIAL_SLOW]);
    plan_put_limits(&j, s);
    jout_open(&j, "changes", '[');
    for (int dial = 0; dial < PLAN_DIALS; dial++)
        for (int more = 0; more < 2; more++)
            json_change(&j, (enum plan_dial)dial, more, &w->of[dial][more]);
    jout_end(&j);
}
