# SPDX-License-Identifier: BSD-3-Clause
"""Prints the events of TensorBoard files, one line each: step, tag and value, or what else it is.

Decodes TFRecords and protobuf by their definitions alone.
"""
import struct
import sys

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ 0x82F63B78 * (byte & 1)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # the check value in catalogues of CRCs


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def records(data):
    while data:
        length, crc = data[:8], data[8:12]
        (n,) = struct.unpack("<Q", length)
        assert masked(length) == crc and len(data) >= 16 + n
        yield data[12:12 + n]
        assert masked(data[12:12 + n]) == data[12 + n:16 + n]
        data = data[16 + n:]


def varint(data):
    value = shift = at = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, data[at:]


def fields(data):
    while data:
        key, data = varint(data)
        if key & 7 == 0:
            value, data = varint(data)
        else:
            n = {1: 8, 5: 4}.get(key & 7)
            if n is None:
                assert key & 7 == 2
                n, data = varint(data)
            assert len(data) >= n
            value, data = data[:n], data[n:]
        yield key >> 3, value


for name in sys.argv[1:]:
    with open(name, "rb") as f:
        for record in records(f.read()):
            event = dict(fields(record))
            assert 1.6e9 < struct.unpack("<d", event[1])[0] < 1e10
            step = event.get(2, 0)
            if 3 in event:
                print("version", event[3].decode())
            if 7 in event:
                print(step, "session", dict(fields(event[7]))[1])
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                print(step, value[1].decode(), "%.9g" % struct.unpack("<f", value[2])[0])
