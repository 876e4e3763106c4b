/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_DOCTOR_H
#define HEALTH_HEALTH_DOCTOR_H

#include <stdio.h>

#include "base/err.h"

/*
 * Finds settings of one machine that make its fabric slow: PCIe, IOMMU, NUMA, ports, TCP,
 * processors.  Reads root/sys and root/proc (root is "" or a folder with a copy), and prints a
 * line for each finding, or JSON: its code (health_checks.h), device, evidence and cure.  A
 * setting that cannot be read is a finding of state UNKNOWN.  *found counts the others.
 */
int health_doctor(const char *root, int json, FILE *out, int *found, struct err *err);

#endif
