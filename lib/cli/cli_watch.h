/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_WATCH_H
#define CLI_CLI_WATCH_H

#include "cli/cli.h"
#include "world/world.h"

/*
 * The last resort of a command that promises an answer in time: a thread of its own, which a
 * start or an end that hangs (a library that waits for a dead host) cannot stop.  A second
 * after the time is over it prints "NAME UNKNOWN - ..." with what was going on, unless the
 * answer has been given, and ends the process.
 */
struct cli_watch;

struct cli_watch *cli_watch_start(const struct cli *cli, const char *name, double seconds);
/* Where to write what goes on, a constant text. */
const char *volatile *cli_watch_where(struct cli_watch *watch);
/*
 * The ranks that are to end with this one, as the launcher's status has it: a process that just
 * ends is an accident to it, and its status 1.
 */
void cli_watch_world(struct cli_watch *watch, struct world *world);
/* The answer is out: only the end is watched from here on. */
void cli_watch_said(struct cli_watch *watch, int status);

#endif
