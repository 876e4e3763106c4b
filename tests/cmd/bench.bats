# SPDX-License-Identifier: BSD-3-Clause
# paro-bench on local ranks: rows, JSON, data, wrong options.
# shellcheck disable=SC2016,SC2086

load refuses

# rows FILE PERL: the JSON Lines of FILE are valid, and PERL holds of @d, the objects.
rows() {
    perl -MJSON::PP -e 'my @d = map { decode_json($_) } <STDIN>; exit !(eval $ARGV[0])' "$2" < "$1"
}

# bats test_tags=full
@test "one rank without mpirun" {
    paro-bench -b 4K -e 64K -f 4 -n 2 -w 0 > out
    [ "$(grep -vc '^#' out)" = 36 ]
    [ "$(grep -v '^#' out | awk '$NF != 0' | wc -l)" = 0 ]
    [ -z "$(grep -v '^#' out | awk 'NF != 14')" ]
}

# bats test_tags=full
@test "every operation, algorithm and type on [3,2]: no element is wrong" {
    # algorithms as they are listed, so that a new one is tested here on the day it comes
    algos=$(paro-bench --algo '' 2>&1 | sed 's/.*expected //; s/, auto, mpi or nccl//; s/, /,/g')
    [ "$(echo "$algos" | tr , '\n' | wc -l)" -ge 11 ]
    for type in f32 bf16 f16 f64 i32 u8; do
        mpirun -np 5 paro-bench --groups '[3,2]' -b 8 -e 100008 -f 31 -n 1 -w 0 -d $type \
            --algo "$algos,mpi" --json > out
        n=$(($(echo "$algos" | tr , '\n' | wc -l) + 1))
        rows out '@d == 12 * '$n' && !grep { $_->{wrong} || $_->{type} ne "'$type'" || $_->{ranks} != 5 ||
            $_->{groups} ne "[3,2]" || $_->{time_s}{min} > $_->{time_s}{median} ||
            $_->{time_s}{median} > $_->{time_s}{max} || $_->{time_s}{min} <= 0 } @d'
    done
}

# bats test_tags=full
@test "what a row says follows from its time; slow bytes are those of the schedule" {
    mpirun -np 4 paro-bench --groups 2x2 -b 1M -n 3 -w 1 -i 'synth:2x2,inter=100MB/s' --json > out
    rows out '@d == 12 && !grep { my $n = $_->{op} eq "all-reduce" ? 2 : 1;
        my $bus = $_->{op} eq "broadcast" ? 1 : $n * 3 / 4;
        my $cut = $_->{op} eq "broadcast" ? 2 : $n;
        abs($_->{algbw_Bps} * $_->{time_s}{median} / $_->{bytes} - 1) > 1e-9 ||
        abs($_->{busbw_Bps} / $_->{algbw_Bps} - $bus) > 1e-9 ||
        abs($_->{limit_s} - $cut * $_->{bytes} / 2 / 100e6) > 1e-9 ||
        abs($_->{limit_fraction} * $_->{time_s}{median} / $_->{limit_s} - 1) > 1e-9 } @d'
    rows out '!grep { my $n = $_->{op} eq "all-reduce" ? 2 : 1;
        $_->{op} ne "broadcast" && $_->{algo} eq "ho-ring" && $_->{slow_bytes} != $n * 524288 ||
        $_->{op} ne "broadcast" && $_->{algo} eq "ring" && $_->{slow_bytes} != $n * 786432 ||
        $_->{op} eq "broadcast" && $_->{algo} ne "mpi" && $_->{slow_bytes} < 1048576 ||
        $_->{algo} eq "mpi" && (defined $_->{slow_bytes} || defined $_->{predicted_s}) ||
        $_->{algo} ne "mpi" && $_->{predicted_s} <= 0 } @d'
}

# bats test_tags=full
@test "predicted is the simulator's time: of ho-ring in whole parts the closed form, q = M/n" {
    # 262144 B to each rank: (m-1)(alpha_i + q/B') + (g-1)(alpha_e + q/B), B = 100 MB/s / 2
    fabric=synth:2x2,intra=1GB/s:10us,inter=100MB/s:100us
    mpirun -np 4 paro-bench -b 1M -n 1 -w 0 --op all-gather --algo ho-ring --chunk 1M --json \
        -i $fabric > out
    rows out 'abs($d[0]{predicted_s} - (10e-6 + 262144 / 1e9 + 100e-6 + 262144 / 50e6)) < 1e-9'
    paro-bench --simulate -b 1M --op all-gather --algo ho-ring --chunk 1M --json -i $fabric > again
    rows again '@d == 1 && $d[0]{simulated} && !defined $d[0]{wrong} &&
        $d[0]{time_s}{median} == $d[0]{predicted_s} && !defined $d[0]{loadavg} &&
        abs($d[0]{predicted_s} - (10e-6 + 262144 / 1e9 + 100e-6 + 262144 / 50e6)) < 1e-9'
}

# bats test_tags=full
@test "every reduction, and a broadcast from every root: no element is wrong" {
    for redop in sum max min avg; do
        mpirun -np 5 paro-bench --groups '[3,2]' -b 4 -e 40004 -f 100 -n 1 -w 0 --redop $redop \
            --op reduce-scatter,all-reduce --algo ho-ring,ring,recursive-doubling,tree,mpi --json > out
        rows out '@d == 30 && !grep { $_->{wrong} || $_->{redop} ne "'$redop'" } @d'
    done
    for root in 0 2 4; do
        mpirun -np 5 paro-bench --groups '[3,2]' -b 4 -e 40004 -f 100 -n 1 -w 0 --root $root \
            --op broadcast --algo ho-ring,two-level-tree,mpi --json > out
        rows out '@d == 9 && !grep { $_->{wrong} || $_->{root} != '$root' || $_->{redop} ne "none" } @d'
    done
}

# bats test_tags=full
@test "auto says what it took, and a tuning table decides it" {
    fabric=synth:2x2,inter=100MB/s
    mpirun -np 4 paro-bench --groups 2x2 -i $fabric -b 64 -e 1M -f 16384 -n 2 -w 0 --algo auto,mpi \
        --op all-gather --json > out
    rows out '@d == 4 && !grep { $_->{wrong} || defined $_->{chosen} != ($_->{algo} eq "auto") } @d'
    rows out '!grep { $_->{algo} eq "auto" && ($_->{chosen}{algo} eq "auto" ||
        $_->{chosen}{chunk_bytes} < 1 || $_->{chosen}{chunk_bytes} > $_->{bytes}) } @d'
    paro-sched pick -i $fabric --op all-gather --table | sed 's/^\( *-* *algo:\).*/\1 bruck/' > table.yaml
    mpirun -np 4 paro-bench --groups 2x2 -i $fabric --tuning table.yaml -b 64 -n 2 -w 0 --algo auto \
        --op all-gather > out
    grep -q ' auto:bruck ' out
    paro-bench --simulate -i $fabric --tuning table.yaml -b 64 --algo auto --op all-gather > out
    grep -q ' auto:bruck ' out
    # the only size is none, and less than an element is no other
    mpirun -np 4 paro-bench --groups 2x2 -i $fabric -b 0 -e 2 -n 1 -w 0 --algo auto --op all-gather --json > out
    rows out '@d == 1 && $d[0]{bytes} == 0'
    refuses 2 '--algo auto groups hosts expected -i TOPO --tuning FILE' \
        ranks 4 paro-bench --groups 2x2 --algo auto -b 64
}

# bats test_tags=full
@test "--table: measured choices that paro-sched and auto read, one line on standard error a size" {
    fabric=synth:2x1,inter=100MB/s
    mpirun -np 2 paro-bench --groups 2x1 -i $fabric --table -b 256 -e 64K -f 16 -n 5 -w 0 > t.yaml 2> said
    [ "$(head -n 3 t.yaml)" = "$(printf 'format: paro-tuning/1\nmembers: [1, 1]\nrules:')" ]
    [ "$(wc -l < said)" = 12 ]
    [ "$(grep -cE '^paro-bench: [a-z-]+ of [0-9.]+ [KMi]*B: [a-z-]+( in [0-9.]+ [KMi]*B)? [0-9.]+ [mun]?s, .* \(([1-9][0-9.]+x|[0-9.]+x, within noise)\); [0-9] [a-z ]+, 5 rounds; load average [0-9.]+$' said)" = 12 ]
    paro-sched pick --tuning t.yaml --table | cmp - t.yaml
    for op in all-gather reduce-scatter all-reduce broadcast; do
        paro-sched pick --tuning t.yaml | grep "^$op " > rules
        [ -s rules ]
        [ "$(grep -vc 'measured$' rules)" = 0 ]
    done
    # a boundary between two of 256, 4096 and 65536 bytes is 1024 or 16384
    perl -ne '/below_bytes: (\d+)/ && $measured and $1 == 1024 || $1 == 16384 || die $_;
        $measured = /op: (all-|reduce-scatter|broadcast)/ if /op:/' t.yaml
    # what else a trainer moves is there, by simulation: 2x1 has moves across alone
    paro-sched pick --tuning t.yaml | grep '^gather-across ' > rules
    [ -s rules ]
    [ "$(grep -c 'measured$' rules)" = 0 ]
    mpirun -np 2 paro-bench --groups 2x1 --tuning t.yaml --algo auto -b 256 -e 64K -f 16 -n 1 -w 0 --json > out
    paro-sched pick --tuning t.yaml --json > table.json
    rows out '@d == 12 && !grep { $_->{wrong} } @d'
    perl -MJSON::PP -e 'local $/; open F, "<", "table.json"; my $t = decode_json(<F>);
        open G, "<", "out"; for my $d (map { decode_json($_) } split /\n/, <G>) {
            my ($r) = grep { $_->{op} eq $d->{op} && $_->{from_bytes} <= $d->{bytes} &&
                $d->{bytes} < ($_->{below_bytes} // 1e18) } @{$t->{rules}};
            $r->{timed} eq "measured" && $r->{algo} eq $d->{chosen}{algo} or die $d->{op} }'
}

# bats test_tags=full
@test "--table: of one operation, as JSON, and of every type and reduction" {
    mpirun -np 3 paro-bench --groups '[2,1]' -i 'synth:[2,1]' --table --op all-reduce -b 8 -e 8 \
        -d bf16 --redop max -n 5 -w 0 --json > t.json 2> said
    perl -MJSON::PP -e 'local $/; my $d = decode_json(<>); my $r = $d->{rules};
        exit !($d->{schema} eq "paro.tuning/1" && @$r == 1 && $r->[0]{op} eq "all-reduce" &&
            $r->[0]{timed} eq "measured" && $r->[0]{at_bytes} == 8 && $r->[0]{time_s} > 0 &&
            $r->[0]{runner_up} ne $r->[0]{algo})' t.json
    # without -n: at least 5 rounds, at most 200
    mpirun -np 2 paro-bench --groups 2x1 -i synth:2x1 --table --op broadcast -b 64 -e 64 > out 2> said
    n=$(sed -n 's/.* \([0-9]*\) rounds;.*/\1/p' said)
    [ "$n" -ge 5 ]
    [ "$n" -le 200 ]
    # alone it is a table of what moves nothing
    paro-bench --table --op broadcast -b 64 -e 64 -n 5 > out 2> said
    paro-sched pick --tuning out > text
    ends 2 paro-bench --table --op broadcast -b 64 -e 64 -n 5 > /dev/full 2> said
    [ "$(grep -vc ' rounds; \|: doubt: ' said)" = 1 ]
}

# bats test_tags=full
@test "0 bytes: a row of zeros for every operation, then one element" {
    mpirun -np 4 paro-bench --groups 2x2 -b 0 -e 4 -n 2 -w 0 -i synth:2x2 --json \
        --algo ho-ring,tree,two-level-direct,mpi > out
    rows out '@d == 32 && !grep { $_->{wrong} || ($_->{bytes} == 0) != ($_->{algbw_Bps} == 0) ||
        ($_->{bytes} == 0) != !defined $_->{limit_fraction} } @d'
    rows out '(grep { $_->{bytes} == 0 } @d) == 16 && (grep { $_->{bytes} == 4 } @d) == 16'
}

# bats test_tags=full
@test "percentiles: in order in JSON, and columns in text when asked for" {
    mpirun -np 2 paro-bench --groups 2x1 -b 4K -n 7 -w 1 --op all-gather --algo ring,mpi --json > out
    rows out '@d == 2 && !grep { my $t = $_->{time_s};
        my @t = @$t{qw(min p10 p25 median p75 p90 p99 max)};
        grep { $t[$_] < $t[$_ - 1] } 1 .. $#t } @d'
    # 7 iterations: p10 is the first of them, p90 and p99 the last
    rows out '!grep { my $t = $_->{time_s}; $t->{p10} != $t->{min} || $t->{p99} != $t->{max} } @d'
    rows out 'my $r = $d[0]{ratio_mpi}; !defined $d[1]{ratio_mpi} && $r->{p25} > 0 &&
        $r->{p25} <= $r->{median} && $r->{median} <= $r->{p75}'
    mpirun -np 2 paro-bench --groups 2x1 -b 4K -n 7 -w 1 --op all-gather --algo ring --percentiles > out
    grep -q ' predicted  *p10  *p25  *p75  *p90  *p99  *type ' out
    grep -v '^#' out | awk 'NF != 19 || $8 > $9 || $9 > $10 || $10 > $11 || $11 > $12 { exit 1 }'
}

# bats test_tags=full
@test "CSV: a header, and rows with as many fields as it names" {
    mpirun -np 3 paro-bench --groups '[2,1]' -b 4K -n 2 -w 0 --algo ring,mpi --mpi-name x-1 --csv > out
    head -n 1 out | grep -q '^op,algo,chosen,.*,median_s,.*,wrong,loadavg,library,host,when$'
    perl -ne 'chomp; my @f; push @f, $1 // $2 while /\G(?:"([^"]*)"|([^,]*))(?:,|$)/g && $+[0] <= length;
        s/"[^"]*"/_/g; my $n = tr/,//; $. == 1 ? $want = $n : $n == $want || die "$n commas: $_";
        END { $. == 9 || die "$. lines" }' out
    [ "$(grep -c '"\[2,1\]"' out)" = 8 ]
    [ "$(grep -c '^[a-z-]*,mpi,,,x-1,' out)" = 4 ]
}

# bats test_tags=full
@test "--read: best median of several launches, their wrong elements, text and CSV and JSON" {
    mpirun -np 4 paro-bench --groups 2x2 -b 4K -n 2 -w 0 --op all-gather,all-reduce \
        --algo ho-ring,mpi --mpi-name han --json > a.jsonl
    perl -MJSON::PP -ne '$d = decode_json($_); $d->{time_s}{median} /= $d->{algo} eq "mpi" ? 4 : 0.25;
        $d->{wrong} = 3 if $d->{op} eq "all-reduce"; print encode_json($d), "\n"' a.jsonl > b.jsonl
    ends 1 paro-bench --read a.jsonl b.jsonl --json > out
    # b has wrong elements
    paste -d, a.jsonl b.jsonl out | perl -MJSON::PP -ne '($a, $b, $c) = @{decode_json("[$_]")};
        my $best = $a->{algo} eq "mpi" ? $b : $a;
        $c->{launches} == 2 && abs($c->{time_s}{median} / $best->{time_s}{median} - 1) < 1e-9 &&
            $c->{wrong} == $b->{wrong} && $c->{op} eq $a->{op} && $c->{algo} eq $a->{algo} &&
            ($c->{setting} // "") eq ($a->{setting} // "") or die $_;
        END { $. == 4 or die "$. rows" }'
    # what is read and printed reads back as it is
    ends 1 paro-bench --json --read - < out > again
    cmp out again
    paro-bench --read a.jsonl > text
    [ "$(grep -vc '^#' text)" = 4 ]
    grep -q '^# 2x2: 4 ranks$' text
    grep -q ' mpi:han ' text
    paro-bench --csv --read a.jsonl > csv
    [ "$(wc -l < csv)" = 5 ]
}

@test "--read: what is no row is refused by file, line and key" {
    row='{"op":"all-gather","algo":"ring","groups":"2x2","ranks":4,"bytes":8,"count":2,"type":"f32","redop":"none","time_s":{"min":1,"median":1,"max":1},"slow_bytes":4,"limit_s":1,"wrong":0}'
    echo "$row" > old.jsonl # a row of a time before percentiles
    paro-bench --read old.jsonl > out
    [ "$(grep -vc '^#' out)" = 1 ]
    refused() { # WORDS SED: of the second row
        { echo "$row"; sed "$2" old.jsonl; } > bad.jsonl
        refuses 2 "bad.jsonl:2: $1" paro-bench --read bad.jsonl
    }
    refused "'algo' nickel expected $(paro-bench --algo nickel 2>&1 | sed 's/.*expected //')" 's/"ring"/"nickel"/'
    refused "'bytes' whole from 0" 's/"bytes":8/"bytes":-8/'
    refused "'time_s.median' number" 's/"median":1/"median":"1"/'
    refused "'time_s.median' twice" 's/"max":1/"max":1,"median":2/'
    refused "'time_s.mean' key" 's/"max":1/"max":1,"mean":2/'
    refused "'time_s.max' missing" 's/,"max":1//'
    refused "'ratio_mpi' object" 's/"wrong"/"ratio_mpi":2,"wrong"/'
    refused "'ratio_mpi.p75' missing" 's/"wrong"/"ratio_mpi":{"p25":1,"median":1},"wrong"/'
    refused "'count' null" 's/"count":2/"count":null/'
    refused "'ranks' 'groups'" 's/:4,"bytes/:5,"bytes/'
    refused "'colour' key" 's/"wrong"/"colour":1,"wrong"/'
    refused 'JSON object' 's/.*/[]/'
    for text in '{' 'x' "$row,"; do
        { echo "$row"; printf '%s' "$text"; } > bad.jsonl
        refuses 2 'bad.jsonl:2: JSON' paro-bench --read bad.jsonl
    done
}

# bats test_tags=full
@test "--svg: an SVG that appears whole, and replaces nothing without --force" {
    paro-bench --simulate -i synth:4x2 -b 4K -e 4M -f 32 --algo ring,ho-ring --svg=a.svg > out
    grep -q '^<svg' a.svg
    tail -n 1 a.svg | grep -q '</svg>'
    for word in ring ho-ring 'cut bound' 'all-gather: time' 'broadcast: bus bandwidth'; do
        grep -qF ">$word<" a.svg || { echo "no $word"; return 1; }
    done
    cp a.svg b.svg
    refuses 2 a.svg paro-bench --simulate -i synth:4x2 -b 4K --algo ring --svg=a.svg
    cmp a.svg b.svg
    mpirun -np 2 paro-bench --groups 2x1 -b 4K -n 1 -w 0 --algo ring --svg=a.svg --force > out
    ends 1 cmp -s a.svg b.svg
    # a run that fails leaves the old picture
    cp a.svg b.svg
    refuses 2 '3x1 3 ranks 2' ranks 2 paro-bench --groups 3x1 --svg=a.svg --force
    cmp a.svg b.svg
    [ -z "$(find . -name '.*paro-tmp')" ]
}

# bats test_tags=full
@test "--floor: status 1 and the worst row on standard error" {
    for args in '--simulate' '-n 1 -w 0 --groups 2x2'; do
        run=$([ "$args" = --simulate ] || echo mpirun -np 4)
        ends 1 $run paro-bench $args -i synth:2x2,inter=1e18B/s -b 64K --algo ring,ho-ring --floor 2.0 \
            > out 2> said
        [ "$(grep -vc '^#' out)" = 8 ]
        [ "$(grep -c '^paro-bench: 8 of 8 rows .*--floor 2.* by .*, 65536 bytes on 2x2, .*0\.000' said)" = 1 ]
    done
    paro-bench --simulate -i synth:2x2 -b 64M --algo ring,ho-ring --floor 0.001 > out 2> said
    [ ! -s said ]
}

# bats test_tags=full
@test "--overlap: the parts' data is right, efficiency is the longer one over both" {
    mpirun -np 5 paro-bench --groups '[3,2]' -b 4 -e 400K -f 1000 -n 2 -w 0 --overlap --json \
        --algo ho-ring,two-level > out
    rows out '@d == 12 && !grep { my $o = $_->{overlap}; $_->{wrong} ||
        grep({ !($o->{$_} > 0) } qw(intra_s inter_s both_s)) ||
        abs(($o->{intra_s} > $o->{inter_s} ? $o->{intra_s} : $o->{inter_s}) / $o->{both_s}
            / $o->{efficiency} - 1) > 1e-9 } @d'
    for redop in max avg; do
        mpirun -np 5 paro-bench --groups '[3,2]' -b 40K -n 1 -w 0 --overlap --redop $redop > text
        [ "$(grep -v '^#' text | awk 'NF == 11 && $NF == 0' | wc -l)" = 3 ]
    done
    mpirun -np 4 paro-bench --groups 2x2 -b 40K -n 1 -w 0 --overlap --csv > csv
    [ "$(wc -l < csv)" = 4 ]
    head -n 1 csv | grep -qx 'op,algo,groups,ranks,bytes,count,type,redop,intra_s,inter_s,both_s,efficiency,wrong,loadavg'
    refuses 2 "out:1: 'overlap' --overlap" paro-bench --read out
}

# bats test_tags=full
@test "--simulate: no ranks, the same rows each time, and the bound is never beaten" {
    paro-bench --simulate -i synth:3x4 -b 4K -e 4M -f 1024 --json > a
    mpirun -np 3 paro-bench --simulate -i synth:3x4 -b 4K -e 4M -f 1024 --json > b
    cmp a b
    rows a '@d == 16 && !grep { !$_->{simulated} || $_->{limit_fraction} > 1 + 1e-9 || $_->{algo} eq "mpi" } @d'
}

# bats test_tags=full
@test "text: header with units, and rows that end as those of nccl-tests" {
    mpirun -np 4 paro-bench --groups 2x2 -b 64K -e 256K -n 2 -w 1 --algo ho-ring,mpi > out
    grep -q '^# *size .* time *algbw *busbw *wrong$' out
    grep -q '^# *(B) .*(us) *(GB/s) *(GB/s) *$' out
    grep -q 'load average' out
    grep -q '^# port rates (measured): ' out
    grep -v '^#' out | awk 'NF != 14 || $NF != 0 || $(NF - 4) != ($3 == "broadcast" ? 0 : -1) ||
        ($(NF - 2) * $(NF - 3) * 1e3 / $1 - 1) ^ 2 > 1e-2 { bad = 1; print } END { exit bad || NR != 24 }'
}

# bats test_tags=full
@test "other processes that are busy leave a doubt, and so does a fabric that has one" {
    local busy=()
    for _ in $(seq "$(nproc)"); do
        while :; do :; done &
        busy+=($!)
    done 3>&-
    mpirun -np 2 paro-bench --groups 2x1 -b 4K -n 1 -w 0 --op broadcast --algo ring > out 2> said || true
    kill "${busy[@]}"
    grep -qE '^paro-bench: doubt: other processes had [0-9]+ % of a machine.s processors during the measurement$' said
    paro-topo -i synth:2x1 | sed '/^groups:/i doubt: "a: b"' > f.yaml
    mpirun -np 2 paro-bench --groups 2x1 -i f.yaml -b 4K -n 1 -w 0 --op broadcast --algo ring > out 2> said
    [ "$(cat said)" = 'paro-bench: doubt: a: b' ]
}

# bats test_tags=full
@test "under mpirun an error is one line of one rank, and the status 2" {
    refuses 2 'synth:2x2 groups 2x2 4x1' ranks 4 paro-bench --groups 4x1 -i synth:2x2
    refuses 2 '--factor x expected 2 1000000' ranks 4 paro-bench -f x
    refuses 2 '--table groups hosts expected -i TOPO' ranks 2 paro-bench --groups 2x1 --table
}

@test "memory that cannot be had is one line" {
    refuses 2 'bytes of shared memory available' paro-bench -b 128T -n 1 -w 0
    [[ $refusal =~ [0-9]+\ bytes\ of\ shared\ memory ]]
}

@test "a full disk is noticed in every format" {
    for o in '' --csv --json --percentiles; do
        for how in "--simulate -i synth:2x2 -b 1K" "-b 1K -n 1 -w 0 --algo ring" \
            "-b 1K -n 1 -w 0 --overlap"; do
            [ "$o$how" != "--percentiles-b 1K -n 1 -w 0 --overlap" ] || continue
            ends 2 paro-bench $o $how > /dev/full 2> said
            [ "$(wc -l < said)" = 1 ]
        done
    done
}

# bats test_tags=full
@test "what an interrupt leaves is whole rows" {
    mpirun -np 4 paro-bench --groups 2x2 -b 1K -e 64M -f 2 -n 2000 -w 1 --json > out 2> said &
    for _ in $(seq 600); do
        [ "$(wc -l < out)" -lt 3 ] || break
        sleep 0.1
    done
    kill -INT $!
    wait $! || true
    rows out '@d >= 3'
}
