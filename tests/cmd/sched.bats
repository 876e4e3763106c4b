# SPDX-License-Identifier: BSD-3-Clause
# paro-sched: what is printed is proven, what is changed is refused.

load refuses
load expect

@test "gen | verify: every operation, algorithm and shape" {
    local n=0 ops algos
    ops=$(paro-sched ls | awk '$1 == "op" { print $2 }')
    algos=$(paro-sched ls | awk '$1 == "algo" { print $2 }')
    for shape in 1 1x4 4x1 2x2 3x5 '[3,2]' '[7,6,5,3]' 2x3x2 '2x[3,1,2]'; do
        for op in $ops; do
            for algo in $algos; do
                paro-sched gen "$op" "$algo" "$shape" --chunks 3 > rows
                paro-sched verify rows > out || { echo "$op $algo $shape"; cat out; return 1; }
                grep -q "^proven: $op $algo " out
                n=$((n + 1))
            done
        done
    done
    [ "$(echo "$algos" | wc -l)" -ge 11 ]
    [ $n = $((9 * 4 * $(echo "$algos" | wc -l))) ]
}

@test "a broadcast begins at its root, and the root is told on" {
    for root in 0 2 4; do
        for algo in $(paro-sched ls | awk '$1 == "algo" { print $2 }'); do
            paro-sched gen broadcast "$algo" '[3,2]' --root $root > rows
            grep -qx "root $root" rows
            # nobody sends what the root does not have: the first row is the root's
            [ "$(awk '/^rows/ { getline; print $3 }' rows)" = $root ]
            paro-sched verify rows | grep -q "^proven: broadcast $algo "
        done
    done
}

@test "the chain of a broadcast leaves the root's blocks once, and goes around" {
    # chain ROOT ALGO SHAPE: each rank receives from the one before it
    chain() { paro-sched gen broadcast "$2" "$3" --root "$1" | awk -v r="$1" '
        /^rows/ { go = 1; next } go && NF == 6 { from[$4] = $3 }
        function to(r,  i) { for (i in from) if (from[i] == r) return i; return "" }
        END { for (; r != ""; r = to(r)) printf "%s ", r }'; }
    [ "$(chain 1 ring 4x1)" = "1 2 3 0 " ]
    [ "$(chain 1 ho-ring 4x1)" = "1 2 3 0 " ]
    [ "$(chain 4 ring '[2,3,2]')" = "4 2 3 5 6 0 1 " ]
    [ "$(chain 3 ho-ring 3x2x1)" = "3 2 4 5 0 1 " ]
}

@test "with levels each part enters each pod once, without them once a group" {
    # 2 pods of 3 groups of 1: ranks 0-2 and 3-5
    crossings() { awk '/^rows/ { go = 1; next } go && NF == 6 && ($3 < 3) != ($4 < 3) { n++ } END { print n }'; }
    [ "$(paro-sched gen all-gather ho-ring 2x3x1 | crossings)" = 6 ]
    [ "$(paro-sched gen all-gather ho-ring 6x1 | crossings)" = 10 ]
    # the port of a group passes the same, and no more than M in a broadcast
    paro-sched gen all-gather ho-ring 2x3x2 | paro-sched verify | grep -x 'slow port: 0.833333 of M out, 0.833333 in'
    paro-sched gen broadcast ho-ring 2x3x2 --root 7 | paro-sched verify | grep -x 'slow port: 1.000000 of M out, 1.000000 in'
}

@test "rows, golden: recursive doubling adds in scratch" {
    expect recursive-doubling paro-sched gen all-reduce recursive-doubling 1x2
}

@test "a ring puts (n-1)/n of M through the port, HO-Ring (g-1)/g" {
    paro-sched gen all-gather ring 2x4 | paro-sched verify | grep -x 'slow port: 0.875000 of M out, 0.875000 in'
    paro-sched gen all-gather ho-ring 2x4 | paro-sched verify | grep -x 'slow port: 0.500000 of M out, 0.500000 in'
    paro-sched gen all-reduce ho-ring '[3,2]' | paro-sched verify | grep -x 'slow port: 1.000000 of M out, 1.000000 in'
}

@test "a changed row is wrong: status 1, and it is named" {
    paro-sched gen reduce-scatter ho-ring 2x2 > rows
    for change in 's/ add$/ copy/' 's/^rows .*/rows 11/; 10d' '10s/ \([0-9]*\) add/ 0 add/; 11s/ \([0-9]*\) add/ 0 add/'; do
        sed "$change" rows > changed
        if cmp -s rows changed; then return 1; fi
        rc=0
        paro-sched verify changed > out || rc=$?
        [ $rc = 1 ] || { echo "status $rc for $change"; return 1; }
        grep -qE '^wrong: (row [0-9]+|rank [0-9]+)' out
        rc=0
        paro-sched verify --json changed > out || rc=$?
        [ $rc = 1 ]
        perl -MJSON::PP -e 'local $/; my $d = decode_json(<>); exit !(!$d->{proven} && $d->{wrong})' out
    done
}

@test "a wrong row is named with the slot it goes into, where that is another" {
    paro-sched gen all-reduce recursive-doubling 1x3 > rows
    run -1 paro-sched verify - < <(sed 's/^4 2 0 0 3>0 add/4 2 0 0 3>1 add/' rows)
    [ "$output" = "wrong: row 9 (lane 4 step 2, 0 -> 0, chunk 3 into 1, add): source and destination must be slots of one chunk" ]
    run -1 paro-sched verify - < <(sed 's/^4 1 2 0 0>3 copy/4 1 2 0 0>0 copy/' rows)
    [ "$output" = "wrong: row 4 (lane 4 step 1, 2 -> 0, chunk 0, copy): another row of this step uses the same slot" ]
}

@test "a row of a lane that the schedule does not have is refused by every verb" {
    paro-sched gen all-gather ring 2x2 > rows
    sed '10s/^3/4000000/' rows > lane
    for verb in verify 'simulate -i synth:2x2' 'draw -i synth:2x2'; do
        # shellcheck disable=SC2086
        refuses 2 "lane:10: 4000000 from 0 to 3" paro-sched $verb lane
    done
}

@test "--json is valid and says the same" {
    paro-sched gen all-reduce ho-ring '[3,2]' --json > out
    perl -MJSON::PP -e 'local $/; my $d = decode_json(<>);
        exit !($d->{schema} eq "paro.schedule/1" && @{$d->{groups}} == 2 && @{$d->{rows}} > 10)' out
    paro-sched gen all-gather ring 2x2 | paro-sched verify --json > out
    perl -MJSON::PP -e 'local $/; my $d = decode_json(<>);
        exit !($d->{proven} && $d->{rows} == 12 && $d->{slow_out_fraction} == 0.75)' out
    paro-sched ls --json | perl -MJSON::PP -e 'local $/; my $d = decode_json(<>); exit !(@{$d->{algos}} >= 11 && @{$d->{ops}} == 4)'
}

@test "ls lists what gen takes" {
    for op in $(paro-sched ls | awk '$1 == "op" { print $2 }'); do
        for algo in $(paro-sched ls | awk '$1 == "algo" { print $2 }'); do
            paro-sched gen "$op" "$algo" 2x2 > /dev/null
            echo x >> n
        done
    done
    [ "$(wc -l < n)" -ge 44 ]
}

@test "an operation has one name in several spellings, wherever one is read" {
    for op in all-gather reduce-scatter all-reduce; do
        for spelled in "${op/-/}" "${op/-/_}"; do
            paro-sched gen "$spelled" ring 2x2 | cmp - <(paro-sched gen $op ring 2x2)
            paro-sched pick -i synth:2x2 --op "$spelled" -b 1Ki -e 1Ki |
                cmp - <(paro-sched pick -i synth:2x2 --op $op -b 1Ki -e 1Ki)
            paro-bench --simulate -i synth:2x2 --op "$spelled" -b 1Ki |
                cmp - <(paro-bench --simulate -i synth:2x2 --op $op -b 1Ki)
        done
    done
    paro-sched simulate allreduce ring -i synth:2x2 | cmp - <(paro-sched simulate all-reduce ring -i synth:2x2)
}

@test "bad files: one line with name and line, status 2" {
    : > empty
    paro-sched gen all-gather ring 2x2 > rows
    head -n 12 rows > short
    sed 's/^rows 12/rows 12x/' rows > number
    sed '1s/1$/2/' rows > version
    sed '12s/copy/move/' rows > word
    sed 's/^group 2 3/group 2 2/' rows > twice
    head -c 300 "$BIN/paro-sched" > noise # bytes of a program
    for f in empty:1 short:13 number:9 version:1 word:12 twice:5 noise:; do
        refuses 2 "$f" paro-sched verify "${f%:*}"
    done
}
