/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_PARTS_H
#define HEALTH_HEALTH_PARTS_H

/* Inside health/ and its tests: the steps of a check. */
#include "health/health.h"
#include "health/health_look.h"

/* The plugin's line, JSON, node_exporter's text. */
void health_print_line(const struct health_data *d, const struct health_verdict *v,
                       const struct health_options *o, FILE *out);
void health_print_json(const struct health_data *d, const struct health_verdict *v, FILE *out);
int health_write_prom(const struct health_data *d, const struct health_verdict *v,
                      const char *path, struct err *err);

#endif
