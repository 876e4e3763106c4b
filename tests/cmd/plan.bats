#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC2016 # bats sets stderr; the dollar is for Perl
# paro-plan as a user meets it: answers, exit status, each wrong input with its line.

bats_require_minimum_version 1.5.0

FABRIC=synth:2x2,intra=1GB/s:3us,inter=60MB/s:50us,memory=1e9,flops=50e9
TINY=examples/models/llama-tiny.json

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit
    D=$BATS_TEST_TMPDIR
}

# refuses STATUS TEXT COMMAND...: that status, nothing on stdout, one line that has TEXT.
refuses() {
    local want=$1 text=$2
    shift 2
    run --separate-stderr "$@"
    [ "$status" -eq "$want" ] || { echo "status $status: $stderr"; false; }
    [ -z "$output" ] || { echo "stdout: $output"; false; }
    [ "${#stderr_lines[@]}" -eq 1 ] || { echo "lines: $stderr"; false; }
    [[ $stderr == "paro-plan: "* && $stderr == *"$text"* ]] || { echo "got: $stderr"; false; }
}

json() { # json EXPRESSION: Perl, over the document $d on standard input
    perl -MJSON::PP -0777 -e 'our $d = decode_json(<STDIN>); our @s = @{$d->{strategies} // []};
        print join(" ", eval shift), "\n"; die $@ if $@' "$1"
}

@test "a plan is YAML that names its format, strategy, groups and model" {
    paro-plan -m $TINY -i $FABRIC > "$D/plan.yaml"
    [ "$(head -n 1 "$D/plan.yaml")" = "format: paro-plan/1" ]
    grep -q '^strategy: [NIG][NIG][NIG]$' "$D/plan.yaml"
    grep -q '^    ranks: \[2, 3\]$' "$D/plan.yaml"
    # The config stands there as it was, four spaces in.
    sed -n '/^  config: |$/,$p' "$D/plan.yaml" | sed '1d; s/^    //' | cmp - $TINY
}

@test "the fabric comes from standard input by default, as the pipeline has it" {
    paro-topo -i $FABRIC > "$D/fabric.yaml"
    paro-plan -m $TINY < "$D/fabric.yaml" > "$D/a"
    paro-plan -m - -i $FABRIC < $TINY > "$D/b"
    cmp "$D/a" "$D/b"
}

@test "--list has a row for each of the 27 strategies and marks one" {
    run --separate-stderr paro-plan -m $TINY -i $FABRIC --list
    [ "$status" -eq 0 ]
    [ "$(printf '%s\n' "$output" | grep -c '^[* ][NIG][NIG][NIG] ')" -eq 27 ]
    [ "$(printf '%s\n' "$output" | grep -c '^\*')" -eq 1 ]
    # By time, feasible first: the marked one is never behind a slower one that fits.
    [ "$(printf '%s\n' "$output" | grep '^[* ][NIG]' | awk '{print $11}' | sort -gc && echo yes)" = yes ]
}

@test "--list --json is one document with the promised keys" {
    paro-plan -m $TINY -i $FABRIC --list --json > "$D/list.json"
    [ "$(json '$d->{schema}' < "$D/list.json")" = paro.plan.list/1 ]
    [ "$(json 'scalar @s' < "$D/list.json")" -eq 27 ]
    for key in strategy feasible memory_bytes slow_bytes slow_bytes_per_rank fast_bytes step_s \
        tokens_per_s dominated_by; do
        [ "$(json "scalar grep { exists \$_->{$key} } @s" < "$D/list.json")" -eq 27 ]
    done
    [ "$(json 'scalar grep { my $m = $_->{memory_bytes};
        abs($m->{params} + $m->{grads} + $m->{optimizer} + $m->{activations} + $m->{buffers} -
            $m->{total}) < 1 } @s' < "$D/list.json")" -eq 27 ]
    [ "$(json '$d->{chosen}' < "$D/list.json")" = "$(paro-plan -m $TINY -i $FABRIC | sed -n 's/^strategy: //p')" ]
}

@test "--json without --list is the plan" {
    paro-plan -m $TINY -i $FABRIC --json > "$D/plan.json"
    [ "$(json '$d->{schema}, length $d->{strategy}, @{$d->{groups}[1]{ranks}}' \
        < "$D/plan.json")" = "paro.plan/1 3 2 3" ]
}

@test "--strategy, its aliases and --algo are obeyed" {
    for pair in zero3:GGG ddp:NNN hfsdp:IIG nig:NIG; do
        [ "$(paro-plan -m $TINY -i $FABRIC --strategy "${pair%:*}" | sed -n 's/^strategy: //p')" = "${pair#*:}" ]
    done
    for algo in ring two-level ho-ring; do
        [ "$(paro-plan -m $TINY -i $FABRIC --algo $algo | sed -n 's/^algo: //p')" = $algo ]
    done
}

@test "65 billion parameters on 80 GB: four strategies fit, IIG is the fastest" {
    paro-plan -m params=65.286e9 -i synth:8x8,memory=80e9 --accum 4 --grad-type bf16 --list --json > "$D/l"
    [ "$(json 'sort map { $_->{strategy} } grep { $_->{feasible} } @s' < "$D/l")" = "GGG GIG IGG IIG" ]
    [ "$(json '$d->{chosen}' < "$D/l")" = IIG ]
}

@test "nothing fits: exit 1, one line that says what binds; a list is printed all the same" {
    refuses 1 "no feasible plan: GGG, the smallest, needs 15.2 GiB per rank (11.4 GiB of it optimizer state), has 7.45 GiB" \
        paro-plan -m params=65.286e9 -i synth:8x8 --mem 8GB --grad-type bf16
    refuses 1 "no feasible plan: NNN needs" \
        paro-plan -m params=65.286e9 -i synth:8x8 --mem 80GB --strategy ddp
    run --separate-stderr paro-plan -m params=65.286e9 -i synth:8x8 --mem 8GB --list
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 30 ]
    [[ $stderr == "paro-plan: no feasible plan: "* ]]
    run --separate-stderr paro-plan -m params=65.286e9 -i synth:8x8 --mem 8GB --list --json
    [ "$status" -eq 1 ]
    [ "$(printf '%s' "$output" | json 'defined $d->{chosen} ? "some" : "null"')" = null ]
    [ "$(printf '%s' "$stderr" | json '$d->{error}{code}')" = mismatch ]
}

@test "auto searches the batch within the memory" {
    paro-plan -m $TINY -i $FABRIC --micro-batch auto --accum auto --mem 64Mi --json > "$D/p"
    [ "$(json '$d->{predicted}{memory_bytes}{total} <= 64 << 20 && $d->{micro_batch} * $d->{accum} > 1' < "$D/p")" = 1 ]
    [ "$(paro-plan -m $TINY -i $FABRIC --micro-batch 3 --accum 5 --json | json '$d->{micro_batch}, $d->{accum}')" = "3 5" ]
}

@test "int8 between groups goes into the plan and into the prices" {
    paro-plan -m $TINY -i $FABRIC | grep -A 6 '^types' > "$D/a"
    printf '%s\n' types: '  params: bf16' '  wire: bf16' '  grads: f32' '  compute: f32' \
        '  slow_params: same' '  slow_grads: same' | cmp - "$D/a"
    paro-plan -m $TINY -i $FABRIC --slow-params=int8 --slow-grads=int8 | grep -c '^  slow_.*: int8$' > "$D/b"
    [ "$(cat "$D/b")" = 2 ]
    [ "$(paro-plan -m $TINY -i $FABRIC --slow-grads int8 --json |
        json '$d->{types}{slow_params}, $d->{types}{slow_grads}')" = "same int8" ]
    # Gathers and reductions of GGG at two bytes an element; the gathers alone are two thirds.
    for how in '' --slow-params=int8 --slow-grads=int8 '--slow-params=int8 --slow-grads=int8'; do
        # shellcheck disable=SC2086 # several words, or none
        paro-plan -m params=1e9 -i synth:2x2 --strategy GGG $how --json | json '$d->{predicted}{slow_bytes} / 1e6'
    done > "$D/c"
    printf '%s\n' 3000 2007.8125 2503.90625 1511.71875 | cmp - "$D/c"
    refuses 2 "--slow-params: 'int4', expected same or int8" paro-plan -m $TINY -i $FABRIC --slow-params=int4
    refuses 2 "--slow-grads: 'bf16', expected same or int8" paro-plan -m $TINY -i $FABRIC --slow-grads=bf16
}

@test "buckets, keep and recompute go into the plan, in YAML and in JSON" {
    paro-plan -m $TINY -i $FABRIC | sed -n '/^prefetch/,/^chunk/p' > "$D/a"
    printf '%s\n' 'prefetch: 1' 'buckets: 2' 'keep: 0' 'recompute: no' 'chunk_bytes: 61440' | cmp - "$D/a"
    paro-plan -m $TINY -i $FABRIC --buckets=3 --keep=all --recompute | sed -n '/^buckets/,/^recomp/p' > "$D/b"
    printf '%s\n' 'buckets: 3' 'keep: all' 'recompute: yes' | cmp - "$D/b"
    [ "$(paro-plan -m $TINY -i $FABRIC --keep all --json |
        json '$d->{buckets}, $d->{keep}, $d->{recompute} ? "yes" : "no"')" = "2 all no" ]
    paro-plan -m $TINY -i $FABRIC --keep 3 --recompute --json | grep -q '"keep": 3,$'
    paro-plan -m $TINY -i $FABRIC --recompute --json | grep -q '"recompute": true,$'
}

of() { # of STRATEGY PATH OPTION...: a price of the list
    local s=$1 path=$2
    shift 2
    paro-plan -m $TINY -i $FABRIC --list --json "$@" | json "map { \$_->$path } grep { \$_->{strategy} eq '$s' } @s"
}

@test "what is kept costs memory and saves a gather; what is run again the other way round" {
    # Every parameter once instead of twice: a third of what GGG sends.
    none=$(of GGG '{slow_bytes}') all=$(of GGG '{slow_bytes}' --keep all)
    [ $((all * 3)) -eq $((none * 2)) ]
    [ "$(of NNG '{slow_bytes}' --keep all)" = "$(of NNG '{slow_bytes}')" ]
    for more in "--keep 1" "--keep all" "--buckets 3"; do
        # shellcheck disable=SC2086
        [ "$(of GGG '{memory_bytes}{buffers}' $more | cut -d. -f1)" -gt "$(of GGG '{memory_bytes}{buffers}' | cut -d. -f1)" ]
    done
    [ "$(of GGG '{memory_bytes}{activations}' --recompute)" -lt "$(of GGG '{memory_bytes}{activations}')" ]
    awk -v a="$(of GGG '{compute_s}' --recompute)" -v b="$(of GGG '{compute_s}')" 'BEGIN { exit !(a > b) }'
}

@test "a sequence is 256 tokens, or what is said" {
    [ "$(paro-plan -m $TINY -i $FABRIC | sed -n 's/^seq: //p')" -eq 256 ]
    [ "$(paro-plan -m $TINY -i $FABRIC --seq 100 | sed -n 's/^seq: //p')" -eq 100 ]
    sed 's/"max_position_embeddings": 512/"max_position_embeddings": 64/' $TINY > "$D/short.json"
    [ "$(paro-plan -m "$D/short.json" -i $FABRIC | sed -n 's/^seq: //p')" -eq 64 ]
}

@test "a thousand groups, ragged too, in under a second" {
    for shape in 1000x8 "[$(yes 8,7,5 | head -n 333 | paste -sd,)]"; do
        start=$(date +%s%N)
        paro-plan -m examples/models/llama-10m.json -i "synth:$shape,memory=80e9" > "$D/p"
        took=$((($(date +%s%N) - start) / 1000000))
        echo "$took ms"
        # Sanitizers slow the counting down about tenfold.
        [ $took -lt $((${#SAN} ? 10000 : 1000)) ]
    done
}

@test "wrong options" {
    refuses 2 "no model, expected -m MODEL" paro-plan -i $FABRIC
    refuses 2 "--strategy: 'XYZ', expected three letters N, I or G" paro-plan -m $TINY --strategy XYZ
    refuses 2 "--algo: algorithm 'tree', expected ring, two-level, ho-ring or auto" paro-plan -m $TINY --algo tree
    refuses 2 "--mem: '80Q'" paro-plan -m $TINY --mem 80Q
    refuses 2 "--mem: '0'" paro-plan -m $TINY --mem 0
    refuses 2 "--micro-batch: '0', expected a whole number from 1 to 1048576, or auto" paro-plan -m $TINY --micro-batch 0
    refuses 2 "--accum: 'many', expected" paro-plan -m $TINY --accum many
    refuses 2 "--seq: '-1', expected" paro-plan -m $TINY --seq=-1
    refuses 2 "--seq: 600, expected at most 512" paro-plan -m $TINY -i $FABRIC --seq 600
    refuses 2 "--trainable: '0', expected all, a fraction" paro-plan -m $TINY --trainable 0
    refuses 2 "--trainable: '1.5', expected all, a fraction" paro-plan -m $TINY --trainable 1.5
    refuses 2 "--trainable: 8000000000 parameters, expected at most the 7000000000" \
        paro-plan -m params=7e9 -i $FABRIC --trainable params=8e9
    refuses 2 "--param-type: 'f16', expected bf16 or f32" paro-plan -m $TINY --param-type f16
    refuses 2 "--prefetch: '-1', expected" paro-plan -m $TINY --prefetch=-1
    refuses 2 "--buckets: '0', expected a whole number from 1 to 1024" paro-plan -m $TINY --buckets 0
    refuses 2 "--keep: 'most', expected a whole number from 0 to 1048575, or all" paro-plan -m $TINY --keep most
    refuses 2 "--keep needs a model's config.json: 'params=' has no layers" \
        paro-plan -m params=7e9 -i $FABRIC --keep all
    refuses 2 "--recompute needs a model's config.json" paro-plan -m params=7e9 -i $FABRIC --recompute
    refuses 2 "'extra'" paro-plan -m $TINY extra
    refuses 2 "params=" paro-plan -m params=7e9 -i $FABRIC --micro-batch auto
}

@test "wrong files" {
    refuses 2 "nowhere.json" paro-plan -m nowhere.json -i $FABRIC
    refuses 2 "params=" paro-plan -m params=many -i $FABRIC
    echo '{"model_type": "llama"' > "$D/cut.json"
    refuses 2 "cut.json" paro-plan -m "$D/cut.json" -i $FABRIC
    refuses 2 "nowhere.yaml" paro-plan -m $TINY -i nowhere.yaml
    refuses 2 "synth:" paro-plan -m $TINY -i synth:0x8
    refuses 2 "both the model and the fabric from standard input" paro-plan -m -
    paro-plan -m $TINY -i $FABRIC > "$D/plan.yaml"
    refuses 2 "'format' is 'paro-plan/1'" paro-plan -m $TINY -i "$D/plan.yaml"
    refuses 2 "stdin" paro-plan -m $TINY < /dev/null
}

@test "errors under --json are one object" {
    run --separate-stderr paro-plan -m nowhere.json -i $FABRIC --json
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    [ "$(printf '%s' "$stderr" | json 'sort keys %{$d->{error}}')" = "code file key line text" ]
}

@test "a full disk is exit 2, in every form" {
    for form in "" --list --json "--list --json"; do
        rc=0
        # shellcheck disable=SC2086
        paro-plan -m $TINY -i $FABRIC $form > /dev/full 2> "$D/err" || rc=$?
        [ $rc -eq 2 ]
        grep -q 'cannot write to standard output' "$D/err"
    done
}
