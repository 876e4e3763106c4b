#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps the frequencies of rotary positions as transformers' formulas give them.

    python3 -m venv DIR && DIR/bin/pip install torch transformers
    DIR/bin/python tests/reference/dump_rope.py > tests/data/rope.txt

run once: the output is committed and read by tests/unit/model_test.c.  The committed one was
made by torch 2.15.0 and transformers 5.23.0.

transformers computes in float32; here its own functions run with float32 replaced by float64,
so that the comparison is of formulas, to 12 digits, and the float32 results of the unchanged
functions are asserted to be the same to 1e-4.

Two lines a case: a config.json, then "SEQ SCALE F0 F1 ...".
"""
import json
import warnings

import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

COMMON = dict(model_type="llama", vocab_size=32, hidden_size=64, intermediate_size=8,
              num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=4096)
LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
# A config's keys beside COMMON, and lengths.
CASES = [
    (dict(), [16]),
    (dict(rope_theta=500000.0), [16]),
    (dict(rope_parameters=dict(rope_type="default", rope_theta=1000)), [16]),
    (dict(head_dim=24, rope_scaling=dict(type="linear", factor=2.5)), [16]),
    (dict(rope_parameters=dict(rope_type="linear", factor=4, rope_theta=500.0)), [16]),
    (dict(rope_scaling=dict(type="dynamic", factor=2.0)), [16, 4096, 4097, 9000]),
    (dict(head_dim=4, rope_parameters=dict(rope_type="dynamic", factor=3.0,
                                           rope_theta=5e5)), [5000]),
    (dict(rope_theta=500000.0, rope_scaling=dict(rope_type="llama3", **LLAMA3)), [16]),
    (dict(head_dim=128, max_position_embeddings=131072, rope_theta=500000.0,
          rope_scaling=dict(LLAMA3, rope_type="llama3", factor=32.0)), [16]),
    (dict(rope_parameters=dict(rope_type="llama3", factor=8.0, low_freq_factor=2,
                               high_freq_factor=8, rope_theta=5e5)), [16]),
    (dict(rope_parameters=dict(rope_type="llama3", factor=8.0, low_freq_factor=1,
                               high_freq_factor=4, rope_theta=1e4),
          original_max_position_embeddings=512), [16]),
    (dict(rope_scaling=dict(type="yarn", factor=4.0,
                            original_max_position_embeddings=1024)), [16]),
    (dict(rope_scaling=dict(rope_type="yarn", factor=16.0)), [16]),
    (dict(rope_parameters=dict(rope_type="yarn", factor=40, rope_theta=1e6, mscale=1.0,
                               mscale_all_dim=0.8, beta_fast=24, beta_slow=2,
                               original_max_position_embeddings=256)), [16]),
    (dict(rope_scaling=dict(type="yarn", factor=8.0, attention_factor=1.25,
                            truncate=False)), [16]),
    (dict(rope_scaling=dict(type="yarn", factor=2.0, mscale=0.7, beta_fast=None,
                            beta_slow=0)), [16]),
    (dict(rope_scaling=dict(type="yarn", factor=None, mscale_all_dim=1.0,
                            original_max_position_embeddings=2048)), [16]),
    (dict(head_dim=8, rope_scaling=dict(type="yarn", factor=4.0, truncate=True,
                                        original_max_position_embeddings=6)), [16]),
    (dict(rope_scaling={}, rope_parameters=dict(rope_type="linear", factor=3.0)), [16]),
    (dict(rope_scaling=None, rope_theta=100.0), [16]),
    # Powers of the base are exact in f32, to which that function rounds exponents.
    (dict(head_dim=8, rope_scaling=dict(type="longrope", short_factor=[1.0, 1.5, 2.5, 4],
                                        long_factor=[1.0, 2.0, 3.0, 9.0],
                                        original_max_position_embeddings=512)), [16, 512]),
    (dict(head_dim=4, rope_parameters=dict(rope_type="longrope", rope_theta=625.0, factor=3.0,
                                           short_factor=[1.5, 2.5], long_factor=[4.0, 9.0],
                                           original_max_position_embeddings=64)), [16]),
    (dict(head_dim=4, rope_scaling=dict(rope_type="longrope", attention_factor=1.5,
                                        short_factor=[1.5, 2.5], long_factor=[4.0, 9.0],
                                        original_max_position_embeddings=8192)), [16]),
]


def compute(keys, seq):
    config = LlamaConfig.from_dict(json.loads(json.dumps(keys)))
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        return LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    return ROPE_INIT_FUNCTIONS[kind](config, None, seq_len=seq)


def main():
    print("# SPDX-License-Identifier: BSD-3-Clause")
    print("# by tests/reference/dump_rope.py")
    for extra, lengths in CASES:
        keys = {**COMMON, **extra}
        for seq in lengths:
            rough, _ = compute(keys, seq)
            torch.float = torch.float32 = torch.float64
            fine, scale = compute(keys, seq)
            torch.float = torch.float32 = rough.dtype
            assert fine.dtype == torch.float64 and rough.dtype != torch.float64
            assert torch.allclose(rough.double(), fine, rtol=1e-4, atol=0)
            print(json.dumps(keys))
            print(seq, repr(float(scale)), *(repr(v) for v in fine.tolist()))


main()
