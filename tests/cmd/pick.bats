# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016 # the dollar is for Perl
# paro-sched pick: choices on a fabric, tables made, printed, edited and refused.

load refuses
load expect

FABRIC=synth:4x2,inter=1GB/s:50us,intra=10GB/s:1us

@test "a list, golden: the columns, and a choice that is known" {
    paro-sched pick -i synth:4x2,inter=1GB/s:0,intra=10GB/s:0 --op all-gather -b 64Mi -e 64Mi > out
    expect list < out
    # 3/4 of 64 MiB through a port of 1 GB/s are 50.33 ms; nothing says what a message
    # costs, so the chunk is the largest that loses less than 5 %
    [ "$(tail -n 1 out | awk '{ print $1, $2, $3, $4, $5, $6, $7, $8 }')" = "all-gather 64.0 MiB ho-ring 256 KiB 50.4 ms" ]
}

@test "every operation and size has its row, and again the same" {
    paro-sched pick -i "$FABRIC" -b 256 -e 1Mi -f 16 > one
    paro-sched pick -i "$FABRIC" -b 256 -e 1Mi -f 16 > two
    cmp one two
    [ "$(grep -vc '^[#o]' one)" = 16 ]
    for op in all-gather reduce-scatter all-reduce broadcast; do
        [ "$(grep -c "^$op " one)" = 4 ]
    done
    # the choice is the fastest, times weighed by 1.1 at most
    paro-sched pick -i "$FABRIC" -b 256 -e 1Mi -f 16 --json | perl -MJSON::PP -e 'local $/;
        my $d = decode_json(<>); $d->{schema} eq "paro.sched.pick/1" or die; @{$d->{picks}} == 16 or die;
        $_->{time_s} > 0 && $_->{time_s} <= 1.1 * $_->{runner_up_s} && $_->{algo} ne $_->{runner_up} or die
            for @{$d->{picks}}'
}

@test "a table is printed, read, and printed as it was" {
    paro-sched pick -i "$FABRIC" --table -e 16Mi -f 4 > t.yaml
    [ "$(head -n 3 t.yaml)" = "$(printf 'format: paro-tuning/1\nmembers: [2, 2, 2, 2]\nrules:')" ]
    paro-sched pick --tuning t.yaml --table | cmp - t.yaml
    paro-sched pick --tuning - --table < t.yaml > again
    cmp again t.yaml
    # made anew it is the same, and as JSON it says the same
    paro-sched pick -i "$FABRIC" --table -e 16Mi -f 4 | cmp - t.yaml
    paro-sched pick -i "$FABRIC" --table -e 16Mi -f 4 --json > made
    paro-sched pick --tuning t.yaml --json | cmp - made
    perl -MJSON::PP -e 'local $/; my $d = decode_json(<>); exit !($d->{schema} eq "paro.tuning/1" && @{$d->{rules}} > 4)' made
    # one line a rule, and the moves of a trainer are there
    [ "$(paro-sched pick --tuning t.yaml | wc -l)" = $(($(grep -c 'op:' t.yaml) + 1)) ]
    grep -q 'op: reduce-across+gather-across$' t.yaml
    grep -q 'op: gather-inside$' t.yaml
}

@test "an edited table holds" {
    cat > own.yaml <<'END'
format: paro-tuning/1
members: [3, 2]
rules:
  - op: all-reduce
    from_bytes: 0
    below_bytes: 4096
    algo: tree
    chunk_bytes: whole
  - op: all-reduce
    from_bytes: 4096
    algo: ring
    chunk_bytes: 8192
END
    paro-sched pick --tuning own.yaml --table | cmp - own.yaml
    expect own-table paro-sched pick --tuning own.yaml
}

@test "bad tables: one line with name, line and key" {
    paro-sched pick -i "$FABRIC" --table --op broadcast -e 1Mi > t.yaml
    sed 's/paro-tuning.1/paro-tuning\/2/' t.yaml > version
    sed '0,/from_bytes: 0/s//from_bytes: 1/' t.yaml > gap
    sed '0,/algo: .*/s//algo: auto/' t.yaml > auto
    sed '0,/op: .*/s//op: gather/' t.yaml > op
    head -c 100 t.yaml > short
    echo 'colour: red' | cat t.yaml - > key
    cat t.yaml <(echo ---) t.yaml > two
    head -c 300 "$BIN/paro-sched" > noise # bytes of a program
    : > empty
    for words in "version:1: 'format' paro-tuning/2 expected paro-tuning/1" \
        "gap:5: 'rules[0].from_bytes' 1 expected 0" \
        "auto:$(grep -n 'algo: auto' auto | cut -d: -f1): 'rules[0].algo' 'auto' expected ls" \
        op: short: key: two: noise empty; do
        refuses 2 "$words" paro-sched pick --tuning "${words%%:*}"
        [[ $refusal == "paro-sched: ${words%% *}"* ]]
        ends 2 paro-sched pick --tuning "${words%%:*}" --json > out 2> said
        [ ! -s out ]
        perl -MJSON::PP -e 'local $/; exit !decode_json(<>)->{error}{text}' said
    done
}
