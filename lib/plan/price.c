/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prices a strategy: memory, bytes and time of a global step (paro.md sections 2, 3 and 5). All
 * 27 go through the same lines: a letter only decides which legs run (layout_moves_*).
 *
 * How a step overlaps.  One thread computes, another communicates; gathers run `prefetch` units
 * ahead, reductions behind; the boundary conversion belongs to the last backward.  The update
 * waits for the norm of all gradients, and goes unit by unit; a unit's new parameters leave as
 * soon as it is updated (s), while the next ones are and the next step's first forward runs:
 *
 *     compute       F0 F1 F2 F3 | B3 B2 B1 B0               | u0 u1 u2 u3 | F0 F1 F2 F3
 *     gathers     p0 p1 p2 p3   | p3 p2 p1 p0               |           p0 p1 p2 p3
 *     reductions                |    g3 g2 g1 g0            |
 *     syncs                     |                           |    s0 s1 s2  s3
 *
 * Priced is a step among others: its first forward begins with what the update before it has
 * left of the syncs.  A use, or the gather for it, waits for its own unit's sync alone; the
 * other syncs take what the gathers leave of the link.  So until a use v waits for the last
 * time the link has carried the gathers and the syncs left of units 0 .. v and nothing else (a
 * sync further on is begun only when those before it are over), and what follows computes:
 *
 *     max over v of (s_0 + p_0 + ... + s_v + p_v) + F_v + ... + F_last
 *
 * What is left are the last units' syncs, so for equal units this is convex in v and largest at
 * an end, v = 0 or the last: side_by_side() of the forward and of all gathers and syncs left.
 * (With prefetch 0 nothing runs beside a gather, and the same holds of the rest of the time.)
 *
 * Where ranks share processor cores, the copies inside a group compete with the computing: the
 * topology's rates are then measured with all ranks busy, and that is all this model knows of
 * it.
 */
#include "plan/plan.h"

#include "base/block8.h"
#include "plan/tally.h"

enum {
    /* Of one element of AdamW: the moments 3 + 4, their corrections 2, root, eps, quotient 3,
       decay and step 4.  A lower bound on its time: memory bandwidth is not in a topology. */
    ADAM_FLOPS = 16
};

/* Sums of doubles in another order differ by some 1e-16 times their number of terms (below
   10,000): what differs by less than this is equal. */
static const double SAME = 1e-12;

struct bill { /* of one strategy under one algorithm */
    const struct plan_case *at;
    const struct plan_tally *tally;
    enum schedule_algo algo;
    /* Each leg over its set: how often in a global step, times the bytes of an element. */
    double bytes[PLAN_TIERS][PLAN_SETS][PLAN_LEGS];
    double elem_bytes[PLAN_TIERS]; /* of an element, in the conversion at hand */
};

int plan_price_less(double a, double b)
{
    return b - a > SAME * (a > b ? a : b);
}

static int is_free(const struct plan_case *c, enum plan_term term)
{
    return c->free >> term & 1;
}

static double leg_s(const struct bill *b, const struct plan_span *span, enum plan_set set,
                    int leg)
{
    const struct plan_case *c = b->at;
    double slow = span->slope[PLAN_SLOW][set][leg] * b->elem_bytes[PLAN_SLOW] / c->slow_rate;
    double fast = span->slope[PLAN_FAST][set][leg] * b->elem_bytes[PLAN_FAST];

    slow = is_free(c, PLAN_SLOW) ? 0 : slow;
    fast = is_free(c, PLAN_FAST) ? 0 : fast;
    return slow > fast ? slow : fast;
}

/* Seconds of one message across the groups, or inside one. */
static double message_s(const struct bill *b, int across)
{
    if (across)
        return is_free(b->at, PLAN_SLOW) ? 0 : b->tally->across_s;
    return is_free(b->at, PLAN_FAST) ? 0 : b->tally->inside_s;
}

/*
 * One gather or one reduction of a unit: inside, across, or both; -1 where a leg is not run.
 * Together, with tau_e = alpha_e + q / B, tau_i = alpha_i + q / B' (paro.md section 5):
 *   two-level  (g-1) tau_e + g (m-1) tau_i
 *   ho-ring    (m-1) tau_i + (g-1) max(tau_e, (m-1) tau_i), which cutting each block into C
 *              sub-chunks brings towards max(T_inter, T_intra)
 * written for ragged groups: T_inter and T_intra are those of the slowest port and rank.
 */
static double pair_s(const struct bill *b, const struct plan_span *span, enum plan_set set,
                     int inside, int across)
{
    const struct groups *groups = &b->tally->layout.groups;
    int g = groups->count, hops = b->tally->largest_group - 1;
    double t_inter = 0, t_intra = 0;

    if (across >= 0)
        t_inter = (g - 1) * message_s(b, 1) + leg_s(b, span, set, across);
    if (inside >= 0)
        t_intra = (across >= 0 ? g : 1) * hops * message_s(b, 0) + leg_s(b, span, set, inside);
    if (across < 0 || inside < 0 || b->algo != SCHEDULE_HO_RING)
        return t_inter + t_intra;
    double last = t_intra * (g - 1) / g; /* all batches but the first */
    double longer = t_inter > t_intra ? t_inter : t_intra;
    double closed = t_intra / g + (t_inter > last ? t_inter : last);
    double block = (double)span->elems[set] * dtype_bytes(b->at->wire_type) / groups->ranks;
    double chunks = (double)(int64_t)(block / (double)b->at->chunk_bytes);
    return longer + (closed - longer) / (chunks > 1 ? chunks : 1);
}

/* The flat ring: (n-1) max(tau_i, alpha_e + q / R_ring). */
static double ring_s(const struct bill *b, const struct plan_span *span, enum plan_set set,
                     int leg)
{
    const struct groups *groups = &b->tally->layout.groups;

    return (groups->ranks - 1) * message_s(b, groups->count > 1) + leg_s(b, span, set, leg);
}

/* The flat ring stands for global collectives alone; what stays on the rails stays there. */
static int is_flat(const struct bill *b, struct layout_moves m)
{
    return b->algo == SCHEDULE_RING && m.reduce_inside == m.reduce_across &&
           m.gather_inside == m.gather_across;
}

/* Seconds of one conversion of one unit. */
static double moves_s(const struct bill *b, const struct plan_span *span, enum plan_set set,
                      struct layout_moves m)
{
    int even = m.reduce_across && m.gather_across; /* an all-reduce: equal slices */
    double s = 0;

    if (span->elems[set] == 0)
        return 0;
    if (is_flat(b, m))
        return (m.reduce_across ? ring_s(b, span, set, PLAN_RING_REDUCE) : 0) +
               (m.gather_across ? ring_s(b, span, set, PLAN_RING_GATHER) : 0);
    if (m.reduce_inside || m.reduce_across)
        s += pair_s(b, span, set, m.reduce_inside ? PLAN_INSIDE_REDUCE : -1,
                    !m.reduce_across ? -1
                    : even           ? PLAN_EVEN_REDUCE
                                     : PLAN_ACROSS_REDUCE);
    if (m.gather_inside || m.gather_across)
        s += pair_s(b, span, set, m.gather_inside ? PLAN_INSIDE_GATHER : -1,
                    !m.gather_across ? -1
                    : even           ? PLAN_EVEN_GATHER
                                     : PLAN_ACROSS_GATHER);
    return s;
}

static void count_leg(struct bill *b, enum plan_set set, enum plan_leg leg, int times)
{
    for (int tier = 0; tier < PLAN_TIERS; tier++)
        b->bytes[tier][set][leg] += times * b->elem_bytes[tier];
}

/*
 * A conversion of the whole set, `times` per global step: counts its legs, returns the seconds
 * of one.  slow: how it travels between groups.
 */
static double run(struct bill *b, enum plan_set set, struct layout_moves m, int times,
                  enum plan_slow slow)
{
    const struct plan_tally *t = b->tally;
    int even = m.reduce_across && m.gather_across, flat = is_flat(b, m);
    double s = 0;

    b->elem_bytes[PLAN_FAST] = b->elem_bytes[PLAN_SLOW] = dtype_bytes(b->at->wire_type);
    if (slow == PLAN_SLOW_INT8)
        b->elem_bytes[PLAN_SLOW] = 1 + 1.0 / BLOCK8_ELEMS;
    if (flat) {
        count_leg(b, set, PLAN_RING_REDUCE, times * m.reduce_across);
        count_leg(b, set, PLAN_RING_GATHER, times * m.gather_across);
    } else {
        count_leg(b, set, PLAN_INSIDE_REDUCE, times * m.reduce_inside);
        count_leg(b, set, even ? PLAN_EVEN_REDUCE : PLAN_ACROSS_REDUCE,
                  times * m.reduce_across);
        count_leg(b, set, even ? PLAN_EVEN_GATHER : PLAN_ACROSS_GATHER,
                  times * m.gather_across);
        count_leg(b, set, PLAN_INSIDE_GATHER, times * m.gather_inside);
    }
    for (int i = 0; i < t->spans; i++)
        s += moves_s(b, &t->span[i], set, m) * t->span[i].count[set];
    return s;
}

/*
 * Two streams of work over the same units side by side: the longer one, and one unit's share of
 * the shorter, which has nothing to hide behind (the first gather, the last reduction).
 */
static double side_by_side(double a, double b, int units)
{
    return a > b ? a + b / units : b + a / units;
}

/*
 * A backward of equal uses: the first ones, `kept` of all, find their units gathered, so
 * gathers run beside the others alone.  What leaves is spread over all.
 */
static double backward_s(double compute, double gather, double leave, double kept, int units)
{
    double with_gathers = gather + leave * (1 - kept), others = leave * kept;
    double early = compute * kept, late = compute * (1 - kept);
    double less = compute < gather + leave ? compute : gather + leave;

    return (early > others ? early : others) + (late > with_gathers ? late : with_gathers) +
           less / units;
}

static double forward_flops(const struct plan_case *c)
{
    if (!c->model->unit)
        return 0; /* a bare number of parameters: states and traffic alone */
    return model_flops_per_token(c->model, c->seq) * c->micro_batch * c->seq;
}

/*
 * What a backward computes again.  The head is not, nor the last layer, whose forward ran last
 * of all; nor of the others the product that leaves the layer, (ffn, hidden): what enters a
 * layer is kept.
 */
static double again_flops(const struct plan_case *c)
{
    const struct model *m = c->model;
    double rows = (double)c->micro_batch * c->seq, width = (double)m->hidden;

    if (!m->unit || !c->recompute)
        return 0;
    double layers = forward_flops(c) - 2 * rows * width * (double)m->vocab;
    double down = 2 * rows * width * (double)m->ffn;
    return ((double)m->layers - 1) * (layers / (double)m->layers - down);
}

struct step {                         /* in seconds */
    double forward, backward, update; /* computing: of a micro-step, and at the end */
    double gather, again;             /* of a forward, of a backward */
    double reduce, syncg, syncp;
};

static struct step step_of(struct bill *b, struct plan_strategy s)
{
    const struct plan_case *c = b->at;
    const struct plan_tally *t = b->tally;
    struct layout_moves whole = layout_moves_copy(s.params, LETTER_N);
    double flops = c->topo->flops;
    struct step k = {0};

    k.gather = run(b, PLAN_ALL, whole, c->accum, c->slow_params);
    k.again = run(b, PLAN_AGAIN, whole, c->accum, c->slow_params);
    k.reduce = run(b, PLAN_TRAINED, layout_moves_micro(s.grads), c->accum, c->slow_grads);
    k.syncg = run(b, PLAN_TRAINED, layout_moves_sum(s.grads, s.optimizer), 1, c->slow_grads);
    k.syncp = run(b, PLAN_TRAINED, layout_moves_copy(s.optimizer, s.params), 1, c->slow_params);
    if (!(flops > 0) || !c->model->unit)
        return k;
    if (!is_free(c, PLAN_COMPUTE)) {
        k.forward = forward_flops(c) / flops;
        /* Gradients of activations, and of the weights that are trained. */
        k.backward = k.forward * (1 + t->elems[PLAN_TRAINED] / t->elems[PLAN_ALL]) +
                     again_flops(c) / flops;
    }
    for (int r = 0; r < t->kinds && !is_free(c, PLAN_UPDATE); r++) {
        double one = ADAM_FLOPS * plan_tally_shard(t, PLAN_TRAINED, s.optimizer, r) / flops;
        k.update = one > k.update ? one : k.update;
    }
    return k;
}

/* Fills the bill's times and the price's times. */
static void price_step(struct bill *b, struct plan_price *p)
{
    const struct plan_case *c = b->at;
    struct step k = step_of(b, p->strategy);
    int visits = 0, again = 0, units = 0;

    for (int i = 0; i < b->tally->spans; i++) {
        visits += b->tally->span[i].count[PLAN_ALL];
        again += b->tally->span[i].count[PLAN_AGAIN];
        units += b->tally->span[i].count[PLAN_TRAINED];
    }
    /* Without prefetch a gather is waited for: nothing runs beside it. */
    double fore = c->prefetch > 0 ? k.gather : 0, back = c->prefetch > 0 ? k.again : 0;
    double left = side_by_side(k.update, k.syncp, units) - k.update;
    double next = k.gather - fore + side_by_side(k.forward, fore, visits);
    double first = k.gather - fore + side_by_side(k.forward, left + fore, visits);
    double kept = 1 - (double)again / visits, waited = k.again - back;
    double later = waited + backward_s(k.backward, back, k.reduce, kept, visits);
    double last = waited + backward_s(k.backward, back, k.reduce + k.syncg, kept, visits);

    p->compute_s = c->accum * (k.forward + k.backward) + k.update;
    p->comm_s = c->accum * (k.gather + k.again + k.reduce) + k.syncg + k.syncp;
    p->step_s = first + (c->accum - 1) * (next + later) + last + k.update;
}

static void price_bytes(struct bill *b, struct plan_price *p)
{
    double out = plan_tally_largest(b->tally, PLAN_PORT_OUT, b->bytes[PLAN_SLOW]);
    double in = plan_tally_largest(b->tally, PLAN_PORT_IN, b->bytes[PLAN_SLOW]);

    p->slow_bytes = out > in ? out : in;
    p->slow_rank_bytes = plan_tally_largest(b->tally, PLAN_RANK_SLOW, b->bytes[PLAN_SLOW]);
    p->fast_bytes = plan_tally_largest(b->tally, PLAN_RANK_FAST, b->bytes[PLAN_FAST]);
}

/* All algorithms a case leaves open; the first of equal ones. */
static void price_one(const struct plan_case *c, const struct plan_tally *t, int bytes,
                      struct plan_price *p)
{
    static const enum schedule_algo algos[] = {SCHEDULE_HO_RING, SCHEDULE_TWO_LEVEL,
                                               SCHEDULE_RING};
    double tokens = c->model->unit
                        ? (double)c->micro_batch * c->seq * c->accum * t->layout.groups.ranks
                        : 0;
    struct bill best = {.tally = NULL};

    for (int i = 0; i < 3; i++) {
        struct bill b = {.at = c, .tally = t, .algo = algos[i]};
        struct plan_price now = {.strategy = p->strategy, .algo = algos[i], .dominated_by = -1};
        if (c->algo != SCHEDULE_AUTO && c->algo != algos[i])
            continue;
        price_step(&b, &now);
        if (best.tally && !plan_price_less(now.step_s, p->step_s))
            continue;
        best = b;
        *p = now;
    }
    if (bytes)
        price_bytes(&best, p);
    p->tokens_per_s = p->step_s > 0 ? tokens / p->step_s : 0;
    plan_footprint(c, t, p);
}

static int dominates(const struct plan_price *a, const struct plan_price *b)
{
    const double mine[] = {a->slow_bytes, a->fast_bytes, a->memory.total, a->step_s};
    const double its[] = {b->slow_bytes, b->fast_bytes, b->memory.total, b->step_s};
    int better = 0;

    for (int i = 0; i < 4; i++) {
        if (plan_price_less(its[i], mine[i]))
            return 0;
        better |= plan_price_less(mine[i], its[i]);
    }
    return better;
}

/* The first that dominates strategy i, or -1. */
static int dominator(const struct plan_price list[PLAN_STRATEGIES], int i)
{
    for (int j = 0; j < PLAN_STRATEGIES; j++)
        if (dominates(&list[j], &list[i]))
            return j;
    return -1;
}

static void price_all(const struct plan_case *c, const struct plan_tally *t, int bytes,
                      struct plan_price out[PLAN_STRATEGIES])
{
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        out[i] = (struct plan_price){.strategy = plan_strategy_at(i)};
        price_one(c, t, bytes, &out[i]);
    }
}

void plan_price_times(const struct plan_case *c, const struct plan_tally *t,
                      struct plan_price out[PLAN_STRATEGIES])
{
    price_all(c, t, 0, out);
}

void plan_price_bytes(const struct plan_case *c, const struct plan_tally *t,
                      struct plan_price *p)
{
    price_one(c, t, 1, p);
}

void plan_price_with(const struct plan_case *c, const struct plan_tally *t,
                     struct plan_price out[PLAN_STRATEGIES])
{
    price_all(c, t, 1, out);
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        out[i].dominated_by = dominator(out, i);
    /* Name one that survives itself: what a dominated one dominates, its dominator does too. */
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        for (int hops = 0; hops < PLAN_STRATEGIES && out[i].dominated_by >= 0; hops++) {
            int above = out[out[i].dominated_by].dominated_by;
            if (above < 0)
                break;
            out[i].dominated_by = above;
        }
}

void plan_price_all(const struct plan_case *c, struct plan_price out[PLAN_STRATEGIES])
{
    struct plan_tally tally;

    plan_tally_init(&tally, c->topo, c->model, c->trainable, c->keep);
    plan_price_with(c, &tally, out);
    plan_tally_release(&tally);
}
