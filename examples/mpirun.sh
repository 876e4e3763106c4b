#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A run under mpirun: measure the network, plan, train, stop half way, resume, plot.
#
#   sh examples/mpirun.sh                               two ranks on this machine
#   RANKS=64 HOSTS=hosts DATA=data.bin sh examples/mpirun.sh /shared/run
#
# HOSTS is a hostfile of mpirun, /shared/run a folder that all hosts share.  paro must be on PATH there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
PATH=${BIN:-$here/../bin}:$PATH
RANKS=${RANKS:-2}
STEPS=${STEPS:-40}
MODEL=${MODEL:-$here/models/llama-tiny.json}
# shellcheck source=examples/mpirun-env
. "$here/mpirun-env"
# shellcheck source=examples/own-folder
. "$here/own-folder"

[ -z "${HOSTS-}" ] || HOSTS=$(realpath "$HOSTS")
[ -z "${DATA-}" ] || DATA=$(realpath "$DATA")
if [ $# -gt 0 ]; then
    own_folder "$1"
else
    temp=$(mktemp -d "${TMPDIR:-/tmp}/paro-mpirun.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    cd "$temp"
fi
[ -n "${DATA-}" ] || { DATA=$PWD/text; seq 1 20000 > text; }

# on_all COMMAND...: run it on all ranks.
on_all() { mpirun -np "$RANKS" ${HOSTS:+--hostfile "$HOSTS"} "$@"; }

[ -s fabric.yaml ] || on_all paro-topo > fabric.yaml
[ -s plan.yaml ] || paro-plan -m "$MODEL" -i fabric.yaml --seq 64 > plan.yaml

# train: start the run or resume it.  Status 3: stopped in good order, can be resumed.
train() {
    on_all paro-train plan.yaml -d "$DATA" -o run --resume=auto --steps "$STEPS" --save-every 20 > lines
}

# Request a stop half way by creating the file STOP.  SIGUSR1 to mpirun does the same.
is_half() { sed -n "$((STEPS / 2))p" run/log.jsonl 2> errors | grep -q .; }
(until is_half; do sleep 0.1; done && touch run/STOP) &
stopper=$!
rc=0
train || rc=$?
wait $stopper
[ $rc = 3 ] || [ $rc = 0 ] || exit $rc
train
paro-train --svg run > run.svg
echo "$(grep -c . run/log.jsonl) steps, stopped once and resumed, final loss $(tail -n 1 lines | awk '{ print $2 }')"
