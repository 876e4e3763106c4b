# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Schedules over NCCL, and over MPI through stages: build-emulated/gpu/nccl_check and stage_check
# on a GPU in software, NCCL over MPI; what fails, and who hears of it: fail_check.

bats_require_minimum_version 1.5.0

setup() {
    E=$ROOT/build-emulated${B##*/build}
    [ -x "$E/gpu/nccl_check" ] || skip "no emulated build here"
    # Open MPI's modules are gone when leaks are counted: what they keep has no name any more.
    [ -z "${SAN-}" ] || export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
}

check() {
    run mpirun -np "$1" "$E/gpu/nccl_check" "${@:2}"
    echo "$output"
    [ "$status" = 0 ] && [[ "$output" == *"1.."* ]] && [[ "$output" != *"not ok"* ]]
}

stages() {
    run timeout 100 mpirun -np "$1" "$E/gpu/stage_check" "$2"
    echo "$output"
    [ "$status" = 0 ] && [[ "$output" == *"1.."* ]] && [[ "$output" != *"not ok"* ]]
}

# told RANKS WORDS: each of so many ranks was told of the same failure
told() {
    [ "$(grep -c "^# peer: " <<<"$output")" = "$1" ] && [ "$(grep -c "^# peer: $2" <<<"$output")" = "$1" ]
}

# fail_check, with ENV on rank 1 alone: failing ENV SHAPE WHAT [SECONDS]
failing() {
    [ -x "$E/gpu/fail_check" ] || skip "not built"
    run timeout 60 mpirun -np 3 "$ROOT/tests/cmd/on-rank" 1 "$1" "$E/gpu/fail_check" "${@:2}"
    echo "$output"
    [ "$status" = 0 ] && [[ "$output" == *"1.."* ]] && [[ "$output" != *"not ok"* ]]
}

@test "equal groups" {
    check 1 1x1
    check 4 2x2
}

@test "ragged groups" {
    check 5 '[3,2]'
}

@test "work on the GPU that is done late, in any order that the events allow" {
    EMULATED_LATE=1 check 3 '[2,1]'
    EMULATED_LATE=2 check 4 2x2
}

@test "collectives of several streams begin in one order on all ranks" {
    [ -x "$E/gpu/order_check" ] || skip "not built"
    run -0 timeout 60 mpirun -np 4 "$E/gpu/order_check"
    [ "$(grep -c '^ok' <<<"$output")" = 1 ]
}

@test "over MPI: a GPU's data go through the host by pieces, while rows go on; the same bits" {
    [ -x "$E/gpu/stage_check" ] || skip "not built"
    stages 2 1x2
    stages 3 '[2,1]'
    EMULATED_LATE=1 stages 2 2x1
    EMULATED_LATE=2 stages 4 2x2
}

@test "over MPI through host memory that the driver does not pin: the same bits, by pieces" {
    [ -x "$E/gpu/stage_check" ] || skip "not built"
    export EMULATED_PIN=0
    stages 2 1x2
    stages 3 '[2,1]'
    EMULATED_LATE=1 stages 2 2x1
    EMULATED_LATE=2 stages 4 2x2
}

@test "a build without NCCL says so" {
    [ -x "$B/gpu/nccl_check" ] || skip "not built"
    run -0 "$B/gpu/nccl_check"
    [[ "$output" == "1..0 # SKIP "* ]]
}

@test "an NCCL error in mid-run comes out on every rank, with rank, call and place" {
    [ -x "$E/gpu/fail_check" ] || skip "not built"
    EMULATE_NCCL=fail:60 run timeout 60 mpirun -np 3 "$E/gpu/fail_check" '[2,1]' run
    echo "$output"
    [ "$status" = 0 ]
    [[ "$output" != *"not ok"* ]]
    told 3 'rank [0-2]: ncclGroupEnd in step .*, track ., with rank .: remote process'
}

@test "a run over all tracks that fails or hangs: their communicators end together" {
    failing EMULATE_NCCL=fail:60 '[2,1]' run
    told 3 "rank 1: ncclGroupEnd in step .*, track ., with rank .: remote process"
    failing EMULATE_NCCL=stall:60 '[2,1]' run 3
    told 3 "rank [0-2]: ncclGroupEnd in step .*, track ., with rank .: no answer from other ranks for 3 s"
}

@test "a GPU that fails on one rank in mid-run: the others do not wait for the deadline" {
    for fault in cudaEventQuery:300 cudaEventRecord:400 ncclGroupEnd:50; do
        failing EMULATED_FAIL=$fault '[2,1]' run
        told 3 "rank 1: .*in step .*, track .*: device cuda:0 (.*) failed at cuda"
    done
    failing EMULATED_FAIL=cudaLaunchKernel:40 '[2,1]' run
    told 3 "rank 1: device cuda:0 (.*) failed at the kernel that adds in step [0-9]*: unspec"
}

@test "a handle that is freed while its run is half in the queues, or behind another's" {
    [ -x "$E/gpu/fail_check" ] || skip "not built"
    for seed in 1 2; do
        EMULATED_LATE=$seed run timeout 60 mpirun -np 2 "$E/gpu/fail_check" 1x2 partly
        echo "$output"
        [ "$status" = 0 ]
        [ "$(grep -c '^ok' <<<"$output")" = 2 ]
        EMULATED_LATE=$seed run timeout 60 mpirun -np 2 "$E/gpu/fail_check" 1x2 queued
        echo "$output"
        [ "$status" = 0 ]
        told 2 'rank 1: a run behind another one'
    done
}
