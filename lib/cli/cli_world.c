/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends a rank after an error. */
#include "cli/cli_world.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/tick.h"

/* Only a peer that does not respond is an error that a single rank may know. */
static int knows_alone(const struct world *w, const struct err *err)
{
    return w && w->ranks > 1 && err->code == ERR_PEER;
}

/* Prints one line that names this rank; returns the status. */
static int say_alone(struct cli *cli, const struct world *w, const struct err *err)
{
    struct err mine = *err;

    if (!err->has_rank && w->groups.group_of)
        err_prefix(&mine, "rank %d (%s): ", w->rank, w->host[w->groups.group_of[w->rank]]);
    cli->silent = 0;
    return cli_fail(cli, &mine);
}

/*
 * Lets rank 0 print first: its status is mpirun's, and a rank that aborts before it would hide
 * both.  Rank 0 may detect the error later, by its own deadline.  When it has printed, the
 * launcher sends this rank a signal, which may interrupt it here: then it does not print.
 */
static void give_way(const struct cli *cli, const struct world *w)
{
    const double rank_0_has_s = 30;
    double end = tick_now_s() + rank_0_has_s;

    fflush(stdout);
    for (double left; (cli->silent || w->rank) && (left = end - tick_now_s()) > 0;)
        tick_sleep_s(left);
}

void cli_end_ranks(struct world *w, int status)
{
    const unsigned patience_s = 2;

    if (w) { /* MPI may hang here too: then the signal ends the process */
        signal(SIGALRM, SIG_DFL);
        alarm(patience_s);
        world_abort(w, status);
    }
    _exit(status);
}

/* Runs in a separate thread, since the command's thread is in MPI. */
static void on_silence(struct world *w, void *arg, const struct err *err)
{
    struct cli *cli = arg;

    give_way(cli, w);
    cli_end_ranks(w, say_alone(cli, w, err));
}

int cli_world_open(struct cli *cli, double deadline_s, struct world **out, struct err *err)
{
    return world_open_watched(out, deadline_s, on_silence, cli, err);
}

int cli_leave(const struct cli *cli, struct world *w, const struct err *err, int status)
{
    if (knows_alone(w, err)) {
        give_way(cli, w);
        world_abort(w, w->rank ? cli->status : status);
    }
    world_close(w);
    return status;
}

int cli_fail_ranks(struct cli *cli, struct world *w, const struct err *err)
{
    if (knows_alone(w, err)) {
        give_way(cli, w);
        world_abort(w, say_alone(cli, w, err));
    }
    int status = cli_fail(cli, err);
    world_close(w);
    return status;
}
