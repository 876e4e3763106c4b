# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# The same source built with MPICH, under its mpiexec: collectives, training, ends, the preloaded library.
# MPI=mpich sh tests/run runs other files so.

bats_require_minimum_version 1.5.0

setup_file() {
    command -v mpicc.mpich >/dev/null || return 0
    export W=$ROOT/build-mpich TRAIN=$BATS_FILE_TMPDIR/train
    make -C "$ROOT" -s DEPS=no MPI=mpich all build-mpich/mpi/{coll,vector,world}_check >"$BATS_FILE_TMPDIR/made" 2>&1 ||
        { tail -n 20 "$BATS_FILE_TMPDIR/made" && return 1; }
}

setup() {
    command -v mpicc.mpich >/dev/null || skip "no MPICH here"
    [ -z "${SAN-}" ] || skip "a build without sanitizers"
    cd "$BATS_TEST_TMPDIR" || return
}

on() { timeout 100 mpiexec.mpich -n "$@"; }

@test "MPICH: collectives, blocks in rank order and the world of ranks on 1 to 6 ranks" {
    local n shape
    while read -r n shape; do
        run -0 on "$n" "$W/mpi/coll_check" "$shape" </dev/null
        [[ "${lines[0]}" == "ok "[1-9]* ]]
    done <<<$'1 1x1\n2 2x1\n3 1x3\n4 2x2\n5 [3,2]\n6 3x2'
    run -0 on 5 "$W/mpi/vector_check" '[3,2]'
    [ "$output" = ok ]
    run -0 on 3 "$W/mpi/world_check"
    [ "${lines[0]}" = 'ok all' ]
}

@test "MPICH: a rank that never answers is reported by the deadline, with the status" {
    local what
    for what in deadline-agree deadline-data alarm-left; do
        run -3 on 3 "$W/mpi/world_check" $what
        [[ "$output" == *"ok $what: "* ]]
    done
}

@test "MPICH: paro-train --exact has Open MPI's losses and hashes; paro-bench names the library" {
    paro-plan -m "$MODELS/llama-tiny.json" -i synth:2x2 --seq 32 >plan.yaml
    seq 20000 >text
    mpirun -np 4 paro-train plan.yaml -d text -o open --steps 3 --exact
    on 4 "$W/bin/paro-train" plan.yaml -d text -o other --steps 3 --exact
    for run in open other; do
        grep -oE '"(loss|grad_norm|state_hash)":[^,}]*' $run/log.jsonl >$run.bits
    done
    [ "$(grep -c state_hash open.bits)" = 3 ]
    diff open.bits other.bits
    on 2 "$W/bin/paro-bench" --json --algo mpi -b 4K -e 4K -n 1 -w 1 | grep -q 'MPICH'
}

@test "MPICH: no rank outlives one that is killed" {
    paro-plan -m "$MODELS/llama-tiny.json" -i synth:1x3 --seq 32 >plan.yaml
    seq 20000 >text
    # shellcheck disable=SC2016 # the rank's
    run on 3 sh -c '[ "$PMI_RANK" != 1 ] || (sleep 3; kill -KILL $$) & exec "$@"' sh \
        "$W/bin/paro-train" plan.yaml -d text -o run --steps 999999
    [ "$status" != 0 ]
    [ "$status" != 124 ]
}

@test "the preloaded library serves the MPI it was built for, and refuses Open MPI in one line" {
    mpicc.mpich -o own "$ROOT/tests/preload/mpi_ways.c"
    mpicc -o foreign "$ROOT/tests/preload/mpi_ways.c"
    export PARO_TOPO=synth:2x2 PARO_MPI_MODE=always PARO_MPI_TRACE=1
    run -0 on 4 env LD_PRELOAD="$W/libparo-mpi.so" ./own again
    grep -q '^paro-mpi: MPI_Allreduce .*: 20 calls, 20 ours' <<<"$output"
    # Its handles do not fit into MPICH's.
    run timeout 60 mpirun -np 4 env LD_PRELOAD="$W/libparo-mpi.so" ./foreign again
    [ "$status" = 2 ]
    [ "$(grep -cxE "paro-mpi: found MPI 'Open MPI v[^']+', expected MPICH or a library with its ABI: no call can be passed to it" <<<"$output")" = 1 ]
}

@test "libparo.pc of this build requires MPICH" {
    make -C "$ROOT" -s DEPS=no MPI=mpich PREFIX="$PWD/prefix" install
    grep -qx 'Requires: mpich' prefix/lib/pkgconfig/paro.pc
}
