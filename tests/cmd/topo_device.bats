# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-topo --device: words, and what a rank's GPU has of its own.  The GPU is one in software
# (make emulated).  Links are in tests/lab/measure_gpu.bats.
# shellcheck disable=SC2016
load refuses
load fabric

GPU_BIN=${GPU_BIN:-${B%/*}/build-emulated${B##*/build}/bin}

with_gpu() { [ -x "$GPU_BIN/paro-topo" ] || skip "no build with CUDA in $GPU_BIN (make emulated)"; }

measure() { timeout 100 mpirun -np "$1" "$GPU_BIN/paro-topo" "${@:2}" > fabric; }

@test "an unknown word is reported by all ranks in one line" {
    refuses 2 'gpu expected cpu, cuda cuda:N' ranks 1 paro-topo --device gpu
    refuses 2 "rank 0 ($(hostname)): gpu expected cpu, cuda cuda:N" ranks 2 paro-topo --device gpu
    refuses 2 '--compute-type f16 expected f32 bf16' ranks 1 paro-topo --compute-type f16
    refuses 2 '--transport tcp expected mpi, nccl auto' ranks 1 paro-topo --transport tcp
    refuses 2 '--transport nccl cpu expected GPU' ranks 1 paro-topo --transport nccl
    # Rank 1 alone
    refuses 2 "rank 1 ($(hostname)): gpu expected cpu, cuda cuda:N" \
        ranks 2 sh -c '[ $OMPI_COMM_WORLD_RANK = 0 ] || set -- --device gpu
                       exec paro-topo "$@"' sh
    refuses 2 '--device, --transport, --compute-type --deadline measure mpirun -i' \
        ranks 1 paro-topo -i synth:2x2 --device cuda
}

@test "without CUDA in the build --device cuda says so" {
    [ -z "${SAN-}" ] || export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
    for device in cuda cuda:1; do
        refuses 2 'cuda build CUDA=1' ranks 1 paro-topo --device $device
    done
}

@test "--device cpu is what there is without it; products in bf16 where the processor has some" {
    timeout 60 mpirun -np 1 paro-topo --device cpu --transport auto > fabric
    run ! grep device: fabric
    number flops 1e6 1e13
    run --separate-stderr timeout 60 mpirun -np 1 paro-topo --compute-type bf16
    if [ "$status" = 0 ]; then
        grep -q '^flops: ' <<<"$output"
    else
        [ "$status" = 2 ] && grep -q '^paro-topo: .*bf16' <<<"$stderr"
    fi
}

@test "other processes that are busy leave a doubt in the fabric, and bf16 is measured where it is fast" {
    local busy=()
    for _ in $(seq "$(nproc)"); do
        while :; do :; done &
        busy+=($!)
    done 3>&-
    timeout 100 mpirun -np 1 paro-topo > fabric 2> said || true
    kill "${busy[@]}"
    grep -qE '^doubt: "other processes had [0-9]+ % of a machine.s processors during the measurement"$' fabric
    grep -qE '^paro-topo: doubt: other processes had ' said
    if grep -qE '^(flags|Features).* (avx512_|amx_|)bf16( |$)' /proc/cpuinfo; then
        number flops_bf16 1e6 1e13
    else
        run ! grep flops_bf16 fabric
    fi
}

@test "one rank: its GPU's memory, products of either type or of a model, copies" {
    with_gpu
    EMULATED_GPU_BYTES=3000000000 measure 1 --device cuda
    grep -qx 'device: cuda' fabric
    grep -qx 'compute_type: bf16' fabric
    grep -qx 'memory_bytes: 3000000000' fabric
    number memory_Bps 1e8 1e13
    # Beyond any GPU in software: products that nobody waits for take no time.
    EMULATED_LATE=1 measure 1 --device cuda:0 --compute-type f32
    number flops 1e6 1e12
    run ! grep compute_type fabric
    EMULATED_LATE=1 measure 1 --device cuda:0 --seq 16 \
        -m "$ROOT/examples/models/llama-tiny.json"
    number flops 1e6 1e12
    paro-topo -i fabric --json | grep -q '"ranks":1,"device":"cuda","memory_bytes":4294967296,'
    paro-topo -i fabric --format table | grep -q '^each rank: on a GPU, memory 4.00 GiB, '
}

@test "more ranks than GPUs are refused in one line" {
    with_gpu
    refuses 2 "rank 1 ($(hostname)): cuda rank 1 GPU 1 expected cuda:N" \
        ranks 2 "$GPU_BIN/paro-topo" --device cuda
}

@test "what a fabric was measured over is a key, read and compared; MPI is not written" {
    paro-topo -i synth:2x2 > mpi
    sed 's/^groups:/device: cuda\ntransport: nccl\n&/' mpi > nccl
    paro-topo -i nccl > again
    cmp nccl again
    paro-topo -i nccl --json | grep -q '"device":"cuda","transport":"nccl",'
    paro-topo -i nccl --format table | grep -q '^each rank: on a GPU, over NCCL, memory '
    sed 's/^transport: .*/transport: mpi/; /^device/d' nccl > said
    cmp mpi <(paro-topo -i said)
    run -1 paro-topo -i nccl --diff mpi
    [ "$output" = 'device: cpu -> cuda
transport: mpi -> nccl' ]
    sed 's/^transport: .*/transport: tcp/' nccl > wrong
    refuses 2 "wrong:$(grep -n ^transport wrong | cut -d: -f1): 'transport' tcp expected mpi nccl" \
        paro-topo -i wrong
}

# over RANKS ONE NAME=VALUE... -- OPTION...: over NCCL, on one GPU that it may share; that
# environment on rank ONE alone.
over() {
    local ranks=$1 one=$2 faults=()
    for ((i = 3; i <= $#; i++)); do
        [ "${!i}" != -- ] || break
        faults+=("${!i}")
    done
    NCCL_MULTI_RANK_GPU_ENABLE=1 ON=$one FAULTS=${faults[*]} timeout 100 mpirun -np "$ranks" sh -c '
        export NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK
        echo $$ > pid-$OMPI_COMM_WORLD_RANK
        [ $OMPI_COMM_WORLD_RANK != $ON ] || export $FAULTS NOTHING=
        exec "$@"' sh "$GPU_BIN/paro-topo" --device cuda:0 --transport nccl "${@:i + 1}"
}

# heard: what is said, but of neighbours that are busy.
heard() { sed '/^paro-topo: doubt: other processes/d' said; }

@test "over NCCL: links between GPUs, one GPU alone, groups that are found" {
    with_gpu
    EMULATED_GPUS=2 measure 2 --device cuda 2> said # auto
    [ -z "$(heard)" ]
    grep -qx 'transport: nccl' fabric
    number latency_s 1e-7 1
    for key in flow_Bps port_Bps member_Bps; do number $key 1e6 1e13; done
    for key in rate_left compute_left; do number $key 0.000001 1; done
    EMULATED_PIN=0 over 1 0 -- > fabric 2> said # only what the host reads is slower
    [ -z "$(heard)" ]
    number memory_Bps 1e6 1e13
    EMULATED_LATE=1 over 3 0 -- --discover > fabric 2> said
    grep -qx 'transport: nccl' fabric
    [ "$(heard | wc -l)" = 1 ]
    has_words "$(heard)" 'paro-topo: groups host MPI NCCL'
}

# over_fails PATTERN NAME=VALUE...: on rank 1 of 3; status 2, one line, nothing on standard output.
over_fails() {
    local rc=0
    over 3 1 "${@:2}" -- > fabric 2> said || rc=$?
    measured_nothing $rc "$1"
}

@test "over NCCL a rank that fails ends all, in one line: its GPU, NCCL, no memory, a wrong word" {
    with_gpu
    local gpu='device cuda:0 \(a GPU in software\) failed at'
    over_fails "rank 1: .*$gpu cudaEventQuery: " EMULATED_FAIL=cudaEventQuery:1000
    over_fails "rank 1.*: $gpu a product of cuBLASLt: " EMULATED_FAIL=cublasLtMatmul:20
    over_fails 'rank 1: ncclGroupEnd in step .*: remote process' EMULATE_NCCL=fail:100
    over_fails "rank 1 \($(hostname)\): cannot have .* of memory of cuda:0 .*send" \
        EMULATED_GPU_BYTES=100000
    over_fails "rank 1 \($(hostname)\): 1 words .*arrived wrong" \
        EMULATED_COPY=flip-out:6
    over_fails "rank 1 \($(hostname)\): 1 words .*GPU" \
        EMULATED_COPY=flip-out:5
}

@test "over NCCL a rank that answers no more is waited for by --deadline, not for ever" {
    with_gpu
    local rc=0
    over 3 1 EMULATE_NCCL=stall:100 -- --deadline 15 > fabric 2> said || rc=$?
    measured_nothing $rc 'rank [0-2]: ncclGroupEnd in step .*: no answer from other ranks for 15 s'
}

@test "over NCCL a rank that is killed: every process is gone" {
    with_gpu
    over 3 0 -- > fabric 2> said &
    local run=$! rc=0
    for _ in {1..600}; do [ -e pid-1 ] && break || sleep 0.1; done
    sleep 2 # in the middle of it, on any machine; before it would be as good
    kill -9 "$(cat pid-1)"
    wait $run || rc=$?
    [ $rc != 0 ]
    [ $rc != 124 ]
    [ ! -s fabric ]
    for r in 0 1 2; do
        for _ in {1..600}; do kill -0 "$(cat pid-$r)" 2> gone && sleep 0.1 || break; done
        run ! kill -0 "$(cat pid-$r)"
    done
}

@test "a driver that pins no memory of the host: measured all the same, and reported" {
    with_gpu
    timeout 100 mpirun -np 2 sh -c '[ $OMPI_COMM_WORLD_RANK = 0 ] || export EMULATED_PIN=0
        exec "$@"' sh "$GPU_BIN/paro-topo" --device cuda:0 --transport mpi > fabric 2> said
    number member_Bps 1e6 1e13
    [ "$(heard | grep -c '^paro-topo: ')" = 1 ]
    has_words "$(heard | grep '^paro-topo: ')" 'driver host memory 1 of 2 ranks copies slower'
}
