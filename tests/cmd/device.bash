# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# What the tests of runs on a GPU share.  The GPU is one in software (make emulated), or a real
# one:
#
#     GPU_BIN=build-cuda/bin GPU_REAL=1 bats tests/cmd/device*.bats
#
# which ranks share (DEVICE=cuda:0); NCCL lets them only if it is told, and takes each of them
# for a host.
#
# How far a loss may be off.  f32: both sum the same products in other orders.  A sum of K terms
# is off by about sqrt(K) 2^-24 of the terms' size (at most K 2^-24); the models here have K <= 40
# in some 8 products and norms a layer, 2 layers and a head: sqrt(17) sqrt(40) 2^-24 = 1.6e-6 of
# a logit, logits are below 6 times the loss: 1e-5 of the loss.  bf16: what enters and leaves
# a product is rounded to 8 bits, 2^-9, some 10 times a layer: sqrt(20) 2^-9 = 9e-3 of a
# token's logits, which are about 1 here, at first; two of them make a loss, which is a mean over
# tokens that are off each for itself: less than 9e-3 of a loss of 4, with room for a few steps
# of AdamW, which are as long whatever the gradient's size: 2e-2.

load mpi
load skip

# In setup_file; 1: there is no build for a GPU.
device_begin() {
    find_gpu paro-train || return
    export NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
    export G=$BATS_FILE_TMPDIR DATA=$ROOT/tests/data
    PATH=$GPU_BIN:$PATH
    cd "$G" || return
    seq 1 20000 > text
}

device_setup() {
    skip_test
    PATH=$GPU_BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
}

# NAME FABRIC MODEL [WORD...]: NAME.yaml
plan() {
    paro-plan -m "$DATA/llama_$3.json" -i "$2" --seq 8 --micro-batch 2 --param-type f32 \
        --wire-type f32 "${@:4}" > "$1.yaml"
}

# DEVICE NAME [WORD...]: a run of NAME.yaml in NAME-DEVICE
run_on() {
    local at=. ranks
    [ -f "$2.yaml" ] || at=$G
    case $2 in one*) ranks=1 ;; *) ranks=4 ;; esac
    rm -rf "$2-${1%:*}"
    # shellcheck disable=SC2016
    timeout 100 mpirun -np $ranks sh -c 'NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK exec "$@"' sh \
        paro-train "$at/$2.yaml" -d "${TEXT:-$G/text}" -o "$2-${1%:*}" \
        --steps 3 --device "$1" --lr 1e-3 "${@:3}" > "$2-${1%:*}.out" 2> "$2-${1%:*}.err" || {
        cat "$2-${1%:*}.err"
        return 1
    }
}

# The types in which this processor multiplies: without AVX-512 oneDNN 2 has no products of bf16.
cpu_types() {
    paro-plan -m "$DATA/llama_tied.json" -i synth:1x1 --seq 8 --micro-batch 2 --compute-type bf16 > types.yaml
    rm -rf types
    if paro-train types.yaml -d "$G/text" -o types --steps 1 --device cpu > types.out 2> types.err; then
        echo f32 bf16
    else
        grep -q 'of bf16 on this processor' types.err || cat types.err >&2
        echo f32
    fi
}

# NAME [WORD...]: the same on the device over MPI and over NCCL, in NAME-mpi and NAME-nccl: the same
# bits, for the same rows are added in the same order
both_ways() {
    local way
    for way in mpi nccl; do
        run_on "$DEVICE" "$1" --transport $way "${@:2}" || return 1
        grep -q "; over ${way^^}" "$1-cuda.err" || { cat "$1-cuda.err"; return 1; }
        rm -rf "$1-$way"
        mv "$1-cuda" "$1-$way"
    done
    cmp <(bits "$1-mpi") <(bits "$1-nccl") && same "$1-mpi/latest" "$1-nccl/latest"
}

# LOG LOG BOUND: losses and norms, step by step; a norm is a mean as the loss is, of more.
close() {
    paste -d ' ' <(numbers "$1") <(numbers "$2") | awk -v by="$3" '
        function off(a, b) { return a > b ? (a - b) / b : (b - a) / b }
        { n++; if (!(off($1, $3) <= by) || !(off($2, $4) <= 20 * by)) { print; bad = 1 } }
        END { exit bad || n < 3 }'
}
numbers() { sed -E 's/.*"loss":([^,]*),"grad_norm":([^,]*),.*/\1 \2/' "$1/log.jsonl"; }
bits() { sed -E 's/("lr":[^,]*),.*/\1/' "$1/log.jsonl"; }
# All tensors of two checkpoints.
same() { for f in "$1"/shard-*.safetensors; do cmp "$f" "$2/${f##*/}" || return 1; done; }
# WORDS COMMAND...: status 2, and one line that has these words
fails() {
    local rc=0
    "${@:2}" > out 2> said < /dev/null || rc=$?
    [ "$rc" = 2 ] || { echo "status $rc"; cat said; return 1; }
    [ "$(grep -c '^paro-train: [^o]' said)" = 1 ] || { cat said; return 1; }
    grep -q -- "$1" said || { cat said; return 1; }
}
