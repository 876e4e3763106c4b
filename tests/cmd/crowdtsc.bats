# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# examples/crowdtsc, built as its users do: votes whose merging has a known result, the gradient
# against differences, the pipeline on generated texts, and wrong input.
# shellcheck disable=SC2046,SC2086

load example

setup_file() {
    [ -z "${SAN-}" ] || return 0
    cd "$ROOT" || return
    example_build crowdtsc || return
    # Texts of 9 words: g0 ... g9 are in positive ones, b0 ... b9 in negative ones, f* in both.
    cd "$T" && awk -v OFS='\t' '
        function draw(n) { seed = (seed * 1103515245 + 12345) % 2147483648; return int(seed / 65536) % n }
        BEGIN {
            seed = 7
            for (i = 0; i < 10; i++)
                print "g" i, 2, 0, "[1, 2, 3]\nb" i, -2, 0, "[-1, -3, -2]" > "lexicon"
            for (i = 1; i <= 600; i++) {
                text = ""
                for (k = 0; k < 9; k++)
                    text = text (k ? " " : "") (k % 4 == 1 ? (i % 2 ? "g" : "b") draw(10) : "f" draw(60))
                print i, i % 2 ? "pos" : "neg", text > (i <= 400 ? "texts" : "test")
            }
        }'
}

@test "it also builds in the source tree" {
    example_in_tree crowdtsc 'train TEXTS KEYWORDS TEST'
}

# Three workers, 1000 keywords and 1000 other words, and each combination of answers exactly as
# often as their probabilities say: then these are the most likely ones (7 numbers, 7 unknowns),
# and Bayes' rule says which words are keywords.
@test "merging finds the workers' known probabilities, and the words that follow from them" {
    awk -v OFS='\t' 'BEGIN {
        split("0.9 0.8 0.7", yes); split("0.8 0.9 0.6", no)
        for (m = 0; m < 8; m++) {
            p = q = 1000
            for (w = 1; w <= 3; w++) {
                bit[w] = int(m / 2 ^ (w - 1)) % 2
                p *= bit[w] ? yes[w] : 1 - yes[w]
                q *= bit[w] ? 1 - no[w] : no[w]
            }
            for (i = int(p + q + 0.5); i > 0; i--) {
                print ++id, "pos", "word" > "q"
                print id, (p > q) > "expected"
                for (w = 1; w <= 3; w++) print "w" w, id, bit[w] > "v"
            }
        }
        print id > "size"
    }'
    [ "$(cat size)" = 2000 ]
    ./crowdtsc merge --prior=0 q v >k
    cat <<'END' | diff - <(grep '^#' k)
# worker w1: right on 0.9000 of keywords and 0.8000 of the rest
# worker w2: right on 0.8000 of keywords and 0.9000 of the rest
# worker w3: right on 0.7000 of keywords and 0.6000 of the rest
END
    grep -v '^#' k | awk -v OFS='\t' '{print $1, $4 == "1,0" ? 1 : 0}' | diff - expected
}

# An error of h^2 and of eps / h, both near 1e-10 for h = 1e-5; losses and derivatives are near 1.
@test "the gradient is that of central differences, in every parameter" {
    cat >gradient.c <<'END'
#include "crowd_train.c"
int main(void)
{
    enum { N = 5, PARAMS = (3 * DIM + 3) * HIDDEN + 2 };
    int word[N] = {0, 3, 1, 3, 2};
    char keyword[N] = {0, 1, 1, 0, 0};
    struct text t = {.keyword = keyword, .n = N, .word = word};
    struct run r = {.words = {.n = 4, .vector = zeros(4 * DIM, 8)}, .guide = 0.7, .hybrid = 1};
    double *theta = zeros(PARAMS, 8), *grad = zeros(PARAMS, 8), *none = zeros(PARAMS, 8);
    double worst = 0, h = 1e-5, score, loss[2], moved = 0;
    uint64_t state = 3;
    for (int i = 0; i < 4 * DIM; i += 50)
        r.words.vector[i] = uniform(&state) - 0.5;
    for (int k = 0; k < 2; k++) {
        r.votes[k] = zeros(4, 8);
        for (int i = 0; i < 4; i++)
            r.votes[k][i] = 2 + i + k;
    }
    for (int i = 0; i < PARAMS; i++)
        theta[i] = uniform(&state) - 0.5;
    for (t.positive = 0; t.positive < 2; t.positive++) {
        memset(grad, 0, PARAMS * 8);
        pass(&r, theta, &t, grad, &score);
        for (int i = 0; i < PARAMS; i++) {
            double old = theta[i];
            for (int k = 0; k < 2; k++) {
                theta[i] = old + (k ? h : -h);
                loss[k] = pass(&r, theta, &t, none, &score);
            }
            theta[i] = old;
            worst = fmax(worst, fabs((loss[1] - loss[0]) / (2 * h) - grad[i]));
            moved += grad[i] != 0;
        }
    }
    printf("%d %g\n", (int)moved, worst);
    return worst > 1e-8;
}
END
    mpicc -std=c11 -D_GNU_SOURCE -O2 -I"$ROOT/examples/crowdtsc" -o gradient gradient.c \
        "$ROOT"/examples/crowdtsc/crowd_text.c "$ROOT"/examples/crowdtsc/crowd_query.c \
        $(PKG_CONFIG_PATH=$T/prefix/lib/pkgconfig pkg-config --cflags --libs paro) -lm
    run ./gradient
    echo "$output"
    [ "$status" = 0 ] && [ "${output%% *}" -gt 1000 ]
}

@test "from texts to accuracy, the same on 1, 2 and 3 ranks, and labelled as simulated" {
    ./crowdtsc ask --budget=50 texts >q
    [ "$(grep -vc '^#' q)" = 50 ]
    [ "$(grep -v '^#' q | cut -f 1 | sort -u | wc -l)" = 50 ]
    [ "$(grep -v '^#' q | grep -cxFf texts)" = 50 ]
    ./crowdtsc ask --budget=50 texts | cmp - q
    ./crowdtsc ask --budget=50 --random texts | grep -v '^#' | cut -f 1 | sort >random
    [ "$(grep -v '^#' q | cut -f 1 | sort)" != "$(cat random)" ]
    ./crowdtsc simulate lexicon q >v
    ./crowdtsc merge q v >k
    for f in v k; do grep -q '^# SIMULATED' $f; done
    # Nearly all keywords are words that decide, and most of these are found.
    grep -v '^#' k | awk -F '\t' '{
        split($3, word, " "); n = split($4, at, ",")
        for (i = 1; i < n; i++) word[at[i]] ~ /^[gb]/ ? good++ : bad++
    } END { exit !(good > 70 && bad < 10) }'
    for how in '' '--hybrid' '--unguided' '--bag'; do
        for ranks in 1 2 3; do
            mpirun -np $ranks ./crowdtsc train $how --epochs=10 texts k test | tee "$ranks"
        done
        # Rounding of sums of 16 terms, over 40 steps.
        for ranks in 2 3; do
            paste 1 $ranks | sed 's/[a-z]* //g' |
                awk -F '\t' '{ exit !($5 > 0 && ($5 - $11) ^ 2 < 1e-16 && $6 == $12 && $6 > 0.7) }'
        done
    done
}

@test "what is wrong is reported in one line, with what was expected" {
    printf '1\tpos\ta b\n2\tneg\tc\n' >few
    refused "cannot open 'none': No such file or directory" ask none
    refused "verb 'say', expected ask, simulate, merge or train" say
    refused "1 files for merge, expected them as in --help" merge few
    refused "--budget is '0', expected a whole number from 1 to 1000000" ask --budget=0 few
    refused "--guide is 'x', expected a number from 0 to 1000000" train --guide=x few few few
    refused "budget 3, expected at most 2, the texts of the sample" ask --budget=3 few
    refused "--votes is 13, expected at most the 12 workers" simulate --votes=13 lexicon few
    printf '1\tgood\ta b\n' >wrong
    refused "wrong:1: label 'good', expected pos or neg" ask wrong
    printf '# a\n1\tpos\n' >wrong
    refused "wrong:2: 2 columns, expected 3" ask wrong
    printf '1\tpos\ta\n1\tneg\tb\n' >wrong
    refused "wrong:2: id '1' again, expected it once" ask wrong
    : >wrong
    refused "wrong: no texts, expected at least 1" ask wrong
    printf 'good\t1\t0\tnone\n' >wrong
    refused "wrong:1: ratings 'none', expected 1 to 10 as in [3, -1]" simulate wrong few
    printf 'w1\t1\t3\n' >wrong
    refused "wrong:1: '3' for id '1', expected positions as in 1,3 or 0, and a question" merge few wrong
    printf 'w1\t1\t1\nw1\t1\t2\n' >wrong
    refused "wrong:2: 'w1' answers '1' again, expected one answer" merge few wrong
    printf '1\tpos\ta b\t1,x\n' >wrong
    refused "wrong:1: keywords '1,x', expected positions up to 2 as in 1,3 or 0" train few wrong few
    mpirun -np 3 ./crowdtsc train few wrong few >out 2>said || rc=$?
    [ "$rc" = 2 ]
    [ "$(grep -c "^crowdtsc: " said)" = 1 ]
    ! grep -q accuracy out || return 1
    unwritable ask --budget=1 few
}
