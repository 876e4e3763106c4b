#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs that know MPI alone, with libparo-mpi.so preloaded and without, on emulated fabrics:
# `make bench-preload_mpi`.
#
#   latency   examples/mpi/latency.c: the mean time of a collective, of each size; its warm-up is
#             longer than a verdict takes
#   cg        examples/mpi/cg.c: the time of its iterations, the verdict among them
#   tp        examples/mpi/tp.c: the time of a sequence through tensor-parallel layers
#
# The two are launched in turn, LAUNCHES times each on every fabric, and medians are compared; what
# each launch printed stays in OUT/preload.
. "$(dirname "$0")/begin.sh"
settings LAUNCHES=5 FABRICS='2x4:500mbit 4x2:500mbit 2x2:1gbit' MIN=65536 MAX=4194304 \
    UNKNOWNS=524288 TP='4 256 128 8'
LIBRARY=${LIBRARY:-$BIN/../build/libparo-mpi.so}

mkdir -p "$OUT/preload" || exit 2
here=$PWD
cd "$OUT/preload" || exit 2
rm -f ./*.out
mpicc -O2 -o latency "$here/examples/mpi/latency.c" || exit 2
mpicc -O2 -o cg "$here/examples/mpi/cg.c" -lm || exit 2
mpicc -O3 -o tp "$here/examples/mpi/tp.c" -lm || exit 2

# run FABRIC HOW N
run() {
    shape=${1%%:*}
    groups=${shape%x*}
    procs=${shape#*x}
    name=$1.$2.$3
    preload=
    [ "$2" = plain ] || preload=LD_PRELOAD=$LIBRARY
    # shellcheck disable=SC2086 # a word or none, numbers
    timeout 600 paro-lab -g "$groups" -p "$procs" -r "${1#*:}" -- env $preload \
        PARO_MPI_TRACE="$PWD/$name.trace.out" ./latency -b "$MIN" -e "$MAX" -w 12 -n 8 > "$name.latency.out" &&
        timeout 600 paro-lab -g "$groups" -p "$procs" -r "${1#*:}" -- env $preload ./cg "$UNKNOWNS" \
            > "$name.cg.out" &&
        timeout 600 paro-lab -g "$groups" -p "$procs" -r "${1#*:}" -- env $preload ./tp $TP > "$name.tp.out" && return
    echo "preload_mpi.sh: $name fails" >&2
    exit 2
}

for fabric in $FABRICS; do
    n=0
    while [ $((n += 1)) -le "$LAUNCHES" ]; do
        run "$fabric" plain $n
        run "$fabric" preloaded $n
    done
done

# Rows "fabric how what seconds".
for f in *.latency.out *.cg.out *.tp.out; do
    fabric=${f%%.*}
    rest=${f#*.}
    awk -v f="$fabric" -v how="${rest%%.*}" '
        $1 ~ /^(allgather|reduce_scatter|allreduce|bcast)$/ { print f, how, $1 ":" $2, $4 / 1e6 }
        / sequences\/s / { sub(/.* ranks: /, ""); print f, how, "tp", 1 / $1 }
        / iterations in / { sub(/.* iterations in /, ""); print f, how, "cg", $1 }' "$f"
done | awk -v launches="$LAUNCHES" '
    function median(v, n,    i, j, t) {
        for (i = 1; i < n; i++)
            for (j = i + 1; j <= n; j++)
                if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
        return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    {
        key = $1 " " $3
        if (!(key in seen)) { seen[key] = ++keys; name[keys] = key }
        n = ++count[key, $2]
        time[key, $2, n] = $4
    }
    END {
        printf "%-14s %-24s %12s %12s %7s\n", "fabric", "what", "plain ms", "preloaded", "ratio"
        for (k = 1; k <= keys; k++) {
            key = name[k]
            for (h = 0; h < 2; h++) {
                how = h ? "preloaded" : "plain"
                n = count[key, how]
                for (i = 1; i <= n; i++)
                    v[i] = time[key, how, i]
                m[h] = median(v, n) * 1e3
            }
            split(key, part, " ")
            printf "%-14s %-24s %12.3f %12.3f %7.2f\n", part[1], part[2], m[0], m[1], m[0] / m[1]
        }
        printf "medians of %d launches each; load average ", launches
    }'
cut -d ' ' -f 1-3 /proc/loadavg
