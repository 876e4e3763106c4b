# SPDX-License-Identifier: BSD-3-Clause
# What every command promises alike: interfaces that a script may rely on.

setup() {
    load lint.bash
    cd "$ROOT" || exit 1
    [ -n "$(commands)" ]
}

@test "--help, -h and --version answer on standard output with status 0" {
    for c in $(commands); do
        "$c" --help >"$BATS_TEST_TMPDIR/help" 2>"$BATS_TEST_TMPDIR/talk" || echo "$c --help: status $?"
        [ ! -s "$BATS_TEST_TMPDIR/talk" ] || echo "$c --help: talks on standard error"
        head -n 1 "$BATS_TEST_TMPDIR/help" | grep -q "^Usage: $c" || echo "$c --help: no 'Usage: $c'"
        "$c" -h 2>&1 | cmp -s - "$BATS_TEST_TMPDIR/help" || echo "$c -h: is not --help"
        "$c" --version | grep -qxE "$c [0-9]+\.[0-9]+\.[0-9]+" || echo "$c --version: not 'NAME X.Y.Z'"
    done | clean
}

@test "an unknown option is one line and the status of could-not" {
    for c in $(commands); do
        rc=0 says="$c: "
        "$c" --bogus >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/talk" </dev/null || rc=$?
        [ $rc = "$(could_not "$c")" ] || echo "$c --bogus: status $rc"
        if [ "$c" = horing-check ]; then # a plugin's answer, on standard output alone
            mv "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/swap"
            mv "$BATS_TEST_TMPDIR/talk" "$BATS_TEST_TMPDIR/out"
            mv "$BATS_TEST_TMPDIR/swap" "$BATS_TEST_TMPDIR/talk"
            says='HORING UNKNOWN - '
        fi
        [ ! -s "$BATS_TEST_TMPDIR/out" ] || echo "$c --bogus: prints on standard output"
        [ "$(wc -l <"$BATS_TEST_TMPDIR/talk")" = 1 ] || echo "$c --bogus: not one line"
        grep -q "^$says.*--bogus" "$BATS_TEST_TMPDIR/talk" || echo "$c --bogus: does not name it"
    done | clean
}

@test "under --json an error is one JSON object" {
    for c in $(commands); do
        help_options "$c" | grep -qx -- --json || continue
        "$c" --json --bogus 2>&1 >/dev/null </dev/null | perl -MJSON::PP -e '
            local $/; my $d = decode_json(<STDIN>)->{error};
            exit !($d->{code} eq "input" && $d->{text} =~ /--bogus/ && exists $d->{line})' \
            2>/dev/null || echo "$c --json --bogus: not {\"error\":{...}}"
    done | clean
}

@test "a full disk and a closed standard output are noticed" {
    for c in $(commands); do
        for o in --help --version; do
            rc=0
            "$c" $o >/dev/full 2>"$BATS_TEST_TMPDIR/talk" || rc=$?
            [ $rc = "$(could_not "$c")" ] || echo "$c $o >/dev/full: status $rc"
            [ "$(wc -l <"$BATS_TEST_TMPDIR/talk")" = 1 ] || echo "$c $o >/dev/full: not one line"
            rc=0
            "$c" $o >&- 2>/dev/null || rc=$?
            [ $rc = "$(could_not "$c")" ] || echo "$c $o >&-: status $rc"
        done
    done | clean
}

@test "every command has a man page, and the page the options of --help" {
    for c in $(commands); do
        page=$(man_of "$c")
        [ -n "$page" ] || { echo "man/$c.1: absent"; continue; }
        diff <(help_options "$c") <(man_options "$page") |
            sed -n "s|^< |$page: misses |p; s|^> |$page: has, and --help has not, |p"
        for section in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' EXAMPLES; do
            grep -qx "\.Sh $section" "$page" || echo "$page: no section $section"
        done
    done | clean
}

@test "every format that is named has its page" {
    grep -ohE '^\.Xr paro[a-z-]* [1-8]' man/*.[1-8] | sort -u | while read -r _ name section; do
        [ -f "man/$name.$section" ] || echo "man/$name.$section: named and absent"
    done | clean
}

@test "citations of paro-method(7) name one of its sections" {
    files | grep -E '^(lib|cmd|tests)/' | grep -v '^tests/lint/' | tr '\n' '\0' | xargs -0 grep -noE 'paro-method\(7\)(, [A-Z-]+( [A-Z]+)*)?' |
        while IFS=: read -r file line cited; do
            grep -qxF ".Sh ${cited#*, }" man/paro-method.7 || echo "$file:$line: no section '${cited#*, }'"
        done | clean
}

@test "completions are what completions/generate makes of --help" {
    sh completions/generate "$BATS_TEST_TMPDIR/made"
    diff -r "$BATS_TEST_TMPDIR/made/bash" completions/bash
    diff -r "$BATS_TEST_TMPDIR/made/zsh" completions/zsh
    diff -r "$BATS_TEST_TMPDIR/made/fish" completions/fish
}

@test "completions load and offer the options" {
    for c in $(commands); do
        first=$(help_options "$c" | head -n 1)
        bash -c '. "$1" && COMP_WORDS=("$2" "$3") COMP_CWORD=1 && "_${2//-/_}" "$2" "$3" "$2" &&
            printf "%s\n" "${COMPREPLY[@]}"' - "completions/bash/$c" "$c" "${first%?}" |
            grep -qx -- "$first" || echo "completions/bash/$c: does not offer $first"
    done | clean
}

@test "completions offer what there is to choose from" {
    grep -q -- "'--transport=\[.*\]:transport:(mpi nccl auto)'" completions/zsh/_paro-topo
    grep -q -- "'--resume=\[.*\]:auto|path:_files'" completions/zsh/_paro-train
    grep -q -- "-l device -r -a 'cpu cuda' -d '" completions/fish/paro-topo.fish
    grep -q -- "-l resume -r -a 'auto' -d '" completions/fish/paro-train.fish
}

@test "planners and filters load neither MPI nor oneDNN nor hwloc" {
    [ -z "$SAN" ] || skip "a sanitizer build links otherwise"
    for c in paro-plan paro-rank paro-sched paro-shard horing-check; do
        [ -x "$BIN/$c" ] || continue
        readelf -d "$BIN/$c" | grep -oE 'NEEDED.*lib(mpi|dnnl|hwloc)[^]]*' | sed "s/^/$c: /"
    done | clean
}
