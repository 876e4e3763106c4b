# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of paro-train's runs share.

load refuses

# In setup_file: text, two plans and a run of four steps that has ended, in BATS_FILE_TMPDIR.
runs_begin() {
    cd "$BATS_FILE_TMPDIR" || return
    # 100 KB of text that every machine can make.
    seq 1 20000 > text
    plan one synth:1x1 --seq 32
    plan two synth:2x1 --seq 32 --strategy NGG --accum 2
    paro-train one.yaml -d text -o ended --steps 4 --save-every 2 > out
}

plan() { paro-plan -m "$MODELS/llama-tiny.json" -i "$2" "${@:3}" > "$1.yaml"; }

# What a resume must give again, bit by bit.
bits() { grep -oE '^\{"step":[0-9]+,"loss":[^,]*,"grad_norm":[^,]*,"lr":[^,]*,' "$1"; }
