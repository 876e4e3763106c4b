# SPDX-License-Identifier: BSD-3-Clause
# paro-sched draw: a picture that any viewer reads, of what simulate says.

load refuses

# bats test_tags=full
@test "every operation, algorithm and shape is a well-formed picture with all its ranks" {
    local n=0 ranks
    for shape in 1x1 1x3 3x1 2x2 '[3,2]' 2x2x2; do
        for op in $(paro-sched ls | awk '$1 == "op" { print $2 }'); do
            for algo in $(paro-sched ls | awk '$1 == "algo" { print $2 }'); do
                paro-sched draw -i "synth:$shape" -b 1Mi "$op" "$algo" > out 2> said || {
                    # not every algorithm knows every operation
                    ! paro-sched gen "$op" "$algo" 2x2 > rows 2>&1 || { cat said; return 1; }
                    continue
                }
                xmllint --noout --nonet out
                if grep -iE '"-?(nan|inf)' out; then return 1; fi
                ranks=$(paro-sched draw --json -i "synth:$shape" -b 1Mi "$op" "$algo" |
                    perl -MJSON::PP -e 'local $/; print decode_json(<>)->{ranks}')
                for ((r = 0; r < ranks; r++)); do
                    grep -qE "font-weight=\"bold\".*>$r</text>" out || { echo "no rank $r"; return 1; }
                done
                n=$((n + 1))
            done
        done
    done
    [ $n -ge 54 ]
}

@test "each message is a bar at both its ends" {
    paro-sched draw -i synth:2x2 all-reduce ho-ring --chunks 2 > out
    paro-sched draw -i synth:2x2 all-reduce ho-ring --chunks 2 --json > json
    perl -MJSON::PP -e 'local $/; my $d = decode_json(<>);
        print scalar @{$d->{messages}}' json > n
    [ "$(cat n)" -gt 10 ]
    [ "$(grep -cE '<title>rank [0-9]+ to ' out)" = "$(cat n)" ]
    [ "$(grep -cE '<title>rank [0-9]+ from ' out)" = "$(cat n)" ]
    grep -q '>inter 0</text>' out
    grep -q '>intra 2</text>' out
    grep -q 'stroke-dasharray' out
    grep -q '>cut bound [0-9.]* .s</text>' out
}

@test "times are simulate's, and so is the bound" {
    for shape in 2x2 '[3,2]' '[4,4,3]'; do
        paro-sched simulate -i "synth:$shape" all-reduce ho-ring -b 8Mi --json > said
        paro-sched draw -i "synth:$shape" all-reduce ho-ring -b 8Mi --json > drawn
        perl -MJSON::PP -e '
            sub get { local (@ARGV, $/) = @_; decode_json(<>) }
            my ($s, $d) = (get("said"), get("drawn"));
            my $end = 0;
            for (@{$d->{messages}}) {
                exit 1 if $_->{end_s} < $_->{start_s} || $_->{start_s} < 0;
                $end = $_->{end_s} if $_->{end_s} > $end;
            }
            # spec and rows may add up in another order: 2^-40 of the time
            exit !(abs($end - $s->{time_s}) < $end * 2**-40 && $end == $d->{time_s}
                && $d->{limit_s} == $s->{limit_s} && $d->{bytes} == $s->{bytes})'
    done
}

@test "a schedule from a file and from standard input is the same picture" {
    paro-sched gen all-gather two-level '[3,2]' > rows
    paro-sched draw -i 'synth:[3,2]' rows > a
    paro-sched draw -i 'synth:[3,2]' < rows > b
    paro-sched draw -i 'synth:[3,2]' all-gather two-level > c
    cmp a b
    cmp a c
    grep -q '<title>all-gather, two-level, \[3,2\], 64.0 MiB: ' a
}

@test "hosts are named, and escaped" {
    paro-topo -i synth:2x4 > fabric.yaml
    sed -i 's/^  - ranks:/  - host: "a<\&b"\n    ranks:/' fabric.yaml
    paro-sched draw -i fabric.yaml all-gather ho-ring > out
    xmllint --noout --nonet out
    grep -q 'a&lt;&amp;b' out
}

@test "some hundred ranks: bars are merged, the text stays small" {
    paro-sched draw -i synth:16x16 -b 64Mi all-gather ring > out
    xmllint --huge --noout --nonet out
    [ "$(wc -c < out)" -lt 8000000 ]
    [ "$(grep -c '<path' out)" -ge 16 ]
    grep -q '>255</text>' out
}

@test "a fabric of other groups is refused" {
    paro-sched gen all-gather ring 2x3 > rows
    refuses 2 "groups 2x2 2x3" paro-sched draw -i synth:2x2 rows
}

@test "the rows of a step, as text and as JSON, are proven and drawn as the planner draws them" {
    local fabric=synth:2x2,inter=1GB/s,flops=1e12,memory=1e9 form
    cp "$ROOT/examples/models/llama-tiny.json" tiny.json
    for strategy in NNN IIG GGG; do
        paro-plan -m tiny.json -i $fabric --strategy $strategy --accum 2 --timeline --svg > wanted
        paro-plan -m tiny.json -i $fabric --strategy $strategy --accum 2 --steps > text
        paro-plan -m tiny.json -i $fabric --strategy $strategy --accum 2 --steps --json > json
        for form in text json; do
            paro-sched verify $form | grep -q "^proven: step $strategy: "
            paro-sched draw -i $fabric < $form | cmp - wanted
            paro-sched verify $form --json | perl -MJSON::PP -e 'local $/; exit !decode_json(<>)->{proven}'
        done
    done
    # a slower fabric takes longer
    paro-sched draw -i synth:2x2,inter=1MB/s,flops=1e12 text --json > slow
    paro-sched draw -i $fabric text --json > fast
    perl -MJSON::PP -e 'sub get { local (@ARGV, $/) = @_; decode_json(<>) }
        exit !(get("slow")->{step_s} > 10 * get("fast")->{step_s})'
}

@test "rows of a step that are wrong, or no rows" {
    local fabric=synth:2x2,flops=1e12 rc=0 kind after
    cp "$ROOT/examples/models/llama-tiny.json" tiny.json
    paro-plan -m tiny.json -i $fabric --strategy GGG --steps > rows 2> said
    # the first gather is of another unit than the first use
    awk '!done && $2 == "gather" { sub(/embed/, "head"); done = 1 } 1' rows > wrong
    paro-sched verify wrong > out || rc=$?
    [ $rc = 1 ]
    [ "$(wc -l < out)" = 1 ]
    grep -qE '^wrong: row [0-9]+ ' out
    refuses 2 "'wrong': row" paro-sched draw -i $fabric wrong
    refuses 2 "2x3 expected 2x2" paro-sched draw -i synth:2x3 rows
    # rows that follow a row of the step before, too: of its middle, of its end
    for kind in backward agree; do
        after=$(awk -v kind=$kind '$3 == kind { at = $1 } END { print at }' rows)
        awk -v after="$after" '$3 == "begin" || $3 == "norm" { $7 = after } 1' rows > late
        [ "$(diff rows late | grep -c '^>')" = 2 ]
        paro-sched verify late
        paro-sched draw -i $fabric late | xmllint --noout -
    done
    refuses 2 "--bytes rows step" paro-sched draw -i $fabric -b 1Ki rows
    refuses 2 "--bytes rows step" paro-sched draw -i $fabric -b 64Mi rows # the default, but given
    sed 5d rows > less
    refuses 2 "less:5: row 2" paro-sched verify less
    sed 's/ backward / forwards /' rows > unknown
    refuses 2 "unknown: row expected" paro-sched verify unknown
    sed '/^format/,$d' rows > bare
    refuses 2 "bare:1: plan" paro-sched verify bare
    sed 's/^  wire: bf16$/  wire: f16/' rows > other
    refuses 2 "other:$(sed -n '/wire: f16/=' other): types.wire f16" paro-sched verify other
    sed '1s/ [0-9]* rows/ 99999999 rows/' rows > many
    refuses 2 "many:1: 99999999 rows" paro-sched verify many
    echo '{"schema":"paro.plan.steps/1","rows":[7]}' > json
    refuses 2 "json:1: 'slots' missing" paro-sched verify json
    echo '{"schema":"paro.plan.steps/1","slots":null,"buckets":1,"rows":[],"plan":""}' > json
    refuses 2 "json:1: 'slots' null" paro-sched verify json
}

@test "--svg[=FILE]: the picture of simulate and of a fabric, which replaces nothing without --force" {
    paro-sched simulate -i synth:2x2 all-gather ring --svg | cmp - <(paro-sched draw -i synth:2x2 all-gather ring)
    paro-topo -i synth:2x2 --svg | cmp - <(paro-topo -i synth:2x2 --format svg)
    paro-bench --simulate -i synth:2x2 --svg | xmllint --noout -
    if horing-check --replay synth:8 --svg --json > out 2> said; then false; fi
    [ ! -s out ]
    horing-check --replay synth:8 --svg | xmllint --noout -
    local fabric='synth:2x2,memory=1e9,flops=1e9' command
    for command in "paro-sched simulate all-gather ring -i $fabric" "paro-sched draw all-gather ring -i $fabric" \
        "paro-topo -i $fabric" "paro-plan -m $ROOT/examples/models/llama-tiny.json -i $fabric --scale 4..8"; do
        rm -f a.svg
        # shellcheck disable=SC2086 # words
        {
            $command --svg=a.svg > out
            [ ! -s out ]
            $command --svg=- | cmp - a.svg
            refuses 2 "'a.svg' exists --force" $command --svg=a.svg
            $command --svg=a.svg --force
        }
        xmllint --noout a.svg
    done
}
