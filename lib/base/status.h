/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stdio.h>

/*
 * A status line of a long operation: on a terminal it is written over itself, elsewhere each
 * one is a line of its own.  (Never a part of a line: the launcher of Open MPI 5 joins such a
 * part with what the rank writes next, on either stream.)
 */
struct status {
    FILE *out; /* borrowed */
    int shown; /* characters on the terminal, not counting blanks */
};

/* Shows text, cut to the terminal's width; "" clears the line. */
void status_show(struct status *s, const char *text);

#endif
