# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/safetensors: good files by the Python safetensors library (with torch and
numpy), and broken ones by hand.  Run once, from the root of the repository; the files are
committed.  Each broken NAME.safetensors stands beside NAME.txt, the message expected of it, with
@ for the file's path: that one is written by hand, after reading what the program says."""
import json
import pathlib
import struct

import numpy
import safetensors.numpy
import safetensors.torch
import torch

ROOT = pathlib.Path("tests/data/safetensors")
BROKEN = ROOT / "broken"


def good():
    safetensors.torch.save_file(
        {
            "f32": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4,
            "bf16": torch.tensor([1.0, -2.5, 3.0], dtype=torch.bfloat16),
            "f16": torch.tensor([0.5, 65504.0], dtype=torch.float16),
            "f64": torch.tensor(1e300, dtype=torch.float64),
            "i64": torch.tensor([[2**53 + 1]], dtype=torch.int64),
            "u8": torch.arange(5, dtype=torch.uint8),
            "bool": torch.tensor([True, False, True]),
            "none": torch.zeros((0, 4)),
        },
        ROOT / "torch.safetensors",
        metadata={"format": "pt", "Grüße": "ja, \"und\"\n"},
    )
    safetensors.numpy.save_file(
        {f"t{i}": numpy.full((i, 2), i, dtype=numpy.float32) for i in range(1, 8)},
        ROOT / "numpy.safetensors",
    )
    safetensors.torch.save_file({}, ROOT / "nothing.safetensors")


def put(name, header, data=b"", size=None):
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    size = len(header) if size is None else size
    (BROKEN / f"{name}.safetensors").write_bytes(struct.pack("<Q", size) + header + data)


def tensor(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


def without(key):
    return {k: v for k, v in tensor().items() if k != key}


def broken():
    d8 = bytes(8)
    (BROKEN / "empty.safetensors").write_bytes(b"")
    (BROKEN / "short.safetensors").write_bytes(b"\x02\0\0")
    put("header-beyond-file", {"a": tensor()}, b"", 4000)
    put("header-size-huge", b"{}", b"", 2**64 - 1)
    put("header-size-signed", b"{}", b"", 2**63)
    put("header-size-zero", b"", b"", 0)
    put("header-list", b"[1, 2]")
    put("header-space-first", b"  {}")
    put("json-cut", b'{"a":{"dtype":"F32"', d8)
    put("json-junk-behind", b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}x', d8)
    put("json-comma", b'{"a":{"dtype":"F32",,"shape":[2],"data_offsets":[0,8]}}', d8)
    put("json-deep", b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}")
    put("json-nul", b'{"a\\u0000b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', d8)
    one = b'"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
    put("tensor-twice", b"{" + one + b"," + one + b"}", d8)
    put("key-twice", b'{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', d8)
    put("tensor-number", {"a": 3}, d8)
    put("tensor-more-keys", {"a": tensor(stride=1)}, d8)
    put("dtype-missing", {"a": without("dtype")}, d8)
    put("dtype-unknown", {"a": tensor("F33")}, d8)
    put("dtype-number", {"a": tensor(32)}, d8)
    put("dtype-small", {"a": tensor("F4", (16,))}, d8)
    put("shape-missing", {"a": without("shape")}, d8)
    put("shape-negative", {"a": tensor(shape=(-2, -1))}, d8)
    put("shape-fraction", {"a": tensor(shape=(2.0,))}, d8)
    put("shape-overflow", {"a": tensor(shape=(2**32, 2**32))}, d8)
    put("shape-bytes-overflow", {"a": tensor(shape=(2**62, 1))}, d8)
    put("shape-beyond-int64", b'{"a":{"dtype":"F32","shape":[18446744073709551618],'
        b'"data_offsets":[0,8]}}', d8)
    put("shape-17-dimensions", {"a": tensor(shape=(1,) * 17, offsets=(0, 4))}, bytes(4))
    put("offsets-missing", {"a": without("data_offsets")}, d8)
    put("offsets-three", {"a": tensor(offsets=(0, 8, 8))}, d8)
    put("offsets-negative", {"a": tensor(offsets=(-8, 0))}, d8)
    put("offsets-reversed", {"a": tensor(offsets=(8, 0))}, d8)
    put("offsets-bool", {"a": tensor(offsets=(False, 8))}, d8)
    put("offsets-beyond", {"a": tensor(offsets=(0, 8))}, bytes(7))
    put("size-wrong", {"a": tensor(shape=(3,))}, d8)
    put("hole-first", {"a": tensor(offsets=(4, 12))}, bytes(12))
    put("hole", {"a": tensor(), "b": tensor(offsets=(12, 20))}, bytes(20))
    put("overlap", {"a": tensor(), "b": tensor(offsets=(4, 12))}, bytes(12))
    put("data-behind", {"a": tensor()}, bytes(9))
    last = 2**63 - 1
    put("offsets-2-63", {"a": tensor(offsets=(last - 7, last + 1))}, d8)
    put("offsets-2-64", {"a": tensor(offsets=(2**64 - 8, 2**64))}, d8)
    put("offsets-wrap", {"a": tensor(offsets=(last - 8, last))}, d8)
    put("shape-wrap-to-fit", {"a": tensor("U8", (2**32, 2**31, 2, 2))}, d8)
    put("shape-minus-zero", b'{"a":{"dtype":"F32","shape":[-0,2],"data_offsets":[0,0]}}')
    put("shape-leading-zero", b'{"a":{"dtype":"F32","shape":[02],"data_offsets":[0,8]}}', d8)
    put("shape-exponent", b'{"a":{"dtype":"F32","shape":[2e0],"data_offsets":[0,8]}}', d8)
    put("shape-deep", b'{"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}}', d8)
    put("dtype-deep", b'{"a":{"dtype":{"F":"32"},"shape":[2],"data_offsets":[0,8]}}', d8)
    put("metadata-deep", b'{"__metadata__":{"a":' + b'{"a":' * 3000 + b"}" * 3001 + b"}")
    put("metadata-twice", b'{"__metadata__":{},"__metadata__":{}}')
    put("metadata-key-twice", b'{"__metadata__":{"a":"1","b":"2","a":"3"}}')
    put("tensor-twice-empty", b'{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},'
        b'"\\u0061":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}')
    put("json-surrogate", b'{"a\\ud800b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', d8)
    put("json-comma-last", b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],}}', d8)
    put("name-escape", {"a\x1b[2J": tensor()}, d8)
    put("name-second-controls", {"a\x9b2J": tensor()}, d8)
    put("name-empty", {"": tensor()}, d8)
    put("name-control", {"a\nb": tensor()}, d8)
    put("name-no-utf8", b'{"a\xff":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', d8)
    put("name-long", {"n" * 5000: tensor()}, d8)
    put("metadata-list", {"__metadata__": ["pt"], "a": tensor()}, d8)
    put("metadata-number", {"__metadata__": {"step": 3}, "a": tensor()}, d8)


if __name__ == "__main__":
    BROKEN.mkdir(parents=True, exist_ok=True)
    good()
    broken()
