/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_WORLD_H
#define CLI_CLI_WORLD_H

#include "cli/cli.h"
#include "world/world.h"

/* For commands that run under mpirun; apart from cli.h, so that the others load no MPI. */

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
