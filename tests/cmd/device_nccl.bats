# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Runs whose collectives go over NCCL beside the same over MPI: device.bash.
# shellcheck disable=SC2016

load refuses

setup_file() {
    load device.bash
    device_begin || return 0
    plan four synth:2x2 tied --strategy GGG --accum 2
}

setup() {
    load device.bash
    device_setup
}

@test "the same bits over NCCL as over MPI: types, buckets, kept units, ragged groups" {
    both_ways four
    plan four synth:2x2 untied --strategy NIG --accum 2 --param-type bf16 --wire-type bf16 \
        --compute-type bf16 --grad-type bf16 --prefetch 2 --keep 2
    both_ways four
    plan four 'synth:[3,1]' tied --strategy IIG --algo ho-ring
    both_ways four
}

@test "algorithms: the one that is asked for, and what a table says" {
    both_ways four --steps 1 --algo two-level
    paro-sched pick -i synth:2x2 --table -e 1Mi -f 4 > tuning.yaml
    both_ways four --steps 1 --algo auto --tuning tuning.yaml
}

@test "a validation loss, a trace, another strategy beside it" {
    run_on "$DEVICE" four --transport nccl --eval-every 2 --eval-batches 2 --trace-step 3 --against NIG
    [ "$(grep -c '"eval_loss":[0-9]' four-cuda/log.jsonl)" = 1 ]
    [ -s four-cuda/trace-00000003.json ]
}

@test "int8 between groups goes over MPI, the rest over NCCL" {
    plan four synth:2x2 tied --strategy NIG --slow-params int8 --slow-grads int8 --accum 2
    both_ways four
    grep -q '; over NCCL, coded data over MPI$' four-cuda.err
}

@test "checkpoints: a run goes on with the other transport to the same bits" {
    run_on "$DEVICE" four --save-every 2 --keep 4 --transport nccl
    mv four-cuda whole
    for way in mpi nccl; do
        cp -r whole part
        rm -rf part/step-00000003
        ln -sfn step-00000002 part/latest
        timeout 100 mpirun -np 4 sh -c 'NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK exec "$@"' sh paro-train \
            "$G/four.yaml" -d "$G/text" -o part --lr 1e-3 --resume auto --device "$DEVICE" \
            --transport $way
        cmp <(bits whole) <(bits part)
        same whole/latest part/latest
        rm -rf part
    done
    run ! grep transport whole/*.yaml
}

@test "which transport: NCCL for a GPU each and several ranks, MPI for a shared one" {
    in_software
    plan one synth:1x1 tied
    EMULATED_GPUS=4 run_on cuda four --steps 1
    grep -q '; over NCCL$' four-cuda.err
    run_on cuda:0 four --steps 1
    grep -q '; over MPI$' four-cuda.err
    EMULATED_GPUS=4 run_on cuda four --steps 1 --transport mpi
    grep -q '; over MPI$' four-cuda.err
    run_on cuda one --steps 1
    grep -q '; over MPI$' one-cuda.err
    run_on cuda one --steps 1 --transport nccl
    grep -q '; over NCCL$' one-cuda.err
}

@test "work that is done as late as it may be: the same bits" {
    in_software
    for s in GGG NIG; do
        plan four synth:2x2 untied --strategy $s --accum 2 --param-type bf16 --wire-type bf16
        run_on "$DEVICE" four --transport nccl
        mv four-cuda early
        for seed in 1 2; do
            EMULATED_LATE=$seed run_on "$DEVICE" four --transport nccl
            cmp <(bits early) <(bits four-cuda) || { echo "$s $seed"; return 1; }
            same early/latest four-cuda/latest
        done
        rm -rf early
    done
}

@test "memory of the host that cannot be pinned: the same bits, and the run says so" {
    in_software
    run_on "$DEVICE" four --transport mpi
    mv four-cuda pinned
    mv four-cuda.err pinned.err
    [ "$(grep -c 'not pinned' pinned.err)" = 0 ]
    EMULATED_PIN=0 run_on "$DEVICE" four --transport mpi
    grep -q 'of host memory, not pinned .*; attention' four-cuda.err
    cmp <(bits pinned) <(bits four-cuda)
    same pinned/latest four-cuda/latest
}

@test "collectives timed: ours beside NCCL's own, no element wrong; over MPI through the host" {
    in_software
    bench=(mpirun -np 4 paro-bench --groups 2x2 -b 40004 -n 2 -w 0 --json --device cuda:0)
    "${bench[@]}" --transport nccl --algo ho-ring,bruck,nccl > rows
    [ "$(grep -c '"wrong":0,' rows)" = 12 ]
    [ "$(wc -l < rows)" = 12 ]
    [ "$(grep -c '"algo":"nccl"' rows)" = 4 ]
    "${bench[@]}" --op all-reduce,all-gather --type bf16 > rows
    [ "$(grep -c '"wrong":0,' rows)" = 4 ]
    [ "$(wc -l < rows)" = 4 ]
    mpirun -np 4 paro-bench --groups '[3,1]' -b 4K -n 2 -w 0 --device cuda:0 --transport nccl \
        --overlap --json > rows
    [ "$(grep -c '"wrong":0,' rows)" = 3 ]
    bench=(ranks 2 paro-bench -b 4K)
    refuses 2 'algo mpi GPU' "${bench[@]}" --device cuda:0 --algo mpi
    refuses 2 'algo nccl transport' "${bench[@]}" --device cuda:0 --algo ring,nccl
    refuses 2 'algo nccl transport' "${bench[@]}" --algo nccl
    refuses 2 "transport nccl device 'cpu'" "${bench[@]}" --transport nccl
}

@test "NCCL fails, or a GPU does, on one rank: all end, with its name, long before the deadline" {
    in_software
    words=("$G/four.yaml" -d "$G/text" -o new --steps 20 --device cuda:0 --transport nccl --force)
    EMULATE_NCCL=fail:80 fails 'rank [0-3]: ncclGroupEnd in step .*: remote process' timeout 80 \
        mpirun -np 4 paro-train "${words[@]}"
    EMULATE_NCCL=stall:80 EMULATE_NCCL_RANK=2 fails 'rank [0-3]: ncclGroupEnd .*no answer .*for 3 s' \
        timeout 80 mpirun -np 4 paro-train "${words[@]}" --deadline 3
    for fault in cudaLaunchKernel:400 cudaEventQuery:300 cudaMemcpyAsync:200 cudaStreamCreate:8; do
        fails "rank 2: .*device cuda:0 .* failed at " timeout 60 mpirun -np 4 \
            "$ROOT/tests/cmd/on-rank" 2 EMULATED_FAIL=$fault paro-train "${words[@]}" || { echo $fault; return 1; }
    done
    fails "rank 0: .*device cuda:0 .* failed at " timeout 60 mpirun -np 4 \
        "$ROOT/tests/cmd/on-rank" 0 EMULATED_FAIL=cudaLaunchKernel:400 paro-train "${words[@]}"
}

@test "a rank that is killed: every process is gone, and the run goes on to the same bits" {
    run_on "$DEVICE" four --transport nccl
    mv four-cuda whole
    timeout 60 mpirun -np 4 sh -c 'export NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK
        echo $$ > pid-$OMPI_COMM_WORLD_RANK; exec "$@"' sh paro-train "$G/four.yaml" -d "$G/text" \
        -o part --steps 3 --lr 1e-3 --save-every 1 --device "$DEVICE" --transport nccl > out 2> said &
    run=$!
    for _ in {1..600}; do [ -e part/latest ] && break || sleep 0.1; done
    kill -9 "$(cat pid-2)"
    rc=0
    wait $run || rc=$?
    [ $rc != 0 ]
    [ $rc != 124 ]
    for r in 0 1 2 3; do
        for _ in {1..600}; do kill -0 "$(cat pid-$r)" 2> gone && sleep 0.1 || break; done
        run ! kill -0 "$(cat pid-$r)"
    done
    timeout 100 mpirun -np 4 sh -c 'NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK exec "$@"' sh paro-train \
        "$G/four.yaml" -d "$G/text" -o part --resume auto --device "$DEVICE" --transport nccl
    cmp <(bits whole) <(bits part)
    same whole/latest part/latest
}
