/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stdio.h>

/*
 * A status line of a long operation: on a terminal it overwrites itself, elsewhere each status
 * is a line.  (Never a part of a line: Open MPI 5's launcher joins such a part with the rank's
 * next output on either stream.)
 */
struct status {
    FILE *out; /* borrowed */
    int shown; /* characters on the terminal, not counting blanks */
};

/* Shows text, cut to the terminal's width; "" clears the line. */
void status_show(struct status *s, const char *text);

#endif
