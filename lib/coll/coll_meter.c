/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts the collectives under way.  Records which ranks wait for each other in a collective,
 * when it arrives at the head of its stream, and when it completes.  Streams run at the same
 * time, so ranks begin calls in different orders: a call's number is its index among the pushed
 * calls, whose order is the same on all ranks.
 */
#include "coll/coll_inside.h"

#include "base/tick.h"

enum { INSIDE, ACROSS, ALL };

static void init_comm(struct meter_comm *c, uint64_t run, int which, int place, int rank,
                      int ranks)
{
    const int32_t key[] = {which, place};

    *c =
        (struct meter_comm){.id = meter_id(key, sizeof key, run), .rank = rank, .ranks = ranks};
}

void coll_meter_init(struct coll *c, const struct coll_options *o)
{
    const struct groups *g = &c->layout.groups;
    int rank = c->world->rank, group = g->group_of[rank], place = g->local_of[rank], equal = 1;

    c->meter = o->meter;
    if (!c->meter)
        return;
    for (int k = 0; k < g->count; k++)
        equal &= g->members[k] == g->members[0];
    init_comm(&c->meter_comm[INSIDE], o->meter_run, INSIDE, group, place, g->members[group]);
    init_comm(&c->meter_comm[ACROSS], o->meter_run, ACROSS, place, group, equal ? g->count : 0);
    init_comm(&c->meter_comm[ALL], o->meter_run, ALL, 0, rank, g->ranks);
}

/* In unequal groups several ranks share a segment across groups: the wait is attributed to all
   ranks. */
static struct meter_comm *meter_comm_of(struct coll *c, unsigned phases)
{
    int inside = (phases & ~(SCHEDULE_REDUCE_INSIDE | SCHEDULE_GATHER_INSIDE)) == 0,
        across = (phases & ~(SCHEDULE_REDUCE_ACROSS | SCHEDULE_GATHER_ACROSS)) == 0;

    return &c->meter_comm[inside                                      ? INSIDE
                          : across && c->meter_comm[ACROSS].ranks > 0 ? ACROSS
                                                                      : ALL];
}

static enum meter_op op_of(unsigned phases, int part)
{
    unsigned reduce = phases & SCHEDULE_REDUCE_SCATTER, gather = phases & SCHEDULE_ALL_GATHER;

    if (phases & SCHEDULE_BROADCAST)
        return METER_BROADCAST;
    if (!part && reduce != SCHEDULE_REDUCE_SCATTER && gather != SCHEDULE_ALL_GATHER)
        return METER_CONVERT;
    if (!part && reduce != SCHEDULE_REDUCE_SCATTER)
        return METER_ALL_GATHER;
    if (!part && gather != SCHEDULE_ALL_GATHER)
        return METER_REDUCE_SCATTER;
    return reduce && gather ? METER_ALL_REDUCE
           : gather         ? METER_ALL_GATHER
                            : METER_REDUCE_SCATTER;
}

static int observed_start(void *arg, struct err *err)
{
    struct coll_call *call = arg;
    struct coll *c = call->handle->coll;
    const struct coll_spec *s = &call->handle->spec;

    atomic_fetch_add(&c->running, 1);
    if (call->sequence) {
        struct meter_comm *m = meter_comm_of(c, s->phases);
        call->metered = meter_arrive(c->meter, m, call->sequence,
                                     op_of(s->phases, m != &c->meter_comm[ALL]),
                                     s->elems * dtype_bytes(s->type));
        if (call->work_s > 0)
            meter_work(c->meter, call->metered, call->work_s);
    }
    return call->op.start ? call->op.start(call, err) : 0;
}

static enum stream_state observed_poll(void *arg, struct err *err)
{
    struct coll_call *call = arg;
    struct coll *c = call->handle->coll;
    enum stream_state now = call->op.poll(call, err);

    if (now != STREAM_DONE)
        return now;
    meter_complete(c->meter, call->metered);
    atomic_fetch_sub(&c->running, 1);
    return now;
}

/* Seconds that the pusher worked since its previous call; unknown with a GPU, which works
   asynchronously. */
static double work_s(struct coll *c)
{
    double now = tick_now_s(), work = now - c->pushed_s - c->waited_s;
    int known = c->pushed_s > 0 && !c->stages && !c->nccl;

    c->pushed_s = now;
    c->waited_s = 0;
    return known ? work : 0;
}

struct stream_op coll_observe(struct coll_call *call, struct stream_op op)
{
    struct coll *c = call->handle->coll;
    unsigned phases = c && c->meter ? call->handle->spec.phases : 0;

    if (!c)
        return op;
    call->op = op;
    call->sequence = phases ? ++meter_comm_of(c, phases)->calls : 0;
    call->metered = 0;
    call->work_s = phases ? work_s(c) : 0;
    return (struct stream_op){observed_start, observed_poll, call};
}
