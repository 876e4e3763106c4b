#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A run under mpirun, from the fabric to the picture: measure, plan, train, stop half way, go on.
#
#   sh examples/mpirun.sh                               here, two ranks
#   RANKS=64 HOSTS=hosts DATA=data.bin OUT=/shared/run sh examples/mpirun.sh
#
# HOSTS is mpirun's hostfile, OUT a folder that all of them see; both commands are on PATH there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
PATH=${BIN:-$here/../bin}:$PATH
RANKS=${RANKS:-2}
STEPS=${STEPS:-40}
MODEL=${MODEL:-$here/models/llama-tiny.json}
OUT=${OUT:-}
# shellcheck source=examples/mpirun-env
. "$here/mpirun-env"

if [ -z "$OUT" ]; then
    OUT=$(mktemp -d "${TMPDIR:-/tmp}/paro-mpirun.XXXXXX")
    trap 'rm -rf "$OUT"' EXIT
fi
mkdir -p "$OUT"
cd "$OUT"
[ -n "${DATA-}" ] || { DATA=$OUT/text && seq 1 20000 > text; }

# on COMMAND...: on all ranks.
on() { mpirun -np "$RANKS" ${HOSTS:+--hostfile "$HOSTS"} "$@"; }

[ -s fabric.yaml ] || on paro-topo > fabric.yaml
[ -s plan.yaml ] || paro-plan -m "$MODEL" -i fabric.yaml --seq 64 > plan.yaml

# train: begins, or goes on.  Status 3: stopped in good order, to be gone on with.
train() {
    on paro-train plan.yaml -d "$DATA" -o run --resume=auto --steps "$STEPS" --save-every 20 > lines
}

# Half way somebody asks for the end: SIGUSR1 to mpirun, or this.
is_half() { sed -n "$((STEPS / 2))p" run/log.jsonl 2> said | grep -q .; }
(until is_half; do sleep 0.1; done && touch run/STOP) &
asks=$!
rc=0
train || rc=$?
wait $asks
[ $rc = 3 ] || [ $rc = 0 ] || exit $rc
train
paro-train --plot run > run.svg
echo "$(grep -c . run/log.jsonl) steps, stopped once, the loss at last: $(tail -n 1 lines | awk '{ print $2 }')"
