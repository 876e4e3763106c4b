/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_WORLD_H
#define CLI_CLI_WORLD_H

#include "cli/cli.h"
#include "world/world.h"

/* Supports commands that run under mpirun; separate from cli.h, so that other commands load no
   MPI. */

#define CLI_OPTION_DEADLINE(field)                                                             \
    "deadline", 0, "SECONDS", 0, WORLD_DEADLINE_HELP " (default: " WORLD_DEADLINE_TEXT ")",    \
        CLI_NUMBER(field, 1, 1e6)

/*
 * Opens the world of a command.  Waits for other ranks, including those inside MPI, are limited
 * to deadline_s; after that one line is printed and all ranks end.  cli is borrowed until
 * world_close.
 */
int cli_world_open(struct cli *cli, double deadline_s, struct world **out, struct err *err);

/* Ends all ranks with this status, from any thread, even if MPI hangs while doing so. */
void cli_end_ranks(struct world *w, int status) __attribute__((noreturn));

/*
 * Ends a command after its answer.  If all ranks agreed on the error, closes the world
 * normally.  After ERR_PEER other ranks may not respond: rank 0 ends all ranks with `status`,
 * the others wait for this.  w may be NULL.  Returns the rank's exit status.
 */
int cli_leave(const struct cli *cli, struct world *w, const struct err *err, int status);

/*
 * Prints the error and ends: rank 0 prints and returns the status, the others return 0.  After
 * ERR_PEER the message names the rank, and another rank prints only if rank 0 has not ended all
 * ranks.
 */
int cli_fail_ranks(struct cli *cli, struct world *w, const struct err *err);

#endif
