/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_UNPACK_H
#define DATA_DATA_UNPACK_H

#include <stdint.h>

#include "base/err.h"

/* Reads a file once from its beginning; decompresses gzip and zstd, recognized by content. */
struct unpack;

int unpack_open(struct unpack **u, const char *path, struct err *err);
/* Reads up to `bytes` bytes; *got 0: the end.  ERR_INPUT if the file is damaged or
   truncated. */
int unpack_read(struct unpack *u, void *to, int64_t bytes, int64_t *got, struct err *err);
void unpack_close(struct unpack *u); /* NULL is allowed */

#endif
