# SPDX-License-Identifier: BSD-3-Clause
"""generate.py FOLDER TEXT LENGTH: what transformers goes on with, greedily, bytes as tokens.

`paro-train --generate TEXT --init FOLDER --length LENGTH` gives the same text.
"""
import sys

import torch
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
folder, text, length = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
ids = torch.tensor([list(text.encode())])
out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                     max_new_tokens=int(length), eos_token_id=None, pad_token_id=0)
sys.stdout.buffer.write(bytes(out[0].tolist()) + b"\n")
