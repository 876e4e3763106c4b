# SPDX-License-Identifier: BSD-3-Clause
"""Registers HO-Ring as the backend "paro" of torch.distributed, for tensors in host memory.

    import paro.torch
    torch.distributed.init_process_group("paro")        # under mpirun, srun or paro-launch

All-gather, reduce-scatter, all-reduce and broadcast run on libparo; gather, scatter, all-to-all,
send and receive on MPI.  A thread makes these calls, in the program's order, and lets all runs in
flight progress together; each call returns a Work at once.

A run needs a handle, which all ranks prepare together.  So that every rank takes the same
decisions, they follow from the order of calls alone, never from what has ended: call n of a kind
(operation, type, count) uses handle n modulo the handles of its kind and waits where that one
still runs; before a handle is prepared all runs of libparo's end; and a group frees the handles that
were used least recently when all of its own need more than PARO_MEMORY (default 1 GiB).
"""
import atexit
import collections
import ctypes
import os
import queue
import socket
import sys
import threading
import time
from ctypes import byref, c_int, c_int64, c_void_p

import torch
import torch.distributed as dist

from . import native

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
if VERSION < (2, 0):
    raise ImportError(f"PyTorch {torch.__version__}, expected 2.0 or newer")
TYPES = {torch.float32: native.F32, torch.float64: native.F64, torch.float16: native.F16,
         torch.bfloat16: native.BF16, torch.int32: native.I32, torch.uint8: native.U8}
MPI_TYPES = {torch.int64: "int64_t", torch.int16: "int16_t", torch.int8: "int8_t",
             torch.bool: "c_bool", torch.int32: "int32_t", torch.uint8: "uint8_t",
             torch.float32: "float", torch.float64: "double"}
SUMS = {dist.ReduceOp.SUM: native.SUM, dist.ReduceOp.AVG: native.AVG,
        dist.ReduceOp.MAX: native.MAX, dist.ReduceOp.MIN: native.MIN}
MPI_OPS = {dist.ReduceOp.SUM: "op_sum", dist.ReduceOp.MAX: "op_max", dist.ReduceOp.MIN: "op_min",
           dist.ReduceOp.PRODUCT: "op_prod", dist.ReduceOp.BAND: "op_band",
           dist.ReduceOp.BOR: "op_bor", dist.ReduceOp.BXOR: "op_bxor"}
BOOL_OPS = {"op_sum": "op_lor", "op_max": "op_lor", "op_min": "op_land", "op_prod": "op_land",
            "op_band": "op_land", "op_bor": "op_lor", "op_bxor": "op_lxor"}
OPS = {native.ALL_GATHER: "all-gather", native.REDUCE_SCATTER: "reduce-scatter",
       native.ALL_REDUCE: "all-reduce", native.BROADCAST: "broadcast"}
TEXT_BYTES = 160  # of a call's description
SLICE_S, MESSAGE_S = 0.1, 2e-4  # progress in C between two looks: of runs alone, and with messages of MPI's
IN_FLIGHT_BYTES = 64 << 20  # several handles of one kind, while together they are no larger
HANDLES_MOST = 4
PIECE_BYTES = 4 << 20  # of an all-reduce or a broadcast: while one piece is sent another is copied


class _Handle:
    def __init__(self, comm, spec):
        self.pointer, d = c_void_p(), native.paro_description(ctypes.sizeof(native.paro_description))
        native.paro("prepare", comm, byref(spec), byref(self.pointer))
        native.paro("describe", self.pointer, byref(d))
        self.bytes, self.traffic = d.memory_bytes, (d.slow_bytes, d.fast_bytes, d.slow_s, d.fast_s)
        self.run = None

    def ended(self):
        done = c_int()
        native.paro("test", self.pointer, byref(done))
        return done.value


class _Requests:
    """Nonblocking calls of MPI's that together are one call of the program's."""

    def __init__(self, requests, seconds):
        self.requests, self.seconds, self.until = requests, seconds, time.monotonic() + seconds
        self.status = (c_int * 6)()  # MPI_Status of the last one, which begins with the source

    def ended(self):
        done = c_int()
        for r in self.requests:
            native.call("Test", byref(r), byref(done), self.status)
            if not done.value:
                if time.monotonic() > self.until:
                    raise native.Error(f"no answer of another rank in {self.seconds:g} s")
                return False
        return True


# PyTorch before 2.7 frees the Python half of a Work that its C++ waits for, which then waits forever.
_KEPT = set() if VERSION < (2, 7) else None


class _Work(dist._Work):
    """What a call returns.  (The Work that torch makes of a future reports no error.)"""

    def __init__(self, future):
        super().__init__()
        self.future, self.requests = future, None
        if _KEPT is not None:
            _KEPT.add(self)

    def _source_rank(self):
        return self.requests.status[0]

    def wait(self, timeout=None):
        try:
            self.future.wait()
        finally:
            self._forget()
        return True

    def _forget(self):
        if _KEPT is not None:
            _KEPT.discard(self)

    def is_completed(self):
        return self.future.done()

    def result(self):
        return self.future.value()

    def get_future(self):
        self._forget()
        return self.future.then(lambda f: f.value())  # an error of Python's becomes one of C++


# A call in flight: `ended` of what is asked until it is true; keep holds what the call uses.
_Run = collections.namedtuple("_Run", "what future result after keep")


class _Worker(threading.Thread):
    """The thread that makes all calls of MPI and libparo, but for those that the program waits for
    while nothing else is in flight: the program's own thread makes these, without two switches."""

    def __init__(self):
        super().__init__(name="paro", daemon=True)
        self.calls, self.runs, self.called = queue.SimpleQueue(), [], c_int()
        self.turn, self.lock, self.pending = threading.Lock(), threading.Lock(), 0  # pending: calls without an end
        # Bytes sent to other groups and inside, the least times for them; the time with a run in flight
        self.traffic, self.seconds = [0, 0, 0.0, 0.0], 0.0
        self.metered = None  # the first group's paro_comm, in whose meter the others record
        self.failed = False  # an exception that nobody caught ends the program

    def put(self, call, waits=False):
        """call: (start, future, result), or None to end; waits: the program waits for its end."""
        with self.lock:
            self.pending += 1
            own = waits and self.pending == 1 and self.turn.acquire(blocking=False)
            if not own:
                self.calls.put(call)
                self.called.value = 1
        if own:
            try:
                self.begin(*call)
                while self.runs:
                    self.progress()
            finally:
                self.turn.release()

    def run(self):
        call = self.calls.get()
        while call is not None:
            with self.turn:
                while call or self.runs:
                    if call:
                        self.begin(*call)
                    self.called.value = 0
                    try:
                        call = self.calls.get_nowait()
                    except queue.Empty:
                        call = ()
                        self.progress(byref(self.called))
                    if call is None:
                        return
            call = self.calls.get()

    def begin(self, start, future, result):
        try:
            what, after, keep = start(self)
            run = _Run(what, future, result, after, keep)
            if what is None:
                self.finish(run)
            else:
                what.run = run
                self.runs.append(run)
        except BaseException as e:  # the program's thread raises it
            self.fail(future, e)

    def fail(self, future, e):
        with self.lock:
            self.pending -= 1
        future.set_exception(dist.DistBackendError(str(e)) if isinstance(e, native.Error) else e)

    def finish(self, run):
        try:
            if run.after:
                run.after()
        except BaseException as e:
            self.fail(run.future, e)
            return
        with self.lock:
            self.pending -= 1
        run.future.set_result(run.result)

    def progress(self, stop=None):
        """Lets all runs progress until one ends, or for a slice of time, or until *stop; ends those that are done."""
        handles, began_s = [r.what.pointer for r in self.runs if isinstance(r.what, _Handle)], time.monotonic()
        if handles:
            native.lib.paro_wait_any((c_void_p * len(handles))(*handles), len(handles),
                                     SLICE_S if len(handles) == len(self.runs) else MESSAGE_S,
                                     stop)
            self.seconds += time.monotonic() - began_s
        left = []
        for run in self.runs:
            try:
                if not run.what.ended():
                    left.append(run)
                    continue
            except native.Error as e:
                run.what.run = None
                self.fail(run.future, e)
                continue
            run.what.run = None
            self.finish(run)
        if len(left) == len(self.runs) and not handles:
            time.sleep(MESSAGE_S / 4)
        self.runs = left

    def drain(self):
        """Ends all runs of libparo's, without which a preparation of other ranks would wait.  Messages
        of MPI's progress during a preparation, and may wait for a call that comes later."""
        while any(isinstance(r.what, _Handle) for r in self.runs):
            self.progress()


class _Cache:
    """The handles of a group by kind; every decision is the same on all of its ranks."""

    def __init__(self, comm):
        self.comm, self.kinds, self.bytes = comm, collections.OrderedDict(), 0
        self.most = int(os.environ.get("PARO_MEMORY", 1 << 30))

    def take(self, worker, kind, spec):
        """The handle for the next call of this kind, which does not run."""
        entry = self.kinds.setdefault(kind, [0, []])
        self.kinds.move_to_end(kind)
        number, handles = entry
        most = max(1, min(HANDLES_MOST, IN_FLIGHT_BYTES // max(1, handles[0].bytes))) if handles else 1
        if number >= len(handles) and len(handles) < most:
            worker.drain()
            handles.append(_Handle(self.comm, spec))
            self.bytes += handles[-1].bytes
            while self.bytes > self.most and len(self.kinds) > 1:
                self.free(next(iter(self.kinds)))
        h = handles[number % len(handles)]
        entry[0] = number + 1
        while h.run:
            worker.progress()
        worker.traffic = [a + b for a, b in zip(worker.traffic, h.traffic)]
        return h

    def free(self, kind):
        for h in self.kinds.pop(kind)[1]:
            self.bytes -= h.bytes
            native.lib.paro_free(h.pointer)


def _checked(tensors):
    for t in tensors:
        if not t.is_cpu:
            raise ValueError(f"a tensor is on '{t.device}', expected host memory; for GPUs make another "
                             'group: new_group(backend="nccl")')
        if not t.is_contiguous():
            raise ValueError(f"a tensor of shape {tuple(t.shape)} has strides {t.stride()}, expected a contiguous one")
    return tensors


def _waits(opts):
    """The program waits at once for the call, or for None may go on."""
    return not getattr(opts, "asyncOp", True)


def _bytes(t):
    return t.numel() * t.element_size()


class ProcessGroup(dist.ProcessGroup):
    """A group of torch.distributed: a communicator of MPI's, and one of libparo's on it."""

    def __init__(self, ranks, rank, timeout, number):
        super().__init__(rank, len(ranks))
        self._name, self._desc, self.seconds = "", "paro", timeout.total_seconds()
        self.comm = self.cache = None
        self.specs = {}  # what a call asks for: its kind, and the request
        self.checks = bool(os.environ.get("PARO_CHECK")) or dist.get_debug_level() == dist.DebugLevel.DETAIL
        options = native.paro_options(ctypes.sizeof(native.paro_options))
        for key, name in (("topology", "PARO_TOPOLOGY"), ("groups", "PARO_GROUPS"),
                          ("tuning", "PARO_TUNING")):
            text = os.environ.get(name)
            if text and (key == "tuning" or len(ranks) == _world[1]):
                setattr(options, key, text.encode())
        options.deadline_s, options.meter = self.seconds, (os.environ.get("PARO_METER") or "").encode() or None

        def open_comm(worker):
            worker.drain()
            self.comm = native.group_comm(ranks, number)
            opened, options.meter_of = c_void_p(), worker.metered
            native.paro("comm_open", byref(opened), self.comm, byref(options))
            worker.metered = worker.metered or opened.value
            self.cache = _Cache(opened)
            return None, None, None
        self._put(open_comm, None).wait()

    def _put(self, start, result, waits=False):
        future = torch.futures.Future()
        _worker.put((start, future, result), waits)
        return _Work(future)

    # ---- what runs on libparo ----

    def _run(self, op, given, taken, opts, result=None, after=None):
        """given, taken: tensors without gaps; after copies from them to where the result belongs."""
        _checked((given,) if given is taken else (given, taken))
        result = [taken] if result is None else result
        if op not in (native.ALL_REDUCE, native.BROADCAST) or _bytes(given) <= PIECE_BYTES:
            return self._one(op, given, taken, opts, result, after, _waits(opts))
        pieces = given.view(-1).split(PIECE_BYTES // given.element_size())
        return self._each([self._one(op, t, t, opts) for t in pieces], result, after)

    def _spec(self, op, given, taken, reduction, root):
        """The request, the same on all ranks, and a key of it."""
        block, whole = (given, taken) if op == native.ALL_GATHER else (taken, given)
        blocks = self.size() if op in (native.ALL_GATHER, native.REDUCE_SCATTER) else 1
        if whole.numel() != blocks * block.numel() or given.dtype != taken.dtype:
            raise ValueError(f"{whole.numel()} elements of {whole.dtype} for {blocks} x {block.numel()} of "
                             f"{block.dtype}, expected as many, of one type")
        count, type_, how, mpi_type, mpi_op = block.numel(), TYPES.get(given.dtype), SUMS.get(reduction), 0, 0
        if op in (native.ALL_GATHER, native.BROADCAST):
            type_, count, how = native.U8, _bytes(block), native.SUM
        elif type_ is None or how is None:
            name = MPI_OPS.get(reduction)
            if name is None or given.dtype not in MPI_TYPES:
                raise ValueError(f"the reduction {reduction} on {given.dtype}, expected one of "
                                 f"{', '.join(str(k) for k in MPI_OPS)} on a type of MPI's")
            type_, how, mpi_type = native.MPI, 0, native.handle(MPI_TYPES[given.dtype])
            mpi_op = native.handle(BOOL_OPS[name] if given.dtype == torch.bool else name)
        return (op, type_, how, root, count, mpi_type, mpi_op), native.paro_spec(
            bytes=ctypes.sizeof(native.paro_spec), op=op, type=type_, reduction=how, root=root, count=count,
            mpi_type=mpi_type, mpi_op=mpi_op)

    def _same(self, worker, asked):
        """Every rank must make the same call.  A handle finds that when it is prepared, later calls would wait."""
        op, *_, given, taken, reduction, root = asked
        text = f"{OPS[op]} of {min(given, taken)} elements of {asked[1]}, {reduction}, root {root}".encode()
        mine, request = text.ljust(TEXT_BYTES, b"\0"), c_void_p()
        all_ = ctypes.create_string_buffer(TEXT_BYTES * self.size())
        native.call("Iallgather", mine, c_int(TEXT_BYTES), c_void_p(native.BYTE), all_, c_int(TEXT_BYTES),
                    c_void_p(native.BYTE), self.comm, byref(request))
        answers = _Requests([request], self.seconds)
        while not answers.ended():
            worker.progress()
        for rank in range(self.size()):
            its = all_[TEXT_BYTES * rank:TEXT_BYTES * (rank + 1)]
            if its != mine:
                raise ValueError(f"rank {rank} calls {its.rstrip(bytes(1)).decode()}; rank {self.rank()} "
                                 f"{text.decode()}; expected the same call")

    def _one(self, op, given, taken, opts, result=None, after=None, waits=False):
        root, reduction = opts.rootRank if op == native.BROADCAST else 0, dist.ReduceOp.SUM
        if op in (native.REDUCE_SCATTER, native.ALL_REDUCE) and hasattr(opts, "reduceOp"):
            reduction = opts.reduceOp.op
        asked = op, given.dtype, taken.dtype, given.numel(), taken.numel(), reduction, root
        if asked not in self.specs:
            self.specs[asked] = self._spec(op, given, taken, reduction, root)
        kind, spec = self.specs[asked]

        def start(worker):
            if self.checks:
                self._same(worker, asked)
            if spec.count == 0:
                return None, after, None
            h = self.cache.take(worker, kind, spec)
            native.paro("start", h.pointer, given.data_ptr(), taken.data_ptr())
            return h, after, (given, taken)
        return self._put(start, result, waits)

    def allreduce(self, tensors, opts=None):
        if len(tensors) > 1:
            return self.allreduce_coalesced(tensors, opts)
        return self._run(native.ALL_REDUCE, tensors[0], tensors[0], opts, tensors)

    def allreduce_coalesced(self, tensors, opts=None):
        _checked(tensors)
        flat = torch.cat([t.reshape(-1) for t in tensors])

        def scatter():
            for t, part in zip(tensors, flat.split([t.numel() for t in tensors])):
                t.copy_(part.view_as(t))
        return self._run(native.ALL_REDUCE, flat, flat, opts, tensors, scatter)

    def broadcast(self, tensors, opts=None):
        return self._run(native.BROADCAST, tensors[0], tensors[0], opts, tensors)

    def all_gather_single(self, output, input, opts=None):
        return self._run(native.ALL_GATHER, input, output, opts)
    _allgather_base = all_gather_single

    def allgather(self, outputs, inputs, opts=None):
        if any(t.shape != inputs[0].shape for t in outputs[0]):
            return self._pairs([inputs[0]] * self.size(), outputs[0], outputs)
        flat = inputs[0].new_empty((self.size(), inputs[0].numel()))

        def scatter():
            for t, row in zip(outputs[0], flat):
                t.copy_(row.view_as(t))
        return self._run(native.ALL_GATHER, inputs[0], flat, opts, outputs, scatter)

    def reduce_scatter_single(self, output, input, opts=None):
        return self._run(native.REDUCE_SCATTER, input, output, opts)
    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter(self, outputs, inputs, opts=None):
        _checked(inputs[0])
        flat = torch.cat([t.reshape(-1) for t in inputs[0]])
        return self._run(native.REDUCE_SCATTER, flat, outputs[0], opts, outputs)

    def _each(self, works, result, after=None):
        """One Work for several calls."""
        future = torch.futures.Future()
        for work in works:
            work._forget()

        def end(_):
            try:
                for work in works:
                    work.future.value()
                if after:
                    after()
            except BaseException as e:
                future.set_exception(e)
            else:
                future.set_result(result)
        torch.futures.collect_all([work.future for work in works]).then(end)
        return _Work(future)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        return self._each([self.all_gather_single(o, i) for o, i in zip(outputs, inputs)], outputs)
    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather_coalesced(self, outputs, inputs, opts=None):
        return self._each([self.allgather([list(o)], [i]) for o, i in zip(zip(*outputs), inputs)], outputs)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        return self._each([self.reduce_scatter_single(o, i, opts) for o, i in zip(outputs, inputs)], outputs)
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def reduce(self, tensors, opts=None):
        """As an all-reduce, whose result the root alone takes."""
        result = tensors[0].clone()
        root = opts.rootRank

        def take():
            if self.rank() == root:
                tensors[0].copy_(result)
        return self._run(native.ALL_REDUCE, result, result, opts, tensors, take)

    def barrier(self, opts=None):
        one = torch.zeros(1, dtype=torch.uint8)
        return self._run(native.ALL_REDUCE, one, one, opts, [])

    # ---- what runs on MPI ----

    def _requests(self, calls, keep, result):
        """calls: (name, arguments before the communicator) of nonblocking calls, sent as bytes."""
        made = _Requests([c_void_p() for _ in calls], self.seconds)

        def start(worker):
            for (name, args), r in zip(calls, made.requests):
                native.call(name, *args, self.comm, byref(r))
            return made, None, keep
        work = self._put(start, result)
        work.requests = made
        return work

    @staticmethod
    def _message(t, peer, tag):
        _checked([t])
        if _bytes(t) >= 1 << 31:
            raise ValueError(f"a message of {_bytes(t)} bytes, expected less than 2 GiB")
        return c_void_p(t.data_ptr()), c_int(_bytes(t)), c_void_p(native.BYTE), c_int(peer), c_int(tag)

    def send(self, tensors, peer, tag):
        return self._requests([("Isend", self._message(tensors[0], peer, tag))], tensors, tensors)

    def recv(self, tensors, peer, tag):
        return self._requests([("Irecv", self._message(tensors[0], peer, tag))], tensors, tensors)

    def recv_anysource(self, tensors, tag):
        return self.recv(tensors, native.ANY_SOURCE, tag)

    def _pairs(self, gives, takes, result):
        """gives, takes: a tensor for each rank, or None."""
        calls = [("Irecv", self._message(t, r, 1 << 14)) for r, t in enumerate(takes) if t is not None]
        calls += [("Isend", self._message(t, r, 1 << 14)) for r, t in enumerate(gives) if t is not None]
        return self._requests(calls, (gives, takes), result)

    def alltoall(self, outputs, inputs, opts=None):
        return self._pairs(inputs, outputs, outputs)

    def alltoall_base(self, output, input, output_sizes, input_sizes, opts=None):
        def split(t, sizes):
            if not sizes and t.shape[0] % self.size():
                raise ValueError(f"{t.shape[0]} rows for {self.size()} ranks, expected sizes for each rank")
            return list(torch.split(t, list(sizes) or [t.shape[0] // self.size()] * self.size()))
        _checked([output, input])
        return self._pairs(split(input, input_sizes), split(output, output_sizes), [output])
    all_to_all_single = alltoall_base

    def gather(self, outputs, inputs, opts=None):
        root = opts.rootRank
        takes = outputs[0] if self.rank() == root else [None] * self.size()
        gives = [inputs[0] if r == root else None for r in range(self.size())]
        return self._pairs(gives, takes, outputs)

    def scatter(self, outputs, inputs, opts=None):
        root = opts.rootRank
        gives = inputs[0] if self.rank() == root else [None] * self.size()
        takes = [outputs[0] if r == root else None for r in range(self.size())]
        return self._pairs(gives, takes, outputs)

    # ---- what torch.distributed asks of a group ----

    def getBackendName(self):
        return "paro"

    def _set_group_name(self, name):
        self._name = name

    def _set_group_desc(self, text):
        self._desc = text

    @property
    def group_name(self):
        return self._name

    @property
    def group_desc(self):
        return self._desc

    def shutdown(self):
        if self.cache is None:
            return

        def close(worker):
            worker.drain()
            for kind in list(self.cache.kinds):
                self.cache.free(kind)
            if worker.metered == self.cache.comm.value:
                worker.metered = None
            native.lib.paro_comm_close(self.cache.comm)
            native.call("Comm_free", byref(self.comm))
            return None, None, None
        self._put(close, None).wait()
        self.cache = None

    abort = shutdown


_LAUNCHERS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"), ("PMIX_RANK", None),
              ("SLURM_PROCID", "SLURM_LOCALID"))
_worker, _world = None, None


def _begin():
    """Starts MPI and the thread, and fills in the variables of torch's rendezvous."""
    global _worker, _world
    if not any(os.environ.get(name) for name, _ in _LAUNCHERS) and int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise native.Error("torchrun starts no MPI: type 'mpirun -np RANKS python3 SCRIPT', srun or paro-launch")
    _world = native.init()
    local = next((os.environ[name] for _, name in _LAUNCHERS if name and name in os.environ), "0")
    try:
        if _world[0] == 0:
            socket.getaddrinfo(os.environ.get("MASTER_ADDR") or socket.gethostname(), None)
    except OSError as e:
        raise native.Error(f"this host's name, '{socket.gethostname()}', has no address ({e}), expected one in "
                           "/etc/hosts or in MASTER_ADDR") from None
    with socket.socket() as s:
        s.bind(("", 0))
        address = native.bcast(f"{socket.gethostname()} {s.getsockname()[1]}").split()
    for name, value in (("RANK", _world[0]), ("WORLD_SIZE", _world[1]), ("LOCAL_RANK", local),
                        ("MASTER_ADDR", address[0]), ("MASTER_PORT", address[1])):
        os.environ.setdefault(name, str(value))
    _worker = _Worker()
    _worker.start()
    hook = sys.excepthook

    def failed(*args):
        _worker.failed = True
        hook(*args)
    sys.excepthook = failed
    atexit.register(_end)


def _end():
    if _worker.failed:  # MPI_Finalize would wait for the peers: the launcher ends them
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    _worker.put((lambda worker: (worker.drain(), (None, None, None))[1], torch.futures.Future(), None))
    _worker.put(None)
    _worker.join()
    if os.environ.get("PARO_STATS"):
        slow, fast, *bounds = _worker.traffic
        text = f"in {_worker.seconds:.3f} s with a collective in flight"
        if max(bounds) > 0:
            tier = "between groups" if bounds[0] >= bounds[1] else "inside groups"
            text += f", {max(bounds) / _worker.seconds:.3f} of the bound: the rate {tier} allows {max(bounds):.3f} s"
        print(f"paro: rank {_world[0]}: sent {slow} bytes to other groups, {fast} inside, {text}", file=sys.stderr)
    native.finalize()


def _create(options, _=None):
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    number = int.from_bytes(str(options.group_id).encode()[-4:], "little") % 30000
    return ProcessGroup(ranks, options.group_rank, options.timeout, number)


_begin()
try:
    dist.Backend.register_backend("paro", _create, extended_api=True, devices=["cpu"])
except TypeError:  # PyTorch 2.0
    dist.Backend.register_backend("paro", _create, extended_api=True)
