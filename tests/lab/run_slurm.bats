# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# shellcheck disable=SC2016 # what the lab expands
#
# paro-run inside an allocation of a Slurm whose nodes are emulated: slurmd runs on each, and a lost node
# is unreachable and has no process left.  The oracle is a run of one rank that nothing disturbs, bit for bit.

bats_require_minimum_version 1.5.0
load lab
load run
load slurm

STEPS=60
JOB=$ROOT/examples/slurm/run.sbatch

setup_file() {
    find_slurm || return 0
    run_begin $STEPS
    cp "$BATS_TEST_DIRNAME/slurm.bash" .
}

setup() {
    [ -z "${NO_SLURM-}" ] || skip "$NO_SLURM"
    run_setup
    cp "$BATS_FILE_TMPDIR/slurm.bash" .
}

# slurm_run SCRIPT: on the head node of a lab with Slurm on its three nodes.  mpirun shall find Slurm by itself.
slurm_run() {
    {
        echo '. ./disturb.sh; . ./slurm.bash; export SLURM_CONF=$PWD/slurm.conf; PATH=$PATH:/usr/sbin:/sbin'
        echo "trap 'kill \$(cat ./*.pid) 2>/dev/null' EXIT" # the lab ends with the last of its processes
        echo 'NODES=3 begin_slurm SlurmdTimeout=6 > begun 2>&1 || { cat begun; exit 1; }'
        echo 'unset OPAL_OUTPUT_STDERR_FD PMIX_OUTPUT_STDERR_FD OMPI_MCA_plm OMPI_MCA_plm_rsh_agent PRTE_MCA_plm PRTE_MCA_plm_ssh_agent'
        echo 'export PARO_PLAN="--seq 32 --global-batch 12 --micro-batch 1"'
        echo "model=$MODELS/llama-tiny.json train='-d text --exact --steps $STEPS --deadline 5 --save-every 5'"
        echo 'nodes="--no-kill -N 3 --ntasks-per-node 2"'
        echo "submit() { job=\$(sbatch --parsable \$nodes --output=log $JOB fabric.yaml \$model text run \${train#* * }); }"
        echo 'over() { until scontrol show job $job | grep -E "JobState=(COMPLETED|FAILED|CANCELLED|NODE_FAIL|TIMEOUT)"; do sleep 0.2; done; }'
        echo "$1"
    } > job.sh
    timeout 240 paro-lab --head -g 3 -p 2 -- bash job.sh > said 2>&1 || { cat log said; return 1; }
}

@test "a job with --no-kill loses a node, and continues on the others of its allocation" {
    slurm_run 'submit; after 15; cut_node node1; over; scontrol show job $job'
    said 'on 3 of 3 hosts, from step 1: node0 node1 node2'
    said 'node1 is left out: it does not answer'
    said 'on 2 of 3 hosts, from step [0-9]+: node0 node2'
    grep -qE '^paro-launch: found .*, hosts: 2, ranks: 4$' log # not over ssh
    grep -q 'JobState=COMPLETED' ./said
    grep -q 'Restarts=0' ./said
    diff want <(hashes run)
}

@test "the node of rank 0 is lost, and Slurm takes it out of the allocation: a start after that is no other" {
    slurm_run 'run() { paro-run -i fabric.yaml -m $model -o $1 --plan "$PARO_PLAN" -- $train; }
        export -f run; export model train
        salloc $nodes bash -c "run run
            until scontrol show job \$SLURM_JOB_ID | grep \" NodeList=node\[1-2\]\"; do sleep 0.2; done
            run later" > log 2>&1 & job=$!
        after 15; cut_node node0; wait $job'
    said 'node0 is left out: it does not answer'
    [ "$(grep -c 'on 2 of 3 hosts, from step .*: node1 node2' log)" = 2 ]
    diff want <(hashes run)
    diff want <(hashes later)
}

@test "SIGTERM before the time limit: a checkpoint, and the job is requeued and resumes" {
    slurm_run 'submit; after 10; scancel --batch --signal=TERM $job
        until grep "goes back into the queue" log; do sleep 0.2; done; over; scontrol show job $job'
    said 'stopping in good order'
    [ "$(grep -c 'on 3 of 3 hosts' log)" = 2 ]
    grep -q 'Restarts=1' ./said
    diff want <(hashes run)
}
