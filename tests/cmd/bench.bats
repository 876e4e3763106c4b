#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# paro-bench on local ranks: rows, JSON, data, wrong options.
# shellcheck disable=SC2016

setup() {
    PATH=$BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
    # as tests/run sets them, for a file run by itself
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
}

fails() {
    local want=$1 text=$2 rc=0
    shift 2
    "$@" > out 2> said < /dev/null || rc=$?
    [ "$rc" = "$want" ] || { echo "status $rc of $*"; cat said; return 1; }
    [ ! -s out ] || { echo "stdout of $*:"; cat out; return 1; }
    grep -qxF "$text" said || { echo "stderr of $*:"; cat said; return 1; }
}

# rows FILE PERL: the JSON Lines of FILE are valid, and PERL holds of @d, the objects.
rows() {
    perl -MJSON::PP -e 'my @d = map { decode_json($_) } <STDIN>; exit !(eval $ARGV[0])' "$2" < "$1"
}

@test "one rank without mpirun" {
    paro-bench -b 4K -e 64K -f 4 -n 2 -w 0 > out
    [ "$(grep -vc '^#' out)" = 27 ]
    [ "$(grep -v '^#' out | awk '$NF != 0' | wc -l)" = 0 ]
    [ -z "$(grep -v '^#' out | awk 'NF != 14')" ]
}

@test "every operation, algorithm and type on [3,2]: no element is wrong" {
    for type in f32 bf16 f16 f64 i32; do
        mpirun -np 5 paro-bench --groups '[3,2]' -b 8 -e 100008 -f 31 -n 1 -w 0 -d $type \
            --algo ring,two-level,ho-ring,mpi --json > out
        rows out '@d == 36 && !grep { $_->{wrong} || $_->{type} ne "'$type'" || $_->{ranks} != 5 ||
            $_->{groups} ne "[3,2]" || $_->{time_s}{min} > $_->{time_s}{median} ||
            $_->{time_s}{median} > $_->{time_s}{max} || $_->{time_s}{min} <= 0 } @d'
    done
}

@test "what a row says follows from its time; slow bytes are those of the schedule" {
    mpirun -np 4 paro-bench --groups 2x2 -b 1M -n 3 -w 1 -i 'synth:2x2,inter=100MB/s' --json > out
    rows out '@d == 9 && !grep { my $n = $_->{op} eq "all-reduce" ? 2 : 1;
        abs($_->{algbw_Bps} * $_->{time_s}{median} / $_->{bytes} - 1) > 1e-9 ||
        abs($_->{busbw_Bps} / $_->{algbw_Bps} - $n * 3 / 4) > 1e-9 ||
        abs($_->{limit_s} - $n * $_->{bytes} / 2 / 100e6) > 1e-9 ||
        abs($_->{limit_fraction} * $_->{time_s}{median} / $_->{limit_s} - 1) > 1e-9 } @d'
    rows out '!grep { my $n = $_->{op} eq "all-reduce" ? 2 : 1;
        $_->{algo} eq "ho-ring" && $_->{slow_bytes} != $n * 524288 ||
        $_->{algo} eq "ring" && $_->{slow_bytes} != $n * 786432 ||
        $_->{algo} eq "mpi" && (defined $_->{slow_bytes} || defined $_->{predicted_s}) ||
        $_->{algo} ne "mpi" && $_->{predicted_s} <= 0 } @d'
}

@test "two-level is predicted by the closed form, q = M/n" {
    # 262144 B to each rank: (g-1)(alpha_e + q/B) + g(m-1)(alpha_i + q/B'), B = 100 MB/s / 2
    mpirun -np 4 paro-bench -b 1M -n 1 -w 0 --op all-gather --algo two-level --json \
        -i 'synth:2x2,intra=1GB/s:10us,inter=100MB/s:100us' > out
    rows out 'abs($d[0]{predicted_s} - (100e-6 + 262144 / 50e6 + 2 * (10e-6 + 262144 / 1e9))) < 1e-12'
}

@test "text: header with units, and rows that end as those of nccl-tests" {
    mpirun -np 4 paro-bench --groups 2x2 -b 64K -e 256K -n 2 -w 1 --algo ho-ring,mpi > out
    grep -q '^# *size .* time *algbw *busbw *wrong$' out
    grep -q '^# *(B) .*(us) *(GB/s) *(GB/s) *$' out
    grep -q 'load average' out
    grep -q '^# port rates (measured): ' out
    grep -v '^#' out | awk 'NF != 14 || $NF != 0 || $(NF - 4) != -1 ||
        ($(NF - 2) * $(NF - 3) * 1e3 / $1 - 1) ^ 2 > 1e-2 { bad = 1; print } END { exit bad || NR != 18 }'
}

@test "wrong options: one line, status 2, nothing printed" {
    fails 2 "paro-bench: --op: operation 'broadcast', expected all-gather, reduce-scatter, all-reduce or broadcast" \
        paro-bench --op all-gather,broadcast
    fails 2 "paro-bench: --algo: algorithm 'nccl', expected ring, two-level, ho-ring or mpi" \
        paro-bench --algo nccl
    fails 2 "paro-bench: --algo: algorithm 'ring' twice, expected each once" paro-bench --algo ring,ring
    fails 2 "paro-bench: --type: type 'f8', expected f32, bf16, f16, f64 or i32" paro-bench -d f8
    fails 2 "paro-bench: --redop: reduction 'max', expected sum" paro-bench --redop max
    fails 2 "paro-bench: --min of 2048 bytes and --max of 1024, expected no less" paro-bench -b 2K -e 1K
    fails 2 "paro-bench: --min of 2 bytes, expected at least one element (4)" paro-bench -b 2
    fails 2 "paro-bench: groups '2x2' of 4 ranks, but 1 ranks run" paro-bench --groups 2x2
    fails 2 "paro-bench: the topology 'synth:2x2' has 4 ranks, but 1 ranks run" paro-bench -i synth:2x2
    for o in '-f 1' '-n 0' '-n 1x' '-w -1' '-b 1Q' '--chunk 0' 'word'; do
        # shellcheck disable=SC2086
        ! paro-bench $o > out 2> said
        [ ! -s out ] && [ "$(wc -l < said)" = 1 ]
    done
}

@test "under mpirun an error is one line of one rank, and the status 2" {
    fails 2 "paro-bench: the topology 'synth:2x2' has groups 2x2, but these ranks are in 4x1" \
        mpirun -np 4 paro-bench --groups 4x1 -i synth:2x2
    [ "$(grep -c '^paro-bench: ' said)" = 1 ]
    fails 2 "paro-bench: --factor: 'x', expected a whole number from 2 to 1000000" \
        mpirun -np 4 paro-bench -f x
    [ "$(grep -c '^paro-bench: ' said)" = 1 ]
}

@test "memory that cannot be had is one line" {
    rc=0
    paro-bench -b 128T -n 1 -w 0 > out 2> said || rc=$?
    [ $rc = 2 ] && [ ! -s out ] && [ "$(wc -l < said)" = 1 ]
    grep -qE '^paro-bench: cannot have [0-9]+ bytes of shared memory.* available$' said
}

@test "a full disk is noticed" {
    rc=0
    paro-bench -b 1K -n 1 -w 0 > /dev/full 2> said || rc=$?
    [ $rc = 2 ] && [ "$(wc -l < said)" = 1 ]
}

@test "what an interrupt leaves is whole rows" {
    mpirun -np 4 paro-bench --groups 2x2 -b 1K -e 64M -f 2 -n 2000 -w 1 --json > out 2> said &
    for _ in $(seq 100); do
        [ "$(wc -l < out)" -lt 3 ] || break
        sleep 0.1
    done
    kill -INT $!
    wait $! || true
    rows out '@d >= 3'
}
