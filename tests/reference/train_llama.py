#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains with PyTorch what paro-train trains, step by step, and writes down loss and norm.

    python3 -m venv DIR && DIR/bin/pip install torch transformers safetensors numpy
    paro-shard init -m examples/models/llama-tiny.json --seed 2 -o model
    DIR/bin/python tests/reference/train_llama.py model --seed 2 > tests/data/train_llama-tiny.dump

The same model (transformers' LlamaForCausalLM from that folder), the same bytes in the same
order (lib/data/data_order.c: windows shuffled epoch by epoch, by Philox 4x32-10), the same optimizer
(torch.optim.AdamW, clip_grad_norm_, warm-up and cosine as in lib/train/train_settings.c), no
MPI, one process, one thread.  It runs twice, in float32 and in float64 from the same weights:
how far PyTorch's own float32 strays from float64 is the yardstick of the test's bound.  With
seed 1 it strays by 1e-4 at step 17, whose gradient leaps, a bound that would say nothing; hence 2.

The dump is text: "paro-train-dump 1", then lines "KEY VALUE", an empty line, a line of column
names, a line for each step with %.9g.  tests/cmd/torch.bats reads it.
"""
import argparse
import hashlib
import math
import sys

import torch
import transformers

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def rng_u64(seed, stream, index):
    """lib/base/rng.c: rng_block, rng_u64."""
    k0, k1 = seed & M32, seed >> 32 & M32
    c = [index & M32, index >> 32 & M32, stream & M32, stream >> 32 & M32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & M32, (a >> 32) ^ c[3] ^ k1, a & M32]
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c[1] << 32 | c[0]


def rng_stream(name):
    """lib/base/rng.c: FNV-1a."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 & M64
    return h


def order_shuffle(key, n, x):
    """lib/data/data_order.c: the image of x under a bijection of [0, n)."""
    half = 1
    while n > 1 << 2 * half:
        half += 1
    while True:
        left, right = x >> half, x & (1 << half) - 1
        for i in range(8):
            left, right = right, left ^ rng_u64(key, i, right) & (1 << half) - 1
        x = left << half | right
        if x < n:
            return x


def data_batch(text, index, batch, seq, seed):
    """lib/data/data.c: micro-batch number index of the whole run; (batch, seq + 1) bytes."""
    rows = []
    windows = max(1, (len(text) - seq) // seq)
    offsets = len(text) - windows * seq
    for b in range(batch):
        epoch, place = divmod(index * batch + b, windows)
        key, draw = (rng_u64(seed, rng_stream("data"), 2 * epoch + i) for i in range(2))
        at = (draw * offsets >> 64) + seq * order_shuffle(key, windows, place)
        rows.append(list(text[at:at + seq + 1]))
    return torch.tensor(rows)


def train_lr(s, step):
    """lib/train/train_settings.c; step = 1, 2, ..."""
    if step <= s.warmup:
        return s.lr * step / s.warmup
    way = (step - s.warmup) / (s.steps - s.warmup if s.steps > s.warmup else 1)
    return s.min_lr + 0.5 * (s.lr - s.min_lr) * (1 + math.cos(math.pi * min(way, 1)))


def make_optimizer(model, s, **more):
    """Norms are not decayed: matrices and embeddings alone.  By name: FSDP flattens shapes."""
    norms = [p for name, p in model.named_parameters() if "norm" in name]
    others = [p for name, p in model.named_parameters() if "norm" not in name]
    return torch.optim.AdamW([dict(params=others, weight_decay=s.weight_decay),
                              dict(params=norms, weight_decay=0.0)],
                             lr=s.lr, betas=(s.beta1, s.beta2), eps=s.eps, **more)


def train(s, text, dtype):
    """[(loss, grad_norm)] of each step, both before the update, the norm before clipping."""
    model = transformers.LlamaForCausalLM.from_pretrained(
        s.model, dtype=dtype, attn_implementation="eager")
    model.train()
    optimizer = make_optimizer(model, s)
    tokens = s.micro_batches * s.micro_batch * s.seq
    lines = []
    for step in range(s.steps):
        total = 0.0
        for micro in range(s.micro_batches):
            x = data_batch(text, step * s.micro_batches + micro, s.micro_batch, s.seq, s.seed)
            logits = model(input_ids=x[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), x[:, 1:].flatten(), reduction="sum")
            (loss / tokens).backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), s.clip or math.inf)
        for group in optimizer.param_groups:
            group["lr"] = train_lr(s, step + 1)
        optimizer.step()
        optimizer.zero_grad()
        lines.append((total / tokens, norm.item()))
    return lines


def parse():
    p = argparse.ArgumentParser(description="Dumps PyTorch's losses of a paro-train run.")
    p.add_argument("model", help="a Hugging Face folder from paro-shard init")
    p.add_argument("--data", default="/usr/share/common-licenses/GPL-3")
    for name, value in dict(steps=20, micro_batches=8, micro_batch=2, seq=32, warmup=4,
                            seed=1).items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    for name, value in dict(lr=3e-3, min_lr=3e-4, beta1=0.9, beta2=0.95, eps=1e-8,
                            weight_decay=1.0, clip=1.0).items():
        p.add_argument("--" + name.replace("_", "-"), type=float, default=value)
    return p.parse_args()


def main():
    s = parse()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    with open(s.data, "rb") as f:
        text = f.read()
    if len(text) < s.seq + 1:
        sys.exit(f"'{s.data}' has {len(text)} bytes, expected at least {s.seq + 1}")
    f32, f64 = train(s, text, torch.float32), train(s, text, torch.float64)
    config = transformers.LlamaConfig.from_pretrained(s.model)
    print("paro-train-dump 1")
    print("torch", torch.__version__.split("+")[0])
    print("transformers", transformers.__version__)
    for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                "num_attention_heads", "num_key_value_heads", "tie_word_embeddings"):
        print(key, getattr(config, key))
    print("data", s.data)
    print("data_sha256", hashlib.sha256(text).hexdigest())
    for key, value in vars(s).items():
        if key not in ("model", "data"):
            print(key, f"{value:g}" if isinstance(value, float) else value)
    print("\nstep loss grad_norm loss_f64 grad_norm_f64")
    for step, row in enumerate(zip(f32, f64), 1):
        print(step, *(f"{x:.9g}" for pair in row for x in pair))


if __name__ == "__main__":
    main()
