# SPDX-License-Identifier: BSD-3-Clause
# paro-launch: what it makes of the environments that launchers set, each as that launcher
# documents it, and of two that are real: a host file here, and two nodes that a launch agent
# plays.
# shellcheck disable=SC2016,SC2059

load refuses

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir tools
    mpirun_is 'Open MPI) 4.1.4'
}

# An mpirun that only states its version.
mpirun_is() { printf '#!/bin/sh\necho "mpirun (%s"\n' "$1" > tools/mpirun && chmod 755 tools/mpirun; }

# with NAME=VALUE... [-- OPTION...]: what paro-launch would run there, without what is always
# exported.
with() {
    local vars=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do vars+=("$1"); shift; done
    env -i PATH="${ONLY_PATH-$PWD/tools:$BIN:$PATH}" "${vars[@]}" paro-launch --print "${@:2}" -- true 2> said |
        sed 's/ -x PATH / /; s/ -x LD_LIBRARY_PATH / /'
}

# prints COMMAND NAME=VALUE...: it would run COMMAND, and says in one line where that is from.
prints() {
    local got
    got=$(with "${@:2}")
    [ "$got" = "$1" ] || { echo "got:      $got"; echo "expected: $1"; cat said; return 1; }
    [ "$(wc -l < said)" = 1 ] && grep -qE '^paro-launch: found [a-z]+ \(.*\), hosts: [0-9]+, ranks: [0-9]+' said
}

# fails WORDS NAME=VALUE...: refused in one line.
fails() { refuses 2 "$1" env -i PATH="$BIN:$PATH" "${@:2}" paro-launch true; }

SSH="plm_rsh_args '-o ConnectionAttempts=10'"
IPS=$'10.0.0.1\n10.0.0.2\n'

@test "Slurm: lists of nodes and of tasks are expanded" {
    printf '#!/bin/sh\n' > tools/srun
    chmod 755 tools/srun
    prints 'mpirun -n 15 -H node01:2,node02:2,node03:2,node7:1,gpu1a:4,gpu2a:4 true' \
        SLURM_JOB_NODELIST='node[01-03,7],gpu[1-2]a' SLURM_TASKS_PER_NODE='2(x3),1,4(x2)'
    prints 'mpirun -n 8 -H r1n09:2,r1n10:2,r2n09:2,r2n10:2 true' \
        SLURM_JOB_NODELIST='r[1-2]n[09-10]' SLURM_NTASKS_PER_NODE=2
    prints 'mpirun -n 3 -H a:2,b:2 true' SLURM_JOB_NODELIST=a,b -- -n 3
    prints 'mpirun -n 1 -H a:1 -x NCCL_DEBUG -x PARO_TUNING -x UCX_TLS true' SLURM_JOB_NODELIST=a \
        SLURM_TASKS_PER_NODE=1 PARO_TUNING=t NCCL_DEBUG=INFO UCX_TLS=tcp OTHER=1
    # A part of the allocation, as paro-run uses after the loss of a node.
    echo 'b slots=2' > part
    prints 'mpirun -n 2 -H b:2 true' SLURM_JOB_NODELIST=a,b -- --hostfile part
    # With no command of Slurm on PATH.
    rm tools/srun
    for c in awk date dash env grep head sed sh sort; do ln -s "$(command -v $c)" tools; done
    ln -s "$BIN/paro-launch" tools
    ONLY_PATH=$PWD/tools prints "mpirun -n 1 -H a:1 --mca plm rsh --mca $SSH true" SLURM_JOB_NODELIST=a SLURM_TASKS_PER_NODE=1
    grep -q 'without srun, over ssh$' said
    ONLY_PATH=$PWD/tools prints "mpirun -n 2 -H b:2 --mca plm rsh --mca $SSH true" SLURM_JOB_NODELIST=a,b -- --hostfile part
}

@test "SkyPilot, torchrun, Kubeflow and Kubernetes" {
    prints "mpirun -n 16 -H 10.0.0.1:8,10.0.0.2:8 --mca $SSH true" \
        SKYPILOT_NODE_IPS="$IPS" SKYPILOT_NODE_RANK=0 SKYPILOT_NUM_GPUS_PER_NODE=8
    prints "mpirun -n 3 -H 10.0.0.1:2,10.0.0.2:2 --mca $SSH true" \
        SKYPILOT_NODE_IPS="$IPS" SKYPILOT_NODE_RANK=0 SKYPILOT_NUM_GPUS_PER_NODE=0 -- -n 3
    # A TrainJob's pods, those of a PyTorchJob, and a child of torchrun.
    prints "mpirun -n 8 -H j-node-0-0.j:4,j-node-0-1.j:4 --mca orte_keep_fqdn_hostnames 1 --mca $SSH true" \
        PET_NNODES=2 PET_NPROC_PER_NODE=4 PET_NODE_RANK=0 PET_MASTER_ADDR=j-node-0-0.j PET_MASTER_PORT=29500
    prints "mpirun -n 3 -H j-master-0:1,j-worker-0:1,j-worker-1:1 --mca $SSH true" \
        MASTER_ADDR=j-master-0 MASTER_PORT=23456 WORLD_SIZE=3 RANK=0 -- --ranks=3
    prints "mpirun -n 4 -H s-0:2,s-1:2 --mca $SSH true" MASTER_ADDR=s-0 WORLD_SIZE=4 RANK=0 LOCAL_RANK=0 \
        LOCAL_WORLD_SIZE=2 GROUP_RANK=0 GROUP_WORLD_SIZE=2
    printf '# workers\nw-0.w.ns.svc slots=2\n\nw-1.w.ns.svc slots=2 max_slots=2\n' > hosts
    prints "mpirun -n 4 -H w-0.w.ns.svc:2,w-1.w.ns.svc:2 --mca orte_keep_fqdn_hostnames 1 --mca $SSH true" \
        OMPI_MCA_orte_default_hostfile=hosts OMPI_MCA_plm_rsh_args='-o ConnectionAttempts=10'
    printf 'a:3\nb:2\n' > mpich
    prints "mpirun -n 5 -H a:3,b:2 --mca $SSH true" SKYPILOT_NODE_IPS=x -- --hostfile mpich
    prints "mpirun -n 5 -H a:3,b:2 --mca $SSH true" PET_NNODES=2 PET_NODE_RANK=0 PET_MASTER_ADDR=a \
        -- --from=torchrun --hostfile=mpich
}

@test "Open MPI 5: the settings of an MPIJob get their names there" {
    mpirun_is 'Open MPI) 5.0.7'
    echo 'w-0.w slots=1' > hosts
    prints "mpirun -n 1 -H w-0.w:1 --prtemca prte_keep_fqdn_hostnames 1 --prtemca plm_ssh_agent /a --prtemca plm_ssh_args '-o X=1' true" \
        OMPI_MCA_orte_default_hostfile=hosts OMPI_MCA_plm_rsh_args='-o X=1' OMPI_MCA_plm_rsh_agent=/a
    prints "mpirun -n 1 -H w-0.w:1 --prtemca prte_keep_fqdn_hostnames 1 --prtemca ${SSH/rsh/ssh} true" \
        PRTE_MCA_prte_default_hostfile=hosts
    mpirun_is 'Hydra) 4.0'
    run -2 env PATH="$PWD/tools:$BIN:$PATH" paro-launch --hostfile hosts true
    [ "${#lines[@]}" = 2 ]
    has_words "${lines[1]}" "'mpirun --version' (Hydra) version of an Open MPI"
}

@test "--print quotes for a shell" {
    echo 'localhost slots=1' > hosts
    paro-launch --hostfile hosts --print -- printf '[%s]' 'a b' "it's" '' '$HOME' > line 2> said
    sed -i 's/^.* printf /printf /' line
    [ "$(sh line)" = "[a b][it's][][\$HOME]" ]
    # A name that awk would take for an assignment.
    echo 'node1 slots=2' > job=1
    paro-launch --hostfile job=1 --print true < hosts 2> said | grep -F ' -H node1:2 '
    if [ -w /dev/full ]; then
        run -2 --separate-stderr bash -c 'paro-launch --hostfile hosts --print true > /dev/full'
        [ "$(echo "$stderr" | tail -n 1)" = 'paro-launch: cannot write to standard output' ]
    fi
}

@test "what is missing or contradicts itself is refused" {
    fails 'no hosts Slurm SkyPilot torchrun Kubernetes --hostfile'
    fails 'slurm torchrun --from' SLURM_JOB_NODELIST=a MASTER_ADDR=a-0 WORLD_SIZE=1 RANK=0
    fails "SLURM_JOB_NODELIST no number of ranks 'a' -n" SLURM_JOB_NODELIST=a
    fails "SLURM_JOB_NODELIST 'a[1-' node[1-4]" SLURM_JOB_NODELIST='a[1-'
    fails "SLURM_JOB_NODELIST node[1-4]" SLURM_JOB_NODELIST='a[1-99999999]'
    fails 'srun 2 tasks batch script' SLURM_JOB_NODELIST=a SLURM_STEP_NUM_TASKS=2
    fails "MASTER_ADDR '10.0.0.1' pod --hostfile" MASTER_ADDR=10.0.0.1 WORLD_SIZE=2 RANK=0
    fails "PET_NNODES '1:4' one number" PET_NNODES=1:4 PET_NODE_RANK=0 MASTER_ADDR=a-0
    fails "number of nodes 'x'" PET_NNODES=x PET_NODE_RANK=0 MASTER_ADDR=a-0
    fails 'PET_NODE_RANK RANK number of this node' PET_NNODES=2 MASTER_ADDR=a-0
    refuses 2 "cannot read 'tools' host file" paro-launch --hostfile tools true
    fails "cannot read 'gone' MPIJob" OMPI_MCA_orte_default_hostfile=gone
    for line in 'a slots=x' 'a b' 'a slots=0' '-x slots=1' 'a;b slots=1'; do
        echo "$line" > hosts
        refuses 2 'hosts' paro-launch --hostfile hosts true
    done
}

@test "host files as their writers write them" {
    local want="mpirun -n 12 -H n1:4,n2:8 --mca $SSH true"
    for text in 'n1 slots=4\r\nn2 slots=8\r\n' 'n1 slots = 4\n  n2\tslots= 8 max_slots =9\n' 'n1:4\nn2:8 # all'; do
        printf "$text" > hosts
        prints "$want" -- --hostfile hosts
    done
    # $PBS_NODEFILE has a line a slot.
    printf 'n1\nn1\nn2\n' > hosts
    prints "mpirun -n 3 -H n1:2,n2:1 --mca $SSH true" -- --hostfile hosts
    # Each host once is no number of slots.
    printf 'n1\nn2\n' > hosts
    refuses 2 "hosts no number of ranks 'n1' -n RANKS" paro-launch --hostfile hosts true
    printf 'n1 slots=4\nfd00::1 slots=2\n' > hosts
    refuses 2 "hosts:2: IPv6 'fd00::1' expected a name" paro-launch --hostfile hosts true
    # Nothing of the lines before is in the message.
    printf 'n1 slots=4\nn2 slot=4\n' > hosts
    refuses 2 "hosts:2: has 'slot=4' expected 'HOST slots=N'" paro-launch --hostfile hosts true
    [[ $refusal != *n1* ]]
    printf 'n1 slots=8\nn2 slots=8\n' > hosts
    refuses 2 "-n is 20 expected at most 16 hosts" env -u OMPI_MCA_rmaps_base_oversubscribe \
        -u PRTE_MCA_rmaps_default_mapping_policy paro-launch --hostfile hosts -n 20 true
    prints "mpirun -n 20 -H n1:8,n2:8 --mca $SSH true" OMPI_MCA_rmaps_base_oversubscribe=1 -- --hostfile hosts -n 20
}

# Nothing but this test's processes are to be seen: other tests run mpirun.
alone() {
    local root=-r
    [ "$(id -u)" != 0 ] || root=
    unshare $root -pf --mount-proc true 2> why || skip "no namespaces here: $(cat why)"
    unshare $root -pf --mount-proc --kill-child "$@"
}

@test "another node waits for mpirun's daemon to come and to end" {
    cp "$(command -v sleep)" orted
    cat > node.sh <<'END'
paro-launch -n 2 true & pid=$!
sleep 0.5; kill -0 $pid || exit 9
./orted 3 & sleep 0.5; kill -0 $pid || exit 8
wait $pid
END
    export MASTER_ADDR=j-node-0-0 WORLD_SIZE=2 RANK=1
    alone sh node.sh
    run ! alone sh -c 'paro-launch -n 2 --wait=1 true > late 2>&1'
    tail -n 1 late | grep -qx 'paro-launch: no mpirun reached node 1 within 1 s, expected node 0 to start it' late
    LOCAL_RANK=1 GROUP_RANK=0 timeout 5 paro-launch false
}

# bats test_tags=full
@test "a host file with this machine: a real mpirun, and its status" {
    printf 'localhost slots=2\n' > hosts
    run -3 --separate-stderr paro-launch --hostfile hosts -- sh -c 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"
        : > here.$OMPI_COMM_WORLD_RANK; until [ -e here.0 ] && [ -e here.1 ]; do sleep 0.1; done; sleep 1; exit 3'
    [ "$(echo "$output" | sort | tr '\n' ' ')" = 'rank 0 of 2 rank 1 of 2 ' ]
}

# bats test_tags=full
@test "two nodes of a TrainJob over a launch agent: node 0 starts the ranks, node 1 waits" {
    cat > agent <<'END'
#!/bin/sh
# Options of ssh come first.
while [ "$1" = -o ]; do shift 2; done
host=$1; shift
exec unshare --uts sh -c "hostname $host; $*"
END
    chmod 755 agent
    cat > both.sh <<'END'
export PET_NNODES=2 PET_NPROC_PER_NODE=2 PET_MASTER_ADDR=job-node-0-0.job OMPI_MCA_plm_rsh_agent=$PWD/agent PRTE_MCA_plm_ssh_agent=$PWD/agent
PET_NODE_RANK=1 paro-launch --wait=60 -- sh rank.sh 2> node1.said & pid=$!
PET_NODE_RANK=0 paro-launch -- sh rank.sh > out 2> node0.said || exit
wait $pid
END
    echo 'echo "$OMPI_COMM_WORLD_RANK on $(hostname)"; sleep 2' > rank.sh
    alone sh both.sh || { cat node?.said; false; }
    sort out | diff - <(printf '%s\n' '0 on job-node-0-0.job' '1 on job-node-0-0.job' '2 on job-node-0-1.job' '3 on job-node-0-1.job')
    grep -qx 'paro-launch: found torchrun (MASTER_ADDR), hosts: 2, ranks: 4, over ssh' node0.said
    grep -qx 'paro-launch: node 1 waits for the mpirun of node 0' node1.said
}
