# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Programs that know MPI alone, which a library that takes their collectives over is tried with:
# the checker tests/preload/mpi_user, which calls everything twice and compares, and the examples.
# Here with nothing preloaded, and with a library that is wrong in a way of tests/preload/mpi_spoil.c, which
# the checker must notice.
# shellcheck disable=SC2016,SC2086

bats_require_minimum_version 1.5.0
load ../lab/lab

setup_file() {
    command -v mpicc > /dev/null || return 0
    cd "$BATS_FILE_TMPDIR" || return
    local warn='-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Wshadow -Werror'
    mpicc $warn -o mpi_user "$ROOT"/tests/preload/mpi_user*.c -lm -lpthread &&
        mpicc $warn -shared -fPIC -o libmpi_spoil.so "$ROOT/tests/preload/mpi_spoil.c" &&
        mpicc $warn -o cg "$ROOT/examples/mpi/cg.c" -lm &&
        mpicc $warn -o tp "$ROOT/examples/mpi/tp.c" -lm &&
        mpicc $warn -o latency "$ROOT/examples/mpi/latency.c" || return
    find_lab || true
}

setup() {
    [ -z "${SAN-}" ] || skip "a sanitizer wants to be preloaded first"
    command -v mpicc > /dev/null || skip "no mpicc here"
    cd "$BATS_FILE_TMPDIR" || return
}

# spoiled HOW PROGRAM [ARG...]: on three ranks
spoiled() {
    SPOIL=$1 run timeout 120 mpirun -np 3 -x SPOIL \
        bash -c 'LD_PRELOAD=./libmpi_spoil.so exec "$@"' - "${@:2}"
    echo "$1: status $status"
    echo "$output" | cut -c 1-200 | head -n 40
}

# right RANKS [ARG...]: the checker with nothing preloaded
right() {
    run timeout 120 mpirun -np "$1" ./mpi_user "${@:2}" quick
    echo "$output"
    [ "$status" = 0 ] && grep -qE '^ok: [0-9]{4,} calls, 0 refused' <<<"$output" &&
        ! grep -q mismatch <<<"$output"
}

# noticed HOW CALL...: status 1 and a line for each of the calls
noticed() {
    local call
    spoiled "$1" ./mpi_user -f quick
    [ "$status" = 1 ] && grep -q '^wrong: ' <<<"$output" || return
    for call in "${@:2}"; do
        grep -q "^mismatch: MPI_$call on " <<<"$output" || return
    done
}

ALL='Allgather Allgatherv Reduce_scatter Reduce_scatter_block Allreduce Bcast'

@test "the library itself is right" {
    right 1
    right 5
    right 4 -1 -s 7
    [[ "$output" != *threads* ]]
}

@test "-q says nothing, and options that are wrong are told" {
    run -0 timeout 120 mpirun -np 2 ./mpi_user -q quick
    [ -z "$output" ]
    run -2 ./mpi_user slow
    [[ "$output" == "Usage: mpi_user "* ]]
}

@test "conjugate gradient finds the solution, and says so if it does not" {
    for ranks in 1 4 7; do
        run --separate-stderr mpirun -np $ranks ./cg 10007
        printf '%s\n' "$output" "${stderr-}"
        [ "$status" = 0 ]
        [[ "$output" == "10007 unknowns on $ranks ranks: 40 iterations in "*"; largest error "* ]]
        [[ "$output" != *WRONG* ]]
    done
    spoiled order ./cg 10007
    [ "$status" = 1 ] && [[ "$output" == *WRONG* ]]
}

# What ranks add is rounded to 2^-12, by 2^-13 at most: over 2 * 3 sums of 96 * 64 such errors of
# either sign, and a mean of them, the checksum moves by far less than 0.01.
@test "tensor parallelism: any number of ranks computes one model, and a wrong sum shows" {
    local sum one='' bad
    for ranks in 1 2 3 4 5; do
        run --separate-stderr mpirun -np $ranks ./tp 3 96 64 2
        printf '%s\n' "$output" "${stderr-}"
        [ "$status" = 0 ]
        [[ "$output" =~ ^3\ layers\ of\ width\ 64\ on\ $ranks\ ranks:\ .*checksum\ (-?[0-9.]+)$ ]]
        sum=${BASH_REMATCH[1]}
        one=${one:-$sum}
        awk -v a="$sum" -v b="$one" 'BEGIN { exit !((a - b) ^ 2 < 1e-4 && b ^ 2 > 1e-3) }'
        [ $ranks != 3 ] || bad=$sum
    done
    spoiled order ./tp 3 96 64 2
    [[ "$output" == *"checksum "* ]]
    [[ "$output" != *"checksum $bad"* ]]
    # On one rank alone.
    run timeout 120 mpirun -np 3 bash -c '[ ${PMI_RANK-$OMPI_COMM_WORLD_RANK} != 1 ] || export SPOIL=order
        LD_PRELOAD=./libmpi_spoil.so exec ./tp 3 96 64 2'
    echo "$output"
    [ "$status" = 1 ]
    grep -q ': WRONG, ranks differ$' <<<"$output"
    run mpirun -np 1 ./tp 1 2 3
    [[ "$output" == *"tp: expected numbers from 1, WIDTH a multiple of 16"* ]]
}

@test "the benchmark: a row for each size, checked if asked for" {
    run --separate-stderr mpirun -np 3 ./latency -b 1000 -e 70000 -n 2 -w 1 -c
    echo "$output"
    [ "$status" = 0 ]
    [ "${#lines[@]}" = 29 ]
    [ "$(grep -c ' ok$' <<<"$output")" = 28 ]
    run --separate-stderr mpirun -np 2 ./latency -o bcast,allreduce -b 4 -e 8 -n 1
    echo "$output"
    [ "$status" = 0 ]
    [ "${#lines[@]}" = 5 ]
    [ "$(grep -c ' -$' <<<"$output")" = 4 ]
    spoiled order ./latency -b 1024 -e 1024 -n 1 -c
    [ "$status" = 1 ] && [ "$(grep -c ' WRONG$' <<<"$output")" = 4 ]
}

@test "on nodes: all of it, ranks by slot and by node" {
    [ -z "${NO_LAB-}" ] || skip "no namespaces here: $NO_LAB"
    for by in slot node; do
        run -0 timeout 120 paro-lab -g 3 -p 3,2,1 --map-by $by -- ./mpi_user quick
        grep -qE '^ok: [0-9]{4,} calls, 0 refused' <<<"$output"
        run -0 timeout 60 paro-lab -g 3 -p 3,2,1 --map-by $by -- ./cg 20011 40 3
        [[ "$output" == *"on 6 ranks"* ]]
    done
}

@test "noticed: an item that is wrong, items in another order, data of the call before" {
    noticed element $ALL
    grep -qE '^mismatch: MPI_[A-Za-z_]* on [a-z -]+ of [0-9]+, .*, count [0-9]+, root [0-9]+.*, rank [0-9]+: element [0-9]+ is .*, expected ' <<<"$output"
    noticed order $ALL
    noticed stale $ALL
}

@test "noticed: what is written where nothing should be" {
    noticed guard $ALL
    noticed gap Allgatherv
    grep -q 'byte 0 of the receive buffer, which nothing is received in, changed' <<<"$output"
    noticed send ${ALL% *}
    grep -q 'the send buffer changed' <<<"$output"
}

@test "noticed: another root, another order of operands, MPI_IN_PLACE misread" {
    noticed root Bcast
    noticed operand Allreduce
    grep -qE 'matrices in order|the first' <<<"$output"
    noticed place Allgather
}

@test "noticed: errors of another class, or that no handler is told of" {
    noticed class $ALL
    noticed handler $ALL
}

@test "noticed: memory lost, and what is wrong on parts of the ranks or in MPI_Finalize alone" {
    noticed leak Allreduce
    grep -q 'bytes more after' <<<"$output"
    noticed late $ALL
    noticed end $ALL
    [ "$(grep -c '^mismatch' <<<"$output")" = "$(grep -c 'inside MPI_Finalize' <<<"$output")" ]
}
