#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small Llama with the module that `paro-plan --emit=fsdp` wrote, on the bytes of a file.

    paro-lab -g 2 -p 2 -r 500mbit -- python3 examples/torch/train.py plan.py DATA

Weights are random, and the same on all ranks.  Rank 0 prints the mean loss of all ranks and the
seconds of each step.  README.md shows how to write plan.py.
"""
import argparse
import os
import statistics
import sys
import time
import types

try:
    import torch
    import torch.distributed as dist
    import transformers
except ImportError as e:
    sys.exit(f"train.py: {e}; type 'pip install torch transformers'")

CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../models/llama-10m.json")
LAUNCHER = {"RANK": "RANK", "WORLD_SIZE": "SIZE", "LOCAL_RANK": "LOCAL_RANK"}  # of Open MPI
USER_ERRORS = (OSError, ImportError, SyntaxError, ValueError, RuntimeError)


def parse():
    p = argparse.ArgumentParser(description="Train a small Llama by a plan of paro-plan --emit=fsdp.")
    p.add_argument("plan", help="the Python module that paro-plan --emit=fsdp wrote")
    p.add_argument("data", help="a file, whose bytes are the tokens")
    p.add_argument("-b", "--backend", default="paro", choices=("paro", "gloo", "nccl"),
                   help="backend of torch.distributed (default: paro)")
    p.add_argument("-m", "--model", default=CONFIG, metavar="FILE",
                   help="config.json of a Llama (default: examples/models/llama-10m.json)")
    p.add_argument("-n", "--steps", type=int, default=10, help="number of steps (default: 10)")
    p.add_argument("--lr", type=float, default=1e-3, help="learning rate of AdamW (default: 1e-3)")
    p.add_argument("--seed", type=int, default=1, help="seed of the weights (default: 1)")
    p.add_argument("--threads", type=int, default=1, help="processor threads of a rank (default: 1)")
    p.add_argument("--overlap", action="store_true",
                   help="on processors gather while computing, by a function that is not public in PyTorch")
    return p.parse_args()


def first_line(error):
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def start(backend):
    """Starts torch.distributed; paro.torch reads rank and host from the launcher by itself."""
    if backend == "paro":
        import paro.torch  # noqa: F401, registers the backend
    else:
        for name, ours in LAUNCHER.items():
            default = "1" if name == "WORLD_SIZE" else "0"
            os.environ.setdefault(name, os.environ.get("OMPI_COMM_WORLD_" + ours, default))
        if "MASTER_ADDR" not in os.environ and os.environ["WORLD_SIZE"] != "1":
            raise ValueError(f"MASTER_ADDR is not set, which {backend} needs: expected rank 0's host")
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", "29500")
    if backend == "nccl":
        if not torch.cuda.is_available():
            raise ValueError("no GPU, which nccl needs")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend)


def agreed(make):
    """Returns make(); an error of any rank ends all of them, with one line."""
    result, error, errors = None, None, [None] * dist.get_world_size()
    try:
        result = make()
    except USER_ERRORS as e:
        error = first_line(e)
    dist.all_gather_object(errors, error)
    for rank, text in enumerate(errors):
        if text:
            sys.exit(f"train.py: {text}" if rank == dist.get_rank() else 1)
    return result


def read(path):
    with open(path, "rb") as f:
        return f.read()


def load_plan(path, code, text):
    plan, ranks = types.ModuleType("plan"), dist.get_world_size()
    exec(compile(code, path, "exec"), plan.__dict__)
    if not hasattr(plan, "train_step"):
        raise ValueError(f"'{path}' has no train_step, expected the output of paro-plan --emit=fsdp")
    if hasattr(plan, "mesh") and plan.mesh.size() != ranks:
        raise ValueError(f"'{path}' is for {plan.mesh.size()} ranks, expected {ranks}")
    if len(text) < plan.SEQ:
        raise ValueError(f"{len(text)} bytes of data, expected at least {plan.SEQ}, one sequence")
    return plan


def load_model(path, seed):
    read(path)  # transformers names no missing file
    config = transformers.LlamaConfig.from_json_file(path)
    if config.vocab_size < 256:
        raise ValueError(f"'{path}': vocab_size is {config.vocab_size}, expected at least 256: bytes")
    config.use_cache = False
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(config)


def batches(plan, text, step, rank, ranks):
    """The rank's micro-batches of a step: consecutive windows of the text, which wrap at its end."""
    for i in range(plan.ACCUM):
        first = ((step * plan.ACCUM + i) * ranks + rank) * plan.MICRO_BATCH
        starts = [n * plan.SEQ % (len(text) - plan.SEQ + 1) for n in range(first, first + plan.MICRO_BATCH)]
        x = torch.tensor([list(text[k:k + plan.SEQ]) for k in starts], device=plan.DEVICE)
        yield {"input_ids": x, "labels": x}


def main():
    args = parse()
    try:
        start(args.backend)
    except USER_ERRORS as e:
        sys.exit(f"train.py: {first_line(e)}")
    torch.set_num_threads(args.threads)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    code, text = agreed(lambda: (read(args.plan), read(args.data)))
    plan = agreed(lambda: load_plan(args.plan, code, text))
    model = agreed(lambda: load_model(args.model, args.seed))
    model = plan.shard(model.to(plan.DEVICE))
    if args.overlap and hasattr(model, "_set_unshard_async_op"):
        model._set_unshard_async_op(True)
    optimizer, times = torch.optim.AdamW(model.parameters(), lr=args.lr), []
    for step in range(args.steps):
        begin = time.perf_counter()
        loss = plan.train_step(model, optimizer, batches(plan, text, step, rank, ranks))
        dist.all_reduce(loss)
        loss = loss.item() / ranks
        times.append(time.perf_counter() - begin)
        if rank == 0:
            print(f"step {step + 1}: loss {loss:.7f}, {times[-1]:.3f} s", flush=True)
    if rank == 0 and args.steps > 1:
        print(f"median without the first: {statistics.median(times[1:]):.3f} s a step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
