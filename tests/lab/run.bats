#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
#
# shellcheck disable=SC2016 # what the lab expands
#
# paro-run on emulated nodes that lose ranks and hosts.  The oracle is a run of one rank that nothing
# disturbs: --exact makes both the same, bit for bit.

bats_require_minimum_version 1.5.0
load lab

export MODELS=$BATS_TEST_DIRNAME/../../examples/models

STEPS=60

setup_file() {
    find_lab || return 0
    PATH=$BIN:$PATH
    cd "$BATS_FILE_TMPDIR" || return
    seq 1 20000 > text
    local batch=(--seq 32 --global-batch 12 --micro-batch 1)
    paro-topo -i synth:3x2,inter=500mbit,flops=1e10 --hosts 'node[0-2]' > fabric.yaml
    paro-plan -m "$MODELS/llama-tiny.json" -i synth:1x1,flops=1e10 "${batch[@]}" > one.yaml 2> said
    paro-train one.yaml -d text -o one --exact --steps $STEPS > out 2> said
    hashes one > want
    # What happens to the nodes, for the script of a test to say.
    cat > disturb.sh <<'END'
after() { until grep -q "\"step\":$1[,}]" run/log.jsonl 2>/dev/null; do sleep 0.05; done; }
ranks_of() { # NODE
    for p in $(pgrep -f 'paro-train .*plan.yaml'); do
        [ "$(nsenter -t "$p" -u hostname 2>/dev/null)" != "$1" ] || echo "$p"
    done
}
# No agent reaches it, and its ranks are gone.
lose_node() { # NODE
    mount --bind /dev/null "/dev/shm/.paro-lab/$1.uts"
    # shellcheck disable=SC2046
    kill -9 $(ranks_of "$1")
}
return_node() { umount "/dev/shm/.paro-lab/$1.uts"; }
END
}

setup() {
    [ -z "${NO_LAB-}" ] || skip "no namespaces here: $NO_LAB"
    PATH=$BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
    cp "$BATS_FILE_TMPDIR"/{text,fabric.yaml,want,disturb.sh} .
}

hashes() { sed -n 's/.*"step":\([0-9]*\).*"state_hash":"\([0-9a-f]*\)".*/\1 \2/p' "$1/log.jsonl"; }

# lab_run SCRIPT OPTION...: paro-run in the lab while SCRIPT disturbs it.
lab_run() {
    {
        echo '. ./disturb.sh'
        printf 'paro-run -i fabric.yaml -m %s -o run --plan "--seq 32 --global-batch 12 --micro-batch 1" --log log %s' \
            "$MODELS/llama-tiny.json" "${*:2}"
        echo " -- -d text --exact --steps $STEPS --save-every 5 --deadline 5 > out & run=\$!"
        echo "$1"
        echo 'wait $run'
    } > job.sh
    timeout 240 paro-lab --head -g 3 -p 2 -- sh job.sh > said 2>&1
}

# said PATTERN: in the log, after date and time.  Which step a checkpoint is of depends on the load.
said() { grep -qE "^[^ ]+ [^ ]+ .*$1" log || { cat log said; return 1; }; }

@test "a killed rank, a stopped rank, a lost node: the bits of an undisturbed run" {
    lab_run 'after 7; kill -9 $(ranks_of node2 | head -n 1)
             after 25; kill -STOP $(ranks_of node0 | head -n 1)
             after 45; lose_node node1'
    diff want <(hashes run)
    said 'on 3 of 3 hosts, from step 1: node0 node1 node2'
    said 'ended with status 137 after step [0-9]+'
    said 'node1 is left out: it does not answer'
    [ "$(grep -c 'on 3 of 3 hosts' log)" -ge 3 ]
    said 'on 2 of 3 hosts, from step [0-9]+: node0 node2'
}

@test "spares, hosts that return, and a stop in good order" {
    lab_run 'after 6; lose_node node1; until grep -q "on 2 of" log; do sleep 0.1; done; return_node node1
             until [ "$(grep -c "on 3 of" log)" = 2 ]; do sleep 0.1; done; kill -TERM $run' --grow 1 || status=$?
    [ "${status-0}" = 3 ] || { cat log said; false; }
    said 'on 3 of 3 hosts, from step 1: node0 node1 node2'
    said 'on 2 of 3 hosts, from step [0-9]+: node0 node2'
    said 'hosts have returned'
    said 'stopping in good order'
    # The same command continues it, here on another number of hosts.
    lab_run ':' --use 1
    said 'on 1 of 3 hosts'
    diff want <(hashes run)
}

@test "what cannot go on ends: too few hosts, options of paro-train, the same step again and again" {
    run -2 lab_run 'after 6; lose_node node1; lose_node node2' --least 2
    said '1 of 3 hosts are healthy, expected at least 2'
    rm -rf run log
    run -2 lab_run ':' --restarts 3 --plan="'--strategy XYZ'"
    rm -rf run log
    run -2 lab_run 'after 6; while kill -0 $run; do kill -9 $(ranks_of node0 | head -n 1); sleep 0.05; done 2> kills'
    said 'failed 3 times after step'
}
