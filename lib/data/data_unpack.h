/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_UNPACK_H
#define DATA_DATA_UNPACK_H

#include <stdint.h>

#include "base/err.h"

/* Reads a file once from its beginning: plain, gzip's or zstd's, as its content says. */
struct unpack;

int unpack_open(struct unpack **u, const char *path, struct err *err);
/* Up to `bytes` bytes; *got 0: the end.  ERR_INPUT where the file is damaged, or cut. */
int unpack_read(struct unpack *u, void *to, int64_t bytes, int64_t *got, struct err *err);
void unpack_close(struct unpack *u); /* NULL is fine */

#endif
