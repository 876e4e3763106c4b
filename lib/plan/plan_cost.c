/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the cost of one conversion of one unit, or of one use of it, when nothing else runs:
 * legs from the traffic, algorithms by their closed forms, memory by the bytes that pass
 * through it.
 *
 * Where ranks share processor cores, links are slower while all ranks compute: the topology
 * states the remaining share (rate_left), and each conversion is priced with and without
 * computing.
 */
#include "plan/plan_cost.h"

#include <math.h>

#include "pick/pick_auto.h"

enum { F32_BYTES = 4 };

int plan_is_free(const struct plan_cost *b, enum plan_term term)
{
    return b->at->free >> term & 1;
}

/* Returns the share of their rates that a tier's links keep while ranks compute. */
static double rate_left(const struct plan_cost *b, int tier)
{
    const struct topo *t = b->at->topo;
    double left = 1;

    if (!b->computing)
        return 1;
    for (int i = tier == PLAN_FAST ? 0 : 1; i < (tier == PLAN_FAST ? 1 : t->levels); i++)
        if (t->level[i].rate_left > 0 && t->level[i].rate_left < left)
            left = t->level[i].rate_left;
    return left;
}

/* Returns the share of a tier's rates that a leg's ring achieves.  Rails have a rank of each
   group, the flat ring all; inside groups only the flat ring is a ring. */
static double cost_ring_left(const struct plan_cost *b, int tier, int leg)
{
    const struct topo *t = b->at->topo;
    int flat = leg >= PLAN_RING_REDUCE, ranks = flat ? t->groups.ranks : t->groups.count;
    double left = 1;

    if (tier == PLAN_FAST)
        return flat ? topo_ring_left(&t->level[0], b->traffic->largest_group) : 1;
    for (int i = 1; i < t->levels; i++)
        left = fmin(left, topo_ring_left(&t->level[i], ranks));
    return left;
}

/* While all ranks compute, both ends wait for a processor, which takes longer than the work. */
double plan_message_s(const struct plan_cost *b, int across)
{
    const struct plan_traffic *t = b->traffic;
    double alone_s =
        across ? t->across_s + 2 * t->across_message_s : t->inside_s + 2 * t->inside_message_s;

    if (plan_is_free(b, across ? PLAN_SLOW : PLAN_FAST))
        return 0;
    return b->computing ? fmax(alone_s, across ? t->across_busy_s : t->inside_busy_s) : alone_s;
}

/* Adds a leg's load on the links to f; sets tier_s to its seconds per tier unless that is NULL;
   returns the seconds of the busier tier. */
static double leg_s(const struct plan_cost *b, const struct plan_span *span, enum plan_set set,
                    int leg, struct plan_flow *f, double *tier_s)
{
    double longest = 0;

    for (int tier = 0; tier < PLAN_TIERS; tier++) {
        double s = span->slope[tier][set][leg] * b->elem_bytes[tier] / rate_left(b, tier) /
                   cost_ring_left(b, tier, leg);
        if (tier == PLAN_SLOW)
            s /= b->at->slow_rate;
        if (plan_is_free(b, (enum plan_term)tier))
            s = 0;
        f->link_s[b->computing][tier] += s;
        if (tier_s)
            tier_s[tier] = s;
        longest = fmax(longest, s);
    }
    return longest;
}

/* Sub-chunks of each block of a span, as the executor cuts them. */
static double chunks_of(const struct plan_cost *b, const struct plan_span *span,
                        enum plan_set set)
{
    const struct groups *g = &b->traffic->layout.groups;

    return layout_subchunks_of((span->elems[set] + g->ranks - 1) / g->ranks,
                               (int)b->elem_bytes[PLAN_FAST], b->at->chunk_bytes, g->ring,
                               LAYOUT_SUBCHUNKS_MAX);
}

/* Seconds of a rank's processor for sending and receiving `messages` each way. */
static double busy_s(const struct plan_cost *b, int across, double messages)
{
    if (plan_is_free(b, across ? PLAN_SLOW : PLAN_FAST))
        return 0;
    return 2 * messages *
           (across ? b->traffic->across_message_s : b->traffic->inside_message_s);
}

/*
 * Seconds of a ring of `hops` hops, whose links are busy for link_s and whose latencies add up
 * to path_s.  Blocks are cut into C chunks, and a chunk is passed on while later ones still
 * arrive.  Either the links are always busy and one latency remains at the end, or one block's
 * way round the ring takes longer:
 *   max(link_s + path_s / hops, path_s + hops p + (C - 1) p),  p = link_s / (hops C)
 */
static double ring_s(double hops, double path_s, double link_s, double chunks)
{
    double piece_s = link_s / hops / chunks;

    return fmax(link_s + path_s / hops, path_s + (hops + chunks - 1) * piece_s);
}

/*
 * Seconds of one gather or one reduction of a unit: inside, across, or both; a leg of -1 does
 * not run (paro-method(7), HO-RING).  Inside a group of one cell each rank sends to all others,
 * so that latencies overlap; with several cells each hop between cells adds its latency.  Both
 * legs:
 *   two-level  one after the other
 *   ho-ring    T_intra / g + max(T_inter, (g-1)/g T_intra), which cutting each block into C
 *              chunks brings towards max(T_inter, T_intra)
 * written for ragged groups: T_inter and T_intra are those of the slowest port and rank.
 */
static double pair_s(const struct plan_cost *b, const struct plan_span *span, enum plan_set set,
                     int inside, int across, struct plan_flow *f)
{
    const struct groups *groups = &b->traffic->layout.groups;
    int g = across >= 0 ? groups->count : 1, others = b->traffic->largest_group - 1;
    int together = across >= 0 && inside >= 0 && b->algo == SCHEDULE_HO_RING;
    double t_inter = 0, t_intra = 0, ring = 0, chunks = chunks_of(b, span, set);
    double in_s = b->traffic->most_cells * plan_message_s(b, 0), out_s = plan_message_s(b, 1),
           busy_out = 0;

    if (across >= 0) {
        t_inter = leg_s(b, span, set, across, f, NULL);
        busy_out = busy_s(b, 1, chunks * (g - 1));
        ring = fmax(ring_s(g - 1, (g - 1) * out_s, t_inter, chunks), busy_out);
    }
    if (inside < 0)
        return ring;
    double busy_in = busy_s(b, 0, chunks * g * others);
    t_intra = fmax(leg_s(b, span, set, inside, f, NULL), busy_in);
    if (!together)
        return ring + t_intra + in_s;
    t_intra *= 1 + b->at->topo->inside_extra; /* ports that both legs use */
    double last = t_intra * (g - 1) / g;      /* all batches except the first */
    double longer = fmax(t_inter, t_intra), closed = t_intra / g + fmax(t_inter, last);
    double links = longer + (closed - longer) / chunks + out_s + in_s;
    return fmax(fmax(links, ring + t_intra / g / chunks + in_s), busy_out + busy_in);
}

/*
 * Seconds of the flat ring: of its hops as many as there are groups cross groups, the others
 * stay inside, where a chunk passes sooner.  Each rank has one queue, which waits for the
 * processor at every message.
 */
static double flat_s(const struct plan_cost *b, const struct plan_span *span, enum plan_set set,
                     int leg, struct plan_flow *f)
{
    const struct groups *groups = &b->traffic->layout.groups;
    int hops = groups->ranks - 1, across = groups->count > 1 ? groups->count : 0;
    double tier_s[PLAN_TIERS], chunks = chunks_of(b, span, set), links = 0, way = 0;

    leg_s(b, span, set, leg, f, tier_s);
    across = across < hops ? across : hops;
    for (int tier = 0; tier < PLAN_TIERS; tier++) {
        int slow = tier == PLAN_SLOW, times = slow ? across : hops - across;
        double queue_s = tier_s[tier] + busy_s(b, slow, chunks * hops) / 2;
        if (times == 0)
            continue;
        links = fmax(links, queue_s + plan_message_s(b, slow));
        way += times * (plan_message_s(b, slow) + queue_s / hops / chunks);
    }
    return fmax(links, way + links * (chunks - 1) / hops / chunks);
}

int plan_legs_of(enum schedule_algo algo, unsigned phases, int leg[PLAN_PHASES])
{
    static const int flat[] = {-1, PLAN_RING_REDUCE, PLAN_RING_GATHER, -1};
    static const int even[] = {PLAN_INSIDE_REDUCE, PLAN_EVEN_REDUCE, PLAN_EVEN_GATHER,
                               PLAN_INSIDE_GATHER}; /* equal slices of an all-reduce */
    static const int rails[] = {PLAN_INSIDE_REDUCE, PLAN_ACROSS_REDUCE, PLAN_ACROSS_GATHER,
                                PLAN_INSIDE_GATHER};
    unsigned reduce = phases & SCHEDULE_REDUCE_SCATTER, gather = phases & SCHEDULE_ALL_GATHER;
    int is_flat = algo == SCHEDULE_RING && (!reduce || reduce == SCHEDULE_REDUCE_SCATTER) &&
                  (!gather || gather == SCHEDULE_ALL_GATHER);
    const int *of = is_flat ? flat
                    : phases & SCHEDULE_REDUCE_ACROSS && phases & SCHEDULE_GATHER_ACROSS
                        ? even
                        : rails;

    for (int i = 0; i < PLAN_PHASES; i++)
        leg[i] = phases >> i & 1 ? of[i] : -1;
    return is_flat;
}

static enum plan_set cost_set_of(enum step_lane kind)
{
    return kind == STEP_GATHER ? PLAN_ALL : PLAN_TRAINED;
}

static void set_elem_bytes(struct plan_cost *b, enum step_lane kind)
{
    const struct plan_lane *lane = &b->step.lane[kind];

    b->elem_bytes[PLAN_FAST] = dtype_bytes(lane->type);
    b->elem_bytes[PLAN_SLOW] = exec_code_elem_bytes(lane->code, lane->type);
}

double plan_memory_s(const struct plan_cost *b, double bytes)
{
    return b->at->topo->memory_Bps > 0 ? bytes / b->at->topo->memory_Bps : 0;
}

/*
 * Bytes read and written for `elems` elements: sent ones are converted to the wire type,
 * received ones are stored in their own type (engine/engine_move.c).
 */
static double local_bytes(const struct plan_cost *b, enum step_lane kind, double elems)
{
    const struct plan_case *c = b->at;
    struct plan_strategy s = b->strategy;
    double p = dtype_bytes(c->param_type), w = dtype_bytes(c->wire_type);
    double sent = dtype_bytes(plan_params_wire(&c->settings));
    double g = dtype_bytes(c->grad_type), params = plan_shard_of(b->traffic, s.params, elems);
    double grads = plan_shard_of(b->traffic, s.grads, elems);
    double optim = plan_shard_of(b->traffic, s.optimizer, elems);
    int convert = p > sent;

    switch (kind) {
    case STEP_GATHER:
        return convert || b->step.space.coded ? params * (p + sent) : 0;
    case STEP_REDUCE:
        return grads * (w + 2 * g);
    case STEP_CONVERT:
        return grads * (g + w) + optim * (w + g);
    case STEP_OUTER_REDUCE: /* packed; the sum, anchor and momentum read, two written */
        return F32_BYTES * (2 * plan_shard_of(b->traffic, LETTER_I, elems) +
                            5 * plan_shard_of(b->traffic, b->step.lane[kind].to, elems));
    case STEP_OUTER_GATHER:
        return 2 * F32_BYTES *
               (plan_shard_of(b->traffic, b->step.lane[kind].from, elems) + optim);
    default:
        return optim * (F32_BYTES + sent) + (convert ? params * (sent + p) : 0);
    }
}

void plan_flow_of(struct plan_cost *b, int span, enum step_lane kind, struct plan_flow *out)
{
    const struct plan_span *at = &b->traffic->span[span];
    enum plan_set set = cost_set_of(kind);

    *out = (struct plan_flow){.local_s = 0};
    if (!b->step.shape.has[kind] || at->elems[set] == 0)
        return;
    set_elem_bytes(b, kind);
    int leg[PLAN_PHASES], flat = plan_legs_of(b->algo, b->step.lane[kind].phases, leg);
    for (b->computing = 0; b->computing < 2; b->computing++) {
        double *s = &out->alone_s[b->computing];
        for (int i = 1; flat && i <= 2; i++)
            *s += leg[i] >= 0 ? flat_s(b, at, set, leg[i], out) : 0;
        if (!flat && (leg[0] >= 0 || leg[1] >= 0))
            *s += pair_s(b, at, set, leg[0], leg[1], out);
        if (!flat && (leg[2] >= 0 || leg[3] >= 0))
            *s += pair_s(b, at, set, leg[3], leg[2], out);
    }
    b->computing = 0;
    if (!plan_is_free(b, PLAN_FAST))
        out->local_s = plan_memory_s(b, local_bytes(b, kind, (double)at->elems[set]));
    /* The walk has a row for each unit, and a turn is one fragment's. */
    double part = kind >= STEP_OUTER_REDUCE && b->at->fragments ? 1.0 / b->at->fragments : 1;
    out->local_s *= part;
    for (int i = 0; i < 2; i++) {
        out->alone_s[i] *= part;
        for (int tier = 0; tier < PLAN_TIERS; tier++)
            out->link_s[i][tier] *= part;
    }
}

void plan_choose_chunk(struct plan_case *c, const struct plan_traffic *t)
{
    const struct plan_strategy finest = {LETTER_G, LETTER_G, LETTER_G};
    struct plan_cost b =
        plan_cost_of(c, t, finest, c->algo == SCHEDULE_AUTO ? SCHEDULE_HO_RING : c->algo);
    double tried[PICK_CHUNKS];
    int largest = 0;

    for (int i = 0; i < t->spans; i++)
        largest = t->span[i].elems[PLAN_ALL] > t->span[largest].elems[PLAN_ALL] ? i : largest;
    for (int i = 0; i < PICK_CHUNKS; i++) {
        struct plan_flow f;
        tried[i] = NAN;
        if (pick_chunk_at[i] == PICK_CHUNK_WHOLE)
            continue;
        c->chunk_bytes = pick_chunk_at[i];
        plan_flow_of(&b, largest, STEP_GATHER, &f);
        tried[i] = f.alone_s[0];
    }
    int best = pick_best_chunk(tried, pick_messages_cost(c->topo));
    /* The smallest chunk that cuts no block, not below the default. */
    double block = (double)t->span[largest].elems[PLAN_ALL] *
                   dtype_bytes(plan_params_wire(&c->settings)) / t->layout.groups.ranks;
    while (pick_chunk_at[best] > PICK_CHUNK_USUAL && (double)pick_chunk_at[best - 1] >= block)
        best--;
    c->chunk_bytes = pick_chunk_at[best];
}

void plan_flow_bytes(struct plan_cost *b, double bytes[PLAN_TIERS][PLAN_SETS][PLAN_LEGS])
{
    for (int kind = 0; kind < STEP_COMPUTE; kind++) {
        int each = kind == STEP_GATHER || kind == STEP_REDUCE, leg[PLAN_PHASES];
        if (!b->step.shape.has[kind])
            continue;
        double times = each                        ? plan_micro_steps(&b->at->settings)
                       : kind >= STEP_OUTER_REDUCE ? 1.0 / b->at->sync_every
                                                   : 1;
        set_elem_bytes(b, (enum step_lane)kind);
        plan_legs_of(b->algo, b->step.lane[kind].phases, leg);
        for (int i = 0; i < PLAN_TIERS * PLAN_PHASES; i++) {
            int tier = i / PLAN_PHASES, at = leg[i % PLAN_PHASES];
            if (at < 0)
                continue;
            bytes[tier][cost_set_of((enum step_lane)kind)][at] += times * b->elem_bytes[tier];
            if (kind == STEP_GATHER)
                bytes[tier][PLAN_AGAIN][at] += times * b->elem_bytes[tier];
        }
    }
}
