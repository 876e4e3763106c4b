#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/shards_llama-tiny.txt: into which files huggingface_hub, and so transformers,
cuts the tensors of llama-tiny at three sizes, lines of SIZE TENSOR FILE in the order of names.

    PATH=$PWD/bin:$PATH DIR/bin/python tests/reference/dump_shards.py

from the root of the repository, with huggingface_hub, safetensors and torch (check_folders.py does
the same comparison for more models, and loads what comes out).
"""
import json
import subprocess
import tempfile

from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import load_file

SIZES = (100000, 300000, 1048576)  # the largest tensors have 176128 bytes

with tempfile.TemporaryDirectory() as folder:
    subprocess.run(["paro-shard", "init", "-m", "examples/models/llama-tiny.json", "-o",
                    f"{folder}/m"], check=True)
    path = f"{folder}/m/model.safetensors"
    tensors = load_file(path)
    with open(path, "rb") as f:  # load_file sorts by name
        order = json.loads(f.read(int.from_bytes(f.read(8), "little")))
order.pop("__metadata__")
with open("tests/data/shards_llama-tiny.txt", "w") as out:
    for size in SIZES:
        cut = split_torch_state_dict_into_shards({k: tensors[k] for k in order},
                                                 max_shard_size=size)
        for name in sorted(order):
            print(size, name, cut.tensor_to_filename[name], file=out)
