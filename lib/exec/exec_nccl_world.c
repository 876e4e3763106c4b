/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how the ranks of a world come to communicators, and to one outcome. */
#include "exec/exec_nccl_inside.h"

static int share(void *arg, void *bytes, int n, int root, struct err *err)
{
    return world_bcast(arg, bytes, n, root, err);
}

static void tell(void *arg, const struct err *err)
{
    world_alarm(arg, err);
}

static int hear(void *arg, struct err *err)
{
    return world_alarmed(arg, err);
}

int exec_nccl_open_world(struct exec_nccl **out, struct world *world, struct device *device,
                         int64_t bytes, struct err *err)
{
    struct exec_nccl_options o = {.device = device,
                                  .rank = world->rank,
                                  .ranks = world->ranks,
                                  .deadline_s = WORLD_SLOW * world->deadline_s,
                                  .bytes = bytes,
                                  .share = share,
                                  .tell = tell,
                                  .hear = hear,
                                  .arg = world};
    struct exec_nccl *x = NULL;

    /* Nobody goes where not all can go. */
    if (world_agree(world, exec_nccl_supported(device, err), err))
        return -1;
    world_listen(world);
    world->slow++; /* NCCL looks at the whole machine first, on every host */
    int rc = world_agree(world, exec_nccl_open(&x, &o, err), err);
    world->slow--;
    if (rc) {
        if (x)
            exec_nccl_abort(x); /* those who failed are gone from it */
        exec_nccl_close(x);
        return -1;
    }
    exec_nccl_wait_for(x, world->deadline_s);
    *out = x;
    return 0;
}
