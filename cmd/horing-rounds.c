/* SPDX-License-Identifier: BSD-3-Clause */
/* What horing-check becomes where other hosts are measured: the part that loads MPI. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli_health.h"
#include "cli/cli_watch.h"
#include "cli/cli_world.h"

static int fail(void *arg, const struct err *err)
{
    int status = cli_health_fail(arg, err);

    fflush(stderr);
    return status;
}

/* The answer is said whole, by whoever may speak. */
static int answer(struct cli_health *a, struct world *w, struct cli_watch *watch, int *gone,
                  struct err *err)
{
    enum health_state state = HEALTH_UNKNOWN;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    int rc = out ? health_check(w, &a->o, cli_watch_where(watch), out, &state, gone, err) : -1;

    if (!out || fclose(out))
        rc = err_sys(err, "cannot have memory for the answer");
    cli_watch_speak(watch);
    if (rc == 0)
        fwrite(text, 1, bytes, stdout);
    free(text);
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
    if (cli_health_take_over(&err))
        return cli_health_close(&a, cli_health_fail(&a, &err));
    if (cli_watch_start(&watch, &a.cli, a.o.deadline_s, fail, &a, &err))
        return cli_health_close(&a, cli_health_fail(&a, &err));
    cli_health_stop_timer(&a);
    if (world_open(&w, &err)) {
        cli_watch_speak(watch);
        return cli_health_close(&a, cli_health_fail(&a, &err));
    }
    cli_watch_world(watch, w);
    int status = answer(&a, w, watch, &gone, &err);
    cli_watch_said(watch, status);
    cli_health_close(&a, status);
    if (gone)
        err.code = ERR_PEER;
    else
        cli_watch_world(watch, NULL); /* it is closed in order */
    return cli_leave(&a.cli, w, &err, status);
}
