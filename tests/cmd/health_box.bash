# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A host that a folder plays, for horing-check --level quick: box/sys and box/proc are what its
# kernel would show, and SOURCE_DATE_EPOCH is the time.

# make_box HOST [OPTION...]: with the port eth0, that has a link; OPTIONs are of all checks.
make_box() {
    mkdir -p box/proc/sys/kernel/random box/sys/class/net/eth0/{statistics,device}
    echo "$1" > box/proc/sys/kernel/hostname
    echo 0x1003 > box/sys/class/net/eth0/flags
    echo 1 > box/sys/class/net/eth0/carrier
    NOW=1795000000
    OPTIONS=("${@:2}")
}

check() {
    SOURCE_DATE_EPOCH=$NOW horing-check --level quick --sys box/sys --proc box/proc "${OPTIONS[@]}" "$@"
}

# says STATUS PATTERN [OPTION...]: the next run, 5 minutes later; with ONE_LINE it prints one.
says() {
    local want=$1 pattern=$2 rc=0
    shift 2
    NOW=$((NOW + 300))
    check "$@" > out 2> said || rc=$?
    if [ $rc = "$want" ] && [ ! -s said ] && { [ -z "${ONE_LINE-}" ] || [ "$(wc -l < out)" = 1 ]; } &&
        { [ -z "$pattern" ] || grep -qE "$pattern" out; }; then return; fi
    echo "status $rc, expected $want and $pattern:"
    cat out said
    return 1
}
