# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# libparo-nccl.so preloaded into a program that knows NCCL alone, build-emulated/preload/nccl_user:
# the same results, and what was ours of its calls.
# shellcheck disable=SC2016

bats_require_minimum_version 1.5.0

setup() {
    E=${B_EMULATED:-${B/build/build-emulated}}
    [ -x "$E/preload/nccl_user" ] || skip "no emulated build here"
    LIB=$E/libparo-nccl.so
    # A sanitizer comes before all else; Open MPI's modules are gone when leaks are counted.
    if [ -n "${SAN-}" ]; then
        export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
        LIB=$(gcc -print-file-name=libasan.so):$LIB
    fi
    cd "$BATS_TEST_TMPDIR" || exit 1
    export E LIB PARO_DEBUG=1
}

# table MEMBERS: few bytes by NCCL, many by ho-ring and two-level
table() {
    printf 'format: paro-tuning/1\nmembers: [%s]\nrules:\n' "$1"
    local op
    for op in all-gather:ho-ring reduce-scatter:ho-ring all-reduce:two-level; do
        printf '  - op: %s\n    from_bytes: 0\n    below_bytes: 2000\n' "${op%:*}"
        printf '    algo: ring\n    chunk_bytes: whole\n'
        printf '  - op: %s\n    from_bytes: 2000\n    algo: %s\n    chunk_bytes: 61440\n' \
            "${op%:*}" "${op#*:}"
    done
}

# preloaded RANKS HOST: HOST is arithmetic on the rank, $R
preloaded() {
    export HOST=$2
    run mpirun -np "$1" bash -c 'R=$OMPI_COMM_WORLD_RANK
        [ "$R" != 1 ] || export PARO_TUNING=${ODD:-${PARO_TUNING-}}
        NCCL_HOSTID=h$((HOST)) LD_PRELOAD=$LIB exec "$E/preload/nccl_user"'
    echo "$output"
    [ "$status" = 0 ] && grep -qx "ok ${OKS-64}" <<<"$output"
}

said() {
    [ "$(grep -c "$1" <<<"$output")" = "$2" ]
}

# ends WHAT [ODD]: nccl_end WHAT, on two hosts of two; rank 1 with ODD in its
# environment
ends() {
    table 2,2 >tuning.yaml
    export WHAT=$1 ODD=${2:-ODD=} PARO_TUNING=tuning.yaml
    run timeout 60 mpirun -np 4 bash -c 'R=$OMPI_COMM_WORLD_RANK
        export NCCL_HOSTID=h$((R / 2)) LD_PRELOAD=$LIB
        [ "$R" != 1 ] || export "$ODD"
        exec "$E/preload/nccl_end" $WHAT'
    echo "$output"
}

# metered RANKS: the user, with records; each rank recorded as many calls, all of which ended
metered() {
    rm -rf m
    PARO_METER=$PWD/m preloaded "$1" 'R / 2'
    [ "$(find m -name '*.nccl' | wc -l)" = "$1" ]
    perl "$ROOT/tests/preload/meter_calls" 41 m/*.nccl
    "$BIN/horing-watch" m > out || [ $? -le 2 ]
    cat out
    grep -qE "^WATCH [OCW][A-Z]* - " out
}

# hung_by RANK: soon, ranks wait in an all-reduce that it never comes to
hung_by() {
    for _ in $(seq 300); do
        sleep 0.1
        "$BIN/horing-watch" --hang=0.5 m > out || true
        ! grep -q "^WATCH CRITICAL - hung: .* in all-reduce of 62.5 KiB 2 .*, rank $1 (.*) never arrived" out || return 0
    done
    cat out
    return 1
}

@test "with PARO_METER every call that NCCL or ours does is recorded, and has ended" {
    unset PARO_TUNING
    metered 4
    table 2,2 >tuning.yaml
    PARO_TUNING=$PWD/tuning.yaml metered 4
}

@test "with PARO_METER horing-watch names a late rank, and whom a hang waits for" {
    export PARO_METER=$PWD/m
    ends late
    [ "$status" = 0 ]
    said '^ok$' 1
    perl "$ROOT/tests/preload/meter_calls" 121 m/*.nccl
    run "$BIN/horing-watch" m
    echo "$output"
    [[ $output == 'WATCH '*' - rank 1 ('*' late in '*' of all-reduces: its own compute'* ]]
    rm -rf m
    ends 'abort 4000' > ended &
    hung_by 1
    wait $!
}

@test "the program alone" {
    run -0 --separate-stderr mpirun -np 4 "$E/preload/nccl_user"
    [ "$output" = "ok 64" ]
}

@test "two hosts of two: what the table says is ours, the rest is passed on" {
    table 2,2 >tuning.yaml
    PARO_TUNING=tuning.yaml preloaded 4 R/2
    said 'hosts 2x2: ready' 4
    # Of 64 calls 18 are of one element, 4 unusual.
    said ': ours$' $((4 * 42))
    said ': 42 collectives taken over' 4
    said 'the stream is captured' 4
    said 'an unknown type or operation' 4
    said 'an unknown communicator' 4
    said 'of 16000: passed on: the table is for other groups' 3
}

@test "ranks by slot, ragged hosts, work that is done late" {
    table 2,2 >tuning.yaml
    PARO_TUNING=tuning.yaml EMULATED_LATE=1 preloaded 4 R%2
    said 'hosts 2x2: ready' 4
    table 3,2 >tuning.yaml
    PARO_TUNING=tuning.yaml EMULATED_LATE=2 preloaded 5 'R%2'
    said 'hosts \[3,2\]: ready' 5
    said ': 0 collectives taken over' 4 # on a part of the ranks
}

@test "the thread's GPU stays what it was" {
    table 2,2 >tuning.yaml
    OKS=65 EMULATED_GPUS=2 PARO_TUNING=tuning.yaml preloaded 4 R/2
    said ': 43 collectives taken over' 4
}

@test "a table made for a fabric" {
    PARO_TOPO=synth:2x2,intra=200GB/s:3us,inter=1GB/s:12us preloaded 4 R/2
    said 'hosts 2x2: ready' 4
}

@test "nothing is ours: one host, no table, another table on one rank, PARO_DISABLE" {
    table 2,2 >tuning.yaml
    PARO_TUNING=tuning.yaml preloaded 4 0
    said 'of 4: hosts 1x4: one host' 4
    said ': ours$' 0
    preloaded 4 R/2
    said 'of 4: hosts 2x2: neither PARO_TUNING nor PARO_TOPO is set' 4
    PARO_TUNING=absent.yaml preloaded 4 R/2
    said "of 4: hosts 2x2: .*absent.yaml" 4
    sed 's/2000/3000/' tuning.yaml >odd.yaml
    ODD=odd.yaml PARO_TUNING=tuning.yaml preloaded 4 R/2
    said 'of 4: hosts unknown: ranks read different tables' 4
    said ': ours$' 0
    PARO_DISABLE=1 PARO_TUNING=tuning.yaml preloaded 4 R/2
    said 'of 4: hosts unknown: PARO_DISABLE' 4
}

@test "a communicator that is aborted while a call of ours waits in it: the call ends" {
    ends abort
    [ "$status" = 0 ]
    said ': over 0$' 4
    said ': all-reduce 6$' 3
    said 'aborts the communicator$' 3
    ends revoke
    [ "$status" = 0 ] && said ': over 0$' 4 && said ': all-reduce 6$' 3
}

@test "a group that is only simulated is over" {
    ends simulate
    [ "$status" = 0 ] && said '^ok$' 1 && said ': 1 collectives taken over$' 4
}

@test "a graph that is captured on another stream is not spoilt" {
    ends capture
    [ "$status" = 0 ] && said '^ok$' 1 && said ': 1 collectives taken over$' 4
}

@test "a program that has not asked about an error of its own, or captures what waits for all" {
    ends manners
    [ "$status" = 0 ]
    said '^ok$' 1
    said ': over 0$' 4
    said ': 1 collectives taken over$' 12
}

@test "communicators that some ranks make and destroy in groups: all are known" {
    ends grouped
    [ "$status" = 0 ] && said '^ok$' 1 && said 'ready$' 8 && said 'ours$' 8
}

@test "NCCL_COMM_BLOCKING=0, of which the program says nothing: all is passed on" {
    NCCL_COMM_BLOCKING=0 ends calm
    [ "$status" = 0 ] && said '^ok$' 1 && said 'unknown communicator$' 4
}

@test "one rank cannot do its part: it says so every time, the others at the deadline" {
    export PARO_NCCL_DEADLINE=2
    local fault
    for fault in cudaStreamCreate:3 cudaEventCreate:2 cudaEventCreate:6 cudaMalloc:5; do
        ends twice EMULATED_FAIL=$fault
        [ "$status" = 0 ] && said ': over 0$' 4 || { echo $fault; return 1; }
        said 'rank 1: all-reduce [13]$' 2
        said 'rank [023]: all-reduce 6$' 6
        said 'no .* from other ranks for 2 s$' 6
    done
}

@test "one rank without the library: the others end at the deadline" {
    PARO_NCCL_DEADLINE=2 ends grouped LD_PRELOAD=
    [ "$status" != 0 ]
    [ "$status" != 124 ]
    said 'all ranks must preload: no messages from other ranks for 2 s$' 3
}

@test "silent unless asked" {
    table 2,2 >tuning.yaml
    unset PARO_DEBUG
    PARO_TUNING=tuning.yaml preloaded 4 R/2
    # A sanitizer is surprised, once, that the GPU in software has stacks of its own.
    local odd='^==[0-9]*==WARNING: ASan is ignoring requested|^False positive|^For details see'
    [ "$(grep -vE "$odd" <<<"$output")" = "ok 64" ]
}

@test "nothing is exported but what is intercepted" {
    run bash -c "nm -D --defined-only '$E/libparo-nccl.so' | awk '\$2 == \"T\" {print \$3}' | paste -sd' '"
    [ "$output" = "ncclAllGather ncclAllReduce ncclCommAbort ncclCommDestroy ncclCommFinalize ncclCommInitRank ncclCommInitRankConfig ncclCommRevoke ncclCommSplit ncclGroupEnd ncclGroupSimulateEnd ncclGroupStart ncclReduceScatter pthread_create" ]
}

@test "a header that changes is in the library again" {
    make -C "$ROOT" -n CUDA=emulated SAN="${SAN-}" DEPS=no -W lib/exec/exec_nccl.h all > list
    grep -q -- "-c -o ${E##*/}/lib/preload/preload_nccl_comm.o" list
}
