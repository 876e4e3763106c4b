# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# shellcheck disable=SC2016 # what the lab expands
#
# paro-run on emulated nodes that lose ranks and hosts.  The oracle is a run of one rank that nothing
# disturbs: --exact makes both the same, bit for bit.

bats_require_minimum_version 1.5.0
load lab
load run

STEPS=60

setup_file() { run_begin $STEPS; }
setup() { run_setup; }

@test "a killed rank, a stopped rank, a lost node: the bits of an undisturbed run" {
    lab_run 'after 7; kill -9 $(ranks_of node2 | head -n 1)
             after 25; kill -STOP $(ranks_of node0 | head -n 1)
             after 35; lose_node node1'
    diff want <(hashes run)
    said 'on 3 of 3 hosts, from step 1: node0 node1 node2'
    said 'a rank was killed \(signal 9\) after step [0-9]+; restarts from (local copies, or from )?step [0-9]+'
    said 'node1 is left out: it does not answer'
    [ "$(grep -c 'on 3 of 3 hosts' log)" -ge 3 ]
    said 'on 2 of 3 hosts, from step [0-9]+: node0 node2'
}

@test "a port that stays cut: its host is left out" {
    lab_run 'after 7; ip link set d1 down'
    diff want <(hashes run)
    said 'node1 is left out: node0 does not reach it'
    said 'on 2 of 3 hosts, from step [0-9]+: node0 node2'
}

@test "spares, hosts that return, and a stop in good order" {
    # A step takes 0.1 s at least, on every processor: the host shall return before the run ends.
    RATE=100mbit lab_run 'after 6; lose_node node1; until grep -q "on 2 of" log; do sleep 0.1; done; return_node node1
             until [ "$(grep -c "on 3 of" log)" = 2 ] && [ -n "$(ranks_of node1)" ]; do sleep 0.1; done
             kill -TERM $run' --grow 1 || status=$?
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
    run -2 lab_run 'after 6; while kill -0 $run; do kill -9 $(ranks_of node0); sleep 0.05; done 2> kills'
    said 'failed 3 times after step'
}
