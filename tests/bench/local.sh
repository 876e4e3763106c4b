#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What checkpoints on the hosts are worth when hosts fail: `make bench-local`.
#
# paro-run on emulated nodes (paro-lab), with --exact, is disturbed at a random moment, TIMES times for
# each KIND:
#
#   rank     kill -9 of a rank           stop   SIGSTOP to a rank
#   node     a node is gone              disk   the local checkpoints of a node, and a rank of it
#   port     a node's port is cut, 10 s   two    two nodes of different groups, at once
#
# once with a local checkpoint every EVERY steps and COPIES copies, and once with those in the run folder
# alone, every SAVE steps, which both write.  A line for each: in how many runs all steps had the losses
# and hashes of a run that nothing disturbed; steps lost; seconds from the disturbance to the next step, and to the
# first step that had not been done before.  The status is 1 where a run did not end so.
#
# With SPEED=N it measures instead how fast steps are while a local checkpoint is always being written
# (--local-every 1), over N pairs of runs with and without.
#
#   TIMES=30 STEPS=200 EVERY=5 SAVE=50 COPIES=1 SHAPES="2,2,2,2 3,2,2" KINDS="..." MODES="local folder" STRATEGY=IGG
#   RATE=500mbit SEQ=128 SEED=1 MODEL=examples/models/llama-tiny.json
set -u

TIMES=${TIMES:-30}
STEPS=${STEPS:-200}
EVERY=${EVERY:-5}
SAVE=${SAVE:-50}
COPIES=${COPIES:-1}
SHAPES=${SHAPES:-2,2,2,2 3,2,2}
KINDS=${KINDS:-rank node port stop disk two}
MODES=${MODES:-local folder}
STRATEGY=${STRATEGY:-IGG}
RATE=${RATE:-500mbit}
SEQ=${SEQ:-128}
SEED=${SEED:-1}
SPEED=${SPEED:-}
MODEL=${MODEL:-examples/models/llama-tiny.json}
OUT=${OUT:-bench}
PATH=${BIN:-$PWD/bin}:$PATH
# shellcheck source=tests/bench/moments.sh
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
until grep -q ' ended with ' log; do sleep 0.05; done
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

wrong=0
one() { # KIND MODE: adds to good, steps, ...
    draw $((STEPS - 30))
    step=$((drawn + 10))
    draw 100
    ms=$drawn
    draw "$nodes"
    options=''
    [ "$2" = folder ] || options="--local-save local --local-every $EVERY --copies $COPIES"
    rm -rf run local log took
    job "$1" $step "$ms" "$drawn" "$options" > job.sh
    timeout 300 paro-lab --head -g "$nodes" -p "$procs" -r "$RATE" -- sh job.sh > lab.said 2>&1
    read -r status next_ms again_ms < took 2> /dev/null || status=- next_ms=0 again_ms=0
    bits run/log.jsonl > have
    lost=$(sed -n 's/.*; \([0-9]*\) steps* [ia][sr]e* lost$/\1/p' log | awk '{ n += $1 } END { print n + 0 }')
    echo "$lost $next_ms $again_ms" >> figures
    if [ "$status" = 0 ] && cmp -s want have; then
        good=$((good + 1))
    else
        wrong=$((wrong + 1))
        echo "local.sh: $procs $1 $2, step $step: status $status; see $PWD/bad-$wrong" >&2
        rm -rf "bad-$wrong"
        mkdir "bad-$wrong" && cp -a log said lab.said job.sh have "bad-$wrong/" 2> /dev/null
    fi
}

kind_line() { # KIND MODE
    good=0
    : > figures
    for _ in $(seq "$TIMES"); do one "$1" "$2"; done
    awk -v kind="$1" -v mode="$2" -v shape="$procs" -v good="$good" '
        function most(a, b) { return a > b ? a : b }
        { for (i = 1; i <= 3; i++) { sum[i] += $i; max[i] = most(max[i], $i) } }
        END {
            printf "%-8s %-5s %-6s  %3d of %-3d  %6.1f %5d   %6.1f %6.1f   %6.1f %6.1f\n", shape, kind, mode, good, NR,
                sum[1] / NR, max[1], sum[2] / NR / 1e3, max[2] / 1e3, sum[3] / NR / 1e3, max[3] / 1e3
        }' figures
}

# ---- The speed of steps during copies -------------------------------------------------------

# The median of step_s, without the first steps.
median_s() {
    sed -n 's/.*"step":\([0-9]*\),.*"step_s":\([^,]*\),.*/\1 \2/p' run/log.jsonl |
        awk '$1 > 10 { print $2 }' | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

speed() {
    : > pairs
    for _ in $(seq "$SPEED"); do
        for options in '' "--local-save local --local-every 1 --copies $COPIES"; do
            rm -rf run local
            # shellcheck disable=SC2086 # words
            paro-lab -g "$nodes" -p "$procs" -r "$RATE" -- paro-train plan.yaml -d text -o run --steps "$STEPS" \
                $options > out 2> said || die "a run failed: $(tail -n 1 said)"
            median_s
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
mkdir -p "$OUT" && OUT=$(realpath "$OUT") && rm -rf "$OUT/local" && mkdir "$OUT/local" && cd "$OUT/local" || exit 2
seq 1 20000 > text
echo "$STRATEGY, sequences of $SEQ, $RATE, $STEPS steps, a checkpoint every $SAVE, local ones every $EVERY; seed $SEED"
[ -n "$SPEED" ] || echo 'shape    kind  saved      good  steps lost, most   next step s, most   new step s, most'
for procs in $SHAPES; do
    nodes=$(echo "$procs" | tr ',' '\n' | grep -c .)
    batch=$(($(echo "$procs" | tr ',' '+')))
    paro-topo -i "synth:[$procs],inter=$RATE,flops=1e10" --hosts "node[0-$((nodes - 1))]" > fabric.yaml || exit 2
    paro-plan -m "$MODEL" -i fabric.yaml --seq "$SEQ" --global-batch $batch --micro-batch 1 --strategy "$STRATEGY" \
        > plan.yaml 2> said || die "no plan"
    if [ -n "$SPEED" ]; then
        speed
        continue
    fi
    paro-plan -m "$MODEL" -i synth:1x1,flops=1e10 --seq "$SEQ" --global-batch $batch --micro-batch 1 > one.yaml 2> said
    rm -rf whole
    paro-train one.yaml -d text -o whole --exact --steps "$STEPS" > out 2> said || die "the undisturbed run fails"
    bits whole/log.jsonl > want
    for kind in $KINDS; do
        for mode in $MODES; do kind_line "$kind" "$mode"; done
    done
done
[ $wrong = 0 ] || exit 1
