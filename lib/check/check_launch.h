/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHECK_CHECK_LAUNCH_H
#define CHECK_CHECK_LAUNCH_H

#include "base/err.h"

/*
 * Gets an answer of ranks for certain: a launcher (mpirun) that learns of a rank that was
 * killed ends, or hangs, with or without passing on its output.  So the caller is outside: it
 * starts the launcher, and takes for an answer the text between two marks.
 */
/* A byte that no text of ours has; behind it stands a digit, the status, where an answer ends,
 * and this where it begins: a launcher, and what it loads, may say something before. */
enum { CHECK_LAUNCH_MARK = 4, CHECK_LAUNCH_BEGIN = '(' };

/*
 * Runs argv, NULL at its end, with nothing on its standard input, until it has said `text`
 * (mem_free) and `status` behind the mark, or for `seconds` and what a start may take.  What it
 * said before the answer, the last 64 KiB of it at least, goes to standard error.  It is gone
 * on return, willing or not, with all of its process group.  A signal that would end this
 * process ends it. ERR_PEER: there was no answer.
 */
int check_launch(char *const *argv, double seconds, char **text, int *status, struct err *err);

#endif
