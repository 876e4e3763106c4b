#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps tiny models with low-rank adapters as Hugging Face's PEFT computes them.

    python3 -m venv DIR && DIR/bin/pip install torch transformers peft safetensors numpy
    DIR/bin/python tests/reference/dump_lora.py tests/data

writes NAME.{json,dump} (net_dump.py) of the two below, read by tests/unit/net_family_test.c;
gradients of adapters alone.  float32, eager attention, one thread; torch 2.15.0, transformers
5.23.0, peft 0.21.2.
"""
import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import net_dump


def llama():
    """Adapters on some lines."""
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, initializer_range=0.2,
        max_position_embeddings=16, tie_word_embeddings=True, attn_implementation="eager")
    return LlamaForCausalLM(config), LoraConfig(
        r=3, lora_alpha=5, lora_dropout=0.0, target_modules=["q_proj", "v_proj", "down_proj"])


def gpt2():
    """Adapters on all lines, whose weights are stored the other way round."""
    config = GPT2Config(
        vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2, initializer_range=0.2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        attn_implementation="eager")
    return GPT2LMHeadModel(config), LoraConfig(
        r=2, lora_alpha=2, lora_dropout=0.0, fan_in_fan_out=True,
        target_modules=["c_attn", "c_proj", "c_fc"])


def base_name(key):
    """As a folder names them: adapters with PEFT's prefix, all else as without adapters."""
    if ".lora_" in key:
        return key.replace(".default.", ".")
    return key.replace("base_model.model.", "", 1).replace(".base_layer.", ".")


def main():
    folder = net_dump.folder()
    for seed, (name, make) in enumerate({"lora_llama": llama, "lora_gpt2": gpt2}.items()):
        torch.manual_seed(seed)
        base, adapters = make()
        net_dump.stir(base)
        shape = net_dump.config_of(base)
        model = get_peft_model(base.float(), adapters)
        with torch.no_grad():  # B begins at 0, which would hide it
            for key, p in model.named_parameters():
                if ".lora_B" in key:
                    p.copy_(0.3 * torch.randn_like(p))
        net_dump.dump(folder, name, model, shape, base_name)


main()
