/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NET_NET_REF_H
#define NET_NET_REF_H

#include <stdint.h>

#include "model/model.h"

/*
 * The whole decoder's forward in double precision over kern_ref: the oracle of net.h; its
 * central differences are the oracle of the gradients.  params[u] (model->unit[u].elems) by
 * unit; tokens, targets (batch, seq).  Returns the loss as net_loss does; logits (batch * seq,
 * vocab) may be NULL.  Allocates what it needs and frees it.
 */
double net_ref_loss(const struct model *model, double *const *params, const int32_t *tokens,
                    const int32_t *targets, int64_t batch, int64_t seq, double *logits);

#endif
