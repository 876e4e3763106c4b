/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_HF_CONFIG_H
#define SHARD_HF_CONFIG_H

#include "base/dtype.h"

/*
 * The text of a config.json whose weights are of `type` now: its torch_dtype and dtype say so,
 * and all else stays as it was, byte for byte.  For mem_free.
 */
void hf_config_as(const char *config, enum dtype type, char **text, int64_t *bytes);

#endif
