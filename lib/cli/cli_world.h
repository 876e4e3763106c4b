/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_WORLD_H
#define CLI_CLI_WORLD_H

#include "cli/cli.h"
#include "world/world.h"

/* Supports commands that run under mpirun; apart from cli.h, so that the others load no MPI. */

#define CLI_OPTION_DEADLINE(field)                                                             \
    "deadline", 0, "SECONDS", 0, WORLD_DEADLINE_HELP " (default: " WORLD_DEADLINE_TEXT ")",    \
        CLI_NUMBER(field, 1, 1e6)

/*
 * The world of a command: no wait for other ranks is longer than deadline_s, MPI's own calls
 * included; past it one line is printed and all ranks end.  cli is borrowed until world_close.
 */
int cli_world_open(struct cli *cli, double deadline_s, struct world **out, struct err *err);

/* Ends all ranks with the status, from whatever thread, and although MPI may hang in it. */
void cli_end_ranks(struct world *w, int status) __attribute__((noreturn));

/*
 * Ends after an answer has been given.  What all ranks agreed on ends in good order
 * (world_close); after ERR_PEER nobody can be waited for: rank 0 ends everyone with `status`,
 * the others give it time to.  w may be NULL.  Returns the rank's exit status.
 */
int cli_leave(const struct cli *cli, struct world *w, const struct err *err, int status);

/*
 * Prints the error and ends: rank 0 speaks and returns the status, the others return 0.  After
 * ERR_PEER it names itself, and another rank speaks only where rank 0 has not ended everyone.
 */
int cli_fail_ranks(struct cli *cli, struct world *w, const struct err *err);

#endif
