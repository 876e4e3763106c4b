# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016 # the dollar is for Perl
# paro-train --svg: a picture of runs that any viewer reads, of what their logs say.

load refuses

# steps COUNT LOSS MORE: a log; LOSS is an expression of the step $s, or null.
steps() {
    perl -e 'my ($n, $loss, $more) = @ARGV;
        for our $s (1 .. $n) {
            my $l = eval($loss) // "null";
            print qq({"step":$s,"loss":$l,"grad_norm":1,"lr":1e-3,"tokens":64,"step_s":0.5,"tokens_per_s":128,),
                qq("compute_s":0.25,"exposed_comm_s":0.125,"idle_s":0.125,"slow_bytes":9,"fast_bytes":0,),
                qq("state_bytes":99,"skipped":), $l eq "null" ? "true" : "false", "$more}\n" }' "$@"
}

# texts FILE: the words of a picture, one a line.
texts() { xmllint --noout --nonet "$1" && grep -o '>[^<>]*</text>' "$1" | sed 's,^>,,; s,</text>,,'; }

@test "a run that was trained: three panels, its folder's name" {
    seq 1 20000 > text
    paro-plan -m "$ROOT/examples/models/llama-tiny.json" -i synth:1x1 --seq 32 > plan.yaml
    mkdir runs
    paro-train plan.yaml -d text -o runs/first --steps 3 > out
    paro-train plan.yaml -d text -o runs/second --steps 1 --log second.jsonl > out
    paro-train --svg runs/first second.jsonl > out 2> said
    [ ! -s said ]
    texts out > words
    for t in loss tokens/s 'exposed communication, of the step' step 'lines: every step' \
        'first, 3 steps' 'second.jsonl, 1 step'; do
        grep -qxF "$t" words || { echo "no '$t'"; cat words; return 1; }
    done
    # By whatever name: the folder, the file, the file in its folder.
    paro-train --svg runs/first > a
    paro-train --svg runs/first/log.jsonl | cmp - a
    (cd runs/first && paro-train --svg log.jsonl) | cmp - a
    grep -q '<title>Training: first</title>' a
    # The line of a step that is being written is not there yet.
    printf '{"step":4,"lo' >> runs/first/log.jsonl
    paro-train --svg runs/first | cmp - a
}

@test "validation, skipped steps, gaps, a loss that explodes" {
    steps 400 '$s >= 100 && $s < 120 ? undef : 5 - $s / 100' > a
    paro-train --svg a > out
    texts out > words
    grep -qxF 'a, 400 steps, 20 skipped' words
    grep -qxF 'skipped: the gradient was not finite' words
    grep -qxF 'lines: the mean of the 9 steps around each; pale: every step' words
    [ "$(grep -c '<polyline' out)" = 8 ] # pale and mean: the loss in two pieces, the others whole
    if grep -qiE 'validation|nan|logarithmic' out; then return 1; fi
    steps 50 '5 - $s / 100' ',"eval_loss":4.5' > b
    paro-train --svg b > out
    texts out | grep -qx 'validation loss'
    steps 50 '$s == 7 ? 9e9 : 5' > c
    paro-train --svg c b > out
    texts out | grep -qx 'loss, on a logarithmic axis'
    steps 5 undef > d # nothing but skipped steps: there is no loss to draw
    paro-train --svg d > out
    texts out | grep -qx 'nothing to show'
}

@test "many steps are few points, and none of the extremes is lost" {
    steps 30000 '$s == 12345 ? 47 : 3 + sin($s)' > a
    steps 30000 '3 + sin($s)' > b
    for log in a b; do
        paro-train --svg $log > $log.svg
        texts $log.svg | grep -qxF "$log, 30000 steps"
        [ "$(stat -c %s $log.svg)" -lt 300000 ]
    done
    # One step of 30000: its value makes the axis, and a line goes there.
    texts a.svg | grep -qx 40
    if texts b.svg | grep -qx 40; then return 1; fi
    grep -oE '[ "][0-9.]+,[0-9.]+' a.svg | awk -F, '$2 < 200 { n++ } END { exit !(n >= 1 && n < 20) }'
}

@test "what is no log, and words that do not belong together" {
    mkdir empty
    steps 3 5 > a
    { cat a; echo '{"step":4,'; } > half
    { cat a; steps 2 5; } > back
    sed 's/"loss":5/"loss":"5"/' a > text
    sed 's/"tokens_per_s":128,//' a > less
    refuses 2 "'nowhere' No such" paro-train --svg nowhere
    refuses 2 "'empty' no log.jsonl expected run" paro-train --svg empty
    refuses 2 "'/dev/null' no step" paro-train --svg /dev/null
    refuses 2 "half:4: JSON" paro-train --svg half a
    sed '2s/}$/,"loss":1}/' a > doubled
    refuses 2 "doubled:2: 'loss' twice" paro-train --svg doubled
    sed '2s/}$/,"loss":null}/' a > doubled
    refuses 2 "doubled:2: 'loss' twice" paro-train --svg doubled
    refuses 2 "back:4: 'step' 1 step 3 expected later" paro-train --svg a back
    refuses 2 "text:1: 'loss' '5' number" paro-train --svg text
    refuses 2 "less:1: 'tokens_per_s' missing number" paro-train --svg less
    refuses 2 "expected --svg LOG" paro-train --svg
    refuses 2 "--output --svg" paro-train --svg a -o run
    refuses 2 "--lr --svg" paro-train --svg a --lr 1
    refuses 2 "'a' at most 8" paro-train --svg a a a a a a a a a
    paro-train --svg a a a a a a a a > out
    texts out | grep -qx 'a, 3 steps'
    [ -w /dev/full ] || skip "no /dev/full here"
    refuses 2 "standard output: No space" bash -c 'paro-train --svg a > /dev/full'
}
