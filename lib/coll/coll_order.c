/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows when a run over NCCL may begin.  Ranks that begin two runs in different orders can wait
 * for each other for ever: each has put the one into its GPU that the other has behind. Streams
 * alone do not keep an order, for what is at their heads becomes ready at other times on other
 * ranks.  So calls are numbered as they are pushed, which is in one order on every rank, and
 * one begins when all before it have begun:
 *
 *     stream a   1 ... 4 ...
 *     stream b     2 ....... 5         4 waits for 3, even if 3 is not ready and 4 is
 *     stream c       3 ...
 *
 * That cannot wait in a circle.  What a call waits for was pushed, or asked of the GPU, before
 * it: the operations before it in its stream, what the caller's operation before it looks for
 * (an event recorded, a ticket given out before the push), and now the calls with smaller
 * numbers.  Of all calls that have not begun on some rank the one with the smallest number has
 * behind it only what has begun on every rank; and what has begun on every rank ends, for the
 * executor puts runs into the GPU in the order in which they began.  Coded calls, which go over
 * MPI, have no number: they wait for nothing but what was pushed before them, and nobody waits
 * for their beginning.
 */
#include "coll/coll_inside.h"

#include <assert.h>

#include "exec/exec_nccl.h"

/* Of this rank alone, so far: its way is that of a peer that is gone (world.h). */
static enum stream_state failed(struct err *err)
{
    err->code = ERR_PEER;
    return STREAM_FAILED;
}

static enum stream_state poll(void *arg, struct err *err)
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

struct stream_op coll_order_op(struct coll_call *call)
{
    assert(!call->residual && !call->round);
    call->number = call->handle->coll->pushed++;
    call->begun = 0;
    return (struct stream_op){.poll = poll, .arg = call};
}
