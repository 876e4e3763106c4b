# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of paro-shard share.

load refuses

# varied_model CONFIG FOLDER: none of its values are alike, biases and norms included.
varied_model() {
    paro-shard init -m "$1" -o "$2"
    python3 "$ROOT/tests/reference/varied_weights.py" "$2"
}

# quiet COMMAND...: status 0, and not a word.
quiet() {
    run -0 "$@"
    [ -z "$output" ] || { echo "$output"; return 1; }
}

# finds WORDS COMMAND...: status 1, and one line with WORDS on standard output alone.
finds() {
    run -1 --separate-stderr "${@:2}"
    [ "${#lines[@]}:$stderr" = 1: ] || { echo "$output$stderr"; return 1; }
    has_words "$output" "$1"
}

# What is in the folder, without what the test keeps of a command's output.
names() { ls -A -I .line -I .other -I out -I said -I dd.log -I 'separate-stderr-*'; }

# flip FILE BYTE: turns one bit.
flip() {
    local was
    was=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059
    printf "\\$(printf %o $((was ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2> dd.log
}

# peak KIB COMMAND...: never more of KIB resident, the program and its libraries with it.
peak() {
    python3 -c 'import resource, subprocess, sys
rc = subprocess.run(sys.argv[2:]).returncode
kib, most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, int(sys.argv[1])
sys.exit(rc or (f"{kib} KiB, expected at most {most}" if kib > most else 0))' "$@"
}

# as UID COMMAND...
as() { setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"; }

# run_as_user COMMAND...: as somebody who owns nothing here.
run_as_user() {
    if [ "$(id -u)" = 0 ]; then
        as 65534 "$@"
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
