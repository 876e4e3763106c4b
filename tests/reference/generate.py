# SPDX-License-Identifier: BSD-3-Clause
"""generate.py FOLDER TEXT LENGTH: the tokens that transformers goes on with, greedily, as JSON.

Bytes are the tokens of TEXT.  `paro-train --generate TEXT --init FOLDER --length LENGTH --json`
has the same under "tokens".  generate.py --make CONFIG SEED FOLDER: a folder of fresh weights as
transformers makes and writes them, wide enough apart that no two logits are alike.
"""
import json
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

torch.set_num_threads(2)
if sys.argv[1] == "--make":
    torch.manual_seed(int(sys.argv[3]))
    config = AutoConfig.from_pretrained(sys.argv[2], initializer_range=0.2)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(sys.argv[4])
    sys.exit()
folder, text, length = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
ids = torch.tensor([list(text.encode())])
out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                     max_new_tokens=int(length), eos_token_id=None, pad_token_id=0)
json.dump(out[0, ids.shape[1]:].tolist(), sys.stdout)
print()
