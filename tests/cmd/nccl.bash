# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# What the tests of schedules over NCCL share: nccl_check on a GPU in software, NCCL over MPI.

load mpi

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
