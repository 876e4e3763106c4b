# SPDX-License-Identifier: BSD-3-Clause
# paro-train's data: files of other tools, several of them, tokenizers, what is refused.
# shellcheck disable=SC2016,SC2086

load train

setup_file() {
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

TOKENIZER=$ROOT/tests/data/bpe

# trains_not WORDS ARGUMENT...: paro-train refuses them, and there is no "new".
trains_not() {
    refuses 2 "$1" paro-train "${@:2}" || return
    [ ! -e new ]
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

# bats test_tags=full
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

# bats test_tags=full
@test "a run goes on with the data that it had; with others only by --new-data" {
    local other
    cp -a "$G/ended" run
    on() { paro-train "$G/one.yaml" -o run --resume=auto --steps 5 "$@"; }
    # goes_on ARGUMENT...: it does, and nothing is said.
    goes_on() {
        on "$@" > out 2> said
        no_warning said
    }
    cp "$TEXT" elsewhere # the same by another name
    goes_on -d elsewhere
    sed '10000s/1/2/' "$TEXT" > edited
    head -c -1 "$TEXT" > shorter
    for other in "-d edited" "-d shorter" "-d $TEXT -d $TEXT" "-d edited --eval-every 5"; do
        refuses 2 "'run/latest' other data: --new-data" on $other
    done
    plan one16 synth:1x1 --seq 16
    refuses 2 "sequences of 32 (xxh3 16 (" paro-train one16.yaml -d "$TEXT" -o run --resume=auto --steps 6
    # One line of all ranks.
    run -2 --separate-stderr mpirun -np 2 paro-train "$G/two.yaml" -d edited -o run --resume=auto
    [ "$(grep -c 'other data' <<< "$stderr")" = 1 ]
    goes_on -d edited --steps 6 --new-data
    goes_on -d edited --steps 7
    trains_not "--new-data --resume" "$G/one.yaml" -d "$TEXT" -o new --new-data
}

@test "another part kept from training at a resume: refused by that name" {
    cp -a "$G/ended" run
    all=$(wc -c < "$TEXT")
    most=$((all - all / 20))
    on() { paro-train "$G/one.yaml" -d "$TEXT" -o run --resume=auto "$@"; }
    goes_on() {
        on "$@" > out 2> said
        no_warning said
    }
    # was WORDS ARGUMENT...: refused with the tokens and options of the checkpoint, and with those given.
    was() { refuses 2 "'run/latest' kept from training: ${1//ALL/$all tokens} --new-data" on "${@:2}"; }
    part='--eval-every, --eval-split=0.05'
    was "ALL (--eval-every=0), $most ($part)" --eval-every 5
    goes_on --eval-every 5 --steps 5 --new-data
    grep -q '"step":5,.*"eval_loss"' run/log.jsonl
    goes_on --eval-every 2 --steps 6 # as often as one likes
    was "$most of ALL ($part), $all (--eval-every=0)" --eval-every 0
    was "$most of ALL ($part), $((all - all / 2)) (--eval-every, --eval-split=0.5)" --eval-split 0.5
    # Of several files by their tokens: the shares move, too.
    head -c 3000 "$TEXT" > little
    paro-train "$G/one.yaml" -d "$TEXT" -d little -o two --steps 1 --eval-every 1 --eval-split 0.3 > out
    refuses 2 "kept from training (--eval-every, --eval-split=0.3), (--eval-every=0)" \
        paro-train "$G/one.yaml" -d "$TEXT" -d little -o two --resume=auto --eval-every 0
}

# bats test_tags=full
@test "data that is cut while a run reads it: one line, status 2" {
    local kind
    for kind in "" "--eval-every 1 --eval-batches 0"; do
        cp "$TEXT" data
        mpirun -np 2 paro-train "$G/two.yaml" -d data -o "run$kind" --steps 99999 $kind > out 2> said 3>&- &
        soon test -s "run$kind/log.jsonl"
        : > data
        ends 2 wait $!
        [ "$(grep -c '^paro-train: ' said)" = 1 ]
        has_words "$(grep '^paro-train: ' said)" "data 'data': byte expected"
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
    trains_not "'few.bin' exists, --force" --tokenize few.bin -d "$TEXT" --tokenizer "$TOKENIZER"
    [ "$(wc -c < few.bin)" = 1032 ]
    paro-train --tokenize few.bin -d "$TEXT" --tokenizer "$TOKENIZER" --force > out 2> said
    [ "$(wc -c < few.bin)" -gt 10000 ]
    [ -z "$(find . -name '.*.paro-tmp')" ]
}

@test "--tokenize that cannot be" {
    local t=(--tokenize new --tokenizer "$TOKENIZER")
    trains_not "'$G/nano.bin' nanoGPT text" "${t[@]}" -d "$G/nano.bin"
    trains_not "'$G/mega.bin' Megatron text" "${t[@]}" -d "$G/mega"
    [ -z "$(find . -name '.*.paro-tmp')" ]
}

@test "files of tokens that cannot be used" {
    local o=("$G/one.yaml" -o new)
    head -c 50000 "$G/llmc" > cut.off
    trains_not "'cut.off' 50000 bytes, $(wc -c < "$G/llmc") $(wc -c < "$TEXT") tokens of 2 bytes" "${o[@]}" -d cut.off
    head -c 1001 "$G/llmc" > cut.off
    trains_not "'cut.off' 1001 bytes, llm.c's header 1024" "${o[@]}" -d cut.off
    perl -e 'print pack "V3 x1012 v*", 20240520, 9, 40, 1 .. 40' > version
    trains_not "'version' version 9, 1 llm.c 20240520" "${o[@]}" -d version
    perl -e 'print pack "V3 x1012 v*", 20240522, 1, 40, 1 .. 40' > magic
    trains_not "'magic' 20240522 20240520 20240801" "${o[@]}" -d magic
    head -c 9999 "$G/nano.bin" > odd.bin
    trains_not "'odd.bin' 9999 bytes, llm.c .idx two" "${o[@]}" -d odd.bin
    perl -e 'print pack "v*", (7) x 500, 256, (7) x 500' > large.bin
    trains_not "'large.bin': token 500 256, vocabulary of 256" "${o[@]}" -d large.bin
    head -c 64 "$G/nano.bin" > short.bin
    trains_not "'short.bin' 32 tokens, 33" "${o[@]}" -d "$TEXT" -d short.bin
}

@test "Megatron's pairs that cannot be used" {
    local o=("$G/one.yaml" -o new)
    cp "$G/mega.bin" "$G/mega.idx" .
    head -c 40000 "$G/mega.bin" > mega.bin
    trains_not "'mega.idx': sequence 2 byte $(wc -c < "$G/mega.bin"), 'mega.bin' 40000 bytes" "${o[@]}" -d mega
    cat "$G/mega.bin" "$G/mega.bin" > mega.bin
    trains_not "'mega.bin' $((2 * $(wc -c < "$G/mega.bin"))) bytes, $(wc -c < "$G/mega.bin"), 'mega.idx'" \
        "${o[@]}" -d mega.bin
    head -c 50 "$G/mega.idx" > mega.idx
    trains_not "'mega.idx' 50 bytes, 3 sequences 3 document" "${o[@]}" -d mega.bin
    echo TNTIDX > mega.idx
    trains_not "'mega.idx' MMIDIDX, Megatron" "${o[@]}" -d mega
    rm mega.bin
    trains_not "cannot open 'mega.bin': No such file" "${o[@]}" -d mega.idx
    cp "$G/mega.idx" index
    trains_not "'index' Megatron index NAME.idx NAME.bin" "${o[@]}" -d index
}

@test "weights and tokenizers that cannot be used" {
    local o=("$G/one.yaml" -o new -d "$TEXT") t=("$G/large.yaml" -o new) dot=("$G/large.yaml" -o new -d "$TEXT" --tokenizer .)
    trains_not "--data-weights: '1,2' 2 numbers, 1 files" "${o[@]}" --data-weights 1,2
    trains_not "--data-weights: '1' 1 numbers, 2 files" "${o[@]}" -d "$TEXT" --data-weights 1
    trains_not "--data-weights: '0', above 0" "${o[@]}" --data-weights 0
    trains_not "--data-weights: '-1', from 0" "${o[@]}" --data-weights=-1
    trains_not "--data-weights: '', from 0" "${o[@]}" -d "$TEXT" --data-weights 1,
    trains_not "--data-weights: 'nan', from 0" "${o[@]}" --data-weights nan
    trains_not "tokenizer '.' vocabulary, encoder.json vocab.json" "${dot[@]}"
    cp "$TOKENIZER/encoder.json" .
    trains_not "tokenizer '.' merges, vocab.bpe merges.txt" "${dot[@]}"
    { cat "$TOKENIZER/vocab.bpe"; echo 'q qq'; } > vocab.bpe
    trains_not "./vocab.bpe:$(wc -l < vocab.bpe): 'qq' vocabulary" "${dot[@]}"
    head -c 5000 "$TOKENIZER/encoder.json" > encoder.json
    trains_not "./encoder.json:1: " "${dot[@]}"
    trains_not "tokenizer '$TOKENIZER' no text" "${t[@]}" -d "$G/nano.bin" --tokenizer "$TOKENIZER"
    # Tokens of a text that the model has not.
    printf 'a you' > few
    trains_not "'few': token 1 $(you), vocabulary of 256" \
        "$G/one.yaml" -o new -d few --tokenizer "$TOKENIZER"
}
