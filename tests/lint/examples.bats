# SPDX-License-Identifier: BSD-3-Clause
# The EXAMPLES of the man pages, run: lines that begin with "$ " in a literal block or in .Dl.
# One page, one empty folder, its blocks in order; bin, examples and man of the tree are linked there.
#
# A block under a comment  .\" test: lab   runs only where namespaces are allowed, one under
# .\" test: library   where libparo is no sanitizer's (lab library: both), and one under  .\" test: no REASON   not.
# Under  .\" test: lab verdict   a command may end with status 1 or 2: another job of this machine may be
# what a check of the network finds.  It may also keep a check from an answer, status 3, or from a baseline: a
# page with `lab` is run again from its beginning, the third time at the latest.

load ../lab/lab

setup() {
    load lint.bash
    cd "$ROOT" || exit 1
}

# The blocks of a page as shell, each under a line "#: HOW".
blocks() {
    awk '
        /^\.Sh / { in_ex = /^\.Sh EXAMPLES/ }
        !in_ex { next }
        /^\.\\" test: / { how = substr($0, 11); next }
        /^\.Bd .*-literal/ { print "#: " (how ? how : "yes"); how = ""; lit = 1; next }
        /^\.Ed/ { lit = 0; next }
        /^\.Dl \$ / { print "#: " (how ? how : "yes"); how = ""; print substr($0, 7); next }
        lit && /^\$ / { print substr($0, 3); more = /\\e$/ || /\\$/; next }
        lit && more { print; more = /\\e$/ || /\\$/ }' "$1" |
        sed 's/\\e/\\/g; s/\\-/-/g; s/\\(aq/'\''/g; s/\\(dq/"/g; s/\\&//g; s/\\(ha/^/g; s/\\(ti/~/g'
}

# in_order SCRIPT OPTION...: by bash, in a new folder of its name; what it prints is in SCRIPT.out and .said.
in_order() {
    local home=${1%.sh}
    rm -rf "$home"
    mkdir "$home"
    ln -s "$BIN" "$home/bin"
    ln -s "$ROOT/examples" "$ROOT/man" "$home"
    (cd "$home" && bash -eu -o pipefail "${@:2}" "$1" </dev/null >"$home.out" 2>"$home.said")
}

# bats test_tags=full
@test "the examples of the man pages run" {
    local lab=yes page
    [ -z "${NO_LAB-}" ] || lab=no
    B=$B PREFIX=$BATS_TEST_TMPDIR/prefix sh tests/packaging/install
    export PKG_CONFIG_PATH=$BATS_TEST_TMPDIR/prefix/lib/pkgconfig \
        LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/prefix/lib
    for page in man/*.[1-8]; do
        local home="$BATS_TEST_TMPDIR/${page##*/}" times=
        ! grep -q '^\.\\" test: lab' "$ROOT/$page" || times=again
        blocks "$ROOT/$page" | awk -v lab="$lab" -v san="${SAN-}" '
            /^#: / {
                skip = /^#: no/ || (/^#: lab/ && lab == "no") || (/^#: .*library/ && san != "")
                end = /verdict/ ? " || test $? -le 2" : ""
                next
            }
            !skip { print $0 (/\\$/ ? "" : end) }' >"$home.sh"
        $times in_order "$home.sh" -x || {
            echo "$page: an example fails:"; tail -n 5 "$home.out" "$home.said"
        }
    done | clean
}

# or_finds SCRIPT: in order.  Another job of this machine may be what the last command, a check of the network, finds.
or_finds() {
    local rc=0
    in_order "$1" || rc=$?
    [ $rc = 0 ] || { [ $rc -le 2 ] && tail -n 1 "${1%.sh}.out" | grep '^HORING [WC]'; }
}

# bats test_tags=full
@test "the commands of README.md run as they stand, in order" {
    [ -z "${NO_LAB-}" ] || skip "no namespaces here: $NO_LAB"
    local home=$BATS_TEST_TMPDIR/home
    # A block that begins with "== " is an answer; make has built, and installs, elsewhere.
    awk '
        !/^    / { skip = 0; begun = 0; next }
        !begun++ { skip = /^    (== |make )/ }
        !skip { print substr($0, 5) }' README.md >"$home.sh"
    grep -q '^paro-train\|-- paro-train' "$home.sh"
    again or_finds "$home.sh" || {
        tail -n 5 "$home.out" "$home.said"
        false
    }
    [ -s "$home/trained/model.safetensors" ]
}

@test "every page of a command shows an example that is run or says why not" {
    for c in $(commands); do
        page=$(man_of "$c")
        [ -n "$page" ] || continue
        blocks "$page" | grep -qv '^#: ' || echo "$page: EXAMPLES has no line that begins with '$ '"
    done | clean
    grep -nE '^\.\\" test: no *$' man/*.[1-8] | clean # without the reason
}
