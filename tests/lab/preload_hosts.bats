# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# libparo-mpi.so preloaded between hosts, which are the groups: what goes by messages, of which
# on one host there are none.
# shellcheck disable=SC2086

bats_require_minimum_version 1.5.0
load lab.bash

setup_file() {
    find_lab || return 0
    cd "$BATS_FILE_TMPDIR" || return
    mpicc -O1 -o ways "$ROOT/tests/preload/mpi_ways.c" &&
        mpicc -O1 -o tp "$ROOT/examples/mpi/tp.c" -lm &&
        mpicc -D_GNU_SOURCE -O1 -o user "$ROOT"/tests/preload/mpi_user*.c -lm -lpthread
}

setup() {
    [ -z "${SAN-}" ] || skip "a sanitizer wants to be preloaded first"
    [ -z "${NO_LAB-}" ] || skip "no namespaces here: $NO_LAB"
    cd "$BATS_FILE_TMPDIR" || return
    unset PARO_MPI_MIN_BYTES PARO_MPI_MEMORY PARO_MPI_TRACE PARO_TOPO PARO_TUNING
    export PARO_MPI_MODE=always
}

# preloaded OPTION... -- PROGRAM [ARG...]: without HAN, which is Open MPI 5's default between hosts,
# and whose all-gather is wrong where ranks describe the same values by different datatypes.
preloaded() {
    local lab=(--mca coll ^han)
    while [ "$1" != -- ]; do lab+=("$1"); shift; done
    run timeout 200 paro-lab "${lab[@]}" -- env LD_PRELOAD="$B/libparo-mpi.so" "${@:2}"
    echo "$output" | cut -c 1-200 | tail -n 20
    [ "$status" = 0 ] && grep -qE '^ok' <<< "$output"
}

@test "hosts are groups: by slot, by node, ragged, one rank on each" {
    export PARO_MPI_MIN_BYTES=0
    preloaded -g 2 -p 2 -- ./user -n 1 -m 4096
    preloaded -g 3 -p 3,1,2 --map-by node -- ./user -n 1 -m 4096
    preloaded -g 4 -p 1 -- ./user -n 1 -m 4096
}

@test "a message on its way arrives although its sender waits for its own host alone" {
    for algo in tree two-level-tree ho-ring; do
        printf 'format: paro-tuning/1\nmembers: [2, 2]\nrules:\n' > tuning.yaml
        for op in all-reduce broadcast; do
            printf '  - op: %s\n    from_bytes: 0\n    algo: %s\n    chunk_bytes: 61440\n' \
                $op $algo >> tuning.yaml
        done
        PARO_TUNING=$PWD/tuning.yaml PARO_MPI_TRACE=1 preloaded -g 2 -p 2 -- ./ways flight
        grep -q '^paro-mpi: MPI_Allreduce .*: 13 calls, 13 ours' <<< "$output"
    done
}

@test "on a slow fabric ours has the verdict" {
    PARO_MPI_MODE=measure PARO_MPI_TRACE=1 preloaded -g 2 -p 2 -r 100mbit -- ./ways again
    grep -qE '^paro-mpi: MPI_Allreduce .*; trial: MPI ' <<< "$output"
}

# Its sums are exact in any order.
@test "tensor-parallel layers have the same checksum with the library and without" {
    local plain
    for shape in '-g 2 -p 2' '-g 3 -p 3,1,2'; do
        plain=$(timeout 100 paro-lab $shape -- ./tp 2 256 64 2)
        echo "$plain"
        run -0 timeout 100 paro-lab $shape -- env LD_PRELOAD="$B/libparo-mpi.so" PARO_MPI_TRACE=1 ./tp 2 256 64 2
        [[ "$plain" == *"checksum "?*.* ]]
        grep -q "; ${plain##*; }$" <<<"$output"
        grep -qE '^paro-mpi: MPI_Allreduce .*: 16 calls, 16 ours' <<< "$output"
    done
}
