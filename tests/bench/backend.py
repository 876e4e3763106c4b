# SPDX-License-Identifier: BSD-3-Clause
"""Steps of DDP and of FSDP2 over gloo and over paro, in turns, in the same processes: backend.sh.

    mpirun -np RANKS python3 tests/bench/backend.py WIDTH LAYERS BATCH STEPS ROUNDS

Prints, for each way, the medians of seconds a step, the least and the most over ROUNDS, and what each
backend takes of the processor in a step.  The losses of both must agree to 1e-4: AdamW divides each
gradient by its own size, so that the last bits of small ones count.
"""
import statistics
import sys
import time

import paro.torch  # noqa: F401, registers the backend
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

WIDTH, LAYERS, BATCH, STEPS, ROUNDS = map(int, sys.argv[1:])


def ddp(model, group):
    return nn.parallel.DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)


def fsdp2(model, group):
    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(way, group):
    """The median of the steps without the first two, its processor time, and the last loss."""
    torch.manual_seed(0)
    model = way(nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS)]), group)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    g, took = torch.Generator().manual_seed(dist.get_rank()), []
    for _ in range(STEPS):
        x = torch.randn(BATCH, WIDTH, generator=g)
        dist.barrier()
        began_s, cpu_s = time.perf_counter(), time.process_time()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        took.append((time.perf_counter() - began_s, time.process_time() - cpu_s))
    step_s, cpu_s = (statistics.median(t) for t in zip(*took[2:]))
    return step_s, cpu_s, loss.item()


torch.set_num_threads(1)
dist.init_process_group("paro")
backends = {"gloo": dist.new_group(backend="gloo"), "paro": dist.group.WORLD}
for way in (ddp, fsdp2):
    rows = {name: [] for name in backends}
    for _ in range(ROUNDS):
        for name, group in backends.items():
            rows[name].append(train(way, group))
    losses = [row[2] for of in rows.values() for row in of]
    assert max(losses) - min(losses) <= 1e-4 * abs(losses[0]), f"losses {losses}"
    if dist.get_rank() == 0:
        steps = {name: sorted(row[0] for row in of) for name, of in rows.items()}
        middle = {name: statistics.median(s) for name, s in steps.items()}
        print(way.__name__, *(f"{name} {middle[name]:.3f} s ({s[0]:.3f}..{s[-1]:.3f}), processor "
                              f"{statistics.median(row[1] for row in rows[name]):.3f} s" for name, s in steps.items()),
              f"{middle['gloo'] / middle['paro']:.2f}x", sep="; ", flush=True)
dist.destroy_process_group()
