#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Is the planner right?  `make bench-planner`: on emulated fabrics of several shapes and rates the
# fabric is measured, all strategies are priced on it, and then each of them trains.  Printed for
# each case (fabric and micro-batches a step):
#
#   pairs      pairs of strategies predicted more than 5 % apart, and the share of them that the
#              measured steps order the same way
#   meas/pl    measured over planned step, quartiles over the strategies
#   winner     the predicted winner's planned and measured step
#   of best    the predicted top three, run again in turn: the winner's step over their best
#
# At the end the same pairs by the guideline of the paper (T of `paro-plan --list`): of those that it
# puts more than 5 % apart the share ordered right, and of the pairs above that of those it orders right.
#
# Steps are medians of one launch each (STEPS less the first); the top three are medians of ROUNDS
# launches in turn.
#
#   CASES='2x2:500mbit:1 3,2:200mbit:4' STRATEGIES='NNG IIG GGG' ROUNDS=1 ...
#
# Rows stay in bench/planner.csv, the picture in bench/planner.svg, logs in bench/planner/.
. "$(dirname "$0")/begin.sh"
settings MODEL=examples/models/llama-3m.json SEQ=256 STEPS=6 ROUNDS=3 TOP=3 DATA= \
    PLOT=build/bench/planner_plot
CASES=${CASES:-2x2:100mbit:1 2x2:100mbit:4 2x2:500mbit:1 2x2:500mbit:4 2x2:1gbit:1 2x2:1gbit:4 \
4x2:200mbit:1 4x2:200mbit:4 2x4:500mbit:1 2x4:500mbit:4 3,2:500mbit:1 3,2:500mbit:4}
STRATEGIES=${STRATEGIES:-$(for p in N I G; do for g in N I G; do for o in N I G; do
    echo "$p$g$o"
done; done; done)}

# lab SHAPE RATE COMMAND...: 4x2, or 3,2 for unequal nodes.
lab() {
    case $1 in
    *,*) nodes=$(echo "$1" | tr ',' '\n' | wc -l) ranks=$1 ;;
    *) nodes=${1%x*} ranks=${1#*x} ;;
    esac
    rate=$2
    shift 2
    paro-lab -g "$nodes" -p "$ranks" -r "$rate" -- "$@"
}

# numbers one a line: the quantile.
quantile() { sort -g | awk -v q="$1" '{ v[NR] = $1 } END { if (NR) print v[int(q * (NR - 1) + 1.5)] }'; }

# T of a strategy in the list of the case at hand.
guideline() {
    sed -n "/\"strategy\": \"$1\"/,/\"dominated_by\"/s/^ *\"guideline_s\": \(.*\),\$/\1/p" "$dir/list"
}

# Steps of a launch, the first one left out, one a line, into $dir/$2.steps (appended).
train() {
    rm -rf "$dir/run" "$dir/log"
    lab "$shape" "$rate_" paro-train "$dir/$2.yaml" -d "$DATA" -o "$dir/run" --steps "$STEPS" --json \
        --log "$dir/log" > "$dir/out" 2> "$dir/said" || die "$1: $2: $(tail -n 1 "$dir/said")"
    sed -n '2,$s/.*"step_s":\([-+.0-9e]*\).*/\1/p' "$dir/log" >> "$dir/$2.$3"
    rm -rf "$dir/run"
}

mkdir -p "$OUT/planner" || exit 2
rm -rf "$OUT/planner"/*
if [ -z "$DATA" ]; then
    DATA=$OUT/text.txt
    cat /usr/share/common-licenses/* > "$DATA" 2> "$OUT/said" || die "no text, set DATA"
fi
CSV=$OUT/planner.csv
echo "case,strategy,algo,planned_s,step_s,low_s,high_s,guideline_s" > "$CSV"
printf '# %-14s %6s %8s %18s %6s %20s %9s %6s\n' case pairs ordered 'meas/pl quartiles' winner \
    'planned s  step s' meas/pl 'of best'
for case in $CASES; do
    shape=${case%%:*} accum=${case##*:} rate_=${case#*:}
    name=$(echo "$case" | tr , +) # no comma in a row
    rate_=${rate_%:*} dir=$OUT/planner/$(echo "$name" | tr : -)
    mkdir -p "$dir"
    lab "$shape" "$rate_" paro-topo -m "$MODEL" --seq "$SEQ" > "$dir/fabric.yaml" 2> "$dir/said" ||
        die "$case: the fabric cannot be measured: $(tail -n 1 "$dir/said")"
    paro-plan -m "$MODEL" -i "$dir/fabric.yaml" --accum "$accum" --seq "$SEQ" --mem 1e15 --list --json \
        > "$dir/list" || exit 2
    echo "$name: $(echo "$STRATEGIES" | wc -w) strategies (load $(cut -d' ' -f1 /proc/loadavg))" >&2
    for s in $STRATEGIES; do
        paro-plan -m "$MODEL" -i "$dir/fabric.yaml" --accum "$accum" --seq "$SEQ" --mem 1e15 \
            --strategy "$s" > "$dir/$s.yaml" || exit 2
        train "$case" "$s" steps
        echo "$name,$s,$(sed -n 's/^algo: //p' "$dir/$s.yaml"),$(sed -n 's/^  step_s: //p' \
            "$dir/$s.yaml"),$(quantile 0.5 < "$dir/$s.steps"),$(quantile 0.25 < \
            "$dir/$s.steps"),$(quantile 0.75 < "$dir/$s.steps"),$(guideline "$s")" >> "$CSV"
    done
    best=$(grep -F "$name," "$CSV" | sort -t, -g -k4 | head -n "$TOP" | cut -d, -f2)
    for round in $(seq "$ROUNDS"); do
        echo "$name: the best $TOP, round $round of $ROUNDS" >&2
        for s in $best; do
            train "$case" "$s" again
        done
    done
    for s in $best; do
        echo "$s $(quantile 0.5 < "$dir/$s.again")"
    done > "$dir/top"
    winner=$(head -n 1 "$dir/top" | cut -d' ' -f1)
    again=$(awk 'NR == 1 { w = $2 } !m || $2 < m { m = $2 } END { printf "%.3f", w / m }' "$dir/top")
    step=$(head -n 1 "$dir/top" | cut -d' ' -f2)
    grep -F "$name," "$CSV" | awk -F, -v case="$name" -v winner="$winner" -v again="$again" \
        -v step="$step" '
        { p[NR] = $4; m[NR] = $5; r[NR] = $5 / $4; if ($2 == winner) plan = $4 }
        END {
            for (i = 1; i <= NR; i++)
                for (j = 1; j <= NR; j++)
                    if (p[i] > 1.05 * p[j]) { pairs++; right += m[i] > m[j] }
            for (i = 1; i <= NR; i++)
                for (j = i + 1; j <= NR; j++)
                    if (r[j] < r[i]) { t = r[i]; r[i] = r[j]; r[j] = t }
            q = "-"
            if (pairs) q = sprintf("%.1f%%", 100 * right / pairs)
            printf "%-16s %6d %8s %5.2f %5.2f %5.2f  %6s %9.4f %9.4f %9.2f %7s\n", case, pairs, q,
                r[int(0.25 * (NR - 1) + 1.5)], r[int(0.5 * (NR - 1) + 1.5)],
                r[int(0.75 * (NR - 1) + 1.5)], winner, plan, step, step / plan, again
        }'
done
awk -F, 'NR > 1 { n++; c[n] = $1; p[n] = $4; m[n] = $5; g[n] = $8 }
    function share(part, all) { return all ? 100 * part / all : 0 }
    END {
        for (i = 1; i <= n; i++)
            for (j = 1; j <= n; j++) {
                if (c[i] != c[j]) continue
                if (p[i] > 1.05 * p[j]) { pairs++; right += m[i] > m[j]; also += m[i] > m[j] && g[i] > g[j] }
                if (g[i] > 1.05 * g[j]) { its++; its_right += m[i] > m[j] }
            }
        printf "# all: %d pairs more than 5 %% apart, %.2f %% ordered right; the guideline orders %.2f %%\n",
            pairs, share(right, pairs), share(also, pairs)
        printf "# guideline: %d pairs more than 5 %% apart, %.2f %% ordered right\n", its, share(its_right, its)
    }' "$CSV"
"$PLOT" "$(basename "$MODEL"), planned beside measured, $(nproc) cores" < "$CSV" > "$OUT/planner.svg" ||
    exit 2
echo "# rows in $CSV, the picture in $OUT/planner.svg; load $(cut -d' ' -f1 /proc/loadavg)"
