# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# What a fabric is measured by carries what it says: build/mpi/probe_check.

setup() { [ -z "${SAN-}" ] || export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"; }

# carries RANKS SHAPE RINGS
carries() {
    run timeout 100 mpirun -np "$1" "$B/mpi/probe_check" "$2"
    [ "$status" = 0 ] && grep -qxF "ok $2 turns 10 rings $3" <<<"$output"
}

# What the GPU in software is to do stands before it: NAME=VALUE carries_on ...
carries_on() {
    local check=${B_EMULATED:-${B/build/build-emulated}}/mpi/probe_check
    [ -x "$check" ] || skip "no emulated build here"
    # shellcheck disable=SC2016
    NCCL_MULTI_RANK_GPU_ENABLE=1 run timeout 100 mpirun -np "$1" sh -c \
        'NCCL_HOSTID=h$OMPI_COMM_WORLD_RANK exec "$@"' sh "$check" "$2" cuda:0 "${@:4}"
    echo "$output"
    [ "$status" = 0 ] && grep -qxF "ok $2 turns 10 rings $3" <<<"$output"
}

@test "turns and rings through any groups bring every word to its place" {
    carries 4 4x1 6
    carries 6 3x2 3
    carries 7 '[3,1,2,1]' 6
    carries 2 1x2 0
}

@test "the same from a GPU's memory to another's, whenever its work is done" {
    carries_on 4 4x1 6
    EMULATED_LATE=1 carries_on 7 '[3,1,2,1]' 6
}

@test "a bit that a copy flips, and a copy that is lost, are found on the side where they were" {
    for how in flip lose; do
        ! EMULATED_COPY=$how-out:3 carries_on 7 '[3,1,2,1]' 6 || return 1
        grep -q 'rank [0-9]*: words are as they were in the GPU' <<<"$output"
        ! EMULATED_COPY=$how-in:40 carries_on 7 '[3,1,2,1]' 6 || return 1
        grep -q 'rank [0-9]*: and are in the GPU as they arrived' <<<"$output"
        [[ $output != *'as they were sent'* ]]
    done
}

@test "over NCCL, too; and bits that are flipped, going in or coming out" {
    carries_on 4 4x1 6 nccl
    carries_on 2 1x2 0 nccl
    EMULATED_LATE=1 carries_on 7 '[3,1,2,1]' 6 nccl
    ! EMULATED_COPY=flip-in:3 carries_on 3 3x1 3 nccl || return 1
    grep -q 'rank [0-9]*: words are as they were \(in the GPU\|sent\) ' <<<"$output"
    ! EMULATED_COPY=flip-out:4 carries_on 3 3x1 3 nccl || return 1
    grep -q 'rank [0-9]*: words are as they were \(in the GPU\|sent\) ' <<<"$output"
}

@test "a GPU that fails while its products are timed has no rate" {
    # The first few are of the size that is chosen, or first runs; a busy machine makes few more.
    ! EMULATED_FAIL=cublasLtMatmul:8 carries_on 2 2x1 1 || return 1
    grep -q 'a rate of products (rank 0 .*: device cuda:0 .* failed at a product of cuBLASLt' \
        <<<"$output"
}
