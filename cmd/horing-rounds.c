/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures the network between hosts, when horing-check executes this command: the part that
   loads MPI. */
#include <stdio.h>

#include "check/check.h"
#include "check/check_deadline.h"
#include "cli/cli_world.h"

static int fail(void *arg, const struct err *err)
{
    int status = check_fail(arg, err);

    fflush(stderr);
    return status;
}

/* Prints the whole answer, after claiming it. */
static int answer(struct check *a, struct world *w, struct check_deadline *watch, int *lost,
                  struct err *err)
{
    enum health_state state = HEALTH_UNKNOWN;
    int rc = check_begin(a, err);

    if (rc == 0)
        rc = health_check(w, &a->o, check_deadline_where(watch), a->answer, &state, lost, err);
    check_deadline_claim(watch);
    rc = check_print(a, rc, err);
    if (rc == 0)
        check_note_learned(a, w->groups.count);
    return rc ? check_fail(a, err) : check_finish(a, (int)state);
}

int main(int argc, char **argv)
{
    struct check a;
    struct check_deadline *watch;
    struct world *w = NULL;
    struct err err = {0};
    int lost = 0;

    check_parse(&a, argc, argv);
    if (check_take_over(&err) ||
        check_deadline_start(&watch, &a.cli, a.o.deadline_s, fail, &a, &err))
        return check_close(&a, check_fail(&a, &err));
    check_stop_timer(&a);
    if (world_open(&w, &err)) {
        check_deadline_claim(watch);
        int failed = check_fail(&a, &err);
        check_deadline_answered(watch, failed);
        return check_close(&a, failed);
    }
    check_deadline_world(watch, w);
    int status = answer(&a, w, watch, &lost, &err);
    check_deadline_answered(watch, status);
    check_close(&a, status);
    if (lost)
        err.code = ERR_PEER;
    else
        check_deadline_world(watch, NULL); /* the world is closed normally */
    return cli_leave(&a.cli, w, &err, status);
}
