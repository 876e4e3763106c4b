#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads the events of paro-train --tensorboard with TensorBoard itself.

    python3 -m venv DIR && DIR/bin/pip install tensorboard
    PATH=$PWD/bin:$PATH DIR/bin/python tests/reference/check_events.py

A run is resumed from a step before its last one: TensorBoard must show each step once, as the
log of the run has it.  To be run by hand after a change to the files of events.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLAN = ["paro-plan", "-m", f"{ROOT}/examples/models/llama-tiny.json", "-i", "synth:1x1", "--seq", "32"]
TRAIN = ["paro-train", "plan.yaml", "-d", "plan.yaml", "-o", "run", "--tensorboard", "events"]

with tempfile.TemporaryDirectory() as home:
    os.chdir(home)
    with open("plan.yaml", "w") as f:
        subprocess.run(PLAN, stdout=f, stderr=subprocess.DEVNULL, check=True)
    for more in (["--steps", "6", "--save-every", "2"],
                 ["--steps", "8", "--resume=run/step-00000004", "--eval-every", "3", "--new-data"]):
        subprocess.run(TRAIN + more, stdout=subprocess.DEVNULL, check=True)
        time.sleep(1.1)
    want = {}
    with open("run/log.jsonl") as f:
        for line in f:
            entry = json.loads(line)
            step = entry.pop("step")
            for key, value in entry.items():
                want.setdefault(key, []).append((step, float(numpy.float32(value))))
    board = EventAccumulator("events").Reload()
    got = {tag.split("/")[1]: [(e.step, e.value) for e in board.Scalars(tag)]
           for tag in board.Tags()["scalars"]}
    for key in sorted(want.keys() | got.keys()):
        if want.get(key) != got.get(key):
            sys.exit(f"{key}: TensorBoard has {got.get(key)}, expected {want.get(key)}")
    print(f"{len(got)} tags of {len(want['loss'])} steps agree")
