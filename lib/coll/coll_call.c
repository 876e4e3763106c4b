/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a collective as an operation of its stream.  The executor passes GPU buffers through a
 * stage (exec_mpi_stage); only data that must be rounded first is copied here.
 */
#include "coll/coll_inside.h"

#include <assert.h>

#include "base/mem.h"
#include "exec/exec_nccl.h"

struct stage {
    char *buffer[2];            /* in, out; borrowed from the executor */
    int rounds;                 /* in is being copied, to be rounded before rows read it */
    struct device_event *there; /* owned: that copy is done */
};

struct coll_stages {
    struct device *device;        /* borrowed */
    struct device_queue *copy[2]; /* owned: in, out */
    char *base;                   /* borrowed; the pinned memory, or NULL */
    int64_t bytes;
    int stages;
    struct stage stage[];
};

static int on_host(const struct coll_options *o)
{
    return !o->device || device_kind(o->device) == DEVICE_CPU;
}

int64_t coll_stages_bytes(const struct coll_options *o)
{
    int64_t sum = 0;

    for (int i = 0; !on_host(o) && i < o->stages; i++)
        sum += arena_space(o->stage[i].in_bytes) + arena_space(o->stage[i].out_bytes);
    return sum;
}

int coll_stages_open(struct coll *c, const struct coll_options *o, struct err *err)
{
    int64_t bytes = coll_stages_bytes(o);
    struct coll_stages *s;

    if (on_host(o))
        return 0;
    c->stages = s = mem_new(1, sizeof *s + (size_t)o->stages * sizeof *s->stage);
    s->device = o->device;
    s->stages = o->stages;
    s->bytes = bytes;
    for (int i = 0; i < 2; i++)
        if (device_queue_open(s->device, &s->copy[i], err))
            return -1;
    for (int i = 0; i < s->stages; i++) {
        s->stage[i].buffer[0] = coll_take(c, o->stage[i].in_bytes);
        s->stage[i].buffer[1] = coll_take(c, o->stage[i].out_bytes);
        if (device_event_open(s->device, &s->stage[i].there, err))
            return -1;
    }
    if (bytes == 0)
        return 0;
    /*
     * Pins all stages at once, as they are contiguous and a page can be pinned only once.  A
     * driver may not pin memory that it did not allocate (under confidential computing, in some
     * virtual machines): copies then go through the driver's own buffers, and copies to the
     * host block.
     */
    if (device_pin(s->device, s->stage[0].buffer[0], bytes, err) == 0)
        s->base = s->stage[0].buffer[0];
    return s->base || err->code == ERR_SYS ? 0 : -1;
}

void coll_stages_close(struct coll *c)
{
    struct coll_stages *s = c->stages;

    if (!s)
        return;
    for (int i = 0; i < s->stages; i++)
        device_event_close(s->stage[i].there);
    for (int i = 0; i < 2; i++)
        device_queue_close(s->copy[i]);
    if (s->base)
        device_unpin(s->device, s->base);
    mem_free(s);
    c->stages = NULL;
}

int coll_is_pinned(const struct coll *c)
{
    return !c->stages || c->stages->bytes == 0 || c->stages->base;
}

int64_t coll_staged(const struct coll *c)
{
    return c->stages ? c->stages->bytes : 0;
}

static struct stage *call_stage_of(const struct coll_handle *h)
{
    struct coll_stages *s = h->coll->stages;

    assert(!s || (h->spec.stage >= 0 && h->spec.stage < s->stages));
    return s ? &s->stage[h->spec.stage] : NULL;
}

static int start_ranks(const struct coll_call *call, const void *in, void *out, struct err *err)
{
    struct exec_mpi_handle *exec = call->handle->exec;

    if (call->round)
        coll_round(call->handle, EXEC_IN, (void *)(uintptr_t)in, call->residual);
    exec_mpi_set(exec, in, out, call->residual);
    return exec_mpi_start(exec, err);
}

static int host_start(void *arg, struct err *err)
{
    const struct coll_call *call = arg;

    return start_ranks(call, call->in, call->out, err);
}

static enum stream_state host_poll(void *arg, struct err *err)
{
    const struct coll_call *call = arg;

    return exec_mpi_poll(call->handle->exec, err);
}

int coll_stages_use(struct coll_handle *h, struct err *err)
{
    const struct coll_stages *s = h->coll->stages;

    return exec_mpi_stage(h->exec, s->copy[0], s->copy[1], err);
}

static int device_start(void *arg, struct err *err)
{
    const struct coll_call *call = arg;
    const struct coll_handle *h = call->handle;
    const struct coll_stages *s = h->coll->stages;
    struct stage *stage = call_stage_of(h);

    stage->rounds = call->round;
    exec_mpi_set_gpu(h->exec, call->round ? NULL : call->in, call->out);
    if (!call->round)
        return start_ranks(call, stage->buffer[0], stage->buffer[1], err);
    if (h->bytes[0])
        device_copy(s->copy[0], stage->buffer[0], call->in, h->bytes[0]);
    device_record(s->copy[0], stage->there);
    return 0;
}

static enum stream_state device_poll(void *arg, struct err *err)
{
    const struct coll_call *call = arg;
    struct stage *stage = call_stage_of(call->handle);
    struct err kept; /* the device keeps the error; a failed copy counts as done */

    if (!stage->rounds)
        return exec_mpi_poll(call->handle->exec, err);
    if (device_done(stage->there, &kept) == 0)
        return STREAM_IDLE;
    stage->rounds = 0;
    return start_ranks(call, stage->buffer[0], stage->buffer[1], err) ? STREAM_FAILED
                                                                      : STREAM_MOVED;
}

/*
 * ---- over NCCL ----
 *
 * Ranks that begin two runs in different orders can wait for each other for ever: each has
 * queued first on its GPU the run that the other has queued second.  Streams alone do not keep
 * an order, for the operations at their heads become ready at different times on different
 * ranks.  So calls are numbered as they are pushed, which is in one order on every rank, and a
 * call begins when all calls before it have begun:
 *
 *     stream a   1 ... 4 ...
 *     stream b     2 ....... 5         4 waits for 3, even if 3 is not ready and 4 is
 *     stream c       3 ...
 *
 * There is no circular wait.  A call waits only for work that was pushed, or issued to the GPU,
 * before it: the operations before it in its stream, the condition of the caller's operation
 * before it (an event recorded, a ticket given out before the push), and the calls with smaller
 * numbers.  Among all calls that have not begun on some rank the one with the smallest number
 * waits only for calls that have begun on every rank; and those end, for the executor puts runs
 * into the GPU in the order in which they began.  Coded calls, which go over MPI, have no
 * number: they wait only for work that was pushed before them.
 */

/* Reports a failure known to this rank alone as that of a lost peer (world.h). */
static enum stream_state failed(struct err *err)
{
    err->code = ERR_PEER;
    return STREAM_FAILED;
}

static enum stream_state nccl_poll(void *arg, struct err *err)
{
    struct coll_call *call = arg;
    struct coll_handle *h = call->handle;
    struct coll *c = h->coll;

    if (!call->begun) {
        if (call->number != c->begun)
            return STREAM_IDLE;
        exec_nccl_set(h->nccl, call->in, call->out, NULL, NULL);
        if (exec_nccl_start(h->nccl, err))
            return failed(err);
        call->begun = 1;
        c->begun++;
    }
    enum stream_state now = exec_nccl_poll(h->nccl, err);
    return now == STREAM_FAILED ? failed(err) : now;
}

struct stream_op coll_call_op(struct coll_call *call)
{
    /* A handle without a coll was made directly on the executor, with buffers in host
       memory. */
    const struct coll *c = call->handle->coll;
    int staged = c && c->stages;

    if (call->handle->nccl) {
        assert(!call->residual && !call->round);
        call->number = call->handle->coll->pushed++;
        call->begun = 0;
        return coll_observe(call, (struct stream_op){.poll = nccl_poll, .arg = call});
    }
    return coll_observe(call, (struct stream_op){staged ? device_start : host_start,
                                                 staged ? device_poll : host_poll, call});
}
