# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests on emulated nodes share.

# In setup_file: 1 where there can be no lab, and NO_LAB says why.  Asked of the kernel, not of
# paro-lab: a lab that is broken must fail, not skip.
find_lab() {
    unshare -U -r -m -n -p -f --mount-proc true 2>"$BATS_FILE_TMPDIR/why" ||
        unshare -m -n -p -f --mount-proc true 2>"$BATS_FILE_TMPDIR/why" || {
        NO_LAB=$(cat "$BATS_FILE_TMPDIR/why")
        export NO_LAB
        return 1
    }
}

setup_file() { find_lab || return 0; }

setup() {
    [ -z "${NO_LAB-}" ] || skip "no namespaces here: $NO_LAB"
    PATH=$BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
}

# The third time at the latest: the load of the neighbours passes.
again() { "$@" || "$@" || "$@"; }
