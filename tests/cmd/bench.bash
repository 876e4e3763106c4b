# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of paro-bench share.

load mpi

setup() {
    PATH=$BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
}

# fails LINE COMMAND...: status 2, nothing on stdout, and that line among its and mpirun's words.
fails() {
    local text=$1 rc=0
    shift
    "$@" > out 2> said < /dev/null || rc=$?
    [ "$rc" = 2 ] || { echo "status $rc of $*"; cat said; return 1; }
    [ ! -s out ] || { echo "stdout of $*:"; cat out; return 1; }
    grep -qxF "$text" said || { echo "stderr of $*:"; cat said; return 1; }
}
