/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a strategy keeps in memory: states by the layout (paro-method(7), MEMORY),
 * activations by the decoder (plan/activations.h), buffers by the engine.  It is the engine's
 * placement (engine/engine_place.c) in numbers, and a test holds the two against each other.
 */
#include "plan/plan.h"

#include <math.h>

#include "exec/exec_turns.h"
#include "plan/tally.h"
#include "step/step.h"

enum {
    ADAM_BYTES = 12, /* f32 master and two moments */
    F32_BYTES = 4,
    TURN_ALIGN = 256 /* of a slot, and of sums before them: exec/exec_turns.c */
};

struct shards { /* of one unit, elements, of the rank that has most */
    double whole, params, grads, optimizer;
};

double plan_shard_of(const struct plan_tally *t, enum letter letter, double elems)
{
    return letter == LETTER_N   ? elems
           : letter == LETTER_I ? elems / t->least_group
                                : elems / t->layout.groups.ranks;
}

static struct shards shards_of(const struct plan_tally *t, struct plan_strategy s, double elems)
{
    return (struct shards){elems, plan_shard_of(t, s.params, elems),
                           plan_shard_of(t, s.grads, elems),
                           plan_shard_of(t, s.optimizer, elems)};
}

/* Whether a conversion moves anything on this shape: layout_moves_trim, of groups once seen. */
static int there(const struct plan_tally *t, struct layout_moves m)
{
    return ((m.reduce_across || m.gather_across) && t->layout.groups.count > 1) ||
           ((m.reduce_inside || m.gather_inside) && t->largest_group > 1);
}

/* Partial sums that have no place in the result, of one reduction over one unit. */
static double scratch(const struct plan_tally *t, enum schedule_algo algo, double elems,
                      enum letter to, struct layout_moves m)
{
    double group = plan_shard_of(t, LETTER_I, elems),
           global = plan_shard_of(t, LETTER_G, elems);
    int flat = algo == SCHEDULE_RING && m.reduce_inside && m.reduce_across;

    m.reduce_across &= t->layout.groups.count > 1;
    m.reduce_inside &= t->largest_group > 1;
    if (!(m.reduce_inside || m.reduce_across))
        return 0;
    if (to == LETTER_G && m.reduce_across && !m.reduce_inside)
        return fmax(group - 2 * global, 0); /* what comes first leaves as it came */
    if (to == LETTER_G)
        return (flat ? elems : m.reduce_across ? group : global) - global;
    return to == LETTER_I && flat ? elems - group : 0;
}

/* Places for gathered units, each as large as the largest. */
static double slots(const struct plan_case *c)
{
    return step_slots(&(struct step_shape){.visits = c->model->visits,
                                           .first_trained = c->model->first_trained,
                                           .micros = c->accum,
                                           .prefetch = c->prefetch,
                                           .keep = c->keep,
                                           .has[STEP_GATHER] = 1});
}

/* What one reduction of all units may have lost, kept by the rank that keeps most. */
static double residual_elems(const struct plan_tally *t, enum schedule_algo algo,
                             struct layout_moves m)
{
    double times[PLAN_SETS][PLAN_LEGS] = {{0}}, all = t->elems[PLAN_TRAINED];
    int even = m.reduce_across && m.gather_across;
    int flat = algo == SCHEDULE_RING && m.reduce_inside == m.reduce_across &&
               m.gather_inside == m.gather_across;

    if (!layout_moves_trim(&t->layout, &m))
        return 0;
    if (m.reduce_across) /* parts of sums, where they leave their group */
        times[PLAN_TRAINED][flat   ? PLAN_RING_REDUCE
                            : even ? PLAN_EVEN_REDUCE
                                   : PLAN_ACROSS_REDUCE] = 1;
    double sent = plan_tally_largest(t, PLAN_RANK_SLOW, times);
    /* Complete sums, where they are given to the other groups. */
    double owned = even ? plan_shard_of(t, LETTER_I, all) / t->layout.groups.count
                        : plan_shard_of(t, LETTER_G, all);
    return sent + (m.gather_across ? owned : 0);
}

/* Elements of the first unit that train. */
static double first_trained(const struct plan_tally *t)
{
    return (double)t->span[t->span_of[0]].elems[PLAN_TRAINED];
}

/* What is read and written by the processor: of a GPU it is the host's. */
static double host_bytes(const struct plan_case *c)
{
    return c->device == DEVICE_CPU ? F32_BYTES * (PLAN_PIECE + 2.0 * c->micro_batch * c->seq)
                                   : 0; /* a piece of the update, tokens, targets */
}

static int is_gathered(const struct plan_tally *t, struct plan_strategy s)
{
    return there(t, layout_moves_copy(s.params, LETTER_N));
}

/* The type of parameters where a use finds them. */
static enum dtype there_type(const struct plan_case *c, const struct plan_tally *t,
                             struct plan_strategy s)
{
    return is_gathered(t, s) ? c->wire_type : c->param_type;
}

/* Of parameters: gathered units, and one in the type that the network reads, where that is
   another. */
static double gather_bytes(const struct plan_case *c, const struct plan_tally *t,
                           struct plan_strategy s)
{
    struct shards l = shards_of(t, s, (double)t->largest[PLAN_ALL]);
    struct layout_moves gather = layout_moves_copy(s.params, LETTER_N);
    enum dtype at = there_type(c, t, s),
               read = kern_kind_weight(c->device, c->compute_type, at);
    double w = dtype_bytes(c->wire_type), bytes = at != read ? l.whole * dtype_bytes(read) : 0;

    layout_moves_trim(&t->layout, &gather);
    int apart = c->param_type != c->wire_type || (c->slow_params && gather.gather_across);
    if (is_gathered(t, s))
        bytes += slots(c) * l.whole * w + (apart ? l.params * w : 0);
    return bytes;
}

/*
 * Over NCCL (exec/exec_turns.h) what is to be added arrives in one of three slots of its track,
 * one for what goes inside and one for what goes across: a piece of a rank's part.
 */
static double slots_bytes(const struct plan_case *c, const struct plan_tally *t, double elems,
                          struct layout_moves m)
{
    double part = ceil(elems / t->layout.groups.ranks) * dtype_bytes(c->wire_type);
    double pieces = ceil(part / (double)c->chunk_bytes);

    layout_moves_trim(&t->layout, &m);
    int tracks = m.reduce_inside + m.reduce_across;
    return part > 0 ? tracks * TURN_SLOTS * ceil(part / pieces / TURN_ALIGN) * TURN_ALIGN : 0;
}

/*
 * Sums that have no place in a result: of the processor each unit's reductions have theirs, of
 * a GPU, over NCCL, all take turns in one.
 */
static double sums_bytes(const struct plan_case *c, const struct plan_tally *t,
                         enum schedule_algo algo, struct plan_strategy s)
{
    struct layout_moves micro = layout_moves_micro(s.grads);
    struct layout_moves boundary = layout_moves_sum(s.grads, s.optimizer);
    double w = dtype_bytes(c->wire_type), all = 0, most = 0;

    for (int i = 0; i < t->spans; i++) {
        double elems = (double)t->span[i].elems[PLAN_TRAINED];
        double a = w * scratch(t, algo, elems, s.grads, micro);
        double b = w * scratch(t, algo, elems, s.optimizer, boundary);
        all += a + b;
        most = fmax(most, a + slots_bytes(c, t, elems, micro));
        most = fmax(most, b + slots_bytes(c, t, elems, boundary));
    }
    return c->device == DEVICE_CPU ? all : most;
}

/* What codings have lost so far: of the host, which codes. */
static double lost_bytes(const struct plan_case *c, const struct plan_tally *t,
                         enum schedule_algo algo, struct plan_strategy s)
{
    if (!c->slow_grads || c->device != DEVICE_CPU)
        return 0;
    return F32_BYTES * (residual_elems(t, algo, layout_moves_micro(s.grads)) +
                        residual_elems(t, algo, layout_moves_sum(s.grads, s.optimizer)));
}

static double buffer_bytes(const struct plan_case *c, const struct plan_tally *t,
                           enum schedule_algo algo, struct plan_strategy s)
{
    struct shards g = shards_of(t, s, (double)t->largest[PLAN_TRAINED]); /* of gradients */
    double w = dtype_bytes(c->wire_type), bytes;
    int convert = c->param_type != c->wire_type;
    struct layout_moves micro = layout_moves_micro(s.grads);

    if (!c->model->unit)
        return 0;
    bytes = host_bytes(c) + gather_bytes(c, t, s);
    if (there(t, micro))
        bytes += c->buckets * g.whole * w;
    if (there(t, micro) || c->grad_type != DTYPE_F32)
        bytes += F32_BYTES * (g.whole + (c->model->tied ? first_trained(t) : 0));
    if (there(t, micro))
        bytes += g.grads * w;
    if (there(t, layout_moves_sum(s.grads, s.optimizer)))
        bytes += (g.grads + g.optimizer) * w;
    if (there(t, layout_moves_copy(s.optimizer, s.params)))
        bytes += g.optimizer * w + (convert ? g.params * w : 0);
    bytes += sums_bytes(c, t, algo, s) + lost_bytes(c, t, algo, s);
    /* At the boundary the gradient takes the optimizer's layout where it lies. */
    double more = plan_shard_of(t, s.optimizer, t->elems[PLAN_TRAINED]) -
                  plan_shard_of(t, s.grads, t->elems[PLAN_TRAINED]);
    return bytes + (more > 0 ? more * dtype_bytes(c->grad_type) : 0);
}

void plan_footprint(const struct plan_case *c, const struct plan_tally *t, struct plan_price *p)
{
    struct plan_strategy s = p->strategy;
    struct plan_memory top = {0};
    const struct plan_micro micro = {
        c->micro_batch, c->seq, c->recompute, c->compute_type, there_type(c, t, s), c->device};

    for (int r = 0; r < t->kinds; r++) {
        struct plan_memory m = {
            .params = dtype_bytes(c->param_type) * plan_tally_shard(t, PLAN_ALL, s.params, r),
            .grads = dtype_bytes(c->grad_type) * plan_tally_shard(t, PLAN_TRAINED, s.grads, r),
            .optimizer = ADAM_BYTES * plan_tally_shard(t, PLAN_TRAINED, s.optimizer, r),
        };
        m.total = m.params + m.grads + m.optimizer;
        if (m.total > top.total)
            top = m;
    }
    top.activations = plan_activation_bytes(c->model, &micro);
    top.buffers = buffer_bytes(c, t, p->algo, s) + plan_kern_bytes(c->model, &micro);
    top.total += top.activations + top.buffers;
    p->memory = top;
    p->feasible = c->memory_bytes <= 0 || top.total <= c->memory_bytes;
}

/* A fabric of the plan's groups: bytes do not ask for rates. */
static void make_fabric(const struct plan *p, struct topo *t)
{
    topo_init(t, 2, &p->groups);
    for (int i = 0; i < 2; i++)
        t->level[i].port_Bps = t->level[i].flow_Bps = t->level[i].member_Bps = 1e9;
    for (int k = 0; k < p->groups.count; k++)
        t->port[k].out_Bps = t->port[k].in_Bps = 1e9;
}

struct asked { /* a plan, as it is priced */
    struct topo topo;
    struct plan_case at;
    struct plan_tally tally;
};

static void ask(struct asked *a, const struct plan *p, enum device_kind device)
{
    struct plan_case *c = &a->at;

    make_fabric(p, &a->topo);
    plan_case_init(c, &a->topo, &p->model);
    c->trainable = p->trainable;
    c->micro_batch = p->micro_batch;
    c->accum = p->accum;
    c->seq = p->seq;
    c->param_type = p->param_type;
    c->wire_type = p->wire_type;
    c->grad_type = p->grad_type;
    c->compute_type = p->compute_type;
    c->slow_params = p->slow_params;
    c->slow_grads = p->slow_grads;
    c->prefetch = p->prefetch;
    c->buckets = p->buckets;
    c->keep = p->keep;
    c->recompute = p->recompute;
    c->chunk_bytes = p->chunk_bytes;
    c->device = device;
    plan_tally_init(&a->tally, &a->topo, &p->model, p->trainable, p->keep);
}

static void asked_release(struct asked *a)
{
    plan_tally_release(&a->tally);
    topo_release(&a->topo);
}

void plan_memory_on(const struct plan *p, enum device_kind device,
                    struct plan_memory out[PLAN_STRATEGIES])
{
    struct asked a;

    ask(&a, p, device);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        struct plan_price price = {.strategy = plan_strategy_at(i), .algo = p->algo};
        plan_footprint(&a.at, &a.tally, &price);
        out[i] = price.memory;
    }
    asked_release(&a);
}

double plan_sums_on(const struct plan *p, enum device_kind device)
{
    struct asked a;

    ask(&a, p, device);
    double bytes = sums_bytes(&a.at, &a.tally, p->algo, p->strategy);
    asked_release(&a);
    return bytes;
}
