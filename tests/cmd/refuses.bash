# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash

bats_require_minimum_version 1.5.0
load ../cmd/mpi

# A test works in a folder of its own; G is what setup_file made, which is never changed.
setup() { own_folder; }
own_folder() {
    [ -z "${SKIP_FILE-}" ] || skip "$SKIP_FILE" # skip.bash
    cd "$BATS_TEST_TMPDIR" || return
    export G=$BATS_FILE_TMPDIR TEXT=$BATS_FILE_TMPDIR/text
}

# How the tests of bad input check the answer: by status and key words, not by whole sentences, so
# that a message can be worded better without touching a test.

# has_words TEXT WORDS: TEXT has each of the blank-separated WORDS, in this order.
has_words() {
    local rest=$1 word
    set -f # words are no patterns
    for word in $2; do
        case $rest in
        *"$word"*) rest=${rest#*"$word"} ;;
        *) echo "no '$word' (of: $2) in: $1"; set +f; return 1 ;;
        esac
    done
    set +f
}

# refuses STATUS WORDS COMMAND...: that status, nothing on standard output, and one line on standard
# error, "NAME: ..." of the command that refuses or its JSON, with the WORDS.  Status 3 is horing-check's and
# horing-watch's, whose line is on standard output, "HORING UNKNOWN - ...".  The line is left in `refusal`.
refuses() {
    local want=$1 words=$2 rc=0 line="$BATS_TEST_TMPDIR/.line" other="$BATS_TEST_TMPDIR/.other"
    shift 2
    if [ "$want" = 3 ]; then
        "$@" >"$line" 2>"$other" </dev/null || rc=$?
    else
        "$@" >"$other" 2>"$line" </dev/null || rc=$?
    fi
    refusal=$(cat "$line")
    [ "$rc" = "$want" ] || { echo "status $rc, expected $want: $*"; echo "$refusal"; return 1; }
    [ ! -s "$other" ] || { echo "on the other stream: $*"; head "$other"; return 1; }
    [ "$(wc -l <"$line")" = 1 ] || { echo "not one line: $*"; echo "$refusal"; return 1; }
    [[ $refusal =~ ^((paro|horing)-[a-z]+:\ |[a-z_]+\.py:\ |(HORING|WATCH)\ UNKNOWN\ -\ |\{\"error\":) ]] ||
        { echo "no command's name: $refusal"; return 1; }
    has_words "$refusal" "$words"
}

# ends STATUS COMMAND...: with that status.
ends() {
    local rc=0
    "${@:2}" || rc=$?
    [ "$rc" = "$1" ]
}

# one_line WORDS: the file `said` is one line with WORDS.
one_line() {
    [ "$(wc -l < said)" = 1 ] || { cat said; return 1; }
    has_words "$(cat said)" "$1"
}

# soon COMMAND...: waits until it is true; not for ever.
soon() {
    for _ in $(seq 2400); do
        ! "$@" || return 0
        sleep 0.05
    done
    return 1
}

# What a run says on standard error beside where it resumes and what it did.
warnings() { grep -vE '^paro-train: (resumes from|starts a new run|done|stopped|share of the bound|[0-9.]+ [a-z]+ = computing) ?' "$1" || true; }
# no_warning FILE: it has none.
no_warning() { [ -z "$(warnings "$1")" ] || { cat "$1"; return 1; }; }
# one_warning WORDS: the file `said` has one, with WORDS.
one_warning() {
    [ "$(warnings said | wc -l)" = 1 ] || { cat said; return 1; }
    has_words "$(warnings said)" "$1"
}
