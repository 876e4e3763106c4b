/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_COMPARE_H
#define PLAN_COMPARE_H

#include "plan/plan.h"

/*
 * Two plans side by side: the settings in which they differ, and everything predicted.  names:
 * the files, for the head; as a table for people, or as paro.plan.compare/1.
 */
void plan_compare_print(const struct plan p[2], char *const names[2], FILE *out);
void plan_compare_print_json(const struct plan p[2], char *const names[2], FILE *out);

#endif
