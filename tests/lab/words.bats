#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
#
# paro-lab's arguments: what is wrong with them is told before any namespace is made.

bats_require_minimum_version 1.5.0

# refused LINE ARG...: exit 2, that line on standard error, nothing on standard output.
refused() {
    local line=$1
    shift
    run --separate-stderr paro-lab "$@"
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    [ "$stderr" = "paro-lab: $line" ] || { echo "$stderr"; false; }
}

@test "help and version" {
    run --separate-stderr paro-lab --help
    [ "$status" -eq 0 ]
    [[ $output == "Usage: paro-lab "* ]]
    [ -z "$stderr" ]
    for word in groups procs rate slow cut flap map-by mca; do
        [[ $output == *" --$word="* ]]
    done
    [ "$(paro-lab -h)" = "$output" ]
    run paro-lab --version
    [ "$status" -eq 0 ]
    [[ $output =~ ^paro-lab\ [0-9.]+$ ]]
}

@test "a full disk and a closed standard output are exit 2" {
    run --separate-stderr sh -c 'paro-lab --help >/dev/full'
    [ "$status" -eq 2 ]
    [ "$stderr" = "paro-lab: cannot write to standard output" ]
    run --separate-stderr sh -c 'paro-lab --version >&-'
    [ "$status" -eq 2 ]
    [ "$stderr" = "paro-lab: cannot write to standard output" ]
}

@test "numbers of groups and ranks" {
    refused "--groups is '0', expected a whole number from 1 to 1000" -g 0 true
    refused "--groups is '1e2', expected a whole number from 1 to 1000" --groups=1e2 true
    refused "--procs is 'x', expected a whole number from 1 to 4096" -p 2,x true
    refused "--procs is '', expected a whole number from 1 to 4096" -p 2, true
    refused "--procs is '0', expected a whole number from 1 to 4096" -p 3,0 true
    refused "--procs names 3 groups, expected 2 as --groups says" -g 2 -p 1,2,3 true
}

@test "rates, groups and times" {
    refused "--rate: rate '5foo', expected one as tc writes it, such as 500mbit" -r 5foo true
    refused "--rate: rate '0mbit', expected one as tc writes it, such as 500mbit" -r 0mbit true
    refused "--slow is '2:1gbit': group '2', expected a number from 0 to 1" --slow 2:1gbit true
    refused "--slow is '0:1gbit/': rate '', expected one as tc writes it, such as 500mbit" \
        --slow 0:1gbit/ true
    refused "--slow is '1-1:1gbit': group 1 twice, expected two groups" --slow 1-1:1gbit true
    refused "--slow is '0-3:1gbit': group '3', expected a number from 0 to 2" \
        --slow 0-3:1gbit -g 3 true
    refused "--slow is '0', expected GROUP:OUT[/IN] or A-B:RATE" --slow 0 true
    refused "--cut is '9:1': group '9', expected a number from 0 to 1" --cut 9:1 true
    refused "--cut is '0:soon': 'soon', expected a number of seconds, such as 2.5" \
        --cut 0:soon true
    refused "--flap is '0:1', expected GROUP:UP/DOWN" --flap 0:1 true
}

@test "options and COMMAND" {
    refused "unknown option '--nope' (see --help)" --nope true
    refused "unknown option '-x' (see --help)" -x true
    refused "--rate lacks its value (see --help)" --rate
    refused "--mca lacks a value, expected KEY VALUE" --mca btl
    refused "--map-by is 'core', expected slot or node" --map-by core true
    refused "no COMMAND, expected a program to run (see --help)"
    refused "no COMMAND, expected a program to run (see --help)" -g 3 --
    refused "cannot run 'no-such-program', expected a program on PATH or the path of one" \
        no-such-program
}

@test "a missing mpirun is named with its package" {
    # Where /usr/sbin is all of /usr/bin, mpirun cannot be hidden.
    [ ! -e /usr/sbin/mpirun ] || skip "/usr/sbin holds mpirun"
    run --separate-stderr env "PATH=$BATS_TEST_TMPDIR" "$BASH" "$(command -v paro-lab)" \
        /bin/true
    [ "$status" -eq 2 ]
    want="paro-lab: cannot find 'mpirun', expected it on PATH (Debian package openmpi-bin)"
    [ "$stderr" = "$want" ]
}

@test "refused namespaces are one line" {
    mkdir "$BATS_TEST_TMPDIR/bin"
    cat >"$BATS_TEST_TMPDIR/bin/unshare" <<'FAKE'
#!/bin/sh
echo "unshare: unshare failed: Operation not permitted" >&2
exit 1
FAKE
    chmod +x "$BATS_TEST_TMPDIR/bin/unshare"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH run --separate-stderr paro-lab true
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    [[ $stderr == "paro-lab: cannot make namespaces: unshare: unshare failed: Operation "* ]]
    [[ $stderr != *$'\n'* ]]
}
