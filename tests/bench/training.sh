#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Strategies side by side on an emulated fabric: `make bench-training`.
#
# The fabric is measured, each plan is priced on it, and all of them train the same model on the
# same data, in turn, ROUNDS times; the first step of each launch does not count.  The table has
# medians over the steps of all rounds:
#
#   planned    the planner's step time, and measured over planned
#   step       measured, with the quartiles; tokens/s, and times those of the first plan
#   compute, exposed, idle   shares of the step of rank 0: computing (with what memory and the
#              other ranks on the cores cost), waiting for communication, for other ranks
#   path       step time over the critical path of the step's own tasks (--trace-step)
#   slow MB    through the busiest port a step: counted, and over what the plan says
#   MiB        states, activations and buffers of rank 0: allocated, and of a plan's largest rank
#   loss       of the last step
#
#   PLANS='GGG:ring III:ho-ring:--keep=all' ROUNDS=1 STEPS=4 MODEL=examples/models/llama-tiny.json ...
#
# Rows stay in bench/training.csv, the picture in bench/training.svg, the logs beside them.
# shellcheck disable=SC2086
. "$(dirname "$0")/begin.sh"
# PLAN_OPTIONS are the same for all, such as --wire-type=f32; TRAIN_OPTIONS such as --init=FOLDER.
settings GROUPS_=4 PROCS=2 RATE=200mbit MODEL=examples/models/llama-10m.json SEQ=256 ACCUM=4 \
    STEPS=6 ROUNDS=2 PLAN_OPTIONS= TRAIN_OPTIONS= DATA= PLOT=build/bench/training_plot
PLANS=${PLANS:-GGG:ring GGG:ho-ring IIG:ho-ring IGG:ho-ring NGG:ho-ring NIG:ho-ring NNG:ho-ring \
III:ho-ring NNN:ho-ring}

lab() { paro-lab -g "$GROUPS_" -p "$PROCS" -r "$RATE" -- "$@"; }
name() { echo "$1" | tr ':=' -; }
# What a plan's file says behind a key of its own line.
planned() { sed -n "s/^ *$1: //p" "$2" | head -n 1; }
# Of a key of the logs of a plan, steps 2 and later of every round, one a line.
values() {
    for log in "$OUT/$2".*.jsonl; do
        sed -n "2,\$s/.*\"$1\":\([-+.0-9e]*\).*/\1/p" "$log"
    done | sort -g
}
# The quantile of numbers in order.
quantile() { awk -v q="$1" '{ v[NR] = $1 } END { if (NR) print v[int(q * (NR - 1) + 1.5)] }'; }

mkdir -p "$OUT" || exit 2
rm -f "$OUT"/*-*.*.jsonl "$OUT"/*-*.yaml
if [ -z "$DATA" ]; then
    DATA=$OUT/text.txt
    cat /usr/share/common-licenses/* > "$DATA" 2> "$OUT/said" || die "no text, set DATA"
fi
lab paro-topo > "$OUT/fabric.yaml" || die "the fabric cannot be measured"
for plan in $PLANS; do
    name=$(name "$plan")
    algo=${plan#*:} own=${plan#*:*:}
    [ "$own" != "$plan" ] || own=
    paro-plan -m "$MODEL" -i "$OUT/fabric.yaml" --accum "$ACCUM" --seq "$SEQ" --mem 1e15 \
        --strategy "${plan%%:*}" --algo "${algo%%:*}" $own $PLAN_OPTIONS > "$OUT/$name.yaml" || exit 2
done
for round in $(seq "$ROUNDS"); do
    for plan in $PLANS; do
        name=$(name "$plan")
        rm -rf "$OUT/run"
        echo "round $round of $ROUNDS: $plan (load $(cut -d' ' -f1 /proc/loadavg))" >&2
        lab paro-train "$OUT/$name.yaml" $TRAIN_OPTIONS -d "$DATA" -o "$OUT/run" --steps "$STEPS" --json \
            --trace-step "$STEPS" --log "$OUT/$name.$round.jsonl" > "$OUT/out" 2> "$OUT/said" ||
            die "$plan: $(tail -n 1 "$OUT/said")"
        cp "$OUT/run"/trace-*.svg "$OUT/$name.trace.svg"
        rm -rf "$OUT/run"
    done
done

echo "name,planned_s,step_s,low_s,high_s,tokens_per_s,compute_s,exposed_s,idle_s,path_s,\
slow_bytes,planned_slow_bytes,state_bytes,buffer_bytes,planned_bytes,loss" > "$OUT/training.csv"
for plan in $PLANS; do
    name=$(name "$plan")
    row=$plan,$(planned step_s "$OUT/$name.yaml")
    for q in 0.5 0.25 0.75; do
        row=$row,$(values step_s "$name" | quantile $q)
    done
    for key in tokens_per_s compute_s exposed_comm_s idle_s critical_path_s slow_bytes; do
        row=$row,$(values $key "$name" | quantile 0.5)
    done
    row=$row,$(planned slow_bytes "$OUT/$name.yaml")
    for key in state_bytes buffer_bytes; do
        row=$row,$(values $key "$name" | quantile 0.5)
    done
    loss=$(sed -n '$s/.*"loss":\([-+.0-9e]*\).*/\1/p' "$OUT/$name.1.jsonl")
    echo "$row,$(planned total "$OUT/$name.yaml"),$loss"
done >> "$OUT/training.csv"

params=$(sed -n 's/^trainable: //p' "$OUT/$name.yaml")
title="$params parameters, $GROUPS_ nodes x $PROCS ranks, ports of $RATE, $ACCUM micro-batches of \
1 x $SEQ a rank, $(nproc) cores"
echo "# $title"
echo "# medians of $ROUNDS launches of $((STEPS - 1)) steps each; load $(cut -d' ' -f1 /proc/loadavg)"
awk -F, 'NR == 1 {
    printf "%-22s %9s %9s %17s %8s %9s %6s %7s %7s %5s %6s %8s %6s %6s %6s %8s\n", "# plan", "planned s",
        "step s", "quartiles", "meas/pl", "tokens/s", "times", "compute", "exposed", "idle", "path",
        "slow MB", "/plan", "MiB", "/plan", "loss"; next }
NR == 2 { first = $6 }
{ printf "%-22s %9.3f %9.3f %8.3f-%-8.3f %8.2f %9.0f %6.2f %6.0f%% %6.0f%% %4.0f%% %6s %8.2f %6.3f %6.0f %6.3f %8.5f\n", $1,
    $2, $3, $4, $5, $3 / $2, $6, $6 / first, 100 * $7 / $3, 100 * $8 / $3, 100 * $9 / $3,
    $10 ? sprintf("%.2f", $3 / $10) : "-", $11 / 1e6, $11 / $12,
    ($13 + $14) / 1048576, ($13 + $14) / $15, $16 }' "$OUT/training.csv"
"$PLOT" "$title" < "$OUT/training.csv" > "$OUT/training.svg" || exit 2
echo "# rows in $OUT/training.csv, the picture in $OUT/training.svg, a step of each in $OUT/*.trace.svg"
