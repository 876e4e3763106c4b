#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs on a GPU beside runs on the processor.  The GPU is one in software (make emulated), or a
# real one:
#
#     GPU_BIN=build-cuda/bin GPU_REAL=1 bats tests/cmd/device.bats
#
# How far a loss may be off.  f32: both sum the same products in other orders.  A sum of K terms
# is off by about sqrt(K) 2^-24 of the terms' size (at most K 2^-24); the models here have K <= 40
# in some 8 products and norms a layer, 2 layers and a head: sqrt(17) sqrt(40) 2^-24 = 1.6e-6 of
# a logit, logits are below 6 times the loss: 1e-5 of the loss.  bf16: what enters and leaves
# a product is rounded to 8 bits, 2^-9, some 10 times a layer: sqrt(20) 2^-9 = 9e-3 of a
# token's logits, which are about 1 here, at first; two of them make a loss, which is a mean over
# tokens that are off each for itself: less than 9e-3 of a loss of 4, with room for a few steps
# of AdamW, which are as long whatever the gradient's size: 2e-2.

bats_require_minimum_version 1.5.0

setup_file() {
    export GPU_BIN=${GPU_BIN:-${B/build/build-emulated}/bin} DEVICE=${DEVICE:-cuda:0}
    [ -x "$GPU_BIN/paro-train" ] || skip "no build with CUDA in $GPU_BIN (make emulated)"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    export G=$BATS_FILE_TMPDIR DATA=$BATS_TEST_DIRNAME/../data
    PATH=$GPU_BIN:$PATH
    cd "$G" || return
    seq 1 20000 > text
    plan one synth:1x1 tied
    plan four synth:2x2 tied --strategy GGG --accum 2
    run_on cpu one
}

setup() {
    PATH=$GPU_BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
}

# NAME FABRIC MODEL [WORD...]: NAME.yaml
plan() {
    paro-plan -m "$DATA/llama_$3.json" -i "$2" --seq 16 --micro-batch 2 --param-type f32 \
        --wire-type f32 "${@:4}" > "$1.yaml"
}

# DEVICE NAME [WORD...]: a run of NAME.yaml in NAME-DEVICE
run_on() {
    local at=. ranks
    [ -f "$2.yaml" ] || at=$G
    case $2 in one*) ranks=1 ;; *) ranks=4 ;; esac
    rm -rf "$2-${1%:*}"
    timeout 100 mpirun -np $ranks paro-train "$at/$2.yaml" -d "$G/text" -o "$2-${1%:*}" \
        --steps 4 --device "$1" --lr 1e-3 "${@:3}" > "$2-${1%:*}.out" 2> "$2-${1%:*}.err" || {
        cat "$2-${1%:*}.err"
        return 1
    }
}

# LOG LOG BOUND: losses and norms, step by step; a norm is a mean as the loss is, of more.
close() {
    paste -d ' ' <(numbers "$1") <(numbers "$2") | awk -v by="$3" '
        function off(a, b) { return a > b ? (a - b) / b : (b - a) / b }
        { n++; if (!(off($1, $3) <= by) || !(off($2, $4) <= 20 * by)) { print; bad = 1 } }
        END { exit bad || n < 4 }'
}
numbers() { sed -E 's/.*"loss":([^,]*),"grad_norm":([^,]*),.*/\1 \2/' "$1/log.jsonl"; }
bits() { sed -E 's/("lr":[^,]*),.*/\1/' "$1/log.jsonl"; }
# All tensors of two checkpoints.
same() { for f in "$1"/shard-*.safetensors; do cmp "$f" "$2/${f##*/}" || return 1; done; }
in_software() { [ -z "${GPU_REAL-}" ] || skip "a real GPU does not do that"; }
# WORD...: status 2, and one line that has these words
fails() {
    local rc=0
    "${@:2}" > out 2> said < /dev/null || rc=$?
    [ "$rc" = 2 ] || { echo "status $rc"; cat said; return 1; }
    [ "$(grep -c '^paro-train: ' said)" = 1 ] && grep -q -- "$1" said || { cat said; return 1; }
}

@test "f32: the same losses, and a line that says what was taken" {
    run_on "$DEVICE" one
    close "$G/one-cpu" one-cuda 1e-5
    grep -qE 'on cuda:[0-9]+, .*: .*B taken, .*B planned, .*B left' one-cuda.err
    [ ! -s "$G/one-cpu.err" ]
}

@test "again the same bits; bf16 parameters at rest; a tied and an untied head" {
    for model in tied untied; do
        plan one synth:1x1 $model --param-type bf16 --wire-type bf16
        run_on cpu one
        run_on "$DEVICE" one
        close one-cpu one-cuda 1e-5
        bits one-cuda > first
        run_on "$DEVICE" one
        cmp first <(bits one-cuda)
    done
}

@test "bf16: products and activations" {
    plan one synth:1x1 untied --compute-type bf16
    run_on "$DEVICE" one
    close "$G/one-cpu" one-cuda 2e-2 || true # another model: only that it runs
    run_on cpu one
    close one-cpu one-cuda 2e-2
    plan one synth:1x1 tied --compute-type bf16 --param-type bf16 --wire-type bf16 --recompute=yes
    run_on cpu one
    run_on "$DEVICE" one
    close one-cpu one-cuda 2e-2
}

@test "27 strategies, 4 ranks in 2 groups on one GPU" {
    for s in {N,I,G}{N,I,G}{N,I,G}; do
        plan "$s" synth:2x2 tied --strategy "$s" --accum 2
        [ "$s" = NNN ] && run_on cpu "$s" && mv NNN-cpu base
        run_on "$DEVICE" "$s" || { echo "$s"; return 1; }
        close base "$s-cuda" 1e-5 || { echo "$s"; return 1; }
    done
}

@test "bf16 on the wire, kept units, buckets; --against: within the bounds of another strategy" {
    for s in GGG IIG NGI; do
        plan $s synth:2x2 untied --strategy $s --accum 2 --param-type bf16 --wire-type bf16 \
            --compute-type bf16 --grad-type bf16 --prefetch 2 --keep 2
        run_on "$DEVICE" $s --against NNN || { echo $s; return 1; }
    done
}

@test "int8 between groups: losses near the processor's, copies equal" {
    plan four synth:2x2 tied --strategy IIG --slow-params int8 --slow-grads int8 --accum 2
    run_on cpu four
    run_on "$DEVICE" four
    # A block's values are rounded to 2^-8 of its largest: what is off by f32's 1e-5 may round
    # the other way, so that later steps are off as if by one such rounding.
    close four-cpu four-cuda 4e-3
}

@test "adapters: what is frozen stays, what trains does as on the processor" {
    for s in GGG NIG; do
        plan four synth:2x2 tied --strategy $s --trainable lora=4
        run_on cpu four
        run_on "$DEVICE" four
        close four-cpu four-cuda 1e-5
    done
}

@test "checkpoints: a run that is gone on with has the same bits; on another device it goes on" {
    for p in one four; do
        run_on "$DEVICE" $p --save-every 2 --keep 4
        [ "$(sed -n 4p $p-cuda/log.jsonl | grep -c '"step":4')" = 1 ]
        cp -r $p-cuda whole
        rm -rf "$p-cuda/step-00000004" && ln -sfn step-00000002 $p-cuda/latest
        ranks=1
        [ $p = four ] && ranks=4
        cp -r $p-cuda other
        again="--steps 4 --lr 1e-3 --resume auto"
        timeout 100 mpirun -np $ranks paro-train "$G/$p.yaml" -d "$G/text" -o $p-cuda $again \
            --device "$DEVICE"
        cmp <(bits whole) <(bits $p-cuda)
        same whole/latest $p-cuda/latest
        timeout 100 mpirun -np $ranks paro-train "$G/$p.yaml" -d "$G/text" -o other $again
        close whole other 1e-5
        rm -rf whole other
    done
}

@test "a validation loss, a trace, settings beside it" {
    run_on "$DEVICE" four --eval-every 2 --eval-split 0.1 --trace-step 3 --skip-nonfinite 0 \
        --clip 0
    [ "$(grep -c '"eval_loss":[0-9]' four-cuda/log.jsonl)" = 2 ]
    [ -s four-cuda/trace-00000003.json ]
    run_on cpu four --eval-every 2 --eval-split 0.1 --skip-nonfinite 0 --clip 0
    close four-cpu four-cuda 1e-5
}

@test "what there is not: one line, status 2" {
    train="paro-train $G/one.yaml -d $G/text -o new"
    fails "device 'gpu', expected cpu, cuda or cuda:N" $train --device gpu
    fails 'device cuda:77: this machine has' $train --device cuda:77
    fails "expected the device 'cpu' for exact" $train --device "$DEVICE" --exact
    fails 'no GPU of its own' mpirun -np 4 paro-train "$G/four.yaml" -d "$G/text" -o new \
        --device cuda
    [ ! -e new ]
}

@test "a GPU that is not there, or too small: what is missing, and what would fit" {
    in_software
    train="paro-train $G/one.yaml -d $G/text -o new"
    EMULATED_GPUS=0 fails 'no GPU' $train --device cuda
    EMULATED_GPU_BYTES=300000 fails \
        'has [0-9]* bytes left of 300000, expected [0-9]* for states and buffers, .* none of' \
        $train --device cuda:0
    plan four synth:2x2 tied --strategy NNN
    EMULATED_GPU_BYTES=900000 fails 'these strategies would: .*GGG' mpirun -np 4 \
        paro-train four.yaml -d "$G/text" -o new --device cuda:0
}

@test "a GPU that fails on one rank ends all of them, with its name" {
    in_software
    words=("$G/four.yaml" -d "$G/text" -o new --steps 20 --device cuda:0 --force)
    for fault in cudaLaunchKernel:400 cudaMemcpyAsync:200 cudaMemsetAsync:80 cudaEventQuery:300 \
        cudaEventRecord:300; do
        fails "rank 2 (.*): device cuda:0 .* failed at ${fault%:*}" timeout 60 \
            mpirun -np 2 paro-train "${words[@]}" : \
            -np 1 env EMULATED_FAIL=$fault paro-train "${words[@]}" : \
            -np 1 paro-train "${words[@]}" || { echo $fault; return 1; }
    done
}

@test "work that is done as late as it may be: the same bits" {
    in_software
    for s in GGG NIG ING; do
        plan four synth:2x2 untied --strategy $s --accum 2 --param-type bf16 --wire-type bf16
        run_on "$DEVICE" four --save-every 3
        mv four-cuda early
        for seed in 1 2 3; do
            EMULATED_LATE=$seed run_on "$DEVICE" four --save-every 3
            cmp <(bits early) <(bits four-cuda) || { echo "$s $seed"; return 1; }
            same early/step-00000003 four-cuda/step-00000003
            same early/latest four-cuda/latest
        done
        rm -rf early
    done
}
