/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places a rank's data under a strategy: shards from the layout, memory in two arenas (one that
 * the ranks of the host share, for payloads) as step/step_place.h lays it out, and the prepared
 * conversions.  The code is the same for all letters.
 */
#include "engine/engine_inside.h"

#include <inttypes.h>
#include <string.h>

#include "kern/kern_cpu.h"
#include "plan/plan_deal.h"

void *engine_frozen(const struct engine *e, const struct engine_unit *u)
{
    return (char *)u->params + u->share[ENGINE_PARAMS].elems * dtype_bytes(e->plan->param_type);
}

static void measure_unit(struct engine *e, struct engine_unit *u, const struct model_unit *mu,
                         struct step_unit *held)
{
    struct plan_strategy s = plan_inner(&e->plan->settings, e->plan->strategy);
    const enum letter letter[ENGINE_SHARES] = {
        s.params, s.grads, s.optimizer, s.params, e->step.lane[STEP_OUTER_REDUCE].to, LETTER_I};

    u->elems = mu->elems;
    u->trained = mu->trained;
    for (int i = 0; i < (e->periods ? ENGINE_SHARES : ENGINE_OUTER); i++) {
        int64_t elems = i == ENGINE_FROZEN ? u->elems - u->trained : u->trained;
        struct engine_share *h = &u->share[i];
        h->elems = layout_elems(&e->layout, letter[i], e->world->rank, elems);
        h->range = mem_new((size_t)layout_ranges_max(&e->layout), sizeof *h->range);
        h->ranges = layout_ranges(&e->layout, letter[i], e->world->rank, elems, h->range);
    }
    for (int i = 0; i < u->share[ENGINE_FROZEN].ranges; i++) { /* after the trained elements */
        u->share[ENGINE_FROZEN].range[i].lo += u->trained;
        u->share[ENGINE_FROZEN].range[i].hi += u->trained;
    }
    *held = (struct step_unit){.elems = u->elems,
                               .trained = u->trained,
                               .params = u->share[ENGINE_PARAMS].elems,
                               .grads = u->share[ENGINE_GRADS].elems,
                               .optim = u->share[ENGINE_OPTIM].elems,
                               .frozen = u->share[ENGINE_FROZEN].elems,
                               .group = u->share[ENGINE_GROUP].elems,
                               .outer = u->share[ENGINE_OUTER].elems,
                               .count = 1};
}

/* Measures memory; or assigns it, if the arenas have memory. */
static void place_memory(struct engine *e)
{
    struct arena *host = e->device.gpu ? &e->host : &e->own; /* memory that the CPU uses */
    int64_t tokens = (int64_t)e->plan->micro_batch * e->plan->seq * 4;
    int units = e->model->units;
    struct step_states *states = mem_new((size_t)units, sizeof *states);

    step_place(&e->step.space, &e->shared, &e->own, states, &e->buffers);
    for (int i = 0; i < units; i++) {
        struct engine_unit *u = &e->unit[i];
        u->params = states[i].params;
        u->grads = states[i].grads;
        u->master = states[i].master;
        u->m = states[i].m;
        u->v = states[i].v;
        u->anchor = states[i].anchor;
        u->momentum = states[i].momentum;
    }
    mem_free(states);
    net_place(&e->net, &e->own);
    e->piece = arena_take(host, ENGINE_PIECE * 4);
    e->tokens = arena_take(host, e->layered * tokens);
    e->targets = arena_take(host, e->layered * tokens);
    if (e->device.gpu)
        e->device.io = arena_take(host, ENGINE_PIECE * 4);
}

/* Residuals belong to a unit, as handles are shared by all units of one size. */
static void place_residuals(struct engine *e)
{
    for (int i = 0; i < e->model->units; i++)
        for (int kind = STEP_REDUCE; kind <= STEP_OUTER_REDUCE; kind++) {
            struct engine_unit *u = &e->unit[i];
            int64_t elems = u->size ? u->size->handle[kind].residual_elems : 0;
            if (elems && kind != STEP_SYNC)
                u->residual[kind] = arena_take(&e->residuals, elems * 4);
        }
}

void engine_residuals_clear(struct engine *e)
{
    if (e->residuals.base)
        memset(e->residuals.base, 0, (size_t)e->residuals.used);
}

/* Finds the size record for vectors of `elems` elements; prepares it at first use. */
static int find_size(struct engine *e, int64_t elems, int frozen, struct engine_size **out,
                     struct err *err)
{
    int at = 0;

    if (elems == 0)
        return 0;
    while (at < e->sizes && (e->size[at].elems != elems || e->size[at].frozen != frozen))
        at++;
    *out = &e->size[at];
    if (at < e->sizes)
        return 0;
    e->sizes++;
    **out = (struct engine_size){.elems = elems, .frozen = frozen};
    for (int kind = 0; kind < STEP_COMPUTE; kind++) {
        const struct plan_lane *lane = &e->step.lane[kind];
        struct coll_spec spec = {.phases = lane->trimmed,
                                 .from = lane->from,
                                 .to = lane->to,
                                 .elems = elems,
                                 .type = lane->type,
                                 .algo = e->tuning ? SCHEDULE_AUTO : e->plan->algo,
                                 .chunk_bytes = e->plan->chunk_bytes,
                                 .code = lane->code,
                                 .stage = kind};
        if (!lane->trimmed || (frozen && kind != STEP_GATHER))
            continue;
        if (coll_prepare(&e->coll, &spec, &(*out)->handle[kind], err))
            return -1;
    }
    return 0;
}

/* For the reports: bytes that each rank sends after the agreement, to bring the new parameters
   of all units to their layout. */
static int share_sync_traffic(struct engine *e, enum engine_lists which,
                              struct coll_traffic *all, struct err *err)
{
    const struct step *s = &engine_list(e, which, e->step.shape.micros)->step;
    struct coll_traffic sync = {0};

    for (int i = s->norm; i < s->rows; i++)
        if (s->row[i].lane >= STEP_SYNC && s->row[i].lane < STEP_COMPUTE)
            coll_traffic_add(&sync, &e->unit[s->row[i].unit].size->handle[s->row[i].lane].mine,
                             1);
    return world_allgather(e->world, &sync, sizeof sync, all, err);
}

static int prepare_collectives(struct engine *e, struct err *err)
{
    e->size = mem_new((size_t)e->model->units * ENGINE_PARTS, sizeof *e->size);
    for (int i = 0; i < e->model->units; i++) {
        struct engine_unit *u = &e->unit[i];
        if (find_size(e, u->trained, 0, &u->size, err) ||
            find_size(e, u->elems - u->trained, 1, &u->frozen_size, err))
            return -1;
    }
    place_residuals(e); /* measures: the prepared collectives determine the size */
    int64_t bytes = e->residuals.used;
    int rc = bytes ? arena_init(&e->residuals, bytes, "residuals of coded gradients", err) : 0;
    if (world_agree(e->world, rc, err))
        return -1;
    if (bytes)
        place_residuals(e);
    return share_sync_traffic(e, ENGINE_STEPS, e->sync_traffic, err) ||
                   (e->periods &&
                    share_sync_traffic(e, ENGINE_ENDS, e->sync_traffic + e->world->ranks, err))
               ? -1
               : 0;
}

int engine_check(const struct plan *p, int ranks, struct err *err)
{
    if (p->groups.ranks != ranks)
        return err_set(err, ERR_MISMATCH, "the plan is for %d ranks, but %d run",
                       p->groups.ranks, ranks);
    if (p->model.units == 0)
        return err_set(err, ERR_INPUT,
                       "the plan's model is a number of parameters, expected a "
                       "config.json's model");
    if (p->trainable != p->model.trained)
        return err_set(err, ERR_INPUT,
                       "the plan is for %" PRId64
                       " trained parameters, but of its model %" PRId64
                       " train: expected --trainable with what trains, not how much",
                       p->trainable, p->model.trained);
    if (p->model.sparse.share > 0 && p->slow_params)
        return err_set(
            err, ERR_INPUT,
            "the plan rounds parameters between groups, which changes masks of a sparse model:"
            " expected 'same' for parameters");
    int micros = plan_micro_steps(&p->settings);
    double uses = 2.0 * micros * p->model.visits;
    if (uses > STEP_USES_MAX)
        return err_set(err, ERR_INPUT,
                       "the plan's step uses units %.0f times in %d micro-steps, expected %d"
                       " times at most",
                       uses, micros, STEP_USES_MAX);
    return 0;
}

/* Sets the shape of a step's rows, and the number of units gathered at a time. */
static void set_step(struct engine *e, enum device_kind device)
{
    const struct plan *p = e->plan;
    const struct model *m = e->model;
    struct plan_settings settings = p->settings;
    char *trains = mem_new((size_t)m->units, 1);

    settings.device = device;
    e->step = plan_step_of(m, &settings, p->strategy, &e->layout);
    for (int i = 0; i < m->units; i++)
        trains[i] = m->unit[i].trained > 0;
    e->step.shape.trains = trains;
    e->step.space.grad = e->grad_type; /* these differ from the plan's if sums are exact */
    e->step.space.reduce = e->reduce_type;
    e->step.space.outer = e->outer_type;
    e->step.lane[STEP_REDUCE].type = e->step.lane[STEP_CONVERT].type = e->reduce_type;
    e->step.lane[STEP_OUTER_REDUCE].type = e->outer_type;
    if (e->exact || e->apart)
        e->step.space.apart = e->layered;
    e->slot = mem_new((size_t)e->step.space.slots + 1, sizeof *e->slot);
    e->bucket = mem_new((size_t)p->buckets, sizeof *e->bucket);
    e->buffers.slot = mem_new((size_t)e->step.space.slots + 1, sizeof *e->buffers.slot);
    e->buffers.bucket = mem_new((size_t)p->buckets, sizeof *e->buffers.bucket);
}

int engine_coded(const struct engine *e)
{
    int coded = 0;

    for (int k = 0; k < STEP_COMPUTE; k++)
        coded |= e->step.lane[k].code != EXEC_CODE_SAME;
    return coded;
}

/* The local part of opening; the collective part follows when all ranks agree. */
static int set_up(struct engine *e, const struct engine_options *o, struct err *err)
{
    struct net_options options = {.batch = e->plan->micro_batch,
                                  .seq = e->plan->seq,
                                  .recompute = e->plan->recompute,
                                  .together = e->layered,
                                  .compute = e->plan->compute_type,
                                  .graphs = o->graphs,
                                  .begins = o->begins,
                                  .kern = &e->device.kern};
    const struct plan *p = e->plan;

    if (engine_check(e->plan, e->world->ranks, err))
        return -1;
    e->micros = plan_count_of(&p->settings, e->world->ranks, e->world->rank);
    layout_init(&e->layout, &e->plan->groups);
    e->layout.grain = moments_grain(e->plan->moments);
    set_step(e, o->device ? device_kind(o->device) : DEVICE_CPU);
    if (e->exact && engine_coded(e))
        return err_set(err, ERR_INPUT,
                       "the plan rounds data between groups: expected 'same' for exact sums");
    /* Number of parameter addresses: the slots used in rotation, in a step or an evaluation, or
       a kept one. */
    options.places =
        (p->prefetch < e->step.space.slots ? p->prefetch + 1 : e->step.space.slots) +
        (p->keep > 0);
    /* Reserves the memory that kernels of the step's shapes need, so that engine_device_memory
       counts it. */
    if (engine_device_open(e, o, err) || net_init(&e->net, e->model, &options, err) ||
        e->device.kern.op->reserve(&e->device.kern, net_bytes(e->model, &options).work, err))
        return -1;
    e->unit = mem_new((size_t)e->model->units, sizeof *e->unit);
    if (engine_device_events(e, err))
        return -1;
    e->words = mem_new(2 * (size_t)e->world->ranks, sizeof *e->words);
    e->traffic = mem_new((size_t)e->world->ranks, sizeof *e->traffic);
    e->sync_traffic = mem_new(2 * (size_t)e->world->ranks, sizeof *e->sync_traffic);
    e->ranges = mem_new((size_t)layout_ranges_max(&e->layout), sizeof *e->ranges);
    struct step_unit *held = mem_new((size_t)e->model->units, sizeof *held);
    for (int i = 0; i < e->model->units; i++)
        measure_unit(e, &e->unit[i], &e->model->unit[i], &held[i]);
    e->step.space.unit = held;
    e->step.space.units = e->model->units;
    e->step.space.tied = e->model->tied ? e->unit[0].trained : 0;
    e->state_bytes = step_state_bytes(&e->step.space);
    place_memory(e); /* measures */
    return 0;
}

static int open_arenas(struct engine *e, struct err *err)
{
    int64_t shared = e->shared.used;
    int gpu = e->device.gpu;
    struct coll_stage stage[STEP_COMPUTE];
    struct coll_options options = {.shared_bytes = gpu ? 0 : shared,
                                   .grain = e->layout.grain,
                                   .tuning = e->tuning,
                                   .device = e->device.at,
                                   .transport = e->transport,
                                   .stage = stage,
                                   .stages = STEP_COMPUTE,
                                   .meter = e->meter,
                                   .meter_run = e->meter_run};
    struct step_unit l = step_largest(&e->step.space);
    int w = dtype_bytes(e->seen_type), r = dtype_bytes(e->reduce_type),
        o = dtype_bytes(e->outer_type);
    const struct coll_stage all[] = {
        [STEP_GATHER] = {(l.params > l.frozen ? l.params : l.frozen) * w, l.elems * w},
        [STEP_REDUCE] = {l.trained * r, l.grads * r},
        [STEP_CONVERT] = {l.grads * r, l.optim * r},
        [STEP_SYNC] = {l.optim * w, l.params * w},
        [STEP_OUTER_REDUCE] = {l.group * o, l.outer * o},
        [STEP_OUTER_GATHER] = {l.outer * 4, l.optim * 4},
    };

    for (int kind = 0; kind < STEP_COMPUTE; kind++)
        stage[kind] =
            e->step.shape.has[kind] && (e->transport == COLL_MPI || e->step.lane[kind].code)
                ? all[kind]
                : (struct coll_stage){0};
    int rc = engine_device_memory(e, e->own.used, shared, err);
    if (world_agree(e->world, rc, err))
        return -1;
    if (coll_open(&e->coll, e->world, &e->plan->groups, &options, err))
        return -1;
    if (e->periods &&
        world_peers_open(e->world, e->plan->groups.group_of[e->world->rank], &e->group, err))
        return -1;
    if (!gpu)
        arena_borrow(&e->shared, shared ? coll_take(&e->coll, shared) : NULL, shared);
    place_memory(e);
    return 0;
}

int engine_open(struct engine **out, struct world *world, const struct plan *plan,
                const struct engine_options *options, struct err *err)
{
    struct engine *e = mem_new(1, sizeof *e);

    kern_thread_init();
    *e = (struct engine){.world = world,
                         .plan = plan,
                         .tuning = options->tuning,
                         .model = &plan->model,
                         .exact = options->exact,
                         .apart = options->apart,
                         .layered = plan_layered(&plan->settings),
                         .periods = plan_apart(&plan->settings, &plan->groups),
                         .group = {.ranks = 1},
                         .masked = options->masked,
                         .transport = options->transport,
                         .meter = options->meter,
                         .meter_run = options->meter_run,
                         .grad_type = options->exact ? DTYPE_F64 : plan->grad_type,
                         .reduce_type = options->exact ? DTYPE_F64 : plan->wire_type,
                         .outer_type = options->exact ? DTYPE_F64 : DTYPE_F32,
                         .seen_type = plan_params_wire(&plan->settings)};
    if (world_agree(world, set_up(e, options, err), err) || open_arenas(e, err) ||
        prepare_collectives(e, err)) {
        engine_close(e);
        return -1;
    }
    /* A conversion has at most three operations. */
    const int space[STEP_COMPUTE] = {ENGINE_PARTS * e->step.space.slots,
                                     e->step.shape.buckets,
                                     e->model->units,
                                     e->model->units,
                                     e->model->units,
                                     e->model->units};
    for (int lane = 0; lane < STEP_COMPUTE; lane++)
        e->stream[lane] = stream_open(e->coll.runner, 3 * space[lane] + 3);
    *out = e;
    return 0;
}

void engine_close(struct engine *e)
{
    if (!e)
        return;
    runner_close(e->coll.runner); /* queued work ends before its buffers are freed */
    e->coll.runner = NULL;
    for (int i = 0; i < e->sizes; i++)
        for (int kind = 0; kind < STEP_COMPUTE; kind++) {
            e->size[i].handle[kind].stream =
                NULL; /* freed with the runner: nothing to wait for */
            coll_free(&e->size[i].handle[kind]);
        }
    coll_close(&e->coll);
    world_peers_close(&e->group);
    for (int i = 0; e->unit && i < e->model->units; i++)
        for (int k = 0; k < ENGINE_SHARES; k++)
            mem_free(e->unit[i].share[k].range);
    engine_device_drain(e);
    engine_device_events_close(e);
    engine_lists_release(e);
    MEM_FREE(e->unit, e->size, e->slot, e->bucket, e->words, e->traffic, e->sync_traffic,
             e->ranges, e->record.time, e->buffers.slot, e->buffers.bucket,
             (void *)(uintptr_t)e->step.space.unit);
    if (e->net.buffers)
        net_release(&e->net);
    arena_release(&e->own);
    arena_release(&e->residuals);
    engine_device_close(e);
    layout_release(&e->layout);
    mem_free(e);
}

int64_t engine_state_bytes(const struct engine *e)
{
    return e->state_bytes;
}

int64_t engine_buffer_bytes(const struct engine *e)
{
    int64_t scratch = 0;

    for (int i = 0; i < e->sizes; i++)
        for (int kind = 0; kind < STEP_COMPUTE; kind++)
            scratch += e->size[i].handle[kind].scratch_bytes;
    return e->shared.used + e->own.used + e->residuals.used + scratch - e->state_bytes;
}

void engine_memory(const struct engine *e, struct engine_memory *m)
{
    int64_t device = e->shared.used + e->own.used;
    int64_t beside = engine_buffer_bytes(e) + e->state_bytes - device;

    *m = (struct engine_memory){.device_bytes = device, .planned_bytes = engine_planned(e)};
    if (e->device.gpu) {
        m->device_bytes += e->device.kern.bytes + e->device.mover.bytes + coll_on_gpu(&e->coll);
        m->host_bytes = beside + e->host.used + coll_staged(&e->coll);
        m->unpinned = !coll_is_pinned(&e->coll);
    } else {
        m->device_bytes += beside;
    }
}

const char *engine_attention_by(const struct engine *e)
{
    return net_attention_by(&e->net);
}

struct net_graphs_report engine_graphs(const struct engine *e)
{
    return net_graphs_said(&e->net);
}

const struct layout *engine_layout(const struct engine *e)
{
    return &e->layout;
}

int engine_is_sending(const struct engine *e)
{
    return atomic_load(&e->coll.running) > 0;
}
