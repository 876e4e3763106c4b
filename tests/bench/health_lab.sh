#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# horing-check on emulated fabrics with known faults: `make bench-health_lab`.
#
# Of each KIND so many runs of level normal on a fabric of its own: how many found the fault, how
# many named it right (host, direction or pair; nobody else accused), how many accused somebody
# wrongly, and the time that a check took (its own word).  The share of the runs is given with its
# 95 % interval (Wilson), for so few runs prove little.  Runs stay in OUT/health_lab as JSON.
. "$(dirname "$0")/begin.sh"
settings RUNS=100 KINDS='healthy port10 port5 out10 in10 pair20 cut flap corrupt' GROUPS_=4 \
    PROCS=2 RATE=200mbit OPTIONS='-t 20'
. examples/mpirun-env

case $RATE in *mbit) mbit=${RATE%mbit} ;; *) die "rate '$RATE', expected as 200mbit" ;; esac
mkdir -p "$OUT/health_lab" || exit 2
here=$PWD
cd "$OUT/health_lab" || exit 2
gcc -O1 -shared -fPIC -o corrupt.so "$here/tests/lab/corrupt.c" -ldl || exit 2

# percent P: the rate at P percent.
percent() { awk -v m="$mbit" -v p="$1" 'BEGIN { printf "%dkbit\n", m * 1000 * p / 100 }'; }

# lab KIND: options of paro-lab, words.
lab() {
    case $1 in
    healthy | corrupt) ;;
    port*) echo "--slow 1:$(percent $((100 - ${1#port})))" ;;
    out*) echo "--slow 1:$(percent $((100 - ${1#out})))/$RATE" ;;
    in*) echo "--slow 1:$RATE/$(percent $((100 - ${1#in})))" ;;
    pair*) echo "--slow 0-2:$(percent $((100 - ${1#pair})))" ;;
    cut) echo "--cut 1:2.5" ;;
    flap) echo "--flap 1:3/1" ;;
    *) die "kind '$1', expected healthy, portP, outP, inP, pairP, cut, flap or corrupt" ;;
    esac
}

# run KIND N
run() {
    # shellcheck disable=SC2046,SC2086 # words
    timeout 90 paro-lab -g "$GROUPS_" -p "$PROCS" -r "$RATE" $(lab "$1") -- \
        env ${preload:+LD_PRELOAD=$preload CORRUPT_HOST=node1} horing-check --json $OPTIONS \
        > "$1.$2.json" 2> "$1.$2.said"
    status=$?
}

# judge KIND FILE STATUS: "found right wrong seconds" as 0 or 1.
judge() {
    perl -MJSON::PP -e '
        my ($kind, $file, $status) = @ARGV;
        open my $f, "<", $file or die; local $/; my $text = <$f>;
        my $d = eval { decode_json($text) } or do { print "0 0 0 -\n"; exit };
        my @bad = grep { $_->{state} eq "WARNING" || $_->{state} eq "CRITICAL" } @{$d->{findings}};
        my ($right, $wrong) = (0, 0);
        for (@bad) {
            my ($h, $o) = ($_->{host} // "", $_->{other_host} // "");
            my $way = $_->{direction} // "";
            my $ok = $kind =~ /^(port|cut|flap)/ ? $h eq "node1"
                   : $kind =~ /^out/ ? $h eq "node1" && $way ne "in"
                   : $kind =~ /^in/ ? $h eq "node1" && $way ne "out"
                   : $kind =~ /^pair/ ? join(" ", sort $h, $o) eq "node0 node2"
                   : $kind eq "corrupt" ? $h eq "node1" : 0;
            $ok ? $right++ : $wrong++;
        }
        printf "%d %d %d %s\n", scalar(@bad) > 0, $right > 0 && !$wrong, $wrong > 0,
            $d->{seconds} // "-";' "$1" "$2" "$3"
}

echo "# $GROUPS_ hosts of $PROCS ranks, ports of $RATE, $OPTIONS, $RUNS runs of each kind"
printf '%-10s %5s  %-22s  %-22s  %-22s %8s\n' kind runs 'found %' 'named right %' 'wrongly accused %' 'median s'
for kind in $KINDS; do
    lab "$kind" > words
    preload=
    [ "$kind" != corrupt ] || preload=$PWD/corrupt.so
    : > "$kind.table"
    n=1
    while [ "$n" -le "$RUNS" ]; do
        run "$kind" "$n"
        judge "$kind" "$kind.$n.json" "$status" >> "$kind.table"
        n=$((n + 1))
    done
    awk -v kind="$kind" '
        function share(k, n,    p, z, m, h) {
            z = 1.96; p = k / n; m = (p + z * z / (2 * n)) / (1 + z * z / n)
            h = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
            return sprintf("%5.1f (%.1f to %.1f)", 100 * p, 100 * (m - h < 0 ? 0 : m - h), 100 * (m + h > 1 ? 1 : m + h))
        }
        { f += $1; r += $2; w += $3; n++; if ($4 != "-") t[++s] = $4 }
        END {
            for (i = 1; i <= s; i++) for (j = i + 1; j <= s; j++) if (t[j] < t[i]) { x = t[i]; t[i] = t[j]; t[j] = x }
            printf "%-10s %5d  %-22s  %-22s  %-22s %8s\n", kind, n, share(f, n), share(r, n), share(w, n), s ? sprintf("%.2f", t[int((s + 1) / 2)]) : "-"
        }' "$kind.table"
done
