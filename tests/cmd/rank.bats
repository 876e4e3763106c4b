# SPDX-License-Identifier: BSD-3-Clause
# paro-rank: runs ranked by the losses of their logs, at one budget.
# shellcheck disable=SC2016,SC2086

load refuses
load expect

# losses PREFIX BETWEEN L...: a log, steps from 1 on.
losses() { perl -e 'my ($a, $b, @l) = @ARGV; print $a, ++$s, $b, $_, "\n" for @l' "$@"; }
llmc() { losses s: ' trl:' "$@"; }

# scores ARG...: "rank score run" of the rows.
scores() { paro-rank "$@" | awk '$1 ~ /^[0-9-]+$/ && NF > 4 { print $1, $2, $5 }'; }

@test "golden: losses 4 3 2 1 by every method, and the table" {
    llmc 4 3 2 1 > log
    [ "$(scores --method tse log)" = "1 10.000000 log" ]
    [ "$(scores --method tse-e log)" = "1 1.000000 log" ]
    [ "$(scores --method tse-e --last-epochs 2 log)" = "1 3.000000 log" ]
    [ "$(scores --gamma .5 log)" = "1 3.250000 log" ]
    [ "$(scores log)" = "1 9.980015 log" ]
    [ "$(scores --method ema-code log)" = "1 1.111000 log" ]
    [ "$(scores --method last log)" = "1 1.000000 log" ]
    [ "$(scores --method tse --steps-per-epoch 2 log)" = "1 5.000000 log" ]
    [ "$(scores --method last --steps-per-epoch 2 -T 1 log)" = "1 3.000000 log" ]
    [ "$(scores --method tse -T 3 log)" = "1 9.000000 log" ]
    [ "$(scores --method tse -T 0.5 log)" = "1 7.000000 log" ]
    [ "$(scores --method tse -T 50% log)" = "1 7.000000 log" ]
    [ "$(scores --method tse -T 100% log)" = "1 10.000000 log" ]
    llmc 4 3 2 1.5 > b
    llmc 4 nan 2 1 > c
    expect table paro-rank --method sotl log b c
    # A method that forgets the epoch forgets that it was no number.
    [ "$(scores --method tse-e log b c)" = "1-2 1.000000 log
1-2 1.000000 c
3 1.500000 b" ]
}

@test "every format says the same, line by line, with what else stands there" {
    llmc 4.25 3.5 2 1e0 > main
    losses 'step:' '/4 train_loss:' 4.25 3.5 2 1e0 | sed 's/$/ train_time:12ms step_avg:1ms/' > nano
    losses 'step    ' '/4 | train loss ' 4.25 3.5 2 1e0 | sed 's/$/ | norm 1.5/' > console
    losses 'step ' ': train loss ' 4.25 3.5 2 1e0 | sed 's/$/ (took 9 ms)/' > cpu
    losses '{"step":' ',"loss":' 4.25 3.5 2 1e0 | sed 's/$/,"lr":1e-3,"tokens":64}/' > json
    losses '{"lr": 1e-3, "step" : ' ' , "loss": ' 4.25 3.5 2 1e0 | sed 's/$/ }/' > python
    losses 'epoch 1 it ' ' loss=' 4.25 3.5 2 1e0 > other
    { echo 'warning: hot'; head -n 2 main; echo 's:2 tel:9'; echo; tail -n 2 nano
      echo 'step:4/4 val_loss:9'; echo '{"step":4,"eval_loss":9}'; } > mixed
    sed 's/$/\r/' json > crlf
    head -c -1 json > unended
    for f in main nano console cpu json python mixed crlf unended; do
        [ "$(scores --method tse $f)" = "1 10.750000 $f" ] || { paro-rank --method tse $f; return 1; }
        [ "$(scores --method tse - < $f)" = "1 10.750000 -" ]
    done
    [ "$(scores --method tse --regex 'it (\d+) loss=(\S+)' other)" = "1 10.750000 other" ]
    # A step may be padded to a width, as it is in names of files.
    [ "$(sed 's/it /it 0000/' other | scores --method tse --regex 'it (\d+) loss=(\S+)' -)" = "1 10.750000 -" ]
    [ "$(scores --method tse --regex 'loss=(?<loss>\S+)' other)" = "1 10.750000 other" ]
    [ "$(scores --method tse --regex '(?<loss>(?<=loss=)\S+)' other)" = "1 10.750000 other" ]
    [ "$(tac other | scores --method last --regex 'it (?<step>\d+) loss=(?<loss>\S+)' -)" = "1 4.250000 -" ]
    [ "$(sed 's/$/\r/' other | scores --method tse --regex 'loss=([^ ]+)$' -)" = "1 10.750000 -" ]
    # What is still being written: a number may lack digits.
    head -c -1 main > half
    paro-rank --method tse half --json > out
    perl -MJSON::PP -e 'local $/; exit !(decode_json(<>)->{epochs} == 3)' out
    printf '{"step":5,"lo' >> json
    [ "$(scores --method tse json)" = "1 10.750000 json" ]
}

@test "a log that paro-train wrote, and went on with" {
    seq 1 20000 > text
    paro-plan -m "$ROOT/examples/models/llama-tiny.json" -i synth:1x1 --seq 32 > plan.yaml
    paro-train plan.yaml -d text -o run --steps 6 > out
    perl -MJSON::PP -ne '$s += decode_json($_)->{loss} }{ printf "1 %.6f %s\n", $s, "run/log.jsonl"' \
        run/log.jsonl > want
    scores --method tse run/log.jsonl | diff want -
    scores --method tse --regex '"step":(\d+),"loss":([^,]+)' run/log.jsonl | diff want -
}

@test "steps that go back: what was logged behind them is void" {
    { llmc 9 8 7 6 5; printf 's:3 trl:4\ns:4 trl:3\n'; } > log
    [ "$(scores --method tse log)" = "1 24.000000 log" ]
    paro-rank log | grep -q 'log  (rewound 1 time)$'
    # In the middle of an epoch: its beginning stays.
    [ "$(scores --method tse --steps-per-epoch 2 log)" = "1 12.000000 log" ]
    # Twice the same step, as two ranks log it; all of it again.
    llmc 4 3 2 1 | sed p > twice
    [ "$(scores --method tse twice)" = "1 10.000000 twice" ]
    { llmc 9 9 9; llmc 2 1; } > again
    [ "$(scores --method tse again)" = "1 3.000000 again" ]
    printf 's:5 trl:nan\ns:3 trl:1\n' >> log
    [ "$(scores --method tse log)" = "1 18.000000 log" ]
    # Torn by a kill, and appended to.
    { printf '{"step":1,"loss":3}\n{"step":2,"lo{"step":2,"loss":2}\n{"step":3,"loss":1}\n'; } > torn
    paro-rank --method tse torn > out
    grep -q '^1  *5.000000 .*  torn  (1 broken line)$' out
}

# Epochs are given up from some 33000 on; a step that goes back behind what is kept has a file
# read again, and of a pipe all is kept.
@test "long logs: in little memory, and steps that go back anywhere" {
    seq 300000 | awk '{ printf "s:%d trl:%d.%d\n", $1, 1 + 10000 / $1, $1 % 7 }' > long
    { cat long; echo 's:299990 trl:3'; } > near
    { cat long; echo 's:200000 trl:3'; } > far
    { cat long; tail -n +200000 long; } > resumed
    { cat long; llmc {90..50}; } > anew
    cp long base
    for f in long near far resumed anew; do
        for m in tse tse-ema ema-code sotl last tse-e 'tse-e --last-epochs 50000' 'tse -T 2' 'tse --steps-per-epoch 10' 'last -T 2'; do
            diff <(paro-rank --json --method $m - < $f) <(cat $f | paro-rank --json --method $m -)
        done
        diff <(paro-rank --json --stop-below 1 $f base; echo $?) <(paro-rank --json --stop-below 1 $f base --svg=p.$f; echo $?)
    done
    diff <(scores --method tse resumed | sed s/resumed/long/) <(scores --method tse long)
    # From where standard input is, the second time too.
    diff <({ read -r _; scores --method tse -; } < far) <(tail -n +2 far | scores --method tse -)
    # All that a pipe says, in less memory than that takes.
    [ -n "$SAN" ] || (ulimit -v 20000
        rc=0
        seq 3000000 | sed 's/.*/s:& trl:1/' | paro-rank - > out 2> said || rc=$?
        [ "$rc" = 2 ] && has_words "$(cat said)" "log '-' times 8 bytes losses Cannot allocate memory")
    # 24 MB of losses.
    seq 3000000 | sed 's/.*/s:& trl:1/' > long
    ([ -n "$SAN" ] || ulimit -v 24000; scores --method tse long -T 2000000 | grep -qx '1 2000000.000000 long'
        scores --method tse long | grep -qx '1 3000000.000000 long')
}

@test "steps that are missing take the next, from the step that a log counts from" {
    for s in 10 20 30 40; do echo "s:$s trl:$((50 - s))"; done > tenth
    [ "$(scores --method tse tenth)" = "1 1000.000000 tenth" ]
    [ "$(scores --method tse --steps-per-epoch 10 tenth)" = "1 100.000000 tenth" ]
    [ "$(scores --method tse --steps-per-epoch 20 tenth)" = "1 50.000000 tenth" ] # 35 and 15
    printf 's:0 trl:4\ns:1 trl:3\ns:2 trl:2\ns:3 trl:1\n' > zero
    [ "$(scores --method tse --steps-per-epoch 2 zero)" = "1 5.000000 zero" ]
    # A far step costs no memory, and no time.
    printf 's:1 trl:4\ns:9007199254740992 trl:3\n' > far
    ([ -n "$SAN" ] || ulimit -v 100000; paro-rank --method tse-e far | grep -q '9007199254740992  far$')
}

@test "noise: what is closer than twice it shares a rank" {
    llmc 1 > a; llmc 1.25 > b; llmc 3 > d
    paro-rank --method tse --noise .126 a b d > out
    head -n 1 out |
        grep -qxF 'tse, 1 epoch of 1 step; lower is better; noise 0.126, scores closer than 0.252 share a rank'
    grep -q '^1-2 .* b  (within noise)$' out
}

@test "runs that are unlike are refused, and ranked by force" {
    llmc 4 3 2 > a; llmc 4 3 > b
    refuses 2 "'b' 2 epochs expected 3 -T 100% --force" paro-rank a b
    refuses 2 "'b' 2 epochs expected 3 -T 100% --force" paro-rank -T 3 a b
    [ "$(scores --method tse -T 100% a b)" = "1-2 7.000000 a
1-2 7.000000 b" ]
    paro-rank --method tse --force a b > out
    grep -q "^tse, each run's own epochs of 1 step" out
    grep -q '^1  *7.000000 .* 2  b  (2 epochs)$' out
    grep -q '^2  *9.000000 .* 3  a  (3 epochs)$' out
    refuses 2 "'a' step 3 expected epoch 4 --steps-per-epoch" paro-rank --steps-per-epoch 4 a --force
    tail -n 2 a > c
    refuses 2 "'a' step 1 'c' 2 expected --force" paro-rank a c
    paro-rank --force a c | grep -q 'c  (begins with step 2)$'
}

@test "finals: correlations of each budget, by hand" {
    llmc 4 3 2 1 > a; llmc 5 3 1 0.5 > b; llmc 3 3 3 3 > c
    printf 'run\tloss\na\t2\n# no run\nb, 1\r\n"c" 3\nx 9\n' > finals
    # Sums 4 5 3, 7 8 6, 9 9 9, 10 9.5 12 beside 2 1 3.
    expect finals paro-rank --method tse a b c --finals finals
    paro-rank --method tse a b c --finals finals --json > out
    perl -MJSON::PP -e 'local $/; my $f = decode_json(<>)->{finals};
        exit !(@$f == 4 && $f->[0]{spearman} == -1 && !defined $f->[2]{kendall} && $f->[3]{epochs} == 4)' out
    printf 'a 2\nb 1\n' > two
    refuses 2 "two: 'c' expected" paro-rank a b c --finals two
    printf 'a 2\nb 1\nc x\n' > two
    refuses 2 "two:3: 'c' 'x' number -1e+300 1e+300" paro-rank a b c --finals two
    printf 'a 2\nb 1\na 3\n' > two
    refuses 2 "two:3: 'a' once" paro-rank a b --finals two
    echo a > two
    refuses 2 "two:1: expected name value" paro-rank a b --finals two
}

# judged STATUS WORDS ARG...: the last line has the words.
judged() {
    local rc=0
    paro-rank "${@:3}" > out || rc=$?
    if [ "$rc" = "$1" ] && has_words "$(tail -n 1 out)" "$2"; then return; fi
    echo "status $rc of ${*:3}"
    cat out
    return 1
}

@test "stop-below: is the first log out of the race" {
    llmc 4 3 > a; llmc 4 2 1 > b; llmc 4 3.5 3 > c; llmc 4 1 > d; llmc 4 > e; llmc 4 nan > f
    judged 0 'a: continue 3 of 4, expected 3' --stop-below 3 a b c d
    judged 1 'a: stop 3 of 4, expected 2' --stop-below 2 a b c d
    judged 1 'a: stop 3 of 4, expected 2' --stop-below 0.5 a b c d
    judged 0 'a: continue 3 of 4, expected 3' --stop-below 75% a b c d
    judged 1 'a: stop 3 of 4, expected 1' --stop-below .1 a b c d
    # Not told from the best.
    judged 0 'a: continue 1 of 4, expected 1' --stop-below 1 --noise 1.1 a b c d
    # Who has not come as far is not in the race.
    judged 1 'a: stop 2 of 2, expected 1' --stop-below 1 a b e
    grep -q '^-  *-  *-  *-  e  (not compared: 1 epoch)$' out
    judged 0 'a: continue 1 of 1, expected 1' --stop-below 1 a e
    judged 1 'f: stop score not finite' --stop-below 5 f e
    judged 0 'b: continue 1 of 2, expected 1' --stop-below 1 b c a d
    judged 1 'c: stop 4 of 5, expected 1' --stop-below 1 -T 2 c b a d f
    ends 1 paro-rank --stop-below 1 a b --json > out
    perl -MJSON::PP -e 'local $/; my $d = decode_json(<>); exit !($d->{stop} && $d->{stop_below} == 1)' out
    refuses 2 "'a' 2 epochs expected 3 -T 100% --force" paro-rank --stop-below 1 -T 3 a b
}

# example FIRST PAGE: from the line of EXAMPLES that has FIRST up to its block's end, as text.
example() {
    awk -v first="$1" '/^\.Sh EXAMPLES/ { on = 1 }
        on && index($0, first) { show = 1 }
        /^\.Ed/ { show = 0 }
        show' "$2" | sed 's/\\e/\\/g; s/\\(aq/'"'"'/g'
}

@test "stop-below: the manual page shows what its example prints" {
    local page=$ROOT/man/paro-rank.1
    example '$ for r in 1 2 3' "$page" | sed -n '1,2{s/^\$ //;p}' > logs
    bash -eu logs
    example '$ status=0' "$page" > shown
    sed -n 's/^\$ //p' shown > run
    bash -eu run > said
    grep -v '^\$ ' shown | diff - said
    [ "$(tail -n 1 said)" = 1 ]
}

@test "JSON: one document, what is no number is null" {
    llmc 4 3 > a; llmc 4 nan > b
    paro-rank --json a b > out
    perl -MJSON::PP -e 'local $/; my $d = decode_json(<>); my ($a, $b) = @{$d->{runs}};
        exit !($d->{schema} eq "paro.rank/1" && $d->{method} eq "tse-ema" && $d->{gamma} == 0.999 &&
            $d->{steps_per_epoch} == 1 && $d->{epochs} == 2 && $a->{run} eq "a" && $a->{rank} == 1 &&
            abs($a->{score} - 6.996) < 1e-12 && $a->{last_loss} == 3 && $a->{log_last_step} == 2 &&
            $b->{rank} == 2 && !defined $b->{score} && $b->{no_number_from_step} == 2)' out
    head -n 1 a > c
    paro-rank --json --force a c | perl -MJSON::PP -e 'local $/; exit defined decode_json(<>)->{epochs}'
}

@test "a picture: a curve each, the names by rank" {
    for r in 1 2 3; do awk -v r=$r 'BEGIN { for (s = 1; s < 2000; s++) printf "s:%d trl:%f\n", s, r + 9 / s }' > run$r; done
    paro-rank run3 run1 run2 --svg=a.svg > out
    xmllint --noout --nonet a.svg
    grep -o '>[^<>]*</text>' a.svg | sed 's,^>,,; s,</text>,,' > words
    grep -n '^[123]\. run' words | sed 's/^[0-9]*://; s/:.*//' | tr '\n' ' ' > order
    [ "$(cat order)" = "1. run1 2. run2 3. run3 " ]
    [ "$(grep -c '<polyline' a.svg)" = 3 ]
    [ "$(stat -c %s a.svg)" -lt 60000 ]
    refuses 2 "'a.svg' exists --force" paro-rank run1 --svg=a.svg
    paro-rank run1 --svg=a.svg --force > out
    refuses 2 "--svg './run1' log" paro-rank run2 run1 --svg=./run1 --force
    # One point is a dot; nothing but what is no number is a picture too; and many are pale.
    llmc 4 > one; llmc nan > none
    paro-rank one none --svg=b.svg > out
    xmllint --noout --nonet b.svg
    for r in $(seq 12); do llmc 4 3 "$r" > r"$r"; done
    ! paro-rank r12 r? r1[01] --stop-below 3 --svg=c.svg > out || return 1
    grep -q 'pale: 5 more runs' c.svg
    grep -q '>12\. r12: ' c.svg
    [ -z "$(find . -name '*paro-tmp*')" ]
}

@test "what is no log" {
    llmc 4 3 > a
    perl -e 'print "x" x 1200000, "\n"' > long
    { cat a; cat long a; } > late
    refuses 2 'late:3: line 1048576 bytes' paro-rank late
    perl -e 'print "x" x 1000000, "\ns:1 trl:3\n"' > long
    [ "$(scores long)" = "1 3.000000 long" ]
    perl -e 'print "a" x 40, "1y\n"' > b
    refuses 2 'b:1: --regex match limit' paro-rank b --regex '^(?:a|aa|aaa)+(\d)$'
    : > empty
    refuses 2 "'empty' empty" paro-rank a empty
    refuses 2 "open 'nowhere' No such file" paro-rank a nowhere
    refuses 2 "'a' twice" paro-rank a a
}

@test "the mark that some editors put before UTF-8 is no part of the first line" {
    llmc 4 3 > log
    losses '{"step":' ',"loss":' 4 3 | sed 's/$/}/' > json
    head -n 1 json | head -c -1 > unended
    for f in log json unended; do
        { printf '\357\273\277'; cat $f; } > marked
        diff <(scores --method tse - < $f) <(scores --method tse - < marked)
        # One byte at a time, as a pipe may give it.
        diff <(scores --method tse - < $f) <(perl -e '$| = 1; local $/ = \1; print while <>' marked | scores --method tse -)
    done
    paro-rank log - < json --finals <(printf '\357\273\277log 1\n- 2\n') | grep -q SPEARMAN
    perl -pe 's/(.)/$1\0/g; s/\n/\n\0/; print "\xff\xfe" if $. == 1' log > wide
    refuses 2 'wide:1: UTF-16 UTF-8 iconv' paro-rank wide
    perl -pe 's/(.)/\0$1/g; s/\n/\0\n/; print "\xfe\xff" if $. == 1' log > wide
    refuses 2 'wide:1: UTF-16 UTF-8 iconv' paro-rank wide
}

@test "an option that the method does not use; files that are read and written at once" {
    llmc 4 3 > a
    for m in tse tse-ema ema-code sotl last; do
        refuses 2 "--last-epochs $m --method tse-e" paro-rank --method $m --last-epochs 2 a
    done
    for m in tse tse-e ema-code sotl last; do
        refuses 2 "--gamma $m --method tse-ema" paro-rank --gamma .5 --method $m a
    done
    printf 'a 1\nb 2\n' > finals
    cp a b
    refuses 2 "--svg 'finals' --finals another" paro-rank a b --finals finals --svg=finals --force
}

@test "finals: a long file beside many logs" {
    local r
    for r in $(seq 300); do llmc "$r" > r"$r"; done
    # What is not among the logs is passed over; each of 100000 lines against each log is too much.
    { seq -f 'x%.0f 1' 100000; seq -f 'r%.0f' 300 | awk '{ print $1, NR }'; } > finals
    paro-rank r? r?? r??? --finals finals | tail -n 1 | grep -qE '^1 +1 +1\.0000 +1\.0000$'
    echo 'r7 3' >> finals
    refuses 2 "finals:100301: 'r7' once" paro-rank r? r?? r??? --finals finals
}

@test "several logs at once are what they are one by one" {
    for r in $(seq 20); do
        awk -v r="$r" 'BEGIN { srand(r); for (s = 1; s <= 5000; s++) printf "s:%d trl:%.4f\n", s, 3 + rand() }' > r"$r"
    done
    paro-rank r? r?? --json > all
    for r in $(seq 20); do
        paro-rank r"$r" --json | grep -E '"(score|run)"' >> each
    done
    grep -E '"(score|run)"' all | paste - - | sort > a
    paste - - < each | sort | diff a -
    paro-rank --json r?? r? | grep -vE '"nothing"' | cmp - all
}
