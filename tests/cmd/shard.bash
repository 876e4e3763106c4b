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

# run_as_user COMMAND...: as somebody who owns nothing here.
run_as_user() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}

# To where others can come, which is not where the tests are.
open_place() {
    local place
    place=$(mktemp -d) || return
    echo "$place" > place
    chmod 755 "$place"
    cd "$place" || return
}

teardown() {
    [ ! -e "$BATS_TEST_TMPDIR/place" ] || (cd / && rm -rf "$(cat "$BATS_TEST_TMPDIR/place")")
}
