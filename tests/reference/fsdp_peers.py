#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Times PyTorch's data-parallel trainers and DeepSpeed on an emulated fabric, on what
paro-train trains.

    python3 -m venv DIR && DIR/bin/pip install torch transformers safetensors numpy deepspeed
    paro-shard init -m examples/models/llama-10m.json --seed 1 -o model
    DIR/bin/python tests/reference/fsdp_peers.py model -g 4 -p 2 -r 200mbit \\
        [PEER[:WIRE[:COMPUTE]]...]

Each peer is a launch of its own, paro-lab ... -- python fsdp_peers.py, with gloo over the
fabric's shaped ports, one thread a rank, and ends in one line of JSON on standard output:
{"name","wire","compute","groups","ranks","tokens_per_s","step_s","loss","steps_s","cpu_s",
"kib","start_kib"}; step_s is the median of rank 0's steps_s without the first --skip, loss that
of the last step, cpu_s the processor seconds of each step, kib the largest VmHWM of a rank after
the last step, start_kib what rank 0 had of it before it read the model: the libraries.  A peer
that cannot run, or not in time, says why in {"name","wire","compute","error"}.  --list lists
the peers.  Those that end in -paro run on lib/python's backend and build/libparo.so instead of
gloo.  "plain" is one rank with nothing around it, as tests/reference/one_core.sh wants it.
Neither are among those that run when none is named.

Weights, data, their order, AdamW, clipping and learning rate are those of train_llama.py, hence
of paro-train: losses are to be compared.  In f32 all is f32.  With a wire of bf16 FSDP and
DeepSpeed gather parameters, compute and reduce gradients in bf16, whose type COMPUTE is then;
DDP all-reduces in bf16 and computes in f32, or with COMPUTE bf16 under autocast.  The default of
COMPUTE is the wire's type.
"""
import argparse
import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import time

MICRO_STEP_REDUCES = "reduces in every micro-step"
# name: (what makes it, its arguments, meaning)
PEERS = {
    "plain": ("plain", {}, "one rank, not distributed, no fabric"),
    "plain-compiled": ("plain", {"compiled": True}, "the same through torch.compile"),
    "ddp": ("ddp", {}, "DDP, no_sync until the last micro-step"),
    "ddp-zero1": ("ddp", {"zero1": True}, "the same with ZeroRedundancyOptimizer"),
    "fsdp-full": ("fsdp1", {"strategy": "FULL_SHARD"},
                  "FSDP FULL_SHARD, " + MICRO_STEP_REDUCES),
    "fsdp-full-late": ("fsdp1", {"strategy": "FULL_SHARD", "late": True},
                       "the same, no_sync until the last micro-step"),
    "fsdp-hybrid": ("fsdp1", {"strategy": "HYBRID_SHARD"},
                    "FSDP HYBRID_SHARD, groups are hosts, " + MICRO_STEP_REDUCES),
    "fsdp-hybrid-late": ("fsdp1", {"strategy": "HYBRID_SHARD", "late": True},
                         "the same, no_sync until the last micro-step"),
    "fsdp2-full": ("fsdp2", {}, "fully_shard, 1-d mesh, " + MICRO_STEP_REDUCES),
    "fsdp2-full-late": ("fsdp2", {"late": True},
                        "the same, gradients sharded in the last micro-step"),
    "fsdp2-keep": ("fsdp2", {"keep": True},
                   "fully_shard, 1-d mesh, parameters kept for all micro-steps"),
    "fsdp2-hybrid": ("fsdp2", {"hybrid": True},
                     "fully_shard, 2-d mesh, " + MICRO_STEP_REDUCES),
    "fsdp2-hybrid-late": ("fsdp2", {"hybrid": True, "late": True},
                          "the same, all-reduce across hosts in the last micro-step"),
    "zero2": ("deepspeed", {"stage": 2}, "DeepSpeed ZeRO-2, " + MICRO_STEP_REDUCES),
    "zero3": ("deepspeed", {"stage": 3}, "DeepSpeed ZeRO-3, " + MICRO_STEP_REDUCES),
}
ON_PARO = "-paro"  # ends the names of peers whose collectives run on HO-Ring
PEERS |= {name + ON_PARO: (make, more, f"{name} with the backend paro instead of gloo")
          for name, (make, more, _) in PEERS.items() if make in ("ddp", "fsdp2")}


TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
COMPUTES_ALONE = ("plain", "ddp")  # in a type that need not be the wire's, by autocast


# ---- One rank ----------------------------------------------------------------------------

class Trainer:
    """A wrapped model; sync(last) is the context of a micro-step, clip() gives the norm."""

    def __init__(self, model, sync, clip, optimizer, backward=lambda loss: loss.backward()):
        self.model, self.sync, self.clip, self.optimizer = model, sync, clip, optimizer
        self.backward = backward


def adamw(model, s):
    return reference().make_optimizer(model, s, fused=True)


@functools.cache
def reference():
    """train_llama.py beside this file: data, learning rate, optimizer."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.dont_write_bytecode = True
    import train_llama
    return train_llama


def make_plain(model, s, bf16, compiled=False):
    import torch

    optimizer = adamw(model, s)
    return Trainer(
        torch.compile(model) if compiled else model, lambda last: contextlib.nullcontext(),
        lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), s.clip), optimizer)


def make_ddp(model, s, bf16, zero1=False):
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if bf16:
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    optimizer = adamw(model, s)
    if zero1:
        groups = [{k: g[k] for k in ("params", "weight_decay")} for g in optimizer.param_groups]
        optimizer = ZeroRedundancyOptimizer(
            groups, torch.optim.AdamW, lr=s.lr, betas=(s.beta1, s.beta2), eps=s.eps, fused=True)
    return Trainer(
        model, lambda last: contextlib.nullcontext() if last else model.no_sync(),
        lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), s.clip), optimizer)


def mesh_of(s, hybrid):
    from torch.distributed.device_mesh import init_device_mesh

    ranks, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if not hybrid:
        return init_device_mesh("cpu", (ranks,))
    if ranks % local:
        sys.exit(f"{ranks} ranks in hosts of {local}, expected hosts of equal size")
    return init_device_mesh("cpu", (ranks // local, local), mesh_dim_names=("across", "inside"))


def make_fsdp1(model, s, bf16, strategy, late=False):
    import torch
    from torch.distributed import fsdp

    layer = type(model.model.layers[0])
    mixed = fsdp.MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    model = fsdp.FullyShardedDataParallel(
        model, sharding_strategy=fsdp.ShardingStrategy[strategy],
        device_mesh=mesh_of(s, strategy == "HYBRID_SHARD"), device_id=torch.device("cpu"),
        auto_wrap_policy=fsdp.wrap.ModuleWrapPolicy({layer}), use_orig_params=True,
        mixed_precision=mixed if bf16 else None)
    return Trainer(
        model, lambda last: model.no_sync() if late and not last else contextlib.nullcontext(),
        lambda: model.clip_grad_norm_(s.clip), adamw(model, s))


def make_fsdp2(model, s, bf16, hybrid=False, late=False, keep=False):
    import torch
    from torch.distributed import fsdp

    mixed = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    more = {"mesh": mesh_of(s, hybrid), "reshard_after_forward": not keep}
    if bf16:
        more["mp_policy"] = mixed
    for layer in model.model.layers:
        fsdp.fully_shard(layer, **more)
    fsdp.fully_shard(model, **more)

    def sync(last):
        if late and hybrid:
            model.set_requires_all_reduce(last)
        elif late:
            model.set_requires_gradient_sync(last)
        if keep:
            model.set_reshard_after_backward(last)
        return contextlib.nullcontext()

    def clip():
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), s.clip)
        return norm.full_tensor()

    return Trainer(model, sync, clip, adamw(model, s))


class StepsItself:
    """What one_step asks of an optimizer, by a DeepSpeed engine: that clears its gradients."""

    def __init__(self, engine):
        self.param_groups, self.step = engine.optimizer.param_groups, engine.step

    def zero_grad(self):
        pass


def make_deepspeed(model, s, bf16, stage):
    import deepspeed

    deepspeed.utils.logger.setLevel("ERROR")
    deepspeed.init_distributed("gloo", verbose=False)  # takes the process group that is there
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=adamw(model, s), config={
        "train_micro_batch_size_per_gpu": s.micro_batch, "gradient_clipping": s.clip,
        "gradient_accumulation_steps": s.accum, "managed_gradient_accumulation": False,
        "bf16": {"enabled": bf16}, "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True})
    return Trainer(engine, lambda last: contextlib.nullcontext(), lambda: None,
                   StepsItself(engine), lambda loss: engine.backward(loss, scale_wrt_gas=False))


def one_step(t, s, text, step, rank, ranks, autocast):
    """One global step; the mean loss of all ranks' tokens."""
    import torch

    total = torch.zeros(())
    for micro in range(s.accum):
        index = (step * s.accum + micro) * ranks + rank  # lib/train/train.c: batch
        x = reference().data_batch(text, index, s.micro_batch, s.seq, s.seed)
        with t.sync(micro == s.accum - 1):
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                logits = t.model(input_ids=x[:, :-1], use_cache=False).logits.float()
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), x[:, 1:].flatten()) / s.accum
            t.backward(loss)
        total += loss.detach()
    t.clip()
    for group in t.optimizer.param_groups:
        group["lr"] = reference().train_lr(s, step + 1)
    t.optimizer.step()
    t.optimizer.zero_grad()
    if ranks > 1:
        torch.distributed.all_reduce(total)
    return total.item() / ranks


def peak_kib():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))


def run_rank(s):
    """A rank under mpirun: trains, rank 0 prints the line."""
    import torch
    import transformers

    for name, ours in dict(RANK="RANK", WORLD_SIZE="SIZE", LOCAL_RANK="LOCAL_RANK",
                           LOCAL_WORLD_SIZE="LOCAL_SIZE").items():
        os.environ[name] = os.environ["OMPI_COMM_WORLD_" + ours]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    name, wire, compute = s.peers[0].split(":")
    make, more, _ = PEERS[name]
    if make == "deepspeed":
        import deepspeed  # noqa: F401 (of the libraries that start_kib counts)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    on_paro = name.endswith(ON_PARO)
    if on_paro:
        import paro.torch  # noqa: F401 (registers the backend)
    if make != "plain":
        torch.distributed.init_process_group("paro" if on_paro else "gloo")
    with open(s.data, "rb") as f:
        text = f.read()
    llama = transformers.LlamaForCausalLM  # imports it
    start_kib = peak_kib()
    model = llama.from_pretrained(
        s.model, dtype=torch.float32, attn_implementation="sdpa")
    model.train()
    t = globals()["make_" + make](model, s, wire == "bf16", **more)
    times, cpu = [], []
    for step in range(s.steps):
        start, used = time.perf_counter(), time.process_time()
        loss = one_step(t, s, text, step, rank, ranks,
                        compute == "bf16" and make in COMPUTES_ALONE)
        times.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    kib = torch.tensor(peak_kib())
    if make != "plain":
        torch.distributed.all_reduce(kib, torch.distributed.ReduceOp.MAX)
    if rank == 0:
        step_s = statistics.median(times[s.skip:])
        tokens = ranks * s.accum * s.micro_batch * s.seq
        print(json.dumps({
            "name": name, "wire": wire, "compute": compute, "kib": kib.item(),
            "start_kib": start_kib, "groups": ranks // int(os.environ["LOCAL_WORLD_SIZE"]),
            "ranks": ranks, "tokens_per_s": tokens / step_s, "step_s": step_s, "loss": loss,
            "steps_s": [round(x, 5) for x in times], "cpu_s": [round(x, 5) for x in cpu]}),
            flush=True)
    if make != "plain":
        torch.distributed.barrier()
    if not on_paro:  # gloo's threads may outlive what they use: nothing is left to be done
        os._exit(0)


# ---- The launches ------------------------------------------------------------------------

def why(said):
    """The line of a launch's talk that tells most: the first exception, or the last line."""
    lines = [x.strip() for x in said.splitlines() if x.strip(" -\n")]
    for line in lines:
        head = line.split(":")[0]
        if head.endswith(("Error", "Exception")) and " " not in head:
            return line[:300]
    return (lines or ["nothing was said"])[-1][:300]


def launch(s, name, wire, compute):
    """A peer's line, as a dictionary."""
    env = dict(os.environ, OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false",
               HF_HUB_OFFLINE="1", DS_ACCELERATOR="cpu")
    if PEERS[name][0] == "plain":
        words = []
        env.update({"OMPI_COMM_WORLD_" + key: value for key, value in dict(
            RANK="0", SIZE="1", LOCAL_RANK="0", LOCAL_SIZE="1").items()})
    else:
        words = ["paro-lab", "-g", s.groups, "-p", s.procs, *(["-r", s.rate] if s.rate else []),
                 "--"]
        env.update(MASTER_ADDR="node0", MASTER_PORT="29500", GLOO_SOCKET_IFNAME="data")
    if name.endswith(ON_PARO):
        env["PYTHONPATH"] = os.path.join(TREE, "lib/python")
        env.setdefault("PARO_LIBRARY", os.path.join(TREE, "build/libparo.so"))
    if s.preload:
        words += ["env", "LD_PRELOAD=" + os.path.abspath(s.preload)]
    words += [sys.executable, os.path.abspath(__file__)]
    for key, value in vars(s).items():
        if key not in ("model", "peers", "groups", "procs", "rate", "limit", "list", "preload"):
            words += ["--" + key.replace("_", "-"), str(value)]
    words += [os.path.abspath(s.model), f"{name}:{wire}:{compute}"]
    failed = {"name": name, "wire": wire, "compute": compute}
    # No standard input: mpirun would take the caller's.
    with subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        try:
            out, said = p.communicate(timeout=s.limit)
        except subprocess.TimeoutExpired:
            p.terminate()
            p.communicate()
            return failed | {"error": f"not done after {s.limit:g} s"}
    for line in out.splitlines():
        if line.startswith('{"name"'):
            return json.loads(line)
    return failed | {"error": why(said)}


def parse():
    p = argparse.ArgumentParser(description="Times PyTorch's peers of paro-train.")
    p.add_argument("model", nargs="?", help="a Hugging Face folder from paro-shard init")
    p.add_argument("peers", nargs="*", metavar="PEER[:WIRE[:COMPUTE]]",
                   help="all on gloo by default; types are f32 or bf16, both wires by default")
    p.add_argument("-g", "--groups", default="4", help="of paro-lab")
    p.add_argument("-p", "--procs", default="2", help="of paro-lab: ranks of a group")
    p.add_argument("-r", "--rate", default="200mbit", help="of paro-lab; '' for none")
    p.add_argument("--limit", type=float, default=600, help="seconds that a launch may take")
    p.add_argument("--preload", default="", help="a library loaded before PyTorch's own")
    p.add_argument("--list", action="store_true", help="list the peers")
    p.add_argument("--data", default="/usr/share/common-licenses/GPL-3")
    for name, value in dict(steps=5, skip=1, accum=4, micro_batch=1, seq=256, warmup=0,
                            seed=1).items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    for name, value in dict(lr=3e-4, min_lr=3e-5, beta1=0.9, beta2=0.95, eps=1e-8,
                            weight_decay=0.1, clip=1.0).items():
        p.add_argument("--" + name.replace("_", "-"), type=float, default=value)
    s = p.parse_intermixed_args()
    if s.list:
        for name, (_, _, text) in PEERS.items():
            print(f"{name:22} {text}")
        sys.exit()
    if not s.model:
        p.error("no model, expected a folder from paro-shard init")
    if s.steps <= s.skip:
        p.error(f"{s.steps} steps of which {s.skip} are not counted, expected more")
    wanted = []
    usual = [x for x in PEERS if PEERS[x][0] != "plain" and not x.endswith(ON_PARO)]
    for peer in s.peers or usual:
        name, *types = peer.split(":")
        if name not in PEERS or len(types) > 2 or {*types} - {"f32", "bf16"}:
            p.error(f"peer '{peer}', expected one of --list, with :f32 or :bf16")
        if types[1:] not in ([], types[:1]) and PEERS[name][0] not in COMPUTES_ALONE:
            p.error(f"peer '{peer}': {name} computes in the type of its wire")
        wanted += [f"{name}:{w}:{(types[1:] or [w])[0]}" for w in types[:1] or ["f32", "bf16"]]
    s.peers = wanted
    return s


def main():
    s = parse()
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        return run_rank(s)
    for peer in s.peers:
        print(json.dumps(launch(s, *peer.split(":"))), flush=True)


main()
