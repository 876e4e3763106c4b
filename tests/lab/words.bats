# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-lab without a lab: its help, and what it lacks.  Wrong arguments: tests/cmd/refusals.

load ../cmd/refuses

@test "help and version" {
    run -0 --separate-stderr paro-lab --help=all
    [[ $output == "Usage: paro-lab "* ]]
    [ -z "$stderr" ]
    for word in groups procs rate slow cut flap map-by mca; do
        [[ $output == *" --$word="* ]]
    done
    [ "$(paro-lab -hall)" = "$output" ]
    refuses 2 '--help al all' paro-lab --help=al true
    run -0 paro-lab --version
    [[ $output =~ ^paro-lab\ [0-9.]+$ ]]
}

@test "a missing mpirun is named with its package" {
    # Where /usr/sbin is all of /usr/bin, mpirun cannot be hidden.
    [ ! -e /usr/sbin/mpirun ] || skip "/usr/sbin holds mpirun"
    refuses 2 'mpirun PATH openmpi-bin' bash -c \
        "PATH=$BATS_TEST_TMPDIR; '$BASH' '$(command -v paro-lab)' /bin/true"
}

@test "refused namespaces are one line" {
    mkdir "$BATS_TEST_TMPDIR/bin"
    cat >"$BATS_TEST_TMPDIR/bin/unshare" <<'FAKE'
#!/bin/sh
echo "unshare: unshare failed: Operation not permitted" >&2
exit 1
FAKE
    chmod +x "$BATS_TEST_TMPDIR/bin/unshare"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH \
        refuses 2 'namespaces: unshare: unshare failed: Operation' paro-lab true
}
