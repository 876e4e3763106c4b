#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps tiny Llamas' losses, logits and gradients as Hugging Face computes them.

    python3 -m venv DIR && DIR/bin/pip install torch transformers safetensors numpy
    DIR/bin/python tests/reference/dump_llama.py tests/data

writes NAME.{json,dump} (net_dump.py) of the MODELS below: run once, the files are committed and
read by tests/unit/net_test.c and net_family_test.c.  float32, eager attention, one thread.  The
committed ones were made by torch 2.15.0 and transformers 5.23.0.
"""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import net_dump

COMMON = dict(
    vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    rms_norm_eps=1e-5, initializer_range=0.2,
)
# A layer is enough for what happens within one; of a head's four pairs each type of positions
# treats some in one way, some in the other, and some between.
SMALL = dict(tie_word_embeddings=True, head_dim=8, vocab_size=32, hidden_size=16,
             intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
             num_key_value_heads=1, theta=100.0)
MODELS = {
    "llama_tied": dict(tie_word_embeddings=True, head_dim=8, theta=10000.0),
    # head_dim is not hidden / heads, and the positions turn faster
    "llama_untied": dict(tie_word_embeddings=False, head_dim=12, theta=500.0),
    # errors have a dozen layers to grow in, and one key serves four queries
    "llama_deep": dict(tie_word_embeddings=False, head_dim=4, theta=10000.0, vocab_size=32,
                       hidden_size=16, intermediate_size=24, num_hidden_layers=12,
                       num_key_value_heads=1),
    "llama_llama3": dict(SMALL, rope=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32)),
    "llama_yarn": dict(SMALL, rope=dict(
        rope_type="yarn", factor=4.0, beta_fast=2.0, beta_slow=0.2,
        original_max_position_embeddings=16)),
    "llama_biases": dict(SMALL, rope=dict(rope_type="linear", factor=2.5),
                         attention_bias=True, mlp_bias=True),
}


def make_model(spec, seed):
    theta, rope = spec.pop("theta"), spec.pop("rope", None)
    torch.manual_seed(seed)
    shape = {**COMMON, **spec}
    config = LlamaConfig(**shape, attn_implementation="eager",
                         rope_parameters={**(rope or {"rope_type": "default"}),
                                          "rope_theta": theta})
    model = LlamaForCausalLM(config).float()
    net_dump.stir(model)
    if rope:
        return model, net_dump.config_of(model)
    return model, dict(architectures=["LlamaForCausalLM"], model_type="llama",
                       hidden_act="silu", torch_dtype="float32", rope_theta=theta, **shape)


def main():
    folder = net_dump.folder()
    for seed, (name, spec) in enumerate(MODELS.items()):
        net_dump.dump(folder, name, *make_model(dict(spec), seed))


main()
