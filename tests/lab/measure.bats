# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full,alone
# paro-topo measures what paro-lab shapes.

load lab
load ../cmd/fabric

# measure OPTION...: the fabric in `fabric`.
measure() {
    timeout 200 paro-lab "$@" -- "$BIN/paro-topo" >fabric 2>said || { cat fabric said; return 1; }
}

@test "2x2: port, flow and member rates; groups by host; memory and flops" {
    again healthy
    grep -qx '  - host: node0' fabric
    grep -qx '    ranks: \[2, 3\]' fabric
    grep -qE '^memory_bytes: [0-9]{8,}$' fabric
    grep -qE '^flops: [0-9.e+]+$' fabric
}

@test "2x2: copies, and what ranks keep that compute and send; one rank keeps no such thing" {
    measure -g 2 -p 2 -r 500mbit
    # A byte in a second of today's memory, and more than any has: wide, since it is the machine's.
    number memory_Bps 1e8 1e13
    number rate_left 0.000001 1
    number compute_left 0.000001 1
    # Nothing where processors are to spare; else a part of some pieces of 5 ms.
    ! grep -q use_lost_s: fabric || number use_lost_s 0 1
    [ "$(grep -c rate_left: fabric)" = 2 ]
    [ "$(grep -c compute_left: fabric)" = 2 ]
    again measure -g 2 -p 1
    [ "$(grep -c rate_left: fabric)" = 1 ] # between the hosts alone
    measure -g 1 -p 1
    number memory_Bps 1e8 1e13
    [ "$(grep -c left: fabric)" = 0 ]
}

# The flow's rate is a line's slope; it alone is bound by the same port.
lines() {
    timeout 200 paro-lab -g 2 -p 2 -r 500mbit -- "$BIN/paro-topo" \
        -m "$ROOT/examples/models/llama-tiny.json" --seq 64 >fabric || return
    near levels.1.flow_Bps 59.8
}

@test "2x2: lines with their errors; the compute rate of a model's matrices" {
    again lines
    # Beyond any two processes of one machine, and beyond what a busy one makes of a ping.
    number latency_s 1e-8 0.1
    for key in latency_err_s flow_err_Bps port_err_Bps member_err_Bps; do
        [ "$(grep -c "$key:" fabric)" = 2 ]
    done
    # Some FLOP/s, and no more than any core has.
    number flops 1e6 1e13
}

# A token bucket passes no more than its rate, 100 Mbit/s x 1448/1514 = 11.96 MB/s; the clock starts
# when it is empty, and what it counts is known to a part of a chunk of 60 KiB.  Half a chunk of
# each of the four streams, taken for something that came later, was 6 % of the 2 MiB; of one it is
# 1.5 %: 3 % are too much, on a busy machine too.
four_streams() {
    measure -g 2 -p 4 -r 100mbit || return
    awk '/name: inter/ { inter = 1 }
         inter && $1 == "port_Bps:" { seen = 1; if ($2 < 0.9 * 11.96e6 || $2 > 1.03 * 11.96e6) { print; bad = 1 } }
         END { exit !seen || bad }' fabric
}

@test "2x4: four streams through one port are not taken for more than it passes" {
    again four_streams
}

@test "3x1: a slow port's own two directions, and not its partners'" {
    again slow_ways
}

@test "ragged groups, one host, one rank: each a fabric that reads back" {
    measure -p 3,1
    grep -qx '    ranks: \[0, 1, 2\]' fabric
    measure -g 1 -p 2
    measure -g 1 -p 1
    paro-topo -i fabric --diff fabric
}

@test "a wrong option, a port that is cut: one line, status 2, and it ends" {
    ends_with_2 -- "$BIN/paro-topo" --bogus
    cut_ends_with_2 2
}
