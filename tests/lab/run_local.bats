# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# shellcheck disable=SC2016 # what the lab expands
#
# paro-run with --local-save on emulated nodes that are lost, alone or with their disks.  The nodes see the
# same folder, as hosts do whose DIR is shared: each has a part of its own.  The oracle is a run of one rank
# that nothing disturbs, bit for bit.

bats_require_minimum_version 1.5.0
load lab
load run

STEPS=120

setup_file() { run_begin $STEPS; }
setup() { run_setup; }

# local_run SCRIPT STRATEGY OPTION...: loses what SCRIPT says while a checkpoint is made every 40 steps, and a local
# one every 4.
local_run() {
    PLAN="--strategy $2" TRAIN="--save-every 40 --local-save local --local-every 4 ${*:3}" lab_run "$1"
    cmp want <(hashes run)
    [ -z "$(find local -mindepth 1 ! -path 'local/node1*')" ] # but what a host that is gone has
}
# A step after N that all three nodes have.
after_save='saved() { ls -d local/node?.*/step-*/manifest.json 2>/dev/null | cut -d / -f 3 | sort | uniq -c |
        awk -v n="$1" "\$1 == 3 && substr(\$2, 6) + 0 > n { have = 1 } END { exit !have }"; }
    after_save() { until saved "$1"; do sleep 0.05; done; }'

@test "a lost node, and a damaged manifest: shards are read from the copies that were sent to other groups" {
    local_run "$after_save; after_save 0; lose_node node1; rm -r local/node1*; sed -i s/GGG/GIG/ local/node0*/*/manifest.json" GGG
    said 'resumes from local copies of 2 hosts \(2 of 6 shards from copies\) at step [0-9]+ of 120; [0-9]+ steps? (is|are) lost'
    said 'on 2 of 3 hosts, from step 1 or later: node0 node2'
}

@test "a host whose disk is gone, and groups that hold the same states: nothing is sent" {
    # Stopped first, so that they save nothing between the two.
    local_run "$after_save; after_save 0; "'kill -STOP $(ranks_of node0); rm -r local/node0*
        kill -9 $(ranks_of node0 | head -n 1)' IIG
    said 'resumes from local copies of 2 hosts \(2 of 6 shards from copies\)'
    said 'on 3 of 3 hosts, from step 1 or later: node0 node1 node2'
}

@test "two nodes of different groups: both copies survive C = 2, or the run's folder has an older step" {
    local_run "$after_save; after_save 0; lose_node node1; lose_node node2; rm -r local/node[12]*" IGG --copies 2
    said 'resumes from local copies of 1 host \(4 of 6 shards from copies\)'
    rm -rf run local log
    local_run "$after_save; after_save 40; lose_node node1; lose_node node2; rm -r local/node[12]*" GGG
    said 'resumes from .* at step 41 of 120' # if hosts have a part of that step, of both
    said 'local checkpoint of step [0-9]+ is not used: 2 of its 6 shards are on no host that is here'
}

@test "one host cannot write: no host has the checkpoint, with one line, and the run continues" {
    local_run "$after_save"'; after_save 0; d=$(echo local/node1.*); : > f
        until [ -f "$d" ]; do rm -rf "$d"; mv -T f "$d"; done 2> moved' GGG
    [ "$(grep -c 'no local checkpoint of step .*: rank 2 (node1): ' said)" = 1 ]
    if grep 'ended with' log; then false; fi
}
