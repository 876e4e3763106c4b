# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# shellcheck disable=SC2016 # the dollar is for Perl, TEXT is of train.bash
# paro-train: the line that is written over itself, the share of peak, runs that learn nothing.

load train

setup_file() { runs_begin; }

LINE='step [0-9]+/[0-9]+  loss [0-9]+\.[0-9]{4}  [0-9.]+ k? ?tokens/s  [0-9]+\.[0-9] GFLOP/s(, [0-9]+ % of peak)?  ~[0-9]+:[0-9]{2}:[0-9]{2} left(  saving a checkpoint)?'

# status_lines FILE: the status lines, written over themselves or not, without blanks at their ends.
status_lines() { tr '\r' '\n' < "$1" | sed 's/ *$//' | grep '^step '; }

@test "always: a line twice a second at most, whole ones; the steps' lines are all there" {
    SECONDS=0
    paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 300 --save-every 100 --progress=always > out 2> said
    local wall=$((SECONDS + 1))
    [ "$(wc -l < out)" = 301 ]
    status_lines said > lines
    cat lines
    [ "$(wc -l < lines)" -ge 1 ]
    [ "$(wc -l < lines)" -le $((2 * wall + 1)) ]
    run ! grep -vxE "$LINE" lines
    diff lines <(warnings said) # no terminal: nothing is written over
    # Nobody looks on.
    paro-train "$G/one.yaml" -d "$TEXT" -o auto --steps 3 > out 2> said
    no_warning said
    paro-train "$G/one.yaml" -d "$TEXT" -o never --steps 3 --progress=never > out 2> said
    no_warning said
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o two --steps 3 --progress always > out 2> said
    [ "$(wc -l < out)" = 4 ]
    status_lines said | grep -qE '^step 1/3 '
}

@test "a terminal: fewer lines than steps, the log has all" {
    command -v script > /dev/null || skip "no script(1) here"
    TERM=xterm script -qec "stty cols 60; paro-train '$G/one.yaml' -d '$TEXT' -o run --steps 300" screen > said < /dev/null
    [ "$(wc -l < run/log.jsonl)" = 300 ]
    grep -qE 'step [0-9]+/300  loss' screen
    grep -qE $'\r {20,}\r' screen # it is cleared
    # What is wider than the terminal would not be written over.
    if tr '\r' '\n' < screen | grep "^step " | grep -E ".{60}"; then return 1; fi
    [ "$(grep -cE '^(.*\r)? +[0-9]+ +[0-9.]+ +[0-9.]+ ' screen)" -lt 100 ]
    TERM=dumb script -qec "paro-train '$G/one.yaml' -d '$TEXT' -o dumb --steps 20" screen > said < /dev/null
    if grep -q 'step [0-9]*/20' screen; then return 1; fi
    TERM=xterm script -qec "paro-train '$G/one.yaml' -d '$TEXT' -o never --steps 20 --progress=never" screen > said < /dev/null
    if grep -q 'step [0-9]*/20' screen; then return 1; fi
    [ "$(grep -cE '^ +[0-9]+ +[0-9.]+ +[0-9.]+ ' screen)" = 20 ]
}

@test "share of peak: of what was given, and only then" {
    paro-train "$G/one.yaml" -d "$TEXT" -o run --steps 5 --peak 80e9 > out
    perl -MJSON::PP -ne '$d = decode_json($_); $n++;
        $want = $d->{gflops} * $d->{compute_s} / $d->{step_s} / 80;
        die "mfu $d->{mfu}, not $want" if abs($d->{mfu} / $want - 1) > 1e-9;
        END { die "$n steps" if $n != 5 }' run/log.jsonl
    if grep -q mfu "$G/ended/log.jsonl"; then return 1; fi
    paro-train "$G/one.yaml" -d "$TEXT" -o run --force --steps 5 --peak 80e9 --progress=always > out 2> said
    status_lines said | grep -q ' % of peak  ~'
}

@test "a run that skips and skips ends, and says since when" {
    local rc=0 first t=(--steps 200 --lr 1e3 --min-lr 1e3 --clip 0)
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o run "${t[@]}" --max-skipped 5 > out 2> said || rc=$?
    [ $rc = 2 ]
    # The first of the last five lines, which were skipped; the one before them was not.
    [ "$(tail -n 5 run/log.jsonl | grep -c '"skipped":true')" = 5 ]
    first=$(tail -n 5 run/log.jsonl | head -n 1 | grep -oE '^\{"step":[0-9]+' | grep -oE '[0-9]+')
    has_words "$(grep '^paro' said)" "gradient finite step $first: 5 skipped --max-skipped"
    [ "$first" = 1 ] || tail -n 6 run/log.jsonl | head -n 1 | grep -q '"skipped":false'
    # Where none is skipped, none is too many.
    paro-train "$G/one.yaml" -d "$TEXT" -o whole --steps 9 --max-skipped 1 > out
    # By the default a run has a hundred to recover.
    ends 2 paro-train "$G/one.yaml" -d "$TEXT" -o long "${t[@]}" --progress=always > out 2> said
    has_words "$(tail -n 1 said)" 'paro-train: gradient finite step : 100 skipped --max-skipped'
}
