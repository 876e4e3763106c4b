#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The whole pipeline on one machine: emulate 2 nodes x 2 ranks, measure the network, choose a
# strategy, create and shard a model, train it, merge and verify the result, compare it with
# ZeRO-3 and DDP, and check the network.  All output stays in demo/.
#
#   make demo                    DATA=text.txt  STEPS=60  RATE=200mbit
#   sh examples/demo.sh [DIR]    another folder than demo/
set -eu

DATA=${DATA:-}
STEPS=${STEPS:-60}
RATE=${RATE:-200mbit}
here=$(cd "$(dirname "$0")" && pwd)
MODEL=$here/models/llama-tiny.json
PATH=${BIN:-$here/../bin}:$PATH
# shellcheck source=examples/mpirun-env
. "$here/mpirun-env"
# shellcheck source=examples/own-folder
. "$here/own-folder"
SHORT=$((STEPS < 12 ? STEPS : 12)) # steps of the runs that are only compared

heading() { printf '\n== %s\n' "$*"; }
exec 3>&1
run() { # print a command as a user would type it, then run it
	printf '$ %s\n' "$*" >&3
	"$@"
}

if [ -n "$DATA" ]; then
	DATA=$(realpath "$DATA")
fi
empty_folder "${1:-demo}"
if [ -z "$DATA" ]; then
	cat /usr/share/common-licenses/* > text.txt 2> /dev/null || true
	DATA=text.txt
fi

# Use the emulated network, or plain local ranks where the kernel forbids namespaces.
emulated=yes
# Not `true`: on a busy machine the mpirun of Open MPI 5 may wait forever for a program that ends at once.
if ! paro-lab -g 2 -p 1 -- sleep 0.5 2> lab.err; then
	emulated=no
	echo "demo: $(head -n 1 lab.err)"
	echo "demo: using plain local ranks: no link is slow, so the speeds say nothing about a network"
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
lab_words="paro-lab -g 2 -p 2 -r $RATE --" fabric="2 nodes x 2 ranks, $RATE between nodes" groups=
if [ "$emulated" = no ]; then
	lab_words="mpirun -np 4" fabric="4 plain local ranks" groups="--groups 2x2"
fi

# median KEY NAME: over the logs of both rounds, without the first two steps (caches, page faults)
median() {
	for log in compare/"$2"-1/log.jsonl compare/"$2"-2/log.jsonl; do
		sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$log" | tail -n +3
	done | sort -g |
		awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
field() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$2"; }
ratio() { awk "BEGIN { printf \"%.2f\", $1 / $2 }"; }

heading "1. measure the network: $fabric"
if [ "$emulated" = yes ]; then
	printf '$ %s paro-topo > fabric.yaml\n' "$lab_words"
	lab -- paro-topo > fabric.yaml
else
	run paro-topo -i synth:2x2,intra=5GB/s:3us,inter=1GB/s:5us,flops=40e9 > fabric.yaml
fi
run paro-topo -i fabric.yaml --format table

heading "2. create a model and price the 27 strategies"
run paro-shard init -m "$MODEL" --seed 1 -o model
PLAN="--accum 4 --seq 256"
# shellcheck disable=SC2086 # words
run paro-plan -m model/config.json $PLAN --list -i fabric.yaml | tee strategies.txt | head -n 12
# Pretend that each rank has 70 % of the memory that ddp needs, so that something must be sharded.
memory=$(paro-plan -m model/config.json --accum 4 --seq 256 --strategy ddp -i fabric.yaml |
	awk '$1 == "total:" { printf "%d", 0.7 * $2; exit }')
# shellcheck disable=SC2086
run paro-plan -m model/config.json $PLAN --mem "$memory" -i fabric.yaml > plan.yaml
strategy=$(sed -n 's/^strategy: //p' plan.yaml)
predicted=$(sed -n 's/^  step_s: //p' plan.yaml)
echo "chosen for $((memory / 1048576)) MiB a rank: $strategy, in plan.yaml"

heading "3. shard the weights and train on $(basename "$DATA")"
run paro-shard split model -p plan.yaml -o ckpt
printf '$ %s paro-train plan.yaml -d text --init ckpt -o run --steps %s --lr 3e-3\n' "$lab_words" "$STEPS"
lab -- paro-train plan.yaml -d "$DATA" --init ckpt -o run --steps "$STEPS" --lr 3e-3 --min-lr 3e-4 |
	awk 'NR < 3 || NR % 10 == 1'

heading "4. verify the checkpoint and merge it into a Hugging Face folder"
run paro-shard verify run/latest
run paro-shard merge run/latest -o trained
ls trained

heading "5. compare the chosen plan with zero3 (as FSDP) over a flat ring, and with ddp"
# shellcheck disable=SC2086
paro-plan -m model/config.json $PLAN -i fabric.yaml --strategy zero3 --algo ring > zero3.yaml
# shellcheck disable=SC2086
paro-plan -m model/config.json $PLAN -i fabric.yaml --strategy ddp > ddp.yaml
mkdir compare
for round in 1 2; do # alternate, so that a busy minute of the machine affects all of them
	for name in plan zero3 ddp; do
		printf '$ %s paro-train %s.yaml -d text --init ckpt -o compare/%s --steps %s\n' \
			"$lab_words" $name $name-$round "$SHORT"
		lab -- paro-train $name.yaml -d "$DATA" --init ckpt -o compare/$name-$round \
			--steps "$SHORT" > compare/$name-$round.txt
	done
done
printf '$ %s > compare.svg\n' "paro-train --svg compare/plan-1 compare/zero3-1 compare/ddp-1"
paro-train --svg compare/plan-1 compare/zero3-1 compare/ddp-1 > compare.svg

heading "6. compare HO-Ring, a flat ring and the MPI library: all-gather of 16 MiB"
printf '$ %s paro-bench --op all-gather --algo ring,ho-ring,mpi -b 16M -e 16M -n 5 -w 2 -i fabric.yaml\n' \
	"$lab_words"
# shellcheck disable=SC2086 # words or none
lab -- paro-bench --op all-gather --algo ring,ho-ring,mpi -b 16M -e 16M -n 5 -w 2 -i fabric.yaml $groups |
	tee bench.txt

health_ok='not measured: no emulated network' health_slow=$health_ok
if [ "$emulated" = yes ]; then
	heading "7. check the network: learn a baseline, check it, then halve the rate of one port"
	# -t 60: the default of 10 s is too short for a low RATE on a busy machine.
	half=$(echo "$RATE" | awk '{ n = $1; sub(/[a-z]*$/, "", n); u = $1; sub(/^[0-9.]*/, "", u); print n / 2 u }')
	printf '$ %s horing-check -t 60 --learn > baseline.yaml\n' "$lab_words"
	lab -- horing-check -t 60 --learn > baseline.yaml
	printf '$ %s horing-check -t 60 -b baseline.yaml\n' "$lab_words"
	lab -- horing-check -t 60 -b baseline.yaml > health.txt 2> health.err || true
	health_ok=$(cut -d'|' -f1 health.txt)
	printf '$ paro-lab -g 2 -p 2 -r %s --slow 1:%s -- horing-check -t 60 -b baseline.yaml\n' "$RATE" "$half"
	lab --slow "1:$half" -- horing-check -t 60 -b baseline.yaml > slow.txt 2> slow.err || true
	health_slow=$(cut -d'|' -f1 slow.txt)
fi

heading "8. describe all of it on one page: report.html"
run paro-report -o report.html --title "$fabric" .

first_loss=$(field loss run/log.jsonl | head -n 1)
last_loss=$(field loss run/log.jsonl | tail -n 1)
ours=$(median tokens_per_s plan)
zero3=$(median tokens_per_s zero3)
ddp=$(median tokens_per_s ddp)
step=$(median step_s plan)
params=$(sed -n 's/^trainable: //p' plan.yaml)

heading "summary: $fabric, $params parameters, 4 micro-batches of 1 x 256 tokens a rank, $(nproc) cores"
printf '%-34s %s\n' "strategy chosen" "$strategy   (for $((memory / 1048576)) MiB a rank, 70 % of what ddp needs)" \
	"loss at step 1 and step $STEPS" "$(printf '%.4f  %.4f' "$first_loss" "$last_loss")" \
	"tokens/s with $strategy" "$(printf '%.0f' "$ours")" \
	"tokens/s with zero3, flat ring" "$(printf '%.0f' "$zero3")   ($strategy is $(ratio "$ours" "$zero3")x as fast)" \
	"tokens/s with ddp" "$(printf '%.0f' "$ddp")   ($strategy is $(ratio "$ours" "$ddp")x as fast)" \
	"step time, predicted and measured" "$(printf '%.4f s  %.4f s' "$predicted" "$step")" \
	"all-gather, share of the limit" "$(awk '!/^#/ && NF > 8 { printf "%s %s   ", $4, $6 }' bench.txt)" \
	"network check" "$health_ok" \
	"node1's port at half its rate" "$health_slow" \
	"all files are in" "$(pwd)"
