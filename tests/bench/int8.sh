#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What int8 blocks between groups do to the loss: `make bench-int8`.
#
# Each strategy trains the same model on the same data in each of the ways to travel, from the
# same weights: f32 and bf16, and of those int8 for parameters, for gradients, for both.  The
# table has the mean loss of the last LAST steps, over the seeds; by how much it is above that of
# the strategy's first way, and the standard error of that over the seeds; and the bytes through
# the busiest port a step, counted.
#
#   STRATEGIES=NNG TYPES='f32 f32+grads' SEEDS=1 STEPS=100 LAST=20 MODEL=... DATA=... ...
#
# A way is a type of what travels and, behind +, what travels as int8.  Losses of every step, means
# over the seeds, stay in bench/int8.csv, the picture in bench/int8.svg.
# shellcheck disable=SC2046,SC2086
. "$(dirname "$0")/begin.sh"
# At ACCUM=1 both strategies round the same numbers.
settings TYPES='f32 bf16 f32+params f32+grads f32+both bf16+params bf16+grads bf16+both' \
    STRATEGIES='NNG GGG' SEEDS='1 2 3' STEPS=400 LAST=50 SHAPE=2x2 SEQ=64 ACCUM=2 \
    MODEL=examples/models/llama-tiny.json TRAIN='--lr 1e-3 --min-lr 1e-4 --warmup 20' DATA= \
    PLOT=build/bench/int8_plot
. examples/mpirun-env

planned() { sed -n "s/^ *$1: //p" "$2" | head -n 1; }

mkdir -p "$OUT/int8" || exit 2
if [ -z "$DATA" ]; then
    DATA=$OUT/text.txt
    cat /usr/share/common-licenses/* > "$DATA" 2> "$OUT/said" || die "no text, set DATA"
fi

# The options of a way.
options() {
    echo "--param-type f32 --wire-type ${1%%+*}"
    case $1 in *+params | *+both) echo --slow-params int8 ;; esac
    case $1 in *+grads | *+both) echo --slow-grads int8 ;; esac
}

for s in $STRATEGIES; do
    for way in $TYPES; do
        run=$OUT/int8/$s-$way
        paro-plan -m "$MODEL" -i "synth:$SHAPE" --mem 1e15 --strategy "$s" --seq "$SEQ" \
            --accum "$ACCUM" $(options "$way") > "$run.yaml" || exit 2
        ranks=$(sed -n 's/^    ranks: \[\(.*\)\]$/\1/p' "$run.yaml" | tr , '\n' | wc -l)
        for seed in $SEEDS; do
            [ -s "$run-$seed.jsonl" ] && [ "$(wc -l < "$run-$seed.jsonl")" = "$STEPS" ] && continue
            rm -rf "$OUT/int8/run"
            echo "$s $way, seed $seed (load $(cut -d' ' -f1 /proc/loadavg))" >&2
            mpirun -np "$ranks" paro-train "$run.yaml" -d "$DATA" -o "$OUT/int8/run" \
                --seed "$seed" --steps "$STEPS" $TRAIN --log "$run-$seed.part" --json \
                > "$OUT/out" 2> "$OUT/said" || die "$s $way: $(tail -n 1 "$OUT/said")"
            mv "$run-$seed.part" "$run-$seed.jsonl"
            rm -rf "$OUT/int8/run"
        done
    done
done

# Rows "strategy way seed step loss slow_bytes" of all.
for s in $STRATEGIES; do
    for way in $TYPES; do
        for seed in $SEEDS; do
            sed "s/^{\"step\":\([0-9]*\),\"loss\":\([-+.0-9e]*\),.*\"slow_bytes\":\([0-9]*\).*/$s \
$way $seed \1 \2 \3/" "$OUT/int8/$s-$way-$seed.jsonl"
        done
    done
done > "$OUT/int8/rows"

awk '{
    name = $1 " " $2
    if (!(name in number)) { number[name] = ++series; title[series] = name }
    sum[number[name], $4] += $5; n[number[name], $4]++; steps = $4 > steps ? $4 : steps
} END {
    printf "step"; for (i = 1; i <= series; i++) printf ",%s", title[i]; print ""
    for (t = 1; t <= steps; t++) {
        printf "%d", t
        for (i = 1; i <= series; i++) printf ",%.6f", sum[i, t] / n[i, t]
        print ""
    }
}' "$OUT/int8/rows" > "$OUT/int8.csv"

title="$(planned trainable "$run.yaml") parameters, groups $SHAPE, $ranks x $ACCUM x $SEQ tokens a step, \
mean of $(echo "$SEEDS" | wc -w) seeds"
echo "# $title"
echo "# loss: mean of the last $LAST of $STEPS steps"
awk -v last="$LAST" -v steps="$STEPS" '{
    name = $1 " " $2
    if (!(name in seen)) { seen[name] = 1; order[++count] = name; if (!($1 in first)) first[$1] = name }
    if (!($3 in seed)) { seed[$3] = 1; seeds++ }
    if ($4 > steps - last) mean[name, $3] += $5 / last
    slow[name] = $6
} END {
    printf "%-18s %9s %10s %9s %12s %7s\n", "# way", "loss", "above", "+-", "slow bytes", "share"
    for (i = 1; i <= count; i++) {
        name = order[i]; split(name, word, " "); base = first[word[1]]
        all = off = square = 0
        for (k in seed) {
            d = mean[name, k] - mean[base, k]
            all += mean[name, k] / seeds; off += d / seeds; square += d * d / seeds
        }
        spread = square - off * off; spread = spread > 0 ? spread : 0
        error = seeds > 1 ? sprintf("%.4f", sqrt(spread / (seeds - 1))) : "-"
        printf "%-18s %9.4f %+10.4f %9s %12d %7.3f\n", name, all, off, error, slow[name],
            slow[name] / slow[base]
    }
}' "$OUT/int8/rows"
"$PLOT" "$title" < "$OUT/int8.csv" > "$OUT/int8.svg" || exit 2
echo "# every step in $OUT/int8.csv, the picture in $OUT/int8.svg, logs in $OUT/int8/"
