/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHECK_CHECK_LAUNCH_H
#define CHECK_CHECK_LAUNCH_H

#include "base/err.h"

/*
 * Gets an answer from ranks reliably.  A launcher (mpirun) whose rank was killed may end or
 * hang, with or without passing on the output.  So this runs outside of it: it starts the
 * launcher, and the answer is the text between two marks.
 */
/* A byte that does not occur in answers.  It is followed by CHECK_LAUNCH_BEGIN where an answer
   begins, since a launcher and its libraries may print text before, and by a digit, the status,
   where it ends. */
enum { CHECK_LAUNCH_MARK = 4, CHECK_LAUNCH_BEGIN = '(' };

/*
 * Runs argv, ending with NULL, with empty standard input, until it has printed an answer with
 * its marks, or for `seconds` plus the time of a start.  Sets `text` (mem_free) and `status`.
 * Copies output before the answer, at least its last 64 KiB, to standard error.  On return the
 * launcher and its process group have ended, if necessary by a signal.  A signal that would end
 * this process (SIGTERM, SIGINT, SIGHUP) ends the launcher instead.  ERR_PEER: there was no
 * answer.
 */
int check_launch(char *const *argv, double seconds, char **text, int *status, struct err *err);

#endif
