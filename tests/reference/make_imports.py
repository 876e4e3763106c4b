#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Has PyTorch and DeepSpeed write checkpoints that paro-shard reads, and goes on.

    python3 -m venv DIR && DIR/bin/pip install torch transformers safetensors numpy
    DIR/bin/pip install wheel && DIR/bin/pip install --no-build-isolation deepspeed
    paro-shard init -m examples/models/llama-tiny.json --seed 2 -o model
    DIR/bin/python tests/reference/make_imports.py model KIND OUT

trains for half of --steps with --ranks processes (gloo, on the processor) and writes

    OUT/from          the checkpoint, as the library writes it
    OUT/want          what is in it, unsharded, by Hugging Face's names: model.safetensors, and
                      states.safetensors with NAME/master and so on beside them
    OUT/train.dump    the steps after it, of one process that was given what is in it, in
                      float32 and float64, as train_llama.py's dump; tests/cmd/imports.bats
                      compares paro-train with it

tests/data/trainers.tar.gz has such folders of fsdp2, grid-hf, deepspeed-3 and deepspeed-1-bf16, of
2 steps (grid-hf of 4 ranks) and a Llama model with 1 layer of 12.

KIND: fsdp2 (fully_shard, DCP of get_state_dict), fsdp2-flat (the optimizer's state flattened, the
model under torch.compile's prefix), fsdp2-apart (two folders, from/model and from/optimizer, as
accelerate has them), fsdp2-bf16 (parameters in bf16), fsdp2-hf and grid-hf (the weights in
safetensors; in boxes, of 4 ranks or more), fsdp1, ddp (no shards, DDP's prefix),
deepspeed-1, deepspeed-2, deepspeed-3 (ZeRO's stage, parameters in f32), deepspeed-1-bf16; the
last four by way of DeepSpeed's own ds_to_universal.  "available KIND" says in one line why a
kind cannot be made here, with status 77, or nothing.
"""
import argparse
import importlib.util
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

KINDS = ("fsdp2", "fsdp2-flat", "fsdp2-apart", "fsdp2-bf16", "fsdp2-hf", "grid-hf", "fsdp1",
         "ddp", "deepspeed-1", "deepspeed-2", "deepspeed-3", "deepspeed-1-bf16")
MOMENTS = ("exp_avg", "exp_avg_sq")


def available(kind):
    needs = ["torch", "transformers", "safetensors", "numpy"]
    for name in needs + ["deepspeed"] * kind.startswith("deepspeed"):
        if importlib.util.find_spec(name) is None:
            print(f"no Python package {name} here")
            sys.exit(77)


def local_loss(model, s, text, step, rank, ranks):
    """Sum over the rank's micro-batches, backward done; gradients are to be averaged."""
    import torch

    import train_llama

    total = 0.0
    for micro in range(rank, s.micro_batches, ranks):
        x = train_llama.data_batch(text, step * s.micro_batches + micro, s.micro_batch, s.seq,
                                   s.seed)
        logits = model(input_ids=x[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), x[:, 1:].flatten(), reduction="sum")
        yield loss * ranks / (s.micro_batches * s.micro_batch * s.seq)
        total += loss.item()


def save_want(s, model, states):
    """Tensors by name into plain files."""
    from safetensors.torch import save_file

    os.makedirs(f"{s.out}/want", exist_ok=True)
    states = {f"{k}/{m}": v for m, tensors in states.items() for k, v in tensors.items()}
    for name, tensors in dict(model=model, states={**model, **states}).items():
        save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()},
                  f"{s.out}/want/{name}.safetensors", metadata={"format": "pt"})


# ---- PyTorch -----------------------------------------------------------------------------

def train_torch(s, rank, text):
    import torch
    import torch.distributed.checkpoint as dcp
    import transformers
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from torch.distributed.tensor import Shard, distribute_tensor

    import train_llama

    dtype = torch.bfloat16 if s.kind.endswith("bf16") else torch.float32
    model = transformers.AutoModelForCausalLM.from_pretrained(
        s.model, dtype=dtype, attn_implementation="eager")
    if s.kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    elif s.kind == "fsdp1":
        wrap = ModuleWrapPolicy([type(model.model.layers[0])])
        model = FullyShardedDataParallel(model, auto_wrap_policy=wrap, use_orig_params=True,
                                         device_id=torch.device("cpu"))
    else:
        mesh = init_device_mesh("cpu", (s.ranks,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = train_llama.make_optimizer(model, s)
    for step in range(s.steps // 2):
        for loss in local_loss(model, s, text, step, rank, s.ranks):
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), s.clip)
        for group in optimizer.param_groups:
            group["lr"] = train_llama.train_lr(s, step + 1)
        optimizer.step()
        optimizer.zero_grad()
    flat = s.kind == "fsdp2-flat"
    weights, moments = get_state_dict(
        model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=flat))
    if s.kind == "ddp": # as a program that calls state_dict() itself
        weights = model.state_dict()
    if flat:
        weights = {f"_orig_mod.{k}": v for k, v in weights.items()}
    if s.kind == "fsdp2-apart":
        dcp.save({"model": weights}, checkpoint_id=f"{s.out}/from/model")
        dcp.save({"optimizer": moments}, checkpoint_id=f"{s.out}/from/optimizer")
    elif s.kind.endswith("-hf"):
        if s.kind == "grid-hf": # of a matrix a box of rows and columns each
            grid = init_device_mesh("cpu", (2, s.ranks // 2))
            weights = {k: distribute_tensor(v.full_tensor(), grid, [Shard(0), Shard(v.dim() - 1)])
                       for k, v in weights.items()}
        dcp.save(weights, storage_writer=dcp.HuggingFaceStorageWriter(
            f"{s.out}/from", save_distributed=True))
    else:
        dcp.save({"model": weights, "optim": moments, "note": ["a", 1]},
                 checkpoint_id=f"{s.out}/from")
    weights, moments = get_state_dict(model, optimizer, options=StateDictOptions(
        full_state_dict=True, cpu_offload=True))
    if s.kind == "fsdp1": # whose second state_dict has other moments than the first
        dcp_to_torch_save(f"{s.out}/from", f"{s.out}/whole{rank}.pt")
        moments = torch.load(f"{s.out}/whole{rank}.pt", weights_only=False)["optim"]
    if rank == 0:
        states = {m: {k: v[m].float() for k, v in moments["state"].items()} for m in MOMENTS}
        states["master"] = {k: weights[k].float() for k in states["exp_avg"]}
        save_want(s, {k: weights[k] for k in states["exp_avg"]}, states)


# ---- DeepSpeed ---------------------------------------------------------------------------

def train_deepspeed(s, rank, text):
    import deepspeed
    import torch
    import transformers
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    import train_llama

    model = transformers.AutoModelForCausalLM.from_pretrained(
        s.model, dtype=torch.float32, attn_implementation="eager")
    bf16, stage = s.kind.endswith("bf16"), int(s.kind.split("-")[1])
    config = dict(
        train_micro_batch_size_per_gpu=s.micro_batch,
        gradient_accumulation_steps=s.micro_batches // s.ranks,
        gradient_clipping=s.clip, bf16=dict(enabled=bf16), steps_per_print=1 << 30,
        zero_optimization=dict(stage=stage), zero_force_ds_cpu_optimizer=False,
        zero_allow_untested_optimizer=True)
    engine, optimizer, _, _ = deepspeed.initialize(
        model=model, optimizer=train_llama.make_optimizer(model, s), config=config)
    for step in range(s.steps // 2):
        for group in optimizer.param_groups:
            group["lr"] = train_llama.train_lr(s, step + 1)
        for loss in local_loss(engine, s, text, step, rank, s.ranks):
            engine.backward(loss * engine.gradient_accumulation_steps())
            engine.step()
    if stage < 3: # 0.19 asks once, when the second group has not yet had its first step
        optimizer._hp_optimizer_states_linked = False
        optimizer._lazy_init_hp_params_optimizer_state()
    states = {m: {} for m in ("master",) + MOMENTS}
    for name, p in engine.module.named_parameters():
        states["master"][name] = safe_get_full_fp32_param(p)
        for m in MOMENTS:
            states[m][name] = safe_get_full_optimizer_state(p, m)
    # Without pipeline and tensor parallelism there are no patterns to tell the converter.
    engine.save_checkpoint(f"{s.out}/ds", tag="t", client_state={"universal_checkpoint_info": {}})
    if rank == 0:
        dtype = torch.bfloat16 if bf16 else torch.float32
        save_want(s, {k: v.to(dtype) for k, v in states["master"].items()}, states)


def convert_deepspeed(s):
    run = subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal",
                          "--input_folder", f"{s.out}/ds/t", "--output_folder", f"{s.out}/from",
                          "--num_extract_workers", "1", "--num_merge_workers", "1"],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode:
        sys.exit(run.stdout)


# ---- Both --------------------------------------------------------------------------------

def one_rank(rank, s, meeting):
    import torch

    os.environ.update(RANK=str(rank), WORLD_SIZE=str(s.ranks), LOCAL_RANK=str(rank),
                      DS_ACCELERATOR="cpu", MASTER_ADDR="127.0.0.1")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank,
                                         world_size=s.ranks)
    with open(s.data, "rb") as f:
        text = f.read()
    (train_deepspeed if s.kind.startswith("deepspeed") else train_torch)(s, rank, text)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def go_on(s, text, dtype):
    """[(loss, grad_norm)] of the steps after the checkpoint, from what is in it."""
    import torch
    import transformers
    from safetensors.torch import load_file

    import train_llama

    model = transformers.AutoModelForCausalLM.from_pretrained(
        s.model, dtype=dtype, attn_implementation="eager")
    optimizer = train_llama.make_optimizer(model, s)
    want = load_file(f"{s.out}/want/states.safetensors")
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(want[f"{name}/master"])
            optimizer.state[p] = {m: want[f"{name}/{m}"].to(dtype) for m in MOMENTS}
            optimizer.state[p]["step"] = torch.tensor(float(s.steps // 2))
    lines = []
    for step in range(s.steps // 2, s.steps):
        total = 0.0
        for loss in local_loss(model, s, text, step, 0, 1):
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), s.clip or math.inf)
        for group in optimizer.param_groups:
            group["lr"] = train_llama.train_lr(s, step + 1)
        optimizer.step()
        optimizer.zero_grad()
        lines.append((total, norm.item()))
    return lines


def parse():
    p = argparse.ArgumentParser(description="Makes checkpoints to import.")
    p.add_argument("model", help="a Hugging Face folder from paro-shard init, or 'available'")
    p.add_argument("kind", choices=KINDS)
    p.add_argument("out", nargs="?")
    p.add_argument("--data", default="/usr/share/common-licenses/GPL-3")
    for name, value in dict(ranks=2, steps=8, micro_batches=8, micro_batch=2, seq=32, warmup=2,
                            seed=1).items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    for name, value in dict(lr=3e-3, min_lr=3e-4, beta1=0.9, beta2=0.95, eps=1e-8,
                            weight_decay=1.0, clip=1.0).items():
        p.add_argument("--" + name.replace("_", "-"), type=float, default=value)
    return p.parse_args()


def main():
    s = parse()
    available(s.kind)
    if s.model == "available":
        return
    import torch

    s.model, s.out = os.path.abspath(s.model), os.path.abspath(s.out)
    os.makedirs(s.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as d:
        torch.multiprocessing.spawn(one_rank, (s, f"{d}/meeting"), nprocs=s.ranks)
    if s.kind.startswith("deepspeed"):
        convert_deepspeed(s)
    torch.set_num_threads(1)
    with open(s.data, "rb") as f:
        text = f.read()
    f32, f64 = go_on(s, text, torch.float32), go_on(s, text, torch.float64)
    with open(f"{s.out}/train.dump", "w") as out:
        print("paro-train-dump 1", file=out)
        for key, value in vars(s).items():
            if key not in ("model", "out"):
                print(key, f"{value:g}" if isinstance(value, float) else value, file=out)
        print("\nstep loss grad_norm loss_f64 grad_norm_f64", file=out)
        for i, row in enumerate(zip(f32, f64)):
            print(s.steps // 2 + i + 1, *(f"{x:.9g}" for pair in row for x in pair), file=out)


if __name__ == "__main__":
    main()
