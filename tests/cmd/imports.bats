# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Checkpoints of PyTorch and DeepSpeed, written by these (tests/reference/make_imports.py), come
# in bit for bit, and paro-train continues as PyTorch does.
#
# PYTHON is one with torch, transformers, safetensors, numpy and, for the last, deepspeed; where
# that is not python3 itself:  PYTHON=DIR/bin/python make check

load torch

MAKE=$ROOT/tests/reference/make_imports.py
TEXT=/usr/share/common-licenses/GPL-3

setup() {
    export PYTHONDONTWRITEBYTECODE=1
    PATH=$BIN:$PATH PYTHON=${PYTHON:-python3}
    cd "$BATS_TEST_TMPDIR" || return
}

# make KIND [MODEL]: from/, want/ and train.dump in the folder KIND, which several tests ask for.
make() {
    local why=0
    MODEL=$MODELS/${2:-llama-tiny}.json
    command -v "$PYTHON" > /dev/null || skip "no $PYTHON here"
    "$PYTHON" "$MAKE" available "$1" > why || why=$?
    [ "$why" != 77 ] || skip "$(cat why)"
    [ -r "$TEXT" ] || skip "no $TEXT here"
    KIND=$BATS_FILE_TMPDIR/$1${2:-} DUMP=$BATS_FILE_TMPDIR/$1${2:-}/train.dump
    [ ! -e "$DUMP" ] || return 0
    paro-shard init -m "$MODEL" --seed 2 -o model
    timeout 250 "$PYTHON" "$MAKE" model "$1" "$KIND" --data "$TEXT" > made 2>&1 ||
        { cat made; return 1; }
}

# comes_in RANKS SOURCE [OPTIMIZER [OPTION...]]: it is what was saved beside it, and trains on as that.
comes_in() {
    paro-shard split "$2" -p plan.yaml --optimizer "${3:-$2}" "${@:4}" -o ckpt
    paro-shard verify ckpt
    paro-shard diff ckpt "$KIND/want/states.safetensors"
    settings
    timeout 100 mpirun -np "$1" paro-train plan.yaml -d "$TEXT" -o run --resume ckpt \
        "${SETTINGS[@]}" > out 2> said || { cat said; return 1; }
    compare
}

# bats test_tags=long
@test "FSDP2's, in .distcp: 2 ranks go on, NGG" {
    make fsdp2
    plan 2x1 NGG 2
    comes_in 2 "$KIND/from"
}

@test "FSDP2's, one folder for the model and one for the optimizer: 4 ranks in groups of 3 and 1, GGG" {
    make fsdp2-apart
    plan '[3,1]' GGG 4
    comes_in 4 "$KIND/from/model" "$KIND/from/optimizer"
}

# bats test_tags=long
@test "FSDP2's, flattened, compiled: 1 rank" {
    make fsdp2-flat
    plan 1x1 NNN 1
    comes_in 1 "$KIND/from"
}

# bats test_tags=long
@test "FSDP2's in bf16: 1 rank" {
    make fsdp2-bf16
    plan 1x1 NNN 1
    comes_in 1 "$KIND/from"
}

# bats test_tags=long
@test "FSDP1's: 2 ranks, GGG" {
    make fsdp1
    plan 2x1 GGG 2
    comes_in 2 "$KIND/from"
}

# bats test_tags=long
@test "DDP's, not sharded: 1 rank" {
    make ddp
    plan 1x1 NNN 1
    comes_in 1 "$KIND/from"
}

@test "DeepSpeed's, universal, of ZeRO-3: 4 ranks, IIG" {
    make deepspeed-3
    plan 2x2 IIG 4
    comes_in 4 "$KIND/from"
}

# bats test_tags=long
@test "DeepSpeed's, universal, of ZeRO-1 in bf16: 2 ranks, NGG" {
    make deepspeed-1-bf16
    plan 2x1 NGG 2
    comes_in 2 "$KIND/from" "" --type bf16
}

# bats test_tags=long
@test "DeepSpeed's, universal, of ZeRO-1 and ZeRO-2: 1 rank" {
    for stage in 1 2; do
        make deepspeed-$stage
        plan 1x1 NNN 1
        comes_in 1 "$KIND/from"
        rm -r ckpt run model
    done
}

# bats test_tags=long
@test "GPT-2's, of DDP, its tied head twice: the weights and the state" {
    make ddp gpt2-tiny
    paro-plan -m "$MODEL" -i synth:2x1 --strategy IGG > plan.yaml
    paro-shard split "$KIND/from" -p plan.yaml --optimizer "$KIND/from" -o ckpt
    paro-shard diff ckpt "$KIND/want/states.safetensors"
}
