/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_PERIODS_H
#define PLAN_PLAN_PERIODS_H

#include "plan/plan.h"

/* Value of sync_every in a request: chosen by price. */
enum { PLAN_PERIODS_AUTO = PLAN_BOUNDARY_AUTO, PLAN_PERIODS_GAIN = 320 };

/*
 * Replaces PLAN_PERIODS_AUTO before a search: the outer steps take at most a tenth of the time,
 * or every step is of all ranks (sync_every 0) if that would take no more than a tenth longer.
 * fragments, if not given: as many as units.  ERR_INPUT on a fabric without compute rate.
 */
int plan_periods_choose(struct plan_search *s, struct err *err);
/* Runs plan_search, with that choice.  With periods requested, also without them: gain is then
   a line on what they gain, otherwise "". */
int plan_periods_search(struct plan_search *s, char gain[PLAN_PERIODS_GAIN], struct err *err);

#endif
