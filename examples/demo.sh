#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The whole job once, on this machine: an emulated fabric of 2 nodes x 2 ranks is measured, a
# strategy is planned, a model is made, sharded, trained, merged and verified, and the network is
# checked.  Everything stays in demo/ to look at.
#
#   make demo                    DATA=text.txt  STEPS=60  RATE=200mbit
set -eu

DATA=${DATA:-}
STEPS=${STEPS:-60}
RATE=${RATE:-200mbit}
OUT=${OUT:-demo}
MODEL=$(pwd)/examples/models/llama-tiny.json
BIN=${BIN:-$(pwd)/bin}
PATH=$BIN:$PATH
# shellcheck source=examples/mpirun-env
. examples/mpirun-env
SHORT=$((STEPS < 12 ? STEPS : 12)) # steps of the runs that are only timed

say() { printf '\n== %s\n' "$*"; }
exec 3>&1
run() { # shows a command as a user would type it, and runs it
	printf '$ %s\n' "$*" >&3
	"$@"
}

if [ -n "$DATA" ]; then
	DATA=$(realpath "$DATA")
fi
rm -rf "$OUT"
mkdir -p "$OUT"
cd "$OUT"
if [ -z "$DATA" ]; then
	cat /usr/share/common-licenses/* > text.txt 2> /dev/null || true
	DATA=text.txt
fi

# Ranks on the emulated fabric, or, where namespaces are refused, plain local ones.
emulated=yes
if ! paro-lab -g 2 -p 1 -- true 2> lab.err; then
	emulated=no
	echo "demo: $(head -n 1 lab.err)"
	echo "demo: plain local ranks instead: no tier is slow, and speeds tell nothing about a network"
fi
lab() {
	if [ "$emulated" = yes ]; then
		paro-lab -g 2 -p 2 -r "$RATE" "$@"
		return
	fi
	while [ "$1" != -- ]; do shift; done
	shift
	mpirun -np 4 "$@"
}
lab_words="paro-lab -g 2 -p 2 -r $RATE --" fabric="2 nodes x 2 ranks, ports of $RATE" groups=
if [ "$emulated" = no ]; then
	lab_words="mpirun -np 4" fabric="4 plain local ranks" groups="--groups 2x2"
fi

# median KEY NAME: over both rounds' logs, without the first two steps of each (caches, page faults)
median() {
	for log in run-"$2"-1/log.jsonl run-"$2"-2/log.jsonl; do
		sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$log" | tail -n +3
	done | sort -g |
		awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
field() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$2"; }
ratio() { awk "BEGIN { printf \"%.2f\", $1 / $2 }"; }

say "1. the fabric: $fabric"
if [ "$emulated" = yes ]; then
	printf '$ %s paro-topo > fabric.yaml\n' "$lab_words"
	lab -- paro-topo > fabric.yaml
else
	run paro-topo -i synth:2x2,intra=5GB/s:3us,inter=1GB/s:5us,flops=40e9 > fabric.yaml
fi
run paro-topo -i fabric.yaml --format table

say "2. fresh weights, and the price of each strategy"
run paro-shard init -m "$MODEL" --seed 1 -o model
PLAN="--accum 4 --seq 256"
# shellcheck disable=SC2086 # words
run paro-plan -m model/config.json $PLAN --list -i fabric.yaml | tee strategies.txt | head -n 12
# A device that holds 70 % of what ddp needs: partial redundancy is what fits then.
memory=$(paro-plan -m model/config.json --accum 4 --seq 256 --strategy ddp -i fabric.yaml |
	awk '$1 == "total:" { printf "%d", 0.7 * $2; exit }')
# shellcheck disable=SC2086
run paro-plan -m model/config.json $PLAN --mem "$memory" -i fabric.yaml > plan.yaml
strategy=$(sed -n 's/^strategy: //p' plan.yaml)
predicted=$(sed -n 's/^  step_s: //p' plan.yaml)
echo "kept: $strategy in plan.yaml"

say "3. shards, and training on $(basename "$DATA")"
run paro-shard split model -p plan.yaml -o ckpt
printf '$ %s paro-train plan.yaml -d text --init ckpt -o run --steps %s --lr 3e-3\n' "$lab_words" "$STEPS"
lab -- paro-train plan.yaml -d "$DATA" --init ckpt -o run --steps "$STEPS" --lr 3e-3 --min-lr 3e-4 |
	awk 'NR < 3 || NR % 10 == 1'

say "4. merge, and verify"
run paro-shard verify run/latest
run paro-shard merge run/latest -o trained
ls trained

say "5. the same model under zero3 over the flat ring, and under ddp"
# shellcheck disable=SC2086
paro-plan -m model/config.json $PLAN -i fabric.yaml --strategy zero3 --algo ring > zero3.yaml
# shellcheck disable=SC2086
paro-plan -m model/config.json $PLAN -i fabric.yaml --strategy ddp > ddp.yaml
for round in 1 2; do # in turn, so that a busy minute of the machine falls on all of them
	for name in plan zero3 ddp; do
		printf '$ %s paro-train %s.yaml -d text --init ckpt -o run-%s-%s --steps %s\n' \
			"$lab_words" $name $name $round "$SHORT"
		lab -- paro-train $name.yaml -d "$DATA" --init ckpt -o run-$name-$round --steps "$SHORT" \
			> run-$name-$round.txt
	done
done

say "6. HO-Ring, flat ring and the MPI library: all-gather of 16 MiB"
printf '$ %s paro-bench --op all-gather --algo ring,ho-ring,mpi -b 16M -e 16M -n 5 -w 2\n' "$lab_words"
# shellcheck disable=SC2086 # words or none
lab -- paro-bench --op all-gather --algo ring,ho-ring,mpi -b 16M -e 16M -n 5 -w 2 $groups | tee bench.txt

health_ok='not measured: no emulated fabric' health_slow=$health_ok
if [ "$emulated" = yes ]; then
	say "7. the health check: learn, check, and check with one port at half its rate"
	half=$(echo "$RATE" | awk '{ n = $1; sub(/[a-z]*$/, "", n); u = $1; sub(/^[0-9.]*/, "", u); print n / 2 u }')
	printf '$ %s horing-check --learn > baseline.yaml\n' "$lab_words"
	lab -- horing-check --learn > baseline.yaml
	printf '$ %s horing-check -b baseline.yaml\n' "$lab_words"
	lab -- horing-check -b baseline.yaml > health.txt 2> health.err || true
	health_ok=$(cut -d'|' -f1 health.txt)
	printf '$ paro-lab -g 2 -p 2 -r %s --slow 1:%s -- horing-check -b baseline.yaml\n' "$RATE" "$half"
	lab --slow "1:$half" -- horing-check -b baseline.yaml > slow.txt 2> slow.err || true
	health_slow=$(cut -d'|' -f1 slow.txt)
fi

first_loss=$(field loss run/log.jsonl | head -n 1)
last_loss=$(field loss run/log.jsonl | tail -n 1)
ours=$(median tokens_per_s plan)
zero3=$(median tokens_per_s zero3)
ddp=$(median tokens_per_s ddp)
step=$(median step_s plan)
params=$(sed -n 's/^trainable: //p' plan.yaml)

say "summary: $fabric, $params parameters, 4 micro-batches of 1 x 256 tokens a rank, $(nproc) cores"
printf '%-34s %s\n' "strategy chosen" "$strategy   (with $((memory / 1048576)) MiB a rank, 70 % of what ddp needs)" \
	"loss, step 1 and step $STEPS" "$(printf '%.4f  %.4f' "$first_loss" "$last_loss")" \
	"tokens/s  $strategy" "$(printf '%.0f' "$ours")" \
	"tokens/s  zero3 over the flat ring" "$(printf '%.0f' "$zero3")   (chosen is $(ratio "$ours" "$zero3")x)" \
	"tokens/s  ddp" "$(printf '%.0f' "$ddp")   (chosen is $(ratio "$ours" "$ddp")x)" \
	"step time predicted, measured" "$(printf '%.4f s  %.4f s' "$predicted" "$step")" \
	"all-gather 16 MiB, of the cut bound" "$(awk '!/^#/ && NF > 8 { printf "%s %s   ", $4, $6 }' bench.txt)" \
	"health, fabric as learned" "$health_ok" \
	"health, node1's port at half" "$health_slow" \
	"everything is in" "$(pwd)"
