# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full,alone
# paro-lab in real namespaces.  Rates are checked to a quarter: wide enough for the burst and
# the slow start of a short flow, narrow enough to tell a shaped port (500 Mbit/s x 1448/1514 =
# 59.8 MB/s) from an unshaped one, from half of it, and a slow port from the others.
# shellcheck disable=SC2001,SC2016,SC2046

load lab

setup_file() {
    find_lab || return 0
    mpicc -O2 -o "$BATS_FILE_TMPDIR/flow" "$BATS_TEST_DIRNAME/flow.c"
    export FLOW=$BATS_FILE_TMPDIR/flow
}

# lab ARG...: standard output only; Open MPI talks on the other.
LAB=(paro-lab)
lab() { run --separate-stderr "${LAB[@]}" "$@"; }
bats_require_minimum_version 1.5.0

# carries "FLOW=MB/s..." MEBIBYTES OPTION...: runs all flows at once and compares.  A bucket
# lets nothing through that is too much, however busy the machine; too little may be its load,
# so that counts only the third time.
carries() {
    local expected=$1 mib=$2 try
    shift 2
    for try in 1 2 3; do
        lab "$@" "$FLOW" "$mib" $(sed 's/=[^ ]*//g' <<<"$expected")
        [ "$status" -eq 0 ]
        awk -v expected="$expected" '
            { got[$1] = $2 }
            END {
                n = split(expected, flows, / /)
                for (i = 1; i <= n; i++) {
                    split(flows[i], f, /=/)
                    if (got[f[1]] > f[2] * 1.25) exit 2
                    if (got[f[1]] < f[2] * 0.75) low = 1
                }
                exit low
            }' <<<"$output" && return 0 || [ $? -eq 1 ] || break
    done
    echo "try $try: expected $expected, got: $output"
    false
}

# where "RANK NODE LOCAL OF, ..." OPTION...: the ranks' places; nothing on standard error.
where() {
    lab "${@:2}" "$FLOW" where
    [ "$status" -eq 0 ]
    [ "${output//$'\n'/, }" = "$1" ]
    [ -z "$stderr" ]
}

@test "ranks fill node after node, or go to each in turn; a node is one shared-memory domain" {
    where "0 node0 0 2, 1 node0 1 2, 2 node1 0 2, 3 node1 1 2"
    where "0 node0 0 3, 1 node0 1 3, 2 node0 2 3, 3 node1 0 2, 4 node1 1 2" -p 3,2
    where "0 node0 0 3, 1 node1 0 2, 2 node0 1 3, 3 node1 1 2, 4 node0 2 3" -p 3,2 --map-by=node
    where "0 node0 0 1, 1 node1 0 1, 2 node2 0 1, 3 node3 0 1" -g4 --procs 1
}

@test "a port of 500 Mbit/s carries 59.8 MB/s, out and in; a node inside is not shaped" {
    carries 0:2=59.8 16 -r 500mbit
    carries 3:1=59.8 16 -r 500mbit
    lab -r 500mbit "$FLOW" 64 0:1
    [ "$(awk '{ print ($2 > 200) }' <<<"$output")" = 1 ]
}

@test "a slow port, out and in apart, leaves the others alone" {
    carries 1:0=11.96 4 -g 3 -p 1 -r 500mbit --slow 1:100mbit/250mbit
    carries 0:1=29.9 8 -g 3 -p 1 -r 500mbit --slow 1:100mbit/250mbit
    carries 0:2=59.8 16 -g 3 -p 1 -r 500mbit --slow 1:100mbit/250mbit
}

@test "one rate for a slow port goes both ways" {
    carries 0:1=11.96 4 -p 1 -r 500mbit --slow=0:100mbit
    carries 1:0=11.96 4 -p 1 -r 500mbit --slow=0:100mbit
}

@test "a slow pair is slow both ways, shaped or not, and the rest of the port stays free" {
    carries "0:1=11.96 0:2=47.8" 8 -g 3 -p 1 -r 500mbit --slow 0-1:100mbit
    carries 1:0=11.96 4 -g 3 -p 1 -r 500mbit --slow 0-1:100mbit
    carries 0:2=59.8 16 -g 3 -p 1 -r 500mbit --slow 0-1:100mbit
    carries 1:0=11.96 4 -g 3 -p 1 --slow 0-1:100mbit
}

# Prints every state of each node's data port, without repetition, for SECONDS.
watch_port() {
    cat >watch <<'WATCH'
#!/bin/bash
PATH=$PATH:/usr/sbin:/sbin
for ((i = 0; i < $1 * 10; i++)); do
    state=$(ip -br link show data | awk '{ print $2 }')
    [[ $state == "${last-}" ]] || echo "$(hostname) $state"
    last=$state
    sleep 0.1
done
WATCH
    chmod +x watch
}

@test "--cut takes one data port down for good, and mpirun still ends" {
    watch_port
    lab -p 1 --cut 1:2 ./watch 5
    [ "$status" -eq 0 ]
    [ "$(sort <<<"$output")" = "node0 UP
node1 DOWN
node1 UP" ]
    [ "$(grep node1 <<<"$output" | tail -n 1)" = "node1 DOWN" ]
}

@test "--flap takes a data port down and up in turn" {
    watch_port
    lab -p 1 --flap 0:1/1 ./watch 7
    [ "$status" -eq 0 ]
    [ "$(grep -c 'node0 UP' <<<"$output")" -ge 2 ]
    [ "$(grep -c 'node0 DOWN' <<<"$output")" -ge 2 ]
    [ "$(grep -c node1 <<<"$output")" -eq 1 ]
}

@test "exit status is COMMAND's, without a word of mpirun; a killed rank gives 137 and one line" {
    lab sh -c 'exit 7'
    [ "$status" -eq 7 ]
    [ -z "$stderr" ]
    lab "$FLOW" leave 7
    [ "$status" -eq 7 ]
    [ -z "$stderr" ]
    lab -g 1 -p 1 sh -c 'kill -9 $$'
    [ "$status" -eq 137 ]
    [[ $stderr == "paro-lab: "*"killed by signal 9 "* ]]
    lab "$FLOW" die 1
    [ "$status" -eq 137 ]
    grep -qx "paro-lab: rank 1 (node0) was killed by signal 9 (Killed)" <<<"$stderr"
    lab "$FLOW" abort 1
    [ "$status" -eq 5 ]
    [[ $stderr != *MPI_ABORT* && $stderr != *"-----"* ]]
}

@test "Open MPI's errors are relayed as they are" {
    lab -g 1 -p 1 --mca btl bogus "$FLOW" where
    [ "$status" -ne 0 ]
    [[ $stderr == *"Component: bogus"* ]]
}

@test "standard output that cannot be written is the status 2; a closed pipe is none" {
    run -2 --separate-stderr bash -c 'paro-lab -p 1 echo word >/dev/full'
    [ "$stderr" = "paro-lab: cannot write to standard output" ]
    run -2 bash -c 'paro-lab -p 1 echo word >&- 2>/dev/null'
    run -7 bash -c "paro-lab -p 1 sh -c 'echo word; exit 7' >/dev/full 2>&1"
    run -0 --separate-stderr bash -c "set -o pipefail; paro-lab -p 1 sh -c 'sleep 0.3; echo word' | true"
    [ -z "$stderr" ]
}

@test "standard input is rank 0's; folder, environment and arguments are the caller's" {
    mkdir "a folder"
    cd "a folder"
    PARO_TRY="x y" lab -p 1 -- sh -c '
        [ "$OMPI_COMM_WORLD_RANK" = 1 ] || { pwd; echo "$PARO_TRY|$1|$2"; cat; }' \
        sh 'two  words' '' <<<"from stdin"
    [ "$output" = "$PWD
x y|two  words|
from stdin" ]
}

@test "nodes use reno and know each other's names" {
    lab -p 1 sh -c 'cat /proc/sys/net/ipv4/tcp_congestion_control; getent hosts node1'
    [ "$(sort -u <<<"$output" | awk '{ $1 = $1; print }')" = "10.77.0.2 node1
reno" ]
}

@test "--mca passes on and replaces the lab's own" {
    lab -g 1 -p 1 --mca mpi_yield_when_idle 0 --mca=btl_tcp_links 2 \
        sh -c 'echo $OMPI_MCA_mpi_yield_when_idle $OMPI_MCA_btl_tcp_links'
    [ "$output" = "0 2" ]
    [ -z "$stderr" ]
}

@test "a folder in /dev/shm stays reachable, files made beside it do not stay" {
    dir=$(mktemp -d /dev/shm/lab-test.XXXXXX)
    cd "$dir"
    lab -g 1 -p 1 sh -c "echo kept >kept; echo gone >$dir.gone"
    kept=$(cat kept)
    rm -r "$dir"
    [ "$status" -eq 0 ]
    [ "$kept" = kept ]
    [ ! -e "$dir.gone" ]
}

# remains: what there still is of kill_lab's processes and network namespaces.
remains() {
    pgrep -f "$prog" || true
    lsns -n -t net -o NS | grep -F "$(tr -dc '0-9\n' <"$net" | sort -u)" || true
}

# kill_lab SIGNAL pid|group [PREFIX...]: starts endless traffic, kills, waits; then nothing of
# the lab may remain.  The lab's own numbers (network namespace) and names (program) are looked
# for, as other labs may run beside this one.
kill_lab() {
    local sig=$1 whom=$2 i net=$BATS_TEST_TMPDIR/net.$1.$2 prog=$BATS_TEST_TMPDIR/flow.$1.$2
    local links own=$BATS_TEST_TMPDIR/tmp
    shift 2
    cp "$FLOW" "$prog"
    mkdir -p "$own"
    chmod 777 "$own" "$BATS_TEST_TMPDIR"
    links=$(ip -br link 2>/dev/null | cut -d' ' -f1)
    set -m # a process group of its own, and SIGINT not ignored
    TMPDIR=$own "$@" paro-lab -r 500mbit -- sh -c "
        readlink /proc/self/ns/net >>'$net'
        exec '$prog' forever 0:2 2:0" >/dev/null 2>&1 3>&- &
    set +m
    for ((i = 0; i < 600; i++)); do
        [[ ! -e $net || $(wc -l <"$net") -ne 4 ]] || break
        sleep 0.1
    done
    [ "$(sort -u "$net" | wc -l)" -eq 2 ] # it ran, on two nodes
    sleep 0.3
    if [ "$whom" = group ]; then kill -s "$sig" -- "-$!"; else kill -s "$sig" "$!"; fi
    status=0
    wait "$!" || status=$?
    [ "$status" -eq $((128 + $(kill -l "$sig"))) ]
    # The kernel takes namespaces down a moment after their first process.
    for ((i = 0; i < 300; i++)); do
        [ -n "$(remains)" ] || break
        sleep 0.1
    done
    [ -z "$(remains)" ]
    [ "$(ip -br link 2>/dev/null | cut -d' ' -f1)" = "$links" ]
    [ -z "$(ls -A "$own")" ]
    [ ! -e /dev/shm/.paro-lab ]
    rm "$net" "$prog"
}

@test "nothing remains after SIGKILL" {
    kill_lab KILL pid
    kill_lab KILL group
}

@test "nothing remains after SIGINT, SIGTERM, SIGHUP" {
    kill_lab INT pid
    kill_lab TERM group
    kill_lab HUP pid
}

@test "an ordinary user has a lab, and kills it" {
    [ "$(id -u)" -eq 0 ] || skip "not root: the other tests have shown it"
    command -v setpriv >/dev/null || skip "setpriv is missing"
    user=(setpriv --reuid 65534 --regid 65534 --clear-groups env "HOME=$BATS_TEST_TMPDIR")
    chmod 777 "$BATS_TEST_TMPDIR"
    mkdir -m 777 own
    # Where the tests lie in a folder that only root may enter.
    "${user[@]}" test -x "$FLOW" || chmod a+x "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR"
    "${user[@]}" test -x "$FLOW" || skip "an ordinary user cannot reach $FLOW"
    "${user[@]}" test -x "$(command -v paro-lab)" || {
        mkdir bin
        cp "$(command -v paro-lab)" bin
        PATH=$PWD/bin:$PATH
    }
    "${user[@]}" unshare -U -r true 2>why || skip "no user namespaces: $(cat why)"
    TMPDIR=$PWD/own run --separate-stderr "${user[@]}" paro-lab -p 2,1 "$FLOW" where
    [ "$status" -eq 0 ]
    [ "$output" = "0 node0 0 2
1 node0 1 2
2 node1 0 1" ]
    LAB=("${user[@]}" paro-lab)
    carries 0:1=11.96 4 -p 1 -r 500mbit --slow 0:100mbit
    "${user[@]}" paro-lab -g 1 -p 1 touch own/file
    [ "$(stat -c %u own/file)" -eq 65534 ]
    kill_lab KILL pid "${user[@]}"
    kill_lab TERM pid "${user[@]}"
}

# used NODE OUTPUT: the part of a processor that a loop had there.
used() { awk -v node="$1" '$1 == node { print $2 / $3 }' <<<"$2"; }

# cpu_groups: where control groups of the processor are.
cpu_groups() {
    local root
    for root in /sys/fs/cgroup/cpu /sys/fs/cgroup/cpu,cpuacct /sys/fs/cgroup; do
        [ ! -e "$root/cpu.shares" ] || break
    done
    echo "$root"
}

@test "--cpu: a node has its share of a processor, and its control groups are removed" {
    local loop='TIMEFORMAT="$(hostname) %U %R"; { time timeout 1 sh -c "while :; do :; done"; } 2>&1; true'
    cd "$(cpu_groups)"
    mkdir paro-test.$$ 2>/dev/null || skip "no right to make control groups here"
    rmdir paro-test.$$
    # The command itself is in the group, as its control says.
    lab -g 2 -p 1 --cpu 1:10 -- sh -c 'echo $(hostname) $(grep -c /paro-lab /proc/self/cgroup)'
    [ "$(sort <<<"$output" | tr '\n' ' ')" = "node0 0 node1 1 " ]
    lab -g 2 -p 1 --cpu 1:10 -- bash -c "$loop"
    [ "$status" -eq 0 ]
    # The kernel accounts by its tick, some milliseconds.
    awk -v a="$(used node1 "$output")" 'BEGIN { exit !(a > 0 && a < 0.25) }'
    [ -n "$(used node0 "$output")" ]
    [[ $(echo *) != *paro-lab* ]]
    # Killed, it leaves none either.
    timeout -s KILL 1 paro-lab -g 2 -p 1 --cpu 0:50 sleep 60 >/dev/null 2>&1 || true
    timeout 5 sh -c 'while ls -d paro-lab*; do sleep 0.1; done'
}

@test "--ring: a cable to either neighbour, at once, and through others to the rest" {
    carries "0:1=59.8 0:3=59.8" 16 -g 4 -p 1 -r 500mbit --ring
    carries "1:0=59.8 3:0=59.8" 16 -g 4 -p 1 -r 500mbit --ring
    carries 0:2=59.8 16 -g 4 -p 1 -r 500mbit --ring
    for words in "-g 2" "-g 3 --slow 1:1mbit" "-g 3 --cut 1:1" "-g 3 --flap 1:1/1"; do
        # shellcheck disable=SC2086
        lab --ring $words true
        [ "$status" -eq 2 ]
        [[ $stderr == "paro-lab: --ring with "*", expected "* ]]
        [ "$(wc -l <<<"$stderr")" = 1 ]
    done
}

@test "--cpu: wrong words, and no control groups: one line, status 2" {
    for word in 2:10 1 1:0 1:x 1:-5 1:; do
        lab --cpu $word true
        [ "$status" -eq 2 ]
        [[ $stderr == "paro-lab: --cpu is '$word'"*", expected "* ]]
        [ "$(wc -l <<<"$stderr")" = 1 ]
    done
    unshare -m true 2>/dev/null || skip "no right to mount here"
    run --separate-stderr unshare -m sh -c 'mount -t tmpfs none /sys/fs/cgroup && exec paro-lab --cpu 1:10 true'
    [ "$status" -eq 2 ]
    [[ $stderr == "paro-lab: --cpu: cannot write "*", expected control groups "* ]]
    [ "$(wc -l <<<"$stderr")" = 1 ]
}
