# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What was measured: the file `fabric`, which paro-topo has written; what it said: `said`.

# measured_nothing STATUS PATTERN: it ended with 2, one line, and nothing on standard output.
measured_nothing() {
    cat said
    [ "$1" = 2 ] && [ ! -s fabric ] && [ "$(grep -c '^paro-topo: ' said)" = 1 ] &&
        grep -qE "^paro-topo: $2" said
}

# near PATH MB/s: within a tenth; PATH as levels.1.port_Bps, of the fabric as JSON.
near() {
    paro-topo --json -i fabric > json && perl -MJSON::PP -e '
        local $/; open my $f, "<", "json"; my $v = decode_json(<$f>);
        $v = ref $v eq "ARRAY" ? $v->[$_] : $v->{$_} for split /\./, $ARGV[0];
        $v /= 1e6;
        printf "%s is %.1f MB/s, expected %s\n", $ARGV[0], $v, $ARGV[1];
        exit !($v > 0.9 * $ARGV[1] && $v < 1.1 * $ARGV[1])' "$1" "$2"
}

# number KEY LEAST MOST: each value of that key lies there, those of a list too, and there is one at
# least.
number() {
    awk -v key="$1:" -v least="$2" -v most="$3" '
        $1 == key {
            gsub(/[][,]/, " ")
            bad = bad || NF < 2
            for (i = 2; i <= NF; i++)
                if ($i + 0 < least + 0 || $i + 0 > most + 0) { print; bad = 1 }
            n++
        }
        END { exit !n || bad }' fabric
}
