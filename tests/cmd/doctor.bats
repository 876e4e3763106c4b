# SPDX-License-Identifier: BSD-3-Clause
# paro-topo --doctor on recorded trees: a healthy machine, and machines with one defect each.

load refuses
load doctor_tree

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    make_tree
}

doctor() { paro-topo --doctor -i box "$@"; }

# finds CODE PATTERN...: one finding, of that code, whose line has each PATTERN; then the tree is healthy again.
finds() {
    local code=$1 pattern
    run -1 doctor
    echo "$output"
    [ "${#lines[@]}" = 2 ]
    [[ ${lines[0]} == "WARNING HC-$code "* ]]
    [ "${lines[1]}" = 'node1: 1 found, 0 unknown; 2 GPUs, 3 ports' ]
    for pattern in "${@:2}"; do
        [[ ${lines[0]} == *"$pattern"* ]] || { echo "no $pattern in $output"; return 1; }
    done
    make_tree
}

@test "a healthy machine has nothing" {
    run -0 --separate-stderr doctor
    [ "$output" = 'node1: 0 found, 0 unknown; 2 GPUs, 3 ports' ]
    [ -z "$stderr" ]
    [ "$(doctor --json | perl -MJSON::PP -e 'local $/; my $d = decode_json(<STDIN>);
        print join " ", @$d{qw(schema host gpus ports)}, scalar @{$d->{findings}}')" = 'paro.topo.doctor/1 node1 2 3 0' ]
}

@test "each defect is the finding that it is" {
    local pci=box/sys/bus/pci/devices
    config 2910 001d > $pci/0000:02:00.0/config
    finds 111 0000:02:00.0: '/config+0x14e = 0x001d' 'setpci -s BRIDGE ECAP_ACS+6.w=0'
    echo DMA-FQ > box/sys/kernel/iommu_groups/0000:04:00.0/type
    finds 112 'mlx5_0/1: ' '0000:04:00.0/iommu_group/type = DMA-FQ; boot with iommu=pt'
    rm -r box/sys/class/infiniband/mlx5_1
    rm -r box/sys/class/net/eth0
    run -1 doctor
    [[ ${lines[0]} == 'WARNING HC-113 0000:83:00.0: '*"no port is on the GPU's NUMA node; mlx5_0/1 is on node 0: "*'numa_node = 1;'* ]]
    [ "${#lines[@]}" = 2 ]
    make_tree
    device pci0000:80/0000:80:02.0 0x060400 0x8086 1
    device pci0000:80/0000:80:02.0/0000:90:00.0 0x020700 0x15b3 1
    rdma mlx5_1 0000:90:00.0 InfiniBand
    finds 113 '0000:83:00.0: no port shares a PCIe switch' 'same NUMA node'
    put box/proc/self 'status=Cpus_allowed_list:	0-1'
    finds 114 'NUMA node, 1: box/proc/self/status = 0-1; bind'
    put $pci/0000:83:00.0 current_link_width=8
    finds 115 '0000:83:00.0: the PCIe link has 8 of 16 lanes: ' 'current_link_width = 8;'
    put $pci/0000:04:00.0 'current_link_speed=8.0 GT/s PCIe'
    finds 115 'mlx5_0/1: the PCIe link runs at 8 of 16 GT/s: ' 'current_link_speed = 8.0 GT/s PCIe;'
    put box/sys/class/net/eth0 mtu=1500
    finds 116 'eth0: ' 'sys/class/net/eth0/mtu = 1500; ip link'
    config 2900 0001 > $pci/0000:04:00.0/config
    finds 117 'mlx5_0/1: ' '0000:04:00.0/config+0x68 = 0x2900;'
    rm -r box/sys/module
    finds 118 'sys/module/nvidia_peermem' '= absent; modprobe nvidia-peermem'
    put box/proc/sys/net/ipv4 'tcp_rmem=4096	131072	6291456'
    finds 119 'needs buffers of 12500000 bytes: box/proc/sys/net/ipv4/tcp_rmem = 4096 131072 6291456;'
    put box/proc/sys/net/ipv4 'tcp_wmem=4096	16384	4194304'
    finds 119 tcp_wmem
    put box/proc/sys/net/ipv4 tcp_congestion_control=reno
    finds 120 'tcp_congestion_control = reno;'
    device pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:01.0/0000:84:00.1 0x020000 0x15b3 1
    port eth1 0000:84:00.1 0 9000
    put box/sys/class/net/eth1 carrier=0 operstate=down
    finds 122 'eth1: a port has no link' 'eth1/operstate = down; cable it'
    port ib0 0000:04:00.0 0 9000 # IPoIB of the port mlx5_0, which has a link
    put box/sys/class/net/ib0 carrier=0 operstate=down type=32
    device pci0000:80/0000:80:03.0 0x020000 0x15b3 1 # a card of its own may be a spare
    port eth1 0000:80:03.0 0 9000
    put box/sys/class/net/eth1 carrier=0 operstate=down
    run -0 doctor
    make_tree
    put box/sys/devices/system/cpu/cpu2/cpufreq scaling_governor=powersave
    put box/sys/devices/system/cpu/cpu3/cpufreq scaling_governor=powersave
    finds 121 'cpu2 and 1 more: ' 'cpu2/cpufreq/scaling_governor = powersave; cpupower'
}

@test "ports of one rate with unequal MTUs" {
    device pci0000:80/0000:80:03.0 0x020000 0x15b3 1
    port eth1 0000:80:03.0 100000 4000
    run -1 doctor
    [[ ${lines[0]} == 'WARNING HC-116 eth1: '*', 9000: box/sys/class/net/eth1/mtu = 4000;'* ]]
    [ "${#lines[@]}" = 2 ]
    put box/sys/class/net/eth1 speed=25000
    run -0 doctor
}

@test "what is no defect: other settings of healthy machines" {
    rm -r box/sys/module
    put box/proc/driver/nvidia 'version=NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124'
    rm -r box/sys/devices/system/cpu/cpu*/cpufreq
    rm -r box/sys/kernel/iommu_groups/*
    config 2910 0001 | head -c 256 > box/sys/bus/pci/devices/0000:02:00.0/config
    port eth2 0000:80:01.0 1000 1500
    run -0 doctor
    [ "$output" = 'node1: 0 found, 0 unknown; 2 GPUs, 3 ports' ]
}

@test "before Linux 5.11 the command line tells of the IOMMU" {
    local group
    for group in box/sys/kernel/iommu_groups/*; do
        rm "$group/type"
        echo '0x0 0x1 msi' > "$group/reserved_regions"
    done
    run -0 doctor
    [[ ${lines[0]} == 'UNKNOWN HC-112 0000:03:00.0 and 3 more: '* ]]
    put box/proc 'cmdline=ro intel_iommu=on'
    run -1 doctor
    [[ ${lines[0]} == 'WARNING HC-112 0000:03:00.0 and 3 more: '*': box/proc/cmdline = ro intel_iommu=on; '* ]]
    put box/proc 'cmdline=ro intel_iommu=on iommu=pt'
    run -0 doctor
    [ "${#lines[@]}" = 1 ]
}

@test "what cannot be read is unknown, and no finding" {
    local at
    for at in box/sys/bus/pci/devices/*; do
        config 2910 001d | head -c 64 > "$at/config" # as an ordinary user sees it
    done
    put box/sys/bus/pci/devices/0000:03:00.0 'current_link_speed=2.5 GT/s PCIe'
    rm -r box/proc/sys/net box/sys/devices/system/cpu/online box/proc/self
    echo -1 > box/sys/bus/pci/devices/0000:84:00.0/numa_node
    run -0 doctor
    for at in 111 117 114 115 119 120 121; do
        grep -q "^UNKNOWN HC-$at " <<< "$output" || { echo "$at: $output"; return 1; }
    done
    run ! grep -v '^UNKNOWN\|^node1: 0 found' <<< "$output"
    [ "$(doctor --json | perl -MJSON::PP -e 'local $/; my $d = decode_json(<STDIN>);
        print join " ", sort map { @{$_->{devices}} } grep { $_->{code} eq "HC-111" } @{$d->{findings}}')" = \
        '0000:00:01.0 0000:01:00.0 0000:02:00.0 0000:02:01.0 0000:80:01.0 0000:81:00.0 0000:82:00.0 0000:82:01.0' ]
}

# The second opinion: lspci decodes the same bytes.
@test "a port without a NUMA node is at no known distance" {
    rm -r box/sys/class/infiniband/mlx5_1 box/sys/class/net/eth0
    echo -1 > box/sys/bus/pci/devices/0000:04:00.0/numa_node
    run -0 doctor
    [[ ${lines[0]} == 'UNKNOWN HC-113 0000:83:00.0: '*' NUMA node of the port: '* ]]
}

@test "configuration space means what lspci says" {
    command -v lspci > /dev/null || skip 'needs pciutils'
    local control acs file=box/sys/bus/pci/devices/0000:02:00.0/config
    for control in 2910 2900; do
        for acs in 0001 001d 0004 0008 0010 0002; do
            config $control $acs > box/sys/bus/pci/devices/0000:02:00.0/config
            config $control $acs > box/sys/bus/pci/devices/0000:04:00.0/config
            { echo 02:00.0 bridge
              od -An -v -tx1 -w16 "$file" | awk '{ printf "%02x:%s\n", (NR - 1) * 16, $0 }'; } > dump
            lspci -F dump -vvv > told
            doctor > out || true
            [ "$(grep -c 'RlxdOrd-' told)" = "$(grep -c HC-117 out)" ]
            [ "$(grep -cE 'ACSCtl:.*(ReqRedir\+|CmpltRedir\+|UpstreamFwd\+)' told)" = "$(grep -c HC-111 out)" ]
        done
    done
    grep -q ACSCtl told
}

@test "lists that run in a circle, and files that are not the kernel's, end" {
    local at=box/sys/bus/pci/devices/0000:02:00.0/config
    config 2910 0001 | perl -0777 -pe 'substr($_, 0x148, 4) = pack "V", 0x10010002' > circle
    cp circle $at
    run -0 timeout 20 paro-topo --doctor -i box
    head -c 4096 /dev/zero | tr '\0' '\377' > $at
    run -0 timeout 20 paro-topo --doctor -i box
    rm box/sys/class/net/eth0/mtu
    mkfifo box/sys/class/net/eth0/mtu
    run -0 timeout 20 paro-topo --doctor -i box
    grep -q '^UNKNOWN HC-116 eth0: .*: box/sys/class/net/eth0/mtu$' <<< "$output"
    printf 'a\033[2Jb\n' > box/proc/sys/net/ipv4/tcp_rmem
    run -0 doctor
    run ! grep -q $'\033' <<< "$output"
}

@test "this machine; options that are not its own" {
    run paro-topo --doctor
    [ "$status" -le 1 ]
    [[ ${lines[-1]} == *' found, '*' unknown; '*' GPUs, '*' ports' ]]
    refuses 2 "'absent/sys/class/net'" paro-topo --doctor -i absent
    refuses 2 '--doctor --nodes' paro-topo --doctor --nodes 2
    run -2 sh -c 'paro-topo --doctor -i box > /dev/full'
}
