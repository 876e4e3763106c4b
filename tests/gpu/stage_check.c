/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks collectives of a GPU's memory over MPI: stage_check SHAPE, run under mpirun with the
 * shape's ranks, on one GPU that they share, or on one each (DEVICE=cuda).  Collectives over
 * MPI whose buffers are the GPU's, beside the same of the host's memory: the same bits,
 * whatever they are, also where in and out are one.  Then the order in time of one gather:
 * bytes arrive before all of `in` has left the sender's GPU, and are in the receiver's GPU
 * before the rest is sent.  Prints TAP.
 */
#include "base/rng.h"
#include "base/tick.h"
#include "coll/coll.h"
#include "../mpi/ranks_fixture.h"

/* Some cells of 256 KiB, the last cut; more than so many polls ask for, 16 a poll. */
enum { ELEMS = 700001, LOOKS = 4, PIECE = 256 << 10, LONG = 16 * (LOOKS + 2) * PIECE };

static const double patience_s = 20;

struct check {
    struct ranks_tap tap;
    struct device *device;
    struct device_queue *queue;
    struct coll coll[2]; /* of the host's memory, of the GPU's */
    struct stream *stream[2];
    char *in[2], *out[2];
    char *via[2], *got; /* host memory: through which one gather goes; of nobody else */
};

static void move(struct check *c, void *to, const void *from, int64_t bytes)
{
    device_copy(c->queue, to, from, bytes);
    must(&c->tap, device_sync(c->queue, &err));
}

static void open_all(struct check *c, const struct groups *g, const char *name)
{
    const int64_t bytes = g->ranks == 2 ? LONG : ELEMS * 4;
    const struct coll_stage stage = {bytes, g->ranks == 2 ? 2 * LONG : bytes};
    struct coll_options options = {.shared_bytes = stage.in_bytes + stage.out_bytes + 128};
    void *p = NULL;

    must(&c->tap,
         world_agree(c->tap.world, device_open(&c->device, name, c->tap.world->node_rank, &err),
                     &err));
    must(&c->tap, device_queue_open(c->device, &c->queue, &err));
    for (int i = 0; i < 2; i++) {
        if (i) {
            options.device = c->device;
            options.stage = &stage;
            options.stages = 1;
            options.no_shared = g->ranks % 2;
        }
        must(&c->tap, coll_open(&c->coll[i], c->tap.world, g, &options, &err));
        c->stream[i] = stream_open(c->coll[i].runner, 1);
    }
    c->in[0] = coll_take(&c->coll[0], stage.in_bytes);
    c->out[0] = coll_take(&c->coll[0], stage.out_bytes);
    c->via[0] = coll_take(&c->coll[1], stage.in_bytes);
    c->via[1] = coll_take(&c->coll[1], stage.out_bytes);
    must(&c->tap, device_alloc(c->device, stage.in_bytes, "in", &p, &err));
    c->in[1] = p;
    must(&c->tap, device_alloc(c->device, stage.out_bytes, "out", &p, &err));
    c->out[1] = p;
    c->got = mem_new((size_t)stage.out_bytes, 1);
}

static void close_all(struct check *c)
{
    for (int i = 0; i < 2; i++)
        coll_close(&c->coll[i]);
    device_free(c->device, c->in[1]);
    device_free(c->device, c->out[1]);
    device_queue_close(c->queue);
    device_close(c->device);
    mem_free(c->got);
}

static void run(struct check *c, int i, struct coll_handle *h, int in_place, float *residual)
{
    struct coll_call call = LIST(.handle = h, .in = in_place ? c->out[i] : c->in[i],
                                 .out = c->out[i], .residual = residual, .round = h->spec.code);

    must(&c->tap, stream_wait(c->stream[i], coll_push(c->stream[i], &call), &err));
}

static void same_bits(struct check *c, const struct coll_spec *spec, int in_place,
                      const char *what)
{
    struct coll_handle h[2];
    float *residual[2] = {NULL, NULL};
    char line[80];
    int good = 1;

    for (int i = 0; i < 2; i++) {
        must(&c->tap, coll_prepare(&c->coll[i], spec, &h[i], &err));
        residual[i] = mem_new((size_t)h[i].residual_elems + 1, sizeof **residual);
    }
    for (int turn = 0; turn < 2; turn++) {
        char *from = in_place ? c->out[0] : c->in[0];
        memset(c->out[0], 0x55, (size_t)h[0].bytes[1]);
        move(c, c->out[1], c->out[0], h[0].bytes[1]);
        for (int64_t x = 0; x < h[0].bytes[0] / 4; x++)
            ((float *)(void *)from)[x] =
                (float)rng_normal((uint64_t)turn, (uint64_t)c->tap.world->rank, (uint64_t)x);
        move(c, in_place ? c->out[1] : c->in[1], from, h[0].bytes[0]);
        for (int i = 0; i < 2; i++)
            run(c, i, &h[i], in_place, residual[i]);
        move(c, c->got, c->out[1], h[0].bytes[1]);
        good &= memcmp(c->got, c->out[0], (size_t)h[0].bytes[1]) == 0;
    }
    snprintf(line, sizeof line, "the same bits: %s", what);
    tell(&c->tap, !good, line);
    for (int i = 0; i < 2; i++) {
        coll_free(&h[i]);
        mem_free(residual[i]);
    }
}

static void check_bits(struct check *c)
{
    static const struct {
        const char *what;
        enum letter from, to;
        int sum, in_place, broadcast;
        enum exec_code code;
        enum schedule_algo algo;
    } of[] = {{"all-gather, ring", LETTER_G, LETTER_N, 0, 0, 0, 0, SCHEDULE_RING},
              {"all-gather, HO-Ring", LETTER_G, LETTER_N, 0, 0, 0, 0, SCHEDULE_HO_RING},
              {"all-gather inside groups", LETTER_I, LETTER_N, 0, 0, 0, 0, SCHEDULE_HO_RING},
              {"all-gather, coded", LETTER_G, LETTER_N, 0, 0, 0, 1, SCHEDULE_HO_RING},
              {"reduce-scatter, ring", LETTER_N, LETTER_G, 1, 0, 0, 0, SCHEDULE_RING},
              {"reduce-scatter, HO-Ring", LETTER_N, LETTER_G, 1, 0, 0, 0, SCHEDULE_HO_RING},
              {"reduce-scatter, coded", LETTER_N, LETTER_G, 1, 0, 0, 1, SCHEDULE_HO_RING},
              {"all-reduce, HO-Ring", LETTER_N, LETTER_N, 1, 0, 0, 0, SCHEDULE_HO_RING},
              {"all-reduce in place", LETTER_N, LETTER_N, 1, 1, 0, 0, SCHEDULE_RING},
              {"broadcast", LETTER_N, LETTER_N, 0, 0, 1, 0, SCHEDULE_HO_RING}};

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct coll_spec spec = LIST(.from = of[i].from, .to = of[i].to, .code = of[i].code,
                                     .elems = ELEMS, .type = DTYPE_F32, .algo = of[i].algo);
        spec.phases = of[i].broadcast ? SCHEDULE_BROADCAST
                      : of[i].sum     ? layout_phases_sum(of[i].from, of[i].to)
                                      : layout_phases_copy(of[i].from, of[i].to);
        same_bits(c, &spec, of[i].in_place, of[i].what);
    }
}

/* Pieces of in that have not come from the GPU. */
static int missing(const struct check *c)
{
    int n = 0;

    for (int64_t at = 0; at < LONG; at += PIECE)
        n += c->via[0][at] == 0;
    return n;
}

/* Whether a piece of the first rank's part is in this GPU's out. */
static int landed(struct check *c)
{
    move(c, c->got, c->out[1], LONG);
    for (int64_t at = 0; at < LONG; at += PIECE)
        if (c->got[at] == 1)
            return 1;
    return 0;
}

/* The first rank looks a few times, which is as often as it asks for pieces, and then waits for
 * the others, who need no more than this to have some of its bytes in their GPU. */
static void check_order(struct check *c)
{
    struct coll_spec spec =
        LIST(.from = LETTER_G, .to = LETTER_N, .phases = layout_phases_copy(LETTER_G, LETTER_N),
             .elems = (int64_t)c->tap.world->ranks * LONG / 4, .type = DTYPE_F32,
             .algo = SCHEDULE_RING);
    double until = tick_now_s() + patience_s;
    enum stream_state now = STREAM_MOVED;
    struct coll_handle h;
    err = (struct err){0};
    int left = 0, early = 0, pinned;

    must(&c->tap, coll_prepare(&c->coll[1], &spec, &h, &err));
    memset(c->via[0], 1 + c->tap.world->rank, LONG);
    move(c, c->in[1], c->via[0], LONG);
    memset(c->via[0], 0, LONG);
    memset(c->via[1], 0, (size_t)h.bytes[1]);
    move(c, c->out[1], c->via[1], h.bytes[1]);
    /* One behind the other, and whole pages from the first on: LONG is, and the stage was. */
    pinned = device_pin(c->device, c->via[0], LONG + h.bytes[1], &err) == 0;
    must(&c->tap, pinned || err.code == ERR_SYS ? 0 : -1);
    exec_mpi_set(h.exec, c->via[0], c->via[1], NULL);
    exec_mpi_set_gpu(h.exec, c->in[1], c->out[1]);
    must(&c->tap, exec_mpi_start(h.exec, &err));
    for (int i = 0; c->tap.world->rank == 0 && i < LOOKS; i++) {
        tick_sleep_s(0.002);
        now = exec_mpi_poll(h.exec, &err);
    }
    left = c->tap.world->rank == 0 ? missing(c) : 1;
    while (c->tap.world->rank && !early && now != STREAM_FAILED && tick_now_s() < until) {
        now = exec_mpi_poll(h.exec, &err);
        early = landed(c);
    }
    must(&c->tap, world_barrier(c->tap.world, &err));
    while (now != STREAM_DONE && now != STREAM_FAILED && tick_now_s() < 2 * until)
        now = exec_mpi_poll(h.exec, &err);
    must(&c->tap, now == STREAM_FAILED ? -1 : 0);
    move(c, c->got, c->out[1], h.bytes[1]);
    int good = now == STREAM_DONE;
    for (int64_t x = 0; x < h.bytes[1]; x++)
        good &= c->got[x] == 1 + x / LONG;
    tell(&c->tap, left == 0, "a GPU is asked for its data piece by piece");
    tell(&c->tap, !early && c->tap.world->rank, "bytes are in the GPU before the rest is sent");
    tell(&c->tap, !good, "and all are there in the end");
    if (pinned)
        device_unpin(c->device, c->via[0]);
    coll_free(&h);
}

int main(int argc, char **argv)
{
    const char *name = getenv("DEVICE") ? getenv("DEVICE") : "cuda:0";
    struct check c = {0};
    struct groups g;
    err = (struct err){0};

    if (argc != 2 || world_open(&c.tap.world, &err) || groups_parse(&g, argv[1], &err)) {
        fprintf(stderr, "stage_check: %s\n", argc == 2 ? err.text : "expected a shape");
        return 2;
    }
    c.tap.world->deadline_s = patience_s;
    open_all(&c, &g, name);
    check_bits(&c);
    if (g.ranks == 2)
        check_order(&c);
    tell_count(&c.tap);
    close_all(&c);
    groups_release(&g);
    world_close(c.tap.world);
    return c.tap.bad > 0;
}
