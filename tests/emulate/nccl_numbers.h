/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMULATE_NCCL_NUMBERS_H
#define EMULATE_NCCL_NUMBERS_H

#include <stddef.h>

#include "nccl.h"

/* NCCL's types, an element at a time. */
size_t emulated_nccl_bytes(ncclDataType_t type);
double emulated_nccl_get(const char *p, ncclDataType_t type, size_t i);
void emulated_nccl_put(char *p, ncclDataType_t type, size_t i, double v);

#endif
