# SPDX-License-Identifier: BSD-3-Clause
# examples/kubernetes: fields and types are those of the published schemas, and the commands
# inside run.

load refuses

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    EX=$ROOT/examples/kubernetes
    sh "$EX/rules.sh" > rules.yaml
    perl -MYAML::XS -e 1 || skip 'no YAML::XS of Perl here (libyaml-libyaml-perl)'
}

check() { perl "$ROOT/tests/cmd/kubernetes.pl" "$@"; }
ROWS=$ROOT/tests/data/kubernetes.tsv

@test "manifests have only fields of the published schemas, of the right type" {
    check "$ROWS" "$EX"/*.yaml rules.yaml > wrong
    diff /dev/null wrong
    # All that there is to find here: nine kinds, and the alerts of the file that is not copied.
    cat "$EX"/*.yaml rules.yaml | sed -n 's/^kind: //p' | sort -u | tr '\n' ' ' > kinds
    grep -qx 'ClusterTrainingRuntime CronJob DaemonSet JobSet MPIJob PrometheusRule Service ServiceMonitor TrainJob ' kinds
    [ "$(grep -c 'alert:' rules.yaml)" = "$(grep -c 'alert:' "$ROOT/examples/health/prometheus.yml")" ]
}

@test "a misspelt field, a wrong type, value or missing field is found" {
    check --mutants "$ROWS" "$EX"/*.yaml rules.yaml > unnoticed
    diff /dev/null unnoticed
    sed 's/slotsPerWorker: 8/slotsPerWorker: "8"/' "$EX/mpijob.yaml" > bad.yaml
    [ "$(check "$ROWS" bad.yaml)" = 'bad.yaml: MPIJob spec.slotsPerWorker: string, expected integer' ]
    sed 's/WaitForWorkersReady/Whenever/' "$EX/mpijob.yaml" > bad.yaml
    has_words "$(check "$ROWS" bad.yaml)" "launcherCreationPolicy 'Whenever' AtStartup"
    sed 's/- name: launcher/-/' "$EX/mpijob.yaml" > bad.yaml
    has_words "$(check "$ROWS" bad.yaml)" "containers[] lacks 'name'"
}

# script FILE: the lines of a block that starts sshd, with --print in place of a run.
script() {
    sed -n '/\/usr\/sbin\/sshd -f/,/exec paro-launch/p' "$EX/$1" |
        sed 's/^ *//; s/^.usr.sbin.sshd.*/:/; s/exec paro-launch/exec paro-launch --print/'
}
# hosts of what is printed.
hosts() { sed 's/^mpirun \(-n [0-9]* -H [^ ]*\) .*/\1/' out; }

@test "the commands of the manifests find their hosts, and end in a command of paro" {
    local pod='paro-train-node-0'
    printf '#!/bin/sh\necho "mpirun (Open MPI) 5.0.7"\n' > mpirun
    chmod 755 mpirun
    PATH=$PWD:$BIN:$PATH
    grep -q "value: $pod-0.paro-train$" "$EX/jobset.yaml"
    script jobset.yaml | MASTER_ADDR=$pod-0.paro-train WORLD_SIZE=2 RANK=0 sh -eu > out
    [ "$(hosts)" = "-n 16 -H $pod-0.paro-train:8,$pod-1.paro-train:8" ]
    grep -q 'paro-train plan.yaml -d data.bin -o run --resume=auto' out
    script health.yaml | HOSTNAME=horing-check-normal-29-0 WORLD_SIZE=4 RANK=0 bash -eu > out
    [ "$(hosts | grep -oE 'horing-check-normal-29-[0-3].horing-check-normal:1' | wc -l)" = 4 ]
    # What the operator mounts for two workers of eight slots.
    printf 'paro-train-worker-%s.paro-train.default.svc slots=8\n' 0 1 > hostfile
    sed -n 's/^ *command: \[paro-launch, --\]/paro-launch --print --/p; s/^ *args: \[\(paro-train.*\)\]/\1/p' "$EX/mpijob.yaml" |
        tr -d ',"' | paste -sd ' ' > line
    OMPI_MCA_orte_default_hostfile=hostfile OMPI_MCA_plm_rsh_args='-o ConnectionAttempts=10' sh -eu line > out
    [ "$(hosts)" = '-n 16 -H paro-train-worker-0.paro-train.default.svc:8,paro-train-worker-1.paro-train.default.svc:8' ]
    grep -q -- "--prtemca plm_ssh_args '-o ConnectionAttempts=10'" out
}

@test "the DaemonSet's command checks a host under /host and writes its metrics" {
    load health_box
    make_box node17
    mkdir metrics
    sed -n '/while :; do/,/ done$/p' "$EX/health.yaml" |
        sed "s|/host/|$PWD/box/|g; s|/state|$PWD/state|; s|/metrics|$PWD/metrics|; s|sleep 300|break|" > loop
    sh -eu loop
    grep -qx 'horing_state 0' metrics/horing.prom
}
