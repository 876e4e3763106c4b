#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps tiny models with low-rank adapters, and with the adapters added in, as PEFT does it.

    python3 -m venv DIR && DIR/bin/pip install torch transformers peft safetensors
    DIR/bin/python tests/reference/dump_peft.py tests/data

writes peft_llama/ and peft_gpt2/: a folder as transformers saves it, in it adapter/ as PEFT
saves it, and fused.safetensors, what merge_and_unload gives.  Run once, the files are committed
and read by tests/unit/peft_test.c and tests/cmd/family.bats.  The committed ones were made by
torch 2.15.0, transformers 5.23.0 and PEFT 0.21.2.
"""
import os
import shutil
import sys
import warnings

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

warnings.filterwarnings("ignore")

LLAMA = LlamaConfig(
    vocab_size=24, hidden_size=12, intermediate_size=20, num_hidden_layers=2,
    num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=32, bos_token_id=1,
    eos_token_id=2, initializer_range=0.3, tie_word_embeddings=False)
GPT2 = GPT2Config(
    vocab_size=24, n_embd=12, n_layer=2, n_head=3, n_positions=32, bos_token_id=1,
    eos_token_id=2, initializer_range=0.3)
CASES = [
    ("peft_llama", LlamaForCausalLM, LLAMA,
     dict(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"])),
    ("peft_gpt2", GPT2LMHeadModel, GPT2,
     dict(r=2, lora_alpha=5, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True)),
]


def dump(folder, kind, config, lora):
    shutil.rmtree(folder, ignore_errors=True)
    model = kind(config).float()
    model.save_pretrained(folder)
    os.remove(f"{folder}/generation_config.json")
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **lora))
    with torch.no_grad():  # B begins at 0
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.normal_(0, 0.3)
    model.save_pretrained(f"{folder}/adapter")
    os.remove(f"{folder}/adapter/README.md")
    fused = model.merge_and_unload()
    save_file({k: v.contiguous() for k, v in fused.state_dict().items()
               if k != "lm_head.weight" or not config.tie_word_embeddings},
              f"{folder}/fused.safetensors", metadata={"format": "pt"})


torch.manual_seed(1)
for name, *rest in CASES:
    dump(f"{sys.argv[1]}/{name}", *rest)
