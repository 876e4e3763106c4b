#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Loads what paro-shard writes with transformers and PEFT, and what they write with paro-shard.

    python3 -m venv DIR && DIR/bin/pip install torch transformers peft safetensors
    PATH=$PWD/bin:$PATH DIR/bin/python tests/reference/check_folders.py [NAME...]

NAME of examples/models, some of them unless given (gpt2-124m takes 3 GB of disk).  To be run by
hand after a change to the reading or writing of folders; prints a line a check.  What loads must
have every tensor from the file and none besides.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

import torch
import transformers
from huggingface_hub import split_torch_state_dict_into_shards
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIASES = dict(attention_bias=True, mlp_bias=True, hidden_size=64, num_attention_heads=4,
              num_key_value_heads=2, intermediate_size=48, num_hidden_layers=2,
              rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                high_freq_factor=4.0, original_max_position_embeddings=64))
TARGETS = {"gpt2": "c_attn+mlp.c_proj", "phi3": "qkv_proj+gate_up_proj"}


def paro(*args):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True).stdout


def plan(config, *more):
    text = paro("paro-plan", "-m", config, "-i", "synth:[2,1]", *more)
    with open("plan.yaml", "w") as f:
        f.write(text)
    return "plan.yaml"


def load(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    wrong = {k: v for k, v in info.items() if v}
    assert not wrong, f"{folder}: {wrong}"
    return model.eval()


def same(a, b):
    a, b = dict(a), dict(b)
    assert a.keys() == b.keys(), a.keys() ^ b.keys()
    for k in a:
        assert torch.equal(a[k], b[k]), k


def check_base(name, config):
    """init -> transformers -> save_pretrained -> split -> merge: the same bytes and values."""
    paro("paro-shard", "init", "-m", config, "-o", "made", "--force")
    model = load("made")
    shutil.rmtree("saved", ignore_errors=True)
    model.save_pretrained("saved")
    paro("paro-shard", "verify", "saved")
    paro("paro-shard", "split", "saved", "-p", plan(config), "-o", "ckpt", "--force")
    paro("paro-shard", "merge", "ckpt", "-o", "back", "--force")
    assert subprocess.run(["diff", "-r", "saved", "back"]).returncode == 0
    same(load("back").state_dict(), model.state_dict())
    print(f"{name}: init loads, what transformers saves comes back byte for byte")
    return model


def check_bare(name, config, model):
    """As on the hub: no prefix, masks, the head once more."""
    tensors = load_file("made/model.safetensors")
    tensors = {k.removeprefix("transformer."): v for k, v in tensors.items()}
    for i in range(model.config.n_layer):
        tensors[f"h.{i}.attn.bias"] = torch.ones(1, 1, 8, 8).tril()
        tensors[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    shutil.rmtree("bare", ignore_errors=True)
    os.mkdir("bare")
    shutil.copy(config, "bare/config.json")
    save_file(tensors, "bare/model.safetensors", metadata={"format": "pt"})
    paro("paro-shard", "split", "bare", "-p", plan(config), "-o", "ckpt", "--force")
    paro("paro-shard", "merge", "ckpt", "-o", "back", "--force")
    assert subprocess.run(["diff", "-r", "bare", "back"]).returncode == 0
    assert paro("paro-shard", "diff", "ckpt", "made") == ""
    print(f"{name}: a bare file with masks and a second head comes back byte for byte")


def check_adapters(name, config, model):
    """First values and random ones: PEFT loads them, and adds them in as --fuse does."""
    targets = TARGETS.get(model.config.model_type, "q_proj+up_proj")
    lora = f"lora=4,alpha=6,targets={targets}"
    paro("paro-shard", "split", "made", "-p", plan(config, "--trainable", lora), "-o", "ckpt",
         "--force")
    paro("paro-shard", "merge", "ckpt", "-o", "adapter", "--force")
    tensors = load_file("adapter/adapter_model.safetensors")
    torch.manual_seed(3)
    for k in sorted(tensors):
        tensors[k] = 0.1 * torch.randn_like(tensors[k])
    save_file(tensors, "adapter/adapter_model.safetensors", metadata={"format": "pt"})
    paro("paro-shard", "split", "made", "-p", "plan.yaml", "--adapter", "adapter", "-o", "ckpt",
         "--force")
    paro("paro-shard", "merge", "ckpt", "-o", "again", "--force")
    paro("paro-shard", "merge", "ckpt", "--fuse", "-o", "fused", "--force")
    theirs = PeftModel.from_pretrained(load("made"), "again")
    loaded = {k.replace(".default", ""): v for k, v in theirs.state_dict().items()
              if "lora_" in k}
    same(loaded, tensors)
    fused, ours = theirs.merge_and_unload().state_dict(), load("fused").state_dict()
    assert fused.keys() == ours.keys()
    for k in fused:
        assert torch.allclose(fused[k], ours[k], rtol=1e-6, atol=1e-7), k
    print(f"{name}: PEFT loads the adapters ({len(tensors)} tensors), and fuses alike")


def check_shards(name, config, model):
    """Several files: transformers loads ours, we give back theirs, and both cut alike."""
    paro("paro-shard", "split", "made", "-p", plan(config), "-o", "ckpt", "--force")
    tensors = load_file("made/model.safetensors")
    with open("made/model.safetensors", "rb") as f:  # load_file sorts by name
        order = json.loads(f.read(int.from_bytes(f.read(8), "little")))
    order.pop("__metadata__")
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    largest = max(t.numel() * t.element_size() for t in tensors.values())
    for most in largest // 2, largest, largest * 3 // 2, total // 2, total:
        paro("paro-shard", "merge", "ckpt", "--max-shard", str(most), "-o", "ours", "--force")
        want = split_torch_state_dict_into_shards({k: tensors[k] for k in order},
                                                  max_shard_size=most)
        if want.is_sharded:
            index = json.load(open("ours/model.safetensors.index.json"))
            assert index["weight_map"] == want.tensor_to_filename, most
            assert index["metadata"]["total_size"] == want.metadata["total_size"]
        else:
            assert sorted(os.listdir("ours")) == ["config.json", "model.safetensors"]
        same(load("ours").state_dict(), model.state_dict())
    shutil.rmtree("saved", ignore_errors=True)
    model.save_pretrained("saved", max_shard_size=largest)
    paro("paro-shard", "split", "saved", "-p", "plan.yaml", "-o", "ckpt", "--force")
    assert paro("paro-shard", "diff", "saved", "made") == ""
    assert paro("paro-shard", "diff", "ckpt", "saved") == ""
    paro("paro-shard", "merge", "ckpt", "-o", "back", "--force")
    assert subprocess.run(["diff", "-r", "saved", "back"]).returncode == 0
    print(f"{name}: cut as transformers cuts it at five sizes, loads, and theirs comes back")


def check_types(name, config, model):
    """Each type, as torch rounds it; the config says which, so that nothing is cast back."""
    paro("paro-shard", "split", "made", "-p", plan(config), "-o", "ckpt", "--force")
    for word, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16),
                        ("f64", torch.float64), ("f32", torch.float32)):
        paro("paro-shard", "merge", "ckpt", "--type", word, "--max-shard", "1MB", "-o", "ours",
             "--force")
        got = AutoModelForCausalLM.from_pretrained("ours", torch_dtype="auto")
        assert got.dtype == dtype, (got.dtype, dtype)
        same(got.state_dict(), model.to(dtype).state_dict())
        model = load("made")
    print(f"{name}: bf16, f16, f64 and f32 are as torch rounds them")


def main():
    os.chdir(tempfile.mkdtemp(prefix="paro-folders-"))
    biases = json.load(open(f"{ROOT}/examples/models/llama-tiny.json"))
    json.dump({**biases, **BIASES}, open("llama-biases.json", "w"))
    paths = [f"{ROOT}/examples/models/{m}.json"
             for m in sys.argv[1:] or ("llama-tiny", "mistral-tiny", "qwen2-tiny", "qwen3-tiny",
                                       "smollm3-tiny", "phi3-tiny", "gemma3-tiny", "gpt2-tiny", "stories-15m")]
    for path in paths + ["llama-biases.json"]:
        name = os.path.basename(path)[:-5]
        model = check_base(name, path)
        if model.config.model_type == "gpt2":
            check_bare(name, path, model)
        check_adapters(name, path, model)
        check_shards(name, path, model)
        check_types(name, path, model)
    shutil.rmtree(os.getcwd())


main()
