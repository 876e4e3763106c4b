# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Checkpoints that are written while training goes on; loss on what is kept from training.
# shellcheck disable=SC2016

load train

setup_file() { runs_begin; }

# fails WORDS COMMAND...: of one rank or several: status 2, and one line of paro-train with WORDS.
fails() {
    run -2 --separate-stderr "${@:2}"
    warnings <(echo "$stderr") > said
    [ "$(grep -c '^paro-train: ' said)" = 1 ]
    has_words "$(cat said)" "paro-train: $1"
}

@test "beside training or not: the same checkpoints, bit for bit" {
    for a in 0 1; do
        mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o run$a --steps 7 --save-every 2 \
            --keep 9 --async-save $a > out
        [ "$(cd run$a && echo step-*)" = \
            "step-00000002 step-00000004 step-00000006 step-00000007" ]
    done
    for s in 2 4 6 7; do
        diff -r run0/step-0000000$s run1/step-0000000$s
        paro-shard verify run1/step-0000000$s > /dev/null
    done
    run ! ls -d run?/.step-* run?/*/shard-*.json 2> /dev/null
}

@test "a run that goes on from one written beside it is the same run" {
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o a --steps 6 --save-every 3 --keep 9 > out
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o b --steps 6 --resume a/step-00000003 > out
    bits a/log.jsonl | tail -n 3 > want
    bits b/log.jsonl | cmp - want
}

# What several ranks keep one of them reads: its error is everyone's, and nobody waits for it.
@test "a checkpoint that is damaged, or on one rank gone or another one: one line, no folder" {
    refused() { # WORDS COMMAND...
        fails "$1" timeout 60 mpirun -np 4 "$2" -o new "${@:3}"
        [ ! -e new ]
    }
    cp -r "$G/ended/latest/" bad
    bytes=$(stat -c %s bad/shard-00000.safetensors)
    printf x | dd of=bad/shard-00000.safetensors bs=1 seek=$((bytes - 1)) conv=notrunc 2> dd.log
    printf '#!/bin/sh\nexec paro-train "$@$OMPI_COMM_WORLD_RANK"\n' > each
    chmod +x each
    for r in 0 1 2; do ln -s "$G/ended/latest" here$r; done
    for r in 0 1 2; do ln -s "$G/ended/latest" other$r; done
    ln -s "$G/ended/step-00000002" other3
    for s in IIG NNN; do
        plan four synth:2x2 --seq 32 --strategy $s
        refused 'rank bad/shard-00000.safetensors: damaged' paro-train four.yaml -d "$TEXT" --resume bad
    done
    refused "rank 3 ( 'here3'" ./each four.yaml -d "$TEXT" --init here
    refused "rank 3 ( 'other3' rank 0" ./each four.yaml -d "$TEXT" --init other
    refused 'rank 3 ( step 2, 4 rank 0' ./each four.yaml -d "$TEXT" --resume other
}

@test "SAVE asks for one now" {
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o a --steps 99999 > out 2> said 3>&- &
    soon test -s a/log.jsonl
    touch a/SAVE
    soon test -e a/latest
    [ ! -e a/SAVE ]
    paro-shard verify a/latest > /dev/null
    touch a/STOP
    ends 3 wait $!
}

@test "save_s stands behind a step that was saved, and nowhere else" {
    paro-train "$G/one.yaml" -d "$TEXT" -o a --steps 5 --save-every 2 > out
    [ "$(grep '"save_s"' a/log.jsonl | grep -o '"step":[0-9]*' | tr '\n' ' ')" = '"step":3 "step":5 ' ]
}

@test "a disk that fills up while training goes on: one line, the last checkpoint is whole" {
    paro-train "$G/one.yaml" -d "$TEXT" -o a --steps 2 > out
    was=$(readlink a/latest)
    # Each file up to half of a shard: the next checkpoint cannot be written.
    half=$(($(stat -c %s a/latest/shard-00000.safetensors) / 2048))
    fails "shard-00000.safetensors: File too large" bash -c \
        "ulimit -f $half; paro-train \"\$G/one.yaml\" -d \"\$TEXT\" -o a --resume=auto --steps 50 --save-every 2"
    [ "$(readlink a/latest)" = "$was" ]
    paro-shard verify a/latest > /dev/null
    paro-train "$G/one.yaml" -d "$TEXT" -o a --resume=auto --steps 4 > out
    run ! ls -d a/.step-* 2> /dev/null
}

@test "--eval-every: the same loss by any number of ranks, never trained on" {
    paro-plan -m "$MODELS/llama-tiny.json" -i synth:1x1 --seq 32 --accum 2 > one.yaml
    evals() { sed -n 's/.*"eval_loss":\([0-9.]*\),.*/\1/p' "$1/log.jsonl"; }
    paro-train one.yaml -d "$TEXT" -o a --steps 4 --eval-every 2 --eval-split 0.02 --exact > out
    mpirun -np 2 paro-train "$G/two.yaml" -d "$TEXT" -o b --steps 4 --eval-every 2 \
        --eval-split 0.02 --eval-batches 0 --exact > out
    [ "$(evals a | wc -l)" = 2 ]
    # The lines of those steps end with it.
    [ "$(awk '/evaluation/ { print $1 }' out | tr '\n' ' ')" = '2 4 ' ]
    [ "$(sed -n 's/.*  evaluation //p' out)" = "$(evals b | xargs printf '%.5f\n')" ]
    # accum 2 on two ranks is twice the batch: other steps.  The same ones:
    paro-plan -m "$MODELS/llama-tiny.json" -i synth:1x1 --seq 32 --accum 4 > four.yaml
    paro-train four.yaml -d "$TEXT" -o c --steps 4 --eval-every 2 --eval-split 0.02 \
        --eval-batches 0 --exact > out
    paste <(evals b) <(evals c) | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-9) exit 1 }'
}

@test "--eval-data: another file, and all of the data trains" {
    head -c 3000 "$TEXT" > other
    paro-train "$G/one.yaml" -d "$TEXT" -o plain --steps 2 > out
    paro-train "$G/one.yaml" -d "$TEXT" -o a --steps 2 --eval-every 1 --eval-batches 0 --eval-data other > out
    # The steps are those of a run without an evaluation.
    diff <(bits plain/log.jsonl) <(bits a/log.jsonl)
    [ "$(grep -c '"eval_loss"' a/log.jsonl)" = 2 ]
    # The same loss where the file is the part that is reserved: 3000 bytes at the end of a file.
    cat "$TEXT" other > both
    share=$(awk "BEGIN { printf \"%.12f\", 3000.5 / $(stat -c %s both) }")
    paro-train "$G/one.yaml" -d both -o b --steps 1 --lr 0 --min-lr 0 --eval-every 1 --eval-batches 0 --eval-split "$share" > out
    paro-train "$G/one.yaml" -d "$TEXT" -o c --steps 1 --lr 0 --min-lr 0 --eval-every 1 --eval-batches 0 --eval-data other > out
    [ "$(grep -o '"eval_loss":[0-9.]*' b/log.jsonl)" = "$(grep -o '"eval_loss":[0-9.]*' c/log.jsonl)" ]
    # A resume goes on with another one.
    paro-train "$G/one.yaml" -d "$TEXT" -o a --steps 3 --resume --eval-data "$TEXT" > out
    fails '--eval-data --eval-every' paro-train "$G/one.yaml" -d "$TEXT" -o d --steps 1 --eval-data other
    head -c 20 "$TEXT" > little
    fails "'little' sequence of 32" paro-train "$G/one.yaml" -d "$TEXT" -o d --steps 1 --eval-every 1 --eval-data little
    [ ! -e d ]
}

@test "nothing to evaluate on is an error before the first step" {
    head -c 300 "$TEXT" > little
    fails 'sequence of 32 tokens' paro-train "$G/one.yaml" -d little -o a --eval-every 1 --steps 1
    [ ! -e a ]
}

@test "data that differs from rank to rank is an error before the first step" {
    head -c 5000 "$TEXT" > a0
    head -c 5000 "$TEXT" | tr 1 2 > a1 # as many
    printf '#!/bin/sh\nexec paro-train "$@" -d a$OMPI_COMM_WORLD_RANK\n' > each
    chmod +x each
    fails 'rank 1 data windows (xxh3 expected rank 0' \
        mpirun -np 2 ./each "$G/two.yaml" -o run --steps 2 --eval-every 1
    [ ! -e run ]
}
