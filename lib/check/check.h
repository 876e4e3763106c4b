/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include <stdio.h>
#include <time.h>

#include "cli/cli.h"
#include "health/health.h"

/*
 * Declares the common parts of horing-check and horing-rounds: options, environment, answer.
 * horing-check needs no MPI, so it also starts if the MPI library is not found (under cron no
 * module is loaded).  For measurements between hosts it executes horing-rounds.
 */
struct check {
    struct cli cli;
    struct health_options o;
    struct health_memory memory;
    const char *config, *replay, *state;
    /* LAUNCHER and the command that it starts, ending with NULL; NULL: none */
    char **launch;
    int no_launcher; /* a "--" with nothing after it */
    /* Started by check_launch: the answer ends with a mark (check_launch.h) */
    int marks;
    char folder[512]; /* folder of the state if none was named */
    timer_t timer;
    int timed;
    char late[200]; /* printed at the deadline */
    FILE *answer;   /* stream for the answer between begin and print */
    char *text;
    size_t text_bytes;
};

/*
 * Parses the command line; on an error prints one line and exits with 3.  From then on the
 * process prints an answer and ends at the deadline; a replay only if a deadline was given.
 */
void check_parse(struct check *a, int argc, char **argv);
/* Call before the answer is printed, or when check_deadline.h supervises the deadline. */
void check_stop_timer(struct check *a);
/* The answer is collected in memory from begin on, and printed as a whole by print if rc is
   0. */
int check_begin(struct check *a, struct err *err);
int check_print(struct check *a, int rc, struct err *err);
/* After a baseline was made: prints on standard error what remains unknown with so few
   hosts. */
void check_note_learned(const struct check *a, int hosts);
/* Prints an error as an answer, on standard output for monitoring systems.  Returns the
   status. */
int check_fail(struct check *a, const struct err *err);
/* Call when the answer is printed, without its mark: flushes.  Returns the status, as
   cli_finish. */
int check_finish(struct check *a, int status);
/* Lets a launcher start the ranks, and relays their answer.  Returns the status. */
int check_relay(struct check *a, struct err *err);
/* Frees the memory of earlier runs; returns the status. */
int check_close(struct check *a, int status);
/* horing-check passes its version to horing-rounds, which rejects a different one. */
int check_hand_over(struct err *err);
int check_take_over(struct err *err);

#endif
