#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints what torch.save writes of a tensor of whole numbers, without PyTorch.

    torch_step.py LongStorage|IntStorage|ShortStorage COUNT VALUE
    torch_step.py float
"""
import io
import pickle
import struct
import sys
import zipfile

WIDTH = {"LongStorage": "q", "IntStorage": "i", "ShortStorage": "h"}


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def tensor(storage, count):
    """_rebuild_tensor_v2(storage, 0, (count,), (1,), False, OrderedDict())"""
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage")
            + b"ctorch\n" + storage.encode() + b"\n" + text("0") + text("cpu")
            + b"K" + bytes([count]) + b"tQK\0K" + bytes([count]) + b"\x85K\1\x85\x89"
            + b"ccollections\nOrderedDict\n)RtR.")


def main():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
        if sys.argv[1] == "float":
            z.writestr("step/data.pkl", pickle.dumps(2.0, 2))
        else:
            count = int(sys.argv[2])
            z.writestr("step/data.pkl", tensor(sys.argv[1], count))
            z.writestr("step/data/0", struct.pack(f"<{count}" + WIDTH[sys.argv[1]],
                                                  *[int(sys.argv[3])] * count))
    data = out.getvalue()
    # PyTorch writes the end of an archive in 64 bits, even of a small one.
    end = data.rindex(b"PK\5\6")
    records, = struct.unpack_from("<H", data, end + 10)
    size, at = struct.unpack_from("<II", data, end + 12)
    wide = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, records, records, size, at)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
    sys.stdout.buffer.write(data[:end] + wide + locator + data[end:])


main()
