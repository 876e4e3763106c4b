# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash

# expect NAME [COMMAND...]: what the command prints, or else standard input, is the text of
# expected/CASE/NAME, where the test is in CASE.bats.  `make renew` (RENEW=1) writes the file; what
# has changed is then reviewed.  A command's version is VERSION there.
expect() {
    local file=$BATS_TEST_DIRNAME/expected/${BATS_TEST_FILENAME##*/} got=$BATS_TEST_TMPDIR/.got
    file=${file%.bats}/$1
    shift
    "${@:-cat}" >"$got" || { echo "status $?, expected 0: $*"; return 1; }
    [ -s "$got" ] || { echo "no output, expected that of $file"; return 1; }
    sed -Ei 's/(paro-[a-z]+) [0-9]+(\.[0-9]+)+ /\1 VERSION /' "$got"
    if [ -n "${RENEW-}" ]; then
        mkdir -p "${file%/*}"
        cp "$got" "$file"
    fi
    diff -u "$file" "$got"
}
