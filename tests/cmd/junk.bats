# SPDX-License-Identifier: BSD-3-Clause
# Numbers with junk, models of absurd size, fabrics that cannot be: status 2, nothing on standard
# output, one line that says where and what.

load refuses

TINY=examples/models/llama-tiny.json

setup() {
    cd "$ROOT" || exit
    D=$BATS_TEST_TMPDIR
}

# bounded WORDS COMMAND...: refused, in half a minute, with 1 GiB: a size that is believed ends here.
bounded() {
    local words=$1 limit='ulimit -v 1048576'
    shift
    # A sanitizer maps terabytes for itself: there each of the program's own pieces is limited.
    [ -z "${SAN-}" ] || limit="export ASAN_OPTIONS='$ASAN_OPTIONS:max_allocation_size_mb=1024'"
    refuses 2 "$words" sh -c "$limit;"' exec timeout 30 "$@"' sh "$@"
    [[ $refusal == "$1: "* ]]
}

@test "paro-plan: a number with junk names its option and what was typed" {
    for option in mem seq accum micro-batch prefetch buckets keep trainable; do
        for junk in 12abc 0x10 1e3x nan inf -1 -0.5 1e30 99999999999999999999 '' ' 4' +4 '4,' 1/2; do
            case $option$junk in mem+4 | trainable1/2) continue ;; esac
            bounded "--$option '$junk' expected" paro-plan -m $TINY -i synth:2x2 "--$option=$junk"
        done
    done
    for option in mem seq accum micro-batch buckets; do
        bounded "--$option '0' expected" paro-plan -m $TINY -i synth:2x2 --$option=0
    done
    for option in mem seq accum micro-batch prefetch buckets keep; do
        bounded "--$option '1.5' expected" paro-plan -m $TINY -i synth:2x2 --$option=1.5
    done
    for junk in 12abc 0x10 1e3x nan inf -1 0 1e99 ''; do
        bounded "--trainable '$junk' expected" paro-plan -m $TINY -i synth:2x2 "--trainable=params=$junk"
        bounded "params= '$junk' expected" paro-plan -m "params=$junk" -i synth:2x2
    done
    for junk in 12abc nan inf -1 0 1e30 0x10; do
        for word in intra inter memory flops; do
            bounded "$word '$junk' expected" paro-plan -m $TINY -i "synth:2x2,$word=$junk"
        done
    done
}

# config KEY VALUE: the tiny model with another value of a key that it has, or with one more.
config() {
    if grep -q "\"$1\":" $TINY; then
        sed "s/\"$1\": *[^,}]*/\"$1\": $2/" $TINY
    else
        sed "0,/{/s//{\"$1\": $2,/" $TINY
    fi > "$D/c.json"
}

# bats test_tags=full
@test "a model of absurd size is refused by its key, and one that is only huge does not fit" {
    for key in vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads \
        num_key_value_heads head_dim max_position_embeddings; do
        for value in -1 0 2147483649 9223372036854775807 1.5 1e3 '"8"' '[8]' true; do
            config $key "$value"
            line=$(grep -n "\"$key\":" "$D/c.json" | cut -d: -f1)
            bounded "c.json:$line: '$key'" paro-plan -m "$D/c.json" -i synth:2x2
        done
        for value in 9223372036854775808 1e999 nan 08; do
            config $key $value
            bounded "c.json" paro-plan -m "$D/c.json" -i synth:2x2
        done
    done
    for key in rms_norm_eps rope_theta; do
        for value in -1 0 1e31 '"x"'; do
            config $key "$value"
            bounded "'$key'" paro-plan -m "$D/c.json" -i synth:2x2
        done
    done
    # All bounds at once: no product overflows, and nothing is sized by it.
    cat > "$D/huge.json" <<EOF
{"model_type": "llama", "vocab_size": 16777216, "hidden_size": 1048576, "intermediate_size": 4194304,
 "num_hidden_layers": 16384, "num_attention_heads": 256, "head_dim": 65536,
 "max_position_embeddings": 2147483648}
EOF
    bounded "1.37e+18 parameters 1048576 16777216 tokens bytes rank less 2^62" paro-plan \
        -m "$D/huge.json" -i synth:2x2,flops=1M --mem 1e18 --micro-batch 1048576 --accum 1048576 --seq 16777216
    sed 's/16384/100/' "$D/huge.json" > "$D/large.json"
    run -1 --separate-stderr timeout 200 paro-plan -m "$D/large.json" -i synth:2x2,flops=1M --mem 1e15 \
        --accum 1048576
    has_words "$stderr" 'no feasible plan GGG'
}

@test "traffic grows with the micro-steps, where an int does not hold how often a layer is gathered" {
    config num_hidden_layers 4096
    for accum in 1 1024 1048576; do
        paro-plan -m "$D/c.json" -i synth:2x2,flops=1e12,memory=80e9 --strategy GGG --accum $accum
    done > "$D/plans"
    # a + b x accum: the slope b is the same from 1 to 2^10 as from there to 2^20.  Of the 16 digits
    # printed, sums of 4096 layers and two differences leave 10.
    awk '$1 == "comm_s:" { s[n++] = $2 }
        END {
            b = (s[1] - s[0]) / 1023
            far = (s[2] - s[1]) / (1048576 - 1024) / b - 1
            print n, b, far
            exit !(n == 3 && b > 0 && far * far < 1e-20)
        }' "$D/plans"
}

# fabric SED...: a fabric with something changed.
fabric() {
    paro-topo -i synth:2x2 > "$D/good.yaml"
    sed "$@" "$D/good.yaml" > "$D/f.yaml"
}

# everywhere WORDS: by every command that reads a fabric.
everywhere() {
    bounded "$1" paro-topo -i "$D/f.yaml"
    bounded "$1" paro-plan -m $TINY -i "$D/f.yaml"
    bounded "$1" paro-sched draw -i "$D/f.yaml" all-gather ring
    bounded "$1" paro-sched pick -i "$D/f.yaml"
    bounded "$1" paro-bench --simulate -i "$D/f.yaml"
}

@test "a fabric that cannot be is refused by every command, with file, line and key" {
    fabric 's/\[2, 3\]/[1, 2]/'
    everywhere "f.yaml:15: 'groups[1].ranks[0]' 1 groups[0]"
    fabric '10s/: .*/: 0/'
    everywhere "f.yaml:10: 'levels[1].port_Bps' '0' expected 1"
    fabric '11s/: .*/: -5/'
    everywhere "f.yaml:11: 'levels[1].flow_Bps' '-5' expected 1"
    fabric '12d'
    everywhere "f.yaml:8: 'levels[1].member_Bps' missing"
    fabric '12s/: .*/: 25e10/'
    everywhere "f.yaml:12: 'levels[1].member_Bps' 2.5e+11 port_Bps"
    fabric '8,12d'
    everywhere "f.yaml:2: 'levels' 1 expected 2"
    paro-topo -i synth:2x2x2x2 > "$D/good.yaml"
    # groups 0 and 1 are one block of the third level, but of two of the fourth
    sed '0,/blocks: \[0, 0\]/s//blocks: [0, 1]/' "$D/good.yaml" > "$D/f.yaml"
    everywhere "'groups[1].blocks[1]' 0 groups[0] block 0 1 expected nest"
}

@test "a mark before UTF-8 is none of the text, in every file of paro's own" {
    mark() { printf '\357\273\277' | cat - "$1" > "$1.marked"; }
    paro-topo -i synth:2x2,memory=1e9,flops=50e9 > "$D/f.yaml"
    mark "$D/f.yaml"
    paro-plan -m $TINY -i "$D/f.yaml.marked" > "$D/p.yaml"
    paro-plan -m $TINY -i "$D/f.yaml" | cmp - "$D/p.yaml"
    paro-sched pick -i synth:2x2 --table > "$D/t.yaml"
    mark "$D/t.yaml"
    paro-sched pick --tuning "$D/t.yaml.marked" > "$D/a"
    paro-sched pick --tuning "$D/t.yaml" | cmp - "$D/a"
    printf '\377\376<\0' > "$D/f.yaml"
    everywhere "f.yaml:1: UTF-16 expected UTF-8"
}

@test "a zero byte does not end a file before its end" {
    printf 'format: paro-settings/1\nlr: 1e-3\n\0junk: 3\n' > "$D/s.yaml"
    bounded "$D/s.yaml expected text" paro-train --print-config --config "$D/s.yaml"
    { paro-topo -i synth:2x2; printf '\0x: 3\n'; } > "$D/f.yaml"
    everywhere "f.yaml:16: YAML control characters"
    { cat examples/fabrics/nvidia-smi.txt; printf '\0x\n'; } > "$D/f.yaml"
    everywhere "f.yaml: 0x00 expected text"
    { cat examples/fabrics/nccl.xml; printf '\0<x>\n'; } > "$D/f.yaml"
    bounded "f.yaml:" paro-topo -i "$D/f.yaml"
    paro-sched gen all-gather ring 2x2 > "$D/s"
    printf '\0x\n' >> "$D/s"
    bounded "$D/s" paro-sched verify "$D/s"
    { cat $TINY; printf '\0'; } > "$D/c.json"
    bounded "c.json" paro-plan -m "$D/c.json" -i synth:2x2
    { paro-plan -m $TINY -i synth:2x2,memory=1e9; printf '\0x: 3\n'; } > "$D/p.yaml"
    bounded "p.yaml:" paro-plan --check "$D/none" "$D/p.yaml"
    { paro-sched pick -i synth:2x2 --table; printf '\0x: 3\n'; } > "$D/t.yaml"
    bounded "t.yaml:" paro-sched pick --tuning "$D/t.yaml"
}

# What a terminal obeys, lays lines out by or cannot show, in a message or in its JSON.
@test "a message shows nothing of a file that steers a terminal, and its JSON is JSON" {
    local odd
    odd=$(printf 'a\xe2\x80\xaeb\xe2\x81\xa6\xc2\x9b1m\xe2\x80\xa8c\xff')
    cd "$D" || return
    printf '%s GPU0\n' "$odd" > smi
    printf 'format: paro-topology/1\n"%s": 1\n' "${odd%?}" > yaml
    printf '<system version="%s"/>' "${odd%?}" > nccl
    printf 'Ca 1 "%s"\n' "$odd" > ib
    printf 'paro-schedule/1\nalgo %s\n' "$odd" > schedule
    cp schedule "$odd"
    for words in 'paro-topo -i smi' 'paro-topo -i yaml' 'paro-topo -i nccl' 'paro-topo -i ib' \
        'paro-sched verify schedule' "paro-sched verify $odd" "paro-sched $odd"; do
        read -ra command <<< "$words"
        ends 2 "${command[@]}" > out 2> said
        [ ! -s out ]
        [ "$(wc -l < said)" = 1 ]
        perl -CI -ne 'exit 1 if /[^\P{C}\n]|[\x{2028}\x{2029}\x{fffd}]/' said || { cat -v said; return 1; }
        "${command[@]}" --json > out 2> said || true
        perl -MJSON::PP -0777 -ne 'my $d = JSON::PP->new->utf8->decode($_);
            exit !length $d->{error}{text} || $d->{error}{text} =~ /[\p{C}\x{2028}\x{2029}]/' said
        perl -CI -ne 'exit 1 if /[^\P{C}\n]|[\x{2028}\x{2029}]/' said || { cat -v said; return 1; }
    done
}
