/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_KIND_H
#define KERN_KERN_KIND_H

#include <stdint.h>

#include "base/dtype.h"
#include "kern/kern.h"

/*
 * Computes the memory that the tables of kern.h keep and need, from the kind of device alone.
 * Tables and planner call it, so that the planned memory is the memory taken, also on a machine
 * without the device.
 */

/* Type of activations; and of parameters as the network reads them, given their stored type
   `there`. */
enum dtype kern_kind_act(enum device_kind kind, enum dtype compute);
enum dtype kern_kind_weight(enum device_kind kind, enum dtype compute, enum dtype there);

/* Opens a table without a device, which supports tokens_bytes and attention_bytes only. */
void kern_kind_open(struct kern *out, enum device_kind kind, enum dtype compute,
                    enum dtype weight);
/* For tables that compute attention by our own kernels. */
int64_t kern_kind_tokens_bytes(const struct kern *k, int64_t n);
int64_t kern_kind_attention_bytes(const struct kern *k, const struct kern_heads *s,
                                  int backward);
/* On a GPU: whether attention uses tiles (kern_cuda_attention.h), and the scratch bytes of the
   two backward kernels. */
int kern_kind_flash(enum dtype act, const struct kern_heads *s);
int64_t kern_kind_flash_bytes(const struct kern_heads *s);
int64_t kern_kind_plain_bytes(const struct kern_heads *s);

/* Most bytes of the work buffer that our kernels need, in a network whose arrays have at most
   so many rows and columns; norms have norm_columns. */
int64_t kern_kind_work_bytes(enum device_kind kind, int64_t rows, int64_t norm_columns,
                             int64_t columns);
/* Bytes of the work buffer for products, as NVIDIA recommends for cuBLASLt from sm_90 on, and
   before. */
enum { KERN_KIND_PRODUCT_BYTES = 32 << 20, KERN_KIND_OLDER_BYTES = 4 << 20 };
/* Device memory of such a table in addition to its work buffer: its sums, doubles. */
int64_t kern_kind_own_bytes(enum device_kind kind);
enum { KERN_KIND_SUMS = 2 }; /* the loss, the sum of squares */

#endif
