/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_TOOL_PARTS_H
#define CKPT_TOOL_PARTS_H

#include "ckpt/tool.h"

/* Between the verbs of paro-shard. */

/*
 * ERR_INPUT where one lies inside the other: it would be copied into itself, or removed with
 * what it replaces.  Being the same is no fault.
 */
int tool_check_apart(const char *from, const char *to, struct err *err);

#endif
