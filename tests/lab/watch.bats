# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full,alone
# horing-watch on programs that run on emulated hosts, whose records it reads while they run: one
# rank is stopped again and again, then for good.

load lab.bash

setup_file() {
    find_lab || return 0
    cd "$BATS_FILE_TMPDIR" || return
    mpicc -O1 -o loop "$ROOT/tests/lab/watch_loop.c"
}

setup() {
    [ -z "${SAN-}" ] || skip "a sanitizer wants to be preloaded first"
    [ -z "${NO_LAB-}" ] || skip "no namespaces here: $NO_LAB"
    cd "$BATS_TEST_TMPDIR" || return
    L=$BATS_FILE_TMPDIR/loop
}

teardown() {
    [ -z "${lab-}" ] || kill "$lab" 2> /dev/null || true
    [ -z "${lab-}" ] || wait "$lab" || true
}

# begin: the loop on three hosts, in the background; waits for its records
begin() {
    rm -rf m
    paro-lab -g 3 -p 1 -- env LD_PRELOAD="$B/libparo-mpi.so" PARO_METER="$PWD/m" "$L" "$@" > out 2>&1 &
    lab=$!
    for _ in $(seq 300); do
        [ "$(find m -type f 2> /dev/null | wc -l)" -lt 3 ] || break
        sleep 0.2
    done
}

# of_rank N: its process, as this system counts them (the lab has numbers of its own)
of_rank() {
    for p in $(pgrep -f "^$L "); do
        tr '\0' '\n' < "/proc/$p/environ" 2> /dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1" || continue
        [ "$(readlink "/proc/$p/exe")" != "$L" ] || { echo "$p"; return; }
    done
}

healthy_loop() {
    begin 4 20000
    wait "$lab" || return
    lab=
    rc=0
    horing-watch -v m > out || rc=$?
    cat out
    # On a busy machine the ranks are stopped by others, and nobody is late.
    grep -qE '^WATCH (OK - 3 ranks on 3 hosts, .*: healthy|WARNING - unsteady: .* lost inside calls)' out &&
        [ "$(grep -cE '^clock of node[0-9]+: ' out)" = 2 ]
}

@test "a healthy program" {
    again healthy_loop
}

slowed_loop() {
    begin 60 20000
    local p
    p=$(of_rank 1)
    [ -n "$p" ] || return
    for _ in $(seq 200); do # most of the time it stands still
        kill -STOP "$p"
        sleep 0.06
        kill -CONT "$p"
        sleep 0.02
    done
    rc=0
    horing-watch -v m > out || rc=$?
    kill "$lab"
    wait "$lab" || true
    lab=
    cat out
    [ $rc = 1 ] || [ $rc = 2 ] || return
    grep -qE '^WATCH [A-Z]+ - rank 1 \(node[0-9]+\) is [0-9]+ % late' out
}

@test "a rank that is stopped most of the time" {
    again slowed_loop
}

# It spends its time in transfers: stopped there it arrives late at nothing.
stopped_transfers() {
    rm -rf m
    paro-lab -g 2 -p 2 -r 500mbit -- env LD_PRELOAD="$B/libparo-mpi.so" PARO_METER="$PWD/m" "$L" 200000 150 > out 2>&1 &
    lab=$!
    local p
    for _ in $(seq 300); do
        p=$(of_rank 1)
        [ -z "$p" ] || break
        sleep 0.1
    done
    [ -n "$p" ] || return
    while kill -STOP "$p" 2> /dev/null; do
        sleep 0.06
        kill -CONT "$p"
        sleep 0.02
    done
    wait "$lab" || true
    lab=
    rc=0
    horing-watch -v m > out || rc=$?
    cat out
    [ $rc = 1 ] || [ $rc = 2 ] || return
    grep -qE 'unsteady: [0-9]+ % of the time is lost inside calls, which end late on ranks? (0-)?1' out
}

@test "a rank that is stopped while it transfers" {
    mpicc -O2 -o cg "$ROOT/examples/mpi/cg.c" -lm
    L=$PWD/cg
    again stopped_transfers
}

@test "a rank that is stopped for good" {
    begin 60 20000
    local p
    p=$(of_rank 2)
    [ -n "$p" ]
    sleep 3
    kill -STOP "$p"
    for _ in $(seq 60); do
        rc=0
        horing-watch --hang 1 m > out || rc=$?
        ! grep -q '^WATCH CRITICAL - \(hung\|stuck\)' out || break
        sleep 0.5
    done
    kill -CONT "$p"
    cat out
    [ "$rc" = 2 ]
    # It stopped between two calls, or within one that the others have completed or not.
    grep -qE '^WATCH CRITICAL - (hung: ranks 0-1 wait in all-(gather|reduce) of .*, rank 2 \(node[0-9]+\) never arrived, its last call was |stuck: ranks? ([01](-|, ))?2 )' out
}
