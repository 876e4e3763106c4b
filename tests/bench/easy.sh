#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs that drop easy sequences next to runs that keep all: `make bench-easy`.  Half of the training
# text is one passage, TIMES times; as many sequences are dropped after half of the steps.  Both
# runs of a seed are evaluated on text that neither trains on.  Rows: the last loss of each, the
# step at which the run that drops has the last loss of the other one, and seconds of both.
#
# STEPS must be four epochs at least, of 2 BYTES / SEQ / BATCH steps.  Logs stay in OUT/easy.
. "$(dirname "$0")/begin.sh"
settings SEEDS=5 STEPS=800 TIMES=10 BYTES=100000 SEQ=128 BATCH=8 \
    MODEL=examples/models/llama-3m.json TEXT=/usr/share/common-licenses/GPL-3
MODEL=$(realpath "$MODEL") && TEXT=$(realpath "$TEXT") || exit 2
. examples/mpirun-env

mkdir -p "$OUT/easy" && cd "$OUT/easy" || exit 2
cat "$TEXT" /usr/share/common-licenses/[!L]* | head -c $((BYTES + BYTES / TIMES + 20000)) >all
head -c "$BYTES" all >text
for _ in $(seq "$TIMES"); do
    tail -c +$((BYTES + 1)) all | head -c $((BYTES / TIMES))
done >>text
tail -c 20000 all >held
paro-plan -m "$MODEL" -i synth:1x1 --seq "$SEQ" --micro-batch "$BATCH" >plan.yaml 2>said || die "$(cat said)"

# one NAME SEED OPTION...: rows "step loss" in NAME.eval; prints the seconds
one() {
    name=$1 seed=$2 began=$(date +%s.%N)
    shift 2
    rm -rf "$name"
    paro-train plan.yaml -d text -o "$name" --steps "$STEPS" --lr 1e-3 --warmup 20 --seed "$seed" \
        --eval-every $((STEPS / 16)) --eval-data held --eval-batches 16 --keep 1 --json "$@" \
        >"$name.jsonl" 2>said || die "$name: $(tail -n 1 said)"
    sed -n 's/.*"step":\([0-9]*\).*"eval_loss":\([0-9.]*\).*/\1 \2/p' "$name.jsonl" >"$name.eval"
    echo "$began $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }'
}

printf '%4s %9s %9s %14s %8s %8s\n' seed kept dropped 'reached at' 'kept s' 'drop. s'
for seed in $(seq "$SEEDS"); do
    kept=$(one "kept-$seed" "$seed") || exit 2
    dropped=$(one "dropped-$seed" "$seed" --drop-easy $((BYTES / SEQ)) --drop-easy-at $((STEPS / 2))) || exit 2
    last=$(tail -n 1 "kept-$seed.eval" | cut -d ' ' -f 2)
    awk -v seed="$seed" -v last="$last" -v steps="$STEPS" -v kept="$kept" -v dropped="$dropped" '
        $2 <= last && !at { at = $1 " of " steps }
        END { printf "%4d %9.4f %9.4f %14s %8s %8s\n", seed, last, $2, at ? at : "never", kept, dropped }' "dropped-$seed.eval"
done
printf 'load average '
cut -d ' ' -f 1-3 /proc/loadavg
