#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps tiny models' losses, logits and gradients as Hugging Face computes them: the families
that have no script of their own.

    python3 -m venv DIR && DIR/bin/pip install torch transformers safetensors numpy
    DIR/bin/python tests/reference/dump_families.py tests/data

writes NAME.{json,dump} (net_dump.py) of the MODELS below, read by tests/unit/net_family_test.c.
float32, eager attention, one thread; torch 2.15.0, transformers 5.24.0 (GPT-2's: 5.23.0).
"""
import torch
import transformers

import net_dump

GPT2 = dict(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=4,
            initializer_range=0.2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=0, eos_token_id=0)
SMALL = dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             rms_norm_eps=1e-5, initializer_range=0.2,
             rope_parameters=dict(rope_type="default", rope_theta=100.0))
# Name, seed, the class less "Config", the class, the config.
MODELS = [
    ("gpt2_tied", 0, "GPT2", "GPT2LMHeadModel", GPT2),
    # the other GELU, a feed-forward that is not four times as wide, an eps that is seen
    ("gpt2_untied", 1, "GPT2", "GPT2LMHeadModel", dict(
        GPT2, tie_word_embeddings=False, activation_function="gelu", n_inner=24,
        layer_norm_epsilon=0.1)),
    ("qwen2", 0, "Qwen2", "Qwen2ForCausalLM", dict(SMALL, tie_word_embeddings=True)),
    # the window is as long as the sequence
    ("mistral", 1, "Mistral", "MistralForCausalLM", dict(
        SMALL, tie_word_embeddings=False, head_dim=6, num_hidden_layers=1,
        sliding_window=net_dump.SEQ)),
    # heads that are wider than hidden / heads
    ("qwen3", 2, "Qwen3", "Qwen3ForCausalLM", dict(
        SMALL, tie_word_embeddings=False, head_dim=10, num_hidden_layers=1)),
]


def main():
    folder = net_dump.folder()
    for name, seed, family, kind, spec in MODELS:
        torch.manual_seed(seed)
        config = getattr(transformers, family + "Config")(**spec, attn_implementation="eager")
        model = getattr(transformers, kind)(config).float()
        net_dump.stir(model)
        net_dump.dump(folder, name, model, net_dump.config_of(model))


main()
