/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_FOREIGN_H
#define CKPT_CKPT_FOREIGN_H

#include "ckpt/ckpt_safetensors.h"

/*
 * Opens checkpoints of other trainers: folders that store tensors in pieces.
 *
 *     .metadata, __0_0.distcp, ...                     torch.distributed.checkpoint
 *     shard-00001-model-00001-of-00001.safetensors     the same, its HuggingFaceStorageWriter
 *     zero/NAME/{fp32,exp_avg,exp_avg_sq,step}.pt      DeepSpeed's universal checkpoints
 *
 * Each is opened as a struct st with pieces: parameters by name, states as "NAME/exp_avg".
 */
int foreign_is(const char *dir);
/*
 * foreign_step reads the optimizer's step count of an open checkpoint: from its tensors, or,
 * where DeepSpeed saved none, from *model_states.pt.
 */
int foreign_step(const struct st *st, const struct ckpt_limits *limits, int64_t *step,
                 struct err *err);
int foreign_open(struct st *st, const char *dir, const struct ckpt_limits *limits,
                 struct err *err);

#endif
