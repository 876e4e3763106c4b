#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Measure every algorithm of Open MPI's tuned collectives, write rules that choose the fastest one
# for each size, and compare the library with and without these rules.
#
#   sh examples/tuning/measure-ompi.sh > ompi.rules                 four ranks on this machine
#   RANKS=64 HOSTS=hosts SIZES="-b 1K -e 64M -f 4" ROUNDS=5 sh examples/tuning/measure-ompi.sh
#   LAUNCH="paro-lab -g 2 -p 2 -r 500mbit" sh ...                   another launcher
#
# Then:  mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename ompi.rules ...
# A round is ten launches; launch N forces algorithm N of every operation.  Rounds repeat all
# algorithms, so that load on the machine affects each of them, and the best median counts.  An
# operand, a new folder, keeps the rows.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
PATH=${BIN:-$here/../../bin}:$PATH
RANKS=${RANKS:-4}
ROUNDS=${ROUNDS:-3}
SIZES=${SIZES:--b 1K -e 4M -f 4}
ITERS=${ITERS:-20}
OPS=${OPS:-all-gather reduce-scatter all-reduce broadcast}
# shellcheck source=examples/mpirun-env
. "$here/../mpirun-env"
# shellcheck source=examples/own-folder
. "$here/../own-folder"

if [ $# -gt 0 ]; then
    (own_folder "$1")
    OUT=$1
else
    OUT=$(mktemp -d "${TMPDIR:-/tmp}/paro-ompi.XXXXXX")
    trap 'rm -rf "$OUT"' EXIT
fi
ompi_info --param coll tuned --level 9 > "$OUT/info"

# key OP: Open MPI's name of it; ways OP: the numbers of its algorithms, without 0.
key() {
    case $1 in
    all-gather) echo allgather ;;
    reduce-scatter) echo reduce_scatter_block ;;
    all-reduce) echo allreduce ;;
    broadcast) echo bcast ;;
    esac
}
ways() {
    # two_proc is for two ranks, and fails with more
    # Open MPI 4 prints 6:"two_proc", 5 prints 6|two_proc
    sed -n "/\"coll_tuned_$(key "$1")_algorithm\"/,/Valid values/s/.*Valid values: //p" "$OUT/info" |
        tr ',' '\n' | tr -s ':"|' ' ' | while read -r number name; do
        [ "$number" = 0 ] || { [ "$name" = two_proc ] && [ "$RANKS" != 2 ]; } || echo "$number"
    done
}

# bench MCA... -- OPTION...: one launch; settings of Open MPI before the --.
bench() {
    mca=
    while [ "$1" != -- ]; do
        mca="$mca --mca $1 $2"
        shift 2
    done
    shift
    # shellcheck disable=SC2086 # words
    ${LAUNCH:-mpirun -np $RANKS ${HOSTS:+--hostfile $HOSTS}} $mca \
        ${LAUNCH:+--} paro-bench --algo mpi $SIZES -n "$ITERS" --json "$@"
}

list=$(echo "$OPS" | tr ' ' ,)
round=1
while [ "$round" -le "$ROUNDS" ]; do
    echo "round $round of $ROUNDS" >&2
    bench -- --op "$list" > "$OUT/$round.0.jsonl"
    way=1
    while [ "$way" -le 15 ]; do
        forced='coll_tuned_use_dynamic_rules 1' these=
        for op in $OPS; do
            if ways "$op" | grep -qx "$way"; then
                these=$these${these:+,}$op
                forced="$forced coll_tuned_$(key "$op")_algorithm $way"
            fi
        done
        # shellcheck disable=SC2086 # words
        [ -z "$these" ] ||
            bench $forced -- --op "$these" --mpi-name "tuned-$way" > "$OUT/$round.$way.jsonl"
        way=$((way + 1))
    done
    round=$((round + 1))
done

paro-bench --read "$OUT"/[0-9]*.[0-9]*.jsonl --emit ompi-tuned > "$OUT/rules"

round=1
while [ "$round" -le "$ROUNDS" ]; do
    bench -- --op "$list" --mpi-name before > "$OUT/before.$round.jsonl"
    bench coll_tuned_use_dynamic_rules 1 coll_tuned_dynamic_rules_filename "$OUT/rules" -- \
        --op "$list" --mpi-name after > "$OUT/after.$round.jsonl"
    round=$((round + 1))
done
paro-bench --read "$OUT"/before.*.jsonl "$OUT"/after.*.jsonl >&2
cat "$OUT/rules"
