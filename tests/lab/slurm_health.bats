# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# examples/health/slurm.sh as HealthCheckProgram of a slurmd of its own, on a host whose links a
# folder plays, and examples/slurm/prolog.sh and taskprolog.sh there.

bats_require_minimum_version 1.5.0
load slurm

setup_file() {
    local d=$BATS_FILE_TMPDIR c
    find_slurm || return 0
    cd "$d" || return
    export SLURM_CONF=$d/slurm.conf
    mkdir -p box/proc/sys/kernel/random box/sys/class/net/eth0/{statistics,device}
    hostname -s > box/proc/sys/kernel/hostname
    echo 0x1003 > box/sys/class/net/eth0/flags
    echo 1 > box/sys/class/net/eth0/carrier
    sed "s|^PATH=.*|PATH=$BIN:$PATH; export SLURM_CONF=$d/slurm.conf|
        s|^DRAIN=no|DRAIN=yes|
        s|^OPTIONS=.*|OPTIONS='--sys $d/box/sys --proc $d/box/proc --state $d/health'; echo >> $d/runs|" \
        "$ROOT/examples/health/slurm.sh" > health.sh
    # A prolog without a command of Slurm on its PATH.
    mkdir tools
    for c in horing-check sh head; do ln -s "$(command -v $c)" tools; done
    sed "s|^PATH=.*|PATH=$d/tools; echo \"\$SLURM_JOB_ID\" >> $d/prologs|
        s|^OPTIONS=.*|OPTIONS='--sys $d/prolog/sys --proc $d/prolog/proc --state $d/prolog.state'|" \
        "$ROOT/examples/slurm/prolog.sh" > prolog.sh
    cp -r box prolog
    sed "s|^DIR=.*|DIR=$d/tables|" "$ROOT/examples/slurm/taskprolog.sh" > taskprolog.sh
    chmod 755 health.sh prolog.sh taskprolog.sh
    own_slurm "HealthCheckProgram=$d/health.sh
HealthCheckInterval=2
HealthCheckNodeState=ANY
Prolog=$d/prolog.sh
PrologFlags=Alloc
TaskProlog=$d/taskprolog.sh"
}

is_drained() { [ "$(sinfo -h -o %T)" = drained ]; }
ran() { [ "$(wc -l < runs)" -ge "$1" ]; }

# What a task sees.
# shellcheck disable=SC2016
task() { srun -n 1 sh -c 'echo "$PARO_TUNING $NCCL_TUNER_CONFIG_FILE"'; }

@test "a task has the tables of the cluster in its environment, and what the user set" {
    for_s 30 ran 1
    [ "$(task)" = ' ' ]
    mkdir tables
    touch tables/tuning tables/nccl.csv
    [ "$(task)" = "$PWD/tables/tuning $PWD/tables/nccl.csv" ]
    [ "$(PARO_TUNING=mine task)" = "mine $PWD/tables/nccl.csv" ]
}

@test "a prolog lets a job pass on WARNING and UNKNOWN, and drains the node on CRITICAL alone" {
    local before
    before=$(wc -l < prologs)
    echo 0x1002 > prolog/sys/class/net/eth0/flags # down by hand: no fault
    task
    mv prolog/sys gone
    task # UNKNOWN: nothing to read
    mv gone prolog/sys
    is_idle
    [ "$(wc -l < prologs)" = $((before + 2)) ]
    echo 0x1003 > prolog/sys/class/net/eth0/flags
    task
    echo 0 > prolog/sys/class/net/eth0/carrier
    run timeout 20 srun -n 1 true
    [ "$status" != 0 ]
    for_s 30 is_drained
    scontrol show node | grep -E 'Reason=Prolog error'
    echo 1 > prolog/sys/class/net/eth0/carrier
    scancel -u "$(id -un)"
    scontrol update NodeName="$(hostname -s)" State=RESUME
    for_s 30 is_idle
}

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
