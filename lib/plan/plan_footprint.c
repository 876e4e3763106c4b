/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the memory of a strategy: states and buffers as step/step_place.h allocates them,
 * activations as net/net_place.c does, and the buffers of collectives.  Also computes the bytes
 * that a run writes when it saves.
 */
#include "plan/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec_turns.h"
#include "kern/kern_kind.h"
#include "net/net.h"
#include "plan/plan_traffic.h"
#include "plan/plan_cost.h"
#include "step/step_place.h"

enum {
    ADAM_BYTES = 12, /* f32 master and two moments, as checkpoints have them */
    OUTER_BYTES = 8, /* the outer state: f32 anchor and momentum, which is saved */
    OWN_BYTES = 8,   /* the moments in f32, which with periods each group has of its own */
    F32_BYTES = 4
};

double plan_shard_of(const struct plan_traffic *t, enum letter letter, double elems)
{
    return letter == LETTER_N   ? elems
           : letter == LETTER_I ? elems / t->least_group
                                : elems / t->layout.groups.ranks;
}

/* Elements of partial sums, beyond the result's, in one reduction of one unit. */
static int64_t scratch(const struct plan_cost *b, const struct plan_share *s,
                       const struct plan_lane *lane)
{
    unsigned phases = lane->trimmed;
    int64_t all = s->trained[LETTER_N], group = s->trained[LETTER_I];
    int inside =
        phases & SCHEDULE_REDUCE_INSIDE && group < all; /* a group of one rank adds nothing */
    int64_t kept = 0;

    if (b->algo == SCHEDULE_RING &&
        (phases & SCHEDULE_REDUCE_SCATTER) == SCHEDULE_REDUCE_SCATTER)
        kept = all - s->rank_before; /* the first piece is sent unchanged */
    else if (inside)
        kept = group + s->carried;
    else if (phases & SCHEDULE_REDUCE_ACROSS)
        kept = group - s->group_before;
    kept -= s->trained[lane->to];
    return kept > 0 ? kept : 0;
}

/* Elements of the coding residuals of all units' reductions, on the rank with most. */
static double residual_elems(const struct plan_cost *b, enum step_lane lane)
{
    const struct plan_traffic *t = b->traffic;
    double times[PLAN_SETS][PLAN_LEGS] = {{0}}, all = t->elems[PLAN_TRAINED];
    int leg[PLAN_PHASES];

    if (!b->step.lane[lane].code)
        return 0;
    plan_legs_of(b->algo, b->step.lane[lane].trimmed, leg);
    if (leg[1] >= 0) /* partial sums, sent out of their group */
        times[PLAN_TRAINED][leg[1]] = 1;
    double sent = plan_traffic_largest(t, PLAN_RANK_SLOW, times);
    if (leg[2] < 0)
        return sent;
    /* Complete sums, sent to the other groups. */
    return sent + (leg[1] >= 0 ? plan_shard_of(t, LETTER_I, all) / t->layout.groups.count
                               : plan_shard_of(t, LETTER_G, all));
}

/*
 * Accumulators.  On the CPU every unit has its own; on a GPU with NCCL all units share one, in
 * which the addends arrive in slots of their track (exec/exec_turns.h), one track inside groups
 * and one across: a piece of a rank's part.
 */
static int64_t sums_bytes(const struct plan_cost *b, const struct plan_share *share)
{
    int64_t w = dtype_bytes(b->at->wire_type), all = 0, most = 0;
    int64_t ranks = b->traffic->layout.groups.ranks, chunk = b->at->chunk_bytes;

    for (int i = 0; i < b->traffic->spans; i++) {
        int64_t part = (b->traffic->span[i].elems[PLAN_TRAINED] + ranks - 1) / ranks * w;
        int64_t pieces = part > chunk ? (part + chunk - 1) / chunk : 1;
        for (int k = STEP_REDUCE; k <= STEP_OUTER_REDUCE; k++) {
            const struct plan_lane *lane = &b->step.lane[k];
            int64_t bytes = (k < STEP_SYNC ? w : F32_BYTES) * scratch(b, &share[i], lane);
            int tracks = (lane->trimmed & SCHEDULE_REDUCE_INSIDE) +
                         ((lane->trimmed & SCHEDULE_REDUCE_ACROSS) != 0);
            int64_t turn =
                turns_rounded(bytes) + turns_slots((part + pieces - 1) / pieces, tracks);
            all += bytes;
            most = turn > most ? turn : most;
        }
    }
    return b->at->device == DEVICE_CPU ? all : most;
}

/*
 * Upper bounds, so that no sum of bytes overflows.  Activations: twice a row of each array of a
 * layer, for each layer and for the arrays that exist once (net/net_place.c), and four rows of
 * logits.  States and buffers: 32 bytes a parameter.
 */
int plan_check_bytes(const struct model *m, int64_t micro_batch, int seq, struct err *err)
{
    double heads = (double)(m->heads + 2 * m->kv_heads);
    double layer =
        4 * ((double)m->hidden + (double)m->ffn + heads * (double)(m->head_dim + 2)) +
        4 * (double)m->lora.rank + 256;
    double rows = (double)micro_batch * seq;
    double bytes = F32_BYTES * rows * ((double)(m->layers + 4) * layer + 4 * (double)m->vocab) +
                   32 * (double)m->params;

    if (!m->unit || bytes < 0x1p62)
        return 0;
    return err_set(err, ERR_INPUT,
                   "%.2e parameters and micro-batches of %" PRId64
                   " x %d tokens: up to %.1e bytes on a rank, expected less than 2^62",
                   (double)m->params, micro_batch, seq, bytes);
}

struct plan_network plan_network_of(const struct plan_case *c)
{
    struct plan_network out = {.kern = 0};
    struct net_bytes bytes = {0};

    for (int gathered = 0; c->model->tensors && gathered < 2; gathered++) {
        enum dtype there = gathered ? plan_params_wire(&c->settings) : c->param_type;
        struct kern kern;
        const struct net_options options = {.batch = c->micro_batch,
                                            .seq = c->seq,
                                            .recompute = c->recompute,
                                            .together = plan_layered(&c->settings),
                                            .compute = c->compute_type,
                                            .kern = &kern};
        kern_kind_open(&kern, c->device, c->compute_type,
                       kern_kind_weight(c->device, c->compute_type, there));
        bytes = net_bytes(c->model, &options);
        out.activations[gathered] = bytes.arrays;
    }
    if (c->model->tensors && c->device != DEVICE_CPU) {
        int64_t least = KERN_KIND_PRODUCT_BYTES;
        out.kern = (bytes.work > least ? bytes.work : least) +
                   2 * kern_kind_own_bytes(c->device); /* one computes, one transfers */
    }
    return out;
}

/* Computes the memory of the ranks of one kind. */
static struct plan_memory memory_of(const struct plan_cost *b, const struct plan_network *net,
                                    int kind)
{
    const struct plan_case *c = b->at;
    struct plan_strategy letters = b->strategy;
    enum letter outer = b->step.lane[STEP_OUTER_REDUCE].to;
    int apart = b->step.space.has[STEP_OUTER_REDUCE];
    int spans = b->traffic->spans;
    const struct plan_share *share = &b->traffic->share[kind * spans];
    struct step_space space = b->step.space;
    struct step_unit *unit = mem_new((size_t)spans, sizeof *unit);
    struct arena own = {0}, shared = {0};
    struct plan_memory m = {.activations = (double)net->activations[space.has[STEP_GATHER]]};

    for (int i = 0; i < spans; i++) {
        const struct plan_share *s = &share[i];
        unit[i] = (struct step_unit){.elems = s->trained[LETTER_N] + s->frozen[LETTER_N],
                                     .trained = s->trained[LETTER_N],
                                     .params = s->trained[letters.params],
                                     .frozen = s->frozen[letters.params],
                                     .grads = s->trained[letters.grads],
                                     .optim = s->trained[letters.optimizer],
                                     .group = apart ? s->trained[LETTER_I] : 0,
                                     .outer = apart ? s->trained[outer] : 0,
                                     .count = b->traffic->span[i].count[PLAN_TRAINED]};
        m.params += (double)(unit[i].count * (unit[i].params + unit[i].frozen)) *
                    dtype_bytes(c->param_type);
        m.grads += (double)(unit[i].count * unit[i].grads) * dtype_bytes(c->grad_type);
        m.optimizer +=
            (double)(unit[i].count * (plan_optimizer_bytes(&c->settings, unit[i].optim) +
                                      unit[i].outer * OUTER_BYTES));
    }
    if (c->model->unit) {
        space.unit = unit;
        step_place(&space, &shared, &own, NULL, NULL);
        if (c->device == DEVICE_CPU) { /* a piece of the update, tokens, targets */
            arena_take(&own, PLAN_PIECE * F32_BYTES);
            int64_t tokens = (int64_t)plan_layered(&c->settings) * c->micro_batch * c->seq;
            arena_take_each(&own, tokens * (int64_t)sizeof(int32_t), 2);
        }
        m.buffers = (double)(shared.used + own.used + sums_bytes(b, share) + net->kern) -
                    m.params - m.grads - m.optimizer;
        if (c->device == DEVICE_CPU) /* residuals of codings, in host memory */
            m.buffers +=
                F32_BYTES * (residual_elems(b, STEP_REDUCE) + residual_elems(b, STEP_CONVERT) +
                             residual_elems(b, STEP_OUTER_REDUCE));
    }
    m.total = m.params + m.grads + m.optimizer + m.activations + m.buffers;
    mem_free(unit);
    return m;
}

void plan_footprint(const struct plan_cost *b, const struct plan_network *net,
                    struct plan_price *p)
{
    p->memory = (struct plan_memory){0};
    for (int k = 0; k < b->traffic->kinds; k++) {
        struct plan_memory m = memory_of(b, net, k);
        if (m.total > p->memory.total)
            p->memory = m;
    }
    p->feasible = b->at->memory_bytes <= 0 || p->memory.total <= b->at->memory_bytes;
}

struct requested { /* a plan, as it is priced */
    struct topo topo;
    struct plan_case at;
    struct plan_traffic traffic;
};

static void request(struct requested *a, const struct plan *p, enum device_kind device)
{
    topo_init_rateless(&a->topo, &p->groups);
    plan_case_of(p, &a->topo, &a->at);
    a->at.device = device;
    plan_traffic_init(&a->traffic, &a->topo, &p->model, &p->settings);
}

static void requested_release(struct requested *a)
{
    plan_traffic_release(&a->traffic);
    topo_release(&a->topo);
}

void plan_totals_on(const struct plan *p, enum device_kind device,
                    const struct plan_strategy *strategy, int n, double *bytes)
{
    struct requested a;

    request(&a, p, device);
    const struct plan_network net = plan_network_of(&a.at);
    for (int i = 0; i < n; i++) {
        struct plan_cost b = plan_cost_of(&a.at, &a.traffic, strategy[i], p->algo);
        struct plan_price price;
        plan_footprint(&b, &net, &price);
        bytes[i] = price.memory.total;
    }
    requested_release(&a);
}

double plan_sums_on(const struct plan *p, enum device_kind device)
{
    struct requested a;

    request(&a, p, device);
    struct plan_cost b = plan_cost_of(&a.at, &a.traffic, p->strategy, p->algo);
    double bytes = 0;

    for (int k = 0; k < a.traffic.kinds; k++)
        bytes = fmax(bytes, (double)sums_bytes(&b, &a.traffic.share[k * a.traffic.spans]));
    requested_release(&a);
    return bytes;
}

/* ---- a checkpoint (train/train_state.c) ---- */

struct host_group { /* a group on its host */
    const char *host;
    int ranks;
};

static int footprint_by_host(const void *a, const void *b)
{
    return strcmp(((const struct host_group *)a)->host, ((const struct host_group *)b)->host);
}

struct plan_hosts plan_hosts_of(const struct topo *t)
{
    int count = t->groups.count, sum = 0;
    struct host_group *all = mem_new((size_t)count, sizeof *all);
    struct plan_hosts h = {0, 0};

    for (int k = 0; k < count; k++)
        all[k] =
            (struct host_group){t->host && t->host[k] ? t->host[k] : "", t->groups.members[k]};
    qsort(all, (size_t)count, sizeof *all, footprint_by_host);
    for (int k = 0; k < count; k++) {
        int same = k > 0 && all[k].host[0] && strcmp(all[k].host, all[k - 1].host) == 0;
        sum = (same ? sum : 0) + all[k].ranks;
        h.count += !same;
        h.most = sum > h.most ? sum : h.most;
    }
    mem_free(all);
    return h;
}

/* Returns the bytes of a parameter in a checkpoint. */
static int saved_bytes(const struct plan_case *c)
{
    enum dtype type = c->param_type; /* the plan's if there is no file; otherwise the model's
                                        own */
    struct err ignored;

    if (c->model->unit && dtype_parse(c->model->dtype, &type, &ignored))
        type = c->param_type;
    return dtype_bytes(type);
}

struct plan_saved plan_saved_of(const struct plan_case *c, const struct plan_traffic *t)
{
    struct plan_saved most = {0, 0, 0};
    int w = saved_bytes(c), apart = plan_apart(&c->settings, &t->layout.groups);

    for (int r = 0; r < t->kinds; r++) {
        struct plan_saved s = {
            (double)(w * plan_traffic_shard(t, PLAN_ALL, LETTER_G, r)),
            (double)(ADAM_BYTES * plan_traffic_shard(t, PLAN_TRAINED, LETTER_G, r)) +
                apart * OWN_BYTES *
                    (double)(plan_traffic_shard(t, PLAN_TRAINED, LETTER_I, r) -
                             plan_traffic_shard(t, PLAN_TRAINED, LETTER_G, r)) +
                apart * F32_BYTES * (double)plan_traffic_shard(t, PLAN_TRAINED, LETTER_G, r),
            (double)(4 * plan_traffic_shard(t, PLAN_ALL, LETTER_G, r)) -
                (double)(4 * plan_traffic_shard(t, PLAN_TRAINED, LETTER_G, r))};
        if (s.params + s.optimizer > most.params + most.optimizer)
            most = s;
    }
    return most;
}

struct plan_checkpoint plan_checkpoint(const struct plan_search *s,
                                       const struct plan_traffic *t)
{
    struct plan_saved most = plan_saved_of(&s->at, t);
    int groups = t->layout.groups.count, apart = plan_apart(&s->at.settings, &t->layout.groups);
    struct plan_checkpoint p = {
        .bytes = saved_bytes(&s->at) * t->elems[PLAN_ALL] +
                 (ADAM_BYTES + apart * (F32_BYTES + OWN_BYTES * (groups - 1))) *
                     t->elems[PLAN_TRAINED],
        .rank_bytes = most.params + most.optimizer};

    /* Shards differ by a few elements: the ranks with the largest do not write more than
       all. */
    if (s->storage_Bps > 0)
        p.s = fmin(p.rank_bytes * plan_hosts_of(plan_search_whole(s)).most, p.bytes) /
              plan_search_storage(s);
    return p;
}
