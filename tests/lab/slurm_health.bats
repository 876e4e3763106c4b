#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
#
# examples/health/slurm.sh as HealthCheckProgram of a slurmd of its own, on a host whose links a
# folder plays.

bats_require_minimum_version 1.5.0
load slurm

setup_file() {
    local d=$BATS_FILE_TMPDIR c
    PATH=$BIN:$PATH:/usr/sbin:/sbin
    for c in munged slurmctld slurmd sinfo scontrol; do
        command -v $c > /dev/null || { export NO_SLURM="no $c here"; return 0; }
    done
    cd "$d" || return
    export SLURM_CONF=$d/slurm.conf
    mkdir -p box/proc/sys/kernel/random box/sys/class/net/eth0/{statistics,device}
    hostname -s > box/proc/sys/kernel/hostname
    echo 0x1003 > box/sys/class/net/eth0/flags
    echo 1 > box/sys/class/net/eth0/carrier
    sed "s|^PATH=.*|PATH=$BIN:$PATH; export SLURM_CONF=$d/slurm.conf|
        s|^DRAIN=no|DRAIN=yes|
        s|^OPTIONS=.*|OPTIONS='--sys $d/box/sys --proc $d/box/proc --state $d/health'; echo >> $d/runs|" \
        "$BATS_TEST_DIRNAME/../../examples/health/slurm.sh" > health.sh
    chmod 755 health.sh
    begin_slurm "HealthCheckProgram=$d/health.sh
HealthCheckInterval=2
HealthCheckNodeState=ANY" > begun 2>&1 && return
    NO_SLURM="Slurm does not start: $(tail -n 1 begun)"
    export NO_SLURM
    end_slurm
}

teardown_file() {
    [ -n "${NO_SLURM-}" ] || end_slurm
}

setup() {
    [ -z "${NO_SLURM-}" ] || skip "$NO_SLURM"
    PATH=$BIN:$PATH:/usr/sbin:/sbin
    cd "$BATS_FILE_TMPDIR" || return
}

is_drained() { [ "$(sinfo -h -o %T)" = drained ]; }
ran() { [ "$(wc -l < runs)" -ge "$1" ]; }

@test "a node is drained with a reason that names the code, and never resumed" {
    for_s 30 ran 2
    is_idle
    echo 0 > box/sys/class/net/eth0/carrier
    for_s 30 is_drained
    scontrol show node | grep -E "Reason=horing: HC-201 .* lost the link of its port eth0"
    echo 1 > box/sys/class/net/eth0/carrier
    for_s 30 ran $(($(wc -l < runs) + 2))
    is_drained
}
