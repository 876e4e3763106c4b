/* SPDX-License-Identifier: BSD-3-Clause */
/* Names a step's lanes and rows. */
#include "step/step.h"

#include <stddef.h>

const char *step_lane_name(enum step_lane lane)
{
    static const char *const names[STEP_LANES] = {"gather", "reduce", "convert", "sync",
                                                  "compute"};

    return names[lane];
}

const char *step_kind_name(const struct step_row *row)
{
    static const char *const names[STEP_KINDS] = {NULL,         "begin", "forward", "backward",
                                                  "accumulate", "norm",  "agree",   "update"};

    if (row->lane < 0 || row->lane >= STEP_LANES || row->kind < 0 || row->kind >= STEP_KINDS)
        return "?";
    return row->kind == STEP_TRANSFER ? step_lane_name((enum step_lane)row->lane)
                                      : names[row->kind];
}
