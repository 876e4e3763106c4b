#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What checkpoints on the hosts are worth when hosts fail: `make bench-local`.
#
# paro-run on emulated nodes (paro-lab), with --exact, is disturbed at a random moment, RUNS times for
# each KIND:
#
#   rank     kill -9 of a rank           stop   SIGSTOP to a rank
#   node     a node is gone              disk   the local checkpoints of a node, and a rank of it
#   port     a node's port is cut, 10 s   two    two nodes of different groups, at once
#
# once with a local checkpoint every EVERY steps and COPIES copies (of two nodes: 2), and once with those in
# the run folder alone, every SAVE steps, which both write.  Each run is a row of OUT/local/rows, and is not
# made again: the same command continues a campaign that was ended, or that ended itself before TIME seconds
# were over; with other settings it begins anew.  A line for each kind: in how many runs all steps had the
# losses and hashes of a run that nothing disturbed; steps lost; seconds from the disturbance to the next step,
# and to the first step that had not been done before.  The status is 1 where a run did not end so.
#
# With SPEED=N it measures instead how fast steps are with a local checkpoint every EVERY steps (1: one is
# nearly always being written), over N pairs of runs with and without.
# shellcheck disable=SC2034,SC2086
. "$(dirname "$0")/begin.sh"
settings RUNS=30 TIME=999999 STEPS=80 EVERY=5 SAVE=25 COPIES=1 SHAPES='2,2,2,2 3,2,2' \
    KINDS='rank node port stop disk two' MODES='local folder' STRATEGY=IGG RATE=500mbit SEQ=32 \
    SEED=1 SPEED= MODEL=examples/models/llama-tiny.json
. tests/bench/moments.sh

# ---- In the lab: OUT has t0, the next step's and the first new step's time ----------------

disturb=$PWD/tests/lab/disturb.sh moments=$PWD/tests/bench/moments.sh
job() { # KIND STEP MS NODE TRAIN-OPTION...
    cat << END
. $moments
. $disturb
size() { stat -c %s run/log.jsonl 2> /dev/null || echo 0; }
last() { tail -c 4096 run/log.jsonl 2> /dev/null | sed -n 's/.*"step":\([0-9]*\).*/\1/p' | tail -n 1; }
paro-run -i fabric.yaml -m $MODEL -o run --log log \\
    --plan "--seq $SEQ --global-batch $batch --micro-batch 1 --strategy $STRATEGY" \\
    -- -d text --exact --steps $STEPS --deadline 5 --save-every $SAVE $5 > out 2> said & run=\$!
after $2; sleep 0.$(printf %03d "$3")
t0=\$(now_ms)
case $1 in
rank) kill -9 \$(ranks_of node$4 | head -n 1) ;;
stop) kill -STOP \$(ranks_of node$4 | head -n 1) ;;
node) lose_node node$4 ;;
port) ip link set d$4 down; (sleep 10; ip link set d$4 up) & ;;
disk) rm -rf local/node$4.*; kill -9 \$(ranks_of node$4 | head -n 1) ;;
two) lose_node node$4; lose_node node$((($4 + 1) % nodes)) ;;
esac
until grep -q ' ended with ' log || ! kill -0 \$run; do sleep 0.05; done
reached=\$(last) was=\$(size) next=0
while kill -0 \$run 2> /dev/null && [ "\$(last)" -le \$reached ]; do
    now=\$(size)
    [ \$next != 0 ] || [ \$now -le \$was ] || next=\$(now_ms)
    was=\$now
    sleep 0.05
done
end=\$(now_ms)
[ \$next != 0 ] || next=\$end
wait \$run
echo \$? \$((next - t0)) \$((end - t0)) > took
END
}

one() { # KIND MODE RUN: a row
    draws=$(echo "$procs $1 $3" | cksum | cut -d ' ' -f 1) # both modes at the same moments
    draw $((STEPS - 30))
    step=$((drawn + 10))
    draw 100
    ms=$drawn
    draw "$nodes"
    copies=$COPIES options=''
    [ "$1" != two ] || copies=2
    [ "$2" = folder ] || options="--local-save local --local-every $EVERY --copies $copies"
    rm -rf run local log took
    job "$1" $step "$ms" "$drawn" "$options" > job.sh
    timeout 120 paro-lab --head -g "$nodes" -p "$procs" -r "$RATE" -- sh job.sh > lab.said 2>&1
    read -r status next_ms again_ms < took 2> /dev/null || status=- next_ms=0 again_ms=0
    bits run/log.jsonl > have
    lost=$(sed -n 's/.*; \([0-9]*\) steps* [ia][sr]e* lost$/\1/p' log | awk '{ n += $1 } END { print n + 0 }')
    good=1
    [ "$status" = 0 ] && cmp -s "want.$procs" have || good=0
    echo "$procs $1 $2 $3 $good $lost $next_ms $again_ms" >> rows
    [ $good = 1 ] || {
        bad=bad-$procs-$1-$2-$3
        echo "local.sh: $procs $1 $2, step $step: status $status; see $PWD/$bad" >&2
        mkdir -p "$bad" && cp -a log said lab.said job.sh have "$bad/" 2> /dev/null
    }
}

table() {
    awk 'function most(a, b) { return a > b ? a : b }
        { k = sprintf("%-8s %-5s %-6s", $1, $2, $3) }
        !(k in n) { key[++keys] = k }
        {
            n[k]++
            good[k] += $5
            for (i = 6; i <= 8; i++) { sum[k, i] += $i; max[k, i] = most(max[k, i], $i) }
        }
        END {
            print "shape    kind  saved      good  steps lost, most   next step s, most   new step s, most"
            for (i = 1; i <= keys; i++) {
                k = key[i]
                printf "%s  %3d of %-3d  %6.1f %5d   %6.1f %6.1f   %6.1f %6.1f\n", k, good[k], n[k], sum[k, 6] / n[k],
                    max[k, 6], sum[k, 7] / n[k] / 1e3, max[k, 7] / 1e3, sum[k, 8] / n[k] / 1e3, max[k, 8] / 1e3
                bad += n[k] - good[k]
            }
            exit bad > 0
        }' rows
}

# ---- The speed of steps during copies -------------------------------------------------------

# The mean of step_s, without the first steps.
mean_s() {
    sed -n 's/.*"step":\([0-9]*\),.*"step_s":\([^,]*\),.*/\1 \2/p' run/log.jsonl |
        awk '$1 > 10 { sum += $2; n++ } END { print sum / n }'
}

speed() {
    : > pairs
    for _ in $(seq "$SPEED"); do
        for options in '' "--local-save local --local-every $EVERY --copies $COPIES"; do
            rm -rf run local
            paro-lab -g "$nodes" -p "$procs" -r "$RATE" -- paro-train plan.yaml -d text -o run --steps "$STEPS" \
                $options > out 2> said || die "a run failed: $(tail -n 1 said)"
            mean_s
        done | paste -s -d ' ' >> pairs
    done
    awk -v shape="$procs" '{ a[NR] = $1; b[NR] = $2; r[NR] = $1 / $2; sum += $1 / $2 }
        END {
            for (i = 1; i <= NR; i++)
                printf "%-8s step %.4f s without, %.4f s during copies: speed %.3f\n", shape, a[i], b[i], r[i]
            printf "%-8s mean speed during copies: %.3f\n", shape, sum / NR
        }' pairs
}

# ---- All ------------------------------------------------------------------------------------

MODEL=$(realpath "$MODEL") || die "no model"
mkdir -p "$OUT" && OUT=$(realpath "$OUT") && mkdir -p "$OUT/local" && cd "$OUT/local" || exit 2
settings="$STRATEGY, sequences of $SEQ, $RATE, $STEPS steps, saved every $SAVE, locally every $EVERY; seed $SEED"
echo "$settings"
[ "$(cat settings 2> /dev/null)" = "$settings" ] || { rm -rf rows want.* bad-* && echo "$settings" > settings; }
touch rows
seq 1 20000 > text
began=$(($(now_ms) / 1000))
shape() { # PROCS
    procs=$1
    nodes=$(echo "$procs" | tr ',' '\n' | grep -c .)
    set -- --seq "$SEQ" --global-batch $(($(echo "$procs" | tr ',' '+'))) --micro-batch 1
    batch=$4
    paro-topo -i "synth:[$procs],inter=$RATE,flops=1e10" --hosts "node[0-$((nodes - 1))]" > fabric.yaml || exit 2
    paro-plan -m "$MODEL" -i fabric.yaml "$@" --strategy "$STRATEGY" > plan.yaml 2> said || die "no plan"
    [ -z "$SPEED" ] && [ ! -s "want.$procs" ] || return 0
    paro-plan -m "$MODEL" -i synth:1x1,flops=1e10 "$@" > one.yaml 2> said
    rm -rf whole
    paro-train one.yaml -d text -o whole --exact --steps "$STEPS" > out 2> said || die "the undisturbed run fails"
    bits whole/log.jsonl > "want.$procs"
}

if [ -n "$SPEED" ]; then
    for procs in $SHAPES; do shape "$procs" && speed; done
    exit
fi
for run in $(seq "$RUNS"); do
    for procs in $SHAPES; do
        shape "$procs"
        for kind in $KINDS; do
            for mode in $MODES; do
                [ $(($(now_ms) / 1000 - began)) -lt "$TIME" ] || break 4
                grep -q "^$procs $kind $mode $run " rows || one "$kind" "$mode" "$run"
            done
        done
    done
done
table
