#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# One rank on one core in f32: paro-train and PyTorch in turns, same model, weights, data.
#
#   python3 -m venv DIR && DIR/bin/pip install torch transformers safetensors numpy
#   PYTHON=DIR/bin/python sh tests/reference/one_core.sh
#   BATCHES='1 4' ACCUM=1 ROUNDS=3 STEPS=8 CORE=0 MODEL=... DATA=... PEERS='plain plain-compiled' ...
#
# cpu(s) is processor seconds of a step, the least of the rounds: what is left when neighbours
# are on the machine, too.  PyTorch tells its own, step by step, of which the median is taken
# in each round; of paro-train it is the difference between a run of STEPS more steps and a
# short one, so that what is done once falls out.  wall(s) is the median of the rounds' steps.
# Losses of the last step must agree to 1e-5.
#
# MKL, which PyTorch multiplies with, takes another path on processors that are not Intel's;
# PRELOAD=LIBRARY is loaded into PyTorch alone, for those who would have it take its best one.
set -u

PYTHON=${PYTHON:-python3}
MODEL=${MODEL:-examples/models/llama-10m.json}
DATA=${DATA:-/usr/share/common-licenses/GPL-3}
BATCHES=${BATCHES:-1 4}
SEQ=${SEQ:-256}
ACCUM=${ACCUM:-1}
STEPS=${STEPS:-8}
ROUNDS=${ROUNDS:-3}
CORE=${CORE:-0}
PEERS=${PEERS:-plain}
PRELOAD=${PRELOAD:-}
OUT=${OUT:-bench/one_core}
HERE=$(dirname "$0")
PATH=${BIN:-$PWD/bin}:$PATH
SHORT=2 # steps of the short run, and those that PyTorch's figures leave out

die() {
    echo "one_core.sh: $*" >&2
    exit 2
}

# Steps both runs agree on: the cosine ends with the longer one.
long=$((SHORT + STEPS))

# cpu COMMAND...: its processor seconds
cpu() {
    perl -e 'open STDOUT, ">&STDERR"; system(@ARGV) == 0 or exit 1; my @t = times;
        open STDOUT, ">&3"; print $t[2] + $t[3], "\n"' "$@" 3>&1 2> "$OUT/said"
}

row() { # NAME BATCH CPU WALL LOSS
    echo "$*" >> "$OUT/rows"
}

ours() { # BATCH
    for steps in $SHORT $long; do
        used=$(cpu taskset -c "$CORE" paro-train "$OUT/plan-$1.yaml" -d "$DATA" -o "$OUT/run" \
            --force --steps "$steps") || die "paro-train failed, $OUT/said tells"
        [ "$steps" != "$SHORT" ] || before=$used
    done
    perl -MJSON::PP -e '
        my ($out, $batch, $skip, $steps, $before, $used) = splice @ARGV, 0, 6;
        my @d = map { decode_json($_) } <>;
        my @s = sort { $a <=> $b } map { $_->{step_s} } @d[$skip .. $#d];
        print join(" ", "paro", $batch, ($used - $before) / $steps,
            ($s[$#s / 2] + $s[@s / 2]) / 2, $d[-1]{loss}), "\n"
        ' "$OUT" "$1" "$SHORT" "$STEPS" "$before" "$used" "$OUT/run/log.jsonl" >> "$OUT/rows"
    rm -r "$OUT/run"
}

peer() { # NAME BATCH
    taskset -c "$CORE" "$PYTHON" "$HERE/fsdp_peers.py" "$OUT/model" "$1:f32" --data "$DATA" \
        --steps "$long" --skip "$SHORT" --seq "$SEQ" --micro-batch "$2" --accum "$ACCUM" \
        --preload "$PRELOAD" | perl -MJSON::PP -e '
        my ($batch, $skip) = @ARGV;
        my $d = decode_json(<STDIN> // "{\"error\": \"nothing was said\"}");
        die "$d->{name}: $d->{error}\n" if $d->{error};
        my @c = @{$d->{cpu_s}};
        @c = sort { $a <=> $b } @c[$skip .. $#c];
        print join(" ", $d->{name}, $batch, ($c[$#c / 2] + $c[@c / 2]) / 2, $d->{step_s},
            $d->{loss}), "\n"' "$2" "$SHORT" >> "$OUT/rows"
}

table() {
    awk -v tokens=$((SEQ * ACCUM)) '
        {
            key = $1 " " $2
            if (!(key in cpu)) { keys[++n] = key; cpu[key] = $3 }
            if ($3 < cpu[key]) cpu[key] = $3
            wall[key] = wall[key] " " $4
            loss[key] = $5
        }
        function median(text, x, k, i, j, t) {
            k = split(text, x, " ")
            for (i = 2; i <= k; i++)
                for (j = i; j > 1 && x[j] + 0 < x[j - 1] + 0; j--) {
                    t = x[j]; x[j] = x[j - 1]; x[j - 1] = t
                }
            return (x[int((k + 1) / 2)] + x[int(k / 2) + 1]) / 2
        }
        END {
            printf "# %-14s %5s %9s %12s %9s %10s %10s\n", "name", "batch", "cpu(s)",
                "tokens/cpu-s", "wall(s)", "loss", "paro-over"
            for (i = 1; i <= n; i++) {
                split(keys[i], k, " ")
                ours = "paro " k[2]
                printf "%-16s %5d %9.4f %12.0f %9.4f %10.6f %10.2f\n", k[1], k[2], cpu[keys[i]],
                    tokens * k[2] / cpu[keys[i]], median(wall[keys[i]]), loss[keys[i]],
                    cpu[keys[i]] / cpu[ours]
                off = loss[keys[i]] / loss[ours] - 1
                if (off > 1e-5 || off < -1e-5) { print "the losses differ"; bad = 1 }
            }
            exit bad
        }' "$OUT/rows"
}

"$PYTHON" -c 'import torch, transformers' ||
    die "$PYTHON has no torch or no transformers; the head of this file says how to get them"
mkdir -p "$OUT" || die "cannot make $OUT"
rm -rf "$OUT/model" "$OUT/run" "$OUT/rows"
paro-shard init -m "$MODEL" --seed 1 -o "$OUT/model" || exit 2
for batch in $BATCHES; do
    paro-plan -m "$MODEL" -i synth:1x1 --strategy NNN --param-type f32 --wire-type f32 \
        --grad-type f32 --seq "$SEQ" --micro-batch "$batch" --accum "$ACCUM" \
        > "$OUT/plan-$batch.yaml" || die "no plan for batch $batch"
done
echo "# one core, f32, $MODEL, $ACCUM micro-batches of BATCH x $SEQ tokens, load average" \
    "$(cut -d' ' -f1 /proc/loadavg)"
for _ in $(seq "$ROUNDS"); do
    for batch in $BATCHES; do
        ours "$batch"
        for name in $PEERS; do
            peer "$name" "$batch" || exit 2
        done
    done
done
table
