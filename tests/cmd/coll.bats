#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Every conversion between layouts by every algorithm, on real ranks: build/mpi/coll_check.

load mpi

setup() {
    # Open MPI's modules are gone when leaks are counted: what they keep has no name any more.
    [ -z "${SAN-}" ] || export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
}

check() {
    run mpirun -np "$1" "$B/mpi/coll_check" "${@:2}"
    [ "$status" = 0 ] && [[ "${lines[0]}" == "ok "[1-9]* ]]
}

@test "one rank alone" {
    run "$B/mpi/coll_check" 1x1
    [ "$status" = 0 ] && [[ "$output" == "ok "[1-9]* ]]
}

@test "shared memory inside the host" {
    check 2 2x1
    check 3 1x3
    check 4 2x2
    check 5 '[3,2]'
    check 6 3x2
    check 6 '[3,2,1]'
}

@test "messages inside the host too" {
    check 4 2x2 no-shared
    check 5 '[3,2]' no-shared
    check 6 3x2 no-shared
}

@test "ranks placed by node: groups are not blocks of ranks" {
    check 4 2x2 by-node
    check 5 '[3,2]' by-node
    check 5 '[3,2]' by-node no-shared
}

@test "a window much smaller than a queue" {
    check 4 2x2 no-shared narrow
    check 5 '[3,2]' by-node no-shared narrow
}

@test "what crosses groups as int8 blocks" {
    check 2 2x1 coded
    check 4 2x2 coded
    check 5 '[3,2]' coded by-node no-shared
    check 6 3x2 coded narrow
}

@test "auto without a table is refused, on every rank" {
    run mpirun -np 2 "$B/mpi/coll_check" 2x1 untuned
    [ "$status" = 0 ]
    [ "$(grep -c "^rank [01]: .*'auto'.* tuning table" <<< "$output")" = 2 ]
}

@test "groups of another number of ranks are refused" {
    run mpirun -np 3 "$B/mpi/coll_check" 2x2
    [ "$status" != 0 ]
    [[ "$output" == *"groups "*"4 ranks"*"3 ranks"* ]]
}
