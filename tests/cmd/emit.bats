# SPDX-License-Identifier: BSD-3-Clause
# What paro-bench --emit says is what was measured, to a reader of its own (emit.pl), and to Open MPI.
# shellcheck disable=SC2086

load refuses
load expect

setup_file() {
    export OMPI_INFO=$BATS_FILE_TMPDIR/info
    ompi_info --param coll tuned --level 9 > "$OMPI_INFO"
}

# row OP ALGO SETTING BYTES MICROSECONDS [SED]: a row of f32 on 2x2.
row() {
    local name=null redop=none from=null
    [ -z "$3" ] || name="\"$3\""
    case $1 in *reduce*) redop=sum ;; broadcast) from=0 ;; esac
    echo "{\"op\":\"$1\",\"algo\":\"$2\",\"setting\":$name,\"groups\":\"2x2\",\"ranks\":4,\"bytes\":$4,\"count\":$(($4 / 4)),\"type\":\"f32\",\"redop\":\"$redop\",\"root\":$from,\"time_s\":{\"min\":$5e-6,\"median\":$5e-6,\"max\":$5e-6},\"slow_bytes\":null,\"limit_s\":null,\"wrong\":0,\"library\":\"Open MPI v4.1.4\",\"host\":\"a\",\"when\":\"2026-01-02T03:04:05Z\"}" |
        sed "${6:-}"
}

# bats test_tags=full
@test "every measured size gets its fastest, and nothing else is told, in every format" {
    for seed in 1 2 3 4 5 6 7 8 9 10 11 12; do
        for target in ompi-tuned ompi-tuned-json nccl-tuner ucc-tune; do
            perl "$ROOT/tests/cmd/emit.pl" rows $target $seed > a.jsonl
            paro-bench --read a.jsonl --emit $target > out 2> said
            perl "$ROOT/tests/cmd/emit.pl" check $target a.jsonl out 20
            grep -q '^paro-bench: .*:else' said
        done
    done
}

@test "the texts themselves, of two algorithms that meet at the mean of two sizes" {
    { row all-gather mpi '' 4096 9; row all-gather mpi ring 4096 7; row all-gather mpi tuned-2 65536 8
      row all-gather mpi ring 65536 9; row all-gather mpi bruck 65536 8.5; row all-gather ring '' 4096 1
      row broadcast mpi chain 64 4; row broadcast mpi '' 64 5; } > r
    expect ompi-tuned paro-bench --read r --emit ompi-tuned 2> said
    [ ! -s said ]
    expect ompi-tuned-json paro-bench --read r --emit ompi-tuned-json
    sed 's/mpi"/nccl"/; s/"bruck"\|"tuned-2"/"tree\/ll"/; s/"ring","g/"ring\/ll128","g/' r > n
    expect nccl-tuner paro-bench --read n --emit nccl-tuner 2> said
    { row reduce-scatter mpi ucc 4096 9; row reduce-scatter mpi ucc-knomial 4096 7; row reduce-scatter mpi ucc-ring 65536 6
      row reduce-scatter mpi ucc 65536 9; } > u
    expect ucc-tune paro-bench --read u --emit ucc-tune
}

# Open MPI fails with a number that no algorithm has, and so tells which rule it took.
# bats test_tags=full
@test "Open MPI reads the rules, and takes each where it was measured alone" {
    ompi_info --version | grep -q '^Open MPI v[45]' || skip "the installed MPI library is not Open MPI 4 or 5"
    for op in all-gather reduce-scatter all-reduce broadcast; do
        { row $op mpi '' 1024 9; row $op mpi tuned-1 1024 7; row $op mpi tuned-2 16384 8
          row $op mpi tuned-1 16384 9; row $op mpi '' 262144 9; row $op mpi tuned-1 262144 7; } > r
        paro-bench --read r --emit ompi-tuned > rules
        [ "$(grep -c '^4096 2 [04] 0 ' rules)" = 1 ] # from the mean of 1024 and 16384 on
        sed 's/^4096 2 /4096 99 /' rules > poison
        for at in "4 4080 0" "4 4096 2" "4 65520 2" "4 65536 0" "2 16384 0" "3 12288 0"; do
            set -- $at # ranks, bytes, status
            rc=0
            timeout 60 mpirun -np "$1" --mca coll_tuned_use_dynamic_rules 1 \
                --mca coll_tuned_dynamic_rules_filename "$PWD/poison" \
                paro-bench --op $op --algo mpi -b "$2" -n 1 -w 1 > out 2>&1 || rc=$?
            [ $rc = "$3" ] || { echo "$op of $2 bytes on $1 ranks: $rc"; cat out; return 1; }
        done
        timeout 60 mpirun -np 4 --mca coll_tuned_use_dynamic_rules 1 \
            --mca coll_tuned_dynamic_rules_filename "$PWD/rules" \
            paro-bench --op $op --algo mpi -b 256 -e 1M -n 1 -w 1 > out
    done
}

# Unequal shares are other calls, with sizes of their own: of MPI_Allgatherv a rank's mean share.
# bats test_tags=full
@test "Open MPI counts the bytes of unequal shares as the rules do" {
    ompi_info --version | grep -q '^Open MPI v[45]' || skip "the installed MPI library is not Open MPI 4 or 5"
    for op in all-gather reduce-scatter; do
        { row $op mpi '' 4100 9; row $op mpi tuned-1 4100 7; } > r
        paro-bench --read r --emit ompi-tuned > rules
        size=4100
        [ $op = reduce-scatter ] || size=1025
        sed "s/^$size 1 /$size 99 /" rules > poison
        run ! cmp rules poison
        for at in "4084 0" "4100 2" "4116 0" "4096 0"; do
            set -- $at
            rc=0
            timeout 60 mpirun -np 4 --mca coll_tuned_use_dynamic_rules 1 \
                --mca coll_tuned_dynamic_rules_filename "$PWD/poison" \
                paro-bench --op $op --algo mpi -b "$1" -n 1 -w 1 > out 2>&1 || rc=$?
            [ $rc = "$2" ] || { echo "$op of $1 bytes: $rc"; cat out; return 1; }
        done
    done
}

@test "examples/tuning/measure-ompi.sh: all algorithms measured, and its rules are of their rows" {
    ompi_info --version | grep -q '^Open MPI v[45]' || skip "the installed MPI library is not Open MPI 4 or 5"
    BIN=$BIN RANKS=2 ROUNDS=1 ITERS=2 SIZES='-b 1K -e 8K -f 8' \
        sh "$ROOT/examples/tuning/measure-ompi.sh" o > rules 2> said
    [ "$(grep -c ' mpi:after ' said)" = 8 ]
    cat o/1.*.jsonl > a.jsonl # of two ranks two_proc takes part
    for op in all-gather=allgather reduce-scatter=reduce_scatter_block all-reduce=allreduce broadcast=bcast; do
        want=$(sed -n "/\"coll_tuned_${op#*=}_algorithm\"/,/Valid values/s/.*Valid values://p" "$OMPI_INFO" | tr , '\n' | wc -l)
        [ "$want" -ge 5 ] # 0, the library's own choice, is measured too
        [ "$(grep "\"op\":\"${op%=*}\"" a.jsonl | grep -c '"bytes":1024,')" = "$want" ]
    done
    perl "$ROOT/tests/cmd/emit.pl" check ompi-tuned a.jsonl rules 8
}

@test "what was not measured, or cannot be told, is an error that says so" {
    row all-gather mpi ring 4096 7 > one
    refuses 2 "ompi-tuned expected mpi:NAME mpi:ring coll_tuned_allgather_algorithm 4 --mpi-name ring" \
        paro-bench --read one --emit ompi-tuned
    refuses 2 "nccl-tuner expected nccl:ALGO/PROTO nccl:ring/ll NCCL_ALGO=ring NCCL_PROTO=LL --nccl-name ring/ll" \
        paro-bench --read one --emit nccl-tuner
    refuses 2 "ucc-tune expected mpi:ucc-NAME UCC_TL_UCP_TUNE=allgather:inf:@knomial --mpi-name ucc-knomial" \
        paro-bench --read one --emit ucc-tune
    two() { # KEY-WORDS SED [OP ALGO]: of a second row
        { row "${3:-all-gather}" mpi "${4:-ring}" 4096 7; row "${3:-all-gather}" mpi '' 4096 9 "$2"; } > two
        refuses 2 "$1" paro-bench --read two --emit ompi-tuned
    }
    two "all-gather 4 ranks type f32 i32 expected one" 's/f32/i32/'
    two "all-gather 4 ranks shape 2x2 4x1 expected one" 's/2x2/4x1/'
    two "all-gather 4 ranks v4.1.4 v5.0.3 expected one" 's/v4.1.4/v5.0.3/'
    two "all-gather 4096 mpi MPICH 4.2 expected Open MPI" 's/Open MPI v4.1.4/MPICH 4.2/'
    two "all-gather 4096 mpi simulated expected measured" 's/"wrong"/"simulated":true,"wrong"/'
    two "all-gather 4096 mpi 3 wrong" 's/"wrong":0/"wrong":3/'
    two "all-reduce 4 ranks sum max expected one" 's/sum/max/' all-reduce
    two "broadcast 4 ranks root 0 1 expected one" 's/"root":0/"root":1/' broadcast knomial
    two "two:2: 'host' expected 63 '\",\\'" 's/"a"/"a\\nb"/'
}
