# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-topo and the GPUs of a machine: -i nvml: and --format nccl.  The driver's library is one
# in software (tests/emulate/nvml/nvml.c), which plays the machine that a file tells; the kernel's
# files are a folder behind nvml:.  The last test asks a real driver, where there is one.

load refuses
load expect

setup() {
    DATA=$ROOT/tests/data/topo
    cd "$BATS_TEST_TMPDIR" || return
    export NVML_MACHINE=$PWD/machine
    driver lib
    kernel 6 143
}

# driver FOLDER [FUNCTION]...: the library, without those functions; found() it from now on.
driver() {
    local folder=$1 words=()
    shift
    for f in "$@"; do words+=("-D$f=lacking_$f"); done
    mkdir -p "$folder"
    # shellcheck disable=SC2086 # make gives what may be two words, "ccache gcc"
    ${CC:-cc} -shared -fPIC "${words[@]}" -o "$folder/libnvidia-ml.so.1" \
        "$ROOT/tests/emulate/nvml/nvml.c"
    found "$PWD/$folder"
}

# found FOLDER: where the library is looked for first; "" where the system has it.
found() { FOUND=$1${1:+${LD_LIBRARY_PATH:+:}}${LD_LIBRARY_PATH:-}; }

# with COMMAND...: it finds that library; asked ARG...: paro-topo, which does.
with() { env LD_LIBRARY_PATH="$FOUND" "$@"; }
asked() { with paro-topo "$@"; }

# kernel FAMILY MODEL: a machine "box" of two nodes with Intel's processors, no PCI devices seen.
kernel() {
    mkdir -p box/proc/sys/kernel box/sys/devices/system/node
    printf 'processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: %s\nmodel\t\t: %s\nmodel name\t: X\n' \
        "$1" "$2" > box/proc/cpuinfo
    echo box-7 > box/proc/sys/kernel/hostname
    echo 0-1 > box/sys/devices/system/node/online
}

# device BUSID PATH CLASS SPEED: a PCI device as the kernel shows it.
device() {
    local at=box/sys/devices/$2/$1
    mkdir -p "$at" box/sys/bus/pci/devices
    ln -s "../../../devices/$2/$1" "box/sys/bus/pci/devices/$1"
    echo "$3" > "$at/class"
    echo 0x8086 > "$at/vendor"
    echo 0x2030 > "$at/device"
    echo "$4 GT/s PCIe" > "$at/max_link_speed"
    echo 16 > "$at/max_link_width"
}

# port NAME DEVICE-PATH STATE RATE: an RDMA device with one port.
port() {
    mkdir -p "box/sys/class/infiniband/$1/ports/1"
    ln -s "../../../devices/$2" "box/sys/class/infiniband/$1/device"
    echo "$3" > "box/sys/class/infiniband/$1/ports/1/state"
    echo "$4" > "box/sys/class/infiniband/$1/ports/1/rate"
}

# around [INPUT]: the same fabric from the XML that is printed of it, and the same XML again.
around() {
    local input=${1:-nvml:$PWD/box} memory
    asked -i "$input" --format nccl > machine.xml
    ! command -v xmllint > /dev/null || xmllint --noout machine.xml
    paro-topo -i machine.xml --format nccl | diff machine.xml -
    # What XML does not state is given: the host and the memory.
    asked -i "$input" > direct.yaml
    memory=$(sed -n 's/^memory_bytes: //p' direct.yaml)
    paro-topo -i machine.xml --hosts "$(sed -n '/host: / { s/.*host: //p; q }' direct.yaml)" \
        --set "memory=$memory" --diff direct.yaml
    paro-topo -i direct.yaml | diff direct.yaml -
}

switched() {
    echo 'driver 580.95.05'
    for i in 0 1 2 3 4 5 6 7; do
        # At rest: generation 1 for now.
        printf 'gpu 0000:%x:00.0 90 150754820096 1/5 16/16 %d %s NVIDIA H200\n' \
            $((0x1b + 16 * i)) $((i / 4)) "$([ $i -lt 4 ] && echo ffffffff || echo ffffffff00000000)"
    done
    for i in 0 1 2 3 4 5 6 7; do
        printf 'link %d 5 switch 0000:07:00.0\nlink %d 4 switch 0000:08:00.0\n' $i $i
        printf 'link %d 4 switch 0000:09:00.0\nlink %d 5 switch 0000:0a:00.0\n' $i $i
    done
}

@test "8 GPUs on NVSwitches: yaml, golden; table, svg, json" {
    switched > machine
    asked -i "nvml:$PWD/box" > out
    expect switched < out
    around
    sed 's/gpu_name: .*/gpu_name: "a\\tb"/' out > bad.yaml
    refuses 2 "bad.yaml:24: 'groups[0].gpu_name' control character expected" \
        paro-topo -i bad.yaml
    asked -i "nvml:$PWD/box" --format table | grep -qx '8 ranks in 1 group of 8, 2 levels'
    asked -i "nvml:$PWD/box" --format svg | xmllint --noout -
    asked -i "nvml:$PWD/box" --json | grep -q '"gpus":8,"gpu_name":"NVIDIA H200"'
    # Four such machines, whose network nothing tells of.
    refuses 2 'nvml: rate inter machines --set inter=RATE' \
        asked -i "nvml:$PWD/box" --nodes 4
    asked -i "nvml:$PWD/box" --nodes 4 --set inter=400GB/s:12us --hosts 'n[0-3]' > out
    [ "$(grep -c 'gpus: 8' out)" = 4 ]
    # Every command that reads a fabric reads this.
    with paro-plan -m params=1e9 -i "nvml:$PWD/box" > plan.yaml
    grep -qx 'device: cuda' plan.yaml # whose memory that is
    paro-sched gen all-gather ring 1x8 |
        with paro-sched simulate -i "nvml:$PWD/box" > out
    [ -s out ]
}

@test "8 GPUs on NVSwitches: NCCL's XML, golden" {
    switched > machine
    asked -i "nvml:$PWD/box" --format nccl > out
    expect switched.xml < out
    # Of an EPYC of the third generation NCCL writes CPUID's own fields: 15 + (10 << 4).
    printf 'vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n' > box/proc/cpuinfo
    asked -i "nvml:$PWD/box" --format nccl |
        grep -q '<cpu numaid="0" .* vendor="AuthenticAMD" familyid="175" modelid="1">'
}

@test "4 GPUs, NVLink in pairs: the fabric of the XML that was written by hand" {
    kernel 6 85
    cat > machine <<'END'
driver 535.54
gpu 0000:17:00.0 86 51527024640 4/4 16/16 0 ff NVIDIA RTX A6000
gpu 0000:1a:00.0 86 51527024640 4/4 16/16 0 ff NVIDIA RTX A6000
gpu 0000:65:00.0 86 51527024640 4/4 16/16 1 ff00 NVIDIA RTX A6000
gpu 0000:68:00.0 86 51527024640 4/4 16/16 1 ff00 NVIDIA RTX A6000
meet 0 1 10
meet 2 3 10
link 0 4 gpu 0000:1a:00.0
link 1 4 gpu 0000:17:00.0
link 2 4 gpu 0000:68:00.0
link 3 4 gpu 0000:65:00.0
END
    # 4 x 12 GB/s inside a pair; 10 GB/s from one Skylake to the other, for two.
    run -1 asked -i "nvml:$PWD/box" --diff "$DATA/nccl-pairs.xml"
    [ "$output" = 'memory_bytes: 0 -> 51527024640
groups[0].host: "" -> box-7
groups[1].host: "" -> box-7' ]
    around
    # A switch is there for each pair, though the kernel shows none.
    [ "$(grep -c 'class="0x060400"' machine.xml)" = 2 ]
    grep -q '<pci busid="ffff:ff:00.1" class="0x060400" link_speed="" link_width="0">' machine.xml
    # One end has lost a link: the other one tells.
    sed -i 's/link 1 4/link 1 3/' machine
    refuses 2 "nvml: 'gpu' 3 NVLinks GPU 4 back expected" \
        asked -i "nvml:$PWD/box"
    # Both have: it is there and down.
    sed -i 's/link 0 4/link 0 3/' machine
    printf 'down 0 1\ndown 1 1\n' >> machine
    asked -i "nvml:$PWD/box" | grep -q 'rate_source: "3 NVLinks of 12 GB/s'
}

@test "switches above switches, as NVML tells how far up GPUs meet" {
    # 0 1 | 2 3 below one switch each, both below another one; 4 by itself.
    {
        for i in 0 1 2 3 4; do
            echo "gpu 0000:0$((i + 1)):00.0 80 1000000000 4/4 16/16 -1 ff NVIDIA A100"
        done
        printf 'meet 0 1 10\nmeet 2 3 10\n'
        for pair in '0 2' '0 3' '1 2' '1 3'; do echo "meet $pair 20"; done
        for i in 0 1 2 3; do echo "meet $i 4 30"; done
    } > machine
    asked -i "nvml:$PWD/box" --format nccl | sed -n 's/^\( *\)<pci busid="\([^"]*\)".*/\1\2/p' | expect switches
    around
}

@test "switches and network devices as the kernel shows them" {
    # A root port, a switch's upper and lower ports, a device: the lower ones and the root count
    # as nothing, as to NCCL.
    for side in 0 1; do
        up=pci0000:${side}0/0000:${side}0:01.0
        device 0000:${side}0:01.0 pci0000:${side}0 0x060400 16.0
        device 0000:${side}1:00.0 $up 0x060400 16.0
        for d in 0 1 2; do
            at=$up/0000:${side}1:00.0
            device 0000:${side}2:0$d.0 $at 0x060400 32.0
            class=$([ $d = 2 ] && echo 0x020700 || echo 0x030200)
            device 0000:${side}$((3 + d)):00.0 $at/0000:${side}2:0$d.0 "$class" 32.0
        done
        port mlx5_$side "$at/0000:${side}2:02.0/0000:${side}5:00.0" '4: ACTIVE' '400 Gb/sec (4X NDR)'
    done
    port mlx5_2 pci0000:00/0000:00:01.0 '1: DOWN' '400 Gb/sec (4X NDR)'
    for i in 0 1 2 3; do
        echo "gpu 0000:$((i / 2))$((3 + i % 2)):00.0 89 48305799168 4/4 16/16 $((i / 2)) ff NVIDIA L40S"
    done > machine
    expect network.xml asked -i "nvml:$PWD/box" --format nccl
    around
    grep -qx '    nics: 2' direct.yaml
    # Inside 24 GB/s of generation 4, 22 from one Sapphire Rapids to the other; outside twice
    # 400 Gbit/s, of which PCIe 5 passes 48 GB/s, for four.
    asked -i "nvml:$PWD/box" --nodes 2 > out
    grep -A4 'name: intra' out | sed -n 's/.*_Bps: //p' | tr '\n' ' ' | grep -qx '24000000000 22000000000 22000000000 '
    grep -A4 'name: inter' out | sed -n 's/.*_Bps: //p' | tr '\n' ' ' | grep -qx '96000000000 48000000000 24000000000 '
    # One more, on a node that the kernel does not know, or on one that has no GPU.
    device 0000:c0:01.0 pci0000:c0 0x020700 32.0
    port mlx5_3 pci0000:c0/0000:c0:01.0 '4: ACTIVE' '400 Gb/sec (4X NDR)'
    asked -i "nvml:$PWD/box" > out 2> said
    [ ! -s said ]
    echo 2 > box/sys/devices/pci0000:c0/0000:c0:01.0/numa_node
    asked -i "nvml:$PWD/box" > out 2> said
    has_words "$(cat said)" "1 of 3 network devices mlx5_3 at no GPU's processor"
    around 2> said
}

@test "2 GPUs by PCIe: the lanes that are there now, the generation at most" {
    cat > machine <<'END'
gpu 0000:01:00.0 75 15843721216 1/3 8/16 0 f Tesla T4
gpu 0000:02:00.0 75 16000000000 3/3 16/16 0 f Tesla P4
meet 0 1 30
END
    asked -i "nvml:$PWD/box" > out
    # 8 lanes of generation 3.
    grep -A4 'name: intra' out | grep -qx '    port_Bps: 6000000000'
    grep -qx 'memory_bytes: 15843721216' out
    grep -qx '    gpu_name: "Tesla T4 and others"' out
    around
    # A virtual GPU has no PCIe link to tell of.
    sed -i 's,1/3 8/16,0/0 0/0,' machine
    refuses 2 'nvml: rate intra PCIe --set intra=RATE' \
        asked -i "nvml:$PWD/box"
    asked -i "nvml:$PWD/box" --set intra=5GB/s > out
    # Its XML says so without one.
    asked -i "nvml:$PWD/box" --format nccl | grep -q 'busid="0000:01:00.0".* link_speed="" link_width="0"'
}

@test "1 GPU: alone on PCIe; and one of a machine whose switches are hidden" {
    echo 'gpu 0000:01:00.0 89 24000000000 4/4 16/16 0 f NVIDIA L4' > machine
    asked -i "nvml:$PWD/box" > out
    [ "$(grep -cx '    port_Bps: 24000000000' out)" = 2 ]
    around
    echo 'gpu 0000:01:00.0 90 150754820096 5/5 16/16 0 f NVIDIA H200' > machine
    echo 'link 0 18 hidden -' >> machine
    asked -i "nvml:$PWD/box" > out
    [ "$(grep -cx '    port_Bps: 370800000000' out)" = 2 ]
    around
    grep -q '<nvlink target="ffff:ff:ff.f" count="18" tclass="0x068000"/>' machine.xml
    # One whose peer is another container's: no switch, and nothing to talk to.
    echo 'gpu 0000:01:00.0 86 24000000000 4/4 16/16 0 f NVIDIA RTX A5000' > machine
    echo 'link 0 4 gpu 0000:99:00.0' >> machine
    asked -i "nvml:$PWD/box" > out
    [ "$(grep -cx '    port_Bps: 24000000000' out)" = 2 ]
    around
}

@test "an older driver: what it cannot say is done without, or named" {
    switched > machine
    asked -i "nvml:$PWD/box" > want
    driver older nvmlDeviceGetNvLinkRemoteDeviceType nvmlDeviceGetTopologyCommonAncestor
    asked -i "nvml:$PWD/box" | diff want -
    # Nodes as the kernel knows them.
    driver older nvmlDeviceGetMemoryAffinity
    for i in 1b 2b 3b 4b; do device 0000:$i:00.0 pci0000:00 0x030200 32.0; done
    for i in 5b 6b 7b 8b; do device 0000:$i:00.0 pci0000:80 0x030200 32.0; done
    for i in box/sys/devices/pci0000:00/*; do echo 0 > "$i/numa_node"; done
    for i in box/sys/devices/pci0000:80/*; do echo 1 > "$i/numa_node"; done
    asked -i "nvml:$PWD/box" | diff want -
    asked -i "nvml:$PWD/box" --format nccl > out
    [ "$(grep -c '<cpu ' out)" = 2 ]
    driver old nvmlDeviceGetNvLinkRemotePciInfo_v2
    refuses 2 'nvml: libnvidia-ml.so.1 580.95.05 nvmlDeviceGetNvLinkRemotePciInfo_v2 newer driver' \
        asked -i nvml:
}

@test "no driver, one that fails, no GPU, a lost one: one line, status 2" {
    local absent='nvml: libnvidia-ml.so.1 No such file'
    if ! ldconfig -p | grep -q libnvidia-ml; then
        refuses 2 "$absent" paro-topo -i nvml:
        refuses 2 "$absent" paro-topo -i nvml: --format nccl
        refuses 2 "\"code\":\"absent\" $absent \"file\":null,\"line\":null,\"key\":null}}" \
            paro-topo -i nvml: --json
        refuses 2 "$absent" paro-plan -m params=1e9 -i nvml:
    fi
    mkdir junk
    echo junk > junk/libnvidia-ml.so.1
    found "$PWD/junk"
    refuses 2 'nvml: libnvidia-ml.so.1' asked -i nvml:
    found "$PWD/lib"
    echo 'fail nvmlInit_v2 -1 18' > machine
    refuses 2 'nvml: driver Driver/library version mismatch 18' asked -i nvml:
    refuses 2 '"code":"device" nvml: version mismatch 18 "file":null,"line":null,"key":null}}' \
        asked -i nvml: --json
    echo 'driver 1.0' > machine
    refuses 2 'nvml: no GPU expected' asked -i nvml:
    switched > machine
    echo 'fail nvmlDeviceGetHandleByIndex_v2 3 15' >> machine
    refuses 2 'nvml: GPU 3: GPU is lost 15' asked -i nvml:
    switched > machine
    echo 'fail nvmlDeviceGetNvLinkState 5 15' >> machine
    refuses 2 'nvml: GPU 5, NVLink 0: GPU is lost 15' asked -i nvml:
    # A sandbox that lets not all questions through.
    sed -i '/^link/d; s/5 15$/5 999/' machine
    for i in 0 1 2 3 4 5 6 7; do echo "down $i 1"; done >> machine
    asked -i "nvml:$PWD/box" 2> said > out
    [ "$(wc -l < said)" = 1 ]
    has_words "$(cat said)" 'paro-topo: nvml: NVLink --set intra=RATE'
    refuses 2 'nvml: driver NVLink NCCL' asked -i nvml: --format nccl
    refuses 2 "nvml: NVLink --set intra=RATE expected 'paro-topo -i" \
        with paro-plan -m params=1e9 -i "nvml:$PWD/box"
}

@test "--format nccl: of hwloc a template, of the rest what is missing" {
    paro-topo -i "$DATA/hwloc2-devices.xml" --format nccl > out
    expect hwloc.xml < out
    # The mark that some editors put before UTF-8 is none of the text.
    { printf '\xef\xbb\xbf'; cat "$DATA/hwloc2-devices.xml"; } > marked.xml
    paro-topo -i marked.xml --format nccl | diff out -
    # The same ranks; NCCL counts payload: 12 GB/s of generation 3.
    paro-topo -i out 2> said | grep -qx '    port_Bps: 12000000000'
    has_words "$(cat said)" 'NVLink --set intra=RATE'
    f=$ROOT/examples/fabrics/hwloc.xml
    refuses 2 "$f: NVLinks count expected nvml: XML of NCCL" paro-topo -i "$f" --format nccl
    refuses 2 "$DATA/hwloc2-processors.xml: GPU expected" \
        paro-topo -i "$DATA/hwloc2-processors.xml" --format nccl
    paro-topo -i synth:2x2 > f.yaml
    for f in f.yaml synth:2x2 "$ROOT/examples/fabrics/nvidia-smi.txt" "$ROOT/examples/fabrics/ibnetdiscover.txt"; do
        refuses 2 "$f PCI devices expected nvml: XML of NCCL hwloc" paro-topo -i "$f" --format nccl
    done
    refuses 2 '--format nccl expected -i nvml:' ranks 2 paro-topo --format nccl
}

@test "--format nccl: NCCL's own XML again, whatever it has; a broken one is refused" {
    for f in "$ROOT/examples/fabrics/nccl.xml" "$DATA"/nccl-*.xml "$ROOT"/../shared/data/nccl-topo/*.xml; do
        [ -e "$f" ] || continue
        if ! grep -qE '<gpu|class="0x03' "$f"; then # an overlay, of bus ids alone
            line=$(grep -n '<system' "$f" | cut -d : -f 1)
            refuses 2 "$f:$line: 'system' GPU expected 'gpu' 'pci' 0x03" \
                paro-topo -i "$f" --format nccl
            continue
        fi
        paro-topo -i "$f" --format nccl > again.xml
        diff <(xmllint --noblanks --exc-c14n "$f" | sed -z 's/<!--[^>]*-->//g' | sed '/^$/d') \
            <(xmllint --noblanks --exc-c14n again.xml | sed '/^$/d')
        paro-topo -i - --format nccl < again.xml > third.xml
        diff again.xml third.xml
    done
    sed 's/count="6"/count="six"/' "$ROOT/examples/fabrics/nccl.xml" > bad.xml
    refuses 2 "bad.xml:6: 'nvlink.count' six expected 0 1000" \
        paro-topo -i bad.xml --format nccl
    ends 2 paro-topo -i "$ROOT/examples/fabrics/nccl.xml" --format nccl > /dev/full 2> said
    [ "$(wc -l < said)" = 1 ]
}

@test "measuring: the driver's GPUs, with their name; not in the place of another machine's file" {
    switched > machine
    # The launcher itself finds no such library: its hwloc may look for one.
    mpirun -np 1 env LD_LIBRARY_PATH="$FOUND" paro-topo > out
    grep -qx '    gpus: 8' out
    grep -qx '    gpu_name: "NVIDIA H200"' out
    paro-topo -i out | diff out -
    mpirun -np 1 env LD_LIBRARY_PATH="$FOUND" HWLOC_XMLFILE="$DATA/hwloc2-devices.xml" \
        paro-topo > out
    grep -qx '    gpus: 2' out
    run -1 grep gpu_name out
    # A driver that fails: hwloc's count, or none, as before.
    echo 'fail nvmlInit_v2 -1 9' > machine
    mpirun -np 1 env LD_LIBRARY_PATH="$FOUND" paro-topo > out
    run -1 grep gpu_name out
}

@test "a real driver: as many GPUs as it lists, and the same fabric around by NCCL's XML" {
    [ -e /dev/nvidia0 ] || skip "/dev/nvidia0 is not there"
    found ''
    asked -i nvml: > out
    cat out
    if command -v nvidia-smi > /dev/null; then
        grep -qx "    gpus: $(nvidia-smi -L | grep -c '^GPU ')" out
        grep -q "gpu_name: \"$(nvidia-smi -i 0 --query-gpu=name --format=csv,noheader)" out
    fi
    [ "$(sed -n 's/^memory_bytes: //p' out)" -gt 1000000000 ]
    around nvml:
    cat machine.xml
    mpirun -np 1 paro-topo > measured
    [ "$(grep 'gpus:\|gpu_name:' measured)" = "$(grep 'gpus:\|gpu_name:' out)" ]
}
