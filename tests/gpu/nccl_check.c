/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the NCCL executor: nccl_check [SHAPE], run under mpirun with the shape's ranks, on one
 * GPU that they share or on one each (DEVICE=cuda); without a shape two groups, and less of
 * everything: ranks that share a GPU wait for their turn on it at each step.  What the NCCL
 * executor leaves on the GPU is, bit for bit, what the local executor leaves on the host: sums
 * enter each chunk in row order with both.  Every algorithm over every conversion between
 * layouts and broadcasts, every reduction in every type, several lengths; on integer-valued
 * data, then on any.  NCCL's own collectives within the bound of their sums.  Prints TAP.
 */
#include "base/rng.h"
#include "exec/exec_nccl.h"
#include "exec/exec_nccl_native.h"
#include "../mpi/ranks_fixture.h"
#include "../mpi/value_fixture.h"
#include "../unit/exec_local_fixture.h"

enum { ELEMS_MAX = 70000 };

struct check {
    struct ranks_tap tap;
    struct device *device;
    struct device_queue *door;
    struct exec_nccl *x;
    struct layout l;
    char *in, *out, *host; /* of the GPU, of the GPU, of the host */
    int any, quick;
};

/* The rows of this rank as a handle. */
static struct exec_nccl_handle *prepare(struct check *c, const struct coll_spec *spec)
{
    struct exec_nccl_handle *h = NULL;
    struct exec_rows rows;

    must(&c->tap,
         coll_rows(&(struct coll){.layout = c->l}, spec, c->tap.world->rank, &rows, &err));
    must(&c->tap, exec_nccl_prepare(c->x, &rows, &h, &err));
    return h;
}

/* Data that are only copied are the same on all ranks; sums of 16 ranks stay exact in bf16. */
static void fill(struct check *c, const struct coll_spec *spec, int sum, int rank, void *in)
{
    struct range r[64];
    int64_t at = 0;
    int n = layout_ranges(&c->l, spec->from, rank, spec->elems, r);

    for (int i = 0; i < n; i++)
        for (int64_t x = r[i].lo; x < r[i].hi; x++)
            put(in, spec->type, at++,
                c->any ? rng_normal(7, sum ? (uint64_t)rank : 0, (uint64_t)x)
                       : (double)(x % 16 + (sum ? rank % 4 : 0)));
}

/* Runs locally: all ranks' data before, in l->in, and behind, in l->out. */
static void run_local(struct check *c, const struct coll_spec *spec, int sum, struct local *l)
{
    must(&c->tap, local_open(l, &c->l, spec));
    for (int r = 0; r < l->ranks; r++)
        fill(c, spec, sum, r, l->in[r]);
    must(&c->tap, exec_local_run(l, 0));
}

static int64_t out_elems(struct check *c, const struct coll_spec *spec)
{
    return layout_elems(&c->l, spec->to, c->tap.world->rank, spec->elems);
}

/* One conversion, twice through the handle; the second time by issue.  1: differs. */
static int convert(struct check *c, const struct coll_spec *spec, int sum)
{
    int me = c->tap.world->rank, size = dtype_bytes(spec->type), wrong = 0;
    struct exec_nccl_handle *h = prepare(c, spec);
    struct local l;

    run_local(c, spec, sum, &l);
    int64_t bytes = out_elems(c, spec) * size;
    for (int again = 0; again < 2; again++) {
        device_copy(c->door, c->in, l.in[me], spec->elems * size);
        memset(c->host, 0xff, (size_t)bytes);
        device_copy(c->door, c->out, c->host, bytes);
        exec_nccl_set(h, c->in, c->out, NULL, NULL);
        if (again) {
            must(&c->tap, exec_nccl_issue(h, &err));
        } else {
            must(&c->tap,
                 stream_drive((struct stream_op){exec_nccl_start, exec_nccl_poll, h}, &err));
            int64_t came = 0;
            for (int i = 0; i < l.rows[me].rows; i++)
                came += l.rows[me].row[i].kind == EXEC_RECV ? l.rows[me].row[i].bytes : 0;
            wrong |= came != exec_nccl_arrived(h);
        }
        device_copy(c->door, c->host, c->out, bytes);
        must(&c->tap, device_sync(c->door, &err));
        wrong |= memcmp(c->host, l.out[me], (size_t)bytes) != 0;
    }
    exec_nccl_free(h);
    local_close(&l);
    if (wrong)
        printf("# rank %d: %s phases %u elems %lld %s %s differs\n", me,
               schedule_algo_name(spec->algo), spec->phases, (long long)spec->elems,
               dtype_name(spec->type), dtype_op_name(spec->redop));
    return wrong;
}

/* Every conversion between layouts, and broadcasts from both ends of the ranks. */
static int64_t moves_of(struct check *c, struct coll_spec spec)
{
    int64_t wrong = 0;
    enum letter done;

    for (int i = 0; i < LOCAL_CONVERSIONS; i++) {
        int sum = local_conversion(&spec, i, &done);
        if (!c->quick || (spec.from != LETTER_I && spec.to != LETTER_I))
            wrong += convert(c, &spec, sum);
    }
    for (int end = 0; end < 2; end++) {
        local_broadcast(&spec, end * (c->tap.world->ranks - 1));
        wrong += convert(c, &spec, 0);
    }
    return wrong;
}

static void algorithms(struct check *c)
{
    static const int64_t lengths[] = {0, 7, 1003};
    char what[120];

    for (int algo = 0; algo < SCHEDULE_ALGOS; algo++) {
        int64_t wrong = 0;
        for (int i = c->quick ? 2 : 0; i < 3; i++) {
            struct coll_spec spec = {.elems = lengths[i],
                                     .type = DTYPE_F32,
                                     .algo = (enum schedule_algo)algo,
                                     .chunk_bytes = c->quick ? 600 : 200};
            wrong += moves_of(c, spec);
        }
        snprintf(what, sizeof what, "%s: every conversion, %s",
                 schedule_algo_name((enum schedule_algo)algo),
                 c->any ? "any data" : "whole numbers");
        tell(&c->tap, wrong, what);
    }
}

static void reductions(struct check *c)
{
    char what[120];
    int64_t wrong = 0;

    for (int i = 0; i < LOCAL_REDUCTIONS; i++) {
        struct coll_spec spec = local_reduction(i);
        wrong += convert(c, &spec, 1);
        if ((i + 1) % LOCAL_OF_TYPE)
            continue;
        snprintf(what, sizeof what, "%s: every reduction, %s", dtype_name(spec.type),
                 c->any ? "any data" : "whole numbers");
        tell(&c->tap, wrong, what);
        wrong = 0;
    }
}

/* Behind an event of a queue of the caller's, which goes on behind the run's. */
static void between_events(struct check *c)
{
    struct coll_spec spec = LIST(.from = LETTER_N, .to = LETTER_N, .elems = 4001,
                                 .type = DTYPE_F32, .algo = SCHEDULE_HO_RING);
    struct device_event *after = NULL, *then = NULL;
    struct device_queue *q = NULL;
    struct local l;

    spec.phases = layout_phases_sum(spec.from, spec.to);
    struct exec_nccl_handle *h = prepare(c, &spec);
    run_local(c, &spec, 1, &l);
    must(&c->tap, device_queue_open(c->device, &q, &err));
    must(&c->tap, device_event_open(c->device, &after, &err));
    must(&c->tap, device_event_open(c->device, &then, &err));
    device_zero(c->door, c->in, spec.elems * 4);
    must(&c->tap, device_sync(c->door, &err));
    memset(c->host, 0, (size_t)spec.elems * 4);
    memcpy(c->host + ELEMS_MAX * 4, l.in[c->tap.world->rank], (size_t)spec.elems * 4);
    device_copy(q, c->out, c->host + ELEMS_MAX * 4, spec.elems * 4);
    device_copy(q, c->in, c->out, spec.elems * 4); /* no copy of the host's: it may be late */
    device_record(q, after);
    exec_nccl_set(h, c->in, c->out, after, then);
    must(&c->tap, exec_nccl_issue(h, &err));
    device_wait(q, then);
    device_copy(q, c->host, c->out, spec.elems * 4);
    must(&c->tap, device_sync(q, &err));
    tell(&c->tap, memcmp(c->host, l.out[c->tap.world->rank], (size_t)spec.elems * 4) != 0,
         "between two events of the caller's");
    exec_nccl_free(h);
    device_event_close(after);
    device_event_close(then);
    device_queue_close(q);
    local_close(&l);
}

/* More turns than go into the queues at once; then three handles that are issued in a row. */
static void long_runs(struct check *c)
{
    struct coll_spec spec =
        LIST(.from = LETTER_N, .to = LETTER_N, .elems = ELEMS_MAX, .type = DTYPE_F32,
             .algo = SCHEDULE_HO_RING, .chunk_bytes = c->quick ? 2048 : 256);
    struct exec_nccl_handle *h[3];
    struct local l;
    int64_t bytes = ELEMS_MAX * 4;

    spec.phases = layout_phases_sum(spec.from, spec.to);
    tell(&c->tap, convert(c, &spec, 1), "a run of many turns");
    spec.chunk_bytes = 20000;
    run_local(c, &spec, 1, &l);
    device_copy(c->door, c->in, l.in[c->tap.world->rank], bytes);
    for (int i = 0; i < 3; i++)
        h[i] = prepare(c, &spec);
    for (int i = 0; i < 3; i++) {
        exec_nccl_set(h[i], c->in, c->out, NULL, NULL);
        must(&c->tap, exec_nccl_issue(h[i], &err));
    }
    device_copy(c->door, c->host, c->out, bytes);
    must(&c->tap, device_sync(c->door, &err));
    for (int i = 0; i < 3; i++)
        exec_nccl_free(h[i]);
    tell(&c->tap, memcmp(c->host, l.out[c->tap.world->rank], (size_t)bytes) != 0,
         "three in a row");
    local_close(&l);
}

/* NCCL's own sums, in whatever order: n - 1 additions, each rounded by 2^-24 of at most the sum
 * of the magnitudes; an average's quotient once more. */
static int64_t off_bound(struct check *c, const struct exec_native_spec *spec, const float *got)
{
    int n = c->tap.world->ranks,
        sums = spec->op == EXEC_NATIVE_ALL_REDUCE || spec->op == EXEC_NATIVE_REDUCE_SCATTER;
    int64_t lo = 0, hi = spec->elems, wrong = 0, at = 0;

    if (spec->op == EXEC_NATIVE_REDUCE_SCATTER)
        exec_native_block(spec->elems, c->tap.world->rank, n, &lo, &hi);
    for (int64_t x = lo; x < hi; x++) {
        double sum = 0, most = 0;
        for (int r = 0; sums && r < n; r++) {
            double one = (double)(float)rng_normal(9, (uint64_t)r, (uint64_t)x);
            sum += one;
            most += fabs(one);
        }
        if (!sums)
            sum = (double)(float)rng_normal(9, 0, (uint64_t)x);
        double by = spec->redop == DTYPE_AVG && sums ? n : 1;
        double bound = sums ? n * 0x1p-24 * most * 1.001 / by : 0;
        wrong += !(fabs(get(got, DTYPE_F32, at++) - sum / by) <= bound);
    }
    return wrong;
}

static void native_fill(struct check *c, const struct exec_native_spec *spec, float *in)
{
    int64_t lo = 0, hi = spec->elems, at = 0;
    int copies = spec->op == EXEC_NATIVE_ALL_GATHER || spec->op == EXEC_NATIVE_BROADCAST;

    if (spec->op == EXEC_NATIVE_ALL_GATHER)
        exec_native_block(spec->elems, c->tap.world->rank, c->tap.world->ranks, &lo, &hi);
    for (int64_t x = lo; x < hi; x++)
        in[at++] = (float)rng_normal(9, copies ? 0 : (uint64_t)c->tap.world->rank, (uint64_t)x);
}

static void native(struct check *c)
{
    static const char *const names[] = {"all-gather", "reduce-scatter", "all-reduce",
                                        "broadcast"};
    float *in = mem_new(ELEMS_MAX, sizeof *in);
    char what[80];

    for (int op = 0; op < 5; op++) { /* the last: an all-reduce in two levels */
        int64_t wrong = 0;
        for (int even = 0; even < 2; even++) {
            struct exec_native_spec spec = {.op = (enum exec_native_op)(op < 4 ? op : 2),
                                            .elems = even ? 4 * 3 * 5 * 16 : 1003,
                                            .type = DTYPE_F32,
                                            .redop = even && op < 4 ? DTYPE_AVG : DTYPE_SUM,
                                            .root = c->tap.world->ranks - 1};
            struct exec_nccl_native *n = NULL;
            native_fill(c, &spec, in);
            device_copy(c->door, c->in, in, spec.elems * 4);
            must(&c->tap,
                 exec_nccl_native_open(&n, c->x, &spec, op < 4 ? NULL : &c->l.groups, &err));
            must(&c->tap, exec_nccl_native_run(n, c->in, c->out, &err));
            device_copy(c->door, c->host, c->out, spec.elems * 4);
            must(&c->tap, device_sync(c->door, &err));
            wrong += off_bound(c, &spec, (float *)(void *)c->host);
            exec_nccl_native_close(n);
        }
        snprintf(what, sizeof what, "NCCL's own %s%s", names[op < 4 ? op : 2],
                 op < 4 ? "" : " in two levels");
        tell(&c->tap, wrong, what);
    }
    mem_free(in);
}

/* Checks what is refused: rows that travel as codes; NCCL on a processor. */
static void refusals(struct check *c)
{
    struct coll_spec spec =
        LIST(.from = LETTER_N, .to = LETTER_G, .elems = 640, .type = DTYPE_F32,
             .algo = SCHEDULE_HO_RING, .code = EXEC_CODE_INT8);
    struct exec_nccl_handle *h = NULL;
    struct exec_nccl_options o = {.ranks = 1};
    struct exec_nccl *x = NULL;
    struct exec_rows rows;
    err = (struct err){0};
    int64_t wrong = 0;

    if (c->l.groups.count > 1) {
        spec.phases = layout_phases_sum(spec.from, spec.to);
        must(&c->tap,
             coll_rows(&(struct coll){.layout = c->l}, &spec, c->tap.world->rank, &rows, &err));
        wrong += exec_nccl_prepare(c->x, &rows, &h, &err) == 0 || err.code != ERR_INPUT ||
                 !strstr(err.text, "coded data");
    }
    must(&c->tap, device_open(&o.device, "cpu", 0, &err));
    wrong += exec_nccl_open(&x, &o, &err) == 0 || err.code != ERR_INPUT;
    device_close(o.device);
    tell(&c->tap, wrong, "what is refused");
}

static void run(struct check *c)
{
    algorithms(c);
    reductions(c);
    long_runs(c);
    between_events(c);
    c->any = 1;
    if (!c->quick)
        algorithms(c);
    native(c);
    refusals(c);
}

int main(int argc, char **argv)
{
    const char *name = getenv("DEVICE") ? getenv("DEVICE") : "cuda:0";
    struct check c = {0};
    char two[32];
    struct groups g;
    err = (struct err){0};

    if (world_open(&c.tap.world, &err)) {
        fprintf(stderr, "nccl_check: %s\n", err.text);
        return 2;
    }
    int half = c.tap.world->ranks / 2;
    c.quick = argc < 2;
    snprintf(two, sizeof two, half ? "[%d,%d]" : "1", c.tap.world->ranks - half, half);
    stand_apart(&c.tap);
    c.tap.world->deadline_s = 60;
    must(&c.tap, groups_parse(&g, argc > 1 ? argv[1] : two, &err));
    layout_init(&c.l, &g);
    groups_release(&g);
    int rc = device_open(&c.device, name, c.tap.world->node_rank, &err);
    rc = world_agree(c.tap.world, rc, &err);
    if (rc == 0)
        rc = exec_nccl_open_world(&c.x, c.tap.world, c.device, 4 * ELEMS_MAX * 8, &err);
    if (rc && err.code != ERR_ABSENT)
        must(&c.tap, rc);
    if (rc && c.tap.world->rank == 0)
        printf("1..0 # SKIP %s\n", err.text);
    if (rc == 0) {
        c.in = exec_nccl_take(c.x, ELEMS_MAX * 8);
        c.out = exec_nccl_take(c.x, ELEMS_MAX * 8);
        c.host = mem_new(ELEMS_MAX, 8);
        c.door = exec_nccl_door(c.x);
        run(&c);
        tell_count(&c.tap);
        exec_nccl_close(c.x);
    }
    mem_free(c.host);
    device_close(c.device);
    layout_release(&c.l);
    world_close(c.tap.world);
    return c.tap.bad != 0;
}
