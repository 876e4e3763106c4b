/* SPDX-License-Identifier: BSD-3-Clause */
/* What horing-check becomes where other hosts are measured: the part that loads MPI. */
#include <stdio.h>

#include "cli/cli_health.h"
#include "cli/cli_watch.h"
#include "cli/cli_world.h"

int main(int argc, char **argv)
{
    struct cli_health a;
    struct world *w = NULL;
    struct err err = {0};
    enum health_state state = HEALTH_UNKNOWN;
    int gone = 0;

    cli_health_parse(&a, argc, argv);
    struct cli_watch *watch = cli_watch_start(&a.cli, "HORING", a.o.deadline_s);
    if (world_open(&w, &err))
        return cli_health_close(&a, cli_health_fail(&a, &err));
    cli_watch_world(watch, w);
    int rc = health_check(w, &a.o, cli_watch_where(watch), stdout, &state, &gone, &err);
    int status = rc ? cli_health_fail(&a, &err) : cli_finish(&a.cli, (int)state);
    cli_watch_said(watch, status);
    cli_health_close(&a, status);
    if (gone)
        err.code = ERR_PEER;
    else
        cli_watch_world(watch, NULL); /* it is closed in order */
    return cli_leave(&a.cli, w, &err, status);
}
