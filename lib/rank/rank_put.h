/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANK_RANK_PUT_H
#define RANK_RANK_PUT_H

#include <stdio.h>

/* In tables of runs and of models: six digits behind the point, where that is neither all zeros
 * nor a hundred digits. */
void rank_put_number(FILE *out, int width, double v);

#endif
