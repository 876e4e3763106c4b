/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_ACTIVATIONS_H
#define PLAN_ACTIVATIONS_H

/* What a rank's network takes of its device's memory. */
#include "base/dtype.h"
#include "kern/kern_kind.h"
#include "model/model.h"

/* A micro-step, as far as memory depends on it. */
struct plan_micro {
    int batch, seq, recompute;
    enum dtype compute; /* of products */
    enum dtype there;   /* of parameters where a use finds them: at rest, or gathered */
    enum device_kind device;
};

/*
 * To the byte what net_place takes for one micro-batch: activations in the type that the device
 * keeps, from forward to backward (with recompute, of a layer its input alone); the backward's
 * own; what operands are rounded into where products take another type; attention's scratch.
 * 0 for "params".
 */
double plan_activation_bytes(const struct model *m, const struct plan_micro *at);
/* The room of kern.h's table that kernels of our own want for it. */
int64_t plan_work_bytes(const struct model *m, const struct plan_micro *at);
/* What the tables of a rank have for themselves: one computes, one moves. */
double plan_kern_bytes(const struct model *m, const struct plan_micro *at);

#endif
