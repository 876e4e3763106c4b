#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Sparse models beside dense ones: `make bench-sparse`.
#
#   loss     of reserved text after STEPS steps of equal tokens, over SEEDS seeds: dense; MEST with
#            EM&S, EM and blocks of four; a mask that stays (static); the dense model with its largest
#            values alone and nothing trained afterwards (magnitude).  Median, least and most.
#   fabric   what a step takes and sends on an emulated fabric of 4 x 2 ranks at RATE, dense and
#            sparse under each strategy, and bytes of the states of a rank.
#
# Logs stay in OUT/sparse.
. "$(dirname "$0")/begin.sh"
settings PARTS='loss fabric' SHARES='0.8 0.9' SEEDS=5 STEPS=300 TEXT= \
    MODEL=examples/models/llama-3m.json RATE=200mbit STRATEGIES='GGG IGG NIG' \
    WAYS='dense ems em block4 static magnitude'
. examples/mpirun-env

MODEL=$(realpath "$MODEL") || exit 2
[ -z "$TEXT" ] || TEXT=$(realpath "$TEXT") || exit 2
mkdir -p "$OUT/sparse" && cd "$OUT/sparse" || exit 2
if [ -z "$TEXT" ]; then
    cat /usr/share/common-licenses/* > text
    TEXT=text
fi

# what WAY SHARE: as paro-plan --trainable takes it.
what() {
    case $1 in
    dense) echo all ;;
    ems) echo "sparse=$2" ;;
    em) echo "sparse=$2,mode=em" ;;
    block4) echo "sparse=$2,scheme=block4" ;;
    static | magnitude) echo "sparse=$2,p=0" ;;
    *) die "way '$1', expected dense, ems, em, block4, static or magnitude" ;;
    esac
}

value() { grep -o "\"$1\":[0-9.e+-]*" "$2" | tail -n 1 | cut -d : -f 2; }

# loss NAME WAY SHARE SEED: prints it.
loss() {
    steps=$STEPS init=
    paro-plan -m "$MODEL" -i synth:1x1 --seq 128 --micro-batch 4 --trainable "$(what "$2" "$3")" \
        > "$1.yaml" 2> said || die "$(cat said)"
    set -- "$@" --lr 2e-3
    if [ "$2" = magnitude ]; then
        steps=1 init="--init dense-$4/latest"
        set -- "$1" "$2" "$3" "$4" --lr 0 --weight-decay 0
    fi
    rm -rf "$1"
    name=$1 seed=$4
    shift 4
    # shellcheck disable=SC2086 # words
    paro-train "$name.yaml" -d "$TEXT" -o "$name" --steps "$steps" --warmup 20 --seed "$seed" \
        --eval-every "$steps" --eval-batches 64 --keep 1 --json "$@" $init > "$name.jsonl" 2> said ||
        die "$name: $(tail -n 1 said)"
    value eval_loss "$name.jsonl"
}

# The median, least and most of numbers, one a line.
spread() { sort -g | awk '{ x[NR] = $1 } END { printf "%.4f  %.4f-%.4f\n", (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2, x[1], x[NR] }'; }

losses() {
    echo "# $(basename "$MODEL"), $STEPS steps of 4 x 128 tokens, $SEEDS seeds: loss of reserved text"
    echo "# share  way        median  range"
    for seed in $(seq "$SEEDS"); do
        for way in $WAYS; do
            for share in $SHARES; do
                [ "$way" != dense ] || share=0
                [ -s "$way-$share-$seed.loss" ] && continue
                name=$way-$share-$seed
                [ "$way" != dense ] || name=dense-$seed
                loss "$name" "$way" "$share" "$seed" > last || exit 2
                mv last "$way-$share-$seed.loss"
            done
        done
    done
    for way in $WAYS; do
        for share in $SHARES; do
            [ "$way" != dense ] || share=0
            printf '%-8s %-9s %s\n' "$share" "$way" "$(cat "$way-$share"-*.loss | spread)"
            [ "$way" != dense ] || break
        done
    done
}

fabric() {
    echo "# $(basename "$MODEL"), 4 x 2 ranks, ports of $RATE, 2 micro-batches of 1 x 256: medians of 5 steps"
    echo "# strategy way       step s  tokens/s  slow MB  of dense  states MB"
    for strategy in $STRATEGIES; do
        for way in dense ems em block4; do
            share=${SHARES##* }
            paro-plan -m "$MODEL" -i synth:4x2 --strategy "$strategy" --accum 2 --seq 256 \
                --trainable "$(what $way "$share")" > plan.yaml 2> said || die "$(cat said)"
            rm -rf run
            paro-lab -g 4 -p 2 -r "$RATE" -- paro-train plan.yaml -d "$TEXT" -o run --steps 6 --json \
                > "$strategy-$way.jsonl" 2> said || die "$strategy $way: $(tail -n 1 said)"
            step=$(grep -o '"step_s":[0-9.e+-]*' "$strategy-$way.jsonl" | cut -d : -f 2 | tail -n 5 | sort -g | sed -n 3p)
            slow=$(value slow_bytes "$strategy-$way.jsonl")
            [ $way != dense ] || all=$slow
            awk -v s="$strategy" -v w="$way" -v t="$step" -v b="$slow" -v a="$all" \
                -v k="$(value state_bytes "$strategy-$way.jsonl")" 'BEGIN {
                printf "%-10s %-9s %6.3f %9.0f %8.2f %9.3f %10.2f\n", s, w, t, 8 * 2 * 256 / t, b / 1e6, b / a, k / 1e6 }'
        done
    done
}

for part in $PARTS; do
    case $part in
    loss) losses ;;
    fabric) fabric ;;
    *) die "part '$part', expected loss or fabric" ;;
    esac
done
