/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_PARTS_H
#define HEALTH_HEALTH_PARTS_H

/* Inside health/ and its tests: the steps of a check. */
#include "health/health.h"

/* Rounds; `want` of them unless the time (tick_now_s) is over first. */
int health_rounds(struct world *w, int want, double until_s, const char *volatile *where,
                  struct health_data *d, struct err *err);

/* The plugin's line, JSON, node_exporter's text. */
void health_print_line(const struct health_data *d, const struct health_verdict *v,
                       const struct health_options *o, FILE *out);
void health_print_json(const struct health_data *d, const struct health_verdict *v,
                       const struct health_options *o, FILE *out);
int health_write_prom(const struct health_data *d, const struct health_verdict *v,
                      const char *path, struct err *err);

/* What health_baseline_read does, of a text that is there; name is for messages. */
int health_baseline_parse(struct health_baseline *b, const char *name, const char *text,
                          int64_t bytes, struct err *err);

#endif
