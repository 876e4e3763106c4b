# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# examples/bayes, built as its users do: figures of scipy and of earlier linear models, that the
# generated comparisons come out as the theory says, and wrong input.  tests/unit/bayes_test.c tests
# the parts.

bats_require_minimum_version 1.5.0
load example

setup_file() {
    [ -z "${SAN-}" ] || return 0
    cd "$ROOT" || return
    example_build bayes || return
    cp tests/data/bayes.t* "$T" && cd "$T" || return
    cut -f 1,4 bayes.tsv >first.tsv
    # Gram matrices of the linear models.
    for m in first bayes; do
        awk '{ for (j = 1; j < NF; j++) x[NR, j] = $j; y[NR] = $NF }
            END {
                for (i = 1; i <= NR; i++) {
                    for (k = 1; k <= NR; k++) {
                        s = 0
                        for (j = 1; j < NF; j++) s += x[i, j] * x[k, j]
                        printf "%.12g\t", s
                    }
                    print y[i]
                }
            }' "$m.tsv" >"$m.gram"
    done
}

@test "it also builds in the source tree" {
    example_in_tree bayes 'evidence DATA'
}

# figures NAME: those of scipy, in the order of the dump's columns
figures() { sed -n "s/^$1 //p" bayes.txt; }

# Six standard errors are exceeded by one mean in 5e8, and the seed is fixed.
near='function near(a, b, error) { return (a - b) ^ 2 <= 36 * error ^ 2 }'

@test "evidence, bound and estimates are those of scipy, by features and by Gram matrix" {
    for how in linear gram; do
        names=(bayes.tsv first.tsv)
        [ $how = linear ] || names=(bayes.gram first.gram)
        run -0 ./bayes evidence --kernel=$how --prior-var=0.8 --noise-var=0.3 --k=2 --samples=20000 "${names[@]}"
        [[ ${lines[1]} == *first* ]]
        [[ ${lines[2]} == *bayes* ]]
        { figures first && figures linear; } | paste - <(sed 1d <<<"$output") >all
        # The evidence of two models, equally likely before: 1 / (1 + exp(difference)).
        awk "$near"'{
            if ($1 != $5 || $2 != $6 || $4 != $12 || !near($7, $3, $8) || !near($9, $2, $10) || $10 > 0.2) exit 1
            log_p[NR] = $1; share[NR] = $11
        } END { d = log_p[1] - log_p[2]
            exit NR != 2 || (share[1] - 1 / (1 + exp(-d))) ^ 2 > 1e-12 || (share[1] + share[2] - 1) ^ 2 > 4e-12 }' all
    done
}

@test "networks of infinitely many units are those of integrals, and wide ones are near" {
    for how in relu ntk; do
        ./bayes evidence --kernel=$how --prior-var=0.8 --noise-var=0.3 --k=2 --samples=20000 bayes.tsv | sed 1d >out
        figures $how | paste - out | tee all
        awk "$near"'{ exit !($1 == $5 && $2 == $6 && near($7, $3, $8) && near($9, $2, $10)) }' all
        # The mean of 1e5 units is off by some 1 % of the matrix, so log P by less than 1.
        ./bayes evidence --kernel=$how --width=100000 --prior-var=0.8 --noise-var=0.3 bayes.tsv | sed 1d >wide
        paste out wide | awk '{ exit !($1 != $10 && ($1 - $10) ^ 2 < 1) }'
    done
}

@test "the line of eight points: known figures, for each row as well" {
    awk 'BEGIN { n = split("0.10 0.45 0.30 0.80 0.95 0.90 1.40 1.35", y, " ")
        print "# one, position, y\n"
        for (i = 0; i < n; i++) printf "1\t%g\t%s\r\n", i / 8, y[i + 1] }' >line.tsv
    run ./bayes evidence --noise-var=0.25 --items - <line.tsv
    echo "$output"
    [ "${#lines[@]}" = 12 ]
    [[ ${lines[1]} =~ ^\ +-5\.320864\ +-7\.617938\ .*\ 1\.000000\ .*\ -$ ]]
    [ "${lines[4]}" = "             0              1      -1.034510      -2.245791" ]
    sed 1,4d <<<"$output" | awk '{ p += $3; l += $4 } END { exit !((p + 5.320864) ^ 2 < 1e-10 && (l + 7.617938) ^ 2 < 1e-10) }'
    ./bayes evidence --seed=2 line.tsv >two
    ./bayes evidence --seed=2 line.tsv | cmp - two
    run -1 cmp -s two <(./bayes evidence --seed=3 line.tsv)
}

@test "the numbers of features and the prior variance: L_k ranks as the evidence does" {
    ./bayes features | tee out
    # 15 features have y: the evidence, the bound and the combination prefer them.
    awk 'NF == 6 && $1 ~ /^[0-9]/ {
            for (c = 2; c <= 6; c++) if (!n || $c > most[c]) { most[c] = $c; at[c] = $1 }
            n++
        }
        END { exit n != 6 || at[2] != 15 || at[3] != 15 || at[4] != 15 || at[6] != 15 }' out
    awk '$1 == "mean" { exit !($2 == 1 && $3 > 0.8 && $4 > 0.9) }' out
    ./bayes variance | tee out
    [ "$(grep -c '^ *[0-9]' out)" = 10 ]
    awk '$1 == "mean" { exit !($2 == 1 && $3 > 0.5 && $4 > 0.9 && $6 > 0.5) }' out
    ./bayes limit | tee out
    awk '$2 == "inf" { n++; if ($3 != 0) exit 1 }
        $2 == 4096 { n++; if ($3 > 0.1 || $3 == 0) exit 1 } END { exit n != 4 }' out
    ./bayes networks | tee out
    awk 'NF == 3 && $1 ~ /^[0-9]/ { n++; loss[n] = $2 } / mean / { rho = $10 + 0 }
        END { exit !(n == 10 && loss[10] < loss[1] / 2 && rho > 0.5) }' out
}

@test "what is wrong is reported in one line, with what was expected" {
    printf '1\t2\n3\t4\n' >few
    refused "cannot open 'none': No such file or directory" evidence none
    refused "verb 'say', expected evidence, features, variance, limit or networks" say
    refused "0 files for evidence, expected 1 to 256" evidence
    refused "1 files for limit, expected none" limit few
    refused "--noise-var is '0', expected a number from 1e-100 to 1e+100" evidence --noise-var=0 few
    refused "--samples is '1', expected a whole number from 2 to 1e+06" evidence --samples=1 few
    refused "--k is '1.5', expected a whole number from 1 to 1e+06" evidence --k=1.5 few
    refused "--kernel is 'rbf', expected linear, relu, ntk or gram" evidence --kernel=rbf few
    refused "--width without a network, expected --kernel=relu or ntk" evidence --width=9 few
    refused "few: 2 rows of 1, expected a Gram matrix and a column y" evidence --kernel=gram few
    printf '1\t2\t0\n3\t1\t0\n' >wrong
    refused "wrong: rows 1 and 2, expected a symmetric matrix" evidence --kernel=gram wrong
    printf '1\t2\t0\n2\t1\t0\n' >wrong
    refused "wrong: rounding or overflow exceeds the noise variance 0.5, expected more noise" \
        evidence --kernel=gram --noise-var=0.5 wrong
    printf '1\t2\n1\t2\t3\n' >wrong
    refused "wrong:2: 3 columns, expected 2: features and y" evidence wrong
    printf '1\t2\n\n1\tnan\n' >wrong
    refused "wrong:3: column 2 is 'nan', expected a number from -1e100 to 1e100" evidence wrong
    printf '1\t2\n1\t\n' >wrong
    refused "wrong:2: column 2 is '', expected a number from -1e100 to 1e100" evidence wrong
    printf '# nothing\n' >wrong
    refused "wrong: no rows, expected at least 1" evidence wrong
    seq 8193 | sed 's/$/\t1/' >wrong
    refused "wrong:8193: row 8193, expected at most 8192" evidence wrong
    head -n 1 few >wrong
    refused "few has 2 rows and wrong 1, expected models of the same y" evidence few wrong
    printf '1\t2\n3\t5\n' >wrong
    refused "few and wrong differ in y of row 2, expected models of the same y" evidence few wrong
    unwritable evidence few
}
