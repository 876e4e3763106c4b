#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# PyTorch's and DeepSpeed's data-parallel trainers and paro-train's plans, in turns on the same
# emulated fabrics, the same model, weights, data and micro-batches: a table for each fabric.
#
#   python3 -m venv DIR && DIR/bin/pip install torch transformers safetensors numpy deepspeed
#   make bench-peers PYTHON=DIR/bin/python
#
# A row of a table is ROUNDS launches.  The rate of a launch is that of the median of its steps
# without the first SKIP; tokens/s is the median of the launches, then come the least and the
# most, and at the end the median over that of the best peer on gloo with the same wire type, whatever
# its compute type; of-bound is the plan's bound over the step.  Types are WIRE:COMPUTE.  With
# bf16:f32 only DDP runs, since the others compute in the type of the wire; with bf16:bf16 DDP runs
# under autocast.  MiB is the largest
# peak of resident memory (VmHWM) of a rank, libraries included; libs is the part of it that a
# peer had before it read the model.  paro-train also writes a checkpoint at its end.
# Losses of the last step must agree: those of f32 to 1e-5, those with bf16 to the least bit of
# bf16 (2^-8) with the median of f32.
#
# "best" is the plan that paro-plan prefers; IIG,slow-grads=int8,buckets=3 is IIG with these
# options of paro-plan.  Rows, one per launch, stay in OUT/rows.jsonl: those that are there are
# not measured again, so that an interrupted table continues, and FRESH=REGEX removes those whose
# key it matches, such as "4x2:200mbit bf16:f32 paro best 1".  To ask for less:
#
#   CASES='4x2:200mbit 2x2:1gbit' PLANS='NNN best' PEERS='ddp zero3' TYPES=bf16:f32 ROUNDS=1 ...
#   PEERS='' or PLANS='' for none; tests/reference/fsdp_peers.py --list lists the peers
#   PEERS='ddp ddp-paro fsdp2-full fsdp2-full-paro' for gloo and the backend paro of lib/python
#   FRESH='paro' for other plans or another paro, FRESH=. for all
#
# The slowest peers take most of the time.  A table prints all rows of its case: to launch slow
# peers once, run ROUNDS=1 first, and then PEERS='ddp fsdp2-hybrid-late' with all rounds.
OUT=${OUT:-bench/peers}
. "$(dirname "$0")/begin.sh"
# CASES: groups x ranks of each, rate.  MICRO: sequences of a micro-batch.  LAB: more words for
# paro-lab, with paro-train alone: --mca btl_tcp_flags 1.
settings PYTHON=python3 CASES='4x2:200mbit 2x2:1gbit 4x2:1gbit 2x2:200mbit' \
    TYPES='f32:f32 bf16:f32 bf16:bf16' STEPS=3 SKIP=1 ROUNDS=3 \
    MODEL=examples/models/llama-10m.json DATA=/usr/share/common-licenses/GPL-3 SEQ=256 MICRO=1 \
    ACCUM=4 LAB= LIMIT=900 FRESH=
PLANS=${PLANS-best NNN IIG GGG}
PEERS=${PEERS-ddp ddp-paro ddp-zero1 fsdp2-full fsdp2-full-paro fsdp2-hybrid fsdp2-hybrid-late zero2 zero3}
REFERENCE=$(dirname "$0")/../reference

# peak FILE COMMAND...: runs a rank, and its VmHWM in KiB is in FILE.RANK
peak='import os, resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
with open(sys.argv[1] + "." + os.environ["OMPI_COMM_WORLD_RANK"], "w") as f:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=f)
sys.exit(abs(status))'

# add_row KEY: the object on standard input, of one line, as a row
add_row() {
    perl -MJSON::PP -e '
        my %row = (%{decode_json(<STDIN> // "{\"error\": \"it printed nothing\"}")}, key => @ARGV);
        print JSON::PP->new->canonical->encode(\%row), "\n"' "$1" >> "$rows"
}

# types WIRE:COMPUTE: what a plan has where the peers have these
types() {
    case $1 in
    f32:f32) echo --param-type f32 --wire-type f32 ;;
    bf16:f32 | bf16:bf16) echo --param-type bf16 --wire-type bf16 ;;
    *) die "types '$1', expected f32:f32, bf16:f32 or bf16:bf16" ;;
    esac
}

run_peer() { # PEER
    "$PYTHON" "$REFERENCE/fsdp_peers.py" "$OUT/model" "$1:$types" -g "$groups" -p "$procs" \
        -r "$rate" --data "$DATA" --steps "$STEPS" --skip "$SKIP" --seq "$SEQ" \
        --micro-batch "$MICRO" --accum "$ACCUM" --limit "$LIMIT" 2> "$OUT/said" < /dev/null
}

run_plan() { # PLAN
    words=$(echo "--strategy $1" | sed 's/--strategy best//; s/,/ --/g')
    # shellcheck disable=SC2046,SC2086
    paro-plan -m "$MODEL" -i "$fabric" $(types "$types") --grad-type f32 \
        --compute-type "${types#*:}" $words --seq "$SEQ" --micro-batch "$MICRO" \
        --accum "$ACCUM" > "$OUT/plan.yaml" 2> "$OUT/said" && rm -rf "$OUT/run" "$OUT"/kib.* &&
        timeout "$LIMIT" paro-lab -g "$groups" -p "$procs" -r "$rate" $LAB -- "$PYTHON" \
            -c "$peak" "$OUT/kib" paro-train "$OUT/plan.yaml" -d "$DATA" -o "$OUT/run" \
            --steps "$STEPS" > "$OUT/said" 2>&1 < /dev/null
    perl -MJSON::PP -e '
        sub lines { open my $f, "<", $_[0] or return; <$f> }
        my ($failed, $out) = @ARGV;
        my ($error) = grep { !/^(-*$|#)/ } lines("$out/said");
        chomp($error //= "it printed nothing");
        my %row = (error => $error);
        if (!$failed) {
            my @d = map { decode_json($_) } lines("$out/run/log.jsonl");
            my %plan = map { /^ *(\w+): (.+)/ } lines("$out/plan.yaml");
            my ($kib) = sort { $b <=> $a } map { (lines($_))[0] + 0 } glob "$out/kib.*";
            %row = (loss => $d[-1]{loss}, steps_s => [map { $_->{step_s} } @d], kib => $kib,
                strategy => $plan{strategy}, planned_s => $plan{step_s} + 0, bound_s => $plan{bound_s} + 0);
        }
        print JSON::PP->new->canonical->encode(\%row), "\n"' $? "$OUT"
}

# launch NAME: a row, unless it is there; "paro best" is a plan, all others are peers
launch() {
    case $1:$types in # what cannot compute in another type than the wire's
    paro* | ddp*) ;;
    *:bf16:f32) return ;;
    esac
    key="$case $types $1 $round"
    ! grep -F "\"key\":\"$key\"" "$rows" | grep -qv '"error":' || return 0
    echo "$(date +%T) $key" >&2
    case $1 in
    'paro '*) run_plan "${1#paro }" | add_row "$key" ;;
    *) run_peer "$1" | add_row "$key" ;;
    esac
}

# table CASE: of its rows; status 1 where losses differ
table() {
    echo "# $1, $setup, $(nproc) processors"
    grep -F "\"key\":\"$1 " "$rows" | perl -MJSON::PP -e '
        my ($skip, $tokens) = @ARGV;
        my (%rate, %row, %best, %failed, @f32, $bad);
        sub median { my @s = sort { $a <=> $b } @_; ($s[$#s / 2] + $s[@s / 2]) / 2 }
        while (<STDIN>) {
            my $d = decode_json($_);
            my ($types, $name) = $d->{key} =~ /^\S+ (\S+) (.*) \d+$/;
            my $key = "$types $name";
            $failed{$key} = $d->{error}, next if $d->{error};
            my @s = @{$d->{steps_s}};
            push @{$rate{$key}}, $tokens / median(@s[$skip .. $#s]);
            push @{$row{$key}{$_}}, $d->{$_} // 0 for qw(kib start_kib loss);
            $row{$key}{plan} = $d if $d->{strategy};
            push @f32, $d->{loss} if $types eq "f32:f32";
        }
        delete @failed{keys %rate};
        for my $key (grep { !/paro/ } keys %rate) {
            my ($best, $rate) = (\$best{(split /:/, $key)[0]}, median(@{$rate{$key}}));
            $$best = $rate if $rate > ($$best // 0);
        }
        printf "# %-18s %-9s %8s %17s %8s %8s %10s %6s %5s %8s %9s %8s\n", qw(name types
            tokens/s least..most step(s) planned loss MiB libs launches over-best of-bound);
        $rate{$_} = [0] for keys %failed;
        for my $key (sort { (split /:/, $b)[0] cmp (split /:/, $a)[0] or
                            median(@{$rate{$b}}) <=> median(@{$rate{$a}}) } keys %rate) {
            my ($types, $name) = split / /, $key, 2;
            my @r = sort { $a <=> $b } @{$rate{$key}};
            my ($rate, $row, $best) = (median(@r), $row{$key}, $best{(split /:/, $types)[0]});
            $name =~ s/best/best=$row->{plan}{strategy}/ if $row->{plan};
            printf "%-20s %-9s", $name, $types;
            print("  failed: $failed{$key}\n"), next if $failed{$key};
            my @l = sort { $a <=> $b } @{$row->{loss}};
            printf " %8.0f %8.0f %8.0f %8.4f %8s %10.6f %6.0f %5s %8d", $rate, @r[0, -1],
                $tokens / $rate, $row->{plan} ? sprintf "%.4f", $row->{plan}{planned_s} : "-",
                $l[-1], (sort { $b <=> $a } @{$row->{kib}})[0] / 1024, $row->{plan} ? "-" :
                sprintf("%.0f", median(@{$row->{start_kib}}) / 1024), scalar @r;
            printf " %9s", $best ? sprintf "%.2f", $rate / $best : "-";
            printf " %8.2f", $row->{plan}{bound_s} * $rate / $tokens if $row->{plan};
            my $loss = @f32 ? median(@f32) : $l[0];
            my $off = (sort { $b <=> $a } map { abs($_ / $loss - 1) } @l)[0];
            my $differs = $off > ($types eq "f32:f32" ? 1e-5 : 2 ** -8);
            print $differs ? sprintf("  the loss differs by %.1e\n", $off) : "\n";
            $bad ||= $differs;
        }
        exit $bad' "$SKIP" "$((groups * procs * ACCUM * MICRO * SEQ))"
}

for case in $CASES; do
    case $case in
    [1-9]*x[1-9]*:?*) ;;
    *) die "case '$case', expected GROUPSxRANKS:RATE as 4x2:1gbit" ;;
    esac
done
[ "$STEPS" -gt "$SKIP" ] || die "STEPS $STEPS, expected more than SKIP $SKIP"
[ -z "$PEERS" ] || "$PYTHON" -c 'import torch, transformers' ||
    die "$PYTHON has no torch or no transformers; the head of this file says how to get them"
for types in $TYPES; do types "$types" > /dev/null; done
for peer in $PEERS; do
    "$PYTHON" "$REFERENCE/fsdp_peers.py" --list | grep -v '^plain' | grep -q "^$peer " ||
        die "peer '$peer', expected one that fsdp_peers.py --list lists, of several ranks"
done
mkdir -p "$OUT" || die "cannot make $OUT"
rows=$OUT/rows.jsonl
setup="$(basename "$MODEL"), $ACCUM micro-batches of $MICRO x $SEQ tokens a rank, $STEPS steps"
touch "$rows"
if [ -n "$FRESH" ]; then
    grep -vE "\"key\":\"[^\"]*($FRESH)" "$rows" > "$rows.new"
    mv "$rows.new" "$rows"
fi
[ -s "$rows" ] || rm -rf "$OUT"/fabric-*.yaml "$OUT/setup" "$OUT/model"
[ -e "$OUT/setup" ] || echo "$setup" > "$OUT/setup"
[ "$setup" = "$(cat "$OUT/setup")" ] ||
    die "rows in $OUT are of '$(cat "$OUT/setup")', expected '$setup'; FRESH=. removes them"
[ -e "$OUT/model" ] || paro-shard init -m "$MODEL" --seed 1 -o "$OUT/model" || exit 2
wrong=0
for case in $CASES; do
    shape=${case%%:*} rate=${case#*:}
    groups=${shape%x*} procs=${shape#*x} fabric=$OUT/fabric-$shape-$rate.yaml
    [ -s "$fabric" ] || [ -z "$PLANS" ] ||
        paro-lab -g "$groups" -p "$procs" -r "$rate" -- paro-topo -m "$MODEL" --seq "$SEQ" \
            > "$fabric" < /dev/null || die "no fabric $case"
    for round in $(seq "$ROUNDS"); do
        for types in $TYPES; do
            for peer in $PEERS; do launch "$peer"; done
            for plan in $PLANS; do launch "paro $plan"; done
        done
    done
    table "$case" || wrong=1
done
exit $wrong
