#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# How fast paro-rank reads logs, beside `wc -l` of the same files: `make bench-rank`.
#
# A log of each format, GB gigabytes (1e9 bytes), is made once and read ROUNDS times from the
# page cache by wc -l, by paro-rank with epochs of 1000 steps, with epochs of one step, and as
# four logs with epochs of 1000 (a thread each, where there are processors).  They take turns, and
# the least time of each counts: what else runs on the machine only adds.  The ratio of times on
# the clock and of processor time (user and system) to wc's; the aim is 4.  The program must do with
# 32 MiB of address space, whatever the size of the log.
# shellcheck disable=SC2016,SC3045
set -e
. "$(dirname "$0")/begin.sh"
settings GB=1 ROUNDS=7 FORMATS='jsonl llmc nano'

# make_log FORMAT BYTES: as paro-train, llm.c and modded-nanogpt write.
make_log() {
    awk -v form="$1" -v bytes="$2" 'BEGIN {
        srand(1)
        while (n < bytes) {
            s++; l = 2.8 + 8 / (1 + s / 1000) + rand() / 10
            if (form == "jsonl")
                t = sprintf("{\"step\":%d,\"loss\":%.16g,\"grad_norm\":0.71,\"lr\":0.0003," \
                    "\"tokens\":524288,\"step_s\":0.25,\"tokens_per_s\":2097152,\"compute_s\":0.125," \
                    "\"exposed_comm_s\":0.0625,\"idle_s\":0.0625,\"slow_bytes\":1048576," \
                    "\"fast_bytes\":2097152,\"state_bytes\":999999,\"buffer_bytes\":99999," \
                    "\"gflops\":123.4,\"skipped\":false}", s, l)
            else if (form == "llmc")
                t = sprintf("s:%d trl:%.4f lr:0.000600 norm:%.2f", s, l, rand())
            else
                t = sprintf("step:%d/99999999 train_loss:%.4f train_time:%dms step_avg:125.00ms", \
                    s, l, s * 125)
            n += length(t) + 1
            print t
        }
    }'
}

turns='
    use Time::HiRes qw(time);
    my ($rounds, $format, $lines) = splice @ARGV, 0, 3;
    my @name = ("wc -l", "-b 1000", "-b 1", "4 logs");
    my @does = ("wc -l log >none", "paro-rank --steps-per-epoch 1000 log >none", "paro-rank log >none",
                "paro-rank --steps-per-epoch 1000 quarter.? >none");
    my (@wall, @cpu);
    for (1 .. $rounds) {
        for my $i (0 .. $#does) {
            my ($w, @c) = (time, times);
            system($does[$i]) == 0 or die "$does[$i]: status $?\n";
            my @d = times;
            my ($wall, $cpu) = (time - $w, $d[2] - $c[2] + $d[3] - $c[3]);
            $wall[$i] = $wall if !defined $wall[$i] || $wall < $wall[$i];
            $cpu[$i] = $cpu if !defined $cpu[$i] || $cpu < $cpu[$i];
        }
    }
    printf "%-7s %9d  %-8s %8.3f %8.3f %8.2f %8.2f\n", $format, $lines, $name[$_], $wall[$_],
        $cpu[$_], $wall[$_] / $wall[0], $cpu[$_] / $cpu[0] for 0 .. $#does;
'

rm -rf "$OUT/rank"
mkdir -p "$OUT/rank"
cd "$OUT/rank"
echo "# $GB GB a format, $(nproc) processors, the least of $ROUNDS turns, load $(cut -d ' ' -f 1 /proc/loadavg)"
echo "#format     lines  reader    wall_s    cpu_s   wall/wc   cpu/wc"
for format in $FORMATS; do
    make_log "$format" "$(awk -v gb="$GB" 'BEGIN { printf "%.0f", gb * 1e9 }')" > log
    for part in 1 2 3 4; do
        make_log "$format" "$(awk -v gb="$GB" 'BEGIN { printf "%.0f", gb * 25e7 }')" > quarter.$part
    done
    (ulimit -v 32768 && paro-rank --steps-per-epoch 1000 log > none && paro-rank log > none)
    perl -e "$turns" "$ROUNDS" "$format" "$(wc -l < log)"
done
cd ..
rm -rf rank
