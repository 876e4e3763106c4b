# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full,alone
# paro-topo --discover on emulated nodes: groups by measurement alone, also where host names say
# something else.

bats_require_minimum_version 1.5.0
load lab
load ../cmd/fabric

# discover OPTION... [-- WRAPPER...]: the fabric in `fabric`, its shape (hosts, ranks, blocks) in
# `shape`.
discover() {
    local options=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
    timeout 100 paro-lab "${options[@]}" -- "${@:2}" "$BIN/paro-topo" --discover >fabric 2>said ||
        { cat fabric said; return 1; }
    paro-topo -i fabric --diff fabric || return
    grep -E '^  - host|^ *(- |  )ranks:|^ *blocks:' fabric | tr -d '\n' | tr -s ' ' >shape
    cat shape
}

@test "2x4, by slot and by node" {
    discover -g 2 -p 4 -r 500mbit
    [ "$(cat shape)" = " - host: node0 ranks: [0, 1, 2, 3] - host: node1 ranks: [4, 5, 6, 7]" ]
    discover -g 2 -p 4 -r 500mbit --map-by node
    [ "$(cat shape)" = " - host: node0 ranks: [0, 2, 4, 6] - host: node1 ranks: [1, 3, 5, 7]" ]
}

@test "[3,2], by slot and by node; 3x2 of 1 Gbit/s" {
    discover -p 3,2 -r 100mbit
    [ "$(cat shape)" = " - host: node0 ranks: [0, 1, 2] - host: node1 ranks: [3, 4]" ]
    discover -p 3,2 -r 500mbit --map-by node
    [ "$(cat shape)" = " - host: node0 ranks: [0, 2, 4] - host: node1 ranks: [1, 3]" ]
    discover -g 3 -r 1gbit --map-by node
    [ "$(cat shape)" = " - host: node0 ranks: [0, 3] - host: node1 ranks: [1, 4] - host: node2 ranks: [2, 5]" ]
}

@test "one host, one rank: one group" {
    discover -g 1 -p 5
    [ "$(cat shape)" = " - host: node0 ranks: [0, 1, 2, 3, 4]" ]
    discover -g 1 -p 1
    [ "$(cat shape)" = " - host: node0 ranks: [0]" ]
}

# What ranks in containers look like: each names its host by its own number.
hidden() {
    # shellcheck disable=SC2016 # for the inner shell
    discover -g 2 -p 4 -r 500mbit -- unshare -u sh -c \
        'hostname "h$OMPI_COMM_WORLD_RANK" && exec "$@"' sh &&
        [ "$(cat shape)" = " - ranks: [0, 1, 2, 3] - ranks: [4, 5, 6, 7]" ] &&
        near levels.1.port_Bps 59.8
}

@test "hosts of one rank each by name: 2x4 all the same, and its ports" {
    again hidden
}

three_levels() {
    discover -g 4 -p 2 -r 1gbit --slow 0-2:50mbit --slow 0-3:50mbit --slow 1-2:50mbit \
        --slow 1-3:50mbit &&
        [ "$(grep -o 'ranks: [^]]*]' shape | tr -d '\n')" = "ranks: [0, 1]ranks: [2, 3]ranks: [4, 5]ranks: [6, 7]" ] &&
        [ "$(grep -o 'blocks: [^]]*]' shape | tr -d '\n')" = "blocks: [0]blocks: [0]blocks: [1]blocks: [1]" ] &&
        grep -qx '  - name: level2' fabric
}

@test "three levels: pairs of nodes that are near" {
    again three_levels # all 8 ranks at once through 50 Mbit/s while all compute: loads that pass
}

# bats test_tags=long
@test "64 ranks in a minute" {
    local start=$SECONDS
    discover -g 8 -p 8 -r 500mbit
    [ $((SECONDS - start)) -le 60 ]
    [ "$(grep -o 'host: node' shape | wc -l)" = 8 ]
    start=$SECONDS
    mpirun -np 64 paro-topo --discover >fabric
    [ $((SECONDS - start)) -le 60 ]
    [ "$(grep -c ranks: fabric)" = 1 ]
}

@test "a port that is cut: one line, status 2, and it ends" {
    cut_ends_with_2 1.5 --discover
}
