/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PICK_PICK_DRAW_H
#define PICK_PICK_DRAW_H

#include "pick/pick_simulate.h"

/*
 * What pick_simulate times, as a picture of all its messages (sim/sim_draw.h), SVG or
 * "paro.sched.draw/1".  Nothing is written on an error; ERR_INPUT when there is too much to
 * draw.
 */
int pick_draw(const struct pick_simulate *ask, FILE *out, struct err *err);

#endif
