/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures other hosts, when horing-check becomes this command: the part that loads MPI. */
#include <stdio.h>

#include "cli/cli_health.h"
#include "cli/cli_watch.h"
#include "cli/cli_world.h"

static int fail(void *arg, const struct err *err)
{
    int status = cli_health_fail(arg, err);

    fflush(stderr);
    return status;
}

/* The answer is printed whole, by whoever has claimed it. */
static int answer(struct cli_health *a, struct world *w, struct cli_watch *watch, int *gone,
                  struct err *err)
{
    enum health_state state = HEALTH_UNKNOWN;
    int rc = cli_health_begin(a, err);

    if (rc == 0)
        rc = health_check(w, &a->o, cli_watch_where(watch), a->answer, &state, gone, err);
    cli_watch_claim(watch);
    rc = cli_health_print(a, rc, err);
    if (rc == 0)
        cli_health_note_learned(a, w->groups.count);
    return rc ? cli_health_fail(a, err) : cli_health_finish(a, (int)state);
}

int main(int argc, char **argv)
{
    struct cli_health a;
    struct cli_watch *watch;
    struct world *w = NULL;
    struct err err = {0};
    int gone = 0;

    cli_health_parse(&a, argc, argv);
    if (cli_health_take_over(&err) ||
        cli_watch_start(&watch, &a.cli, a.o.deadline_s, fail, &a, &err))
        return cli_health_close(&a, cli_health_fail(&a, &err));
    cli_health_stop_timer(&a);
    if (world_open(&w, &err)) {
        cli_watch_claim(watch);
        int failed = cli_health_fail(&a, &err);
        cli_watch_answered(watch, failed);
        return cli_health_close(&a, failed);
    }
    cli_watch_world(watch, w);
    int status = answer(&a, w, watch, &gone, &err);
    cli_watch_answered(watch, status);
    cli_health_close(&a, status);
    if (gone)
        err.code = ERR_PEER;
    else
        cli_watch_world(watch, NULL); /* it is closed in order */
    return cli_leave(&a.cli, w, &err, status);
}
