# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# examples/slurm/train.sbatch under a Slurm of its own: munged, slurmctld and slurmd of Debian's
# packages (apt-get install slurmctld slurmd slurm-client munge), with this machine as the one
# node.  It takes nothing from a Slurm that is installed, and leaves nothing.

bats_require_minimum_version 1.5.0
load slurm

setup_file() {
    local d=$BATS_FILE_TMPDIR
    find_slurm || return 0
    cd "$d" || return
    export SLURM_CONF=$d/slurm.conf TINY=$ROOT/examples/models/llama-tiny.json
    seq 1 20000 > text
    paro-plan -m "$TINY" -i synth:2x1 --seq 32 --strategy NGG > two.yaml
    own_slurm
}

is_at() { [ -s "$1/log.jsonl" ] && [ "$(wc -l < "$1/log.jsonl")" -ge "$2" ]; }
is_over() { [ -z "$(squeue -h -j "$1" 2> /dev/null)" ]; }
state_of() { scontrol show job "$1" | grep -oE '(JobState|Restarts|ExitCode)=[^ ]*' | tr '\n' ' '; }
is_state() { [[ "$(state_of "$1")" == *"$2"* ]]; }

submit() { sbatch --parsable -n 2 "$@"; }
JOB=$ROOT/examples/slurm/train.sbatch

bits() { grep -oE '"(step|loss|state_hash)":[^,}]*' "$1"; }

@test "a job that is told to stop goes back into the queue, and on from its checkpoint" {
    local job steps=400
    job=$(submit --output=cut.out "$JOB" two.yaml text cut --steps $steps --exact)
    for_s 60 is_at cut 5
    # What --signal sends when the time is nearly over: to the script, and not to the tasks.
    scancel --batch --signal=USR1 "$job"
    for_s 60 is_state "$job" Restarts=1
    local at
    at=$(wc -l < cut/log.jsonl)
    [ "$at" -lt $steps ]
    [ "$(readlink cut/latest)" = "$(printf 'step-%08d' "$at")" ]
    for_s 120 is_over "$job"
    state_of "$job"
    is_state "$job" 'JobState=COMPLETED'
    is_state "$job" 'Restarts=1 ExitCode=0:0'
    grep -q "^stopped in good order: job $job goes back into the queue" cut.out
    # What mpirun makes of the same in one go: the same bits, step by step.
    mpirun -np 2 paro-train two.yaml -d text -o whole --steps $steps --exact > whole.out
    [ "$(wc -l < cut/log.jsonl)" = $steps ]
    bits whole/log.jsonl > want
    bits cut/log.jsonl | cmp - want
}

@test "SIGTERM, as preemption sends it: status 3 as well; an error and scancel are ends" {
    local job
    job=$(submit --output=term.out "$JOB" two.yaml text term --steps 99999)
    for_s 60 is_at term 5
    scancel --signal=TERM "$job"
    for_s 60 is_state "$job" Restarts=1
    for_s 60 is_state "$job" JobState=RUNNING
    for_s 60 is_at term $(($(wc -l < term/log.jsonl) + 5))
    scancel "$job"
    for_s 60 is_over "$job"
    is_state "$job" JobState=CANCELLED
    # Nothing is in its way.
    mpirun -np 2 paro-train two.yaml -d text -o term --resume=auto --steps 1 > term.out 2>&1
    job=$(submit --output=bad.out "$JOB" two.yaml nowhere bad)
    for_s 60 is_over "$job"
    is_state "$job" 'JobState=FAILED Restarts=0 ExitCode=2:0'
    grep -q "^paro-train: .*'nowhere'" bad.out
    [ ! -e bad ]
}

@test "without PMIx, paro-launch starts the same run, which is requeued and resumed, too" {
    local job steps=200
    job=$(PARO_SRUN_MPI=none submit --output=none.out "$JOB" two.yaml text none --steps $steps --exact)
    for_s 60 is_at none 5
    scancel --batch --signal=USR1 "$job"
    for_s 60 is_state "$job" Restarts=1
    [ "$(wc -l < none/log.jsonl)" -lt $steps ]
    for_s 120 is_over "$job"
    is_state "$job" 'JobState=COMPLETED'
    is_state "$job" 'Restarts=1 ExitCode=0:0'
    [ "$(grep -c "^paro-launch: found slurm (SLURM_JOB_NODELIST), hosts: 1, ranks: 2$" none.out)" = 2 ]
    grep -q "^stopped in good order: job $job goes back into the queue" none.out
    # Slurm's own answers are the oracle of the list of hosts.
    local list='a[1-3,08-11],b,c[1-2]d[3-4]'
    SLURM_JOB_NODELIST=$list SLURM_NTASKS_PER_NODE=1 paro-launch --print true 2> none.said |
        sed 's/.* -H \([^ ]*\) .*/\1/; s/:1//g' | tr , '\n' > hosts
    scontrol show hostnames "$list" | diff - hosts
}
