#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# paro-topo: golden outputs, exit status, hostile input, and the EXAMPLES of its man page.

setup() {
    PATH=$BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
}

# fails STATUS TEXT COMMAND...: the status, nothing on stdout, one line on stderr: TEXT.
fails() {
    local want=$1 text=$2 rc=0
    shift 2
    "$@" > out 2> "said" < /dev/null || rc=$?
    [ "$rc" = "$want" ] || { echo "status $rc of $*"; return 1; }
    [ ! -s out ] || { echo "stdout of $*:"; cat out; return 1; }
    [ "$(cat said)" = "$text" ] || { echo "stderr of $*:"; cat said; return 1; }
}

@test "yaml, golden" {
    paro-topo -i 'synth:[3,2],inter=1gbit/rank:50us,memory=80e9,flops=1e14' > out
    cat > want <<'EOF'
format: paro-topology/1
levels:
  - name: intra
    latency_s: 3.0e-06
    port_Bps: 200000000000
    flow_Bps: 200000000000
    member_Bps: 200000000000
  - name: inter
    latency_s: 5.0e-05
    port_Bps: 375000000
    flow_Bps: 125000000
    member_Bps: 125000000
memory_bytes: 80000000000
flops: 100000000000000
groups:
  - ranks: [0, 1, 2]
  - ranks: [3, 4]
    port_out_Bps: 250000000
    port_in_Bps: 250000000
EOF
    diff want out
}

@test "table, golden" {
    paro-topo -i 'synth:2x[2,1],inter=500mbit:50us,memory=80e9' --format table > out
    cat > want <<'EOF'
6 ranks in 4 groups of 1 to 2, 3 levels
each rank: memory 74.5 GiB, compute unknown

LEVEL              LATENCY us      PORT MB/s      FLOW MB/s    MEMBER MB/s
intra                    3.00      200000.00      200000.00      200000.00
inter                   50.00          62.50          62.50          31.25
level2                  50.00         125.00          62.50          41.67

GROUP  HOST                   OUT MB/s        IN MB/s  BLOCKS  RANKS
    0  -                         62.50          62.50  0       0,1
    1  -                         62.50          62.50  0       2
    2  -                         62.50          62.50  1       3,4
    3  -                         62.50          62.50  1       5

Rates are payload, each way; 1 GB/s is 1e9 bytes per second.
PORT    all ranks behind one port together (intra: one rank; inter: one group)
FLOW    one flow alone
MEMBER  one rank's share when all ranks behind the port send at once
OUT IN  this group's own port at level inter
BLOCKS  the group's block at level2 and further out
EOF
    diff want out
}

@test "json, golden; --json and --format json are the same" {
    paro-topo -i synth:1x2,inter=1GB/s --json > out
    cat > want <<'EOF'
{"schema":"paro.topo/1","ranks":2,"memory_bytes":null,"flops":null,"levels":[{"name":"intra","latency_s":3e-06,"port_Bps":2e+11,"flow_Bps":2e+11,"member_Bps":2e+11},{"name":"inter","latency_s":1.2e-05,"port_Bps":1e+09,"flow_Bps":1e+09,"member_Bps":5e+08}],"groups":[{"group":0,"host":null,"ranks":[0,1],"port_out_Bps":1e+09,"port_in_Bps":1e+09,"blocks":[]}]}
EOF
    diff want out
    paro-topo -i synth:1x2,inter=1GB/s --format=json | diff out -
}

@test "print, read, print: a file, -, and standard input without -i" {
    for spec in 2x2 '[8,8,7]' 4x16x8 '3x[2,1],level2=1gbit'; do
        paro-topo -i "synth:$spec" > a.yaml
        paro-topo -i a.yaml > b.yaml && diff a.yaml b.yaml
        paro-topo -i - < a.yaml > b.yaml && diff a.yaml b.yaml
        paro-topo < a.yaml > b.yaml && diff a.yaml b.yaml
    done
}

@test "a fabric of 16384 ranks within a second" {
    paro-topo -i synth:2048x8 > a.yaml
    timeout 1 paro-topo -i a.yaml --format table > out
    [ "$(head -n 1 out)" = "16384 ranks in 2048 groups of 8, 2 levels" ]
}

@test "diff: 0 and nothing, 1 and lines, tolerance, json" {
    paro-topo -i synth:2x2,inter=500mbit > old.yaml
    run paro-topo -i old.yaml --diff old.yaml
    [ "$status" = 0 ] && [ -z "$output" ]
    run paro-topo -i synth:2x2,inter=490mbit --diff old.yaml
    [ "$status" = 1 ]
    [ "${lines[0]}" = "inter.port_Bps: 62500000 -> 61250000 (-2.0 %)" ]
    [ "${lines[3]}" = "groups[0].port_out_Bps: 62500000 -> 61250000 (-2.0 %)" ]
    [ "${#lines[@]}" = 7 ]
    run paro-topo -i synth:2x2,inter=490mbit --diff old.yaml --tolerance 2
    [ "$status" = 0 ] && [ -z "$output" ]
    run paro-topo -i synth:3x2,inter=500mbit --diff old.yaml
    [ "$status" = 1 ] && [ "$output" = 'groups[2].ranks: absent -> "4,5"' ]
    run paro-topo -i synth:3x2,inter=500mbit --diff old.yaml --json
    [ "$status" = 1 ]
    [ "$output" = '{"schema":"paro.topo.diff/1","differences":[{"where":"groups[2]","key":"ranks","old":null,"new":"4,5"}],"count":1}' ]
    fails 2 "paro-topo: cannot open 'none.yaml': No such file or directory" \
        paro-topo -i old.yaml --diff none.yaml
}

@test "usage: one line, status 2" {
    fails 2 "paro-topo: unknown option '--bogus' (see --help)" paro-topo --bogus
    fails 2 "paro-topo: unexpected argument 'x' (see --help)" paro-topo x
    fails 2 "paro-topo: option '-i' lacks its value, expected INPUT" paro-topo -i
    fails 2 "paro-topo: --format: 'xml', expected yaml, json or table" paro-topo --format xml
    fails 2 "paro-topo: --tolerance: '-1', expected a number from 0 to 100" \
        paro-topo --tolerance=-1
    fails 2 '{"error":{"code":"input","text":"--json and another --format, expected one of them","file":null,"line":null,"key":null}}' \
        paro-topo --json --format table
    fails 2 "paro-topo: synth: 'inetr', expected intra, inter, memory or flops" \
        paro-topo -i synth:2x2,inetr=3
}

@test "a terminal for input: an error that names the ways in" {
    command -v script > /dev/null || skip "script(1) is not there"
    run script -qec paro-topo /dev/null
    [ "$status" = 2 ]
    [[ $output == "paro-topo: no fabric, expected -i FILE, -i synth:SPEC, one on standard input, or mpirun"* ]]
}

@test "--help, -h, --version: standard output, status 0" {
    for option in --help -h; do
        run paro-topo "$option"
        [ "$status" = 0 ]
        [[ $output == "Usage: paro-topo"* ]]
    done
    for option in --input --format --diff --tolerance --json; do
        paro-topo --help | grep -q -e "$option"
    done
    run paro-topo --version
    [ "$status" = 0 ]
    [[ $output =~ ^paro-topo\ [0-9.]+$ ]]
}

@test "a full disk is status 2 whatever is printed; a closed pipe is quiet" {
    [ -e /dev/full ] || skip "/dev/full is not there"
    for words in "-i synth:2x2" "-i synth:2x2 --json" "-i synth:2x2 --format table" --help \
        --version "-i synth:2x2 --diff synth:3x2"; do
        rc=0
        # shellcheck disable=SC2086 # the words are several
        paro-topo $words > /dev/full 2> said || rc=$?
        [ "$rc" = 2 ]
        [ "$(wc -l < said)" = 1 ]
    done
    rc=0
    paro-topo -i synth:2x2 >&- 2> said || rc=$?
    [ "$rc" = 2 ]
    paro-topo -i synth:9999x2 2> said | head -n 1 > out
    [ ! -s said ] && [ "$(cat out)" = "format: paro-topology/1" ]
}

@test "files that are something else" {
    fails 2 "paro-topo: stdin: is empty, expected a document" paro-topo
    : > empty.yaml
    fails 2 "paro-topo: empty.yaml: is empty, expected a document" paro-topo -i empty.yaml
    fails 2 "paro-topo: cannot open 'none': No such file or directory" paro-topo -i none
    fails 2 "paro-topo: cannot read '.': Is a directory" paro-topo -i .
    fails 2 "paro-topo: '/dev/zero' has more than 16777216 bytes" paro-topo -i /dev/zero
    echo '<system version="1">' > nccl.xml
    fails 2 "paro-topo: nccl.xml:1: 'format' is missing, expected 'format: paro-topology/1'; the text begins with '<system version=\"1\">'" \
        paro-topo -i nccl.xml
    printf '\tGPU0\tGPU1\nGPU0\t X \tNV12\n' > smi.txt
    fails 2 "paro-topo: smi.txt: 'format' is missing, expected 'format: paro-topology/1'; the text begins with 'GPU0?GPU1'" \
        paro-topo -i smi.txt
    printf '\177ELF\002\001\001' > junk
    fails 2 "paro-topo: junk: 'format' is missing, expected 'format: paro-topology/1'; the text begins with '?ELF???'" \
        paro-topo -i junk
    echo 'format: paro-topology/2' > two.yaml
    fails 2 "paro-topo: two.yaml:1: 'format' is 'paro-topology/2', expected 'paro-topology/1'" \
        paro-topo -i two.yaml
}

@test "hostile yaml: file, line, key" {
    paro-topo -i synth:2x2 > good.yaml
    sed 's/^    port_Bps: .*/    port_Bps: 12abc/' good.yaml > bad.yaml
    fails 2 "paro-topo: bad.yaml:5: 'levels[0].port_Bps' is '12abc', expected a number from 1 to 1e+25" \
        paro-topo -i bad.yaml
    sed 's/^    flow_Bps/    flwo_Bps/' good.yaml > bad.yaml
    fails 2 "paro-topo: bad.yaml:6: 'levels[0].flwo_Bps' is an unknown key, did you mean 'flow_Bps'?" \
        paro-topo -i bad.yaml
    sed 's/\[2, 3\]/[1, 2]/' good.yaml > bad.yaml
    fails 2 "paro-topo: bad.yaml:15: 'groups[1].ranks[0]' is rank 1, which groups[0] has too, expected each rank once" \
        paro-topo -i bad.yaml
    cat good.yaml <(echo ---) good.yaml > bad.yaml
    fails 2 "paro-topo: bad.yaml:16: begins a second document, expected one" paro-topo -i bad.yaml
    cat good.yaml <(echo 'format: x') > bad.yaml
    fails 2 "paro-topo: bad.yaml:16: 'format' is given twice, first on line 1, expected once" \
        paro-topo -i bad.yaml
    { cat good.yaml; echo "a: &a [$(printf 'x,%.0s' {1..9})x]"; } > bad.yaml
    fails 2 "paro-topo: bad.yaml:16: 'a' is an unknown key, expected one of: format, levels, memory_bytes, flops, groups" \
        paro-topo -i bad.yaml
    sed 's/\[2, 3\]/\&a [2, 3]/' good.yaml > bad.yaml
    fails 2 "paro-topo: bad.yaml:15: has an anchor '&a', expected neither anchors nor aliases" \
        paro-topo -i bad.yaml
    fails 2 '{"error":{"code":"input","text":"bad.yaml:15: has an anchor '"'&a'"', expected neither anchors nor aliases","file":"bad.yaml","line":15,"key":null}}' \
        paro-topo -i bad.yaml --json
    { echo 'format: paro-topology/1'; printf 'levels: '; printf '[%.0s' {1..5000}; } > bad.yaml
    fails 2 "paro-topo: bad.yaml:2: 'levels[0]' is a list, expected a mapping" \
        paro-topo -i bad.yaml
}

@test "every truncation of a file is refused in one line or is a fabric" {
    paro-topo -i synth:2x2,memory=4e9 > good.yaml
    size=$(wc -c < good.yaml)
    for ((n = 0; n < size; n += 3)); do
        head -c "$n" good.yaml > cut.yaml
        rc=0
        paro-topo -i cut.yaml > out 2> said || rc=$?
        if [ "$rc" = 0 ]; then [ ! -s said ]; else
            [ "$rc" = 2 ] && [ ! -s out ] && [ "$(wc -l < said)" = 1 ]
        fi
    done
}

@test "the EXAMPLES of paro-topo(1) run; that of paro-topology(5) is a fabric" {
    man=$BATS_TEST_DIRNAME/../../man
    sed -n 's/^\$ //p' "$man/paro-topo.1" > examples
    [ "$(wc -l < examples)" -ge 4 ]
    while IFS= read -r line; do
        rc=0
        bash -c "$line" > out 2> said || rc=$?
        [ "$rc" = 0 ] || { echo "$line: $rc"; cat said; return 1; }
    done < examples
    sed -n '/^format: paro-topology/,/^\.Ed/p' "$man/paro-topology.5" | grep -v '^\.' > example.yaml
    paro-topo -i example.yaml > again.yaml
    diff example.yaml again.yaml
}

@test "the man page names every option of --help, and lints" {
    man=$BATS_TEST_DIRNAME/../../man
    paro-topo --help | grep -o -e '--[a-z]*' | sort -u > options
    while IFS= read -r option; do
        grep -q -e "Fl -${option#--}" "$man/paro-topo.1" || { echo "$option"; return 1; }
    done < options
    command -v mandoc > /dev/null || skip "mandoc is not there"
    mandoc -Tlint -Wwarning "$man/paro-topo.1" "$man/paro-topology.5"
}
