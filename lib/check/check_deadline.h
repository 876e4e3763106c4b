/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHECK_CHECK_DEADLINE_H
#define CHECK_CHECK_DEADLINE_H

#include "cli/cli.h"
#include "world/world.h"

/*
 * Provides the last resort of a command that promises one answer in time: a process of its own,
 * which neither a start or an end that hangs (a library that waits for a dead host) nor a
 * signal that stops or kills the command can keep from reporting; and a thread that ends the
 * ranks.  A second after the time is over, or when the command has ended without an answer,
 * `fail` gets the reason, unless the answer has been given.
 */
struct check_deadline;
/* Prints the error, flushed; in the process that reports late.  Returns a status. */
typedef int check_deadline_fail(void *arg, const struct err *err);

/*
 * To be called while there is one thread, and MPI is not there yet.  A silent rank has no other
 * process.  cli and arg are borrowed until the end.
 */
int check_deadline_start(struct check_deadline **out, struct cli *cli, double seconds,
                         check_deadline_fail *fail, void *arg, struct err *err);
/* Where to write what goes on, a constant text. */
const char *volatile *check_deadline_where(struct check_deadline *watch);
/*
 * The ranks that are to end with this one, as the launcher's status has it: a process that just
 * ends is an accident to it, and its status 1.
 */
void check_deadline_world(struct check_deadline *watch, struct world *world);
/* Before anything is printed: returns only where nobody else has answered. */
void check_deadline_claim(struct check_deadline *watch);
/* The answer is out: only the end is watched from here on. */
void check_deadline_answered(struct check_deadline *watch, int status);

#endif
