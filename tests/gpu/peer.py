#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The same training step in PyTorch: torch.compile, fused attention, fused AdamW, autocast.

    peer.py CONFIG.json BATCH SEQ [STEPS]

Parameters, gradients and moments in f32, products in bf16 (autocast), gradients clipped to 1.
Prints one JSON object: tokens a second of the median step, and the machine's two ceilings, a
copy's bytes a second (read and written) and a bf16 product's operations a second.
"""
import json
import math
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


class RMSNorm(nn.Module):
    def __init__(self, c, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(c))
        self.eps = eps

    def forward(self, x):
        f = x.float()
        return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


class LlamaLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, self.heads = c["hidden_size"], c["num_attention_heads"]
        self.kv = c.get("num_key_value_heads", self.heads)
        self.d = h // self.heads
        self.n1, self.n2 = RMSNorm(h, c["rms_norm_eps"]), RMSNorm(h, c["rms_norm_eps"])
        self.qkv = nn.Linear(h, (self.heads + 2 * self.kv) * self.d, bias=False)
        self.o = nn.Linear(self.heads * self.d, h, bias=False)
        self.gate_up = nn.Linear(h, 2 * c["intermediate_size"], bias=False)
        self.down = nn.Linear(c["intermediate_size"], h, bias=False)

    def turn(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)

    def forward(self, x, cos, sin):
        B, T, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).split(
            [self.heads * self.d, self.kv * self.d, self.kv * self.d], -1)
        q = self.turn(q.view(B, T, self.heads, self.d).transpose(1, 2), cos, sin)
        k = self.turn(k.view(B, T, self.kv, self.d).transpose(1, 2), cos, sin)
        v = v.view(B, T, self.kv, self.d).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.heads)
        x = x + self.o(a.transpose(1, 2).reshape(B, T, -1))
        g, u = self.gate_up(self.n2(x)).chunk(2, -1)
        return x + self.down(F.silu(g) * u)


class Llama(nn.Module):
    def __init__(self, c, seq):
        super().__init__()
        self.embed = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(LlamaLayer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        if c.get("tie_word_embeddings"):
            self.head.weight = self.embed.weight
        d = c["hidden_size"] // c["num_attention_heads"]
        inv = c.get("rope_theta", 10000.0) ** (-torch.arange(0, d, 2).float() / d)
        angle = torch.outer(torch.arange(seq).float(), inv)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


class GPT2Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, self.heads = c["n_embd"], c["n_head"]
        self.n1, self.n2 = nn.LayerNorm(h), nn.LayerNorm(h)
        self.qkv, self.o = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.n1(x)).split(C, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, c, seq):
        super().__init__()
        self.embed = nn.Embedding(c["vocab_size"], c["n_embd"])
        self.positions = nn.Embedding(c["n_positions"], c["n_embd"])
        self.layers = nn.ModuleList(GPT2Layer(c) for _ in range(c["n_layer"]))
        self.norm = nn.LayerNorm(c["n_embd"])
        self.head = nn.Linear(c["n_embd"], c["vocab_size"], bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("at", torch.arange(seq))

    def forward(self, tokens, targets):
        x = self.embed(tokens) + self.positions(self.at)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def timed(fn, n):
    for _ in range(3):
        fn()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    seconds = []
    for _ in range(n):
        a.record()
        fn()
        b.record()
        torch.cuda.synchronize()
        seconds.append(a.elapsed_time(b) / 1e3)
    return statistics.median(seconds)


def ceilings():
    x = torch.randn(1 << 30, device="cuda")
    y = torch.empty_like(x)
    copy = 2 * x.numel() * 4 / timed(lambda: y.copy_(x), 10)
    n = 8192
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return copy, 2 * n**3 / timed(lambda: a @ b, 20)


def train(config, batch, seq, steps, backends):
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = (Llama if config.get("model_type") == "llama" else GPT2)(config, seq)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95),
                                  weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    tokens = torch.randint(0, config["vocab_size"], (batch, seq + 1), device="cuda")
    seconds, loss = [], None
    for step in range(steps + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with sdpa_kernel(backends), torch.autocast("cuda", dtype=torch.bfloat16):
            loss = compiled(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if step >= 3:
            seconds.append(time.perf_counter() - start)
    bytes_ = torch.cuda.max_memory_allocated()
    params = sum(p.numel() for p in model.parameters())
    return statistics.median(seconds), loss.item(), bytes_, params


def main():
    config = json.load(open(sys.argv[1]))
    batch, seq = int(sys.argv[2]), int(sys.argv[3])
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 10
    torch.set_float32_matmul_precision("high")
    out = {"machine": torch.cuda.get_device_name(), "torch": torch.__version__,
           "batch": batch, "seq": seq}
    if "--ceilings" in sys.argv:
        out["copy_Bps"], out["matrix_flops"] = ceilings()
        torch.cuda.empty_cache()
    for name, backends in (("flash", [SDPBackend.FLASH_ATTENTION]),
                           ("cudnn", [SDPBackend.CUDNN_ATTENTION])):
        try:
            torch.compiler.reset()
            torch.cuda.reset_peak_memory_stats()
            s, loss, bytes_, params = train(config, batch, seq, steps, backends)
            out[name] = {"step_s": s, "tokens_per_s": batch * seq / s, "loss": loss,
                         "bytes": bytes_, "params": params}
        except Exception as e:  # a backend that this build lacks
            out[name] = {"error": str(e).splitlines()[0][:200]}
        torch.cuda.empty_cache()
    print(json.dumps(out))


if __name__ == "__main__":
    main()
