#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# From a base model to an adapter: train a small base on one text, train low-rank adapters on
# another, and generate text with both.  All files stay in DIR (default: finetune).
#
#   sh examples/finetune.sh [DIR]    RANKS=2  STEPS=150  BASE=folder  TEXT=text.txt
#
# On a cluster, replace mpirun by srun and synth:... by the network that paro-topo measured.
set -eu

RANKS=${RANKS:-2}
STEPS=${STEPS:-150}
BASE=${BASE:-}
TEXT=${TEXT:-}
here=$(cd "$(dirname "$0")" && pwd)
MODEL=$here/models/llama-tiny.json
PATH=${BIN:-$here/../bin}:$PATH
# shellcheck source=examples/mpirun-env
. "$here/mpirun-env"
# shellcheck source=examples/own-folder
. "$here/own-folder"

[ -z "$BASE" ] || BASE=$(realpath "$BASE")
[ -z "$TEXT" ] || TEXT=$(realpath "$TEXT")
empty_folder "${1:-finetune}"

ranks() { mpirun -np "$RANKS" "$@"; }
heading() { printf '\n== %s\n' "$*"; }

if [ -z "$BASE" ]; then
	heading "Train the base: all parameters, on the licence texts of this machine"
	cat /usr/share/common-licenses/* > base.txt
	paro-plan -m "$MODEL" -i "synth:${RANKS}x1" --seq 64 --micro-batch 8 > base.yaml
	ranks paro-train base.yaml -d base.txt -o base.run --steps "$STEPS" --warmup 20 --lr 2e-3 | tail -n 1
	paro-shard merge base.run/latest -o base
	BASE=$PWD/base
fi
if [ -z "$TEXT" ]; then
	seq 400 | sed 's/.*/the cat sat on the mat./' | tr '\n' ' ' > cat.txt
	TEXT=$PWD/cat.txt
fi

heading "Train adapters of rank 8: the plan lists what is trained"
paro-plan -m "$BASE/config.json" -i "synth:${RANKS}x1" --seq 64 --micro-batch 8 \
	--trainable lora=8,alpha=16 > lora.yaml
sed -n 's/^\(strategy\|trainable\): /  \1 /p' lora.yaml
paro-shard split "$BASE" -p lora.yaml -o start
ranks paro-train lora.yaml -d "$TEXT" --init start -o lora.run --steps "$STEPS" --warmup 10 --lr 5e-3 \
	--eval-every "$STEPS" | tail -n 1

heading "Merge: a folder that PEFT loads with the base, and one with the adapters in the weights"
paro-shard merge lora.run/latest -o adapter
paro-shard merge lora.run/latest --fuse -o fused
ls adapter fused

heading "Generate text"
printf 'base:  '
paro-train --generate 'the cat' --init "$BASE" --length 30 | tr '\n' ' '
printf '\ntuned: '
paro-train --generate 'the cat' --init fused --length 30
