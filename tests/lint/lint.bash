# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2016 # programs of awk
# What the lint tests share.  A test prints what is wrong, one line each, and `clean` fails on any.

ROOT=${ROOT:-$PWD}
BIN=${BIN:-$ROOT/bin}
B=${B:-$ROOT/build}
PATH=$BIN:$PATH

files() { (cd "$ROOT" && sh tests/files); }

# over COMMAND...: runs it on the files that standard input lists.
over() { tr '\n' '\0' | xargs -0r "$@"; }

# The C of the files that standard input lists, as FILE:LINE:TEXT, without comments and the insides of strings.
code() {
    over awk 'FNR == 1 { in_c = 0 } {
        out = ""; n = length($0)
        for (i = 1; i <= n; i++) {
            c = substr($0, i, 1); d = substr($0, i, 2)
            if (in_c) { if (d == "*/") { in_c = 0; i++ } continue }
            if (in_s) {
                if (c == "\\") i++
                else if (c == in_s) { in_s = ""; out = out c }
                continue
            }
            if (d == "/*") { in_c = 1; i++; continue }
            if (d == "//") break
            if (c == "\"" || c == "'\''") in_s = c
            out = out c
        }
        in_s = ""
        print FILENAME ":" FNR ":" out
    }'
}

# Fails when standard input says anything, and shows it.
clean() {
    local said
    said=$(cat)
    [ -z "$said" ] || { printf '%s\n' "$said"; return 1; }
}

commands() { (cd "$BIN" && ls -d paro-* horing-check horing-watch 2>/dev/null) || true; }
# The status of "could not": 3 where the monitoring plugins say so.
could_not() { case $1 in horing-check | horing-watch) echo 3 ;; *) echo 2 ;; esac; }
man_of() { (cd "$ROOT" && ls "man/$1".[18] 2>/dev/null) || true; }
# The long options of a help text, one a line.
options() {
    grep -oE '^ +(-[A-Za-z0-9?], )*--[a-z][a-z0-9-]*' | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u
}
# Those of its table, without the ones that every command has.
table_options() { "$1" --dump-options | sed -n 's/^option\t[^\t]*\t\([^\t]*\).*/--\1/p' | grep -vxE -- '--(help|version)' | sort -u; }
man_options() {
    grep -E '^\.It.* Fl ' "$1" | sed 's/\\-/-/g; s/\\&//g' | grep -oE 'Fl -[a-z][a-z0-9-]*' |
        sed 's/^Fl -/--/' | grep -vxE -- '--(help|usage|version)' | sort -u
}
