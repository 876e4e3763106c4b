/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how to keep a promise about time when everything else hangs. */
#include "cli/cli_watch.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tick.h"

struct cli_watch { /* lives as long as the process */
    const struct cli *cli;
    const char *name;
    double seconds, end_s;
    const char *volatile where;
    atomic_int status; /* -1: nothing said yet */
    _Atomic(struct world *) world;
};

static void end_all(struct cli_watch *w, int status)
{
    const unsigned patience_s = 2;
    struct world *world = atomic_load(&w->world);

    if (world) { /* the library may hang in this, too: then the signal ends the process */
        signal(SIGALRM, SIG_DFL);
        alarm(patience_s);
        world_abort(world, status);
    }
    _exit(status);
}

static void *watch_main(void *arg)
{
    struct cli_watch *w = arg;
    /* The command's own deadlines come first; the other ranks wait for rank 0's status. */
    double end = w->end_s + (w->cli->silent ? 1.5 : 1);

    for (double left; (left = end - tick_now_s()) > 0;)
        tick_sleep_s(left);
    int status = atomic_load(&w->status);
    /* What holds stdout is speaking; what wakes later will find it held, and say nothing. */
    if (status < 0 && !w->cli->silent && ftrylockfile(stdout) == 0) {
        char line[256];
        int n = snprintf(line, sizeof line, "%s UNKNOWN - no answer within %.3g s, while %s\n",
                         w->name, w->seconds, w->where);
        if (write(STDOUT_FILENO, line, (size_t)n) != n)
            status = w->cli->status;
    }
    /* A silent rank has said nothing that counts: rank 0 ends before it, unless it cannot. */
    end_all(w, status < 0 || w->cli->silent ? w->cli->status : status);
    return NULL;
}

struct cli_watch *cli_watch_start(const struct cli *cli, const char *name, double seconds)
{
    struct cli_watch *w = mem_new(1, sizeof *w);
    pthread_t thread;

    *w = (struct cli_watch){.cli = cli,
                            .name = name,
                            .seconds = seconds,
                            .end_s = tick_now_s() + seconds,
                            .where = "starting"};
    atomic_init(&w->status, -1);
    if (pthread_create(&thread, NULL, watch_main, w) == 0)
        pthread_detach(thread);
    return w;
}

const char *volatile *cli_watch_where(struct cli_watch *watch)
{
    return &watch->where;
}

void cli_watch_world(struct cli_watch *watch, struct world *world)
{
    atomic_store(&watch->world, world);
}

void cli_watch_said(struct cli_watch *watch, int status)
{
    atomic_store(&watch->status, status);
}
