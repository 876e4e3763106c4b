# SPDX-License-Identifier: BSD-3-Clause
# What every command promises alike: interfaces that a script may rely on.
# shellcheck disable=SC2086

setup() {
    load lint.bash
    cd "$ROOT" || exit 1
    [ -n "$(commands)" ]
}

@test "--help, -h, -? and --version answer on standard output with status 0" {
    for c in $(commands); do
        "$c" --help >"$BATS_TEST_TMPDIR/help" 2>"$BATS_TEST_TMPDIR/talk" || echo "$c --help: status $?"
        [ ! -s "$BATS_TEST_TMPDIR/talk" ] || echo "$c --help: talks on standard error"
        head -n 1 "$BATS_TEST_TMPDIR/help" | grep -q "^Usage: $c" || echo "$c --help: no 'Usage: $c'"
        for o in -h '-?'; do
            "$c" "$o" 2>&1 | cmp -s - "$BATS_TEST_TMPDIR/help" || echo "$c $o: is not --help"
        done
        "$c" --version | grep -qxE "$c [0-9]+\.[0-9]+\.[0-9]+" || echo "$c --version: not 'NAME X.Y.Z'"
    done | clean
}

verbs() { "$1" --dump-options | sed -n 's/^verb\t//p'; }

@test "-h works after every verb" {
    for c in $(commands); do
        for verb in $(verbs "$c"); do
            "$c" "$verb" -h | cmp -s - <("$c" --help) || echo "$c $verb -h: is not --help"
        done
    done | clean
}

# A letter that is here twice: -b and -w, -c, -t are horing-check's as monitoring plugins have them,
# -b -e -f -n -w -d paro-bench's as nccl-tests have them, -n paro-launch's as mpirun has it, -d paro-train's and -p paro-shard's plan as
# the pipeline in README.md has them.  A new meaning gets a long name alone.
@test "a letter has one meaning in all commands" {
    for c in $(commands); do
        "$c" --dump-options | sed -nE 's/^option\t(.)\t([a-z-]+)\t.*/\1 \2/p'
    done | sort -u | diff - <(sort <<'LETTERS'
b baseline
b bytes
b min
c critical
d data
d type
e max
f factor
g groups
h help
i input
j jobs
m model
n iters
n ranks
o output
p plan
p procs
r rate
T budget
t timeout
v verbose
V version
w warmup
w warning
LETTERS
)
}

@test "a picture has one option" {
    for c in $(commands); do
        table_options "$c" | grep -xE -- '--(plot|draw|dot|picture|png|pdf)' | sed "s/^/$c: /"
        "$c" --dump-options | grep -q SVG || continue
        "$c" --dump-options | grep -q "^option$(printf '\t\tsvg\t')?FILE" || echo "$c: draws, without --svg[=FILE]"
    done | clean
}

@test "usage names the options without which it is an error" {
    [ "$(paro-plan --help | head -n 1)" = "Usage: paro-plan [OPTION...] -m MODEL" ]
    paro-train --help | head -n 1 | grep -qF ' PLAN -d DATA -o DIR'
    paro-shard --help | grep -qF ' split DIR|FILE -p PLAN -o DIR'
    paro-sched --help | grep -qF ' simulate -i TOPO '
}

@test "--help fits in 24 lines of 80 columns, and --help=all has its options and more" {
    [ "$(verbs paro-sched | tr '\n' ' ')" = 'gen verify simulate draw ls pick ' ]
    for c in $(commands); do
        for verb in '' $(verbs "$c"); do
            "$c" $verb --help >"$BATS_TEST_TMPDIR/help" || echo "$c $verb --help: status $?"
            awk -v c="$c $verb --help" '
                length > 79 { print c ": line of " length ": " $0 }
                END { if (NR > 24) print c ": " NR " lines, at most 24" }' "$BATS_TEST_TMPDIR/help"
            [ "$(tail -n 1 "$BATS_TEST_TMPDIR/help")" = "$c --help=all lists every option; man $c explains them." ] ||
                echo "$c $verb --help: does not end with where to read more"
            "$c" $verb --help=all >"$BATS_TEST_TMPDIR/all" || echo "$c $verb --help=all: status $?"
            options <"$BATS_TEST_TMPDIR/help" >"$BATS_TEST_TMPDIR/few"
            options <"$BATS_TEST_TMPDIR/all" | comm -13 - "$BATS_TEST_TMPDIR/few" |
                sed "s/^/$c $verb --help=all: misses /"
            [ "$(wc -l <"$BATS_TEST_TMPDIR/few")" -ge 4 ] || echo "$c --help: hardly an option"
            options <"$BATS_TEST_TMPDIR/all" | comm -23 - "$BATS_TEST_TMPDIR/few" | grep -q . ||
                echo "$c $verb --help=all: no option more"
            options <"$BATS_TEST_TMPDIR/all" | grep -vxE -- '--(help|version)' | diff - <(table_options "$c")
        done
    done | clean
}

@test "a wrong value of --help is one line and the status of could-not" {
    for c in $(commands); do
        for o in --help=foo --help= -hall.; do
            rc=0
            "$c" "$o" >"$BATS_TEST_TMPDIR/said" 2>&1 </dev/null || rc=$?
            [ $rc = "$(could_not "$c")" ] || echo "$c $o: status $rc"
            [ "$(grep -c '' "$BATS_TEST_TMPDIR/said")" = 1 ] || echo "$c $o: not one line"
            grep -q -- "--help: '.*', expected all" "$BATS_TEST_TMPDIR/said" || cat "$BATS_TEST_TMPDIR/said"
        done
    done | clean
}

@test "an unknown option is one line and the status of could-not" {
    for c in $(commands); do
        rc=0 says="$c: "
        "$c" --bogus >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/talk" </dev/null || rc=$?
        [ $rc = "$(could_not "$c")" ] || echo "$c --bogus: status $rc"
        if [ "$(could_not "$c")" = 3 ]; then # a plugin's answer, on standard output alone
            mv "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/swap"
            mv "$BATS_TEST_TMPDIR/talk" "$BATS_TEST_TMPDIR/out"
            mv "$BATS_TEST_TMPDIR/swap" "$BATS_TEST_TMPDIR/talk"
            says='(HORING|WATCH) UNKNOWN - '
        fi
        [ ! -s "$BATS_TEST_TMPDIR/out" ] || echo "$c --bogus: prints on standard output"
        [ "$(wc -l <"$BATS_TEST_TMPDIR/talk")" = 1 ] || echo "$c --bogus: not one line"
        grep -qE "^$says.*--bogus" "$BATS_TEST_TMPDIR/talk" || echo "$c --bogus: does not name it"
    done | clean
}

@test "under --json an error is one JSON object" {
    for c in $(commands); do
        table_options "$c" | grep -qx -- --json || continue
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

@test "every command has a man page, and the page the options of --dump-options" {
    for c in $(commands); do
        page=$(man_of "$c")
        [ -n "$page" ] || { echo "man/$c.1: absent"; continue; }
        diff <(table_options "$c") <(man_options "$page") |
            sed -n "s|^< |$page: misses |p; s|^> |$page: has, and the command has not, |p"
        for section in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' EXAMPLES; do
            grep -qx "\.Sh $section" "$page" || echo "$page: no section $section"
        done
    done | clean
}

@test "the page of a command names the tutorial, which 'man paro' does not open" {
    for c in $(commands); do
        sed -n '/^\.Sh SEE ALSO/,$p' "$(man_of "$c")" | grep -qE '^\.Xr paro 7( ,)?$' ||
            echo "man/$c.1: SEE ALSO lacks paro(7)"
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

@test "completions are what completions/generate makes of --dump-options" {
    sh completions/generate "$BATS_TEST_TMPDIR/made"
    diff -r "$BATS_TEST_TMPDIR/made/bash" completions/bash
    diff -r "$BATS_TEST_TMPDIR/made/zsh" completions/zsh
    diff -r "$BATS_TEST_TMPDIR/made/fish" completions/fish
}

@test "completions load and offer the options" {
    for c in $(commands); do
        first=$(table_options "$c" | head -n 1)
        bash -c '. "$1" && COMP_WORDS=("$2" "$3") COMP_CWORD=1 && "_${2//-/_}" "$2" "$3" "$2" &&
            printf "%s\n" "${COMPREPLY[@]}"' - "completions/bash/$c" "$c" "${first%?}" |
            grep -qx -- "$first" || echo "completions/bash/$c: does not offer $first"
    done | clean
}

@test "completions offer what there is to choose from" {
    grep -q -- "'--transport=\[.*\]:transport:(mpi nccl auto)'" completions/zsh/_paro-topo
    grep -q -- "'--resume=-\[.*\]::auto|path:_files'" completions/zsh/_paro-train
    grep -n -- "-d ''" completions/fish/*.fish | clean # an option without its text
    grep -q -- "-l device -r -a 'cpu cuda' -d '" completions/fish/paro-topo.fish
    grep -q -- "-l resume -a 'auto' -d '" completions/fish/paro-train.fish
    grep -q -- "{-h-,--help=-}'\[.*\]::help:(all)'" completions/zsh/_paro-topo
    grep -q -- "-s h -l help -a 'all' -d '" completions/fish/paro-topo.fish
}

@test "planners and filters load neither MPI nor oneDNN nor hwloc" {
    [ -z "$SAN" ] || skip "a sanitizer build links otherwise"
    for c in paro-plan paro-rank paro-sched paro-shard horing-check horing-watch; do
        [ -x "$BIN/$c" ] || continue
        readelf -d "$BIN/$c" | grep -oE 'NEEDED.*lib(mpi|dnnl|hwloc)[^]]*' | sed "s/^/$c: /"
    done | clean
}
