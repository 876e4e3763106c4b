#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# HO-Ring, a flat ring and the MPI library on emulated fabrics, as fractions of the cut bound with
# the true payload of a port (1448 of 1514 bytes).  Each fabric is launched several times; of each
# algorithm the best median counts, and the least time of any iteration stands beside it: on a
# machine that is busy with something else the medians flip (the load average is printed).
#
#   SIZE=64M LAUNCHES=3 ITERS=10 ALGOS=ho-ring,ring,mpi FABRICS='2x2/1gbit 3,2/500mbit' \
#       LAB='--mca btl_tcp_flags 1' sh tests/bench/collectives.sh
set -u

SIZE=${SIZE:-64M}
LAUNCHES=${LAUNCHES:-3}
ITERS=${ITERS:-10}
ALGOS=${ALGOS:-ho-ring,ring,mpi}
LAB=${LAB:-}
FABRICS=${FABRICS:-2x2/1gbit 2x4/1gbit 4x2/1gbit 3,2/1gbit 2x2/500mbit 2x4/500mbit 4x2/500mbit 3,2/500mbit}
PATH=${BIN:-$PWD/bin}:$PATH

# GROUPS SHAPE PROCS of "4x2" or "3,2"
shape() {
    case $1 in
    *x*) echo "${1%x*} $1 ${1#*x}" ;;
    *) echo "$(echo "$1" | tr -cd , | wc -c | awk '{ print $1 + 1 }') [$1] $1" ;;
    esac
}

# Of a rate of the wire, as 500mbit, what TCP carries: bytes per second.
payload() {
    case $1 in
    *gbit) echo "${1%gbit}" | awk '{ printf "%.0f\n", $1 * 1e9 / 8 * 1448 / 1514 }' ;;
    *mbit) echo "${1%mbit}" | awk '{ printf "%.0f\n", $1 * 1e6 / 8 * 1448 / 1514 }' ;;
    *) echo "collectives.sh: rate '$1', expected as 500mbit or 1gbit" >&2; return 2 ;;
    esac
}

printf '# %s, best median of %s launches of %s iterations (least time of any iteration)\n' \
    "$SIZE" "$LAUNCHES" "$ITERS"
printf '# %-8s %-8s %-15s %s\n' groups rate operation 'fraction of the cut bound; load average'
for fabric in $FABRICS; do
    rate=${fabric#*/}
    Bps=$(payload "$rate") || exit 2
    # shellcheck disable=SC2046
    set -- $(shape "${fabric%/*}")
    i=0
    while [ $i -lt "$LAUNCHES" ]; do
        # shellcheck disable=SC2086
        paro-lab -g "$1" -p "$3" -r "$rate" $LAB -- paro-bench --json -b "$SIZE" -n "$ITERS" -w 2 \
            --algo "$ALGOS" -i "synth:$2,inter=$Bps" || exit
        i=$((i + 1))
    done | perl -MJSON::PP -e '
        my (%best, %least, %load, @ops, @algos);
        while (<STDIN>) {
            my $d = decode_json($_);
            my ($op, $algo, $f) = ($d->{op}, $d->{algo}, $d->{limit_fraction});
            push @ops, $op unless grep { $_ eq $op } @ops;
            push @algos, $algo unless grep { $_ eq $algo } @algos;
            die "wrong data: $_" if $d->{wrong};
            my $top = $d->{limit_s} / $d->{time_s}{min};
            $least{$op}{$algo} = $top if $top > ($least{$op}{$algo} // 0);
            next if $f <= ($best{$op}{$algo} // 0);
            $best{$op}{$algo} = $f;
            $load{$op} = $d->{loadavg} if $algo eq $algos[0];
        }
        for my $op (@ops) {
            printf "  %-8s %-8s %-15s", @ARGV, $op;
            printf "  %s %.3f (%.3f)", $_, $best{$op}{$_}, $least{$op}{$_} for @algos;
            printf "  load %.1f\n", $load{$op};
        }
        exit !@ops' "$2" "$rate" || exit 2
done
