#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write tests/data/gguf.sha256: the GGUF files of small models, as Python's gguf package writes
them.

    pip install numpy gguf
    python3 tests/reference/dump_gguf.py bin/paro-shard > tests/data/gguf.sha256

The models have the weights of varied_weights.py.  Keys and names
are written out here once more, and rows of rotary pairs are put together by numpy.
tests/cmd/gguf.bats compares whole files.
"""
import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import gguf
import numpy as np

MODELS = ["tests/data/llama_biases", "tests/data/llama_llama3", "tests/data/gguf_yarn",
          "tests/data/gpt2_untied", "examples/models/llama-tiny", "examples/models/mistral-tiny",
          "examples/models/qwen2-tiny", "examples/models/qwen3-tiny", "examples/models/smollm3-tiny",
          "tests/data/phi3", "examples/models/phi3-tiny", "examples/models/gemma3-tiny",
          "examples/models/gpt2-tiny"]
TYPES = {"f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16,
         "bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0}
FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16,
              "bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
ARCH = {"llama": gguf.MODEL_ARCH.LLAMA, "mistral": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2,
        "qwen3": gguf.MODEL_ARCH.QWEN3, "smollm3": gguf.MODEL_ARCH.SMOLLM3, "phi3": gguf.MODEL_ARCH.PHI3,
        "gemma3_text": gguf.MODEL_ARCH.GEMMA3, "gpt2": gguf.MODEL_ARCH.GPT2}


def read_weights(path):
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        data = f.read()
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data, "<f4", (t["data_offsets"][1] - t["data_offsets"][0]) // 4,
                                t["data_offsets"][0]).reshape(t["shape"]) for name, t in header.items()}


def join_pairs(w, heads):
    """Rows i and i + half of each head become 2i and 2i + 1."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def llama3_factors(rope, theta, dim):
    out = []
    for i in range(dim // 2):
        turns = rope["original_max_position_embeddings"] * theta ** (-2 * i / dim) / (2 * math.pi)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        if turns < low:
            out.append(rope["factor"])
        elif turns > high:
            out.append(1)
        else:
            smooth = (turns - low) / (high - low)
            out.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(out, np.float32)


def write(folder, config, word, path):
    c = config
    heads = c.get("num_attention_heads", c.get("n_head"))
    kv = c.get("num_key_value_heads", heads)
    hidden = c.get("hidden_size", c.get("n_embd"))
    dim = c.get("head_dim", hidden // heads)
    layers = c.get("num_hidden_layers", c.get("n_layer"))
    arch = ARCH[c["model_type"]]
    context = c.get("max_position_embeddings", c.get("n_positions"))
    if c["model_type"] in ("mistral", "phi3"):
        context = min(context, c["sliding_window"] or context)
    w = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    w.add_type("model")
    w.add_file_type(FILE_TYPES[word])
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_vocab_size(c["vocab_size"])
    w.add_block_count(layers)
    w.add_context_length(context)
    w.add_embedding_length(hidden)
    w.add_feed_forward_length(c.get("intermediate_size", c.get("n_inner") or 4 * hidden))
    w.add_head_count(heads)
    w.add_head_count_kv(kv)
    w.add_key_length(dim)
    w.add_value_length(dim)
    factors = {}
    if arch == gguf.MODEL_ARCH.GPT2:
        w.add_layer_norm_eps(c["layer_norm_epsilon"])
    else:
        w.add_layer_norm_rms_eps(c["rms_norm_eps"])
        if arch in (gguf.MODEL_ARCH.PHI3, gguf.MODEL_ARCH.GEMMA3):
            w.add_sliding_window(c["sliding_window"] or 0)
        rope = c.get("rope_parameters") or c.get("rope_scaling") or {}
        theta = rope.get("rope_theta", c.get("rope_theta", 10000.0))
        kind = rope.get("rope_type", rope.get("type", "default"))
        w.add_rope_dimension_count(int(dim * rope.get("partial_rotary_factor", c.get("partial_rotary_factor", 1))))
        w.add_rope_freq_base(theta)
        if "rope_local_base_freq" in c:
            w.add_float32(gguf.Keys.Rope.FREQ_BASE_SWA.format(arch=gguf.MODEL_ARCH_NAMES[arch]),
                          c["rope_local_base_freq"])
        if kind == "linear":
            w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            w.add_rope_scaling_factor(rope["factor"])
        elif kind == "llama3":
            factors["rope_freqs"] = llama3_factors(rope, theta, dim)
        elif kind == "longrope":
            first = c["original_max_position_embeddings"]
            for length in ("short", "long"):
                factors[f"rope_factors_{length}"] = np.array(rope[f"{length}_factor"], np.float32)
            w.add_rope_scaling_orig_ctx_len(first)
            w.add_rope_scaling_attn_factors(
                math.sqrt(1 + math.log(c["max_position_embeddings"] / first) / math.log(first)))
        elif kind == "yarn":
            usual = 0.1 * math.log(rope["factor"]) + 1
            w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            w.add_rope_scaling_factor(rope["factor"])
            w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            w.add_rope_scaling_attn_factors(rope.get("attention_factor", usual) / usual)
        elif kind != "default":
            raise ValueError(kind)
    w.add_tokenizer_model("none")
    names = gguf.get_tensor_name_map(arch, layers)
    for name, x in factors.items():
        w.add_tensor(name + ".weight", x)
    for name, x in read_weights(f"{folder}/model.safetensors").items():
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if arch == gguf.MODEL_ARCH.GPT2 and ".h." in name and x.ndim == 2:
            x = x.T
        if arch in (gguf.MODEL_ARCH.LLAMA, gguf.MODEL_ARCH.SMOLLM3) and ("q_proj" in name or "k_proj" in name):
            x = join_pairs(x, heads if "q_proj" in name else kv)
        if arch == gguf.MODEL_ARCH.GEMMA3 and name.endswith("norm.weight"):
            x = x + 1
        kind = TYPES[word] if x.ndim == 2 and not new.startswith("position_embd") else TYPES["f32"]
        if kind == TYPES["q8_0"] and x.shape[1] % 32:
            kind = TYPES["f16"]
        w.add_tensor(new, gguf.quants.quantize(np.ascontiguousarray(x), kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


here = os.path.dirname(os.path.abspath(__file__))
with tempfile.TemporaryDirectory() as tmp:
    for model in MODELS:
        config = f"{here}/../../{model}.json"
        folder = f"{tmp}/{os.path.basename(model)}"
        subprocess.run([sys.argv[1], "init", "-m", config, "-o", folder], check=True)
        subprocess.run([sys.executable, f"{here}/varied_weights.py", folder], check=True)
        for word in TYPES:
            write(folder, json.load(open(config)), word, f"{tmp}/x.gguf")
            print(hashlib.sha256(open(f"{tmp}/x.gguf", "rb").read()).hexdigest(), f" {model}.{word}")
