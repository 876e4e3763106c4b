#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print the keys of a GGUF file as one JSON object."""
import json
import struct
import sys

FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
f = open(sys.argv[1], "rb")


def number(form):
    return struct.unpack("<" + form, f.read(struct.calcsize("<" + form)))[0]


def value(kind):
    if kind == 8:
        return f.read(number("Q")).decode()
    if kind == 9:
        item, count = number("I"), number("Q")
        return [value(item) for _ in range(count)]
    return number(FORMATS[kind])


assert f.read(4) == b"GGUF" and number("I") == 3
tensors, keys = number("Q"), number("Q")
out = {}
for _ in range(keys):
    key = value(8)
    assert key not in out
    out[key] = value(number("I"))
print(json.dumps(out))
