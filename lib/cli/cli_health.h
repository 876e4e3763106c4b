/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_HEALTH_H
#define CLI_CLI_HEALTH_H

#include <stdio.h>
#include <time.h>

#include "cli/cli.h"
#include "health/health.h"

/*
 * Declares what horing-check and horing-rounds share: the words, the environment and the
 * answer.  The first needs no MPI, and starts where its library is not found (from cron nobody
 * has loaded a module); it leaves measurements between hosts to the second, which it becomes.
 */
struct cli_health {
    struct cli cli;
    struct health_options o;
    struct health_memory memory;
    const char *config, *replay, *state;
    char **launch;    /* LAUNCHER and all that it is to start, NULL at its end; NULL: none */
    int no_launcher;  /* a "--" with nothing after it */
    int marks;        /* it was started so: its answer ends with a mark (cli_launch.h) */
    char folder[512]; /* of the state, when none was named */
    timer_t timer;
    int timed;
    char late[200]; /* printed when the time is over */
    FILE *answer;   /* between begin and print: what the check writes to */
    char *text;
    size_t text_bytes;
};

/*
 * Parses; on an error prints one line and exits with 3.  From its options on the process says
 * so and ends when the time is over; a replay only where a time was given.
 */
void cli_health_parse(struct cli_health *a, int argc, char **argv);
/* Before an answer is printed, or when another (cli_watch.h) knows the time. */
void cli_health_stop_timer(struct cli_health *a);
/* An answer is printed whole: kept in memory from begin on, printed when rc is 0. */
int cli_health_begin(struct cli_health *a, struct err *err);
int cli_health_print(struct cli_health *a, int rc, struct err *err);
/* A baseline was made: on standard error, what so few hosts leave unknown. */
void cli_health_note_learned(const struct cli_health *a, int hosts);
/* An error is an answer: on standard output, where a monitoring system reads.  The status. */
int cli_health_fail(struct cli_health *a, const struct err *err);
/* The answer is out but for its mark: flushes. The status, as cli_finish has it. */
int cli_health_finish(struct cli_health *a, int status);
/* Has a launcher start the ranks, and passes on what they answer.  The status. */
int cli_health_launch(struct cli_health *a, struct err *err);
/* Releases the memory of earlier runs; returns the status. */
int cli_health_close(struct cli_health *a, int status);
/* horing-check leaves its version to horing-rounds, which refuses another's. */
int cli_health_hand_over(struct err *err);
int cli_health_take_over(struct err *err);

#endif
