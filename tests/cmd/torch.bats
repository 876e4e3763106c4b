# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-train's losses and gradient norms are PyTorch's: tests/data/train_llama-tiny.dump, which
# tests/reference/train_llama.py made with transformers' model and torch.optim.AdamW.

bats_require_minimum_version 1.5.0
load torch

export DUMP=$ROOT/tests/data/train_llama-tiny.dump
export MODEL=$ROOT/examples/models/llama-tiny.json

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    DATA=$(fact data)
    [ -r "$DATA" ] || skip "no $DATA here"
    [ "$(sha256sum < "$DATA")" = "$(fact data_sha256)  -" ] ||
        skip "$DATA differs from the dump's (sha256 $(fact data_sha256))"
}

# train RANKS [OPTION...]: with the dump's settings, then the given ones; logs to run/log.jsonl.
train() {
    local ranks=$1
    settings
    timeout 100 mpirun -np "$ranks" paro-train plan.yaml -d "$DATA" -o run --force \
        "${SETTINGS[@]}" "${@:2}" > out 2> said || { cat said; return 1; }
}

@test "20 steps of one rank are PyTorch's" {
    plan 1x1 NNN 1
    train 1
    compare
}

@test "20 steps of two ranks in two groups, NGG, are PyTorch's" {
    plan 2x1 NGG 2
    train 2
    compare
}

@test "20 steps of four ranks, 2x2, IIG, are PyTorch's" {
    plan 2x2 IIG 4
    train 4
    compare
}

@test "20 steps of four ranks in unequal groups, 3 and 1, GGG, are PyTorch's" {
    plan '[3,1]' GGG 4
    train 4
    compare
}

@test "the comparison objects to every setting that is a little off" {
    local way
    plan 1x1 NNN 1
    for way in --lr=3.003e-3 --min-lr=3.1e-4 --warmup=3 --beta1=0.901 --beta2=0.951 --eps=2e-8 \
        --weight-decay=0.98 --clip=1.01 --seed=1; do
        train 1 "$way"
        run -1 compare
        [[ $output == *allowed* ]] || { echo "$way: $output"; return 1; }
    done
}
