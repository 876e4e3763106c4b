# SPDX-License-Identifier: BSD-3-Clause
# examples/paper/run: the tables of the paper and paro's, the page of HTML, Figure 7 trained.

load refuses
load expect

RUN=$ROOT/examples/paper/run

@test "the page is the committed one, and its errors are those of its own columns" {
    expect page sh "$RUN"
    sh "$RUN" > page
    # name: paper paro error T error
    sed -n 's/^  .*: [NIG]\{3\} \/ [NIG@16]* *\([0-9].*\)$/\1/p' page | tr -d %+ > numbers
    [ "$(wc -l < numbers)" = 14 ]
    # Errors are of unrounded values: 0.005 of 0.6 is 1 %.
    awk '{ for (k = 2; k <= 4; k += 2) { d = 100 * ($k / $1 - 1) - $(k + 1); if (d > 1.5 || d < -1.5) exit 1 } }' numbers
}

@test "the page of HTML has the text and four pictures, and replaces nothing" {
    sh "$RUN" --html=page.html > text
    [ "$(grep -c '<svg ' page.html)" = 4 ]
    [ "$(grep -c '</svg>' page.html)" = 4 ]
    sed -n '/<pre>/,/<\/pre>/p' page.html | sed 's/<[/]*pre>//; s/&gt;/>/g' | diff - text
    cp page.html before
    run -2 sh "$RUN" --html=page.html
    [[ "$output" == *"cannot write 'page.html', expected a new name"* ]]
    cmp page.html before
    run -2 sh "$RUN" --pdf=page
    [ "$output" = "run: unknown operand '--pdf=page', expected --html=FILE, --train=DIR or --steps=N" ]
}

# bats test_tags=full
@test "figure 7: six strategies have the same losses, on the page of paro-report" {
    sh "$RUN" --train=runs --steps=3 --html=page.html > page
    sed -n 's/^  \([NIG]\{3\}\) \([0-9.]*\), [-+0-9.]* % of GGG$/\1 \2/p' page > losses
    [ "$(cut -d' ' -f1 losses | paste -sd' ' -)" = "GGG IIG NIG NII ING IGG" ]
    awk 'NR == 1 { g = $2 } $2 / g > 1.0001 || $2 / g < 0.9999 { exit 1 }' losses
    grep -q '<h2>Training</h2>' page.html
    grep -q '^Figure 7: loss after 3 steps' page.html
}
