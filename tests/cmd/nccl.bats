#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Schedules over NCCL, and over MPI through stages: build-emulated/gpu/nccl_check and stage_check
# on a GPU in software, NCCL over MPI.

load nccl

stages() {
    run timeout 100 mpirun -np "$1" "$E/gpu/stage_check" "$2"
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
    run timeout 60 mpirun -np 4 "$E/gpu/order_check"
    echo "$output"
    [ "$status" = 0 ] && [ "$(grep -c '^ok' <<<"$output")" = 1 ]
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
    run "$B/gpu/nccl_check"
    [ "$status" = 0 ] && [[ "$output" == "1..0 # SKIP "* ]]
}
