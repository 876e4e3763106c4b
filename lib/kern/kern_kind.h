/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_KIND_H
#define KERN_KERN_KIND_H

#include <stdint.h>

#include "base/dtype.h"
#include "kern/kern.h"

/*
 * Computes the memory that the tables of kern.h keep and need, by the kind of device alone:
 * tables and planner call it, so that the planned memory is the memory taken, on a machine
 * without the device too.
 */

/* The type of activations; and of parameters as the network reads them, which are there in
   `there`. */
enum dtype kern_kind_act(enum device_kind kind, enum dtype compute);
enum dtype kern_kind_weight(enum device_kind kind, enum dtype compute, enum dtype there);

/* A table without a device, which answers tokens_bytes and attention_bytes alone. */
void kern_kind_open(struct kern *out, enum device_kind kind, enum dtype compute,
                    enum dtype weight);
/* For tables whose attention is our own. */
int64_t kern_kind_tokens_bytes(const struct kern *k, int64_t n);
int64_t kern_kind_attention_bytes(const struct kern *k, const struct kern_heads *s,
                                  int backward);
/* On a GPU: whether attention is by tiles (kern_cuda_attention.h), and the bytes of either
   way's backward. */
int kern_kind_flash(enum dtype act, const struct kern_heads *s);
int64_t kern_kind_flash_bytes(const struct kern_heads *s);
int64_t kern_kind_plain_bytes(const struct kern_heads *s);

/* The bytes of the table's room that our kernels need at most, in a network whose arrays have
   so many rows and columns; norms have norm_columns. */
int64_t kern_kind_work_bytes(enum device_kind kind, int64_t rows, int64_t norm_columns,
                             int64_t columns);
/* The bytes of it that products need, as NVIDIA advises for cuBLASLt from sm_90 on, and before
   that. */
enum { KERN_KIND_PRODUCT_BYTES = 32 << 20, KERN_KIND_OLDER_BYTES = 4 << 20 };
/* The memory that a table of that kind has for itself beside its room: doubles of the
   device. */
int64_t kern_kind_own_bytes(enum device_kind kind);
enum { KERN_KIND_SUMS = 2 }; /* the loss, the sum of squares */

#endif
