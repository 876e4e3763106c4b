#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Groups that train apart beside training that synchronises each step: `make bench-periods`.
#
#   fabric   tokens/s and bytes through a port in a step, on an emulated fabric of 4 x 2 ranks at each
#            of RATES: the fastest plan with every step of all ranks, and with periods of EVERY steps;
#            a mean step, as paro-plan --check has it, and what was predicted; FRAGMENTS of them in turn,
#            in loss, too
#   loss     of reserved text after STEPS steps of equal tokens, on four groups of one rank, for SEEDS
#            seeds, with the difference; OUTER: options of the outer step
#   reached  the step at which periods have the loss that every step of all ranks has after STEPS, of
#            LONGER x STEPS, at a constant rate
#   picture  tokens/s over the rate: planned from 1 Mbit/s to 1 Gbit/s, on the fabric that was measured
#            last with its rates scaled, and what fabric has measured; RATES in mbit
. "$(dirname "$0")/begin.sh"
settings PARTS='fabric picture loss reached' RATES='10mbit 50mbit 200mbit' EVERY='10 50' SEEDS=3 STEPS=200 LONGER=3 LR=1e-3 OUTER= FRAGMENTS= \
    TEXT= MODEL=examples/models/llama-3m.json PLOT=build/bench/periods_plot
. examples/mpirun-env

MODEL=$(realpath "$MODEL") && PLOT=$(realpath "$PLOT") || exit 2
[ -z "$TEXT" ] || TEXT=$(realpath "$TEXT") || exit 2
mkdir -p "$OUT/periods" && cd "$OUT/periods" || exit 2
if [ -z "$TEXT" ]; then
    cat /usr/share/common-licenses/* > text
    TEXT=text
fi

# plan NAME H OPTION...: H 0: without periods.
plan() {
    name=$1 every=$2
    shift 2
    [ "$every" = 0 ] || set -- "$@" --sync-every "$every" ${FRAGMENTS:+--fragments "$FRAGMENTS"}
    paro-plan -m "$MODEL" "$@" > "$name.yaml" 2> said || die "$(tail -n 1 said)"
}

# checked LOG PLAN: seconds of a step and bytes through a port, the means of a period, and the seconds
# that were predicted.
checked() {
    paro-plan --check "$1" "$2" --json 2> said | awk -F '[":, ]+' '
        $2 == "term" { term = $3 }
        $2 == "predicted" || $2 == "measured" { v[term, $2] = $3 }
        END { print v["step_s", "measured"], v["slow_bytes", "measured"], v["step_s", "predicted"] }'
}

fabric() {
    : > rows
    echo "# $(basename "$MODEL"), 4 x 2 ranks, 2 micro-batches of 1 x 256 tokens"
    echo "# rate       H  strategy  step s  planned  tokens/s  slow MB"
    for rate in $RATES; do
        paro-lab -g 4 -p 2 -r "$rate" -- paro-topo -m "$MODEL" > "$rate.yaml" 2> said ||
            die "$rate: $(tail -n 1 said)"
        for h in 0 $EVERY; do
            plan "plan-$rate-$h" "$h" -i "$rate.yaml" --accum 2 --seq 256
            rm -rf run
            paro-lab -g 4 -p 2 -r "$rate" -- paro-train "plan-$rate-$h.yaml" -d "$TEXT" -o run \
                --steps $((h ? 2 * h : 6)) --json > "$rate-$h.jsonl" 2> said ||
                die "$rate, $h: $(tail -n 1 said)"
            checked "$rate-$h.jsonl" "plan-$rate-$h.yaml" | awk -v r="$rate" -v h="$h" \
                -v s="$(sed -n 's/^strategy: //p' "plan-$rate-$h.yaml")" \
                '{ printf "%-8s %5d  %-8s %7.3f %8.3f %9.0f %8.3f\n", r, h, s, $1, $3, 8 * 2 * 256 / $1, $2 / 1e6 }' |
                tee -a rows
        done
    done
}

picture() {
    last=${RATES##* }
    {
        for rate in 1 2 5 10 20 50 100 200 500 1000; do
            awk -v rate="$rate" -v last="${last%mbit}" '/name: inter/ { slow = 1 }
                slow && / (port|port_out|port_in|flow|member)_Bps:/ { sub(/[^ ]+$/, rate / last * $NF) } 1' "$last.yaml" > at.yaml
            for h in 0 $EVERY; do
                plan picture "$h" -i at.yaml --accum 2 --seq 256
                sed -n "s/^  tokens_per_s: \(.*\)/$rate $h \1 planned/p" picture.yaml
            done
        done
        awk '{ print $1 + 0, $2, $6, "measured" }' rows
    } > points
    "$PLOT" "$(basename "$MODEL" .json), 4 groups of 2 ranks, 2 micro-batches of 1 x 256 tokens${FRAGMENTS:+, in turns}" \
        < points 3> periods.svg || exit 2
    echo "# the picture is $OUT/periods/periods.svg"
}

# eval_loss H SEED STEPS EVAL-EVERY OPTION...: rows "step loss" of reserved text
eval_loss() {
    h=$1 seed=$2 steps=$3 evaluated=$4
    shift 4
    plan "loss-$h" "$h" -i synth:4x1,flops=1e10 --micro-batch 2 --seq 128 --strategy NNN
    rm -rf run
    # shellcheck disable=SC2086
    mpirun -n 4 paro-train "loss-$h.yaml" -d "$TEXT" -o run --steps "$steps" --warmup 20 --lr "$LR" $OUTER \
        --seed "$seed" --eval-every "$evaluated" --keep 1 --json "$@" > "loss-$h-$seed.jsonl" 2> said ||
        die "H $h: $(tail -n 1 said)"
    sed -n 's/.*"step":\([0-9]*\).*"eval_loss":\([0-9.]*\).*/\1 \2/p' "loss-$h-$seed.jsonl"
}

# heads: the line above the rows of the seeds
heads() {
    printf '%-6s %9s' '# seed' 'H 0'
    for h in $EVERY; do printf ' %18s' "H $h"; done
    echo
}

reached() {
    echo "# $(basename "$MODEL"), steps of 4 x 2 x 128 tokens, learning rate $LR: with the loss after $STEPS of all ranks"
    heads
    for seed in $(seq "$SEEDS"); do
        each=$(eval_loss 0 "$seed" "$STEPS" "$STEPS" --schedule constant | cut -d ' ' -f 2)
        printf '%-6s %9.4f' "$seed" "$each"
        for h in $EVERY; do
            eval_loss "$h" "$seed" $((LONGER * STEPS)) $((STEPS / 10)) --schedule constant > reached
            awk -v each="$each" '$2 <= each && !at { at = $1 } END { printf " %18s", at ? at : "not in " $1 }' reached
        done
        echo
    done
}

loss() {
    echo "# $(basename "$MODEL"), $STEPS steps of 4 x 2 x 128 tokens, learning rate $LR: loss of reserved text"
    heads
    for seed in $(seq "$SEEDS"); do
        for h in 0 $EVERY; do
            now=$(eval_loss "$h" "$seed" "$STEPS" "$STEPS" | cut -d ' ' -f 2)
            [ "$h" != 0 ] || each=$now
            if [ "$h" = 0 ]; then
                printf '%-6s %9.4f' "$seed" "$now"
            else
                awk -v a="$each" -v b="$now" 'BEGIN { printf " %9.4f %+7.2f%%", b, 100 * (b / a - 1) }'
            fi
        done
        echo
    done
}

for part in $PARTS; do
    case $part in
    fabric | picture | loss | reached) $part ;;
    *) die "part '$part', expected fabric, picture, loss or reached" ;;
    esac
done
