# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Programs that know MPI alone, compiled as their users would: the checker mpi_user, a library
# that is wrong, libmpi_spoil.so, and the examples.

load mpi

setup_file() {
    command -v mpicc > /dev/null || return 0
    cd "$BATS_FILE_TMPDIR" || return
    local warn='-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Wshadow -Werror'
    # shellcheck disable=SC2086
    mpicc $warn -o mpi_user "$ROOT"/tests/shim/mpi_user*.c -lm -lpthread &&
        mpicc $warn -shared -fPIC -o libmpi_spoil.so "$ROOT/tests/shim/mpi_spoil.c" &&
        mpicc $warn -o cg "$ROOT/examples/mpi/cg.c" -lm &&
        mpicc $warn -o latency "$ROOT/examples/mpi/latency.c" || return
    find_lab || true
}

setup() {
    [ -z "${SAN-}" ] || skip "a sanitizer wants to be preloaded first"
    command -v mpicc > /dev/null || skip "no mpicc here"
    cd "$BATS_FILE_TMPDIR" || return
    PATH=$BIN:$PATH
}

# spoiled HOW PROGRAM [ARG...]: on three ranks
spoiled() {
    SPOIL=$1 run timeout 120 mpirun -np 3 -x SPOIL \
        bash -c 'LD_PRELOAD=./libmpi_spoil.so exec "$@"' - "${@:2}"
    echo "$1: status $status"
    echo "$output" | cut -c 1-200 | head -n 40
}
