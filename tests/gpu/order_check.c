/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the order of collectives: order_check, run under mpirun on one GPU that the ranks
 * share, or on one each (DEVICE=cuda).  Collectives over NCCL on two streams, where what is
 * pushed first can begin at once on every other rank alone, and later on the rest: by its
 * stream alone the second one would begin before it there, and ranks would wait for each other,
 * or take the one's data for the other's.  Prints TAP.
 */
#include "base/tick.h"
#include "coll/coll.h"
#include "../mpi/ranks_fixture.h"

enum { ELEMS = 5000, ROUNDS = 20 };

static const double late_s = 0.005; /* a stream is looked at every 0.4 ms, or more often */

struct check {
    struct ranks_tap tap;
    struct device *device;
    struct device_queue *queue;
    struct coll coll;
    struct stream *stream[2];
    struct coll_handle handle[2];
    float *in[2], *out[2], *host; /* of the GPU; of the host */
    double begin_s;               /* of what comes late */
};

static enum stream_state later(void *arg, struct err *why)
{
    const struct check *c = arg;

    (void)why;
    return tick_now_s() < c->begin_s ? STREAM_IDLE : STREAM_DONE;
}

static int64_t elems_of(int i)
{
    return i ? ELEMS / 5 : ELEMS;
}

static void prepare(struct check *c, int i)
{
    struct coll_spec spec =
        LIST(.phases = layout_phases_sum(LETTER_N, LETTER_N), .from = LETTER_N, .to = LETTER_N,
             .elems = elems_of(i), .type = DTYPE_F32, .algo = SCHEDULE_RING);
    void *in = NULL, *out = NULL;

    must(&c->tap, coll_prepare(&c->coll, &spec, &c->handle[i], &err));
    must(&c->tap, device_alloc(c->device, ELEMS * 4, "in", &in, &err));
    must(&c->tap, device_alloc(c->device, ELEMS * 4, "out", &out, &err));
    c->in[i] = in;
    c->out[i] = out;
    c->stream[i] = stream_open(c->coll.runner, 2);
}

/* Elements of the sums that are not what they should be. */
static int64_t one_round(struct check *c, int round)
{
    int ranks = c->tap.world->ranks, rank = c->tap.world->rank;
    struct coll_call call[2];
    int64_t ticket[2], wrong = 0;

    for (int i = 0; i < 2; i++) {
        for (int64_t x = 0; x < elems_of(i); x++)
            c->host[x] = (float)(x % 97 + rank + 7 * i + round);
        device_copy(c->queue, c->in[i], c->host, elems_of(i) * 4);
        must(&c->tap, device_sync(c->queue, &err));
        call[i] = (struct coll_call){.handle = &c->handle[i], .in = c->in[i], .out = c->out[i]};
    }
    must(&c->tap, world_barrier(c->tap.world, &err));
    c->begin_s = tick_now_s() + ((rank + round) % 2 ? late_s : 0);
    stream_push(c->stream[0], (struct stream_op){.poll = later, .arg = c});
    for (int i = 0; i < 2; i++)
        ticket[i] = coll_push(c->stream[i], &call[i]);
    for (int i = 1; i >= 0; i--) {
        must(&c->tap, stream_wait(c->stream[i], ticket[i], &err));
        device_copy(c->queue, c->host, c->out[i], elems_of(i) * 4);
        must(&c->tap, device_sync(c->queue, &err));
        for (int64_t x = 0; x < elems_of(i); x++) /* whole and below 2^24: exact */
            wrong += c->host[x] !=
                     (float)(ranks * (x % 97 + 7 * i + round) + ranks * (ranks - 1) / 2);
    }
    return wrong;
}

static void close_all(struct check *c)
{
    for (int i = 0; i < 2; i++) {
        coll_free(&c->handle[i]);
        device_free(c->device, c->in[i]);
        device_free(c->device, c->out[i]);
    }
    coll_close(&c->coll);
    device_queue_close(c->queue);
    device_close(c->device);
    free(c->host);
    world_close(c->tap.world);
}

int main(void)
{
    const char *name = getenv("DEVICE") ? getenv("DEVICE") : "cuda:0";
    struct coll_options options = {.transport = COLL_NCCL};
    struct check c = {0};
    err = (struct err){0};
    int64_t wrong = 0;

    if (world_open(&c.tap.world, &err)) {
        fprintf(stderr, "order_check: %s\n", err.text);
        return 2;
    }
    stand_apart(&c.tap);
    c.tap.world->deadline_s = 20;
    must(&c.tap, world_agree(c.tap.world,
                             device_open(&c.device, name, c.tap.world->node_rank, &err), &err));
    options.device = c.device;
    must(&c.tap, coll_open(&c.coll, c.tap.world, &c.tap.world->groups, &options, &err));
    must(&c.tap, device_queue_open(c.device, &c.queue, &err));
    c.host = malloc(ELEMS * 4);
    for (int i = 0; i < 2; i++)
        prepare(&c, i);
    for (int i = 0; i < ROUNDS; i++)
        wrong += one_round(&c, i);
    tell(&c.tap, wrong, "calls begin in the order in which they were pushed");
    tell_count(&c.tap);
    close_all(&c);
    return c.tap.bad != 0;
}
