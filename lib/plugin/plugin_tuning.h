/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLUGIN_PLUGIN_TUNING_H
#define PLUGIN_PLUGIN_TUNING_H

#include "pick/pick_table.h"

/* The table of PARO_TUNING, or one made for PARO_TOPO.  NULL: none; *why is the reason. */
const struct pick_table *plugin_table(const char **why);
uint64_t plugin_table_hash(void); /* hash of its text; 0: no table */

/* Prints a line on stderr if PARO_DEBUG is set. */
void plugin_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
