/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks how the NCCL executor ends where something goes wrong, or is given up, half done:
 * fail_check SHAPE WHAT [SECONDS], run under mpirun with the shape's ranks, on one GPU that
 * they share.  SECONDS: the executor's deadline, else the world's.  Prints TAP; each rank's
 * error is a line of its own.
 *
 *     run      all-reduces over all tracks, one behind the other, until one fails
 *     partly   odd ranks free a handle whose run is half in the queues: it ends well
 *     queued   odd ranks free one whose run could not begin: they all end
 *
 * The failures are chosen by EMULATE_NCCL and EMULATED_FAIL of tests/emulate.
 */
#include "coll/coll.h"
#include "exec/exec_nccl.h"
#include "../mpi/ranks_fixture.h"

enum {
    ELEMS = 4000,
    LONG = 40000, /* in chunks of 256 bytes: more turns than go into the queues at once */
    RUNS = 200
};

struct check {
    struct ranks_tap tap;
    struct device *device;
    struct exec_nccl *x;
    struct layout l;
    float *in, *out, *host; /* of the GPU, of the GPU, of the host */
};

static int told(const struct err *why)
{
    printf("# %s: %s\n", err_code_name(why->code), why->text);
    fflush(stdout);
    return -1;
}

/* N to N: an all-reduce; N to G: a reduce-scatter. */
static int prepare(struct check *c, enum letter to, int64_t elems, int64_t chunk_bytes,
                   struct exec_nccl_handle **out)
{
    struct coll_spec spec = LIST(.phases = layout_phases_sum(LETTER_N, to), .from = LETTER_N,
                                 .to = to, .elems = elems, .type = DTYPE_F32,
                                 .algo = SCHEDULE_HO_RING, .chunk_bytes = chunk_bytes);
    struct exec_rows rows;

    must(&c->tap,
         coll_rows(&(struct coll){.layout = c->l}, &spec, c->tap.world->rank, &rows, &err));
    return exec_nccl_prepare(c->x, &rows, out, &err);
}

static int wait_done(struct exec_nccl_handle *h, struct err *why)
{
    return stream_drive((struct stream_op){.poll = exec_nccl_poll, .arg = h}, why);
}

static int start(struct check *c, struct exec_nccl_handle *h, struct err *why)
{
    exec_nccl_set(h, c->in, c->out, NULL, NULL);
    return exec_nccl_start(h, why);
}

/* The same, while nothing that is in the GPU's queues gets done there: more than fits waits. */
static int start_partly(struct check *c, struct exec_nccl_handle *h)
{
    setenv("EMULATED_IDLE", "1", 1);
    int rc = start(c, h, &err);
    unsetenv("EMULATED_IDLE");
    return rc;
}

static int run_once(struct check *c, struct exec_nccl_handle *h)
{
    return start(c, h, &err) || wait_done(h, &err) ? -1 : 0;
}

/* Whole numbers: each rank gives its own, one more than its rank. */
static void fill(struct check *c)
{
    struct device_queue *door = exec_nccl_door(c->x);

    for (int i = 0; i < LONG; i++)
        c->host[i] = (float)(c->tap.world->rank + 1);
    device_copy(door, c->in, c->host, LONG * 4);
    must(&c->tap, device_sync(door, &err));
}

static int is_wrong(struct check *c, int elems)
{
    struct device_queue *door = exec_nccl_door(c->x);
    int n = c->tap.world->ranks, wrong = 0;

    device_copy(door, c->host, c->out, elems * 4);
    must(&c->tap, device_sync(door, &err));
    for (int i = 0; i < elems; i++)
        wrong += c->host[i] != (float)(n * (n + 1) / 2);
    return wrong != 0;
}

static void run(struct check *c)
{
    struct exec_nccl_handle *h = NULL;
    struct err again = {0};
    int rc = 0;

    if (prepare(c, LETTER_N, ELEMS, 512, &h))
        rc = told(&err);
    for (int i = 0; rc == 0 && i < RUNS; i++)
        if (run_once(c, h))
            rc = told(&err);
    tell(&c->tap,
         rc == 0 || (h && (start(c, h, &again) == 0 || strcmp(again.text, err.text) != 0)),
         "a run that fails says so, and so does the next");
    exec_nccl_free(h);
}

static void partly(struct check *c)
{
    struct exec_nccl_handle *h = NULL, *next = NULL;

    must(&c->tap, prepare(c, LETTER_G, LONG, 256, &h));
    must(&c->tap, prepare(c, LETTER_N, ELEMS, 512, &next));
    must(&c->tap, start_partly(c, h));
    if (c->tap.world->rank % 2 == 0)
        must(&c->tap, wait_done(h, &err));
    exec_nccl_free(h);
    tell(&c->tap, is_wrong(c, LONG / c->tap.world->ranks),
         "a run whose handle is freed is put in whole");
    must(&c->tap, run_once(c, next));
    tell(&c->tap, is_wrong(c, ELEMS), "and the next one goes on from there");
    exec_nccl_free(next);
}

static void queued(struct check *c)
{
    struct exec_nccl_handle *h[2] = {NULL, NULL};
    int odd = c->tap.world->rank % 2, rc = 0;

    must(&c->tap, prepare(c, LETTER_G, LONG, 256, &h[0]));
    must(&c->tap, prepare(c, LETTER_N, ELEMS, 512, &h[1]));
    if (start_partly(c, h[0]) || start(c, h[1], &err)) {
        rc = told(&err);
    } else if (odd) {
        exec_nccl_free(h[1]);
        h[1] = NULL;
    }
    if (rc == 0 && (wait_done(h[0], &err) || (h[1] && wait_done(h[1], &err))))
        rc = told(&err);
    tell(&c->tap, rc == 0, "one whose run could not begin: nobody waits for it");
    exec_nccl_free(h[0]);
    exec_nccl_free(h[1]);
}

static int open_exec(struct check *c, double deadline_s)
{
    double was = c->tap.world->deadline_s;

    c->tap.world->deadline_s = deadline_s > 0 ? deadline_s : was;
    int rc = device_open(&c->device, "cuda:0", 0, &err);
    if (rc == 0)
        rc = exec_nccl_open_world(&c->x, c->tap.world, c->device, 3 * LONG * 4, &err);
    c->tap.world->deadline_s = was;
    if (rc == 0) {
        c->in = exec_nccl_take(c->x, LONG * 4);
        c->out = exec_nccl_take(c->x, LONG * 4);
        c->host = mem_new(LONG, sizeof *c->host);
        fill(c);
    }
    return rc;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";
    struct check c = {0};
    struct groups g;
    err = (struct err){0};

    if (!exec_nccl_built()) {
        printf("1..0 # SKIP a build without NCCL\n");
        return 0;
    }
    if (world_open(&c.tap.world, &err)) {
        fprintf(stderr, "fail_check: %s\n", err.text);
        return 2;
    }
    must(&c.tap, groups_parse(&g, argc > 1 ? argv[1] : "", &err));
    layout_init(&c.l, &g);
    groups_release(&g);
    int rc = open_exec(&c, argc > 3 ? atof(argv[3]) : 0);
    must(&c.tap, rc);
    if (strcmp(what, "run") == 0)
        run(&c);
    if (strcmp(what, "partly") == 0)
        partly(&c);
    if (strcmp(what, "queued") == 0)
        queued(&c);
    tell_count(&c.tap);
    exec_nccl_close(c.x);
    mem_free(c.host);
    device_close(c.device);
    layout_release(&c.l);
    world_close(c.tap.world);
    return c.tap.bad != 0;
}
