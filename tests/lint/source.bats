# SPDX-License-Identifier: BSD-3-Clause
# The rules of the project that a machine can read: floors, sizes and names.
# shellcheck disable=SC2016,SC2046,SC2086

bats_require_minimum_version 1.5.0

setup() {
    load lint.bash
    cd "$ROOT" || exit 1
}

# The library's and the commands' files, and the man pages.
sources() { files | grep -E '^(lib/[^/]+|cmd)/[^/]+\.(c|h|cu)$'; }
pages() { files | grep -E '^man/[^/]+\.[1-8]$'; }

@test "includes point down the floors, never up or sideways" {
    sources | over grep -HnoE '^ *# *include "[^"]+"' | sed 's|# *include ||' | tr -d '" ' | awk -F: '
        BEGIN {
            while ((getline line < "lib/FLOORS") > 0) {
                if (line ~ /^#/) continue
                n = split(line, names, " "); floor++
                for (i = 1; i <= n; i++) level[names[i]] = floor
            }
        }
        {
            split($1, at, "/"); split($3, to, "/"); from = at[1] == "lib" ? at[2] : "cmd"
            if (!(to[1] in level)) print $1 ":" $2 ": " $3 " is in no folder of lib/FLOORS"
            else if (from == "cmd") next
            else if (!(from in level)) print $1 ": folder " from " is not in lib/FLOORS"
            else if (from != to[1] && level[to[1]] >= level[from])
                print $1 ":" $2 ": " from " must not include " $3
        }' | clean
}

@test "a file's name begins with its folder's, base apart, and every folder has its line in FLOORS" {
    sources | sed -n 's,^lib/\([^/]*\)/\([^/]*\)$,\1 \2,p' | awk '
        BEGIN { while ((getline line < "lib/FLOORS") > 0) if (split(line, w, " ") > 2 && w[1] == "#") said[w[2]] }
        $1 != "base" && $2 !~ "^" $1 "[_.]" { print "lib/" $1 "/" $2 ": expected " $1 "_" $2 }
        !($1 in said) { print "lib/FLOORS: says nothing of " $1; said[$1] }' | clean
}

@test "mpi.h is world's, exec_mpi's, paro's and preload's alone" {
    grep -nE '# *include *<mpi\.h>|# *include *"mpi\.h"' $(sources) |
        grep -vE '^lib/(world|paro|preload)/|^lib/exec/exec_mpi' | clean
}

@test "below cli, plugin and preload nothing prints, exits or reads the environment" {
    sources | grep -vE '^(cmd|lib/(cli|check|plugin|preload))/|^lib/base/mem\.c$' | code | grep -E '(^|[^A-Za-z0-9_>.])(v?asprintf|v?printf|puts|putchar|perror|exit|_exit|_Exit|quick_exit|abort|getenv|secure_getenv|setenv|system|popen) *\(|(^|[^A-Za-z0-9_])(stdout|stderr|environ)([^A-Za-z0-9_]|$)' | clean
    # The one exception: memory that is lost can be reported to nobody.
    [ "$(code <<<lib/base/mem.c | grep -c stderr)" = 1 ]
}

@test "device code is launched with KERN_LAUNCH and sums no floats atomically" {
    printf '%s\n' lib/*/*.cu lib/kern/*.h | grep -v '/kern_launch\.h$' | code |
        grep -E '<<<|(^|[^A-Za-z0-9_])atomicAdd' | clean
    code <<<lib/kern/kern_launch.h | grep -q '<<<'
}

@test "setup_file skips nothing: in bats 1.8 that is a failure (tests/cmd/skip.bash)" {
    files | grep -E '\.(bats|bash)$' | over awk '
        /^setup_file\(\)/ { inside = 1 }
        inside && /(^|[^_a-z])skip "/ { print FILENAME ": " $0 }
        /^}/ || /^setup_file.*}$/ { inside = 0 }' | clean
}

@test "file names are unique in the tree" {
    # Twins that come first in the include path have the name of what they stand for.
    files | grep -E '\.(c|h|cu|cpp|bats|sh)$' | grep -v '^tests/emulate/' |
        sed 's|.*/||' | sort | uniq -d | clean
}

# So that a backtrace and an index of tags name one place.
@test "functions of file scope have names of their own in the library" {
    sources | grep '^lib/' | over perl -0777 -ne '
        print "$1 $ARGV\n" while /^(?:static|KERN_INLINE)\b[^;={}()]*?[ *]((?!__)\w+)\(/mg' | sort -u |
        awk '$1 == name { print $2 ": " $1 " is in " file ", too" } { name = $1; file = $2 }' | clean
}

@test "every text file carries its licence" {
    # A licence, tables and texts that have no comments, marks of folders, page-long prose.
    files | grep -vE '^(LICENSE|lib/FLOORS)$|\.(json|gitkeep|gitignore|md|tsv)$|^tests/(data|cmd/expected|fuzz/corpus)/|^tests/packaging/debian/source/format$' |
        over grep -Il . | over awk '
            { seen[FILENAME] }
            FNR <= 3 && /SPDX-License-Identifier: BSD-3-Clause/ { marked[FILENAME] }
            END { for (f in seen) if (!(f in marked)) print f ": no SPDX line" }' | clean
}

@test "an expected output belongs to a test, which fails without it or with another" {
    files | sed -n 's,^tests/cmd/expected/\([^/]*\)/,\1 ,p' | while read -r case name; do
        grep -qE "(^| )expect $name( |\$)" "tests/cmd/$case.bats" || echo "$case/$name: no test expects it"
    done | clean
    load ../cmd/expect
    export BATS_TEST_DIRNAME=$BATS_TEST_TMPDIR
    run ! expect page <<<new
    RENEW=1 expect page <<<new
    expect page <<<new
    run ! expect page <<<other
    RENEW=1 run ! expect page </dev/null
    RENEW=1 run ! expect page sh -c "echo other; exit 1"
    [ "$(cat "$BATS_TEST_TMPDIR/expected/source/page")" = new ]
}

@test "files, headers, functions and lines are no longer than agreed" {
    files | grep -E '\.(c|h|cu|cpp)$' | over awk '
        function ends() { if (lines > most) print file ": " lines " lines, at most " most }
        FNR == 1 { ends(); file = FILENAME; most = file ~ /\.h$/ ? 300 : 600; from = 0 }
        { lines = FNR }
        length > 96 { print file ":" FNR ": line of " length ", at most 96" }
        $0 == "{" { from = FNR }
        $0 == "}" && from {
            if (FNR - from + 1 > 70)
                print file ":" from ": function of " FNR - from + 1 " lines, at most 70"
            from = 0
        }
        END { ends() }' | clean
}

@test "FIGURES.md is short, and links to tables whose rows are complete" {
    {
        awk '/^\|/ && ++rows == 41 { print FILENAME ":" FNR ": more than 40 lines of tables" }
            length > 200 { print FILENAME ":" FNR ": line of " length ", at most 200" }' FIGURES.md
        for f in tests/bench/figures/*.tsv; do
            grep -qF "($f)" FIGURES.md || echo "FIGURES.md: no link to $f"
            awk -F '\t' 'FNR == 1 { cells = NF } !/^#/ && NF != cells { print FILENAME ":" FNR ": " NF " cells, expected " cells }' "$f"
        done
    } | clean
}

@test "comments begin with what a file or function does, in plain English" {
    sources | over perl -0777 -ne 'while (m{/\*[\s*]*(Of|What|Whoever|Nobody|Knows)\b[^\n]*}g) { print "$ARGV: $&\n" }' | clean
}

@test "tabs, trailing blanks and missing last newlines are absent" {
    files | grep -E '\.([ch]|cu|cpp|sh|bats|bash|md|1|5|7|8)$' | over perl -ne '
        print "$ARGV:$.: trailing blank\n" if / +$/;
        print "$ARGV:$.: tab\n" if /\t/ && $ARGV =~ /\.([ch]|cu|cpp)$/;
        print "$ARGV: no newline at its end\n" if eof && !/\n\z/;
        close ARGV if eof' | clean
}

@test "nothing is left to do, nothing is commented out" {
    local word='TO''DO|FIX''ME|XX''X'
    files | grep -vE '^tests/(data|fuzz/corpus)/' | over grep -HnIE "\\b($word)\\b|^(<{7}|>{7}) " | clean
}

@test "no mutable variable at file scope in the library" {
    [ -z "$SAN" ] || skip "a sanitizer adds its own"
    local o src
    for src in $(sources | grep -E '^lib/.*\.cu?$'); do
        o=$B/${src%.*}.o
        [ -f "$o" ] || continue # not part of this build
        # Who is preloaded is called by nobody who could keep anything for him.
        case $src in lib/preload/preload_mpi.c | lib/preload/preload_mpi_comm.c | lib/preload/preload_mpi_meter.c | lib/preload/preload_nccl* | lib/plugin/plugin.c | lib/plugin/plugin_tuning.c) continue ;; esac
        # Data that is written to: .data, .bss and the thread-local ones; read-only tables
        # with addresses in them are .data.rel.ro.  nvcc adds its own, to launch kernels.
        objdump -t "$o" | awk -v o="$src" '
            NF > 4 && $(NF - 2) ~ /^\.(data|bss|tdata|tbss)/ && $(NF - 2) !~ /^\.data\.rel\.ro/ &&
            $2 != "d" && $3 != "d" && $NF !~ /^\./ && $NF !~ /__device_stub__|__cudaFatCubinHandle/ { print o ": " $NF " in " $(NF - 2) }'
    done | clean
}

# The shell scripts of the tree.
scripts() {
    files | grep -v '^completions/' | while read -r f; do
        case $f in *.sh | *.bats | *.bash) echo "$f"; continue ;; esac
        ! head -c 64 "$f" 2>/dev/null | tr -d '\0' | head -n 1 | grep -qE '^#!.*(sh|bash|bats)$' || echo "$f"
    done
}

@test "scripts pass shellcheck" {
    scripts | tr '\n' '\0' | xargs -0 shellcheck -x -P "$ROOT/tests/lint" -e SC1091,SC2153,SC2154,SC2317
}

@test "no condition of a test, or of a script under set -e, goes unnoticed" {
    scripts | while read -r f; do
        case $f in *.bats | *.bash) ;; *) grep -qE '^set -[a-z]*e' "$f" || continue ;; esac
        echo "$f"
    done | xargs python3 tests/lint/unchecked.py 2>&1 | clean
    # The check itself: of these lines the first three.
    bad=$BATS_TEST_TMPDIR/bad.bats
    printf '%s\n' '@test "t" {' '! a' 'a && b' 'f() { [ a ]; b; }' \
        '! a || b' 'a && b || c' 'if a && ! b; then c; fi' 'g() { a; b && c; }' 'again f' '}' >"$bad"
    [ "$(python3 tests/lint/unchecked.py "$bad" | cut -d: -f2 | tr '\n' ' ')" = '2 3 4 ' ]
}

@test "man pages pass mandoc's own lint" {
    [ -n "$(pages)" ]
    for f in $(pages); do
        mandoc -T lint -W warning "$f" | sed "s|^|$f: |"
    done | clean
}

@test "man pages format at 80 columns without a warning of groff" {
    for f in $(pages); do
        groff -mandoc -Tutf8 -ww -z -rLL=78n "$f" 2>&1 | sed "s|^|$f: |"
    done | clean
}

# wrapped FORMATTER...: the tables of the page on standard input whose cells wrap word by word at
# 80 columns: a row of more than 3 lines, or more than 2 lines for each row.  Lists and tables
# are marked in the source, since formatted text does not show where they begin.
wrapped() {
    perl -e '
        my (@list, @rows, $out);
        while (<STDIN>) {
            if (/^\.Bl /) {
                push @list, /-column/ ? $. : 0;
                $out .= ".Pp\n<table:$.:ROWS$.>\n" if /-column/;
            }
            $rows[$list[-1]]++ if /^\.It/ && @list && $list[-1];
            $out .= $_;
            $out .= "</table>\n" if /^\.El/ && pop @list;
        }
        print $out =~ s/ROWS(\d+)/$rows[$1]/gr' |
        "$@" | perl -CS -ne '
            s/.\x08|\e\[[\d;]*m//g; # bold and underlined
            if (/<table:(\d+):(\d+)>/) { ($line, $rows, @lines) = ($1, $2); next }
            push @lines, $_ if $line && /\S/ && !/^\s*<.table>/;
            next if !$line || !/^\s*<.table>/;
            my ($base) = sort { $a <=> $b } map { /^ */; $+[0] } @lines;
            my ($height, $most) = (0, 0);
            for (@lines) {
                $height = /^ {$base}\S/ ? 1 : $height + 1;
                $most = $height if $height > $most;
            }
            print "line $line: the table wraps word by word\n" if $most > 3 || @lines > 2 * $rows;
            $line = 0'
}

@test "tables of man pages do not wrap word by word at 80 columns" {
    for f in $(pages); do
        ! grep -q '^\.TS' "$f" || echo "$f: has a tbl table, expected .Bl -column"
        wrapped mandoc -Tutf8 -O width=80 <"$f" | sed "s|^|$f: mandoc: |"
        wrapped groff -mandoc -Tutf8 -rLL=78n <"$f" 2>/dev/null | sed "s|^|$f: groff: |"
    done | clean
    # The check itself: three columns that fit, and with the last one pushed to the margin.
    page=$'.Dd May 1, 2026\n.Dt T 7\n.Os\n.Sh T\n.Bl -column "zero3, fsdp" "WIDTH"\n'
    page+=$'.It mics Ta III Ta everything inside the group, a copy in each\n.It ddp Ta NNN Ta all\n.El\n'
    wide=${page/WIDTH/parameters and gradients inside, optimizer globally}
    for r in 'mandoc -Tutf8 -O width=80' 'groff -mandoc -Tutf8 -rLL=78n'; do
        [ -z "$(wrapped $r <<<"$page")" ]
        [ -n "$(wrapped $r <<<"$wide" 2>/dev/null)" ]
    done
}

# What make check runs starts no ranks, tries nothing twice, draws no lots and reads no clock.
@test "a test without the tag full or long needs one process and no luck" {
    for f in $(files | grep -E '^tests/(cmd|lint)/[^/]+\.bats$'); do
        ! grep -q '^# bats file_tags=' "$f" || continue
        awk -v f="$f" '
            /^# bats test_tags=/ { tagged = 1; next }
            /^@test / { here = !tagged; tagged = 0 }
            /^}/ { here = 0 }
            here && /(^| )mpirun +-|^ *again |(^| )ranks ("?[$][^ ]*|[0-9]+) |[$]RANDOM|urandom|SECONDS|date [+]%s/ {
                print f ":" FNR ": " $0
            }' "$f"
    done | grep -v '^tests/lint/source.bats' | clean
}
