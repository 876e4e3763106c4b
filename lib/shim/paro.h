/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PARO_H
#define PARO_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#define PARO_API __attribute__((visibility("default")))
#else
#define PARO_API
#endif

/* The version of the library that is loaded, "0.1.0". */
PARO_API const char *paro_version(void);

#ifdef __cplusplus
}
#endif

#endif
