/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHECK_CHECK_DEADLINE_H
#define CHECK_CHECK_DEADLINE_H

#include "cli/cli.h"
#include "world/world.h"

/*
 * Guarantees an answer in time, in two ways.  A separate process, the reporter, calls `fail`
 * with the reason one second after the deadline, or when the command has ended without an
 * answer, unless the answer was printed.  It works even if a library hangs at start or end
 * (waiting for a dead host), or if a signal stops or kills the command.  A thread in each rank
 * ends the ranks.
 */
struct check_deadline;
/* Prints the error and flushes; called in the reporter process.  Returns a status. */
typedef int check_deadline_fail(void *arg, const struct err *err);

/*
 * Call while there is only one thread, before MPI is initialised.  A silent rank has no
 * reporter.  cli and arg are borrowed until the end.
 */
int check_deadline_start(struct check_deadline **out, struct cli *cli, double seconds,
                         check_deadline_fail *fail, void *arg, struct err *err);
/* Pointer to store the current activity in, a constant text. */
const char *volatile *check_deadline_where(struct check_deadline *watch);
/*
 * Sets the ranks to be ended together with this one, with the launcher's status: to a launcher
 * a process that just exits is a failure with status 1.
 */
void check_deadline_world(struct check_deadline *watch, struct world *world);
/* Call before printing: returns only if the reporter has not answered. */
void check_deadline_claim(struct check_deadline *watch);
/* Call when the answer is printed: from here on only the end is supervised. */
void check_deadline_answered(struct check_deadline *watch, int status);

#endif
