#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# PyTorch's data-parallel trainers and paro-train's plans, in turns on the same emulated fabric,
# the same model, weights, data and micro-batches: one table.
#
#   python3 -m venv DIR && DIR/bin/pip install torch transformers safetensors numpy
#   PYTHON=DIR/bin/python sh tests/reference/peers.sh
#
# Each row is ROUNDS launches; step(s) and least(s) are median and least of rank 0's steps without
# the first SKIP of a launch (neighbours on the machine lengthen the first, hardly the second); the
# last columns are tokens/s by either over the best peer's with the same wire.  Losses of f32 must
# agree to 1e-5, whoever trained; in bf16 each rounds in its own way.
# "best" is the plan that paro-plan prefers; IIG,slow-grads=int8,buckets=3 is IIG with these
# options of paro-plan.  Rows stay in OUT/rows.jsonl.  To ask for less:
#
#   SHAPE=2x2 RATE=1gbit PLANS='NNN best' PEERS='ddp fsdp2-hybrid-late' WIRES=bf16 ROUNDS=1 ...
#   PEERS='' or PLANS='' for none; fsdp_peers.py --list tells the peers
set -u

PYTHON=${PYTHON:-python3}
SHAPE=${SHAPE:-4x2} # groups x ranks of each
RATE=${RATE:-200mbit}
STEPS=${STEPS:-5}
SKIP=${SKIP:-1}
ROUNDS=${ROUNDS:-2}
WIRES=${WIRES:-f32 bf16}
PLANS=${PLANS-best NNN NNG NGG IIG III GGG}
PEERS=${PEERS-ddp ddp-zero1 fsdp-full fsdp-hybrid fsdp2-full fsdp2-keep fsdp2-hybrid-late}
MODEL=${MODEL:-examples/models/llama-10m.json}
DATA=${DATA:-/usr/share/common-licenses/GPL-3}
SEQ=${SEQ:-256}
MICRO=${MICRO:-1} # sequences of a micro-batch
ACCUM=${ACCUM:-4}
LAB=${LAB:-} # more words for paro-lab, with paro-train alone: --mca btl_tcp_flags 1
LIMIT=${LIMIT:-900}
OUT=${OUT:-bench/peers}
HERE=$(dirname "$0")
PATH=${BIN:-$PWD/bin}:$PATH

die() {
    echo "peers.sh: $*" >&2
    exit 2
}

# A launch that failed, in one line.
row_failed() { # NAME WIRE TEXT
    perl -MJSON::PP -e '
        my %row; @row{qw(name wire error)} = @ARGV;
        print JSON::PP->new->canonical->encode(\%row), "\n"' "$@" >> "$OUT/rows.jsonl"
}

# types WIRE: what a plan has where the peers have f32 or bf16.
types() {
    case $1 in
    f32) echo --param-type f32 --wire-type f32 --grad-type f32 ;;
    bf16) echo --param-type bf16 --wire-type bf16 --grad-type f32 ;;
    *) die "wire '$1', expected f32 or bf16" ;;
    esac
}

# make_plan PLAN WIRE: OUT/PLAN-WIRE.yaml
make_plan() {
    words="$(types "$2") --strategy $(echo "$1" | sed 's/,/ --/g')"
    [ "${1%%,*}" != best ] || words=$(echo "$words" | sed 's/--strategy best//')
    # shellcheck disable=SC2086
    paro-plan -m "$MODEL" -i "$OUT/fabric.yaml" $words --seq "$SEQ" --micro-batch "$MICRO" \
        --accum "$ACCUM" > "$OUT/$1-$2.yaml" || die "no plan of '$1'"
}

# run_plan PLAN WIRE: a launch of paro-train, a row
run_plan() {
    plan=$OUT/$1-$2.yaml
    name=$1
    [ "${1%%,*}" != best ] || name="best=$(sed -n 's/^strategy: //p' "$plan")${1#best}"
    # shellcheck disable=SC2086
    if ! timeout "$LIMIT" paro-lab -g "$groups" -p "$procs" -r "$RATE" $LAB -- \
        paro-train "$plan" -d "$DATA" -o "$OUT/run" --force --steps "$STEPS" \
        > "$OUT/said" 2>&1 < /dev/null; then
        row_failed "$name" "$2" "$(grep -v -e '^-*$' -e '^#' "$OUT/said" | head -n 1)"
        return
    fi
    perl -MJSON::PP -e '
        my ($name, $wire) = splice @ARGV, 0, 2;
        my @d = map { decode_json($_) } <>;
        my %row = (name => $name, wire => $wire, loss => $d[-1]{loss}, ours => JSON::PP::true,
            steps_s => [map { $_->{step_s} } @d]);
        print JSON::PP->new->canonical->encode(\%row), "\n"
        ' "$name" "$2" "$OUT/run/log.jsonl" >> "$OUT/rows.jsonl"
    rm -r "$OUT/run"
}

run_peer() { # PEER WIRE
    "$PYTHON" "$HERE/fsdp_peers.py" "$OUT/model" "$1:$2" -g "$groups" -p "$procs" -r "$RATE" \
        --data "$DATA" --steps "$STEPS" --skip "$SKIP" --seq "$SEQ" --micro-batch "$MICRO" \
        --accum "$ACCUM" --limit "$LIMIT" >> "$OUT/rows.jsonl" 2> "$OUT/said" ||
        row_failed "$1" "$2" "$(tail -n 1 "$OUT/said")"
}

table() {
    perl -MJSON::PP -e '
        my ($skip, $tokens) = splice @ARGV, 0, 2;
        my (%steps, %rate, %loss, %ours, %error, %best, @f32);
        while (<>) {
            my $d = decode_json($_);
            my $key = "$d->{name} $d->{wire}";
            $error{$key} = $d->{error}, next if $d->{error};
            my @s = @{$d->{steps_s}};
            push @{$steps{$key}}, @s[$skip .. $#s];
            @s = sort { $a <=> $b } @{$steps{$key}};
            $rate{$key} = [map { $tokens / $_ } ($s[$#s / 2] + $s[@s / 2]) / 2, $s[0]];
            ($loss{$key}, $ours{$key}) = @$d{"loss", "ours"};
            push @f32, $d->{loss} if $d->{wire} eq "f32";
        }
        sub wire { (split / /, $_[0])[1] }
        for my $key (grep { !$ours{$_} } keys %rate) {
            for my $i (0, 1) {
                my $best = \$best{wire($key)}[$i];
                $$best = $rate{$key}[$i] if $rate{$key}[$i] > ($$best // 0);
            }
        }
        my %all = (%rate, map { $_ => $rate{$_} // [0] } keys %error);
        printf "# %-20s %-4s %9s %9s %9s %10s %5s %12s %8s\n", qw(name wire tokens/s step(s)
            least(s) loss steps over-median over-least);
        for my $key (sort { wire($b) cmp wire($a) || $all{$b}[0] <=> $all{$a}[0] } keys %all) {
            my ($name, $wire) = split / /, $key;
            printf "%-22s %-4s", ($ours{$key} ? "paro " : "") . $name, $wire;
            if ($rate{$key}) {
                my ($median, $least) = @{$rate{$key}};
                printf " %9.0f %9.4f %9.4f %10.6f %5d", $median, $tokens / $median,
                    $tokens / $least, $loss{$key}, scalar @{$steps{$key}};
                printf " %12.2f %8.2f", $median / $best{$wire}[0], $least / $best{$wire}[1]
                    if $best{$wire};
            }
            print $error{$key} ? "  failed: $error{$key}\n" : "\n";
        }
        @f32 = sort { $a <=> $b } @f32;
        if (@f32 && $f32[-1] - $f32[0] > 1e-5 * $f32[-1]) {
            print "losses of f32 differ by ", $f32[-1] - $f32[0], "\n";
            exit 1;
        }' "$SKIP" "$((groups * procs * ACCUM * MICRO * SEQ))" "$OUT/rows.jsonl"
}

groups=${SHAPE%x*} procs=${SHAPE#*x}
case $groups$procs in *[!0-9]* | '') die "SHAPE '$SHAPE', expected GROUPSxRANKS as 4x2" ;; esac
[ "$STEPS" -gt "$SKIP" ] || die "STEPS $STEPS, expected more than SKIP $SKIP"
[ -z "$PEERS" ] || "$PYTHON" -c 'import torch, transformers' ||
    die "$PYTHON has no torch or no transformers; the head of this file says how to get them"
for wire in $WIRES; do types "$wire" > /dev/null; done
case " $PEERS " in *' plain'*) die "plain is one rank, and one_core.sh's" ;; esac
mkdir -p "$OUT" || die "cannot make $OUT"
rm -rf "$OUT/model" "$OUT/run" "$OUT/rows.jsonl"
paro-shard init -m "$MODEL" --seed 1 -o "$OUT/model" || exit 2
paro-lab -g "$groups" -p "$procs" -r "$RATE" -- paro-topo > "$OUT/fabric.yaml" < /dev/null ||
    die "no fabric"
for wire in $WIRES; do
    for plan in $PLANS; do make_plan "$plan" "$wire"; done
done
echo "# $SHAPE at $RATE, $MODEL, $ACCUM micro-batches of $MICRO x $SEQ tokens a rank," \
    "$(nproc) processors, load average $(cut -d' ' -f1 /proc/loadavg)"
for round in $(seq "$ROUNDS"); do
    for wire in $WIRES; do
        for peer in $PEERS; do
            echo "round $round: $peer $wire" >&2
            run_peer "$peer" "$wire"
        done
        for plan in $PLANS; do
            echo "round $round: paro $plan $wire" >&2
            run_plan "$plan" "$wire"
        done
    done
done
table
