#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Collectives over blocks in rank order, and worlds over communicators: build/mpi/vector_check.

load mpi

setup() {
    # Open MPI's modules are gone when leaks are counted: what they keep has no name any more.
    [ -z "${SAN-}" ] || export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
}

right() {
    run mpirun -np "$1" "$B/mpi/vector_check" "$2"
    [ "$status" = 0 ] && [ "$output" = ok ]
}

@test "every operation, algorithm, count and root: one group, equal ones, ragged ones, placed anyhow" {
    right 1 hosts
    right 3 hosts
    right 4 2x2
    right 5 '[3,2]'
    right 6 0,1,0,1,2,2
    right 7 '[1,2,4]'
}

@test "a rank that waits for its host lets MPI carry on what the program began before" {
    run timeout 60 mpirun --mca btl tcp,self -np 2 "$B/mpi/vector_check" progress
    [ "$status" = 0 ] && [ "$output" = ok ]
}
