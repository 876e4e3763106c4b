#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps a tiny Llama's loss, logits and gradients as Hugging Face computes them.

    python3 -m venv DIR && DIR/bin/pip install torch transformers safetensors numpy
    DIR/bin/python tests/reference/dump_llama.py tests/data

writes NAME.{json,dump} of the MODELS below: run once, the files are committed and read by
tests/unit/net_test.c.  float32, eager attention, one thread.  The committed ones were made by
torch 2.15.0 and transformers 5.23.0.

The .json is the model's config.json.  The .dump is text, then numbers (little endian):
    line 1    "paro-net-dump 1 BATCH SEQ COUNT"
    COUNT lines "NAME TYPE ELEMS", TYPE f32 or i32, in the order of the numbers
    an empty line, then the arrays, back to back
NAMEs: tokens, targets (i32, batch * seq; -100 is ignored), loss (one f32: the SUM of the
cross-entropies in nats), logits (batch * seq, vocab), a tensor's Hugging Face name for its
value, "grad:NAME" for d loss / d tensor.
"""
import json
import sys

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

BATCH, SEQ = 2, 12

COMMON = dict(
    vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    rms_norm_eps=1e-5, initializer_range=0.2,
)
MODELS = {
    "llama_tied": dict(tie_word_embeddings=True, head_dim=8, theta=10000.0),
    # head_dim is not hidden / heads, and the positions turn faster
    "llama_untied": dict(tie_word_embeddings=False, head_dim=12, theta=500.0),
    # errors have a dozen layers to grow in, and one key serves four queries
    "llama_deep": dict(tie_word_embeddings=False, head_dim=4, theta=10000.0, vocab_size=32,
                       hidden_size=16, intermediate_size=24, num_hidden_layers=12,
                       num_key_value_heads=1),
}


def make_model(spec, seed):
    theta = spec.pop("theta")
    torch.manual_seed(seed)
    shape = {**COMMON, **spec}
    config = LlamaConfig(**shape, attn_implementation="eager",
                         rope_parameters={"rope_type": "default", "rope_theta": theta})
    model = LlamaForCausalLM(config).float()
    with torch.no_grad():  # norms at 1 would hide a norm weight that is left out
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.copy_(1 + 0.3 * torch.randn_like(p))
    return model, dict(architectures=["LlamaForCausalLM"], model_type="llama",
                       hidden_act="silu", torch_dtype="float32", rope_theta=theta, **shape)


def dump(folder, name, spec, seed):
    model, shape = make_model(dict(spec), seed)
    vocab = shape["vocab_size"]
    tokens = torch.randint(0, vocab, (BATCH, SEQ))
    targets = torch.randint(0, vocab, (BATCH, SEQ))
    targets[1, -3:] = -100
    logits = model(input_ids=tokens).logits
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, vocab), targets.reshape(-1), ignore_index=-100, reduction="sum")
    loss.backward()
    arrays = [("tokens", tokens.numpy().astype("<i4")),
              ("targets", targets.numpy().astype("<i4")),
              ("loss", loss.detach().numpy().reshape(1).astype("<f4")),
              ("logits", logits.detach().numpy().astype("<f4"))]
    for key, p in model.named_parameters():
        arrays.append((key, p.detach().numpy().astype("<f4")))
        arrays.append(("grad:" + key, p.grad.numpy().astype("<f4")))
    with open(f"{folder}/{name}.json", "w") as f:
        json.dump(shape, f, indent=2, sort_keys=True)
        f.write("\n")
    with open(f"{folder}/{name}.dump", "wb") as f:
        f.write(f"paro-net-dump 1 {BATCH} {SEQ} {len(arrays)}\n".encode())
        for key, a in arrays:
            f.write(f"{key} {'i32' if a.dtype == np.int32 else 'f32'} {a.size}\n".encode())
        f.write(b"\n")
        for _, a in arrays:
            f.write(np.ascontiguousarray(a).tobytes())
    print(f"{name}: loss {loss.item():.6f}, {sum(a.nbytes for _, a in arrays)} bytes")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: dump_llama.py FOLDER")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for seed, (name, spec) in enumerate(MODELS.items()):
        dump(sys.argv[1], name, spec, seed)


main()
