#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps tiny models' losses, logits and gradients as Hugging Face computes them.

    python3 -m venv DIR && DIR/bin/pip install torch transformers peft safetensors numpy
    DIR/bin/python tests/reference/dump_net.py tests/data [NAME...]

writes NAME.{json,dump} of the MODELS below, or of those named, read by tests/unit/net_test.c and
net_family_test.c.  float32, eager attention, one thread.  The committed ones were made by torch 2.15.0,
transformers 5.24.0 (Llama's, GPT-2's and those with adapters: 5.23.0) and peft 0.21.2.

The .json is the model's config.json.  The .dump is text, then numbers (little endian):
    line 1    "paro-net-dump 1 BATCH SEQ COUNT"
    COUNT lines "NAME TYPE ELEMS", TYPE f32 or i32, in the order of the numbers
    an empty line, then the arrays, back to back
NAMEs: tokens, targets (i32, batch * seq; -100 is ignored), loss (one f32: the SUM of the
cross-entropies in nats), logits (batch * seq, vocab), a tensor's Hugging Face name for its
value, "grad:NAME" for d loss / d tensor; of adapters alone where there are any.
"""
import json
import sys

import numpy as np
import peft
import torch
import transformers

BATCH, SEQ = 2, 12
LLAMA = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             rms_norm_eps=1e-5, initializer_range=0.2)
# A layer is enough for what happens within one; of a head's four pairs each type of positions
# treats some in one way, some in the other, and some between.
LAYER = dict(LLAMA, tie_word_embeddings=True, head_dim=8, vocab_size=32, hidden_size=16,
             intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
             num_key_value_heads=1)
SMALL = dict(LLAMA, vocab_size=32, hidden_size=16, intermediate_size=24,
             rope_parameters=dict(rope_type="default", rope_theta=100.0))
# Of families whose defaults are tokens of a larger vocabulary.
NO_TOKENS = dict(bos_token_id=None, eos_token_id=None, pad_token_id=None)
GPT2 = dict(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=4,
            initializer_range=0.2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=0, eos_token_id=0)


def rope(kind="default", theta=100.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


# Name: seed, family, config, adapters (none: None).
MODELS = {
    "llama_tied": (0, "Llama", dict(LLAMA, tie_word_embeddings=True, head_dim=8,
                                    rope_parameters=rope(theta=10000.0)), None),
    # head_dim is not hidden / heads, and the positions turn faster
    "llama_untied": (1, "Llama", dict(LLAMA, tie_word_embeddings=False, head_dim=12,
                                      rope_parameters=rope(theta=500.0)), None),
    # errors have a dozen layers to grow in, and one key serves four queries
    "llama_deep": (2, "Llama", dict(
        LLAMA, tie_word_embeddings=False, head_dim=4, vocab_size=32, hidden_size=16,
        intermediate_size=24, num_hidden_layers=12, num_key_value_heads=1,
        rope_parameters=rope(theta=10000.0)), None),
    "llama_llama3": (3, "Llama", dict(LAYER, rope_parameters=rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32)), None),
    "llama_yarn": (4, "Llama", dict(LAYER, rope_parameters=rope(
        "yarn", factor=4.0, beta_fast=2.0, beta_slow=0.2,
        original_max_position_embeddings=16)), None),
    "llama_biases": (5, "Llama", dict(
        LAYER, attention_bias=True, mlp_bias=True,
        rope_parameters=rope("linear", factor=2.5)), None),
    "gpt2_tied": (0, "GPT2", GPT2, None),
    # the other GELU, a feed-forward that is not four times as wide, an eps that is seen
    "gpt2_untied": (1, "GPT2", dict(
        GPT2, tie_word_embeddings=False, activation_function="gelu", n_inner=24,
        layer_norm_epsilon=0.1), None),
    "qwen2": (0, "Qwen2", dict(SMALL, tie_word_embeddings=True), None),
    # the window is as long as the sequence
    "mistral": (1, "Mistral", dict(SMALL, tie_word_embeddings=False, head_dim=6,
                                   num_hidden_layers=1, sliding_window=SEQ), None),
    # heads that are wider than hidden / heads
    "qwen3": (2, "Qwen3", dict(SMALL, tie_word_embeddings=False, head_dim=10,
                               num_hidden_layers=1), None),
    # a layer without rotary positions, where no interval would put it
    "smollm3": (3, "SmolLM3", dict(SMALL, **NO_TOKENS, tie_word_embeddings=True,
                                   no_rope_layers=[0, 1]), None),
    # a part of each head turns, each pair at its own pace
    "phi3": (4, "Phi3", dict(
        SMALL, **NO_TOKENS, tie_word_embeddings=True, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, original_max_position_embeddings=32,
        rope_parameters=rope("longrope", partial_rotary_factor=0.75,
                             short_factor=[1.0, 1.5, 3.0], long_factor=[1.0, 2.0, 9.0])), None),
    # layers of both kinds, whose positions turn at other paces; the window is as long as the sequence
    "gemma3": (5, "Gemma3", dict(
        SMALL, **NO_TOKENS, tie_word_embeddings=True, head_dim=10, query_pre_attn_scalar=10,
        sliding_window=SEQ, layer_types=["sliding_attention", "full_attention"],
        rope_parameters=dict(full_attention=rope("linear", factor=2.5),
                             sliding_attention=rope(theta=10.0))), None),
    # on some lines
    "lora_llama": (0, "Llama", dict(
        vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, initializer_range=0.2,
        max_position_embeddings=16, tie_word_embeddings=True),
        dict(r=3, lora_alpha=5, target_modules=["q_proj", "v_proj", "down_proj"])),
    # on all lines, whose weights are stored the other way round
    "lora_gpt2": (1, "GPT2", dict(GPT2, vocab_size=32, n_head=2),
                  dict(r=2, lora_alpha=2, fan_in_fan_out=True,
                       target_modules=["c_attn", "c_proj", "c_fc"])),
}


def base_name(key):
    """As a folder names them: adapters with PEFT's prefix, all else as without adapters."""
    if ".lora_" in key:
        return key.replace(".default.", ".")
    return key.replace("base_model.model.", "", 1).replace(".base_layer.", ".")


def make_model(seed, family, spec, adapters):
    """The model, and its config.json as save_pretrained writes it, but for the version."""
    torch.manual_seed(seed)
    # of the text models alone
    config = getattr(transformers, family.replace("Gemma3", "Gemma3Text") + "Config")(**spec, attn_implementation="eager")
    kind = family + ("LMHeadModel" if family == "GPT2" else "ForCausalLM")
    model = getattr(transformers, kind)(config).float()
    shape = json.loads(model.config.to_json_string())
    shape["architectures"] = [kind]
    shape.pop("transformers_version", None)
    if family == "Llama" and "rms_norm_eps" in spec and config.rope_parameters["rope_type"] == "default":
        # as older versions wrote it
        shape = dict(spec, architectures=[kind], model_type="llama", hidden_act="silu",
                     torch_dtype="float32", rope_theta=spec["rope_parameters"]["rope_theta"])
        shape.pop("rope_parameters")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:  # all 1 or 0 would hide one that is left out
                p.copy_((0 if name.endswith("bias") else 1) + 0.3 * torch.randn_like(p))
        if adapters:
            model = peft.get_peft_model(model, peft.LoraConfig(lora_dropout=0.0, **adapters))
            for name, p in model.named_parameters():
                if ".lora_B" in name:  # it begins at 0
                    p.copy_(0.3 * torch.randn_like(p))
    return model, shape


def dump(folder, name, model, shape):
    vocab = model.config.vocab_size
    tokens = torch.randint(0, vocab, (BATCH, SEQ))
    targets = torch.randint(0, vocab, (BATCH, SEQ))
    targets[1, -3:] = -100
    logits = model(input_ids=tokens).logits
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, vocab), targets.reshape(-1), ignore_index=-100, reduction="sum")
    loss.backward()
    arrays = [("tokens", tokens.numpy().astype("<i4")),
              ("targets", targets.numpy().astype("<i4")),
              ("loss", loss.detach().numpy().reshape(1).astype("<f4")),
              ("logits", logits.detach().numpy().astype("<f4"))]
    for key, p in model.named_parameters():
        arrays.append((base_name(key), p.detach().numpy().astype("<f4")))
        if p.grad is not None:
            arrays.append(("grad:" + base_name(key), p.grad.numpy().astype("<f4")))
    with open(f"{folder}/{name}.json", "w") as f:
        json.dump(shape, f, indent=2, sort_keys=True)
        f.write("\n")
    with open(f"{folder}/{name}.dump", "wb") as f:
        f.write(f"paro-net-dump 1 {BATCH} {SEQ} {len(arrays)}\n".encode())
        for key, a in arrays:
            f.write(f"{key} {'i32' if a.dtype == np.int32 else 'f32'} {a.size}\n".encode())
        f.write(b"\n")
        for _, a in arrays:
            f.write(np.ascontiguousarray(a).tobytes())
    print(f"{name}: loss {loss.item():.6f}, {sum(a.nbytes for _, a in arrays)} bytes")


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: dump_net.py FOLDER [NAME...]")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in sys.argv[2:] or MODELS:
        dump(sys.argv[1], name, *make_model(*MODELS[name]))


main()
