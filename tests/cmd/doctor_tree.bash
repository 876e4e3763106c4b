# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A healthy machine in the folder box, for paro-topo --doctor: two processors, each with a switch, below it a
# GPU and a port of RDMA.  The second port is RoCE on eth0.
#
#     00:01.0 - 01:00.0 - 02:00.0 - 03:00.0 GPU      80:01.0 - 81:00.0 - 82:00.0 - 83:00.0 GPU
#                       \ 02:01.0 - 04:00.0 mlx5_0                     \ 82:01.0 - 84:00.0 mlx5_1, eth0

# config CONTROL ACS: 4096 bytes of configuration space.  Capabilities: power management at 0x40, PCI
# Express at 0x60 with device control CONTROL.  Extended ones: errors at 0x100, ACS at 0x148.
config() {
    perl -e '
        my ($control, $acs) = map { hex } @ARGV;
        my $c = "\0" x 4096;
        substr($c, 0x06, 2) = pack "v", 0x0010;
        substr($c, 0x34, 1) = pack "C", 0x40;
        substr($c, 0x40, 2) = pack "CC", 0x01, 0x60;
        substr($c, 0x60, 12) = pack "CCvVv", 0x10, 0x00, 0x0062, 0, $control;
        substr($c, 0x100, 4) = pack "V", 0x14820001;
        substr($c, 0x148, 8) = pack "Vvv", 0x0001000d, 0x001f, $acs;
        print $c' "$@"
}

# device FOLDER CLASS VENDOR NUMA: a PCI device below box/sys/devices.
device() {
    local at=box/sys/devices/$1 id=${1##*/}
    mkdir -p "$at" box/sys/bus/pci/devices
    ln -sfn "../../../devices/$1" "box/sys/bus/pci/devices/$id"
    echo "$2" > "$at/class"
    echo "$3" > "$at/vendor"
    echo "$4" > "$at/numa_node"
    printf '16.0 GT/s PCIe\n' | tee "$at/current_link_speed" > "$at/max_link_speed"
    printf '16\n' | tee "$at/current_link_width" > "$at/max_link_width"
    config 2910 0001 > "$at/config"
    mkdir -p "box/sys/kernel/iommu_groups/$id"
    echo identity > "box/sys/kernel/iommu_groups/$id/type"
    ln -sfn "$PWD/box/sys/kernel/iommu_groups/$id" "$at/iommu_group"
}

# rdma NAME DEVICE LAYER: a port that is up.
rdma() {
    local at=box/sys/class/infiniband/$1
    mkdir -p "$at/ports/1"
    ln -sfn "../../../bus/pci/devices/$2" "$at/device"
    echo '4: ACTIVE' > "$at/ports/1/state"
    echo '5: LinkUp' > "$at/ports/1/phys_state"
    echo '100 Gb/sec (4X EDR)' > "$at/ports/1/rate"
    echo "$3" > "$at/ports/1/link_layer"
}

# port NAME DEVICE MBIT MTU
port() {
    local at=box/sys/class/net/$1
    mkdir -p "$at"
    ln -sfn "../../../bus/pci/devices/$2" "$at/device"
    put "$at" flags=0x1003 carrier=1 operstate=up duplex=full "speed=$3" "mtu=$4" type=1
}

# put FOLDER FILE=TEXT...
put() {
    local file at=$1
    mkdir -p "$at"
    for file in "${@:2}"; do
        echo "${file#*=}" > "$at/${file%%=*}"
    done
}

make_tree() {
    local half at cpu
    rm -rf box
    for half in 0 8; do
        at=pci0000:${half}0/0000:${half}0:01.0
        device "$at" 0x060400 0x8086 $((half / 8))
        at=$at/0000:${half}1:00.0
        device "$at" 0x060400 0x1000 $((half / 8))
        device "$at/0000:${half}2:00.0" 0x060400 0x1000 $((half / 8))
        device "$at/0000:${half}2:01.0" 0x060400 0x1000 $((half / 8))
        device "$at/0000:${half}2:00.0/0000:${half}3:00.0" 0x030200 0x10de $((half / 8))
        device "$at/0000:${half}2:01.0/0000:${half}4:00.0" 0x020700 0x15b3 $((half / 8))
    done
    rdma mlx5_0 0000:04:00.0 InfiniBand
    rdma mlx5_1 0000:84:00.0 Ethernet
    port eth0 0000:84:00.0 100000 9000
    put box/sys/devices/system/node online=0-1
    put box/sys/devices/system/node/node0 cpulist=0-1
    put box/sys/devices/system/node/node1 cpulist=2-3
    put box/sys/devices/system/cpu online=0-3
    for cpu in 0 1 2 3; do
        put "box/sys/devices/system/cpu/cpu$cpu/cpufreq" scaling_governor=performance
    done
    put box/sys/module/nvidia_peermem initstate=live
    put box/proc/self 'status=Cpus_allowed_list:	0-3'
    put box/proc/sys/kernel hostname=node1
    put box/proc/sys/net/ipv4 'tcp_rmem=4096	131072	67108864' 'tcp_wmem=4096	65536	67108864' \
        tcp_congestion_control=cubic
    put box/proc 'cmdline=ro quiet'
}
