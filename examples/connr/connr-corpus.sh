#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# connr-corpus.sh SECTION...: prints lines SECTION<TAB>DESCRIPTION of Debian packages: one of each
# source, up to 500 of a section.  apt fetches the lists into a temporary folder, without root.
set -eu
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT INT TERM
mkdir -p "$lists/partial"
echo "deb http://deb.debian.org/debian ${RELEASE:-bookworm} main" >"$lists/sources"
apt-get -o Dir::State::Lists="$lists" -o Dir::Etc::SourceList="$lists/sources" \
    -o Dir::Etc::SourceParts=/dev/null -o Acquire::Languages=en -o APT::Architecture=amd64 \
    -o APT::Sandbox::User="$(id -un)" -qq update >&2
for what in Translation-en _Packages; do
    /usr/lib/apt/apt-helper cat-file "$lists"/*$what*
    echo
done | awk -v sections=" $* " 'BEGIN { RS = ""; FS = "\n"; OFS = "\t" } {
    split("", f)
    for (i = 1; i <= NF; i++) {
        if ($i !~ /^ /)
            name = substr($i, 1, index($i, ":") - 1)
        f[name] = f[name] ($i ~ /^ / ? $i : substr($i, length(name) + 3))
    }
    md5 = f["Description-md5"]
    split(f["Source"] " " f["Package"], source, " ")
    if ("Description-en" in f)
        text[md5] = f["Description-en"]
    else if (md5 in text && !have[source[1]]++ && index(sections, " " f["Section"] " "))
        print md5, f["Section"], text[md5]
}' | LC_ALL=C sort | awk -F '\t' -v OFS='\t' 'count[$2]++ < 500 { print $2, $3 }'
