/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a rank leaves when something went wrong. */
#include "cli/cli_world.h"

#include <stdio.h>

#include "base/tick.h"

/* A peer that does not answer is the one thing that one rank may know alone. */
static int alone(const struct world *w, const struct err *err)
{
    return w && w->ranks > 1 && err->code == ERR_PEER;
}

/*
 * Rank 0 speaks, and its status is mpirun's; a rank that aborts before it would hide both.  It
 * may learn of the trouble later, by its own deadline.  When it has spoken the launcher asks
 * this one to end by a signal that it may be handling: no reason to speak too.
 */
static void give_way(const struct world *w)
{
    const double rank_0_has_s = 30;
    double end = tick_now_s() + rank_0_has_s;

    fflush(stdout);
    for (double left; w->rank && (left = end - tick_now_s()) > 0;)
        tick_sleep_s(left);
}

int cli_leave(const struct cli *cli, struct world *w, const struct err *err, int status)
{
    if (alone(w, err)) {
        give_way(w);
        world_abort(w, w->rank ? cli->status : status);
    }
    world_close(w);
    return status;
}

int cli_fail_ranks(struct cli *cli, struct world *w, const struct err *err)
{
    struct err mine = *err;

    if (alone(w, err)) {
        give_way(w);
        if (!err->told)
            err_prefix(&mine, "rank %d (%s): ", w->rank, w->host[w->groups.group_of[w->rank]]);
        cli->silent = 0;
        world_abort(w, cli_fail(cli, &mine));
    }
    int status = cli_fail(cli, err);
    world_close(w);
    return status;
}
