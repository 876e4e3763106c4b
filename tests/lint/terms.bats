# SPDX-License-Identifier: BSD-3-Clause
# The words that users read: standard terms, which a reader can search for, and no private dialect.

setup() {
    load lint.bash
    cd "$ROOT" || exit 1
}

# Rejected phrase (a regular expression, between word boundaries), TAB, say instead.  Only what is
# wrong in practically every context: "look up", "which rank", "tell them apart" are English.
phrases() {
    cat <<'END'
what travels	payload, message, wire type
what is left (of|over)	the remainder, the remaining ...
that which	the noun
what it keeps	its share, shard
who has it	the owner
(go|goes|going|gone|went) on(?= with|[.,;:]|$)	resume (a run), generate (text), continue
behind(?= (--|['"<‘“%\d]|its\b|it\b|them\b|rank|step|the first))	after, following
beside	next to, with, compared with
(do|does|did) not tell	does not report, show or state; unknown
tells (of|no|nothing)|tell nothing	reports, states
(not|is|are|was|were|be) told(?! apart)	reported, asked; unknown
told to end	asked to stop
a tour|tours? of|tours	measurement campaign, round
(one|two|three|a|an|the|first|last|next|%d|\d+) looks?	sample, measurement, round
looked at	measured, checked, read
team|teams	communicator, participants
circle of|(the|a|whole|their) circle(?! method)	communicator, peers
tally|tallies	cost
bill|bills	cost table
manners|be ours|be again|ours alone	device state, guard; paro's own
(put|set|lay|laid|move|moved|is|are) aside	staging directory, trash, lock
(no|has|have|enough|more) room|room (for|to)	buffer, space, memory
put by	accumulate
ways? out	port, link; in flight
(?<!there )is no (step|option)	is skipped, fails; is not an option
(is|are|was|were) given up	fails, aborts
of now	the current time
what is to (start|run|stop)	the launcher command, the noun
how (it|they) stands?	state, status
the time there is	deadline
refused is what	unsupported, rejected
foretold|foretells?	predicted
END
}

# terms NAME: what is wrong in the text on standard input; lines and paragraphs may break anywhere.
terms() {
    perl -Mutf8 -CSA -e '
        my $name = shift;
        my @row = map { chomp; [split /\t/] } <STDIN>;
        open my $h, "<&=3" or die; binmode $h, ":utf8";
        my $text = do { local $/; <$h> } // "";
        $text =~ s/\n[ \t]*[#*>]*[ \t]*/ /g unless $name =~ /^literals/;
        $text =~ s/[ \t]+/ /g;
        for (@row) {
            my ($wrong, $say) = @$_;
            while ($text =~ /(?:^|(?<![\w-]))(?:$wrong)(?![\w-])/gmi) {
                my ($from, $to) = ($-[0], $+[0]);
                my $line = "";
                if ($name =~ /^literals/) { # each line is FILE:LINE: text
                    my $begin = rindex($text, "\n", $from) + 1;
                    my $end = index($text, "\n", $from);
                    $line = substr($text, $begin, $end - $begin);
                } else {
                    my $begin = $from > 40 ? $from - 40 : 0;
                    $line = "$name: ... " . substr($text, $begin, $to - $begin + 30) . " ...";
                }
                printf "%s: found \"%s\", say: %s\n", $line, substr($text, $from, $to - $from), $say;
            }
        }' "$1" 3<&0 < <(phrases)
}

# The string literals of C files, adjacent ones joined: FILE:LINE: text.
literals() {
    perl -e '
        for my $f (@ARGV) {
            open my $h, "<", $f or die "$f: $!";
            my $s = do { local $/; <$h> };
            my ($line, $at, $text) = (1, 0, undef);
            while ($s =~ m{\G(?:(/\*.*?\*/|//[^\n]*)|"((?:[^"\\]|\\.)*)"|\x27(?:[^\x27\\]|\\.)*\x27|(\s+|\\\n)|(PRI[A-Za-z0-9]+)|\#\s*include[^\n]*|(?:\w+|.))}gs) {
                if (defined $2) { $at = $line unless defined $text; $text .= $2 }
                elsif (defined $4) { $text .= "d" if defined $text }
                elsif (!defined $1 && !defined $3) {
                    print "$f:$at: ", $text =~ s/\\n/ /gr, "\n" if defined $text;
                    $text = undef;
                }
                $line += () = $& =~ /\n/g;
            }
        }' "$@"
}

@test "the list of phrases rejects what it names, and no ordinary English" {
    while IFS= read -r wrong; do
        [ -n "$(terms x <<<"${wrong//|/$'\n'# }")" ] || echo "not rejected: $wrong"
    done <<'END' | clean
--wire-type: What travels
What is left of its process group is ended too.
It goes on with a text, and the run goes on.
Behind -- stands what is to start it on the hosts
expected nothing behind 'x'
no step behind|the first one
a ']' behind its '['
%s beside --read
a fabric does not tell of PCI devices
One that is told to end has a checkpoint.
samples of two looks
the first look at a host
links of a host not looked at
a gradient that is not finite is no step
It is of now.
the team of a rank
no room to prepare more
communicators were given up
knows ours alone
END
    while IFS= read -r right; do
        terms x <<<"$right"
    done <<'END' | clean
Look it up in a table, look at the picture, and tell links apart; they cannot be told apart.
Pairs that look far apart; what is left free; work that is hidden behind something longer.
There is no step to resume. The circle method. Ranks behind a port. Ports that go on and off.
The answer says how many. How much longer a step takes: the column behind. Besides, the billing.
END
    printf 'f() { return err(1, "what " /* it */\n  "travels %%" PRId64 "\\n", "x"); } /* "what travels" */\n' \
        >"$BATS_TEST_TMPDIR/f.c"
    [ "$(literals "$BATS_TEST_TMPDIR/f.c" | terms literals)" = \
        "$BATS_TEST_TMPDIR/f.c:1: what travels %d : found \"what travels\", say: payload, message, wire type" ]
}

@test "man pages, help, README and examples speak in the terms of the field" {
    {
        for page in man/*.[1-8]; do
            mandoc -Tutf8 -O width=1000 "$page" | perl -CS -pe 's/.\x08//g' | terms "$page"
        done
        for c in $(commands); do
            "$c" --help=all | terms "$c --help=all" # of every verb, too
        done
        files | grep -E '^(README|FIGURES|CHANGELOG|CONTRIBUTING)\.md$|^tests/(gpu/FIGURES\.md|bench/figures/.*\.tsv)$|^examples/.*\.(sh|md|sbatch)$' |
            while read -r f; do
                # shellcheck disable=SC2094 # the argument is a name to print
                terms "$f" <"$f"
            done
    } | clean
}

@test "string literals of lib and cmd speak in the terms of the field" {
    {
        literals lib/*/*.[ch] cmd/*.c | terms literals
        grep -nE '(^|[^a-z])(die|must|echo|printf) ' cmd/*.sh /dev/null | terms literals
    } | clean
}

# Word of a name, TAB, say instead.
names() {
    cat <<'END'
tally	traffic
bill	cost
ask	request, query, settings
asked	requested
told	reported, result
healed	repaired
anew	replacement
lodger	host group
settle	drain, finish, reconcile
settled	drained, finished
meet	candidate, common
room	space, slot, buffer
rooms	slots, buffers
END
}

@test "names in the library and the commands are of the field's words" {
    names >"$BATS_TEST_TMPDIR/names"
    files | grep -E '^(lib/[^/]+|cmd)/[^/]+\.(c|h|cu)$' | code | grep -oE '^[^:]*:|[A-Za-z_][A-Za-z0-9_]*' |
        awk -F '\t' 'NR == FNR { say[$1] = $2; next }
            /:$/ { file = $0; next }
            { n = split(tolower($0), word, "_")
              for (i = 1; i <= n; i++)
                  if (word[i] in say && !seen[file, $0]++) print file " " $0 ": say " say[word[i]] }' \
            "$BATS_TEST_TMPDIR/names" - | grep -v 'kern_cuda_hopper_backward.cu: hopper_meet' | clean
}
