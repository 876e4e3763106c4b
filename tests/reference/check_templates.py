#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares chat templates of Hugging Face models with paro's, and prints rows of their table.

    python3 -m venv DIR && DIR/bin/pip install jinja2
    PATH=$PWD/bin:$PATH DIR/bin/python tests/reference/check_templates.py FILE.jinja...

A template is rendered by Jinja, as transformers does it, for conversations with system messages,
answers yet to come and results of tools.  Where one of paro's templates gives the same text for
all that neither rejects, a line is printed for `known` in lib/data/data_chat.c.  To be run by hand.
"""
import array
import json
import os
import re
import subprocess
import sys
import tempfile

import jinja2.sandbox

NAMES = {"chatml": "", "qwen2.5": "", "smollm2": "", "llama3": "<|begin_of_text|>", "phi3": "",
         "gemma": "<bos>", "mistral": "<s>"}
SPECIAL = ("<|im_start|> <|im_end|> <|begin_of_text|> <|start_header_id|> <|end_header_id|> "
           "<|eot_id|> <|system|> <|user|> <|assistant|> <|end|> <bos> <start_of_turn> "
           "<end_of_turn> <s> </s> [INST] [/INST]").split()
USER, ANSWER = {"role": "user", "content": " Hi\n"}, {"role": "assistant", "content": " Yo \n"}
SYSTEM, TOOL = {"role": "system", "content": " Be kind. "}, {"role": "tool", "content": "4"}
MARK = {"role": "assistant", "content": "MARK"}  # an answer yet to come
TALKS = [[USER, ANSWER, USER, ANSWER], [USER, MARK], [USER, ANSWER, USER, MARK],
         [SYSTEM, USER, ANSWER, USER, MARK], [USER, ANSWER, TOOL, TOOL, ANSWER, USER, MARK]]


def write_tokenizer(folder):
    codes = [b for b in range(256) if 32 < b < 127 or 160 < b != 173]
    other = iter(range(256, 512))
    vocab = {chr(b if b in codes else next(other)): b for b in range(256)}
    added = [{"id": 256 + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, s in enumerate(SPECIAL)]
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump({"added_tokens": added, "normalizer": None, "post_processor": None,
                   "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
                                     "trim_offsets": True, "use_regex": True},
                   "decoder": {"type": "ByteLevel"},
                   "model": {"type": "BPE", "vocab": vocab, "merges": []}}, f)


def paro(folder, name, talk):
    """The text of a conversation up to the mark; None: rejected."""
    write = os.path.join(folder, "talk.jsonl")
    out = os.path.join(folder, "out.bin")
    with open(write, "w") as f:
        json.dump({"messages": talk}, f)
    if subprocess.run(["paro-train", "--tokenize", out, "--force", "-d", write, "--tokenizer",
                       folder, "--chat-template", name], stderr=subprocess.DEVNULL).returncode:
        return None
    with open(out, "rb") as f:
        ids = array.array("H", f.read())
    text = b"".join(bytes([i]) if i < 256 else SPECIAL[i - 256].encode() for i in ids).decode()
    return text.split("MARK")[0].rstrip(" ") if talk[-1] is MARK else text


def fail(message):
    raise jinja2.exceptions.TemplateError(message)


def render(text, name, talk):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.globals["raise_exception"] = fail
    opened = talk[-1] is MARK
    try:  # Phi-3's end of a text is not the end of an answer
        got = env.from_string(text).render(
            messages=talk[:-1] if opened else talk, add_generation_prompt=opened,
            bos_token=NAMES[name] or "(begin)", eos_token="</s>" if name == "mistral" else "")
    except (jinja2.exceptions.TemplateError, TypeError):
        return None
    if name == "phi3":  # its tokens drop the spaces that follow
        got = re.sub(r"(<\|(?:system|user|assistant|end)\|>)\s+", r"\1", got)
    return got


def hash_of(text):
    """As in lib/data/data_chat.c."""
    text = re.sub(r"\n\Z", "", text.replace("\r\n", "\n")).replace("\\n", "\n")
    h = 0xcbf29ce484222325
    for b in text.encode():
        h = (h ^ b) * 0x100000001b3 % 2**64
    return h


def main():
    with tempfile.TemporaryDirectory() as folder:
        write_tokenizer(folder)
        want = {name: [paro(folder, name, t) for t in TALKS] for name in NAMES}
    rows = {}
    for path in sys.argv[1:]:
        with open(path, newline="") as f:
            text = f.read()
        for name in NAMES:
            got = [render(text, name, t) for t in TALKS]
            same = [g is None or w is None or g == w for g, w in zip(got, want[name])]
            if all(same) and None not in got[:2]:
                rows.setdefault((name, hash_of(text)), path)
                break
    for (name, h), path in sorted(rows.items(), key=lambda r: list(NAMES).index(r[0][0])):
        print(f'    {{0x{h:016x}, "{name}"}}, /* {os.path.basename(path)} */')


main()
