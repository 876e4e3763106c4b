#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
#
# The checker of preloaded libraries, tests/shim/mpi_user, with one that is wrong in a way of
# tests/shim/mpi_spoil.c: which it must notice.

load ../lab/lab
load mpi_user

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

@test "noticed: an item that is wrong, items in another order, data of the call before" {
    # shellcheck disable=SC2086
    noticed element $ALL
    grep -qE '^mismatch: MPI_[A-Za-z_]* on [a-z -]+ of [0-9]+, .*, count [0-9]+, root [0-9]+.*, rank [0-9]+: element [0-9]+ is .*, expected ' <<<"$output"
    # shellcheck disable=SC2086
    noticed order $ALL
    # shellcheck disable=SC2086
    noticed stale $ALL
}

@test "noticed: what is written where nothing should be" {
    # shellcheck disable=SC2086
    noticed guard $ALL
    noticed gap Allgatherv
    grep -q 'byte 0 of the receive buffer, which nothing is received in, changed' <<<"$output"
    # shellcheck disable=SC2086
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
    # shellcheck disable=SC2086
    noticed class $ALL
    # shellcheck disable=SC2086
    noticed handler $ALL
}

@test "noticed: memory lost, and what is wrong on parts of the ranks or in MPI_Finalize alone" {
    noticed leak Allreduce
    grep -q 'bytes more after' <<<"$output"
    # shellcheck disable=SC2086
    noticed late $ALL
    # shellcheck disable=SC2086
    noticed end $ALL
    [ "$(grep -c '^mismatch' <<<"$output")" = "$(grep -c 'inside MPI_Finalize' <<<"$output")" ]
}
