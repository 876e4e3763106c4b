# SPDX-License-Identifier: BSD-3-Clause
"""Declares libparo (paro.h) and what is needed of the system's MPI, by ctypes.

All calls of MPI come from one thread at a time (MPI_THREAD_SERIALIZED).  ctypes releases the
interpreter while a call runs.
"""
import ctypes
import ctypes.util
import os
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p

ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, BROADCAST = 1, 2, 3, 4
F32, F64, F16, BF16, I32, U8, MPI = 1, 2, 3, 4, 5, 6, 7
SUM, MAX, MIN, AVG = 0, 1, 2, 3
SERIALIZED, ANY_SOURCE = 2, -1


class Error(RuntimeError):
    """A sentence of libparo's, or of MPI's."""


class paro_error(ctypes.Structure):
    _fields_ = [("code", c_int), ("text", c_char * 1020)]


class paro_options(ctypes.Structure):
    _fields_ = [("bytes", c_size_t), ("topology", c_char_p), ("groups", c_char_p),
                ("tuning", c_char_p), ("deadline_s", c_double), ("meter", c_char_p),
                ("meter_of", c_void_p)]


class paro_spec(ctypes.Structure):
    _fields_ = [("bytes", c_size_t), ("op", c_int), ("type", c_int), ("reduction", c_int),
                ("root", c_int), ("count", c_int64), ("counts", POINTER(c_int64)),
                ("algo", c_char_p), ("chunk_bytes", c_int64), ("mpi_type", c_void_p),
                ("mpi_op", c_void_p)]


class paro_description(ctypes.Structure):
    _fields_ = [("bytes", c_size_t), ("algo", c_char_p), ("groups", c_char_p),
                ("chunk_bytes", c_int64), ("in_bytes", c_int64), ("out_bytes", c_int64),
                ("slow_bytes", c_int64), ("fast_bytes", c_int64), ("memory_bytes", c_int64),
                ("slow_s", c_double), ("fast_s", c_double)]


def _open():
    """libparo.so, next to this file in a wheel, else the system's; and Open MPI's library."""
    tried = [os.environ.get("PARO_LIBRARY"), os.path.join(os.path.dirname(__file__), "libparo.so"),
             "libparo.so.0"]
    fault = None
    for name in filter(None, tried):
        try:
            lib = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            return lib, ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        except OSError as e:
            fault = fault if fault and "libparo" not in str(e) else e
    raise ImportError(f"{fault}; expected libparo.so.0 (make install, or PARO_LIBRARY=FILE) and Open MPI")


lib, mpi = _open()
lib.paro_comm_close.restype = None
lib.paro_comm_close.argtypes = [c_void_p]
lib.paro_comm_open.argtypes = [POINTER(c_void_p), c_void_p, POINTER(paro_options), POINTER(paro_error)]
lib.paro_prepare.argtypes = [c_void_p, POINTER(paro_spec), POINTER(c_void_p), POINTER(paro_error)]
lib.paro_free.restype = None
lib.paro_free.argtypes = [c_void_p]
lib.paro_start.argtypes = [c_void_p, c_void_p, c_void_p, POINTER(paro_error)]
lib.paro_test.argtypes = [c_void_p, POINTER(c_int), POINTER(paro_error)]
lib.paro_describe.argtypes = [c_void_p, POINTER(paro_description), POINTER(paro_error)]
lib.paro_wait_any.restype = None
lib.paro_wait_any.argtypes = [POINTER(c_void_p), c_int, c_double, POINTER(c_int)]

WORLD = ctypes.addressof(c_char.in_dll(mpi, "ompi_mpi_comm_world"))


def handle(name):
    """Open MPI's predefined object: "byte", "int64_t", "op_sum"."""
    return ctypes.addressof(c_char.in_dll(mpi, "ompi_mpi_" + name))


BYTE = handle("byte")


def call(name, *args):
    """MPI_name; integers are C's int, and pointers and handles are c_void_p."""
    rc = getattr(mpi, "MPI_" + name)(*args)
    if rc:
        text, size = ctypes.create_string_buffer(512), c_int()
        mpi.MPI_Error_string(rc, text, byref(size))
        raise Error(f"MPI_{name}: {text.value.decode(errors='replace')}")


_error = paro_error()  # of the one thread that calls


def paro(name, *args):
    """A function of libparo's whose last argument is the error."""
    if getattr(lib, "paro_" + name)(*args, byref(_error)):
        raise Error(_error.text.decode(errors="replace"))


def init():
    """Initialises MPI unless the program has; the rank and the number of ranks."""
    begun, provided, rank, ranks = c_int(), c_int(), c_int(), c_int()
    call("Initialized", byref(begun))
    if not begun.value:
        call("Init_thread", None, None, c_int(SERIALIZED), byref(provided))
    call("Query_thread", byref(provided))
    if provided.value < SERIALIZED:
        raise Error("MPI was initialised for one thread, expected MPI_THREAD_SERIALIZED or more")
    call("Comm_rank", c_void_p(WORLD), byref(rank))
    call("Comm_size", c_void_p(WORLD), byref(ranks))
    return rank.value, ranks.value


def finalize():
    ended = c_int()
    call("Finalized", byref(ended))
    if not ended.value:
        call("Finalize")


def bcast(text, size=256):
    """Rank 0's text on every rank of MPI_COMM_WORLD."""
    buffer = ctypes.create_string_buffer(text.encode(), size)
    call("Bcast", buffer, c_int(size), c_void_p(BYTE), c_int(0), c_void_p(WORLD))
    return buffer.value.decode()


def group_comm(ranks, tag):
    """COLLECTIVE over the ranks of MPI_COMM_WORLD that are listed: a communicator in this order."""
    world, some, comm = c_void_p(), c_void_p(), c_void_p()
    call("Comm_group", c_void_p(WORLD), byref(world))
    call("Group_incl", world, c_int(len(ranks)), (c_int * len(ranks))(*ranks), byref(some))
    call("Comm_create_group", c_void_p(WORLD), some, c_int(tag), byref(comm))
    call("Comm_set_errhandler", comm, c_void_p(handle("errors_return")))
    call("Group_free", byref(some))
    call("Group_free", byref(world))
    return comm
