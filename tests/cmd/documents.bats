# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# Runs on JSON Lines: documents, conversations, masks.  Lines: tests/unit/jsonl_test.c; templates:
# tests/unit/chat_test.c; attention within documents: tests/unit/net_family_test.c.

load train
load documents

setup_file() {
    runs_begin
    sed 's/"vocab_size": *[0-9]*/"vocab_size": 260/' "$MODELS/llama-tiny.json" > model.json
    make_tokenizer tok
    for i in $(seq 200); do
        printf '{"text": "%s", "id": %d}\n' "$(seq -s ' ' "$i" $((i + i % 13)))" "$i"
    done > texts.jsonl
    for i in $(seq 200); do
        printf '{"messages": [{"role": "user", "content": "%d?"}, %s]}\n' "$i" \
            "{\"role\": \"assistant\", \"content\": \"$((i * i))\"}"
    done > chats.jsonl
    for shape in 1x1 2x1 '[2,1]'; do
        paro-plan -m model.json -i "synth:$shape" --seq 32 --micro-batch 1 \
            --accum "$((12 / $(plan_ranks "$shape")))" --layered "$(plan_ranks "$shape")" > "$shape.yaml"
    done
}

plan_ranks() { case $1 in 1x1) echo 1 ;; 2x1) echo 2 ;; *) echo 3 ;; esac; }

# losses LOG: of all steps, as they are printed
losses() { sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$1"; }

@test "a file of tokens trains as its JSON Lines do, plain and compressed" {
    cpu=$(taskset -pc $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    gzip -c "$G/texts.jsonl" > t.jsonl.gz
    cp "$G/texts.jsonl" t.jsonl
    for kind in texts chats; do
        paro-train --tokenize "$kind.bin" -d "$G/$kind.jsonl" --tokenizer "$G/tok"
        # One thread writes the same as several.
        taskset -c "$cpu" paro-train --tokenize "one-$kind.bin" -d "$G/$kind.jsonl" --tokenizer "$G/tok"
        cmp "one-$kind.bin" "$kind.bin"
        cmp "one-$kind.idx" "$kind.idx"
        for isolate in join isolate; do
            paro-train "$G/1x1.yaml" -d "$G/$kind.jsonl" --tokenizer "$G/tok" -o a --force \
                --steps 3 --exact --documents $isolate
            paro-train "$G/1x1.yaml" -d "$kind.bin" -o b --force --steps 3 --exact \
                --documents $isolate
            cmp <(losses a/log.jsonl) <(losses b/log.jsonl)
            mv a $kind.$isolate
        done
        run ! cmp <(losses $kind.join/log.jsonl) <(losses $kind.isolate/log.jsonl)
    done
    paro-train "$G/1x1.yaml" -d t.jsonl.gz --tokenizer "$G/tok" -o c --steps 3 --exact
    cmp <(losses c/log.jsonl) <(losses texts.join/log.jsonl)
}

@test "tokens, bounds and mask in the files" {
    printf '%s\n' '{"text": "ab"}' '' '{"messages": [{"role": "user", "content": "x"},
        {"role": "assistant", "content": "yz"}]}' | tr -d '\n' | sed 's/}{/}\n{/' > two.jsonl
    paro-train --tokenize two.bin -d two.jsonl --tokenizer "$G/tok"
    # a b <|endoftext|>, <|im_start|> user \n x <|im_end|> \n <|im_start|> assistant \n y z
    # <|im_end|> \n
    run -0 od -An -v -t u2 -w64 two.bin
    im() { printf '256 %s 10' "$(printf %s "$1" | od -An -t u1 | tr -s ' ' | sed 's/^ //')"; }
    want="97 98 258 $(im user) 120 257 10 $(im assistant) 121 122 257 10"
    [ "$(tr -s ' \n' ' ' <<< "$output" | sed 's/^ //; s/ $//')" = "$want" ]
    # Three sequences: of 3, 20 and 4 tokens; documents end before 1 and 3; modes 0 1 0.
    perl -e 'undef $/; open F, "two.idx"; my @a = unpack "x17 C Q< Q< l<3 Q<3 Q<3 C3", <F>;
             print "@a"' > got
    [ "$(cat got)" = "8 3 3 3 20 4 0 6 46 0 1 3 0 1 0" ]
}

@test "a folder of another model is named, not a token of its tokenizer" {
    paro-shard init -m "$G/model.json" -o wide
    cp "$G/tok/tokenizer.json" wide
    printf '{"text": "a"}\n%.0s' {1..200} > a.jsonl
    refuses 2 "wide: 'vocab_size' 260 config.json 256 plan" paro-train "$G/one.yaml" -d a.jsonl -o x --init wide
}

@test "a prompt is context of its completion, without a template, also as bytes" {
    printf '%s\n' '{"prompt": "ab", "completion": "c"}' '{"prompt": "d", "completion": "e", "id": 1}' > two.jsonl
    paro-train --tokenize two.bin -d two.jsonl --tokenizer "$G/tok" 2> said
    run ! grep template said
    run -0 od -An -v -t u2 -w64 two.bin
    [ "$(tr -s ' \n' ' ' <<< "$output" | sed 's/^ //; s/ $//')" = "97 98 99 258 100 101 258" ]
    perl -e 'undef $/; open F, "two.idx"; my @a = unpack "x17 C Q< Q< l<4 Q<4 Q<3 C4", <F>; print "@a"' > got
    [ "$(cat got)" = "8 4 3 2 2 1 2 0 4 8 10 0 2 4 1 0 1 0" ]
    for i in $(seq 40); do cat two.jsonl; done > many.jsonl
    paro-train "$G/one.yaml" -d many.jsonl -o run --steps 1 > out
    grep -q '"targets":1[0-9],' run/log.jsonl # 2 of 5 bytes, of 32
}

@test "the template of the model's folder, if it is known, else a line says which" {
    local by name
    cp -r "$G/tok" known
    printf "%s%s" "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + " \
        "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}" \
        > known/chat_template.jinja
    head -n 1 "$G/chats.jsonl" > chat.jsonl
    cp -r known lines # line ends of DOS, as themselves
    sed 's/\\n/\r\n/g' known/chat_template.jinja > lines/chat_template.jinja
    echo >> lines/chat_template.jinja
    for name in tokenizer_config chat_template; do
        cp -r "$G/tok" $name
        python3 -c 'import json; print(json.dumps({"chat_template": open("known/chat_template.jinja").read()}))' \
            > $name/$name.json
    done
    cp -r known other # another text
    sed -i 's/ + / ~ /' other/chat_template.jinja
    cp -r known like
    sed -i "s/{% for/{# named SmolLM, trained by Hugging Face #}&/" like/chat_template.jinja
    sed -i "s/named/You are a helpful AI assistant &/" like/chat_template.jinja
    for by in known lines tokenizer_config chat_template "other --chat-template chatml" "$G/tok" other like; do
        # shellcheck disable=SC2086 # words
        paro-train --tokenize out.bin --force -d chat.jsonl --tokenizer $by 2> said
        sed -n "s/.*template '\(.*\)', guessed by \(.*\); --chat-template names one/\1 by \2/p" said >> guesses
        md5sum < out.bin >> sums
    done
    diff guesses - << 'EOF'
chatml by a token of the tokenizer
chatml by a token of the tokenizer, since the model's own is not known
smollm2 by the system message of the model's own, which is not known
EOF
    [ "$(head -n 7 sums | uniq | wc -l)" -eq 1 ]
    [ "$(tail -n 2 sums | uniq | wc -l)" -eq 2 ]
    paro-train --tokenize out.bin --force -d chat.jsonl --tokenizer known --chat-template smollm2
    [ "$(md5sum < out.bin)" = "$(tail -n 1 sums)" ]
    paro-train "$G/1x1.yaml" -d "$G/chats.jsonl" --tokenizer "$G/tok" -o run --steps 1 > out 2> said
    one_warning "template 'chatml', guessed --chat-template"
    echo '{' > chat_template/chat_template.json
    refuses 2 "chat_template/chat_template.json JSON" \
        paro-train --tokenize out.bin --force -d chat.jsonl --tokenizer chat_template
}

@test "targets that count: of conversations the answers alone" {
    # One conversation, over and over: of each period of the tokens the answer's are targets.
    for i in $(seq 40); do head -n 1 "$G/chats.jsonl"; done > same.jsonl
    paro-train "$G/1x1.yaml" -d same.jsonl --tokenizer "$G/tok" -o run --steps 4 \
        --eval-every 2 --json > log
    # 27 tokens a conversation, 3 of them an answer's ("1", its end, a line end).
    run -0 sed -n 's/.*"tokens":384,"targets":\([0-9]*\),.*/\1/p' log
    [ "${#lines[@]}" = 4 ]
    for targets in "${lines[@]}"; do
        # 12 windows of 32 in a period of 27: 3 or 6 targets each.
        ((targets >= 36 && targets <= 72))
    done
    paro-train "$G/1x1.yaml" -d "$G/texts.jsonl" --tokenizer "$G/tok" -o all --steps 1 --json |
        grep '"tokens":384,"step_s"'
}

@test "one hash on any number of ranks, with masks and bounds, and after a resume" {
    run_on() { # NAME RANKS SHAPE ARGS...
        ranks "$2" paro-train "$G/$3.yaml" -d "$G/chats.jsonl" --tokenizer "$G/tok" -o "$1" \
            --exact --steps 6 --documents isolate --json "${@:4}" |
            sed -n 's/.*"state_hash":"\([0-9a-f]*\)".*/\1/p'
    }
    run_on one 1 1x1 --save-every 3 --keep 9 > want
    [ "$(sort -u want | wc -l)" = 6 ]
    run_on two 2 2x1 | cmp - want
    run_on three 3 '[2,1]' | cmp - want
    run_on next 2 2x1 --resume one/step-00000003 | cmp - <(tail -n 3 want)
    # Without clipping nothing waits for the norm, but for the count of targets.
    run_on early 1 1x1 --clip 0 --skip-nonfinite 0 > alone
    run_on early2 2 2x1 --clip 0 --skip-nonfinite 0 | cmp - alone
}

# A checkpoint says which data it is of: the same tokens in another file are the same data.
@test "a run of JSON Lines is resumed on its file of tokens" {
    paro-train --tokenize texts.bin -d "$G/texts.jsonl" --tokenizer "$G/tok"
    paro-train "$G/1x1.yaml" -d "$G/texts.jsonl" --tokenizer "$G/tok" -o run --steps 2
    paro-train "$G/1x1.yaml" -d texts.bin -o run --resume --steps 4
    [ "$(wc -l < run/log.jsonl)" = 4 ]
}

# The post-processor ends each text: no second end, and none behind a prompt.
@test "a tokenizer that ends texts itself" {
    cp -r "$G/tok" ends
    sed -i 's/"post_processor":null/"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<|endoftext|>","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"<|endoftext|>":{"id":"<|endoftext|>","ids":[258],"tokens":["<|endoftext|>"]}}}/' \
        ends/tokenizer.json
    echo '{"text": "ab"}' > ab.jsonl
    paro-train --tokenize ab.bin -d ab.jsonl --tokenizer ends
    [ "$(od -An -v -t u2 -w64 ab.bin | tr -s ' ')" = " 97 98 258" ]
    paro-shard init -m "$G/model.json" -o model
    paro-train --generate ab --init model --tokenizer ends --length 1 --json |
        grep '"prompt_tokens": 2,'
}

@test "bits per byte: of bytes the loss in bits, of tokens more where some are no text" {
    paro-train "$G/1x1.yaml" -d "$G/texts.jsonl" --tokenizer bytes -o bytes --steps 2 \
        --eval-every 2
    paro-train "$G/1x1.yaml" -d "$G/texts.jsonl" --tokenizer "$G/tok" -o tokens --steps 2 \
        --eval-every 2
    ratio() {
        sed -n 's/.*"eval_loss":\([^,]*\),"eval_bits_per_byte":\([^,]*\),.*/\1 \2/p' "$1" |
            awk '{ printf "%.4f\n", $2 * log(2) / $1 }'
    }
    [ "$(ratio bytes/log.jsonl)" = 1.0000 ]
    # A document has 15 to 60 bytes and one token of its end.
    awk -v r="$(ratio tokens/log.jsonl)" 'BEGIN { exit !(r > 1 + 1 / 60 && r < 1 + 1 / 15) }'
}

@test "a long document of bytes takes little more memory than its text" {
    [ -z "$SAN" ] || skip "sanitizers keep memory that is freed"
    peak() {
        python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' \
            paro-train "$G/1x1.yaml" -d "$1" --tokenizer bytes -o run --force --steps 1
    }
    printf '{"text": "%s"}\n' "$(seq -s ' ' 900)" > short.jsonl
    printf '{"text": "%s"}\n' "$(seq -s ' ' 4000000)" > long.jsonl
    # The line in a buffer that doubles, and its text: 3 times the line at most; as numbers 4 more.
    [ $((($(peak long.jsonl) - $(peak short.jsonl)) * 1024)) -lt $((7 * $(stat -c %s long.jsonl) / 2)) ]
}

@test "an answer is generated as answers were learned, and ends" {
    for i in 1 2 3 4; do
        printf '{"messages": [{"role": "user", "content": "%d?"}, ' "$i"
        printf '{"role": "assistant", "content": "%d"}]}\n' $((i * 11))
    done > few.jsonl
    for _ in $(seq 30); do cat few.jsonl; done > many.jsonl
    paro-plan -m "$G/model.json" -i synth:1x1 --seq 64 --micro-batch 8 > p.yaml
    paro-train p.yaml -d many.jsonl --tokenizer "$G/tok" -o run --steps 150 --lr 3e-3 --warmup 10 \
        --documents isolate > out
    for i in 1 2 3 4; do
        [ "$(paro-train --generate "$i?" --chat --init run --length 20)" = $((i * 11)) ]
    done
    # A system message is part of what is asked: 8 + 1 tokens and 3 around it, of 13.
    paro-train --generate '2?' --chat --init run --length 4 --json > plain
    paro-train --generate '2?' --chat --system x --init run --length 4 --json > system
    grep '"prompt_tokens": 21' plain
    grep '"prompt_tokens": 32' system
    refuses 2 "--chat without a tokenizer" \
        paro-train --generate x --chat --init run --tokenizer bytes
    refuses 2 "no special tokens of a chat template" paro-train --generate x --chat --init run \
        --tokenizer "$ROOT/tests/data/bpe"
}

@test "what cannot be trained on" {
    local run_it=(paro-train "$G/1x1.yaml" -o out --steps 1)
    echo '{"text": 1}' > bad.jsonl
    refuses 2 "bad.jsonl:1: 'text' 1, expected a text" \
        "${run_it[@]}" -d bad.jsonl --tokenizer "$G/tok"
    refuses 2 "text', encoded text data, expected documents: JSON Lines" \
        "${run_it[@]}" -d "$TEXT" --tokenizer "$G/tok" --documents isolate
    refuses 2 "--chat-template 'x', expected chatml" \
        "${run_it[@]}" -d "$G/chats.jsonl" --tokenizer "$G/tok" --chat-template x
    refuses 2 "--chat-template 'x', expected chatml" \
        paro-train --generate x --init run --chat-template x
    for _ in $(seq 9); do
        echo '{"messages": [{"role": "user", "content": "x"}]}'
    done > questions.jsonl
    refuses 2 "all context, expected answers" \
        "${run_it[@]}" -d questions.jsonl --tokenizer "$G/tok"
    refuses 2 "chats.jsonl:1: a conversation and no tokenizer" \
        paro-train "$G/1x1.yaml" -o out --steps 1 -d "$G/chats.jsonl" --tokenizer bytes
    refuses 2 "expected NAME.bin" \
        paro-train --tokenize out -d "$G/chats.jsonl" --tokenizer "$G/tok"
    touch there.idx
    refuses 2 "there.idx' exists" \
        paro-train --tokenize there.bin -d "$G/chats.jsonl" --tokenizer "$G/tok"
    [ ! -e there.bin ]
    refuses 2 "there.idx' has the bounds of other tokens" \
        paro-train --tokenize there.bin -d "$TEXT" --tokenizer "$G/tok" --force
    refuses 2 "--documents: 'apart', expected join or isolate" \
        "${run_it[@]}" -d "$G/texts.jsonl" --tokenizer "$G/tok" --documents apart
}
