# SPDX-License-Identifier: BSD-3-Clause
"""Writes wheels of the package paro, without other packages or a network.

    pip install ./lib/python               calls build_wheel (PEP 517): no library is inside
    python3 lib/python/make_wheel.py DIR   make wheel: with DIR/libparo.so, into DIR

Name, version and licence are those of the tree: its Makefile and LICENSE.
"""
import base64
import hashlib
import pathlib
import re
import sys
import sysconfig
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
METADATA = """Metadata-Version: 2.1
Name: paro
Version: {}
Summary: HO-Ring collectives of libparo, and a backend of torch.distributed
License: BSD-3-Clause
Requires-Python: >=3.9
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: paro\nRoot-Is-Purelib: {}\nTag: {}\n"


def write(folder, files, platform="any"):
    """Packs files, bytes by path, into a wheel, and returns its name."""
    version = re.search(r"^VERSION *:= *(\S+)", (TREE / "Makefile").read_text(), re.M)[1]
    tag, info = f"py3-none-{platform}", f"paro-{version}.dist-info/"
    files[info + "LICENSE"] = (TREE / "LICENSE").read_bytes()
    files[info + "METADATA"] = METADATA.format(version).encode()
    files[info + "WHEEL"] = WHEEL.format(str(platform == "any").lower(), tag).encode()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        record += f"{name},sha256={digest},{len(data)}\n"
    files[info + "RECORD"] = f"{record}{info}RECORD,,\n".encode()
    wheel = f"paro-{version}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(folder, wheel), "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)  # of a fixed date: the same files give the same bytes
            entry.external_attr = 0o100644 << 16
            z.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel


def sources():
    return {"paro/" + f.name: f.read_bytes() for f in sorted(HERE.glob("paro/*.py"))}


def build_wheel(folder, config_settings=None, metadata_directory=None):
    return write(folder, sources())


def build_editable(folder, config_settings=None, metadata_directory=None):
    return write(folder, {"paro.pth": f"{HERE}\n".encode()})


if __name__ == "__main__":
    library = {"paro/libparo.so": pathlib.Path(sys.argv[1], "libparo.so").read_bytes()}
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    print(pathlib.Path(sys.argv[1], write(sys.argv[1], {**sources(), **library}, platform)))
