#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What products in bf16 cost in loss: `make bench-types`.
#
# The same training with matrix products in f32 and in bf16: mean loss of reserved text after STEPS
# steps of 4 x 128 tokens, for SEEDS seeds, and the difference.  Parameters, wire and gradients are
# f32 in both.  A processor without instructions for bf16 gives the same loss, and no speed.
set -e
. "$(dirname "$0")/begin.sh"
settings SEEDS=3 STEPS=200 LR=3e-4 TEXT= MODEL=examples/models/llama-3m.json
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

for type in f32 bf16; do
    paro-plan -m "$model" -i synth:1x1,memory=8GB,flops=1e11 --micro-batch 4 --seq 128 --param-type f32 \
        --compute-type "$type" > "$type.yaml"
done
printf '%-5s %9s %9s %10s %8s %8s\n' seed f32 bf16 difference 's f32' 's bf16'
for seed in $(seq "$SEEDS"); do
    for type in f32 bf16; do
        paro-train "$type.yaml" -d "$text" -o "$type.$seed" --steps "$STEPS" --warmup 20 --lr "$LR" \
            --seed "$seed" --eval-split 0.05 --eval-every "$STEPS" --force > out 2>&1 ||
            { cat out >&2; exit 2; }
    done
    awk -v seed="$seed" -v a="$(value eval_loss "f32.$seed/log.jsonl")" \
        -v b="$(value eval_loss "bf16.$seed/log.jsonl")" -v s="$(value step_s "f32.$seed/log.jsonl")" \
        -v t="$(value step_s "bf16.$seed/log.jsonl")" \
        'BEGIN { printf "%-5s %9.4f %9.4f %+9.2f%% %8.3f %8.3f\n", seed, a, b, 100 * (b / a - 1), s, t }'
done
