# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of commands share that take no launcher.

setup() {
    PATH=$BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
}

# fails TEXT COMMAND...: status 2, nothing on stdout, one line on stderr: TEXT.
fails() {
    local text=$1 rc=0
    shift
    "$@" > out 2> said < /dev/null || rc=$?
    [ "$rc" = 2 ] || { echo "status $rc of $*"; cat said; return 1; }
    [ ! -s out ] || { echo "stdout of $*:"; cat out; return 1; }
    [ "$(cat said)" = "$text" ] || { echo "stderr of $*:"; cat said; return 1; }
}
