/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHEDULE_SCHEDULE_MSCCL_H
#define SCHEDULE_SCHEDULE_MSCCL_H

#include "schedule/schedule.h"

/*
 * The rows of a whole operation as XML for MSCCL's runtime, which cuts a vector into chunks of
 * one length: chunk c of s takes units[c] of them (borrowed).  Rank r's block of an all-gather
 * or a reduce-scatter is the r-th, as in NCCL.  ERR_INPUT says what MSCCL cannot express.
 */
int schedule_print_msccl(const struct schedule *s, const int64_t *units, FILE *out,
                         struct err *err);

#endif
