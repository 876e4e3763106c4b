# SPDX-License-Identifier: BSD-3-Clause
"""A loop of PyTorch's DistributedDataParallel over gloo, under mpirun: watch_ddp.py DIR.

Writes the flight recorder's dump of this rank to DIR/trace_rank_N.json: every 50 steps, and,
as NCCL's watchdog does, when a step lasts longer than a second.
"""
import os
import sys
import threading
import time

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "4096")
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

rank, ranks = (int(os.environ["OMPI_COMM_WORLD_" + k]) for k in ("RANK", "SIZE"))
dist.init_process_group("gloo", init_method="tcp://10.77.0.1:29500", rank=rank, world_size=ranks)
torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])
model = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
os.makedirs(sys.argv[1], exist_ok=True)
last = time.time()


def dump():
    with open(f"{sys.argv[1]}/.{rank}", "wb") as f:
        f.write(c10d._dump_fr_trace_json())
    os.rename(f.name, f"{sys.argv[1]}/trace_rank_{rank}.json")


def watchdog():
    while True:
        time.sleep(0.2)
        if time.time() - last > 1:
            dump()
            time.sleep(60)


threading.Thread(target=watchdog, daemon=True).start()
for step in range(1, sys.maxsize):
    optimizer.zero_grad()
    model(torch.randn(64, 512)).square().mean().backward()
    optimizer.step()
    last = time.time()
    if step % 50 == 0:
        dump()
