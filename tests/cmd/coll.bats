# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Programs of tests/mpi on real ranks: coll_check, every conversion between layouts by every algorithm;
# vector_check, collectives over blocks in rank order, and worlds over communicators; world_check, ranks
# that come to one opinion, share memory, and do not wait for ever.
# shellcheck disable=SC2016,SC2086

load refuses

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    # Open MPI's modules are gone when leaks are counted: what they keep has no name any more.
    [ -z "${SAN-}" ] || export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
}

check() {
    run --separate-stderr mpirun -np "$1" "$B/mpi/coll_check" "${@:2}"
    echo "${stderr-}"
    [ "$status" = 0 ] && [[ "${lines[0]}" == "ok "[1-9]* ]]
}

right() {
    run --separate-stderr mpirun -np "$1" "$B/mpi/vector_check" "$2"
    echo "${stderr-}"
    [ "$status" = 0 ] && [ "$output" = ok ]
}

# A rank that never arrives: the others give up at the deadline, here half a second.
gives_up() {
    run mpirun -np 3 "$B/mpi/world_check" "$@"
    [ "$status" = 3 ]
    [[ "$output" == *"ok $1: no "*" ${WHO-other ranks}"*" 0.5 s"* ]]
}

@test "one rank alone" {
    run --separate-stderr "$B/mpi/coll_check" 1x1
    echo "${stderr-}"
    [ "$status" = 0 ] && [[ "$output" == "ok "[1-9]* ]]
}

@test "shared memory inside the host" {
    check 2 2x1
    check 3 1x3
    check 4 2x2
    check 5 '[3,2]'
    check 6 3x2
    check 6 '[3,2,1]'
}

@test "messages inside the host too" {
    check 4 2x2 no-shared
    check 5 '[3,2]' no-shared
    check 6 3x2 no-shared
}

@test "ranks placed by node: groups are not blocks of ranks" {
    check 4 2x2 by-node
    check 5 '[3,2]' by-node
    check 5 '[3,2]' by-node no-shared
}

@test "a window much smaller than a queue" {
    check 4 2x2 no-shared narrow
    check 5 '[3,2]' by-node no-shared narrow
}

@test "what crosses groups as int8 blocks, and f32 as bf16" {
    check 2 2x1 int8
    check 4 2x2 int8
    check 4 2x2 bf16
    check 5 '[3,2]' int8 by-node no-shared
    check 5 '[3,2]' bf16 by-node no-shared
    check 6 3x2 int8 narrow
}

@test "auto without a table is refused, on every rank" {
    run -0 mpirun -np 2 "$B/mpi/coll_check" 2x1 untuned
    [ "$(grep -c "^rank [01]: .*'auto'.* tuning table" <<< "$output")" = 2 ]
}

@test "groups of another number of ranks are refused" {
    run mpirun -np 3 "$B/mpi/coll_check" 2x2
    [ "$status" != 0 ]
    [[ "$output" == *"groups "*"4 ranks"*"3 ranks"* ]]
}

@test "every operation, algorithm, count and root: one group, equal ones, ragged ones, placed anyhow" {
    right 1 hosts
    right 3 hosts
    right 4 2x2
    right 5 '[3,2]'
    right 6 0,1,0,1,2,2
    right 7 '[1,2,4]'
}

@test "a rank that waits for its host lets MPI carry on what the program began before" {
    run --separate-stderr timeout 60 mpirun --mca btl tcp,self -np 2 "$B/mpi/vector_check" progress
    echo "${stderr-}"
    [ "$status" = 0 ] && [ "$output" = ok ]
}

@test "agreements, texts, broadcasts, peers, shared memory, refusals" {
    for n in 1 2 3 5; do
        run --separate-stderr mpirun -np "$n" "$B/mpi/world_check"
        echo "${stderr-}"
        [ "$status" = 0 ]
        [ "${lines[0]}" = "ok all" ]
    done
}

@test "an agreement, a barrier, a message of a peer and data each have a deadline" {
    gives_up deadline-agree
    gives_up deadline
    gives_up deadline-peers
    WHO="from rank 1 (" gives_up deadline-data
    WHO="from rank 1 (" gives_up deadline-data no-shared
}

@test "who leaves with an alarm is not waited for" {
    run -3 timeout 40 mpirun -np 3 "$B/mpi/world_check" alarm-left
    [[ "$output" == *"ok alarm-left: rank 1 ("*"): something burns"* ]]
}

@test "a rank that is stopped: each command under mpirun says so by --deadline, in one line" {
    local words helps='' rc
    # Rank 2 stops itself, wherever it is: a start of MPI is given ten times as long.
    printf '#!/bin/sh\nme=$$\n[ "${PMI_RANK-$OMPI_COMM_WORLD_RANK}" != 2 ] ||
        (exec >/dev/null 2>&1 </dev/null 3>&-; sleep 0.7; kill -STOP $me) &\nexec "$@"\n' > victim
    chmod 755 victim
    paro-plan -m "$ROOT/examples/models/llama-tiny.json" -i synth:1x3 --seq 32 > plan.yaml
    seq 20000 > text
    for words in 'paro-bench --algo mpi -n 999999' 'paro-bench --algo ring -n 999999 --op all-reduce' paro-topo \
        'paro-train plan.yaml -d text -o run --steps 999999'; do
        rc=0
        timeout -s KILL 60 mpirun -np 3 ./victim $words --deadline 1 > out 2> said 3>&- || rc=$?
        cat said
        [ "$rc" = 2 ]
        [ "$(grep -c '^paro-' said)" = 1 ]
        # It is stopped in an agreement, or while it sends.
        grep -qE '^paro-[a-z]+: (rank [01] \(.*\): )?no (answer|data) from (other ranks|rank 2) .* 10? s' said
        helps+=$("${words%% *}" --help=all | grep -c -- '--deadline=.* Give up on ranks that do not')
    done
    [ "$helps" = 1111 ]
}

# Open MPI 5 has a line for each pair of them on a machine with IPv6.
@test "ranks of one host: Open MPI reports nothing, whatever the addresses of the machine" {
    env -u OMPI_MCA_btl_tcp_disable_family mpirun -np 3 paro-bench --groups 3x1 -b 1K -n 1 -w 1 > out 2> said
    [ "$(grep -c 'all-gather' out)" -ge 1 ]
    run ! grep -v '^paro-bench: doubt: ' said # of a busy machine
}
