# SPDX-License-Identifier: BSD-3-Clause
# What runs on two threads, a rank's own and the one that communicates, under the thread
# sanitizer: `make check-tsan`.  Small cases: the sanitizer makes each many times slower.

setup() {
    [ "${SAN-}" = thread ] || skip "a build without the thread sanitizer: make check-tsan"
    export OMP_NUM_THREADS=1 # the thread library of oneDNN is not instrumented
}

check() { # RANKS PROGRAM ARG...
    run timeout 250 mpirun -np "$1" "$B/mpi/$2" "${@:3}"
    printf '%s\n' "$output" | tail -n 60
    [ "$status" = 0 ] && [[ "$output" != *"WARNING: ThreadSanitizer"* ]]
}

@test "collectives through shared memory" {
    check 4 coll_check 2x2
}

@test "collectives by messages, ragged groups" {
    check 3 coll_check '[2,1]' no-shared
    check 3 coll_check '[2,1]' no-shared narrow
}

@test "the training step" {
    check 3 engine_check '[2,1]' "$ROOT/tests/data/llama_tied.json" bf16 2 2 IIG
    check 3 engine_check '[2,1]' "$ROOT/tests/data/llama_tied.json" f32 1 2 NNN
    check 3 engine_check '[2,1]' "$ROOT/tests/data/llama_tied.json" bf16 2 2 IGN params8 grads8
}
