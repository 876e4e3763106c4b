# SPDX-License-Identifier: BSD-3-Clause
# paro-sched simulate: times that can be worked out by hand, and every word that is wrong.
# shellcheck disable=SC2086

load refuses
load expect

# 4 ranks, 1 MB blocks: tau_e = 1 ms + 2 MB / 2 GB/s = 2 ms, x = 1 MB / 1 GB/s = 1 ms, latency
# inside 1 ms: 1 + 1 + max(2, 1) = 4 ms.
fabric=synth:2x2,intra=1GB/s:1ms,inter=2GB/s:1ms

@test "HO-Ring's closed form, golden" {
    expect ho-ring paro-sched simulate all-gather ho-ring -i "$fabric" -b 4MB
}

@test "a file, standard input and the generators agree" {
    for algo in ring two-level ho-ring; do
        for shape in 2x3 '[3,2]' 1x4; do
            paro-sched simulate all-reduce $algo -i "synth:$shape" --chunks 3 -b 1M > want
            paro-sched gen all-reduce $algo "$shape" --chunks 3 > rows
            paro-sched simulate -i "synth:$shape" -b 1M rows | diff want -
            paro-sched simulate -i "synth:$shape" -b 1M < rows | diff want -
            paro-sched simulate -i "synth:$shape" -b 1M - < rows | diff want -
        done
    done
}

@test "a broadcast has its root, and blocks of groups are part of the fabric" {
    paro-sched simulate broadcast ho-ring -i synth:2x3x2 --root 7 --chunks 2 > want
    paro-sched gen broadcast ho-ring 2x3x2 --root 7 --chunks 2 | paro-sched simulate -i synth:2x3x2 | diff want -
    paro-sched simulate all-reduce ho-ring -i synth:2x3x2,level2=1GB/s:1ms > want
    grep -q '^busy .* level2 ' want
    paro-sched gen all-reduce ho-ring 2x3x2 | paro-sched simulate -i synth:2x3x2,level2=1GB/s:1ms | diff want -
    # a root that sends all rows there are: no more than any other algorithm has
    paro-sched simulate broadcast direct -i synth:128x8 | grep -q '^time '
}

@test "the default size is 64Mi, and a topology file is read" {
    paro-topo -i synth:2x2 > fabric.yaml
    paro-sched simulate all-reduce ring -i synth:2x2 > want
    grep -q ': 64.0 MiB in' want
    paro-sched simulate all-reduce ring -i fabric.yaml -b 64Mi | diff want -
    paro-sched simulate all-reduce ring -i - < fabric.yaml | diff want -
}

@test "--json is valid and says the same" {
    paro-sched simulate all-gather ho-ring -i "$fabric" -b 4MB --json > out
    perl -MJSON::PP -e 'local $/; my $d = decode_json(<>);
        exit !($d->{schema} eq "paro.sched.simulate/1" && $d->{op} eq "all-gather"
            && $d->{algo} eq "ho-ring" && $d->{groups} eq "2x2" && $d->{ranks} == 4
            && $d->{bytes} == 4e6 && $d->{subchunks} == 1 && $d->{cut_by_layout}
            && abs($d->{time_s} - 4e-3) < 1e-12 && abs($d->{algbw_Bps} - 1e9) < 1e-3
            && abs($d->{busbw_Bps} - 75e7) < 1e-3 && abs($d->{limit_s} - 1e-3) < 1e-12
            && abs($d->{limit_fraction} - .25) < 1e-9 && @{$d->{levels}} == 2
            && $d->{levels}[0]{name} eq "intra"
            && abs($d->{levels}[1]{busy_fraction} - .25) < 1e-9)' out
    # one rank: no time, no bandwidth, no bound
    paro-sched simulate all-gather ring -i synth:1x1 --json > out
    perl -MJSON::PP -e 'local $/; my $d = decode_json(<>);
        exit !($d->{time_s} == 0 && !defined $d->{algbw_Bps} && !defined $d->{limit_fraction})' out
}

@test "partial collectives have a time and no cut bound" {
    paro-sched gen all-reduce ho-ring 2x2 | sed 's/^phases.*/phases reduce-across gather-across/' > rows
    paro-sched simulate -i synth:2x2 rows > out
    grep -q '^partial collective ho-ring on 2x2' out
    grep -q '^time ' out
    [ "$(grep -c 'cut bound' out)" = 0 ]
}

@test "sub-chunks shorten the fill, and the cut bound stands" {
    local last=1
    for c in 1 4 16; do
        now=$(paro-sched simulate all-gather ho-ring -i synth:2x4,inter=60MB/s:50us --chunks $c --json |
            perl -MJSON::PP -e 'local $/; my $d = decode_json(<>); print $d->{time_s}; exit($d->{limit_fraction} > 1)')
        awk -v a="$now" -v b="$last" 'BEGIN { exit !(a < b) }'
        last=$now
    done
}

@test "16384 ranks of HO-Ring in less than 10 s of processor time and 2 GiB" {
    # a sanitizer's shadow alone is larger
    ([ -n "$SAN" ] || ulimit -v $((2 * 1024 * 1024)) -t 10
        paro-sched simulate all-reduce ho-ring -i synth:2048x8) > out
    grep -q '^all-reduce ho-ring on 2048x8' out
}

@test "what does not fit together is named" {
    paro-sched gen all-gather ring 2x2 > rows
    refuses 2 "groups 4x1 2x2" paro-sched simulate -i synth:4x1 rows
    # two messages of one step, each behind the other: lane step src dst chunk op
    sed '/^rows/,$d' rows > cycle
    printf 'rows 3\n0 0 0 1 0 copy\n0 0 1 2 0 copy\n0 0 0 1 1>0 copy\nend\n' >> cycle
    refuses 2 "2 messages wait lane 0 step 0 rank 0 rank 1" paro-sched simulate -i synth:2x2 cycle
}

@test "errors under --json are one object; a closed pipe ends quietly" {
    ends 2 paro-sched simulate --json -i synth:2x2 all-reduce tripod > out 2> said
    [ ! -s out ]
    perl -MJSON::PP -e 'local $/; exit !(decode_json(<>)->{error}{text} =~ /tripod/)' said
    for verb in 'draw -i synth:4x4 all-reduce ho-ring' 'pick -i synth:4x2 --op broadcast -e 64Ki'; do
        ends 2 paro-sched $verb --json > /dev/full 2> said
        perl -MJSON::PP -e 'local $/; exit !(decode_json(<>)->{error}{code} eq "system")' said
    done
    for verb in 'gen all-reduce ho-ring 8x8' 'draw -i synth:8x8 all-reduce ho-ring' \
        'draw --json -i synth:8x8 all-reduce ho-ring' 'pick -i synth:4x2 -e 64Ki'; do
        paro-sched $verb 2> said | head -n 1
        [ ! -s said ]
    done
}
