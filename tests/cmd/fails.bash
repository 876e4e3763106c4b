# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of commands share that take no launcher.

setup() {
    PATH=$BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
}

# ends_with_2 COMMAND...: status 2, nothing on stdout; what it says is in `said`.
ends_with_2() {
    local rc=0
    "$@" > out 2> said < /dev/null || rc=$?
    [ "$rc" = 2 ] || { echo "status $rc of $*"; cat said; return 1; }
    [ ! -s out ] || { echo "stdout of $*:"; cat out; return 1; }
}

# fails TEXT COMMAND...: so, and one line on stderr: TEXT.
fails() {
    ends_with_2 "${@:2}" || return
    [ "$(cat said)" = "$1" ] || { echo "stderr of ${*:2}:"; cat said; return 1; }
}
