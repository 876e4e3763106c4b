# SPDX-License-Identifier: BSD-3-Clause
"""What the dump_*.py share: one model's loss, logits and gradients as Hugging Face computes
them, written to FOLDER/NAME.{json,dump} for tests/unit/net_test.c and net_family_test.c.

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

BATCH, SEQ = 2, 12


def stir(model):
    """Vectors that are all 1 or 0 would hide one that is left out."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.copy_((0 if name.endswith("bias") else 1) + 0.3 * torch.randn_like(p))


def config_of(model):
    """The config.json that save_pretrained writes, but for the version."""
    shape = json.loads(model.config.to_json_string())
    shape["architectures"] = [type(model).__name__]
    shape.pop("transformers_version", None)
    return shape


def dump(folder, name, model, shape, rename=lambda key: key):
    vocab = model.config.vocab_size
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
        arrays.append((rename(key), p.detach().numpy().astype("<f4")))
        if p.grad is not None:
            arrays.append(("grad:" + rename(key), p.grad.numpy().astype("<f4")))
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


def folder():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    return sys.argv[1]
