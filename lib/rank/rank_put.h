/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_RANK_PUT_H
#define RANK_RANK_PUT_H

#include <stdio.h>

/* What the tables of runs and of models have in common. */

/* A name as one line of a terminal shows it: no byte of it steers the terminal. */
void rank_put_name(FILE *out, const char *name);
/* Six digits behind the point, where that is neither all zeros nor a hundred digits. */
void rank_put_number(FILE *out, int width, double v);

#endif
