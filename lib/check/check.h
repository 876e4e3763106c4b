/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include <stdio.h>
#include <time.h>

#include "cli/cli.h"
#include "health/health.h"

/*
 * Declares what horing-check and horing-rounds share: the words, the environment and the
 * answer.  The first needs no MPI, and starts where its library is not found (from cron nobody
 * has loaded a module); it leaves measurements between hosts to the second, which it becomes.
 */
struct check {
    struct cli cli;
    struct health_options o;
    struct health_memory memory;
    const char *config, *replay, *state;
    char **launch;    /* LAUNCHER and all that it is to start, NULL at its end; NULL: none */
    int no_launcher;  /* a "--" with nothing after it */
    int marks;        /* it was started so: its answer ends with a mark (check_launch.h) */
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
void check_parse(struct check *a, int argc, char **argv);
/* Before an answer is printed, or when another (check_deadline.h) knows the time. */
void check_stop_timer(struct check *a);
/* An answer is printed whole: kept in memory from begin on, printed when rc is 0. */
int check_begin(struct check *a, struct err *err);
int check_print(struct check *a, int rc, struct err *err);
/* A baseline was made: on standard error, what so few hosts leave unknown. */
void check_note_learned(const struct check *a, int hosts);
/* An error is an answer: on standard output, where a monitoring system reads.  The status. */
int check_fail(struct check *a, const struct err *err);
/* The answer is out but for its mark: flushes. The status, as cli_finish has it. */
int check_finish(struct check *a, int status);
/* Has a launcher start the ranks, and passes on what they answer.  The status. */
int check_relay(struct check *a, struct err *err);
/* Releases the memory of earlier runs; returns the status. */
int check_close(struct check *a, int status);
/* horing-check leaves its version to horing-rounds, which refuses another's. */
int check_hand_over(struct err *err);
int check_take_over(struct err *err);

#endif
