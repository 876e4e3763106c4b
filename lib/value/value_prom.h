/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_PROM_H
#define VALUE_VALUE_PROM_H

#include <stdio.h>

/*
 * Prints the text format of Prometheus and of node_exporter's textfile collector: base units; a
 * metric's name once with HELP and TYPE, then its series.
 *
 *     prom_head(f, "paro_train_", "loss", "gauge", "Loss of the last step");
 *     fputs("paro_train_loss", f);
 *     prom_label(f, "{", "run", name);
 *     putc('}', f);
 *     prom_value(f, 2.5);                      ' 2.5' and the newline
 */
void prom_head(FILE *f, const char *prefix, const char *name, const char *type,
               const char *help);
/* `before` is "{" or ",". */
void prom_label(FILE *f, const char *before, const char *key, const char *value);
void prom_value(FILE *f, double value);

#endif
