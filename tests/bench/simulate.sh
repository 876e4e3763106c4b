#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What paro-sched simulate predicts from a measured topology, beside what paro-bench then measures
# on the same emulated fabric: the ratio should be within 10 % of 1.  The best of several launches'
# medians counts, for a machine that is busy with something else only ever adds time.  Exit
# status 1 when a ratio is further from 1 than WITHIN.
#
# FABRIC=TOPO takes a topology that is at hand, a file or synth:SPEC, and measures none.
# shellcheck disable=SC2086
. "$(dirname "$0")/begin.sh"
settings NODES=2 PROCS=2 RATE=500mbit SIZES='16Mi 64Mi' \
    OPS='all-gather reduce-scatter all-reduce' ALGOS='ring two-level ho-ring' LAUNCHES=3 \
    ITERS=10 CHUNK=61440 WITHIN=0.1 LAB= FABRIC=

dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT

if [ -n "$FABRIC" ]; then
    paro-topo -i "$FABRIC"
else
    paro-lab -g "$NODES" -p "$PROCS" -r "$RATE" $LAB -- paro-topo
fi > "$dir/fabric.yaml" || exit 2
paro-topo -i "$dir/fabric.yaml" --format table
ops=$(echo "$OPS" | tr ' ' ,)
algos=$(echo "$ALGOS" | tr ' ' ,)
for size in $SIZES; do
    i=0
    while [ $i -lt "$LAUNCHES" ]; do
        paro-lab -g "$NODES" -p "$PROCS" -r "$RATE" $LAB -- paro-bench --json -b "$size" \
            -n "$ITERS" -w 2 --op "$ops" --algo "$algos" --chunk "$CHUNK" \
            -i "$dir/fabric.yaml" >> "$dir/measured" || exit 2
        i=$((i + 1))
    done
done
# Each row once more as a prediction, in as many sub-chunks as the executor cuts a part into.
perl -MJSON::PP -e '
    my ($dir, $chunk, $within) = @ARGV;
    my (%best, @rows, $off);
    open my $in, "<", "$dir/measured" or die;
    while (<$in>) {
        my $d = decode_json($_);
        die "wrong data: $_" if $d->{wrong};
        my $key = "$d->{op} $d->{algo} $d->{bytes}";
        push @rows, $d unless exists $best{$key};
        my $s = $d->{time_s}{median};
        $best{$key} = $s if !exists $best{$key} || $s < $best{$key};
    }
    printf "# %-15s %-10s %10s %9s %10s %10s %6s\n", qw(operation algo bytes sub-chunks measured
        predicted ratio);
    for my $d (@rows) {
        my $c = int(($d->{bytes} / $d->{ranks} + $chunk - 1) / $chunk);
        my $text = `paro-sched simulate $d->{op} $d->{algo} -i $dir/fabric.yaml -b $d->{bytes} --chunks $c --json`;
        die "no prediction" if $?;
        my $want = decode_json($text)->{time_s};
        my $have = $best{"$d->{op} $d->{algo} $d->{bytes}"};
        my $ratio = $have / $want;
        $off++ if abs($ratio - 1) > $within;
        printf "  %-15s %-10s %10d %9d %8.2fms %8.2fms %6.3f\n", $d->{op}, $d->{algo}, $d->{bytes},
            $c, $have * 1e3, $want * 1e3, $ratio;
    }
    die "nothing was measured" unless @rows;
    printf "# load %s", `cat /proc/loadavg`;
    exit($off ? 1 : 0)' "$dir" "$CHUNK" "$WITHIN"
