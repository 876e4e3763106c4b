# SPDX-License-Identifier: BSD-3-Clause
# bats file_tags=full
# paro-train --generate.  That its greedy text is transformers' is shown by
# tests/reference/generate.py; here: a model that has learnt a text by heart says it.

load train

setup_file() {
    runs_begin
    export D=$BATS_FILE_TMPDIR
    cd "$D" || return
    # Windows of 50 begin anywhere in the 24 bytes; of 48, all of an epoch at the same.
    seq 400 | sed 's/.*/the cat sat on the mat./' | tr '\n' ' ' > text
    for m in llama gpt2; do
        paro-plan -m "$MODELS/$m-tiny.json" -i synth:1x1 --seq 50 --micro-batch 8 > $m.yaml
        paro-train $m.yaml -d text -o $m --steps 250 --warmup 20 --lr 1e-3 > /dev/null
        paro-shard merge $m/latest -o $m.hf
    done
}

setup() { cd "$D" || return; }

@test "what was learnt by heart is said, by both families, from checkpoint and folder" {
    for m in llama gpt2; do
        paro-train --generate 'the cat' --init $m/latest --length 30 > a
        [ "$(cat a)" = 'the cat sat on the mat. the cat sat o' ]
        paro-train --generate 'the cat' --init $m.hf --length 30 > b
        cmp a b
    done
}

@test "a folder that is not there is named, not the tokenizer that it lacks" {
    refuses 2 "open 'missing' No such" paro-train --generate hi --chat --init missing
    refuses 2 "open 'missing' No such" paro-train llama.yaml -d text -o new --init missing --tokenizer no
    [ ! -e new ]
}

@test "beyond the model's positions the end of the text is seen" {
    paro-plan -m "$MODELS/llama-tiny.json" -i synth:1x1 --seq 16 > /dev/null
    sed 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 48/' llama.hf/config.json > c
    cp -r llama.hf short
    mv c short/config.json
    paro-train --generate 'the cat' --init short --length 100 > a
    [ "$(cat a)" = "$(head -c 107 text)" ]
    # So it is of a text that is longer itself.
    paro-train --generate "$(head -c 90 text)" --init short --length 40 > b
    [ "$(cat b)" = "$(head -c 130 text)" ]
}

@test "a text that grows is what each of its tokens is of the text before" {
    for m in llama gpt2; do
        # A word that was never seen: nothing is sure.
        said=$(paro-train --generate 'zebra ' --init $m/latest --length 44 | base64)
        text='zebra '
        for _ in 1 2 3 4; do
            text=$(paro-train --generate "$text" --init $m/latest --length 11 && echo .)
            text=${text%??}
        done
        [ "$(printf '%s\n' "$text" | base64)" = "$said" ]
    done
}

@test "drawn tokens follow the seed, and are the likeliest ones where the temperature is low" {
    draw() { paro-train --generate 'the ' --init llama/latest --length 40 --temperature "$@"; }
    draw 5 --seed 1 > a
    draw 5 --seed 1 > b
    draw 5 --seed 2 > c
    cmp a b
    run ! cmp -s a c
    draw 0.001 > d
    draw 5 --top-p 1e-6 --seed 9 > e # one token is enough for that
    paro-train --generate 'the ' --init llama/latest --length 40 > f
    cmp d f
    cmp e f
}

@test "--json" {
    paro-train --generate 'the' --init llama/latest --length 5 --json > j
    perl -MJSON::PP -0777 -ne 'my $j = decode_json($_);
        exit 1 if $j->{schema} ne "paro.generate/1" or $j->{prompt} ne "the";
        exit 1 if $j->{prompt_tokens} != 3 or $j->{text} ne " cat ";
        exit 1 if $j->{text} ne pack("C*", @{$j->{tokens}})' j
}

@test "wrong input, a full disk, a closed pipe" {
    refuses 2 '--generate empty' paro-train --generate '' --init llama/latest
    cp -r llama.hf cut
    truncate -s -4 cut/model.safetensors
    refuses 2 cut/model.safetensors paro-train --generate a --init cut
    refuses 2 'standard output No space' \
        bash -c 'paro-train --generate the --init llama/latest > /dev/full'
    paro-train --generate the --init llama/latest --length 200 | head -c 3 > h
    [ "$(cat h)" = the ]
}

@test "a model that is no number says so" {
    mkdir -p nan
    cp llama.hf/config.json nan/
    perl -0777 -ne 'my $n = 8 + unpack("Q<", $_);
        print substr($_, 0, $n), "\xff" x (length($_) - $n)' llama.hf/model.safetensors \
        > nan/model.safetensors
    run -2 --separate-stderr paro-train --generate a --init nan
    [ -z "$output" ]
    has_words "$stderr" 'logit 0 not finite'
}

@test "a tied head that differs" {
    cp -r gpt2.hf tied
    perl -MJSON::PP -0777 -e 'open F, "<", "gpt2.hf/model.safetensors"; binmode F; $_ = <F>;
        my $n = unpack("Q<", $_); my $h = decode_json(substr $_, 8, $n);
        my $body = substr $_, 8 + $n; my $w = $h->{"transformer.wte.weight"};
        my ($a, $b) = @{$w->{data_offsets}};
        $h->{"lm_head.weight"} = {dtype => $w->{dtype}, shape => $w->{shape},
            data_offsets => [length $body, length($body) + $b - $a]};
        $body .= "\0" x ($b - $a); my $t = encode_json($h);
        binmode STDOUT; print pack("Q<", length $t), $t, $body' > tied/model.safetensors
    refuses 2 "'lm_head.weight' 'transformer.wte.weight'" paro-train --generate a --init tied
    paro-shard split gpt2.hf -p gpt2.yaml -o tied.ckpt
    refuses 2 "'lm_head.weight' 'transformer.wte.weight'" paro-shard diff tied.ckpt tied
    # What trains does not change which tensor the head is tied to.
    paro-plan -m "$MODELS/gpt2-tiny.json" -i synth:1x1 --trainable train=transformer.wpe.weight > wpe.yaml
    refuses 2 "'lm_head.weight' 'transformer.wte.weight'" paro-shard split tied -p wpe.yaml -o x
}
