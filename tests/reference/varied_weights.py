#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fill a folder's f32 model.safetensors with values that differ in every element.

    python3 tests/reference/varied_weights.py FOLDER...

The first values of norms are all 1 and those of biases all 0, so a mistake in their order or
their names would not show.  Needs no packages: tests run it.
"""
import array
import json
import struct
import sys
import zlib


def values(name, count):
    """From -1 to 1, by the tensor's name and the element's number."""
    start = zlib.crc32(name.encode())
    return array.array("f", (((start + 2654435761 * i) & 0xFFFFFFFF) / 2**31 - 1 for i in range(count)))


for folder in sys.argv[1:]:
    with open(f"{folder}/model.safetensors", "r+b") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        for name, t in json.loads(f.read(size)).items():
            if name != "__metadata__":
                first, last = t["data_offsets"]
                f.seek(8 + size + first)
                values(name, (last - first) // 4).tofile(f)
