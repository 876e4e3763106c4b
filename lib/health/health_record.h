/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_RECORD_H
#define HEALTH_HEALTH_RECORD_H

#include "health/health_data.h"
#include "health/health_store.h"

/* The record of a run's measurements, JSON Lines (paro-health-record(5)). */
extern const struct health_store health_record_store;

int health_record_write(const struct health_data *d, const char *path, struct err *err);
int health_record_read(struct health_data *d, const char *path, struct err *err);
int health_record_parse(struct health_data *d, const char *name, const char *text,
                        int64_t bytes, struct err *err);

#endif
