# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of paro-bench share.

setup() {
    PATH=$BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
    # as tests/run sets them, for a file run by itself
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
}

# fails STATUS LINE COMMAND...: that status, nothing on stdout, and that line among its words.
fails() {
    local want=$1 text=$2 rc=0
    shift 2
    "$@" > out 2> said < /dev/null || rc=$?
    [ "$rc" = "$want" ] || { echo "status $rc of $*"; cat said; return 1; }
    [ ! -s out ] || { echo "stdout of $*:"; cat out; return 1; }
    grep -qxF "$text" said || { echo "stderr of $*:"; cat said; return 1; }
}
