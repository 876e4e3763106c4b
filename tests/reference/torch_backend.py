#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the backend "paro" of torch.distributed with gloo: each collective, type and size; DDP,
FSDP2 on a mesh of one and of two dimensions; two groups at once; errors; what libraries above it do.

    mpirun -np RANKS python3 tests/reference/torch_backend.py [WHAT...]

Integers must be equal.  A sum of n floats in another order differs by at most (n - 1) eps times the
sum of magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, 4.2), on each side.
"""
import sys
import tempfile

import paro.torch  # noqa: F401, registers the backend
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer

try:
    torch.cpu.Stream.record_event  # without which FSDP2 needs GPUs
    import torch.distributed._functional_collectives as functional
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor
except (AttributeError, ImportError):
    fully_shard = None

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
TYPES = FLOATS + (torch.int32, torch.int64, torch.uint8)
SIZES = (1, 7, 1000, 100003)


def data(elems, dtype, rank, salt=0):
    g = torch.Generator().manual_seed(1000 * rank + elems + salt)
    if dtype.is_floating_point:
        return torch.randn(elems, generator=g).to(dtype)
    return torch.randint(0, 20, (elems,), generator=g).to(dtype)


def same(ours, theirs, magnitude, what):
    if ours.dtype.is_floating_point:
        bound = 2 * dist.get_world_size() * torch.finfo(ours.dtype).eps * magnitude.double()
        wrong = (ours.double() - theirs.double()).abs() > bound
    else:
        wrong = ours != theirs
    assert not wrong.any(), f"{what}: {ours[wrong][:3]} where gloo has {theirs[wrong][:3]}"


def skipped(what):
    if dist.get_rank() == 0:
        print(f"skipped: {what}, since PyTorch {torch.__version__} has no FSDP2 on processors", flush=True)


def reduce_by_gloo(t, op, gloo):
    wide = t.double() if t.dtype == torch.bfloat16 else t  # no bf16 in old gloo
    dist.all_reduce(wide, op, group=gloo)
    t.copy_(wide)


def collectives(gloo):
    r, n, ops = dist.get_rank(), dist.get_world_size(), dist.ReduceOp
    for dtype in TYPES:
        for elems in SIZES:
            mine, whole = data(elems, dtype, r), data(elems * n, dtype, r, 1)
            size = sum(data(elems, dtype, k).double().abs() for k in range(n))
            wide = sum(data(elems * n, dtype, k, 1).double().abs() for k in range(n))
            for op in (ops.SUM, ops.MAX, ops.MIN):
                ours, theirs = mine.clone(), mine.clone()
                dist.all_reduce(ours, op)
                reduce_by_gloo(theirs, op, gloo)
                same(ours, theirs, size, f"all-reduce {op} {dtype} {elems}")
            ours, theirs = torch.empty(elems, dtype=dtype), whole.clone()
            dist.reduce_scatter_tensor(ours, whole)
            reduce_by_gloo(theirs, ops.SUM, gloo)
            same(ours, theirs[r * elems:(r + 1) * elems], wide[r * elems:(r + 1) * elems],
                 f"reduce-scatter {dtype} {elems}")
            ours, theirs = (torch.empty(elems * n, dtype=dtype) for _ in range(2))
            dist.all_gather_into_tensor(ours, mine)
            dist.all_gather(list(theirs.view(torch.uint8).chunk(n)), mine.view(torch.uint8), group=gloo)
            assert torch.equal(ours, theirs), f"all-gather {dtype} {elems}"
            ours = mine.clone()
            dist.broadcast(ours, src=n - 1)
            assert torch.equal(ours, data(elems, dtype, n - 1)), f"broadcast {dtype} {elems}"
    flags = torch.tensor([True, r == 0, r > n])
    dist.all_reduce(flags, ops.MIN)
    assert flags.tolist() == [True, n == 1, False]


def lists(gloo):
    r, n = dist.get_rank(), dist.get_world_size()
    taken = [torch.empty(k + 1) for k in range(n)]
    dist.all_gather(taken, torch.full((r + 1,), float(r)))
    assert all(t.eq(k).all() for k, t in enumerate(taken)), "blocks of unequal size"
    out = torch.empty(2)
    dist.reduce_scatter(out, [torch.full((2,), float(k)) for k in range(n)])
    assert out.eq(n * r).all()
    given = [torch.full((k + 1,), float(10 * r + k)) for k in range(n)]
    taken = [torch.empty(r + 1) for _ in range(n)]
    dist.all_to_all(taken, given)
    assert all(t.eq(10 * k + r).all() for k, t in enumerate(taken))
    part = torch.empty(3, dtype=torch.int64)
    dist.scatter(part, [torch.full((3,), k) for k in range(n)] if r == 0 else None, src=0)
    assert part.eq(r).all()
    rows = [torch.empty(3, dtype=torch.int64) for _ in range(n)] if r == n - 1 else None
    dist.gather(part, rows, dst=n - 1)
    assert r != n - 1 or all(t.eq(k).all() for k, t in enumerate(rows))
    one = torch.ones(5)
    dist.reduce(one, dst=0)
    assert one.eq(n if r == 0 else 1).all()
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": r, "text": "x" * 1000 * r})
    assert [o["rank"] for o in objects] == list(range(n))
    # A message that is sent before, and received after, a collective whose handle is new.
    if n > 1 and r < 2:
        big = torch.full((1 << 20,), float(r))
        if r == 0:
            work = dist.isend(big, 1)
    dist.all_reduce(torch.ones(12345))
    if n > 1 and r < 2:
        if r == 1:
            dist.recv(big, 0)
        else:
            work.wait()
        assert big.eq(0).all()
    dist.barrier()
    senders = sorted(dist.recv(torch.empty(2)) for _ in range(n - 1)) if r == 0 else dist.send(torch.ones(2), 0)
    assert r or senders == list(range(1, n)), senders  # each from any rank
    dist.barrier()


def flight(gloo):
    """Many calls in flight in two groups, waited for in another order."""
    r, n = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group([k for k in range(n) if k % 2 == h]) for h in range(min(2, n))]
    for rounds in range(3):
        works = []
        for i in range(24):
            t = torch.full((1000 + 37 * (i % 3),), float(r + i))
            group = halves[r % 2] if i % 2 else None
            works.append((dist.all_reduce(t, group=group, async_op=True), t, i, group))
        for work, t, i, group in reversed(works):
            work.wait()
            ranks = [k for k in range(n) if group is None or k % 2 == r % 2]
            assert t.eq(sum(k + i for k in ranks)).all()


def train(group, wrap, steps=4):
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(96, 96), nn.GELU()) for _ in range(3)])
    model = wrap(model, group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    g, losses = torch.Generator().manual_seed(dist.get_rank()), []
    for _ in range(steps):
        loss = model(torch.randn(8, 96, generator=g)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def ddp(model, group):
    return nn.parallel.DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)


def fsdp(model, _, shape=None):
    n = dist.get_world_size()
    mesh = init_device_mesh("cpu", shape or (n,), mesh_dim_names=("replicas", "shards") if shape else None)
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def hsdp(model, _):
    return fsdp(model, _, (2, dist.get_world_size() // 2))


def training(gloo):
    """A rank's loss is a function of summed gradients: other orders of sums change the last bits alone."""
    want = train(gloo, ddp)
    ways = [("DDP", ddp), ("FSDP2", fsdp)] + [("HSDP", hsdp)] * (dist.get_world_size() % 2 == 0)
    if not fully_shard:
        skipped("FSDP2")
        del ways[1:]
    for name, wrap in ways:
        got = train(None, wrap)
        assert all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(got, want)), f"{name}: {got}, gloo's DDP {want}"
        assert got == train(None, wrap), f"{name}: not the same bits again"


def errors(gloo):
    n, ops = dist.get_world_size(), dist.ReduceOp
    short, half = torch.empty(4 * n + 1), torch.empty(4 * n, dtype=torch.float16)
    for name, call in (
            ("strides", lambda: dist.all_reduce(torch.ones(4, 4).t())),
            ("a product of bf16", lambda: dist.all_reduce(torch.ones(3, dtype=torch.bfloat16), ops.PRODUCT)),
            ("a longer output", lambda: dist.all_gather_into_tensor(short, torch.ones(4))),
            ("a longer input", lambda: dist.reduce_scatter_tensor(torch.ones(4), short)),
            ("another type", lambda: dist.all_gather_into_tensor(half, torch.ones(4)))):
        try:
            call()
        except (ValueError, RuntimeError):
            continue
        raise AssertionError(f"{name}: accepted")


def tensors():
    """DTensor, functional collectives, checkpoints."""
    n = dist.get_world_size()
    mesh, whole = init_device_mesh("cpu", (n,)), torch.arange(24.0).view(6, 4)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(rows.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
    assert DTensor.from_local(torch.ones(4, 4), mesh, [Partial()]).redistribute(mesh, [Shard(0)]).to_local().eq(n).all()
    assert (functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD) + 0).eq(n).all()
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    dcp.save({"rows": rows}, checkpoint_id=folder[0])
    again = {"rows": distribute_tensor(torch.zeros(6, 4), mesh, [Shard(0)])}
    dcp.load(again, checkpoint_id=folder[0])
    assert torch.equal(again["rows"].full_tensor(), whole)


def libraries(gloo):
    """DTensor and what is above it, hooks of DDP, an optimizer that is sharded."""
    if fully_shard:
        tensors()
    else:
        skipped("DTensor")
    for hook in (None, default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook):
        weights = []
        for group in (None, gloo):
            torch.manual_seed(1)
            model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8), process_group=group, static_graph=True)
            if hook and group is None:  # gloo reduces in f32
                model.register_comm_hook(None, hook)
            optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, process_group=group, lr=0.01)
            model(torch.full((2, 8), dist.get_rank() + 1.0)).square().mean().backward()
            optimizer.step()
            weights.append(torch.cat([p.detach().view(-1) for p in model.parameters()]))
        # The rate times a gradient's magnitudes is below the largest weight.
        eps = torch.finfo(torch.bfloat16 if hook else torch.float32).eps
        same(*weights, torch.full_like(weights[0], eps / torch.finfo(torch.float32).eps * weights[0].abs().max()),
             "weights after a step")


def main():
    dist.init_process_group("paro")
    gloo = dist.new_group(backend="gloo")
    for name in sys.argv[1:] or ("collectives", "lists", "flight", "training", "libraries", "errors"):
        globals()[name](gloo)
        if dist.get_rank() == 0:
            print("ok", name, flush=True)
    dist.destroy_process_group()


main()
