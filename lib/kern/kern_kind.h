/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_KIND_H
#define KERN_KERN_KIND_H

#include <stdint.h>

#include "base/dtype.h"
#include "kern/kern.h"

/*
 * What the tables of kern.h keep and need of memory, by the kind of device alone: tables and
 * planner ask here, so that what is planned is what is taken, on a machine without the device
 * too.
 */

/* Of activations; of parameters as the network reads them, which are there in `there`. */
enum dtype kern_kind_act(enum device_kind kind, enum dtype compute);
enum dtype kern_kind_weight(enum device_kind kind, enum dtype compute, enum dtype there);

/* A table without a device, which answers tokens_bytes and attention_bytes alone. */
void kern_kind_open(struct kern *out, enum device_kind kind, enum dtype compute,
                    enum dtype weight);
/* Of tables whose attention is our own. */
int64_t kern_kind_tokens_bytes(const struct kern *k, int64_t n);
int64_t kern_kind_attention_bytes(const struct kern *k, const struct kern_heads *s,
                                  int backward);
/* Of a GPU: whether attention is by tiles (kern_cuda_attention.h), and of either way's backward
   the bytes. */
int kern_kind_flash(enum dtype act, const struct kern_heads *s);
int64_t kern_kind_flash_bytes(const struct kern_heads *s);
int64_t kern_kind_plain_bytes(const struct kern_heads *s);

/* What kernels of our own want of the table's room, in a network whose arrays have so many rows
   and columns, at most; norms have so many. */
int64_t kern_kind_work_bytes(enum device_kind kind, int64_t rows, int64_t norm_columns,
                             int64_t columns);
/* What products want of it, as NVIDIA advises for cuBLASLt from sm_90 on, and before that. */
enum { KERN_KIND_PRODUCT_BYTES = 32 << 20, KERN_KIND_OLDER_BYTES = 4 << 20 };
/* What a table of that kind has for itself beside its room: doubles of the device. */
int64_t kern_kind_own_bytes(enum device_kind kind);
enum { KERN_KIND_SUMS = 2 }; /* the loss, the sum of squares */

#endif
