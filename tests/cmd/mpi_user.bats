#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
#
# Programs that know MPI alone, which a library that takes their collectives over is tried with:
# the checker tests/shim/mpi_user, which calls everything twice and compares, and the examples.
# Here with nothing preloaded.

load ../lab/lab
load mpi_user

# right RANKS [ARG...]: the checker with nothing preloaded
right() {
    run timeout 120 mpirun -np "$1" ./mpi_user "${@:2}" quick
    echo "$output"
    [ "$status" = 0 ] && grep -qE '^ok: [0-9]{4,} calls, 0 refused' <<<"$output" &&
        ! grep -q mismatch <<<"$output"
}

@test "the library itself is right" {
    right 1
    right 5
    right 4 -1 -s 7
    [[ "$output" != *threads* ]]
}

@test "-q says nothing, and options that are wrong are told" {
    run timeout 120 mpirun -np 2 ./mpi_user -q quick
    [ "$status" = 0 ] && [ -z "$output" ]
    run ./mpi_user slow
    [ "$status" = 2 ] && [[ "$output" == "Usage: mpi_user "* ]]
}

@test "conjugate gradient finds the solution, and says so if it does not" {
    for ranks in 1 4 7; do
        run mpirun -np $ranks ./cg 10007
        echo "$output"
        [ "$status" = 0 ] && [[ "$output" == "10007 unknowns on $ranks ranks: 40 iterations in "*"; largest error "* ]]
        [[ "$output" != *WRONG* ]]
    done
    spoiled order ./cg 10007
    [ "$status" = 1 ] && [[ "$output" == *WRONG* ]]
}

@test "the benchmark: a row for each size, checked if asked for" {
    run mpirun -np 3 ./latency -b 1000 -e 70000 -n 2 -w 1 -c
    echo "$output"
    [ "$status" = 0 ] && [ "${#lines[@]}" = 29 ] && [ "$(grep -c ' ok$' <<<"$output")" = 28 ]
    run mpirun -np 2 ./latency -o bcast,allreduce -b 4 -e 8 -n 1
    echo "$output"
    [ "$status" = 0 ] && [ "${#lines[@]}" = 5 ] && [ "$(grep -c ' -$' <<<"$output")" = 4 ]
    spoiled order ./latency -b 1024 -e 1024 -n 1 -c
    [ "$status" = 1 ] && [ "$(grep -c ' WRONG$' <<<"$output")" = 4 ]
}

@test "on nodes: all of it, ranks by slot and by node" {
    [ -z "${NO_LAB-}" ] || skip "no namespaces here: $NO_LAB"
    for by in slot node; do
        run timeout 120 paro-lab -g 3 -p 3,2,1 --map-by $by -- ./mpi_user quick
        echo "$output"
        [ "$status" = 0 ] && grep -qE '^ok: [0-9]{4,} calls, 0 refused' <<<"$output"
        run timeout 60 paro-lab -g 3 -p 3,2,1 --map-by $by -- ./cg 20011 40 3
        echo "$output"
        [ "$status" = 0 ] && [[ "$output" == *"on 6 ranks"* ]]
    done
}
