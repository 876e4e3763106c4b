/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the network of its hosts and answers like monitoring plugins do.  Loads no MPI: for
 * measurements between hosts it executes horing-rounds.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "check/check.h"

/* Executes horing-rounds from this program's folder, or from the installation's. */
static void become_rounds(char **argv, struct err *err)
{
    static const char *const place[] = {"horing-rounds", "../lib/paro/horing-rounds"};
    char *path = io_program_path(place[0]);

    if (check_hand_over(err) == 0) {
        execv(path, argv);
        if (errno == ENOENT) {
            mem_free(path);
            path = io_program_path(place[1]);
            execv(path, argv);
        }
        err_sys(err, "cannot run '%s', which measures", path);
    }
    mem_free(path);
}

/* Prints the answer unless the deadline has passed. */
static int look(struct check *a, enum health_state *state, struct err *err)
{
    int rc = check_begin(a, err);

    if (rc == 0)
        rc = a->replay ? health_replay(&a->o, a->replay, a->answer, state, err)
                       : health_quick(&a->o, a->answer, state, err);
    check_stop_timer(a);
    return check_print(a, rc, err);
}

int main(int argc, char **argv)
{
    struct check a;
    enum health_state state = HEALTH_UNKNOWN;
    struct err err = {0};
    int rc = -1;

    check_parse(&a, argc, argv);
    if (a.launch)
        return check_close(&a, check_relay(&a, &err));
    if (a.replay || a.o.level == HEALTH_QUICK)
        rc = look(&a, &state, &err);
    else
        become_rounds(argv, &err);
    int status = rc ? check_fail(&a, &err) : cli_finish(&a.cli, (int)state);
    return check_close(&a, status);
}
