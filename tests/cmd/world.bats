#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Ranks that come to one opinion, share memory, and do not wait for ever: build/mpi/world_check.

load mpi

setup() {
    # Open MPI's modules are gone when leaks are counted: what they keep has no name any more.
    [ -z "${SAN-}" ] || export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
}

# A rank that never arrives: the others give up at the deadline, here half a second.
gives_up() {
    run mpirun -np 3 "$B/mpi/world_check" "$@"
    [ "$status" = 3 ]
    [[ "$output" == *"ok $1: no "*" from other ranks"*" for 0.5 s"* ]]
}

@test "agreements, texts, broadcasts, peers, shared memory, refusals" {
    for n in 1 2 3 5; do
        run mpirun -np "$n" "$B/mpi/world_check"
        [ "$status" = 0 ] && [ "${lines[0]}" = "ok all" ]
    done
}

@test "an agreement has a deadline" {
    gives_up deadline-agree
}

@test "a barrier has a deadline" {
    gives_up deadline
}

@test "what a peer sends has a deadline" {
    gives_up deadline-peers
}

@test "data through shared memory have a deadline" {
    gives_up deadline-data
}

@test "data in messages have a deadline" {
    gives_up deadline-data no-shared
}

@test "who leaves with an alarm is not waited for" {
    run timeout 40 mpirun -np 3 "$B/mpi/world_check" alarm-left
    [ "$status" = 3 ]
    [[ "$output" == *"ok alarm-left: rank 1 ("*"): something burns"* ]]
}
