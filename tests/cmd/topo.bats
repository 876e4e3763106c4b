# SPDX-License-Identifier: BSD-3-Clause
# paro-topo: golden outputs, exit status, hostile input.
# shellcheck disable=SC2086

load refuses
load expect

FABRICS=$ROOT/examples/fabrics

@test "yaml, golden" {
    expect yaml paro-topo -i 'synth:[3,2],inter=1gbit/rank:50us,memory=80e9,flops=1e14'
}

@test "table, golden" {
    expect table paro-topo -i 'synth:2x[2,1],inter=500mbit:50us,memory=80e9' --format table
}

@test "ring_loss: of all levels between groups, in the table, kept by --set and other groups" {
    paro-topo -i synth:2x2x2,ring_loss=0.0065 > a.yaml
    [ "$(grep -c '^    ring_loss: 0.0065$' a.yaml)" = 2 ]
    paro-topo -i a.yaml --format table > shown
    grep -Fx 'inter: each rank of a ring beyond two adds 0.65 % to its time' shown
    paro-topo -i a.yaml --set ring_loss=0.01 > b.yaml
    [ "$(grep -c '^    ring_loss: 0.01$' b.yaml)" = 2 ]
    run paro-topo -i a.yaml --diff b.yaml
    [ "${lines[0]}" = "inter.ring_loss: 0.01 -> 0.0065 (-35.0 %)" ]
}

@test "table: what a measured fabric knows more, and what it means" {
    cat > known.yaml <<'EOF'
format: paro-topology/1
levels:
  - name: intra
    latency_s: 4e-6
    port_Bps: 810000000
    flow_Bps: 810000000
    member_Bps: 405000000
    latency_err_s: 2.5e-7
    member_err_Bps: 12000000
    compute_left: 0.8
    use_lost_s: 1.25e-3
    latency_busy_s: 2.5e-3
  - name: inter
    latency_s: 5e-5
    port_Bps: 59800000
    flow_Bps: 59800000
    member_Bps: 29900000
    port_err_Bps: 210000
    rate_left: 0.9
    compute_left: 0.85
memory_Bps: 6000000000
groups:
  - ranks: [0, 1]
    numa_nodes: 2
    gpus: 8
  - ranks: [2, 3]
    nics: 4
EOF
    expect table-measured paro-topo -i known.yaml --format table
    paro-topo -i known.yaml > again.yaml
    paro-topo -i again.yaml --diff known.yaml
    sed -i 's/rate_left: 0.9/rate_left: 0.8/; s/_err_Bps: .*/_err_Bps: 1/' again.yaml
    run -1 paro-topo -i again.yaml --diff known.yaml
    [ "$output" = "inter.rate_left: 0.9 -> 0.8 (-11.1 %)" ]
}

@test "json, golden; --json and --format json are the same" {
    paro-topo -i synth:1x2,inter=1GB/s --json > out
    expect json < out
    paro-topo -i synth:1x2,inter=1GB/s --format=json | diff out -
}

@test "print, read, print: a file, -, and standard input without -i" {
    for spec in 2x2 '[8,8,7]' 4x16x8 '3x[2,1],level2=1gbit'; do
        paro-topo -i "synth:$spec" > a.yaml
        paro-topo -i a.yaml > b.yaml
        diff a.yaml b.yaml
        paro-topo -i - < a.yaml > b.yaml
        diff a.yaml b.yaml
        paro-topo < a.yaml > b.yaml
        diff a.yaml b.yaml
    done
}

@test "a rate of each type, and a doubt: read, printed, compared, replaced" {
    paro-topo -i synth:2x2,flops=1e11,flops_bf16=3e11,memory=8GB | sed '/^groups:/i doubt: "a: b"' > both.yaml
    paro-topo -i both.yaml 2> said | cmp - both.yaml
    [ "$(cat said)" = 'paro-topo: doubt: a: b' ]
    paro-topo -i both.yaml --json 2> said | grep -q '"flops":100000000000,"compute_type":"f32","flops_bf16":300000000000,.*"doubt":"a: b"'
    paro-topo -i both.yaml --format table > shown 2> said
    grep -qx 'each rank: memory 7.45 GiB, compute 100 GFLOP/s, 300 GFLOP/s in bf16' shown
    grep -qx 'doubt: a: b' shown
    # The other type becomes the one that plans take: each rate stays with its type.
    paro-topo -i both.yaml --set compute_type=bf16 2> said | sed '/^doubt/d' | cmp - \
        <(paro-topo -i synth:2x2,compute_type=bf16,flops=3e11,flops_f32=1e11,memory=8GB)
    run -1 paro-topo -i both.yaml --set flops_bf16=6e11 --diff both.yaml
    grep -q '^flops_bf16: 300000000000 -> 600000000000 (+100.0 %)$' <<<"$output"
    paro-topo -i both.yaml --diff <(sed '/^flops_bf16/d' both.yaml) 2> said # not measured then
    for f in 's/flops_bf16/flops_f32/' '/^flops:/d'; do
        sed "$f" both.yaml > bad.yaml
        refuses 2 "bad.yaml 'flops' rate compute_type f32 flops_bf16" paro-topo -i bad.yaml
    done
    sed 's/^flops_bf16.*/flops_bf16: fast/' both.yaml > bad.yaml
    refuses 2 "bad.yaml:15: 'flops_bf16'" paro-topo -i bad.yaml
}

@test "a fabric of 16384 ranks within a second of the processor" {
    for spec in 2048x8 16x1024 1x16384; do
        paro-topo -i synth:$spec > a.yaml
        (ulimit -t 1 && paro-topo -i a.yaml --format table) > out
        [[ $(head -n 1 out) == "16384 ranks in "* ]]
    done
}

@test "diff: 0 and nothing, 1 and lines, tolerance, json" {
    paro-topo -i synth:2x2,inter=500mbit > old.yaml
    run -0 paro-topo -i old.yaml --diff old.yaml
    [ -z "$output" ]
    run -1 paro-topo -i synth:2x2,inter=490mbit --diff old.yaml
    [ "${lines[0]}" = "inter.port_Bps: 62500000 -> 61250000 (-2.0 %)" ]
    [ "${lines[3]}" = "groups[0].port_out_Bps: 62500000 -> 61250000 (-2.0 %)" ]
    [ "${#lines[@]}" = 7 ]
    run -0 paro-topo -i synth:2x2,inter=490mbit --diff old.yaml --tolerance 2
    [ -z "$output" ]
    run -1 paro-topo -i synth:3x2,inter=500mbit --diff old.yaml
    [ "$output" = 'groups[2].ranks: absent -> "4,5"' ]
    run -1 paro-topo -i synth:3x2,inter=500mbit --diff old.yaml --json
    [ "$output" = '{"schema":"paro.topo.diff/1","differences":[{"where":"groups[2]","key":"ranks","old":null,"new":"4,5"}],"count":1}' ]
}

# bats test_tags=full
@test "measured: what cannot be is refused before anything is measured" {
    local tiny=$ROOT/examples/models/llama-tiny.json
    refuses 2 '--set --nodes --ranks --hosts --only -i' ranks 1 paro-topo --set inter=1GB/s
    refuses 2 'params=7e9 config.json' ranks 1 paro-topo -m params=7e9
    refuses 2 "--seq 513 512 llama-tiny.json" ranks 1 paro-topo -m "$tiny" --seq 513
    refuses 2 'absent.json' ranks 1 paro-topo -m absent.json
}

# bats test_tags=full
@test "a terminal for input: an error that names the ways in" {
    command -v script > /dev/null || skip "script(1) is not there"
    run -2 script -qec paro-topo /dev/null
    has_words "$output" "paro-topo: expected -i FILE synth:SPEC nvml: standard input mpirun"
}

@test "a full disk is status 2 whatever is printed; a closed pipe is quiet" {
    [ -e /dev/full ] || skip "/dev/full is not there"
    for words in "-i synth:2x2" "-i synth:2x2 --json" "-i synth:2x2 --format table" --help \
        "-i synth:2x2 --format svg" \
        "-i synth:2x2 --hosts a,b --format rankfile" \
        --version "-i synth:2x2 --diff synth:3x2"; do
        ends 2 paro-topo $words > /dev/full 2> said
        [ "$(wc -l < said)" = 1 ]
    done
    ends 2 paro-topo -i synth:2x2 >&- 2> said
    paro-topo -i synth:9999x2 2> said | head -n 1 > out
    [ ! -s said ] && [ "$(cat out)" = "format: paro-topology/1" ]
}

@test "a ring of cables: read, printed, compared, and taken for a switch without some of its hosts" {
    paro-topo -i synth:4x2,inter=240MB/s,cabling=ring > ring.yaml
    grep -qx 'cabling: ring' ring.yaml
    grep -qx '    flow_Bps: 120000000' ring.yaml
    paro-topo -i ring.yaml | diff ring.yaml -
    run -1 paro-topo -i ring.yaml --diff synth:4x2,inter=240MB/s
    [[ $output == *'cabling: switch -> ring'* ]]
    paro-topo -i ring.yaml --hosts a,b,c,d | paro-topo --only a,b,d > three.yaml 2> said
    has_words "$(cat said)" 'doubt: ring of cables switch'
    run ! grep cabling three.yaml
    paro-topo -i ring.yaml --format table | grep -q '^cabled in a ring'
    for shape in 2x2 2x2x2; do
        refuses 2 'cabling=ring two levels three groups' paro-topo -i synth:$shape,cabling=ring
    done
    paro-topo -i ring.yaml --set cabling=switch,inter=240MB/s | diff - <(paro-topo -i synth:4x2,inter=240MB/s)
    paro-topo -i ring.yaml --set inter=480MB/s | diff - <(paro-topo -i synth:4x2,inter=480MB/s,cabling=ring)
    refuses 2 "cabling 'star' expected switch or ring" paro-topo -i synth:4x2,cabling=star
    paro-topo -i synth:2x2 | sed '/^groups:/i cabling: ring' > bad.yaml
    refuses 2 "bad.yaml: 'cabling' ring two levels three groups" paro-topo -i bad.yaml
    paro-plan -m params=1e9 -i ring.yaml > plan.yaml 2> said
    grep -qx 'cabling: ring' plan.yaml
    sed '/^cabling/d' plan.yaml > bad.yaml
    refuses 2 "bad.yaml: 'fabric' other groups" paro-plan --compare plan.yaml bad.yaml
    paro-plan -m params=1e9 -i synth:2x2 2> said | sed -e '/^fabric:/,/^groups:/{/^groups:/!d}' -e 's/^groups:/cabling: ring\n&/' > bad.yaml
    refuses 2 "bad.yaml: 'groups' 2 expected 3 ring" paro-plan --compare plan.yaml bad.yaml
}

@test "files that are something else" {
    echo '<system version="1">' > nccl.xml
    refuses 2 'nccl.xml:2: <system> line 1' paro-topo -i nccl.xml
    printf '\tGPU0\tGPU1\nGPU0\t X \tNV12\n' > smi.txt
    refuses 2 'smi.txt:2: GPU1 expected' paro-topo -i smi.txt
    printf '==============NVSMI LOG==============\nGPU 00000001:00:00.0\n' > log
    refuses 2 'log:1: format paro-topology/1 ==============NVSMI LOG==============' paro-topo -i log
    printf '\177ELF\002\001\001' > junk
    refuses 2 "junk: format paro-topology/1 '?ELF???'" paro-topo -i junk
}

@test "hostile yaml: file, line, key" {
    paro-topo -i synth:2x2 | sed 's/^    port_Bps: .*/    port_Bps: 12abc/' > bad.yaml
    refuses 2 "bad.yaml:5: 'levels[0].port_Bps' 12abc expected 1 1e+25" paro-topo -i bad.yaml
    paro-topo -i synth:2x2 | sed 's/\[2, 3\]/\&a [2, 3]/' > bad.yaml
    refuses 2 '"code":"input" bad.yaml:15: &a "file":"bad.yaml","line":15,"key":null}}' \
        paro-topo -i bad.yaml --json
}

@test "NCCL's machine: yaml, golden; three of them named" {
    paro-topo -i "$FABRICS/nccl.xml" > out 2> said
    [ ! -s said ]
    expect nccl < out
    paro-topo -i out | diff out -
    expect nccl-hosts paro-topo -i "$FABRICS/nccl.xml" --hosts 'gpu[08-10]' --set inter=10GB/s:9us
    paro-topo -i "$FABRICS/nccl.xml" --json | grep -q '"latency_source":"network hop'
}

@test "a file that leaves NVLink open says so, once, on standard error" {
    data=$ROOT/tests/data/topo
    paro-topo -i "$data/nccl-template.xml" > out 2> said
    [ "$(wc -l < said)" = 1 ]
    grep -q 'template.xml: .*NVLink.*--set intra=RATE' said
    paro-topo -i "$data/nccl-template.xml" --set intra=370GB/s > out 2> said
    [ ! -s said ]
    refuses 2 "$data/nccl-template.xml: inter --set inter=RATE --set nic=RATE" \
        paro-topo -i "$data/nccl-template.xml" --nodes 2
    ln -s "$FABRICS/nvidia-smi.txt" smi.txt
    refuses 2 '"code":"input" smi.txt: intra NVLink --set intra=RATE --set nvlink=RATE "file":"smi.txt","line":null,"key":null}}' \
        paro-topo -i smi.txt --json
}

@test "every command that reads a fabric reads these" {
    paro-topo -i "$FABRICS/nccl.xml" > same.yaml
    for f in "$FABRICS/nccl.xml" same.yaml; do
        paro-sched gen all-gather ring 1x4 | paro-sched simulate -i "$f" > "${f##*/}.out"
    done
    diff nccl.xml.out same.yaml.out
    # Nobody is told there of what a file leaves open.
    cp "$ROOT/tests/data/topo/nccl-template.xml" open.xml
    for words in 'paro-plan -m params=1e6 --mem 80e9' 'paro-sched draw all-gather ring' 'paro-bench --simulate'; do
        refuses 2 "open.xml: NVLink '--set intra=RATE' expected 'paro-topo -i" $words -i open.xml
    done
    paro-topo -i open.xml --set intra=370GB/s > closed.yaml
    paro-plan -m params=1e6 -i closed.yaml --mem 80e9 > out
    [ -s out ]
    paro-plan -m params=1e6 -i "$FABRICS/nccl.xml" --mem 80e9 > out
    [ -s out ]
}

@test "hostile XML: entities, depth, junk; file, line, key" {
    f=$FABRICS/nccl.xml
    {
        echo '<!DOCTYPE system ['
        echo '<!ENTITY a "aaaaaaaaaa">'
        for c in b c d e f g h i j; do echo "<!ENTITY $c \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\">"; done
        echo ']>'
        cat "$f"
    } > bomb.xml
    refuses 2 'bomb.xml:1: entities expected' timeout 20 paro-topo -i bomb.xml
    printf '<system version="1">%s' "$(printf '<cpu>%.0s' {1..5000})" > deep.xml
    refuses 2 'deep.xml:1: deep 64' paro-topo -i deep.xml
    sed 's/speed="200000"/speed="12abc"/' "$f" > bad.xml
    refuses 2 '"code":"input" bad.xml:18: 12abc "file":"bad.xml","line":18,"key":"net.speed"}}' \
        paro-topo -i bad.xml --json
}

@test "parts in another order are the same fabric" {
    f=$FABRICS/nccl.xml
    { sed -n 1p "$f"; sed -n 23,43p "$f"; sed -n 2,22p "$f"; echo '</system>'; } > turned.xml
    paro-topo -i turned.xml --diff "$f"
    f=$FABRICS/ibnetdiscover.txt
    for kind in Ca Switch; do
        awk -v kind="$kind" 'BEGIN { RS = ""; ORS = "\n\n" } $0 ~ "\n" kind "\t"' "$f"
    done > turned.txt
    [ "$(grep -c '^\[' turned.txt)" = "$(grep -c '^\[' "$f")" ]
    paro-topo -i turned.txt --diff "$f"
}

@test "diff between any two: what completes one file completes the other" {
    run -1 paro-topo -i "$FABRICS/nvidia-smi.txt" --set nvlink=20GB/s --set nic=24GB/s --nodes 2 \
        --diff "$FABRICS/nccl.xml"
    [ "${lines[0]}" = "intra.port_Bps: 240000000000 -> 360000000000 (+50.0 %)" ]
    [ "${#lines[@]}" = 3 ] # 18 NVLinks for 12; the rest is alike
    run paro-topo -i "$FABRICS/nccl.xml" --nodes 2 --diff "$FABRICS/nvidia-smi.txt" \
        --set nvlink=20GB/s
    [ "$status" = 2 ] # of the other file's network devices nothing is known
    run -1 paro-topo -i synth:4x1 --diff "$FABRICS/ibnetdiscover.txt"
    [ "${lines[0]}" = "intra.latency_s: 1.4e-05 -> 3.0e-06 (-78.6 %)" ]
}

@test "--only: the hosts that are named, with their ports and levels, ranks numbered anew" {
    paro-topo -i 'synth:2x[3,2,2],inter=1GB/s,level2=800MB/s' --hosts 'n[0-5]' > f.yaml
    sed -i 's/host: n4/&\n    port_out_Bps: 31250000/' f.yaml
    paro-topo -i f.yaml --only n4,n0,n1 > out
    # Two of the first block and one of the second: by hand, of the same words.
    paro-topo -i f.yaml --only n4,n0,n1 --format hostfile > hosts
    diff <(printf 'n0 slots=3\nn1 slots=2\nn4 slots=2\n') hosts
    [ "$(grep -c '    port_out_Bps: 31250000' out)" = 1 ]
    diff <(grep -A3 'host:' out | grep -oE 'ranks: .*') <(printf 'ranks: [%s]\n' '0, 1, 2' '3, 4' '5, 6')
    diff <(paro-topo -i f.yaml --only 'n[0-5]') <(paro-topo -i f.yaml)
    diff <(paro-topo -i synth:2x2 --hosts n0,n1 --only n1) <(paro-topo -i synth:1x2 --hosts n1)
    refuses 2 "--only 'n9' hosts of the fabric" paro-topo -i f.yaml --only n0,n9
    refuses 2 "--only 'n0' twice" paro-topo -i f.yaml --only n0,n0
    refuses 2 "--only 'a' hosts" paro-topo -i synth:2x2 --only a
}

@test "slow ports are marked: table, svg" {
    paro-topo -i synth:3x2,inter=500mbit --hosts 'n[0-2]' > f.yaml
    sed 's/host: n1/&\n    port_out_Bps: 31250000/' f.yaml > slow.yaml
    paro-topo -i slow.yaml --format table > out
    grep -qx '    1  n1                        31.25\*         62.50  2,3' out
    grep -q '^\*       slow: 5 %' out
    paro-topo -i slow.yaml --format svg > out
    [ "$(grep -c '<g class="group">' out)" = 3 ]
    grep -q '>slow<' out
    grep -q '>1 slow port: ' out
    # 4 % is what two measurements differ; a group of few ranks, a port each, is not slow.
    sed 's/host: n1/&\n    port_out_Bps: 60e6/' f.yaml > near.yaml
    for f in near.yaml 'synth:[8,8,7],inter=25GB/s/rank'; do
        paro-topo -i "$f" --format table > out
        run grep -c '\*' out
        [ "$output" = 0 ]
        paro-topo -i "$f" --format svg > out
        grep -q '>no port is 5 % and more below' out
    done
}

@test "svg is XML for xmllint, whatever the fabric" {
    command -v xmllint > /dev/null || skip "no xmllint here"
    paro-topo -i synth:2x2 | sed 's/ranks: .0, 1./&\n    host: "<a \&amp; \\"b\\" \\xe4 ]]>"/' > odd.yaml
    for f in odd.yaml synth:1x1 synth:1x1000 synth:100x2 'synth:3x4x[8,8,7]' synth:2x2x2x2x2x2x2x2 \
        synth:2048x8 synth:16384x1x1x1x1x1x1 "$FABRICS/nccl.xml" "$FABRICS/ibnetdiscover.txt"; do
        timeout 10 paro-topo -i "$f" --format svg > out.svg
        xmllint --noout --nonet out.svg
    done
}

@test "host file, rank file: golden; hosts of several groups; ranks by node" {
    paro-topo -i 'synth:[2,1]' --hosts a,b.c --format hostfile > out
    diff <(printf 'a slots=2\nb.c slots=1\n') out
    paro-topo -i 'synth:[2,1]' --hosts a,b.c --format rankfile > out
    diff <(printf 'rank 0=a slot=0\nrank 1=a slot=1\nrank 2=b.c slot=0\n') out
    data=$ROOT/tests/data/topo
    paro-topo -i "$data/nccl-pairs.xml" --hosts y,x --format hostfile > out
    diff <(printf 'y slots=4\nx slots=4\n') out
    cat > by_node.yaml <<'EOF'
format: paro-topology/1
levels:
  - {name: in, latency_s: 0, port_Bps: 4, flow_Bps: 4, member_Bps: 4}
  - {name: out, latency_s: 0, port_Bps: 2, flow_Bps: 2, member_Bps: 1}
groups:
  - {host: b, ranks: [0, 2]}
  - {host: a, ranks: [1, 3]}
EOF
    paro-topo -i by_node.yaml --format rankfile > out
    diff <(printf 'rank 0=b slot=0\nrank 1=a slot=0\nrank 2=b slot=1\nrank 3=a slot=1\n') out
    paro-topo -i by_node.yaml --format hostfile > out
    diff <(printf '# These ranks do not fill the hosts in their order: a rank file places them.\nb slots=2\na slots=2\n') out
}

# bats test_tags=full
@test "Open MPI takes the host file and the rank file" {
    paro-topo -i synth:1x1 --hosts localhost --format hostfile > hosts
    mpirun --hostfile hosts printenv OMPI_COMM_WORLD_SIZE > out 2> said < /dev/null
    [ "$(cat out)" = 1 ]
    paro-topo -i synth:1x1 --hosts localhost --format rankfile > ranks
    mpirun -np 1 --rankfile ranks printenv OMPI_COMM_WORLD_SIZE > out 2> said < /dev/null
    [ "$(cat out)" = 1 ]
}

@test "files as the tools themselves write them" {
    data=${PARO_DATA:-$ROOT/../shared/data}
    [ -d "$data/nccl-topo" ] || skip "no other tools' files in $data"
    ranks() { paro-topo -i "$@" --json 2> said | grep -o '"ranks":[0-9]*' | head -n 1; }
    for f in aws-p4d-24xl azure-ndv4 azure-ndv5; do
        [ "$(ranks "$data/nccl-topo/$f-topo.xml")" = '"ranks":8' ]
        [ "$(ranks "$data/nccl-topo/$f-topo.xml" --nodes 3 --set nic=100Gbit/s)" = '"ranks":24' ]
    done
    refuses 2 "$data/nccl-topo/aws-g5.48xl-topo.xml:12: 'system' GPU expected 'gpu' 'pci' 0x03" \
        paro-topo -i "$data/nccl-topo/aws-g5.48xl-topo.xml"
    [ "$(ranks "$data/hwloc/24em64t-2n6c2t-pci.xml")" = '"ranks":3' ]
    for f in 96em64t-4n4d3ca2co-pci:4 fakeheterodistances:8 nvidia-dgx-gb10:1; do
        [ "$(ranks "$data/hwloc/${f%:*}.xml" --set intra=10GB/s:1us)" = "\"ranks\":${f#*:}" ]
    done
    [ "$(ranks "$data/nvidia-smi/topo-m-dgx1v.txt" --set nvlink=25GB/s)" = '"ranks":8' ]
    paro-topo -i "$data/ib/ibnetdiscover-faked.txt" --json > out
    grep -q '"ranks":10,' out
    [ "$(grep -o '"name":"level[0-9]"' out | tr '\n' ' ')" = '"name":"level2" "name":"level3" ' ]
}

@test "the example of paro-topology(5) is a fabric, printed as it stands" {
    sed -n '/^format: paro-topology/,/^\.Ed/p' "$ROOT/man/paro-topology.5" |
        grep -v '^\.' > example.yaml
    paro-topo -i example.yaml | diff example.yaml -
}

@test "what a file does not know of near links is said, and whose file it is" {
    hwloc() { # VERSION OSDEV: two GPUs of PCIe alone, as hwloc VERSION lists them
        printf '%s' "<topology version=\"2.0\"><object type=\"Machine\"><info name=\"hwlocVersion\" value=\"$1\"/>
          <object type=\"NUMANode\" cpuset=\"0x3\" gp_index=\"2\" local_memory=\"137438953472\"/>
          <object type=\"Bridge\" gp_index=\"5\" bridge_type=\"0-1\" depth=\"0\">
          <object type=\"PCIDev\" gp_index=\"6\" pci_busid=\"0004:04:00.0\" pci_type=\"$3\" pci_link_speed=\"15.753846\">
            $2</object>
          <object type=\"PCIDev\" gp_index=\"8\" pci_busid=\"0004:05:00.0\" pci_type=\"$3\" pci_link_speed=\"15.753846\">
            $2</object></object></object></topology>" > "$D/h.xml"
    }
    local D=$PWD links nvml='<object type="OSDev" name="nvml0" osdev_type="1"/>' nvidia='0302 [10de:1db1] [10de:1212] a1'
    # hwloc lists NVLinks since 2.5.0.
    for version in 2.2.0 2.4.1; do
        hwloc $version "$nvml" "$nvidia"
        paro-topo -i "$D/h.xml" > "$D/t" 2> "$D/e"
        grep -q 'does not describe NVLink; if there is any' "$D/e"
    done
    for version in 2.5.0 2.12.0; do
        hwloc $version "$nvml" "$nvidia"
        paro-topo -i "$D/h.xml" > "$D/t" 2> "$D/e"
        [ ! -s "$D/e" ]
    done
    # AMD's Instinct without ROCm: two GPUs, no NUMA nodes for ranks.
    hwloc 2.9.0 "" '0380 [1002:740f] [1002:0c34] 02'
    paro-topo -i "$D/h.xml" > "$D/t" 2> "$D/e"
    grep -q 'ranks: \[0, 1\]' "$D/t"
    grep -q 'does not describe NVLink' "$D/e"
    links='<distances2 type="PCIDev" nbobjs="2" kind="36" name="XGMIBandwidth" indexing="gp"><indexes length="4">6 8 </indexes><u64values length="20">1000000 100000 100000 1000000 </u64values></distances2>'
    sed "s#</topology>#$links&#" "$D/h.xml" > "$D/x.xml"
    paro-topo -i "$D/x.xml" > "$D/t" 2> "$D/e"
    grep -q 'rate_source: "XGMIBandwidth as the file states it"' "$D/t"
    # One GPU of a tray has no links.
    paro-topo -i "$ROOT/tests/data/nccl-one-without.xml" > "$D/t" 2> "$D/e"
    grep -q ': 1 of 4 GPUs, the first is GPU 1, have no NVLink and are groups of their own$' "$D/e"
    printf '%s' '<system version="2"><cpu numaid="0" arch="x86_64"><pci busid="0000:1d:00.0" class="0x038000">
        <gpu dev="0" gcn="gfx90a" rank="0"><xgmi target="0000:20:00.0" count="4"/></gpu></pci></cpu></system>' > "$D/r.xml"
    refuses 2 'written by RCCL expected NCCL hwloc' paro-topo -i "$D/r.xml"
}

@test "network devices far from all GPUs, C2C links and a slow bridge are named" {
    local f
    matrix() { # mlx5_0 to GPU0 and GPU1
        printf '        GPU0    GPU1    mlx5_0  mlx5_1\nGPU0     X      NV4     %s     PIX\nGPU1    NV4      X      %s     SYS\n' "$@"
        printf 'mlx5_0  %s     %s      X      SYS\nmlx5_1  PIX     SYS     SYS      X\n' "$@"
    }
    matrix SYS SYS > far
    matrix SYS NODE > near
    for f in far near; do
        paro-topo -i $f --set nvlink=25GB/s,nic=50GB/s > $f.yaml 2> $f.said
    done
    has_words "$(cat far.said)" "1 of 2 network devices mlx5_0 at no GPU's processor count as ports"
    [ ! -s near.said ]
    diff <(grep -v doubt far.yaml) near.yaml
    paro-topo -i far.yaml > again.yaml 2> again.said
    diff far.yaml again.yaml
    diff far.said again.said
    # Two processors; the second has a device and no GPU.
    cat > far.xml << 'XML'
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:17:00.0" class="0x060400" link_speed="32 GT/s" link_width="16">
      <pci busid="0000:19:00.0" class="0x030200" link_speed="32 GT/s" link_width="16"><gpu dev="0" sm="90"/></pci>
      <pci busid="0000:1a:00.0" class="0x030200" link_speed="32 GT/s" link_width="16"><gpu dev="1" sm="90"/></pci>
    </pci>
    <nic><net name="mlx5_0" dev="0" speed="100000"/></nic>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <nic><net name="mlx5_0" dev="0" speed="100000"/><net name="mlx5_1" dev="1" speed="100000"/></nic>
  </cpu>
</system>
XML
    paro-topo -i far.xml > far.yaml 2> said
    has_words "$(cat said)" "1 of 2 network devices mlx5_1 at no GPU's processor"
    for f in 0 1; do # the node of one of the two is not known
        sed "s/numaid=\"$f\"/numaid=\"-1\"/" far.xml > unknown.xml
        paro-topo -i unknown.xml > far.yaml 2> said
        [ ! -s said ]
    done
    sed 's,<net name="mlx5_1".*/>,,' far.xml > all.xml
    paro-topo -i all.xml > all.yaml 2> said
    [ ! -s said ]
    # The same to hwloc, whose second processor may be a part of the first one's package, or unknown.
    device() { # OSDEV TYPE PCI-TYPE
        printf '<object type="Bridge" bridge_type="0-1"><object type="PCIDev" pci_type="%s" pci_link_speed="15.75">' "$3"
        printf '<object type="OSDev" name="%s" osdev_type="%s"/></object></object>' "$1" "$2"
    }
    hwloc() { # AT-0 AT-1 OUTSIDE: two NUMA nodes in one package, and what is below each, and below both
        printf '<topology version="2.0"><object type="Machine"><object type="Package">'
        printf '<object type="Group"><object type="NUMANode" os_index="%s"/>%s</object>' 0 "$1" 1 "$2"
        printf '</object>%s</object></topology>' "$3"
    }
    local gpus eth far_ib='1 of 2 network devices mlx5_1 at no GPU'
    gpus=$(device cuda0 5 '0302 [10de:1db1]')$(device mlx5_0 3 '0207 [15b3:1017]')
    eth=$(device eth0 2 '0200 [8086:1572]')
    hwloc "$gpus" "$(device mlx5_1 3 '0207 [15b3:1017]')$eth" "" > hwloc.xml
    paro-topo -i hwloc.xml > hwloc.yaml 2> said
    has_words "$(cat said)" "$far_ib"
    hwloc "$gpus" "" "$(device mlx5_1 3 '0207 [15b3:1017]')$eth" > hwloc.xml
    paro-topo -i hwloc.xml > hwloc.yaml 2> said
    run ! grep 'no GPU' said
    hwloc "$gpus" "$eth" "$(device mlx5_1 3 '0207 [15b3:1017]')$gpus" > hwloc.xml
    paro-topo -i hwloc.xml > hwloc.yaml 2> said
    run ! grep 'no GPU' said
    sed 's/\(0x060400" link_speed="\)32/\12.5/; s,"90"/>,"90"><c2c bw="44712" count="5"/></gpu>,' all.xml > slow.xml
    paro-topo -i slow.xml > slow.yaml 2> said
    has_words "$(cat said)" 'bridge with 3 GB/s slower than every GPU below'
    paro-topo -i slow.xml --set intra=20GB/s > given.yaml 2> said # nothing is left of the bridge's
    [ ! -s said ]
    grep -q 'rate_source: ".*5 NVLink-C2C links of a GPU to its processor join no GPUs' slow.yaml
}
