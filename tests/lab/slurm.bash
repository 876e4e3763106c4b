# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A Slurm of one's own in the current folder: begin_slurm [LINES OF slurm.conf], end_slurm.  Its one node is
# this machine, or with NODES it has that many nodes of paro-lab, after disturb.sh.

# 1 where there is no Slurm, and NO_SLURM says why.
find_slurm() {
    local c
    PATH=$BIN:$PATH:/usr/sbin:/sbin
    for c in munged slurmctld slurmd sbatch srun scontrol sinfo; do
        command -v $c > /dev/null || { export NO_SLURM="no $c here"; return 1; }
    done
}

# write_conf [LINES].  A requeue waits for the credentials of its job to
# expire: 5 s, the least there is.
# Ports of no other test: by this process's number, below those that the kernel gives out.
write_conf() {
    local more=$1 me host port=$((20000 + $$ % 6000 * 2)) addr=127.0.0.1 nodes i
    me=$(id -un) host=$(hostname -s)
    nodes="NodeName=$host NodeAddr=$addr CPUs=4 State=UNKNOWN"
    [ -z "${NODES-}" ] || addr=10.78.255.254 nodes=''
    for ((i = 0; i < ${NODES:-0}; i++)); do
        nodes+="NodeName=node$i NodeAddr=10.78.0.$((i + 1)) CPUs=4 State=UNKNOWN"$'\n'
    done
    mkdir state
    cat > slurm.conf <<END_CONF
ClusterName=paro
SlurmctldHost=$host($addr)
SlurmUser=$me
SlurmdUser=$me
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$PWD/munge.sock,cred_expire=5
StateSaveLocation=$PWD/state
SlurmdSpoolDir=$PWD/spool.%n
SlurmctldPidFile=$PWD/slurmctld.pid
SlurmdPidFile=$PWD/slurmd.%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PlugStackConfig=/dev/null
ReturnToService=2
$nodes
PartitionName=main Nodes=ALL Default=YES State=UP
$more
END_CONF
}

# for_s SECONDS COMMAND...: until it is true.
for_s() {
    local end=$((SECONDS + $1))
    shift
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $end ] || { echo "not within the time: $*"; return 1; }
        sleep 0.2
    done
}

# own_slurm [LINES]: begins it at the end of setup_file, or NO_SLURM says why not.
own_slurm() {
    ! begin_slurm "${1-}" > begun 2>&1 || return 0
    NO_SLURM="Slurm does not start: $(tail -n 1 begun)"
    export NO_SLURM
    end_slurm
}

teardown_file() { [ -n "${NO_SLURM-}" ] || end_slurm; }

setup() {
    [ -z "${NO_SLURM-}" ] || skip "$NO_SLURM"
    PATH=$BIN:$PATH:/usr/sbin:/sbin
    cd "$BATS_FILE_TMPDIR" || return
}

is_idle() { [ "$(sinfo -h -o %T)" = idle ]; }

begin_slurm() {
    local i
    write_conf "${1-}"
    srun --mpi=list 2>&1 | grep -qw pmix || { echo "srun knows no pmix"; return 1; }
    head -c 1024 /dev/urandom > munge.key
    chmod 400 munge.key
    munged --force --key-file="$PWD/munge.key" --socket="$PWD/munge.sock" --seed-file="$PWD/munge.seed" \
        --pid-file="$PWD/munged.pid" --log-file="$PWD/munged.log" 3>&- || return
    slurmctld -D > slurmctld.out 2>&1 3>&- &
    echo "$!" > slurmctld.job
    for ((i = 0; i < ${NODES:-1}; i++)); do
        ${NODES:+in_node node$i} slurmd -D >> slurmd.out 2>&1 3>&- &
        echo "$!" > slurmd.job
    done
    for_s 20 is_idle || { tail -n 1 slurmctld.out slurmd.out; return 1; }
}

end_slurm() {
    local p
    cd "$BATS_FILE_TMPDIR" || return
    [ ! -e slurmctld.job ] || scancel --full -u "$(id -un)" 2> /dev/null || true
    for p in slurmd.job slurmctld.job munged.pid; do
        [ ! -s $p ] || kill "$(cat $p)" 2> /dev/null || true
        [ ! -s $p ] || for_s 20 eval "! kill -0 $(cat $p)" || kill -9 "$(cat $p)" || true
    done
}
