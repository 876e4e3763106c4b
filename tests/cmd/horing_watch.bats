# SPDX-License-Identifier: BSD-3-Clause
# horing-watch on records that are made here, with known truth; then on those of real programs,
# under mpirun.

bats_require_minimum_version 1.5.0
load expect

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    unset PARO_METER
    DATA=$ROOT/tests/data/watch
}

# inspector LATE_US [RANK]: 4 ranks, 200 all-reduces a millisecond apart, rank 2 comes late
inspector() {
    mkdir -p rec
    for r in 0 1 2 3; do
        awk -v r=$r -v late="$1" 'BEGIN {
            for (i = 0; i < 200; i++)
                printf "{\"header\":{\"id\":\"0xab\",\"rank\":%d,\"n_ranks\":4},\"metadata\":{\"dump_timestamp_us\":%.0f,\"hostname\":\"node%d\",\"pid\":%d},\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_sn\":%d,\"coll_msg_size_bytes\":1024,\"coll_exec_time_us\":%d}}\n",
                    r, 1748030377000000 + 1000 * i, r / 2, 100 + r, i, 500 + i % 7 - (r == 2 ? late : 0)
        }' > rec/log$r.jsonl
    done
}

@test "a late rank: line, status, table, JSON, node_exporter's text, picture" {
    inspector 150
    rc=0
    horing-watch rec > line || rc=$?
    cat line
    [ $rc = 1 ]
    [ "$(wc -l < line)" = 1 ]
    grep -qE '^WATCH WARNING - rank 2 \(node1\) is 18 % late in 100 % of all-reduces: its own compute\|late=17\.[0-9]% ranks=4 calls=800$' line
    run -1 --separate-stderr horing-watch -vv rec
    echo "$output" > table
    [ "$(grep -cE '^rank [0-3] \(node[01]\): .* % late, z .*, by blocks:' table)" = 4 ]
    grep -qE '^WARNING compute: rank 2' table
    run -1 --separate-stderr horing-watch --json --prom prom rec
    echo "$output" > json
    perl -MJSON::PP -0ne 'my $d = decode_json($_); my $f = $d->{findings};
        exit !($d->{schema} eq "paro.watch/1" && $d->{state} eq "WARNING" && @$f == 1 &&
               $f->[0]{rank} == 2 && $f->[0]{kind} eq "compute" && @{$d->{ranks}} == 4 &&
               abs($f->[0]{late_percent} - 17.6) < 1)' json
    grep -qx 'horing_watch_state 1' prom
    grep -qx 'horing_watch_finding{kind="compute",rank="2",host="node1"} 1' prom
    [ "$(grep -c '^horing_watch_late_ratio{' prom)" = 4 ]
    run -1 --separate-stderr horing-watch --svg=late.svg rec
    echo "$output" > out
    cmp out line
    [ "$(grep -c '<rect' late.svg)" -ge 80 ]
    grep -q 'rank 2 (node1): 17' late.svg
    run -1 --separate-stderr horing-watch --svg rec
    echo "$output" > other.svg
    cmp late.svg other.svg
    rc=0
    horing-watch --svg=late.svg rec > out 2> said || rc=$?
    [ $rc = 3 ]
    grep -q 'late.svg' out # without --force it stays
    run -1 horing-watch --svg=late.svg --force rec
}

@test "ranges: the same records are OK, WARNING or CRITICAL" {
    inspector 150
    horing-watch -w 20 rec
    rc=0
    horing-watch -c 15 rec || rc=$?
    [ $rc = 2 ]
}

@test "healthy records are OK, few are UNKNOWN" {
    inspector 0
    horing-watch rec | grep -qE '^WATCH OK - 4 ranks on 2 hosts, 800 calls in .*: healthy; no rank is late beyond chance \(latest: rank [0-3] \([^)]*\), [0-9.]+ % \+- [0-9.]+\)'
    for f in rec/*; do sed -i 30q "$f"; done
    rc=0
    horing-watch rec > line || rc=$?
    [ $rc = 3 ]
    grep -q '^WATCH UNKNOWN - .*: lateness unknown, fewer than 40 calls' line
}

# meter RUN OPENED RANK CALLS: a meter's file of one of two ranks, whose calls are barriers
meter() {
    perl -e 'my ($run, $opened, $rank, $calls) = @ARGV;
        my $file = "PAROMETR" . pack("l6Qq6", 1, 4096, 64, 8192, $rank, 2, $run, $rank, 2, $opened, 4, $calls, 0);
        $file .= "\0" x (4096 - length $file);
        $file .= pack "qQq4l4", $_, 9, $_, 0, 1000 * $_, 1000 * $_ + 100, $rank, 2, 5, 0 for 1 .. $calls;
        print $file, "\0" x (528384 - length $file)' "$@"
}

@test "a folder of several runs: the one that began last is read" {
    mkdir rec
    for r in 0 1; do
        meter 7 100 $r 50 > rec/a.$r.mpi
        meter 6 $((300 - 150 * r)) $r 60 > rec/$((3 - 2 * r)).mpi # one opened before run 8, the other after it
        meter 8 200 $r 50 > rec/2.$r.mpi
    done
    run -0 --separate-stderr horing-watch --json rec
    echo "$output"
    perl -MJSON::PP -e 'my $d = decode_json($ARGV[0]);
        exit !($d->{calls} == 120 && $d->{files_of_other_runs} == 4 && $d->{state} eq "OK")' "$output"
}

@test "a file with a time in the future hides no run, and makes no wait" {
    mkdir rec
    meter 7 100 0 50 > rec/a.0.mpi
    meter 7 100 1 50 > rec/a.1.mpi
    meter 9 4000000000000000000 0 90 > rec/z.0.mpi
    run -0 horing-watch rec
    [[ $output == *" 100 calls "*" (1 files of other runs left out)|"* ]]
    cp "$DATA"/gloo_rank_* .
    touch -d 2100-01-01 gloo_rank_1.json
    run -1 horing-watch --hang 1e6 gloo_rank_0.json gloo_rank_1.json # of these days
    rm rec/[az].[01].mpi
    meter 9 4000000000000000000 0 90 > rec/z.0.mpi # where there is nothing else
    run -3 horing-watch rec
    [[ $output == *" 90 calls "* ]]
}

@test "a folder with files of two formats is refused" {
    inspector 0
    meter 7 1 0 0 > rec/x.1.mpi
    refuse() { rc=0; horing-watch "$@" > out || rc=$?; [ $rc = 3 ] && [ "$(wc -l < out)" = 1 ]; }
    refuse rec
    grep -q '^WATCH UNKNOWN - .*rec/x.1.mpi: another format, expected all files of one format' out
    refuse rec/x.1.mpi
    grep -q 'no calls of collectives in the records of 1 processes' out
    head -c 8 rec/x.1.mpi > rec/short
    refuse rec/short
    grep -q 'rec/short: version 0 with 0 records of 0 bytes, expected version 1' out
}

@test "records from a pipe; files that are being made are left out" {
    inspector 150
    rc=0
    cat rec/* > all
    horing-watch <(cat all) > line || rc=$?
    [ $rc = 1 ]
    grep -q 'rank 2 (node1) is 18 % late' line
    head -c 528384 /dev/zero > rec/x.1.mpi
    : > rec/y.1.mpi
    run -1 horing-watch rec
    rm rec/log*
    run -3 horing-watch rec
    [[ $output == *"no records of collectives in 'rec'"* ]]
}

@test "a report of NCCL RAS on standard input: who has launched fewer calls" {
    for r in 0 1 2; do
        echo "{\"rank\": $r, \"host\": \"10.0.0.$((r / 2))\", \"pid\": 9, \"cuda_dev\": $((r % 2)),
            \"collective_counts\": {\"AllGather\": 1, \"AllReduce\": $((7 - r / 2))}},"
    done > ranks
    printf '{\n  "communicators": [{"hash": "0xa", "size": 3, "ranks": [%s]}]\n}\n' \
        "$(sed '$s/,$//' ranks)" > ras.json
    run -1 horing-watch - < ras.json
    [[ $output == "WATCH WARNING - hung, or dumped while it ran: ranks 0-1 wait in all-reduce 7, rank 2 (10.0.0.1) never arrived, it has launched 6 all-reduces|"* ]]
}

# answer STATUS WORDS TEXT FILE...: the line has WORDS, and the JSON without blanks TEXT
answer() {
    local status=$1 words=$2 want=$3 rc=0
    shift 3
    horing-watch --hang 1e6 "$@" > line || rc=$?
    cat line
    [ $rc = "$status" ] && grep -qF "$words" line || return 1
    horing-watch --hang 1e6 --json "$@" > json || true
    tr -d ' \n' < json | grep -qF "$want"
}

@test "flight recorders of a hang over gloo: calls have the numbers of the dumps" {
    answer 1 ": rank 0 waits in all-reduce of 32 B 4 (" '"kind":"hung","rank":1,' "$DATA"/gloo_rank_{0,1}.json
    grep -qF "), rank 1 never arrived, its last call was all-reduce of 32 B 3|" line
}

@test "one dump of two: the rank without one is named by its number" {
    cp "$DATA/one_dump_rank_0" .
    touch -d @1788200500 one_dump_rank_0
    run -2 horing-watch one_dump_rank_0
    [[ $output == "WATCH CRITICAL - hung: rank 0 waits in all-reduce of 2.00 KiB 4 (for "*"), rank 1 has no records|"* ]]
    horing-watch --json one_dump_rank_0 > json || true
    tr -d ' \n' < json | grep -qF '"kind":"hung","rank":1,'
    tr -d ' \n' < json | grep -qF '"ranks_without_records":[1]'
    inspector 0
    rm rec/log1.jsonl
    answer 3 "; rank 1 has no records|" '"ranks_without_records":[1]' rec
    rm -r rec
    mkdir rec
    meter 7 100 0 50 > rec/a.0.mpi
    answer 3 "; rank 1 has no records|" '"ranks_without_records":[1]' rec
}

@test "reports of NCCL RAS: numbers of an operation, and ranks that failed or do not answer" {
    answer 1 ": rank 3 (10.0.0.1) waits in all-gather 641, ranks 0-2 never arrived, each has launched 640 all-gathers|" \
        '"kind":"hung","rank":null,' "$DATA/ras_mismatch.json"
    answer 2 "WATCH CRITICAL - failed: rank 1 (10.0.0.1): NCCL reports a remote error there: " \
        '"findings":[{"state":"CRITICAL","kind":"failed","rank":1,' "$DATA/ras_abort.json"
    answer 2 "WATCH CRITICAL - failed: rank 1 (10.0.0.1): it does not answer NCCL|" \
        '"findings":[{"state":"CRITICAL","kind":"failed","rank":1,"host":"10.0.0.1",' "$DATA/ras_unresponsive.json"
}

@test "pickled flight recorders, and what gzip packed, are read as JSON is" {
    run -2 horing-watch "$DATA"/pickled_rank_{0,1}
    [[ $output == "WATCH CRITICAL - rank 1 is 45 % late in 100 % of all-reduces: its own compute|late=44.5% ranks=2 calls=120" ]]
    head -c 3000 "$DATA/pickled_rank_0" > rank_0
    run -3 horing-watch rank_0
    [[ $output == "WATCH UNKNOWN - rank_0: the pickle ends at byte 3000 within an operation" ]]
    inspector 150
    gzip rec/*
    run -1 horing-watch rec
    [[ $output == "WATCH WARNING - rank 2 (node1) is 18 % late "* ]]
    truncate -s -9 rec/log0.jsonl.gz
    run -3 horing-watch rec
    [[ $output == *"rec/log0.jsonl.gz' is damaged, expected gzip: "* ]]
}

@test "records without a call say what they lack" {
    none() { run -3 horing-watch "$1"; [[ $output == *"no calls of collectives in the records of 1 processes: $2"* ]]; }
    echo '{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "ts": 1, "dur": 2}]}' > trace0
    none trace0 "no event of category 'kernel' has 'Collective name', as those of NCCL have and those of gloo have not"
    echo '{"pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": [{"process_group": ["0"], "profiling_name": "nccl:all_reduce"}]}' > dump0
    none dump0 "no number in 'collective_seq_id'"
    sed -i 's/"profiling_name": "[a-z_:]*"/"collective_seq_id": 1/' dump0
    none dump0 "no collective in 'profiling_name'"
    sed -i 's/\[0, 1\]/[3]/' dump0
    none dump0 "the rank is not in 'ranks' of its 'process_group'"
}

@test "host names come into one line as letters" {
    inspector 150
    sed -i 's/"node1"/"a\\nb\\u001b[31m|x=1"/' rec/*
    run -1 --separate-stderr horing-watch -v rec
    [[ ${lines[0]} == "WATCH WARNING - rank 2 (a_b__31m_x_1) is 18 % late "* ]]
    run ! grep -q $'\033' <<< "$output"
}

# ---- of real programs ----

build_loop() {
    command -v mpicc > /dev/null || skip "no mpicc here"
    [ -z "${SAN-}" ] || skip "a sanitizer wants to be preloaded first"
    mpicc -O1 -o loop "$ROOT/tests/lab/watch_loop.c"
}

# metered ARG...: two ranks of the loop, their records in m.  How is exec where a signal shall reach them.
metered() {
    rm -rf m
    ${how-} timeout 100 mpirun -np 2 env LD_PRELOAD="$B/libparo-mpi.so" PARO_METER="$PWD/m" "$@"
}

# bats test_tags=full
@test "records of an MPI program: every call, on each communicator, in order" {
    command -v mpicc > /dev/null || skip "no mpicc here"
    [ -z "${SAN-}" ] || skip "a sanitizer wants to be preloaded first"
    cat > calls.c <<'C'
#include <mpi.h>
int main(void)
{
    MPI_Comm dup, self;
    int rank, x = 1, y[2], one[2] = {1, 1}, at[2] = {0, 1};
    MPI_Init(0, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &self);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(&x, y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allgather(&x, 1, MPI_INT, y, 1, MPI_INT, dup);
    MPI_Allgatherv(&x, 1, MPI_INT, y, one, at, MPI_INT, dup);
    MPI_Bcast(y, 2, MPI_INT, 0, dup);
    MPI_Reduce_scatter(y, &x, one, MPI_INT, MPI_SUM, dup);
    MPI_Reduce_scatter_block(y, &x, 1, MPI_INT, MPI_SUM, dup);
    MPI_Alltoall(one, 1, MPI_INT, y, 1, MPI_INT, dup);
    MPI_Reduce(&x, y, 1, MPI_INT, MPI_SUM, 0, dup);
    MPI_Barrier(self);
    MPI_Comm_free(&dup);
    return MPI_Finalize();
}
C
    mpicc -o calls calls.c
    metered ./calls
    [ "$(find m -type f | wc -l)" = 2 ]
    for f in m/*; do # number sequence bytes op, by the format's page; all are complete
        perl -e 'local $/; my $f = <>; my %comm;
            die if substr($f, 0, 8) ne "PAROMETR" || length $f != 528384;
            my ($version, $head, $size, $n, $rank, $ranks) = unpack "x8l6", $f;
            my $begun = unpack "q", substr $f, 72, 8;
            die "open" unless unpack "q", substr $f, 80, 8;
            for my $i (0 .. $begun - 1) {
                my ($n, $comm, $seq, $bytes, $in, $out, $r, $of, $op) =
                    unpack "qQq4l3", substr $f, $head + $i * $size, $size;
                $comm{$comm} //= keys %comm;
                die "times" unless $in && $out >= $in;
                print "$n $comm{$comm} $seq $bytes $of $op\n";
            }' "$f" > "$(basename "$f").calls"
    done
    for f in *.calls; do
        expect mpi-calls < "$f"
    done
}

# bats test_tags=full
@test "a program whose folder cannot be used runs on" {
    build_loop
    touch file
    timeout 60 mpirun -np 2 env LD_PRELOAD="$B/libparo-mpi.so" PARO_METER=file/m ./loop 0.2 1000 2> said
    [ "$(grep -c '^paro-mpi: rank [01] is not metered: PARO_METER: ' said)" = 1 ]
}

# bats test_tags=full
@test "an MPI program: a rank that does not come, one that calls another" {
    build_loop
    for what in hang other; do
        how='exec' metered ./loop 3 4000 1 $what > /dev/null 2>&1 &
        local run=$!
        for _ in $(seq 100); do
            sleep 0.3
            rc=0
            horing-watch --hang 1 m > out || rc=$?
            ! grep -qE '^WATCH CRITICAL - (hung|mismatch)' out || break
        done
        cat out
        kill $run
        wait $run || true
        [ $rc = 2 ]
        case $what in
        hang) grep -qE 'hung: rank 0 \([^)]*\) waits|hung: rank 0 waits in all-gather of 1.00 KiB [0-9]+ \(for .*\), rank 1 \(.*\) never arrived, its last call was all-reduce of 4' out ;;
        other) grep -qE 'mismatch: call [0-9]+: rank 1 \(.*\) called broadcast of 8 B, the others all-reduce of 8 B' out ;;
        esac
    done
}

# bats test_tags=full
@test "paro-train: its records are of all its ranks; --follow ends with the run" {
    seq 1 20000 > text
    paro-plan -m "$ROOT/examples/models/llama-tiny.json" -i synth:1x2 --seq 32 --strategy IGG > plan.yaml
    PARO_METER=$PWD/m timeout 100 horing-watch --follow=0.2 > follow &
    local f=$!
    PARO_METER=$PWD/m mpirun -np 2 paro-train plan.yaml -d text -o run --steps 30 > log
    rc=0
    wait $f || rc=$?
    cat follow
    [ $rc -le 2 ]
    head -n 1 follow | grep -q '^WATCH UNKNOWN - '
    tail -n 1 follow | grep -qE '^WATCH (OK|WARNING|CRITICAL) - '
    [ "$(find m -name '*.train' | wc -l)" = 2 ]
    rc=0
    touch file
    PARO_METER=$PWD/file/m mpirun -np 2 paro-train plan.yaml -d text -o other --steps 3 > log 2> said || rc=$?
    [ $rc = 2 ] && grep -q '^paro-train: .*PARO_METER: cannot make folder ' said && [ ! -e other ]
}
