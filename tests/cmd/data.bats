#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2153 # the dollar is for Perl, TEXT is of train.bash
# paro-train's data: files of other tools, several of them, tokenizers, what is refused.

bats_require_minimum_version 1.5.0

setup_file() {
    load train.bash
    runs_begin
    sed 's/"vocab_size": 256/"vocab_size": 1000/' "$MODELS/llama-tiny.json" > large.json
    paro-plan -m large.json -i synth:1x1 --seq 32 > large.yaml
    # The text's bytes as the tokens of a file of each kind.
    perl -0777 -ne 'print pack "V3 x1012 v*", 20240520, 1, length, unpack "C*"' text > llmc
    perl -0777 -ne 'print pack "V3 x1012 V*", 20240801, 7, length, unpack "C*"' text > llmc32
    perl -0777 -ne 'print pack "v*", unpack "C*"' text > nano.bin
    perl -0777 -ne 'print pack "V*", unpack "C*"' text > mega.bin
    perl -e '$n = -s "text"; @l = (1000, 0, $n - 1000);
        print "MMIDIDX\0\0", pack "Q< C Q<2 V3 Q<3 Q<3", 1, 4, 3, 3, @l, 0, 4000, 4000, 0, 2, 3' > mega.idx
}

setup() {
    load train.bash
    runs_setup
    TOKENIZER=$BATS_TEST_DIRNAME/../data/bpe
}

# refuses TEXT ARGUMENT...: of paro-train: status 2, one line with TEXT, nothing else, no "new".
refuses() {
    local rc=0
    timeout 60 paro-train "${@:2}" > out 2> said < /dev/null || rc=$?
    if [ "$rc" != 2 ] || [ -s out ] || [ -e new ] || [ "$(wc -l < said)" != 1 ] ||
        ! grep -qF -- "paro-train: $1" said; then
        echo "status $rc:"
        cat said out
        return 1
    fi
}

# The token of " you", of the small vocabulary.
you() { grep -oE '"Ġyou":[0-9]+' "$TOKENIZER/encoder.json" | sed 's/.*://'; }

# What the order of the data makes of a run, without its times.
losses() { grep -oE '"step":[0-9]+,"loss":[^,]*,"grad_norm":[^,]*,' "$1/log.jsonl"; }

@test "the same tokens are the same run, whichever file they come in" {
    local file
    paro-train "$G/one.yaml" -d "$TEXT" -o text --steps 3 > out
    for file in llmc llmc32 nano.bin mega.bin mega.idx mega; do
        paro-train "$G/one.yaml" -d "$G/$file" -o "run-$file" --steps 3 > out
        diff <(losses text) <(losses "run-$file")
    done
}

@test "several files: one rank and two, and a resume, see the same samples" {
    local data=(-d "$TEXT" -d "$G/nano.bin" -d "$G/mega" --data-weights "1,2.5,1" --exact --steps 4)
    plan whole synth:1x1 --seq 32 --accum 4
    plan half synth:2x1 --seq 32 --accum 2 --strategy GGG
    paro-train whole.yaml "${data[@]}" -o whole --save-every 2 > out
    mpirun -np 2 paro-train half.yaml "${data[@]}" -o half > out
    diff <(grep -o '"state_hash":.*' whole/log.jsonl) <(grep -o '"state_hash":.*' half/log.jsonl)
    cp whole/log.jsonl log
    paro-train whole.yaml "${data[@]}" -o whole --resume whole/step-00000002 > out
    diff <(grep -o '"state_hash":.*' log) <(grep -o '"state_hash":.*' whole/log.jsonl)
    # Other weights are another run.
    paro-train whole.yaml "${data[@]}" --data-weights 1,1,1 -o equal > out
    run -1 diff <(losses whole) <(losses equal)
}

@test "a run goes on with the data that it had; with others only by --new-data" {
    local other
    cp -a "$G/ended" run
    on() { run --separate-stderr paro-train "$G/one.yaml" -o run --resume=auto --steps 5 "$@"; }
    cp "$TEXT" elsewhere # the same by another name
    on -d elsewhere
    [ "$status" = 0 ] && [ -z "$stderr" ]
    sed '10000s/1/2/' "$TEXT" > edited
    head -c -1 "$TEXT" > shorter
    for other in "-d edited" "-d shorter" "-d $TEXT -d $TEXT" "-d edited --eval-every 5"; do
        # shellcheck disable=SC2086 # words
        on $other
        [ "$status" = 2 ]
        [[ $stderr = "paro-train: checkpoint 'run/latest' is of other data: "*"; --new-data goes on with them" ]]
    done
    plan one16 synth:1x1 --seq 16
    run --separate-stderr paro-train one16.yaml -d "$TEXT" -o run --resume=auto --steps 6
    [ "$status" = 2 ] && [[ $stderr = *" in sequences of 32 (xxh3 "*" in 16 ("* ]]
    # One line of all ranks.
    run --separate-stderr mpirun -np 2 paro-train "$G/two.yaml" -d edited -o run --resume=auto
    [ "$status" = 2 ] && [ "$(grep -c 'is of other data' <<< "$stderr")" = 1 ]
    on -d edited --steps 6 --new-data
    [ "$status" = 0 ] && [ -z "$stderr" ]
    on -d edited --steps 7
    [ "$status" = 0 ] && [ -z "$stderr" ]
    refuses "--new-data without --resume, expected both" "$G/one.yaml" -d "$TEXT" -o new --new-data
}

@test "another part kept from training at a resume: refused by that name" {
    cp -a "$G/ended" run
    all=$(wc -c < "$TEXT")
    most=$((all - all / 20))
    on() { run --separate-stderr paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto "$@"; }
    # was BEFORE HERE: what the checkpoint and the options come to.
    was() {
        [ "$status" = 2 ]
        [ "$stderr" = "paro-train: checkpoint 'run/latest' is of these data with another part kept from training: it was trained on $1 of $all tokens ($2), expected $3 ($4); --new-data goes on with this part" ] ||
            { echo "$stderr"; return 1; }
    }
    on --eval-every 5
    was "$all" --eval-every=0 $most '--eval-every, --eval-split=0.05'
    on --eval-every 5 --steps 5 --new-data
    [ "$status" = 0 ] && [ -z "$stderr" ]
    grep -q '"step":5,.*"eval_loss"' run/log.jsonl
    on --eval-every 2 --steps 6 # as often as one likes
    [ "$status" = 0 ] && [ -z "$stderr" ]
    on --eval-every 0
    was $most '--eval-every, --eval-split=0.05' "$all" --eval-every=0
    on --eval-split 0.5
    was $most '--eval-every, --eval-split=0.05' $((all - all / 2)) '--eval-every, --eval-split=0.5'
    # Of several files by their tokens: the shares move, too.
    head -c 3000 "$TEXT" > little
    paro-train "$G/one.yaml" -d "$TEXT" -d little -o two --steps 1 --eval-every 1 --eval-split 0.3 > out
    run --separate-stderr paro-train "$G/one.yaml" -d "$TEXT" -d little -o two --resume=auto --eval-every 0
    [ "$status" = 2 ]
    [[ $stderr = *"another part kept from training"*"(--eval-every, --eval-split=0.3), expected "*"(--eval-every=0)"* ]]
}

@test "data that is cut while a run reads it: one line, status 2" {
    local kind rc
    for kind in "" "--eval-every 1 --eval-batches 0"; do
        cp "$TEXT" data
        # shellcheck disable=SC2086 # words
        mpirun -np 2 paro-train "$G/two.yaml" -d data -o "run$kind" --steps 99999 $kind > out 2> said 3>&- &
        for _ in $(seq 2400); do [ ! -s "run$kind/log.jsonl" ] || break; sleep 0.05; done
        : > data
        rc=0
        wait $! || rc=$?
        [ "$rc" = 2 ]
        [ "$(grep -c '^paro-train: ' said)" = 1 ]
        grep -qE "^paro-train: (rank [01] \(.*\): )?data 'data': ends at byte [0-9]+, expected [0-9]+$" said
        [ ! -e "run$kind/latest" ]
    done
}

@test "a text is encoded now, or was before: the same run" {
    paro-train --tokenize text.bin -d "$TEXT" --tokenizer "$TOKENIZER" > out 2> said
    [ ! -s out ]
    grep -qE "^paro-train: 'text.bin': [0-9]+ tokens of $(wc -c < "$TEXT") bytes, " said
    paro-train "$G/large.yaml" -d "$TEXT" --tokenizer "$TOKENIZER" -o now --steps 2 > out
    paro-train "$G/large.yaml" -d text.bin -o before --steps 2 > out
    diff <(losses now) <(losses before)
    # Beside a file of tokens, too.
    paro-train "$G/large.yaml" -d "$TEXT" -d text.bin --tokenizer "$TOKENIZER" -o both --steps 1 > out
    # The header: magic, version, as many tokens as there are.
    [ "$(perl -0777 -ne '($m, $v, $n) = unpack "V3"; print "$m $v ", 1024 + 2 * $n - length' text.bin)" = \
        "20240520 1 0" ]
}

@test "--tokenize in JSON, and over a file" {
    printf 'you <|endoftext|>\n' > few
    paro-train --tokenize few.bin -d few --tokenizer "$TOKENIZER" --json > out 2> said
    [ "$(cat out)" = '{"schema":"paro.tokens/1","file":"few.bin","bytes":18,"tokens":4}' ]
    [ "$(wc -c < few.bin)" = 1032 ]
    refuses "'few.bin' exists, expected a new name (or --force)" \
        --tokenize few.bin -d "$TEXT" --tokenizer "$TOKENIZER"
    [ "$(wc -c < few.bin)" = 1032 ]
    paro-train --tokenize few.bin -d "$TEXT" --tokenizer "$TOKENIZER" --force > out 2> said
    [ "$(wc -c < few.bin)" -gt 10000 ]
    [ -z "$(find . -name '.*.paro-tmp')" ]
}

@test "--tokenize that cannot be" {
    local t=(--tokenize new --tokenizer "$TOKENIZER")
    refuses "--tokenize with 0 files of data and a tokenizer, expected -d TEXT and --tokenizer DIR" "${t[@]}"
    refuses "--tokenize with 2 files of data and a tokenizer, expected" "${t[@]}" -d "$TEXT" -d "$TEXT"
    refuses "--tokenize with 1 files of data and no tokenizer, expected" --tokenize new -d "$TEXT"
    refuses "--tokenize with 1 files of data and a tokenizer, expected -d TEXT and --tokenizer DIR alone" "${t[@]}" -d "$TEXT" "$G/one.yaml"
    refuses "'$G/nano.bin' is nanoGPT data, expected a text" "${t[@]}" -d "$G/nano.bin"
    refuses "'$G/mega.bin' is Megatron data, expected a text" "${t[@]}" -d "$G/mega"
    refuses "cannot open data 'nowhere': No such file or directory" "${t[@]}" -d nowhere
    refuses "data '.' is not a regular file" "${t[@]}" -d .
    [ -z "$(find . -name '.*.paro-tmp')" ]
}

@test "files of tokens that cannot be used" {
    local o=("$G/one.yaml" -o new)
    head -c 50000 "$G/llmc" > cut.off
    refuses "'cut.off' has 50000 bytes, expected $(wc -c < "$G/llmc") for the $(wc -c < "$TEXT") tokens of 2 bytes that llm.c's header counts" \
        "${o[@]}" -d cut.off
    head -c 1001 "$G/llmc" > cut.off
    refuses "'cut.off' has 1001 bytes, expected llm.c's header of 1024" "${o[@]}" -d cut.off
    perl -e 'print pack "V3 x1012 v*", 20240520, 9, 40, 1 .. 40' > version
    refuses "'version' is of version 9, expected 1 behind llm.c's magic 20240520" "${o[@]}" -d version
    perl -e 'print pack "V3 x1012 v*", 20240522, 1, 40, 1 .. 40' > magic
    refuses "'magic' has llm.c's magic 20240522, of questions, expected 20240520 or 20240801" "${o[@]}" -d magic
    head -c 9999 "$G/nano.bin" > odd.bin
    refuses "'odd.bin' has 9999 bytes, expected llm.c's magic before them, an .idx beside it, or an even number: nanoGPT's tokens have two" \
        "${o[@]}" -d odd.bin
    perl -e 'print pack "v*", (7) x 500, 256, (7) x 500' > large.bin
    refuses "'large.bin': token 500 is 256, expected less than the model's vocabulary of 256" \
        "${o[@]}" -d large.bin
    head -c 64 "$G/nano.bin" > short.bin
    refuses "data 'short.bin' has 32 tokens, expected at least 33 (one sequence and its next token)" \
        "${o[@]}" -d "$TEXT" -d short.bin
}

@test "Megatron's pairs that cannot be used" {
    local o=("$G/one.yaml" -o new)
    cp "$G/mega.bin" "$G/mega.idx" .
    head -c 40000 "$G/mega.bin" > mega.bin
    refuses "'mega.idx': sequence 2 ends at byte $(wc -c < "$G/mega.bin"), outside of 'mega.bin' of 40000 bytes" \
        "${o[@]}" -d mega
    cat "$G/mega.bin" "$G/mega.bin" > mega.bin
    refuses "'mega.bin' has $((2 * $(wc -c < "$G/mega.bin"))) bytes, expected $(wc -c < "$G/mega.bin"), where the last sequence of 'mega.idx' ends" \
        "${o[@]}" -d mega.bin
    head -c 50 "$G/mega.idx" > mega.idx
    refuses "'mega.idx' has 50 bytes, too few for the 3 sequences and 3 document bounds that it says it has" \
        "${o[@]}" -d mega.idx
    echo TNTIDX > mega.idx
    refuses "'mega.idx' does not begin with MMIDIDX, expected a Megatron index" "${o[@]}" -d mega
    rm mega.bin
    refuses "cannot open data 'mega.bin': No such file or directory" "${o[@]}" -d mega.idx
    cp "$G/mega.idx" index
    refuses "'index' is a Megatron index by another name, expected NAME.idx beside NAME.bin" "${o[@]}" -d index
}

@test "weights and tokenizers that cannot be used" {
    local o=("$G/one.yaml" -o new -d "$TEXT") t=("$G/large.yaml" -o new)
    refuses "--data-weights: '1,2' has 2 numbers, expected one for each of 1 files" "${o[@]}" --data-weights 1,2
    refuses "--data-weights: '1' has 1 numbers, expected one for each of 2 files" \
        "${o[@]}" -d "$TEXT" --data-weights 1
    refuses "--data-weights: '0', expected a number above 0" "${o[@]}" --data-weights 0
    refuses "--data-weights: '-1', expected a number from 0" "${o[@]}" --data-weights=-1
    refuses "--data-weights: '', expected a number from 0" "${o[@]}" -d "$TEXT" --data-weights 1,
    refuses "--data-weights: 'nan', expected a number from 0" "${o[@]}" --data-weights nan
    refuses "tokenizer '.' has no vocabulary, expected encoder.json or vocab.json in it" \
        "${t[@]}" -d "$TEXT" --tokenizer .
    cp "$TOKENIZER/encoder.json" .
    refuses "tokenizer '.' has no merges, expected vocab.bpe or merges.txt in it" \
        "${t[@]}" -d "$TEXT" --tokenizer .
    { cat "$TOKENIZER/vocab.bpe"; echo 'q qq'; } > vocab.bpe
    refuses "./vocab.bpe:$(wc -l < vocab.bpe): 'qq' is not in the vocabulary" \
        "${t[@]}" -d "$TEXT" --tokenizer .
    head -c 5000 "$TOKENIZER/encoder.json" > encoder.json
    refuses "./encoder.json:1: " "${t[@]}" -d "$TEXT" --tokenizer .
    refuses "tokenizer '$TOKENIZER' and no text among the data, expected one: what is in the files are tokens" \
        "${t[@]}" -d "$G/nano.bin" --tokenizer "$TOKENIZER"
    # Tokens of a text that the model has not.
    printf 'a you' > few
    refuses "'few': token 1 is $(you), expected less than the model's vocabulary of 256" \
        "$G/one.yaml" -o new -d few --tokenizer "$TOKENIZER"
}
