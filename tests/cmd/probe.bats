#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# What a fabric is measured by carries what it says: build/mpi/probe_check.

load mpi

setup() {
    [ -z "${SAN-}" ] || export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
}

# carries RANKS SHAPE RINGS
carries() {
    run timeout 100 mpirun -np "$1" "$B/mpi/probe_check" "$2"
    [ "$status" = 0 ] && [ "${lines[0]}" = "ok $2 turns 10 rings $3" ]
}

@test "turns and rings through any groups bring every word to its place" {
    carries 4 4x1 6
    carries 6 3x2 3
    carries 7 '[3,1,2,1]' 6
    carries 2 1x2 0
}
