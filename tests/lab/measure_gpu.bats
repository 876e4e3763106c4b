# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full,alone
# paro-topo --device: what ranks that compute on GPUs see of each other and of themselves.  The GPU
# is one in software (make emulated), or with GPU_BIN=build-cuda/bin GPU_REAL=1 a real one, which
# all hosts share.  Rates between hosts are those that paro-lab shapes, as in measure.bats.
bats_require_minimum_version 1.5.0
load lab
load ../cmd/fabric

setup_file() {
    find_lab || return 0
    find_gpu paro-topo || return 0
}

# on LAB-OPTION... -- OPTION...: a measurement; ON is what the environment has on node1 alone.
# NCCL has 4 MiB of each channel on its way, a good part of a round at these rates: 72 MB/s were
# measured where 60 were shaped.
on() {
    local lab=()
    while [ "$1" != -- ]; do
        lab+=("$1")
        shift
    done
    shift
    # shellcheck disable=SC2016
    timeout 100 paro-lab "${lab[@]}" -- sh -c \
        'on=$1; shift; [ "$(hostname)" = node1 ] || on=
         export NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_BUFFSIZE=131072 NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK
         exec env $on "$@"' sh "${ON-}" \
        "$GPU_BIN/paro-topo" --transport "${OVER:-mpi}" "$@" > fabric 2> said
}
measure() { on "$@" || { cat fabric said; return 1; }; }

@test "2x2, from GPU to GPU: the shaped rates, and what computing and links leave each other" {
    again healthy -- --device "$DEVICE"
    grep -qx 'device: cuda' fabric
    grep -qx '  - host: node0' fabric
    grep -qx '    ranks: \[2, 3\]' fabric
    # As measure.bats has them of processors.
    number memory_Bps 1e8 1e13
    number rate_left 0.000001 1
    number compute_left 0.000001 1
    [ "$(grep -c rate_left: fabric)" = 2 ]
    [ "$(grep -c compute_left: fabric)" = 2 ]
    # What it says reads back, and is of GPUs still.
    paro-topo -i fabric > again
    cmp fabric again
    sed '/^device:/d' fabric > processors
    run ! --separate-stderr paro-topo -i fabric --diff processors # of a busy machine it says more
    [ "$output" = 'device: cpu -> cuda' ]
}

late_ways() {
    EMULATED_LATE=1 slow_ways -- --device "$DEVICE" &&
        number flops 1e6 1e16 # products that nobody waits for take no time
}

@test "3x1: a slow port's own two directions, by a GPU that does its work when it likes" {
    again late_ways
}

over_nccl() {
    OVER=nccl "$@" || return 1
    grep -qx 'transport: nccl' fabric
}

@test "2x2 and 3x1 over NCCL: the shaped rates; a slow port is found, and its neighbours are not" {
    again over_nccl healthy -- --device "$DEVICE"
    number rate_left 0.000001 1
    again over_nccl late_ways
}

# Blocks of two ranks and of three: all of a port may go to one rank.
three_levels() {
    measure -g 4 -p 1,1,1,2 -r 1gbit --slow 0-2:50mbit --slow 0-3:50mbit --slow 1-2:50mbit \
        --slow 1-3:50mbit -- --device "$DEVICE" --discover &&
        [ "$(grep -o 'blocks: [^]]*]' fabric | tr -d '\n')" = "$(
            )blocks: [0]blocks: [0]blocks: [1]blocks: [1]" ] &&
        [ "$(grep -c rate_left: fabric)" = 3 ]
}

@test "levels that are found are measured over NCCL, each" {
    again over_nccl three_levels
}

@test "the hosts' one GPU is shared out, whatever they are called; a GPU for each rank is its own" {
    in_software
    EMULATED_GPU_BYTES=3000000000 measure -g 2 -p 2 -- --device cuda:0 --compute-type f32
    grep -qx 'memory_bytes: 750000000' fabric
    EMULATED_GPUS=2 measure -g 1 -p 2 -- --device cuda --discover
    grep -qx 'memory_bytes: 4294967296' fabric
}

# fails PATTERN ON: status 2, one line, nothing on standard output.
fails() {
    local rc=0
    ON=$2 on -g 2 -p 1 -r 500mbit -- --device "${3:-cuda:0}" || rc=$?
    measured_nothing $rc "rank 1 \(node1\): $1"
}

@test "a GPU that fails in mid-measurement on one rank: one line of that rank, status 2" {
    in_software
    local gpu='device cuda:0 \(a GPU in software\) failed at'
    fails "$gpu cudaMemcpyAsync: " EMULATED_FAIL=cudaMemcpyAsync:200      # pings
    fails "$gpu cudaEventQuery: " EMULATED_FAIL=cudaEventQuery:1000       # rounds
    fails "$gpu a product of cuBLASLt: " EMULATED_FAIL=cublasLtMatmul:20  # beside them
    fails "$gpu cudaStreamSynchronize: " EMULATED_FAIL=cudaStreamSynchronize:60
}

@test "a word that a GPU gives otherwise than it has it is told, and is not the wire's" {
    in_software
    fails '[0-9]+ words of a measurement .*GPU' \
        EMULATED_COPY=flip-out:30
}

@test "no driver, no GPU, no memory on one rank: one line of that rank, status 2" {
    in_software
    fails 'device cuda: this machine has no driver of NVIDIA' EMULATED_DRIVER=0 cuda
    fails 'device cuda: this machine has no GPU' EMULATED_GPUS=0 cuda
    fails 'cannot have [0-9]+ bytes .* of memory of cuda:0 .*send' \
        EMULATED_GPU_BYTES=100000
    fails 'cannot have [0-9]+ bytes .* of memory of cuda:0 for work of kernels: ' \
        EMULATED_GPU_BYTES=16000000
}
