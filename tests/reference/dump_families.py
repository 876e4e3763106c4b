#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps tiny models' losses, logits and gradients as Hugging Face computes them: the families
that have no script of their own.

    python3 -m venv DIR && DIR/bin/pip install torch transformers safetensors numpy
    DIR/bin/python tests/reference/dump_families.py tests/data

writes NAME.{json,dump} (net_dump.py) of the MODELS below, read by tests/unit/net_family_test.c.
float32, eager attention, one thread; torch 2.15.0 and transformers 5.24.0.
"""
import torch
import transformers

import net_dump

SMALL = dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             rms_norm_eps=1e-5, initializer_range=0.2,
             rope_parameters=dict(rope_type="default", rope_theta=100.0))
MODELS = {
    "qwen2": ("Qwen2", dict(tie_word_embeddings=True)),
    # the window is as long as the sequence
    "mistral": ("Mistral", dict(tie_word_embeddings=False, head_dim=6, num_hidden_layers=1,
                                sliding_window=net_dump.SEQ)),
    # heads that are wider than hidden / heads
    "qwen3": ("Qwen3", dict(tie_word_embeddings=False, head_dim=10, num_hidden_layers=1)),
}


def main():
    folder = net_dump.folder()
    for seed, (name, (family, spec)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        config = getattr(transformers, family + "Config")(**{**SMALL, **spec},
                                                          attn_implementation="eager")
        model = getattr(transformers, family + "ForCausalLM")(config).float()
        net_dump.stir(model)
        net_dump.dump(folder, name, model, net_dump.config_of(model))


main()
