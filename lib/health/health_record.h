/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_RECORD_H
#define HEALTH_HEALTH_RECORD_H

#include "health/health_data.h"
#include "health/health_store.h"

/* The record of a run, JSON Lines (paro-health-record(5)): a struct health_data. */
extern const struct health_store health_record_store;

#endif
