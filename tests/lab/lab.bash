# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests on emulated nodes share.
load ../cmd/skip

# In setup_file: 1 where there can be no lab, and NO_LAB says why.  Asked of the kernel, not of
# paro-lab: a lab that is broken must fail, not skip.
find_lab() {
    unshare -U -r -m -n -p -f --mount-proc true 2>"$BATS_FILE_TMPDIR/why" ||
        unshare -m -n -p -f --mount-proc true 2>"$BATS_FILE_TMPDIR/why" || {
        NO_LAB=$(cat "$BATS_FILE_TMPDIR/why")
        export NO_LAB
        skip_file "no namespaces here: $NO_LAB"
        return 1
    }
}

setup_file() { find_lab || return 0; }

setup() {
    skip_test
    cd "$BATS_TEST_TMPDIR" || return
    export G=$BATS_FILE_TMPDIR
}

# The third time at the latest: the load of the neighbours passes, within seconds.
again() { "$@" || { sleep 5 && "$@"; } || { sleep 20 && "$@"; }; }

# ends_with_2 COMMAND...: status 2, one line of paro-topo's, nothing on standard output.
ends_with_2() {
    local rc=0
    timeout 60 paro-lab -r 500mbit "$@" >out 2>said || rc=$?
    cat said
    [ $rc = 2 ] && [ ! -s out ] && [ "$(grep -c '^paro-topo: ' said)" = 1 ]
}

# A port of node 1 is cut; the third time at the latest: the cut must fall into the measuring, not
# before it begins.
cut_ends_with_2() { # SECONDS OPTION...
    for _ in 1 2 3; do
        ! ends_with_2 --cut "1:$1" -- "$BIN/paro-topo" "${@:2}" --deadline 15 || return 0
    done
    false
}

# What paro-lab shapes, 500 Mbit/s x 1448/1514 = 59.8 MB/s of payload, within a tenth (near, of
# tests/cmd/fabric.bash): a machine with busy neighbours measures less, and the bucket lets nothing
# through that is more (but for what arrives late at the start of the clock).
healthy() { # OPTION... of measure
    measure -g 2 -p 2 -r 500mbit "$@" || return
    near levels.1.port_Bps 59.8 && near levels.1.flow_Bps 59.8 &&
        near levels.1.member_Bps 29.9 && near groups.1.port_in_Bps 59.8
}
slow_ways() {
    measure -g 3 -p 1 -r 500mbit --slow 1:250mbit/400mbit "$@" || return
    near groups.1.port_out_Bps 29.9 && near groups.1.port_in_Bps 47.8 &&
        near groups.0.port_out_Bps 59.8 && near groups.2.port_in_Bps 59.8
}
