#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What horing-check's verdicts are worth: `make bench-health`.
#
# Fleets that are made up, with 2 % of noise and 2 % of transient losses of 20 to 40 %, go through
# the plans, second looks and verdicts that a run goes through: RUNS healthy ones of each of the
# smaller sizes, fewer of the larger, and with one fault each.  A row: how many runs found the fault,
# how many named it right and nobody else, how many accused somebody else, with 95 % intervals
# (Wilson); the same as a hysteresis of two runs has it; and the processor time of a verdict.  Pairs
# are those that a run measures: of n hosts, level normal measures about 15 of n - 1 of each host.
#
# SHOW: fleets, the table; curve, what becomes of ports slower by 1 to 12 %, drawn in
# bench/health.svg; lab, LAB_RUNS (100) of each kind on the emulated fabric (health_lab.sh, hours).
# Rows stay in bench/health.rows.
. "$(dirname "$0")/begin.sh"
settings RUNS=10000 SIZES='8 64 512 4096' SHOW='fleets curve lab' PLOT=build/bench/health_plot \
    KINDS='port:90 port:95 out:90 in:90 pair:80 cut:100 flap:100 corrupt:100 late:400 several:90'
FLEETS=${FLEETS:-$(dirname "$PLOT")/health_fleets}
mkdir -p "$OUT" || exit 2

# Runs of a size, of COUNT at 64 hosts: the work grows with the hosts.
runs() { awk -v c="$1" -v n="$2" 'BEGIN { r = n <= 64 ? c : c * 50 / n; print r < 20 ? 20 : int(r / 2) * 2 }'; }

table() {
    awk '
        function share(k, n,    p, z, m, h) {
            z = 1.96; p = k / n; m = (p + z * z / (2 * n)) / (1 + z * z / n)
            h = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
            return sprintf("%6.2f (%.2f-%.2f)", 100 * p, 100 * (m - h < 0 ? 0 : m - h),
                100 * (m + h > 1 ? 1 : m + h))
        }
        BEGIN {
            printf "%-12s %5s %6s  %-22s %-22s %-22s %8s %8s %8s\n", "fault", "hosts", "runs", "found %",
                "named right %", "others accused %", "2 runs %", "others", "ms"
        }
        {
            name = $1 == "healthy" ? "healthy" $11 : $1 " " $3 "%"
            printf "%-12s %5d %6d  %-22s %-22s %-22s %8.2f %8.3f %8.2f\n", name, $2, $4,
                $1 == "healthy" ? "-" : share($5, $4), share($6, $4), share($7, $4),
                $1 == "healthy" ? 0 : 200 * $8 / $4, 200 * $9 / $4, $10
        }'
}

fleets() {
    : > "$OUT/health.rows"
    for size in $SIZES; do
        "$FLEETS" healthy "$size" 100 "$(runs "$RUNS" "$size")" 1 >> "$OUT/health.rows" || exit 2
    done
    # With more noise than is promised for.
    for noise in 0.05 0.1; do
        "$FLEETS" healthy 64 100 "$(runs $((RUNS / 5)) 64)" 1 $noise 0.05 |
            sed "s|\$| ,$noise|" >> "$OUT/health.rows" || exit 2
    done
    for kind in $KINDS; do
        for size in $SIZES; do
            "$FLEETS" "${kind%:*}" "$size" "${kind#*:}" "$(runs $((RUNS / 25)) "$size")" 1000000 \
                >> "$OUT/health.rows" || exit 2
        done
    done
    echo "# $(awk '$1 == "healthy" { n += $4 } END { print n }' "$OUT/health.rows") healthy runs, \
$(wc -l < "$OUT/health.rows") rows; ms: processor time of a verdict"
    table < "$OUT/health.rows"
}

curve() {
    : > "$OUT/health.curve"
    for size in 8 64 512; do
        for percent in 99 98 97 96 95 94 93 92 91 90 89 88; do
            "$FLEETS" port "$size" "$percent" "$(runs $((RUNS / 50)) "$size")" 2000000 \
                >> "$OUT/health.curve" || exit 2
        done
    done
    table < "$OUT/health.curve"
    "$PLOT" "$((RUNS / 50)) runs a point, 2 % noise and transients" < "$OUT/health.curve" \
        > "$OUT/health.svg" || exit 2
    echo "# the picture in $OUT/health.svg"
}

for part in $SHOW; do
    case $part in
    fleets | curve) "$part" ;;
    lab) RUNS=${LAB_RUNS:-100} KINDS='' sh tests/bench/health_lab.sh || exit 2 ;;
    *) die "part '$part', expected fleets, curve or lab" ;;
    esac
done
