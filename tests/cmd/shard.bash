# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of paro-shard share.

setup() {
    PATH=$BIN:$PATH
    cd "$BATS_TEST_TMPDIR" || return
    export G=$BATS_FILE_TMPDIR # what setup_file made: never changed
}

# quiet COMMAND...: status 0, and not a word.
quiet() {
    run -0 "$@"
    [ -z "$output" ] || { echo "$output"; return 1; }
}
