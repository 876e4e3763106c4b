# SPDX-License-Identifier: BSD-3-Clause
# The tokenizer of a model's folder: what encodes a text, and which files come through a run.
# shellcheck disable=SC2086

load train

# gpt2_json DIR: the tokenizer.json that GPT-2's two files are.
gpt2_json() {
    python3 -c 'import json, sys
vocab = json.load(open(sys.argv[1] + "/encoder.json"))
merges = open(sys.argv[1] + "/vocab.bpe").read().splitlines()[1:]
level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
end = {"id": vocab["<|endoftext|>"], "content": "<|endoftext|>", "single_word": False, "lstrip": False,
       "rstrip": False, "normalized": False, "special": True}
json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
           "pre_tokenizer": level, "post_processor": level, "decoder": level,
           "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                     "end_of_word_suffix": "", "fuse_unk": False, "vocab": vocab, "merges": merges}}, sys.stdout)' "$1"
}

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    seq 1 5000 > text
    sed 's/"vocab_size": 256/"vocab_size": 1000/' "$MODELS/llama-tiny.json" > large.json
    paro-shard init -m large.json -o plain
    cp -r plain model
    cp "$ROOT/tests/data/bpe/encoder.json" model/vocab.json
    cp "$ROOT/tests/data/bpe/vocab.bpe" model/merges.txt
    gpt2_json "$ROOT/tests/data/bpe" > model/tokenizer.json
    for f in tokenizer_config.json special_tokens_map.json generation_config.json chat_template.jinja; do
        echo "{\"what\": \"$f\"}" > "model/$f"
    done
    echo of the hub > model/README.md
    paro-plan -m model -i synth:1x1 --seq 32 > one.yaml
    paro-plan -m model -i synth:1x1 --seq 32 --trainable lora=2 > lora.yaml
}

TOKENIZER=$ROOT/tests/data/bpe

trained() { paro-train "$G/one.yaml" -d "$TEXT" -o "$1" --steps 1 "${@:2}" > out; }
losses() { grep -oE '"step":[0-9]+,"loss":[^,]*,' "$1/log.jsonl"; }

# same_files DIR: those that the model has beside its weights and its config.
same_files() {
    for f in vocab.json merges.txt tokenizer.json tokenizer_config.json special_tokens_map.json \
        generation_config.json chat_template.jinja; do
        cmp "$G/model/$f" "$1/$f" || return
    done
}

@test "a folder and its checkpoints encode the text that they are trained on and continue" {
    paro-shard split "$G/model" -p "$G/one.yaml" -o ckpt
    trained named --init "$G/plain" --tokenizer "$TOKENIZER"
    trained folder --init "$G/model"
    trained split --init ckpt
    trained bytes --init "$G/model" --tokenizer bytes
    cmp <(losses named) <(losses folder)
    cmp <(losses named) <(losses split)
    run ! cmp -s <(losses named) <(losses bytes)
    trained folder --resume=auto --steps 2
    trained named --resume=auto --steps 2 --tokenizer "$TOKENIZER"
    cmp <(losses named) <(losses folder)
    say() { paro-train --generate 'you' --length 4 --init "$@"; }
    cmp <(say folder/latest) <(say folder/latest --tokenizer "$TOKENIZER")
    cmp <(say folder/latest) <(say folder)
    run ! cmp -s <(say folder/latest) <(say folder/latest --tokenizer bytes)
}

@test "a vocabulary above 256 and a text without a tokenizer: refused, unless it is bytes" {
    for args in "" "--init $G/plain"; do
        refuses 2 "'$TEXT' text 1000 --tokenizer DIR bytes" paro-train "$G/one.yaml" -d "$TEXT" -o new $args
        [ ! -e new ]
    done
    trained new --tokenizer bytes
    refuses 2 "1000 tokens no tokenizer --tokenizer bytes" paro-train --generate a --init "$G/plain"
    # Files of GPT-2's names alone, of a model that splits words otherwise.
    cp -r "$G/model" qwen
    rm qwen/tokenizer.json
    echo '{"tokenizer_class": "Qwen2Tokenizer"}' > qwen/tokenizer_config.json
    refuses 2 "tokenizer_class 'Qwen2Tokenizer' GPT2Tokenizer" \
        paro-train "$G/one.yaml" -d "$TEXT" -o no --init qwen
    # Tokens need none.
    paro-train --tokenize text.bin -d "$TEXT" --tokenizer "$TOKENIZER" 2> said
    paro-train "$G/one.yaml" -d text.bin -o tokens --steps 1 > out
    # One that cannot be read here is not passed over.
    cp -r "$G/plain" other
    echo x > other/tokenizer.model
    refuses 2 "'other/tokenizer.model' unsupported SentencePiece tokenizer.json merges.txt --tokenizer bytes" \
        paro-train "$G/one.yaml" -d "$TEXT" -o no --init other
    echo '{}' > other/tokenizer.json
    for args in "$G/one.yaml -d $TEXT -o no" "--generate a"; do
        refuses 2 "other/tokenizer.json:1: 'model' missing" paro-train $args --init other
    done
    paro-train "$G/one.yaml" -d text.bin -o of-tokens --init other --steps 1 > out
}

@test "tokenizer and generation files come through split, train, resume, reshard and merge" {
    paro-shard split "$G/model" -p "$G/one.yaml" -o ckpt
    for from in ckpt "$G/model"; do
        rm -rf run back other
        trained run --init "$from" --save-every 1
        rm -rf ckpt
        trained run --resume=auto --steps 2
        paro-shard verify run/latest
        paro-shard merge run/latest -o back
        same_files back
        [ ! -e back/README.md ]
        paro-plan -m "$G/model" -i synth:2x1 --seq 32 > two.yaml
        paro-shard reshard run/latest -p two.yaml -o other
        rm -rf back
        paro-shard merge other -o back
        same_files back
    done
    # Another tokenizer takes the place of the folder's; its bytes have none.
    trained named --init "$G/model" --tokenizer "$TOKENIZER"
    paro-shard merge named/latest -o mine
    [ "$(cd mine && echo *)" = "config.json encoder.json generation_config.json model.safetensors vocab.bpe" ]
    trained bytes --init "$G/model" --tokenizer bytes
    paro-shard merge bytes/latest -o none
    [ "$(cd none && echo *)" = "config.json generation_config.json model.safetensors" ]
}

@test "the same of adapters, alone and added to the weights" {
    paro-shard split "$G/model" -p "$G/lora.yaml" -o ckpt
    for from in ckpt "$G/model"; do
        rm -rf run adapter fused
        paro-train "$G/lora.yaml" -d "$TEXT" -o run --init "$from" --steps 1 > out
        paro-shard merge run/latest -o adapter
        same_files adapter
        paro-shard merge run/latest --fuse -o fused
        same_files fused
        [ ! -e fused/README.md ]
    done
}

@test "a checkpoint whose tokenizer is damaged: the one before it is taken, or it is refused" {
    trained run --init "$G/model" --steps 3 --save-every 1 --keep 3
    cp -r run whole
    for damage in 'rm -r step-00000003' 'rm step-00000003/source/files/merges.txt' \
        'echo x >> step-00000003/source/files/merges.txt'; do
        rm -rf run
        cp -r whole run
        (cd run && eval "$damage")
        paro-train "$G/one.yaml" -d "$TEXT" -o run --resume --steps 4 > out 2> said
        has_words "$(cat said)" "'run/step-00000003' damaged step-00000002"
    done
    cp -r whole bad
    echo x >> bad/latest/source/files/merges.txt
    refuses 2 "merges.txt bytes expected" paro-train --generate you --init bad
}

@test "a folder's tokenizer that is a link out of it is refused; other files do not matter" {
    cp -r "$G/model" linked
    mkfifo linked/pipe
    ln -s nowhere linked/dangling
    trained run --init linked
    mkdir named
    cp "$TOKENIZER"/* named
    echo secret > secret
    ln -s "$PWD/secret" named/added_tokens.json
    refuses 2 "added_tokens.json symbolic link" \
        paro-train "$G/one.yaml" -d "$TEXT" -o new --steps 1 --tokenizer named
}

@test "a tokenizer.json or a tokenizer.model encodes a text, and decodes what is generated" {
    for file in llama2.json sentencepiece.model; do
        rm -rf new text text.bin tokens
        mkdir new
        name=tokenizer.${file#*.}
        cp "$ROOT/tests/data/tokenizer/$file" "new/$name"
        paro-train --tokenize text.bin -d "$TEXT" --tokenizer new 2> said
        paro-train "$G/one.yaml" -d "$TEXT" -o text --tokenizer new --steps 1 > out
        paro-train "$G/one.yaml" -d text.bin -o tokens --steps 1 > out
        cmp <(losses text) <(losses tokens)
        paro-train --generate 'you are' --length 4 --init text/latest > out
        grep -q '^you are' out
        # The token of the beginning comes first, as the post-processor says.
        paro-train --generate 'you' --length 1 --init text --json > out
        grep -qE '"prompt_tokens": [2-9]' out
        cmp "text/latest/source/files/$name" "new/$name"
    done
}

# with CONFIG: a tokenizer.model with that tokenizer_config.json, and nothing else.
with() {
    rm -rf spm
    mkdir spm
    cp "$ROOT/tests/data/tokenizer/sentencepiece.model" spm/tokenizer.model
    echo "$1" > spm/tokenizer_config.json
}

# tokens: of five texts, with the token of the end after each.
tokens() {
    printf '{"text": "%s"}\n' 'the text' ' the' 'a<s>b' 'a <s> b <unk>c' '<s>the' > texts.jsonl
    paro-train --tokenize texts.bin --force -d texts.jsonl --tokenizer spm 2> said
    od -An -v -w1000 -tu2 texts.bin | tr -s ' ' | sed 's/^ //'
}

# What AutoTokenizer of transformers 4.57.6 gives (LlamaTokenizerFast), and 2 where it does not.
@test "tokenizer.model: tokenizer_config.json says what surrounds a text, and how it is spaced" {
    local -A of=(
        [usual]='1 283 585 277 2 1 585 283 2 1 267 1 412 2 1 267 585 1 585 412 585 0 278 2 1 1 283 2'
        [bare]='283 585 277 2 585 283 2 267 1 412 2 267 585 1 585 412 585 0 278 2 1 283 2'
        [once]='1 283 585 277 2 1 283 2 1 267 1 598 2 1 267 585 1 412 585 0 601 2 1 1 272 2'
        [none]='1 272 585 277 2 1 283 2 1 592 1 598 2 1 592 585 1 412 585 0 601 2 1 1 272 2'
        [other]='2 283 585 277 2 2 585 283 2 2 267 1 412 2 2 267 585 1 585 412 585 0 278 2 2 1 283 2')
    local config want
    while IFS=@ read -r config want; do
        with "$config"
        [[ "$(tokens)" == "${of[$want]}" ]]
    done <<'END'
{}@usual
{"add_bos_token": true, "add_eos_token": true, "legacy": true, "pad_token": null}@usual
{"add_bos_token": false}@bare
{"legacy": false}@once
{"legacy": false, "add_prefix_space": false}@none
{"add_prefix_space": false}@none
{"bos_token": "</s>"}@other
{"bos_token": {"content": "<s>", "normalized": true}, "additional_special_tokens": ["<s>"]}@usual
{"added_tokens_decoder": {"0": {"content": "<unk>"}, "1": {"content": "<s>", "special": true}}}@usual
END
}

@test "tokenizer.model: special_tokens_map.json names the tokens, too" {
    with '{}'
    echo '{"bos_token": {"content": "</s>"}}' > spm/special_tokens_map.json
    [[ "$(tokens)" == '2 283 585 277 2 2 585 283 2 2 267 1 412 2 2 267 585 1 585 412 585 0 278 2 2 1 283 2' ]]
}

@test "tokenizer.model: tokens that other files add are refused" {
    local config words t=(paro-train --tokenize new --tokenizer spm -d "$TEXT")
    while IFS=@ read -r config words; do
        with "$config"
        refuses 2 "tokenizer_config.json $words" "${t[@]}"
        [ ! -e new ]
    done <<'END'
{"add_bos_token": null}@'add_bos_token' expected true or false
{"pad_token": "[PAD]"}@'pad_token' '[PAD]' tokenizer.model expected tokenizer.json
{"eos_token": {"content": "the"}}@'eos_token' 'the'
{"additional_special_tokens": ["<s>", "<|x|>"]}@'additional_special_tokens' '<|x|>'
{"extra_special_tokens": {"image_token": "<image>"}}@'extra_special_tokens' '<image>'
{"bos_token": {"content": "<s>", "rstrip": true}}@'bos_token' '<s>'
{"added_tokens_decoder": {"32000": {"content": "<|im_start|>"}}}@'added_tokens_decoder' '<|im_start|>'
{"added_tokens_decoder": {"2": {"content": "<s>"}}}@'added_tokens_decoder' '<s>'
{"added_tokens_decoder": {"1": {"content": "<s>", "normalized": true}}}@'added_tokens_decoder' '<s>'
END
    with '{}'
    echo '{"sep_token": "[SEP]"}' > spm/special_tokens_map.json
    refuses 2 "special_tokens_map.json 'sep_token' '[SEP]'" "${t[@]}"
    echo '{"bos_token": "<s>"}' > spm/special_tokens_map.json
    echo '{"<s>": 1, "[PAD]": 602}' > spm/added_tokens.json
    refuses 2 "added_tokens.json '[PAD]' tokenizer.json" "${t[@]}"
    echo '{"<s>": 2}' > spm/added_tokens.json
    refuses 2 "added_tokens.json '<s>'" "${t[@]}"
    echo '{"<s>": 1}' > spm/added_tokens.json
    "${t[@]}" 2> said
    # A tokenizer.json is read instead of it all.
    echo '{"<|x|>": 9}' > spm/added_tokens.json
    cp "$ROOT/tests/data/tokenizer/llama2.json" spm/tokenizer.json
    "${t[@]}" --force 2> said
}
