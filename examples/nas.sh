#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Which architecture?  Train 24 small ones, and see how early their training curves tell the best:
# rank correlations of the scores of paro-rank(1) with the last validation loss.  Then search: the
# same runs, each compared with those before it after a quarter of its steps, as a search would
# that trains one after the other and stops what is not in the better half.
#
#   sh examples/nas.sh [DIR]    HIDDEN="32 64 96 128"  LAYERS="1 2 4"  WIDER="2 4"  STEPS=400
#                               SEEDS=3  SEQ=128  BATCH=8  LR=2e-3  TEXT=text.txt
set -eu

HIDDEN=${HIDDEN:-32 64 96 128}
LAYERS=${LAYERS:-1 2 4}
WIDER=${WIDER:-2 4}
STEPS=${STEPS:-400}
SEEDS=${SEEDS:-3}
SEQ=${SEQ:-128}
BATCH=${BATCH:-8}
LR=${LR:-2e-3}
here=$(cd "$(dirname "$0")" && pwd)
PATH=${BIN:-$here/../bin}:$PATH
# shellcheck source=examples/own-folder
. "$here/own-folder"

TEXT=${TEXT:+$(realpath "$TEXT")}
empty_folder "${1:-nas}"
if [ -z "$TEXT" ]; then
	cat /usr/share/common-licenses/[!L]* > text.txt
	TEXT=$PWD/text.txt
fi

# train NAME SEED: its log, with 20 evaluations
train() {
	paro-plan -m "$1.json" -i synth:1x1 --seq "$SEQ" --micro-batch "$BATCH" > "$1.yaml" 2> said
	paro-train "$1.yaml" -d "$TEXT" -o run --force --steps "$STEPS" --lr "$LR" --warmup $((STEPS / 20)) \
		--seed "$2" --eval-every $((STEPS / 20)) --log "$1.log" > said 2>&1 || { tail -n 1 said >&2; exit 2; }
}

# rank METHOD EPOCHS OPTION...: of the logs; an epoch ends with an evaluation
rank() {
	budget=$2
	if [ "$1" = validation ]; then
		set -- last --regex '"eval_loss":([0-9.]+)' "$@"
	else
		set -- "$1" --steps-per-epoch $((STEPS / 20)) "$@"
	fi
	method=$1 option=$2 value=$3
	shift 5
	paro-rank --method "$method" "$option" "$value" -T "$budget" "$@"
}

correlation() { # METHOD EPOCHS: Spearman's, of the scores with the last evaluations
	rank "$1" "$2" --json --finals finals ./*.log |
		perl -0ne 'print((/"spearman":\s*([-0-9.e]+)/g)[-1])'
}

seed=1
while [ "$seed" -le "$SEEDS" ]; do
	rm -f ./*.log
	for h in $HIDDEN; do
		for l in $LAYERS; do
			for w in $WIDER; do
				sed -e "s/\(\"hidden_size\":\) [0-9]*/\1 $h/" -e "s/\(_hidden_layers\":\) [0-9]*/\1 $l/" \
					-e "s/\(\"intermediate_size\":\) [0-9]*/\1 $((h * w))/" \
					-e 's/\(_heads":\) [0-9]*/\1 4/' "$here/models/llama-3m.json" > "h$h-l$l-w$w.json"
				train "h$h-l$l-w$w" "$seed"
			done
		done
	done
	for f in *.log; do
		echo "./$f $(sed -n 's/.*"eval_loss":\([0-9.]*\).*/\1/p' "$f" | tail -n 1)"
	done > finals
	sort -k 2 finals > best
	echo "seed $seed: Spearman's rank correlation with the last validation loss of $(wc -l < finals) runs"
	printf '%-12s %8s %8s %8s %8s\n' score '10 %' '25 %' '50 %' '100 %'
	for method in tse tse-e tse-ema last validation; do
		printf '%-12s' "$method"
		for epochs in 2 5 10 20; do
			printf ' %8.3f' "$(correlation "$method" "$epochs")"
		done
		echo
	done
	# One after the other, in an order that has nothing to do with sizes.
	rm -rf tried
	mkdir tried
	md5sum ./*.log | sort | while read -r _ f; do
		others=$(ls tried/*.log 2> said || :)
		head -n $((STEPS / 4)) "$f" > "tried/${f#./}"
		# shellcheck disable=SC2086 # names without blanks
		if paro-rank --stop-below 50% --steps-per-epoch $((STEPS / 20)) "tried/${f#./}" $others > said; then
			echo "$STEPS $f"
		else
			echo "$((STEPS / 4)) $f"
		fi
	done > search
	awk -v whole="$STEPS" 'NR == FNR { loss[$1] = $2; rank[$1] = NR; next }
		{ steps += $1; ran += $1 == whole }
		$1 == whole && (!found || loss[$2] < loss[found]) { found = $2 }
		END { printf "search: %d of %d runs stopped after a quarter, %d of %d steps, finds number %d: loss %s\n",
			FNR - ran, FNR, steps, FNR * whole, rank[found], loss[found] }' best search
	seed=$((seed + 1))
done
