# SPDX-License-Identifier: BSD-3-Clause
# paro-plan as a user meets it: answers, exit status, each wrong input with its line.
# shellcheck disable=SC2016,SC2086

load refuses
load expect

FABRIC=synth:2x2,intra=1GB/s:3us,inter=60MB/s:50us,memory=1e9,flops=50e9
TINY=examples/models/llama-tiny.json

setup() {
    cd "$ROOT" || exit
    D=$BATS_TEST_TMPDIR
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
    [ "$(paro-plan -m $TINY -i $FABRIC --json | json '$d->{schema}, @{$d->{groups}[1]{ranks}}')" = "paro.plan/1 2 3" ]
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
    run -0 --separate-stderr paro-plan -m $TINY -i $FABRIC --list
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
        tokens_per_s guideline_s indicator kept dominated_by; do
        [ "$(json "scalar grep { exists \$_->{$key} } @s" < "$D/list.json")" -eq 27 ]
    done
    [ "$(json 'scalar grep { my $m = $_->{memory_bytes};
        abs($m->{params} + $m->{grads} + $m->{optimizer} + $m->{activations} + $m->{buffers} -
            $m->{total}) < 1 } @s' < "$D/list.json")" -eq 27 ]
    [ "$(json '$d->{chosen}' < "$D/list.json")" = "$(paro-plan -m $TINY -i $FABRIC | sed -n 's/^strategy: //p')" ]
}

@test "the check values of the paper's guideline are what --list prints" {
    paro-plan -m params=30e6 -i synth:2x2,intra=1GB/s:0us,inter=300MB/s:0us --accum 3 --algo ho-ring \
        --list --json 2> "$D/err" > "$D/list.json"
    json 'map { sprintf "%s %.0f ms\n", $_->{strategy}, 1000 * $_->{guideline_s} } @s' < "$D/list.json" |
        sed 's/^ //' > "$D/listed"
    sed -n '/^Check values: 2x2, Psi/,/^\.Ed/s/^  \([NIG]\{3\}\) .* = *\([0-9]* ms\)$/\1 \2/p' \
        man/paro-method.7 > "$D/page"
    [ "$(wc -l < "$D/page")" = 3 ]
    [ "$(grep -cxFf "$D/page" "$D/listed")" = 3 ]
    [ "$(json 'scalar grep { $_->{kept} } @s' < "$D/list.json")" = 14 ]
    # The indicator is its logarithm; without communication and computing there is none.
    [ "$(json 'scalar grep { abs($_->{indicator} + log $_->{guideline_s}) < 1e-9 } @s' < "$D/list.json")" = 27 ]
    paro-plan -m params=30e6 -i synth:1x1 --list --json 2> "$D/err" > "$D/list.json"
    [ "$(json 'scalar grep { !defined $_->{indicator} } @s' < "$D/list.json")" = 27 ]
}

@test "the tables of bytes in the man pages are what --list prints" {
    for s in 1 4; do
        paro-plan -m params=7e9 -i synth:4x8 --accum $s --list --json |
            json 'map { my $m = $_->{memory_bytes}; "$_->{strategy} " . join(" ", map { 1 * sprintf "%.4f", $_ / 1e9 }
                @$m{qw(params grads optimizer total)}, @$_{qw(fast_bytes slow_bytes_per_rank slow_bytes)}) . "\n" } @s' |
            sed 's/^ //' > "$D/$s"
    done
    # paro-method(7), TRAFFIC: GB of a rank; paro(7): GiB of a rank, GB of a port with s = 1 and 4.
    sed -n '/^  strategy  params/,/^\.Ed/p' man/paro-method.7 | grep -E '^  [NIG]{3} ' | tr -s ' ' |
        sed 's/^ //' | sort > "$D/method"
    [ "$(wc -l < "$D/method")" = 9 ]
    [ -z "$(cut -d' ' -f1-7 "$D/4" | sort | comm -13 - "$D/method")" ]
    sed -n '/GiB per rank/,/^\.Ed/p' man/paro.7 | grep -E '^  [NIG]{3} ' | tr -s ' ' | sed 's/^ //' | sort > "$D/tutorial"
    [ "$(wc -l < "$D/tutorial")" = 8 ]
    [ -z "$(join <(sort "$D/1") <(sort "$D/4") |
        awk '{ printf "%s %.1f %.1f %.1f\n", $1, $5 * 1e9 / 2 ^ 30, $8, $15 }' | comm -13 - "$D/tutorial")" ]
}

@test "--strategy, its aliases and --algo are obeyed" {
    for pair in zero3:GGG ddp:NNN hfsdp:IIG nig:NIG; do
        [ "$(paro-plan -m $TINY -i $FABRIC --strategy "${pair%:*}" | sed -n 's/^strategy: //p')" = "${pair#*:}" ]
    done
    for algo in ring two-level ho-ring; do
        [ "$(paro-plan -m $TINY -i $FABRIC --algo $algo | sed -n 's/^algo: //p')" = $algo ]
    done
}

@test "nothing fits: a list is printed all the same" {
    run -1 --separate-stderr paro-plan -m params=65.286e9 -i synth:8x8 --mem 8GB --list
    [ "${#lines[@]}" -eq 31 ]
    [[ $stderr == "paro-plan: no feasible plan: "* ]]
    run -1 --separate-stderr paro-plan -m params=65.286e9 -i synth:8x8 --mem 8GB --list --json
    [ "$(printf '%s' "$output" | json 'defined $d->{chosen} ? "some" : "null"')" = null ]
    [ "$(printf '%s' "$stderr" | json '$d->{error}{code}')" = mismatch ]
}

@test "--why: the margin of the best, and what binds each of the others" {
    expect why paro-plan -m params=65.286e9 -i synth:8x8 --mem 80e9 --accum 4 --grad-type bf16 --why
    paro-plan -m params=65.286e9 -i synth:8x8 --mem 80e9 --accum 4 --grad-type bf16 --why --json > "$D/w"
    [ "$(json '$d->{schema}, $d->{chosen}, $d->{second}' < "$D/w")" = "paro.plan.why/1 IIG IGG" ]
    [ "$(json 'scalar grep { ($_->{binding} // "") eq "memory" && $_->{over_bytes} > 0 && !$_->{feasible} } @s' < "$D/w")" -eq 23 ]
    [ "$(json 'map { $_->{binding} // () } grep { !defined $_->{feasible} } @s' < "$D/w")" = "slow slow slow" ]
    # Another one was asked for: it is behind, and the better ones say so.
    # As much of it as the best has, and yet slower.
    paro-plan -m params=7e9 -i synth:8x8,intra=300GB/s:3us,inter=25GB/s:10us,memory=80GB,flops=200T,device=cuda \
        --accum 2 --seq 4096 --why > "$D/w"
    grep -q '^ NIG .*%  the same computing, but more is sent before or after it: ' "$D/w"
    paro-plan -m params=65.286e9 -i synth:8x8 --mem 80e9 --accum 4 --grad-type bf16 --strategy GGG --why > "$D/w"
    grep -q '^\*GGG .* behind IIG, the best$' "$D/w"
    grep -q '^ IIG .* better, but not requested$' "$D/w"
    run -1 --separate-stderr paro-plan -m params=65.286e9 -i synth:8x8 --mem 8GB --why
    [ "$(printf '%s\n' "$output" | grep -c 'memory: needs .*, limit 7.45 GiB')" -eq 27 ]
    run --separate-stderr paro-plan -m params=65.286e9 -i synth:8x8 --mem 8GB --why --json
    [ "$(printf '%s' "$output" | json 'grep { defined } $d->{chosen}, $d->{second}, $d->{margin}, map { $_->{behind_s} } @s')" = "" ]
}

@test "--what-if: where another would win, and where nothing changes" {
    paro-plan -m params=65.286e9 -i synth:8x8 --mem 80e9 --accum 4 --grad-type bf16 --what-if > "$D/w"
    expect what-if < "$D/w"
    # What it says is what is planned there.
    rate=$(sed -n 's/^faster tier  *IGG from \([0-9]*\)[.0-9]* GB.s up$/\1/p' "$D/w")
    for at in $((rate + 1)):IGG $((rate - 1)):IIG; do
        [ "$(paro-plan -m params=65.286e9 -i "synth:8x8,inter=${at%:*}GB/s:12us" --mem 80e9 --accum 4 \
            --grad-type bf16 | sed -n 's/^strategy: //p')" = "${at#*:}" ]
    done
    paro-plan -m params=65.286e9 -i synth:8x8 --accum 4 --what-if --json > "$D/w"
    [ "$(json '$d->{schema}, map { "$_->{what} $_->{direction}" } grep { !$_->{searched} } @{$d->{changes}}' < "$D/w")" = \
        "paro.plan.what-if/1 memory_bytes more" ]
    run -1 --separate-stderr paro-plan -m params=65.286e9 -i synth:8x8,memory=8e9 --grad-type bf16 --what-if
    [[ $output == *"more memory        GGG from 15.2 GiB up"* ]]
    # Fewer micro-batches together are tried anew: they need less memory.
    local layered=(-m examples/models/llama-10m.json -i 'synth:2x1,inter=200mbit,flops=3e10' --seq 256 --accum 4 --layered auto)
    paro-plan "${layered[@]}" --mem 1G --what-if --json > "$D/w"
    read -r at winner < <(json 'map { "$_->{value} $_->{winner}" } grep { "$_->{what} $_->{direction}" eq "memory_bytes less" } @{$d->{changes}}' < "$D/w")
    [ "$(paro-plan "${layered[@]}" --mem "$at" | sed -n 's/^strategy: //p')" = "$winner" ]
}

# steps FIELD=FACTOR...: lines of a log as the plan $D/plan.yaml predicts, but so many times as much.
steps() {
    local n=$1 from=$2
    shift 2
    perl -e 'my ($plan, $n, $from, %times) = @ARGV;
        local $/; open my $f, "<", $plan; my $p = <$f>;
        my $of = sub { $p =~ /^ +$_[0]: (\d\S*)$/m or die; $1 };
        my %v = map { $_ => $of->($_) } qw(step_s compute_s tokens_per_s slow_bytes fast_bytes);
        $v{exposed_comm_s} = $v{step_s} - $v{compute_s};
        $v{state_bytes} = $of->("params") + $of->("grads") + $of->("optimizer");
        for my $i ($from .. $from + $n - 1) {
            print qq({"step":$i), (map { sprintf qq(,"%s":%.9g), $_, $v{$_} * ($times{$_} // 1) } sort keys %v),
                qq(,"skipped":), $times{skipped} ? "true" : "false", "}\n" }' "$D/plan.yaml" "$n" "$from" "$@"
}

@test "--check: predicted beside measured, medians without the first step" {
    paro-plan -m $TINY -i $FABRIC --strategy IIG > "$D/plan.yaml"
    { steps 1 1 slow_bytes 9 step_s 50; steps 1 2 step_s 3; steps 2 3 step_s 2; steps 1 5 step_s 1
      steps 9 6 skipped 1 slow_bytes 0; printf '{"step":15,"step_s":'; } > "$D/log.jsonl"
    paro-plan --check "$D/log.jsonl" "$D/plan.yaml" > "$D/c"
    [ "$(head -n 1 "$D/c")" = "plan $D/plan.yaml (IIG) against run $D/log.jsonl (medians of 4 steps after the first)" ]
    grep -qE '^step .* 200\.0%$' "$D/c"
    grep -qE '^slow bytes .* 100\.0%$' "$D/c"
    for log in . log.jsonl; do
        (cd "$D" && paro-plan --check $log) > "$D/again"
        [ "$(head -n 1 "$D/again")" = "plan (IIG) against run $log (medians of 4 steps after the first)" ]
        sed 1d "$D/c" | cmp - <(sed 1d "$D/again")
    done
    # A run has been made with one plan, and is compared with another.
    paro-plan -m $TINY -i $FABRIC --strategy NGN > "$D/other.yaml"
    paro-plan --check "$D" "$D/other.yaml" > "$D/o" 2> "$D/e" || true
    [ "$(sed -n 2p "$D/o")" = "the run was made with another plan (IIG)" ]
    [ "$(paro-plan --check "$D" "$D/other.yaml" --json 2> "$D/e" | json '"$d->{strategy} $d->{run_strategy} " . ($d->{other_plan} ? 1 : 0)')" = "NGN IIG 1" ]
    paro-plan --check "$D" --json > "$D/j"
    [ "$(json '$d->{schema}, $d->{steps}, map { sprintf "%.3f", $_->{ratio} } grep { $_->{term} eq "step_s" } @{$d->{terms}}' < "$D/j")" = "paro.plan.check/1 4 2.000" ]
}

@test "--check: a step that computing fills has no exposed time, and not less" {
    paro-plan -m $TINY -i $FABRIC --strategy NNN | sed 's/^  step_s: .*/  step_s: 1/
        s/^  compute_s: .*/  compute_s: 1.0000000000000002/' > "$D/plan.yaml"
    steps 3 1 | sed 's/"exposed_comm_s":[^,]*/"exposed_comm_s":0/' > "$D/log.jsonl"
    paro-plan --check "$D" > "$D/c"
    grep -qE '^exposed  +0 ns ' "$D/c"
}

@test "device and type of products are stated, and a processor with the rate of a GPU is doubted" {
    paro-plan -m $TINY -i synth:2x2,memory=80GB,flops=200T --list > "$D/l" 2> "$D/e"
    head -n 1 "$D/l" | grep -q ' per rank on cpu, products in f32, '
    grep -q '^paro-plan: doubt: a cpu of 200 TFLOP/s in f32, expected --device cuda' "$D/e"
    paro-plan -m $TINY -i synth:2x2,memory=80GB,flops=200T,device=cuda,compute_type=bf16 --list > "$D/l" 2> "$D/e"
    head -n 1 "$D/l" | grep -q ' per rank on cuda, products in bf16, '
    run ! grep doubt "$D/e"
    paro-plan -m $TINY -i synth:2x2,memory=80GB,flops=10T --list > "$D/l" 2> "$D/e"
    run ! grep doubt "$D/e"
}

@test "--check: the pause of saves, where failures are priced" {
    for mtbf in "" "--mtbf 1"; do
        paro-plan -m $TINY -i $FABRIC --strategy IIG $mtbf > "$D/plan.yaml"
        pause=$(sed -n 's/^    pause_s: //p' "$D/plan.yaml")
        { steps 1 1; steps 4 2; } | awk -v p="${pause:-1}" '{ times = NR == 5 ? 9 : NR == 4 ? 0 : 3 }
            times { sub(/}$/, ",\"save_s\":" p * times "}") } 1' > "$D/log.jsonl"
        paro-plan --check "$D" > "$D/c"
        [ -n "$mtbf" ] || ! grep 'save pause' "$D/c" || false
    done
    grep -q '^save pause .* 300.0%$' "$D/c"
    [ "$(paro-plan --check "$D" --json | json 'map { sprintf "%.3f", $_->{ratio} } grep { $_->{term} eq "save_s" } @{$d->{terms}}')" = 3.000 ]
}

@test "--check: bytes that differ by more than 1 % are exit 1, times never are" {
    paro-plan -m $TINY -i $FABRIC --strategy IIG > "$D/plan.yaml"
    for bytes in slow_bytes fast_bytes state_bytes; do
        for by in 0.98 1.02; do
            { steps 1 1; steps 3 2 $bytes $by; } > "$D/log.jsonl"
            run -1 --separate-stderr paro-plan --check "$D"
            [[ $output == *"differs"* && $stderr == "paro-plan: ${bytes/_/ }: "*" measured, "*" predicted" ]]
        done
        { steps 1 1; steps 3 2 $bytes 1.009 step_s 7; } > "$D/log.jsonl"
        paro-plan --check "$D" > "$D/c"
    done
}

# bats test_tags=full
@test "--check: a run is what its plan says, of equal and of ragged groups" {
    cat /usr/share/common-licenses/* > "$D/text" || true
    for shape in 2x2:IIG '[2,1]:NIG' '[2,1]:IGG'; do
        paro-plan -m $TINY -i "synth:${shape%:*},flops=50e9" --strategy "${shape#*:}" --accum 2 > "$D/p"
        ranks=$(sed -n '/^groups:/,/^model:/p' "$D/p" | grep -o 'ranks: .*' | tr -cd '0-9\n' | tr -d '\n' | wc -c)
        timeout 100 mpirun -np "$ranks" --oversubscribe paro-train "$D/p" -d "$D/text" -o "$D/run" --force --steps 3 > "$D/o"
        paro-plan --check "$D/run" > "$D/c"
        grep -qE '^slow bytes .* 100\.0%$' "$D/c"
        grep -qE '^state bytes .* 100\.0%$' "$D/c"
    done
}

@test "--check: wrong logs and plans" {
    paro-plan -m $TINY -i $FABRIC > "$D/plan.yaml"
    log() { cat > "$D/log.jsonl"; refuses 2 "$1" paro-plan --check "$D"; }
    refuses 2 "nowhere.jsonl No such" paro-plan --check "$D/nowhere.jsonl" "$D/plan.yaml"
    refuses 2 "'format' 'paro-plan/1'" paro-plan -m $TINY -i "$D/plan.yaml"
    log "log.jsonl no step" < <(steps 1 1)
    log "log.jsonl no step" < /dev/null
    log "log.jsonl:3: JSON" < <(steps 2 1; echo '{"step":3,')
    log "log.jsonl:3: object" < <(steps 2 1; echo '[3]')
    log "log.jsonl:3: 'compute_s' number" < <(steps 2 1; echo '{"step_s":1}')
    log "log.jsonl:3: 'step_s' number 0" < <(steps 2 1; steps 1 3 step_s -1)
    log "log.jsonl:3: 'step' 2 step 2 expected later" < <(steps 2 1; steps 1 2)
    log "log.jsonl:3: 'step' whole number 1" < <(steps 2 1; steps 1 3 | sed 's/"step":3/"step":3.5/')
    log "log.jsonl:3: 65536 bytes" < <(steps 2 1; head -c 70000 /dev/zero | tr '\0' ' '; echo)
    steps 3 1 > "$D/log.jsonl"
    refuses 2 "'format' expected" paro-plan --check "$D" "$D/log.jsonl"
    rm "$D/plan.yaml"
    refuses 2 "plan.yaml No such" paro-plan --check "$D"
    paro-plan -m params=7e9 -i $FABRIC --mem 1e15 > "$D/plan.yaml"
    refuses 2 "plan.yaml number of parameters" paro-plan --check "$D"
}

@test "--timeline: pieces in order, lanes that never do two things at once, and the planned step" {
    for s in NNN IIG GGG; do
        paro-plan -m $TINY -i $FABRIC --accum 6 --strategy $s --timeline --json > "$D/t"
        [ "$(json '$d->{schema}, $d->{strategy}, $d->{micro_steps_left_out}' < "$D/t")" = "paro.plan.timeline/1 $s 2" ]
        [ "$(json 'sprintf "%.9g", $d->{step_s}' < "$D/t")" = \
            "$(paro-plan -m $TINY -i $FABRIC --accum 6 --strategy $s --json | json 'sprintf "%.9g", $d->{predicted}{step_s}')" ]
        [ "$(json 'my (%end, $bad); for (sort { $a->{start_s} <=> $b->{start_s} } @{$d->{pieces}}) {
            $bad++ if $_->{start_s} < ($end{$_->{lane}} // 0) - 1e-12 || $_->{end_s} <= $_->{start_s};
            $end{$_->{lane}} = $_->{end_s} } $bad // 0' < "$D/t")" = 0 ]
    done
    # Two units ahead are gathered before they are used: the first gather ends before its forward.
    [ "$(json 'my ($g) = grep { $_->{lane} eq "gathers" && $_->{unit} eq "embed" } @{$d->{pieces}};
        my ($f) = grep { $_->{what} eq "forward" && $_->{unit} eq "layers.0" } @{$d->{pieces}};
        $g->{end_s} <= $f->{start_s} ? 1 : 0' < "$D/t")" = 1 ]
    [ "$(paro-plan -m $TINY -i $FABRIC --accum 6 --strategy GGG --timeline | wc -l)" -eq \
        $(($(json 'scalar @{$d->{pieces}}' < "$D/t") + 3)) ]
    paro-plan -m $TINY -i $FABRIC --strategy GGG --timeline --svg > "$D/t.svg"
    xmllint --noout "$D/t.svg"
    grep -q "GGG: predicted step" "$D/t.svg"
}

@test "--emit: each target's text is well-formed and says what runs" {
    for s in NNN NNG NGG GGG III NII GNG IIG ING; do
        paro-plan -m $TINY -i $FABRIC --accum 4 --strategy $s --emit deepspeed > "$D/ds"
        [ "$(json '$d->{gradient_accumulation_steps}, $d->{train_batch_size}, scalar grep { /paro-plan/ } @{$d->{_comment}}' < "$D/ds")" = "4 16 1" ]
        paro-plan -m $TINY -i $FABRIC --accum 4 --strategy $s --emit fsdp > "$D/f.py"
        ! command -v python3 > /dev/null || python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$D/f.py"
        paro-plan -m $TINY -i $FABRIC --accum 4 --strategy $s --emit megatron > "$D/m"
        ! grep -vE '^(# .*|--[a-z0-9-]+( [a-z0-9_]+)?)$' "$D/m" || false
        grep -qx -- '--global-batch-size 16' "$D/m"
    done
    [ "$(paro-plan -m $TINY -i $FABRIC --strategy IIG --emit deepspeed --json | json '$d->{schema}, $d->{planned}, $d->{runs}')" = \
        "paro.plan.emit/1 IIG III" ]
    [ "$(paro-plan -m $TINY -i $FABRIC --strategy IIG --emit deepspeed --json | json '$d->{text}')" = \
        "$(paro-plan -m $TINY -i $FABRIC --strategy IIG --emit deepspeed)" ]
}

# tests/reference/megatron_flags.py lists what Megatron-LM itself accepts.
@test "--emit megatron: Megatron-LM has each flag, and the flag that value" {
    for s in {N,I,G}{N,I,G}{N,I,G}; do
        for type in f32 bf16; do
            paro-plan -m $TINY -i $FABRIC --recompute --strategy "$s" --grad-type $type --emit megatron
        done
    done | grep '^--' | sort -u > "$D/m"
    awk 'NR == FNR { for (i = 2; i <= NF; i++) has[$1, $i] = 1; choices[$1] = NF; next }
        !($1 in choices) || (choices[$1] > 1 && !(($1, $2) in has)) { print "unknown: " $0; bad = 1 }
        END { exit bad }' "$ROOT/tests/data/megatron_flags.txt" "$D/m"
    [ "$(wc -l < "$D/m")" -gt 20 ]
}

@test "--emit: what the targets cannot express is said" {
    for pair in deepspeed:keep fsdp:kept megatron:kept; do
        paro-plan -m $TINY -i $FABRIC --strategy GGG --keep 2 --emit "${pair%:*}" | grep -q "not expressed:.*kept"
    done
    for batch in 9 "12 --micro-batch 2"; do
        paro-plan -m $TINY -i $FABRIC --global-batch $batch --emit megatron 2> "$D/e" |
            grep -q "not expressed: a global batch of ${batch% --*} "
    done
    paro-plan -m $TINY -i $FABRIC --strategy GGG --keep all --emit fsdp | grep -q reshard_after_forward=False
    paro-plan -m $TINY -i $FABRIC --trainable 0.1 --emit megatron | grep -q "not expressed: which parameters are frozen"
    paro-plan -m $TINY -i $FABRIC --slow-grads int8 --emit megatron | grep -q "not expressed: slow_params same, slow_grads int8"
    paro-plan -m $TINY -i $FABRIC --recompute --emit megatron | grep -qx -- "--recompute-granularity full"
    paro-plan -m params=65.286e9 -i synth:8x8,memory=20e9 --grad-type bf16 --accum 4 --strategy GGG --emit deepspeed > "$D/e"
}

@test "--scale: a row for each size, the fabric's own among them" {
    local scale="-m $TINY -i $FABRIC --accum 2 --scale"
    paro-plan $scale 2..16 > "$D/s"
    [ "$(head -n 1 "$D/s" | cut -d, -f1)" = "predicted tokens/s of 792 k parameters" ]
    [ "$(awk 'NR > 2 { print $1, $2 }' "$D/s" | paste -sd,)" = "2 1,4 2,8 4,16 8" ]
    [ "$(sed 1,2d "$D/s" | grep -c '\*')" -eq 4 ]
    paro-plan $scale 2..16 --json > "$D/s"
    [ "$(json '$d->{schema}, $d->{predicted}, scalar @{$d->{points}}, scalar @{$d->{points}[0]{strategies}}' < "$D/s")" = "paro.plan.scale/1 1 4 27" ]
    [ "$(json 'map { "$_->{strategy} $_->{step_s}" } @{$d->{points}[1]{strategies}}' < "$D/s")" = \
        "$(paro-plan -m $TINY -i $FABRIC --accum 2 --list --json | json 'map { "$_->{strategy} $_->{step_s}" } @s')" ]
    paro-plan $scale 2..16 --svg > "$D/s.svg"
    grep -q '</svg>' "$D/s.svg"
    grep -q 'predicted, not measured' "$D/s.svg"
    grep -q 'NNG, 16 ranks: .* tokens/s' "$D/s.svg"
    ! command -v xmllint > /dev/null || xmllint --noout "$D/s.svg"
}

@test "--scale: the sizes asked for, with a smaller last group" {
    paro-plan -m $TINY -i "$FABRIC" --scale 3..7 | awk 'NR > 2 { print $1, $2 }' |
        diff - <(printf '%s\n' '3 2' '6 3' '7 4')
    paro-plan -m $TINY -i "$FABRIC" --scale 4..4 | awk 'NR > 2 { print $1, $2 }' | diff - <(echo 4 2)
    # Three ranks in groups of 2 and 1 are priced as that fabric is.
    one=$(paro-plan -m $TINY -i "$FABRIC" --scale 3..3 --json | json 'map { $_->{step_s} } @{$d->{points}[0]{strategies}}')
    [ "$one" = "$(paro-plan -m $TINY -i "${FABRIC/2x2/[2,1]}" --list --json | json 'map { $_->{step_s} } @s')" ]
}

@test "--scale: nothing fits at any size; errors under --json are one object" {
    run -1 --separate-stderr paro-plan -m $TINY -i $FABRIC --scale 2..8 --mem 1Mi
    has_words "$stderr" "no feasible plan more groups --recompute"
    [ ${#lines[@]} -eq 5 ]
    run -2 --separate-stderr paro-plan -m $TINY -i $FABRIC --scale 4..8 --svg --json
    [ -z "$output" ]
    [[ $(printf '%s' "$stderr" | json '$d->{error}{text}') == *--svg*--json* ]]
    run -2 --separate-stderr paro-plan -m nowhere.json -i $FABRIC --json
    [ -z "$output" ]
    [ "$(printf '%s' "$stderr" | json 'sort keys %{$d->{error}}')" = "code file key line text" ]
    for form in "" --list --why --what-if "--emit fsdp" "--scale 4..8"; do
        ends 2 paro-plan -m $TINY -i $FABRIC $form --json > /dev/full 2> "$D/err"
        [ "$(json '$d->{error}{code}' < "$D/err")" = system ]
    done
}

@test "--global-batch: its ranks' parts, in sequences or tokens, with one factor given or none" {
    batch() { # OPTIONS...: the global batch of the plan, its factors
        paro-plan -m $TINY -i "$FABRIC" --json "$@" 2> "$D/e" |
            json '4 * $d->{micro_batch} * $d->{accum}, $d->{micro_batch}, $d->{accum}'
    }
    [[ $(batch --global-batch 512) == "512 "* ]]
    run ! grep -q batch "$D/e"
    [[ $(batch --global-batch 128Ktokens --seq 250) == "512 "* ]]
    run ! grep -q batch "$D/e"
    [ "$(batch --global-batch 512 --micro-batch 16)" = "512 16 8" ]
    [ "$(batch --global-batch 512 --accum 16)" = "512 8 16" ]
    [ "$(batch --global-batch 4)" = "4 1 1" ]
    [ ! -s "$D/e" ]
    [ "$(batch --global-batch 33 --micro-batch 3)" = "36 3 3" ]
    has_words "$(cat "$D/e")" '11 micro-batches 3 have 3'
    [[ $(batch --global-batch 46) == "48 "* && $(batch --global-batch 45) == "48 "* ]]
    # What a plan says of it is what is predicted, and read back.
    paro-plan -m $TINY -i $FABRIC --global-batch 45 2> "$D/e" > "$D/p"
    grep -qx 'global_batch: 45' "$D/p"
    [ "$(json '$d->{global_batch} * 256 / $d->{predicted}{step_s} / $d->{predicted}{tokens_per_s}' \
        < <(paro-plan -m $TINY -i $FABRIC --global-batch 45 --json 2> "$D/e"))" = 1 ]
    paro-plan --compare "$D/p" <(paro-plan -m $TINY -i $FABRIC --global-batch 48 2> "$D/e") > "$D/c"
    grep -q 'global_batch *45 *48' "$D/c"
    [ "$(batch --global-batch 4K --accum auto --micro-batch auto)" = "$(batch --global-batch 4K)" ]
    # No pair of factors is faster.
    paro-plan -m $TINY -i $FABRIC --global-batch 48 --mem 64Mi --json | json '$d->{predicted}{step_s}' > "$D/s"
    for b in 1 2 3 4 6 12; do
        paro-plan -m $TINY -i $FABRIC --global-batch 48 --micro-batch $b --mem 64Mi --json 2> "$D/e" > "$D/p" || continue
        json '$d->{predicted}{step_s}' < "$D/p" >> "$D/s"
    done
    [ "$(head -n 1 "$D/s")" = "$(sort -g "$D/s" | head -n 1)" ]
    # Strong scaling: the step's tokens stay.
    paro-plan -m $TINY -i $FABRIC --global-batch 64 --scale 2..8 --json > "$D/p"
    [ "$(json 'map { $_->{ranks} * $_->{micro_batch} * $_->{accum} } @{$d->{points}}' < "$D/p")" = "64 64 64" ]
    refuses 2 'global batch 64 128 ranks' paro-plan -m $TINY -i $FABRIC --global-batch 64 --scale 2..128
}

@test "ranks of unequal rates: micro-batches by the rates, the same global batch" {
    local slow=synth:4x1,inter=1gbit,flops=1e10,flops1=5e9,memory=1e9 tiny=(-m "$TINY" --seq 64)
    counts() { sed -n 's/^micro_batches: //p' "$D/p"; }
    paro-plan "${tiny[@]}" -i $slow --accum 7 2> "$D/e" > "$D/p"
    [ "$(counts)" = '[8, 4, 8, 8]' ]
    grep -qx 'global_batch: 28' "$D/p"
    grep -qx 'accum: 8' "$D/p"
    has_words "$(cat "$D/e")" '28 micro-batches rates step equal numbers'
    paro-plan "${tiny[@]}" -i $slow --accum 7 --json 2> "$D/e" | json '"@{$d->{micro_batches}}"' | grep -qx '8 4 8 8'
    paro-plan --compare "$D/p" <(paro-plan "${tiny[@]}" -i ${slow/flops1=5e9,/} --accum 7) > "$D/c"
    grep -q '^accum *8 *7$' "$D/c"
    paro-plan "${tiny[@]}" -i $slow --global-batch 56 --micro-batch 2 2> "$D/e" > "$D/p"
    [ "$(counts)" = '[8, 4, 8, 8]' ]
    # A slower rank gets none; rates that are nearly equal change nothing.
    paro-plan "${tiny[@]}" -i ${slow/5e9/1e9} --accum 1 2> "$D/e" > "$D/p"
    [ "$(counts)" = '[2, 0, 1, 1]' ]
    paro-plan "${tiny[@]}" -i ${slow/5e9/96e8} --accum 7 2> "$D/e" > "$D/p"
    [ -z "$(counts)" ]
    [ ! -s "$D/e" ]
    # The price: ranks end together; where parameters are gathered in each micro-step the slow rank holds up four
    # of eight, unless these have two micro-batches.
    compute() { paro-plan "${tiny[@]}" --accum 7 --json "$@" 2> "$D/e" | json '$d->{predicted}{compute_s}'; }
    ratio() { awk -v a="$1" -v b="$2" 'BEGIN { r = '"$3"'; exit !(a / b > r - 0.02 && a / b < r + 0.02) }'; }
    even=$(compute -i ${slow/flops1=5e9,/} --strategy NNN)
    ratio "$(compute -i $slow --strategy NNN)" "$even" "8 / 7"
    ratio "$(compute -i $slow --strategy GNN)" "$even" "12 / 7"
    ratio "$(compute -i $slow --strategy GNN --layered 2)" "$even" "8 / 7"
}

@test "--headroom: the limit is what remains of the fabric's memory" {
    limit() {
        paro-plan -m $TINY -i synth:2x2,memory=1e9,flops=1e12 --list --json "$@" | json '$d->{memory_limit_bytes}'
    }
    [ "$(limit) $(limit --headroom 0) $(limit --headroom 25%) $(limit --mem 1e9)" = "900000000 1000000000 750000000 1000000000" ]
    paro-plan -m $TINY -i synth:2x2,memory=1e9,flops=1e12 --why | grep -q 'memory 858 MiB of 954 MiB per rank'
}

@test "--steps: rows that name earlier ones, a use for each visit, the micro-step and direction" {
    paro-plan -m $TINY -i "$FABRIC" --strategy IIG --accum 2 --steps > "$D/s"
    sed '/^$/,$d' "$D/s" > "$D/rows"
    awk -v uses=0 'NR == 1 { rows = $2 } NR > 2 { n++
        uses += $3 == "forward" || $3 == "backward"
        for (k = 6; k <= 7; k++) if ($k != "-" && $k == $1) exit 1 }
        END { exit !(n == rows && uses > 0 && uses % 4 == 0) }' "$D/rows"
    sed '1,/^$/d' "$D/s" | cmp - <(paro-plan -m $TINY -i "$FABRIC" --strategy IIG --accum 2)
    paro-plan -m $TINY -i "$FABRIC" --strategy IIG --accum 2 --steps --json > "$D/j"
    [ "$(json '$d->{schema}, scalar @{$d->{rows}}' < "$D/j")" = "paro.plan.steps/1 $(($(wc -l < "$D/rows") - 2))" ]
    # Each trained unit once: an update and a sync; each micro-step's gradient: one reduction.
    [ "$(json 'my %n; $n{$_->{kind}}++ for @{$d->{rows}}; "@n{qw(norm update sync)}", $n{reduce} == 2 * $n{update} ? 1 : 0' < "$D/j")" = "1 $(sed -n 's/.* update .*/x/p' "$D/s" | wc -l) $(sed -n 's/.* sync  *sync .*/x/p' "$D/s" | wc -l) 1" ]
}

@test "--compare: settings that differ, and all predictions" {
    paro-plan -m $TINY -i $FABRIC --strategy NNN > "$D/a"
    paro-plan -m $TINY -i $FABRIC --strategy GGG --keep all > "$D/b"
    paro-plan --compare "$D/a" "$D/b" > "$D/c"
    [ "$(sed -n 2,3p "$D/c" | tr -s ' ')" = "$(printf 'strategy NNN GGG\nkeep 0 all')" ]
    # NNN has four times the optimizer state of GGG on 4 ranks.
    grep -q '^optimizer state .* 0\.25[0-9]$' "$D/c"
    paro-plan --compare "$D/a" "$D/b" --json > "$D/c"
    [ "$(json '$d->{schema}, map { $_->{settings}{strategy}, $_->{settings}{keep} } @{$d->{plans}}' < "$D/c")" = "paro.plan.compare/1 NNN 0 GGG all" ]
    [ "$(json '0 + $d->{plans}[1]{predicted}{step_s}' < "$D/c")" = "$(perl -ne '/^  step_s: (.*)/ && print 0 + $1' "$D/b")" ]
    [ "$(paro-plan --compare "$D/a" "$D/a" | sed -n 2p | cut -d ' ' -f 1)" = parameters ]
    local most
    most="[$(seq -s, 40 | sed 's/[0-9]*/1/g')"
    paro-plan -m $TINY -i "synth:$most,2]" --strategy NNN > "$D/d"
    paro-plan -m $TINY -i "synth:$most,3]" --strategy NNN > "$D/e"
    [ "$(paro-plan --compare "$D/d" "$D/e" | sed -n 2p | tr -s ' ')" = "groups $most,2] $most,3]" ]
    [ "$(paro-plan --compare "$D/d" "$D/e" --json | json '$d->{plans}[1]{settings}{groups}')" = "$most,3]" ]
    refuses 2 'operand --compare PLAN PLAN' paro-plan --compare "$D/a"
    refuses 2 "'$D/c' expected" paro-plan --compare "$D/a" "$D/b" "$D/c"
    refuses 2 'none.yaml No such file' paro-plan --compare "$D/a" none.yaml
}

@test "params= is priced with the compute rate, and is not known to fit" {
    paro-plan -m params=1e9 -i synth:1x1,flops=1e12,memory=100e9 --list --json --strategy NNN > "$D/p"
    # 6 operations for each parameter and token: forward 2, backward 4; the rest is the update.
    json '$_ = $s[0]; !defined $_->{feasible} && @s == 1 && $_->{step_s} > 6e9 * 256 / 1e12 && $_->{tokens_per_s} == 256 / $_->{step_s} ? "yes" : "no"' < "$D/p" | grep -qx yes
    paro-plan -m params=1e9 -i synth:1x1,flops=1e12,memory=100e9 --list 2> "$D/e" | grep -q ' ?    -$'
    has_words "$(cat "$D/e")" 'activations nothing known to fit'
    paro-plan -m params=1e9 -i synth:1x1,flops=1e12,memory=1e9 --list 2> "$D/e" | grep -q ' no   -$'
    has_words "$(cat "$D/e")" 'no feasible plan'
}

@test "--compute-type: the rate of that type; auto takes the faster one, and says so" {
    local one=synth:1x1,flops=1e12,memory=100e9 want
    # One rank: 6 operations for each parameter and token and 16 for its update, and nothing else.
    for want in 'f32 1e12 4e12' 'bf16 4e12 4e12' 'f32 1e12 0.5e12' 'bf16 0.5e12 0.5e12' \
        'auto 4e12 4e12 bf16' 'auto 1e12 0.5e12 f32' 'auto 1e12 1e12 f32'; do
        set -- $want
        paro-topo -i "$one,flops_bf16=$3" > "$D/f"
        paro-plan -m params=1e9 -i "$D/f" --compute-type "$1" --json > "$D/p" 2> "$D/e"
        [ "$(json "abs(\$d->{predicted}{compute_s} * $2 / (6e9 * 256 + 16e9) - 1) < 1e-9 ? 'right' : 'wrong',
            \$d->{types}{compute}, \$d->{predicted}{rates_of} // 'its own'" < "$D/p")" = "right ${4:-$1} its own" ]
        [ "$(grep -c '^paro-plan: compute type ' "$D/e")" = $(($# == 4)) ]
    done
    has_words "$(cat "$D/e")" 'type f32: bf16 not faster'
    # Another rank's type, a doubt: they change nothing where no type is named but their own lines.
    for f in tests/data/topo/two.yaml "$D/f"; do
        sed '/^flops_bf16/d' "$f" > "$D/old"
        sed '/^groups:/i doubt: busy neighbours' "$D/old" > "$D/new"
        ! grep -q '^flops: ' "$D/old" || sed -i '/^groups:/i flops_bf16: 9e12' "$D/new"
        for what in '' --list --why --what-if --timeline; do
            paro-plan -m $TINY -i "$D/old" --mem 1e9 $what > "$D/a" 2> "$D/e"
            paro-plan -m $TINY -i "$D/new" --mem 1e9 $what 2> "$D/said" | grep -v '^ *\(doubt\|flops_bf16\): ' | diff "$D/a" -
            diff "$D/e" "$D/said" | grep -qx '> paro-plan: doubt of the fabric: busy neighbours'
        done
        paro-plan -m $TINY -i "$D/new" --mem 1e9 > "$D/plan.yaml"
        grep -q '^  doubt: "busy neighbours"$' "$D/plan.yaml"
        grep -q '^ *compute_s' "$D/plan.yaml" || continue
        steps 3 1 exposed_comm_s 0 > "$D/log.jsonl"
        paro-plan --check "$D" | grep -qx 'doubt of the fabric: busy neighbours'
        for what in '' --list --why --what-if; do
            paro-plan -m $TINY -i "$D/new" --mem 1e9 --json $what | grep -q '"doubt": "busy neighbours"'
            paro-plan -m $TINY -i "$D/old" --mem 1e9 --json $what | grep -q '"doubt": null'
        done
    done
    # Only one rate is known.
    paro-plan -m $TINY -i $FABRIC --compute-type auto > "$D/a" 2> "$D/e"
    paro-plan -m $TINY -i $FABRIC | cmp - "$D/a"
    has_words "$(cat "$D/e")" 'type f32: no rate another type'
}

@test "--check: the part of the step that differs most, in seconds and percent" {
    local keys=(gather_wait_s grads_wait_s sync_wait_s update_s idle_s) was key parts work
    paro-plan -m $TINY -i $FABRIC --strategy IIG --accum 6 > "$D/plan.yaml"
    steps 2 1 > "$D/log.jsonl"
    paro-plan --check "$D" --json > "$D/j"
    [ "$(json '$d->{most_wrong} // "unknown", scalar @{$d->{terms}}' < "$D/j")" = "unknown 7" ] # of an old log
    # log KEY=NUMBER...: a log with these parts; work is compute_s without the update.
    log() { perl -pe 'BEGIN { our %v = map { split /=/ } splice @ARGV, 1 } $v{compute_s} = $v{work} + $v{update_s};
        s/"compute_s":[^,}]*/"compute_s":$v{compute_s}/; s/}$/join("", map { qq(,"$_":$v{$_}) } grep { $_ ne "work" && $_ ne "compute_s" } sort keys %v) . "}"/e' \
        <(steps 3 1) "$@" > "$D/log.jsonl"; }
    log work=9 gather_wait_s=0 grads_wait_s=0 sync_wait_s=0 update_s=0 idle_s=0
    paro-plan --check "$D" --json > "$D/j"
    # The parts that are predicted are the step that is predicted: what is not in the terms is work.
    was=$(json 'join " ", map { my $k = $_; map { "$k=$_->{predicted}" } grep { $_->{term} eq $k } @{$d->{terms}} } qw('"${keys[*]}"')' < "$D/j")
    [ "$(wc -w <<<"$was")" = 5 ]
    work=$(json '9 - $d->{wrong_s}' < "$D/j")
    parts=$(json '$t = '"$work"'; for $k (qw('"${keys[*]}"')) { $t += $_->{predicted} for grep { $_->{term} eq $k } @{$d->{terms}} }
        $t / $d->{terms}[0]{predicted}' < "$D/j")
    perl -e 'die shift if abs($ARGV[0] - 1) > 1e-9' "$parts"
    # All as predicted but one, which takes half a second more.
    for key in "${keys[@]}" work; do
        log work="$work" $was "$key=$(perl -e 'for (@ARGV[1 .. $#ARGV]) { my ($k, $v) = split /=/; print $v + 0.5 if $k eq $ARGV[0] }' "$key" "work=$work" $was)"
        paro-plan --check "$D" > "$D/c"
        grep -qE "^most wrong: .*, 500 ms more than predicted( \\(\\+[0-9.]+ %\\)|)$" "$D/c"
        paro-plan --check "$D" --json > "$D/j"
        [ "$(json '$d->{most_wrong}, sprintf "%.6f", $d->{wrong_s}' < "$D/j")" = "$([ "$key" != work ] && echo "$key" || echo compute_s) 0.500000" ]
    done
    # A GPU's log has times of the host.
    sed -i 's/^device: cpu/device: cuda/' "$D/plan.yaml"
    paro-plan --check "$D" > "$D/c"
    run ! grep 'most wrong' "$D/c"
}

@test "--strategy with --list: that row; the first row is the best where several are as fast" {
    [ "$(paro-plan -m $TINY -i $FABRIC --list --strategy IGG | grep -c '^[* ][NIG][NIG][NIG] ')" -eq 1 ]
    [ "$(paro-plan -m $TINY -i $FABRIC --list --strategy IGG --json | json 'map { $_->{strategy} } @s')" = IGG ]
    for what in --list --why; do
        paro-plan -m params=1e9 -i synth:1x4 $what 2> "$D/e" | grep '^[* ][NIG][NIG][NIG] ' | head -n 1 | grep -q '^\*'
    done
    paro-plan -m params=1e9 -i synth:4x1 --why 2> "$D/e" | grep -q '^\*.*as fast as [NIG]*, '
}

@test "keep, recompute and the batch are searched together: no fixed choice is faster by 1 %" {
    for mem in 12Mi 20Mi 64Mi; do
        paro-plan -m $TINY -i $FABRIC --mem $mem --global-batch 512 --keep auto --recompute=auto --json > "$D/p"
        best=$(json '$d->{predicted}{tokens_per_s}' < "$D/p")
        for keep in 0 1 2 4 all; do
            for again in yes no; do
                one=$(paro-plan -m $TINY -i $FABRIC --mem $mem --global-batch 512 --keep $keep --recompute=$again \
                    --json 2> "$D/err" | json '$d->{predicted}{tokens_per_s}' 2> "$D/err" || echo 0)
                awk -v a="$one" -v b="$best" 'BEGIN { exit !(a <= b * 1.01) }'
            done
        done
        # What was found is what is planned with it.
        read -r b a k r < <(json '$d->{micro_batch}, $d->{accum}, $d->{keep}, $d->{recompute} ? "yes" : "no"' < "$D/p")
        paro-plan -m $TINY -i $FABRIC --mem $mem --micro-batch "$b" --accum "$a" --keep "$k" --recompute="$r" --json | cmp - "$D/p"
    done
}

@test "layered: the bytes of as few micro-steps, the time of a larger batch, activations of all" {
    local case price='map { sprintf "%.9g", $_ } @{$d->{predicted}}{qw(slow_bytes fast_bytes step_s)}'
    for s in GGG IIG NNG; do
        for case in 4:4:1 5:2:3 3:9:1; do # micro-batches, of a micro-step, micro-steps
            IFS=: read -r accum layered micros <<< "$case"
            paro-plan -m $TINY -i $FABRIC --strategy $s --accum "$accum" --layered "$layered" --json > "$D/p"
            paro-plan -m $TINY -i $FABRIC --strategy $s --accum "$micros" --json > "$D/q"
            [ "$(json '$d->{predicted}{slow_bytes}, $d->{predicted}{fast_bytes}' < "$D/p")" = \
                "$(json '$d->{predicted}{slow_bytes}, $d->{predicted}{fast_bytes}' < "$D/q")" ]
            paro-plan -m $TINY -i $FABRIC --strategy $s --accum "$accum" --json |
                json '$d->{predicted}{step_s}, $d->{predicted}{memory_bytes}{activations}' > "$D/r"
            json '$d->{predicted}{step_s}, $d->{predicted}{memory_bytes}{activations}' < "$D/p" |
                paste - "$D/r" | awk '{ exit !($1 < $3 && $2 > $4) }'
        done
        paro-plan -m $TINY -i $FABRIC --strategy $s --accum 4 --layered 4 --json > "$D/p"
        paro-plan -m $TINY -i $FABRIC --strategy $s --micro-batch 4 --json > "$D/q"
        [ "$(json "$price" < "$D/p")" = "$(json "$price" < "$D/q")" ]
        # Logits and what lives within a layer are those of one micro-batch.
        [ "$(json '$d->{predicted}{memory_bytes}{total}' < "$D/p")" -lt \
            "$(json '$d->{predicted}{memory_bytes}{total}' < "$D/q")" ]
    done
    # As many as fit: all, some, or one.
    paro-plan -m $TINY -i $FABRIC --strategy GGG --accum 4 --layered auto --mem 1e9 --list | grep -q ", layered 4$"
    some=$(paro-plan -m $TINY -i $FABRIC --strategy GGG --accum 4 --layered 2 --json | json '$d->{predicted}{memory_bytes}{total}')
    [ "$(paro-plan -m $TINY -i $FABRIC --strategy GGG --accum 4 --layered auto --mem "$some" --json | json '$d->{layered}')" = 2 ]
    [ "$(paro-plan -m $TINY -i $FABRIC --strategy GGG --accum 4 --layered auto --mem "$((some - 1))" --json | json '$d->{layered}')" = 1 ]
    paro-plan -m $TINY -i $FABRIC --accum 4 --layered 4 --emit deepspeed | grep -q 'not expressed: 4 micro-batches'
}

@test "keep and recompute are searched where memory asks for it, and not else" {
    # GGG alone: with room as much is kept as pays and nothing is run again, without it the other
    # way round.  Of six uses the last four: what is gathered again for the first two is hidden.
    [ "$(paro-plan -m $TINY -i $FABRIC --strategy GGG --keep auto --recompute=auto --mem 1e9 --json |
        json '$d->{keep}, $d->{recompute} ? 1 : 0')" = "4 0" ]
    tight=$(paro-plan -m $TINY -i $FABRIC --strategy GGG --recompute --json | json '$d->{predicted}{memory_bytes}{total}')
    [ "$(paro-plan -m $TINY -i $FABRIC --strategy GGG --keep auto --recompute=auto --mem "$tight" --json |
        json '$d->{keep}, $d->{recompute} ? 1 : 0')" = "0 1" ]
    paro-plan -m $TINY -i $FABRIC --strategy GGG --keep auto --mem 1e9 --list | head -n 1 | grep -q ", keep 4$"
    [ "$(paro-plan -m $TINY -i $FABRIC --keep 2 --recompute --list --json | json '$d->{keep}, $d->{recompute} ? 1 : 0')" = "2 1" ]
}

@test "the chunk is the fabric's, and what a message costs is part of the price" {
    local cost fast=synth:16x8,intra=200GB/s:3us,inter=25GB/s:12us
    paro-plan -m params=202.5e6 -i "$fast" | grep -qx 'chunk_bytes: 4194304' # whole blocks of 3 MiB
    for cost in 1e-7 1e-5 1e-4; do
        paro-topo -i "$fast" | sed "s/^    latency_s.*/&\n    message_s: $cost/" |
            paro-plan -m params=202.5e6 --json | json '$d->{chunk_bytes}, $d->{predicted}{comm_s} * 1e3'
    done > "$D/a"
    awk '{ print $1; if ($2 <= last) print "not dearer: " $0; last = $2 }' "$D/a" |
        diff - <(printf '%s\n' 61440 1048576 4194304)
}

@test "what the fabric does not say is unknown, and one line says what is missing" {
    run --separate-stderr paro-plan -m params=70e9 -i synth:16x8 --list
    [ "$status" -eq 0 ]
    [ "$(printf '%s\n' "$output" | grep -cE ' [?] (yes|no) +[?]  ')" -eq 27 ]
    has_words "$stderr" 'memory --mem compute rate flops='
    run --separate-stderr paro-plan -m $TINY -i synth:2x2 --json
    has_words "$stderr" 'memory --mem compute rate flops='
    [ "${#stderr_lines[@]}" -eq 1 ]
    [ "$(printf '%s' "$output" | json 'defined $d->{predicted}{tokens_per_s} ? 1 : 0')" -eq 0 ]
    paro-plan -m $TINY -i synth:2x2 --scale 2..4 2> "$D/e" | tail -n 1 | grep -q '?\*'
    paro-plan -m $TINY -i $FABRIC 2> "$D/e" | grep -q '^  tokens_per_s: [1-9]'
    [ ! -s "$D/e" ]
}

@test "how a step runs goes into the plan, in YAML and in JSON" {
    while IFS='|' read -r options want; do
        set -- -m $TINY -i $FABRIC $options
        [ "$(paro-plan "$@" | sed -nE 's/^ *(accum|seq|wire|slow_params|slow_grads|buckets|keep|recompute): //p' | paste -sd ' ')" = "$want" ]
        [ "$(paro-plan "$@" --json | json '@$d{qw(accum seq)}, @{$d->{types}}{qw(wire slow_params slow_grads)},
            @$d{qw(buckets keep)}, $d->{recompute} ? "yes" : "no"')" = "$want" ]
    done <<'END'
|1 256 bf16 same same 2 0 no
--seq 100 --wire-type f32 --micro-batch 3 --accum 5|5 100 f32 same same 2 0 no
--slow-params=int8 --slow-grads=int8|1 256 bf16 int8 int8 2 0 no
--slow-grads int8 --keep 3 --recompute|1 256 bf16 same int8 2 3 yes
--buckets=3 --keep=all --recompute=yes|1 256 bf16 same same 3 all yes
END
    sed 's/"max_position_embeddings": 512/"max_position_embeddings": 64/' $TINY > "$D/short.json"
    [ "$(paro-plan -m "$D/short.json" -i $FABRIC | sed -n 's/^seq: //p')" -eq 64 ]
}

# Some tenths of a second of processor time; a count that went wrong takes minutes.
@test "a thousand groups, ragged too, all searched" {
    for shape in 1000x8 "[$(yes 8,7,5 | head -n 333 | paste -sd,)]"; do
        (ulimit -t 30
            paro-plan -m examples/models/llama-10m.json -i "synth:$shape,memory=80e9,flops=1e14" \
                --global-batch 65536 --keep auto --recompute=auto > "$D/p")
    done
}

DEEP=2x2x2,intra=1GB/s:3us,inter=500MB/s:20us,level2=60MB/s:50us,flops=50e9

@test "--group-level: groups end where it is said, or where it is best" {
    # Level 1: two cells, which are the groups of level 0.
    for level in '0|ranks: [0, 1]|groups 4x2, level 0,' '1|- [2, 3]|groups 2x4, level 1,'; do
        IFS='|' read -r n ranks title <<< "$level"
        paro-plan -m $TINY -i synth:$DEEP --group-level "$n" > "$D/p$n"
        grep -qx "group_level: $n" "$D/p$n"
        grep -A 4 '^groups:' "$D/p$n" | sed 's/^ *//' | grep -qxF -e "$ranks"
        paro-plan -m $TINY -i synth:$DEEP --group-level "$n" --list > "$D/list"
        head -n 1 "$D/list" | grep -qF "$title"
        [ "$(wc -l < "$D/list")" -eq 30 ]
        paro-plan -m $TINY -i synth:$DEEP --group-level "$n" --why --json > "$D/w"
        [ "$(json '$d->{group_level}, scalar @{$d->{boundaries}}' < "$D/w")" = "$n 1" ]
    done
    # auto is the faster of the two, and says what the other comes to.
    paro-plan -m $TINY -i synth:$DEEP --list --json > "$D/l"
    best=$(json '$d->{group_level}' < "$D/l")
    paro-plan -m $TINY -i synth:$DEEP | cmp - "$D/p$best"
    for n in 0 1; do
        [ "$(json "\$d->{boundaries}[$n]{step_s}" < "$D/l")" = \
            "$(paro-plan -m $TINY -i synth:$DEEP --group-level $n --json | json '$d->{predicted}{step_s}')" ]
    done
    awk -v a="$(json "\$d->{boundaries}[$best]{step_s}" < "$D/l")" \
        -v b="$(json "\$d->{boundaries}[1 - $best]{step_s}" < "$D/l")" 'BEGIN { exit !(a < b) }'
    for form in --list --why --what-if; do
        paro-plan -m $TINY -i synth:$DEEP $form | sed -n 2p |
            grep -qE '^groups 4x2, level 0: [NIG]{3} [0-9.]+ % slower$'
    done
    paro-plan -m $TINY -i synth:$DEEP --scale 8..16 | awk 'NR == 2 { print $3 } NR > 2 { print $1, $3 }' |
        paste -sd, | grep -qE '^level,8 [01],16 [01]$'
}

@test "--group-level: a fabric of two levels is as it was" {
    for form in "" --list --why --what-if "--scale 4..8" "--emit fsdp"; do
        paro-plan -m $TINY -i $FABRIC $form > "$D/a"
        paro-plan -m $TINY -i $FABRIC $form --group-level 0 | cmp - "$D/a"
        if sed '/^fabric:/,/^groups:/d' "$D/a" | grep level; then return 1; fi
    done
    [ "$(paro-plan -m $TINY -i $FABRIC --list --json | json 'scalar grep { exists $d->{$_} } qw(group_level boundaries)')" = 0 ]
    # Neither one rank in each group nor all in one is searched; asked for, they are planned.
    for one in 2x2x1:1 1x2x2:0; do
        [ "$(paro-plan -m $TINY -i "synth:${one%:*}" --list --json | json 'map { $_->{group_level} } @{$d->{boundaries}}')" = "${one#*:}" ]
        [ "$(paro-plan -m $TINY -i "synth:${one%:*}" --group-level $((1 - ${one#*:})) --json | json '$d->{group_level}')" = $((1 - ${one#*:})) ]
    done
}

@test "nothing fits: the smallest fabric on which something does" {
    # 16 bytes of a parameter, 8e9 of a rank: 130.6 ranks.  What does not fit is in refusals.
    paro-plan -m params=65.286e9 -i synth:17x8 --mem 8GB --grad-type bf16 > "$D/p"
    paro-plan -m $TINY -i synth:4x2 --mem 8800000 --recompute > "$D/p"
    run --separate-stderr paro-plan -m params=65.286e9 -i synth:8x8 --mem 8GB --grad-type bf16 --list --json
    [ "$(printf '%s' "$output" | json 'map { $d->{fits_on}{$_} } qw(groups ranks strategy)')" = "17 136 GGG" ]
    run --separate-stderr paro-plan -m $TINY -i synth:2x2 --mem 8800000 --list --json
    [ "$(printf '%s' "$output" | json 'defined $d->{fits_on} ? 1 : 0, $d->{fits_on_relieved}{groups}')" = "0 4" ]
    [ "$(paro-plan -m $TINY -i synth:2x2 --list --json | json 'exists $d->{fits_on} ? 1 : 0')" = 0 ]
    run --separate-stderr paro-plan -m params=65.286e9 -i synth:8x8 --mem 8GB --grad-type bf16 --json
    has_words "$(json '$d->{error}{text}' <<< "$stderr")" "GGG 17 groups 8 136 ranks"
}

@test "--storage: the time of a checkpoint, where it is told" {
    # 791,680 parameters of 4 + 12 bytes, two ranks on each host.
    paro-plan -m $TINY -i $FABRIC --storage 2MB/s > "$D/p"
    printf '%s\n' '  checkpoint_bytes: 12666880' '  checkpoint_rank_bytes: 3166720' '  checkpoint_s: 3.16672' |
        cmp - <(grep checkpoint "$D/p")
    [ "$(paro-plan -m $TINY -i $FABRIC | grep -c checkpoint)" = 2 ]
    paro-plan -m $TINY -i $FABRIC --list > "$D/a"
    ! grep -q checkpoint "$D/a" || false
    paro-plan -m $TINY -i $FABRIC --list --storage 2MB/s | grep -v '^checkpoint 12.1 MiB, 3.02 MiB per rank, 3.17 s at 2.00 MB/s per host$' | cmp - "$D/a"
    [ "$(paro-plan -m $TINY -i $FABRIC --list --json --storage 2MB/s | json 'map { $d->{"checkpoint_$_"} } qw(bytes rank_bytes s)')" = "12666880 3166720 3.16672" ]
}

@test "--mtbf: failures are priced, and without it nothing else is" {
    local big=(-m params=65.286e9 -i "synth:8x8,memory=80e9,flops=400e12" --accum 4 --mtbf 100 --storage 500MB/s)
    ! paro-plan -m $TINY -i $FABRIC --json | grep -E 'goodput|failures' || false
    ! paro-plan -m $TINY -i $FABRIC --list | grep goodput || false
    paro-plan "${big[@]}" --copies 0 > "$D/p"
    paro-plan "${big[@]}" --copies 0 --json > "$D/j"
    # One kind of save: Daly's formula, with 8 nodes, 14 bytes of a parameter at 500 MB/s each, a snapshot of
    # 8 GB/s and 60 s for a restart; read and made again, that is twice the time of writing.
    sed -n 's/^ *step_s: /step /p; s/^    \([a-z_]*\): /\1 /p' "$D/p" | awk '{ v[$1] = $2 } END {
        bytes = 14 * 65.286e9 / 64; write = 8 * bytes / 5e8; job = 3600 * 100 / 8
        pause = bytes / 8e9 + 0.01 * write; again = 60 + 2 * write; work = v["save_every"] * v["step"]
        want = work / (job * exp(again / job) * (exp((work + pause) / job) - 1))
        ok = v["copies"] == 0 && v["local_every"] == 0 && v["nodes"] == 8 && v["mtbf_s"] == 360000
        for (k = 1; k <= 4; k++) { # numbers are printed with six digits
            have = v[k == 1 ? "goodput" : k == 2 ? "pause_s" : k == 3 ? "restart_s" : "lost_share"]
            must = k == 1 ? want : k == 2 ? pause : k == 3 ? again : 1
            if (have > must * (1 + 1e-5) || have < must * (1 - 1e-5)) { print k, have, must; ok = 0 }
        }
        exit !ok }'
    [ "$(json 'map { sprintf "%.9g", $d->{predicted}{failures}{$_} } qw(goodput save_every)' < "$D/j")" = \
        "$(printf '%.9g %d' "$(sed -n 's/^    goodput: //p' "$D/p")" "$(sed -n 's/^    save_every: //p' "$D/p")")" ]
    # The plan is read back as it was.
    [ "$(paro-plan --compare "$D/p" "$D/p" | grep -c 'goodput.*1.000$')" = 1 ]
    # Copies help, most those that are sent nowhere.
    paro-plan "${big[@]}" --copies 1 --list --json > "$D/j"
    json 'for my $s (@s) { my $f = $s->{failures}; my $sent = $s->{strategy} =~ /G$/;
        die $s->{strategy} if !$sent != ($f->{copy_slow_bytes} == 0) || $f->{copies} != 1; } 1' < "$D/j"
    [ "$(json 'my ($b) = grep { $_->{strategy} eq $d->{chosen} } @s; join " ", map { my $f = $_->{failures}; $_->{feasible} && $_->{step_s} / $f->{goodput} < $b->{step_s} / $b->{failures}{goodput} ? $_->{strategy} : () } @s' < "$D/j")" = "" ]
    paro-plan "${big[@]}" --mem 160e9 --list > "$D/l"
    grep -q '^failures every 100 h of a node, 12.5 h of 8: save every [0-9]* steps in the shared folder, every [0-9]* locally with 1 copy, .* enough for 99' "$D/l"
    [ "$(sed -n 's/.*tokens\/s *\(goodput\).*/\1/p' "$D/l")" = goodput ]
}

@test "--mtbf: storage is stated, for each host and for all; no share is above 1" {
    local on=(-m params=65e9 -i "synth:64x8,memory=80GB,flops=400T" --mtbf 5000)
    paro-plan "${on[@]}" --list > "$D/l" 2> "$D/e"
    grep -q '; shared storage of 1.00 GB/s per host, 64.0 GB/s of all (assumed)$' "$D/l"
    grep -q '^paro-plan: assumed: shared storage takes 1.00 GB/s from each host, 64.0 GB/s from all 64 (--storage)$' "$D/e"
    paro-plan "${on[@]}" --list --storage 32GB/s/all > "$D/l" 2> "$D/e"
    run ! grep assumed "$D/l" "$D/e"
    grep -q '; shared storage of 500 MB/s per host, 32.0 GB/s of all$' "$D/l"
    paro-plan "${on[@]}" --list --json --storage 32GB/s/all 2> "$D/e" > "$D/a"
    paro-plan "${on[@]}" --list --json --storage 500MB/s 2> "$D/e" | cmp - "$D/a"
    [ "$(json 'grep { $_->{failures}{lost_share} > 1 } @s' < "$D/a")" = "" ]
}

@test "--mtbf: a scale of useful tokens" {
    local scale=(-m "$TINY" -i "$FABRIC" --mtbf 10 --storage 1MB/s --scale 4..16)
    paro-plan "${scale[@]}" > "$D/s"
    grep -q '^predicted useful tokens/s' "$D/s"
    json 'my @row = map { [map { sprintf "%.0f", $_->{tokens_per_s} * $_->{failures}{goodput} } grep { $_->{feasible} } @{$_->{strategies}}] } @{$d->{points}}; join "\n", map { "@$_" } @row' < <(paro-plan "${scale[@]}" --json) > "$D/j"
    local row=0
    while read -r -a numbers; do
        row=$((row + 1))
        for n in $(sed -n "$((row + 2))p" "$D/s" | cut -c 17- | tr -d '*'); do
            [[ " ${numbers[*]} " = *" $n "* ]]
        done
    done < "$D/j"
    [ $row = 3 ]
}

@test "--tokens, --price: hours and cost, of hosts or ranks, by hand" {
    # Two hosts of two ranks.
    paro-plan -m $TINY -i $FABRIC --tokens 2B --price '1.5 USD/h' --list --json > "$D/l" 2> "$D/e"
    json 'for my $s (@s) { my ($b, $h) = ($s->{budget}, 2e9 / $s->{tokens_per_s} / 3600);
        my %want = (hosts => 2, tokens => 2e9, price_per_h => 1.5, hours => $h, cost => $h * 2 * 1.5,
            cost_per_million_tokens => 2 * 1.5 / ($s->{tokens_per_s} * 3600) * 1e6);
        for (keys %want) { die "$s->{strategy} $_" if abs($b->{$_} / $want{$_} - 1) > 1e-12 }
        die "currency" if $b->{currency} ne "USD" || $b->{price_of} ne "host"; } 1' < "$D/l"
    # A price of ranks: 4 of them at half the price are 2 hosts.
    for price in '0.75 USD/rank/h' 0.75USD/rank/h; do
        paro-plan -m $TINY -i $FABRIC --tokens 2B --price "$price" --list --json 2> "$D/e" |
            json '$s[0]{budget}{cost}, $s[0]{budget}{currency}' > "$D/each"
        json '$s[0]{budget}{cost}, "USD"' < "$D/l" | cmp - "$D/each"
    done
    # Hosts of several groups are counted once.
    paro-topo -i $FABRIC | sed 's/^  - ranks:/  - host: one\n    ranks:/' > "$D/one.yaml"
    [ "$(paro-plan -m $TINY -i "$D/one.yaml" --price 1/h --list --json 2> "$D/e" | json '$s[0]{budget}{hosts}')" = 1 ]
    # The list has what its JSON has, and its head the chosen one's.
    paro-plan -m $TINY -i $FABRIC --tokens 2B --price '1.5 USD/h' --list > "$D/t" 2> "$D/e"
    json 'map { join(" ", $_->{strategy}, @{$_->{budget}}{qw(hours cost cost_per_million_tokens)}) . "\n" } @s' < "$D/l" |
        sed 's/^ //; /^$/d' | sort > "$D/want"
    sed -n 's/^[* ]\([NIG]\{3\} \)/\1/p' "$D/t" | sort | awk '{ print $1, $15, $16, $17 }' | join - "$D/want" > "$D/both"
    [ "$(awk 'function near(a, b) { return a < b * 1.001 && a > b * 0.999 }
        near($2, $5) && near($3, $6) && near($4, $7)' "$D/both" | wc -l)" = 27 ]
    grep -q '^2.00 G tokens in [0-9.]* h for [0-9.]* USD, [0-9.]* USD per million tokens, on 2 hosts$' "$D/t"
    grep -q 'tokens/s     hours      cost cost/Mtok kept' "$D/t"
    # Hours alone, and a price alone.
    paro-plan -m $TINY -i $FABRIC --tokens 2B --list > "$D/t" 2> "$D/e"
    grep -q 'tokens/s     hours kept' "$D/t"
    [ "$(paro-plan -m $TINY -i $FABRIC --price 3/h --json 2> "$D/e" |
        json 'join ",", map { "$_=" . ($d->{predicted}{budget}{$_} // "null") } qw(tokens hours cost currency hosts)')" = \
        "tokens=null,hours=null,cost=null,currency=null,hosts=2" ]
    grep -q '^paro-plan: [0-9.]* per million tokens, on 2 hosts$' "$D/e"
    # Without a compute rate nothing is known.
    paro-plan -m $TINY -i synth:2x2 --tokens 2B --price 1/h --list > "$D/t" 2> "$D/e"
    grep -q '^2.00 G tokens in ? h for ?, ? per million tokens, on 2 hosts$' "$D/t"
}

@test "--tokens, --price: failures are counted, in plans, at each size, and compared" {
    local on=(-m "$TINY" -i "$FABRIC" --mtbf 10 --storage 1MB/s --tokens 2B --price "3 EUR/h")
    paro-plan "${on[@]}" > "$D/p" 2> "$D/e"
    grep -q '^paro-plan: 2.00 G tokens .* failures counted$' "$D/e"
    json 'my $p = $d->{predicted}; my $h = 2e9 / ($p->{tokens_per_s} * $p->{failures}{goodput}) / 3600;
        die if abs($p->{budget}{hours} / $h - 1) > 1e-12 || abs($p->{budget}{cost} / ($h * 2 * 3) - 1) > 1e-12; 1' \
        < <(paro-plan "${on[@]}" --json 2> "$D/e")
    # A plan is read back as it was, and compared with one at half the price.
    paro-plan "${on[@]}" --price "1.5 EUR/host/h" > "$D/half" 2> "$D/e"
    paro-plan --compare "$D/p" "$D/half" > "$D/c"
    [ "$(awk '/^(hours|cost|cost.Mtokens) / { print $1, $NF }' "$D/c" | tr '\n' ' ')" = "hours 1.000 cost 0.500 cost/Mtokens 0.500 " ]
    [ "$(paro-plan --compare "$D/p" "$D/half" --json | json '$d->{plans}[1]{predicted}{cost} / $d->{plans}[0]{predicted}{cost}, $d->{plans}[0]{predicted}{currency}')" = "0.5 EUR" ]
    paro-plan "${on[@]}" --price 1.5USD/h > "$D/half" 2> "$D/e"
    [ "$(paro-plan --compare "$D/p" "$D/half" | awk '/^cost / { print $NF }')" = - ]
    paro-plan -m $TINY -i $FABRIC > "$D/none"
    run ! grep budget "$D/none"
    paro-plan --compare "$D/none" "$D/none" > "$D/c"
    run ! grep -E '^(hours|cost|goodput|currency)' "$D/c"
    # At each size the planned strategy's.
    paro-plan "${on[@]}" --scale 4..16 > "$D/s" 2> "$D/e"
    paro-plan "${on[@]}" --scale 4..16 --json 2> "$D/e" |
        json 'map { my $p = $_; my ($c) = grep { $_->{strategy} eq $p->{chosen} } @{$p->{strategies}};
            my $h = 2e9 / ($c->{tokens_per_s} * $c->{failures}{goodput}) / 3600;
            "$p->{ranks} $h " . $h * 3 * $p->{ranks} / 2 . "\n" } @{$d->{points}}' | sed 's/^ //; /^$/d' > "$D/want"
    awk 'NR > 2 { print $(NF - 2), $(NF - 1) }' "$D/s" | paste -d' ' "$D/want" - > "$D/both"
    [ "$(awk '$4 < $2 * 1.001 && $4 > $2 * 0.999 && $5 < $3 * 1.001 && $5 > $3 * 0.999' "$D/both" | wc -l)" = 3 ]
    [ "$(wc -l < "$D/want")" = 3 ]
}

@test "-i NAME: each type of machine is read and planned, alone and as two" {
    local name n=0
    for f in examples/instances/*.yaml; do
        name=$(basename "$f" .yaml)
        n=$((n + 1))
        # The name is the file; two are its groups twice.
        paro-topo -i "$name" 2> "$D/e" > "$D/one"
        paro-topo -i "$f" 2> "$D/e" | cmp - "$D/one"
        grep -q '^paro-topo: doubt: figures of data sheets' "$D/e"
        paro-topo -i "2x$name" --json 2> "$D/e" > "$D/two"
        [ "$(json 'scalar @{$d->{groups}}, $d->{ranks} % 2, $d->{levels}[1]{port_Bps} / $d->{levels}[1]{member_Bps} * 2 - $d->{ranks}' < "$D/two")" = "2 0 0" ]
        # Each figure has its source above.
        for key in intra inter memory flops memory_Bps; do
            grep -q "^# $key  " "$f" || grep -q "^# $key   " "$f"
        done
        for of in "$name" "2x$name"; do
            paro-plan -m examples/models/llama-10m.json -i "$of" --tokens 1B --price 1/h > "$D/p" 2> "$D/e"
            grep -q '^    cost_per_million_tokens: [0-9.e-]*$' "$D/p"
        done
    done
    [ $n = 12 ]
    # Figures can be replaced; a file of the name comes first.
    [ "$(paro-topo -i 16xaws-p5 --set inter=200GB/s:9us --json 2> "$D/e" | json '@{$d->{levels}[1]}{qw(port_Bps member_Bps latency_s)}, $d->{ranks}')" = \
        "200000000000 25000000000 9e-06 128" ]
    cd "$D" || return
    paro-topo -i synth:1x3 > aws-p5
    [ "$(paro-topo -i aws-p5 --json | json '$d->{ranks}')" = 3 ]
}

# bats test_tags=full
@test "a run by groups of either boundary: the same bits, the planned bytes and checkpoints" {
    cat /usr/share/common-licenses/* > "$D/text" || true
    for n in 0 1; do
        paro-plan -m $TINY -i synth:$DEEP --seq 32 --group-level $n --strategy IIG > "$D/plan$n"
        timeout 100 mpirun -np 8 --oversubscribe paro-train "$D/plan$n" -d "$D/text" -o "$D/exact$n" --steps 2 --exact > "$D/o"
    done
    [ "$(grep -oh '"state_hash":"[^"]*"' "$D/exact0/log.jsonl")" = "$(grep -oh '"state_hash":"[^"]*"' "$D/exact1/log.jsonl")" ]
    [ "$(grep -c state_hash "$D/exact1/log.jsonl")" = 2 ]
    timeout 100 mpirun -np 8 --oversubscribe paro-train "$D/plan1" -d "$D/text" -o "$D/run" --steps 3 > "$D/o"
    paro-plan --check "$D/run" > "$D/c"
    for bytes in slow fast state; do
        grep -qE "^$bytes bytes .* 100\.0%\$" "$D/c"
    done
    # Written by groups of four, split for groups of two and of four: the same weights.
    paro-shard merge "$D/run/latest" -o "$D/whole" > "$D/o"
    for n in 0 1; do
        paro-shard split "$D/whole" -p "$D/plan$n" -o "$D/ckpt$n" > "$D/o"
        paro-shard merge "$D/ckpt$n" -o "$D/again$n" > "$D/o"
        diff -r "$D/whole" "$D/again$n"
    done
    # What the run has written, but for the headers.
    perl -MJSON::PP -0777 -e 'my ($dir, $all, $one) = @ARGV; open my $f, "<", "$dir/manifest.json"; my $m = decode_json(<$f>);
        my ($sum, $most) = (0, 0);
        for (@{$m->{files}}) { -s "$dir/$_->{name}" == $_->{bytes} or die; my $b = $_->{bytes} - $_->{header_bytes};
            $sum += $b; $most = $b if $b > $most }
        $sum == $all && $most == $one or die "$sum $all $most $one\n"' "$D/run/latest" \
        "$(sed -n 's/^  checkpoint_bytes: //p' "$D/plan1")" "$(sed -n 's/^  checkpoint_rank_bytes: //p' "$D/plan1")"
}

@test "16,384 ranks, every boundary of four levels, in seconds and 256 MiB" {
    # Seconds of the processor, and of address space: neighbours are not to be measured.
    for what in "" --list --why "--global-batch 32768 --keep auto --recompute=auto"; do
        took=$(TIMEFORMAT=%U; [ ${#SAN} -gt 0 ] || ulimit -v 262144
            { time paro-plan -m examples/models/llama-10m.json -i synth:4x8x64x8,memory=80e9,flops=1e14 $what > "$D/p" 2> "$D/e"; } 2>&1)
        echo "$what: $took s"
        awk -v t="$took" -v most=$((${#SAN} ? 60 : 20)) 'BEGIN { exit !(t + 0 > 0 && t < most) }'
        [ -s "$D/p" ]
    done
}

@test "more bytes than can be counted" {
    decoder() { # decoder VOCAB HIDDEN FFN LAYERS HEADS HEAD_DIM
        printf '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": %s, "hidden_size": %s,
            "intermediate_size": %s, "num_hidden_layers": %s, "num_attention_heads": %s, "head_dim": %s,
            "max_position_embeddings": 131072}\n' "$@"
    }
    decoder 16777216 1048576 4194304 16384 16384 1024 > "$D/wide.json"
    refuses 2 '+18 parameters 1 x 128 tokens 2^62' paro-plan -m "$D/wide.json" -i $FABRIC --seq 128
    decoder 128256 16384 53248 126 128 128 > "$D/large.json"
    refuses 2 '1048576 x 131072 tokens 2^62' paro-plan -m "$D/large.json" -i $FABRIC --micro-batch 1048576 --seq 131072
    paro-plan -m "$D/large.json" -i synth:2x2 --micro-batch 1024 --seq 131072 > "$D/plan" 2> "$D/e"
    sed 's/^micro_batch: 1024$/micro_batch: 1048576/' "$D/plan" > "$D/more"
    refuses 2 "$D/more micro_batch 1048576 x 131072 tokens 2^62" paro-plan --compare "$D/plan" "$D/more"
}

@test "what needs less memory is planned where times are too near to be predicted, and it says so" {
    local on=(-m "$D/l7.json" -i "synth:4x8,inter=15.8GB/s:12us,memory=80GB,flops=200T" --seq 4096 --accum 4)
    printf '%s' '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
        "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000,
        "max_position_embeddings": 4096, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}' > "$D/l7.json"
    paro-plan "${on[@]}" --list > "$D/l"
    # The fastest stays first; the star has less memory, and as few slow bytes.
    perl -ane 'next unless /^[* ][NIG]{3} /; my ($name, $total, $slow, $step) = (/^\*?\s*(\w+)/, @F[-10, -9, -7]);
        @top = ($total, $slow, $step) unless @top; @star = ($total, $slow, $step) if /^\*/;
        END { $star[0] < $top[0] / 1.25 && $star[1] <= $top[1] && $star[2] <= 1.01 * $top[2] && $star[2] > $top[2] or die "@star, @top" }' "$D/l"
    paro-plan "${on[@]}" > "$D/p" 2> "$D/e"
    grep -qE '^paro-plan: I[NIG]+ takes 0\.[0-9]+ % longer than N[NIG]+, too little to be predicted, and needs [0-9.]+ GiB less memory$' "$D/e"
    paro-plan "${on[@]}" --why > "$D/w" 2> "$D/e"
    run ! grep predicted "$D/e"
    grep -q 'too little to be predicted' "$D/w"
    grep -q '^ NNG .*-0\.. % .*as fast as predictions tell, but needs .* more memory$' "$D/w"
    run ! grep -E 'slow tier [0-9.]+ [KMGT]iB' "$D/w"
}

# The bytes of one outer step over H: 8 of each parameter that a group does not have, through a
# port, and none of what a step of all ranks sends.
@test "periods: 1/H of the bytes; auto is the shortest whose outer steps take a tenth" {
    apart() { paro-plan -m $TINY -i "synth:$1,flops=1e9" --seq 64 "${@:2}"; }
    key() { sed -n "s/^  $1: //p"; }
    local where=4x2,intra=10Gbit/s,inter=20Mbit/s
    one=$(apart $where --strategy IIG --sync-every 1 | key slow_bytes)
    psi=$(apart $where --strategy IIG | sed -n 's/^trainable: //p')
    [ "$one" = $((8 * psi * 3 / 4)) ]
    awk -v a="$one" -v b="$(apart $where --strategy IIG --sync-every 50 | key slow_bytes)" \
        'BEGIN { exit !(50 * b > 0.999999 * a && 50 * b < 1.000001 * a) }'
    h=$(apart $where --sync-every auto | sed -n 's/^sync_every: //p')
    [ "$h" -gt 2 ]
    speed() { apart $where --sync-every "$1" --fragments auto | key tokens_per_s; }
    awk -v all="$(speed 1000000)" -v at="$(speed "$h")" -v less="$(speed $((h - 1)))" \
        'BEGIN { exit !(1.1 * at >= 0.9999 * all && 1.1 * less < 1.0001 * all) }'
    # Each fragment's turn is overlapped with a step; the bytes are the same.
    [ "$(apart $where --sync-every 50 --strategy IIG | key slow_bytes)" = "$(apart $where --sync-every 50 --strategy IIG --fragments 4 | key slow_bytes)" ]
    awk -v one="$(apart $where --sync-every 8 | key tokens_per_s)" -v turns="$(speed 8)" 'BEGIN { exit !(turns > 1.2 * one) }'
    run -0 --separate-stderr apart $where --sync-every 50
    echo "$stderr"
    rate='[NIG]{3}/50: groups synchronise every 50 steps, which is another optimizer: [0-9.]+ tokens/s, instead of ([0-9.]+) \(...\)'
    [[ $stderr =~ $rate ]]
    [ "${BASH_REMATCH[1]}" = "$(printf %.4g "$(apart $where | key tokens_per_s)")" ]
    # Where steps of all ranks are as fast, and in one group, there are no periods.
    run -0 --separate-stderr apart 4x2,intra=10Gbit/s,inter=10Gbit/s --sync-every auto
    [[ $output != *sync_every* && $stderr == *"gain less than a tenth"* ]]
    run -0 --separate-stderr apart 1x2,intra=10Gbit/s --sync-every 50
    [[ $output != *sync_every* && $stderr == *"one group has no other"* ]]
    apart $where --sync-every 50 --emit deepspeed 2>&1 | grep -q 'not expressed: groups that train apart for 50 steps'
    # At another size the period is another one: that of the fabric with so many groups.
    scaled=$(apart $where --sync-every auto --scale 16..16 --json |
        json '(sort { $b <=> $a } map { $_->{tokens_per_s} } @{$d->{points}[0]{strategies}})[0]')
    alone=$(apart "8${where#4}" --sync-every auto | key tokens_per_s)
    awk -v a="$scaled" -v b="$alone" 'BEGIN { exit !(a > 0.98 * b && a < 1.02 * b) }'
    run -2 paro-plan -m $TINY -i synth:2x2 --sync-every auto
    [[ $output == *"--sync-every auto on a fabric without compute rate"* ]]
    run -2 paro-plan -m $TINY -i synth:2x2 --sync-every x
    [[ $output == *"'x'"*expected* ]]
    apart $where --sync-every 4 > "$D/plan.yaml"
    sed 's/^outer: G/outer: N/' "$D/plan.yaml" > "$D/bad.yaml"
    run -2 paro-plan --compare "$D/plan.yaml" "$D/bad.yaml"
    [[ $output == *"'N', expected I or G"* ]]
    grep -v ^sync_every "$D/plan.yaml" > "$D/bad.yaml"
    run -2 paro-plan --compare "$D/plan.yaml" "$D/bad.yaml"
    [[ $output == *"'outer' is given without sync_every, expected both"* ]]
    # Periods of 4 steps that take 6 (what is left of the last outer step), 1, 1 and 2: the mean.  With
    # two fragments steps 1 and 3 have a turn: 6, 1, 2.5 and 1.
    while read -r fragments expected took; do
        apart $where --sync-every 4 "$fragments" > "$D/plan.yaml"
        for s in 1 2 3 4 5 6 7 8; do steps 1 "$s" step_s "$(cut -d ' ' -f $s <<< "$took")"; done > "$D/log.jsonl"
        [ "$(paro-plan --check "$D" --json | json 'map { sprintf "%.3f", $_->{ratio} } grep { $_->{term} eq "step_s" } @{$d->{terms}}')" = "$expected" ]
    done << END
--fragments=2 2.625 9 1 3 1 6 1 2 1
--outer=G 2.500 9 1 1 2 6 1 1 2
END
}
