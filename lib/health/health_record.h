/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_RECORD_H
#define HEALTH_HEALTH_RECORD_H

#include "health/health_data.h"

/*
 * The record, JSON Lines (paro-health-record(5)).  The reader takes nothing that the writer
 * does not write: ERR_INPUT names the line, and so it does of a file that is cut or changed.
 */
enum { HEALTH_RECORD_MOST = 512 << 20 /* bytes */ };
int health_record_write(const struct health_data *d, const char *path, struct err *err);
void health_record_print(const struct health_data *d, FILE *out);
int health_record_read(struct health_data *d, const char *path, struct err *err);
int health_record_parse(struct health_data *d, const char *name, const char *text,
                        int64_t bytes, struct err *err);

#endif
