#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Our collectives beside the MPI library's on emulated fabrics: two sets of tables.
#
#   limit   64 MiB by ho-ring, ring and mpi on every shape and rate, with the library's stock
#           settings and with the one that helps (lab.md: btl_tcp_flags): of several launches the
#           best median, as fractions of the cut bound, and the ratio over our own ring of the
#           same launch.  Port rates are the true payload, 1448 of 1514 bytes.
#   sweep   auto over all sizes beside the library as it is, its ring and its HAN.  Which of its
#           algorithms runs is chosen at launch, so that there is a launch for each, with ours
#           taking turns: the times' ratio, below 1 where ours is faster, a star where the median
#           is above 1.02; of one launch its quartiles, of several (SWEEPS) the least, median and
#           largest of their medians.  auto takes what a user gets who ran
#           paro-bench --table once: a table for each shape, rate and setting, from a launch
#           before the peers'; with TUNE=no what the simulator says.
#
# A full run takes hours (an estimate comes first); a shape's lines appear as they are done.
# Rows stay in bench/ as JSON Lines, the pictures beside them.  To ask for less:
#
#   SHAPES='2x2 3,2' RATES=1gbit LAUNCHES=1 PARTS=limit sh tests/bench/collectives.sh
#   PARTS=limit OPS=all-reduce ALGOS=ho-ring SETTINGS=stock ...
#   PARTS=sweep SIZES=4K:64M:4 SETTINGS=stock PEERS='default han' ROUNDS=5 OPS=all-reduce TUNE=no ...
# shellcheck disable=SC2086
. "$(dirname "$0")/begin.sh"
# SWEEPS: launches of each peer.  SIZES: from:to:factor.  OPS: limit has three, sweep all four.
settings PARTS='limit sweep' SHAPES='2x2 2x4 4x2 4x4 3,2 4,4,3' RATES='500mbit 1gbit' \
    SETTINGS='stock helped' HELP='--mca btl_tcp_flags 1' LAUNCHES=3 SWEEPS=1 SIZE=64M ITERS=5 \
    SIZES=4K:64M:4 ROUNDS=7 TUNE=yes PEERS='default ring han' OPS= ALGOS=ho-ring,ring,mpi
SWEEP_RATES=${SWEEP_RATES:-${RATES##* }}
failed=0

# "GROUPS PROCS" of "4x2" or "3,2", as paro-lab wants them.
lab_shape() {
    case $1 in
    *x*) echo "${1%x*} ${1#*x}" ;;
    *) echo "$(echo "$1" | awk -F, '{ print NF }') $1" ;;
    esac
}

# The same as the commands write it: "4x2" or "[3,2]".
shape() {
    case $1 in *x*) echo "$1" ;; *) echo "[$1]" ;; esac
}

# Of a rate of the wire, as 500mbit, what TCP carries: bytes per second.
payload() {
    case $1 in
    *gbit) echo "${1%gbit}" | awk '{ printf "%.0f\n", $1 * 1e9 / 8 * 1448 / 1514 }' ;;
    *mbit) echo "${1%mbit}" | awk '{ printf "%.0f\n", $1 * 1e6 / 8 * 1448 / 1514 }' ;;
    *) die "rate '$1', expected as 500mbit or 1gbit" ;;
    esac
}

# What makes the library run so: ring where it has one (4.1: no ring in reduce_scatter_block).
peer_settings() {
    case $1 in
    default) ;;
    ring)
        echo "--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allgather_algorithm 4" \
            "--mca coll_tuned_allgatherv_algorithm 3 --mca coll_tuned_reduce_scatter_algorithm 3" \
            "--mca coll_tuned_allreduce_algorithm 4 --mca coll_tuned_bcast_algorithm 9"
        ;;
    han) echo "--mca coll_han_priority 100" ;;
    *) die "peer '$1', expected default, ring or han" ;;
    esac
}

setting() {
    case $1 in
    stock) ;;
    helped) echo "$HELP" ;;
    *) die "setting '$1', expected stock or helped" ;;
    esac
}

# lab SHAPE RATE SETTINGS COMMAND...: a command on an emulated fabric.
lab() {
    lab_on=$(lab_shape "$1")
    lab_rate=$2
    lab_mca=$3
    shift 3
    paro-lab -g "${lab_on% *}" -p "${lab_on#* }" -r "$lab_rate" $lab_mca -- "$@"
}

# launch FILE SHAPE RATE SETTINGS COMMAND...: rows into FILE, whole or not at all.
launch() {
    to=$1
    shift
    lab "$@" > "$to.part" 2> "$to.said" && mv "$to.part" "$to" && rm -f "$to.said" && return
    echo "# a launch failed, $to.said tells: $(grep -v -e '^-*$' -e ' in turns, ' "$to.said" | head -n 1)"
    failed=1
    return 1
}

# Fractions of the bound, best median of the launches, and the ratio over the ring.
limit_lines() {
    perl -MJSON::PP -e '
        my ($shape, $rate, $setting) = splice @ARGV, 0, 3;
        my (%best, %ratio, %load, @ops, @algos);
        for my $file (@ARGV) {
            open my $in, "<", $file or die "$file: $!";
            my %now;
            while (<$in>) {
                my $d = decode_json($_);
                my ($op, $algo, $f) = ($d->{op}, $d->{algo}, $d->{limit_fraction});
                push @ops, $op unless grep { $_ eq $op } @ops;
                push @algos, $algo unless grep { $_ eq $algo } @algos;
                die "$file: wrong data: $_" if $d->{wrong};
                $now{$op}{$algo} = $d->{time_s}{median};
                next if $f <= ($best{$op}{$algo} // 0);
                $best{$op}{$algo} = $f;
                $load{$op} = $d->{loadavg} if $algo eq $algos[0];
            }
            for my $op (keys %now) {
                next unless $now{$op}{ring} && $now{$op}{"ho-ring"};
                my $r = $now{$op}{ring} / $now{$op}{"ho-ring"};
                $ratio{$op} = $r if $r > ($ratio{$op} // 0);
            }
        }
        for my $op (@ops) {
            printf "  %-8s %-8s %-7s %-15s", $shape, $rate, $setting, $op;
            printf " %s %.3f", $_, $best{$op}{$_} // 0 for @algos;
            printf "  over the ring %.2fx", $ratio{$op} if $ratio{$op};
            printf "  load %.1f\n", $load{$op} // 0;
        }' "$@"
}

limit() {
    echo "# limit: $SIZE, best median of $LAUNCHES launches of $ITERS iterations, fraction of the cut bound"
    for rate in $RATES; do
        Bps=$(payload "$rate") || exit 2
        for shape in $SHAPES; do
            for how in $SETTINGS; do
                mca=$(setting "$how") || exit 2
                set --
                for i in $(seq "$LAUNCHES"); do
                    file=$OUT/limit-$shape-$rate-$how-$i.jsonl
                    launch "$file" "$shape" "$rate" "$mca" paro-bench --json \
                        --op "${OPS:-all-gather,reduce-scatter,all-reduce}" --algo "$ALGOS" \
                        -b "$SIZE" -e "$SIZE" -n "$ITERS" -w 1 \
                        -i "synth:$(shape "$shape"),inter=${Bps}B/s" && set -- "$@" "$file"
                done
                [ $# = 0 ] || limit_lines "$(shape "$shape")" "$rate" "$how" "$@" || failed=1
            done
        done
    done
}

# The ratio to each peer: quartiles of a launch, or the range of several launches' medians.
sweep_lines() {
    perl -MJSON::PP -e '
        my (%at, @rows, @peers);
        for my $file (@ARGV) {
            open my $in, "<", $file or die "$file: $!";
            my @d = map { decode_json($_) } <$in>;
            my ($peer) = map { $_->{setting} } grep { $_->{algo} eq "mpi" } @d;
            push @peers, $peer unless grep { $_ eq $peer } @peers;
            for my $d (grep { $_->{algo} ne "mpi" } @d) {
                die "$file: wrong data" if $d->{wrong};
                my $key = "$d->{op} $d->{bytes}";
                push @rows, $key unless $at{$key};
                push @{$at{$key}{$peer}}, $d;
            }
        }
        my $bad = 0;
        for my $key (@rows) {
            my ($op, $bytes) = split / /, $key;
            my ($any) = map { $at{$key}{$_} ? $at{$key}{$_}[0] : () } @peers;
            printf "  %-15s %10d %-22s", $op, $bytes, $any->{chosen}{algo};
            for my $peer (@peers) {
                my @of = map { $_->{ratio_mpi} } @{$at{$key}{$peer} or next};
                my @all = sort { $a <=> $b } map { $_->{median} } @of;
                my @r = @of > 1 ? @all[0, $#all / 2, -1] : @{$of[0]}{qw(p25 median p75)};
                my $star = $r[1] > 1.02 ? "*" : " ";
                $bad++ if $star eq "*";
                printf " %s %.2f %.2f %.2f%s", $peer, @r, $star;
            }
            printf "  load %.1f\n", $any->{loadavg};
        }
        printf "  %d medians above 1.02\n", $bad' "$@"
}

# tune FILE SHAPE RATE SETTINGS SIZES FABRIC: a table measured once, before any peer runs.
tune() {
    launch "$1" "$2" "$3" "$4" paro-bench --table ${OPS:+--op "$OPS"} $5 -i "$6"
}

sweep() {
    sizes=$(echo "$SIZES" | awk -F: 'NF == 3 { print "-b", $1, "-e", $2, "-f", $3 }')
    [ -n "$sizes" ] || die "SIZES '$SIZES', expected FROM:TO:FACTOR, as 4K:64M:4"
    for rate in $SWEEP_RATES; do
        for shape in $SHAPES; do
            fabric=$OUT/fabric-$shape-$rate.yaml
            launch "$fabric" "$shape" "$rate" '' paro-topo || continue
            for how in $SETTINGS; do
                mca=$(setting "$how") || exit 2
                chosen='auto (by simulation)' tuning=
                if [ "$TUNE" = yes ]; then
                    table=$OUT/tuning-$shape-$rate-$how.yaml
                    tune "$table" "$shape" "$rate" "$mca" "$sizes" "$fabric" || continue
                    chosen='auto (by one launch of --table)' tuning="--tuning $table"
                fi
                echo "# sweep: $(shape "$shape") at $rate, $how: $chosen over mpi, low median high of $SWEEPS launches of $ROUNDS rounds"
                set --
                for peer in $PEERS; do
                    as=$(peer_settings "$peer") || exit 2
                    for i in $(seq "$SWEEPS"); do
                        file=$OUT/sweep-$shape-$rate-$how-$peer-$i.jsonl
                        launch "$file" "$shape" "$rate" "$mca $as" paro-bench --json ${OPS:+--op "$OPS"} \
                            --algo auto,mpi $tuning --mpi-name "$peer" $sizes -n "$ROUNDS" -w 1 \
                            -i "$fabric" && set -- "$@" "$file"
                    done
                done
                [ $# != 0 ] || continue
                sweep_lines "$@" || failed=1
                name=$OUT/sweep-$shape-$rate-$how
                paro-bench --read "$@" --svg="$name.svg" --force > "$name.txt" || failed=1
                echo "# $name.svg, $name.txt"
            done
        done
    done
}

# Minutes, from the bounds: mpi at a third of its bound, ring at half, ours at it; a launch
# runs everything twice more than the iterations to check the data, and takes 3 s to begin.
estimate() {
    for rate in $RATES; do
        for shape in $SHAPES; do echo "$rate $(payload "$rate") $shape"; done
    done | awk -v parts="$PARTS" -v sweep_rates=" $SWEEP_RATES " -v launches="$LAUNCHES" \
        -v sweeps="$SWEEPS" -v iters="$ITERS" -v rounds="$ROUNDS" -v size="$SIZE" \
        -v sizes="$SIZES" -v settings="$(echo "$SETTINGS" | wc -w)" \
        -v peers="$(echo "$PEERS" | wc -w)" -v tune="$TUNE" '
        function bytes(t) {
            return t * (t ~ /G/ ? 2 ^ 30 : t ~ /M/ ? 2 ^ 20 : t ~ /K/ ? 2 ^ 10 : 1)
        }
        {
            if ($3 ~ /x/) { split($3, a, "x"); g = a[1] } else g = split($3, a, ",")
            one = (g - 1) / g / $2 # seconds for a byte of an all-gather
            if (parts ~ /limit/)
                s += settings * launches * (3 + 4 * one * bytes(size) * 6 * (iters + 2))
            split(sizes, z, ":")
            runs = 4 * (rounds + 2) # in the time of ours
            all = bytes(z[2]) * z[3] / (z[3] - 1)
            if (parts ~ /sweep/ && index(sweep_rates, " " $1 " "))
                s += 30 + settings * peers * sweeps * (3 + (4 * one + 1 / $2) * all * runs)
            # some 5 candidates within twice the best: 5 rounds, a warm-up, checks twice
            if (tune == "yes" && parts ~ /sweep/ && index(sweep_rates, " " $1 " "))
                s += settings * (3 + (4 * one + 1 / $2) * all * 5 * 8)
        }
        END { printf "# about %d minutes; rows are kept in '"$OUT"'/\n", s / 60 + 1 }'
}

case $TUNE in yes | no) ;; *) die "TUNE '$TUNE', expected yes or no" ;; esac
mkdir -p "$OUT" || die "cannot make $OUT"
estimate
echo "# load average $(cut -d' ' -f1 /proc/loadavg), $(nproc) processors"
for part in $PARTS; do
    case $part in
    limit) limit ;;
    sweep) sweep ;;
    *) die "part '$part', expected limit or sweep" ;;
    esac
done
exit $failed
