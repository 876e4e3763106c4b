# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of the example programs share: a program built as its users do, in T.

# example_build NAME: in setup_file
example_build() {
    export T=$BATS_FILE_TMPDIR PROGRAM=$1
    O=$B PREFIX=$T/prefix sh tests/packaging/install &&
        PKG_CONFIG_PATH=$T/prefix/lib/pkgconfig make -s -C "examples/$1" O="$T" \
            CFLAGS='-Wshadow -Wvla -Werror'
}

setup() {
    [ -z "${SAN-}" ] || skip "the program leaves its memory to the system"
    cd "$T" || return
    export LD_LIBRARY_PATH=$T/prefix/lib
}

# refused MESSAGE ARGUMENT...: the program ends with status 2, that line and no output
refused() {
    local rc=0
    "./$PROGRAM" "${@:2}" >out 2>said || rc=$?
    cat said
    [ $rc = 2 ] && [ ! -s out ] && [ "$(cat said)" = "$PROGRAM: $1" ]
}

# unwritable ARGUMENT...: the same where standard output takes nothing
unwritable() {
    local rc=0
    "./$PROGRAM" "$@" >/dev/full 2>said || rc=$?
    [ $rc = 2 ] && [ "$(cat said)" = "$PROGRAM: cannot write to standard output" ]
}

# example_in_tree NAME WORDS: it builds in the source tree, and its help has these words
example_in_tree() {
    [ -f "$ROOT/build/static/libparo.a" ] || skip "this build is in another folder"
    make -s -C "$ROOT/examples/$1" TREE="$ROOT" O="$T/tree" CFLAGS=-O0
    "$T/tree/$1" --help | grep -q "$2"
}
