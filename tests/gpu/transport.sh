#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# sh tests/gpu/transport.sh BUILD: training over NCCL beside training over MPI, 4 ranks
# on one GPU, each as if on a host of its own: NCCL lets ranks of one host not share a GPU.  The
# same rows are added in the same order: losses, norms and checkpoints are the same, bit for bit.
# Speaks TAP.
set -u
PATH=$1/bin:$PATH here=$PWD tests=0
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-lo}"
seq 1 20000 >text

# OVER: a run in the folder OVER
train() {
    # shellcheck disable=SC2016
    timeout 100 mpirun -n 4 sh -c 'NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK exec "$@"' sh paro-train \
        plan.yaml -d text -o "$1" --steps 3 --lr 1e-3 --device cuda:0 --transport "$1" \
        >"$1.out" 2>&1 && grep -q "; over $2" "$1.out"
}
bits() {
    sed -E 's/("lr":[^,]*),.*/\1/' "$1/log.jsonl"
    cat "$1"/latest/*.safetensors | cksum
}
# NAME [WORD...]: a plan of paro-plan's WORDs both ways
both() {
    name=$1
    shift
    tests=$((tests + 1))
    rm -rf mpi nccl
    if paro-plan -m "$here/tests/data/llama_untied.json" -i synth:2x2 --seq 8 --micro-batch 2 \
        "$@" >plan.yaml && train mpi MPI && train nccl NCCL && bits mpi >a && bits nccl >b &&
        [ "$(wc -l <a)" = 4 ] && cmp a b; then
        echo "ok $tests - $name"
    else
        sed 's/^/# /' mpi.out nccl.out
        echo "not ok $tests - $name"
    fi
}

both 'f32, GGG' --strategy GGG --accum 2 --param-type f32 --wire-type f32
both 'bf16, NIG' --strategy NIG --accum 2 --param-type bf16 --wire-type bf16 --compute-type bf16
both 'int8 between groups, over MPI' --strategy NIG --slow-params int8 --slow-grads int8
echo 1..$tests
