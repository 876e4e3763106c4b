#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps tiny GPT-2s' losses, logits and gradients as Hugging Face computes them.

    python3 -m venv DIR && DIR/bin/pip install torch transformers safetensors numpy
    DIR/bin/python tests/reference/dump_gpt2.py tests/data

writes NAME.{json,dump} (net_dump.py) of the MODELS below, read by tests/unit/net_family_test.c.
float32, eager attention, one thread; torch 2.15.0 and transformers 5.23.0.
"""
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import net_dump

COMMON = dict(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=4,
              initializer_range=0.2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
              bos_token_id=0, eos_token_id=0)
MODELS = {
    "gpt2_tied": dict(),
    # the other GELU, a feed-forward that is not four times as wide, an eps that is seen
    "gpt2_untied": dict(tie_word_embeddings=False, activation_function="gelu", n_inner=24,
                        layer_norm_epsilon=0.1),
}


def main():
    folder = net_dump.folder()
    for seed, (name, spec) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        config = GPT2Config(**{**COMMON, **spec}, attn_implementation="eager")
        model = GPT2LMHeadModel(config).float()
        net_dump.stir(model)
        net_dump.dump(folder, name, model, net_dump.config_of(model))


main()
