#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# crowdtsc-measure.sh PROGRAM DIR: the table of README.md.  Fetches the texts into DIR first, by pip.
# shellcheck disable=SC2086 # an unquoted variable is several words, or none
set -eu
program=$(realpath "${1:?expected the program}")
mkdir -p "${2:?expected a folder}"
cd "$2"
name=vaderSentiment-3.3.2
[ -f texts.tsv ] || {
    pip download -q --no-deps --no-binary :all: -d . vaderSentiment==3.3.2
    echo "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9  $name.tar.gz" |
        sha256sum -c --quiet
    tar xzf $name.tar.gz
    tar xzf $name/additional_resources/hutto_ICWSM_2014.tar.gz
    # The label is the sign of the mean rating; people do not agree on those near 0.
    LC_ALL=C awk -F '\t' -v OFS='\t' '$2 <= -0.5 || $2 >= 0.5 {
        s = tolower($3)
        gsub(/[^a-z0-9'\''\200-\377-]+/, " ", s)
        gsub(/^ | $/, "", s)
        if (s != "") print $1, ($2 < 0 ? "neg" : "pos"), s > ($1 % 4 ? "texts" : "test.tsv")
    }' hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt
    mv texts texts.tsv
}
for seed in 1 2 3 4 5; do for what in 50 100 200 400 '100 --random' '200 --random' '250 --random' \
    '300 --random' '400 --random'; do
    $program ask --seed=$seed --budget=$what texts.tsv >questions.tsv
    $program simulate --seed=$seed $name/vaderSentiment/vader_lexicon.txt questions.tsv >votes.tsv
    $program merge questions.tsv votes.tsv >keywords.tsv
    for how in '' --unguided --hybrid '--hybrid --unguided' --bag; do
        ${MPIRUN-mpirun -np 2} "$program" train $how --seed=$seed texts.tsv keywords.tsv test.tsv |
            sed "s/^/$what	/"
    done
done; done | tee results.tsv | sort -t '	' -k 1,1n -k 1,3 -k 7,7 | awk -F '\t' '
    { a[(NR - 1) % 25] = 100 * substr($7, 10) }
    NR % 25 == 0 {
        printf "| %s |", $1
        for (i = 0; i < 25; i += 5) printf " %.1f (%.1f to %.1f) |", a[i + 2], a[i], a[i + 4]
        print ""
    }'
