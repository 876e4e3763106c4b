#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What narrow types cost in loss: `make bench-types`.
#
# The same training four times: everything in f32; matrix products in bf16; AdamW's moments stored
# in bf16, and in int8 blocks.  Mean loss of reserved text after STEPS steps of 4 x 128 tokens, for
# SEEDS seeds, and the difference from f32; then seconds of a step, and of its update.  Parameters,
# wire and gradients are f32 in all.  TYPES: which of them, f32 first, where a processor cannot
# compute products in bf16.
set -e
. "$(dirname "$0")/begin.sh"
settings SEEDS=3 STEPS=200 LR=3e-4 TEXT= TYPES='f32 bf16 moments-bf16 moments-int8' MODEL=examples/models/llama-3m.json
OUT=$OUT/types
model=$(realpath "$MODEL")
text=${TEXT:+$(realpath "$TEXT")}
mkdir -p "$OUT"
cd "$OUT"
if [ -z "$text" ]; then
    cat /usr/share/common-licenses/* > text
    text=text
fi
value() { grep -o "\"$1\":[0-9.e+-]*" "$2" | tail -n 1 | cut -d : -f 2; }

plan() {
    paro-plan -m "$model" -i synth:1x1,memory=8GB,flops=1e11 --micro-batch 4 --seq 128 --param-type f32 \
        --compute-type "$2" --moments "$3" > "$1.yaml"
}
plan f32 f32 f32
plan bf16 bf16 f32
plan moments-bf16 f32 bf16
plan moments-int8 f32 int8
printf '%-5s %-13s %9s %10s %8s %8s\n' seed type loss difference step update
for seed in $(seq "$SEEDS"); do
    for type in $TYPES; do
        paro-train "$type.yaml" -d "$text" -o "$type.$seed" --steps "$STEPS" --warmup 20 --lr "$LR" \
            --seed "$seed" --eval-split 0.05 --eval-every "$STEPS" --force > out 2>&1 ||
            { cat out >&2; exit 2; }
        log=$type.$seed/log.jsonl
        loss=$(value eval_loss "$log")
        [ "$type" != f32 ] || base=$loss
        awk -v seed="$seed" -v type="$type" -v a="$base" -v b="$loss" -v s="$(value step_s "$log")" \
            -v u="$(value update_s "$log")" 'BEGIN {
                printf "%-5s %-13s %9.4f %+9.2f%% %8.3f %8.4f\n", seed, type, b, 100 * (b / a - 1), s, u }'
    done
done
