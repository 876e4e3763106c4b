# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# examples/connr, built as its users do, on generated texts: that ranks agree, that it clusters,
# and what it rejects.  tests/unit/connr_test.c tests the parts.

bats_require_minimum_version 1.5.0
load example

setup_file() {
    [ -z "${SAN-}" ] || return 0
    cd "$ROOT" || return
    example_build connr || return
    # Five classes of 21 to 25 texts: 9 words of the class's 40, 6 of the 60 that all share.
    cd "$T" && awk '
        function draw(n) { seed = (seed * 16807) % 2147483647; return seed % n }
        BEGIN {
            seed = 7
            for (c = 0; c < 5; c++)
                for (i = 0; i < 21 + c; i++) {
                    line = "class" c "\t"
                    for (w = 0; w < 15; w++)
                        line = line (w % 5 < 3 ? "topic" c "x" draw(40) : "common" draw(60)) " "
                    print line
                }
        }' >texts
}

@test "it also builds in the source tree" {
    example_in_tree connr 'that of the second'
}

# losses RANKS [OPTION...]: the loss of each epoch, then the table without its seconds (mpirun
# keeps no order between a rank's two streams)
losses() {
    timeout 60 mpirun -np "$1" ./connr --warm-up=2 --epochs=2 --batch=100 "${@:2}" >out 2>err
    sed -nE 's/^epoch .*loss //p' err
    sed -nE 's/^(k-means|BYOL|ConNR)(.*) +[0-9.]+$/\1\2/p' out
}

# A step adds up to 100 rows of floats of 2^-24, so losses and parameters agree to 1e-5 or so;
# Adam divides by the size of gradients, so that the rounding of small ones grows with the rate:
# 4 steps of at most 0.0003 move a loss by less than 0.001.  Clusters that are apart stay equal.
@test "one, two, three and four ranks agree to rounding, and one seed gives the same bits" {
    losses 1 texts >one
    cat one
    [ "$(wc -l <one)" = 7 ]
    losses 1 texts | cmp - one
    for ranks in 2 3 4; do
        losses $ranks texts | paste one - | awk '{
            for (i = 1; i <= NF / 2; i++) {
                d = $i - $(i + NF / 2)
                if ($i ~ /^-?[0-9]/ ? d * d > 1e-6 : $i != $(i + NF / 2)) exit 1
            }
            n++
        } END { exit n != 7 }'
    done
    losses 1 --seed=2 texts >other
    run -1 cmp -s other one
}

@test "classes that are apart are found, and a cluster is printed for each line" {
    run -0 --separate-stderr mpirun -np 2 ./connr --print --batch=64 texts
    echo "$output"
    [[ ${lines[0]} =~ ^115\ texts,\ 5\ classes,\ [0-9]+\ words,\ 2\ ranks$ ]]
    [ "${#lines[@]}" = $((2 + 3 + 115)) ]
    awk '$1 == "ConNR" { exit !($3 > 90 && $4 > 90 && $5 > 90) }' <<<"$output"
}

@test "without epochs of ConNR the result is that of BYOL" {
    run -0 --separate-stderr ./connr --warm-up=3 --epochs=0 texts
    echo "$output"
    [[ $output == *"BYOL  "* && $output != *"ConNR  "* ]]
    [ "${#stderr_lines[@]}" = 3 ]
}

@test "the nearest keys as neighbours differ in the neighbourhoods alone, and times are stated" {
    losses 1 texts >one
    run -0 --separate-stderr ./connr --euclid --warm-up=2 --epochs=2 --batch=100 texts
    printf '%s\n' "$output" "$stderr"
    [[ ${lines[4]} == "nearest "* ]]
    head -n 2 one | diff - <(sed -nE 's/^epoch [12]: loss //p' <<<"$stderr")
    [ "$(sed -n 3p one)" != "$(sed -n 's/^epoch 3: loss //p' <<<"$stderr")" ]
    for text in err <(echo "$stderr"); do
        grep -qxE 'a step of 100 texts: neighbourhoods [0-9]+\.[0-9]{2} ms, network [0-9]+\.[0-9]{2} ms' "$text"
    done
}

# Each class of vectors is near an axis of its own; the two views differ by noise.
@test "vectors take the place of texts" {
    awk 'BEGIN {
        seed = 5
        for (i = 0; i < 90; i++) {
            line = "axis" i % 3 "\t"
            for (j = 0; j < 8; j++) {
                seed = (seed * 16807) % 2147483647
                line = line sprintf("%.3f ", (j % 4 == i % 3) + seed % 1000 / 3000)
            }
            print line
        }
    }' >vectors
    run -0 --separate-stderr ./connr --vectors --warm-up=2 --epochs=2 vectors
    echo "$output"
    awk '$1 == "ConNR" { exit !($3 == 100 && $4 == 100 && $5 == 100) }' <<<"$output"
}

@test "what is wrong is reported in one line, with what was expected" {
    refused "cannot read 'none': No such file or directory" none
    refused "no file, expected one"
    refused "two files, expected one" texts texts
    refused "--batch is '1', expected a whole number from 2 to 1000000000" --batch=1 texts
    refused "--seed is 'x', expected a whole number from 0 to 1000000000" --seed=x texts
    printf 'a\tone\nno tab\n' >bad
    refused "bad:2: 'no tab', expected a class, a tab and a text" bad
    printf 'a\tone\n\nb\ttwo\n' >bad
    refused "bad:2: '', expected a class, a tab and a text" bad
    printf 'a\tone\0\nb\ttwo\n' >bad
    refused "bad: a byte 0, expected text" bad
    printf 'a\tone\na\ttwo' >bad
    refused "bad: 1 classes, expected at least 2" bad
    : >bad
    refused "bad: 0 classes, expected at least 2" bad
    printf 'a\t1 2\nb\t1 x\n' >bad
    refused "bad:2: 'x', expected a number" --vectors bad
    printf 'a\t1 2\nb\t1 2 3 4\n' >bad
    refused "bad:2: 4 numbers, expected two views of the same size in all lines" --vectors bad
    printf 'a\t1 2 3\nb\t1 2 3\n' >bad
    refused "bad:1: 3 numbers, expected two views of the same size in all lines" --vectors bad
    mpirun -np 3 ./connr none >out 2>said || rc=$?
    [ "$rc" = 2 ]
    [ "$(grep -c '^connr: ' said)" = 1 ]
    [ ! -s out ]
    unwritable --warm-up=0 --epochs=0 texts
}
